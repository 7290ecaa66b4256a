"""Beta-binomial: successes among n trials whose probability is beta-distributed.

P(x) = C(n, x) B(x + alpha, n - x + beta) / B(alpha, beta). Johnson, Kemp, Kotz (2005), section 6.9.2.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import SHAPE, driven
from bayeslab.distributions.toolbox.special import choose, gamma_ratio, whole

DECLARATION = declared(
    "BetaBinomial",
    "alpha beta n",
    "alpha beta",
    "[0, n]",
    discrete=True,
    n="[0, inf)",
    response=driven(
        "mean probability", "probability", "BetaBinomial({mu} * phi, (1 - {mu}) * phi, {trials})", phi=SHAPE
    ),
)


def canonical(alpha: Array, beta: Array, n: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return alpha, beta, n


def log_density(x: Array, alpha: Array, beta: Array, n: Array) -> Array:
    """Log density of each number."""
    choose = special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1)
    return np.asarray(choose + special.betaln(x + alpha, n - x + beta) - special.betaln(alpha, beta))


def slopes(x: Array, alpha: Array, beta: Array, n: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    common = special.digamma(alpha + beta) - special.digamma(n + alpha + beta)
    return (
        None,
        special.digamma(x + alpha) - special.digamma(alpha) + common,
        special.digamma(n - x + beta) - special.digamma(beta) + common,
        None,
    )


def fused(x: float, alpha: float, beta: float, n: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (0.0 <= x <= n and alpha > 0.0 and beta > 0.0 and whole(x)):
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    successes, by_alpha, _ = gamma_ratio(alpha, x)
    failures, by_beta, _ = gamma_ratio(beta, n - x)
    trials, by_both, _ = gamma_ratio(alpha + beta, n)
    return choose(n, x) + successes + failures - trials, 0.0, by_alpha - by_both, by_beta - by_both, 0.0


def draw(rng: np.random.Generator, size: tuple[int, ...], alpha: Array, beta: Array, n: Array) -> Array:
    """Independent draws."""
    return rng.binomial(np.asarray(n, dtype=np.int64), rng.beta(alpha, beta, size))


def moments(alpha: Array, beta: Array, n: Array) -> Values:
    """Mean and variance."""
    mean, size = alpha / (alpha + beta), alpha + beta
    return n * mean, n * mean * (1 - mean) * (size + n) / (size + 1)
