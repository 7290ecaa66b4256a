"""Trees of rows that name their parents, in an order with parents before children."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import DataError, hint
from bayeslab.families.hmm.sequences import Sequences
from bayeslab.latents.chains import hidden_tree

__all__ = ["forest_of"]


def forest_of(data: Data, column: str) -> tuple[Sequences, np.ndarray]:
    """Sort the rows of a table tree by tree; with the position of each row's parent.

    Parameters
    ----------
    column : str
        Column with the label of the parent's row, empty for roots.

    Returns
    -------
    Sequences
        One sequence for each tree, with the root's label as its name.
    parents : ndarray (n_times,)

    Raises
    ------
    DataError
        A parent does not exist, or descends from its child; the message has the row.
    """
    rows = data.dataset.rows
    labels = np.asarray(data.labels.get(rows, ()))
    if not len(labels):
        raise DataError("the data have no rows", code="no-rows")
    given = _numbers(data, column, labels, rows)
    try:
        order = hidden_tree.parents_first(given)
    except DataError as error:
        raise DataError(f"column '{column}', {error.message}", code=error.code) from None
    at = np.empty(len(order), np.int64)
    at[order] = np.arange(len(order))
    parents = np.where(given[order] >= 0, at[given[order]], -1)
    roots = np.flatnonzero(parents < 0)
    return Sequences(np.append(roots, len(order)), labels[order[roots]], labels[order], at), parents


def _numbers(data: Data, column: str, labels: np.ndarray, rows: str) -> np.ndarray:
    """Index of each row's parent, -1 for roots."""
    if column not in data.dataset.columns:
        raise DataError(f"the data have no column '{column}', which names the parents", code="unknown-column")
    cells = data.column(column)
    names = [_word(v) for v in labels.tolist()]
    # Reading the data has checked that row names are unique.
    place = {name: row for row, name in enumerate(names)}
    out = np.full(len(labels), -1, np.int64)
    for row, (value, gone) in enumerate(zip(cells.values.tolist(), cells.absent().tolist(), strict=True)):
        if gone:
            continue
        name = _word(value)
        if name not in place:
            near = hint(name, names[:1000])
            raise DataError(
                f"column '{column}', row {row + 1}: parent '{name}' is no row's '{rows}'{near}", code="unknown-level"
            )
        out[row] = place[name]
    return out


def _word(value: Any) -> str:
    """A label as text: 3 and 3.0 are equal."""
    return f"{value:.15g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
