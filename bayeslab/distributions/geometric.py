"""Geometric: the number of trials up to and including the first success.

P(x) = p (1 - p)^(x - 1) for x = 1, 2, .... Johnson, Kemp, Kotz (2005), section 5.2.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Form, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import driven
from bayeslab.distributions.toolbox.special import complement, log, log1p, sigmoid, softplus, whole

DECLARATION = declared(
    "Geometric",
    "p",
    values="[1, inf)",
    discrete=True,
    p="(0, 1]",
    response=driven("probability", "probability", "Geometric({mu})"),
)


def canonical(p: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return (p,)


def log_density(x: Array, p: Array) -> Array:
    """Log density of each number."""
    return np.asarray(np.log(p) + special.xlog1py(x - 1, -p))


def slopes(x: Array, p: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return None, 1 / p - (x - 1) / (1 - p)


def fused(x: float, p: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (x >= 1.0 and 0.0 < p <= 1.0 and whole(x)) or (p == 1.0 and x > 1.0):
        return -math.inf, 0.0, 0.0
    if x == 1.0:
        return log(p), 0.0, 1.0 / p
    return log(p) + (x - 1.0) * log1p(-p), 0.0, 1.0 / p - (x - 1.0) / (1.0 - p)


def fused_logit(x: float, logit_p: float) -> Fused:
    """The same, by the log odds."""
    if not (x >= 1.0 and whole(x)):
        return -math.inf, 0.0, 0.0
    value = -softplus(-logit_p) - (x - 1.0) * softplus(logit_p)
    return value, 0.0, sigmoid(-logit_p) - (x - 1.0) * sigmoid(logit_p)


FORMS = {"logit": Form("p", "sigmoid", fused_logit)}


def log_cumulative(x: float, p: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    above, _, by_p = log_survival(x, p)
    value, factor = complement(above)
    return value, 0.0, factor * by_p


def log_survival(x: float, p: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not 1.0 <= x < math.inf or p == 1.0:
        return (-math.inf if x >= 1.0 else 0.0), 0.0, 0.0
    k = math.floor(x)
    return k * log1p(-p), 0.0, -k / (1.0 - p)


def draw(rng: np.random.Generator, size: tuple[int, ...], p: Array) -> Array:
    """Independent draws."""
    return rng.geometric(p, size)


def moments(p: Array) -> Values:
    """Mean and variance."""
    return 1 / p, (1 - p) / p**2


def _counts(x: Array) -> tuple[Array, Array]:
    """Contribution of each item to the posterior parameters of p."""
    return np.ones(np.shape(x)), x - 1


def _rest(x: Array) -> Array:
    """The part of the log density without p."""
    return 0.0


CONJUGATE = Conjugate("p", "Beta", _counts, _rest)
