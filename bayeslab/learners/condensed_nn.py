r"""Learner ``condensed_nn``: nearest neighbour on a small subset of the rows that classifies all rows correctly.

A row is added to the subset if the rows kept so far misclassify it; passes over the rows are repeated until all
training rows are classified correctly [1]_. Rows near the class boundaries are kept, rows deep inside a class are
dropped.

References
----------
.. [1] Hart (1968). The condensed nearest neighbor rule. IEEE Transactions on Information Theory 14, 515-516.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import Estimator, LearnerOptions
from bayeslab.learners.toolbox.neighbours import Neighbours, Power, Space

__all__ = ["CATEGORIES", "MISSING", "SCALE", "TASKS", "CondensedNN", "Options", "build", "examples", "reported"]

Array = NDArray[np.float64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of condensing."""

    p: Power = Field(
        2.0, description="Power of the Minkowski distance, at most 16 or infinite: 1 Manhattan, 2 Euclidean."
    )
    shuffle: bool = Field(True, description="Visit the rows in random order instead of the given order.")


class CondensedNN(ClassifierMixin, Estimator, options=Options):
    """1-NN on a subset of the rows that classifies all training rows correctly.

    Identical rows with different classes count as one row of their most frequent class.

    Parameters
    ----------
    p : float
        Power of the Minkowski distance.
    shuffle : bool
    categorical : tuple of int
        Columns of codes; they count one where they differ.
    random_state : int or None

    Attributes
    ----------
    kept_ : ndarray
        Positions of the kept rows, in the order in which they were added.
    """

    def __init__(
        self, p: float = 2.0, shuffle: bool = True, categorical: tuple[int, ...] = (), random_state: Any = None
    ) -> None:
        self.p, self.shuffle, self.categorical, self.random_state = p, shuffle, categorical, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Add rows until all training rows are classified correctly."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._space = Space.of(X, "minkowski", self.p, tuple(self.categorical))
        points = self._space.points(X)
        codes = _agreed(points, codes, len(self.classes_))
        order = np.arange(len(points))
        if self.shuffle:
            order = check_random_state(self.random_state).permutation(order)
        self.kept_ = _condensed(points, codes, order, self._space.p)
        self._of_class = [Neighbours(self._space, points[self.kept_[codes[self.kept_] == c]]) for c in np.unique(codes)]
        self._present = np.unique(codes)
        return self

    def _distances(self, X: Any) -> Array:
        """Return the distance to the nearest kept row of each class; infinite for a class without kept rows."""
        check_is_fitted(self)
        queries = self._space.points(np.asarray(validate_data(self, X, reset=False, dtype=np.float64)))
        out = np.full((len(queries), len(self.classes_)), np.inf)
        for c, rows in zip(self._present, self._of_class, strict=True):
            out[:, c] = rows.nearest(queries, 1)[0][:, 0]
        return out

    def decision_function(self, X: Any) -> Array:
        """Return scores: distance to the first class minus that to the second, or for more classes one column each."""
        distances = self._distances(X)
        # A class without kept rows is farther than any other.
        distances = np.where(np.isfinite(distances), distances, 2 * distances[np.isfinite(distances)].max() + 1)
        return np.asarray(distances[:, 0] - distances[:, 1] if len(self.classes_) == 2 else -distances)

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of the nearest kept row; the first class on a tie."""
        nearest = self._distances(X).argmin(axis=1)
        return np.asarray(self.classes_[nearest])


def _agreed(points: Array, codes: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    """Return for each row the most frequent class among the rows identical to it."""
    _, group = np.unique(points, axis=0, return_inverse=True)
    counts = np.zeros((int(group.max()) + 1, n_classes))
    np.add.at(counts, (group.ravel(), codes), 1)
    return np.asarray(counts.argmax(axis=1)[group.ravel()], np.int64)


def _condensed(points: Array, codes: NDArray[np.int64], order: NDArray[np.int64], p: float) -> NDArray[np.int64]:
    """Return the kept rows; the distance of every row to every class is updated whenever a row is added."""
    distance = np.full((len(points), int(codes.max()) + 1), np.inf)
    kept: list[int] = []
    there = np.zeros(len(points), dtype=bool)

    def keep(row: int) -> None:
        kept.append(row)
        there[row] = True
        gap = np.linalg.norm(points - points[row], ord=p, axis=1)
        distance[:, codes[row]] = np.minimum(distance[:, codes[row]], gap)

    keep(int(order[0]))
    wrong = True
    while wrong:
        wrong = False
        for row in order:
            # A kept row is at distance zero from itself except for rounding.
            if distance[row].argmin() != codes[row] and not there[row]:
                keep(int(row))
                wrong = True
    return np.array(kept)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The classifier."""
    return CondensedNN(options.p, options.shuffle, categorical)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of kept rows."""
    return {"kept": ((), np.array(float(len(estimator.kept_))))}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [CondensedNN()]
