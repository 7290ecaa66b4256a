"""Sums of probabilities by their logarithms, for compiled recursions."""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner

__all__ = ["log_add", "log_sum"]


@inner
def log_add(a: float, b: float) -> float:
    """log(eᵃ + eᵇ)."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + math.log1p(math.exp(b - a))


@inner(error_model="numpy")
def log_sum(values: np.ndarray) -> float:
    """The logarithm of the sum of all exponentials."""
    peak = values.max()
    if peak == -np.inf:
        return -np.inf
    total = 0.0
    for value in values:
        total += math.exp(value - peak)
    return peak + math.log(total)
