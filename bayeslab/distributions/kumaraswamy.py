"""Kumaraswamy: shares, like the beta, with a distribution function in closed form.

Density a b x^(a - 1) (1 - x^a)^(b - 1) for 0 < x < 1. Jones (2009), Statistical Methodology 6, 70-81.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared

DECLARATION = declared("Kumaraswamy", "a b", "a b", "(0, 1)")


def canonical(a: Array, b: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return a, b


def log_density(x: Array, a: Array, b: Array) -> Array:
    """Log density of each number."""
    return np.asarray(np.log(a) + np.log(b) + xlogy(a - 1, x) + xlog1py(b - 1, -(x**a)))


def slopes(x: Array, a: Array, b: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    t = x**a
    pull = (b - 1) * t / (1 - t)
    return (a - 1 - a * pull) / x, 1 / a + np.log(x) * (1 - pull), 1 / b + np.log1p(-t)


def draw(rng: np.random.Generator, size: tuple[int, ...], a: Array, b: Array) -> Array:
    """Independent draws."""
    return np.asarray(-np.expm1(np.log1p(-rng.random(size)) / b)) ** (1 / a)


def moments(a: Array, b: Array) -> Values:
    """Mean and variance."""
    mean = b * np.exp(betaln(1 + 1 / a, b))
    return mean, b * np.exp(betaln(1 + 2 / a, b)) - mean**2
