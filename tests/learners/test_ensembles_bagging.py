"""Bootstrap samples and random subspaces: how alike learners are, and what averaging takes away."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import BaggingRegressor
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from bayeslab.learners import bagging, random_subspace
from bayeslab.learners.bagging import MedianBagging, distinct_fraction
from bayeslab.learners.condensed_nn import CondensedNN


class SometimesWild(RegressorMixin, BaseEstimator):
    """The mean of the training outcomes; a million where row 0 was drawn at least three times."""

    def fit(self, X, y):
        self.says_ = 1e6 if np.sum(X[:, 0] == 0) >= 3 else float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.says_)


def wavy(rng, n=80):
    x = rng.uniform(-3, 3, size=(n, 1))
    return x, np.sin(2 * x[:, 0]) + rng.normal(0, 0.4, n)


def test_bootstrap():
    """bootstrap (F36): the distinct share, exact and drawn."""
    np.testing.assert_allclose(
        [distinct_fraction(n) for n in (10, 100, 1000)], [0.651322, 0.633968, 0.632305], atol=5e-7
    )
    assert distinct_fraction(1) == 1
    rng = np.random.default_rng(0)
    drawn = [len(np.unique(rng.integers(100, size=100))) / 100 for _ in range(4000)]
    assert abs(np.mean(drawn) - distinct_fraction(100)) < 4 * np.std(drawn) / np.sqrt(4000)


@pytest.mark.slow(why="statistical")
def test_bagging():
    """bagging (F36): learners see 0.632 of the rows; the variance over training sets falls."""
    rng = np.random.default_rng(1)
    grid = np.linspace(-3, 3, 60)[:, None]
    single, bagged, seen = [], [], []
    for seed in range(18):
        x, y = wavy(rng)
        single.append(DecisionTreeRegressor(random_state=0).fit(x, y).predict(grid))
        many = BaggingRegressor(DecisionTreeRegressor(), 20, random_state=seed).fit(x, y)
        bagged.append(many.predict(grid))
        seen.append(bagging.reported(many)["rows_seen"][1])
    assert np.var(bagged, axis=0).mean() < 0.6 * np.var(single, axis=0).mean()
    assert np.mean(seen) == pytest.approx(distinct_fraction(80), abs=0.01)


def test_bagging_median():
    """bagging-median: learners that went wild move the mean, not the median."""
    x = np.arange(50.0)[:, None]
    y = np.random.default_rng(2).normal(size=50)
    median = MedianBagging(SometimesWild(), 101, random_state=0).fit(x, y)
    wild = np.mean([one.says_ == 1e6 for one in median.estimators_])
    assert 0 < wild < 0.5
    assert np.abs(median.predict(x)).max() < 1
    assert BaggingRegressor(SometimesWild(), 101, random_state=0).fit(x, y).predict(x)[0] > 1000
    each = [one.predict(x) for one in median.estimators_]
    np.testing.assert_allclose(median.predict(x), np.median(each, axis=0))


def test_bagging_small():
    """bagging-small: errors of learners are less alike when samples have fewer rows."""
    rng = np.random.default_rng(3)
    grid = np.linspace(-3, 3, 200)[:, None]
    alike = []
    for share in (1.0, 0.4, 0.15):
        found = []
        for seed in range(5):
            x, y = wavy(rng)
            many = BaggingRegressor(DecisionTreeRegressor(), 20, max_samples=share, random_state=seed).fit(x, y)
            gaps = np.array([one.predict(grid) for one in many.estimators_]) - np.sin(2 * grid[:, 0])
            found.append(np.corrcoef(gaps)[np.triu_indices(20, 1)].mean())
        alike.append(np.mean(found))
    assert alike[0] > alike[1] > alike[2]


def moons(rng, n=120):
    y = rng.integers(2, size=n)
    angle = rng.uniform(0, np.pi, n)
    x = np.column_stack([np.cos(angle) + y, np.where(y, 0.4 - np.sin(angle), np.sin(angle))])
    return x + rng.normal(0, 0.25, (n, 2)), y


def test_condensed_nn():
    """condensed-nn: the rows kept classify every training row correctly by their nearest neighbour."""
    rng = np.random.default_rng(4)
    x, y = moons(rng)
    kept = CondensedNN(random_state=0).fit(x, y).kept_
    assert len(kept) < 0.6 * len(x)
    assert KNeighborsClassifier(1).fit(x[kept], y[kept]).score(x, y) == 1


@pytest.mark.slow(why="statistical")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_stability():
    """stability: answers of trees, nets and condensed neighbours change with the sample, those of neighbours less."""
    rng = np.random.default_rng(5)
    x, y = moons(rng, 100)
    grid, _ = moons(rng, 300)
    changes = {}

    def disagreement(train):
        said = np.array([train(rng.integers(len(x), size=len(x))) for _ in range(8)])
        share = said.mean(axis=0)
        return np.mean(2 * share * (1 - share))

    def net(at):
        made = MLPClassifier((15,), solver="lbfgs", max_iter=100, random_state=int(rng.integers(1000)))
        return made.fit(x[at], y[at]).predict(grid)

    def thinned(at):
        return CondensedNN(random_state=int(rng.integers(1000))).fit(x[at], y[at]).predict(grid)

    changes["knn"] = disagreement(lambda at: KNeighborsClassifier(9).fit(x[at], y[at]).predict(grid))
    changes["tree"] = disagreement(lambda at: DecisionTreeClassifier(random_state=0).fit(x[at], y[at]).predict(grid))
    changes["net"] = disagreement(net)
    changes["condensed"] = disagreement(thinned)
    assert min(changes[k] for k in ("tree", "net", "condensed")) > 1.3 * changes["knn"]


@pytest.mark.slow(why="statistical")
def test_random_subspace():
    """random-subspace: every learner has its own columns; with noisy columns the average varies less than one tree."""
    rng = np.random.default_rng(6)
    test = rng.normal(size=(150, 10))
    single, average = [], []
    for seed in range(15):
        x = rng.normal(size=(100, 10))
        y = x[:, 0] + x[:, 1] + rng.normal(0, 0.5, 100)
        made = random_subspace.build(
            random_subspace.Options(n_estimators=25, estimator={"learner": "regression_tree"}), "regression"
        )
        found = made.set_params(random_state=seed, estimator=DecisionTreeRegressor()).fit(x, y)
        average.append(found.predict(test))
        single.append(DecisionTreeRegressor(random_state=seed).fit(x, y).predict(test))
    columns = {tuple(sorted(c)) for c in found.estimators_features_}
    assert len(columns) > 15
    assert all(len(set(c)) == 5 for c in columns)
    assert random_subspace.reported(found)["uses"][1].sum() == 25 * 5
    assert np.var(average, axis=0).mean() < 0.5 * np.var(single, axis=0).mean()


def test_build():
    found = bagging.build(bagging.Options(n_estimators=5, average="median"), "regression")
    assert isinstance(found, MedianBagging)
    with pytest.raises(ValueError, match="median is for numbers"):
        bagging.build(bagging.Options(average="median"), "classification")
    x, y = moons(np.random.default_rng(7))
    assert bagging.build(bagging.Options(n_estimators=15), "classification").fit(x, y).score(x, y) > 0.9
