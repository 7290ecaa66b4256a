"""Asymmetric Laplace: exponential tails of different lengths; mu is its quantile ``q``, as in quantile regression.

Density b / (kappa + 1/kappa) · exp(-b kappa (x - mu)) right of mu, exp(b (x - mu) / kappa) left of it;
kappa² = q / (1 - q). Kotz, Kozubowski, Podgórski (2001), The Laplace Distribution and Generalizations, chapter 3.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHARE, driven
from bayeslab.distributions.toolbox.special import log
from bayeslab.errors import ModelError

DECLARATION = declared(
    "AsymmetricLaplace",
    "kappa mu b q",
    "b kappa",
    q="(0, 1)",
    response=driven(
        "quantile q",
        "location",
        "AsymmetricLaplace(mu={mu}, b=rate, q=q)",
        working="identity",
        tails=False,
        rate="InverseGamma(1, {rate})",
        q=SHARE,
    ),
)


def canonical(
    kappa: Array | None = None, mu: Array | None = None, b: Array | None = None, q: Array | None = None
) -> Values:
    """The parameters of :func:`log_density`."""
    if mu is None or b is None:
        raise ModelError("needs mu and b", code="wrong-arguments")
    if kappa is not None and q is None:
        return kappa, mu, b
    if q is None or kappa is not None:
        raise ModelError("takes one of kappa and q", code="wrong-arguments")
    return np.sqrt(q / (1 - q)), mu, b


def log_density(x: Array, kappa: Array, mu: Array, b: Array) -> Array:
    """Log density of each number."""
    z = x - mu
    return np.log(b) - np.log(kappa + 1 / kappa) - b * np.where(z >= 0, kappa * z, -z / kappa)


def slopes(x: Array, kappa: Array, mu: Array, b: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = x - mu
    late = z >= 0
    steep = np.where(late, -b * kappa, b / kappa)
    by_kappa = -(1 - kappa**-2) / (kappa + 1 / kappa) - b * np.where(late, z, z / kappa**2)
    return steep, by_kappa, -steep, 1 / b + np.where(late, -kappa * z, z / kappa)


def fused(x: float, kappa: float, mu: float, b: float) -> Fused:
    """Log density of one number, and its derivatives; at the peak those from above."""
    if not (kappa > 0.0 and b > 0.0):
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    inverse, z = 1.0 / kappa, x - mu
    late = z >= 0.0
    rate = kappa if late else -inverse
    by_kappa = (inverse * inverse - 1.0) / (kappa + inverse) - b * z * (1.0 if late else inverse * inverse)
    value = log(b) - log(kappa + inverse) - b * rate * z
    return value, -b * rate, by_kappa, b * rate, 1.0 / b - rate * z


def draw(rng: np.random.Generator, size: tuple[int, ...], kappa: Array, mu: Array, b: Array) -> Array:
    """Independent draws."""
    return np.asarray(mu + rng.exponential(1 / (b * kappa), size) - rng.exponential(kappa / b, size))


def moments(kappa: Array, mu: Array, b: Array) -> Values:
    """Mean and variance."""
    return mu + (1 - kappa**2) / (b * kappa), (1 + kappa**4) / (b * kappa) ** 2
