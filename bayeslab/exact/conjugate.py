"""Conjugate pairs: prior and posterior of the same form, updated by sufficient statistics.

Each class is a distribution of parameters. ``update`` returns the posterior, of the same class, which is the prior for
further data: data given all at once, in parts, or one at a time lead to the same posterior. ``log_evidence`` is the log
density of data with the parameters integrated out, and ``predictive`` the distribution of the next observation. If
hyperparameters are arrays, each element is a separate parameter; ``at`` is the flat index of the parameter of each
datum.

========================  ==========================  =====================
class                     likelihood                  predictive
========================  ==========================  =====================
:class:`BetaBinomial`     Bernoulli, binomial         beta-binomial
:class:`DirichletMultinomial`  categorical, multinomial  (α + N) / (α0 + N0)
:class:`GammaPoisson`     Poisson with exposure       negative binomial
:class:`GammaExponential`  exponential                Lomax
:class:`GammaPrecision`   normal, mean known          Student t, 2α dof
:class:`NormalKnownVariance`  normal, variance known  normal
:class:`NormalGamma`      normal                      Student t, 2α dof
:class:`NormalWishart`    multivariate normal         multivariate t, ν - d + 1 dof
:class:`NormalInverseGamma`  linear regression        Student t, 2α dof
========================  ==========================  =====================

Parameters are PyMC's: ``Gamma(alpha, beta)`` has mean alpha / beta.

References
----------
.. [1] Gelman et al. (2013). Bayesian Data Analysis, 3rd ed., chapters 2, 3 and 14.
.. [2] DeGroot (1970). Optimal Statistical Decisions, chapter 9.
.. [3] Bernardo, Smith (1994). Bayesian Theory, appendix A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from bayeslab import special
from bayeslab.constants import HALF_LOG_2PI, LOG_2PI, LOG_PI
from bayeslab.digits import remainders
from bayeslab.errors import ModelError
from bayeslab.exact.coordinates import Observations, coordinates

__all__ = [
    "BetaBinomial",
    "DirichletMultinomial",
    "GammaExponential",
    "GammaPoisson",
    "GammaPrecision",
    "NormalGamma",
    "NormalInverseGamma",
    "NormalKnownVariance",
    "NormalWishart",
    "empirical_bayes",
]

type ArrayLike = Any

# Smallest eigenvalue, for columns of unit norm, at which coefficients are identified.
_SINGULAR = 1e-13


def _totals(values: ArrayLike, shape: tuple[int, ...], at: ArrayLike | None) -> np.ndarray:
    """Sum of the values of each parameter's data."""
    values = np.asarray(values, float)
    if at is None:
        if shape and values.shape == shape:
            return values
        if shape:
            raise ModelError(
                f"{values.shape} data for parameters of shape {shape}: say which with `at`", code="wrong-shape"
            )
        return values.sum()
    at = np.asarray(at)
    sums = np.bincount(at.ravel(), np.broadcast_to(values, at.shape).ravel(), int(np.prod(shape)))
    return sums.reshape(shape)


# --------------------------------------------------------------------------------- proportions


@dataclass(frozen=True, eq=False)
class BetaBinomial:
    """Probabilities of success, each ``Beta(alpha, beta)``."""

    alpha: ArrayLike = 1.0
    beta: ArrayLike = 1.0

    def update(self, successes: ArrayLike, trials: ArrayLike = 1, at: ArrayLike | None = None) -> Self:
        """Posterior after ``successes`` (a number or an array) in ``trials`` each."""
        successes, trials = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
        return self.add(successes, trials - successes, at)

    def log_evidence(self, successes: ArrayLike, trials: ArrayLike = 1, at: ArrayLike | None = None) -> float:
        """Log probability of the counts, with the order of trials within a count unspecified."""
        after = self.update(successes, trials, at)
        n, k = np.broadcast_arrays(np.asarray(trials, float), np.asarray(successes, float))
        log_choose = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
        return self.gained(after) + float(np.sum(log_choose))

    def add(self, a: ArrayLike, b: ArrayLike, at: ArrayLike | None = None) -> Self:
        """Posterior after items whose log probabilities are a log θ + b log(1 - θ)."""
        a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
        shape = np.shape(self.alpha)
        return type(self)(self.alpha + _totals(a, shape, at), self.beta + _totals(b, shape, at))

    def gained(self, after: Self) -> float:
        """Log ratio of the normalising constants of posterior and prior."""
        return float(np.sum(special.betaln(after.alpha, after.beta) - special.betaln(self.alpha, self.beta)))

    def mean(self) -> np.ndarray:
        return np.asarray(self.alpha / (self.alpha + self.beta))

    def sd(self) -> np.ndarray:
        total = self.alpha + self.beta
        return np.sqrt(self.alpha * self.beta / (total**2 * (total + 1)))

    def mode(self) -> np.ndarray:
        """(α - 1) / (α + β - 2); NaN if there is no unique mode (α = β = 1, or both below one)."""
        alpha, beta = np.asarray(self.alpha, float), np.asarray(self.beta, float)
        inside = (alpha >= 1) & (beta >= 1) & (alpha + beta > 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            within = (alpha - 1) / (alpha + beta - 2)
        edge = np.where((alpha < 1) & (beta >= 1), 0.0, np.where((beta < 1) & (alpha >= 1), 1.0, np.nan))
        return np.where(inside, within, edge)

    def quantile(self, probability: ArrayLike) -> np.ndarray:
        return np.asarray(special.betaincinv(self.alpha, self.beta, probability))

    def cdf(self, value: ArrayLike) -> np.ndarray:
        return np.asarray(special.betainc(self.alpha, self.beta, value))

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent draws, shape (n, ...)."""
        return rng.beta(self.alpha, self.beta, (n, *np.shape(self.alpha)))

    def predictive(self, trials: ArrayLike = 1) -> Any:
        """Successes in further trials: a frozen ``scipy.stats.betabinom``."""
        from scipy import stats

        return stats.betabinom(trials, self.alpha, self.beta)


@dataclass(frozen=True, eq=False)
class DirichletMultinomial:
    """Probabilities of K outcomes, ``Dirichlet(a)``, with the outcomes on the last axis."""

    a: np.ndarray

    @classmethod
    def of(cls, a: ArrayLike) -> Self:
        return cls(np.asarray(a, float))

    def update(self, counts: ArrayLike) -> Self:
        """Posterior after counts of the outcomes, in the shape of ``a`` (further leading axes are summed)."""
        counts = np.asarray(counts, float)
        return type(self)(self.a + counts.sum(axis=tuple(range(counts.ndim - self.a.ndim))))

    def log_evidence(self, counts: ArrayLike) -> float:
        """Log probability of a sequence of outcomes with these counts, in a given order."""
        return float(np.sum(self.update(counts)._log_normaliser() - self._log_normaliser()))

    def _log_normaliser(self) -> np.ndarray:
        return np.asarray(special.gammaln(self.a).sum(axis=-1) - special.gammaln(self.a.sum(axis=-1)))

    def mean(self) -> np.ndarray:
        return np.asarray(self.a / self.a.sum(axis=-1, keepdims=True))

    def sd(self) -> np.ndarray:
        total, mean = self.a.sum(axis=-1, keepdims=True), self.mean()
        return np.sqrt(mean * (1 - mean) / (total + 1))

    def quantile(self, probability: ArrayLike) -> np.ndarray:
        """Quantiles of each outcome's probability, which is marginally a beta."""
        return np.asarray(special.betaincinv(self.a, self.a.sum(axis=-1, keepdims=True) - self.a, probability))

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent draws, shape (n, ..., K)."""
        gammas = rng.standard_gamma(self.a, (n, *self.a.shape))
        return gammas / gammas.sum(axis=-1, keepdims=True)

    def predictive(self) -> np.ndarray:
        """Probabilities of the next outcome."""
        return self.mean()


# --------------------------------------------------------------------------------- rates


@dataclass(frozen=True, eq=False)
class _Gamma:
    """Positive numbers, each ``Gamma(alpha, beta)``."""

    alpha: ArrayLike
    beta: ArrayLike

    def mean(self) -> np.ndarray:
        return np.asarray(self.alpha / self.beta)

    def sd(self) -> np.ndarray:
        return np.asarray(np.sqrt(self.alpha) / self.beta)

    def quantile(self, probability: ArrayLike) -> np.ndarray:
        return np.asarray(special.gammaincinv(self.alpha, probability) / self.beta)

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent draws, shape (n, ...)."""
        return rng.standard_gamma(self.alpha, (n, *np.shape(self.alpha))) / self.beta

    def add(self, shape: ArrayLike, rate: ArrayLike, at: ArrayLike | None = None) -> Self:
        """Posterior after items whose log densities are shape log θ - rate θ."""
        shape, rate = np.broadcast_arrays(np.asarray(shape, float), np.asarray(rate, float))
        alpha_shape = np.shape(self.alpha)
        return type(self)(self.alpha + _totals(shape, alpha_shape, at), self.beta + _totals(rate, alpha_shape, at))

    def gained(self, after: Self) -> float:
        """Log ratio of the normalising constants of posterior and prior."""
        before = self.alpha * np.log(self.beta) - special.gammaln(self.alpha)
        return float(np.sum(before - after.alpha * np.log(after.beta) + special.gammaln(after.alpha)))


@dataclass(frozen=True, eq=False)
class GammaPoisson(_Gamma):
    """Rates of Poisson counts with mean rate × exposure."""

    def update(self, counts: ArrayLike, exposure: ArrayLike = 1.0, at: ArrayLike | None = None) -> Self:
        return self.add(counts, exposure, at)

    def log_evidence(self, counts: ArrayLike, exposure: ArrayLike = 1.0, at: ArrayLike | None = None) -> float:
        counts = np.asarray(counts, float)
        base = special.xlogy(counts, np.asarray(exposure, float)) - special.gammaln(counts + 1)
        return self.gained(self.update(counts, exposure, at)) + float(np.sum(base))

    def predictive(self, exposure: ArrayLike = 1.0) -> Any:
        """The next count: a frozen ``scipy.stats.nbinom``."""
        from scipy import stats

        return stats.nbinom(self.alpha, self.beta / (self.beta + exposure))


@dataclass(frozen=True, eq=False)
class GammaExponential(_Gamma):
    """Rates of exponential waiting times, with rate × ``factor`` for each time."""

    def update(self, times: ArrayLike, factor: ArrayLike = 1.0, at: ArrayLike | None = None) -> Self:
        times = np.asarray(times, float)
        return self.add(np.ones(times.shape), times * factor, at)

    def log_evidence(self, times: ArrayLike, factor: ArrayLike = 1.0, at: ArrayLike | None = None) -> float:
        times, factor = np.broadcast_arrays(np.asarray(times, float), np.asarray(factor, float))
        return self.gained(self.update(times, factor, at)) + float(np.sum(np.log(factor)))

    def predictive(self) -> Any:
        """The next time: a frozen ``scipy.stats.lomax``."""
        from scipy import stats

        return stats.lomax(self.alpha, scale=self.beta)


@dataclass(frozen=True, eq=False)
class GammaPrecision(_Gamma):
    """Precisions of normal errors around known means: ``Normal(0, tau=precision * factor)``.

    The variance 1 / precision is inverse-gamma with the same alpha and beta.
    """

    def update(self, errors: ArrayLike, factor: ArrayLike = 1.0, at: ArrayLike | None = None) -> Self:
        errors = np.asarray(errors, float)
        return self.add(np.full(errors.shape, 0.5), 0.5 * factor * errors**2, at)

    def log_evidence(self, errors: ArrayLike, factor: ArrayLike = 1.0, at: ArrayLike | None = None) -> float:
        errors, factor = np.broadcast_arrays(np.asarray(errors, float), np.asarray(factor, float))
        base = 0.5 * np.sum(np.log(factor)) - 0.5 * errors.size * LOG_2PI
        return self.gained(self.update(errors, factor, at)) + float(base)

    def predictive(self, mean: ArrayLike = 0.0) -> Any:
        """The next value: a frozen ``scipy.stats.t``."""
        from scipy import stats

        return stats.t(2 * self.alpha, mean, np.sqrt(self.beta / self.alpha))


# --------------------------------------------------------------------------------- normal


@dataclass(frozen=True, eq=False)
class NormalKnownVariance:
    """Means ``Normal(mu, sigma)`` of data whose standard deviation ``noise`` is known."""

    mu: ArrayLike
    sigma: ArrayLike
    noise: float = 1.0

    def update(self, data: ArrayLike, at: ArrayLike | None = None) -> Self:
        data = np.asarray(data, float)
        shape = np.shape(self.mu)
        prior, each = np.asarray(self.sigma, float) ** -2.0, self.noise**-2.0
        precision = prior + each * _totals(np.ones(data.shape), shape, at)
        mu = (prior * self.mu + each * _totals(data, shape, at)) / precision
        return type(self)(mu, precision**-0.5, self.noise)

    def log_evidence(self, data: ArrayLike, at: ArrayLike | None = None) -> float:
        """Log evidence, from data, prior and posterior densities at the posterior mean, to avoid cancellation."""
        data = np.asarray(data, float)
        after = self.update(data, at)
        here = after.mu if at is None else np.asarray(after.mu).ravel()[np.asarray(at)]
        likelihood = np.sum(-HALF_LOG_2PI - np.log(self.noise) - 0.5 * ((data - here) / self.noise) ** 2)
        ratio = np.log(after.sigma / self.sigma) - 0.5 * ((self.mu - after.mu) / self.sigma) ** 2
        return float(likelihood + np.sum(ratio))

    def mean(self) -> np.ndarray:
        return np.asarray(self.mu, float)

    def sd(self) -> np.ndarray:
        return np.asarray(self.sigma, float)

    def quantile(self, probability: ArrayLike) -> np.ndarray:
        return np.asarray(self.mu + self.sigma * special.ndtri(probability))

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent draws, shape (n, ...)."""
        return rng.normal(self.mu, self.sigma, (n, *np.shape(self.mu)))

    def predictive(self) -> Any:
        """The next value: a frozen ``scipy.stats.norm``; variances add."""
        from scipy import stats

        return stats.norm(self.mu, np.hypot(self.sigma, self.noise))


@dataclass(frozen=True, eq=False)
class NormalGamma:
    """Precision λ of a normal, ``Gamma(alpha, beta)``, and its mean, ``Normal(mu, tau=kappa * λ)``."""

    mu: float
    kappa: float
    alpha: float
    beta: float

    def update(self, data: ArrayLike) -> Self:
        data = np.atleast_1d(np.asarray(data, float)).ravel()
        n, mean = len(data), data.mean()
        kappa = self.kappa + n
        spread = np.sum((data - mean) ** 2) + self.kappa * n / kappa * (mean - self.mu) ** 2
        return type(self)((self.kappa * self.mu + n * mean) / kappa, kappa, self.alpha + n / 2, self.beta + spread / 2)

    def log_evidence(self, data: ArrayLike) -> float:
        after, n = self.update(data), np.size(data)
        out = special.gammaln(after.alpha) - special.gammaln(self.alpha) + 0.5 * np.log(self.kappa / after.kappa)
        out += self.alpha * np.log(self.beta) - after.alpha * np.log(after.beta) - 0.5 * n * LOG_2PI
        return float(out)

    def mean(self) -> tuple[float, float]:
        """Expectations of the mean and of the precision."""
        return self.mu, self.alpha / self.beta

    def sd(self) -> tuple[float, float]:
        """Standard deviations of the mean (infinite for alpha ≤ 1) and of the precision."""
        variance = self.beta / (self.kappa * (self.alpha - 1)) if self.alpha > 1 else np.inf
        return float(np.sqrt(variance)), float(np.sqrt(self.alpha) / self.beta)

    def quantile(self, probability: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Quantiles of the mean, which is Student t, and of the precision."""
        return self.marginal().ppf(probability), np.asarray(special.gammaincinv(self.alpha, probability) / self.beta)

    def marginal(self) -> Any:
        """The marginal distribution of the mean: a frozen ``scipy.stats.t`` with 2 alpha degrees of freedom."""
        from scipy import stats

        return stats.t(2 * self.alpha, self.mu, np.sqrt(self.beta / (self.alpha * self.kappa)))

    def variance(self) -> Any:
        """The distribution of the variance 1 / λ: a frozen ``scipy.stats.invgamma``."""
        from scipy import stats

        return stats.invgamma(self.alpha, scale=self.beta)

    def draws(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Means and precisions, shape (n,) each."""
        precision = rng.standard_gamma(self.alpha, n) / self.beta
        return rng.normal(self.mu, (self.kappa * precision) ** -0.5), precision

    def predictive(self) -> Any:
        """The next value: a frozen ``scipy.stats.t`` with 2 alpha degrees of freedom."""
        from scipy import stats

        return stats.t(2 * self.alpha, self.mu, np.sqrt(self.beta * (self.kappa + 1) / (self.alpha * self.kappa)))


@dataclass(frozen=True, eq=False)
class NormalWishart:
    """Precision Λ of a multivariate normal, ``Wishart(nu, V)``, and its mean, ``MvNormal(mu, tau=kappa Λ)``.

    E[Λ] = nu V. With d = 1 it is :class:`NormalGamma` with alpha = nu / 2, beta = 1 / (2 V).
    """

    mu: np.ndarray
    kappa: float
    nu: float
    V: np.ndarray

    @property
    def d(self) -> int:
        return len(self.mu)

    def update(self, data: ArrayLike) -> Self:
        """Posterior after rows of data, shape (n, d)."""
        data = np.atleast_2d(np.asarray(data, float))
        n, mean = len(data), data.mean(axis=0)
        kappa, apart = self.kappa + n, mean - self.mu
        centred = data - mean
        inverse = np.linalg.inv(self.V) + centred.T @ centred + self.kappa * n / kappa * np.outer(apart, apart)
        mu = (self.kappa * self.mu + n * mean) / kappa
        return type(self)(mu, kappa, self.nu + n, np.linalg.inv(inverse))

    def log_evidence(self, data: ArrayLike) -> float:
        data = np.atleast_2d(np.asarray(data, float))
        after, d = self.update(data), self.d
        out = (
            special.multigammaln(after.nu / 2, d) - special.multigammaln(self.nu / 2, d) - 0.5 * d * len(data) * LOG_PI
        )
        out += 0.5 * (after.nu * np.linalg.slogdet(after.V)[1] - self.nu * np.linalg.slogdet(self.V)[1])
        return float(out + 0.5 * d * np.log(self.kappa / after.kappa))

    def mean(self) -> tuple[np.ndarray, np.ndarray]:
        """Expectations of the mean and of the precision matrix."""
        return self.mu, self.nu * self.V

    def covariance(self) -> np.ndarray:
        """Expectation of the covariance matrix Λ^-1 (for nu > d + 1)."""
        return np.linalg.inv(self.V) / (self.nu - self.d - 1)

    def draws(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Means (n, d) and precision matrices (n, d, d)."""
        from scipy import stats

        precision = stats.wishart(self.nu, self.V).rvs(n, random_state=rng).reshape(n, self.d, self.d)
        chol = np.linalg.cholesky(precision)
        noise = np.linalg.solve(chol.transpose(0, 2, 1), rng.standard_normal((n, self.d, 1)))[..., 0]
        return self.mu + noise / np.sqrt(self.kappa), precision

    def predictive(self) -> Any:
        """The next row: a frozen ``scipy.stats.multivariate_t`` with nu - d + 1 degrees of freedom."""
        from scipy import stats

        dof = self.nu - self.d + 1
        shape = np.linalg.inv(self.V) * (self.kappa + 1) / (self.kappa * dof)
        return stats.multivariate_t(self.mu, shape, dof)


# --------------------------------------------------------------------------------- regression


@dataclass(frozen=True, eq=False)
class NormalInverseGamma:
    """Linear regression: σ² is ``InverseGamma(alpha, beta)``, the coefficients given it
    ``MvNormal(mu, tau=precision / σ²)``.

    ``flat`` is the limit of wide priors, whose posterior is that of least squares. If predictors are far from zero, the
    precision matrix is too ill-conditioned to separate intercept and slopes; ``root``, any matrix whose product with
    its transpose is the inverse of the precision, keeps that information.
    """

    mu: np.ndarray
    precision: np.ndarray
    alpha: float
    beta: float
    root: np.ndarray | None = None

    @classmethod
    def flat(cls, n_coefficients: int, *, uniform: str = "log_sigma") -> Self:
        """Flat priors on the coefficients and on log σ (the reference prior) or on σ."""
        power = {"log_sigma": 0.0, "sigma": 0.5}[uniform]
        p = n_coefficients
        return cls(np.zeros(p), np.zeros((p, p)), -p / 2 - power, 0.0)

    @classmethod
    def about(cls, centre: np.ndarray, mu: np.ndarray, precision: np.ndarray, alpha: float, beta: float) -> Self:
        """Prior from the precision of (the level at ``centre`` of the predictors, the slopes).

        Parameters
        ----------
        centre : ndarray (p - 1,)
        mu : ndarray (p,)
            Location of the intercept at zero and of the slopes.
        precision : ndarray (p, p)
        """
        to, back = np.eye(len(mu)), np.eye(len(mu))
        to[0, 1:], back[0, 1:] = centre, -np.asarray(centre)
        root = back @ np.linalg.inv(np.linalg.cholesky(precision)).T
        return cls(np.asarray(mu, float), to.T @ precision @ to, alpha, beta, root)

    @property
    def proper(self) -> bool:
        wide = self.root is not None or bool(np.all(np.linalg.eigvalsh(self.precision) > 0))
        return self.alpha > 0 and self.beta > 0 and wide

    def update(self, design: np.ndarray, data: np.ndarray, weights: ArrayLike = 1.0) -> Self:
        """Posterior after data with variances σ² / weights.

        Raises
        ------
        ModelError
            The coefficients are not identified.
        """

        design, data = np.asarray(design, float), np.asarray(data, float)
        with np.errstate(divide="ignore"):
            factors = np.broadcast_to(1 / np.sqrt(np.asarray(weights, float)), data.shape)
        # One least-squares problem, with the prior as p further rows.
        prior = _square_root(self.precision) if self.root is None else np.linalg.inv(self.root)
        place = prior @ self.mu if self.root is None else -remainders(prior, np.zeros(len(prior)), self.mu)
        observations = Observations.of(design, data, factors)
        rows = [observations, Observations(prior, place, prior=True)]
        at, ((gram, cross, square),) = coordinates([rows], np.ones(1), np.zeros(1, bool))
        scale = np.sqrt(np.diagonal(gram))
        identified = np.all(scale > 0)
        unit = gram / np.outer(scale, scale) if identified else gram
        if not identified or np.linalg.eigvalsh(unit)[0] < _SINGULAR:
            raise ModelError(
                "the coefficients cannot be told apart (columns that are combinations of others)",
                code="dependent-columns",
            )
        inverse = np.linalg.inv(np.linalg.cholesky(unit)) / scale
        half = inverse @ cross
        transform = at.transform.toarray()
        mu = at.point + at.unit * (transform @ (inverse.T @ half))
        left = max(float(square - half @ half), 0.0) * at.unit**2
        return type(self)(
            mu,
            self.precision + observations.gram,
            self.alpha + len(data) / 2,
            self.beta + left / 2,
            transform @ inverse.T,
        )

    def log_evidence(self, design: np.ndarray, data: np.ndarray, weights: ArrayLike = 1.0) -> float:
        """Log evidence; NaN if the prior is improper."""
        if not self.proper:
            return float("nan")
        after, n = self.update(design, data, weights), len(data)
        root = np.broadcast_to(np.asarray(weights, float), n)
        out = after._log_volume - self._log_volume
        out += self.alpha * np.log(self.beta) - after.alpha * np.log(after.beta)
        out += special.gammaln(after.alpha) - special.gammaln(self.alpha) - 0.5 * n * LOG_2PI + 0.5 * np.log(root).sum()
        return float(out)

    @cached_property
    def _root(self) -> np.ndarray:
        if self.root is not None:
            return self.root
        return np.linalg.inv(np.linalg.cholesky(self.precision)).T

    @property
    def _log_volume(self) -> float:
        """Half of the log determinant of the inverse precision."""
        return float(np.linalg.slogdet(self._root)[1])

    @property
    def _widths(self) -> np.ndarray:
        """Square roots of the diagonal of the inverse precision."""
        return np.sqrt((self._root**2).sum(axis=1))

    def mean(self) -> tuple[np.ndarray, float]:
        """Means of the coefficients and of σ² (infinite for alpha ≤ 1)."""
        return self.mu, self.beta / (self.alpha - 1) if self.alpha > 1 else np.inf

    def sd(self) -> tuple[np.ndarray, float]:
        """Standard deviations of the coefficients and of σ²."""
        mean = self.mean()[1]
        spread = mean / np.sqrt(self.alpha - 2) if self.alpha > 2 else np.inf
        return np.sqrt(mean) * self._widths, spread

    def quantile(self, probability: float) -> tuple[np.ndarray, float]:
        """Quantiles of each coefficient, a Student t with 2 alpha degrees of freedom, and of σ²."""
        from scipy import stats

        width = np.sqrt(self.beta / self.alpha) * self._widths
        return stats.t.ppf(probability, 2 * self.alpha, self.mu, width), float(
            self.beta / special.gammaincinv(self.alpha, 1 - probability)
        )

    def draws(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (n, p) and σ² (n,)."""
        variance = self.beta / rng.standard_gamma(self.alpha, n)
        noise = rng.standard_normal((len(self.mu), n)).T @ self._root.T
        return self.mu + noise * np.sqrt(variance)[:, None], variance

    def predictive(self, design: np.ndarray, weights: ArrayLike = 1.0) -> Any:
        """Distribution of new data at design rows: frozen ``scipy.stats.t`` with 2 alpha degrees of freedom."""
        from scipy import stats

        design = np.atleast_2d(np.asarray(design, float))
        zero = np.zeros(len(design))
        uncertain = sum(remainders(design, zero, column) ** 2 for column in self._root.T)
        width = np.sqrt(self.beta / self.alpha * (1 / np.asarray(weights, float) + uncertain))
        return stats.t(2 * self.alpha, -remainders(design, zero, self.mu), width)


def _square_root(matrix: np.ndarray) -> np.ndarray:
    """A root R of the matrix, R'R; the matrix may be singular."""
    values, vectors = np.linalg.eigh(matrix)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


# --------------------------------------------------------------------------------- hyperparameters


def empirical_bayes(
    log_evidence: Callable[[np.ndarray], float], start: Sequence[float], *, positive: Sequence[bool] | None = None
) -> tuple[np.ndarray, float]:
    """Hyperparameters with the largest evidence (type-II maximum likelihood).

    Parameters
    ----------
    log_evidence
        Log evidence as a function of the hyperparameters, such as
        ``lambda h: BetaBinomial(h[0] * ones, h[1] * ones).log_evidence(successes, trials)``.
    start
        Start of the search.
    positive
        Which hyperparameters are positive (default: all); these are searched on the log scale.

    Returns
    -------
    hyperparameters : ndarray
    log_evidence : float

    Raises
    ------
    ModelError
        The evidence has no maximum: it keeps growing towards zero or infinity.

    References
    ----------
    Good (1965). The Estimation of Probabilities. MIT Press.
    """
    from scipy.optimize import minimize

    logged = np.ones(len(start), bool) if positive is None else np.asarray(positive, bool)

    def value(x: np.ndarray) -> np.ndarray:
        return np.where(logged, np.exp(np.where(logged, x, 0.0)), x)

    begin = np.where(logged, np.log(np.where(logged, start, 1.0)), start)
    options = {"xatol": 1e-9, "fatol": 1e-11, "maxiter": 20_000, "maxfev": 20_000}
    result = minimize(lambda x: -log_evidence(value(x)), begin, method="Nelder-Mead", options=options)
    if not result.success or np.any(np.abs(result.x[logged]) > 30):
        raise ModelError(
            "the evidence has no maximum: it keeps growing as a hyperparameter goes to zero or infinity (as when"
            " groups differ by no more than chance); give the hyperparameter a prior instead",
            code="no-mode",
        )
    return value(result.x), float(-result.fun)
