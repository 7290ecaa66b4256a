"""Wald, or inverse Gaussian: the time at which a drifting random walk first reaches a level.

With t = x - alpha, density √(lam / (2π t³)) exp(-lam (t - mu)² / (2 mu² t)) for t > 0; ``phi`` is lam / mu. Johnson,
Kotz, Balakrishnan (1994), chapter 15.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.constants import HALF_LOG_2PI, ROOT_2_OVER_PI, ROOT_HALF
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared
from bayeslab.distributions.toolbox.response import driven
from bayeslab.distributions.toolbox.special import complement, erfcx, exp, log, log_add, normal_tail
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


def fused(x: float, mu: float, lam: float, alpha: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (mu > 0.0 and lam > 0.0 and alpha >= 0.0 and x > alpha):
        return -math.inf, 0.0, 0.0, 0.0, 0.0
    t = x - alpha
    inverse, gap = 1.0 / t, (t - mu) / mu
    square = 0.5 * gap * gap * inverse
    by_t = -1.5 * inverse - 0.5 * lam * gap * (t + mu) * inverse * inverse / mu
    value = 0.5 * log(lam) - HALF_LOG_2PI - 1.5 * log(t) - lam * square
    return value, by_t, lam * gap / (mu * mu), 0.5 / lam - square, -by_t


def log_cumulative(x: float, mu: float, lam: float, alpha: float) -> Fused:
    """Log of P(X ≤ x), and its derivatives; Shuster (1968), JASA 63, 1514-1516."""
    if not alpha < x < math.inf:
        return (0.0 if x > alpha else -math.inf), 0.0, 0.0, 0.0, 0.0
    a, height, _, mills_b = _mills(x - alpha, mu, lam)
    value = log_add(normal_tail(a)[0], height + log(mills_b))
    return _with_slopes(value, x - alpha, mu, lam, exp(height - value), mills_b)


def log_survival(x: float, mu: float, lam: float, alpha: float) -> Fused:
    """Log of P(X > x), and its derivatives."""
    if not alpha < x < math.inf:
        return (-math.inf if x > alpha else 0.0), 0.0, 0.0, 0.0, 0.0
    a, height, mills_a, mills_b = _mills(x - alpha, mu, lam)
    if a > 0.0:
        value = height + log(mills_a - mills_b)
    else:
        value = complement(log_add(normal_tail(a)[0], height + log(mills_b)))[0]
    return _with_slopes(value, x - alpha, mu, lam, -exp(height - value), mills_b)


def _mills(t: float, mu: float, lam: float) -> tuple[float, float, float, float]:
    """a = √(lam / t) (t / mu - 1), log φ(a), and the ratios Φ(-u) / φ(u) at |a| and at b = √(lam / t) (t / mu + 1)."""
    root = math.sqrt(lam / t)
    a, b = root * (t / mu - 1.0), root * (t / mu + 1.0)
    return (
        a,
        -0.5 * a * a - HALF_LOG_2PI,
        erfcx(abs(a) * ROOT_HALF) / ROOT_2_OVER_PI,
        erfcx(b * ROOT_HALF) / ROOT_2_OVER_PI,
    )


def _with_slopes(value: float, t: float, mu: float, lam: float, height: float, mills: float) -> Fused:
    """A log probability with its derivatives, ``height`` being φ(a) relative to the probability."""
    by_x = height * math.sqrt(lam / t) / t
    by_lam = height * (2.0 * mills / mu - 1.0 / math.sqrt(lam * t))
    return value, by_x, -2.0 * height * mills * lam / (mu * mu), by_lam, -by_x


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, lam: Array, alpha: Array) -> Array:
    """Independent draws."""
    return np.asarray(alpha + rng.wald(mu, lam, size))


def moments(mu: Array, lam: Array, alpha: Array) -> Values:
    """Mean and variance."""
    return alpha + mu, mu**3 / lam
