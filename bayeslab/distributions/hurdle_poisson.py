"""Hurdle Poisson: 0 with probability 1 - psi, otherwise Poisson given that it is not 0.

Mullahy (1986), Journal of Econometrics 33, 341-365.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions import poisson
from bayeslab.distributions.poisson import fused as fused_poisson
from bayeslab.distributions.toolbox import zeros
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHARE, driven
from bayeslab.distributions.toolbox.special import expm1, log1mexp
from bayeslab.distributions.toolbox.zeros import fused_share

DECLARATION = declared(
    "HurdlePoisson",
    "psi mu",
    values="[0, inf)",
    discrete=True,
    psi="[0, 1]",
    mu="[0, inf)",
    response=driven(
        "mean before zeros are cut off",
        "positive",
        "HurdlePoisson(psi, {mu})",
        working="identity",
        positive_part=True,
        psi=SHARE,
    ),
)


def canonical(psi: Array, mu: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return psi, mu


def log_density(x: Array, psi: Array, mu: Array) -> Array:
    """Log density of each number."""
    return zeros.hurdle(poisson, x, psi, (mu,))


def slopes(x: Array, psi: Array, mu: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return zeros.hurdle_slopes(poisson, x, psi, (mu,))


def fused(x: float, psi: float, mu: float) -> Fused:
    """Log density of one number, and its derivatives."""
    share, by_psi = fused_share(x, psi)
    value, _, by_mu = fused_poisson(x, mu)
    if value == -math.inf or share == -math.inf:
        return -math.inf, 0.0, 0.0, 0.0
    if x == 0.0:
        return share, 0.0, by_psi, 0.0
    return share + value - log1mexp(-mu), 0.0, by_psi, by_mu - 1.0 / expm1(mu)


def draw(rng: np.random.Generator, size: tuple[int, ...], psi: Array, mu: Array) -> Array:
    """Independent draws."""
    return zeros.draw_hurdle(poisson, rng, size, psi, (mu,))


def moments(psi: Array, mu: Array) -> Values:
    """Mean and variance."""
    return zeros.hurdle_moments(poisson, psi, (mu,))
