"""Negative binomial: Poisson counts whose rate is gamma-distributed with shape alpha.

P(x) = Γ(x + alpha) / (Γ(alpha) x!) · (mu / (mu + alpha))^x (alpha / (mu + alpha))^alpha; ``n`` is alpha, ``p`` is
alpha / (mu + alpha). Johnson, Kemp, Kotz (2005), chapter 5.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln, xlogy

from bayeslab.digits import log_rising
from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHAPE, driven
from bayeslab.errors import ModelError

DECLARATION = declared(
    "NegativeBinomial",
    "mu alpha p n",
    "alpha n",
    "[0, inf)",
    discrete=True,
    mu="[0, inf)",
    p="[0, 1]",
    response=driven("mean", "positive", "NegativeBinomial({mu}, alpha)", working="identity", alpha=SHAPE),
)


def canonical(
    mu: Array | None = None, alpha: Array | None = None, p: Array | None = None, n: Array | None = None
) -> Values:
    """The parameters of :func:`log_density`."""
    size = n if alpha is None else alpha
    if size is None or (n is not None and alpha is not None):
        raise ModelError("takes one of alpha and n", code="wrong-arguments")
    if p is not None and mu is None:
        return size * (1 - p) / p, size
    if mu is None or p is not None:
        raise ModelError("takes one of mu and p", code="wrong-arguments")
    return mu, size


def log_density(x: Array, mu: Array, alpha: Array) -> Array:
    """Log density of each number."""
    choose = log_rising(alpha, x) - gammaln(x + 1)
    return np.asarray(choose + xlogy(x, mu / (mu + alpha)) - alpha * np.log1p(mu / alpha))


def slopes(x: Array, mu: Array, alpha: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    excess = (x - mu) / (mu + alpha)
    return None, alpha * excess / mu, digamma(x + alpha) - digamma(alpha) - np.log1p(mu / alpha) - excess


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, alpha: Array) -> Array:
    """Independent draws."""
    return rng.poisson(rng.gamma(alpha, mu / alpha, size))


def moments(mu: Array, alpha: Array) -> Values:
    """Mean and variance."""
    return mu, mu + mu**2 / alpha


def _counts(x: Array, alpha: Array | None = None, n: Array | None = None) -> tuple[Array, Array]:
    """Contribution of each item to the posterior parameters of p."""
    _, size = canonical(0.0, alpha, None, n)
    return size, x


def _rest(x: Array, alpha: Array | None = None, n: Array | None = None) -> Array:
    """The part of the log density without p."""
    _, size = canonical(0.0, alpha, None, n)
    return log_rising(size, x) - gammaln(x + 1)


CONJUGATE = Conjugate("p", "Beta", _counts, _rest)
