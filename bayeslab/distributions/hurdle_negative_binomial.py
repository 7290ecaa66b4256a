"""Hurdle negative binomial: 0 with probability 1 - psi, otherwise negative binomial given that it is not 0.

Mullahy (1986), Journal of Econometrics 33, 341-365.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions import negative_binomial
from bayeslab.distributions.negative_binomial import fused as fused_negative_binomial
from bayeslab.distributions.toolbox import zeros
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHAPE, SHARE, driven
from bayeslab.distributions.toolbox.special import expm1, log1mexp
from bayeslab.distributions.toolbox.zeros import fused_share

DECLARATION = declared(
    "HurdleNegativeBinomial",
    "psi mu alpha p n",
    "alpha n",
    "[0, inf)",
    discrete=True,
    psi="[0, 1]",
    mu="[0, inf)",
    p="[0, 1]",
    response=driven(
        "mean before zeros are cut off",
        "positive",
        "HurdleNegativeBinomial(psi, {mu}, alpha)",
        working="identity",
        positive_part=True,
        psi=SHARE,
        alpha=SHAPE,
    ),
)


def canonical(
    psi: Array,
    mu: Array | None = None,
    alpha: Array | None = None,
    p: Array | None = None,
    n: Array | None = None,
) -> Values:
    """The parameters of :func:`log_density`."""
    return psi, *negative_binomial.canonical(mu, alpha, p, n)


def log_density(x: Array, psi: Array, mu: Array, alpha: Array) -> Array:
    """Log density of each number."""
    return zeros.hurdle(negative_binomial, x, psi, (mu, alpha))


def slopes(x: Array, psi: Array, mu: Array, alpha: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return zeros.hurdle_slopes(negative_binomial, x, psi, (mu, alpha))


def fused(x: float, psi: float, mu: float, alpha: float) -> Fused:
    """Log density of one number, and its derivatives."""
    share, by_psi = fused_share(x, psi)
    value, _, by_mu, by_alpha = fused_negative_binomial(x, mu, alpha)
    if value == -math.inf or share == -math.inf:
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    if x == 0.0:
        return share, 0.0, by_psi, 0.0, 0.0
    none, _, none_by_mu, none_by_alpha = fused_negative_binomial(0.0, mu, alpha)
    odds = 1.0 / expm1(-none)
    value += share - log1mexp(none)
    return value, 0.0, by_psi, by_mu + odds * none_by_mu, by_alpha + odds * none_by_alpha


def draw(rng: np.random.Generator, size: tuple[int, ...], psi: Array, mu: Array, alpha: Array) -> Array:
    """Independent draws."""
    return zeros.draw_hurdle(negative_binomial, rng, size, psi, (mu, alpha))


def moments(psi: Array, mu: Array, alpha: Array) -> Values:
    """Mean and variance."""
    return zeros.hurdle_moments(negative_binomial, psi, (mu, alpha))
