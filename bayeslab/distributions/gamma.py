"""Gamma: positive numbers; the time until several events.

Density beta^alpha x^(alpha - 1) exp(-beta x) / Γ(alpha) for x ≥ 0; mean mu = alpha / beta, standard deviation
sigma = √alpha / beta. Johnson, Kotz, Balakrishnan (1994), chapter 17.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln, xlogy

from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHAPE, driven
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
    return np.asarray(alpha * np.log(beta) - gammaln(alpha) + xlogy(alpha - 1, x) - beta * x)


def slopes(x: Array, alpha: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return (alpha - 1) / x - beta, np.log(beta) - digamma(alpha) + np.log(x), alpha / beta - x


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
    return xlogy(alpha - 1, x) - gammaln(alpha)


CONJUGATE = Conjugate("beta", "Gamma", _counts, _rest)
