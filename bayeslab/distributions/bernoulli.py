"""Bernoulli: 1 with probability p, else 0.

P(x) = p^x (1 - p)^(1 - x); ``logit_p`` is log(p / (1 - p)).
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Form, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import driven
from bayeslab.distributions.toolbox.special import log, log1p, sigmoid, softplus
from bayeslab.errors import ModelError

DECLARATION = declared(
    "Bernoulli",
    "p logit_p",
    values="[0, 1]",
    discrete=True,
    finite=True,
    p="[0, 1]",
    response=driven("probability", "probability", "Bernoulli({mu})", logits="logit_p"),
)


def canonical(p: Array | None = None, logit_p: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    if (p is None) == (logit_p is None):
        raise ModelError("takes one of p and logit_p", code="wrong-arguments")
    return ((special.expit(logit_p) if p is None else p),)


def log_density(x: Array, p: Array) -> Array:
    """Log density of each number."""
    return np.asarray(special.xlogy(x, p) + special.xlog1py(1 - x, -p))


def slopes(x: Array, p: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return None, x / p - (1 - x) / (1 - p)


def fused(x: float, p: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if x == 1.0 and 0.0 < p <= 1.0:
        return log(p), 0.0, 1.0 / p
    if x == 0.0 and 0.0 <= p < 1.0:
        return log1p(-p), 0.0, -1.0 / (1.0 - p)
    return -math.inf, 0.0, 0.0


def fused_logit(x: float, logit_p: float) -> Fused:
    """The same, by the log odds."""
    if not (x == 0.0 or x == 1.0):
        return -math.inf, 0.0, 0.0
    sign = 1.0 - 2.0 * x
    return -softplus(sign * logit_p), 0.0, -sign * sigmoid(sign * logit_p)


FORMS = {"logit": Form("p", "sigmoid", fused_logit)}


def draw(rng: np.random.Generator, size: tuple[int, ...], p: Array) -> Array:
    """Independent draws."""
    return np.asarray(rng.random(size) < p, dtype=np.int64)


def moments(p: Array) -> Values:
    """Mean and variance."""
    return p, p * (1 - p)


def _counts(x: Array) -> tuple[Array, Array]:
    """Contribution of each item to the posterior parameters of p."""
    return x, 1 - x


def _rest(x: Array) -> Array:
    """The part of the log density without p."""
    return 0.0


CONJUGATE = Conjugate("p", "Beta", _counts, _rest)
