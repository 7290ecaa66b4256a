"""Poisson: the number of events at a given rate.

P(x) = mu^x exp(-mu) / x!. Johnson, Kemp, Kotz (2005), chapter 4.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlogy

from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import driven

DECLARATION = declared(
    "Poisson",
    "mu",
    values="[0, inf)",
    discrete=True,
    mu="[0, inf)",
    response=driven("mean", "positive", "Poisson({mu})", working="identity"),
)


def canonical(mu: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return (mu,)


def log_density(x: Array, mu: Array) -> Array:
    """Log density of each number."""
    return np.asarray(xlogy(x, mu) - mu - gammaln(x + 1))


def slopes(x: Array, mu: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return None, x / mu - 1


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array) -> Array:
    """Independent draws."""
    return rng.poisson(mu, size)


def moments(mu: Array) -> Values:
    """Mean and variance."""
    return mu, mu


def _counts(x: Array) -> tuple[Array, Array]:
    """Contribution of each item to the posterior parameters of mu."""
    return x, np.ones(np.shape(x))


def _rest(x: Array) -> Array:
    """The part of the log density without mu."""
    return -gammaln(x + 1)


CONJUGATE = Conjugate("mu", "Gamma", _counts, _rest)
