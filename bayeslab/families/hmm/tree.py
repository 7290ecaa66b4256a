"""Trees of rows that name their parents, in an order with parents before children."""

from __future__ import annotations

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.sequences import Sequences, parent_rows
from bayeslab.errors import DataError
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
    if column not in data.dataset.columns:
        raise DataError(f"the data have no column '{column}', which names the parents", code="unknown-column")
    # Reading the data has checked that row names are unique.
    given = parent_rows(column, data.column(column), labels, rows)
    try:
        order = hidden_tree.parents_first(given)
    except DataError as error:
        raise DataError(f"column '{column}', {error.message}", code=error.code) from None
    at = np.empty(len(order), np.int64)
    at[order] = np.arange(len(order))
    parents = np.where(given[order] >= 0, at[given[order]], -1)
    roots = np.flatnonzero(parents < 0)
    return Sequences(np.append(roots, len(order)), labels[order[roots]], labels[order], at), parents
