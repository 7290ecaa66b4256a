r"""Learner ``condensed_nn``: the nearest of a few rows that stand for all.

Rows are taken over one by one when those kept so far get their class wrong, again and again until all training rows
come out right [1]_: the rows near the borders of the classes stay, those deep inside go.

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

    p: Power = Field(2.0, description="Of the Minkowski distance, at most 16 or infinite: 1 Manhattan, 2 Euclidean.")
    shuffle: bool = Field(True, description="Rows are visited in random order; otherwise in their own.")


class CondensedNN(ClassifierMixin, Estimator, options=Options):
    """1-NN on rows that get all training rows right.

    Equal rows with different classes count as one, of the class that most of them have.

    Parameters
    ----------
    p : float
        Of the Minkowski distance.
    shuffle : bool
    categorical : tuple of int
        Columns of codes; they count one where they differ.
    random_state : int or None

    Attributes
    ----------
    kept_ : ndarray
        Positions of the rows that stay, in the order in which they were taken.
    """

    def __init__(
        self, p: float = 2.0, shuffle: bool = True, categorical: tuple[int, ...] = (), random_state: Any = None
    ) -> None:
        self.p, self.shuffle, self.categorical, self.random_state = p, shuffle, categorical, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Take rows until all are right."""
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
        """To the nearest row kept of each class; infinite of a class that has none."""
        check_is_fitted(self)
        queries = self._space.points(np.asarray(validate_data(self, X, reset=False, dtype=np.float64)))
        out = np.full((len(queries), len(self.classes_)), np.inf)
        for c, rows in zip(self._present, self._of_class, strict=True):
            out[:, c] = rows.nearest(queries, 1)[0][:, 0]
        return out

    def decision_function(self, X: Any) -> Array:
        """How much nearer: of two classes the distance to the first less that to the second, else a column a class."""
        distances = self._distances(X)
        # A class that has no row of its own is farther than any.
        distances = np.where(np.isfinite(distances), distances, 2 * distances[np.isfinite(distances)].max() + 1)
        return np.asarray(distances[:, 0] - distances[:, 1] if len(self.classes_) == 2 else -distances)

    def predict(self, X: Any) -> np.ndarray:
        """The class of the nearest row kept, of equals the first class."""
        nearest = self._distances(X).argmin(axis=1)
        return np.asarray(self.classes_[nearest])


def _agreed(points: Array, codes: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    """Of equal rows the class that most of them have."""
    _, group = np.unique(points, axis=0, return_inverse=True)
    counts = np.zeros((int(group.max()) + 1, n_classes))
    np.add.at(counts, (group.ravel(), codes), 1)
    return np.asarray(counts.argmax(axis=1)[group.ravel()], np.int64)


def _condensed(points: Array, codes: NDArray[np.int64], order: NDArray[np.int64], p: float) -> NDArray[np.int64]:
    """Rows that get all right; one look at all rows when one is kept, so each always knows how far each class is."""
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
            # A row that is kept is right but for rounding.
            if distance[row].argmin() != codes[row] and not there[row]:
                keep(int(row))
                wrong = True
    return np.array(kept)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The classifier."""
    return CondensedNN(options.p, options.shuffle, categorical)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Rows that stay."""
    return {"kept": ((), np.array(float(len(estimator.kept_))))}


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks."""
    return [CondensedNN()]
