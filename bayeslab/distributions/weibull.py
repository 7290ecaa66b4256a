"""Weibull: the time to failure, with a hazard that is a power of time.

Density (alpha / beta) (x / beta)^(alpha - 1) exp(-(x / beta)^alpha) for x ≥ 0. Johnson, Kotz, Balakrishnan (1994),
chapter 21.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHAPE, driven
from bayeslab.distributions.toolbox.special import complement, log, power

DECLARATION = declared(
    "Weibull",
    "alpha beta",
    "alpha beta",
    "[0, inf)",
    bounded_by={"low": ("alpha", 1.0)},
    response=driven("scale", "positive", "Weibull(alpha, {mu})", working="identity", alpha=SHAPE),
)


def canonical(alpha: Array, beta: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return alpha, beta


def log_density(x: Array, alpha: Array, beta: Array) -> Array:
    """Log density of each number."""
    return np.asarray(np.log(alpha / beta) + special.xlogy(alpha - 1, x / beta) - (x / beta) ** alpha)


def slopes(x: Array, alpha: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    t = (x / beta) ** alpha
    return (alpha - 1 - alpha * t) / x, 1 / alpha + np.log(x / beta) * (1 - t), alpha / beta * (t - 1)


def fused(x: float, alpha: float, beta: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (alpha > 0.0 and beta > 0.0 and x >= 0.0) or (x == 0.0 and alpha != 1.0):
        return -math.inf, 0.0, 0.0, 0.0
    if x == 0.0:
        return -log(beta), -1.0 / beta, -math.inf, -1.0 / beta
    size = log(x / beta)
    t = power(x / beta, alpha)
    value = log(alpha / beta) + (alpha - 1.0) * size - t
    return value, (alpha - 1.0 - alpha * t) / x, 1.0 / alpha + size * (1.0 - t), alpha / beta * (t - 1.0)


def log_cumulative(x: float, alpha: float, beta: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    above, by_x, by_alpha, by_beta = log_survival(x, alpha, beta)
    value, factor = complement(above)
    return value, factor * by_x, factor * by_alpha, factor * by_beta


def log_survival(x: float, alpha: float, beta: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not 0.0 < x < math.inf:
        return (-math.inf if x > 0.0 else 0.0), 0.0, 0.0, 0.0
    t = power(x / beta, alpha)
    return -t, -alpha * t / x, -t * log(x / beta), alpha * t / beta


def draw(rng: np.random.Generator, size: tuple[int, ...], alpha: Array, beta: Array) -> Array:
    """Independent draws."""
    return np.asarray(beta * rng.weibull(alpha, size))


def moments(alpha: Array, beta: Array) -> Values:
    """Mean and variance."""
    first, second = np.exp(special.gammaln(1 + 1 / alpha)), np.exp(special.gammaln(1 + 2 / alpha))
    return beta * first, beta**2 * (second - first**2)
