"""Negative binomial: Poisson counts whose rate is gamma-distributed with shape alpha.

P(x) = Γ(x + alpha) / (Γ(alpha) x!) · (mu / (mu + alpha))^x (alpha / (mu + alpha))^alpha; ``n`` is alpha, ``p`` is
alpha / (mu + alpha). Johnson, Kemp, Kotz (2005), chapter 5.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.digits import log_rising
from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Form, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.incomplete import beta_tail
from bayeslab.distributions.toolbox.response import SHAPE, driven
from bayeslab.distributions.toolbox.special import gamma_ratio, log, log1p, log_gamma, sigmoid, softplus, whole
from bayeslab.distributions.toolbox.zeros import first_event
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
    choose = log_rising(alpha, x) - special.gammaln(x + 1)
    return np.asarray(choose + special.xlogy(x, mu / (mu + alpha)) - alpha * np.log1p(mu / alpha))


def slopes(x: Array, mu: Array, alpha: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    excess = (x - mu) / (mu + alpha)
    return (
        None,
        alpha * excess / mu,
        special.digamma(x + alpha) - special.digamma(alpha) - np.log1p(mu / alpha) - excess,
    )


def fused(x: float, mu: float, alpha: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (x >= 0.0 and mu >= 0.0 and alpha > 0.0 and whole(x)) or (mu == 0.0 and x > 0.0):
        return -math.inf, 0.0, 0.0, 0.0
    decay = log1p(mu / alpha)
    if x == 0.0:
        share = 1.0 / (mu + alpha)
        return -alpha * decay, 0.0, -alpha * share, mu * share - decay
    rising, digammas, _ = gamma_ratio(alpha, x)
    excess = (x - mu) / (mu + alpha)
    value = rising - log_gamma(x + 1.0) - x * log1p(alpha / mu) - alpha * decay
    return value, 0.0, alpha * excess / mu, digammas - decay - excess


def fused_log(x: float, log_mu: float, alpha: float) -> Fused:
    """The same, by the logarithm of the mean."""
    if not (x >= 0.0 and alpha > 0.0 and whole(x)):
        return -math.inf, 0.0, 0.0, 0.0
    odds = log_mu - log(alpha)
    decay, p = softplus(odds), sigmoid(odds)
    rising, digammas, _ = gamma_ratio(alpha, x)
    value = rising - log_gamma(x + 1.0) - x * softplus(-odds) - alpha * decay
    by_log_mu = x * sigmoid(-odds) - alpha * p
    return value, 0.0, by_log_mu, digammas - decay - by_log_mu / alpha


FORMS = {"log": Form("mu", "exp", fused_log)}


def log_cumulative(x: float, mu: float, alpha: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not 0.0 <= x < math.inf:
        return (0.0 if x > 0.0 else -math.inf), 0.0, 0.0, 0.0
    size = mu + alpha
    value, by_alpha, _, slope = beta_tail(alpha, math.floor(x) + 1.0, alpha / size, mu / size)
    slope /= size * size
    return value, 0.0, -slope * alpha, by_alpha + slope * mu


def log_survival(x: float, mu: float, alpha: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not 0.0 <= x < math.inf:
        return (-math.inf if x > 0.0 else 0.0), 0.0, 0.0, 0.0
    size = mu + alpha
    value, _, by_alpha, slope = beta_tail(math.floor(x) + 1.0, alpha, mu / size, alpha / size)
    slope /= size * size
    return value, 0.0, slope * alpha, by_alpha - slope * mu


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, alpha: Array) -> Array:
    """Independent draws."""
    return rng.poisson(rng.gamma(alpha, mu / alpha, size))


def draw_above_zero(rng: np.random.Generator, size: tuple[int, ...], mu: Array, alpha: Array) -> Array:
    """Independent draws given that they are not 0.

    The number is that of the events of a birth process in which n events make the rate alpha + n. After the first
    event, alpha + 1 takes the place of alpha.
    """
    duration = np.log1p(mu / alpha)
    left = duration - first_event(rng, size, alpha, duration)
    return 1 + rng.poisson(rng.gamma(alpha + 1, np.expm1(left), size))


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
    return log_rising(size, x) - special.gammaln(x + 1)


CONJUGATE = Conjugate("p", "Beta", _counts, _rest)
