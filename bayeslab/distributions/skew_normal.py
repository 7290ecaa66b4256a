"""Skew-normal: a normal distribution with skewness.

With z = (x - mu) / sigma, density 2 φ(z) Φ(alpha z) / sigma. Azzalini (1985), Scandinavian Journal of Statistics 12,
171-178.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.constants import HALF_LOG_2PI, LOG_2
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared, deviation
from bayeslab.distributions.toolbox.response import UNIT, driven
from bayeslab.distributions.toolbox.special import log, normal_tail

DECLARATION = declared(
    "SkewNormal",
    "alpha mu sigma tau",
    "sigma tau",
    response=driven(
        "location",
        "location",
        "SkewNormal(alpha=alpha, mu={mu}, sigma=sigma)",
        working="identity",
        tails=False,
        sigma=UNIT,
        alpha="Normal(0, 4)",
    ),
)


def canonical(alpha: Array = 1.0, mu: Array = 0.0, sigma: Array | None = None, tau: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    return alpha, mu, deviation(sigma, tau)


def log_density(x: Array, alpha: Array, mu: Array, sigma: Array) -> Array:
    """Log density of each number."""
    z = (x - mu) / sigma
    return np.asarray(LOG_2 - 0.5 * z**2 - HALF_LOG_2PI - np.log(sigma) + special.log_ndtr(alpha * z))


def slopes(x: Array, alpha: Array, mu: Array, sigma: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = (x - mu) / sigma
    hazard = np.exp(-0.5 * (alpha * z) ** 2 - HALF_LOG_2PI - special.log_ndtr(alpha * z))
    pull = z - alpha * hazard
    return -pull / sigma, z * hazard, pull / sigma, (z * pull - 1) / sigma


def fused(x: float, alpha: float, mu: float, sigma: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not sigma > 0.0:
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    rate = 1.0 / sigma
    z = (x - mu) * rate
    tail, hazard = normal_tail(alpha * z)
    pull = z - alpha * hazard
    value = LOG_2 - HALF_LOG_2PI - log(sigma) - 0.5 * z * z + tail
    return value, -pull * rate, z * hazard, pull * rate, (z * pull - 1.0) * rate


def draw(rng: np.random.Generator, size: tuple[int, ...], alpha: Array, mu: Array, sigma: Array) -> Array:
    """Independent draws."""
    lean = alpha / np.sqrt(1 + alpha**2)
    first, second = rng.normal(size=size), rng.normal(size=size)
    return np.asarray(mu + sigma * (lean * np.abs(first) + np.sqrt(1 - lean**2) * second))


def moments(alpha: Array, mu: Array, sigma: Array) -> Values:
    """Mean and variance."""
    lean = alpha / np.sqrt(1 + alpha**2) * np.sqrt(2 / np.pi)
    return mu + sigma * lean, sigma**2 * (1 - lean**2)
