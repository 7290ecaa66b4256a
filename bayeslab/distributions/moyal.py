"""Moyal: the energy loss of a fast charged particle.

With z = (x - mu) / sigma, density exp(-(z + exp(-z)) / 2) / (sigma √(2π)). Moyal (1955), Philosophical Magazine 46,
263-280.
"""

from __future__ import annotations

import numpy as np

from bayeslab.constants import HALF_LOG_2PI, LOG_2
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import UNIT, driven

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


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, sigma: Array) -> Array:
    """Independent draws."""
    return np.asarray(mu - sigma * np.log(rng.normal(size=size) ** 2))


def moments(mu: Array, sigma: Array) -> Values:
    """Mean and variance."""
    return mu + sigma * (np.euler_gamma + LOG_2), (np.pi * sigma) ** 2 / 2
