r"""Distances between rows, and nearest neighbours under these distances.

Minkowski distances are searched with scikit-learn's trees or by brute force, and so is the Mahalanobis distance, as the
Euclidean distance of whitened rows. The Hamming distance counts differing columns. A kernel induces the distance
:math:`d^2(x, z) = k(x, x) + k(z, z) - 2k(x, z)`. Two different codes of a categorical column are at distance one. The
discriminant adaptive metric [1]_ shrinks, around each query, the directions in which the classes do not differ:
:math:`\Sigma = W^{-1/2}(W^{-1/2} B W^{-1/2} + \epsilon I) W^{-1/2}`, with the covariances of the nearby rows within
(W) and between (B) classes.

References
----------
.. [1] Hastie, Tibshirani (1996). Discriminant adaptive nearest neighbor classification. PAMI 18, 607-616.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field
from scipy import sparse
from scipy.sparse.linalg import norm
from sklearn.metrics.pairwise import pairwise_distances, pairwise_kernels
from sklearn.neighbors import NearestNeighbors

from bayeslab.learners.toolbox.gram import check_gram

__all__ = ["METRICS", "Metric", "Neighbours", "Power", "Space", "local_metric", "sorted_rows"]

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Metric = Literal["minkowski", "hamming", "mahalanobis", "kernel", "local"]
METRICS = ("minkowski", "hamming", "mahalanobis", "kernel", "local")
# Largest finite power of a Minkowski distance.
LARGEST_POWER = 16
_BLOCK = 4_000_000
# Number of rows on which a kernel is tested.
_TESTED = 300


def sorted_rows(distances: Array, rows: Rows) -> tuple[Array, Rows]:
    """Sort each line by distance, ties by row."""
    order = np.lexsort((rows, distances), axis=1)
    return np.take_along_axis(distances, order, 1), np.take_along_axis(rows, order, 1)


def check_power(p: float) -> float:
    """Check and return the power of a Minkowski distance.

    Raises
    ------
    ValueError
        The power is below one (no triangle inequality), or finite but above :data:`LARGEST_POWER`, where powers of
        small differences underflow although the largest difference alone has long decided.
    """
    if not 1 <= p <= LARGEST_POWER and p != np.inf:
        why = "below, the triangle inequality fails" if p < 1 else "above, take inf: the largest difference decides"
        raise ValueError(f"p is from 1 to {LARGEST_POWER}, or inf ({why}), not {p!r}")
    return p


Power = Annotated[float, Field(allow_inf_nan=True), AfterValidator(check_power)]


@dataclass(frozen=True, eq=False)
class Space:
    """The mapping of rows to points, and the distance between points.

    Attributes
    ----------
    metric : str
    p : float
        Of the Minkowski distance.
    levels : dict
        Number of codes of each categorical column in the training rows.
    whitening : ndarray or None
        Matrix that multiplies differences of points; for the Mahalanobis distance.
    kernel : str
        Kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels` for the induced distance.
    gamma : float or None
    """

    metric: str
    p: float
    levels: dict[int, int]
    whitening: Array | None = None
    kernel: str = "rbf"
    gamma: float | None = None

    @classmethod
    def of(
        cls,
        X: Array,
        metric: str = "minkowski",
        p: float = 2.0,
        categorical: tuple[int, ...] = (),
        kernel: str = "rbf",
        gamma: float | None = None,
    ) -> Space:
        """Return the space for these training rows.

        Raises
        ------
        ValueError
            The metric is unknown; p is below one (no triangle inequality) or above 16; the kernel violates Mercer's
            condition on some of the rows; columns of codes contain other numbers; or the rows are sparse, and the
            metric is neither Minkowski's with p of 1 or 2 nor that of a kernel.
        """
        if metric not in METRICS:
            raise ValueError(f"metric is one of {', '.join(METRICS)}, not {metric!r}")
        check_power(p)
        if sparse.issparse(X) and (metric not in ("minkowski", "kernel") or len(categorical)):
            what = f"metric {metric}" if metric not in ("minkowski", "kernel") else "columns of codes"
            raise ValueError(f"{what} with sparse rows: take metric minkowski or kernel, or give X.toarray()")
        if sparse.issparse(X) and metric == "minkowski" and p not in (1, 2):
            raise ValueError(f"p = {p:g} with sparse rows: take 1 or 2, or give X.toarray()")
        for j in categorical:
            if np.any(X[:, j] < 0) or np.any(X[:, j] != np.floor(X[:, j])):
                raise ValueError(f"column {j} is one of codes 0, 1, ...")
        levels = {j: int(X[:, j].max()) + 1 for j in categorical}
        plain = cls(metric, p if metric == "minkowski" else 2.0, levels, None, kernel, gamma)
        if metric == "kernel":
            at = np.unique(np.linspace(0, X.shape[0] - 1, min(X.shape[0], _TESTED)).astype(int))
            some = plain.points(X[at])
            check_gram(plain._kernel(some, some), f"{kernel} kernel")
        if metric != "mahalanobis":
            return plain
        return cls(metric, 2.0, levels, _whitening(plain.points(X)))

    def points(self, X: Array) -> Array:
        """Map rows to points; a column of codes becomes indicators scaled so that two levels are at distance one."""
        if self.metric == "hamming" or not (self.levels or self.whitening is not None):
            return X
        long = 2 ** (-1 / self.p) if np.isfinite(self.p) else 1.0
        parts = []
        for j in range(X.shape[1]):
            n = self.levels.get(j)
            # Codes absent from the training rows are one further level.
            parts.append(X[:, [j]] if n is None else long * (np.minimum(X[:, [j]], n) == np.arange(n + 1)))
        points = np.column_stack(parts)
        return points if self.whitening is None else points @ self.whitening

    def between(self, a: Array, b: Array) -> Array:
        """All pairwise distances, shape (a, b)."""
        if self.metric == "hamming":
            return pairwise_distances(a, b, metric="hamming") * a.shape[1]
        if self.metric != "kernel":
            return pairwise_distances(a, b, metric="minkowski", p=self.p)
        cross = self._kernel(a, b)
        squared = self._self_kernel(a)[:, None] + self._self_kernel(b)[None, :] - 2 * cross
        return np.sqrt(np.maximum(squared, 0.0))

    def _self_kernel(self, a: Array) -> Array:
        """The kernel of each point with itself."""
        blocks = [a[i : i + 128] for i in range(0, a.shape[0], 128)]
        return np.concatenate([np.diagonal(self._kernel(b, b)) for b in blocks])

    def _kernel(self, a: Array, b: Array) -> Array:
        extra = {} if self.gamma is None else {"gamma": self.gamma}
        return np.asarray(pairwise_kernels(a, b, metric=self.kernel, filter_params=True, **extra))


def _whitening(points: Array) -> Array:
    """A square root of the inverse covariance; directions without variation are dropped."""
    centred = points - points.mean(axis=0)
    _, s, vt = np.linalg.svd(centred, full_matrices=False)
    spread = s / np.sqrt(max(len(points) - 1, 1))
    kept = spread > 1e-10 * max(float(spread.max(initial=0.0)), 1e-300)
    if not kept.any():
        return np.zeros((points.shape[1], 1))
    return np.asarray((vt[kept] / spread[kept, None]).T)


class Neighbours:
    """The rows of a training set that are nearest to queries.

    Parameters
    ----------
    space : Space
    points : ndarray
        Training rows, as points of the space.
    algorithm : {"auto", "kd_tree", "ball_tree", "brute"}
    """

    def __init__(self, space: Space, points: Array, algorithm: str = "auto") -> None:
        self.space, self.points = space, points
        self._index: Any = None
        if space.metric == "kernel" or (space.metric == "hamming" and algorithm in ("auto", "brute")):
            return
        if space.metric == "hamming":
            if algorithm == "kd_tree":
                raise ValueError("algorithm kd_tree does not know metric hamming: take ball_tree or brute")
            self._index = NearestNeighbors(algorithm=algorithm, metric="hamming").fit(points)
        else:
            self._index = NearestNeighbors(algorithm=algorithm, metric="minkowski", p=space.p).fit(points)

    def nearest(self, queries: Array, k: int) -> tuple[Array, Rows]:
        """Distances and rows of the k nearest neighbours, nearest first; ties in the order of the rows.

        If there is a tie for the last place, a tree may keep any of the tied rows.
        """
        if self._index is None:
            return self._by_all(queries, k)
        distances, rows = self._index.kneighbors(queries, k)
        if self.space.metric == "hamming":
            return sorted_rows(distances * queries.shape[1], rows)
        # Brute force in blocks rounds; a query identical to a training row must be at distance zero.
        if sparse.issparse(queries):
            gaps = self.points[rows.ravel()] - queries[np.repeat(np.arange(len(rows)), k)]
            lengths = norm(gaps, ord=1 if self.space.p == 1 else None, axis=1)
            return sorted_rows(np.asarray(lengths).reshape(rows.shape), rows)
        step = max(1, _BLOCK // (k * max(queries.shape[1], 1)))
        for a in range(0, len(queries), step):
            gap = self.points[rows[a : a + step]] - queries[a : a + step, None, :]
            distances[a : a + step] = np.linalg.norm(gap, ord=self.space.p, axis=2)
        return sorted_rows(distances, rows)

    def _by_all(self, queries: Array, k: int) -> tuple[Array, Rows]:
        n_queries, n = queries.shape[0], self.points.shape[0]
        out, at = np.empty((n_queries, k)), np.empty((n_queries, k), np.int64)
        step = max(1, _BLOCK // n)
        for a in range(0, n_queries, step):
            table = self.space.between(queries[a : a + step], self.points)
            # Column counts are often tied: the first rows come first.
            key = np.round(table) * n + np.arange(n)
            key = key if self.space.metric == "hamming" else table
            rows = np.argpartition(key, k - 1, axis=1)[:, :k]
            out[a : a + step], at[a : a + step] = sorted_rows(np.take_along_axis(table, rows, 1), rows)
        return out, at


def local_metric(
    points: Array, classes: Rows, query: Array, n_local: int, epsilon: float = 1.0, n_iter: int = 1
) -> Array:
    """The discriminant adaptive metric around a query, shape (d, d).

    Parameters
    ----------
    points, classes
        Training points, and the codes of their classes.
    n_local
        Number of nearest points that determine the metric.
    epsilon
        Weight of the identity matrix; larger values give rounder neighbourhoods.
    n_iter
        Number of times the neighbourhood is recomputed.
    """
    d = len(query)
    metric = np.eye(d)
    for _ in range(n_iter):
        gap = points - query
        distance = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", gap, metric, gap), 0.0))
        near = np.argpartition(distance, n_local - 1)[:n_local]
        largest = float(distance[near].max())
        weight = (1 - (distance[near] / largest) ** 3) ** 3 if largest > 0 else np.ones(n_local)
        if weight.sum() <= 0:
            weight = np.ones(n_local)
        metric = _discriminant(points[near], classes[near], weight / weight.sum(), epsilon)
    return metric


def _discriminant(points: Array, classes: Rows, weight: Array, epsilon: float) -> Array:
    d = points.shape[1]
    mean = weight @ points
    within, between = np.zeros((d, d)), np.zeros((d, d))
    for c in np.unique(classes):
        members = classes == c
        share = float(weight[members].sum())
        if share <= 0:
            continue
        centre = weight[members] @ points[members] / share
        gap = points[members] - centre
        within += (weight[members][:, None] * gap).T @ gap
        between += share * np.outer(centre - mean, centre - mean)
    values, vectors = np.linalg.eigh(within)
    floor = max(1e-6 * float(values.max()), 1e-12)
    root = (vectors / np.sqrt(np.maximum(values, floor))) @ vectors.T
    return np.asarray(root @ (root @ between @ root + epsilon * np.eye(d)) @ root)
