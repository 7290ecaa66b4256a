"""Predictions of rows: complete rows are replicated; in other rows missing cells are drawn given the observed ones.

Each row is treated separately, whatever the other rows are. The result has all columns if some row is complete, else
the columns with missing cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

__all__ = ["Drawn", "row_by_row"]

# Name to dimensions and draws (draws, rows).
type Drawn = dict[str, tuple[tuple[str, ...], np.ndarray]]


def row_by_row(
    lacking: Mapping[str, np.ndarray], complete: Callable[[], Drawn], replicate: Callable[[], Drawn]
) -> Drawn:
    """Predictions of the rows of a table.

    Parameters
    ----------
    lacking
        By column, a mask of the missing cells (n_rows,).
    complete
        Draws all columns with missing cells given the observed cells of the row, which are kept.
    replicate
        Draws all cells of all columns.
    """
    partial = np.any(list(lacking.values()), axis=0)
    if not partial.any():
        return replicate()
    made = complete()
    if partial.all():
        return {column: made[column] for column, cells in lacking.items() if cells.any()}
    whole = replicate()
    return {c: (made[c][0], np.where(partial, made[c][1], whole[c][1])) for c in lacking}
