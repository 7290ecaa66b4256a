"""What weak priors on the scale of the data need: columns that vary."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.errors import DataError

__all__ = ["refuse_constant", "shown"]


def refuse_constant(rows: np.ndarray, columns: tuple[str, ...]) -> None:
    """Normal columns have values, and more than one."""
    for j, column in enumerate(columns):
        observed = rows[~np.isnan(rows[:, j]), j]
        if len(rows) and not len(observed):
            raise DataError(
                f"column '{column}' has no values: every cell is missing, and its weak priors are scaled by them",
                code="no-values",
            )
        if len(observed) > 1 and np.ptp(observed) == 0:
            raise DataError(f"column '{column}' is constant ({observed[0]:g}): leave it out", code="constant")


def shown(values: Any) -> str:
    """The numbers of a prior for people: one where all columns have the same."""
    each = [f"{value:.4g}" for value in np.ravel(values)]
    return each[0] if len(set(each)) == 1 else "[" + ", ".join(each) + "]"
