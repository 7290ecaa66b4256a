"""Gumbel: the maximum of many variables.

With z = (x - mu) / beta, density exp(-z - exp(-z)) / beta. Johnson, Kotz, Balakrishnan (1995), chapter 22.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import UNIT, driven
from bayeslab.distributions.toolbox.special import complement, exp, log

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


def fused(x: float, mu: float, beta: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not beta > 0.0:
        return -math.inf, 0.0, 0.0, 0.0
    rate = 1.0 / beta
    z = (x - mu) * rate
    e = exp(-z)
    pull = 1.0 - e
    return -z - e - log(beta), -pull * rate, pull * rate, (z * pull - 1.0) * rate


def log_cumulative(x: float, mu: float, beta: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    z = (x - mu) / beta
    e = exp(-z)
    if not e < math.inf or not z < math.inf:
        return (0.0 if z > 0.0 else -math.inf), 0.0, 0.0, 0.0
    return -e, e / beta, -e / beta, -e * z / beta


def log_survival(x: float, mu: float, beta: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    z = (x - mu) / beta
    e = exp(-z)
    if not abs(z) < math.inf or not e < math.inf:
        return (-math.inf if z > 0.0 else 0.0), 0.0, 0.0, 0.0
    if z > 40.0:
        return -z, -1.0 / beta, 1.0 / beta, z / beta
    value, factor = complement(-e)
    slope = e * factor
    return value, slope / beta, -slope / beta, -slope * z / beta


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, beta: Array) -> Array:
    """Independent draws."""
    return rng.gumbel(mu, beta, size)


def moments(mu: Array, beta: Array) -> Values:
    """Mean and variance."""
    return mu + np.euler_gamma * beta, (np.pi * beta) ** 2 / 6
