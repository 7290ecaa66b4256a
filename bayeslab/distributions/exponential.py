"""Exponential: the time until an event with a constant rate.

Density lam exp(-lam x) for x ≥ 0; ``scale`` is 1 / lam. Johnson, Kotz, Balakrishnan (1994), chapter 19.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import driven
from bayeslab.distributions.toolbox.special import complement, log
from bayeslab.errors import ModelError

DECLARATION = declared(
    "Exponential",
    "lam scale",
    "lam scale",
    "[0, inf)",
    positional=1,
    response=driven("mean", "positive", "Exponential(scale={mu})", working="identity"),
)


def canonical(lam: Array | None = None, scale: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    if lam is not None and scale is not None:
        raise ModelError("takes lam or scale, not both", code="conflict")
    return ((1.0 if scale is None else 1 / scale) if lam is None else lam,)


def log_density(x: Array, lam: Array) -> Array:
    """Log density of each number."""
    return np.log(lam) - lam * x


def slopes(x: Array, lam: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return -lam + 0.0 * x, 1 / lam - x


def fused(x: float, lam: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (lam > 0.0 and x >= 0.0):
        return -math.inf, 0.0, 0.0
    return log(lam) - lam * x, -lam, 1.0 / lam - x


def log_cumulative(x: float, lam: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not 0.0 < x < math.inf:
        return (0.0 if x > 0.0 else -math.inf), 0.0, 0.0
    value, factor = complement(-lam * x)
    return value, -lam * factor, -x * factor


def log_survival(x: float, lam: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not 0.0 < x < math.inf:
        return (-math.inf if x > 0.0 else 0.0), 0.0, 0.0
    return -lam * x, -lam, -x


def draw(rng: np.random.Generator, size: tuple[int, ...], lam: Array) -> Array:
    """Independent draws."""
    return rng.exponential(1 / lam, size)


def moments(lam: Array) -> Values:
    """Mean and variance."""
    return 1 / lam, 1 / lam**2


def _counts(x: Array) -> tuple[Array, Array]:
    """Contribution of each item to the posterior parameters of lam."""
    return np.ones(np.shape(x)), x


def _rest(x: Array) -> Array:
    """The part of the log density without lam."""
    return 0.0


CONJUGATE = Conjugate("lam", "Gamma", _counts, _rest)
