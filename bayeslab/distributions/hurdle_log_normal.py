"""Hurdle log-normal: 0 with probability 1 - psi, otherwise log-normal.

Cragg (1971), Econometrica 39, 829-844.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions import log_normal
from bayeslab.distributions.log_normal import fused as fused_log_normal
from bayeslab.distributions.toolbox import zeros
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHARE, UNIT, driven
from bayeslab.distributions.toolbox.zeros import fused_share

DECLARATION = declared(
    "HurdleLogNormal",
    "psi mu sigma tau",
    "sigma tau",
    "[0, inf)",
    atoms=("0",),
    psi="[0, 1]",
    response=driven(
        "mean of the logarithm of what is not 0",
        "real",
        "HurdleLogNormal(psi, {mu}, sigma)",
        working="log",
        positive_part=True,
        psi=SHARE,
        sigma=UNIT,
    ),
)


def canonical(psi: Array, mu: Array = 0.0, sigma: Array | None = None, tau: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    return psi, *log_normal.canonical(mu, sigma, tau)


def log_density(x: Array, psi: Array, mu: Array, sigma: Array) -> Array:
    """Log density of each number."""
    return zeros.positive_hurdle(log_normal, x, psi, (mu, sigma))


def slopes(x: Array, psi: Array, mu: Array, sigma: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return zeros.positive_hurdle_slopes(log_normal, x, psi, (mu, sigma))


def fused(x: float, psi: float, mu: float, sigma: float) -> Fused:
    """Log density of one number, and its derivatives; at 0 that by x is 0."""
    if not (sigma > 0.0 and x >= 0.0):
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    share, by_psi = fused_share(x, psi)
    if x == 0.0 or share == -math.inf:
        return share, 0.0, by_psi, 0.0, 0.0
    value, by_x, by_mu, by_sigma = fused_log_normal(x, mu, sigma)
    return share + value, by_x, by_psi, by_mu, by_sigma


def draw(rng: np.random.Generator, size: tuple[int, ...], psi: Array, mu: Array, sigma: Array) -> Array:
    """Independent draws."""
    return zeros.draw_positive_hurdle(log_normal, rng, size, psi, (mu, sigma))


def moments(psi: Array, mu: Array, sigma: Array) -> Values:
    """Mean and variance."""
    return zeros.inflated_moments(log_normal, psi, (mu, sigma))
