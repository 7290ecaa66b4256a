r"""Laplace's approximation of Gaussian processes whose observations are not normal.

The posterior of the latent values f is replaced by the normal at its mode with the curvature there. The mode is
found by Newton's steps on Ψ(a) = log p(y | m + K a) - a'K a / 2 with B = I + W^½ K W^½, whose eigenvalues are at least
one [1]_; the log evidence is approximately Ψ - ½ log |B|, and its gradient includes the shift of the mode. For
Student's t, where W may be negative, steps use non-negative weights, and I + K W replaces B at the mode [2]_.

Predictions average over the normal latent value; the mean of 0/1 outcomes is a probability that includes the
uncertainty of f, and is nearer to one half than the probability at the mode.

References
----------
.. [1] Rasmussen, Williams (2006). Gaussian Processes for Machine Learning. MIT Press. Algorithms 3.1, 3.2, 5.1.
.. [2] Vanhatalo, Jylänki, Vehtari (2009). Gaussian process regression with Student-t likelihood. NIPS 22.
.. [3] Kuss, Rasmussen (2005). Assessing approximate inference for binary Gaussian process classification. JMLR 6,
   1679-1704 (how far off it is).
.. [4] Vehtari, Mononen, Tolvanen, Sivula, Winther (2016). Bayesian leave-one-out cross-validation approximations for
   Gaussian latent variable models. JMLR 17(103), 1-38 (section 3.2).
.. [5] Tierney, Kadane (1986). Accurate approximations for posterior moments and marginal densities. Journal of the
   American Statistical Association 81, 82-86.
.. [6] Murray, Adams, MacKay (2010). Elliptical slice sampling. AISTATS 9, 541-548.
.. [7] Nishihara, Murray, Adams (2014). Parallel MCMC with generalized elliptical slice sampling. JMLR 15, 2087-2112.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gaussian_process import LeaveOneOut, NotPositiveDefinite
from bayeslab.latents.gaussian_process.gp_likelihoods import NODES, WEIGHTS, Derivatives, Likelihood, averaged

__all__ = ["LaplaceErrors", "LaplaceGaussianProcess", "LaplaceRegression"]

_STEPS = 200
_TOLERANCE = 1e-10
# Share of the mean variance added to K, so that equal inputs are no trouble in drawing.
_NUGGET = 1e-10
# Chains of `errors`, the steps of each, and how many of these are warm-up.
_CHAINS, _STEPS_OF_CHAIN, _WARM_UP = 200, 150, 30


@dataclass(frozen=True, eq=False)
class LaplaceErrors:
    """Errors of Laplace's approximation at the rows, by sampling from the posterior of the function.

    Attributes
    ----------
    mean : ndarray of shape (n,)
        Of the function's mean, in standard deviations of the function.
    log_sd : ndarray of shape (n,)
        Of the logarithm of the function's standard deviation.
    response : ndarray of shape (n,)
        Of E[y], in standard deviations of E[y | f].
    """

    mean: np.ndarray
    log_sd: np.ndarray
    response: np.ndarray


@dataclass(frozen=True, eq=False)
class LaplaceGaussianProcess:
    """A Gaussian process given its hyperparameters and observations that need not be normal.

    Parameters
    ----------
    kernel : Kernel
    theta : ndarray of shape (parameters,)
    x : ndarray of shape (n, columns)
    likelihood : Likelihood
        With the observations.
    values : ndarray
        Of the likelihood's parameters.
    offset : ndarray of shape (n,)
        The mean function.
    start : ndarray of shape (n,), optional
        ``weights`` of a process nearby, to begin the search with.

    Raises
    ------
    NotPositiveDefinite
        The mode was not found, or is no maximum.
    """

    kernel: Kernel
    theta: np.ndarray
    x: np.ndarray
    likelihood: Likelihood
    values: np.ndarray
    offset: np.ndarray
    start: np.ndarray | None = None
    jitter: float = field(init=False, default=0.0)

    @cached_property
    def _covariance(self) -> np.ndarray:
        covariance = self.kernel.matrix(self.theta, self.x)
        covariance[np.diag_indices_from(covariance)] *= 1.0 + _NUGGET
        return covariance

    @cached_property
    def weights(self) -> np.ndarray:
        """a = K⁻¹(f - m) at the mode, (n,)."""
        k = self._covariance
        a = self._beginning()
        f = self.offset + k @ a
        height = self._height(a, f)
        for _ in range(_STEPS):
            now = self.likelihood.at(f, self.values)
            w = self.likelihood.steep(f, self.values)
            b = w * (f - self.offset) + now.slope
            root = np.sqrt(w)
            inner = np.linalg.cholesky(np.eye(len(b)) + root[:, None] * k * root)
            step = b - root * _solve(inner, root * (k @ b)) - a
            share, moved = 1.0, k @ step
            while True:
                new_height = self._height(a + share * step, f + share * moved)
                if new_height >= height - 1e-12 * (1.0 + abs(height)) or share < 1e-10:
                    break
                share *= 0.5
            a, f, gain = a + share * step, f + share * moved, new_height - height
            height = new_height
            if abs(gain) < _TOLERANCE * (1.0 + abs(height)) and np.abs(share * moved).max() < 1e-6:
                return self._polished(a, f)
        raise NotPositiveDefinite(
            f"the mode of the latent function was not found in {_STEPS} steps", code="not-converged"
        )

    def _beginning(self) -> np.ndarray:
        """Of zero and a nearby process's weights, the higher."""
        zero = np.zeros(len(self.offset))
        if self.start is None:
            return zero
        k = self._covariance
        if self._height(self.start, self.offset + k @ self.start) > self._height(zero, self.offset):
            return self.start
        return zero

    def _height(self, a: np.ndarray, f: np.ndarray) -> float:
        return float(self.likelihood.at(f, self.values).value.sum() - 0.5 * a @ (f - self.offset))

    def _polished(self, a: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Plain Newton steps to rounding: derivatives assume that a is the slope at f."""
        k = self._covariance
        for _ in range(3):
            now = self.likelihood.at(f, self.values)
            wrong = now.slope - a
            if np.abs(wrong).max() < 1e-12:
                break
            change = np.linalg.solve(np.eye(len(a)) + now.curvature[:, None] * k, wrong)
            a, f = a + change, f + k @ change
        return a

    @cached_property
    def mode(self) -> np.ndarray:
        """The latent values, mean function included, at the mode, (n,)."""
        return np.asarray(self.offset + self._covariance @ self.weights)

    @cached_property
    def _derivatives(self) -> Derivatives:
        return self.likelihood.at(self.mode, self.values)

    @cached_property
    def _curved(self) -> tuple[float, np.ndarray, np.ndarray]:
        """log |I + K W|, R = (K + W⁻¹)⁻¹, and the diagonal of the posterior covariance."""
        k, w = self._covariance, self._derivatives.curvature
        identity = np.eye(len(w))
        if np.all(w >= 0.0):
            root = np.sqrt(w)
            inner = np.linalg.cholesky(identity + root[:, None] * k * root)
            r = root[:, None] * _solve(inner, np.diag(root))
            log_determinant = 2.0 * np.log(np.diagonal(inner)).sum()
        else:
            sign, log_determinant = np.linalg.slogdet(identity + k * w)
            r = w[:, None] * np.linalg.inv(identity + k * w)
            r = 0.5 * (r + r.T)
            if sign <= 0.0:
                raise NotPositiveDefinite("the mode of the latent function is not a maximum", code="no-mode")
        variance = np.diagonal(k) - np.einsum("ij,ij->i", k @ r, k)
        if np.any(variance < -1e-8 * np.diagonal(k)):
            raise NotPositiveDefinite("the mode of the latent function is not a maximum", code="no-mode")
        return float(log_determinant), r, np.maximum(variance, 0.0)

    @cached_property
    def _pull(self) -> np.ndarray:
        """How the determinant changes with the mode, solved for the right-hand side of the mode's equation, (n,)."""
        _, r, variance = self._curved
        lean = -0.5 * variance * self._derivatives.change
        return np.asarray(lean - r @ (self._covariance @ lean))

    @property
    def log_evidence(self) -> float:
        """Laplace's approximation of the log density of the observations."""
        inner = self.weights @ (self.mode - self.offset)
        return float(self._derivatives.value.sum() - 0.5 * inner - 0.5 * self._curved[0])

    def gradient(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Derivatives of `log_evidence` with respect to θ, the likelihood's parameters, and the mean of each row."""
        now, (_, r, variance) = self._derivatives, self._curved
        a, v = self.weights, self._pull
        weights = 0.5 * (np.outer(a, a) - r) + 0.5 * (np.outer(now.slope, v) + np.outer(v, now.slope))
        weights[np.diag_indices_from(weights)] *= 1.0 + _NUGGET
        theta = self.kernel.gradient(self.theta, self.x, weights)
        moved = self._covariance @ v
        values = np.array(
            [
                value.sum() - 0.5 * (variance * curvature).sum() + moved @ slope
                for value, slope, curvature in now.by_parameter
            ]
        )
        return theta, values, now.slope + v

    @property
    def mean_from_mode(self) -> np.ndarray:
        """How far the posterior mean of each latent value is from the mode, to first order, in standard deviations.

        The mean moves from the mode by the posterior covariance times half the third derivative of the log likelihood
        times the variance [5]_. Laplace's approximation has mean and mode at one place.
        """
        moved, sd = self._covariance @ self._pull, np.sqrt(self._curved[2])
        return np.divide(moved, sd, out=np.zeros_like(moved), where=sd > 0.0)

    def errors(self, rng: np.random.Generator) -> LaplaceErrors:
        """Errors of the mean and sd of each latent value and of E[y], from draws of the posterior.

        Chains begin at draws of the approximation and take elliptical slice steps [6]_ around it, which leave the
        posterior invariant [7]_. With L L' = K and u = L⁻¹ (f - m), the prior of u is standard normal and the
        approximation is u = û + H z with standard normal z. The result has a Monte Carlo error of about 0.02, and
        of a few hundredths more where tails are much heavier than those of a normal distribution.
        """
        n, values = len(self.offset), self.values
        eigenvalues, vectors = np.linalg.eigh(self._covariance)
        root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
        precision = np.eye(n) + root.T @ (self._derivatives.curvature[:, None] * root)
        spread = np.linalg.inv(np.linalg.cholesky(precision))  # u = û + z spread
        center, by_row = root.T @ self.weights, spread @ root.T

        def places(z: np.ndarray) -> np.ndarray:
            """f, u and z, each from the approximation's mean, (3, chains, n)."""
            return np.stack([z @ by_row, z @ spread, z])

        def height(place: np.ndarray) -> np.ndarray:
            """Log of the posterior over the approximation, (chains,)."""
            likelihood = self.likelihood.at(self.mode + place[0], values).value.sum(axis=-1)
            return np.asarray(likelihood - 0.5 * ((center + place[1]) ** 2 - place[2] ** 2).sum(axis=-1))

        place = places(rng.standard_normal((_CHAINS, n)))
        now = height(place)
        sums = np.zeros((4, n))
        for step in range(_STEPS_OF_CHAIN):
            aside = places(rng.standard_normal((_CHAINS, n)))
            level = now - rng.exponential(size=_CHAINS)
            angle = rng.uniform(0.0, 2.0 * np.pi, _CHAINS)
            low, high = angle - 2.0 * np.pi, angle.copy()
            todo, moved = np.arange(_CHAINS), place.copy()
            while len(todo):
                turn = angle[todo, None]
                tried = place[:, todo] * np.cos(turn) + aside[:, todo] * np.sin(turn)
                heights = height(tried)
                good = (heights >= level[todo]) | (high[todo] - low[todo] < 1e-9)
                moved[:, todo[good]], now[todo[good]] = tried[:, good], heights[good]
                todo = todo[~good]
                below = angle[todo] < 0.0
                low[todo] = np.where(below, angle[todo], low[todo])
                high[todo] = np.where(below, high[todo], angle[todo])
                angle[todo] = rng.uniform(low[todo], high[todo])
            place = moved
            if step >= _WARM_UP:
                shift = place[0]
                response = self.likelihood.mean(self.mode + shift, values)
                sums += [part.sum(axis=0) for part in (shift, shift**2, response, response**2)]
        shift, square, response, response_square = sums / (_CHAINS * (_STEPS_OF_CHAIN - _WARM_UP))
        sd = np.sqrt(np.maximum(square - shift**2, 0.0))
        response_sd = np.sqrt(np.maximum(response_square - response**2, 0.0))
        variance = self._curved[2]
        expected = averaged(self.likelihood, self.mode, variance, values)
        certain = sd <= 1e-6 * sd.max()  # known values of the function, and rounding
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = (-shift / sd, np.log(np.sqrt(variance) / sd), (expected - response) / response_sd)
        return LaplaceErrors(*(np.where(certain | ~np.isfinite(part), 0.0, part) for part in parts))

    def predict(self, z: np.ndarray, term: Kernel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the latent function at ``z`` without its mean function, or of one term."""
        part = self._part(term)
        if part is None:
            return np.zeros(len(z)), np.zeros(len(z))
        cross = part.matrix(self.theta, z, self.x)
        variance = part.diagonal(self.theta, z) - np.einsum("ij,ij->i", cross @ self._curved[1], cross)
        return cross @ self.weights, np.maximum(variance, 0.0)

    def joint(self, z: np.ndarray, term: Kernel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance matrix of the latent function at ``z``; as :meth:`predict`."""
        part = self._part(term)
        if part is None:
            return np.zeros(len(z)), np.zeros((len(z), len(z)))
        cross = part.matrix(self.theta, z, self.x)
        return cross @ self.weights, part.matrix(self.theta, z) - cross @ self._curved[1] @ cross.T

    def _part(self, term: Kernel | None) -> Kernel | None:
        return self.kernel.free_of_noise() if term is None else term.free_of_noise()

    def components(self, z: np.ndarray) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        """Mean and variance at ``z`` of each term of the kernel's sum, by its text; white noise left out."""
        terms = self.kernel.components().items()
        return {name: self.predict(z, term) for name, term in terms if term.free_of_noise() is not None}

    def predict_mean(self, z: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """E[y] at ``z``, averaged over the latent function: probabilities of ones where y is 0 or 1."""
        mean, variance = self.predict(z)
        return averaged(self.likelihood, mean + offset, variance, self.values)

    def leave_one_out(self) -> LeaveOneOut:
        """Each observation from all others: its own curvature and slope are taken out of the normal at its row [4]_.

        ``mean`` and ``variance`` are those of the latent value, mean function left out; the density is of the
        observation, by quadrature.
        """
        now, (_, _, variance) = self._derivatives, self._curved
        inside = np.maximum(1.0 - variance * now.curvature, 1e-10)
        cavity = variance / inside
        mean = self.mode - cavity * now.slope
        density = np.logaddexp.reduce(
            [
                np.log(w) + self.likelihood.at(mean + x * np.sqrt(cavity), self.values).value
                for x, w in zip(NODES, WEIGHTS, strict=True)
            ]
        )
        return LeaveOneOut(mean - self.offset, cavity, density)


def _solve(lower: np.ndarray, b: np.ndarray) -> np.ndarray:
    from scipy.linalg import cho_solve

    return np.asarray(cho_solve((lower, True), b))


@dataclass(frozen=True, eq=False)
class LaplaceRegression:
    """Data as functions of the hyperparameters.

    Parameters
    ----------
    kernel : Kernel
    x : ndarray of shape (n, columns)
    likelihood : Likelihood
    design : ndarray of shape (n, p)
        Of the mean function.
    """

    kernel: Kernel
    x: np.ndarray
    likelihood: Likelihood
    design: np.ndarray

    def posterior(self, parameters: np.ndarray, start: np.ndarray | None = None) -> LaplaceGaussianProcess:
        """The process at θ, the likelihood's parameters, and the coefficients of the mean, in one vector."""
        k, m = len(self.kernel.parameters), len(self.likelihood.parameters)
        theta, values, coefficients = parameters[:k], parameters[k : k + m], parameters[k + m :]
        offset = self.design @ coefficients
        return LaplaceGaussianProcess(self.kernel, theta, self.x, self.likelihood, values, offset, start)

    def log_marginal(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its gradient; minus infinity where there is no mode."""
        parameters = np.asarray(parameters, float)
        try:
            posterior = self.posterior(parameters)
            value, (theta, values, offset) = posterior.log_evidence, posterior.gradient()
        except (NotPositiveDefinite, np.linalg.LinAlgError):
            return -np.inf, np.zeros(len(parameters))
        return value, np.concatenate([theta, values, offset @ self.design])

    def remarks(self) -> list[str]:
        """What is approximated, and how."""
        return ["the latent function is integrated out by Laplace's approximation at its mode"]
