"""Gumbel: the maximum of many variables.

With z = (x - mu) / beta, density exp(-z - exp(-z)) / beta. Johnson, Kotz, Balakrishnan (1995), chapter 22.
"""

from __future__ import annotations

import numpy as np

from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import UNIT, driven

DECLARATION = declared(
    "Gumbel",
    "mu beta",
    "beta",
    response=driven("location", "location", "Gumbel({mu}, beta)", working="identity", beta=UNIT),
)


def canonical(mu: Array, beta: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return mu, beta


def log_density(x: Array, mu: Array, beta: Array) -> Array:
    """Log density of each number."""
    z = (x - mu) / beta
    return -z - np.exp(-z) - np.log(beta)


def slopes(x: Array, mu: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = (x - mu) / beta
    pull = 1 - np.exp(-z)
    return -pull / beta, pull / beta, (z * pull - 1) / beta


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, beta: Array) -> Array:
    """Independent draws."""
    return rng.gumbel(mu, beta, size)


def moments(mu: Array, beta: Array) -> Values:
    """Mean and variance."""
    return mu + np.euler_gamma * beta, (np.pi * beta) ** 2 / 6
