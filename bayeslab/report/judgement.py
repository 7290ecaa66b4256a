"""The section with the verdict: the meaning and the result of each check, and advice."""

from __future__ import annotations

from bayeslab.report.checks import MEANING
from bayeslab.report.markup import EMPTY, Markup, element, joined, table
from bayeslab.results.verdict import Status, Verdict

__all__ = ["badge", "section"]

_FINDINGS = 200


def badge(word: str, status: Status) -> Markup:
    """A coloured word."""
    return element("span", word, class_=f"badge {status}")


def section(verdict: Verdict) -> Markup:
    """The content of the section, sorted from fail to pass."""
    order = ("fail", "warn", "pass")
    findings = sorted(verdict.findings, key=lambda finding: order.index(finding.status))
    rows = []
    for finding in findings[:_FINDINGS]:
        meaning = MEANING.get(finding.check, "")
        about = joined([finding.check, element("div", meaning, class_="mute small") if meaning else EMPTY])
        rows.append((about, badge(finding.status.upper(), finding.status), finding.message, finding.advice or "none"))
    if not rows:
        return EMPTY
    heads = ["check", "result", "finding", "advice"]
    return table(heads, rows, caption="Checks, from fail to pass", class_="words")
