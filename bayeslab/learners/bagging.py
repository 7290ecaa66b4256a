r"""Learner ``bagging``: one learner, trained on many bootstrap samples of the rows, averaged.

A sample of N rows with replacement holds :math:`1 - (1 - 1/N)^N \to 0.632` of them. Averages help learners that change
much with the sample (trees, nets), less those that do not (nearest neighbours) [1]_. Samples of fewer rows
(``max_samples``) make learners less alike; the median of numbers does not follow a learner that went wild.

References
----------
.. [1] Breiman (1996). Bagging predictors. Machine Learning 24, 123-140.
.. [2] Bühlmann, Yu (2002). Analyzing bagging. Annals of Statistics 30, 927-961 (samples of fewer rows).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import MANY, Applies, LearnerOptions
from bayeslab.learners.toolbox.members import Member, built

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "MedianBagging",
    "Options",
    "build",
    "distinct_fraction",
    "examples",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = False


class Options(LearnerOptions):
    """Options of bagging."""

    applies: ClassVar[Applies] = {
        "average": {"task": ("regression",)},
    }
    estimator: Member | None = Field(
        None, description="What is trained: {learner: WORD, ...its options}; left out: decision_tree, regression_tree."
    )
    n_estimators: int = Field(100, ge=1, le=MANY, description="Number of bootstrap samples.")
    max_samples: float = Field(1.0, gt=0, le=1, description="Rows of a sample, as a share of all.")
    average: Literal["mean", "median"] = Field("mean", description="Of numbers; probabilities have a mean.")


def distinct_fraction(n_rows: int) -> float:
    """Expected share of the rows that a bootstrap sample of the same size holds."""
    if n_rows < 1:
        raise ValueError(f"a sample needs a row; given: {n_rows}")
    return float(-np.expm1(n_rows * np.log1p(-1 / n_rows))) if n_rows > 1 else 1.0


class MedianBagging(BaggingRegressor):
    """Bagging of regressions whose answer is the median of all; parameters are those of ``BaggingRegressor``."""

    def predict(self, X: Any) -> Array:
        """The median of the members' answers."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=["csr", "csc"], dtype=None, ensure_all_finite=False, reset=False)
        pairs = zip(self.estimators_, self.estimators_features_, strict=True)
        return np.asarray(np.median([one.predict(X[:, columns]) for one, columns in pairs], axis=0))


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """scikit-learn's bagging; of regressions also with the median."""
    usual = {"learner": "decision_tree" if task == "classification" else "regression_tree"}
    one = built(options.estimator or usual, task, categorical)
    # As many rows as there are: a share of all would be warned of where these are few.
    rows = options.max_samples if options.max_samples < 1 else None
    if task == "classification":
        if options.average == "median":
            raise ValueError("the median is for numbers; of classifiers probabilities are averaged")
        return BaggingClassifier(one, options.n_estimators, max_samples=rows)
    kind = MedianBagging if options.average == "median" else BaggingRegressor
    return kind(one, options.n_estimators, max_samples=rows)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The share of the rows that a learner saw, on average."""
    n = max(int(rows.max()) for rows in estimator.estimators_samples_) + 1
    share = np.mean([len(np.unique(rows)) / n for rows in estimator.estimators_samples_])
    return {"rows_seen": ((), np.array(share))}


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks."""
    return [MedianBagging(n_estimators=11)]
