"""Zero-inflated negative binomial: negative binomial with probability psi, otherwise 0.

Greene (1994), New York University, working paper EC-94-10.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions import negative_binomial
from bayeslab.distributions.negative_binomial import fused as fused_negative_binomial
from bayeslab.distributions.toolbox import zeros
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHAPE, SHARE, driven
from bayeslab.distributions.toolbox.zeros import fused_inflated

DECLARATION = declared(
    "ZeroInflatedNegativeBinomial",
    "psi mu alpha p n",
    "alpha n",
    "[0, inf)",
    discrete=True,
    psi="[0, 1]",
    mu="[0, inf)",
    p="[0, 1]",
    response=driven(
        "mean of the negative binomial part",
        "positive",
        "ZeroInflatedNegativeBinomial(psi, {mu}, alpha)",
        working="identity",
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
    return zeros.inflated(negative_binomial, x, psi, (mu, alpha))


def slopes(x: Array, psi: Array, mu: Array, alpha: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return zeros.inflated_slopes(negative_binomial, x, psi, (mu, alpha))


def fused(x: float, psi: float, mu: float, alpha: float) -> Fused:
    """Log density of one number, and its derivatives."""
    value, _, by_mu, by_alpha = fused_negative_binomial(x, mu, alpha)
    if value == -math.inf:
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    total, by_psi, share = fused_inflated(x, psi, value)
    return total, 0.0, by_psi, share * by_mu, share * by_alpha


def draw(rng: np.random.Generator, size: tuple[int, ...], psi: Array, mu: Array, alpha: Array) -> Array:
    """Independent draws."""
    return zeros.draw_inflated(negative_binomial, rng, size, psi, (mu, alpha))


def moments(psi: Array, mu: Array, alpha: Array) -> Values:
    """Mean and variance."""
    return zeros.inflated_moments(negative_binomial, psi, (mu, alpha))
