"""Inverse gamma: the reciprocal of a gamma variable; the conjugate prior of a normal variance.

Density beta^alpha x^(-alpha - 1) exp(-beta / x) / Γ(alpha) for x > 0. Johnson, Kotz, Balakrishnan (1994), section 17.7.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.incomplete import gamma_tail
from bayeslab.distributions.toolbox.response import UNIT, driven
from bayeslab.distributions.toolbox.special import gamma_pair, log
from bayeslab.errors import ModelError

DECLARATION = declared(
    "InverseGamma",
    "alpha beta mu sigma",
    "alpha beta mu sigma",
    "(0, inf)",
    response=driven("mean", "positive", "InverseGamma(mu={mu}, sigma=sigma)", working="identity", sigma=UNIT),
)


def canonical(
    alpha: Array | None = None, beta: Array | None = None, mu: Array | None = None, sigma: Array | None = None
) -> Values:
    """The parameters of :func:`log_density`."""
    if alpha is not None:
        return alpha, 1.0 if beta is None else beta
    if mu is None or sigma is None:
        raise ModelError("needs alpha and beta, or mu and sigma", code="wrong-arguments")
    return 2 + (mu / sigma) ** 2, mu * (1 + (mu / sigma) ** 2)


def log_density(x: Array, alpha: Array, beta: Array) -> Array:
    """Log density of each number."""
    return np.asarray(alpha * np.log(beta) - special.gammaln(alpha) - (alpha + 1) * np.log(x) - beta / x)


def slopes(x: Array, alpha: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return -(alpha + 1) / x + beta / x**2, np.log(beta) - special.digamma(alpha) - np.log(x), alpha / beta - 1 / x


def fused(x: float, alpha: float, beta: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (alpha > 0.0 and beta > 0.0 and x > 0.0):
        return -math.inf, 0.0, 0.0, 0.0
    log_gamma, digamma = gamma_pair(alpha)
    log_x, log_beta, inverse = log(x), log(beta), 1.0 / x
    value = alpha * log_beta - log_gamma - (alpha + 1.0) * log_x - beta * inverse
    by_x = (beta * inverse - (alpha + 1.0)) * inverse
    return value, by_x, log_beta - digamma - log_x, alpha / beta - inverse


def log_cumulative(x: float, alpha: float, beta: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not 0.0 < x < math.inf:
        return (0.0 if x > 0.0 else -math.inf), 0.0, 0.0, 0.0
    value, by_alpha, slope = gamma_tail(alpha, beta / x, True)
    return value, -slope * beta / (x * x), by_alpha, slope / x


def log_survival(x: float, alpha: float, beta: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not 0.0 < x < math.inf:
        return (-math.inf if x > 0.0 else 0.0), 0.0, 0.0, 0.0
    value, by_alpha, slope = gamma_tail(alpha, beta / x, False)
    return value, -slope * beta / (x * x), by_alpha, slope / x


def draw(rng: np.random.Generator, size: tuple[int, ...], alpha: Array, beta: Array) -> Array:
    """Independent draws."""
    return 1 / rng.gamma(alpha, 1 / beta, size)


def moments(alpha: Array, beta: Array) -> Values:
    """Mean and variance."""
    with np.errstate(all="ignore"):
        mean = np.where(alpha > 1, beta / (alpha - 1), np.inf)
        return mean, np.where(alpha > 2, beta**2 / ((alpha - 1) ** 2 * (alpha - 2)), np.inf)


def _counts(x: Array, alpha: Array) -> tuple[Array, Array]:
    """Contribution of each item to the posterior parameters of beta."""
    return alpha, 1 / x


def _rest(x: Array, alpha: Array) -> Array:
    """The part of the log density without beta."""
    return -(alpha + 1) * np.log(x) - special.gammaln(alpha)


CONJUGATE = Conjugate("beta", "Gamma", _counts, _rest)
