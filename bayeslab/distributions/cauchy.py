"""Cauchy: tails so heavy that the mean does not exist.

With z = (x - alpha) / beta, density 1 / (π beta (1 + z²)). Johnson, Kotz, Balakrishnan (1994), chapter 16.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.constants import LOG_PI
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import UNIT, driven
from bayeslab.distributions.toolbox.special import log, log1p

DECLARATION = declared(
    "Cauchy",
    "alpha beta",
    "beta",
    response=driven("location", "location", "Cauchy({mu}, beta)", working="identity", beta=UNIT),
)


def canonical(alpha: Array, beta: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return alpha, beta


def log_density(x: Array, alpha: Array, beta: Array) -> Array:
    """Log density of each number."""
    return -np.log(np.pi * beta) - np.log1p(((x - alpha) / beta) ** 2)


def slopes(x: Array, alpha: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = (x - alpha) / beta
    pull = 2 * z / (1 + z**2)
    return -pull / beta, pull / beta, (pull * z - 1) / beta


def fused(x: float, alpha: float, beta: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not beta > 0.0:
        return -math.inf, 0.0, 0.0, 0.0
    rate = 1.0 / beta
    z = (x - alpha) * rate
    pull = 2.0 * z / (1.0 + z * z)
    return -LOG_PI - log(beta) - log1p(z * z), -pull * rate, pull * rate, (pull * z - 1.0) * rate


def log_cumulative(x: float, alpha: float, beta: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    value, slope, z = _tail((x - alpha) / beta)
    return value, slope / beta, -slope / beta, -slope * z / beta


def log_survival(x: float, alpha: float, beta: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    value, slope, z = _tail((alpha - x) / beta)
    return value, -slope / beta, slope / beta, -slope * z / beta


def _tail(z: float) -> tuple[float, float, float]:
    """Log of the cumulative probability at alpha = 0, beta = 1, its derivative, and z."""
    if not abs(z) < math.inf:
        return (0.0 if z > 0.0 else -math.inf), 0.0, 0.0
    angle = math.atan2(1.0, -z)
    return log(angle) - LOG_PI, 1.0 / ((1.0 + z * z) * angle), z


def draw(rng: np.random.Generator, size: tuple[int, ...], alpha: Array, beta: Array) -> Array:
    """Independent draws."""
    return np.asarray(alpha + beta * rng.standard_cauchy(size))
