"""Hypergeometric: marked items among n drawn without replacement from N items, of which k are marked.

P(x) = C(k, x) C(N - k, n - x) / C(N, n). Johnson, Kemp, Kotz (2005), chapter 6.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.special import choose, whole

DECLARATION = declared(
    "HyperGeometric", "N k n", values="[0, n]", discrete=True, N="[0, inf)", k="[0, inf)", n="[0, inf)"
)


def canonical(N: Array, k: Array, n: Array) -> Values:
    """The parameters of :func:`log_density`."""
    return N, k, n


def log_density(x: Array, N: Array, k: Array, n: Array) -> Array:
    """Log density of each number."""

    def choose(total: Array, part: Array) -> Array:
        return np.asarray(special.gammaln(total + 1) - special.gammaln(part + 1) - special.gammaln(total - part + 1))

    return choose(k, x) + choose(N - k, n - x) - choose(N, n)


def slopes(x: Array, N: Array, k: Array, n: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return None, None, None, None


def fused(x: float, N: float, k: float, n: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (0.0 <= x <= n and x <= k <= N and n - x <= N - k and n <= N and whole(x)):
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    return choose(k, x) + choose(N - k, n - x) - choose(N, n), 0.0, 0.0, 0.0, 0.0


def draw(rng: np.random.Generator, size: tuple[int, ...], N: Array, k: Array, n: Array) -> Array:
    """Independent draws."""
    marked, drawn = np.asarray(k, dtype=np.int64), np.asarray(n, dtype=np.int64)
    return rng.hypergeometric(marked, np.asarray(N, dtype=np.int64) - marked, drawn, size)


def moments(N: Array, k: Array, n: Array) -> Values:
    """Mean and variance."""
    share = k / N
    return n * share, n * share * (1 - share) * (N - n) / (N - 1)
