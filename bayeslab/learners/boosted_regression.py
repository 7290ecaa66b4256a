r"""Learner ``boosted_regression``: regressions trained in sequence, each on the errors of the ones before.

``drucker``: rows are drawn with probabilities that increase with their error relative to the largest error, and the
prediction is the weighted median of all learners [1]_. ``threshold``: a row with an error above a threshold counts as
wrong, as a misclassified row does in AdaBoost [2]_. ``residual``: each learner is trained on the residuals of the sum
of the learners before it [3]_.

References
----------
.. [1] Drucker (1997). Improving regressors using boosting techniques. ICML 14, 107-115.
.. [2] Solomatine, Shrestha (2004). AdaBoost.RT: a boosting algorithm for regression problems. IJCNN, 1163-1168.
.. [3] Friedman (2001). Greedy function approximation: a gradient boosting machine. Annals of Statistics 29, 1189-1232.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator
from sklearn.ensemble import AdaBoostRegressor
from sklearn.tree import DecisionTreeRegressor

from bayeslab.digits import levelled
from bayeslab.learners.toolbox.estimator import MANY, Applies, LearnerOptions
from bayeslab.learners.toolbox.members import EnsembleRegressor, Member, built, seeded, trained

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "ResidualBoost",
    "ThresholdBoost",
    "build",
    "examples",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("regression",)
CATEGORIES: Literal["codes", "indicators"] = "codes"
# scikit-learn's trees use single precision and treat values within 1e-7 as equal, so they depend on the unit.
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of boosted regression."""

    applies: ClassVar[Applies] = {
        "learning_rate": {"method": ("residual",)},
        "threshold": {"method": ("threshold",)},
        "loss": {"method": ("drucker",)},
    }
    method: Literal["drucker", "threshold", "residual"] = Field(
        "residual", description="How a round uses the errors so far."
    )
    estimator: Member | None = Field(
        None, description="Base learner, {learner: WORD, ...its options}; default: a tree of depth 3."
    )
    n_estimators: int = Field(100, ge=1, le=MANY, description="Maximum number of rounds; fewer when no error is left.")
    learning_rate: float = Field(0.1, gt=0, le=1, description="method: residual: share of each prediction added.")
    threshold: float | None = Field(
        None,
        gt=0,
        description="method: threshold: larger errors are wrong; default: third quartile of the first errors.",
    )
    loss: Literal["linear", "square", "exponential"] = Field("linear", description="Of method: drucker.")


class ResidualBoost(EnsembleRegressor, options=Options):
    """Gradient boosting for squared error: each learner is trained on the residuals of the sum so far.

    A share of its prediction is added; if that would raise the training error, the optimal share is added instead.

    Parameters
    ----------
    estimator : estimator or None
        None: a tree of depth 3.
    n_estimators : int
    learning_rate : float
    random_state : int or None

    Attributes
    ----------
    start_ : float
        The mean of the outcomes.
    estimators_ : list
    steps_ : ndarray
        Share of each learner's prediction that was added.
    errors_ : ndarray
        Training mean squared error before the first learner and after each learner; it never increases.
    """

    def __init__(
        self, estimator: Any = None, n_estimators: int = 100, learning_rate: float = 0.1, random_state: Any = None
    ) -> None:
        self.estimator, self.n_estimators = estimator, n_estimators
        self.learning_rate, self.random_state = learning_rate, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Boost until all rounds are used, or a learner no longer lowers the error."""
        X, y = self._rows(X, y)
        rng = self._rng()
        one = DecisionTreeRegressor(max_depth=3) if self.estimator is None else self.estimator
        # Trees compute differences of squares and treat impurities below 1e-16 as zero.
        left, self.start_, self._size = levelled(np.asarray(y, float))
        self.estimators_: list[Any] = []
        steps, errors = [], [float(np.mean(left**2))]
        for _ in range(self.n_estimators):
            made = trained(one, X, left, rng)
            predicted = np.asarray(made.predict(X), float)
            size = float(predicted @ predicted)
            # The squared error is a parabola in the step: beyond twice the minimiser it exceeds its start.
            best = float(predicted @ left) / size if size > 0 else 0.0
            if best <= 1e-12:
                break
            step = min(self.learning_rate, best)
            left = left - step * predicted
            self.estimators_.append(made)
            steps.append(step)
            errors.append(float(np.mean(left**2)))
        self.steps_, self.errors_ = np.array(steps), self._size**2 * np.array(errors)
        return self

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Yield the sum after each learner."""
        X = self._new(X)
        total = np.zeros(len(X))
        for step, one in zip(self.steps_, self.estimators_, strict=True):
            total = total + step * one.predict(X)
            yield self.start_ + self._size * total

    def predict(self, X: Any) -> Array:
        """Return the sum over all learners."""
        X = self._new(X)
        total = np.zeros(len(X))
        for step, one in zip(self.steps_, self.estimators_, strict=True):
            total += step * np.asarray(one.predict(X), float)
        return self.start_ + self._size * total


class ThresholdBoost(EnsembleRegressor, options=Options):
    """AdaBoost.RT: rows with an error above a threshold count as wrong; rows are drawn by weight.

    Parameters
    ----------
    estimator : estimator or None
        None: a tree of depth 3.
    n_estimators : int
    threshold : float or None
        None: the third quartile of the first learner's errors, so that it is wrong on a quarter of the rows.
    random_state : int or None

    Attributes
    ----------
    threshold_ : float
    estimators_ : list
    votes_ : ndarray
        log((1 − e)/e) for the weighted error e of each learner.
    weights_ : ndarray
        Weights of the training rows after the last round.
    """

    def __init__(
        self, estimator: Any = None, n_estimators: int = 100, threshold: float | None = None, random_state: Any = None
    ) -> None:
        self.estimator, self.n_estimators = estimator, n_estimators
        self.threshold, self.random_state = threshold, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Boost; stop early when a learner is right on all rows."""
        X, y = self._rows(X, y)
        rng = self._rng()
        one = DecisionTreeRegressor(max_depth=3) if self.estimator is None else self.estimator
        weights = np.full(len(y), 1 / len(y))
        self.threshold_ = self.threshold
        self.estimators_: list[Any] = []
        votes = []
        for _ in range(self.n_estimators):
            at = rng.choice(len(y), len(y), p=weights)
            made = seeded(one, rng).fit(X[at], y[at])
            gap = np.abs(np.asarray(made.predict(X), float) - y)
            if self.threshold_ is None:
                self.threshold_ = float(np.quantile(gap, 0.75))
            wrong = gap > self.threshold_
            error = float(weights[wrong].sum())
            if error >= 0.5 and self.estimators_:
                # No better than chance under these weights: discard the round and restart from equal weights.
                weights = np.full(len(y), 1 / len(y))
                continue
            error = min(max(error, 1e-10), 0.5 - 1e-3)
            self.estimators_.append(made)
            votes.append(np.log((1 - error) / error))
            if not wrong.any():
                break
            weights = np.where(wrong, weights, weights * error / (1 - error))
            weights = weights / weights.sum()
        self.votes_, self.weights_ = np.array(votes), weights
        return self

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Yield the weighted mean of the learners so far, after each round."""
        X = self._new(X)
        total = np.zeros(len(X))
        for vote, weight, one in zip(self.votes_, np.cumsum(self.votes_), self.estimators_, strict=True):
            total = total + vote * one.predict(X)
            yield total / weight

    def predict(self, X: Any) -> Array:
        """Return the mean of all learners, weighted by their votes."""
        X = self._new(X)
        given = np.array([one.predict(X) for one in self.estimators_], float)
        return np.asarray(self.votes_ @ given / self.votes_.sum())


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return the requested method; Drucker's is scikit-learn's."""
    one = DecisionTreeRegressor(max_depth=3)
    if options.estimator is not None:
        one = built(options.estimator, task, categorical)
    if options.method == "residual":
        return ResidualBoost(one, options.n_estimators, options.learning_rate)
    if options.method == "threshold":
        return ThresholdBoost(one, options.n_estimators, options.threshold)
    return AdaBoostRegressor(one, n_estimators=options.n_estimators, loss=options.loss)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of rounds."""
    return {"rounds": ((), np.array(float(len(estimator.estimators_))))}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [ResidualBoost(n_estimators=20, learning_rate=0.5), ThresholdBoost(n_estimators=15)]
