r"""Learner ``logistic``: logistic regression by likelihood or squared error, with Newton steps or gradient descent.

The output is :math:`h_w(x) = 1/(1 + e^{-w \cdot x})`. The log likelihood has the gradient
:math:`\sum_i (y_i - h_w(x_i))\,x_i` and is concave. The squared error, used in back-propagation, has the (negative)
gradient :math:`\sum_i (y_i - h)\,h(1-h)\,x_i` and may have several minima [1]_. If a plane separates the classes, the
likelihood has no maximum; the penalty (``C``) keeps the weights finite.

References
----------
.. [1] Russell, Norvig (2010). Artificial Intelligence: A Modern Approach, 3rd ed., section 18.6.4.
.. [2] Robbins, Monro (1951). A stochastic approximation method. Annals of Mathematical Statistics 22.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bayeslab.learners.toolbox.curves import by_pass
from bayeslab.learners.toolbox.descent import Rows, rows_of, safe_rate, settled
from bayeslab.learners.toolbox.descent_kernels import LIKELIHOOD, SQUARED
from bayeslab.learners.toolbox.estimator import Applies, Estimator, LearnerOptions, NonNegative, guarded, warn_unless
from bayeslab.learners.toolbox.parts import classes_of_parts

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "GradientLogistic",
    "Options",
    "build",
    "curves",
    "examples",
    "gradient",
    "loss",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of logistic regression."""

    applies: ClassVar[Applies] = {
        "rate": {"solver": ("batch", "stochastic")},
        "decay": {"solver": ("batch", "stochastic")},
    }
    solver: Literal["newton", "batch", "stochastic"] = Field(
        "newton",
        description="Newton-like steps (scikit-learn), gradient descent over all rows, or row by row. With more"
        " than two classes newton is multinomial; the others fit one class against the rest.",
    )
    loss: Literal["likelihood", "squared"] = Field(
        "likelihood", description="Loss to minimise; squared error only with batch or stochastic."
    )
    C: float = Field(1.0, gt=0, description="Inverse strength of the penalty on squared weights.")
    rate: float | None = Field(
        None, gt=0, description="Learning rate of gradient descent; default: a rate that cannot diverge."
    )
    decay: float = Field(0.0, ge=0, description="The rate of step t is rate · decay / (decay + t); 0: constant.")
    max_iter: int = Field(1000, ge=1, le=10_000_000, description="Maximum number of passes over the rows.")


def loss(weights: Any, rows: Any, targets: Any, kind: Literal["likelihood", "squared"] = "likelihood") -> float:
    """Negative log likelihood, or half the squared error, of a logistic unit.

    Parameters
    ----------
    weights
        Shape (columns,).
    rows
        Shape (rows, columns), with a column of ones for the bias if there is one.
    targets
        0 and 1, or probabilities.
    """
    score, y = np.asarray(rows, float) @ np.asarray(weights, float), np.asarray(targets, float)
    if kind == "squared":
        return float(0.5 * np.sum((y - expit(score)) ** 2))
    return float(np.sum(np.logaddexp(0, score) - y * score))


def gradient(weights: Any, rows: Any, targets: Any, kind: Literal["likelihood", "squared"] = "likelihood") -> Array:
    """The gradient of :func:`loss`: minus the sum of error times input, for squared error times h(1 − h)."""
    x = np.asarray(rows, float)
    h = expit(x @ np.asarray(weights, float))
    error = np.asarray(targets, float) - h
    return np.asarray(-(error * (h * (1 - h) if kind == "squared" else 1.0)) @ x)


class GradientLogistic(ClassifierMixin, Estimator, options=Options):
    """Logistic regression trained by gradient descent, one class against the rest if there are more than two.

    Parameters
    ----------
    loss : {"likelihood", "squared"}
    solver : {"batch", "stochastic"}
        A step of ``batch`` is the mean gradient over all rows.
    C : float
        Inverse strength of the penalty on squared weights, as in scikit-learn.
    rate : float or None
        None: four over the largest eigenvalue of X'X / n, or over the largest squared length of a row (stochastic).
    decay : float
        The rate of step t is ``rate * decay / (decay + t)``; constant for ``decay=0``.
    max_iter : int
        Maximum number of passes over the rows.
    tol : float
        Stop when the mean gradient is smaller (batch).
    random_state : int or None

    Attributes
    ----------
    coef_, intercept_ : ndarray
        Shapes (n_units, n_features) and (n_units,).
    losses_ : list of ndarray
        For each unit the mean loss after each pass: the training curve.
    converged_ : bool
        Whether the mean gradient is below 1e-4 (stochastic: 1e-3) of a single row's gradient.
    """

    def __init__(
        self,
        loss: str = "likelihood",
        solver: str = "batch",
        C: float = 1.0,
        rate: float | None = None,
        decay: float = 0.0,
        max_iter: int = 1000,
        tol: NonNegative = 1e-8,
        random_state: Any = None,
    ) -> None:
        self.loss, self.solver, self.C, self.rate, self.decay = loss, solver, C, rate, decay
        self.max_iter, self.tol, self.random_state = max_iter, tol, random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Run gradient descent from zero weights."""
        X, y = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr")
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"Logistic regression needs two classes; there is one class, {self.classes_[0]!r}")
        if self.loss not in ("likelihood", "squared") or self.solver not in ("batch", "stochastic"):
            raise ValueError(f"unknown loss {self.loss!r} or solver {self.solver!r}")
        rows = rows_of(X)
        rng = check_random_state(self.random_state)
        positives = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        units = [self._unit(rows, (y == c).astype(float), weight, rng) for c in positives]
        weights = np.array([w for w, _, _ in units])
        self._weights = weights
        self.intercept_, self.coef_ = weights[:, 0], weights[:, 1:]
        self.losses_ = [curve for _, curve, _ in units]
        self.converged_ = all(end for _, _, end in units)
        self.n_iter_ = np.array([len(curve) for curve in self.losses_])
        text = f"the gradient is not zero after max_iter = {self.max_iter} passes: allow more, or take solver newton"
        if self.solver == "stochastic":
            text = f"the weights still move after max_iter = {self.max_iter} passes: allow more, or give a decay"
        warn_unless(self.converged_, self, text)
        self._steps, self._n = int(self.n_iter_.max()) * rows.shape[0], float(weight.sum())
        self._rate = self._safe(rows, weight)
        return self

    @available_if(lambda self: self.solver == "stochastic")
    @guarded
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Descend over more rows once, from the present weights; the first call starts at zero weights.

        Available for ``solver="stochastic"``. The penalty is that of all rows so far, and the default rate the smallest
        of all parts. ``converged_`` says whether the mean gradient of the last part is small.

        Parameters
        ----------
        X : array or sparse matrix, shape (rows, columns)
        y : array, shape (rows,)
        classes : array, optional
            All classes of all parts; needed in the first call if the first part lacks some.
        sample_weight : array, shape (rows,), optional
        """
        first = not hasattr(self, "classes_")
        X, y = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr", reset=first)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X)
        self.classes_ = classes_of_parts(self, y, classes)
        rows, positives = rows_of(X), self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        if first:
            self._weights, self._steps, self._n = np.zeros((len(positives), rows.shape[1])), 0, 0.0
            self._rate, self.losses_ = np.inf, [np.zeros(0) for _ in positives]
            self.n_iter_ = np.zeros(len(positives), int)
        self._rate, self._n = min(self._rate, self._safe(rows, weight)), self._n + float(weight.sum())
        rng, start, shrink, ends = check_random_state(self.random_state), self._steps, 1 / (self.C * self._n), []
        for u, c in enumerate(positives):
            target, w = (y == c).astype(float), self._weights[u]
            self._steps = self._descend(rows, target, weight, rng, w, self._rate, start, shrink)
            self.losses_[u] = np.append(self.losses_[u], self._loss(rows, target, weight, w, shrink, self._rate))
            ends.append(settled(self._slope(rows, target, weight, w, shrink), rows, weight, 1.0, True))
        self.n_iter_, self.converged_ = self.n_iter_ + 1, all(ends)
        self.intercept_, self.coef_ = self._weights[:, 0].copy(), self._weights[:, 1:].copy()
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _safe(self, rows: Rows, weight: Array) -> float:
        """The given rate, or the largest at which descent cannot diverge."""
        return float(self.rate or 4 * safe_rate(rows, weight, self.solver))

    def _descend(
        self, rows: Rows, target: Array, weight: Array, rng: Any, w: Array, rate: float, steps: int, shrink: float
    ) -> int:
        """A pass over the rows in random order, which changes the weights in place; the number of steps so far."""
        code = LIKELIHOOD if self.loss == "likelihood" else SQUARED
        order = rng.permutation(rows.shape[0])
        return rows.descend(target, weight, order, w, code, rate, float(self.decay), steps, shrink)

    def _slope(self, rows: Rows, target: Array, weight: Array, w: Array, shrink: float) -> Array:
        """The mean gradient of the log likelihood, or of minus half the squared error, with the penalty."""
        h = expit(rows.scores(w))
        error = weight * (target - h) * (h * (1 - h) if self.loss == "squared" else 1.0)
        return rows.pulled(error) / weight.sum() - shrink * np.concatenate([[0.0], w[1:]])

    def _loss(self, rows: Rows, target: Array, weight: Array, w: Array, shrink: float, rate: float) -> float:
        """The mean loss with the penalty; refused if it is not finite."""
        score = rows.scores(w)
        squared = self.loss == "squared"
        each = 0.5 * (target - expit(score)) ** 2 if squared else np.logaddexp(0, score) - target * score
        out = float(weight @ each / weight.sum() + 0.5 * shrink * (w[1:] @ w[1:]))
        if not np.isfinite(out):
            raise ValueError(f"Gradient descent diverges with rate {rate:g}: take a smaller one")
        return out

    def _unit(self, rows: Rows, target: Array, weight: Array, rng: Any) -> tuple[Array, Array, bool]:
        w, shrink = np.zeros(rows.shape[1]), 1.0 / (self.C * weight.sum())
        curve, steps, rate = [], 0, self._safe(rows, weight)
        for _ in range(self.max_iter):
            slope = None
            if self.solver == "stochastic":
                steps = self._descend(rows, target, weight, rng, w, rate, steps, shrink)
            else:
                slope = self._slope(rows, target, weight, w, shrink)
                step = rate * self.decay / (self.decay + steps) if self.decay > 0 else rate
                w, steps = w + step * slope, steps + 1
            curve.append(self._loss(rows, target, weight, w, shrink, rate))
            if slope is not None and np.abs(slope).max() < self.tol:
                break
        left = self._slope(rows, target, weight, w, shrink)
        return w, np.array(curve), settled(left, rows, weight, 1.0, self.solver == "stochastic")

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds, shape (rows,) for two classes, else (rows, classes)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, accept_sparse="csr")
        scores = X @ self.coef_.T + self.intercept_
        return np.asarray(scores[:, 0] if len(self.classes_) == 2 else scores)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities; with several units their outputs are normalised to sum to one."""
        p = expit(self.decision_function(X))
        if len(self.classes_) == 2:
            return np.column_stack([1 - p, p])
        return np.asarray(p / np.maximum(p.sum(axis=1, keepdims=True), 1e-300))

    def predict(self, X: Any) -> np.ndarray:
        """The class with the largest output; on the boundary the second of two."""
        scores = self.decision_function(X)
        at = (scores >= 0).astype(int) if len(self.classes_) == 2 else scores.argmax(axis=1)
        return np.asarray(self.classes_[at])


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """scikit-learn's solver, or gradient descent."""
    if options.solver == "newton":
        if options.loss != "likelihood":
            raise ValueError("squared error is descended by solver batch or stochastic")
        return LogisticRegression(C=options.C, max_iter=options.max_iter)
    return GradientLogistic(**options.model_dump())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Weights of the standardised columns."""
    if len(estimator.coef_) == 1:
        return {"intercept": ((), estimator.intercept_[0]), "weight": (("column",), estimator.coef_[0])}
    return {"intercept": (("class",), estimator.intercept_), "weight": (("class", "column"), estimator.coef_)}


def curves(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Mean loss after each pass of gradient descent."""
    return by_pass("loss", getattr(estimator, "losses_", []))


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [GradientLogistic(), GradientLogistic(loss="squared", solver="stochastic", max_iter=100)]
