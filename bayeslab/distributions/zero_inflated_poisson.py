"""Zero-inflated Poisson: Poisson with probability psi, otherwise 0.

Lambert (1992), Technometrics 34, 1-14.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions import poisson
from bayeslab.distributions.poisson import fused as fused_poisson
from bayeslab.distributions.toolbox import zeros
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHARE, driven
from bayeslab.distributions.toolbox.zeros import fused_inflated

DECLARATION = declared(
    "ZeroInflatedPoisson",
    "psi mu",
    values="[0, inf)",
    discrete=True,
    psi="[0, 1]",
    mu="[0, inf)",
    response=driven(
        "mean of the Poisson part", "positive", "ZeroInflatedPoisson(psi, {mu})", working="identity", psi=SHARE
    ),
)


def canonical(psi: Array, mu: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return psi, mu


def log_density(x: Array, psi: Array, mu: Array) -> Array:
    """Log density of each number."""
    return zeros.inflated(poisson, x, psi, (mu,))


def slopes(x: Array, psi: Array, mu: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return zeros.inflated_slopes(poisson, x, psi, (mu,))


def fused(x: float, psi: float, mu: float) -> Fused:
    """Log density of one number, and its derivatives."""
    value, _, by_mu = fused_poisson(x, mu)
    if value == -math.inf:
        return -math.inf, 0.0, 0.0, 0.0
    total, by_psi, share = fused_inflated(x, psi, value)
    return total, 0.0, by_psi, share * by_mu


def draw(rng: np.random.Generator, size: tuple[int, ...], psi: Array, mu: Array) -> Array:
    """Independent draws."""
    return zeros.draw_inflated(poisson, rng, size, psi, (mu,))


def moments(psi: Array, mu: Array) -> Values:
    """Mean and variance."""
    return zeros.inflated_moments(poisson, psi, (mu,))
