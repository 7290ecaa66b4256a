"""Truncated normal: a normal variable restricted to an interval.

Density of the normal over Φ((upper - mu) / sigma) - Φ((lower - mu) / sigma). Johnson, Kotz, Balakrishnan (1994),
section 13.10.1.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.constants import HALF_LOG_2PI, ROOT_2_OVER_PI, ROOT_HALF
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared, deviation
from bayeslab.distributions.toolbox.response import UNIT, driven
from bayeslab.distributions.toolbox.special import erfcx, exp, log, log1p, normal_tail

DECLARATION = declared(
    "TruncatedNormal",
    "mu sigma tau lower upper",
    "sigma tau",
    "[lower, upper]",
    "lower upper",
    positional=2,
    response=driven(
        "location before truncation",
        "location",
        "TruncatedNormal({mu}, sigma)",
        working="identity",
        optional="lower upper",
        sigma=UNIT,
    ),
)


def canonical(
    mu: Array = 0.0, sigma: Array | None = None, tau: Array | None = None, lower: Array = -np.inf, upper: Array = np.inf
) -> Values:
    """The parameters of :func:`log_density`."""
    return mu, deviation(sigma, tau), lower, upper


def log_density(x: Array, mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
    """Log density of each number."""
    z = (x - mu) / sigma
    return -0.5 * z**2 - np.log(sigma) - HALF_LOG_2PI - _log_mass((lower - mu) / sigma, (upper - mu) / sigma)


def slopes(x: Array, mu: Array, sigma: Array, lower: Array, upper: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z, a, b = (x - mu) / sigma, (lower - mu) / sigma, (upper - mu) / sigma
    at_a, at_b = _heights(a, b)
    by_sigma = z**2 - 1 + _times(b, at_b) - _times(a, at_a)
    return -z / sigma, (z + at_b - at_a) / sigma, by_sigma / sigma, at_a / sigma, -at_b / sigma


def fused(x: float, mu: float, sigma: float, lower: float, upper: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (sigma > 0.0 and lower <= x <= upper and lower < upper):
        return -math.inf, 0.0, 0.0, 0.0, 0.0, 0.0
    rate = 1.0 / sigma
    z, first, last = (x - mu) * rate, (lower - mu) * rate, (upper - mu) * rate
    # All in the left tail, or around 0: a < b.
    turned = first > 0.0
    a, b, at = (-last if turned else first), (-first if turned else last), (-z if turned else z)
    inner, outer, share = 0.0, 0.0, 0.0
    if b < 0.0:
        scaled = erfcx(-b * ROOT_HALF)
        inner = ROOT_2_OVER_PI / scaled
        # Squares of large numbers that cancel are left out.
        peak = 0.5 * (b - at) * (b + at) - log(0.5 * scaled)
        if a > -math.inf:
            fall = exp(0.5 * (b - a) * (b + a))
            share, outer = erfcx(-a * ROOT_HALF) / scaled * fall, inner * fall
    else:
        mass, inner = normal_tail(b)
        peak = -0.5 * at * at - mass
        if a > -math.inf:
            share = exp(normal_tail(a)[0] - mass)
            outer = exp(-0.5 * a * a - HALF_LOG_2PI - mass)
    kept = 1.0 / (1.0 - share)
    inner, outer = inner * kept, outer * kept
    value = peak - HALF_LOG_2PI - log(sigma) - log1p(-share)
    at_first, at_last = inner if turned else outer, outer if turned else inner
    spread = z * z - 1.0
    if last < math.inf:
        spread += last * at_last
    if first > -math.inf:
        spread -= first * at_first
    return value, -z * rate, (z + at_last - at_first) * rate, spread * rate, at_first * rate, -at_last * rate


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, sigma: Array, lower: Array, upper: Array) -> Array:
    """Independent draws."""
    a, b = np.broadcast_arrays((lower - mu) / sigma, (upper - mu) / sigma)
    right = a > 0
    a, b = np.where(right, -b, a), np.where(right, -a, b)
    u, top = rng.random(size), special.log_ndtr(b)
    z = special.ndtri_exp(top + np.log(u + (1 - u) * np.exp(special.log_ndtr(a) - top)))
    return np.asarray(np.clip(mu + sigma * np.where(right, -z, z), lower, upper))


def moments(mu: Array, sigma: Array, lower: Array, upper: Array) -> Values:
    """Mean and variance."""
    a, b = (lower - mu) / sigma, (upper - mu) / sigma
    at_a, at_b = _heights(a, b)
    return mu + sigma * (at_a - at_b), sigma**2 * (1 + _times(a, at_a) - _times(b, at_b) - (at_a - at_b) ** 2)


def _log_mass(a: Array, b: Array) -> Array:
    """Log of Φ(b) - Φ(a), computed in the interval's tail to avoid cancellation."""
    a, b = np.broadcast_arrays(a, b)
    a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    return np.asarray(special.log_ndtr(b) + np.log1p(-np.exp(special.log_ndtr(a) - special.log_ndtr(b))))


def _heights(a: Array, b: Array) -> Values:
    """Density at both ends of the truncated standard normal."""
    mass = _log_mass(a, b)
    return np.exp(-0.5 * a**2 - HALF_LOG_2PI - mass), np.exp(-0.5 * b**2 - HALF_LOG_2PI - mass)


def _times(end: Array, height: Array) -> Array:
    """An end times its density; 0 at infinity."""
    return np.where(np.isfinite(end), np.where(np.isfinite(end), end, 0.0) * height, 0.0)
