"""Ex-Gaussian: the sum of a normal and an exponential variable, used for reaction times.

Density exp((mu - x) / nu + sigma² / (2 nu²)) Φ((x - mu) / sigma - sigma / nu) / nu. Rigby, Stasinopoulos (2005),
Applied Statistics 54, 507-554.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import UNIT, driven

DECLARATION = declared(
    "ExGaussian",
    "mu sigma nu",
    "sigma nu",
    response=driven(
        "mean of the normal part", "location", "ExGaussian({mu}, sigma, nu)", working="identity", sigma=UNIT, nu=UNIT
    ),
)


def canonical(mu: Array = 0.0, sigma: Array = 1.0, nu: Array = 1.0) -> Values:
    """The parameters of :func:`log_density`."""
    return mu, sigma, nu


def log_density(x: Array, mu: Array, sigma: Array, nu: Array) -> Array:
    """Log density of each number."""
    z, ratio = (x - mu) / sigma, sigma / nu
    return np.asarray(-np.log(nu) - z * ratio + 0.5 * ratio**2 + log_ndtr(z - ratio))


def slopes(x: Array, mu: Array, sigma: Array, nu: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z, ratio = (x - mu) / sigma, sigma / nu
    hazard = np.exp(-0.5 * (z - ratio) ** 2 - HALF_LOG_2PI - log_ndtr(z - ratio))
    by_z, by_ratio = hazard - ratio, ratio - z - hazard
    return by_z / sigma, -by_z / sigma, (ratio * by_ratio - z * by_z) / sigma, -(1 + ratio * by_ratio) / nu


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, sigma: Array, nu: Array) -> Array:
    """Independent draws."""
    return np.asarray(rng.normal(mu, sigma, size) + rng.exponential(nu, size))


def moments(mu: Array, sigma: Array, nu: Array) -> Values:
    """Mean and variance."""
    return mu + nu, sigma**2 + nu**2
