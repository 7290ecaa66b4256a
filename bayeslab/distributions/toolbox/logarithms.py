"""Logarithms that are finite at zero, sums in logarithms and safe ratios, for statistics of empty states."""

from __future__ import annotations

import numpy as np

__all__ = ["LOG_ZERO", "impossible", "log_sum", "ratio", "safe_log"]

# Stands for the logarithm of zero: small enough to mean impossible, and finite, so that 0 · log 0 = 0.
LOG_ZERO = -1e30


def safe_log(p: np.ndarray) -> np.ndarray:
    """log p, finite at zero."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(p), LOG_ZERO)


def log_sum(logs: np.ndarray, axis: int | tuple[int, ...], keepdims: bool = False) -> np.ndarray:
    """log Σ exp along axes; -inf if all terms are -inf.

    Faster than ``scipy.special.logsumexp`` on small arrays, which takes a tenth of a millisecond per call.
    """
    top = np.max(logs, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        total = np.log(np.sum(np.exp(logs - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis=axis)


def impossible(log_density: np.ndarray) -> np.ndarray:
    """A log density with :data:`LOG_ZERO` replaced by -inf."""
    return np.where(log_density < 0.1 * LOG_ZERO, -np.inf, log_density)


def ratio(top: np.ndarray, bottom: np.ndarray, otherwise: np.ndarray | float) -> np.ndarray:
    """top / bottom, or ``otherwise`` where bottom is zero."""
    good = bottom > 0
    return np.where(good, top / np.where(good, bottom, 1.0), otherwise)
