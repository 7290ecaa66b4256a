"""Learner ``schapire``: boosting by three learners, the third trained where the first two disagree.

The first learner is trained on a third of the rows. The second is trained on the rows of the next third that the first
misclassifies and as many that it classifies correctly. The third is trained on the rows of the last third on which the
first two disagree; it decides when they disagree. Each of the three can be such an ensemble itself (``levels``) [1]_.

References
----------
.. [1] Schapire (1990). The strength of weak learnability. Machine Learning 5, 197-227.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator
from sklearn.tree import DecisionTreeClassifier

from bayeslab.learners.toolbox.estimator import LearnerOptions
from bayeslab.learners.toolbox.members import EnsembleClassifier, Member, built, trained

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "SchapireBoost",
    "build",
    "examples",
    "majority_of_three",
    "reported",
]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "codes"
# scikit-learn's trees use single precision and treat values within 1e-7 as equal, so they depend on the unit.
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of boosting by three learners."""

    estimator: Member | None = Field(
        None, description="Weak learner, {learner: WORD, ...its options}; default: a tree of depth 2."
    )
    levels: int = Field(1, ge=0, le=4, description="1: three learners; 2: three times three; ... They share the rows.")


def majority_of_three(error: float) -> float:
    """Bound 3e² − 2e³ on the error of three learners, each with error e on its own distribution of rows."""
    return 3 * error**2 - 2 * error**3


class SchapireBoost(EnsembleClassifier, options=Options):
    """Boosting by three learners; needs many rows, because each is trained on a part of them.

    Parameters
    ----------
    estimator : estimator or None
        The weak learner; None: a tree of depth 2.
    levels : int
        0: a single learner.
    random_state : int or None

    Attributes
    ----------
    tree_ : estimator or tuple
        The learner, or three ensembles of the level below.
    sizes_ : list of int
        Number of training rows of each learner at the lowest level.
    """

    def __init__(self, estimator: Any = None, levels: int = 1, random_state: Any = None) -> None:
        self.estimator, self.levels, self.random_state = estimator, levels, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Divide the rows and train the learners."""
        X, codes = self._rows(X, y)
        rng = self._rng()
        one = DecisionTreeClassifier(max_depth=2) if self.estimator is None else self.estimator
        self.sizes_: list[int] = []
        order = rng.permutation(len(X))
        self.tree_ = self._three(one, X[order], codes[order], self.levels, rng)
        return self

    def _three(self, one: Any, X: Array, codes: Codes, level: int, rng: Any) -> Any:
        if level == 0 or len(X) < 6:
            self.sizes_.append(len(X))
            return trained(one, X, codes, rng)
        first, second, third = np.array_split(np.arange(len(X)), 3)
        a = self._three(one, X[first], codes[first], level - 1, rng)
        wrong = _says(a, X[second]) != codes[second]
        hard, easy = second[wrong], second[~wrong]
        if not len(hard):
            # It makes no errors: the other two could only repeat it.
            return a
        at = np.concatenate([hard, easy[: len(hard)]])
        b = self._three(one, X[at], codes[at], level - 1, rng)
        apart = third[_says(a, X[third]) != _says(b, X[third])]
        if not len(apart):
            return a
        return a, b, self._three(one, X[apart], codes[apart], level - 1, rng)

    def predict_proba(self, X: Any) -> Array:
        """Probability 1 for the predicted class."""
        X = self._new(X)
        return np.asarray(np.eye(len(self.classes_))[_says(self.tree_, X)])


def _says(tree: Any, X: Array) -> Codes:
    if not isinstance(tree, tuple):
        return np.asarray(tree.predict(X), np.int64)
    a, b, c = (_says(one, X) for one in tree)
    return np.where(a == b, a, c)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return the boosted ensemble of the learner."""
    one = DecisionTreeClassifier(max_depth=2)
    if options.estimator is not None:
        one = built(options.estimator, task, categorical)
    return SchapireBoost(one, options.levels)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of learners at the lowest level, and their smallest number of rows."""
    sizes = estimator.sizes_
    return {"learners": ((), np.array(float(len(sizes)))), "fewest_rows": ((), np.array(float(min(sizes))))}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [SchapireBoost(DecisionTreeClassifier(max_depth=5))]
