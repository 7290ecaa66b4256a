"""The section on reproducibility: command, seed, versions, digests, timings, and a paragraph for a methods section."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from bayeslab.report.contract import Reported
from bayeslab.report.markup import EMPTY, Markup, details, element, joined, paragraph, table
from bayeslab.report.words import methods, seconds

__all__ = ["command_of", "facts", "section"]

_DIGESTS = 200


def section(fit: Reported, *, checked: bool, intervals: bool) -> Markup:
    """The content of the section; parameters as for :func:`bayeslab.report.words.methods`."""
    prose, used = methods(fit, checked=checked, intervals=intervals)
    cited = element("ul", *(element("li", reference) for reference in used)) if used else EMPTY
    command = command_of(fit.info)
    note = "where model.yaml is the model file above and its data are beside it. The same versions give the same draws."
    return joined(
        [
            element("pre", element("code", command), tabindex=0),
            paragraph(note, class_="mute"),
            facts(fit.info),
            element("h3", "Methods paragraph"),
            paragraph(prose),
            cited,
        ]
    )


def command_of(info: Mapping[str, Any]) -> str:
    """The command that reproduces the run."""
    words = ["bayeslab", "fit", "model.yaml", "--method", str(info["method"]), "--seed", str(info["seed"])]
    for name, value in info["options"].items():
        if value is None or isinstance(value, dict | list):
            continue
        if name in ("draws", "tune", "chains"):
            words += [f"--{name}", str(value)]
        else:
            words += ["--set", f"{name}={json.dumps(value) if isinstance(value, bool) else value}"]
    return shlex.join(words)


def facts(info: Mapping[str, Any]) -> Markup:
    """Date, versions, timings and digests of a run."""
    rows = [("method", str(info["reason"])), ("seed", str(info["seed"]))]
    rows += [("date", str(info["created_at"]))] if "created_at" in info else []
    if info["timings"]:
        total = sum(info["timings"].values())
        each = ", ".join(f"{stage} {seconds(value)}" for stage, value in info["timings"].items())
        rows.append(("time", f"{seconds(total)}: {each}"))
    rows.append(("versions", ", ".join(f"{name} {version}" for name, version in info["versions"].items())))
    made = table(["what", "value"], rows, caption="The run", class_="words")
    digests = [("model", info["model_digest"]), *list(info["data_digests"].items())[:_DIGESTS]]
    shown = [(name, element("code", digest)) for name, digest in digests]
    left = len(info["data_digests"]) - _DIGESTS
    note = paragraph(f"{left:,} more columns are not shown.", class_="mute") if left > 0 else EMPTY
    caption = "SHA-256 of the model and of each column"
    return joined([made, details("digests", table(["part", "SHA-256"], shown, caption=caption, class_="words"), note)])
