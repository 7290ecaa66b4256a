"""Triangular: a linear rise from the minimum to the mode and a linear fall to the maximum.

Density 2 (x - lower) / ((upper - lower) (c - lower)) up to c, 2 (upper - x) / ((upper - lower) (upper - c)) beyond.
Johnson, Kotz, Balakrishnan (1995), section 26.9.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.constants import LOG_2
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.special import complement, log

DECLARATION = declared("Triangular", "lower upper c", values="[lower, upper]", increasing="lower c upper")


def canonical(lower: Array = 0.0, upper: Array = 1.0, c: Array = 0.5) -> Values:
    """The parameters of :func:`log_density`."""
    return lower, upper, c


def log_density(x: Array, lower: Array, upper: Array, c: Array) -> Array:
    """Log density of each number."""
    rising = x <= c
    with np.errstate(divide="ignore", invalid="ignore"):
        side = np.where(rising, np.log((x - lower) / (c - lower)), np.log((upper - x) / (upper - c)))
    return LOG_2 - np.log(upper - lower) + np.where(x == c, 0.0, side)


def slopes(x: Array, lower: Array, upper: Array, c: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    rising, width = x <= c, 1 / (upper - lower)
    with np.errstate(divide="ignore", invalid="ignore"):
        up, down, left, right = 1 / (x - lower), 1 / (upper - x), 1 / (c - lower), 1 / (upper - c)
        by_lower = width + np.where(rising, left - up, 0.0)
        by_upper = -width + np.where(rising, 0.0, down - right)
        return np.where(rising, up, -down), by_lower, by_upper, np.where(rising, -left, right)


def fused(x: float, lower: float, upper: float, c: float) -> Fused:
    """Log density of one number, and its derivatives; at the mode those from below."""
    if not (lower <= c <= upper and lower < upper and lower <= x <= upper):
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    width = 1.0 / (upper - lower)
    value = LOG_2 + log(width)
    if x == c:
        rise = 1.0 / (c - lower) if c > lower else 0.0
        return value, rise, width, -width, -rise
    if not lower < x < upper:
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    if x < c:
        up, left = 1.0 / (x - lower), 1.0 / (c - lower)
        return value + log((x - lower) * left), up, width + left - up, -width, -left
    down, right = 1.0 / (upper - x), 1.0 / (upper - c)
    return value + log((upper - x) * right), -down, width, down - right - width, right


def log_cumulative(x: float, lower: float, upper: float, c: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not lower < x < upper:
        return (0.0 if x >= upper else -math.inf), 0.0, 0.0, 0.0, 0.0
    width = 1.0 / (upper - lower)
    if x <= c:
        up, left = 1.0 / (x - lower), 1.0 / (c - lower)
        value = log((x - lower) * width) + log((x - lower) * left)
        return value, 2.0 * up, left + width - 2.0 * up, -width, -left
    down, right = 1.0 / (upper - x), 1.0 / (upper - c)
    value, factor = complement(log((upper - x) * width) + log((upper - x) * right))
    return value, -2.0 * down * factor, width * factor, (2.0 * down - width - right) * factor, right * factor


def log_survival(x: float, lower: float, upper: float, c: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    value, by_x, by_upper, by_lower, by_c = log_cumulative(-x, -upper, -lower, -c)
    if value == 0.0 and x >= upper:
        value = -math.inf
    return value, -by_x, -by_lower, -by_upper, -by_c


def draw(rng: np.random.Generator, size: tuple[int, ...], lower: Array, upper: Array, c: Array) -> Array:
    """Independent draws."""
    return rng.triangular(lower, c, upper, size)


def moments(lower: Array, upper: Array, c: Array) -> Values:
    """Mean and variance."""
    squares = lower**2 + upper**2 + c**2 - lower * upper - lower * c - upper * c
    return (lower + upper + c) / 3, squares / 18
