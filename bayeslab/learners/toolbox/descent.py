"""Rates of gradient descent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["safe_rate", "settled"]

Array = NDArray[np.float64]


def safe_rate(rows: Array, weight: Array, solver: str) -> float:
    """A rate at which descent cannot diverge."""
    if solver == "stochastic":
        return float(1 / max((weight * (rows**2).sum(axis=1)).max(), 1e-300))
    return float(weight.sum() / np.linalg.eigvalsh((rows * weight[:, None]).T @ rows)[-1])


def settled(slope: Array, rows: Array, weight: Array, scale: float, stochastic: bool) -> bool:
    """Whether a mean gradient is nothing beside that of a row: 1e-4 of it, as of scikit-learn's logistic regression.

    Row by row, where the last rows always move the weights a little, 1e-3, as of scikit-learn's stochastic descents.

    Parameters
    ----------
    slope
        The mean gradient, shape (columns,).
    scale
        How far a row's target may be from its prediction: 1 of probabilities, the spread of numbers.
    """
    reach = np.sqrt(weight @ rows**2 / weight.sum())
    return bool((np.abs(slope) <= (1e-3 if stochastic else 1e-4) * scale * reach + 1e-300).all())
