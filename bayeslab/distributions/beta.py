"""Beta: shares and probabilities.

Density x^(alpha - 1) (1 - x)^(beta - 1) / B(alpha, beta) for 0 ≤ x ≤ 1; mean mu = alpha / (alpha + beta), size
nu = alpha + beta, standard deviation sigma. Johnson, Kotz, Balakrishnan (1995), chapter 25.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaln, digamma, xlog1py, xlogy

from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHAPE, driven
from bayeslab.errors import ModelError

DECLARATION = declared(
    "Beta",
    "alpha beta mu sigma nu",
    "alpha beta sigma nu",
    "[0, 1]",
    bounded_by={"low": ("alpha", 1.0), "high": ("beta", 1.0)},
    mu="(0, 1)",
    response=driven("mean", "probability", "Beta(mu={mu}, nu=nu)", nu=SHAPE),
)


def canonical(
    alpha: Array | None = None,
    beta: Array | None = None,
    mu: Array | None = None,
    sigma: Array | None = None,
    nu: Array | None = None,
) -> Values:
    """The parameters of :func:`log_density`."""
    if alpha is not None and beta is not None:
        return alpha, beta
    if mu is None or (sigma is None) == (nu is None):
        raise ModelError("needs alpha and beta, or mu and one of sigma and nu", code="wrong-arguments")
    size = mu * (1 - mu) / sigma**2 - 1 if sigma is not None else nu
    return mu * size, (1 - mu) * size


def log_density(x: Array, alpha: Array, beta: Array) -> Array:
    """Log density of each number."""
    return np.asarray(xlogy(alpha - 1, x) + xlog1py(beta - 1, -x) - betaln(alpha, beta))


def slopes(x: Array, alpha: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    both = digamma(alpha + beta)
    by_x = (alpha - 1) / x - (beta - 1) / (1 - x)
    return by_x, np.log(x) - digamma(alpha) + both, np.log1p(-x) - digamma(beta) + both


def draw(rng: np.random.Generator, size: tuple[int, ...], alpha: Array, beta: Array) -> Array:
    """Independent draws."""
    return rng.beta(alpha, beta, size)


def moments(alpha: Array, beta: Array) -> Values:
    """Mean and variance."""
    size = alpha + beta
    return alpha / size, alpha * beta / (size**2 * (size + 1))
