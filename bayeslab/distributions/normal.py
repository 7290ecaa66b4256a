"""Normal (Gaussian): location mu and standard deviation sigma.

Density exp(-(x - mu)² / (2 sigma²)) / (sigma √(2π)); the precision ``tau`` is 1 / sigma². Johnson, Kotz, Balakrishnan
(1994), chapter 13.
"""

from __future__ import annotations

import numpy as np

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared, deviation
from bayeslab.distributions.toolbox.response import UNIT, driven

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


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, sigma: Array) -> Array:
    """Independent draws."""
    return rng.normal(mu, sigma, size)


def moments(mu: Array, sigma: Array) -> Values:
    """Mean and variance."""
    return mu, sigma**2
