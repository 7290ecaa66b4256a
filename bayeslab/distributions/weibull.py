"""Weibull: the time to failure, with a hazard that is a power of time.

Density (alpha / beta) (x / beta)^(alpha - 1) exp(-(x / beta)^alpha) for x ≥ 0. Johnson, Kotz, Balakrishnan (1994),
chapter 21.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlogy

from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHAPE, driven

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
    return np.asarray(np.log(alpha / beta) + xlogy(alpha - 1, x / beta) - (x / beta) ** alpha)


def slopes(x: Array, alpha: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    t = (x / beta) ** alpha
    return (alpha - 1 - alpha * t) / x, 1 / alpha + np.log(x / beta) * (1 - t), alpha / beta * (t - 1)


def draw(rng: np.random.Generator, size: tuple[int, ...], alpha: Array, beta: Array) -> Array:
    """Independent draws."""
    return np.asarray(beta * rng.weibull(alpha, size))


def moments(alpha: Array, beta: Array) -> Values:
    """Mean and variance."""
    first, second = np.exp(gammaln(1 + 1 / alpha)), np.exp(gammaln(1 + 2 / alpha))
    return beta * first, beta**2 * (second - first**2)
