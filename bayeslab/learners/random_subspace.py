"""Learner ``random_subspace``: the average of one learner trained many times on random subsets of the columns.

References
----------
.. [1] Ho (1998). The random subspace method for constructing decision forests. IEEE PAMI 20, 832-844.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field
from sklearn.base import BaseEstimator
from sklearn.ensemble import BaggingClassifier, BaggingRegressor

from bayeslab.learners.toolbox.estimator import MANY, LearnerOptions
from bayeslab.learners.toolbox.members import Member, built

__all__ = ["CATEGORIES", "MISSING", "SCALE", "TASKS", "Options", "build", "examples", "reported"]

TASKS = ("classification", "regression")
# With codes, a subset would not know which of its columns are categorical.
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = False
MISSING = False


class Options(LearnerOptions):
    """Options of random subspaces."""

    estimator: Member | None = Field(
        None, description="Base learner, {learner: WORD, ...its options}; default: decision_tree or regression_tree."
    )
    n_estimators: int = Field(100, ge=1, le=MANY, description="Number of subsets.")
    max_features: float = Field(0.5, gt=0, le=1, description="Size of a subset, as a share of the columns.")


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return scikit-learn's bagging, with subsets of columns instead of rows."""
    usual = {"learner": "decision_tree" if task == "classification" else "regression_tree"}
    one = built(options.estimator or usual, task)
    kind = BaggingClassifier if task == "classification" else BaggingRegressor
    return kind(one, options.n_estimators, max_features=options.max_features, bootstrap=False)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return how many members use each column."""
    counts = np.zeros(estimator.n_features_in_)
    for columns in estimator.estimators_features_:
        counts[columns] += 1
    return {"uses": (("column",), counts)}


def examples() -> list[BaseEstimator]:
    """None: the estimator is scikit-learn's."""
    return []
