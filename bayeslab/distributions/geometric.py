"""Geometric: the number of trials up to and including the first success.

P(x) = p (1 - p)^(x - 1) for x = 1, 2, .... Johnson, Kemp, Kotz (2005), section 5.2.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlog1py

from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import driven

DECLARATION = declared(
    "Geometric",
    "p",
    values="[1, inf)",
    discrete=True,
    p="(0, 1]",
    response=driven("probability", "probability", "Geometric({mu})"),
)


def canonical(p: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return (p,)


def log_density(x: Array, p: Array) -> Array:
    """Log density of each number."""
    return np.asarray(np.log(p) + xlog1py(x - 1, -p))


def slopes(x: Array, p: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return None, 1 / p - (x - 1) / (1 - p)


def draw(rng: np.random.Generator, size: tuple[int, ...], p: Array) -> Array:
    """Independent draws."""
    return rng.geometric(p, size)


def moments(p: Array) -> Values:
    """Mean and variance."""
    return 1 / p, (1 - p) / p**2


def _counts(x: Array) -> tuple[Array, Array]:
    """Contribution of each item to the posterior parameters of p."""
    return np.ones(np.shape(x)), x - 1


def _rest(x: Array) -> Array:
    """The part of the log density without p."""
    return 0.0


CONJUGATE = Conjugate("p", "Beta", _counts, _rest)
