"""Pareto: a power law above a minimum, for incomes or sizes of cities.

Density alpha m^alpha / x^(alpha + 1) for x ≥ m. Johnson, Kotz, Balakrishnan (1994), chapter 20.
"""

from __future__ import annotations

import numpy as np

from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import driven

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
