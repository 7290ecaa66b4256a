"""Laplace: a peak with exponential tails on both sides (double exponential).

Density exp(-|x - mu| / b) / (2 b). Johnson, Kotz, Balakrishnan (1995), chapter 24.
"""

from __future__ import annotations

import numpy as np

from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import UNIT, driven

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


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, b: Array) -> Array:
    """Independent draws."""
    return rng.laplace(mu, b, size)


def moments(mu: Array, b: Array) -> Values:
    """Mean and variance."""
    return mu, 2 * b**2
