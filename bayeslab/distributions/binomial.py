"""Binomial: successes among n trials.

P(x) = C(n, x) p^x (1 - p)^(n - x). Johnson, Kemp, Kotz (2005), Univariate Discrete Distributions, chapter 3.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Form, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.incomplete import beta_tail
from bayeslab.distributions.toolbox.response import driven
from bayeslab.distributions.toolbox.special import choose, log, log1p, sigmoid, softplus, whole
from bayeslab.errors import ModelError

DECLARATION = declared(
    "Binomial",
    "n p logit_p",
    values="[0, n]",
    discrete=True,
    n="[0, inf)",
    p="[0, 1]",
    response=driven("probability", "probability", "Binomial({trials}, {mu})", logits="logit_p"),
)


def canonical(n: Array, p: Array | None = None, logit_p: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    if (p is None) == (logit_p is None):
        raise ModelError("takes one of p and logit_p", code="wrong-arguments")
    return n, (special.expit(logit_p) if p is None else p)


def log_density(x: Array, n: Array, p: Array) -> Array:
    """Log density of each number."""
    choose = special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1)
    return np.asarray(choose + special.xlogy(x, p) + special.xlog1py(n - x, -p))


def slopes(x: Array, n: Array, p: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return None, None, x / p - (n - x) / (1 - p)


def fused(x: float, n: float, p: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (0.0 <= x <= n and 0.0 <= p <= 1.0 and whole(x)):
        return -math.inf, 0.0, 0.0, 0.0
    if (p == 0.0 and x > 0.0) or (p == 1.0 and x < n):
        return -math.inf, 0.0, 0.0, 0.0
    value, slope = choose(n, x), 0.0
    if x > 0.0:
        value += x * log(p)
        slope += x / p
    if x < n:
        value += (n - x) * log1p(-p)
        slope -= (n - x) / (1.0 - p)
    return value, 0.0, 0.0, slope


def fused_logit(x: float, n: float, logit_p: float) -> Fused:
    """The same, by the log odds."""
    if not (0.0 <= x <= n and whole(x)):
        return -math.inf, 0.0, 0.0, 0.0
    value = choose(n, x) - x * softplus(-logit_p) - (n - x) * softplus(logit_p)
    return value, 0.0, 0.0, x * sigmoid(-logit_p) - (n - x) * sigmoid(logit_p)


FORMS = {"logit": Form("p", "sigmoid", fused_logit)}


def log_cumulative(x: float, n: float, p: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not 0.0 <= x < n:
        return (0.0 if x >= n else -math.inf), 0.0, 0.0, 0.0
    k = math.floor(x)
    value, _, _, slope = beta_tail(n - k, k + 1.0, 1.0 - p, p)
    return value, 0.0, 0.0, -slope


def log_survival(x: float, n: float, p: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not 0.0 <= x < n:
        return (-math.inf if x >= n else 0.0), 0.0, 0.0, 0.0
    k = math.floor(x)
    value, _, _, slope = beta_tail(k + 1.0, n - k, p, 1.0 - p)
    return value, 0.0, 0.0, slope


def draw(rng: np.random.Generator, size: tuple[int, ...], n: Array, p: Array) -> Array:
    """Independent draws."""
    return rng.binomial(np.asarray(n, dtype=np.int64), p, size)


def moments(n: Array, p: Array) -> Values:
    """Mean and variance."""
    return n * p, n * p * (1 - p)


def _counts(x: Array, n: Array) -> tuple[Array, Array]:
    """Contribution of each item to the posterior parameters of p."""
    return x, n - x


def _rest(x: Array, n: Array) -> Array:
    """The part of the log density without p."""
    return special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1)


CONJUGATE = Conjugate("p", "Beta", _counts, _rest)
