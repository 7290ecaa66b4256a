"""Boosting by three learners, boosting of regressions, and weighted rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import AdaBoostRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import bayeslab as bl
from bayeslab.learners import adaboost
from bayeslab.learners.adaboost import AdaBoost, Stump
from bayeslab.learners.boosted_regression import Options, ResidualBoost, ThresholdBoost, build
from bayeslab.learners.decision_tree import MultiwayTree
from bayeslab.learners.ecoc import OutputCodes
from bayeslab.learners.schapire import SchapireBoost, majority_of_three
from bayeslab.learners.stacking import StackedClassifier, StackedRegressor
from bayeslab.learners.toolbox.members import weight_name
from bayeslab.learners.voting import VotingClassifier, VotingRegressor
from tests.learners.restaurant import sample


class Draws(RegressorMixin, BaseEstimator):
    """Constant; remembers which rows (by their first input) it was given."""

    seen: list

    def fit(self, X, y, sample_weight=None):
        type(self).seen.append(np.bincount(X[:, 0].astype(int), minlength=100))
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return np.zeros(len(X))


def disc(rng, n):
    x = rng.uniform(-1, 1, (n, 2))
    return x, (x[:, 0] + x[:, 1] > 0).astype(int)


def bends(rng, n=300):
    x = rng.uniform(-3, 3, (n, 1))
    return x, np.sin(2 * x[:, 0]) + 0.3 * x[:, 0] + rng.normal(0, 0.2, n)


def test_boost_schapire():
    """boost-schapire: the error of three is below that of one weak learner, of three times three lower still."""
    rng = np.random.default_rng(0)
    test, truth = disc(rng, 4000)
    weak, three, nine = [], [], []
    for seed in range(6):
        x, y = disc(rng, 3000)
        weak.append(1 - Stump().fit(x, y).score(test, truth))
        three.append(1 - SchapireBoost(Stump(), random_state=seed).fit(x, y).score(test, truth))
        nine.append(1 - SchapireBoost(Stump(), levels=2, random_state=seed).fit(x, y).score(test, truth))
    assert np.mean(three) < np.mean(weak) - 0.03
    assert np.mean(nine) < np.mean(three) - 0.02
    assert majority_of_three(0.3) == pytest.approx(0.216)


def test_schapire_parts():
    """boost-schapire: where the first two agree they decide, where not the third."""
    x, y = disc(np.random.default_rng(1), 900)
    found = SchapireBoost(Stump(), random_state=0).fit(x, y)
    a, b, c = (one.predict(x) for one in found.tree_)
    np.testing.assert_array_equal(found.predict(x), np.where(a == b, a, c))
    assert found.sizes_[0] == 300
    # The second has as many rows on which the first errs as others; the third only those of the last third apart.
    assert found.sizes_[1] % 2 == 0
    assert found.sizes_[2] < 300


def test_boost_regress_threshold():
    """boost-regress-threshold: less mean absolute error on other rows than a single regression."""
    rng = np.random.default_rng(2)
    test, truth = bends(rng, 2000)
    gains = []
    for seed in range(4):
        x, y = bends(rng)
        one = DecisionTreeRegressor(max_depth=3, random_state=0)
        alone = np.abs(one.fit(x, y).predict(test) - truth).mean()
        many = ThresholdBoost(one, 50, random_state=seed).fit(x, y)
        gains.append(alone - np.abs(many.predict(test) - truth).mean())
        assert (many.votes_ > 0).all()
    assert np.mean(gains) > 3 * np.std(gains) / 2
    # Rows marked wrong gain weight.
    gap = np.abs(many.estimators_[-1].predict(x) - y)
    once = ThresholdBoost(one, 1, random_state=0).fit(x, y)
    wrong = np.abs(once.estimators_[0].predict(x) - y) > once.threshold_
    assert once.weights_[wrong].min() > once.weights_[~wrong].max()
    assert len(gap) == 300


def test_boost_regress_drucker():
    """boost-regress-drucker: rows are drawn more often the larger their error; the answer is a weighted median."""
    Draws.seen = []
    x = np.arange(100.0)[:, None]
    # The constant 0 errs by the size of the outcome: few rows by 10, more by 1, most by 0.
    y = np.where(x[:, 0] < 5, 10.0, np.where(x[:, 0] < 20, 4.0, 0.0))
    AdaBoostRegressor(Draws(), n_estimators=2, random_state=0).fit(x, y)
    for seed in range(1, 30):
        AdaBoostRegressor(Draws(), n_estimators=2, random_state=seed).fit(x, y)
    drawn = np.array(Draws.seen[1::2]).mean(axis=0)
    assert drawn[:5].mean() > 1.2 * drawn[5:20].mean() > 1.2 * 1.2 * drawn[20:].mean()
    x, y = bends(np.random.default_rng(3))
    found = build(Options(method="drucker", n_estimators=15), "regression").set_params(random_state=0).fit(x, y)
    each = np.array([one.predict(x[:20]) for one in found.estimators_])
    for i, answer in enumerate(found.predict(x[:20])):
        order = np.argsort(each[:, i])
        up_to = np.cumsum(found.estimator_weights_[: len(each)][order])
        assert answer == each[order[np.argmax(up_to >= up_to[-1] / 2)], i]
    assert found.score(x, y) > 0.9


@pytest.mark.parametrize("one", [DecisionTreeRegressor(max_depth=2), LinearRegression()])
def test_boost_residual(one):
    """boost-residual: the training squared error does not rise from stage to stage."""
    x, y = bends(np.random.default_rng(4))
    found = ResidualBoost(one, 60, learning_rate=0.7, random_state=0).fit(x, y)
    assert (np.diff(found.errors_) <= 1e-12).all()
    staged = [np.mean((said - y) ** 2) for said in found.staged_predict(x)]
    np.testing.assert_allclose(staged, found.errors_[1:], rtol=1e-9)
    np.testing.assert_allclose(staged[-1], np.mean((found.predict(x) - y) ** 2))
    if isinstance(one, DecisionTreeRegressor):
        assert found.errors_[-1] < 0.1 * found.errors_[0]


def test_a_fold_without_a_round_has_the_error_of_its_mean():
    """Where the first row is left out the others have one input, and their mean is 0: nothing lowers its error."""
    x, y = np.zeros(11), np.array([3.0, *[1.0, -1.0] * 5])
    x[0] = 1
    spec = {"family": "learner", "learner": "boosted_regression", "target": "y", "n_estimators": 3}
    fit = bl.fit(bl.Model(model=spec), {"x": x, "y": y}, folds=11, seed=1, runs=None)
    training, left_out = fit.learner._staged()
    (fold,) = np.flatnonzero(left_out[:, 0] == 3.0)
    np.testing.assert_array_equal(left_out[fold], 3.0)
    np.testing.assert_array_equal(training[fold], 1.0)


def test_weighted_training():
    """weighted-training: whole weights are copies of rows, for trees, naive Bayes, logistic regression and stumps."""
    rng = np.random.default_rng(5)
    x, y = sample(rng, 120)
    w = rng.integers(1, 4, size=120)
    members = [
        MultiwayTree(tuple(range(10))), GaussianNB(), LogisticRegression(C=10, tol=1e-8, max_iter=2000), Stump(),
    ]  # fmt: skip
    for one in members:
        weighted = one.fit(x, y, sample_weight=w.astype(float)).predict(x)
        copied = one.fit(np.repeat(x, w, axis=0), np.repeat(y, w)).predict(x)
        np.testing.assert_array_equal(weighted, copied)


@pytest.mark.parametrize(
    "ensemble",
    [
        VotingClassifier([MultiwayTree(), GaussianNB(), LogisticRegression(C=10, tol=1e-8, max_iter=2000)]),
        OutputCodes(GaussianNB(), code="one_against_all"),
        OutputCodes(Pipeline([("columns", FunctionTransformer()), ("learner", GaussianNB())]), code="pairwise"),
    ],
)
def test_weighted_training_of_ensembles(ensemble):
    """weighted-training: ensembles hand weights on to their members; whole ones are copies, 0 leaves a row out."""
    rng = np.random.default_rng(7)
    y = np.arange(150) % 3
    x = np.round(rng.normal(size=(150, 3)) + y[:, None] * [1.0, 0.5, 0.0], 1)
    w = rng.integers(0, 4, size=150)
    weighted = ensemble.fit(x, y, sample_weight=w.astype(float))
    answer = "predict_proba" if hasattr(weighted, "predict_proba") else "decision_function"
    first = getattr(weighted, answer)(x)
    second = getattr(ensemble.fit(np.repeat(x, w, axis=0), np.repeat(y, w)), answer)(x)
    np.testing.assert_allclose(first, second, atol=1e-5)
    assert np.abs(first - getattr(ensemble.fit(x, y), answer)(x)).max() > 0.01, "weights do something"


def test_weights_where_members_or_folds_draw_rows():
    """weighted-training: rows that weigh a thousandth are as good as not there, also for members without weights."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(200, 2))
    y = (x[:, 0] > 0).astype(int)
    w = np.where(np.arange(200) < 150, 1.0, 1e-3)
    y[150:] = 1 - y[150:]
    near = VotingClassifier([KNeighborsClassifier(5)], random_state=0).fit(x, y, sample_weight=w)
    assert near.score(x[:150], y[:150]) > 0.95
    numbers = np.where(w == 1, 3 * x[:, 0], 100.0)
    for combiner in ("constrained", "linear", "tree"):
        stacked = StackedClassifier([GaussianNB(), LogisticRegression()], combiner, random_state=0)
        assert stacked.fit(x, y, sample_weight=w).score(x[:150], y[:150]) > 0.95
    for combiner in ("constrained", "linear"):
        lines = StackedRegressor([LinearRegression(), DecisionTreeRegressor()], combiner, random_state=0)
        assert lines.fit(x, numbers, sample_weight=w).score(x[:150], numbers[:150]) > 0.8
    votes = VotingRegressor([LinearRegression(), DecisionTreeRegressor(max_depth=1)], rule="weighted", random_state=0)
    assert votes.fit(x, numbers, sample_weight=w).weights_[0] > 2 * votes.weights_[1]


@pytest.mark.slow(why="statistical")
def test_any_learner_in_adaboost():
    """boost-naive-bayes: in a model file any learner is boosted, with weights also where its columns are scaled first."""
    x, y = disc(np.random.default_rng(9), 300)
    for member, resampled in (("logistic", False), ("kernel_density", True)):
        made = adaboost.build(adaboost.Options(estimator={"learner": member}, n_estimators=5), "classification")
        found = made.set_params(random_state=0).fit(x, y)
        assert found.score(x, y) > 0.95
        assert (weight_name(made.estimator) is None) == resampled
    data = {"a": x[:60, 0], "b": x[:60, 1], "side": np.array(["l", "r"])[y[:60]]}
    spec = {"family": "learner", "learner": "adaboost", "target": "side", "n_estimators": 5}
    fit = bl.fit(bl.Model(model=spec | {"estimator": {"learner": "decision_tree", "max_nodes": 3}}), data, folds=0)
    assert "rounds" in str(fit.summary())


def test_weak_learners_in_adaboost():
    """boost-naive-bayes: any learner from a file, weighted where it takes weights."""
    x, y = sample(np.random.default_rng(6), 200)
    for one in (GaussianNB(), DecisionTreeClassifier(max_depth=2, random_state=0)):
        assert AdaBoost(one, n_estimators=20, random_state=0).fit(x, y).score(x, y) >= one.fit(x, y).score(x, y)


@pytest.mark.slow(why="large")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_boost_digits():
    """boost-digits (F36; the 118,000 rows of the source are not there): nets boosted on the digits that there are."""
    x, y = load_digits(return_X_y=True)
    x = x / 16
    one = MLPClassifier((5,), solver="lbfgs", max_iter=60, random_state=0)
    alone = one.fit(x[:900], y[:900]).score(x[900:], y[900:])
    boosted = AdaBoost(one, n_estimators=10, random_state=0).fit(x[:900], y[:900]).score(x[900:], y[900:])
    assert boosted > alone


def test_ada_benchmark():
    """ada-benchmark (F36; the 27 sets are not there): 22 better, 1 equal, 4 worse is no chance; so on sets at hand."""
    assert stats.binomtest(22, 26).pvalue < 0.001
    better = []
    for load in (load_iris, load_wine, load_breast_cancer):
        x, y = load(return_X_y=True)
        for seed in range(2):
            order = np.random.default_rng(seed).permutation(len(x))
            a, b = order[: len(x) // 2], order[len(x) // 2 :]
            one = DecisionTreeClassifier(max_depth=2, random_state=0)
            alone = one.fit(x[a], y[a]).score(x[b], y[b])
            better.append(AdaBoost(one, n_estimators=40, random_state=0).fit(x[a], y[a]).score(x[b], y[b]) - alone)
    assert np.sum(np.array(better) > 0) > np.sum(np.array(better) < 0)
