"""Ensembles fine-tuned: pruning, correspondence analysis, components, clusterings, diversity."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

from bayeslab.latents.labels.clusters import coclustering, combined_clusters
from bayeslab.learners.eigenlearners import Eigenlearners
from bayeslab.learners.pruned_ensemble import PrunedClassifier, PrunedRegressor, quality, selected
from bayeslab.learners.scann import Scann
from bayeslab.learners.voting import VotingClassifier
from tests.refusals import refused

IRIS = load_iris(return_X_y=True)


def outputs_of(seed: int, n_members: int = 7, n: int = 120):
    """Probabilities of members that differ in how good they are; the last ones worse than guessing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    strength = np.linspace(1.5, -0.7, n_members)
    scores = rng.normal(size=(n_members, n, 3))
    scores[:, np.arange(n), y] += strength[:, None]
    return np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True), y


@pytest.mark.parametrize("seed", range(5))
def test_ensemble_prune(seed):
    """ensemble-prune: no search ends below the full set; floating is not below forward, nor all below the best of all."""
    given, y = outputs_of(seed)
    found = {search: selected(given, y, search) for search in ("forward", "backward", "floating")}
    value = {search: quality(given, y, subset) for search, subset in found.items()}
    full = quality(given, y, tuple(range(7)))
    assert min(value.values()) >= full
    assert value["floating"] >= value["forward"]
    every = [s for r in range(1, 8) for s in itertools.combinations(range(7), r)]
    best = max(quality(given, y, s) for s in every)
    assert max(value.values()) <= best
    assert value["floating"][0] >= best[0] - 0.02
    assert 6 not in found["floating"]


def test_pruned_learners():
    x, y = IRIS
    members = [GaussianNB(), DecisionTreeClassifier(max_depth=1), LinearDiscriminantAnalysis()]
    found = PrunedClassifier(members, random_state=0).fit(x, y)
    assert 1 not in found.kept_
    assert found.score(x, y) > 0.95
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 3))
    line = table @ [1.0, 2.0, 3.0] + rng.normal(0, 0.1, 200)
    assert PrunedRegressor([KNeighborsRegressor(), LinearRegression()], random_state=0).fit(table, line).kept_ == (1,)


def four_learners():
    return [GaussianNB(), LinearDiscriminantAnalysis(), KNeighborsClassifier(3), DecisionTreeClassifier(max_depth=3)]


@pytest.mark.slow(why="large")
def test_scann():
    """scann: coordinates are uncorrelated, and the nearest class mean among them beats chance."""
    x, y = load_digits(return_X_y=True)
    x, y = x[:800] / 16, y[:800]
    found = Scann(four_learners(), random_state=0).fit(x[:500], y[:500])
    covariance = found.coordinates_.T @ found.coordinates_ / 500
    np.testing.assert_allclose(covariance, np.diag(found.inertias_), atol=1e-10)
    np.testing.assert_allclose(found.coordinates_.mean(axis=0), 0, atol=1e-10)
    assert found.score(x[500:], y[500:]) > 0.8


def test_scann_inertia():
    """scann: total inertia of an indicator table is the number of answers given, over the members, less one."""
    x, y = IRIS
    found = Scann(four_learners(), random_state=0).fit(x, y)
    assert found.inertias_.sum() == pytest.approx(12 / 4 - 1)
    few = Scann(four_learners(), n_components=2, random_state=0).fit(x, y)
    assert few.coordinates_.shape[1] == 2
    assert few.score(x, y) > 0.9
    two = y < 2
    assert Scann(four_learners(), random_state=0).fit(x[two], y[two]).score(x[two], y[two]) == 1


@pytest.mark.slow(why="large")
def test_eigenlearners():
    """eigenlearners: the covariance of components is diagonal, and fewer of them keep the accuracy."""
    x, y = load_digits(return_X_y=True)
    x, y = x[:800] / 16, y[:800]
    members = [KNeighborsClassifier(k) for k in (1, 3, 5, 9)] + [LogisticRegression(max_iter=300)]
    full = Eigenlearners(members, n_components=50, random_state=0).fit(x[:500], y[:500])
    few = Eigenlearners(members, n_components=12, random_state=0).fit(x[:500], y[:500])
    covariance = np.cov(few.components_.T)
    np.testing.assert_allclose(covariance - np.diag(np.diag(covariance)), 0, atol=1e-10)
    assert few.score(x[500:], y[500:]) > full.score(x[500:], y[500:]) - 0.02
    assert few.score(x[500:], y[500:]) > 0.9


def test_cluster_ensemble():
    """cluster-ensemble: co-association frequencies; planted clusters come back from clusterings that are all wrong."""
    labels = np.array([[0, 0, 1, 1], [5, 5, 5, 2], [0, 0, 1, -1]])
    expected = [[1, 1, 1 / 3, 0], [1, 1, 1 / 3, 0], [1 / 3, 1 / 3, 1, 1 / 2], [0, 0, 1 / 2, 1]]
    np.testing.assert_allclose(coclustering(labels), expected)
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1, 2], 20)
    runs = []
    for _ in range(30):
        # Names permuted, a quarter of the rows put anywhere.
        one = rng.permutation(3)[truth]
        runs.append(np.where(rng.random(60) < 0.25, rng.integers(3, size=60), one))
    found = combined_clusters(runs, 3)
    for c in range(3):
        assert len(set(found[truth == c])) == 1
    assert len(set(found)) == 3
    np.testing.assert_allclose(coclustering(runs), coclustering([(one + 1) % 3 for one in runs]))
    np.testing.assert_array_equal(combined_clusters([[3, 3, 1]], 2), [0, 0, 1])
    with refused("option.out-of-range", "cluster.*0"):
        combined_clusters(runs, 0)


def test_diversify():
    """diversify: errors of different algorithms are less alike than those of one algorithm from different seeds."""
    x, y = load_digits(return_X_y=True)
    x, y = x[:900] / 16, y[:900]
    train, test = slice(0, 450), slice(450, 900)

    def alike(members):
        wrong = np.array([one.fit(x[train], y[train]).predict(x[test]) != y[test] for one in members], float)
        return np.corrcoef(wrong)[np.triu_indices(len(members), 1)].mean()

    algorithms = [
        DecisionTreeClassifier(max_depth=8, random_state=0), KNeighborsClassifier(1), LinearDiscriminantAnalysis(),
    ]  # fmt: skip
    seeds = [DecisionTreeClassifier(max_depth=8, random_state=s) for s in range(3)]
    assert alike(algorithms) < alike(seeds) - 0.1
    half = np.arange(64) % 2 == 0
    views = np.array([
        DecisionTreeClassifier(random_state=0).fit(x[train][:, c], y[train]).predict(x[test][:, c]) != y[test]
        for c in (half, ~half)
    ])  # fmt: skip
    assert np.corrcoef(views.astype(float))[0, 1] < alike(seeds)


def test_ensemble_hypothesis():
    """ensemble-hypothesis: three linear thresholds, all of which must agree, make a triangle that none of them is."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (600, 2))
    normals = np.array([[0.0, 1.0], [np.sqrt(3) / 2, -0.5], [-np.sqrt(3) / 2, -0.5]])
    y = (x @ normals.T < 0.35).all(axis=1).astype(int)
    assert 0.1 < y.mean() < 0.5
    sides = [LogisticRegression(C=1e4).fit(x, (x @ n < 0.35).astype(int)) for n in normals]
    inside = np.min([one.predict(x) for one in sides], axis=0)
    assert np.mean(inside == y) > 0.98
    # No single line does better than a rule that says outside everywhere, give or take.
    assert LogisticRegression(C=1e4).fit(x, y).score(x, y) < max(y.mean(), 1 - y.mean()) + 0.1
    # The rule min over outputs of a vote is the same set: half-planes' probabilities, the smallest above one half.
    p = np.array([one.predict_proba(x)[:, 1] for one in sides]).min(axis=0)
    np.testing.assert_array_equal(p > 0.5, inside == 1)


def test_vote_beats_its_members():
    x, y = load_digits(return_X_y=True)
    x, y = x[:600] / 16, y[:600]
    members = [GaussianNB(), DecisionTreeClassifier(max_depth=8, random_state=0), LinearDiscriminantAnalysis()]
    alone = [one.fit(x[:300], y[:300]).score(x[300:], y[300:]) for one in members]
    assert VotingClassifier(members, rule="plurality").fit(x[:300], y[:300]).score(x[300:], y[300:]) >= np.median(alone)
