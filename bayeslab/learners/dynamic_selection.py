"""Learner ``dynamic_selection``: each row is predicted by the member that is best on the nearest training rows.

Members are compared by out-of-fold predictions; otherwise a member that memorises its rows would always be chosen. For
classifiers the number of correct predictions among the k nearest rows counts, and on a tie their probability of the
true class; for regressions the mean absolute error.

References
----------
.. [1] Woods, Kegelmeyer, Bowyer (1997). Combination of multiple classifiers using local accuracy estimates. IEEE PAMI
   19, 405-410.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator
from sklearn.neighbors import NearestNeighbors

from bayeslab.learners.toolbox.members import Ensemble, EnsembleClassifier, EnsembleRegressor, MemberOptions, built_all

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "SelectionClassifier",
    "SelectionRegressor",
    "build",
    "examples",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False


class Options(MemberOptions):
    """Options of dynamic selection."""

    n_neighbors: int = Field(
        15, ge=1, le=10**9, description="Number of nearest training rows on which members are compared."
    )


class _Local(Ensemble, options=Options):
    """Choice of the member with the smallest loss on the nearest rows."""

    def __init__(self, estimators: Any = None, n_neighbors: int = 15, cv: int = 5, random_state: Any = None) -> None:
        self.estimators, self.n_neighbors, self.cv, self.random_state = estimators, n_neighbors, cv, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Compute the members' losses on held-out rows, then train them on all rows."""
        X, target = self._rows(X, y)
        rng = self._rng()
        self.losses_ = self._losses(self._left_out(X, target, rng), target)
        self._nearest = NearestNeighbors(n_neighbors=min(self.n_neighbors, len(X))).fit(X)
        self._train(self._members(), X, target, rng)
        return self

    def _losses(self, left_out: Array, target: Any) -> Array:
        raise NotImplementedError

    def _chosen(self, X: Array) -> NDArray[np.int64]:
        at = self._nearest.kneighbors(X, return_distance=False)
        return np.asarray(self.losses_[:, at].mean(axis=2).argmin(axis=0), np.int64)

    def chosen(self, X: Any) -> NDArray[np.int64]:
        """Return the position of the member chosen for each row."""
        return self._chosen(self._new(X))

    def _answer(self, X: Any) -> Array:
        X = self._new(X)
        return np.asarray(self._outputs(X)[self._chosen(X), np.arange(len(X))])


class SelectionClassifier(EnsembleClassifier, _Local):
    """Classifiers, of which one is chosen for each row.

    Parameters
    ----------
    estimators : list of estimators or None
        Members; None: a tree, naive Bayes and nearest neighbours.
    n_neighbors : int
    cv : int
    random_state : int or None

    Attributes
    ----------
    estimators_ : list
    losses_ : ndarray, shape (members, rows)
        Out-of-fold losses.
    """

    def _losses(self, left_out: Array, target: Any) -> Array:
        wrong = left_out.argmax(axis=2) != target
        # Weighs less than one wrong prediction, so it only breaks ties.
        unsure = 1 - left_out[:, np.arange(len(target)), target]
        return np.asarray(wrong + unsure / (self.n_neighbors + 1))

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the chosen member."""
        return self._answer(X)


class SelectionRegressor(EnsembleRegressor, _Local):
    """Regressions, of which one is chosen for each row.

    Parameters
    ----------
    estimators : list of estimators or None
        Members; None: a linear one, a tree and the nearest neighbour.
    n_neighbors, cv, random_state
        As in :class:`SelectionClassifier`.

    Attributes
    ----------
    estimators_ : list
    losses_ : ndarray, shape (members, rows)
        Out-of-fold absolute errors.
    """

    def _losses(self, left_out: Array, target: Any) -> Array:
        return np.asarray(np.abs(left_out - target))

    def predict(self, X: Any) -> Array:
        """Return the prediction of the chosen member."""
        return self._answer(X)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return the estimator for the task."""
    kind = SelectionClassifier if task == "classification" else SelectionRegressor
    return kind(built_all(options.learners, task), options.n_neighbors, options.cv)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the mean loss of each member on held-out rows."""
    return {"loss": (("member",), estimator.losses_.mean(axis=1))}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [SelectionClassifier(cv=2), SelectionRegressor(cv=2)]
