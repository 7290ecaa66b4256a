"""Chi-squared: the sum of squares of nu standard normal numbers.

The gamma density with alpha = nu / 2 and beta = 1 / 2. Johnson, Kotz, Balakrishnan (1994), chapter 18.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.constants import LOG_2
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.incomplete import gamma_tail
from bayeslab.distributions.toolbox.response import driven
from bayeslab.distributions.toolbox.special import gamma_pair, log

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
    return np.asarray(special.xlogy(nu / 2 - 1, x) - x / 2 - nu / 2 * LOG_2 - special.gammaln(nu / 2))


def slopes(x: Array, nu: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return (nu / 2 - 1) / x - 0.5, 0.5 * (np.log(x / 2) - special.digamma(nu / 2))


def fused(x: float, nu: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (nu > 0.0 and x >= 0.0) or (x == 0.0 and nu != 2.0):
        return -math.inf, 0.0, 0.0
    if x == 0.0:
        return -LOG_2, -0.5, -math.inf
    half = 0.5 * nu
    log_gamma, digamma = gamma_pair(half)
    log_half = log(0.5 * x)
    value = (half - 1.0) * log_half - 0.5 * x - LOG_2 - log_gamma
    return value, (half - 1.0) / x - 0.5, 0.5 * (log_half - digamma)


def log_cumulative(x: float, nu: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    value, by_shape, slope = gamma_tail(0.5 * nu, 0.5 * x, False)
    return value, 0.5 * slope, 0.5 * by_shape


def log_survival(x: float, nu: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    value, by_shape, slope = gamma_tail(0.5 * nu, 0.5 * x, True)
    return value, 0.5 * slope, 0.5 * by_shape


def draw(rng: np.random.Generator, size: tuple[int, ...], nu: Array) -> Array:
    """Independent draws."""
    return rng.chisquare(nu, size)


def moments(nu: Array) -> Values:
    """Mean and variance."""
    return nu, 2 * nu
