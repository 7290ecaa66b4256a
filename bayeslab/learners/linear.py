r"""Learner ``linear``: linear regression, in closed form or by gradient descent, with an optional penalty.

The penalty is on squared weights (ridge) or on absolute weights (lasso).

The squared error :math:`\sum_i (y_i - w \cdot x_i)^2` is convex, with its minimum at
:math:`(X^\top X)^{-1} X^\top y`. The penalty :math:`\lambda \sum_j w_j^2` shrinks all weights and is invariant to
rotations of the inputs; :math:`\lambda \sum_j |w_j|` sets some weights to zero and is not invariant [1]_.

References
----------
.. [1] Tibshirani (1996). Regression shrinkage and selection via the lasso. JRSS B 58, 267-288.
.. [2] Hoerl, Kennard (1970). Ridge regression. Technometrics 12, 55-67.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Lasso, LinearRegression, Ridge, lasso_path
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bayeslab.learners.toolbox.curves import by_pass
from bayeslab.learners.toolbox.descent import Rows, rows_of, safe_rate, settled
from bayeslab.learners.toolbox.descent_kernels import LINEAR
from bayeslab.learners.toolbox.estimator import Applies, Estimator, LearnerOptions, NonNegative, guarded, warn_unless

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "GradientLinear",
    "Options",
    "Path",
    "build",
    "curves",
    "examples",
    "path",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("regression",)
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of linear regression."""

    applies: ClassVar[Applies] = {
        "alpha": {"penalty": ("ridge", "lasso")},
        "rate": {"solver": ("batch", "stochastic")},
        "decay": {"solver": ("batch", "stochastic")},
    }
    penalty: Literal["none", "ridge", "lasso"] = Field("none", description="Penalty on the weights.")
    alpha: float = Field(
        1.0,
        gt=0,
        description="Strength: squared errors plus alpha Σ w² (ridge), or half their mean plus alpha Σ |w| (lasso).",
    )
    solver: Literal["exact", "batch", "stochastic"] = Field(
        "exact", description="Closed form (lasso: coordinate descent), or gradient descent over all rows or row by row."
    )
    rate: float | None = Field(
        None, gt=0, description="Learning rate of gradient descent; default: a rate that cannot diverge."
    )
    decay: float = Field(0.0, ge=0, description="The rate of step t is rate · decay / (decay + t); 0: constant.")
    max_iter: int = Field(1000, ge=1, le=10_000_000, description="Maximum number of passes over the rows.")


class GradientLinear(RegressorMixin, Estimator, options=Options):
    """Least squares by gradient descent.

    Parameters
    ----------
    solver : {"batch", "stochastic"}
        A step of ``batch`` is the mean gradient over all rows; it converges for rates below 2 over the largest
        eigenvalue of X'X / n.
    ridge : float
        Penalty on the squared weights, added to the sum of squared errors.
    rate : float or None
        None: one over that eigenvalue, or over the largest squared length of a row (stochastic).
    decay : float
        The rate of step t is ``rate * decay / (decay + t)``; constant for ``decay=0``.
    max_iter : int
        Maximum number of passes over the rows.
    tol : float
        Stop when the mean gradient is smaller (batch).
    random_state : int or None

    Attributes
    ----------
    coef_ : ndarray, shape (n_features,)
    intercept_ : float
    losses_ : ndarray
        Mean squared error after each pass: the training curve.
    weights_ : ndarray, shape (passes, n_features + 1)
        Intercept and coefficients after each pass.
    converged_ : bool
        Whether the mean gradient is below 1e-4 (stochastic: 1e-3) of a single row's gradient.
    """

    def __init__(
        self,
        solver: str = "batch",
        ridge: NonNegative = 0.0,
        rate: float | None = None,
        decay: float = 0.0,
        max_iter: int = 1000,
        tol: NonNegative = 1e-10,
        random_state: Any = None,
    ) -> None:
        self.solver, self.ridge, self.rate, self.decay = solver, ridge, rate, decay
        self.max_iter, self.tol, self.random_state = max_iter, tol, random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Run gradient descent from zero weights."""
        X, y = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr", y_numeric=True)
        y = np.asarray(y, float)
        weight = _check_sample_weight(sample_weight, X)
        if self.solver not in ("batch", "stochastic"):
            raise ValueError(f"solver is batch or stochastic, not {self.solver!r}")
        rows, rng = rows_of(X), check_random_state(self.random_state)
        w, shrink, steps = np.zeros(rows.shape[1]), self.ridge / weight.sum(), 0
        losses, trace = [], []
        rate = float(self.rate or safe_rate(rows, weight, self.solver))
        for _ in range(self.max_iter):
            slope = None
            if self.solver == "stochastic":
                steps = self._descend(rows, y, weight, rng, w, rate, steps, shrink)
            else:
                slope = _slope(rows, y, weight, w, shrink)
                step = rate * self.decay / (self.decay + steps) if self.decay > 0 else rate
                w, steps = w + step * slope, steps + 1
            losses.append(_loss(rows, y, weight, w, rate))
            trace.append(w.copy())
            if slope is not None and np.abs(slope).max() < self.tol:
                break
        self.losses_, self.n_iter_, self.weights_ = np.array(losses), len(losses), np.array(trace)
        self._steps, self._n, self._rate = len(losses) * rows.shape[0], float(weight.sum()), rate
        self._settle(rows, y, weight, w, shrink)
        text = f"the gradient is not zero after max_iter = {self.max_iter} passes: allow more, or take solver exact"
        if self.solver == "stochastic":
            text = f"the weights still move after max_iter = {self.max_iter} passes: allow more, or give a decay"
        warn_unless(self.converged_, self, text)
        return self

    @available_if(lambda self: self.solver == "stochastic")
    @guarded
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Descend over more rows once, from the present weights; the first call starts at zero weights.

        Available for ``solver="stochastic"``. The penalty is that of all rows so far, and the default rate the smallest
        of all parts. ``converged_`` says whether the mean gradient of the last part is small.

        Parameters
        ----------
        X : array or sparse matrix, shape (rows, columns)
        y : array, shape (rows,)
        sample_weight : array, shape (rows,), optional
        """
        first = not hasattr(self, "coef_")
        X, y = validate_data(
            self, X, y, dtype=np.float64, accept_sparse="csr", y_numeric=True, reset=first, ensure_min_samples=1
        )
        y, weight, rows = np.asarray(y, float), _check_sample_weight(sample_weight, X), rows_of(X)
        if first:
            w, self._steps, self._n, self._rate, self.n_iter_ = np.zeros(rows.shape[1]), 0, 0.0, np.inf, 0
            self.losses_, self.weights_ = np.zeros(0), np.zeros((0, rows.shape[1]))
        else:
            w = np.concatenate([[self.intercept_], self.coef_])
        self._n += float(weight.sum())
        self._rate = min(self._rate, float(self.rate or safe_rate(rows, weight, self.solver)))
        rng, shrink = check_random_state(self.random_state), self.ridge / self._n
        self._steps = self._descend(rows, y, weight, rng, w, self._rate, self._steps, shrink)
        self.losses_ = np.append(self.losses_, _loss(rows, y, weight, w, self._rate))
        self.weights_, self.n_iter_ = np.vstack([self.weights_, w]), self.n_iter_ + 1
        self._settle(rows, y, weight, w, shrink)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _descend(
        self, rows: Rows, y: Array, weight: Array, rng: Any, w: Array, rate: float, steps: int, shrink: float
    ) -> int:
        """A pass over the rows in random order, which changes the weights in place; the number of steps so far."""
        order = rng.permutation(rows.shape[0])
        return rows.descend(y, weight, order, w, LINEAR, rate, float(self.decay), steps, shrink)

    def _settle(self, rows: Rows, y: Array, weight: Array, w: Array, shrink: float) -> None:
        """Set the coefficients, and whether the gradient is small there."""
        self.intercept_, self.coef_ = float(w[0]), w[1:].copy()
        middle = weight @ y / weight.sum()
        spread = float(np.sqrt(weight @ (y - middle) ** 2 / weight.sum())) + 1e-9 * abs(float(middle))
        slope = _slope(rows, y, weight, w, shrink)
        self.converged_ = settled(slope, rows, weight, spread, self.solver == "stochastic")

    def predict(self, X: Any) -> np.ndarray:
        """The linear prediction."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, accept_sparse="csr")
        return np.asarray(X @ self.coef_ + self.intercept_)


def _slope(rows: Rows, y: Array, weight: Array, w: Array, shrink: float) -> Array:
    """The mean of error times input, less the penalty's slope."""
    return rows.pulled(weight * (y - rows.scores(w))) / weight.sum() - shrink * np.concatenate([[0.0], w[1:]])


def _loss(rows: Rows, y: Array, weight: Array, w: Array, rate: float) -> float:
    """The mean squared error; refused if it is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        out = float(weight @ (y - rows.scores(w)) ** 2 / weight.sum())
    if not np.isfinite(out):
        raise ValueError(f"Gradient descent diverges with rate {rate:g}: take a smaller one")
    return out


@dataclass(frozen=True, eq=False)
class Path:
    """Regularisation path: the weights by the strength of the penalty.

    Attributes
    ----------
    alphas : ndarray
        Penalty strengths, decreasing.
    coefficients : ndarray, shape (alphas, columns)
    """

    alphas: Array
    coefficients: Array


def path(X: Any, y: Any, penalty: Literal["ridge", "lasso"], n_alphas: int = 100) -> Path:
    """Regularisation path of centred columns; the lasso starts at the penalty that sets all weights to zero.

    Parameters
    ----------
    X, y
        Shapes (rows, columns) and (rows,).
    n_alphas
        Number of strengths, evenly spaced in logarithms over three (lasso) or six (ridge) powers of ten.
    """
    x = np.asarray(X, float) - np.mean(X, axis=0)
    target = np.asarray(y, float) - np.mean(y)
    if penalty == "lasso":
        alphas, coefficients, _ = lasso_path(x, target, alphas=n_alphas, eps=1e-3, tol=1e-8, max_iter=100_000)
        return Path(alphas, coefficients.T)
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    alphas = np.geomspace(1e4, 1e-2, n_alphas) * float(s.max() ** 2) / 1e3
    along = u.T @ target
    return Path(alphas, np.array([(s / (s**2 + a) * along) @ vt for a in alphas]))


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """scikit-learn's solvers, or gradient descent."""
    if options.solver != "exact":
        if options.penalty == "lasso":
            raise ValueError("the lasso has no gradient at zero: take solver exact (coordinate descent)")
        ridge = options.alpha if options.penalty == "ridge" else 0.0
        return GradientLinear(options.solver, ridge, options.rate, options.decay, options.max_iter)
    if options.penalty == "ridge":
        return Ridge(alpha=options.alpha)
    if options.penalty == "lasso":
        return Lasso(alpha=options.alpha, max_iter=max(options.max_iter, 10_000))
    return LinearRegression()


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Weights of the standardised columns."""
    return {"intercept": ((), np.array(float(estimator.intercept_))), "weight": (("column",), estimator.coef_)}


def curves(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Mean squared error after each pass of gradient descent."""
    losses = getattr(estimator, "losses_", None)
    return {} if losses is None else by_pass("squared_error", [losses])


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [GradientLinear(), GradientLinear(solver="stochastic", decay=1000.0)]
