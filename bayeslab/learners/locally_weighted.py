r"""Learner ``locally_weighted``: locally weighted linear regression: a separate linear fit around each query.

Around a query q, the function :math:`f(x) = w_0 + w \cdot (x - q)` minimises one of three criteria [1]_:

.. math::

   E_1 = \tfrac12 \sum_{x \in k\text{NN}} (y - f(x))^2, \quad E_2 = \tfrac12 \sum_x K(d(q, x)) (y - f(x))^2, \quad
   E_3 = \tfrac12 \sum_{x \in k\text{NN}} K(d(q, x)) (y - f(x))^2.

The closed form is weighted least squares; the gradient rule :math:`\Delta w_j = \eta \sum_x K(d(q, x))(y - f(x)) a_j`
converges to the same solution.

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

from bayeslab.learners.toolbox.descent import DenseRows, settled
from bayeslab.learners.toolbox.estimator import Applies, Estimator, LearnerOptions, NonNegative, Passes, warn_unless
from bayeslab.learners.toolbox.lazy import Lazy
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
        "E3",
        description="E1: nearest rows, equal weights; E2: all rows, kernel weights; E3: nearest rows, kernel weights.",
    )
    n_neighbors: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="Nearest rows for E1, E3 and the default width; default: chosen by leaving one out.",
    )
    kernel: Window = Field("quadratic", description="Kernel: how the weights decrease with the distance.")
    width: float | None = Field(
        None,
        gt=0,
        description="Width of the kernel; default: it just covers the nearest rows (gaussian: half of that).",
    )
    solver: Literal["exact", "gradient"] = Field(
        "exact", description="Weighted least squares in closed form, or by gradient descent."
    )


class LocallyWeighted(RegressorMixin, Lazy, Estimator, options=Options):
    """A linear function around each query.

    Parameters
    ----------
    criterion : {"E1", "E2", "E3"}
    n_neighbors : int or None
        Used by E1 and E3, and for the width if none is given; all rows if there are fewer. None: the number with the
        smallest leave-one-out error (on some hundred rows).
    kernel : {"gaussian", "quadratic", "triangular", "tricube", "uniform"}
    width : float or None
        None: for each query slightly more than needed to cover its nearest rows.
    solver : {"exact", "gradient"}
    max_steps : int
        Maximum number of gradient steps.
    tol : float
        Gradient descent stops when no weight moves by more than this.

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
        self._rows = X, y
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
        """Weight of each training row for a query."""
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
        # If the kernel reaches no row, only the nearest row counts.
        return np.exp(log - top) if np.isfinite(top) else (np.arange(len(gap)) == order[0]).astype(float)

    def _reach(self, gap: Array, order: NDArray[np.int64]) -> float:
        farthest = float(gap[order[-1]]) * (1 + 1e-3)
        if farthest <= 0:
            return 1.0
        return farthest / 2 if self.kernel == "gaussian" else 2 * farthest

    def local_coefficients(self, x: Any) -> Array:
        """Return the fitted value at the query, followed by the slopes."""
        check_is_fitted(self)
        coefficients, converged = self._local(np.asarray(x, float), self.n_neighbors_)
        self._warn(0 if converged else 1, 1)
        return coefficients

    def _local(self, query: Array, n_neighbors: int, without: int | None = None) -> tuple[Array, bool]:
        """Return value and slopes at a query, and whether gradient descent has converged."""
        weight = self._weights(query, n_neighbors, without)
        kept = weight > 0
        weight, target = weight[kept] / weight.sum(), self._target[kept]
        rows = np.column_stack([np.ones(kept.sum()), self._points[kept] - query])
        if self.solver == "gradient":
            return self._descended(rows, target, weight)
        # Centred at the weighted mean; directions without variation get slope zero.
        centre, height = weight @ rows[:, 1:], float(weight @ target)
        root = np.sqrt(weight)
        slope = np.linalg.pinv(root[:, None] * (rows[:, 1:] - centre), rcond=1e-8) @ (root * (target - height))
        return np.concatenate([[height - centre @ slope], slope]), True

    def _descended(self, rows: Array, target: Array, weight: Array) -> tuple[Array, bool]:
        """Return the coefficients from gradient descent, and whether it converged before the last step."""
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
        return coefficients, settled(left, DenseRows(rows[:, 1:]), weight, spread, False)

    def _warn(self, n: int, n_queries: int) -> None:
        text = f"around {n} of {n_queries} queries the gradient is not zero after max_steps = {self.max_steps} steps"
        warn_unless(n == 0, self, f"{text}: allow more, or take solver exact")

    def predict(self, X: Any) -> Array:
        """Return the value of the local fit at each query."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        fits = [self._local(x, self.n_neighbors_) for x in X]
        self._warn(sum(not converged for _, converged in fits), len(X))
        return np.array([coefficients[0] for coefficients, _ in fits])


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The estimator."""
    return LocallyWeighted(options.criterion, options.n_neighbors, options.kernel, options.width, options.solver)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of nearest rows used for a query."""
    return {"n_neighbors": ((), np.array(float(estimator.n_neighbors_)))}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [LocallyWeighted(), LocallyWeighted("E2", kernel="gaussian")]
