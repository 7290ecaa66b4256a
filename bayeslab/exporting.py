"""``export``: a model as a script for another library, which runs without bayeslab."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayeslab.errors import ModelError, OptionError, hint
from bayeslab.expanding import expanded, with_table
from bayeslab.families.graph.posterior import GraphPosterior
from bayeslab.families.graph.pymc_script import script
from bayeslab.families.graph.spec import Graph
from bayeslab.language.model_file import read_text
from bayeslab.preparation import ModelLike, Source

__all__ = ["FORMATS", "export"]

FORMATS = ("pymc",)


def export(
    model: ModelLike,
    data: str | os.PathLike[str] | None = None,
    *,
    to: str = "pymc",
    folder: str | os.PathLike[str] = ".",
) -> str:
    """Write a model as a Python script that builds and samples the same model without bayeslab.

    A model of a short family is expanded first (:func:`bayeslab.expand`).

    Parameters
    ----------
    model
        A model or the path of a model file.
    data
        The path of a table to read instead of the one the model names.
    to
        ``pymc``: plain PyMC, with pymc-extras where labels of rows are summed out, and functions for other sums.
    folder
        The folder of the script; its data paths are relative to this folder.

    Returns
    -------
    str
        The script. Imported, it defines ``model``; run as a program, it also samples and prints a summary.

    Raises
    ------
    ModelError, DataError
        Plain PyMC cannot express a part of the model or of its data; the message names the part.
    """
    if to not in FORMATS:
        raise OptionError(f"models are exported to pymc, not to '{to}'{hint(to, FORMATS)}", code="unknown-word")
    source = Source(model)
    place = source.file.folder if source.file else Path()
    with source.located():
        if source.model.data.streamed:
            raise ModelError(
                "a script reads its table whole, and this one may be larger than memory: leave out streamed",
                path=("data", "streamed"),
                code="unsupported",
            )
        declared, bound = with_table(source, data), source.bound(data)
        if isinstance(declared.model, Graph):
            comments = {} if source.file is None else _comments(read_text(source.file.file), declared.model.nodes)
        else:
            whole = expanded(model, data)
            declared, comments = whole.model, dict(whole.expansion.comments)
            bound = Source(declared).bound(bound.dataset)
        posterior = GraphPosterior(declared, bound)
        posterior.bound_data()
        return script(posterior, place.resolve(), Path(folder).resolve(), comments)


def _comments(text: str, nodes: Mapping[str, Any]) -> dict[str, str]:
    """The comments in a model file beside or above its nodes, by node."""
    out: dict[str, str] = {}
    above: list[str] = []
    for line in text.splitlines():
        if comment := re.fullmatch(r"\s*#\s?(.*)", line):
            above.append(comment[1])
            continue
        key = line.partition(": ")[0].strip().strip("'\"")
        if key in nodes:
            beside = re.search(r"\s#\s(.*)$", line)
            words = [*above, *([beside[1]] if beside else [])]
            out |= {key: "\n".join(words)} if words else {}
        above = []
    return out
