"""Stored partitions of the rows of a fit, and what follows from them for the rows of the fit and for new rows.

Clusters of a conjugate emission have their parameters integrated out. A cluster of a row with missing cells is drawn
given the observed cells, then the missing cells: columns of a normal cluster are jointly Student's t, and the missing
ones are drawn given the others; columns that are independent given the parameters are drawn from parameters given the
cluster's rows. Other clusters are stored with their parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from bayeslab.distributions.emissions.normal_rows import fill_normal
from bayeslab.latents.labels.clusters import canonical
from bayeslab.latents.labels.labels import drawn_labels
from bayeslab.latents.partitions import auxiliary_process
from bayeslab.latents.partitions.auxiliary_process import Atoms, BaseLaw
from bayeslab.latents.partitions.dirichlet_process import ProcessProblem
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture
from bayeslab.posterior.observed.joint_normal import JointNormal
from bayeslab.posterior.observed.part import StatePart

__all__ = ["IntegratedPartitions", "PartitionsWithParameters", "StoredPartitions"]

# Rest of the stick below which it is no longer broken, and largest number of pieces.
_REST, _PIECES = 1e-4, 200
# Number of prior draws that represent a new cluster, for a row with some observed cells.
_FRESH = 200


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredPartitions(ABC):
    """Stored partitions of all chains.

    Attributes
    ----------
    labels : ndarray (S, N) of int
    alphas : ndarray (S,)
        Concentrations.
    of_draw : ndarray (draws,)
        The stored partition for each draw.
    """

    labels: np.ndarray
    alphas: np.ndarray
    of_draw: np.ndarray

    @abstractmethod
    def predictions(self, rows: np.ndarray, which: Iterable[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For new rows given each partition: log density (M,), and probabilities of its clusters and of a new one.

        Clusters are ordered by first appearance.
        """

    @abstractmethod
    def left_out(self) -> Iterator[np.ndarray]:
        """Log density of each row of the fit given all others, (N,), by partition."""

    @abstractmethod
    def replicated(self, mixture: BoundMixture, s: int, rng: np.random.Generator) -> np.ndarray:
        """New rows, as many as the mixture has, from weights and parameters drawn given a partition."""

    @abstractmethod
    def completed(self, mixture: BoundMixture, s: int, rng: np.random.Generator) -> np.ndarray:
        """The rows of the mixture, with missing cells drawn given the observed ones and a partition."""


@dataclass(frozen=True, eq=False, kw_only=True)
class IntegratedPartitions(StoredPartitions):
    """Partitions with the parameters of clusters integrated out.

    Attributes
    ----------
    problem : ProcessProblem
        The problem on the rows of the fit.
    parts : list of StatePart
        Parts of the clusters' emission.
    """

    problem: ProcessProblem
    parts: list[StatePart]

    def predictions(self, rows: np.ndarray, which: Iterable[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        part = self.parts[0]
        if len(self.parts) == 1 and _is_joint_normal(part) and np.isnan(rows).any():
            return (self._with_open_cells(part, rows, s) for s in which)
        return (self.problem.predict(self.labels[s], float(self.alphas[s]), rows) for s in which)

    def _with_open_cells(self, part: JointNormal, rows: np.ndarray, s: int) -> tuple[np.ndarray, np.ndarray]:
        # Clusters are numbered by first appearance, as in the probabilities.
        labels, alpha, sigma = canonical(self.labels[s]), float(self.alphas[s]), self.problem.prior.discount
        sizes = np.bincount(labels)
        shares = np.append(sizes - sigma, alpha + len(sizes) * sigma) / (alpha + len(labels))
        return _normal_predictions(part, rows, self.problem.rows, labels, shares)

    def left_out(self) -> Iterator[np.ndarray]:
        return (self.problem.leave_one_out(z, a) for z, a in zip(self.labels, self.alphas, strict=True))

    def replicated(self, mixture: BoundMixture, s: int, rng: np.random.Generator) -> np.ndarray:
        labels, problem = self.labels[s].astype(np.int64), self.problem
        # The last cluster is a new one for the rest of the stick, which its rows share.
        weights = _drawn_weights(problem.prior.discount, labels, float(self.alphas[s]), rng)
        member = np.eye(len(weights))[labels]
        theta = problem.emission.draw(rng, problem.emission.statistics(problem.rows, member))
        return mixture.sample(rng, theta, rng.choice(len(weights), size=len(mixture.rows), p=weights))

    def completed(self, mixture: BoundMixture, s: int, rng: np.random.Generator) -> np.ndarray:
        labels = canonical(self.labels[s])
        ((_, probabilities),) = self.predictions(mixture.rows, [s])
        cluster = drawn_labels(probabilities, rng.random(len(probabilities)))
        member = np.eye(probabilities.shape[1])[labels]
        out = []
        for part in mixture.parts.values():
            at, given = list(part.columns_at), list(part.given_at)
            cells, emission = mixture.rows[:, at].copy(), part.emission
            statistics = emission.statistics(self.problem.rows[:, [*at, *given]], member)
            if _is_joint_normal(part):
                fill_normal(cells, cluster, *_predictive(part, statistics), rng)
            else:
                made = part.sample(rng, emission.draw(rng, statistics), cluster, mixture.rows[:, given])
                cells = np.where(np.isnan(cells), made, cells)
            out.append(cells)
        return np.concatenate(out, axis=1)


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionsWithParameters(StoredPartitions):
    """Partitions with the parameters of their clusters.

    Attributes
    ----------
    law : BaseLaw
    rows : ndarray (N, d)
        Rows of the fit.
    discount : float
    atoms : Atoms
        Parameters of the clusters, (S, K, ...), with K the largest number of clusters of a partition.
    """

    law: BaseLaw
    rows: np.ndarray
    discount: float
    atoms: Atoms

    def _at(self, s: int) -> tuple[np.ndarray, Atoms, float, float]:
        """A partition, the components of its clusters, α and the discount."""
        labels, a = self.labels[s].astype(np.int64), self.atoms
        count = int(labels.max()) + 1
        atoms = Atoms(a.means[s, :count], a.roots[s, :count], a.dofs[s, :count])
        return labels, atoms, float(self.alphas[s]), self.discount

    @cached_property
    def _alone(self) -> np.ndarray:
        return self.law.log_marginal(self.rows)

    def predictions(self, rows: np.ndarray, which: Iterable[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        alone = self.law.log_marginal(rows)
        return (auxiliary_process.predict(*self._at(s), rows, alone) for s in which)

    def left_out(self) -> Iterator[np.ndarray]:
        each = range(len(self.labels))
        return (auxiliary_process.leave_one_out(*self._at(s), self.rows, self._alone) for s in each)

    def replicated(self, mixture: BoundMixture, s: int, rng: np.random.Generator) -> np.ndarray:
        labels, atoms, alpha, discount = self._at(s)
        weights = _drawn_weights(discount, labels, alpha, rng)
        atoms = atoms.joined(self.law.draw(rng, len(weights) - len(atoms.means)))
        return atoms.sample(rng, rng.choice(len(weights), size=len(mixture.rows), p=weights))

    def completed(self, mixture: BoundMixture, s: int, rng: np.random.Generator) -> np.ndarray:
        _, atoms, _, _ = self._at(s)
        ((_, probabilities),) = self.predictions(mixture.rows, [s])
        # A new cluster's parameters are chosen among many prior draws, with weights by their likelihood of the row.
        fresh = self.law.draw(rng, _FRESH)
        log_density = fresh.log_density(mixture.rows)
        chance = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        chance *= probabilities[:, -1:] / chance.sum(axis=1, keepdims=True)
        cluster = drawn_labels(np.hstack([probabilities[:, :-1], chance]), rng.random(len(probabilities)))
        every, rows = atoms.joined(fresh), mixture.rows.copy()
        lower = np.linalg.inv(every.roots)
        fill_normal(rows, cluster, every.means, lower @ lower.transpose(0, 2, 1), every.dofs, rng)
        return rows


def _drawn_weights(sigma: float, labels: np.ndarray, alpha: float, rng: np.random.Generator) -> np.ndarray:
    """Draw the weights of clusters given a partition, and of new pieces that hold all but 1e-4 of the rest.

    Given the partition the weights are Dirichlet(n_1 - σ, ..., n_t - σ, α + t σ), and the rest of the stick is broken
    as in a new process with concentration α + t σ.
    """
    count = int(labels.max()) + 1
    sizes = np.bincount(labels, minlength=count)
    shares = rng.dirichlet(np.append(sizes - sigma, alpha + count * sigma))
    pieces = []
    left, k = float(shares[-1]), 0
    while left > _REST and k < _PIECES:
        k += 1
        v = rng.beta(1 - sigma, alpha + (count + k) * sigma)
        pieces.append(left * v)
        left *= 1 - v
    weights = np.concatenate([shares[:-1], pieces])
    return np.asarray(weights / weights.sum())


def _is_joint_normal(part: StatePart) -> TypeGuard[JointNormal]:
    """Whether the columns are dependent within a cluster."""
    return isinstance(part, JointNormal) and part.covariance in ("full", "known")


def _predictive(part: JointNormal, statistics: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Centre, scale matrix and degrees of freedom of the predictive distribution of a row in each cluster."""
    emission: Any = part.emission
    kappa, centre, nu, scale = emission.posterior(statistics)
    if part.covariance == "known":
        return centre, (1 + 1 / kappa)[:, None, None] * part.emission.covariances({"mean": centre}), None
    dof = nu - centre.shape[1] + 1
    return centre, scale * ((kappa + 1) / (kappa * dof))[:, None, None], dof


def _normal_predictions(
    part: JointNormal, rows: np.ndarray, rows_of_fit: np.ndarray, labels: np.ndarray, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Log density (M,) of rows with missing cells, and probabilities (M, t + 1) of clusters given them.

    Clusters have covariances; the last is a new one. Given a cluster, the observed cells are jointly Student's t.
    """
    emission: Any = part.emission
    member = np.eye(len(shares))[labels]
    centre, matrices, dof = _predictive(part, emission.statistics(rows_of_fit, member))
    log_p = np.tile(np.log(shares), (len(rows), 1))
    there = ~np.isnan(rows)
    for pattern in np.unique(there[there.any(axis=1)], axis=0):
        alike = np.flatnonzero((there == pattern).all(axis=1))
        cells = rows[np.ix_(alike, pattern)]
        for k in range(len(shares)):
            shape = matrices[k][np.ix_(pattern, pattern)]
            freedom = np.inf if dof is None else dof[k]
            log_p[alike, k] += multivariate_t(centre[k][pattern], shape, df=freedom).logpdf(cells)
    density = logsumexp(log_p, axis=1)
    return density, np.exp(log_p - density[:, None])
