r"""Learner ``stacking``: members' answers for rows that they have not seen are the inputs of a learner that combines.

The combiner [1]_ is linear (least squares, or logistic regression), a linear one whose weights are positive and sum to
one (``constrained``) [2]_, or a tree, which uses only some of the members [3]_. Unlike votes, weights of the linear
combiner may be negative, need not sum to one, and there is a bias.

The constrained problem is solved exactly: on the simplex :math:`y - Fw = (y1^T - F)w = Dw`, and the least
:math:`\|Dw\|^2 + (1^T w - 1)^2` over :math:`w \ge 0`, divided by its sum, is the least :math:`\|Dw\|^2` there, for
along a ray :math:`s u` the least over s is :math:`a/(1+a)` with :math:`a = \|Du\|^2`.

References
----------
.. [1] Wolpert (1992). Stacked generalization. Neural Networks 5, 241-259.
.. [2] Breiman (1996). Stacked regressions. Machine Learning 24, 49-64.
.. [3] Džeroski, Ženko (2004). Is combining classifiers with stacking better than selecting the best one?
   Machine Learning 54, 255-273.
.. [4] Lawson, Hanson (1974). Solving least squares problems. Prentice-Hall, ch. 23.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.optimize import nnls
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from bayeslab.learners._members import (
    EnsembleClassifier,
    EnsembleRegressor,
    Member,
    built_all,
    out_of_fold,
    outputs,
    seeded,
    trained,
)
from bayeslab.spec import Spec

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


class Options(Spec):
    """Options of stacking."""

    learners: list[Member] = Field(
        default_factory=list,
        description="Members: {learner: WORD, ...its options}; left out: a linear one, a tree and a forest.",
    )
    combiner: Combiner = Field("constrained", description="What is trained on their answers.")
    max_depth: int = Field(3, ge=1, description="Depth of combiner: tree.")
    cv: int = Field(5, ge=2, description="Folds in which rows are left out.")


def simplex_weights(outputs: Any, y: Any) -> Array:
    """Weights, none below 0 and with the sum 1, of the least squared error.

    Parameters
    ----------
    outputs : array, shape (members, rows)
    y : array, shape (rows,)

    Returns
    -------
    ndarray, shape (members,)
    """
    gaps = np.asarray(y, float)[:, None] - np.asarray(outputs, float).T
    size = np.sqrt(np.mean(gaps**2)) or 1.0
    rows = np.vstack([gaps / (size * np.sqrt(len(gaps))), np.ones(gaps.shape[1])])
    target = np.zeros(len(rows))
    target[-1] = 1.0
    found, _ = nnls(rows, target)
    return np.asarray(found / found.sum())


class StackedClassifier(EnsembleClassifier):
    """Classifiers, combined by one that is trained on their probabilities out of fold.

    Parameters
    ----------
    estimators : list of estimators or None
        Members; None: a tree, naive Bayes and nearest neighbours.
    combiner : {"linear", "constrained", "tree"} or estimator
        ``constrained``: one weight a member, of the least Brier score.
    max_depth : int
        Of the tree.
    cv : int
    random_state : int or None

    Attributes
    ----------
    estimators_ : list
        Members trained on all rows.
    left_out_ : ndarray, shape (members, rows, classes)
        What the combiner was trained on.
    combiner_ : estimator
        None where it is constrained.
    weights_ : ndarray
        Where it is constrained.
    """

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

    def fit(self, X: Any, y: Any) -> Self:
        """Train members in folds, the combiner, and members on all rows."""
        X, codes = self._rows(X, y)
        rng, members, n_classes = self._rng(), self._members(), len(self.classes_)
        self.left_out_ = out_of_fold(members, X, codes, n_classes, self.cv, rng)
        self.estimators_ = [trained(one, X, codes, rng) for one in members]
        self.combiner_ = None
        if self.combiner == "constrained":
            self.weights_ = simplex_weights(self.left_out_.reshape(len(members), -1), np.eye(n_classes)[codes].ravel())
            return self
        if self.combiner == "linear":
            made: Any = LogisticRegression(max_iter=1000)
        elif self.combiner == "tree":
            made = DecisionTreeClassifier(max_depth=self.max_depth)
        else:
            made = clone(self.combiner)
        self.combiner_ = seeded(made, rng).fit(self._inputs(self.left_out_), codes)
        return self

    @staticmethod
    def _inputs(given: Array) -> Array:
        # The last class follows from the others.
        return np.moveaxis(given[:, :, :-1], 0, 1).reshape(given.shape[1], -1)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities by the combiner."""
        X = self._new(X)
        given = outputs(self.estimators_, X, len(self.classes_))
        if self.combiner_ is None:
            return np.asarray(np.tensordot(self.weights_, given, axes=1))
        return np.asarray(self.combiner_.predict_proba(self._inputs(given)))


class StackedRegressor(EnsembleRegressor):
    """Regressions, combined by one that is trained on their answers out of fold.

    Parameters
    ----------
    estimators : list of estimators or None
        Members; None: a linear one, a tree and the nearest neighbour.
    combiner : {"linear", "constrained", "tree"} or estimator
    max_depth : int
        Of the tree.
    cv : int
    random_state : int or None

    Attributes
    ----------
    estimators_ : list
    left_out_ : ndarray, shape (members, rows)
    combiner_ : estimator
        None where it is constrained.
    weights_ : ndarray
        Where it is constrained.
    """

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

    def fit(self, X: Any, y: Any) -> Self:
        """Train members in folds, the combiner, and members on all rows."""
        X, y = self._rows(X, y)
        rng, members = self._rng(), self._members()
        self.left_out_ = out_of_fold(members, X, y, 0, self.cv, rng)
        self.estimators_ = [trained(one, X, y, rng) for one in members]
        self.combiner_ = None
        if self.combiner == "constrained":
            self.weights_ = simplex_weights(self.left_out_, y)
            return self
        if self.combiner == "linear":
            made: Any = LinearRegression()
        elif self.combiner == "tree":
            made = DecisionTreeRegressor(max_depth=self.max_depth)
        else:
            made = clone(self.combiner)
        self.combiner_ = seeded(made, rng).fit(self.left_out_.T, y)
        return self

    def predict(self, X: Any) -> Array:
        """What the combiner makes of the members' answers."""
        X = self._new(X)
        given = outputs(self.estimators_, X, 0)
        if self.combiner_ is None:
            return np.asarray(self.weights_ @ given)
        return np.asarray(self.combiner_.predict(given.T), float)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The members and what combines them."""
    kind = StackedClassifier if task == "classification" else StackedRegressor
    members = built_all(options.learners, task, categorical)
    return kind(members, options.combiner, options.max_depth, options.cv)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Weights of members, where each has one."""
    if estimator.combiner_ is None:
        return {"weight": (("member",), estimator.weights_)}
    if isinstance(estimator.combiner_, LinearRegression):
        bias = np.array(estimator.combiner_.intercept_)
        return {"weight": (("member",), estimator.combiner_.coef_), "bias": ((), bias)}
    return {}


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks."""
    return [
        StackedClassifier(cv=2),
        StackedClassifier(combiner="tree", cv=2),
        StackedRegressor(cv=2),
        StackedRegressor(combiner="linear", cv=2),
    ]
