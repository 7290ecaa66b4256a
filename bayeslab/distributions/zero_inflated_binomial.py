"""Zero-inflated binomial: binomial with probability psi, otherwise 0.

Hall (2000), Biometrics 56, 1030-1039.
"""

from __future__ import annotations

import numpy as np

from bayeslab.distributions import binomial
from bayeslab.distributions.toolbox import zeros
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHARE, driven

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


def draw(rng: np.random.Generator, size: tuple[int, ...], psi: Array, n: Array, p: Array) -> Array:
    """Independent draws."""
    return zeros.draw_inflated(binomial, rng, size, psi, (n, p))
