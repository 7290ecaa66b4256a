"""Random nodes without data whose name is nearly that of a column that the model does not use."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import Node
from bayeslab.language.spec import Model

__all__ = ["check_spelling"]


def check_spelling(nodes: Mapping[str, Node], model: Model, data: Data) -> None:
    """A random node without data, and a column of the same dimensions that is not used and is called nearly the same.

    Names that differ in capitals and underscores only are near; those of nodes that nothing depends on also where one
    letter is wrong. Names that differ in a digit are not: ``y1`` and ``y2`` are two things.
    """
    columns = data.names()
    texts = [parse(text).names for text in model.data.derive.values()]
    used = set(nodes).union(data.labels, *texts, *(node.expression.names for node in nodes.values()))
    unused = sorted(columns - used - data.alike.keys())
    free = {name: data.term(name, missing=True).dims for name in unused if data.placed(name)}
    unseen = [node for node in nodes.values() if node.kind == "random" and node.name not in columns]
    needed = {parent for node in nodes.values() for parent in node.parents}
    for node in unseen:
        for name, dims in free.items():
            if set(dims) != set(node.dims):
                continue
            if _folded(name) == _folded(node.name) or (node.name not in needed and _one_letter_off(name, node.name)):
                raise ModelError(
                    f"'{node.name}' has no data, and the column '{name}' is not used; did you mean '{name}'? If"
                    f" '{node.name}' is meant to have no data, rename it",
                    path=(*node.path, "[key]"),
                    code="unknown-column",
                )


def _folded(name: str) -> str:
    return name.casefold().replace("_", "")


def _one_letter_off(a: str, b: str) -> bool:
    """Whether one letter is wrong, missing, too many, or swapped with the next; digits must agree."""
    short, long = sorted((_folded(a), _folded(b)), key=len)
    if len(short) < 4 or len(long) - len(short) > 1 or re.sub(r"\D", "", a) != re.sub(r"\D", "", b):
        return False
    at = next((i for i, (x, y) in enumerate(zip(short, long, strict=False)) if x != y), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[at : at + 2] == long[at : at + 2][::-1] and short[at + 2 :] == long[at + 2 :]
    return swapped or short[at + 1 :] == long[at + 1 :]
