r"""Learner ``lsh``: nearest neighbours by locality-sensitive hashing, for many rows and many columns.

Like ``knn`` with Euclidean distances, but a query is compared only with the rows that share a bucket with it in one of
many hash tables: a few thousand among millions. A row within ``radius`` of the query is among these candidates with
probability at least ``recall`` (the (r, cr) guarantee of [1]_); the sizes of the tables follow from this guarantee and
the distances between rows. :class:`LSHIndex` is the index itself: for a query with a point within r, its ``near``
returns a point within cr with at least that probability, and never a point farther away. A query without candidates is
compared with every row. If the nearest rows are hardly nearer than all others (many columns without structure), the
guarantee still holds, but most rows are examined and no time is saved.

References
----------
.. [1] Indyk, Motwani (1998). Approximate nearest neighbors: towards removing the curse of dimensionality. STOC 30.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import Estimator, LearnerOptions
from bayeslab.learners.toolbox.lsh import LSHIndex, typical_radius

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "LSHClassifier",
    "LSHIndex",
    "LSHRegressor",
    "Options",
    "build",
    "examples",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of hashing."""

    n_neighbors: int = Field(5, ge=1, le=10**9, description="Number of neighbours.")
    radius: float | None = Field(
        None, gt=0, description="Search radius; default: it contains the neighbours of nine in ten rows."
    )
    recall: float = Field(0.9, gt=0, lt=1, description="Minimum probability of finding each row within the radius.")
    max_tables: int = Field(48, ge=1, le=10_000, description="Maximum number of hash tables.")


class _Hashed(Estimator, options=Options):
    """Nearest neighbours from hash tables."""

    def __init__(
        self,
        n_neighbors: int = 5,
        radius: float | None = None,
        recall: float = 0.9,
        max_tables: int = 48,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors, self.radius, self.recall = n_neighbors, radius, recall
        self.max_tables, self.random_state = max_tables, random_state

    def suits(self, n_rows: int, n_columns: int, n_classes: int) -> None:
        """Check that there are at least as many rows as neighbours."""
        if not 1 <= self.n_neighbors <= n_rows:
            raise ValueError(
                f"n_neighbors is {self.n_neighbors!r}, and there are n_samples = {n_rows} rows: take fewer"
            )

    def _store(self, X: Array, n_classes: int) -> None:
        self.suits(len(X), X.shape[1], n_classes)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        centred = (X - X.mean(axis=0)).astype(np.float32)
        self.radius_ = self.radius or typical_radius(centred, self.n_neighbors, rng)
        self.index_ = LSHIndex(X, self.radius_, self.recall, "euclidean", self.max_tables, rng)

    def kneighbors(self, X: Any) -> tuple[Array, NDArray[np.int64]]:
        """Distances and positions of the nearest candidates; infinite and -1 if there are fewer candidates."""
        check_is_fitted(self)
        queries = np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
        neighbours = self.index_.query(queries, self.n_neighbors)
        distances, rows = neighbours.distances, neighbours.rows
        for i in np.flatnonzero(rows[:, 0] < 0):
            gap = np.linalg.norm(self.index_.points - (queries[i] - self.index_._centre), axis=1)
            rows[i] = np.lexsort((np.arange(len(gap)), gap))[: self.n_neighbors]
            distances[i] = gap[rows[i]]
        return distances, rows


class LSHClassifier(ClassifierMixin, _Hashed):
    """Plurality of the nearest candidates.

    Parameters
    ----------
    n_neighbors : int
    radius : float or None
        Search radius; None: the distance that contains the neighbours of nine in ten rows.
    recall : float
        Minimum probability of finding each row within the radius.
    max_tables : int
    random_state : int or None

    Attributes
    ----------
    radius_ : float
    index_ : LSHIndex
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Hash the rows."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, self._target = np.unique(y, return_inverse=True)
        self._store(X, len(self.classes_))
        return self

    def predict_proba(self, X: Any) -> Array:
        """Shares of the votes."""
        rows = self.kneighbors(X)[1]
        votes = np.where(rows >= 0, self._target[rows], -1)
        counts = np.stack([(votes == c).sum(axis=1) for c in range(len(self.classes_))], axis=1)
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> np.ndarray:
        """The class with the most votes; the first on a tie."""
        shares = self.predict_proba(X)
        return np.asarray(self.classes_[shares.argmax(axis=1)])


class LSHRegressor(RegressorMixin, _Hashed):
    """Mean of the nearest candidates.

    Parameters
    ----------
    n_neighbors, radius, recall, max_tables, random_state
        As in :class:`LSHClassifier`.

    Attributes
    ----------
    radius_ : float
    index_ : LSHIndex
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Hash the rows."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._target = np.asarray(y, float)
        self._store(X, 0)
        return self

    def predict(self, X: Any) -> Array:
        """The mean."""
        rows = self.kneighbors(X)[1]
        there = rows >= 0
        return np.asarray((self._target[rows] * there).sum(axis=1) / there.sum(axis=1))


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The estimator of the task."""
    kind = LSHClassifier if task == "classification" else LSHRegressor
    return kind(options.n_neighbors, options.radius, options.recall, options.max_tables)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Sizes of the index."""
    plan = estimator.index_.plan
    values = {
        "radius": estimator.radius_,
        "tables": plan.tables,
        "length": plan.length,
        "probes": plan.probes,
        "recall": plan.recall,
    }
    return {name: ((), np.array(float(value))) for name, value in values.items()}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [LSHClassifier(recall=0.99), LSHRegressor(recall=0.99)]
