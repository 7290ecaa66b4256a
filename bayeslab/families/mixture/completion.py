"""Draws of missing cells given the rest of the row: first a component given the observed cells, then the missing
cells.

For a process, the cluster is drawn with parameters integrated out, given a partition of the rows of the fit. Columns of
a normal cluster are then jointly Student's t, and the missing ones are drawn given the others. Columns that are
independent given the parameters are drawn from parameters given the cluster's rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeGuard

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from bayeslab.distributions.emissions.normal_rows import fill_normal
from bayeslab.families.mixture.model import Resolved
from bayeslab.latents.labels.labels import drawn_labels
from bayeslab.posterior.observed.joint_normal import JointNormal
from bayeslab.posterior.observed.part import StatePart

__all__ = [
    "Clusters",
    "completed",
    "completed_in_clusters",
    "drawn_in_clusters",
    "normal_predictions",
]


def completed(resolved: Resolved, draws: Mapping[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """All columns, (draws, rows), completed; observed cells are kept.

    Parameters
    ----------
    resolved
        The mixture on the rows, NaN where a cell is missing.
    draws
        Draws of its parameters, by their names in results.
    """
    names = list(resolved.dims)
    n_draws = len(draws[names[0]])
    columns = [c for part in resolved.parts.values() for c in part.columns]
    at = [resolved.columns.index(c) for c in columns]
    out = np.repeat(resolved.rows[None][:, :, at], n_draws, axis=0)
    for i in range(n_draws):
        theta = resolved.theta({name: draws[name][i] for name in names})
        labels = resolved.problem.law(theta).sample(rng)
        first = 0
        for name, part in resolved.parts.items():
            place = slice(first, first + len(part.columns))
            first = place.stop
            lacking = np.isnan(out[i, :, place])
            if lacking.any():
                given = resolved.rows[:, list(part.given_at)]
                made = _drawn(part, resolved.parameters_of(name, theta), labels, out[i, :, place], given, rng)
                out[i, :, place] = np.where(lacking, made, out[i, :, place])
    return {c: out[..., j] for j, c in enumerate(columns)}


class Clusters(Protocol):
    """Stored partitions, in the form that the completion of rows needs."""

    @property
    def of_draw(self) -> np.ndarray:
        """Index of the partition for each draw, (draws,)."""
        ...

    def completed(self, resolved: Resolved, s: int, rng: np.random.Generator) -> np.ndarray:
        """The rows of ``resolved`` with their missing cells drawn, (M, d), in the order of the parts' columns."""
        ...


def completed_in_clusters(resolved: Resolved, kept: Clusters, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """All columns, (draws, rows), completed under a process; observed cells are kept."""
    columns = [c for part in resolved.parts.values() for c in part.columns]
    made = np.stack([kept.completed(resolved, int(s), rng) for s in kept.of_draw])
    return {c: made[..., j] for j, c in enumerate(columns)}


def drawn_in_clusters(
    resolved: Resolved, rows_of_fit: np.ndarray, labels: np.ndarray, probabilities: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw missing cells of rows given a partition and the observed cells; parameters are integrated out.

    Parameters
    ----------
    resolved
        The new rows.
    rows_of_fit : ndarray (N, d)
    labels : ndarray (N,) of int
        Clusters of the rows of the fit, numbered by first appearance.
    probabilities : ndarray (M, t + 1)
        Probabilities of the clusters given each new row; the last one is a new cluster.
    """
    cluster = drawn_labels(probabilities, rng.random(len(probabilities)))
    member = np.eye(probabilities.shape[1])[labels]
    out = []
    for part in resolved.parts.values():
        at, given = list(part.columns_at), list(part.given_at)
        cells, emission = resolved.rows[:, at].copy(), part.emission
        statistics = emission.statistics(rows_of_fit[:, [*at, *given]], member)
        if joint_normal(part):
            fill_normal(cells, cluster, *_predictive(part, statistics), rng)
        else:
            made = part.sample(rng, emission.draw(rng, statistics), cluster, resolved.rows[:, given])
            cells = np.where(np.isnan(cells), made, cells)
        out.append(cells)
    return np.concatenate(out, axis=1)


def joint_normal(part: StatePart) -> TypeGuard[JointNormal]:
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


def normal_predictions(
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


def _drawn(
    part: StatePart,
    theta: Mapping[str, Any],
    labels: np.ndarray,
    rows: np.ndarray,
    given: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw rows of a part in given components; dependent columns are drawn given the observed ones."""
    if part.emission.columns_depend:
        return np.asarray(part.emission.complete(rng, theta, labels, rows))
    return np.array(part.sample(rng, theta, labels, given), float)
