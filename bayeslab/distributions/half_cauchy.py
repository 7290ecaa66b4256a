"""Half-Cauchy: the absolute value of a Cauchy variable; a weak prior for scales.

With z = x / beta, density 2 / (π beta (1 + z²)) for x ≥ 0. Polson, Scott (2012), Bayesian Analysis 7, 887-902.
"""

from __future__ import annotations

import numpy as np

from bayeslab.constants import LOG_2
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import driven

DECLARATION = declared(
    "HalfCauchy",
    "beta",
    "beta",
    "[0, inf)",
    response=driven("scale", "positive", "HalfCauchy({mu})", working="identity"),
)


def canonical(beta: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return (beta,)


def log_density(x: Array, beta: Array) -> Array:
    """Log density of each number."""
    return LOG_2 - np.log(np.pi * beta) - np.log1p((x / beta) ** 2)


def slopes(x: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = x / beta
    pull = 2 * z / (1 + z**2)
    return -pull / beta, (pull * z - 1) / beta


def draw(rng: np.random.Generator, size: tuple[int, ...], beta: Array) -> Array:
    """Independent draws."""
    return np.asarray(beta * np.abs(rng.standard_cauchy(size)))
