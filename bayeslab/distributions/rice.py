"""Rice: the length of a vector with two independent normal components.

Density x / sigma² · exp(-(x² + nu²) / (2 sigma²)) I₀(x nu / sigma²) for x > 0; ``b`` is nu / sigma. Rice (1945), Bell
System Technical Journal 24, 46-156.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import UNIT, driven
from bayeslab.distributions.toolbox.special import bessel_ratio, log
from bayeslab.errors import ModelError

DECLARATION = declared(
    "Rice",
    "nu sigma b",
    "sigma",
    "(0, inf)",
    b="[0, inf)",
    nu="[0, inf)",
    response=driven(
        "distance of the centre", "positive", "Rice(nu={mu}, sigma=sigma)", working="identity", tails=False, sigma=UNIT
    ),
)


def canonical(nu: Array | None = None, sigma: Array | None = None, b: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    if nu is not None and b is not None:
        raise ModelError("takes nu or b, not both", code="conflict")
    scale = 1.0 if sigma is None else sigma
    return (nu if nu is not None else scale * (1.0 if b is None else b)), scale


def log_density(x: Array, nu: Array, sigma: Array) -> Array:
    """Log density of each number."""
    z, shift = x / sigma, nu / sigma
    return np.asarray(np.log(z / sigma) - 0.5 * (z - shift) ** 2 + np.log(special.i0e(z * shift)))


def slopes(x: Array, nu: Array, sigma: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z, shift = x / sigma, nu / sigma
    ratio = special.i1e(z * shift) / special.i0e(z * shift)
    by_z, by_shift = 1 / z - z + ratio * shift, ratio * z - shift
    return by_z / sigma, by_shift / sigma, -(1 + z * by_z + shift * by_shift) / sigma


def fused(x: float, nu: float, sigma: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (x > 0.0 and nu >= 0.0 and sigma > 0.0):
        return -math.inf, 0.0, 0.0, 0.0
    rate = 1.0 / sigma
    z, shift = x * rate, nu * rate
    bessel, gap = bessel_ratio(z * shift)
    by_z, by_shift = 1.0 / z - (z - shift) - gap * shift, z - shift - gap * z
    value = log(z * rate) - 0.5 * (z - shift) * (z - shift) + bessel
    return value, by_z * rate, by_shift * rate, -(1.0 + z * by_z + shift * by_shift) * rate


def draw(rng: np.random.Generator, size: tuple[int, ...], nu: Array, sigma: Array) -> Array:
    """Independent draws."""
    return np.asarray(np.hypot(nu + sigma * rng.normal(size=size), sigma * rng.normal(size=size)))
