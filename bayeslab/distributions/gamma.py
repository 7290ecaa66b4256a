"""Gamma: positive numbers; the time until several events.

Density beta^alpha x^(alpha - 1) exp(-beta x) / Γ(alpha) for x ≥ 0; mean mu = alpha / beta, standard deviation
sigma = √alpha / beta. Johnson, Kotz, Balakrishnan (1994), chapter 17.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.incomplete import gamma_tail
from bayeslab.distributions.toolbox.response import SHAPE, driven
from bayeslab.distributions.toolbox.special import gamma_pair, log
from bayeslab.errors import ModelError

DECLARATION = declared(
    "Gamma",
    "alpha beta mu sigma",
    "alpha beta mu sigma",
    "[0, inf)",
    bounded_by={"low": ("alpha", 1.0)},
    response=driven("mean", "positive", "Gamma(alpha, alpha / {mu})", working="identity", alpha=SHAPE),
)


def canonical(
    alpha: Array | None = None, beta: Array | None = None, mu: Array | None = None, sigma: Array | None = None
) -> Values:
    """The parameters of :func:`log_density`."""
    if alpha is not None and beta is not None:
        return alpha, beta
    if mu is None or sigma is None:
        raise ModelError("needs alpha and beta, or mu and sigma", code="wrong-arguments")
    return (mu / sigma) ** 2, mu / sigma**2


def log_density(x: Array, alpha: Array, beta: Array) -> Array:
    """Log density of each number."""
    return np.asarray(alpha * np.log(beta) - special.gammaln(alpha) + special.xlogy(alpha - 1, x) - beta * x)


def slopes(x: Array, alpha: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return (alpha - 1) / x - beta, np.log(beta) - special.digamma(alpha) + np.log(x), alpha / beta - x


def fused(x: float, alpha: float, beta: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (alpha > 0.0 and beta > 0.0 and x >= 0.0) or (x == 0.0 and alpha != 1.0):
        return -math.inf, 0.0, 0.0, 0.0
    if x == 0.0:
        return log(beta), -beta, -math.inf, 1.0 / beta
    log_gamma, digamma = gamma_pair(alpha)
    log_x, log_beta = log(x), log(beta)
    value = alpha * log_beta - log_gamma + (alpha - 1.0) * log_x - beta * x
    return value, (alpha - 1.0) / x - beta, log_beta - digamma + log_x, alpha / beta - x


def log_cumulative(x: float, alpha: float, beta: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    value, by_alpha, slope = gamma_tail(alpha, beta * x, False)
    return value, slope * beta, by_alpha, (slope * x if slope > 0.0 else 0.0)


def log_survival(x: float, alpha: float, beta: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    value, by_alpha, slope = gamma_tail(alpha, beta * x, True)
    return value, slope * beta, by_alpha, (slope * x if slope < 0.0 else 0.0)


def draw(rng: np.random.Generator, size: tuple[int, ...], alpha: Array, beta: Array) -> Array:
    """Independent draws."""
    return rng.gamma(alpha, 1 / beta, size)


def moments(alpha: Array, beta: Array) -> Values:
    """Mean and variance."""
    return alpha / beta, alpha / beta**2


def _counts(x: Array, alpha: Array) -> tuple[Array, Array]:
    """Contribution of each item to the posterior parameters of beta."""
    return alpha, x


def _rest(x: Array, alpha: Array) -> Array:
    """The part of the log density without beta."""
    return special.xlogy(alpha - 1, x) - special.gammaln(alpha)


CONJUGATE = Conjugate("beta", "Gamma", _counts, _rest)
