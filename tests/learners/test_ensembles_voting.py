"""Voting rules against their arithmetic, and members named in a model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import bayeslab as bl
from bayeslab.learners.voting import (
    Options,
    VotingClassifier,
    VotingRegressor,
    build,
    combined,
    majority_error,
    posterior_weights,
    variance_of_mean,
)
from tests.refusals import refused

# Three learners, three classes (F36).
TABLE = np.array([[[0.2, 0.5, 0.3]], [[0.0, 0.6, 0.4]], [[0.4, 0.4, 0.2]]])
IRIS = load_iris(return_X_y=True)


class Says(ClassifierMixin, BaseEstimator):
    """The class of a column, whatever is trained on."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[X[:, self.column].astype(int)]


class Wild(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.size_ = 1e6
        return self

    def predict(self, X):
        return np.full(len(X), 1e6)


class Scaled(ClassifierMixin, BaseEstimator):
    """Naive Bayes scores, times a number."""

    def __init__(self, by=1.0):
        self.by = by

    def fit(self, X, y):
        self.inside_ = LinearDiscriminantAnalysis().fit(X, y)
        self.classes_ = self.inside_.classes_
        return self

    def decision_function(self, X):
        return self.by * self.inside_.decision_function(X) + 3 * self.by

    def predict(self, X):
        return self.inside_.predict(X)


def test_vote_majority_5():
    """vote-majority-5 (F30): 0.00856, below 1 in 100; by counting as well."""
    assert majority_error(5, 0.1) == pytest.approx(0.00856, abs=1e-12)
    counted = sum(0.1 ** sum(w) * 0.9 ** (5 - sum(w)) for w in np.ndindex(2, 2, 2, 2, 2) if sum(w) > 2)
    assert majority_error(5, 0.1) == pytest.approx(counted)
    with refused("option.out-of-range", "voters.*4"):
        majority_error(4, 0.1)


def test_vote_hansen_salamon():
    """vote-hansen-salamon (F30): below one half errors fall with voters; above it they rise."""
    found = [majority_error(n, 0.1) for n in (1, 3, 5, 11, 21)]
    np.testing.assert_allclose(found, [0.1, 0.028, 0.00856, 0.000295706, 0.00000135306], rtol=1e-5)
    assert (np.diff([majority_error(n, 0.45) for n in range(1, 40, 2)]) < 0).all()
    assert (np.diff([majority_error(n, 0.55) for n in range(1, 40, 2)]) > 0).all()


def test_hansen_salamon_with_learners():
    """vote-hansen-salamon: independent voters of 20 % error, simulated, vote as the formula says."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=4000)
    x = np.where(rng.random((4000, 7)) < 0.2, 1 - y[:, None], y[:, None]).astype(float)
    found = VotingClassifier([Says(j) for j in range(7)], rule="plurality").fit(x, y)
    truth = majority_error(7, 0.2)
    assert abs(np.mean(found.predict(x) != y) - truth) < 4 * np.sqrt(truth * (1 - truth) / 4000)


def test_vote_simple():
    """vote-simple: a unanimous vote gives that class, and of two classes the winner has more than half."""
    same = np.tile(TABLE[:1], (3, 1, 1))
    assert combined(same, "plurality").argmax() == 1
    np.testing.assert_allclose(combined(same, "plurality")[0], [0, 1, 0])
    votes = np.random.default_rng(1).random((5, 50, 2))
    assert (combined(votes, "plurality").max(axis=1) > 0.5).all()


def test_vote_weighted():
    """vote-weighted: equal weights are the simple vote; weight 0 has no effect; accuracy on rows left out weighs."""
    np.testing.assert_allclose(combined(TABLE, "weighted", [2, 2, 2]), combined(TABLE, "sum"))
    np.testing.assert_allclose(combined(TABLE, "weighted", [1, 1, 0]), combined(TABLE[:2], "sum"))
    rng = np.random.default_rng(2)
    y = np.arange(300) % 2
    x = np.column_stack([y, rng.integers(2, size=300)]).astype(float)
    found = VotingClassifier([Says(0), Says(1)], rule="weighted", random_state=0).fit(x, y)
    assert found.weights_[0] > 5 * found.weights_[1]
    assert found.score(x, y) == 1
    with refused("option.out-of-range", r"weights.*-1\.0"):
        combined(TABLE, "weighted", [1, -1, 1])


def test_vote_rules():
    """vote-rules (F36): the values; the product has a veto; the median is robust."""
    expected = {
        "sum": [0.2, 0.5, 0.3], "median": [0.2, 0.5, 0.3], "min": [0, 0.4, 0.2], "max": [0.4, 0.6, 0.4],
        "product": [0, 0.12, 0.024],
    }  # fmt: skip
    for rule, values in expected.items():
        np.testing.assert_allclose(combined(TABLE, rule)[0], values, atol=1e-12)
    many = np.concatenate([np.tile([[[0.9, 0.1]]], (9, 1, 1)), [[[0.0, 1.0]]]])
    assert combined(many, "product").argmax() == 1
    assert combined(many, "sum").argmax() == combined(many, "median").argmax() == 0
    np.testing.assert_allclose(combined(many, "median")[0], [0.9, 0.1])


def test_all_vetoed():
    """Where every class has a veto the probabilities are equal, and no warning of 0/0."""
    x, y = np.arange(20.0)[:, None] % 2, np.arange(20) % 2
    found = VotingClassifier([Says(0), Says(1)], rule="product").fit(np.column_stack([x, 1 - x]), y)
    np.testing.assert_allclose(found.predict_proba(np.column_stack([x, 1 - x])), 0.5)


def test_vote_median_reg():
    """vote-median-reg: one wild learner moves the mean, not the median."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 1))
    y = 2 * x[:, 0] + rng.normal(0, 0.1, 60)
    members = [LinearRegression(), LinearRegression(fit_intercept=False), Wild()]
    median = VotingRegressor(members, rule="median").fit(x, y)
    mean = VotingRegressor(members).fit(x, y)
    assert median.score(x, y) > 0.99
    assert mean.score(x, y) < 0
    weighted = VotingRegressor(members, rule="weighted", random_state=0).fit(x, y)
    assert weighted.score(x, y) > 0.99


def test_vote_normalise():
    """vote-normalise: a member whose raw scores are a thousand times as large decides no more than before."""
    x, y = IRIS
    answers = []
    for by in (1.0, 1000.0, 0.01):
        found = VotingClassifier([Scaled(by), GaussianNB(), Scaled(1.0)], normalise=True).fit(x, y)
        answers.append(found.predict_proba(x))
        assert found.score(x, y) > 0.9
    np.testing.assert_allclose(answers[1], answers[0], atol=1e-9)
    np.testing.assert_allclose(answers[2], answers[0], atol=1e-9)


def test_vote_bayes():
    """vote-bayes: weights are the posterior of the models, so that the vote is model averaging."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=40)
    densities = np.array([stats.norm.logpdf(x, m, 1) for m in (0.0, 0.2, 3.0)])
    by_hand = np.exp(densities.sum(axis=1))
    np.testing.assert_allclose(posterior_weights(densities), by_hand / by_hand.sum())
    table, y = IRIS
    members = [GaussianNB(), LinearDiscriminantAnalysis()]
    found = VotingClassifier(members, rule="bayesian", random_state=0).fit(table, y)
    w = found.weights_ / found.weights_.sum()
    each = np.array([one.fit(table, y).predict_proba(table) for one in members])
    np.testing.assert_allclose(found.predict_proba(table), w[0] * each[0] + w[1] * each[1], atol=1e-12)


def test_vote_variance():
    """vote-variance (F36): Var/L of independent outputs, and covariances, by simulation."""
    rng = np.random.default_rng(5)
    assert variance_of_mean(np.eye(8) * 2.0) == pytest.approx(2.0 / 8)
    root = rng.normal(size=(4, 4))
    covariance = root @ root.T
    drawn = rng.multivariate_normal(np.zeros(4), covariance, size=20_000).mean(axis=1)
    truth = variance_of_mean(covariance)
    by_formula = (np.trace(covariance) + 2 * np.tril(covariance, -1).sum()) / 16
    assert truth == pytest.approx(by_formula)
    assert abs(drawn.var() - truth) < 4 * truth * np.sqrt(2 / 20_000)


@pytest.mark.slow(why="statistical")
def test_members_in_a_model():
    x, y = IRIS[0][::3], IRIS[1][::3]
    data = {f"x{j}": x[:, j] for j in range(4)} | {"kind": [("a", "b", "c")[k] for k in y]}
    content = {
        "family": "learner",
        "learner": "voting",
        "target": "kind",
        "learners": [{"learner": "logistic", "C": 2.0}, {"learner": "decision_tree"}],
        "rule": "weighted",
    }
    fit = bl.fit(bl.Model(model=content), data=data, seed=1)
    assert "weight" in str(fit.summary())
    wrong = content | {"learners": [{"learner": "logistik"}]}
    with refused("model.not-allowed", "'logistik'", where="model.learners"):
        bl.Model(model=wrong)
    wrong = content | {"learners": [{"learner": "logistic", "CC": 1}]}
    with refused("model.not-allowed", "'CC'", where="model.learners"):
        bl.Model(model=wrong)


def test_columns_of_names_reach_each_member_as_it_needs_them():
    """A tree sees codes, a linear classifier indicators: both learn what no order of the codes shows."""
    rng = np.random.default_rng(6)
    x = np.column_stack([rng.normal(size=200), rng.integers(5, size=200)])
    y = np.isin(x[:, 1], (1, 3)).astype(int)
    for word in ("logistic", "decision_tree"):
        members = build(Options(learners=[{"learner": word}]), "classification", (1,))
        assert members.fit(x, y).score(x, y) == 1
    assert VotingClassifier([DecisionTreeClassifier()]).fit(x, y.astype(str)).predict(x)[0] in ("0", "1")


def test_bad_options():
    with pytest.raises(ValueError, match="2 weights for 1 learners"):
        build(Options(learners=[{"learner": "logistic"}], weights=[1.0, 2.0]), "classification")
    with pytest.raises(ValueError, match="logistic does 'classification', not regression"):
        build(Options(learners=[{"learner": "logistic"}]), "regression")
    with pytest.raises(ValueError, match="numbers have no product"):
        VotingRegressor(rule="product").fit(np.zeros((4, 1)), np.arange(4.0))
    with pytest.raises(ValueError, match="5 folds need 5 rows"):
        VotingClassifier(rule="weighted").fit(np.zeros((4, 1)), np.arange(4) % 2)
    with pytest.raises(ValueError, match="one class"):
        VotingClassifier().fit(np.zeros((4, 1)), np.zeros(4))
