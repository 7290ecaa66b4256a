"""Learner ``random_forest``: the average of many trees grown on bootstrap samples and random subsets of the inputs.

References
----------
.. [1] Breiman (2001). Random forests. Machine Learning 45, 5-32.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from pydantic import Field
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from bayeslab.digits import levelled
from bayeslab.learners.toolbox.estimator import MANY, Count, LearnerOptions, Share

__all__ = ["CATEGORIES", "MISSING", "SCALE", "TASKS", "Options", "build", "examples", "reported"]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "indicators"
# scikit-learn's trees use single precision: columns far from zero would lose their digits.
SCALE = True
MISSING = True


class Options(LearnerOptions):
    """Options of the forest, named as scikit-learn names them."""

    n_estimators: int = Field(500, ge=1, le=MANY, description="Number of trees.")
    max_features: Share | Count | Literal["sqrt", "log2"] | None = Field(
        None, description="Inputs tried at a split; default: square root of their number, or a third for regression."
    )
    min_samples_leaf: int = Field(1, ge=1, le=10**9, description="Minimum number of rows in a leaf.")
    max_depth: int | None = Field(None, ge=1, le=10**9, description="Maximum depth of the trees; default: no limit.")


class Forest(RandomForestRegressor):
    """scikit-learn's forest on standardised outcomes, since its impurities are differences of squares."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the trees."""
        target, self.level_, self.size_ = levelled(np.asarray(y, float))
        super().fit(X, target, sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The mean of the trees."""
        return self.level_ + self.size_ * np.asarray(super().predict(X))


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """scikit-learn's forest."""
    given = options.model_dump(exclude={"max_features"})
    if task == "classification":
        return RandomForestClassifier(max_features=options.max_features or "sqrt", **given)
    return Forest(max_features=options.max_features or 1 / 3, **given)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the impurity importance of each column of the design matrix, and the depth of the trees."""
    depth = np.mean([tree.get_depth() for tree in estimator.estimators_])
    return {"importance": (("column",), estimator.feature_importances_), "mean_depth": ((), np.array(depth))}


def examples() -> list[BaseEstimator]:
    """None: the estimator is scikit-learn's."""
    return []
