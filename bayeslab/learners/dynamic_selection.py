"""Learner ``dynamic_selection``: for each row the member that is best on the nearest training rows answers.

Members are judged by answers for rows that they have not seen, or one that knows its rows by heart would always be
chosen. Of classifiers the number of right answers among the k nearest rows counts, and among equals their probability
of the true class; of regressions the mean absolute error.

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

    n_neighbors: int = Field(15, ge=1, le=10**9, description="Nearest training rows on which members are judged.")


class _Local(Ensemble, options=Options):
    """The member with the least loss on the nearest rows."""

    def __init__(self, estimators: Any = None, n_neighbors: int = 15, cv: int = 5, random_state: Any = None) -> None:
        self.estimators, self.n_neighbors, self.cv, self.random_state = estimators, n_neighbors, cv, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Judge members on rows left out, then train them on all."""
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
        """Position of the member that answers, for each row."""
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
        Out of fold.
    """

    def _losses(self, left_out: Array, target: Any) -> Array:
        wrong = left_out.argmax(axis=2) != target
        # Fewer than one wrong answer, so that it decides among equals only.
        unsure = 1 - left_out[:, np.arange(len(target)), target]
        return np.asarray(wrong + unsure / (self.n_neighbors + 1))

    def predict_proba(self, X: Any) -> Array:
        """Probabilities by the member that is chosen."""
        return self._answer(X)


class SelectionRegressor(EnsembleRegressor, _Local):
    """Regressions, of which one is chosen for each row.

    Parameters
    ----------
    estimators : list of estimators or None
        Members; None: a linear one, a tree and the nearest neighbour.
    n_neighbors, cv, random_state
        As of :class:`SelectionClassifier`.

    Attributes
    ----------
    estimators_ : list
    losses_ : ndarray, shape (members, rows)
        Absolute errors out of fold.
    """

    def _losses(self, left_out: Array, target: Any) -> Array:
        return np.asarray(np.abs(left_out - target))

    def predict(self, X: Any) -> Array:
        """The number that the chosen member says."""
        return self._answer(X)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The members, chosen locally."""
    kind = SelectionClassifier if task == "classification" else SelectionRegressor
    return kind(built_all(options.learners, task), options.n_neighbors, options.cv)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The mean loss of each member on rows left out."""
    return {"loss": (("member",), estimator.losses_.mean(axis=1))}


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks."""
    return [SelectionClassifier(cv=2), SelectionRegressor(cv=2)]
