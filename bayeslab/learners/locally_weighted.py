r"""Learner ``locally_weighted``: for each query a linear function of its own, by what lies near.

Around a query q a function :math:`f(x) = w_0 + w \cdot (x - q)` has the least error by one of three criteria [1]_:

.. math::

   E_1 = \tfrac12 \sum_{x \in k\text{NN}} (y - f(x))^2, \quad E_2 = \tfrac12 \sum_x K(d(q, x)) (y - f(x))^2, \quad
   E_3 = \tfrac12 \sum_{x \in k\text{NN}} K(d(q, x)) (y - f(x))^2.

The closed form is weighted least squares; the gradient rule :math:`\Delta w_j = \eta \sum_x K(d(q, x))(y - f(x)) a_j`
comes to the same.

References
----------
.. [1] Atkeson, Moore, Schaal (1997). Locally weighted learning. Artificial Intelligence Review 11, 11-73.
.. [2] Cleveland (1979). Robust locally weighted regression and smoothing scatterplots. JASA 74, 829-836.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.descent import settled
from bayeslab.learners.toolbox.estimator import Applies, Estimator, LearnerOptions, NonNegative, Passes, warn_unless
from bayeslab.learners.toolbox.windows import Window, log_window

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "LocallyWeighted",
    "Options",
    "build",
    "examples",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("regression",)
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of locally weighted regression."""

    applies: ClassVar[Applies] = {
        "kernel": {"criterion": ("E2", "E3")},
        "width": {"criterion": ("E2", "E3")},
    }
    criterion: Literal["E1", "E2", "E3"] = Field(
        "E3", description="E1: the nearest rows alike; E2: all rows by the kernel; E3: the nearest rows by the kernel."
    )
    n_neighbors: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="Nearest rows of E1 and E3, and of the width; left out: by the error of rows left out.",
    )
    kernel: Window = Field("quadratic", description="How weights fall with the distance.")
    width: float | None = Field(
        None,
        gt=0,
        description="Width of the kernel; left out: it ends where the nearest rows do (gaussian: half of that).",
    )
    solver: Literal["exact", "gradient"] = Field("exact", description="Weighted least squares, or descent to it.")


class LocallyWeighted(RegressorMixin, Estimator, options=Options):
    """A linear function around each query.

    Parameters
    ----------
    criterion : {"E1", "E2", "E3"}
    n_neighbors : int or None
        Of E1 and E3, and of the width where none is given; all rows where there are fewer. None: the number with the
        least error when (some hundred) rows are predicted by the others.
    kernel : {"gaussian", "quadratic", "triangular", "tricube", "uniform"}
    width : float or None
        None: around each query a little more than what holds its nearest rows.
    solver : {"exact", "gradient"}
    max_steps : int
        Steps of the gradient.
    tol : float
        It stops when no weight moves by more.

    Attributes
    ----------
    n_neighbors_ : int
    """

    def __init__(
        self,
        criterion: str = "E3",
        n_neighbors: int | None = None,
        kernel: str = "quadratic",
        width: float | None = None,
        solver: str = "exact",
        max_steps: Passes = 20_000,
        tol: NonNegative = 1e-12,
    ) -> None:
        self.criterion, self.n_neighbors, self.kernel, self.width = criterion, n_neighbors, kernel, width
        self.solver, self.max_steps, self.tol = solver, max_steps, tol

    def fit(self, X: Any, y: Any) -> Self:
        """Store the rows."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._points, self._target = X, np.asarray(y, float)
        self.n_samples_ = len(X)
        self.n_neighbors_ = self.n_neighbors or self._chosen()
        return self

    def _chosen(self) -> int:
        n, d = self._points.shape
        tried = np.unique(np.minimum((d + 1) * 2 ** np.arange(1, 8), n - 1))
        tried = tried[tried > 0]
        if not len(tried) or (self.criterion == "E2" and self.width is not None):
            return n
        asked = np.unique(np.linspace(0, n - 1, min(n, 150)).astype(int))
        errors = []
        for k in tried:
            left = [self._local(self._points[i], int(k), i)[0][0] for i in asked]
            errors.append(float(np.mean((np.array(left) - self._target[asked]) ** 2)))
        return int(tried[int(np.argmin(errors))])

    def row_weights(self, x: Any) -> Array:
        """Weight of each training row around a query."""
        check_is_fitted(self)
        return self._weights(np.asarray(x, float), self.n_neighbors_)

    def _weights(self, query: Array, n_neighbors: int, without: int | None = None) -> Array:
        gap = np.linalg.norm(self._points - query, axis=1)
        if without is not None:
            gap[without] = np.inf
        k = min(n_neighbors, len(gap))
        order = np.lexsort((np.arange(len(gap)), gap))[:k]
        if self.criterion == "E1":
            weight = np.zeros(len(gap))
            weight[order] = 1.0
            return weight
        log = log_window(self.kernel, gap, self.width or self._reach(gap, order))
        if self.criterion == "E3":
            inside = np.full(len(gap), -np.inf)
            inside[order] = log[order]
            log = inside
        top = float(log.max())
        # Where the kernel reaches no row, the nearest one is all there is.
        return np.exp(log - top) if np.isfinite(top) else (np.arange(len(gap)) == order[0]).astype(float)

    def _reach(self, gap: Array, order: NDArray[np.int64]) -> float:
        farthest = float(gap[order[-1]]) * (1 + 1e-3)
        if farthest <= 0:
            return 1.0
        return farthest / 2 if self.kernel == "gaussian" else 2 * farthest

    def local_coefficients(self, x: Any) -> Array:
        """Value at the query, and slopes."""
        check_is_fitted(self)
        coefficients, converged = self._local(np.asarray(x, float), self.n_neighbors_)
        self._warn(0 if converged else 1, 1)
        return coefficients

    def _local(self, query: Array, n_neighbors: int, without: int | None = None) -> tuple[Array, bool]:
        """Value and slopes at a query, and whether a descent to them has converged."""
        weight = self._weights(query, n_neighbors, without)
        kept = weight > 0
        weight, target = weight[kept] / weight.sum(), self._target[kept]
        rows = np.column_stack([np.ones(kept.sum()), self._points[kept] - query])
        if self.solver == "gradient":
            return self._descended(rows, target, weight)
        # Around the weighted mean: directions without a spread get no slope.
        centre, height = weight @ rows[:, 1:], float(weight @ target)
        root = np.sqrt(weight)
        slope = np.linalg.pinv(root[:, None] * (rows[:, 1:] - centre), rcond=1e-8) @ (root * (target - height))
        return np.concatenate([[height - centre @ slope], slope]), True

    def _descended(self, rows: Array, target: Array, weight: Array) -> tuple[Array, bool]:
        """Coefficients by descent, and whether it ended before its steps were used up."""
        curvature = (weight[:, None] * rows).T @ rows
        rate = 1 / float(np.linalg.eigvalsh(curvature)[-1])
        coefficients = np.zeros(rows.shape[1])
        for _ in range(self.max_steps):
            step = rate * (weight * (target - rows @ coefficients)) @ rows
            coefficients += step
            if np.abs(step).max() < self.tol:
                return coefficients, True
        middle = weight @ target
        spread = float(np.sqrt(weight @ (target - middle) ** 2)) + 1e-9 * abs(float(middle))
        left = (weight * (target - rows @ coefficients)) @ rows
        return coefficients, settled(left, rows, weight, spread, False)

    def _warn(self, n: int, n_queries: int) -> None:
        text = f"around {n} of {n_queries} queries the gradient is not zero after max_steps = {self.max_steps} steps"
        warn_unless(n == 0, self, f"{text}: allow more, or take solver exact")

    def predict(self, X: Any) -> Array:
        """The value of its own function at each query."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        fits = [self._local(x, self.n_neighbors_) for x in X]
        self._warn(sum(not converged for _, converged in fits), len(X))
        return np.array([coefficients[0] for coefficients, _ in fits])


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The estimator."""
    return LocallyWeighted(options.criterion, options.n_neighbors, options.kernel, options.width, options.solver)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Nearest rows that a query looks at."""
    return {"n_neighbors": ((), np.array(float(estimator.n_neighbors_)))}


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks."""
    return [LocallyWeighted(), LocallyWeighted("E2", kernel="gaussian")]
