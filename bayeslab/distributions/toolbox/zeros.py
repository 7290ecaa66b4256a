"""Distributions with extra zeros: zero-inflated (the base may also give 0) and hurdle (it cannot)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayeslab.distributions.toolbox.contract import Array, Slopes, Values
from bayeslab.distributions.toolbox.special import exp, expm1, log, log1p, log_add

__all__ = [
    "draw_hurdle",
    "draw_inflated",
    "draw_positive_hurdle",
    "first_event",
    "fused_inflated",
    "fused_share",
    "hurdle",
    "hurdle_moments",
    "hurdle_slopes",
    "inflated",
    "inflated_moments",
    "inflated_slopes",
    "positive_hurdle",
    "positive_hurdle_slopes",
]


def inflated(base: Any, x: Array, psi: Array, parameters: Values) -> Array:
    """Log probability of a number that comes from ``base`` with probability psi, and is 0 otherwise."""
    with np.errstate(divide="ignore"):
        inside = np.log(psi) + base.log_density(x, *parameters)
        return np.where(np.equal(x, 0), np.logaddexp(np.log1p(-np.asarray(psi)), inside), inside)


def inflated_slopes(base: Any, x: Array, psi: Array, parameters: Values) -> Slopes:
    """Derivatives of :func:`inflated`."""
    density = base.log_density(x, *parameters)
    total = inflated(base, x, psi, parameters)
    # The probability that the number comes from the base.
    share = np.where(np.equal(x, 0), np.exp(np.log(psi) + density - total), 1.0)
    by_psi = np.where(np.equal(x, 0), np.expm1(density) * np.exp(-total), 1 / psi)
    return None, by_psi, *(None if s is None else share * s for s in base.slopes(x, *parameters)[1:])


def fused_inflated(x: float, psi: float, value: float) -> tuple[float, float, float]:
    """Zero inflation of one number whose log probability under the base is ``value``.

    Returns
    -------
    tuple of float
        The log probability, its derivative by psi, and the probability that the number comes from the base.
    """
    if not 0.0 <= psi <= 1.0 or (psi == 0.0 and x != 0.0):
        return -math.inf, 0.0, 0.0
    inside = log(psi) + value
    if x != 0.0:
        return inside, 1.0 / psi, 1.0
    total = log_add(log1p(-psi), inside)
    if total == -math.inf:
        return -math.inf, 0.0, 0.0
    return total, expm1(value) * exp(-total), exp(inside - total)


def fused_share(x: float, psi: float) -> tuple[float, float]:
    """Log probability that a number of a hurdle distribution is zero or not, as it is, and its derivative by psi."""
    if not 0.0 <= psi <= 1.0 or psi == (1.0 if x == 0.0 else 0.0):
        return -math.inf, 0.0
    return (log1p(-psi), -1.0 / (1.0 - psi)) if x == 0.0 else (log(psi), 1.0 / psi)


def draw_inflated(base: Any, rng: np.random.Generator, size: tuple[int, ...], psi: Array, parameters: Values) -> Array:
    """Draws of :func:`inflated`."""
    numbers = base.draw(rng, size, *parameters)
    return np.where(rng.random(size) < psi, numbers, np.zeros_like(numbers))


def inflated_moments(base: Any, psi: Array, parameters: Values) -> Values:
    """Mean and variance of a number that comes from ``base`` with probability psi, and is 0 otherwise."""
    mean, variance = base.moments(*parameters)
    return psi * mean, psi * (variance + mean**2) - (psi * mean) ** 2


def hurdle_moments(base: Any, psi: Array, parameters: Values) -> Values:
    """Mean and variance of :func:`hurdle`."""
    mean, variance = base.moments(*parameters)
    rest = -np.expm1(base.log_density(np.zeros(()), *parameters))  # the probability that the base is not 0
    with np.errstate(divide="ignore", invalid="ignore"):
        # In the limit a base that is always 0 gives 1 where it does not.
        first, second = (np.where(rest > 0, moment / rest, 1.0) for moment in (mean, variance + mean**2))
    return psi * first, psi * second - (psi * first) ** 2


def hurdle(base: Any, x: Array, psi: Array, parameters: Values) -> Array:
    """Log probability of a number that comes from ``base`` truncated to non-zero values with probability psi, else
    0.
    """
    none = base.log_density(0.0, *parameters)
    with np.errstate(divide="ignore"):
        inside = np.log(psi) + base.log_density(x, *parameters) - np.log(-np.expm1(none))
        return np.where(np.equal(x, 0), np.log1p(-np.asarray(psi)), inside)


def hurdle_slopes(base: Any, x: Array, psi: Array, parameters: Values) -> Slopes:
    """Derivatives of :func:`hurdle`."""
    odds = 1 / np.expm1(-base.log_density(0.0, *parameters))
    by_psi = np.where(np.equal(x, 0), -1 / (1 - psi), 1 / psi)
    pairs = zip(base.slopes(x, *parameters)[1:], base.slopes(0.0, *parameters)[1:], strict=True)
    return None, by_psi, *(np.where(np.equal(x, 0), 0.0, here + odds * at_zero) for here, at_zero in pairs)


def draw_hurdle(base: Any, rng: np.random.Generator, size: tuple[int, ...], psi: Array, parameters: Values) -> Array:
    """Draws of :func:`hurdle`. Rejecting zeros would not end where the base is nearly always zero."""
    numbers = base.draw_above_zero(rng, size, *parameters)
    return np.where(rng.random(size) < psi, numbers, 0)


def first_event(rng: np.random.Generator, size: tuple[int, ...], rate: Array, duration: Array) -> Array:
    """Time of the first event of a Poisson process, given that there is one before the duration is over."""
    rate, duration = np.broadcast_to(rate, size), np.broadcast_to(duration, size)
    with np.errstate(divide="ignore", invalid="ignore"):
        time = -np.log1p(rng.random(size) * np.expm1(-rate * duration)) / rate
    return np.clip(np.where(rate > 0, time, 0.0), 0.0, duration)


def positive_hurdle(base: Any, x: Array, psi: Array, parameters: Values) -> Array:
    """Log density of a number that comes from the continuous ``base`` with probability psi, and is 0 otherwise."""
    safe = np.where(np.equal(x, 0), 1.0, x)
    with np.errstate(divide="ignore"):
        inside = np.log(psi) + base.log_density(safe, *parameters)
        return np.where(np.equal(x, 0), np.log1p(-np.asarray(psi)), inside)


def positive_hurdle_slopes(base: Any, x: Array, psi: Array, parameters: Values) -> Slopes:
    """Derivatives of :func:`positive_hurdle`; at 0 there is no derivative by x."""
    zero = np.equal(x, 0)
    slopes = base.slopes(np.where(zero, 1.0, x), *parameters)
    return (
        np.where(zero, 0.0, slopes[0]),
        np.where(zero, -1 / (1 - psi), 1 / psi),
        *(np.where(zero, 0.0, slope) for slope in slopes[1:]),
    )


def draw_positive_hurdle(
    base: Any, rng: np.random.Generator, size: tuple[int, ...], psi: Array, parameters: Values
) -> Array:
    """Draws of :func:`positive_hurdle`."""
    return np.where(rng.random(size) < psi, base.draw(rng, size, *parameters), 0.0)
