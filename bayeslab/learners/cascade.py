r"""Learner ``cascade``: cheap members first; a row goes on to the next only where the one before is not sure.

Stage j answers where its largest probability reaches :math:`\theta_j`, with
:math:`1/K < \theta_j \le \theta_{j+1} < 1`: a row below :math:`\theta_j` could not be answered by a stage that asks for
less. Each stage after the first is trained on rows drawn by how far the one before misses them. Training rows of which
no stage is sure are the exceptions: they are stored, and nearest neighbours among them answer last [1]_. Of regressions
a stage passes a row on where its standard error, estimated from its errors on the nearest rows left out, is above the
threshold.

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
    """Options of a cascade; the members are its stages, in their order."""

    thresholds: list[float] | None = Field(
        None,
        description="One a stage: the least probability, rising; of regressions the largest standard error, falling."
        " Left out: from 0.8 to 0.95; of regressions quantiles of the first stage's.",
    )
    n_neighbors: int = Field(5, ge=1, le=10**9, description="Of the exceptions that answer last.")


class _Stages(Ensemble, options=Options):
    """What cascades of both kinds do."""

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
        """The rows of which no stage is sure."""
        self.exceptions_ = np.flatnonzero(unsure)
        self._tail = None
        if n := len(self.exceptions_):
            kind = KNeighborsClassifier if self._n_classes else KNeighborsRegressor
            self._tail = kind(min(self.n_neighbors, n)).fit(X[self.exceptions_], target[self.exceptions_])

    def _last(self, X: Array) -> Array:
        raise NotImplementedError

    def _answers(self, X: Array, out: Array) -> NDArray[np.int64]:
        """Fill in answers; the stage of each row."""
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
        """Mean cost of an answer, from the cost of each stage and of the neighbours; a row pays all up to its own."""
        stage = self.stages(X)
        total = np.cumsum(costs)
        if len(total) != len(self.estimators_) + 1:
            raise ValueError(f"a cost for each of {len(self.estimators_)} stages and for the neighbours")
        return float(total[stage].mean())

    def stages(self, X: Any) -> NDArray[np.int64]:
        """The stage that answers each row; the last number is the exceptions'."""
        raise NotImplementedError


def harder(loss: Array, rng: Any) -> NDArray[np.int64]:
    """Rows drawn by what they lack, with a little for all so that no class is lost."""
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
        Training rows of which no stage was sure; without any the last stage answers what is left.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Stage by stage, on what the one before misses."""
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
        """Probabilities of rows by stages that were not trained on them."""
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
        """Rows for all folds, and a threshold for each stage."""
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
        """Probabilities by the stage that is sure, or by the exceptions."""
        X = self._new(X)
        out = np.zeros((len(X), len(self.classes_)))
        self._answers(X, out)
        return out

    def stages(self, X: Any) -> NDArray[np.int64]:
        """The stage that answers each row; the last number is the exceptions'."""
        X = self._new(X)
        return self._answers(X, np.zeros((len(X), len(self.classes_))))


class CascadeRegressor(EnsembleRegressor, _Stages):
    """A cascade of regressions.

    Parameters
    ----------
    estimators : list of estimators or None
        Stages; None: a linear one, a tree and the nearest neighbour.
    thresholds : sequence of float or None
        Largest standard error with which each stage answers, not rising; None: the third quartile, ..., the first
        quartile of the first stage's.
    n_neighbors : int
        Of the exceptions, and of rows whose errors give the standard error (four times as many).
    cv : int
    random_state : int or None

    Attributes
    ----------
    estimators_ : list
    thresholds_ : ndarray
    exceptions_ : ndarray of int
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Stages on all rows; their errors on rows left out."""
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
        """Rows for all folds, and a threshold for each stage."""
        super().suits(n_rows, n_columns, n_classes)
        if self.thresholds is not None:
            self._falling(len(self._members()))

    def _falling(self, n_stages: int) -> Array:
        given = self._one_each(n_stages)
        if np.any(given <= 0) or np.any(np.diff(given) > 0):
            raise ValueError(f"thresholds of standard errors are above 0 and do not rise; given: {given.tolist()}")
        return given

    def standard_errors(self, stage: int, X: Any) -> Array:
        """Root mean squared error of a stage on the nearest training rows, left out when it answered them."""
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
        """The number by the stage that is sure, or by the exceptions."""
        X = self._new(X)
        out = np.zeros(len(X))
        self._answers(X, out)
        return out

    def stages(self, X: Any) -> NDArray[np.int64]:
        """The stage that answers each row; the last number is the exceptions'."""
        X = self._new(X)
        return self._answers(X, np.zeros(len(X)))


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The stages."""
    kind = CascadeClassifier if task == "classification" else CascadeRegressor
    return kind(built_all(options.learners, task), options.thresholds, options.n_neighbors, options.cv)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Thresholds, and the number of exceptions."""
    exceptions = np.array(float(len(estimator.exceptions_)))
    return {"threshold": (("stage",), estimator.thresholds_), "exceptions": ((), exceptions)}


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks."""
    return [CascadeClassifier(cv=2), CascadeRegressor(cv=2)]
