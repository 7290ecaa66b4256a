"""Mixtures of experts and local selection, on problems that have regions."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB

from bayeslab.learners.dynamic_selection import SelectionClassifier, SelectionRegressor
from bayeslab.learners.mixture_of_experts import ExpertClassifier, ExpertRegressor

sys.path.insert(0, str(Path(__file__).parent))
import regions


def test_moe():
    """moe: a piecewise target; each expert has weight near 1 in its own region and the line of it."""
    x, y = regions.two_lines(np.random.default_rng(0), 300)
    found = ExpertRegressor(2, random_state=0).fit(x, y)
    fresh, truth = regions.two_lines(np.random.default_rng(1), 1000)
    assert found.score(fresh, truth) > 0.97
    assert LinearRegression().fit(x, y).score(fresh, truth) < 0.5
    left, right = found.gate([[-2.0]])[0], found.gate([[2.0]])[0]
    assert left.max() > 0.99
    assert right.max() > 0.99
    assert left.argmax() != right.argmax()
    np.testing.assert_allclose(found.coef_[left.argmax()], [2, 1], atol=0.15)
    np.testing.assert_allclose(found.coef_[right.argmax()], [-1.5, 0], atol=0.15)


def test_moe_likelihood_rises():
    """moe: rounds of expectation maximisation do not lower the likelihood, but for what the penalty costs."""
    x, y = regions.two_lines(np.random.default_rng(2), 200)
    found = ExpertRegressor(3, alpha=0.0, n_init=1, max_iter=40, random_state=1).fit(x, y)
    assert (np.diff(found.log_likelihoods_) > -1e-6).all()


def test_moe_classes():
    """moe: two regions in which the class depends on the second input in opposite ways."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, (400, 2))
    y = (x[:, 1] * np.sign(x[:, 0]) > 0).astype(int)
    found = ExpertClassifier(2, n_init=4, random_state=0).fit(x[:300], y[:300])
    assert found.score(x[300:], y[300:]) > 0.9
    assert LogisticRegression().fit(x[:300], y[:300]).score(x[300:], y[300:]) < 0.7
    np.testing.assert_allclose(found.predict_proba(x).sum(axis=1), 1)


def test_moe_covariance():
    """moe-covariance: experts of two regimes are biased, and what they say varies in opposite directions."""
    x, y = regions.vee(np.random.default_rng(4), 300)
    found = ExpertRegressor(2, random_state=0).fit(x, y)
    said = found.experts(x)
    assert np.cov(said.T)[0, 1] < 0
    gaps = said - np.abs(x)
    assert (np.abs(gaps.mean(axis=0)) > 0.5).all()
    assert found.score(x, y) > 0.95


def test_one_expert_is_a_regression():
    x, y = regions.two_lines(np.random.default_rng(5), 100)
    found = ExpertRegressor(1).fit(x, y)
    np.testing.assert_allclose(found.predict(x), LinearRegression().fit(x, y).predict(x), atol=1e-5)


def test_dynamic_selection():
    """dynamic-selection: each of two classifiers is right in one region; together they beat the better one."""
    x, y = regions.two_rules(np.random.default_rng(6), 500)
    fresh, truth = regions.two_rules(np.random.default_rng(7), 1000)
    members = [regions.SideRule(0), regions.SideRule(1), GaussianNB(), LinearDiscriminantAnalysis()]
    best = max(one.fit(x, y).score(fresh, truth) for one in members)
    for n in (5, 15):
        found = SelectionClassifier(members, n_neighbors=n, random_state=0).fit(x, y)
        assert found.score(fresh, truth) > best + 0.1
    chosen = found.chosen(fresh)
    assert np.mean(chosen[fresh[:, 0] < -0.2] == 0) > 0.8


def test_dynamic_selection_is_out_of_fold():
    """A member that knows its training rows by heart is not chosen for that."""
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(8)
    x = rng.normal(size=(300, 2))
    y = ((x[:, 0] > 0) ^ (rng.random(300) < 0.3)).astype(int)
    found = SelectionClassifier([KNeighborsClassifier(1), GaussianNB()], n_neighbors=60, random_state=0).fit(x, y)
    assert np.mean(found.chosen(x) == 1) > 0.65


def test_dynamic_selection_reg():
    """dynamic-selection-reg: the local mean absolute error chooses the regression of the region."""
    x, y = regions.two_lines(np.random.default_rng(9), 300)
    members = [regions.Line(2.0, 1.0), regions.Line(-1.5, 0.0)]
    found = SelectionRegressor(members, n_neighbors=7, random_state=0).fit(x, y)
    fresh, truth = regions.two_lines(np.random.default_rng(10), 500)
    sure = np.abs(fresh[:, 0]) > 0.3
    np.testing.assert_array_equal(found.chosen(fresh)[sure], np.where(fresh[sure, 0] < 0, 0, 1))
    assert found.score(fresh, truth) > 0.95


@pytest.mark.parametrize("kind", [SelectionClassifier, SelectionRegressor])
def test_fewer_rows_than_neighbours(kind):
    found = kind(n_neighbors=50, cv=2, random_state=0).fit(np.arange(10.0)[:, None], np.arange(10) % 2)
    assert len(found.predict([[3.0]])) == 1
