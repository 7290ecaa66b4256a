"""Hurdle gamma: 0 with probability 1 - psi, otherwise gamma-distributed.

Mullahy (1986), Journal of Econometrics 33, 341-365.
"""

from __future__ import annotations

import numpy as np

from bayeslab.distributions import gamma
from bayeslab.distributions.toolbox import zeros
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHAPE, SHARE, driven

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


def draw(rng: np.random.Generator, size: tuple[int, ...], psi: Array, alpha: Array, beta: Array) -> Array:
    """Independent draws."""
    return zeros.draw_positive_hurdle(gamma, rng, size, psi, (alpha, beta))
