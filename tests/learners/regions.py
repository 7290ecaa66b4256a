"""Problems with regions, and members that are right in one of them, for tests."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin


def two_lines(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """2x + 1 below 0, -1.5x above."""
    x = rng.uniform(-3, 3, (n, 1))
    return x, np.where(x[:, 0] < 0, 2 * x[:, 0] + 1, -1.5 * x[:, 0]) + rng.normal(0, 0.2, n)


def vee(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The absolute value."""
    x = rng.uniform(-3, 3, (n, 1))
    return x, np.abs(x[:, 0]) + rng.normal(0, 0.1, n)


def two_rules(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Left of 0 the class is the sign of the second input, right of it the sign of the third."""
    x = rng.uniform(-1, 1, (n, 3))
    return x, (np.where(x[:, 0] < 0, x[:, 1], x[:, 2]) > 0).astype(int)


class SideRule(ClassifierMixin, BaseEstimator):
    """The rule of one side, everywhere."""

    def __init__(self, side=0):
        self.side = side

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return (X[:, 1 + self.side] > 0).astype(int)


class Line(RegressorMixin, BaseEstimator):
    """A line that is given."""

    def __init__(self, slope=1.0, intercept=0.0):
        self.slope, self.intercept = slope, intercept

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return self.slope * X[:, 0] + self.intercept
