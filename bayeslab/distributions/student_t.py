"""Student's t: a normal scale mixture with heavy tails.

With z = (x - mu) / sigma, density Γ((nu + 1)/2) / (Γ(nu/2) √(π nu) sigma) · (1 + z²/nu)^(-(nu + 1)/2); ``lam`` is
1 / sigma². Johnson, Kotz, Balakrishnan (1995), chapter 28.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma

from bayeslab.digits import log_rising
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared, deviation
from bayeslab.distributions.toolbox.response import DEGREES, UNIT, driven

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
    by_nu = 0.5 * (digamma((nu + 1) / 2) - digamma(nu / 2) - 1 / nu - np.log1p(z**2 / nu) + pull * z / nu)
    return -pull / sigma, by_nu, pull / sigma, (pull * z - 1) / sigma


def draw(rng: np.random.Generator, size: tuple[int, ...], nu: Array, mu: Array, sigma: Array) -> Array:
    """Independent draws."""
    return np.asarray(mu + sigma * rng.standard_t(nu, size))


def moments(nu: Array, mu: Array, sigma: Array) -> Values:
    """Mean and variance."""
    mean = np.where(nu > 1, mu, np.nan)
    with np.errstate(divide="ignore"):
        return mean, np.where(nu > 2, sigma**2 * nu / np.abs(nu - 2), np.where(nu > 1, np.inf, np.nan))
