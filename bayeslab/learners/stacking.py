r"""Learner ``stacking``: a combining learner whose inputs are the members' out-of-fold predictions.

The combiner [1]_ is linear (least squares, or logistic regression), linear with non-negative weights that sum to one
(``constrained``) [2]_, or a tree, which uses only some of the members [3]_. Unlike in voting, the weights of the linear
combiner may be negative and need not sum to one, and there is an intercept.

The constrained problem is solved exactly. On the simplex :math:`y - Fw = (y1^T - F)w = Dw`. The minimiser of
:math:`\|Dw\|^2 + (1^T w - 1)^2` over :math:`w \ge 0`, divided by its sum, minimises :math:`\|Dw\|^2` on the simplex,
because along a ray :math:`s u` the minimum over s is :math:`a/(1+a)` with :math:`a = \|Du\|^2`.

References
----------
.. [1] Wolpert (1992). Stacked generalization. Neural Networks 5, 241-259.
.. [2] Breiman (1996). Stacked regressions. Machine Learning 24, 49-64.
.. [3] Džeroski, Ženko (2004). Is combining classifiers with stacking better than selecting the best one?
   Machine Learning 54, 255-273.
.. [4] Lawson, Hanson (1974). Solving least squares problems. Prentice-Hall, ch. 23.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.optimize import nnls
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from bayeslab.learners.toolbox.estimator import Applies
from bayeslab.learners.toolbox.members import (
    Ensemble,
    EnsembleClassifier,
    EnsembleRegressor,
    MemberOptions,
    built_all,
    seeded,
)

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "StackedClassifier",
    "StackedRegressor",
    "build",
    "examples",
    "reported",
    "simplex_weights",
]

Array = NDArray[np.float64]
Combiner = Literal["linear", "constrained", "tree"]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = False


class Options(MemberOptions):
    """Options of stacking."""

    applies: ClassVar[Applies] = {
        "max_depth": {"combiner": ("tree",)},
    }
    combiner: Combiner = Field("constrained", description="Learner trained on the members' out-of-fold predictions.")
    max_depth: int = Field(3, ge=1, le=10**9, description="Maximum depth of combiner: tree.")


def simplex_weights(outputs: Any, y: Any, sample_weight: Any = None) -> Array:
    """Non-negative weights summing to 1 that minimise the squared error.

    Parameters
    ----------
    outputs : array, shape (members, rows)
    y : array, shape (rows,)
    sample_weight : array or None, shape (rows,)

    Returns
    -------
    ndarray, shape (members,)
    """
    gaps = np.asarray(y, float)[:, None] - np.asarray(outputs, float).T
    if sample_weight is not None:
        gaps = gaps * np.sqrt(np.asarray(sample_weight, float) / np.mean(sample_weight))[:, None]
    size = np.sqrt(np.mean(gaps**2)) or 1.0
    rows = np.vstack([gaps / (size * np.sqrt(len(gaps))), np.ones(gaps.shape[1])])
    target = np.zeros(len(rows))
    target[-1] = 1.0
    weights, _ = nnls(rows, target)
    return np.asarray(weights / weights.sum())


class _Stacked(Ensemble, options=Options):
    """Members, their out-of-fold predictions, and the combiner."""

    classes_: np.ndarray
    combiner_: Any
    weights_: Array

    def __init__(
        self,
        estimators: Any = None,
        combiner: Any = "constrained",
        max_depth: int = 3,
        cv: int = 5,
        random_state: Any = None,
    ) -> None:
        self.estimators, self.combiner, self.max_depth = estimators, combiner, max_depth
        self.cv, self.random_state = cv, random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train members in folds, then the combiner, then the members on all rows."""
        X, target, weights = self._weighted_rows(X, y, sample_weight)
        rng = self._rng()
        self.left_out_ = self._left_out(X, target, rng, weights)
        self._train(self._members(), X, target, rng, weights)
        self.combiner_ = None
        if self.combiner == "constrained":
            self.weights_ = self._constrained(target, weights)
            return self
        made = seeded(self._combiner(), rng)
        rows = self._inputs(self.left_out_)
        self.combiner_ = made.fit(rows, target) if weights is None else made.fit(rows, target, sample_weight=weights)
        return self

    def _constrained(self, target: Any, weights: Array | None) -> Array:
        raise NotImplementedError

    def _combiner(self) -> Any:
        raise NotImplementedError

    def _inputs(self, given: Array) -> Array:
        """Inputs of the combiner, shape (rows, columns)."""
        raise NotImplementedError


class StackedClassifier(EnsembleClassifier, _Stacked):
    """Classifiers, combined by a learner trained on their out-of-fold probabilities.

    Parameters
    ----------
    estimators : list of estimators or None
        Members; None: a tree, naive Bayes and nearest neighbours.
    combiner : {"linear", "constrained", "tree"} or estimator
        ``constrained``: one weight per member, minimising the Brier score.
    max_depth : int
        Maximum depth of the tree.
    cv : int
    random_state : int or None

    Attributes
    ----------
    estimators_ : list
        Members trained on all rows.
    left_out_ : ndarray, shape (members, rows, classes)
        Out-of-fold probabilities on which the combiner was trained.
    combiner_ : estimator
        None if ``constrained``.
    weights_ : ndarray
        Weights of the members; only if ``constrained``.
    """

    def _constrained(self, target: Any, weights: Array | None) -> Array:
        each = None if weights is None else np.repeat(weights, self._n_classes)
        return simplex_weights(
            self.left_out_.reshape(len(self.left_out_), -1), np.eye(self._n_classes)[target].ravel(), each
        )

    def _combiner(self) -> Any:
        if self.combiner == "linear":
            return LogisticRegression(max_iter=1000)
        return DecisionTreeClassifier(max_depth=self.max_depth) if self.combiner == "tree" else self.combiner

    def _inputs(self, given: Array) -> Array:
        # The last class is determined by the others.
        return np.moveaxis(given[:, :, :-1], 0, 1).reshape(given.shape[1], -1)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities by the combiner."""
        given = self._outputs(self._new(X))
        if self.combiner_ is None:
            return np.asarray(np.tensordot(self.weights_, given, axes=1))
        return np.asarray(self.combiner_.predict_proba(self._inputs(given)))


class StackedRegressor(EnsembleRegressor, _Stacked):
    """Regressions, combined by a learner trained on their out-of-fold predictions.

    Parameters
    ----------
    estimators : list of estimators or None
        Members; None: a linear one, a tree and the nearest neighbour.
    combiner, max_depth, cv, random_state
        As in :class:`StackedClassifier`.

    Attributes
    ----------
    estimators_, combiner_, weights_
        As in :class:`StackedClassifier`.
    left_out_ : ndarray, shape (members, rows)
    """

    def _constrained(self, target: Any, weights: Array | None) -> Array:
        return simplex_weights(self.left_out_, target, weights)

    def _combiner(self) -> Any:
        if self.combiner == "linear":
            return LinearRegression()
        return DecisionTreeRegressor(max_depth=self.max_depth) if self.combiner == "tree" else self.combiner

    def _inputs(self, given: Array) -> Array:
        return given.T

    def predict(self, X: Any) -> Array:
        """Prediction of the combiner from the members' predictions."""
        given = self._outputs(self._new(X))
        if self.combiner_ is None:
            return np.asarray(self.weights_ @ given)
        return np.asarray(self.combiner_.predict(self._inputs(given)), float)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return the stacked estimator for the task."""
    kind = StackedClassifier if task == "classification" else StackedRegressor
    members = built_all(options.learners, task, categorical)
    return kind(members, options.combiner, options.max_depth, options.cv)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the weights of the members, if each has one."""
    if estimator.combiner_ is None:
        return {"weight": (("member",), estimator.weights_)}
    if isinstance(estimator.combiner_, LinearRegression):
        bias = np.array(estimator.combiner_.intercept_)
        return {"weight": (("member",), estimator.combiner_.coef_), "bias": ((), bias)}
    return {}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [
        StackedClassifier(cv=2),
        StackedClassifier(combiner="tree", cv=2),
        StackedRegressor(cv=2),
        StackedRegressor(combiner="linear", cv=2),
    ]
