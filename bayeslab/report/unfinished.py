"""The part of a report about a run without a result: unfinished, failed or damaged."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from bayeslab.errors import BayeslabError, RunError
from bayeslab.language.model_file import dump
from bayeslab.report.judgement import badge
from bayeslab.report.markup import Markup, details, element, joined, paragraph
from bayeslab.report.model import file_text
from bayeslab.report.reproduce import command_of, facts
from bayeslab.results.verdict import Status
from bayeslab.run_folder.folder import RunFolder

__all__ = ["article"]

_STATES: dict[str, tuple[str, Status]] = {
    "running": ("RUNNING", "warn"),
    "starting": ("RUNNING", "warn"),
    "killed": ("UNFINISHED", "warn"),
    "interrupted": ("INTERRUPTED", "warn"),
    "failed": ("FAILED", "fail"),
    "complete": ("DAMAGED", "fail"),
}


def article(path: Path, error: BayeslabError) -> Markup:
    """The page's article about a run without a result.

    Parameters
    ----------
    path
        The run folder.
    error
        The error that opening it raised.

    Raises
    ------
    RunError
        There is no run at the path.
    """
    folder = RunFolder.existing(path)
    info: dict[str, Any] | None = None
    with suppress(RunError):
        info = folder.info()
    word, status = _STATES[folder.status(info)] if info else ("DAMAGED", "fail")
    name = info["name"] if info else path.name
    parts = [
        element("h1", name, " ", badge(word, status)),
        paragraph("This run has no result to show.", class_="lead"),
        paragraph(element("b", "Why: "), str(error)),
    ]
    if info and info.get("error") and info["error"] not in str(error):
        parts.append(paragraph(element("b", "How it ended: "), info["error"]))
    parts.append(paragraph(element("b", "What to do: "), _advice(word)))
    if info:
        parts += _progress(folder, info)
        parts += [
            element("h2", "Reproduce"),
            element("pre", element("code", command_of(info)), tabindex=0),
            facts(info),
        ]
    with suppress(BayeslabError):
        parts.append(details("the model file", file_text(dump(folder.model()))))
    return joined(parts)


def _advice(word: str) -> str:
    if word == "FAILED":
        return "correct the cause and fit the model again; bayeslab check reports mistakes before anything is sampled."
    if word == "DAMAGED":
        return "complete it with bayeslab fit --resume where the model and the data are intact, or fit the model again."
    if word == "RUNNING":
        return "wait until it ends, and make this page again."
    return "complete it with bayeslab fit --resume."


def _progress(folder: RunFolder, info: dict[str, Any]) -> list[Markup]:
    done, chains = len(folder.finished()), info["options"].get("chains")
    if info["status"] == "complete" or not isinstance(chains, int):
        return []
    return [paragraph(f"{done} of {chains} chains are finished and stored.")]
