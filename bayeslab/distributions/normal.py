"""Normal (Gaussian): location mu and standard deviation sigma.

Density exp(-(x - mu)² / (2 sigma²)) / (sigma √(2π)); the precision ``tau`` is 1 / sigma². Johnson, Kotz, Balakrishnan
(1994), chapter 13.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared, deviation
from bayeslab.distributions.toolbox.response import UNIT, driven
from bayeslab.distributions.toolbox.special import log, normal_tail

DECLARATION = declared(
    "Normal",
    "mu sigma tau",
    "sigma tau",
    response=driven("mean", "location", "Normal({mu}, sigma)", working="identity", sigma=UNIT),
)


def canonical(mu: Array = 0.0, sigma: Array | None = None, tau: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    return mu, deviation(sigma, tau)


def log_density(x: Array, mu: Array, sigma: Array) -> Array:
    """Log density of each number."""
    z = (x - mu) / sigma
    return -0.5 * z**2 - np.log(sigma) - HALF_LOG_2PI


def slopes(x: Array, mu: Array, sigma: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = (x - mu) / sigma
    return -z / sigma, z / sigma, (z**2 - 1) / sigma


def fused(x: float, mu: float, sigma: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not sigma > 0.0:
        return -math.inf, 0.0, 0.0, 0.0
    rate = 1.0 / sigma
    z = (x - mu) * rate
    pull = z * rate
    return -0.5 * z * z - (log(sigma) + HALF_LOG_2PI), -pull, pull, (z * z - 1.0) * rate


def log_cumulative(x: float, mu: float, sigma: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not abs(x) < math.inf:
        return (0.0 if x > 0.0 else -math.inf), 0.0, 0.0, 0.0
    rate = 1.0 / sigma
    z = (x - mu) * rate
    value, slope = normal_tail(z)
    return value, slope * rate, -slope * rate, -slope * z * rate


def log_survival(x: float, mu: float, sigma: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not abs(x) < math.inf:
        return (0.0 if x < 0.0 else -math.inf), 0.0, 0.0, 0.0
    rate = 1.0 / sigma
    z = (x - mu) * rate
    value, slope = normal_tail(-z)
    return value, -slope * rate, slope * rate, slope * z * rate


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, sigma: Array) -> Array:
    """Independent draws."""
    return rng.normal(mu, sigma, size)


def moments(mu: Array, sigma: Array) -> Values:
    """Mean and variance."""
    return mu, sigma**2
