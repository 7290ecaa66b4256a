"""Columns of numbers of trials: what successes are counted among."""

from __future__ import annotations

import numpy as np

from bayeslab.errors import DataError
from bayeslab.language.functions import MOST_COUNTED

__all__ = ["check_trials"]


def check_trials(name: str, trials: np.ndarray, *, needed: np.ndarray | None = None) -> None:
    """Refuse what is no number of trials; the same for the data of a fit and for new rows.

    Parameters
    ----------
    name : str
        The column.
    trials : ndarray (n_rows,)
        NaN where a cell is missing.
    needed : ndarray (n_rows,) of bool, optional
        Rows whose number of trials has to be known; none if left out.

    Raises
    ------
    DataError
        An infinite, fractional or negative number, one beyond what floats count, a missing cell in a row that needs it.
    """
    there = ~np.isnan(trials)
    whole = np.where(there & np.isfinite(trials), trials, 0.0)
    for wrong, code in (
        (np.isinf(trials), "not-finite"),
        (whole != np.floor(whole), "not-whole"),
        (whole < 0, "out-of-range"),
        (whole > MOST_COUNTED, "too-large"),
    ):
        if wrong.any():
            row = int(wrong.argmax())
            raise DataError(
                f"column '{name}', row {row + 1}: {trials[row]:.17g}; numbers of trials are whole numbers from 0 to"
                f" {MOST_COUNTED:,}",
                code=code,
            )
    if needed is not None and (lacking := needed & ~there).any():
        raise DataError(
            f"column '{name}', row {int(lacking.argmax()) + 1}: the number of trials is missing; give a whole number"
            " from 0",
            code="missing",
        )
