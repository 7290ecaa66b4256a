r"""Likelihoods with a latent function f as predictor: derivatives for Laplace's approximation, and averages over f.

Laplace's approximation needs for log p(y | f), row by row: the value, its first derivative, W (minus the second
derivative), and the derivative of W; and the derivatives of value, slope and W by each parameter of the likelihood.

===================== ============== ================================ ======================
word                  link           y                                parameters
===================== ============== ================================ ======================
``bernoulli``         logit, probit  0 or 1                           none
``binomial``          logit          whole number up to ``trials``    none
``poisson``           log            counts; ``exposure`` multiplies  none
``negative_binomial`` log            counts; ``exposure`` multiplies  alpha
``student_t``         identity       numbers                          nu, sigma
===================== ============== ================================ ======================

The negative binomial distribution has variance μ + μ² / alpha. Student's t is not log-concave in f: W may be negative.

References
----------
.. [1] Rasmussen, Williams (2006). Gaussian Processes for Machine Learning. MIT Press. Chapter 3.
.. [2] Vanhatalo, Jylänki, Vehtari (2009). Gaussian process regression with Student-t likelihood. NIPS 22.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bayeslab import special
from bayeslab.constants import HALF_LOG_2PI
from bayeslab.errors import DataError

__all__ = [
    "NODES",
    "WEIGHTS",
    "Bernoulli",
    "Binomial",
    "Likelihood",
    "NegativeBinomial",
    "Poisson",
    "Probit",
    "StudentT",
    "averaged",
]

# Of averages over a standard normal.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
# exp of larger numbers overflows below; the mode is never there.
_LARGEST = 300.0


@dataclass(frozen=True, slots=True)
class Derivatives:
    """Of log p(y | f), row by row.

    Attributes
    ----------
    value, slope, curvature, change : ndarray (n,)
        log p, its derivative, W (minus its second derivative), dW/df.
    by_parameter : tuple of (ndarray, ndarray, ndarray)
        For each parameter of the likelihood, derivatives of value, slope and curvature.
    """

    value: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray
    change: np.ndarray
    by_parameter: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...] = ()


class Likelihood(Protocol):
    """The likelihood p(y | f) at given observations y.

    Attributes
    ----------
    parameters : tuple of str
        Names of its parameters, all positive.
    """

    @property
    def parameters(self) -> tuple[str, ...]: ...

    def at(self, f: np.ndarray, values: np.ndarray) -> Derivatives:
        """Derivatives at f, with values of the parameters."""
        ...

    def steep(self, f: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Non-negative weights for ascending Newton steps; equal to W if that is never negative."""
        ...

    def start(self) -> np.ndarray:
        """Start of the search for the mode."""
        ...

    def mean(self, f: np.ndarray, values: np.ndarray) -> np.ndarray:
        """E[y | f] of a new row (with one trial, exposure one)."""
        ...


def averaged(likelihood: Likelihood, mean: np.ndarray, variance: np.ndarray, values: np.ndarray) -> np.ndarray:
    """E[y] of new rows for normal f, by Gauss-Hermite quadrature with 64 nodes."""
    sd = np.sqrt(variance)
    return np.asarray(sum(w * likelihood.mean(mean + x * sd, values) for x, w in zip(NODES, WEIGHTS, strict=True)))


@dataclass(frozen=True, eq=False)
class Binomial:
    """Successes of ``trials``, logit link."""

    y: np.ndarray
    trials: np.ndarray
    parameters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _whole(self.y)
        if np.any(self.y > self.trials):
            raise DataError(
                f"row {int(np.argmax(self.y > self.trials))} has more successes than trials", code="impossible-value"
            )

    def at(self, f: np.ndarray, values: np.ndarray) -> Derivatives:
        p = special.expit(f)
        choose = (
            special.gammaln(self.trials + 1) - special.gammaln(self.y + 1) - special.gammaln(self.trials - self.y + 1)
        )
        w = self.trials * p * (1 - p)
        value = choose + self.y * special.log_expit(f) + (self.trials - self.y) * special.log_expit(-f)
        return Derivatives(value, self.y - self.trials * p, w, w * (1 - 2 * p))

    def steep(self, f: np.ndarray, values: np.ndarray) -> np.ndarray:
        p = special.expit(f)
        return np.asarray(self.trials * p * (1 - p))

    def start(self) -> np.ndarray:
        return np.zeros(len(self.y))

    def mean(self, f: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.asarray(special.expit(f))


def Bernoulli(y: np.ndarray) -> Binomial:
    """Zeros and ones, logit link."""
    _binary(y)
    return Binomial(np.asarray(y, float), np.ones(len(y)))


@dataclass(frozen=True, eq=False)
class Probit:
    """Zeros and ones, probit link."""

    y: np.ndarray
    parameters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _binary(self.y)

    def at(self, f: np.ndarray, values: np.ndarray) -> Derivatives:
        sign = 2.0 * self.y - 1.0
        z = sign * f
        value = special.log_ndtr(z)
        ratio = np.exp(-0.5 * z**2 - HALF_LOG_2PI - value)  # normal density over distribution function
        w = ratio * (z + ratio)
        # dW/dz, with d ratio / dz = -ratio (z + ratio)
        return Derivatives(value, sign * ratio, w, sign * (ratio - w * (z + 2 * ratio)))

    def steep(self, f: np.ndarray, values: np.ndarray) -> np.ndarray:
        return self.at(f, values).curvature

    def start(self) -> np.ndarray:
        return np.zeros(len(self.y))

    def mean(self, f: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.asarray(special.ndtr(f))


@dataclass(frozen=True, eq=False)
class Poisson:
    """Counts with mean exposure × exp(f)."""

    y: np.ndarray
    exposure: np.ndarray
    parameters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _whole(self.y)

    def at(self, f: np.ndarray, values: np.ndarray) -> Derivatives:
        mu = self.exposure * np.exp(np.minimum(f, _LARGEST))
        value = self.y * (f + np.log(self.exposure)) - mu - special.gammaln(self.y + 1)
        return Derivatives(value, self.y - mu, mu, mu)

    def steep(self, f: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.asarray(self.exposure * np.exp(np.minimum(f, _LARGEST)))

    def start(self) -> np.ndarray:
        return np.log((self.y + 0.5) / self.exposure)

    def mean(self, f: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(f, _LARGEST))


@dataclass(frozen=True, eq=False)
class NegativeBinomial:
    """Counts with mean μ = exposure × exp(f) and variance μ + μ² / alpha."""

    y: np.ndarray
    exposure: np.ndarray
    parameters: tuple[str, ...] = ("alpha",)

    def __post_init__(self) -> None:
        _whole(self.y)

    def at(self, f: np.ndarray, values: np.ndarray) -> Derivatives:
        (a,) = values
        eta = f + np.log(self.exposure)
        p = special.expit(eta - np.log(a))  # μ / (μ + a)
        q = 1 - p
        value = special.gammaln(self.y + a) - special.gammaln(a) - special.gammaln(self.y + 1)
        value = value + self.y * special.log_expit(eta - np.log(a)) + a * special.log_expit(np.log(a) - eta)
        total = self.y + a
        slope, w = self.y * q - a * p, total * p * q
        # dp/da = -p q / a
        by_value = special.digamma(total) - special.digamma(a) - self.y * q / a + np.log(q) + p
        by_slope = total * p * q / a - p
        by_w = p * q - total * p * q * (q - p) / a
        return Derivatives(value, slope, w, w * (q - p), ((by_value, by_slope, by_w),))

    def steep(self, f: np.ndarray, values: np.ndarray) -> np.ndarray:
        return self.at(f, values).curvature

    def start(self) -> np.ndarray:
        return np.log((self.y + 0.5) / self.exposure)

    def mean(self, f: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(f, _LARGEST))


@dataclass(frozen=True, eq=False)
class StudentT:
    """Numbers with Student's t around f."""

    y: np.ndarray
    parameters: tuple[str, ...] = ("nu", "sigma")

    def at(self, f: np.ndarray, values: np.ndarray) -> Derivatives:
        nu, sigma = values
        r = self.y - f
        s = nu * sigma**2
        d = s + r**2
        value = (
            special.gammaln((nu + 1) / 2)
            - special.gammaln(nu / 2)
            - 0.5 * np.log(np.pi * s)
            - (nu + 1) / 2 * np.log1p(r**2 / s)
        )
        slope, w = (nu + 1) * r / d, (nu + 1) * (s - r**2) / d**2
        change = 2 * (nu + 1) * r * (3 * s - r**2) / d**3
        # By s = nu sigma² first; nu enters beside it.
        value_s, slope_s = -0.5 / s + (nu + 1) / 2 * r**2 / (s * d), -(nu + 1) * r / d**2
        w_s = (nu + 1) * (3 * r**2 - s) / d**3
        gammas = 0.5 * (special.digamma((nu + 1) / 2) - special.digamma(nu / 2))
        by_nu = (
            gammas - 0.5 * np.log1p(r**2 / s) + sigma**2 * value_s,
            r / d + sigma**2 * slope_s,
            (s - r**2) / d**2 + sigma**2 * w_s,
        )
        by_sigma = (2 * nu * sigma * value_s, 2 * nu * sigma * slope_s, 2 * nu * sigma * w_s)
        return Derivatives(value, slope, w, change, (by_nu, by_sigma))

    def steep(self, f: np.ndarray, values: np.ndarray) -> np.ndarray:
        # Of the parabola below log p that touches it at f: steps never go down.
        nu, sigma = values
        return np.asarray((nu + 1) / (nu * sigma**2 + (self.y - f) ** 2))

    def start(self) -> np.ndarray:
        return np.asarray(self.y, float)

    def mean(self, f: np.ndarray, values: np.ndarray) -> np.ndarray:
        return f


def _whole(y: np.ndarray) -> None:
    if np.any(y < 0) or np.any(y != np.round(y)):
        row = int(np.argmax((y < 0) | (y != np.round(y))))
        raise DataError(f"counts are whole numbers, not {y[row]:g} (row {row})", code="not-whole")


def _binary(y: np.ndarray) -> None:
    bad = ~np.isin(y, (0, 1))
    if np.any(bad):
        raise DataError(
            f"outcomes are 0 or 1, not {np.asarray(y)[bad][0]:g} (row {int(np.argmax(bad))})", code="impossible-value"
        )
