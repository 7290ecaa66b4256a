r"""Learner ``adaboost``: weak learners trained in sequence, each with more weight on the rows misclassified so far.

After a round with the weighted error :math:`\epsilon` the weights of correctly classified rows are multiplied by
:math:`\epsilon/(1-\epsilon)`, all weights are normalised, and the learner gets the vote
:math:`z = \log((1-\epsilon)/\epsilon)` [1]_ (some printed pseudo-code has the misprint
:math:`\log(1-\epsilon)/\epsilon`). The weak learner is a decision stump (a single test) or any other learner; a learner
that takes no row weights is trained on rows resampled by weight (``resample``). Boosting can lower the test error even
after the training error is zero, because the margins still grow [2]_.

References
----------
.. [1] Freund, Schapire (1997). A decision-theoretic generalization of on-line learning and an application to boosting.
   Journal of Computer and System Sciences 55, 119-139 (AdaBoost.M1).
.. [2] Schapire, Freund, Bartlett, Lee (1998). Boosting the margin. Annals of Statistics 26, 1651-1686.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import MANY, Applies, Estimator, LearnerOptions
from bayeslab.learners.toolbox.members import Member, built, drawn, seeded, weight_name
from bayeslab.learners.toolbox.stump_kernels import best_stump

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "AdaBoost",
    "Options",
    "Stump",
    "build",
    "curves",
    "examples",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = False
_WEAK = ("stump", "naive_bayes", "tree")


class Options(LearnerOptions):
    """Options of boosting."""

    applies: ClassVar[Applies] = {
        "weak": {"estimator": (None,)},
        "max_depth": {"weak": ("tree",), "estimator": (None,)},
    }
    n_estimators: int = Field(
        100,
        ge=1,
        le=MANY,
        description="Maximum number of rounds; boosting stops when a learner is perfect or no better than chance.",
    )
    weak: Literal["stump", "naive_bayes", "tree"] = Field("stump", description="Weak learner of each round.")
    estimator: Member | None = Field(
        None, description="Any other weak learner, {learner: WORD, ...its options}; replaces weak."
    )
    max_depth: int = Field(2, ge=1, le=10**9, description="Depth of the trees of weak: tree.")
    resample: bool = Field(False, description="Resample rows by weight instead of weighting them.")


class Stump(ClassifierMixin, Estimator, options=Options):
    """A decision stump: the single test, with its cut or branches, that has the smallest weighted error.

    Parameters
    ----------
    categorical : tuple of int
        Columns of codes 0, 1, ..., with a branch for every value.

    Attributes
    ----------
    column_ : int
    cut_ : float
        For a numeric column: values up to the cut take the first branch, larger values the second.
    says_ : ndarray of int
        Position of the class that each branch predicts.
    """

    def __init__(self, categorical: tuple[int, ...] = ()) -> None:
        self.categorical = categorical

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Try every test."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        self.classes_, codes = np.unique(y, return_inverse=True)
        table, order, n_values = sorted_columns(X, self.categorical)
        self._n_values = n_values
        self.column_, self.cut_, says, _ = best_stump(
            table, order, codes.astype(np.int64), weights, n_values, len(self.classes_)
        )
        self.says_ = says
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of the branch; values absent from the training rows take the first branch."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(self.classes_[branch(X, self.column_, self.cut_, self.says_, self._n_values)])


def sorted_columns(X: Array, categorical: tuple[int, ...]) -> tuple[Array, NDArray[np.int32], NDArray[np.int64]]:
    """Return the columns as rows, the sort order of each, and the number of codes of each (0 for numbers)."""
    table = np.ascontiguousarray(X.T)
    order = np.argsort(table, axis=1, kind="stable").astype(np.int32)
    n_values = np.zeros(len(table), np.int64)
    for j in categorical:
        if np.any(table[j] < 0) or np.any(table[j] != np.floor(table[j])):
            raise ValueError(f"column {j} is one of codes 0, 1, ...")
        n_values[j] = int(table[j].max()) + 1
    return table, order, n_values


def branch(X: Array, column: int, cut: float, says: NDArray[np.int64], n_values: NDArray[np.int64]) -> Any:
    """Return the positions of the classes that a stump predicts."""
    x = X[:, column]
    if n_values[column] == 0:
        return np.where(x <= cut, says[0], says[1])
    at = x.astype(int)
    return says[np.where((at >= 0) & (at < n_values[column]), at, 0)]


class AdaBoost(ClassifierMixin, Estimator, options=Options):
    """AdaBoost.M1 over stumps or any classifier.

    Parameters
    ----------
    estimator : object or None
        The weak learner; None: the best stump.
    n_estimators : int
    categorical : tuple of int
        Columns of codes, for stumps.
    resample : bool
        Resample rows by weight instead of weighting them; always done for learners that take no weights.
    random_state : int or None

    Attributes
    ----------
    votes_ : ndarray
        z of each round.
    errors_ : ndarray
        Weighted error of each round.
    estimators_ : list
        Learner of each round; a stump is stored as (column, cut, classes of its branches).
    """

    def __init__(
        self,
        estimator: Any = None,
        n_estimators: int = 100,
        categorical: tuple[int, ...] = (),
        resample: bool = False,
        random_state: Any = None,
    ) -> None:
        self.estimator, self.n_estimators, self.categorical = estimator, n_estimators, categorical
        self.resample, self.random_state = resample, random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Boost; stop early when a learner has weighted error zero, or at least one half."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"Boosting needs rows of two classes; there is one class, {self.classes_[0]!r}")
        codes = codes.astype(np.int64)
        weights = weights / weights.sum()
        rng = check_random_state(self.random_state)
        plain = self.estimator is None and not self.resample
        columns = sorted_columns(X, self.categorical) if self.estimator is None else None
        self._n_values = columns[2] if columns else np.zeros(X.shape[1], np.int64)
        estimators: list[Any] = []
        votes, errors = [], []
        for _ in range(self.n_estimators):
            if plain:
                assert columns is not None
                column, cut, says, _ = best_stump(*columns[:2], codes, weights, columns[2], len(self.classes_))
                made: Any = (column, cut, says)
                predicted = branch(X, column, cut, says, self._n_values)
            else:
                made = self._learned(X, codes, weights, rng)
                predicted = self._predicted(made, X)
            wrong = predicted != codes
            error = float(weights[wrong].sum())
            if error >= 0.5 - 1e-12:
                if not estimators:
                    estimators, votes, errors = [made], [1.0], [error]
                break
            floored = max(error, 1e-10)
            estimators.append(made)
            errors.append(error)
            votes.append(np.log((1 - floored) / floored))
            if error <= 1e-12:
                break
            weights = np.where(wrong, weights, weights * error / (1 - error))
            weights = weights / weights.sum()
        self.estimators_, self.votes_, self.errors_ = estimators, np.array(votes), np.array(errors)
        self.weights_ = weights
        return self

    def _learned(self, X: Array, codes: Any, weights: Array, rng: Any) -> Any:
        made = seeded(Stump(self.categorical) if self.estimator is None else self.estimator, rng)
        if not self.resample and (name := weight_name(made)):
            return made.fit(X, codes, **{name: weights * len(X)})
        at = drawn(codes, weights, rng)
        return made.fit(X[at], codes[at])

    def _predicted(self, made: Any, X: Array) -> Any:
        if isinstance(made, tuple):
            column, cut, says = made
            return branch(X, column, cut, says, self._n_values)
        return np.asarray(made.predict(X), int)

    def _checked(self, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))

    def staged_votes(self, X: Any) -> Iterator[Array]:
        """Yield the votes for each class after each round, shape (rows, classes); one array, updated in place."""
        X = self._checked(X)
        total, at = np.zeros((len(X), len(self.classes_))), np.arange(len(X))
        for made, z in zip(self.estimators_, self.votes_, strict=True):
            total[at, self._predicted(made, X)] += z
            yield total

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predicted class of each row after each round."""
        for total in self.staged_votes(X):
            yield self.classes_[total.argmax(axis=1)]

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the share of votes: second class minus first for two classes, otherwise one column per class."""
        *_, total = self.staged_votes(X)
        share = total / self.votes_.sum()
        return np.asarray(share[:, 1] - share[:, 0] if len(self.classes_) == 2 else share)

    def predict(self, X: Any) -> np.ndarray:
        """The class with the most votes."""
        *_, total = self.staged_votes(X)
        return np.asarray(self.classes_[total.argmax(axis=1)])

    def staged_margins(self, X: Any, y: Any) -> Iterator[Array]:
        """Yield the margins after each round, as :meth:`margins` defines them."""
        at = np.searchsorted(self.classes_, np.asarray(y))
        rows = np.arange(len(at))
        for total, votes in zip(self.staged_votes(X), np.cumsum(self.votes_), strict=True):
            share = total / votes
            true_share = share[rows, at]
            share[rows, at] = -np.inf
            yield true_share - share.max(axis=1)

    def margins(self, X: Any, y: Any) -> Array:
        """Return the margins: share of votes for the true class minus the largest share of another, in [-1, 1]."""
        *_, last = self.staged_margins(X, y)
        return last


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return AdaBoost over the requested weak learner."""
    weak: Any = None
    if options.estimator is not None:
        weak = built(options.estimator, task, categorical)
    elif options.weak == "naive_bayes":
        weak = GaussianNB()
    elif options.weak == "tree":
        # scikit-learn's trees use single precision and treat values within 1e-7 as equal, so they depend on the unit.
        weak = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=options.max_depth))
    return AdaBoost(weak, options.n_estimators, categorical, options.resample)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of rounds, and the weighted errors of the first and the last."""
    return {
        "rounds": ((), np.array(float(len(estimator.votes_)))),
        "first_error": ((), np.array(estimator.errors_[0])),
        "last_error": ((), np.array(estimator.errors_[-1])),
    }


def curves(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Weighted error of the learner of each round."""
    return {"weighted_error": (("round",), estimator.errors_)}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [AdaBoost(n_estimators=20), Stump()]
