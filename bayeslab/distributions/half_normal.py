"""Half-normal: the absolute deviation of a normal variable from its mean.

Density 2 exp(-x² / (2 sigma²)) / (sigma √(2π)) for x ≥ 0. Johnson, Kotz, Balakrishnan (1994), section 13.10.
"""

from __future__ import annotations

import numpy as np

from bayeslab.constants import HALF_LOG_2PI, LOG_2
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared, deviation
from bayeslab.distributions.toolbox.response import driven

DECLARATION = declared(
    "HalfNormal",
    "sigma tau",
    "sigma tau",
    "[0, inf)",
    response=driven("scale", "positive", "HalfNormal({mu})", working="identity"),
)


def canonical(sigma: Array | None = None, tau: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    return (deviation(sigma, tau),)


def log_density(x: Array, sigma: Array) -> Array:
    """Log density of each number."""
    return LOG_2 - 0.5 * (x / sigma) ** 2 - np.log(sigma) - HALF_LOG_2PI


def slopes(x: Array, sigma: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return -x / sigma**2, ((x / sigma) ** 2 - 1) / sigma


def draw(rng: np.random.Generator, size: tuple[int, ...], sigma: Array) -> Array:
    """Independent draws."""
    return np.abs(rng.normal(0.0, sigma, size))


def moments(sigma: Array) -> Values:
    """Mean and variance."""
    return sigma * np.sqrt(2 / np.pi), sigma**2 * (1 - 2 / np.pi)
