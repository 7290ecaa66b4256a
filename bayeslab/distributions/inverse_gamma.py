"""Inverse gamma: the reciprocal of a gamma variable; the conjugate prior of a normal variance.

Density beta^alpha x^(-alpha - 1) exp(-beta / x) / Γ(alpha) for x > 0. Johnson, Kotz, Balakrishnan (1994), section 17.7.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import UNIT, driven
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
    return np.asarray(alpha * np.log(beta) - gammaln(alpha) - (alpha + 1) * np.log(x) - beta / x)


def slopes(x: Array, alpha: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return -(alpha + 1) / x + beta / x**2, np.log(beta) - digamma(alpha) - np.log(x), alpha / beta - 1 / x


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
    return -(alpha + 1) * np.log(x) - gammaln(alpha)


CONJUGATE = Conjugate("beta", "Gamma", _counts, _rest)
