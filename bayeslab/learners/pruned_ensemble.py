"""Learner ``pruned_ensemble``: the subset of the members whose mean predicts held-out rows best.

Forward search adds the member that helps most, backward search removes the member that matters least, and floating
search adds a member and then removes members as long as this gives a better subset of its size than known so far [1]_.
Each search continues through all sizes and keeps the best subset, so that on those rows it is never worse than all
members together. Floating search also evaluates the subsets of forward search.

References
----------
.. [1] Pudil, Novovičová, Kittler (1994). Floating search methods in feature selection. Pattern Recognition Letters 15,
   1119-1125.
.. [2] Caruana, Niculescu-Mizil, Crew, Ksikes (2004). Ensemble selection from libraries of models. ICML 21.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator

from bayeslab.learners.toolbox.members import Ensemble, EnsembleClassifier, EnsembleRegressor, MemberOptions, built_all

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "PrunedClassifier",
    "PrunedRegressor",
    "build",
    "examples",
    "quality",
    "reported",
    "selected",
]

Array = NDArray[np.float64]
Search = Literal["forward", "backward", "floating"]
Quality = tuple[float, float]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = False


class Options(MemberOptions):
    """Options of ensemble pruning."""

    search: Search = Field("floating", description="Search algorithm for the subset.")


def quality(given: Array, target: Any, subset: tuple[int, ...]) -> Quality:
    """Quality of the mean of a subset: accuracy, then minus Brier score; for numbers minus mean squared error."""
    mean = given[list(subset)].mean(axis=0)
    if given.ndim == 2:
        return -float(np.mean((mean - target) ** 2)), 0.0
    right = float(np.mean(mean.argmax(axis=1) == target))
    brier = float(np.mean(np.sum(mean**2, axis=1) - 2 * mean[np.arange(len(target)), target]))
    return right, -brier


class _Known:
    """The evaluated subsets, and the best of each size."""

    def __init__(self, given: Array, target: Any) -> None:
        self.given, self.target = given, target
        self.best: dict[int, tuple[Quality, tuple[int, ...]]] = {}
        self.seen: dict[tuple[int, ...], Quality] = {}

    def of(self, subset: tuple[int, ...]) -> Quality:
        subset = tuple(sorted(subset))
        if subset not in self.seen:
            self.seen[subset] = quality(self.given, self.target, subset)
        return self.seen[subset]

    def keep(self, subset: tuple[int, ...]) -> bool:
        """Record a subset; return whether it is the best of its size so far."""
        score = self.of(subset)
        if len(subset) in self.best and score <= self.best[len(subset)][0]:
            return False
        self.best[len(subset)] = score, tuple(sorted(subset))
        return True

    def grown(self, subset: tuple[int, ...]) -> tuple[int, ...]:
        others = [j for j in range(len(self.given)) if j not in subset]
        return max(((*subset, j) for j in others), key=self.of)

    def shrunk(self, subset: tuple[int, ...]) -> tuple[int, ...]:
        return max((tuple(i for i in subset if i != j) for j in subset), key=self.of)

    def forward(self) -> None:
        now: tuple[int, ...] = ()
        while len(now) < len(self.given):
            now = self.grown(now)
            self.keep(now)

    def backward(self) -> None:
        now = tuple(range(len(self.given)))
        self.keep(now)
        while len(now) > 1:
            now = self.shrunk(now)
            self.keep(now)

    def floating(self) -> None:
        self.forward()
        now: tuple[int, ...] = ()
        while len(now) < len(self.given):
            now = self.grown(now)
            self.keep(now)
            # Remove members while this improves on the best known subset of the smaller size.
            while len(now) > 2 and self.keep(self.shrunk(now)):
                now = self.shrunk(now)


def selected(given: Any, target: Any, search: Search = "floating") -> tuple[int, ...]:
    """Positions of the members to keep.

    Parameters
    ----------
    given : array, shape (members, rows) or (members, rows, classes)
        Numbers, or probabilities.
    target : array
        Numbers, or codes.
    search : {"forward", "backward", "floating"}
    """
    known = _Known(np.asarray(given, float), np.asarray(target))
    {"forward": known.forward, "backward": known.backward, "floating": known.floating}[search]()
    # On a tie the smallest subset.
    return max(known.best.values(), key=lambda entry: (entry[0], -len(entry[1])))[1]


class _Pruned(Ensemble, options=Options):
    """Members selected by the quality of their mean on held-out rows."""

    def __init__(
        self, estimators: Any = None, search: Search = "floating", cv: int = 5, random_state: Any = None
    ) -> None:
        self.estimators, self.search, self.cv, self.random_state = estimators, search, cv, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Select members on held-out rows, then train the selected members on all rows."""
        X, target = self._rows(X, y)
        rng, members = self._rng(), self._members()
        self.kept_ = selected(self._left_out(X, target, rng), target, self.search)
        self._train([members[j] for j in self.kept_], X, target, rng)
        return self

    def _mean(self, X: Any) -> Array:
        return np.asarray(self._outputs(self._new(X)).mean(axis=0))


class PrunedClassifier(EnsembleClassifier, _Pruned):
    """The mean of the classifiers that are kept.

    Parameters
    ----------
    estimators : list of estimators or None
        Members; None: a tree, naive Bayes and nearest neighbours.
    search : {"forward", "backward", "floating"}
    cv : int
    random_state : int or None

    Attributes
    ----------
    kept_ : tuple of int
    estimators_ : list
        The selected members.
    """

    def predict_proba(self, X: Any) -> Array:
        """The mean of the probabilities."""
        return self._mean(X)


class PrunedRegressor(EnsembleRegressor, _Pruned):
    """The mean of the regressions that are kept; parameters and attributes are those of :class:`PrunedClassifier`."""

    def predict(self, X: Any) -> Array:
        """The mean of the numbers."""
        return self._mean(X)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The members to choose from."""
    kind = PrunedClassifier if task == "classification" else PrunedRegressor
    return kind(built_all(options.learners, task, categorical), options.search, options.cv)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the positions of the selected members, counted from 1."""
    return {"kept": (("place",), np.array(estimator.kept_, float) + 1)}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [PrunedClassifier(cv=2), PrunedRegressor(cv=2)]
