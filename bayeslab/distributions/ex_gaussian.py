"""Ex-Gaussian: the sum of a normal and an exponential variable, used for reaction times.

Density exp((mu - x) / nu + sigma² / (2 nu²)) Φ((x - mu) / sigma - sigma / nu) / nu. Rigby, Stasinopoulos (2005),
Applied Statistics 54, 507-554.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.constants import HALF_LOG_2PI, ROOT_HALF
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import UNIT, driven
from bayeslab.distributions.toolbox.special import complement, erfcx, exp, log, log_add, normal_tail

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
    return np.asarray(-np.log(nu) - z * ratio + 0.5 * ratio**2 + special.log_ndtr(z - ratio))


def slopes(x: Array, mu: Array, sigma: Array, nu: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z, ratio = (x - mu) / sigma, sigma / nu
    hazard = np.exp(-0.5 * (z - ratio) ** 2 - HALF_LOG_2PI - special.log_ndtr(z - ratio))
    by_z, by_ratio = hazard - ratio, ratio - z - hazard
    return by_z / sigma, -by_z / sigma, (ratio * by_ratio - z * by_z) / sigma, -(1 + ratio * by_ratio) / nu


def fused(x: float, mu: float, sigma: float, nu: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (sigma > 0.0 and nu > 0.0):
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    rate = 1.0 / sigma
    z, ratio = (x - mu) * rate, sigma / nu
    tail, hazard = normal_tail(z - ratio)
    if z < ratio:
        # Squares of large numbers that cancel are left out.
        value = log(0.5 * erfcx((ratio - z) * ROOT_HALF)) - 0.5 * z * z - log(nu)
    else:
        value = tail + ratio * (0.5 * ratio - z) - log(nu)
    by_z, by_ratio = hazard - ratio, ratio - z - hazard
    return value, by_z * rate, -by_z * rate, (ratio * by_ratio - z * by_z) * rate, -(1.0 + ratio * by_ratio) / nu


def log_cumulative(x: float, mu: float, sigma: float, nu: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not abs(x) < math.inf:
        return (0.0 if x > 0.0 else -math.inf), 0.0, 0.0, 0.0, 0.0
    z, ratio = (x - mu) / sigma, sigma / nu
    share = fused(x, mu, sigma, nu)[0] + log(nu)
    if z < 0.0:
        gap = erfcx(-z * ROOT_HALF) - erfcx((ratio - z) * ROOT_HALF)
        value = log(0.5 * gap) - 0.5 * z * z
    else:
        value = complement(log_add(normal_tail(-z)[0], share))[0]
    return _with_slopes(value, z, ratio, sigma, nu, exp(share - value))


def log_survival(x: float, mu: float, sigma: float, nu: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not abs(x) < math.inf:
        return (0.0 if x < 0.0 else -math.inf), 0.0, 0.0, 0.0, 0.0
    z, ratio = (x - mu) / sigma, sigma / nu
    share = fused(x, mu, sigma, nu)[0] + log(nu)
    value = log_add(normal_tail(-z)[0], share)
    return _with_slopes(value, z, ratio, sigma, nu, -exp(share - value))


def _with_slopes(value: float, z: float, ratio: float, sigma: float, nu: float, share: float) -> Fused:
    """A log probability with its derivatives, ``share`` being nu times the density relative to the probability."""
    hazard = normal_tail(z - ratio)[1]
    by_sigma = share * ratio * (hazard - ratio) / sigma
    return value, share / nu, -share / nu, by_sigma, share * ratio * (ratio - z - hazard) / nu


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, sigma: Array, nu: Array) -> Array:
    """Independent draws."""
    return np.asarray(rng.normal(mu, sigma, size) + rng.exponential(nu, size))


def moments(mu: Array, sigma: Array, nu: Array) -> Values:
    """Mean and variance."""
    return mu + nu, sigma**2 + nu**2
