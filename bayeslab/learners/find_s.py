"""Learner ``find_s``: the most specific conjunction that covers every positive example.

A hypothesis requires one value of each input, or allows any value. The most specific hypothesis consistent with the
positive rows consists of the values that they have in common. It is a maximum a posteriori hypothesis whenever more
specific hypotheses have a higher prior probability [1]_ (section 6.3.2); this is the learner's inductive bias.

References
----------
.. [1] Mitchell (1997). Machine Learning. McGraw-Hill, sections 2.4 and 6.3.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import Estimator, LearnerOptions, one_of_two

__all__ = ["CATEGORIES", "MISSING", "SCALE", "TASKS", "FindS", "Options", "build", "examples", "reported"]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = False


class Options(LearnerOptions):
    """Options of Find-S."""

    positive: int | None = Field(
        None,
        ge=0,
        le=10**9,
        description="Index of the positive class (the concept) in the order of the levels; default: the last.",
    )


class FindS(ClassifierMixin, Estimator, options=Options):
    """Find-S: the common values of the positive rows.

    Parameters
    ----------
    positive : int or None
        Position of the concept in ``classes_``; None: the last.

    Attributes
    ----------
    hypothesis_ : ndarray, shape (n_features,)
        The value that each input must have; NaN allows any value.
    consistent_ : bool
        Whether no negative row is covered; if one is, no conjunction is consistent with the rows.
    """

    def __init__(self, positive: int | None = None) -> None:
        self.positive = positive

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags

    def suits(self, n_rows: int, n_columns: int, n_classes: int) -> None:
        """Check that there are two classes and that ``positive`` is one of them."""
        one_of_two(n_classes, self.positive)

    def fit(self, X: Any, y: Any) -> Self:
        """Find the values that all positive rows have in common."""
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        self.suits(len(X), X.shape[1], len(self.classes_))
        which = len(self.classes_) - 1 if self.positive is None else self.positive
        self.positive_ = which
        rows = X[y == self.classes_[which]]
        self.hypothesis_ = np.where((rows == rows[0]).all(axis=0), rows[0], np.nan)
        self.consistent_ = not self._covers(X[y != self.classes_[which]]).any()
        return self

    def _covers(self, X: Any) -> NDArray[np.bool_]:
        return np.asarray((np.isnan(self.hypothesis_) | (self.hypothesis_ == X)).all(axis=1))

    def predict(self, X: Any) -> np.ndarray:
        """Return the positive class for rows that have all required values."""
        check_is_fitted(self)
        covered = self._covers(validate_data(self, X, reset=False))
        if len(self.classes_) == 1:
            return np.repeat(self.classes_, len(covered))
        other = self.classes_[1 - self.positive_]
        return np.where(covered, self.classes_[self.positive_], other)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return 1 for covered rows and -1 for others; the signs are reversed if the concept is the first class."""
        check_is_fitted(self)
        covered = self._covers(validate_data(self, X, reset=False))
        return np.where(covered, 1.0, -1.0) * (1 if self.positive_ == len(self.classes_) - 1 else -1)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return Find-S; numeric columns are treated as categorical."""
    return FindS(options.positive)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the required value of each input (NaN: any) and whether a conjunction is consistent with all rows."""
    return {
        "value": (("input",), estimator.hypothesis_),
        "consistent": ((), np.array(float(estimator.consistent_))),
    }


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [FindS()]
