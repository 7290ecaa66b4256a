r"""Learner ``boosted_regression``: regressions one after the other, each where the ones before err.

``drucker``: rows are drawn with probabilities that rise with their error over the largest one, and the answer is the
weighted median of all [1]_. ``threshold``: an error above a threshold counts as wrong, as a wrong class does in
AdaBoost [2]_. ``residual``: each learner is trained on what the sum of the ones before leaves [3]_.

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
# Trees of scikit-learn read single precision, and take values within 1e-7 for equal: not in any unit.
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of boosted regression."""

    applies: ClassVar[Applies] = {
        "learning_rate": {"method": ("residual",)},
        "threshold": {"method": ("threshold",)},
        "loss": {"method": ("drucker",)},
    }
    method: Literal["drucker", "threshold", "residual"] = Field("residual", description="What the next one is after.")
    estimator: Member | None = Field(
        None, description="What is trained: {learner: WORD, ...its options}; left out: a tree of depth 3."
    )
    n_estimators: int = Field(100, ge=1, le=MANY, description="Rounds; fewer when nothing is left.")
    learning_rate: float = Field(0.1, gt=0, le=1, description="Of method: residual, the share of each answer added.")
    threshold: float | None = Field(
        None,
        gt=0,
        description="Of method: threshold, an error above it is wrong; left out: third quartile of the first errors.",
    )
    loss: Literal["linear", "square", "exponential"] = Field("linear", description="Of method: drucker.")


class ResidualBoost(EnsembleRegressor, options=Options):
    """Each learner is trained on the residuals of the sum so far, and a share of its answer is added.

    The share is lowered to the best one where the whole would raise the squared error of the training rows.

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
        The share of each answer.
    errors_ : ndarray
        Mean squared error of the training rows before the first and after each learner: never rises.
    """

    def __init__(
        self, estimator: Any = None, n_estimators: int = 100, learning_rate: float = 0.1, random_state: Any = None
    ) -> None:
        self.estimator, self.n_estimators = estimator, n_estimators
        self.learning_rate, self.random_state = learning_rate, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Go on until rounds are over, or a learner finds nothing in the residuals."""
        X, y = self._rows(X, y)
        rng = self._rng()
        one = DecisionTreeRegressor(max_depth=3) if self.estimator is None else self.estimator
        # Trees take differences of squares, and impurities below 1e-16 as none.
        left, self.start_, self._size = levelled(np.asarray(y, float))
        self.estimators_: list[Any] = []
        steps, errors = [], [float(np.mean(left**2))]
        for _ in range(self.n_estimators):
            made = trained(one, X, left, rng)
            predicted = np.asarray(made.predict(X), float)
            size = float(predicted @ predicted)
            # Along the answer the squared error is a parabola: beyond twice its lowest point it rises.
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
        """The sum after each learner."""
        X = self._new(X)
        total = np.zeros(len(X))
        for step, one in zip(self.steps_, self.estimators_, strict=True):
            total = total + step * one.predict(X)
            yield self.start_ + self._size * total

    def predict(self, X: Any) -> Array:
        """The sum of all."""
        X = self._new(X)
        total = np.zeros(len(X))
        for step, one in zip(self.steps_, self.estimators_, strict=True):
            total += step * np.asarray(one.predict(X), float)
        return self.start_ + self._size * total


class ThresholdBoost(EnsembleRegressor, options=Options):
    """AdaBoost whose wrong rows are those with an error above a threshold; rows are drawn by weight.

    Parameters
    ----------
    estimator : estimator or None
        None: a tree of depth 3.
    n_estimators : int
    threshold : float or None
        None: the third quartile of the errors of the first learner, so that it is wrong on a quarter of the rows.
    random_state : int or None

    Attributes
    ----------
    threshold_ : float
    estimators_ : list
    votes_ : ndarray
        log((1 − e)/e) of each.
    weights_ : ndarray
        Of the training rows, after the last round.
    """

    def __init__(
        self, estimator: Any = None, n_estimators: int = 100, threshold: float | None = None, random_state: Any = None
    ) -> None:
        self.estimator, self.n_estimators = estimator, n_estimators
        self.threshold, self.random_state = threshold, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Draw, train, mark, weigh; ends early when a learner is right everywhere."""
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
                # No better than chance by these weights: the round is lost, and weights start again from equal ones.
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
        """The weighted mean of the learners so far, after each."""
        X = self._new(X)
        total = np.zeros(len(X))
        for vote, weight, one in zip(self.votes_, np.cumsum(self.votes_), self.estimators_, strict=True):
            total = total + vote * one.predict(X)
            yield total / weight

    def predict(self, X: Any) -> Array:
        """The mean of all, weighted by their votes."""
        X = self._new(X)
        given = np.array([one.predict(X) for one in self.estimators_], float)
        return np.asarray(self.votes_ @ given / self.votes_.sum())


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The method asked for; Drucker's is scikit-learn's."""
    one = DecisionTreeRegressor(max_depth=3)
    if options.estimator is not None:
        one = built(options.estimator, task, categorical)
    if options.method == "residual":
        return ResidualBoost(one, options.n_estimators, options.learning_rate)
    if options.method == "threshold":
        return ThresholdBoost(one, options.n_estimators, options.threshold)
    return AdaBoostRegressor(one, n_estimators=options.n_estimators, loss=options.loss)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Rounds."""
    return {"rounds": ((), np.array(float(len(estimator.estimators_))))}


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks."""
    return [ResidualBoost(n_estimators=20, learning_rate=0.5), ThresholdBoost(n_estimators=15)]
