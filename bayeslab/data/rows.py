"""Columns of a table as one array of numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.digits import check_size
from bayeslab.errors import DataError

__all__ = ["read_columns"]


def _text(name: str) -> str:
    return f"column '{name}' holds text, and numbers are needed; if it has categories, call it categorical"


def read_columns(
    data: Data,
    columns: Sequence[str],
    categories: Collection[str] = (),
    *,
    text: Callable[[str], str] = _text,
    unchecked: Collection[str] = (),
) -> np.ndarray:
    """Columns as numbers (n_rows, n_columns), NaN for missing cells and columns.

    Parameters
    ----------
    categories : collection of str
        Columns read as codes of their levels.
    text : callable
        The error message for a column of text that is not categorical.
    unchecked : collection of str
        Columns whose infinite, tiny and huge values the caller checks.

    Raises
    ------
    DataError
        A column holds text where numbers are expected, infinite values or, in the data of a fit, numbers whose squares
        cannot be summed.
    """
    rows = data.dataset.rows
    out = np.full((len(data.labels.get(rows, ())), len(columns)), np.nan)
    for j, name in enumerate(columns):
        if not data.has(name):
            continue
        term = data.term(name, missing=True)
        if term.dims != (rows,):
            raise DataError(f"column '{name}' does not hold one value a row", code="not-a-column")
        if name in categories:
            codes = np.asarray(term.codes, float)
            out[:, j] = np.where(codes < 0, np.nan, codes)
            continue
        if term.value is None:
            raise DataError(text(name), code="not-numbers")
        out[:, j] = np.asarray(term.value, float)
        if name in unchecked:
            continue
        if len(infinite := np.flatnonzero(np.isinf(out[:, j]))):
            row = int(infinite[0])
            raise DataError(
                f"column '{name}', row {row + 1}: {out[row, j]:g}; leave the cell empty if it is not known",
                code="not-finite",
            )
        if data.origin is None:
            check_size(out[:, j], f"column '{name}'")
    return out
