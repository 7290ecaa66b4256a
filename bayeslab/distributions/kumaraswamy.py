"""Kumaraswamy: shares, like the beta, with a distribution function in closed form.

Density a b x^(a - 1) (1 - x^a)^(b - 1) for 0 < x < 1. Jones (2009), Statistical Methodology 6, 70-81.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.special import complement, exp, expm1, log, log1mexp

DECLARATION = declared("Kumaraswamy", "a b", "a b", "(0, 1)")


def canonical(a: Array, b: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return a, b


def log_density(x: Array, a: Array, b: Array) -> Array:
    """Log density of each number."""
    return np.asarray(np.log(a) + np.log(b) + special.xlogy(a - 1, x) + special.xlog1py(b - 1, -(x**a)))


def slopes(x: Array, a: Array, b: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    t = x**a
    pull = (b - 1) * t / (1 - t)
    return (a - 1 - a * pull) / x, 1 / a + np.log(x) * (1 - pull), 1 / b + np.log1p(-t)


def fused(x: float, a: float, b: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (0.0 < x < 1.0 and a > 0.0 and b > 0.0):
        return -math.inf, 0.0, 0.0, 0.0
    log_x = log(x)
    log_rest = log1mexp(a * log_x)
    pull = (b - 1.0) * exp(a * log_x) / -expm1(a * log_x)
    value = log(a) + log(b) + (a - 1.0) * log_x + (b - 1.0) * log_rest
    return value, (a - 1.0 - a * pull) / x, 1.0 / a + log_x * (1.0 - pull), 1.0 / b + log_rest


def log_cumulative(x: float, a: float, b: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives."""
    above, by_x, by_a, by_b = log_survival(x, a, b)
    value, factor = complement(above)
    return value, factor * by_x, factor * by_a, factor * by_b


def log_survival(x: float, a: float, b: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not 0.0 < x < 1.0:
        return (-math.inf if x > 0.0 else 0.0), 0.0, 0.0, 0.0
    log_x = log(x)
    rest, slope = complement(a * log_x)
    return b * rest, b * slope * a / x, b * slope * log_x, rest


def draw(rng: np.random.Generator, size: tuple[int, ...], a: Array, b: Array) -> Array:
    """Independent draws."""
    return np.asarray(-np.expm1(np.log1p(-rng.random(size)) / b)) ** (1 / a)


def moments(a: Array, b: Array) -> Values:
    """Mean and variance."""
    mean = b * np.exp(special.betaln(1 + 1 / a, b))
    return mean, b * np.exp(special.betaln(1 + 2 / a, b)) - mean**2
