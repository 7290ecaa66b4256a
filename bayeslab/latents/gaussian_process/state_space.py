"""Gaussian processes in time whose cost grows with the number of rows, not with its cube.

A process that is a linear stochastic differential equation (:mod:`bayeslab.latents.gaussian_process.linear_sde`) has a
state, given which the past says nothing of the future: Kalman's filter gives the log likelihood in n steps, equally
spaced or not, and a pass back gives its gradient and the posterior at all times [1]_.

The filter carries D = Cov(x) - P, with P the covariance of the state at any time: it moves by exp(Fδ) D exp(Fδ)'
without any noise covariance, and the backward pass carries the derivatives with respect to mean and D; what it
collects is the derivative with respect to F, for changes that commute with F, and to P. Changes of lengthscales and
periods do commute.

References
----------
.. [1] Hartikainen, Särkkä (2010). Kalman filtering and smoothing solutions to temporal Gaussian process regression
   models. IEEE MLSP 2010, 379-384.
.. [2] Durbin, Koopman (2012). Time Series Analysis by State Space Methods, 2nd ed. Oxford University Press, chapter 4
   (smoothing without inverses, leaving rows out, and draws by correcting a path drawn from the prior).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.errors import DataError, ModelError
from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gaussian_process import LeaveOneOut, NormalRows
from bayeslab.latents.gaussian_process.linear_sde import LinearSDE, of_kernel, pade_error

__all__ = [
    "Smoothed",
    "StateSpaceProcess",
    "StateSpaceRegression",
    "draw",
    "faster_in_time",
    "log_likelihood",
    "log_likelihood_and_gradient",
    "smooth",
]


# From so many rows a state on n steps are faster than one Cholesky factor (measured: from 15 to 20).
_ROWS_PER_STATE = 20


def faster_in_time(kernel: Kernel, rows: int) -> bool:
    """Whether n steps give the exact evidence and are faster than one factor: Matérn processes (and white noise) of one
    column."""
    from bayeslab.latents.gaussian_process import covariance_kernels as codes

    orders = {codes.MATERN12: 1, codes.MATERN32: 2, codes.MATERN52: 3, codes.WHITE: 0, codes.SUM: 0}
    words = [int(code) for code in kernel.program[0][:, 0]]
    if len(kernel.columns) != 1 or not orders.keys() >= set(words):
        return False
    states = sum(orders[word] for word in words)
    return states > 0 and rows >= _ROWS_PER_STATE * states


@dataclass(frozen=True, eq=False)
class _Path:
    """Rows in the order of time."""

    order: np.ndarray
    steps: np.ndarray
    values: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(cls, sde: LinearSDE, times: Any, values: Any, noise: Any) -> _Path:
        times, values = np.asarray(times, float), np.asarray(values, float)
        noise = np.atleast_1d(np.asarray(noise, float)) + sde.white
        if times.ndim != 1 or values.shape != times.shape:
            raise DataError(
                f"times and values are vectors of one length, not {times.shape} and {values.shape}", code="wrong-shape"
            )
        if len(noise) not in (1, len(times)) or not np.all(noise >= 0.0):
            raise DataError("noise is one variance, or one for each row, none negative", code="wrong-length")
        if not np.all(np.isfinite(times)) or np.any(np.isinf(values)):
            raise DataError("times are finite numbers; values are finite, or NaN where missing", code="not-finite")
        order = np.argsort(times, kind="stable")
        return cls(order, _steps(times[order]), values[order], noise[order] if len(noise) > 1 else noise)


def _steps(times: np.ndarray) -> np.ndarray:
    """Differences of times; equal ones where they differ by the rounding of the times only."""
    steps = np.diff(times, prepend=times[:1])
    if len(times) > 2:
        even = (times[-1] - times[0]) / (len(times) - 1)
        if np.abs(steps[1:] - even).max() <= 8.0 * np.finfo(float).eps * np.abs(times).max():
            steps[1:] = even
    return steps


def _arguments(sde: LinearSDE, noise: np.ndarray, *rows: np.ndarray) -> tuple[Any, ...]:
    return (*sde.rates(), sde.stationary, sde.output, noise, *sde.layout(), *rows)


_SINGULAR = (
    "a value is known from those before it: the covariance matrix is singular. Give noise, or white noise in the "
    "kernel, or leave duplicated inputs out"
)


def log_likelihood(sde: LinearSDE, times: Any, values: Any, noise: Any) -> float:
    """log p(values), normal with mean zero.

    Parameters
    ----------
    sde : LinearSDE
    times, values : array of shape (n,)
        In any order; NaN among the values is missing.
    noise : float or array of shape (n,)
        Variance of the values around the process.

    Raises
    ------
    ModelError
        The covariance matrix is singular.
    """
    from bayeslab.latents.gaussian_process import state_space_kernels as kernels

    path = _Path.of(sde, times, values, noise)
    log_p = kernels.log_evidence(*_arguments(sde, path.noise, path.steps, path.values))
    if math.isnan(log_p):
        raise ModelError(_SINGULAR, code="not-a-covariance")
    return float(log_p)


@dataclass(frozen=True, eq=False)
class Gradient:
    """Derivatives of a log likelihood.

    Parameters
    ----------
    hyperparameters : ndarray of shape (k,)
    noise : ndarray of shape (n,)
        With respect to the noise of each row; their sum where it is the same for all.
    values : ndarray of shape (n,)
        With respect to each value: minus the weights of the values in predictions.
    """

    hyperparameters: np.ndarray
    noise: np.ndarray
    values: np.ndarray


def log_likelihood_and_gradient(sde: LinearSDE, times: Any, values: Any, noise: Any) -> tuple[float, Gradient]:
    """`log_likelihood`, and its derivatives, in two passes over the rows."""
    from bayeslab.latents.gaussian_process import state_space_kernels as kernels

    path = _Path.of(sde, times, values, noise)
    unit = float(kernels.unit_of(sde.stationary, path.noise))
    square = unit * unit
    scaled = replace(sde, stationary=sde.stationary / square)
    value, to_f, to_p, to_noise, to_values = kernels.log_evidence_and_gradient(
        *_arguments(scaled, path.noise / square, path.steps, path.values / unit)
    )
    value -= np.count_nonzero(~np.isnan(path.values)) * math.log(unit)
    if math.isnan(value):
        raise ModelError(_SINGULAR, code="not-a-covariance")
    hyperparameters = np.einsum("kij,ij->k", sde.to_transition, to_f)
    hyperparameters += np.einsum("kij,ij->k", sde.to_stationary / square, to_p)
    back = np.empty(len(path.order), int)
    back[path.order] = np.arange(len(path.order))
    hyperparameters += sde.to_white / square * to_noise.sum()
    return float(value), Gradient(hyperparameters, to_noise[back] / square, to_values[back] / unit)


@dataclass(frozen=True, eq=False)
class Smoothed:
    """The process given all values.

    Parameters
    ----------
    mean, variance : ndarray of shape (m,)
        Of the process, without noise, at the times asked for.
    term_mean, term_variance : ndarray of shape (n_terms, m)
        Of each summand of the kernel.
    left_out_mean, left_out_variance : ndarray of shape (n,)
        Of each value (with its noise) given all others.
    """

    mean: np.ndarray
    variance: np.ndarray
    term_mean: np.ndarray
    term_variance: np.ndarray
    left_out_mean: np.ndarray
    left_out_variance: np.ndarray


def smooth(sde: LinearSDE, times: Any, values: Any, noise: Any, at: Any = None) -> Smoothed:
    """The process at the times of the data, or at others, given all values.

    Parameters
    ----------
    sde, times, values, noise
        As for `log_likelihood`.
    at : array of shape (m,), optional
        Times, in any order; those of the data without it.
    """
    from bayeslab.latents.gaussian_process import state_space_kernels as kernels

    times = np.asarray(times, float)
    n, more = len(times), np.zeros(0) if at is None else np.asarray(at, float)
    path = _extended(sde, times, values, noise, more)
    wanted = np.zeros((1 + len(sde.terms), sde.n_states))
    wanted[0] = sde.output
    for row, (low, high) in enumerate(sde.terms):
        wanted[row + 1, low:high] = sde.output[low:high]
    moments = kernels.smooth_path(*_arguments(sde, path.noise, path.steps, path.values, wanted))
    sorted_back = np.empty(len(path.order), int)
    sorted_back[path.order] = np.arange(len(path.order))
    mean, variance, left_mean, left_variance = (f[sorted_back] for f in moments)
    asked = slice(0, n) if at is None else slice(n, None)
    if not np.all(np.isfinite(mean)):
        raise ModelError(_SINGULAR, code="not-a-covariance")
    return Smoothed(
        mean[asked, 0],
        variance[asked, 0],
        mean[asked, 1:].T,
        variance[asked, 1:].T,
        left_mean[:n],
        left_variance[:n],
    )


def _extended(sde: LinearSDE, times: np.ndarray, values: Any, noise: Any, more: np.ndarray) -> _Path:
    noise = np.atleast_1d(np.asarray(noise, float))
    if len(noise) > 1:
        noise = np.concatenate([noise, np.ones(len(more))])
    both = np.concatenate([np.asarray(values, float), np.full(len(more), np.nan)])
    return _Path.of(sde, np.concatenate([times, more]), both, noise)


def draw(sde: LinearSDE, times: Any, values: Any, noise: Any, at: Any, rng: np.random.Generator, n: int) -> np.ndarray:
    """Joint draws of the process at some times given all values, (n, m).

    A path drawn from the prior is corrected by what the data say of its difference from them [2]_.
    """
    from bayeslab.latents.gaussian_process import state_space_kernels as kernels

    times, more, values = np.asarray(times, float), np.asarray(at, float), np.asarray(values, float)
    path = _extended(sde, times, values, noise, more)
    rates, layout = sde.rates(), sde.layout()
    asked = path.order >= len(times)
    out = np.empty((n, len(more)))
    for i in range(n):
        standard = rng.standard_normal((len(path.order), sde.n_states))
        states = kernels.draw_path(*rates, sde.stationary, sde.output, *layout, path.steps, standard)
        prior = states @ sde.output
        rows = prior + np.sqrt(path.noise) * rng.standard_normal(len(prior))
        difference = path.values - rows
        mean = kernels.smooth_path(*_arguments(sde, path.noise, path.steps, difference, sde.output[None]))[0][:, 0]
        out[i, path.order[asked] - len(times)] = (prior + mean)[asked]
    return out


@dataclass(frozen=True, eq=False)
class StateSpaceProcess:
    """A Gaussian process in time given its hyperparameters and normal observations.

    Parameters
    ----------
    kernel : Kernel
    theta : ndarray of shape (parameters,)
    times, residuals, noise : ndarray of shape (n,)
        Times, observations minus the mean function, and the variances of the observations.
    order : int
        States for each ``ExpQuad``.
    """

    kernel: Kernel
    theta: np.ndarray
    times: np.ndarray
    residuals: np.ndarray
    noise: np.ndarray
    order: int = 8
    jitter: float = 0.0

    @cached_property
    def sde(self) -> LinearSDE:
        return of_kernel(self.kernel, self.theta, self.order)

    @property
    def log_evidence(self) -> float:
        """Log density of the observations."""
        return log_likelihood(self.sde, self.times, self.residuals, self.noise)

    def _number(self, term: Kernel) -> int:
        return [k.root for k in self.kernel.components().values()].index(term.root)

    def predict(self, z: np.ndarray, term: Kernel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the function at ``z`` (m, 1), or of one term, white noise left out."""
        smoothed = smooth(self.sde, self.times, self.residuals, self.noise, np.asarray(z, float)[:, 0])
        if term is None:
            return smoothed.mean, smoothed.variance
        row = self._number(term)
        return smoothed.term_mean[row], smoothed.term_variance[row]

    def components(self, z: np.ndarray) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        """Posterior mean and variance at ``z`` of each term of the kernel's sum, by its text; white noise left out."""
        smoothed = smooth(self.sde, self.times, self.residuals, self.noise, np.asarray(z, float)[:, 0])
        return {
            name: (smoothed.term_mean[row], smoothed.term_variance[row])
            for row, (name, term) in enumerate(self.kernel.components().items())
            if term.free_of_noise() is not None
        }

    def joint(self, z: np.ndarray, term: Kernel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and covariance matrix of the function at ``z``, or of one term: a smoothing pass for each row.

        A column of K(z, x) C⁻¹ K(x, z) is what smoothing makes of the covariances with one row of ``z``.
        """
        z = np.ascontiguousarray(z, float)
        part = self.kernel.free_of_noise() if term is None else term.free_of_noise()
        row = 0 if term is None else self._number(term)
        if part is None:
            return np.zeros(len(z)), np.zeros((len(z), len(z)))
        known = np.empty((len(z), len(z)))
        alone = of_kernel(part, self.theta, self.order)
        for j in range(len(z)):
            values = alone.covariance(self.times - z[j, 0])
            smoothed = smooth(self.sde, self.times, values, self.noise, z[:, 0])
            known[:, j] = smoothed.mean if term is None else smoothed.term_mean[row]
        prior = alone.covariance(z - z.T)
        return self.predict(z, term)[0], prior - 0.5 * (known + known.T)

    def draw(self, z: np.ndarray, rng: np.random.Generator, n: int) -> np.ndarray:
        """Joint draws of the function at ``z``, (n, m)."""
        return draw(self.sde, self.times, self.residuals, self.noise, np.asarray(z, float)[:, 0], rng, n)

    def leave_one_out(self) -> LeaveOneOut:
        """Every observation predicted from all others."""
        smoothed = smooth(self.sde, self.times, self.residuals, self.noise)
        return LeaveOneOut.around(self.residuals, self.residuals - smoothed.left_out_mean, smoothed.left_out_variance)


@dataclass(frozen=True, eq=False)
class StateSpaceRegression(NormalRows):
    """Data in time, as functions of the hyperparameters.

    Parameters
    ----------
    order : int
        States for each ``ExpQuad``.
    """

    order: int = 8

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        by_time = np.argsort(self.x[:, 0], kind="stable")
        return by_time, _steps(self.x[by_time, 0])

    def posterior(self, parameters: np.ndarray) -> StateSpaceProcess:
        """The process at θ, the standard deviation of the noise, and the coefficients of the mean, in one vector."""
        theta, sd, coefficients = self.split(np.asarray(parameters, float))
        residuals, noise = self.y - self.design @ coefficients, self.known + sd**2
        return StateSpaceProcess(self.kernel, theta, self.x[:, 0], residuals, noise, self.order)

    def log_marginal(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its gradient; minus infinity where the covariance matrix is singular."""
        from bayeslab.latents.gaussian_process import state_space_kernels as kernels

        parameters = np.asarray(parameters, float)
        theta, sd, coefficients = self.split(parameters)
        sde = of_kernel(self.kernel, theta, self.order)
        by_time, steps = self._sorted
        residuals = (self.y - self.design @ coefficients)[by_time]
        same = np.ptp(self.known) == 0.0
        noise = (self.known[:1] if same else self.known[by_time]) + (sd**2 + sde.white)
        unit = float(kernels.unit_of(sde.stationary, noise))
        square = unit * unit
        scaled = replace(sde, stationary=sde.stationary / square)
        value, to_f, to_p, to_noise, to_rows = kernels.log_evidence_and_gradient(
            *_arguments(scaled, noise / square, steps, residuals / unit)
        )
        value -= len(residuals) * math.log(unit)
        if not value > -np.inf:
            return -np.inf, np.zeros(len(parameters))
        total = to_noise.sum()
        # Slopes beyond floats belong to points so bad that no search goes on from them.
        with np.errstate(over="ignore", invalid="ignore"):
            to_theta = np.tensordot(sde.to_transition, to_f, 2) + np.tensordot(sde.to_stationary / square, to_p, 2)
            to_coefficients = -(to_rows @ self.design[by_time]) / unit
            to_sd = [2.0 * sd / square * total]
            slope = np.concatenate([to_theta + sde.to_white / square * total, to_sd, to_coefficients])
        return float(value), slope

    def stretch(self, share: float) -> StateSpaceRegression:
        """The rows of a stretch of time, one beside the other as they are in the whole."""
        rows = self._sorted[0][: max(int(share * len(self.y)), 1)]
        return replace(self, x=self.x[rows], y=self.y[rows], design=self.design[rows], known=self.known[rows])

    def remarks(self) -> list[str]:
        """What is approximated, and how."""
        words = {leaf.word for leaf in self.kernel.root.leaves()}
        out = []
        if "ExpQuad" in words:
            error = pade_error(self.order)
            out.append(f"ExpQuad has a rational spectrum with {self.order} states: correlations err by {error:.1g}")
        if "Periodic" in words:
            out.append(
                "Periodic is a sum of cosines that leaves out less than 1e-9 of the variance (lengthscale above 0.11)"
            )
        return out
