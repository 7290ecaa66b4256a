"""Linear-Gaussian nets as multivariate normals, stored as a mean and a square root of the covariance.

The variables are ``x = mean + factor @ ε``, with standard normal noises ε. A variable's row of the factor is its slopes
times its parents' rows, plus its sd in a separate column. An observation ``factor_e @ ε = residual`` fixes ε in one
direction and leaves the orthogonal directions free, so conditioning is an orthogonal projection of the rows. Variances
are sums of squares: they are never negative, they stay accurate when the evidence nearly determines a variable, and
they may be zero (a variable that is a function of others).

References
----------
.. [1] Shachter, Kenley (1989). Gaussian influence diagrams. Management Science 35, 527-550.
.. [2] Björck (1994). Numerics of Gram-Schmidt orthogonalization. Linear Algebra and its
   Applications 197, 297-316 (projecting twice is enough).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from bayeslab.arrays import lengths
from bayeslab.constants import LOG_2PI
from bayeslab.errors import EvidenceError, ModelError, hint
from bayeslab.latents.networks.mixed_network import MixedNetwork, read_mixed_evidence

__all__ = ["MultivariateNormal", "Observed", "joint", "observe"]

# A residual row below this share of the row is rounding error: earlier observations determine the variable.
_DETERMINED = 1e-12
# Tolerance for the observed value of a determined variable.
_AGREES = 1e-9


@dataclass(frozen=True, eq=False)
class Observed:
    """Posterior of the noises given m observed variables, for any batch of models.

    Attributes
    ----------
    directions : ndarray (..., m, c)
        Orthonormal directions in which the noises are known; zero for a determined variable.
    scores : ndarray (..., m)
        Coordinates of the noises along those directions.
    log_density : ndarray (...)
        Log density of the observed values; a determined variable adds 0 if it has the determined value, else -inf.
    determined : ndarray of bool (..., m)
        Whether the variable is a function of those observed before it.
    """

    directions: np.ndarray
    scores: np.ndarray
    log_density: np.ndarray
    determined: np.ndarray

    def update(self, mean: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean (...) and factor (..., c) of one variable, given its prior mean and factor."""
        along = np.matmul(self.directions, factor[..., None])[..., 0]
        left = factor - np.matmul(along[..., None, :], self.directions)[..., 0, :]
        return mean + (along * self.scores).sum(axis=-1), left


def observe(mean: np.ndarray, factor: np.ndarray, values: np.ndarray) -> Observed:
    """Condition on ``values`` of variables with ``mean`` (..., m) and rows ``factor`` (..., m, c).

    Leading axes broadcast: rows of data may share one factor.
    """
    directions = np.zeros(factor.shape)
    size = lengths(factor)
    residuals = values - mean
    magnitude = np.abs(values) + np.abs(mean) + size
    scores = np.zeros(np.broadcast_shapes(residuals.shape, size.shape))
    log_density = np.zeros(scores.shape[:-1])
    determined = np.zeros(size.shape, bool)
    for i in range(factor.shape[-2]):
        row, residual, known = factor[..., i, :], residuals[..., i], directions[..., :i, :]
        for _ in range(2 if i else 0):
            along = np.matmul(known, row[..., None])[..., 0]
            row = row - np.matmul(along[..., None, :], known)[..., 0, :]
            residual = residual - (along * scores[..., :i]).sum(axis=-1)
        length = lengths(row)
        fixed = length <= _DETERMINED * size[..., i]
        safe = np.where(fixed, 1.0, length)
        score = np.where(fixed, 0.0, residual / safe)
        agrees = np.abs(residual) <= _AGREES * magnitude[..., i]
        log_density = log_density + np.where(
            fixed, np.where(agrees, 0.0, -np.inf), -0.5 * (LOG_2PI + score**2) - np.log(safe)
        )
        directions[..., i, :] = np.where(fixed[..., None], 0.0, row / safe[..., None])
        scores[..., i], determined[..., i] = score, fixed
    return Observed(directions, scores, log_density, determined)


@dataclass(frozen=True, eq=False)
class MultivariateNormal:
    """Named variables that are jointly normal.

    Parameters
    ----------
    names : tuple of str
    mean : ndarray (n,)
    factor : ndarray (n, c)
        A matrix whose product with its transpose is the covariance.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    factor: np.ndarray

    @classmethod
    def of(cls, names: Sequence[str], mean: np.ndarray, covariance: np.ndarray) -> Self:
        """A multivariate normal with a given covariance, which may be singular.

        Raises
        ------
        ModelError
            The matrix is not symmetric, or has a negative eigenvalue.
        """
        covariance = np.asarray(covariance, float)
        values, vectors = np.linalg.eigh(covariance)
        top = max(float(np.abs(values).max(initial=0.0)), 1e-300)
        if (
            not np.allclose(covariance, covariance.T, rtol=1e-8, atol=1e-12 * top)
            or values.min(initial=0) < -1e-9 * top
        ):
            raise ModelError("a covariance must be symmetric without negative eigenvalues", code="not-a-covariance")
        # The square root of a zero eigenvalue's rounding error would be 1e8 times as large as the error.
        exact = np.where(values > 1e-14 * top, values, 0.0)
        return cls(tuple(names), np.asarray(mean, float), vectors * np.sqrt(exact))

    @cached_property
    def covariance(self) -> np.ndarray:
        return self.factor @ self.factor.T

    @property
    def sd(self) -> np.ndarray:
        return lengths(self.factor)

    def _at(self, names: Sequence[str]) -> list[int]:
        for name in names:
            if name not in self.names:
                raise EvidenceError(f"'{name}' is not a variable{hint(name, self.names)}", code="unknown-variable")
        return [self.names.index(name) for name in names]

    def marginal(self, names: Sequence[str]) -> Self:
        """The joint distribution of some of the variables, in the requested order."""
        at = self._at(names)
        return type(self)(tuple(names), self.mean[at], self.factor[at])

    def quantile(self, probability: float) -> np.ndarray:
        """Quantile of each variable."""
        from scipy.special import ndtri

        width = self.sd
        return self.mean + np.where(width > 0, ndtri(probability) * np.where(width > 0, width, 1.0), 0.0)

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent draws, shape (n, number of variables)."""
        return self.mean + rng.standard_normal((n, self.factor.shape[1])) @ self.factor.T

    def condition(self, given: Mapping[str, Any]) -> Self:
        """The distribution of the unobserved variables, and of those measured with error, given observations.

        Parameters
        ----------
        given : mapping
            Variable to its value, or to ``{"value": reading, "sd": error of the measurement}``.

        Raises
        ------
        EvidenceError
            An unknown variable, or contradictory values, whose density is zero.
        """
        normal, observation = self._observed(given)
        gone = {v for v, g in given.items() if not isinstance(g, Mapping)}
        rest = [i for i, name in enumerate(self.names) if name not in gone]
        if not np.isfinite(observation.log_density):
            raise EvidenceError(
                "the given values contradict each other: some variables are functions of others (sd 0)",
                code="contradiction",
            )
        return type(self)(
            tuple(self.names[i] for i in rest), *observation.update(normal.mean[rest], normal.factor[rest])
        )

    def log_density(self, given: Mapping[str, Any]) -> float:
        """Log density of observations (the log evidence); -inf where they contradict each other."""
        return float(self._observed(given)[1].log_density)

    def _observed(self, given: Mapping[str, Any]) -> tuple[Self, Observed]:
        evidence = read_mixed_evidence(self._network, given)
        # In the order of the variables, so that `determined` does not depend on the order of `given`.
        exact = [name for name in self.names if name in evidence.exact]
        noisy = [name for name in self.names if name in evidence.noisy]
        at, near = self._at(exact), self._at(noisy)
        errors = np.diag([evidence.noisy[name][1] for name in noisy])
        wide = np.pad(self.factor, ((0, 0), (0, len(noisy))))
        read = wide[near]
        read[:, self.factor.shape[1] :] = errors
        values = [evidence.exact[name] for name in exact] + [evidence.noisy[name][0] for name in noisy]
        mean = np.concatenate([self.mean[at], self.mean[near]])
        observation = observe(mean, np.vstack([wide[at], read]), np.array(values, dtype=float))
        return type(self)(self.names, self.mean, wide), observation

    @cached_property
    def _network(self) -> MixedNetwork:
        """A network with the same names, for reading evidence."""
        return MixedNetwork.blank({}, {}, dict.fromkeys(self.names, ()))

    def log_densities(self, values: np.ndarray) -> np.ndarray:
        """Log density of the observed cells of each row; NaN cells are missing.

        Parameters
        ----------
        values : ndarray (n, number of variables)
        """
        observed = ~np.isnan(values)
        out = np.empty(len(values))
        patterns, which = np.unique(observed, axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            rows = np.flatnonzero(which.ravel() == k)
            observation = observe(self.mean[pattern], self.factor[pattern], values[rows][:, pattern])
            out[rows] = observation.log_density
        return out


def joint(network: MixedNetwork) -> MultivariateNormal:
    """The joint distribution of a net whose variables are all continuous, in the order of ``continuous``.

    Raises
    ------
    ModelError
        The net has discrete variables.
    """
    if network.states:
        raise ModelError(
            f"'{next(iter(network.states))}' is discrete, so the joint distribution is a mixture of normals;"
            " query the net by the strong junction tree",
            code="unsupported",
        )
    names = tuple(network.continuous)
    place = {name: i for i, name in enumerate(names)}
    mean, factor = np.zeros(len(names)), np.zeros((len(names), len(names)))
    for variable in network.order:
        node, i = network.continuous[variable], place[variable]
        above = [place[p] for p in node.parents]
        mean[i] = node.intercept + node.slopes @ mean[above]
        factor[i] = node.slopes @ factor[above]
        factor[i, i] = node.sd
    return MultivariateNormal(names, mean, factor)
