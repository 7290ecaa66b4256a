"""Laplace: a peak with exponential tails on both sides (double exponential).

Density exp(-|x - mu| / b) / (2 b). Johnson, Kotz, Balakrishnan (1995), chapter 24.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.constants import LOG_2
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import UNIT, driven
from bayeslab.distributions.toolbox.special import complement, log

DECLARATION = declared(
    "Laplace",
    "mu b",
    "b",
    response=driven("location", "location", "Laplace({mu}, scale)", working="identity", scale=UNIT),
)


def canonical(mu: Array, b: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return mu, b


def log_density(x: Array, mu: Array, b: Array) -> Array:
    """Log density of each number."""
    return -np.log(2 * b) - np.abs(x - mu) / b


def slopes(x: Array, mu: Array, b: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = (x - mu) / b
    return -np.sign(z) / b, np.sign(z) / b, (np.abs(z) - 1) / b


def fused(x: float, mu: float, b: float) -> Fused:
    """Log density of one number, and its derivatives; at the peak the derivative by x is 0."""
    if not b > 0.0:
        return -math.inf, 0.0, 0.0, 0.0
    rate = 1.0 / b
    z = (x - mu) * rate
    pull = rate if z > 0.0 else -rate if z < 0.0 else 0.0
    return -LOG_2 - log(b) - abs(z), -pull, pull, (abs(z) - 1.0) * rate


def log_cumulative(x: float, mu: float, b: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    value, slope, z = _tail((x - mu) / b)
    return value, slope / b, -slope / b, -slope * z / b


def log_survival(x: float, mu: float, b: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    value, slope, z = _tail((mu - x) / b)
    return value, -slope / b, slope / b, -slope * z / b


def _tail(z: float) -> tuple[float, float, float]:
    """Log of the cumulative probability at mu = 0, b = 1, its derivative, and z."""
    if not abs(z) < math.inf:
        return (0.0 if z > 0.0 else -math.inf), 0.0, 0.0
    if z < 0.0:
        return z - LOG_2, 1.0, z
    value, factor = complement(-z - LOG_2)
    return value, -factor, z


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, b: Array) -> Array:
    """Independent draws."""
    return rng.laplace(mu, b, size)


def moments(mu: Array, b: Array) -> Values:
    """Mean and variance."""
    return mu, 2 * b**2
