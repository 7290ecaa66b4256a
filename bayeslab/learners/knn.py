r"""Learner ``knn``: k nearest neighbours.

Classes are predicted by plurality or by votes weighted by :math:`1/d^2`; numbers by the mean, the median, a linear fit
to the neighbours, or linear interpolation. If a training row coincides with the query, it alone decides a vote weighted
by distance [2]_. Training only stores the rows. Leave-one-out errors need one search for k + 1 neighbours and no refit.
Neighbours are found by scikit-learn's trees; :class:`KDTree` is the textbook algorithm, which counts the points that it
examines.

Neighbours are near only in few dimensions: a cube that contains k of N points spread evenly over the n-dimensional unit
cube has the side :math:`(k/N)^{1/n}`, and a share :math:`1 - 0.98^n` of the volume of the unit cube is within 0.01 of
its surface.

References
----------
.. [1] Cover, Hart (1967). Nearest neighbor pattern classification. IEEE Transactions on Information Theory 13, 21-27.
.. [2] Shepard (1968). A two-dimensional interpolation function for irregularly-spaced data. ACM National Conference.
.. [3] Hastie, Tibshirani (1996). Discriminant adaptive nearest neighbor classification. PAMI 18, 607-616.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import Applies, Count, Estimator, LearnerOptions, NonNegative
from bayeslab.learners.toolbox.kd_tree import KDTree
from bayeslab.learners.toolbox.lazy import Lazy
from bayeslab.learners.toolbox.neighbours import Metric, Neighbours, Power, Rows, Space, local_metric

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "KDTree",
    "KNNClassifier",
    "KNNRegressor",
    "Options",
    "build",
    "examples",
    "neighbourhood_side",
    "reported",
    "shell_share",
]

Array = NDArray[np.float64]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of nearest neighbours."""

    applies: ClassVar[Applies] = {
        "n_neighbors": {"combine": ("mean", "median", "linear")},
        "weights": {"combine": ("mean", "median", "linear")},
        "combine": {"task": ("regression",)},
        "p": {"metric": ("minkowski",)},
        "kernel": {"metric": ("kernel",)},
        "gamma": {"metric": ("kernel",), "kernel": ("poly", "rbf", "laplacian")},
    }
    n_neighbors: Annotated[int, Field(ge=1, le=10**9)] | Literal["leave_one_out"] = Field(
        5, description="Number of neighbours, or leave_one_out: the odd number with the smallest leave-one-out error."
    )
    weights: Literal["uniform", "distance"] = Field("uniform", description="Equal votes, or votes weighted by 1/d².")
    combine: Literal["mean", "median", "linear", "interpolate"] = Field(
        "mean", description="Regression: how neighbours are combined; interpolate needs a single input."
    )
    metric: Metric = Field("minkowski", description="Distance; local adapts to the classes around each query.")
    p: Power = Field(
        2.0, description="Power of the Minkowski distance, at most 16 or infinite: 1 Manhattan, 2 Euclidean."
    )
    kernel: Literal["linear", "poly", "rbf", "laplacian", "cosine"] = Field(
        "rbf", description="Kernel of metric: kernel."
    )
    gamma: float | None = Field(None, gt=0, description="Scale of the kernel; default: one over the number of columns.")
    algorithm: Literal["auto", "kd_tree", "ball_tree", "brute"] = Field("auto", description="How neighbours are found.")


class _Neighbourly(Lazy, Estimator, options=Options):
    """Code that both tasks share: the rows, the search, and leave-one-out errors."""

    n_neighbors: Any
    weights: str
    metric: str
    p: float
    kernel: str
    gamma: float | None
    algorithm: str
    categorical: tuple[int, ...]

    def _store(self, X: Array, target: NDArray[Any]) -> None:
        self._space = Space.of(X, self.metric, self.p, tuple(self.categorical), self.kernel, self.gamma)
        self._points = self._space.points(X)
        self._target = target
        self._index = Neighbours(self._space, self._points, self.algorithm)
        if isinstance(self.n_neighbors, str):
            tried = np.arange(1, min(X.shape[0] - 1, 50) + 1, 2)
            errors = self.leave_one_out_errors(tried)
            best = int(np.argmin(np.round(errors, 12)))
            self.n_neighbors_, self.leave_one_out_error_ = int(tried[best]), float(errors[best])
        else:
            self.n_neighbors_ = int(self.n_neighbors)

    def suits(self, n_rows: int, n_columns: int, n_classes: int) -> None:
        """Check that there are enough rows, one input for interpolation, and classes for the local metric."""
        if n_classes == 0 and self.metric == "local":
            raise ValueError("metric local adapts to classes; a regression has none")
        if n_classes == 0 and getattr(self, "combine", "") == "interpolate":
            if n_columns != 1:
                raise ValueError(f"combine interpolate joins the points of one input; there are {n_columns}")
            if isinstance(self.n_neighbors, str):
                raise ValueError("combine interpolate has no number of neighbours to choose")
        elif isinstance(self.n_neighbors, str):
            if n_rows < 2:
                raise ValueError(f"Leaving a row out needs two; there is n_samples = {n_rows}")
        elif not 1 <= self.n_neighbors <= n_rows:
            raise ValueError(
                f"n_neighbors is {self.n_neighbors!r}, and there are n_samples = {n_rows} rows: take fewer"
            )

    def _queries(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, accept_sparse="csr")
        if sparse.issparse(self._points):
            return sparse.csr_array(X)
        return self._space.points(X.toarray() if sparse.issparse(X) else X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        powers = self.metric == "minkowski" and self.p in (1, 2)
        tags.input_tags.sparse = (powers or self.metric == "kernel") and not len(self.categorical)
        return tags

    def kneighbors(self, X: Any, n_neighbors: int | None = None) -> tuple[Array, Rows]:
        """Distances and positions of the nearest training rows, nearest first; ties in the order of the rows."""
        return self._nearest(self._queries(X), n_neighbors or self.n_neighbors_)

    def _nearest(self, queries: Array, k: int) -> tuple[Array, Rows]:
        if self.metric != "local":
            return self._index.nearest(queries, k)
        out, at = np.empty((len(queries), k)), np.empty((len(queries), k), np.int64)
        for i, query in enumerate(queries):
            gap = self._points - query
            distance = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", gap, self._metric_at(query), gap), 0.0))
            rows = np.lexsort((np.arange(len(distance)), distance))[:k]
            out[i], at[i] = distance[rows], rows
        return out, at

    def _metric_at(self, query: Array) -> Array:
        raise ValueError("metric local adapts to classes; a regression has none")

    def _votes(self, distances: Array) -> Array:
        """Weights of the neighbours, each line summing to one."""
        if self.weights == "uniform":
            return np.full(distances.shape, 1 / distances.shape[1])
        exact = distances == 0
        # Distances in units of the nearest, so that no inverse overflows.
        nearest = np.where(exact.any(axis=1), 1.0, distances[:, 0])[:, None]
        with np.errstate(divide="ignore"):
            vote = np.where(exact.any(axis=1)[:, None], exact, (nearest / distances) ** 2)
        return np.asarray(vote / vote.sum(axis=1, keepdims=True))

    def _without_own(self, k: int) -> tuple[Array, Rows]:
        """Neighbours of each training row, without the row itself."""
        n = self._points.shape[0]
        if not 1 <= k < n:
            raise ValueError(f"leaving one of n_samples = {n} rows out, there are not {k} neighbours")
        distances, rows = self._nearest(self._points, k + 1)
        itself = rows == np.arange(n)[:, None]
        # Among more than k identical rows the row itself may be missing; the last neighbour is then dropped.
        itself[~itself.any(axis=1), -1] = True
        kept = ~itself
        return distances[kept].reshape(n, k), rows[kept].reshape(n, k)

    def _loss(self, distances: Array, rows: Rows) -> float:
        raise NotImplementedError

    def leave_one_out_errors(self, n_neighbors: Sequence[int] | Rows) -> Array:
        """Leave-one-out error for each number of neighbours: the error rate, or the mean squared error.

        One search for the largest number serves all. The Mahalanobis metric keeps the covariance of all rows.
        """
        check_is_fitted(self, "n_features_in_")
        distances, rows = self._without_own(int(np.max(n_neighbors)))
        return np.array([self._loss(distances[:, :k], rows[:, :k]) for k in n_neighbors])


class KNNClassifier(ClassifierMixin, _Neighbourly):
    """k nearest neighbours: a class.

    Parameters
    ----------
    n_neighbors : int or "leave_one_out"
        ``"leave_one_out"``: the odd number up to 49 with the smallest leave-one-out error.
    weights : {"uniform", "distance"}
        ``distance``: votes weighted by 1/d²; only rows identical to the query count if there are any.
    metric : {"minkowski", "hamming", "mahalanobis", "kernel", "local"}
    p : float
        Power of the Minkowski distance.
    kernel : str
        A kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`.
    gamma : float or None
    algorithm : {"auto", "kd_tree", "ball_tree", "brute"}
        Sparse rows are searched by brute force.
    categorical : tuple of int
        Columns of codes; two different codes are at distance one.
    n_local : int or None
        Local metric: number of rows that determine it; None: a fifth of all, at least 50.
    epsilon : float
        Local metric: weight of the identity matrix; larger values give rounder neighbourhoods.

    Attributes
    ----------
    n_neighbors_ : int
    """

    def __init__(
        self,
        n_neighbors: Any = 5,
        weights: str = "uniform",
        metric: str = "minkowski",
        p: float = 2.0,
        kernel: str = "rbf",
        gamma: float | None = None,
        algorithm: str = "auto",
        categorical: tuple[int, ...] = (),
        n_local: Count | None = None,
        epsilon: NonNegative = 1.0,
    ) -> None:
        self.n_neighbors, self.weights, self.metric, self.p = n_neighbors, weights, metric, p
        self.kernel, self.gamma, self.algorithm, self.categorical = kernel, gamma, algorithm, categorical
        self.n_local, self.epsilon = n_local, epsilon

    def fit(self, X: Any, y: Any) -> Self:
        """Store the rows."""
        X, y = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr")
        self._rows = X, y
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.suits(X.shape[0], X.shape[1], len(self.classes_))
        self._store(X, codes)
        return self

    def _metric_at(self, query: Array) -> Array:
        n = len(self._points)
        n_local = self.n_local or max(n // 5, 50)
        return local_metric(self._points, self._target, query, min(n_local, n), self.epsilon)

    def local_metric(self, x: Any) -> Array:
        """Local metric M at a query, shape (columns, columns): distances are the root of (z - x)' M (z - x)."""
        return self._metric_at(self._queries(np.atleast_2d(x))[0])

    def _shares(self, distances: Array, rows: Rows) -> Array:
        out = np.zeros((len(rows), len(self.classes_)))
        labels, votes, line = self._target[rows], self._votes(distances), np.arange(len(rows))
        for j in range(rows.shape[1]):
            out[line, labels[:, j]] += votes[:, j]
        return np.round(out, 14)

    def _loss(self, distances: Array, rows: Rows) -> float:
        return float(np.mean(self._shares(distances, rows).argmax(axis=1) != self._target))

    def predict_proba(self, X: Any) -> Array:
        """Shares of the votes."""
        return self._shares(*self.kneighbors(X))

    def predict(self, X: Any) -> np.ndarray:
        """The class with the most votes; the first on a tie."""
        shares = self.predict_proba(X)
        return np.asarray(self.classes_[shares.argmax(axis=1)])

    def leave_one_out(self) -> np.ndarray:
        """Leave-one-out prediction of the class of each training row."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self._shares(*self._without_own(self.n_neighbors_)).argmax(axis=1)])


class KNNRegressor(RegressorMixin, _Neighbourly):
    """k nearest neighbours: a number.

    Parameters
    ----------
    n_neighbors, weights, metric, p, kernel, gamma, algorithm, categorical
        As in :class:`KNNClassifier`, without the local metric.
    combine : {"mean", "median", "linear", "interpolate"}
        ``median`` takes no weights; ``linear`` is least squares on the neighbours (the minimum-norm slopes if they are
        not determined); ``interpolate`` joins the points of one input by lines and is constant beyond them.

    Attributes
    ----------
    n_neighbors_ : int
    """

    def __init__(
        self,
        n_neighbors: Any = 5,
        weights: str = "uniform",
        combine: str = "mean",
        metric: str = "minkowski",
        p: float = 2.0,
        kernel: str = "rbf",
        gamma: float | None = None,
        algorithm: str = "auto",
        categorical: tuple[int, ...] = (),
    ) -> None:
        self.n_neighbors, self.weights, self.combine, self.metric, self.p = n_neighbors, weights, combine, metric, p
        self.kernel, self.gamma, self.algorithm, self.categorical = kernel, gamma, algorithm, categorical

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse &= self.combine in ("mean", "median")
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Store the rows."""
        X, y = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr", y_numeric=True)
        if sparse.issparse(X) and self.combine in ("linear", "interpolate"):
            raise ValueError(f"combine {self.combine} with sparse rows: take mean or median, or give X.toarray()")
        self._rows = X, y
        self.suits(X.shape[0], X.shape[1], 0)
        self._store(X, np.asarray(y, float))
        if self.combine == "interpolate":
            self._knots, inverse, counts = np.unique(X[:, 0], return_inverse=True, return_counts=True)
            self._heights = np.bincount(inverse, weights=self._target) / counts
        return self

    def _value(self, distances: Array, rows: Rows, queries: Array) -> Array:
        target = self._target[rows]
        if self.combine == "median":
            return np.asarray(np.median(target, axis=1))
        votes = self._votes(distances)
        if self.combine == "mean":
            return np.asarray((votes * target).sum(axis=1))
        root = np.sqrt(votes)[:, :, None]
        centre = (votes[:, :, None] * self._points[rows]).sum(axis=1)
        height = (votes * target).sum(axis=1)
        slopes = np.linalg.pinv(root * (self._points[rows] - centre[:, None, :]), rcond=1e-8)
        slope = (slopes @ (root * (target - height[:, None])[:, :, None]))[:, :, 0]
        return np.asarray(height + ((queries - centre) * slope).sum(axis=1))

    def _loss(self, distances: Array, rows: Rows) -> float:
        if self.combine == "interpolate":
            raise ValueError("combine interpolate has no number of neighbours to choose")
        return float(np.mean((self._value(distances, rows, self._points) - self._target) ** 2))

    def predict(self, X: Any) -> Array:
        """The number."""
        queries = self._queries(X)
        if self.combine == "interpolate":
            return np.interp(queries[:, 0], self._knots, self._heights)
        return self._value(*self._nearest(queries, self.n_neighbors_), queries)

    def leave_one_out(self) -> Array:
        """Leave-one-out prediction for each training row."""
        check_is_fitted(self)
        if self.combine == "interpolate":
            raise ValueError("combine interpolate has no cheap way to leave a row out: refit without it")
        return self._value(*self._without_own(self.n_neighbors_), self._points)


def neighbourhood_side(k: int, n_rows: int, n_columns: int) -> float:
    """Side of the cube that contains, on average, k of ``n_rows`` uniform rows of the unit cube."""
    return float((k / n_rows) ** (1 / n_columns))


def shell_share(n_columns: int, thickness: float = 0.01) -> float:
    """Share of the volume of the unit cube within distance ``thickness`` of its surface."""
    return float(1 - (1 - 2 * thickness) ** n_columns)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The estimator of the task."""
    given: dict[str, Any] = {
        "n_neighbors": options.n_neighbors,
        "weights": options.weights,
        "metric": options.metric,
        "p": options.p,
        "kernel": options.kernel,
        "gamma": options.gamma,
        "algorithm": options.algorithm,
        "categorical": categorical,
    }
    if task == "classification":
        return KNNClassifier(**given)
    return KNNRegressor(combine=options.combine, **given)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of neighbours and, if it was chosen by leaving one out, the leave-one-out error."""
    out: dict[str, tuple[tuple[str, ...], np.ndarray]] = {"n_neighbors": ((), np.array(float(estimator.n_neighbors_)))}
    if estimator.n_neighbors == "leave_one_out":
        out["leave_one_out_error"] = ((), np.array(estimator.leave_one_out_error_))
    return out


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [
        KNNClassifier(),
        KNNClassifier(weights="distance", metric="mahalanobis"),
        KNNClassifier(metric="kernel", n_neighbors=3),
        KNNClassifier(metric="local", n_neighbors=1),
        KNNRegressor(),
        KNNRegressor(combine="linear", weights="distance", n_neighbors=8),
        KNNRegressor(combine="median", n_neighbors="leave_one_out"),
    ]
