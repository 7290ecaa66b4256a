"""Skew Student's t: heavy tails of different weights.

With z = (x - mu) / sigma, s = a + b and u = z / √(s + z²), density
(1 + u)^(a + 1/2) (1 - u)^(b + 1/2) / (2^(s - 1) B(a, b) √s sigma). Jones, Faddy (2003), JRSS B 65, 159-174.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.constants import LOG_2
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared, deviation
from bayeslab.distributions.toolbox.incomplete import beta_tail
from bayeslab.distributions.toolbox.response import DEGREES, UNIT, driven
from bayeslab.distributions.toolbox.special import log, log_beta

DECLARATION = declared(
    "SkewStudentT",
    "a b mu sigma lam",
    "a b sigma lam",
    positional=4,
    response=driven(
        "location",
        "location",
        "SkewStudentT(a=shape_a, b=shape_b, mu={mu}, sigma=sigma)",
        working="identity",
        sigma=UNIT,
        shape_a=DEGREES,
        shape_b=DEGREES,
    ),
)


def canonical(a: Array, b: Array, mu: Array = 0.0, sigma: Array | None = None, lam: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    return a, b, mu, deviation(sigma, lam, "lam")


def log_density(x: Array, a: Array, b: Array, mu: Array, sigma: Array) -> Array:
    """Log density of each number."""
    above, below = _sides((x - mu) / sigma, a + b)
    constant = (a + b - 1) * LOG_2 + special.betaln(a, b) + 0.5 * np.log(a + b) + np.log(sigma)
    return np.asarray((a + 0.5) * np.log(above) + (b + 0.5) * np.log(below) - constant)


def slopes(x: Array, a: Array, b: Array, mu: Array, sigma: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z, size = (x - mu) / sigma, a + b
    above, below = _sides(z, size)
    root = np.sqrt(size + z**2)
    by_u = (a + 0.5) / above - (b + 0.5) / below
    by_z = by_u * size / root**3
    common = -by_u * z / (2 * root**3) - LOG_2 + special.digamma(size) - 0.5 / size
    by_a, by_b = np.log(above) + common - special.digamma(a), np.log(below) + common - special.digamma(b)
    return by_z / sigma, by_a, by_b, -by_z / sigma, -(1 + z * by_z) / sigma


def fused(x: float, a: float, b: float, mu: float, sigma: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (a > 0.0 and b > 0.0 and sigma > 0.0):
        return -math.inf, 0.0, 0.0, 0.0, 0.0, 0.0
    rate, size = 1.0 / sigma, a + b
    z = (x - mu) * rate
    root = math.sqrt(size + z * z)
    near = size / (root * (root + abs(z)))
    above, below = 2.0 - near if z > 0.0 else near, near if z > 0.0 else 2.0 - near
    log_above, log_below = log(above), log(below)
    constant, by_first, by_second = log_beta(a, b)
    by_u = (a + 0.5) / above - (b + 0.5) / below
    by_z = by_u * size / (root * root * root)
    common = -0.5 * by_z * z / size - LOG_2 - 0.5 / size
    value = (a + 0.5) * log_above + (b + 0.5) * log_below
    value -= (size - 1.0) * LOG_2 + constant + 0.5 * log(size) + log(sigma)
    by_a, by_b = log_above + common - by_first, log_below + common - by_second
    return value, by_z * rate, by_a, by_b, -by_z * rate, -(1.0 + z * by_z) * rate


def log_cumulative(x: float, a: float, b: float, mu: float, sigma: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not abs(x) < math.inf:
        return (0.0 if x > 0.0 else -math.inf), 0.0, 0.0, 0.0, 0.0, 0.0
    return _tail((x - mu) / sigma, a, b, sigma)


def log_survival(x: float, a: float, b: float, mu: float, sigma: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not abs(x) < math.inf:
        return (0.0 if x < 0.0 else -math.inf), 0.0, 0.0, 0.0, 0.0, 0.0
    value, by_x, by_b, by_a, by_mu, by_sigma = _tail((mu - x) / sigma, b, a, sigma)
    return value, -by_x, by_a, by_b, -by_mu, by_sigma


def _tail(z: float, a: float, b: float, sigma: float) -> Fused:
    """Log of the cumulative probability at z = (x - mu) / sigma, and its derivatives."""
    size = a + b
    root = math.sqrt(size + z * z)
    small = 0.5 * size / (root * (root + abs(z)))
    low, high = (small if z < 0.0 else 1.0 - small), (1.0 - small if z < 0.0 else small)
    value, by_a, by_b, by_low = beta_tail(a, b, low, high)
    cube = root * root * root
    by_size, slope = -0.25 * by_low * z / cube, 0.5 * by_low * size / (cube * sigma)
    return value, slope, by_a + by_size, by_b + by_size, -slope, -slope * z


def draw(rng: np.random.Generator, size: tuple[int, ...], a: Array, b: Array, mu: Array, sigma: Array) -> Array:
    """Independent draws."""
    share = rng.beta(a, b, size)
    return np.asarray(mu + sigma * np.sqrt(a + b) * (2 * share - 1) / (2 * np.sqrt(share * (1 - share))))


def _sides(z: Array, size: Array) -> Values:
    """1 + u and 1 - u to full precision."""
    root = np.sqrt(size + z**2)
    small = size / (root * (root + np.abs(z)))
    return np.where(z > 0, 2 - small, small), np.where(z > 0, small, 2 - small)
