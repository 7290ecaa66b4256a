"""Zero-inflated Poisson: Poisson with probability psi, otherwise 0.

Lambert (1992), Technometrics 34, 1-14.
"""

from __future__ import annotations

import numpy as np

from bayeslab.distributions import poisson
from bayeslab.distributions.toolbox import zeros
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHARE, driven

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


def draw(rng: np.random.Generator, size: tuple[int, ...], psi: Array, mu: Array) -> Array:
    """Independent draws."""
    return zeros.draw_inflated(poisson, rng, size, psi, (mu,))
