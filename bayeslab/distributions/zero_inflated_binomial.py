"""Zero-inflated binomial: binomial with probability psi, otherwise 0.

Hall (2000), Biometrics 56, 1030-1039.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions import binomial
from bayeslab.distributions.binomial import fused as fused_binomial
from bayeslab.distributions.binomial import fused_logit as fused_binomial_logit
from bayeslab.distributions.toolbox import zeros
from bayeslab.distributions.toolbox.contract import Array, Form, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHARE, driven
from bayeslab.distributions.toolbox.zeros import fused_inflated

DECLARATION = declared(
    "ZeroInflatedBinomial",
    "psi n p",
    values="[0, n]",
    discrete=True,
    psi="[0, 1]",
    n="[0, inf)",
    p="[0, 1]",
    response=driven(
        "probability of the binomial part", "probability", "ZeroInflatedBinomial(psi, {trials}, {mu})", psi=SHARE
    ),
)


def canonical(psi: Array, n: Array, p: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return psi, n, p


def log_density(x: Array, psi: Array, n: Array, p: Array) -> Array:
    """Log density of each number."""
    return zeros.inflated(binomial, x, psi, (n, p))


def slopes(x: Array, psi: Array, n: Array, p: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return zeros.inflated_slopes(binomial, x, psi, (n, p))


def fused(x: float, psi: float, n: float, p: float) -> Fused:
    """Log density of one number, and its derivatives."""
    value, _, _, by_p = fused_binomial(x, n, p)
    # With p = 1 a zero is certainly not binomial.
    if value == -math.inf and not (x == 0.0 and p == 1.0 and n > 0.0):
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    total, by_psi, share = fused_inflated(x, psi, value)
    return total, 0.0, by_psi, 0.0, share * by_p


def fused_logit(x: float, psi: float, n: float, logit_p: float) -> Fused:
    """The same, by the log odds of p."""
    value, _, _, by_logit = fused_binomial_logit(x, n, logit_p)
    if value == -math.inf:
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    total, by_psi, share = fused_inflated(x, psi, value)
    return total, 0.0, by_psi, 0.0, share * by_logit


FORMS = {"logit": Form("p", "sigmoid", fused_logit)}


def draw(rng: np.random.Generator, size: tuple[int, ...], psi: Array, n: Array, p: Array) -> Array:
    """Independent draws."""
    return zeros.draw_inflated(binomial, rng, size, psi, (n, p))


def moments(psi: Array, n: Array, p: Array) -> Values:
    """Mean and variance."""
    return zeros.inflated_moments(binomial, psi, (n, p))
