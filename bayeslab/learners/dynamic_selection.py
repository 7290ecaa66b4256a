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

from bayeslab.learners._members import (
    EnsembleClassifier,
    EnsembleRegressor,
    Member,
    built_all,
    out_of_fold,
    outputs,
    trained,
)
from bayeslab.spec import Spec

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


class Options(Spec):
    """Options of dynamic selection."""

    learners: list[Member] = Field(
        default_factory=list,
        description="Members: {learner: WORD, ...its options}; left out: a linear one, a tree and a forest.",
    )
    n_neighbors: int = Field(15, ge=1, description="Nearest training rows on which members are judged.")
    cv: int = Field(5, ge=2, description="Folds in which rows are left out.")


class _Local:
    """The member with the least loss on the nearest rows."""

    n_neighbors: int
    losses_: Array

    def _remember(self, X: Array, losses: Array) -> None:
        self.losses_ = losses
        self._nearest = NearestNeighbors(n_neighbors=min(self.n_neighbors, len(X))).fit(X)

    def _chosen(self, X: Array) -> NDArray[np.int64]:
        at = self._nearest.kneighbors(X, return_distance=False)
        return np.asarray(self.losses_[:, at].mean(axis=2).argmin(axis=0), np.int64)

    def chosen(self, X: Any) -> NDArray[np.int64]:
        """Position of the member that answers, for each row."""
        return self._chosen(self._new(X))  # type: ignore[attr-defined]


class SelectionClassifier(_Local, EnsembleClassifier):
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

    def __init__(self, estimators: Any = None, n_neighbors: int = 15, cv: int = 5, random_state: Any = None) -> None:
        self.estimators, self.n_neighbors, self.cv, self.random_state = estimators, n_neighbors, cv, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Judge members on rows left out, then train them on all."""
        X, codes = self._rows(X, y)
        rng, members = self._rng(), self._members()
        left_out = out_of_fold(members, X, codes, len(self.classes_), self.cv, rng)
        wrong = left_out.argmax(axis=2) != codes
        # Fewer than one wrong answer, so that it decides among equals only.
        unsure = 1 - left_out[:, np.arange(len(codes)), codes]
        self._remember(X, wrong + unsure / (self.n_neighbors + 1))
        self.estimators_ = [trained(one, X, codes, rng) for one in members]
        return self

    def predict_proba(self, X: Any) -> Array:
        """Probabilities by the member that is chosen."""
        X = self._new(X)
        given = outputs(self.estimators_, X, len(self.classes_))
        return np.asarray(given[self._chosen(X), np.arange(len(X))])


class SelectionRegressor(_Local, EnsembleRegressor):
    """Regressions, of which one is chosen for each row.

    Parameters
    ----------
    estimators : list of estimators or None
        Members; None: a linear one, a tree and the nearest neighbour.
    n_neighbors : int
    cv : int
    random_state : int or None

    Attributes
    ----------
    estimators_ : list
    losses_ : ndarray, shape (members, rows)
        Absolute errors out of fold.
    """

    def __init__(self, estimators: Any = None, n_neighbors: int = 15, cv: int = 5, random_state: Any = None) -> None:
        self.estimators, self.n_neighbors, self.cv, self.random_state = estimators, n_neighbors, cv, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Judge members on rows left out, then train them on all."""
        X, y = self._rows(X, y)
        rng, members = self._rng(), self._members()
        self._remember(X, np.abs(out_of_fold(members, X, y, 0, self.cv, rng) - y))
        self.estimators_ = [trained(one, X, y, rng) for one in members]
        return self

    def predict(self, X: Any) -> Array:
        """The number that the chosen member says."""
        X = self._new(X)
        return np.asarray(outputs(self.estimators_, X, 0)[self._chosen(X), np.arange(len(X))])


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
