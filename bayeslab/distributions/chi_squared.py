"""Chi-squared: the sum of squares of nu standard normal numbers.

The gamma density with alpha = nu / 2 and beta = 1 / 2. Johnson, Kotz, Balakrishnan (1994), chapter 18.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln, xlogy

from bayeslab.constants import LOG_2
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import driven

DECLARATION = declared(
    "ChiSquared",
    "nu",
    "nu",
    "[0, inf)",
    bounded_by={"low": ("nu", 2.0)},
    response=driven("mean", "positive", "ChiSquared({mu})", working="identity"),
)


def canonical(nu: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return (nu,)


def log_density(x: Array, nu: Array) -> Array:
    """Log density of each number."""
    return np.asarray(xlogy(nu / 2 - 1, x) - x / 2 - nu / 2 * LOG_2 - gammaln(nu / 2))


def slopes(x: Array, nu: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return (nu / 2 - 1) / x - 0.5, 0.5 * (np.log(x / 2) - digamma(nu / 2))


def draw(rng: np.random.Generator, size: tuple[int, ...], nu: Array) -> Array:
    """Independent draws."""
    return rng.chisquare(nu, size)


def moments(nu: Array) -> Values:
    """Mean and variance."""
    return nu, 2 * nu
