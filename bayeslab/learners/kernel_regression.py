r"""Learner ``kernel_regression``: the average of all rows, weighted by a kernel of the distance (Nadaraya-Watson).

.. math:: \hat y(q) = \sum_i K(\|x_i - q\|)\, y_i \big/ \sum_i K(\|x_i - q\|)

[1]_, [2]_; for classes the weighted vote. The weights sum to one; as the width goes to zero only the nearest row
counts. The width minimises the leave-one-out error.

References
----------
.. [1] Nadaraya (1964). On estimating regression. Theory of Probability and its Applications 9, 141-142.
.. [2] Watson (1964). Smooth regression analysis. Sankhya A 26, 359-372.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import pairwise_distances
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import Estimator, LearnerOptions
from bayeslab.learners.toolbox.lazy import Lazy
from bayeslab.learners.toolbox.windows import Window, log_window

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "KernelRegression",
    "KernelVote",
    "Options",
    "build",
    "examples",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False

_BLOCK = 4_000_000


class Options(LearnerOptions):
    """Options of kernel regression."""

    kernel: Window = Field("gaussian", description="Kernel: how the weights decrease with the distance.")
    width: float | None = Field(
        None,
        gt=0,
        description="Standard deviation, or full width of other kernels; default: chosen by leaving one out.",
    )


class _Weighted(Lazy, Estimator, options=Options):
    kernel: str
    width: float | None

    def _store(self, X: Array, target: Array) -> None:
        self._points, self._target = X, target
        self.width_ = float(self.width or self._chosen())

    def _chosen(self) -> float:
        """Return the width with the smallest leave-one-out error."""
        n = len(self._points)
        # A few hundred rows are enough to choose the width.
        asked = np.unique(np.linspace(0, n - 1, min(n, 500)).astype(int))
        gaps = pairwise_distances(self._points[asked], self._points)
        gaps[np.arange(len(asked)), asked] = np.inf
        near = gaps.min(axis=1)
        near = near[np.isfinite(near) & (near > 0)]
        if not len(near):
            return 1.0
        finite = gaps[np.isfinite(gaps)]
        widths = np.geomspace(0.2 * float(np.median(near)), 2 * float(finite.max()), 25)
        errors = [self._loss(self._shares(gaps, float(w)) @ self._target, asked) for w in widths]
        return float(widths[int(np.argmin(errors))])

    def _loss(self, predicted: Array, asked: NDArray[np.int64]) -> float:
        # Squared error; for classes that of the probabilities (Brier score).
        return float(((predicted - self._target[asked]) ** 2).sum())

    def _shares(self, gaps: Array, width: float) -> Array:
        """Return the weights, each line summing to one; where no window reaches, the nearest rows share the weight."""
        log = log_window(self.kernel, gaps, width)
        nearest = gaps == gaps.min(axis=1, keepdims=True)
        log[nearest] = np.maximum(log[nearest], -1e300)
        log -= log.max(axis=1, keepdims=True)
        weight = np.exp(log)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def weights(self, X: Any) -> Array:
        """Weights of the training rows for each query, shape (queries, rows)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._shares(pairwise_distances(X, self._points), self.width_)

    def _average(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        step = max(1, _BLOCK // len(self._points))
        parts = [
            self._shares(pairwise_distances(X[a : a + step], self._points), self.width_) @ self._target
            for a in range(0, len(X), step)
        ]
        return np.concatenate(parts)


class KernelRegression(RegressorMixin, _Weighted):
    """Weighted average of numbers.

    Parameters
    ----------
    kernel : {"gaussian", "quadratic", "triangular", "tricube", "uniform"}
    width : float or None
        None: the one with the smallest leave-one-out error.

    Attributes
    ----------
    width_ : float
    """

    def __init__(self, kernel: str = "gaussian", width: float | None = None) -> None:
        self.kernel, self.width = kernel, width

    def fit(self, X: Any, y: Any) -> Self:
        """Store the rows; choose the width."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._rows = X, y
        self._store(X, np.asarray(y, float))
        return self

    def predict(self, X: Any) -> Array:
        """The weighted average."""
        return self._average(X)


class KernelVote(ClassifierMixin, _Weighted):
    """Weighted vote of classes.

    Parameters
    ----------
    kernel, width
        As in :class:`KernelRegression`.

    Attributes
    ----------
    width_ : float
    """

    def __init__(self, kernel: str = "gaussian", width: float | None = None) -> None:
        self.kernel, self.width = kernel, width

    def fit(self, X: Any, y: Any) -> Self:
        """Store the rows; choose the width."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        self._rows = X, y
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._store(X, np.eye(len(self.classes_))[codes])
        return self

    def predict_proba(self, X: Any) -> Array:
        """Shares of the votes."""
        shares = self._average(X)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> np.ndarray:
        """The class with the most votes."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The estimator of the task."""
    kind = KernelVote if task == "classification" else KernelRegression
    return kind(options.kernel, options.width)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The width."""
    return {"width": ((), np.array(estimator.width_))}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [KernelRegression(), KernelVote(kernel="quadratic")]
