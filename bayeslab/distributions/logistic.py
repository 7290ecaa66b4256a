"""Logistic: like the normal, with exponential tails.

With z = (x - mu) / s, density exp(-z) / (s (1 + exp(-z))²). Johnson, Kotz, Balakrishnan (1995), chapter 23.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import UNIT, driven
from bayeslab.distributions.toolbox.special import log, sigmoid, softplus

DECLARATION = declared(
    "Logistic", "mu s", "s", response=driven("mean", "location", "Logistic({mu}, s)", working="identity", s=UNIT)
)


def canonical(mu: Array = 0.0, s: Array = 1.0) -> Values:
    """The parameters of :func:`log_density`."""
    return mu, s


def log_density(x: Array, mu: Array, s: Array) -> Array:
    """Log density of each number."""
    z = np.abs(x - mu) / s
    return -z - np.log(s) - 2 * np.log1p(np.exp(-z))


def slopes(x: Array, mu: Array, s: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = (x - mu) / s
    pull = np.tanh(z / 2)
    return -pull / s, pull / s, (z * pull - 1) / s


def fused(x: float, mu: float, s: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not s > 0.0:
        return -math.inf, 0.0, 0.0, 0.0
    rate = 1.0 / s
    z = (x - mu) * rate
    pull = 1.0 - 2.0 * sigmoid(-z)
    value = -abs(z) - log(s) - 2.0 * softplus(-abs(z))
    return value, -pull * rate, pull * rate, (z * pull - 1.0) * rate


def log_cumulative(x: float, mu: float, s: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    if not abs(x) < math.inf:
        return (0.0 if x > 0.0 else -math.inf), 0.0, 0.0, 0.0
    z = (x - mu) / s
    slope = sigmoid(-z) / s
    return -softplus(-z), slope, -slope, -slope * z


def log_survival(x: float, mu: float, s: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not abs(x) < math.inf:
        return (0.0 if x < 0.0 else -math.inf), 0.0, 0.0, 0.0
    z = (x - mu) / s
    slope = sigmoid(z) / s
    return -softplus(z), -slope, slope, slope * z


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, s: Array) -> Array:
    """Independent draws."""
    return rng.logistic(mu, s, size)


def moments(mu: Array, s: Array) -> Values:
    """Mean and variance."""
    return mu, (np.pi * s) ** 2 / 3
