"""The verdict on a fit: one finding per check, with the place, the severity and the advice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, Literal

from bayeslab.errors import printable

__all__ = ["LEFT", "Finding", "Status", "Verdict", "badge", "findings_table", "page"]

Status = Literal["pass", "warn", "fail"]

# White text is readable on each of these colours.
_STATUS_COLOURS: dict[Status, str] = {"pass": "#2e7d32", "warn": "#9a5b00", "fail": "#c62828"}
# Style of text cells.
LEFT = "text-align:left;vertical-align:top;white-space:normal"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Parameters
    ----------
    status
        ``pass``, ``warn`` (usable with care) or ``fail`` (do not use).
    check
        The name of the check, such as ``R-hat``.
    where
        The quantity or chain concerned (the worst one), such as ``a[AITKIN]``; may be empty.
    value
        The severity, on the scale of the check; None if there is no finite number.
    message, advice
        One line each; a passed check has no advice.
    """

    status: Status
    check: str
    where: str
    value: float | None
    message: str
    advice: str = ""

    def __post_init__(self) -> None:
        value = None if self.value is None or not math.isfinite(self.value) else float(self.value)
        object.__setattr__(self, "value", value)
        for name in ("check", "where", "message", "advice"):
            # Messages contain names of columns and levels, which come from files.
            object.__setattr__(self, name, printable(getattr(self, name)))


@dataclass(frozen=True)
class Verdict:
    """All findings about a fit; ``status`` is the worst of them."""

    findings: tuple[Finding, ...]

    @property
    def status(self) -> Status:
        """``pass``, ``warn`` or ``fail``; ``warn`` if nothing was checked."""
        return max((f.status for f in self.findings), key=_severity, default="warn")

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON can hold; :meth:`from_dict` gives the verdict back."""
        return {"status": self.status, "findings": [asdict(finding) for finding in self.findings]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Verdict:
        return cls(tuple(Finding(**finding) for finding in content["findings"]))

    def __str__(self) -> str:
        width = max((len(f.check) for f in self.findings), default=0)
        lines = [f"{f.status.upper():4}  {f.check:{width}}  {f.message}" for f in self.findings]
        advice = dict.fromkeys(f"→ {f.check}: {f.advice}" for f in self.findings if f.advice)
        return "\n".join([*lines, *advice])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # IPython in a terminal
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return page(findings_table(self))


def _severity(status: Status) -> int:
    return ("pass", "warn", "fail").index(status)


def badge(status: Status) -> str:
    """The status as a coloured word, as static HTML."""
    style = "display:inline-block;padding:0 0.6em;border-radius:3px;color:#ffffff;font-size:0.85em;font-weight:bold"
    return f'<span style="{style};background-color:{_STATUS_COLOURS[status]}">{status.upper()}</span>'


def findings_table(verdict: Verdict) -> str:
    """A table of the findings, as static HTML."""
    rows = []
    for finding in verdict.findings:
        advice = f'<br><span style="opacity:0.7">→ {escape(finding.advice)}</span>' if finding.advice else ""
        cells = badge(finding.status), escape(finding.check), escape(finding.message) + advice
        rows.append("<tr>" + "".join(f'<td style="{LEFT}">{cell}</td>' for cell in cells) + "</tr>")
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def page(body: str) -> str:
    """The HTML of a result in a container with inline styles."""
    return f'<div style="line-height:1.5">\n{body}\n</div>'
