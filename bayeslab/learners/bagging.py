r"""Learner ``bagging``: one learner, trained on many bootstrap samples of the rows, averaged.

A bootstrap sample of N rows contains a share :math:`1 - (1 - 1/N)^N \to 0.632` of the distinct rows. Averaging helps
unstable learners (trees, nets) more than stable ones (nearest neighbours) [1]_. Smaller samples (``max_samples``) make
the learners less correlated; the median of numbers is robust to a single wild prediction.

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
        None, description="Base learner, {learner: WORD, ...its options}; default: decision_tree or regression_tree."
    )
    n_estimators: int = Field(100, ge=1, le=MANY, description="Number of bootstrap samples.")
    max_samples: float = Field(1.0, gt=0, le=1, description="Size of a sample, as a share of the rows.")
    average: Literal["mean", "median"] = Field(
        "mean", description="How predicted numbers are combined; probabilities are always averaged."
    )


def distinct_fraction(n_rows: int) -> float:
    """Return the expected share of distinct rows in a bootstrap sample of the same size."""
    if n_rows < 1:
        raise ValueError(f"a sample needs a row; given: {n_rows}")
    return float(-np.expm1(n_rows * np.log1p(-1 / n_rows))) if n_rows > 1 else 1.0


class MedianBagging(BaggingRegressor):
    """Bagged regression that predicts the median of its members; parameters are those of ``BaggingRegressor``."""

    def predict(self, X: Any) -> Array:
        """Return the median of the members' predictions."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=["csr", "csc"], dtype=None, ensure_all_finite=False, reset=False)
        pairs = zip(self.estimators_, self.estimators_features_, strict=True)
        return np.asarray(np.median([one.predict(X[:, columns]) for one, columns in pairs], axis=0))


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return scikit-learn's bagging, or its variant with the median for regression."""
    usual = {"learner": "decision_tree" if task == "classification" else "regression_tree"}
    one = built(options.estimator or usual, task, categorical)
    # A count instead of a share: scikit-learn warns of a share when there are few rows.
    rows = options.max_samples if options.max_samples < 1 else None
    if task == "classification":
        if options.average == "median":
            raise ValueError("the median is for numbers; of classifiers probabilities are averaged")
        return BaggingClassifier(one, options.n_estimators, max_samples=rows)
    kind = MedianBagging if options.average == "median" else BaggingRegressor
    return kind(one, options.n_estimators, max_samples=rows)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the mean share of the rows that a member was trained on."""
    n = max(int(rows.max()) for rows in estimator.estimators_samples_) + 1
    share = np.mean([len(np.unique(rows)) / n for rows in estimator.estimators_samples_])
    return {"rows_seen": ((), np.array(share))}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [MedianBagging(n_estimators=11)]
