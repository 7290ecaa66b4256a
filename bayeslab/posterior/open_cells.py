"""Predictions of rows: a complete row is replicated; in a row with open cells these are drawn and what is given stays.

That is a property of the row: other rows of the table do not change it. The answer has the columns that some row
predicts: all of them where a row is complete, else those with open cells.
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
        By column, whether the cell of each row (n_rows,) is open.
    complete
        All columns with their open cells drawn given the row's others, which stay.
    replicate
        All columns drawn anew.
    """
    partial = np.any(list(lacking.values()), axis=0)
    if not partial.any():
        return replicate()
    made = complete()
    if partial.all():
        return {column: made[column] for column, cells in lacking.items() if cells.any()}
    whole = replicate()
    return {c: (made[c][0], np.where(partial, made[c][1], whole[c][1])) for c in lacking}
