"""Variational factors of what the weights of a mixture follow from: a Dirichlet, or a gate on inputs.

A gate has no conjugate prior. Its coefficients get a normal factor, by Böhning's bound [1]_: log Σ exp lies below a
quadratic with the curvature A = (I - 11'/K) / 2 for every point of tangency. So the covariance of the factor is
constant, and the ELBO is still monotone and a lower bound. With regressions as components this is a Bayesian mixture of
experts [2]_.

References
----------
.. [1] Böhning (1992). Multinomial logistic regression algorithm. Annals of the Institute of Statistical
   Mathematics 44, 197-200.
.. [2] Waterhouse, MacKay, Robinson (1996). Bayesian methods for mixtures of experts. NIPS 8, 351-357.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import digamma, gammaln

from bayeslab.distributions.toolbox.logarithms import log_sum
from bayeslab.latents.labels.labels import Labels

__all__ = ["DirichletFactor", "GateFactor", "WeightsFactor", "factor_of"]


class WeightsFactor(ABC):
    """The variational factor of what the weights of components follow from."""

    #: Names of its values among those that :meth:`draw` returns.
    names: ClassVar[tuple[str, ...]]

    def arranged(self, responsibilities: np.ndarray) -> np.ndarray:
        """The responsibilities (N, K), with components in an order that the prior prefers."""
        return responsibilities

    @abstractmethod
    def updated(self, responsibilities: np.ndarray, counts: np.ndarray) -> Self:
        """The best factor given responsibilities (N, K), and expected numbers of weighted rows (K,)."""

    @abstractmethod
    def expected_log(self) -> np.ndarray:
        """E log w, or a lower bound of it, (K,) or (N, K)."""

    @abstractmethod
    def divergence(self) -> float:
        """Kullback-Leibler divergence from the prior."""

    @abstractmethod
    def mean(self) -> dict[str, Any]:
        """The values at their mean."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw the values."""

    @abstractmethod
    def log_ratio(self, theta: Mapping[str, Any]) -> float:
        """Log density of the prior minus that of this factor."""


def factor_of(latent: Labels, row_weights: np.ndarray) -> WeightsFactor:
    """The factor of the weights of labels, at its prior."""
    if latent.inputs is None:
        return DirichletFactor(latent.prior_counts, np.zeros(latent.n_states))
    return GateFactor.prior(latent.inputs, row_weights, latent.n_states, latent.gate_precision)


@dataclass(frozen=True, eq=False)
class DirichletFactor(WeightsFactor):
    """A Dirichlet posterior: the prior's concentration (K,), and expected numbers of rows (K,)."""

    prior: np.ndarray
    counts: np.ndarray

    names = ("weights",)

    @property
    def concentration(self) -> np.ndarray:
        return self.prior + self.counts

    def updated(self, responsibilities: np.ndarray, counts: np.ndarray) -> DirichletFactor:
        return replace(self, counts=counts)

    def expected_log(self) -> np.ndarray:
        a = self.concentration
        return np.asarray(digamma(a) - digamma(a.sum()))

    def divergence(self) -> float:
        a = self.concentration
        return float((a - self.prior) @ self.expected_log()) - _log_normaliser(a) + _log_normaliser(self.prior)

    def mean(self) -> dict[str, Any]:
        return {"weights": self.concentration / self.concentration.sum()}

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"weights": rng.dirichlet(self.concentration)}

    def log_ratio(self, theta: Mapping[str, Any]) -> float:
        constants = _log_normaliser(self.concentration) - _log_normaliser(self.prior)
        return constants - float(self.counts @ np.log(np.maximum(theta["weights"], 1e-300)))


def _log_normaliser(a: np.ndarray) -> float:
    """Log normalising constant of a Dirichlet distribution."""
    return float(gammaln(a).sum() - gammaln(a.sum()))


@dataclass(frozen=True, eq=False)
class GateFactor(WeightsFactor):
    """A normal posterior of the gate's free coefficients, (K - 1, q), and the point of tangency of its bound."""

    inputs: np.ndarray
    row_weights: np.ndarray
    precision: float
    coefficients: np.ndarray
    covariance: np.ndarray
    point: np.ndarray

    names = ("gate",)

    @classmethod
    def prior(cls, inputs: np.ndarray, row_weights: np.ndarray, n_components: int, precision: float) -> GateFactor:
        """At the prior's mean, with the covariance of every posterior."""
        m, q = n_components - 1, inputs.shape[1]
        gram = (inputs * row_weights[:, None]).T @ inputs
        inverse = np.kron(_curvature(n_components), gram) + precision * np.eye(m * q)
        at = np.zeros((m, q)), np.linalg.inv(inverse), np.zeros((len(inputs), m))
        return cls(inputs, row_weights, precision, *at)

    def updated(self, responsibilities: np.ndarray, counts: np.ndarray) -> GateFactor:
        """The optimal normal posterior for these responsibilities, then the optimal point of tangency."""
        n_components = responsibilities.shape[1]
        slope = np.exp(self.point - _log_total(self.point)[:, None])
        target = responsibilities[:, 1:] - slope + self.point @ _curvature(n_components)
        pull = (target * self.row_weights[:, None]).T @ self.inputs
        mean = (self.covariance @ pull.ravel()).reshape(self.coefficients.shape)
        return replace(self, coefficients=mean, point=self.inputs @ mean.T)

    def expected_log(self) -> np.ndarray:
        m, q = self.coefficients.shape
        blocks = self.covariance.reshape(m, q, m, q)
        spread = np.einsum("ij,iajb->ab", _curvature(m + 1), blocks)
        slack = 0.5 * np.einsum("na,ab,nb->n", self.inputs, spread, self.inputs, optimize=True)
        eta = np.column_stack([np.zeros(len(self.inputs)), self.inputs @ self.coefficients.T])
        return eta - (_log_total(eta[:, 1:]) + slack)[:, None]

    def divergence(self) -> float:
        size, precision = self.coefficients.size, self.precision
        inside = precision * (np.trace(self.covariance) + np.sum(self.coefficients**2))
        inside -= size + size * np.log(precision)
        return float(0.5 * (inside - np.linalg.slogdet(self.covariance)[1]))

    def mean(self) -> dict[str, Any]:
        return {"gate": self._whole(self.coefficients)}

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        free = np.linalg.cholesky(self.covariance) @ rng.standard_normal(self.coefficients.size)
        return {"gate": self._whole(self.coefficients + free.reshape(self.coefficients.shape))}

    @staticmethod
    def _whole(free: np.ndarray) -> np.ndarray:
        """Coefficients (K, q), with zeros for the first component."""
        return np.vstack([np.zeros((1, free.shape[1])), free])

    def log_ratio(self, theta: Mapping[str, Any]) -> float:
        free = theta["gate"][1:].ravel()
        apart = free - self.coefficients.ravel()
        squares = self.precision * free @ free - apart @ np.linalg.solve(self.covariance, apart)
        return float(0.5 * (free.size * np.log(self.precision) + np.linalg.slogdet(self.covariance)[1] - squares))


def _curvature(n_components: int) -> np.ndarray:
    m = n_components - 1
    return 0.5 * (np.eye(m) - 1.0 / n_components)


def _log_total(eta: np.ndarray) -> np.ndarray:
    """log(1 + Σ exp)."""
    return np.logaddexp(0.0, log_sum(eta, axis=1)) if eta.shape[1] else np.zeros(len(eta))
