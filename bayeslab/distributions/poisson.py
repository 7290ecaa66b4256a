"""Poisson: the number of events at a given rate.

P(x) = mu^x exp(-mu) / x!. Johnson, Kemp, Kotz (2005), chapter 4.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Form, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.incomplete import gamma_tail
from bayeslab.distributions.toolbox.response import driven
from bayeslab.distributions.toolbox.special import exp, log, log_gamma, whole
from bayeslab.distributions.toolbox.zeros import first_event

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
    return np.asarray(special.xlogy(x, mu) - mu - special.gammaln(x + 1))


def slopes(x: Array, mu: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return None, x / mu - 1


def fused(x: float, mu: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (x >= 0.0 and mu >= 0.0 and whole(x)) or (mu == 0.0 and x > 0.0):
        return -math.inf, 0.0, 0.0
    if x == 0.0:
        return -mu, 0.0, -1.0
    return x * log(mu) - mu - log_gamma(x + 1.0), 0.0, x / mu - 1.0


def fused_log(x: float, log_mu: float) -> Fused:
    """The same, by the logarithm of the mean."""
    if not (x >= 0.0 and whole(x)):
        return -math.inf, 0.0, 0.0
    mu = exp(log_mu)
    return x * log_mu - mu - log_gamma(x + 1.0), 0.0, x - mu


FORMS = {"log": Form("mu", "exp", fused_log)}


def log_cumulative(x: float, mu: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not 0.0 <= x < math.inf:
        return (0.0 if x > 0.0 else -math.inf), 0.0, 0.0
    value, _, slope = gamma_tail(math.floor(x) + 1.0, mu, True)
    return value, 0.0, slope


def log_survival(x: float, mu: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not 0.0 <= x < math.inf:
        return (-math.inf if x > 0.0 else 0.0), 0.0, 0.0
    value, _, slope = gamma_tail(math.floor(x) + 1.0, mu, False)
    return value, 0.0, slope


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array) -> Array:
    """Independent draws."""
    return rng.poisson(mu, size)


def draw_above_zero(rng: np.random.Generator, size: tuple[int, ...], mu: Array) -> Array:
    """Independent draws given that they are not 0: one event, and those in the time that is left after it."""
    return 1 + rng.poisson(mu - first_event(rng, size, 1.0, mu))


def moments(mu: Array) -> Values:
    """Mean and variance."""
    return mu, mu


def _counts(x: Array) -> tuple[Array, Array]:
    """Contribution of each item to the posterior parameters of mu."""
    return x, np.ones(np.shape(x))


def _rest(x: Array) -> Array:
    """The part of the log density without mu."""
    return -special.gammaln(x + 1)


CONJUGATE = Conjugate("mu", "Gamma", _counts, _rest)
