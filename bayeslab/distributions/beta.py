"""Beta: shares and probabilities.

Density x^(alpha - 1) (1 - x)^(beta - 1) / B(alpha, beta) for 0 ≤ x ≤ 1; mean mu = alpha / (alpha + beta), size
nu = alpha + beta, standard deviation sigma. Johnson, Kotz, Balakrishnan (1995), chapter 25.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.contract import Array, Form, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.incomplete import beta_tail
from bayeslab.distributions.toolbox.response import SHAPE, driven
from bayeslab.distributions.toolbox.special import log, log1p, log_beta, sigmoid, softplus
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
    return np.asarray(special.xlogy(alpha - 1, x) + special.xlog1py(beta - 1, -x) - special.betaln(alpha, beta))


def slopes(x: Array, alpha: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    both = special.digamma(alpha + beta)
    by_x = (alpha - 1) / x - (beta - 1) / (1 - x)
    return by_x, np.log(x) - special.digamma(alpha) + both, np.log1p(-x) - special.digamma(beta) + both


def fused(x: float, alpha: float, beta: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (alpha > 0.0 and beta > 0.0 and 0.0 <= x <= 1.0):
        return -math.inf, 0.0, 0.0, 0.0
    if (x == 0.0 and alpha != 1.0) or (x == 1.0 and beta != 1.0):
        return -math.inf, 0.0, 0.0, 0.0
    constant, by_alpha, by_beta = log_beta(alpha, beta)
    log_x, log_rest = log(x), log1p(-x)
    value, slope = -constant, 0.0
    if alpha != 1.0:
        value += (alpha - 1.0) * log_x
        slope += (alpha - 1.0) / x
    if beta != 1.0:
        value += (beta - 1.0) * log_rest
        slope -= (beta - 1.0) / (1.0 - x)
    return value, slope, log_x - by_alpha, log_rest - by_beta


def fused_logit(logit_x: float, alpha: float, beta: float) -> Fused:
    """The same, by the log odds of the number."""
    if not (alpha > 0.0 and beta > 0.0):
        return -math.inf, 0.0, 0.0, 0.0
    constant, by_alpha, by_beta = log_beta(alpha, beta)
    log_x, log_rest = -softplus(-logit_x), -softplus(logit_x)
    value = (alpha - 1.0) * log_x + (beta - 1.0) * log_rest - constant
    slope = (alpha - 1.0) * sigmoid(-logit_x) - (beta - 1.0) * sigmoid(logit_x)
    return value, slope, log_x - by_alpha, log_rest - by_beta


FORMS = {"logit": Form("x", "sigmoid", fused_logit)}


def log_cumulative(x: float, alpha: float, beta: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    value, by_alpha, by_beta, by_x = beta_tail(alpha, beta, x, 1.0 - x)
    return value, by_x, by_alpha, by_beta


def log_survival(x: float, alpha: float, beta: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    value, by_beta, by_alpha, by_rest = beta_tail(beta, alpha, 1.0 - x, x)
    return value, -by_rest, by_alpha, by_beta


def draw(rng: np.random.Generator, size: tuple[int, ...], alpha: Array, beta: Array) -> Array:
    """Independent draws."""
    return rng.beta(alpha, beta, size)


def moments(alpha: Array, beta: Array) -> Values:
    """Mean and variance."""
    size = alpha + beta
    return alpha / size, alpha * beta / (size**2 * (size + 1))
