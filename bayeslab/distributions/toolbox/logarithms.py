"""Logarithms of zero and quotients of nothing, for expected totals of states that may have no rows."""

from __future__ import annotations

import numpy as np

__all__ = ["LOG_ZERO", "impossible", "ratio", "safe_log"]

# The logarithm of zero, small enough to be impossible and finite so that 0 · log 0 = 0.
LOG_ZERO = -1e30


def safe_log(p: np.ndarray) -> np.ndarray:
    """log p, finite at zero."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(p), LOG_ZERO)


def impossible(log_density: np.ndarray) -> np.ndarray:
    """A log density in which :data:`LOG_ZERO` is -inf."""
    return np.where(log_density < 0.1 * LOG_ZERO, -np.inf, log_density)


def ratio(top: np.ndarray, bottom: np.ndarray, otherwise: np.ndarray | float) -> np.ndarray:
    """top / bottom, and ``otherwise`` where a state has no rows."""
    good = bottom > 0
    return np.where(good, top / np.where(good, bottom, 1.0), otherwise)
