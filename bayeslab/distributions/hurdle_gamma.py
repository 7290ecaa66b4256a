"""Hurdle gamma: 0 with probability 1 - psi, otherwise gamma-distributed.

Mullahy (1986), Journal of Econometrics 33, 341-365.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions import gamma
from bayeslab.distributions.gamma import fused as fused_gamma
from bayeslab.distributions.toolbox import zeros
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHAPE, SHARE, driven
from bayeslab.distributions.toolbox.zeros import fused_share

DECLARATION = declared(
    "HurdleGamma",
    "psi alpha beta mu sigma",
    "alpha beta mu sigma",
    "[0, inf)",
    atoms=("0",),
    psi="[0, 1]",
    response=driven(
        "mean of what is not 0",
        "positive",
        "HurdleGamma(psi, alpha, alpha / {mu})",
        working="identity",
        positive_part=True,
        psi=SHARE,
        alpha=SHAPE,
    ),
)


def canonical(
    psi: Array,
    alpha: Array | None = None,
    beta: Array | None = None,
    mu: Array | None = None,
    sigma: Array | None = None,
) -> Values:
    """The parameters of :func:`log_density`."""
    return psi, *gamma.canonical(alpha, beta, mu, sigma)


def log_density(x: Array, psi: Array, alpha: Array, beta: Array) -> Array:
    """Log density of each number."""
    return zeros.positive_hurdle(gamma, x, psi, (alpha, beta))


def slopes(x: Array, psi: Array, alpha: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return zeros.positive_hurdle_slopes(gamma, x, psi, (alpha, beta))


def fused(x: float, psi: float, alpha: float, beta: float) -> Fused:
    """Log density of one number, and its derivatives; at 0 that by x is 0."""
    if not (alpha > 0.0 and beta > 0.0 and x >= 0.0):
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    share, by_psi = fused_share(x, psi)
    if x == 0.0 or share == -math.inf:
        return share, 0.0, by_psi, 0.0, 0.0
    value, by_x, by_alpha, by_beta = fused_gamma(x, alpha, beta)
    return share + value, by_x, by_psi, by_alpha, by_beta


def draw(rng: np.random.Generator, size: tuple[int, ...], psi: Array, alpha: Array, beta: Array) -> Array:
    """Independent draws."""
    return zeros.draw_positive_hurdle(gamma, rng, size, psi, (alpha, beta))


def moments(psi: Array, alpha: Array, beta: Array) -> Values:
    """Mean and variance."""
    return zeros.inflated_moments(gamma, psi, (alpha, beta))
