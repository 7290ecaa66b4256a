"""Tables in text formats that give a row for each combination of the parents' states."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from bayeslab.errors import hint
from bayeslab.formats.nodes import File, Node

__all__ = ["TableBlock", "rows_of"]


@dataclass
class TableBlock:
    """The content of a ``probability`` block: a flat table, or rows by the parents' states and a default."""

    parents: tuple[str, ...]
    line: int
    rows: list[tuple[list[str], list[float], int]] = field(default_factory=list)
    flat: list[float] | None = None
    default: list[float] | None = None

    def check_flat(self, file: File, node: Node) -> None:
        """Refuse rows or a default beside a flat table."""
        if self.rows or self.default is not None:
            other = "rows" if self.rows else "a default"
            raise file.error(f"'{node.name}' has both a flat table and {other}", node.line, code="conflict")


def rows_of(
    file: File,
    node: Node,
    block: TableBlock,
    shape: tuple[int, ...],
    states: Mapping[str, tuple[str, ...]],
    code_of: Callable[[str, str], int | None],
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a table (n_rows, n_states), and which of them are given.

    Parameters
    ----------
    code_of
        Maps a parent and the word for one of its states to the state's number; None if it has no such state.
    """
    given = np.zeros(math.prod(shape[:-1]), bool)
    values = np.empty((len(given), shape[-1]))
    for keys, row, line in block.rows:
        if len(keys) != len(node.parents):
            raise file.error(
                f"the row ({', '.join(keys)}) of '{node.name}' names {len(keys)} states; "
                f"it has {len(node.parents)} parents",
                line,
                code="wrong-length",
            )
        at = 0
        for parent, key in zip(node.parents, keys, strict=True):
            code = code_of(parent, key)
            if code is None:
                raise file.error(
                    f"'{key}', in the table of '{node.name}', is not a state of '{parent}'{hint(key, states[parent])}",
                    line,
                    code="unknown-state",
                )
            at = at * len(states[parent]) + code
        if given[at]:
            raise file.error(
                f"the table of '{node.name}' has the row ({', '.join(keys)}) twice", line, code="duplicate"
            )
        if len(row) != shape[-1]:
            raise file.error(
                f"the row ({', '.join(keys)}) of '{node.name}' has {len(row)} numbers; it has {shape[-1]} states",
                line,
                code="wrong-length",
            )
        values[at], given[at] = row, True
    return values, given
