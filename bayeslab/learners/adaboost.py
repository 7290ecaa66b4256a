r"""Learner ``adaboost``: weak learners one after the other, each on rows weighted by what the ones before got wrong.

After a round with the weighted error :math:`\epsilon` the weights of rows that were right are multiplied by
:math:`\epsilon/(1-\epsilon)`, all are normalised, and the learner gets the vote :math:`z = \log((1-\epsilon)/\epsilon)`
[1]_ (a printed pseudo-code that has :math:`\log(1-\epsilon)/\epsilon` is a misprint). The weak learner here is a
single test, or any other learner; one that takes no weights sees rows drawn by weight (``resample``). Boosting goes on
lowering the error on other rows after its own is zero because margins still grow [2]_.

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
        100, ge=1, le=MANY, description="Rounds; fewer when a learner is perfect or no better than chance."
    )
    weak: Literal["stump", "naive_bayes", "tree"] = Field("stump", description="The learner of a round.")
    estimator: Member | None = Field(
        None, description="Any other learner of a round: {learner: WORD, ...its options}; takes the place of weak."
    )
    max_depth: int = Field(2, ge=1, le=10**9, description="Depth of weak: tree.")
    resample: bool = Field(False, description="Rows drawn by weight in place of weighted rows.")


class Stump(ClassifierMixin, Estimator, options=Options):
    """A single test: the column, and the cut or the branches, with the least weighted error.

    Parameters
    ----------
    categorical : tuple of int
        Columns of codes 0, 1, ..., with a branch for every value.

    Attributes
    ----------
    column_ : int
    cut_ : float
        Of a number column: up to it the first branch, above the second.
    says_ : ndarray of int
        The class of each branch, by position.
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
        """The class of the branch; values that training rows did not have go with the first."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(self.classes_[branch(X, self.column_, self.cut_, self.says_, self._n_values)])


def sorted_columns(X: Array, categorical: tuple[int, ...]) -> tuple[Array, NDArray[np.int32], NDArray[np.int64]]:
    """Columns one after the other, the order that sorts each, and the number of values of codes (else 0)."""
    table = np.ascontiguousarray(X.T)
    order = np.argsort(table, axis=1, kind="stable").astype(np.int32)
    n_values = np.zeros(len(table), np.int64)
    for j in categorical:
        if np.any(table[j] < 0) or np.any(table[j] != np.floor(table[j])):
            raise ValueError(f"column {j} is one of codes 0, 1, ...")
        n_values[j] = int(table[j].max()) + 1
    return table, order, n_values


def branch(X: Array, column: int, cut: float, says: NDArray[np.int64], n_values: NDArray[np.int64]) -> Any:
    """Positions of the classes that a stump says."""
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
        Draw rows by weight in place of weighting them; always with learners that take no weights.
    random_state : int or None

    Attributes
    ----------
    votes_ : ndarray
        z of each round.
    errors_ : ndarray
        Weighted error of each round.
    estimators_ : list
        Learners of the rounds; of stumps (column, cut, classes of branches).
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
        """Boost; ends early when a learner is right on all weight, or not on half of it."""
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
        """Votes of each class after each round, shape (rows, classes); the same array, changed."""
        X = self._checked(X)
        total, at = np.zeros((len(X), len(self.classes_))), np.arange(len(X))
        for made, z in zip(self.estimators_, self.votes_, strict=True):
            total[at, self._predicted(made, X)] += z
            yield total

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """The class of each row after each round."""
        for total in self.staged_votes(X):
            yield self.classes_[total.argmax(axis=1)]

    def decision_function(self, X: Any) -> np.ndarray:
        """Votes over their sum: of two classes those of the second less those of the first, else one column a class."""
        *_, total = self.staged_votes(X)
        share = total / self.votes_.sum()
        return np.asarray(share[:, 1] - share[:, 0] if len(self.classes_) == 2 else share)

    def predict(self, X: Any) -> np.ndarray:
        """The class with most votes."""
        *_, total = self.staged_votes(X)
        return np.asarray(self.classes_[total.argmax(axis=1)])

    def staged_margins(self, X: Any, y: Any) -> Iterator[Array]:
        """Share of votes for the true class less that for the best other, in [-1, 1], after each round."""
        at = np.searchsorted(self.classes_, np.asarray(y))
        rows = np.arange(len(at))
        for total, votes in zip(self.staged_votes(X), np.cumsum(self.votes_), strict=True):
            share = total / votes
            true_share = share[rows, at]
            share[rows, at] = -np.inf
            yield true_share - share.max(axis=1)

    def margins(self, X: Any, y: Any) -> Array:
        """Share of votes for the true class less that for the best other, in [-1, 1]."""
        *_, last = self.staged_margins(X, y)
        return last


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """AdaBoost over the weak learner asked for."""
    weak: Any = None
    if options.estimator is not None:
        weak = built(options.estimator, task, categorical)
    elif options.weak == "naive_bayes":
        weak = GaussianNB()
    elif options.weak == "tree":
        # Trees of scikit-learn read single precision, and take values within 1e-7 for equal: not in any unit.
        weak = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=options.max_depth))
    return AdaBoost(weak, options.n_estimators, categorical, options.resample)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Rounds, and the weighted errors of the first and the last."""
    return {
        "rounds": ((), np.array(float(len(estimator.votes_)))),
        "first_error": ((), np.array(estimator.errors_[0])),
        "last_error": ((), np.array(estimator.errors_[-1])),
    }


def curves(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Weighted error of the learner of each round."""
    return {"weighted_error": (("round",), estimator.errors_)}


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks."""
    return [AdaBoost(n_estimators=20), Stump()]
