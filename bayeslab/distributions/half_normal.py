"""Half-normal: the absolute deviation of a normal variable from its mean.

Density 2 exp(-x² / (2 sigma²)) / (sigma √(2π)) for x ≥ 0. Johnson, Kotz, Balakrishnan (1994), section 13.10.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.constants import HALF_LOG_2PI, LOG_2, ROOT_HALF
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared, deviation
from bayeslab.distributions.toolbox.response import driven
from bayeslab.distributions.toolbox.special import complement, exp, log, normal_tail

DECLARATION = declared(
    "HalfNormal",
    "sigma tau",
    "sigma tau",
    "[0, inf)",
    response=driven("scale", "positive", "HalfNormal({mu})", working="identity"),
)


def canonical(sigma: Array | None = None, tau: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    return (deviation(sigma, tau),)


def log_density(x: Array, sigma: Array) -> Array:
    """Log density of each number."""
    return LOG_2 - 0.5 * (x / sigma) ** 2 - np.log(sigma) - HALF_LOG_2PI


def slopes(x: Array, sigma: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return -x / sigma**2, ((x / sigma) ** 2 - 1) / sigma


def fused(x: float, sigma: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (sigma > 0.0 and x >= 0.0):
        return -math.inf, 0.0, 0.0
    rate = 1.0 / sigma
    z = x * rate
    return LOG_2 - HALF_LOG_2PI - log(sigma) - 0.5 * z * z, -z * rate, (z * z - 1.0) * rate


def log_cumulative(x: float, sigma: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not 0.0 < x < math.inf:
        return (0.0 if x > 0.0 else -math.inf), 0.0, 0.0
    z = x / sigma
    above = LOG_2 + normal_tail(-z)[0]
    value = log(math.erf(z * ROOT_HALF)) if z < 1.0 else complement(above)[0]
    slope = exp(LOG_2 - HALF_LOG_2PI - 0.5 * z * z - value)
    return value, slope / sigma, -slope * z / sigma


def log_survival(x: float, sigma: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not 0.0 < x < math.inf:
        return (-math.inf if x > 0.0 else 0.0), 0.0, 0.0
    z = x / sigma
    value, slope = normal_tail(-z)
    return LOG_2 + value, -slope / sigma, slope * z / sigma


def draw(rng: np.random.Generator, size: tuple[int, ...], sigma: Array) -> Array:
    """Independent draws."""
    return np.abs(rng.normal(0.0, sigma, size))


def moments(sigma: Array) -> Values:
    """Mean and variance."""
    return sigma * np.sqrt(2 / np.pi), sigma**2 * (1 - 2 / np.pi)
