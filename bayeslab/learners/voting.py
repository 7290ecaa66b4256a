r"""Learner ``voting``: several learners trained on the same rows, their outputs combined by a fixed rule.

The outputs :math:`d_{ji}` of learner j for class i are combined by their sum (mean), weighted sum, median, minimum,
maximum or product, or by plurality of the predicted classes [1]_. Weights are given or derived from the accuracy on
held-out rows (``weighted``), or they are posterior probabilities of the learners, which is Bayesian model averaging
(``bayesian``): :math:`P(M_j \mid D) \propto \prod_n P(y_n \mid x_n, M_j)`, computed on held-out rows in place of a
marginal likelihood. Numbers are combined by the same rules except product and plurality.

References
----------
.. [1] Kittler, Hatef, Duin, Matas (1998). On combining classifiers. IEEE PAMI 20, 226-239.
.. [2] Hansen, Salamon (1990). Neural network ensembles. IEEE PAMI 12, 993-1001 (more voters err less).
.. [3] Yao, Vehtari, Simpson, Gelman (2018). Using stacking to average Bayesian predictive distributions. Bayesian
   Analysis 13, 917-1007 (posterior weights from rows left out).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import special, stats
from sklearn.base import BaseEstimator

from bayeslab.arrays import count, number, real
from bayeslab.errors import OptionError, hint
from bayeslab.learners.toolbox.estimator import Applies, NonNegative
from bayeslab.learners.toolbox.members import EnsembleClassifier, EnsembleRegressor, MemberOptions, built_all, outputs

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "VotingClassifier",
    "VotingRegressor",
    "build",
    "combined",
    "examples",
    "majority_error",
    "posterior_weights",
    "reported",
    "variance_of_mean",
]

Array = NDArray[np.float64]
Rule = Literal["sum", "weighted", "bayesian", "median", "min", "max", "product", "plurality"]

_RULES = get_args(Rule)

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = False


class Options(MemberOptions):
    """Options of voting."""

    applies: ClassVar[Applies] = {
        "weights": {"rule": ("weighted", "bayesian")},
        "normalise": {"task": ("classification",)},
    }
    rule: Rule = Field("sum", description="Rule by which the outputs are combined.")
    weights: list[NonNegative] | None = Field(
        None, description="Weights of rule: weighted; default: from out-of-fold accuracy."
    )
    normalise: bool = Field(
        False, description="Combine standardised raw scores of classifiers instead of probabilities."
    )


def majority_error(n_voters: int, error: float) -> float:
    """Probability that more than half of the independent voters are wrong.

    Parameters
    ----------
    n_voters : int
        An odd number.
    error : float
        Probability that one voter is wrong.
    """
    if count(n_voters, "n_voters", 1) % 2 == 0:
        raise OptionError(f"a majority has an odd number of voters; given: {n_voters}", code="out-of-range")
    number(error, "error", 0, 1)
    return float(stats.binom.sf(n_voters // 2, n_voters, error))


def variance_of_mean(covariance: Any) -> float:
    """Variance of the mean of L outputs: the sum of their covariance matrix divided by L²."""
    covariance = real(covariance, "covariance", ndim=2)
    if covariance.shape[0] != covariance.shape[1]:
        raise OptionError(f"a covariance is square, not of the shape {covariance.shape}", code="wrong-shape")
    return float(covariance.sum() / len(covariance) ** 2)


def combined(given: Any, rule: Rule = "sum", weights: Sequence[float] | Array | None = None) -> Array:
    """Combine the outputs of the members.

    Parameters
    ----------
    given : array, shape (members, ...)
        Probabilities (members, rows, classes), or numbers (members, rows).
    rule : str
    weights : sequence of float
        Weights for the rules weighted and bayesian; default: equal.

    Returns
    -------
    ndarray
        Combined outputs, without the axis of members; not normalised.
    """
    given = real(given, "outputs of members")
    if rule not in _RULES:
        raise OptionError(f"unknown rule {rule!r}{hint(rule, _RULES)}", code="unknown-word")
    if rule == "median":
        return np.asarray(np.median(given, axis=0))
    if rule in ("min", "max"):
        return np.asarray(given.min(axis=0) if rule == "min" else given.max(axis=0))
    if rule == "product":
        return np.asarray(np.prod(given, axis=0))
    if rule == "plurality":
        given = np.eye(given.shape[-1])[given.argmax(axis=-1)]
    w = np.ones(len(given)) if weights is None or rule in ("sum", "plurality") else real(weights, "weights")
    if w.shape != (len(given),) or np.any(w < 0) or not w.sum() > 0:
        raise OptionError(
            f"weights are one number a member, none below 0 and not all 0; given: {w.tolist()}", code="out-of-range"
        )
    return np.asarray(np.tensordot(w / w.sum(), given, axes=1))


def posterior_weights(log_likelihood: Any) -> Array:
    """P(M_j | D) under a uniform prior, from the log probabilities of the rows, shape (members, rows)."""
    logs = real(log_likelihood, "log_likelihood", ndim=2, finite=False)
    return np.asarray(special.softmax(logs.sum(axis=1)))


def _scores(estimator: Any, X: Array, n_classes: int) -> Array:
    """Raw scores (rows, classes) if the estimator has them, else log probabilities."""
    out = np.zeros((len(X), n_classes))
    if not hasattr(estimator, "decision_function"):
        probabilities = outputs([estimator], X, n_classes)[0]
        return np.asarray(np.log(np.maximum(probabilities, 1e-12)))
    raw = np.asarray(estimator.decision_function(X), float)
    codes = np.asarray(estimator.classes_, int)
    out[:, codes] = np.column_stack([-raw, raw]) if raw.ndim == 1 else raw
    return out


def _learns_weights(voting: Any) -> bool:
    return voting.weights is None and voting.rule in ("weighted", "bayesian")


class VotingClassifier(EnsembleClassifier, options=Options):
    """Classifiers that vote.

    Parameters
    ----------
    estimators : list of estimators or None
        Members; None: a tree, naive Bayes and nearest neighbours.
    rule : {"sum", "weighted", "bayesian", "median", "min", "max", "product", "plurality"}
    weights : list of float or None
        Weights of rule ``weighted``; None: held-out accuracy minus that of always predicting the largest class.
    normalise : bool
        Combine raw scores, standardised by their mean and standard deviation on the training rows and mapped to (0, 1)
        by softmax, so that their scale does not matter.
    cv : int
    random_state : int or None

    Attributes
    ----------
    estimators_ : list
    weights_ : ndarray
    """

    def __init__(
        self,
        estimators: Any = None,
        rule: Rule = "sum",
        weights: Any = None,
        normalise: bool = False,
        cv: int = 5,
        random_state: Any = None,
    ) -> None:
        self.estimators, self.rule, self.weights, self.normalise = estimators, rule, weights, normalise
        self.cv, self.random_state = cv, random_state

    def suits(self, n_rows: int, n_columns: int, n_classes: int) -> None:
        """Check that there are rows for all folds if weights are learned."""
        if _learns_weights(self):
            super().suits(n_rows, n_columns, n_classes)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train all members, and compute their weights out of fold."""
        X, codes, rows = self._weighted_rows(X, y, sample_weight)
        rng, n_classes = self._rng(), len(self.classes_)
        self.weights_ = self._weights(X, codes, rng, rows)
        self._train(self._members(), X, codes, rng, rows)
        if self.normalise:
            scores = [_scores(one, X, n_classes) for one in self.estimators_]
            self.centres_ = np.array([one.mean() for one in scores])
            self.scales_ = np.array([one.std() or 1.0 for one in scores])
        return self

    def _weights(self, X: Array, codes: Any, rng: Any, rows: Array | None) -> Array:
        if self.weights is not None:
            return np.asarray(self.weights, float)
        if self.rule not in ("weighted", "bayesian"):
            return np.ones(len(self._members()))
        left_out = self._left_out(X, codes, rng, rows)
        if self.rule == "weighted":
            right = np.average(left_out.argmax(axis=2) == codes, axis=1, weights=rows)
            guess = np.bincount(codes, rows).max() / (len(codes) if rows is None else rows.sum())
            above = np.maximum(right - guess, 0)
            return np.asarray(above if above.any() else np.ones(len(above)))
        of_truth = np.log(np.maximum(left_out[:, np.arange(len(codes)), codes], 1e-12))
        return posterior_weights(of_truth if rows is None else rows * of_truth)

    def predict_proba(self, X: Any) -> Array:
        """Combined outputs, normalised to sum to one."""
        X = self._new(X)
        n_classes = len(self.classes_)
        if self.normalise:
            scores = np.array([_scores(one, X, n_classes) for one in self.estimators_])
            standard = (scores - self.centres_[:, None, None]) / self.scales_[:, None, None]
            given = special.softmax(standard, axis=2)
        else:
            given = self._outputs(X)
        total = combined(given, self.rule, self.weights_)
        size = total.sum(axis=1, keepdims=True)
        # All classes have output zero: no information.
        return np.asarray(np.where(size > 0, total / np.where(size > 0, size, 1), 1 / n_classes))


class VotingRegressor(EnsembleRegressor, options=Options):
    """Regressions combined by a fixed rule.

    Parameters
    ----------
    estimators : list of estimators or None
        Members; None: a linear one, a tree and the nearest neighbour.
    rule : {"sum", "weighted", "bayesian", "median", "min", "max"}
    weights : list of float or None
        Weights of rule ``weighted``; None: inverse mean squared errors on held-out rows.
    cv : int
    random_state : int or None

    Attributes
    ----------
    estimators_ : list
    weights_ : ndarray
    """

    def __init__(
        self, estimators: Any = None, rule: Rule = "sum", weights: Any = None, cv: int = 5, random_state: Any = None
    ) -> None:
        self.estimators, self.rule, self.weights = estimators, rule, weights
        self.cv, self.random_state = cv, random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train all members, and compute their weights out of fold."""
        X, y, rows = self._weighted_rows(X, y, sample_weight)
        self.suits(len(X), X.shape[1], 0)
        rng = self._rng()
        self.weights_ = self._weights(X, y, rng, rows)
        self._train(self._members(), X, y, rng, rows)
        return self

    def suits(self, n_rows: int, n_columns: int, n_classes: int) -> None:
        """Check that the rule applies to numbers, and that there are rows for all folds if weights are learned."""
        if _learns_weights(self):
            super().suits(n_rows, n_columns, n_classes)
        if self.rule in ("product", "plurality"):
            raise ValueError(f"numbers have no {self.rule}: take sum, weighted, bayesian, median, min or max")

    def _weights(self, X: Array, y: Array, rng: Any, rows: Array | None) -> Array:
        if self.weights is not None:
            return np.asarray(self.weights, float)
        if self.rule not in ("weighted", "bayesian"):
            return np.ones(len(self._members()))
        gaps = (self._left_out(X, y, rng, rows) - y) ** 2
        squared = np.average(gaps, axis=1, weights=rows)
        variance = np.maximum(squared, 1e-12 * max(float(np.var(y)), 1e-300))[:, None]
        if self.rule == "weighted":
            return np.asarray(1 / variance[:, 0])
        density = -0.5 * gaps / variance - 0.5 * np.log(variance)
        return posterior_weights(density if rows is None else rows * density)

    def predict(self, X: Any) -> Array:
        """The combined numbers."""
        X = self._new(X)
        return combined(self._outputs(X), self.rule, self.weights_)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return the voting estimator for the task."""
    members = built_all(options.learners, task, categorical)
    if options.weights is not None and len(options.weights) != len(members):
        raise ValueError(f"{len(options.weights)} weights for {len(members)} learners: one each")
    if task == "classification":
        return VotingClassifier(members, options.rule, options.weights, options.normalise, options.cv)
    if options.normalise:
        raise ValueError("normalise is for scores of classifiers; numbers are on the scale of the target")
    return VotingRegressor(members, options.rule, options.weights, options.cv)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Weights of the members."""
    return {"weight": (("member",), estimator.weights_ / estimator.weights_.sum())}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [VotingClassifier(rule="weighted", cv=2), VotingRegressor(rule="bayesian", cv=2)]
