"""Discrete uniform: whole numbers between two ends, all equally likely.

P(x) = 1 / (upper - lower + 1).
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.special import log, whole

DECLARATION = declared(
    "DiscreteUniform", "lower upper", values="[lower, upper]", increasing="lower upper", discrete=True, finite=True
)


def canonical(lower: Array, upper: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return lower, upper


def log_density(x: Array, lower: Array, upper: Array) -> Array:
    """Log density of each number."""
    return 0.0 * x - np.log(upper - lower + 1)


def slopes(x: Array, lower: Array, upper: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return None, None, None


def fused(x: float, lower: float, upper: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (lower <= x <= upper and whole(x)):
        return -math.inf, 0.0, 0.0, 0.0
    return -log(upper - lower + 1.0), 0.0, 0.0, 0.0


def log_cumulative(x: float, lower: float, upper: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not lower <= x < upper:
        return (0.0 if x >= upper else -math.inf), 0.0, 0.0, 0.0
    return log((math.floor(x) - lower + 1.0) / (upper - lower + 1.0)), 0.0, 0.0, 0.0


def log_survival(x: float, lower: float, upper: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not lower <= x < upper:
        return (-math.inf if x >= upper else 0.0), 0.0, 0.0, 0.0
    return log((upper - math.floor(x)) / (upper - lower + 1.0)), 0.0, 0.0, 0.0


def draw(rng: np.random.Generator, size: tuple[int, ...], lower: Array, upper: Array) -> Array:
    """Independent draws."""
    return rng.integers(np.asarray(lower, dtype=np.int64), np.asarray(upper, dtype=np.int64) + 1, size)


def moments(lower: Array, upper: Array) -> Values:
    """Mean and variance."""
    return (lower + upper) / 2, ((upper - lower + 1) ** 2 - 1) / 12
