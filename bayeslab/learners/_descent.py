"""Rates of gradient descent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["safe_rate"]

Array = NDArray[np.float64]


def safe_rate(rows: Array, weight: Array, solver: str) -> float:
    """A rate at which descent cannot diverge."""
    if solver == "stochastic":
        return float(1 / max((weight * (rows**2).sum(axis=1)).max(), 1e-300))
    return float(weight.sum() / np.linalg.eigvalsh((rows * weight[:, None]).T @ rows)[-1])
