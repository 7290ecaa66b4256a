"""Learner ``table_lookup``: the stored outcome of an identical training row, otherwise a default.

The simplest learner, and a baseline for the others: it does not generalise at all. Rows stored more than once give
their most frequent class, or their mean.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import Applies, Estimator, LearnerOptions
from bayeslab.learners.toolbox.lazy import Lazy

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "TableLookup",
    "TableLookupRegressor",
    "build",
    "examples",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = False


class Options(LearnerOptions):
    """Options of the table."""

    applies: ClassVar[Applies] = {
        "default": {"task": ("regression",)},
    }
    default: float | None = Field(None, description="Regression: prediction for rows not stored; default: the mean.")


class _Table(Lazy, Estimator, options=Options):
    def _stored(self, X: Array) -> NDArray[np.int64]:
        """Positions in the table; new rows are added."""
        self._position: dict[bytes, int] = {}
        return np.array([self._position.setdefault(key, len(self._position)) for key in _keys(X)], np.int64)

    def _positions(self, X: Any) -> NDArray[np.int64]:
        """Positions in the table; -1 for rows that are not stored."""
        check_is_fitted(self, "n_rows_")
        table = np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
        return np.array([self._position.get(key, -1) for key in _keys(table)], np.int64)


def _keys(X: Array) -> list[bytes]:
    # Negative zero counts as zero.
    return [row.tobytes() for row in np.ascontiguousarray(X + 0.0)]


class TableLookup(ClassifierMixin, _Table):
    """Classes by exact match; otherwise the class frequencies of all rows.

    Attributes
    ----------
    n_rows_ : int
        Number of distinct rows stored.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Store the rows."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        self._rows = X, y
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        at = self._stored(X)
        counts = np.zeros((len(self._position), len(self.classes_)))
        np.add.at(counts, (at, codes), 1)
        self._shares = np.vstack([counts, counts.sum(axis=0)])
        self._shares /= self._shares.sum(axis=1, keepdims=True)
        self.n_rows_ = len(self._position)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Class frequencies among the identical stored rows; those of all rows if there are none."""
        at = self._positions(X)
        return np.asarray(self._shares[at])

    def predict(self, X: Any) -> np.ndarray:
        """The most frequent class; the first on a tie."""
        shares = self.predict_proba(X)
        return np.asarray(self.classes_[shares.argmax(axis=1)])


class TableLookupRegressor(RegressorMixin, _Table):
    """Numbers by exact match.

    Parameters
    ----------
    default : float or None
        Prediction for rows that are not stored; None: the mean.

    Attributes
    ----------
    n_rows_ : int
        Number of distinct rows stored.
    """

    def __init__(self, default: float | None = None) -> None:
        self.default = default

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Store the rows."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._rows = X, y
        at = self._stored(X)
        means = np.bincount(at, weights=y) / np.bincount(at)
        self._means = np.append(means, np.mean(y) if self.default is None else self.default)
        self.n_rows_ = len(self._position)
        return self

    def predict(self, X: Any) -> Array:
        """The mean of the identical stored rows, or the default."""
        at = self._positions(X)
        return np.asarray(self._means[at])


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The table of the task."""
    return TableLookup() if task == "classification" else TableLookupRegressor(options.default)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of distinct rows stored."""
    return {"rows": ((), np.array(float(estimator.n_rows_)))}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [TableLookup(), TableLookupRegressor()]
