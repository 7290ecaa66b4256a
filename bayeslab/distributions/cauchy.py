"""Cauchy: tails so heavy that the mean does not exist.

With z = (x - alpha) / beta, density 1 / (π beta (1 + z²)). Johnson, Kotz, Balakrishnan (1994), chapter 16.
"""

from __future__ import annotations

import numpy as np

from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import UNIT, driven

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


def draw(rng: np.random.Generator, size: tuple[int, ...], alpha: Array, beta: Array) -> Array:
    """Independent draws."""
    return np.asarray(alpha + beta * rng.standard_cauchy(size))
