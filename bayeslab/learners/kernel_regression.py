r"""Learner ``kernel_regression``: the average of all rows, weighted by how near they are.

.. math:: \hat y(q) = \sum_i K(\|x_i - q\|)\, y_i \big/ \sum_i K(\|x_i - q\|)

[1]_, [2]_; of classes the weighted vote. The weights add up to one; as the width goes to zero the nearest row answers
alone. The width is the one with the least error when each row is predicted by the others.

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

    kernel: Window = Field("gaussian", description="How weights fall with the distance.")
    width: float | None = Field(
        None, gt=0, description="Standard deviation, or whole width of other kernels; left out: by rows left out."
    )


class _Weighted(Estimator, options=Options):
    kernel: str
    width: float | None

    def _store(self, X: Array, target: Array) -> None:
        self._points, self._target = X, target
        self.width_ = float(self.width or self._chosen())

    def _chosen(self) -> float:
        """The width with the least error of rows left out."""
        n = len(self._points)
        # A few hundred rows tell which width is best as well as all.
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
        # Squared error, of classes that of the shares (Brier).
        return float(((predicted - self._target[asked]) ** 2).sum())

    def _shares(self, gaps: Array, width: float) -> Array:
        """Weights of all rows, each line of sum one; where no window reaches, the nearest rows share."""
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
        None: the one with the least error of rows left out.

    Attributes
    ----------
    width_ : float
    """

    def __init__(self, kernel: str = "gaussian", width: float | None = None) -> None:
        self.kernel, self.width = kernel, width

    def fit(self, X: Any, y: Any) -> Self:
        """Store the rows; choose the width."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
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
        As of :class:`KernelRegression`.

    Attributes
    ----------
    width_ : float
    """

    def __init__(self, kernel: str = "gaussian", width: float | None = None) -> None:
        self.kernel, self.width = kernel, width

    def fit(self, X: Any, y: Any) -> Self:
        """Store the rows; choose the width."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._store(X, np.eye(len(self.classes_))[codes])
        return self

    def predict_proba(self, X: Any) -> Array:
        """Shares of the votes."""
        shares = self._average(X)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> np.ndarray:
        """The class with most votes."""
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
    """For scikit-learn's checks."""
    return [KernelRegression(), KernelVote(kernel="quadratic")]
