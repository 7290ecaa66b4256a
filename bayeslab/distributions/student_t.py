"""Student's t: a normal scale mixture with heavy tails.

With z = (x - mu) / sigma, density Γ((nu + 1)/2) / (Γ(nu/2) √(π nu) sigma) · (1 + z²/nu)^(-(nu + 1)/2); ``lam`` is
1 / sigma². Johnson, Kotz, Balakrishnan (1995), chapter 28.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.constants import LOG_2, LOG_PI
from bayeslab.digits import log_rising
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared, deviation
from bayeslab.distributions.toolbox.incomplete import beta_tail
from bayeslab.distributions.toolbox.response import DEGREES, UNIT, driven
from bayeslab.distributions.toolbox.special import complement, exp, gamma_ratio, log, log1p

DECLARATION = declared(
    "StudentT",
    "nu mu sigma lam",
    "nu sigma lam",
    positional=3,
    response=driven("location", "location", "StudentT(nu, {mu}, sigma)", working="identity", sigma=UNIT, nu=DEGREES),
)


def canonical(nu: Array, mu: Array = 0.0, sigma: Array | None = None, lam: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    return nu, mu, deviation(sigma, lam, "lam")


def log_density(x: Array, nu: Array, mu: Array, sigma: Array) -> Array:
    """Log density of each number."""
    constant = log_rising(nu / 2, 0.5) - 0.5 * np.log(nu * np.pi) - np.log(sigma)
    return np.asarray(constant - (nu + 1) / 2 * np.log1p(((x - mu) / sigma) ** 2 / nu))


def slopes(x: Array, nu: Array, mu: Array, sigma: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = (x - mu) / sigma
    pull = (nu + 1) * z / (nu + z**2)
    by_nu = 0.5 * (
        special.digamma((nu + 1) / 2) - special.digamma(nu / 2) - 1 / nu - np.log1p(z**2 / nu) + pull * z / nu
    )
    return -pull / sigma, by_nu, pull / sigma, (pull * z - 1) / sigma


def fused(x: float, nu: float, mu: float, sigma: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (nu > 0.0 and sigma > 0.0):
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    ratio, digammas, _ = gamma_ratio(0.5 * nu, 0.5)
    rate, share = 1.0 / sigma, 1.0 / nu
    z = (x - mu) * rate
    u = z * z * share
    decay = log1p(u)
    pull = (nu + 1.0) * share * z / (1.0 + u)
    by_nu = 0.5 * (digammas - share - decay + pull * z * share)
    value = ratio - 0.5 * (log(nu) + LOG_PI) - log(sigma) - 0.5 * (nu + 1.0) * decay
    return value, -pull * rate, by_nu, pull * rate, (pull * z - 1.0) * rate


def log_cumulative(x: float, nu: float, mu: float, sigma: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    value, slope, by_nu, z = _tail((x - mu) / sigma, nu)
    return value, slope / sigma, by_nu, -slope / sigma, -slope * z / sigma


def log_survival(x: float, nu: float, mu: float, sigma: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    value, slope, by_nu, z = _tail((mu - x) / sigma, nu)
    return value, -slope / sigma, by_nu, slope / sigma, -slope * z / sigma


def _tail(z: float, nu: float) -> tuple[float, float, float, float]:
    """Log of the cumulative probability at mu = 0, sigma = 1, its derivatives by z and nu, and z."""
    if not abs(z) < math.inf:
        return (0.0 if z > 0.0 else -math.inf), 0.0, 0.0, 0.0
    square = z * z
    size = nu + square
    outer, by_shape, _, by_outer = beta_tail(0.5 * nu, 0.5, nu / size, square / size)
    by_nu = 0.5 * by_shape + by_outer * square / (size * size)
    value = outer - LOG_2
    if z > 0.0:
        value, factor = complement(value)
        by_nu *= factor
    return value, exp(fused(z, nu, 0.0, 1.0)[0] - value), by_nu, z


def draw(rng: np.random.Generator, size: tuple[int, ...], nu: Array, mu: Array, sigma: Array) -> Array:
    """Independent draws."""
    return np.asarray(mu + sigma * rng.standard_t(nu, size))


def moments(nu: Array, mu: Array, sigma: Array) -> Values:
    """Mean and variance."""
    mean = np.where(nu > 1, mu, np.nan)
    with np.errstate(divide="ignore"):
        return mean, np.where(nu > 2, sigma**2 * nu / np.abs(nu - 2), np.where(nu > 1, np.inf, np.nan))
