"""Discrete Weibull: whole numbers of time units to failure.

P(x) = q^(x^beta) - q^((x + 1)^beta). Nakagawa, Osaki (1975), IEEE Transactions on Reliability 24, 300-301.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHAPE, driven
from bayeslab.distributions.toolbox.special import complement, exp, expm1, log, log1mexp, log1p, power, whole

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
    by_beta = log_q * (special.xlogy(low, x) - high * np.log(x + 1) * ratio) / (1 - ratio)
    return None, by_log_q / q, by_beta


def fused(x: float, q: float, beta: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (x >= 0.0 and 0.0 < q < 1.0 and beta > 0.0 and whole(x)):
        return -math.inf, 0.0, 0.0, 0.0
    log_q, low, high = log(q), power(x, beta), power(x + 1.0, beta)
    if low == math.inf:
        return -math.inf, 0.0, 0.0, 0.0
    gap = low * expm1(beta * log1p(1.0 / x)) if x > 0.0 else 1.0
    ratio, rest = exp(gap * log_q), -expm1(gap * log_q)
    by_low, by_high = low, 0.0
    if ratio > 0.0:
        by_low -= high * ratio
        by_high = high * log(x + 1.0) * ratio
    growth = low * log(x) if x > 0.0 else 0.0
    value = low * log_q + log1mexp(gap * log_q)
    return value, 0.0, by_low / (rest * q), log_q * (growth - by_high) / rest


def log_cumulative(x: float, q: float, beta: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    above, _, by_q, by_beta = log_survival(x, q, beta)
    value, factor = complement(above)
    return value, 0.0, factor * by_q, factor * by_beta


def log_survival(x: float, q: float, beta: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not 0.0 <= x < math.inf:
        return (-math.inf if x > 0.0 else 0.0), 0.0, 0.0, 0.0
    after = math.floor(x) + 1.0
    age, log_q = power(after, beta), log(q)
    return age * log_q, 0.0, age / q, age * log_q * log(after)


def draw(rng: np.random.Generator, size: tuple[int, ...], q: Array, beta: Array) -> Array:
    """Independent draws."""
    return np.ceil((np.log(rng.random(size)) / np.log(q)) ** (1 / beta)) - 1
