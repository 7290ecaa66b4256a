r"""Learner ``decision_list``: an ordered list of tests, each a conjunction of at most k literals.

The first test that a row passes determines its class. The greedy learner takes the smallest test that covers rows of
one class only (among tests of equal size, the one that covers most rows) and continues with the remaining rows. If
there is no such test, no k-decision list is consistent with the rows, and the rest get their most frequent class [1]_.
Every decision tree of depth k is such a list.

References
----------
.. [1] Rivest (1987). Learning decision lists. Machine Learning 2, 229-246.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.decision_tree import MultiwayTree, Rule
from bayeslab.learners.toolbox.estimator import MANY, Estimator, LearnerOptions

__all__ = ["CATEGORIES", "MISSING", "SCALE", "TASKS", "DecisionList", "Options", "build", "examples", "reported"]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = False


class Options(LearnerOptions):
    """Options of the list."""

    k: int = Field(2, ge=1, le=3, description="Maximum number of literals in a test.")
    cuts: int = Field(8, ge=1, le=MANY, description="Thresholds tried for a numeric column, at its quantiles.")


class DecisionList(ClassifierMixin, Estimator, options=Options):
    """A list of conjunctions, each with the class that it predicts.

    Parameters
    ----------
    k : int
    categorical : tuple of int
        Columns of codes, tested for equality and inequality; others are compared with thresholds.
    cuts : int
        Thresholds tried for a numeric column.

    Attributes
    ----------
    rules_ : list of Rule
        The rules in order; the last has no condition.
    consistent_ : bool
        Whether the list classifies every training row correctly.
    """

    def __init__(self, k: int = 2, categorical: tuple[int, ...] = (), cuts: int = 8) -> None:
        self.k, self.categorical, self.cuts = k, categorical, cuts

    def fit(self, X: Any, y: Any) -> Self:
        """Add one test after the other, the smallest first."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        literals = list(self._literals(X))
        passed = np.array([rule.covers(X) for rule in literals]).reshape(len(literals), len(X))
        left, self.rules_ = np.ones(len(X), bool), []
        while left.any() and len(np.unique(codes[left])) > 1:
            test = self._next(literals, passed, codes, left)
            if test is None:
                break
            conditions, covered = test
            self.rules_.append(Rule(conditions, self.classes_[codes[covered & left][0]]))
            left &= ~covered
        rest = np.bincount(codes[left], minlength=len(self.classes_)) if left.any() else np.bincount(codes)
        self.rules_.append(Rule((), self.classes_[rest.argmax()]))
        self.consistent_ = bool((self._predicted(X) == y).all())
        return self

    def _literals(self, X: Any) -> Iterator[Rule]:
        for j in range(X.shape[1]):
            values = np.unique(X[:, j])
            if j in self.categorical:
                for value in values:
                    yield Rule(((j, "=", float(value)),), None)
                    if len(values) > 2:
                        yield Rule(((j, "!=", float(value)),), None)
                continue
            middles = np.unique((values[1:] + values[:-1]) / 2)
            if len(middles) > self.cuts:
                middles = np.unique(np.quantile(middles, np.linspace(0, 1, self.cuts + 2)[1:-1]))
            for cut in middles:
                yield Rule(((j, "<=", float(cut)),), None)
                yield Rule(((j, ">", float(cut)),), None)

    def _next(
        self, literals: list[Rule], passed: NDArray[np.bool_], codes: Any, left: NDArray[np.bool_]
    ) -> tuple[tuple[tuple[int, str, float], ...], NDArray[np.bool_]] | None:
        """Return the smallest test that covers one class only; on a tie the one that covers most, then the first."""
        if not literals:
            return None  # columns that do not vary have no test
        by_class = [(passed[:, left & (codes == c)]).astype(np.float32) for c in range(len(self.classes_))]
        for size in range(1, self.k + 1):
            best: tuple[float, tuple[int, ...]] | None = None
            # Counts by class of the rows that pass the first tests and one more, for all last tests at once.
            for first in itertools.combinations(range(len(literals)), max(size - 2, 0)):
                inside = [part[:, part[list(first)].all(axis=0)] if first else part for part in by_class]
                if size == 1:
                    counts = np.array([part.sum(axis=1) for part in inside])[:, None]
                else:
                    counts = np.array([part @ part.T for part in inside])
                total = counts.sum(axis=0)
                value = np.where(counts.max(axis=0) == total, total, 0.0)
                at = np.unravel_index(int(value.argmax()), value.shape)
                if value[at] > (best[0] if best else 0):
                    last = (int(at[1]),) if size == 1 else (int(at[0]), int(at[1]))
                    best = float(value[at]), (*first, *last)
            if best is not None:
                chosen = list(dict.fromkeys(best[1]))
                conditions = tuple(literals[i].conditions[0] for i in chosen)
                return conditions, passed[chosen].all(axis=0)
        return None

    def _predicted(self, X: Any) -> np.ndarray:
        out, open_ = np.empty(len(X), dtype=self.classes_.dtype), np.ones(len(X), bool)
        for rule in self.rules_:
            hit = open_ & rule.covers(X)
            out[hit] = rule.label
            open_ &= ~hit
        return out

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of the first test that each row passes."""
        check_is_fitted(self)
        return self._predicted(validate_data(self, X, reset=False, dtype=np.float64))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return 1 for the predicted class and −1 for others; a single column for two classes."""
        predicted = self.predict(X)
        scores = np.where(predicted[:, None] == self.classes_, 1.0, -1.0)
        return np.asarray(scores[:, -1] if len(self.classes_) == 2 else scores)

    @classmethod
    def from_tree(cls, tree: MultiwayTree) -> Self:
        """Return the decision list equivalent to a tree; k is the depth of the tree."""
        check_is_fitted(tree)
        made = cls(k=max(tree.depth_, 1), categorical=tree.categorical)
        made.classes_, made.n_features_in_ = tree.classes_, tree.n_features_in_
        rules = tree.rules()
        made.rules_ = [*rules[:-1], Rule((), rules[-1].label)]
        made.consistent_ = True
        return made


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return the decision list."""
    return DecisionList(options.k, categorical, options.cuts)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of tests and whether they are consistent with all rows."""
    return {
        "tests": ((), np.array(float(len(estimator.rules_) - 1))),
        "consistent": ((), np.array(float(estimator.consistent_))),
    }


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [DecisionList(cuts=24)]
