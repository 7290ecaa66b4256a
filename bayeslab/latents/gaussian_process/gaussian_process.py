"""Gaussian-process regression in closed form, given the hyperparameters.

Observations y are normal with mean ``design @ coefficients`` and covariance C = K(x, x) + diag(noise). Then everything
follows from the Cholesky factor of C: the posterior of the function, of each additive term of the kernel, the log
marginal likelihood, and leave-one-out predictions. If the coefficients of the mean have a normal prior with variances
``prior_variances``, they are integrated out as a further linear term of the covariance.

``LOG_MARGINAL`` is the kernel for :class:`bayeslab.evidence.EvidenceOp`: the vector is θ, the noise's standard
deviation and the coefficients; the arrays are the program of the covariance function (four), the inputs by column
(columns, n), y, the design (n, p), known noise variances (n,), and the share of the mean variance that is added to the
diagonal.

Non-normal observations have no closed form. ``LOG_LIKELIHOOD`` is the log likelihood of the function at distinct
inputs, made of standard normals z: f = design @ coefficients + (L z)[place] with L the factor of K. Its vector is θ,
two parameters of the likelihood, the coefficients and z; the arrays are the program, the distinct inputs by column, the
place (n,) of each observation among them, y, trials, design, the share added to the diagonal, and
:func:`likelihood_words`.

References
----------
.. [1] Rasmussen, Williams (2006). Gaussian Processes for Machine Learning. MIT Press. Algorithm 2.1, sections 2.7, 5.4.
.. [2] Duvenaud (2014). Automatic model construction with Gaussian processes. PhD thesis, Cambridge, section 2.4.5
   (posterior of additive terms).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.blas import one_blas_thread
from bayeslab.constants import LOG_2PI
from bayeslab.errors import ModelError
from bayeslab.latents.gaussian_process.covariance import Kernel

__all__ = [
    "LOG_LIKELIHOOD",
    "LOG_LIKELIHOOD_OF_PREDICTOR",
    "LOG_MARGINAL",
    "LOG_MARGINAL_IN_TIME",
    "GaussianProcess",
    "LeaveOneOut",
    "NormalRows",
    "NotPositiveDefinite",
    "at_new_inputs",
    "by_term",
    "factor",
    "likelihood_words",
    "threads",
]

LOG_MARGINAL = "bayeslab.latents.gaussian_process.covariance_kernels:log_marginal"
# The same for sums of Matérn processes of one column, in n steps.
LOG_MARGINAL_IN_TIME = "bayeslab.latents.gaussian_process.state_space_kernels:log_marginal"
LOG_LIKELIHOOD_OF_PREDICTOR = "bayeslab.latents.gaussian_process.covariance_kernels:log_likelihood_of_predictor"
LOG_LIKELIHOOD = "bayeslab.latents.gaussian_process.covariance_kernels:log_likelihood_whitened"


def likelihood_words(likelihood: str, link: str) -> np.ndarray:
    """Codes of a likelihood and its link for the compiled code."""
    from bayeslab.latents.gaussian_process import covariance_kernels as kernels

    codes = {
        "student_t": kernels.STUDENT_T,
        "bernoulli": kernels.BERNOULLI,
        "binomial": kernels.BINOMIAL,
        "poisson": kernels.POISSON,
        "negative_binomial": kernels.NEGATIVE_BINOMIAL,
    }
    return np.array([codes[likelihood], kernels.PROBIT if link == "probit" else kernels.LOGIT], np.int64)


# Up to this many rows linear algebra uses one thread: several would mostly wait for each other.
_SMALL = 1_000


def threads(n: int) -> AbstractContextManager[Any]:
    """Context: one thread for linear algebra of small matrices, all threads for large ones."""
    return one_blas_thread() if n <= _SMALL else nullcontext()


class NotPositiveDefinite(ModelError):
    """A covariance matrix has no Cholesky factor, even with jitter."""


def factor(
    kernel: Kernel, theta: np.ndarray, x: np.ndarray, noise: np.ndarray, *, nugget: float = 0.0
) -> tuple[np.ndarray, float]:
    """Lower Cholesky factor of K(x, x) + diag(noise) + jitter, and the jitter that was added.

    Parameters
    ----------
    nugget
        Jitter, as a share of the mean variance. More, up to a millionth, is added if there is no factor otherwise.

    Raises
    ------
    NotPositiveDefinite
        A millionth of the mean variance is not enough.
    """
    from bayeslab.latents.gaussian_process import covariance_kernels as kernels

    inputs = np.ascontiguousarray(np.asarray(x, float).T)
    theta, noise = np.ascontiguousarray(theta, float), np.ascontiguousarray(noise, float)
    lower, jitter = kernels.factor(*kernel.program, theta, inputs, noise, float(nugget))
    if np.isnan(jitter):
        values = ", ".join(f"{name} = {value:.4g}" for name, value in zip(kernel.names, theta, strict=True))
        raise NotPositiveDefinite(
            f"the covariance matrix of '{kernel.text}' is not positive definite, even with a millionth of its mean"
            f" variance added to the diagonal{f' (at {values})' if values else ''}: some rows have the same inputs and"
            " no noise tells them apart, or hyperparameters are extreme",
            code="not-a-covariance",
        )
    return lower, float(jitter)


def at_new_inputs(
    kernel: Kernel, theta: np.ndarray, x: np.ndarray, new: np.ndarray, *, nugget: float
) -> tuple[np.ndarray, np.ndarray]:
    """A and C such that f(new) = A z + C e, where f(x) = L z with L the factor of K(x, x), and e is standard normal.

    Shapes (new, inputs) and (new, new).

    Raises
    ------
    NotPositiveDefinite
        K(x, x) has no factor.
    """
    from scipy.linalg import solve_triangular

    lower, _ = factor(kernel, theta, x, np.zeros(len(x)), nugget=nugget)
    weights = solve_triangular(lower, kernel.matrix(theta, new, x).T, lower=True).T
    rest = kernel.matrix(theta, new) - weights @ weights.T
    values, vectors = np.linalg.eigh(0.5 * (rest + rest.T))
    return weights, vectors * np.sqrt(np.maximum(values, 0.0))


def by_term[T](kernel: Kernel, predict: Callable[[Kernel], T]) -> dict[str, T]:
    """Predictions for each term of a kernel's sum except white noise, by the term's text."""
    return {name: predict(term) for name, term in kernel.components().items() if term.free_of_noise() is not None}


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """Each observation predicted from all others.

    Attributes
    ----------
    mean, variance, log_density : ndarray (n,)
        Of the observation, noise included.
    besides : ndarray (n,) or float
        The part of the variance that no other row shares; 0 where the noise is in C.
    """

    mean: np.ndarray
    variance: np.ndarray
    log_density: np.ndarray
    besides: np.ndarray | float = 0.0

    @classmethod
    def of(
        cls, residuals: np.ndarray, weights: np.ndarray, precision: np.ndarray, besides: np.ndarray | float = 0.0
    ) -> LeaveOneOut:
        """From C^-1 residuals and the diagonal of C^-1 ([1]_, 5.10 to 5.12), and variance that is in no other row."""
        gap = weights / precision
        return cls.around(residuals, gap, 1.0 / precision + besides, besides)

    @classmethod
    def around(
        cls, residuals: np.ndarray, gap: np.ndarray, variance: np.ndarray, besides: np.ndarray | float = 0.0
    ) -> LeaveOneOut:
        """From the difference of each observation from its prediction, and its variance."""
        return cls(residuals - gap, variance, -0.5 * np.log(2 * np.pi * variance) - 0.5 * gap**2 / variance, besides)

    @classmethod
    def integrating(
        cls,
        predicted: Callable[[np.ndarray], LeaveOneOut],
        residuals: np.ndarray,
        design: np.ndarray,
        prior_variances: np.ndarray,
    ) -> LeaveOneOut:
        """With coefficients of the mean integrated out, for a process that predicts any residuals linearly.

        Predictions of the columns X of the design give W = C^-1 X, and (C + XVX')^-1 = C^-1 - W (V^-1 + X'W)^-1 W'.
        Residuals are those at the means of the coefficients' priors.
        """
        free = np.flatnonzero(prior_variances > 0)
        x, whole = design[:, free], predicted(residuals)
        precision = 1.0 / (whole.variance - whole.besides)
        weights = precision * (residuals - whole.mean)
        solved = np.empty_like(x)
        for j, column in enumerate(x.T):
            solved[:, j] = precision * (column - predicted(column.copy()).mean)
        inner = np.linalg.solve(np.diag(1.0 / prior_variances[free]) + x.T @ solved, solved.T)
        weights = weights - inner.T @ (x.T @ weights)
        return cls.of(residuals, weights, precision - np.einsum("ij,ji->i", solved, inner), whole.besides)


@dataclass(frozen=True, eq=False)
class NormalRows:
    """Rows with normal observations, for processes that are functions of the hyperparameters.

    Attributes
    ----------
    kernel : Kernel
    x : ndarray (n, columns)
    y : ndarray (n,)
    design : ndarray (n, p)
        Of the mean function.
    known : ndarray (n,)
        Known variances of the observations, added to the noise.
    """

    kernel: Kernel
    x: np.ndarray
    y: np.ndarray
    design: np.ndarray
    known: np.ndarray

    def split(self, parameters: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        """θ, the standard deviation of the noise, and the coefficients of the mean, from one vector."""
        k = len(self.kernel.parameters)
        return parameters[:k], float(parameters[k]), parameters[k + 1 :]


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A Gaussian process given its hyperparameters and normal observations.

    Attributes
    ----------
    kernel : Kernel
    theta : ndarray (parameters,)
    x : ndarray (n, columns)
    residuals : ndarray (n,)
        Observations minus the mean function.
    noise : ndarray (n,)
        Variances of the observations.
    design : ndarray (n, p) or None
        Design matrix of a mean with integrated coefficients: normal with mean zero and variances ``prior_variances``.
    nugget : float
        See :func:`factor`.
    known : (ndarray, float) or None
        The factor and its jitter, if already computed.
    """

    kernel: Kernel
    theta: np.ndarray
    x: np.ndarray
    residuals: np.ndarray
    noise: np.ndarray
    design: np.ndarray | None = None
    prior_variances: np.ndarray | None = None
    nugget: float = 0.0
    known: tuple[np.ndarray, float] | None = None

    @cached_property
    def _factor(self) -> tuple[np.ndarray, float]:
        if self.known is not None:
            return self.known
        if self.design is None or self.prior_variances is None:
            return factor(self.kernel, self.theta, self.x, self.noise, nugget=self.nugget)
        whole = self.kernel.matrix(self.theta, self.x) + (self.design * self.prior_variances) @ self.design.T
        for share in (0.0, 1e-12, 1e-10, 1e-8, 1e-6):
            # The model's jitter is a share of the function's variance, without a vague prior of the mean.
            jitter = max(self.usual_jitter, share * float(np.mean(np.diagonal(whole))))
            try:
                return np.linalg.cholesky(whole + np.diag(self.noise + jitter)), jitter
            except np.linalg.LinAlgError:
                continue
        raise NotPositiveDefinite(
            f"the covariance matrix of '{self.kernel.text}' is not positive definite", code="not-a-covariance"
        )

    @property
    def lower(self) -> np.ndarray:
        """Cholesky factor of the covariance of the observations, (n, n)."""
        return self._factor[0]

    @property
    def jitter(self) -> float:
        """Jitter that was added to the diagonal to obtain a factor."""
        return self._factor[1]

    @property
    def usual_jitter(self) -> float:
        """Jitter that is always added."""
        return self.nugget * float(np.mean(self.kernel.diagonal(self.theta, self.x)))

    @property
    def condition(self) -> float:
        """An estimate of the condition number of the covariance of the observations."""
        from scipy.linalg import lapack

        # The norm is the largest row sum of L L', at most as large as that of |L| |L|'.
        size = np.abs(self.lower)
        reciprocal, _ = lapack.dpocon(self.lower, float((size @ size.sum(axis=0)).max()), uplo="L")
        return float(1.0 / max(reciprocal, 1e-300))

    @cached_property
    def weights(self) -> np.ndarray:
        """C^-1 residuals: the mean of the function at x is K(x, data) @ weights."""
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve((self.lower, True), self.residuals))

    @property
    def log_evidence(self) -> float:
        """Log density of the observations."""
        n = len(self.residuals)
        return float(-0.5 * self.residuals @ self.weights - np.log(np.diagonal(self.lower)).sum() - 0.5 * n * LOG_2PI)

    def _term(self, term: Kernel | None) -> Kernel | None:
        return self.kernel.free_of_noise() if term is None else term.free_of_noise()

    def predict(
        self, z: np.ndarray, term: Kernel | None = None, design: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the function at ``z`` (m, columns), white noise left out.

        Parameters
        ----------
        term
            One of ``kernel.components()``, to predict only that term of the sum.
        design
            Design matrix at ``z``, if coefficients are integrated out; the mean is then part of the function.
        """
        part = self._term(term)
        m = len(z)
        if part is None:
            return np.zeros(m), np.zeros(m)
        from scipy.linalg import solve_triangular

        cross, variance = part.matrix(self.theta, z, self.x), part.diagonal(self.theta, z)
        if design is not None and self.design is not None and self.prior_variances is not None:
            cross = cross + (design * self.prior_variances) @ self.design.T
            variance = variance + ((design**2) * self.prior_variances).sum(axis=1)
        solved = solve_triangular(self.lower, cross.T, lower=True)
        return cross @ self.weights, np.maximum(variance - (solved**2).sum(axis=0), 0.0)

    def joint(
        self, z: np.ndarray, term: Kernel | None = None, design: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and covariance matrix of the function at ``z``; as :meth:`predict`."""
        part = self._term(term)
        if part is None:
            return np.zeros(len(z)), np.zeros((len(z), len(z)))
        from scipy.linalg import solve_triangular

        cross, covariance = part.matrix(self.theta, z, self.x), part.matrix(self.theta, z)
        if design is not None and self.design is not None and self.prior_variances is not None:
            cross = cross + (design * self.prior_variances) @ self.design.T
            covariance = covariance + (design * self.prior_variances) @ design.T
        solved = solve_triangular(self.lower, cross.T, lower=True)
        return cross @ self.weights, covariance - solved.T @ solved

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean (p,) and covariance (p, p) of coefficients that are integrated out."""
        from scipy.linalg import solve_triangular

        assert self.design is not None
        assert self.prior_variances is not None
        cross = self.prior_variances[:, None] * self.design.T
        solved = solve_triangular(self.lower, cross.T, lower=True)
        return cross @ self.weights, np.diag(self.prior_variances) - solved.T @ solved

    def components(self, z: np.ndarray) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        """Posterior mean and variance at ``z`` of each term of the kernel's sum, by its text; white noise left out."""
        return by_term(self.kernel, lambda term: self.predict(z, term))

    def leave_one_out(self) -> LeaveOneOut:
        """Leave-one-out prediction of every observation, without refitting ([1]_, 5.10 to 5.12)."""
        from scipy.linalg import lapack

        inverse, status = lapack.dpotri(self.lower, lower=1)
        assert status == 0
        return LeaveOneOut.of(self.residuals, self.weights, np.diagonal(inverse))
