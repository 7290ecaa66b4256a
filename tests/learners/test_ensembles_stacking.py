"""Stacking: out of fold, optimality conditions, what combiners use."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

from bayeslab.learners.stacking import StackedClassifier, StackedRegressor, simplex_weights
from bayeslab.learners.voting import VotingRegressor


class Reads(RegressorMixin, BaseEstimator):
    """A column of the input, times and plus something."""

    def __init__(self, column=0, by=1.0, plus=0.0):
        self.column, self.by, self.plus = column, by, plus

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return self.by * X[:, self.column] + self.plus


def planted(seed: int = 0, n: int = 300):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, x @ [1.0, -0.5, 0.0] + rng.normal(0, 0.1, n)


def test_stacking_is_out_of_fold():
    """stacking: a member that knows its training rows by heart is judged by rows left out, and gets no weight."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 2))
    y = x[:, 0] + rng.normal(0, 1, 200)
    memory, line = KNeighborsRegressor(1), LinearRegression()
    assert memory.fit(x, y).score(x, y) == 1
    found = StackedRegressor([memory, line], random_state=0).fit(x, y)
    assert found.weights_[1] > 0.8
    assert np.abs(found.left_out_[0] - y).min() > 0


def test_stacking_beats_the_mean_when_biases_differ():
    """stacking: members with a bias each, which the mean keeps and a linear combiner takes away."""
    x, y = planted()
    members = [Reads(0, plus=3.0), Reads(1, by=2.0), Reads(2)]
    fresh, truth = planted(9)
    mean = VotingRegressor(members).fit(x, y).score(fresh, truth)
    stacked = StackedRegressor(members, combiner="linear").fit(x, y)
    assert mean < 0
    assert stacked.score(fresh, truth) > 0.98


def test_stacking_voting():
    """stacking-voting: a linear combiner's weights may be negative, need not sum to 1, and there is a bias."""
    x, y = planted()
    found = StackedRegressor([Reads(0, plus=3.0), Reads(1, by=2.0)], combiner="linear").fit(x, y).combiner_
    assert found.coef_[1] == pytest.approx(-0.25, abs=0.02)
    assert found.coef_.sum() == pytest.approx(0.75, abs=0.03)
    assert found.intercept_ == pytest.approx(-3, abs=0.05)


@pytest.mark.parametrize("seed", range(6))
def test_stacking_constrained(seed):
    """stacking-constrained: weights not negative, with the sum 1; KKT conditions; as a general solver finds them."""
    rng = np.random.default_rng(seed)
    members = rng.normal(size=(5, 80)) * 10 ** rng.uniform(-2, 2)
    y = rng.dirichlet(np.full(5, 0.4)) @ members + rng.normal(0, 0.3, 80) + seed % 2
    w = simplex_weights(members, y)
    assert (w >= 0).all()
    assert w.sum() == pytest.approx(1)
    gradient = -2 * members @ (y - w @ members)
    level = gradient @ w
    scale = np.abs(gradient).max() + np.abs(members @ members.T).max()
    assert (gradient >= level - 1e-8 * scale).all()
    np.testing.assert_allclose(gradient[w > 1e-12], level, atol=1e-8 * scale)
    whole = ({"type": "eq", "fun": lambda v: v.sum() - 1},)
    loss = lambda v: np.mean((y - v @ members) ** 2)  # noqa: E731
    other = minimize(loss, np.full(5, 0.2), bounds=[(0, 1)] * 5, constraints=whole, method="SLSQP", tol=1e-12)
    assert loss(w) <= other.fun + 1e-8


def test_constrained_perfect_member():
    members = np.random.default_rng(0).normal(size=(3, 20))
    np.testing.assert_allclose(simplex_weights(members, members[1]), [0, 1, 0], atol=1e-8)
    np.testing.assert_allclose(simplex_weights(members[[1, 1]], members[1]).sum(), 1)


def test_stacking_tree():
    """stacking-tree: the tree asks only those members that tell something; others it never looks at."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 3))
    y = np.where(x[:, 0] > 0, 1, 0)
    members = [Reads(0), Reads(1), Reads(2)]
    found = StackedRegressor(members, combiner="tree", max_depth=3).fit(x, y.astype(float))
    used = {j for j in found.combiner_.tree_.feature if j >= 0}
    assert used == {0}
    assert found.score(x, y) > 0.97


def test_stacked_classifiers():
    x, y = load_iris(return_X_y=True)
    members = [GaussianNB(), KNeighborsClassifier(), LinearDiscriminantAnalysis(), DecisionTreeClassifier(max_depth=1)]
    for combiner in ("linear", "constrained", "tree"):
        found = StackedClassifier(members, combiner, random_state=0).fit(x[::2], y[::2])
        assert found.score(x[1::2], y[1::2]) > 0.93
        np.testing.assert_allclose(found.predict_proba(x).sum(axis=1), 1)
    constrained = StackedClassifier(members, random_state=0).fit(x, y)
    # The stump knows two of three classes.
    assert constrained.weights_[3] < 0.05
