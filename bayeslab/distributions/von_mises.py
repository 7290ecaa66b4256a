"""Von Mises: angles, in radians from -π to π.

Density exp(kappa cos(x - mu)) / (2π I₀(kappa)). Mardia, Jupp (2000), Directional Statistics, section 3.5.4.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.constants import LOG_2PI
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import CONCENTRATION, driven
from bayeslab.distributions.toolbox.special import bessel_ratio

DECLARATION = declared(
    "VonMises",
    "mu kappa",
    "kappa",
    f"[{-np.pi}, {np.pi}]",
    angles=("mu",),
    response=driven(
        "mean direction", "real", "VonMises({mu}, kappa)", working="angle", tails=False, kappa=CONCENTRATION
    ),
)


def canonical(mu: Array = 0.0, kappa: Array = 1.0) -> Values:
    """The parameters of :func:`log_density`."""
    return mu, kappa


def log_density(x: Array, mu: Array, kappa: Array) -> Array:
    """Log density of each number."""
    return np.asarray(kappa * (np.cos(x - mu) - 1) - np.log(2 * np.pi * special.i0e(kappa)))


def slopes(x: Array, mu: Array, kappa: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    pull = kappa * np.sin(x - mu)
    return -pull, pull, np.cos(x - mu) - special.i1e(kappa) / special.i0e(kappa)


def fused(x: float, mu: float, kappa: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (kappa > 0.0 and -math.pi <= x <= math.pi):
        return -math.inf, 0.0, 0.0, 0.0
    bessel, gap = bessel_ratio(kappa)
    half = math.sin(0.5 * (x - mu))
    fall, pull = 2.0 * half * half, kappa * math.sin(x - mu)
    return -kappa * fall - LOG_2PI - bessel, -pull, pull, gap - fall


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, kappa: Array) -> Array:
    """Independent draws."""
    return rng.vonmises(mu, kappa, size)
