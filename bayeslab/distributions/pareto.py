"""Pareto: a power law above a minimum, for incomes or sizes of cities.

Density alpha m^alpha / x^(alpha + 1) for x ≥ m. Johnson, Kotz, Balakrishnan (1994), chapter 20.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import driven
from bayeslab.distributions.toolbox.special import complement, log

DECLARATION = declared(
    "Pareto", "alpha m", "alpha m", "[m, inf)", response=driven("shape", "positive", "Pareto({mu})", needed="m")
)


def canonical(alpha: Array, m: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return alpha, m


def log_density(x: Array, alpha: Array, m: Array) -> Array:
    """Log density of each number."""
    return np.log(alpha) + alpha * np.log(m) - (alpha + 1) * np.log(x)


def slopes(x: Array, alpha: Array, m: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return -(alpha + 1) / x, 1 / alpha + np.log(m / x), alpha / m + 0.0 * x


def fused(x: float, alpha: float, m: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (alpha > 0.0 and m > 0.0 and x >= m):
        return -math.inf, 0.0, 0.0, 0.0
    log_ratio = log(m / x)
    return log(alpha / x) + alpha * log_ratio, -(alpha + 1.0) / x, 1.0 / alpha + log_ratio, alpha / m


def log_cumulative(x: float, alpha: float, m: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    above, by_x, by_alpha, by_m = log_survival(x, alpha, m)
    value, factor = complement(above)
    return value, factor * by_x, factor * by_alpha, factor * by_m


def log_survival(x: float, alpha: float, m: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not m < x < math.inf:
        return (-math.inf if x > m else 0.0), 0.0, 0.0, 0.0
    ratio = log(m / x)
    return alpha * ratio, -alpha / x, ratio, alpha / m


def draw(rng: np.random.Generator, size: tuple[int, ...], alpha: Array, m: Array) -> Array:
    """Independent draws."""
    return np.asarray(m * (1 + rng.pareto(alpha, size)))


def moments(alpha: Array, m: Array) -> Values:
    """Mean and variance."""
    with np.errstate(all="ignore"):
        mean = np.where(alpha > 1, alpha * m / (alpha - 1), np.inf)
        return mean, np.where(alpha > 2, alpha * m**2 / ((alpha - 1) ** 2 * (alpha - 2)), np.inf)


def _counts(x: Array, m: Array) -> tuple[Array, Array]:
    """Contribution of each item to the posterior parameters of alpha."""
    return np.ones(np.shape(x)), np.log(x / m)


def _rest(x: Array, m: Array) -> Array:
    """The part of the log density without alpha."""
    return -np.log(x)


CONJUGATE = Conjugate("alpha", "Gamma", _counts, _rest)
