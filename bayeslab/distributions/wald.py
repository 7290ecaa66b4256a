"""Wald, or inverse Gaussian: the time at which a drifting random walk first reaches a level.

With t = x - alpha, density √(lam / (2π t³)) exp(-lam (t - mu)² / (2 mu² t)) for t > 0; ``phi`` is lam / mu. Johnson,
Kotz, Balakrishnan (1994), chapter 15.
"""

from __future__ import annotations

import numpy as np

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.distributions.toolbox.contract import Array, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import driven
from bayeslab.errors import ModelError

DECLARATION = declared(
    "Wald",
    "mu lam phi alpha",
    "mu lam phi",
    "(alpha, inf)",
    alpha="[0, inf)",
    defaults={"alpha": 0.0},
    response=driven(
        "mean",
        "positive",
        "Wald(mu={mu}, lam=lam)",
        working="identity",
        optional="alpha",
        lam="InverseGamma(0.4, 0.3 * {sd})",
    ),
)


def canonical(
    mu: Array | None = None, lam: Array | None = None, phi: Array | None = None, alpha: Array = 0.0
) -> Values:
    """The parameters of :func:`log_density`."""
    if mu is not None and phi is None:
        return mu, 1.0 if lam is None else lam, alpha
    if mu is not None and lam is None:
        return mu, mu * phi, alpha
    if mu is None and lam is not None:
        return (lam if phi is None else lam / phi), lam, alpha
    raise ModelError("takes mu alone, mu and lam, mu and phi, or lam and phi", code="wrong-arguments")


def log_density(x: Array, mu: Array, lam: Array, alpha: Array) -> Array:
    """Log density of each number."""
    t = x - alpha
    return 0.5 * np.log(lam) - HALF_LOG_2PI - 1.5 * np.log(t) - lam * (t - mu) ** 2 / (2 * mu**2 * t)


def slopes(x: Array, mu: Array, lam: Array, alpha: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    t = x - alpha
    by_t = -1.5 / t - 0.5 * lam * (mu**-2 - t**-2)
    return by_t, lam * (t - mu) / mu**3, 0.5 / lam - (t - mu) ** 2 / (2 * mu**2 * t), -by_t


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, lam: Array, alpha: Array) -> Array:
    """Independent draws."""
    return np.asarray(alpha + rng.wald(mu, lam, size))


def moments(mu: Array, lam: Array, alpha: Array) -> Values:
    """Mean and variance."""
    return alpha + mu, mu**3 / lam
