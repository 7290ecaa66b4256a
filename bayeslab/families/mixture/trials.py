"""Trials of a binomial column: known in every row of a fit, and wherever successes are given or drawn."""

from __future__ import annotations

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.trials import check_trials
from bayeslab.errors import DataError, hint
from bayeslab.families.mixture.spec import Mixture

__all__ = ["check_drawn", "check_given"]


def check_given(spec: Mixture, data: Data, columns: tuple[str, ...], rows: np.ndarray) -> None:
    """Check the numbers of trials: integers, in every row of a fit, and in new rows where successes are given.

    Parameters
    ----------
    columns
        Names of the columns of the rows (n_rows, n_columns).
    """
    if isinstance(spec.trials, str):
        _check(spec, data, columns, rows, (data.origin is None) | ~_open(spec, columns, rows))


def check_drawn(spec: Mixture, data: Data, columns: tuple[str, ...], rows: np.ndarray) -> None:
    """Numbers of trials where successes are drawn: in missing cells, or everywhere if none is missing."""
    if isinstance(spec.trials, str) and spec.words("binomial"):
        open_ = _open(spec, columns, rows)
        _check(spec, data, columns, rows, open_ if open_.any() else ~open_)


def _open(spec: Mixture, columns: tuple[str, ...], rows: np.ndarray) -> np.ndarray:
    return np.isnan(rows[:, [columns.index(name) for name in spec.words("binomial")]]).any(axis=1)


def _check(spec: Mixture, data: Data, columns: tuple[str, ...], rows: np.ndarray, needed: np.ndarray) -> None:
    name = str(spec.trials)
    if needed.any() and not data.has(name):
        raise DataError(
            f"the data have no column '{name}', the number of trials{hint(name, data.names())}", code="unknown-column"
        )
    check_trials(name, rows[:, columns.index(name)], needed=needed)
