r"""Learner ``cascade``: members ordered from cheap to costly; a row is passed on while the current member is unsure.

Stage j classifies a row if its largest probability reaches :math:`\theta_j`; the thresholds do not decrease,
:math:`1/K < \theta_j \le \theta_{j+1} < 1`. Each stage after the first is trained on rows resampled in proportion to
the loss of the stage before. Training rows of which no stage is sure are stored as exceptions, and nearest neighbours
among them decide last [1]_. In regression, a stage passes a row on if its standard error, estimated from its errors on
the nearest held-out rows, is above the threshold.

References
----------
.. [1] Kaynak, Alpaydın (2000). MultiStage cascading of multiple classifiers: one man's noise is another man's data.
   ICML 17, 455-462.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors

from bayeslab.learners.toolbox.members import (
    Ensemble,
    EnsembleClassifier,
    EnsembleRegressor,
    MemberOptions,
    built_all,
    shares,
    splits,
    trained,
)

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "CascadeClassifier",
    "CascadeRegressor",
    "Options",
    "build",
    "examples",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False


class Options(MemberOptions):
    """Options of a cascade; the members are its stages, in order."""

    thresholds: list[float] | None = Field(
        None,
        description="One per stage: smallest probability (not decreasing), or largest standard error (not increasing)."
        " Default: from 0.8 to 0.95; in regression quantiles of the first stage's standard errors.",
    )
    n_neighbors: int = Field(5, ge=1, le=10**9, description="Neighbours among the exceptions, which decide last.")


class _Stages(Ensemble, options=Options):
    """Code that both cascades share."""

    def __init__(
        self,
        estimators: Any = None,
        thresholds: Any = None,
        n_neighbors: int = 5,
        cv: int = 5,
        random_state: Any = None,
    ) -> None:
        self.estimators, self.thresholds, self.n_neighbors = estimators, thresholds, n_neighbors
        self.cv, self.random_state = cv, random_state

    def _sure(self, stage: int, X: Array) -> tuple[Array, Any]:
        raise NotImplementedError

    def _one_each(self, n_stages: int) -> Array:
        given = np.asarray(self.thresholds, float)
        if len(given) != n_stages:
            raise ValueError(f"{len(given)} thresholds for {n_stages} stages: one each")
        return given

    def _store(self, X: Array, target: Any, unsure: NDArray[np.bool_]) -> None:
        """Store the rows of which no stage is sure."""
        self.exceptions_ = np.flatnonzero(unsure)
        self._tail = None
        if n := len(self.exceptions_):
            kind = KNeighborsClassifier if self._n_classes else KNeighborsRegressor
            self._tail = kind(min(self.n_neighbors, n)).fit(X[self.exceptions_], target[self.exceptions_])

    def _last(self, X: Array) -> Array:
        raise NotImplementedError

    def _answers(self, X: Array, out: Array) -> NDArray[np.int64]:
        """Fill ``out`` with the predictions and return the stage of each row."""
        stage = np.full(len(X), len(self.estimators_))
        left = np.arange(len(X))
        for j in range(len(self.estimators_)):
            if not len(left):
                break
            answers, sure = self._sure(j, X[left])
            out[left[sure]] = answers[sure]
            stage[left[sure]] = j
            left = left[~sure]
        if len(left):
            out[left] = self._last(X[left])
        return stage

    def mean_cost(self, X: Any, costs: Sequence[float]) -> float:
        """Return the mean cost of a prediction, from the costs of the stages and of the neighbours, in order.

        A row costs the sum over all stages up to the one that answers it.
        """
        stage = self.stages(X)
        total = np.cumsum(costs)
        if len(total) != len(self.estimators_) + 1:
            raise ValueError(f"a cost for each of {len(self.estimators_)} stages and for the neighbours")
        return float(total[stage].mean())

    def stages(self, X: Any) -> NDArray[np.int64]:
        """Return the stage that answers each row; the last number stands for the exceptions."""
        raise NotImplementedError


def harder(loss: Array, rng: Any) -> NDArray[np.int64]:
    """Return rows resampled in proportion to their loss plus a small constant, so that no class is lost."""
    weights = np.maximum(loss, 0) + 0.05 * max(float(loss.mean()), 1e-12)
    return np.asarray(rng.choice(len(loss), len(loss), p=weights / weights.sum()), np.int64)


class CascadeClassifier(EnsembleClassifier, _Stages):
    """A cascade of classifiers.

    Parameters
    ----------
    estimators : list of estimators or None
        Stages; None: a tree, naive Bayes and nearest neighbours.
    thresholds : sequence of float or None
        1/K < θ₁ ≤ θ₂ ≤ ... < 1; None: from 0.8 to 0.95.
    n_neighbors : int
    cv : int
    random_state : int or None

    Attributes
    ----------
    estimators_ : list
    thresholds_ : ndarray
    exceptions_ : ndarray of int
        Training rows of which no stage was sure; if there are none, the last stage answers all remaining rows.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train stage by stage, each on the rows that the stage before misses."""
        X, codes = self._rows(X, y)
        rng, members, k = self._rng(), self._members(), len(self.classes_)
        self.thresholds_ = self._checked_thresholds(len(members), k)
        loss = None
        left = np.ones(len(X), bool)
        self.estimators_ = []
        for one, least in zip(members, self.thresholds_, strict=True):
            p = self._stage_left_out(one, X, codes, loss, rng)
            at = np.arange(len(X)) if loss is None else harder(loss, rng)
            self.estimators_.append(trained(one, X[at], codes[at], rng))
            left &= p.max(axis=1) < least
            loss = 1 - p[np.arange(len(X)), codes]
        self._store(X, codes, left)
        return self

    def _stage_left_out(self, one: Any, X: Array, codes: Any, loss: Array | None, rng: Any) -> Array:
        """Return out-of-fold probabilities of one stage."""
        out = np.zeros((len(X), len(self.classes_)))
        for inside, outside in splits(codes, self.cv, rng):
            at = inside if loss is None else inside[harder(loss[inside], rng)]
            made = trained(one, X[at], codes[at], rng)
            out[outside] = shares(made, X[outside], len(self.classes_))
        return out

    def _checked_thresholds(self, n_stages: int, n_classes: int) -> Array:
        if self.thresholds is None:
            return np.linspace(max(0.8, 1 / n_classes + 0.1), 0.95, n_stages)
        return self._rising(n_stages, n_classes)

    def suits(self, n_rows: int, n_columns: int, n_classes: int) -> None:
        """Check that there are rows for all folds and one threshold per stage."""
        super().suits(n_rows, n_columns, n_classes)
        if self.thresholds is not None:
            self._rising(len(self._members()), n_classes)

    def _rising(self, n_stages: int, n_classes: int) -> Array:
        given = self._one_each(n_stages)
        if np.any(given <= 1 / n_classes) or np.any(given >= 1) or np.any(np.diff(given) < 0):
            raise ValueError(
                f"thresholds rise, from above 1/{n_classes} (no guess is surer) to below 1 (a stage that asks for less"
                f" than one before it would answer nothing more); given: {given.tolist()}"
            )
        return given

    def _sure(self, stage: int, X: Array) -> tuple[Array, Any]:
        p = shares(self.estimators_[stage], X, len(self.classes_))
        last = self._tail is None and stage == len(self.estimators_) - 1
        return p, (p.max(axis=1) >= self.thresholds_[stage]) | last

    def _last(self, X: Array) -> Array:
        return shares(self._tail, X, len(self.classes_))

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities from the first stage that is sure, or from the exceptions."""
        X = self._new(X)
        out = np.zeros((len(X), len(self.classes_)))
        self._answers(X, out)
        return out

    def stages(self, X: Any) -> NDArray[np.int64]:
        """Return the stage that answers each row; the last number stands for the exceptions."""
        X = self._new(X)
        return self._answers(X, np.zeros((len(X), len(self.classes_))))


class CascadeRegressor(EnsembleRegressor, _Stages):
    """A cascade of regressions.

    Parameters
    ----------
    estimators : list of estimators or None
        Stages; None: a linear one, a tree and the nearest neighbour.
    thresholds : sequence of float or None
        Largest standard error at which each stage answers, not increasing; None: the third quartile, ..., the first
        quartile of the first stage's standard errors.
    n_neighbors : int
        Neighbours among the exceptions; four times as many neighbours give the standard error.
    cv : int
    random_state : int or None

    Attributes
    ----------
    estimators_ : list
    thresholds_ : ndarray
    exceptions_ : ndarray of int
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train the stages on all rows and store their errors on held-out rows."""
        X, y = self._rows(X, y)
        rng = self._rng()
        self._squares = (self._left_out(X, y, rng) - y) ** 2
        self._near = NearestNeighbors(n_neighbors=min(4 * self.n_neighbors, len(X))).fit(X)
        errors = np.sqrt(self._squares[:, self._near.kneighbors(X, return_distance=False)].mean(axis=2))
        self.thresholds_ = self._checked_thresholds(errors)
        self._train(self._members(), X, y, rng)
        self._store(X, y, (errors > self.thresholds_[:, None]).all(axis=0))
        return self

    def _checked_thresholds(self, errors: Array) -> Array:
        if self.thresholds is None:
            return np.quantile(errors[0], np.linspace(0.75, 0.25, len(errors)))
        return self._falling(len(errors))

    def suits(self, n_rows: int, n_columns: int, n_classes: int) -> None:
        """Check that there are rows for all folds and one threshold per stage."""
        super().suits(n_rows, n_columns, n_classes)
        if self.thresholds is not None:
            self._falling(len(self._members()))

    def _falling(self, n_stages: int) -> Array:
        given = self._one_each(n_stages)
        if np.any(given <= 0) or np.any(np.diff(given) > 0):
            raise ValueError(f"thresholds of standard errors are above 0 and do not rise; given: {given.tolist()}")
        return given

    def standard_errors(self, stage: int, X: Any) -> Array:
        """Return the root mean squared out-of-fold error of a stage on the nearest training rows."""
        at = self._near.kneighbors(self._new(X), return_distance=False)
        return np.asarray(np.sqrt(self._squares[stage][at].mean(axis=1)))

    def _sure(self, stage: int, X: Array) -> tuple[Array, Any]:
        answers = np.asarray(self.estimators_[stage].predict(X), float)
        last = self._tail is None and stage == len(self.estimators_) - 1
        return answers, (self.standard_errors(stage, X) <= self.thresholds_[stage]) | last

    def _last(self, X: Array) -> Array:
        assert self._tail is not None
        return np.asarray(self._tail.predict(X), float)

    def predict(self, X: Any) -> Array:
        """Return the prediction of the first stage that is sure, or of the exceptions."""
        X = self._new(X)
        out = np.zeros(len(X))
        self._answers(X, out)
        return out

    def stages(self, X: Any) -> NDArray[np.int64]:
        """Return the stage that answers each row; the last number stands for the exceptions."""
        X = self._new(X)
        return self._answers(X, np.zeros(len(X)))


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return the cascade for the task."""
    kind = CascadeClassifier if task == "classification" else CascadeRegressor
    return kind(built_all(options.learners, task), options.thresholds, options.n_neighbors, options.cv)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the thresholds and the number of exceptions."""
    exceptions = np.array(float(len(estimator.exceptions_)))
    return {"threshold": (("stage",), estimator.thresholds_), "exceptions": ((), exceptions)}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [CascadeClassifier(cv=2), CascadeRegressor(cv=2)]
