"""AdaBoost against the first rounds by hand, its theory, and a plain twin."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from bayeslab.learners.adaboost import AdaBoost, Stump
from tests.learners.restaurant import NAMES, all_inputs, original_tree, rows, sample

X, Y = rows()
ALL = tuple(range(10))


def test_first_rounds():
    """adaboost (F31, M9): columns, errors, votes and weights of the first rounds."""
    found = AdaBoost(n_estimators=3, categorical=ALL).fit(X, Y)
    assert [NAMES[column] for column, _, _ in found.estimators_] == ["Pat", "Hun", "Price"]
    np.testing.assert_allclose(found.errors_, [1 / 6, 3 / 20, 29 / 102])
    np.testing.assert_allclose(found.votes_, [1.609438, 1.734601, 0.923164], atol=1e-6)
    once = AdaBoost(n_estimators=1, categorical=ALL).fit(X, Y)
    heavy = [3, 11]
    np.testing.assert_allclose(once.weights_[heavy], 1 / 4)
    np.testing.assert_allclose(np.delete(once.weights_, heavy), 1 / 20)


def test_adaboost_perfect():
    """adaboost-perfect: training error zero for enough rounds of a weak edge, below the product of 2√(ε(1 − ε))."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    y = x[:, 0] + x[:, 1] > 0
    found = AdaBoost(n_estimators=300).fit(x, y)
    errors = [np.mean(said != y) for said in found.staged_predict(x)]
    bound = np.cumprod(2 * np.sqrt(found.errors_ * (1 - found.errors_)))
    assert (np.array(errors) <= bound + 1e-12).all()
    assert errors[-1] == 0


def test_adaboost_stumps_on_the_restaurant():
    """adaboost-stumps (F31, F48): derived means, K = 1 0.869, 5 0.941 (sd 0.026), 20 0.951, 137 0.945; not the printed.

    Of the training rows 0.990 with K = 20 and 0.999 with K = 137.
    """
    rng = np.random.default_rng(1)
    everything, truth = all_inputs(), original_tree(all_inputs())
    scores = []
    own = []
    for _ in range(20):
        x, y = sample(rng, 100)
        found = AdaBoost(n_estimators=137, categorical=ALL).fit(x, y)
        for inputs, outcome, into in ((everything, truth, scores), (x, y, own)):
            staged = list(found.staged_predict(inputs))
            staged += [staged[-1]] * (137 - len(staged))
            into.append([np.mean(staged[k - 1] == outcome) for k in (1, 5, 20, 137)])
    means, training = np.mean(scores, axis=0), np.mean(own, axis=0)
    assert abs(means[1] - 0.941) < 4 * 0.026 * np.sqrt(1 / 20 + 1 / 60)
    assert abs(means[0] - 0.869) < 0.02
    assert abs(means[2] - 0.951) < 0.02
    assert abs(means[3] - 0.945) < 0.02, "more rounds take a little of it away again, in the mean"
    assert abs(training[2] - 0.990) < 0.01
    assert abs(training[3] - 0.999) < 0.002


def test_boost_margin():
    """boost-margin: after the training error is zero the smallest margin still rises."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(150, 3))
    y = x @ [1.0, -1.0, 0.5] > 0
    smallest = []
    for rounds in (100, 200, 400, 800, 1600):
        found = AdaBoost(n_estimators=rounds).fit(x, y)
        smallest.append(found.margins(x, y).min())
    assert smallest[1] > 0, "no error on the training rows from here on"
    assert (np.diff(smallest[1:]) >= 0).all()
    assert smallest[-1] > smallest[1] + 0.01


def test_boost_naive_bayes():
    """boost-naive-bayes: weights are used, and boosting is at least as good as one naive Bayes."""
    rng = np.random.default_rng(3)
    x, y = sample(rng, 300)
    test, truth = sample(rng, 3000)
    alone = GaussianNB().fit(x, y).score(test, truth)
    assert AdaBoost(GaussianNB(), n_estimators=30).fit(x, y).score(test, truth) >= alone


def test_resampling():
    """adaboost-m1: learners that take no weights see rows drawn by weight; on average like weighting."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(200, 2))
    y = (np.abs(x) < 0.9).all(axis=1)
    weighted = AdaBoost(n_estimators=30).fit(x, y).score(x, y)
    drawn = [AdaBoost(n_estimators=30, resample=True, random_state=s).fit(x, y).score(x, y) for s in range(10)]
    assert abs(np.mean(drawn) - weighted) < 0.06
    near = AdaBoost(KNeighborsClassifier(15), n_estimators=5, random_state=0).fit(x, y)
    assert near.score(x, y) > 0.85


def test_stops_at_half():
    """adaboost-m1: a learner that is wrong on half of the weight ends the rounds."""
    x = np.zeros((10, 1))
    y = np.array([0, 1] * 5)
    found = AdaBoost(n_estimators=10).fit(x, y)
    assert len(found.estimators_) == 1


@pytest.mark.parametrize("seed", range(4))
def test_stump_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    x, y, w = rng.normal(size=(40, 3)), rng.integers(3, size=40), rng.random(40)
    found = Stump().fit(x, y, sample_weight=w)
    error = w[found.predict(x) != y].sum()
    best = np.inf
    for j in range(3):
        for cut in np.sort(x[:, j])[:-1]:
            sides = [x[:, j] <= cut, x[:, j] > cut]
            best = min(best, w.sum() - sum(max(w[s & (y == c)].sum() for c in range(3)) for s in sides))
    assert error == pytest.approx(best)


def test_weighted_training():
    """Whole weights are copies of rows."""
    rng = np.random.default_rng(5)
    x, y, w = rng.normal(size=(50, 2)), rng.integers(2, size=50), rng.integers(1, 4, size=50)
    a = AdaBoost(n_estimators=10).fit(x, y, sample_weight=w)
    b = AdaBoost(n_estimators=10).fit(np.repeat(x, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(a.decision_function(x), b.decision_function(x))


def test_same_as_trees_of_depth_one():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(300, 4))
    y = x[:, 0] * x[:, 1] + x[:, 2] > 0
    own = AdaBoost(n_estimators=40).fit(x, y)
    trees = AdaBoost(DecisionTreeClassifier(max_depth=1, criterion="gini"), n_estimators=40, random_state=0).fit(x, y)
    assert abs(own.score(x, y) - trees.score(x, y)) < 0.08
