"""Discrete Weibull: whole numbers of time units to failure.

P(x) = q^(x^beta) - q^((x + 1)^beta). Nakagawa, Osaki (1975), IEEE Transactions on Reliability 24, 300-301.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHAPE, driven

DECLARATION = declared(
    "DiscreteWeibull",
    "q beta",
    "beta",
    "[0, inf)",
    discrete=True,
    q="(0, 1)",
    response=driven("probability of more than 0", "probability", "DiscreteWeibull({mu}, beta)", beta=SHAPE),
)


def canonical(q: Array, beta: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return q, beta


def log_density(x: Array, q: Array, beta: Array) -> Array:
    """Log density of each number."""
    low, high = x**beta, (x + 1) ** beta
    return low * np.log(q) + np.log(-np.expm1((high - low) * np.log(q)))


def slopes(x: Array, q: Array, beta: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    low, high, log_q = x**beta, (x + 1) ** beta, np.log(q)
    ratio = np.exp((high - low) * log_q)
    by_log_q = (low - high * ratio) / (1 - ratio)
    by_beta = log_q * (xlogy(low, x) - high * np.log(x + 1) * ratio) / (1 - ratio)
    return None, by_log_q / q, by_beta


def draw(rng: np.random.Generator, size: tuple[int, ...], q: Array, beta: Array) -> Array:
    """Independent draws."""
    return np.ceil((np.log(rng.random(size)) / np.log(q)) ** (1 / beta)) - 1
