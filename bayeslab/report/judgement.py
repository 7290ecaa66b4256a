"""The verdict: what each check looks at, what it found, and what to do."""

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
    """The content of the section: findings that need attention first."""
    order = ("fail", "warn", "pass")
    findings = sorted(verdict.findings, key=lambda finding: order.index(finding.status))
    rows = []
    for finding in findings[:_FINDINGS]:
        meaning = MEANING.get(finding.check, "")
        about = joined([finding.check, element("div", meaning, class_="mute small") if meaning else EMPTY])
        rows.append(
            (about, badge(finding.status.upper(), finding.status), finding.message, finding.advice or "nothing")
        )
    if not rows:
        return EMPTY
    heads = ["check", "result", "what was found", "what to do"]
    return table(heads, rows, caption="Checks, those that need attention first", class_="words")
