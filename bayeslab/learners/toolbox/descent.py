"""Rates of gradient descent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["safe_rate", "settled"]

Array = NDArray[np.float64]


def safe_rate(rows: Array, weight: Array, solver: str) -> float:
    """Learning rate at which gradient descent cannot diverge."""
    if solver == "stochastic":
        return float(1 / max((weight * (rows**2).sum(axis=1)).max(), 1e-300))
    return float(weight.sum() / np.linalg.eigvalsh((rows * weight[:, None]).T @ rows)[-1])


def settled(slope: Array, rows: Array, weight: Array, scale: float, stochastic: bool) -> bool:
    """Whether the mean gradient is below 1e-4 of a single row's gradient, as in scikit-learn's logistic regression.

    Stochastic descent, in which every row moves the weights a little, uses 1e-3, as scikit-learn's stochastic descent.

    Parameters
    ----------
    slope
        The mean gradient, shape (columns,).
    scale
        Scale of the distance between target and prediction: 1 for probabilities, the spread of numbers.
    """
    reach = np.sqrt(weight @ rows**2 / weight.sum())
    return bool((np.abs(slope) <= (1e-3 if stochastic else 1e-4) * scale * reach + 1e-300).all())
