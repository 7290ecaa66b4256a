"""Cascades: who answers what, at what cost, and why thresholds rise."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from bayeslab.learners.cascade import CascadeClassifier, CascadeRegressor

sys.path.insert(0, str(Path(__file__).parent))
import regions


def digits():
    x, y = load_digits(return_X_y=True)
    return x[:900] / 16, y[:900], x[900:] / 16, y[900:]


@pytest.mark.slow(why="statistical")
def test_cascade():
    """cascade: most rows end at the cheap stage, the mean cost is below the last one's, exceptions go to kNN."""
    x, y, fresh, truth = digits()
    first, second = DecisionTreeClassifier(max_depth=6, random_state=0), LogisticRegression(max_iter=300)
    found = CascadeClassifier([first, second], [0.6, 0.9], n_neighbors=3, random_state=0).fit(x, y)
    stages = found.stages(fresh)
    share = np.bincount(stages, minlength=3) / len(stages)
    assert (share > 0).all()
    assert found.mean_cost(fresh, [1, 20, 100]) < 100
    assert found.mean_cost(fresh, [1, 20, 100]) == pytest.approx(share @ [1, 21, 121])
    assert found.score(fresh, truth) > first.fit(x, y).score(fresh, truth) + 0.03
    # Rows that no stage is sure of: answered by the nearest of the exceptions.
    tail = KNeighborsClassifier(3).fit(x[found.exceptions_], y[found.exceptions_])
    np.testing.assert_array_equal(found.predict(fresh[stages == 2]), tail.predict(fresh[stages == 2]))
    assert 0 < len(found.exceptions_) < 0.5 * len(x)


def test_cascade_thresholds_are_checked():
    """cascade: 1/K < θ_j ≤ θ_{j+1} < 1."""
    x, y = regions.two_rules(np.random.default_rng(0), 60)
    for wrong in ([0.5, 0.9], [0.9, 0.8], [0.9, 1.0]):
        with pytest.raises(ValueError, match="thresholds rise"):
            CascadeClassifier([GaussianNB(), GaussianNB()], wrong, cv=2).fit(x, y)
    with pytest.raises(ValueError, match="1 thresholds for 2 stages"):
        CascadeClassifier([GaussianNB(), GaussianNB()], [0.9], cv=2).fit(x, y)


def test_cascade_theta():
    """cascade-theta: every row that reaches a stage was below the threshold of all before, none of which is higher."""
    x, y, fresh, _ = digits()
    members = [DecisionTreeClassifier(max_depth=6), GaussianNB(), KNeighborsClassifier(5)]
    found = CascadeClassifier(members, [0.6, 0.7, 0.9], random_state=0).fit(x, y)
    stages = found.stages(fresh)
    assert (np.diff(found.thresholds_) >= 0).all()
    for j, one in enumerate(found.estimators_):
        surest = one.predict_proba(fresh).max(axis=1)
        assert (surest[stages > j] < found.thresholds_[j]).all()
        # Without exceptions the last stage answers whatever is left.
        if j < 2 or len(found.exceptions_):
            assert (surest[stages == j] >= found.thresholds_[j]).all()


def test_second_stage_sees_what_the_first_misses():
    """The rows of the second stage are drawn by what the first lacks."""
    from bayeslab.learners.cascade import harder

    loss = np.where(np.arange(1000) < 100, 0.9, 0.02)
    drawn = harder(loss, np.random.RandomState(0))
    share = np.mean(drawn < 100)
    weights = loss + 0.05 * loss.mean()
    truth = weights[:100].sum() / weights.sum()
    assert abs(share - truth) < 4 * np.sqrt(truth * (1 - truth) / 1000)


def test_cascade_reg():
    """cascade-reg: a stage passes on what it predicts with more error than the threshold; the next answers there."""
    x, y = regions.two_lines(np.random.default_rng(1), 400)
    members = [regions.Line(2.0, 1.0), regions.Line(-1.5, 0.0)]
    found = CascadeRegressor(members, [0.5, 0.4], random_state=0).fit(x, y)
    fresh, truth = regions.two_lines(np.random.default_rng(2), 500)
    stages = found.stages(fresh)
    np.testing.assert_array_equal(stages == 0, found.standard_errors(0, fresh) <= 0.5)
    sure = np.abs(fresh[:, 0]) > 0.5
    np.testing.assert_array_equal(stages[sure], np.where(fresh[sure, 0] < 0, 0, 1))
    assert found.score(fresh, truth) > 0.95
    assert len(found.exceptions_) < 60
    with pytest.raises(ValueError, match="do not rise"):
        CascadeRegressor(members, [0.1, 0.2]).fit(x, y)
