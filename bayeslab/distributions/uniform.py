"""Uniform: numbers between two ends, with constant density.

Density 1 / (upper - lower). Johnson, Kotz, Balakrishnan (1995), chapter 26.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.special import log

DECLARATION = declared(
    "Uniform",
    "lower upper",
    values="[lower, upper]",
    increasing="lower upper",
    strictly=True,
    defaults={"lower": 0.0, "upper": 1.0},
)


def canonical(lower: Array = 0.0, upper: Array = 1.0) -> Values:
    """The parameters of :func:`log_density`."""
    return lower, upper


def log_density(x: Array, lower: Array, upper: Array) -> Array:
    """Log density of each number."""
    return 0.0 * x - np.log(upper - lower)


def slopes(x: Array, lower: Array, upper: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    height = 1 / (upper - lower) + 0.0 * x
    return 0.0 * x, height, -height


def fused(x: float, lower: float, upper: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (lower < upper and lower <= x <= upper):
        return -math.inf, 0.0, 0.0, 0.0
    width = upper - lower
    return -log(width), 0.0, 1.0 / width, -1.0 / width


def log_cumulative(x: float, lower: float, upper: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not lower < x < upper:
        return (0.0 if x >= upper else -math.inf), 0.0, 0.0, 0.0
    rise, width = 1.0 / (x - lower), 1.0 / (upper - lower)
    return log((x - lower) * width), rise, width - rise, -width


def log_survival(x: float, lower: float, upper: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not lower < x < upper:
        return (-math.inf if x >= upper else 0.0), 0.0, 0.0, 0.0
    fall, width = 1.0 / (upper - x), 1.0 / (upper - lower)
    return log((upper - x) * width), -fall, width, fall - width


def draw(rng: np.random.Generator, size: tuple[int, ...], lower: Array, upper: Array) -> Array:
    """Independent draws."""
    return rng.uniform(lower, upper, size)


def moments(lower: Array, upper: Array) -> Values:
    """Mean and variance."""
    return (lower + upper) / 2, (upper - lower) ** 2 / 12
