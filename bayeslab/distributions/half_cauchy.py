"""Half-Cauchy: the absolute value of a Cauchy variable; a weak prior for scales.

With z = x / beta, density 2 / (π beta (1 + z²)) for x ≥ 0. Polson, Scott (2012), Bayesian Analysis 7, 887-902.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.constants import LOG_2, LOG_PI
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import driven
from bayeslab.distributions.toolbox.special import log, log1p

DECLARATION = declared(
    "HalfCauchy",
    "beta",
    "beta",
    "[0, inf)",
    response=driven("scale", "positive", "HalfCauchy({mu})", working="identity"),
)


def canonical(beta: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return (beta,)


def log_density(x: Array, beta: Array) -> Array:
    """Log density of each number."""
    return LOG_2 - np.log(np.pi * beta) - np.log1p((x / beta) ** 2)


def slopes(x: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = x / beta
    pull = 2 * z / (1 + z**2)
    return -pull / beta, (pull * z - 1) / beta


def fused(x: float, beta: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (beta > 0.0 and x >= 0.0):
        return -math.inf, 0.0, 0.0
    rate = 1.0 / beta
    z = x * rate
    pull = 2.0 * z / (1.0 + z * z)
    return LOG_2 - LOG_PI - log(beta) - log1p(z * z), -pull * rate, (pull * z - 1.0) * rate


def log_cumulative(x: float, beta: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not 0.0 < x < math.inf:
        return (0.0 if x > 0.0 else -math.inf), 0.0, 0.0
    z = x / beta
    angle = math.atan(z)
    slope = 1.0 / ((1.0 + z * z) * angle * beta)
    return log(angle) + LOG_2 - LOG_PI, slope, -slope * z


def log_survival(x: float, beta: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not 0.0 < x < math.inf:
        return (-math.inf if x > 0.0 else 0.0), 0.0, 0.0
    z = x / beta
    angle = math.atan2(1.0, z)
    slope = -1.0 / ((1.0 + z * z) * angle * beta)
    return log(angle) + LOG_2 - LOG_PI, slope, -slope * z


def draw(rng: np.random.Generator, size: tuple[int, ...], beta: Array) -> Array:
    """Independent draws."""
    return np.asarray(beta * np.abs(rng.standard_cauchy(size)))
