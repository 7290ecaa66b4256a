"""Log-normal: positive numbers whose logarithm is normal.

With z = (log x - mu) / sigma, density exp(-z² / 2) / (x sigma √(2π)) for x > 0. Johnson, Kotz, Balakrishnan (1994),
chapter 14.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared, deviation
from bayeslab.distributions.toolbox.response import UNIT, driven
from bayeslab.distributions.toolbox.special import log, normal_tail

DECLARATION = declared(
    "LogNormal",
    "mu sigma tau",
    "sigma tau",
    "(0, inf)",
    response=driven("mean of the logarithm", "real", "LogNormal({mu}, sigma)", working="log", sigma=UNIT),
)


def canonical(mu: Array = 0.0, sigma: Array | None = None, tau: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    return mu, deviation(sigma, tau)


def log_density(x: Array, mu: Array, sigma: Array) -> Array:
    """Log density of each number."""
    z = (np.log(x) - mu) / sigma
    return -0.5 * z**2 - np.log(sigma) - HALF_LOG_2PI - np.log(x)


def slopes(x: Array, mu: Array, sigma: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = (np.log(x) - mu) / sigma
    return -(1 + z / sigma) / x, z / sigma, (z**2 - 1) / sigma


def fused(x: float, mu: float, sigma: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (sigma > 0.0 and x > 0.0):
        return -math.inf, 0.0, 0.0, 0.0
    rate, log_x = 1.0 / sigma, log(x)
    z = (log_x - mu) * rate
    pull = z * rate
    return -0.5 * z * z - log(sigma) - HALF_LOG_2PI - log_x, -(1.0 + pull) / x, pull, (z * z - 1.0) * rate


def log_cumulative(x: float, mu: float, sigma: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not 0.0 < x < math.inf:
        return (0.0 if x > 0.0 else -math.inf), 0.0, 0.0, 0.0
    z = (log(x) - mu) / sigma
    value, slope = normal_tail(z)
    return value, slope / (sigma * x), -slope / sigma, -slope * z / sigma


def log_survival(x: float, mu: float, sigma: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not 0.0 < x < math.inf:
        return (-math.inf if x > 0.0 else 0.0), 0.0, 0.0, 0.0
    z = (log(x) - mu) / sigma
    value, slope = normal_tail(-z)
    return value, -slope / (sigma * x), slope / sigma, slope * z / sigma


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, sigma: Array) -> Array:
    """Independent draws."""
    return rng.lognormal(mu, sigma, size)


def moments(mu: Array, sigma: Array) -> Values:
    """Mean and variance."""
    mean = np.exp(mu + 0.5 * sigma**2)
    return mean, mean**2 * np.expm1(sigma**2)
