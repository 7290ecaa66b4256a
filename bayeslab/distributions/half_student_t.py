"""Half Student's t: the absolute deviation of a t variable from its centre; a weak prior for scales.

Twice the density of Student's t with mu = 0, for x ≥ 0. Gelman (2006), Bayesian Analysis 1, 515-534.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.constants import LOG_2, LOG_PI
from bayeslab.digits import log_rising
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared, deviation
from bayeslab.distributions.toolbox.response import DEGREES, driven
from bayeslab.distributions.toolbox.special import gamma_ratio, log, log1p

DECLARATION = declared(
    "HalfStudentT",
    "nu sigma lam",
    "nu sigma lam",
    "[0, inf)",
    response=driven("scale", "positive", "HalfStudentT(nu, {mu})", working="identity", tails=False, nu=DEGREES),
)


def canonical(nu: Array, sigma: Array | None = None, lam: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    return nu, deviation(sigma, lam, "lam")


def log_density(x: Array, nu: Array, sigma: Array) -> Array:
    """Log density of each number."""
    constant = log_rising(nu / 2, 0.5) - 0.5 * np.log(nu * np.pi) - np.log(sigma)
    return np.asarray(LOG_2 + constant - (nu + 1) / 2 * np.log1p((x / sigma) ** 2 / nu))


def slopes(x: Array, nu: Array, sigma: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = x / sigma
    pull = (nu + 1) * z / (nu + z**2)
    by_nu = 0.5 * (
        special.digamma((nu + 1) / 2) - special.digamma(nu / 2) - 1 / nu - np.log1p(z**2 / nu) + pull * z / nu
    )
    return -pull / sigma, by_nu, (pull * z - 1) / sigma


def fused(x: float, nu: float, sigma: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (nu > 0.0 and sigma > 0.0 and x >= 0.0):
        return -math.inf, 0.0, 0.0, 0.0
    ratio, digammas, _ = gamma_ratio(0.5 * nu, 0.5)
    rate, share = 1.0 / sigma, 1.0 / nu
    z = x * rate
    u = z * z * share
    decay = log1p(u)
    pull = (nu + 1.0) * share * z / (1.0 + u)
    by_nu = 0.5 * (digammas - share - decay + pull * z * share)
    value = LOG_2 + ratio - 0.5 * (log(nu) + LOG_PI) - log(sigma) - 0.5 * (nu + 1.0) * decay
    return value, -pull * rate, by_nu, (pull * z - 1.0) * rate


def draw(rng: np.random.Generator, size: tuple[int, ...], nu: Array, sigma: Array) -> Array:
    """Independent draws."""
    return np.asarray(sigma * np.abs(rng.standard_t(nu, size)))


def moments(nu: Array, sigma: Array) -> Values:
    """Mean and variance."""
    with np.errstate(all="ignore"):
        ratio = np.exp(log_rising(nu / 2, 0.5))
        mean = np.where(nu > 1, 2 * sigma * np.sqrt(nu / np.pi) * ratio / (nu - 1), np.inf)
        return mean, np.where(nu > 2, sigma**2 * nu / (nu - 2) - mean**2, np.inf)
