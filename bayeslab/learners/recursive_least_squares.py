r"""Learner ``recursive_least_squares``: linear regression that is updated row by row.

After every row the coefficients equal the least squares solution (with a small ridge penalty) on all rows so far. With
a forgetting factor :math:`\lambda < 1` old rows count less. The cost of an update is quadratic in the number of inputs
[1]_:

.. math:: k = \frac{P x}{\lambda + x^\top P x}, \quad w \leftarrow w + k\,(y - x^\top w), \quad
   P \leftarrow (P - k x^\top P)/\lambda.

Outcomes y are centred at the first outcome, so that the result does not depend on their origin.

References
----------
.. [1] Plackett (1950). Some theorems in least squares. Biometrika 37, 149-157.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from pydantic import Field
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import Estimator, LearnerOptions
from bayeslab.learners.toolbox.recursive_kernels import update

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "RecursiveLeastSquares",
    "build",
    "examples",
    "reported",
]

TASKS = ("regression",)
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of the recursion."""

    forgetting: float = Field(
        1.0, gt=0, le=1, description="Factor by which the weight of a row decreases with each later row."
    )
    ridge: float = Field(
        1e-6,
        gt=0,
        description="Initial penalty on the squared coefficients; the intercept is shrunk to the first outcome.",
    )


class RecursiveLeastSquares(RegressorMixin, Estimator, options=Options):
    """Recursive least squares: one row after the other.

    Parameters
    ----------
    forgetting : float
    ridge : float
        Inverse of the diagonal of P before the first row.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features,)
    intercept_ : float
    """

    def __init__(self, forgetting: float = 1.0, ridge: float = 1e-6) -> None:
        self.forgetting, self.ridge = forgetting, ridge

    def fit(self, X: Any, y: Any) -> Self:
        """Restart, and process the rows in order."""
        for name in ("coef_", "_inverse"):
            if hasattr(self, name):
                delattr(self, name)
        return self.partial_fit(X, y)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Update the fit with more rows."""
        first = not hasattr(self, "_inverse")
        X, y = validate_data(self, X, y, reset=first, y_numeric=True)
        if first:
            # Outcomes are centred at the first one, to which the penalty shrinks the intercept.
            self._level = float(y[0])
            self._inverse = np.eye(X.shape[1] + 1) / self.ridge
            self._weights = np.zeros(X.shape[1] + 1)
        rows = np.ascontiguousarray(np.column_stack([np.ones(len(X)), X]), float)
        update(self._inverse, self._weights, rows, np.asarray(y, float) - self._level, float(self.forgetting))
        self.intercept_, self.coef_ = float(self._weights[0]) + self._level, self._weights[1:].copy()
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The linear prediction."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False) @ self.coef_ + self.intercept_)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The recursion."""
    return RecursiveLeastSquares(options.forgetting, options.ridge)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Coefficients of the standardised columns."""
    return {"intercept": ((), np.array(estimator.intercept_)), "coefficient": (("column",), estimator.coef_)}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [RecursiveLeastSquares()]
