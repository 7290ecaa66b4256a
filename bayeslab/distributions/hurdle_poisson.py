"""Hurdle Poisson: 0 with probability 1 - psi, otherwise Poisson given that it is not 0.

Mullahy (1986), Journal of Econometrics 33, 341-365.
"""

from __future__ import annotations

import numpy as np

from bayeslab.distributions import poisson
from bayeslab.distributions.toolbox import zeros
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHARE, driven

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


def draw(rng: np.random.Generator, size: tuple[int, ...], psi: Array, mu: Array) -> Array:
    """Independent draws."""
    return zeros.draw_hurdle(poisson, rng, size, psi, (mu,))
