"""Moyal: the energy loss of a fast charged particle.

With z = (x - mu) / sigma, density exp(-(z + exp(-z)) / 2) / (sigma √(2π)). Moyal (1955), Philosophical Magazine 46,
263-280.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.constants import HALF_LOG_2PI, LOG_2, LOG_PI, ROOT_HALF
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import UNIT, driven
from bayeslab.distributions.toolbox.special import exp, log, normal_tail

DECLARATION = declared(
    "Moyal",
    "mu sigma",
    "sigma",
    response=driven("location", "location", "Moyal({mu}, sigma)", working="identity", sigma=UNIT),
)


def canonical(mu: Array = 0.0, sigma: Array = 1.0) -> Values:
    """The parameters of :func:`log_density`."""
    return mu, sigma


def log_density(x: Array, mu: Array, sigma: Array) -> Array:
    """Log density of each number."""
    z = (x - mu) / sigma
    return -0.5 * (z + np.exp(-z)) - np.log(sigma) - HALF_LOG_2PI


def slopes(x: Array, mu: Array, sigma: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = (x - mu) / sigma
    pull = 0.5 * (1 - np.exp(-z))
    return -pull / sigma, pull / sigma, (z * pull - 1) / sigma


def fused(x: float, mu: float, sigma: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not sigma > 0.0:
        return -math.inf, 0.0, 0.0, 0.0
    rate = 1.0 / sigma
    z = (x - mu) * rate
    e = exp(-z)
    pull = 0.5 * (1.0 - e)
    return -0.5 * (z + e) - log(sigma) - HALF_LOG_2PI, -pull * rate, pull * rate, (z * pull - 1.0) * rate


def log_cumulative(x: float, mu: float, sigma: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    z = (x - mu) / sigma
    t = exp(-0.5 * z)
    if not t < math.inf or not z < math.inf:
        return (0.0 if z > 0.0 else -math.inf), 0.0, 0.0, 0.0
    value, hazard = normal_tail(-t)
    slope = 0.5 * hazard * t / sigma
    return LOG_2 + value, slope, -slope, -slope * z


def log_survival(x: float, mu: float, sigma: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    z = (x - mu) / sigma
    t = exp(-0.5 * z)
    if not abs(z) < math.inf or not t < math.inf:
        return (-math.inf if z > 0.0 else 0.0), 0.0, 0.0, 0.0
    if z > 80.0:
        # Of erf(t / √2) only the first term is left.
        return 0.5 * (LOG_2 - LOG_PI - z), -0.5 / sigma, 0.5 / sigma, 0.5 * z / sigma
    value = log(math.erf(t * ROOT_HALF))
    slope = -t * exp(-0.5 * t * t - HALF_LOG_2PI - value) / sigma
    return value, slope, -slope, -slope * z


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, sigma: Array) -> Array:
    """Independent draws."""
    return np.asarray(mu - sigma * np.log(rng.normal(size=size) ** 2))


def moments(mu: Array, sigma: Array) -> Values:
    """Mean and variance."""
    return mu + sigma * (np.euler_gamma + LOG_2), (np.pi * sigma) ** 2 / 2
