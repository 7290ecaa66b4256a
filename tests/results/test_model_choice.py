"""Choosing among models: sizes, validation sets, losses, penalties, inputs, more data, rules of thumb."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold

import bayeslab as bl
from bayeslab.decisions.loss import Asymmetric, from_probabilities, incurred
from bayeslab.learners.knn import KNNClassifier
from bayeslab.learners.recursive_least_squares import RecursiveLeastSquares
from bayeslab.results.cross_validation import splits
from bayeslab.theory.method_choice import suggested
from tests.refusals import refused


def learner(word: str, target: str = "y", **options) -> bl.Model:
    return bl.Model(name=word, model={"family": "learner", "learner": word, "target": target} | options)


def switched(rng: np.random.Generator, n: int, noise: float = 0.12) -> pd.DataFrame:
    """Three tests, seven nodes: of the first input's two sides the second and the third decide; five say nothing."""
    x = rng.integers(0, 2, (n, 8))
    x[:, 1] = rng.random(n) < 0.85
    x[:, 2] = rng.random(n) < 0.15
    y = np.where(x[:, 0] == 1, x[:, 1], x[:, 2])
    y = np.where(rng.random(n) < noise, 1 - y, y)
    return pd.DataFrame(np.where(x, "t", "f"), columns=list("abcdefgh")).assign(y=np.where(y, "yes", "no"))


def naive_bayes(table: pd.DataFrame) -> bl.Model:
    levels = {str(name): sorted(map(str, table[name].unique())) for name in table}
    spec = {"family": "bayes_net", "target": "y", "structure": "naive_bayes", "prior": {"m_estimate": 1}}
    return bl.Model(name="naive Bayes", model=spec | {"variables": levels})


TREE = learner("decision_tree", significance=None)
SIZES = [1, 3, 7, 15, 31, 61, 121, 241, 361, 481]


@pytest.mark.slow(why="statistical")
def test_size_search():
    """cv-wrapper (F21: seven nodes): on rows left out the planted size errs least; the search ends by itself.

    overfit-demo: the error of the rows fitted to falls with the size; that of rows left out falls, then rises.
    """
    table = switched(np.random.default_rng(0), 300)
    found = bl.validation_curve(TREE, "max_nodes", SIZES, table, folds=5, settled=2, progress=False)
    assert found.best() == 7
    assert found.values == SIZES[: len(found.values)]
    assert len(found.values) < len(SIZES), "nothing larger can fit better"
    curve = found.table("accuracy")
    assert (np.diff(curve["training"]) >= 0).all()
    left_out = curve["left_out"].to_numpy()
    at = found.values.index(7)
    assert (np.diff(left_out[: at + 1]) >= 0).all()
    assert left_out[at] > left_out[0] + 0.1
    assert left_out[at] > left_out[-1] + 0.05, "the largest fits noise"
    assert curve["training"].iloc[-1] > left_out[-1] + 0.15
    assert "best: max_nodes = 7" in repr(found)
    assert found.plot().axes


def test_size_search_by_hand():
    """cv-wrapper: scores are those of the same model on the same splits, compared by itself."""
    table = switched(np.random.default_rng(1), 60)
    found = bl.validation_curve(TREE, "max_nodes", [3, 9], table, folds=3, seed=4, progress=False)
    for place, size in enumerate((3, 9)):
        own = bl.cross_validate(
            {"m": learner("decision_tree", significance=None, max_nodes=size)}, table, folds=3, seed=4, progress=False
        )
        assert found.table("brier")["left_out"][place] == pytest.approx(own.table.loc["m", "brier"])
    with refused("model.unknown-option", where="model.max_node"):
        bl.validation_curve(TREE, "max_node", [3], table, progress=False)
    with refused("option.out-of-range", "values"):
        bl.validation_curve(TREE, "max_nodes", [], table, progress=False)
    with refused("option.unknown-word", "'f1'"):
        found.best("f1")


def test_size_search_of_bayesian_models():
    """Options of any family, also nested ones: the prior of a net of discrete variables."""
    table = switched(np.random.default_rng(2), 80)
    net = naive_bayes(table)
    found = bl.validation_curve(net, "prior.m_estimate", [0.1, 1, 1000], table, folds=4, progress=False)
    assert found.best("log_score") != 1000


@pytest.mark.slow(why="large")
def test_validation_set():
    """validation-set: of a three-way split the error of the chosen model on the test rows, used once, is unbiased.

    Labels are coin throws, so that every model errs on one half of new rows; on the rows that chose it, it errs less.
    """
    rng = np.random.default_rng(3)
    chosen, tested = [], []
    for _ in range(120):
        x, y = rng.normal(size=(60, 2)), rng.integers(2, size=60)
        (outer,) = splits(y, 1 / 3, 1, rng, classes=False)
        (inner,) = splits(y[outer.inside], 0.5, 1, rng, classes=False)
        train, check = outer.inside[inner.inside], outer.inside[inner.outside]
        assert sorted([*train, *check, *outer.outside]) == list(range(60))
        models = [KNNClassifier(k, p=p).fit(x[train], y[train]) for k in (1, 5, 15) for p in (1, np.inf)]
        errors = [1 - one.score(x[check], y[check]) for one in models]
        chosen.append(min(errors))
        tested.append(1 - models[int(np.argmin(errors))].score(x[outer.outside], y[outer.outside]))
    assert abs(np.mean(tested) - 0.5) < 4 * np.std(tested) / np.sqrt(120)
    assert np.mean(chosen) < 0.5 - 4 * np.std(chosen) / np.sqrt(120)


def test_empirical_loss_tends_to_the_generalisation_loss():
    """gen-emp-loss: of least squares on d normal inputs σ²(1 − d/N) and σ²(1 + d/(N − d − 1)): the gap closes with N."""
    rng = np.random.default_rng(4)
    weights, sigma, gaps = np.array([1.0, -2.0, 0.5]), 0.7, []
    for n, runs in ((15, 600), (60, 300), (1500, 40)):
        empirical, general = np.empty(runs), np.empty(runs)
        for i in range(runs):
            x = rng.normal(size=(n, 3))
            y = x @ weights + sigma * rng.normal(size=n)
            found = RecursiveLeastSquares(ridge=1e-10).fit(x, y)
            empirical[i] = incurred(y, found.predict(x), "squared").mean()
            # Over all inputs, in closed form.
            general[i] = sigma**2 + np.sum((found.coef_ - weights) ** 2) + found.intercept_**2
        expected = sigma**2 * (1 - 4 / n)
        assert abs(empirical.mean() - expected) < 4 * empirical.std() / np.sqrt(runs)
        assert general.mean() > sigma**2
        gaps.append(abs(general - empirical).mean())
    assert gaps[0] > 3 * gaps[1] > 3 * gaps[2]
    assert gaps[2] < 0.05


def test_loss_functions():
    """loss-functions (F21): the three formulas, a matrix, nothing for what is right, and the threshold 10/11."""
    for loss, expected in (("absolute", 1e-6), ("squared", 1e-12), ("zero_one", 1.0)):
        assert incurred(137.036, 137.035999, loss) == pytest.approx(expected, rel=1e-4)
    y, said = np.array([1.0, -2.0, 3.0]), np.array([1.0, 1.0, 2.5])
    np.testing.assert_allclose(incurred(y, said, "absolute"), [0, 3, 0.5])
    np.testing.assert_allclose(incurred(y, said, "squared"), [0, 9, 0.25])
    np.testing.assert_allclose(incurred(y, said, "zero_one"), [0, 1, 1])
    np.testing.assert_allclose(incurred(y, said, Asymmetric(9, 1)), [0, 3, 4.5])
    np.testing.assert_array_equal(incurred(np.array(["spam", "mail"]), np.array(["spam", "spam"]), "zero_one"), [0, 1])
    # States and actions: spam, no spam.
    mail = np.array([[0.0, 1.0], [10.0, 0.0]])
    assert incurred(0, 1, mail) == 1
    assert incurred(1, 0, mail) == 10
    for loss in ("absolute", "squared", "zero_one"):
        assert incurred(y, y, loss).sum() == 0
    assert (np.diagonal(mail) == 0).all()
    p = np.array([10 / 11 - 1e-9, 10 / 11 + 1e-9])
    np.testing.assert_array_equal(from_probabilities(np.column_stack([p, 1 - p]), mail).action, [1, 0])
    # One percent of errors of the mild kind rather than half a percent of the other.
    states = np.repeat([0, 1], 1000)
    mild, bad = states.copy(), states.copy()
    mild[:20], bad[1000:1010] = 1, 0
    assert incurred(states, mild, mail).mean() == pytest.approx(0.01)
    assert incurred(states, bad, mail).mean() == pytest.approx(0.05)
    with refused("option.unknown-word", "'cubic'"):
        incurred(y, said, "cubic")  # type: ignore[arg-type]


def test_regularization():
    """regularization: without a penalty least squares; the penalty that cross-validation chooses errs least of all."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(40, 12))
    y = x[:, 0] + rng.normal(size=40)
    table = pd.DataFrame(x).add_prefix("x").assign(y=y)
    plain = LinearRegression().fit(x, y).predict(x)
    for options in ({"penalty": "none"}, {"penalty": "ridge", "alpha": 1e-12}):
        said = bl.fit(learner("linear", **options), table, folds=0, progress=False).predict(kind="mean")["mean"]
        np.testing.assert_allclose(said, plain, atol=1e-6)
    alphas = [0.01, 1.0, 10.0, 30.0, 100.0, 1000.0]
    fit = bl.fit(learner("linear", penalty="ridge", tune={"alpha": alphas}), table, folds=0, seed=6, progress=False)
    errors = []
    for alpha in alphas:
        each = []
        for inside, outside in KFold(5, shuffle=True, random_state=6).split(x):
            centre, spread = x[inside].mean(axis=0), x[inside].std(axis=0)
            one = Ridge(alpha).fit((x[inside] - centre) / spread, y[inside])
            each.append(np.mean((one.predict((x[outside] - centre) / spread) - y[outside]) ** 2))
        errors.append(np.mean(each))
    best = alphas[int(np.argmin(errors))]
    assert 0.01 < best < 1000
    assert f"tuning chose alpha = {best}" in str(fit.verdict)


def test_feature_selection():
    """feature-selection: planted inputs without use are dropped by the lasso, and never tested by a χ²-pruned tree."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(600, 12))
    table = pd.DataFrame(x).add_prefix("x").assign(y=2 * x[:, 0] - x[:, 1] + x[:, 2] + rng.normal(size=600))
    fit = bl.fit(learner("linear", penalty="lasso", alpha=0.15), table, folds=0, progress=False)
    weights = fit.posterior["weight"].to_numpy().ravel()
    assert (weights[:3] != 0).all()
    assert (weights[3:] == 0).all()
    for n in (500, 8000):
        rows = switched(rng, n)
        tree = bl.fit(learner("decision_tree", significance=0.001), rows, folds=0, progress=False)
        nodes = tree.learner.learner.root_.walk()
        tested = {node.column for node in nodes if node.column is not None}
        assert tested == {0, 1, 2}


@pytest.mark.slow(why="large")
def test_more_data_beat_a_better_learner():
    """word-sense (F33; the texts are not there): the worst of five learners with more words beats the best with few."""
    rng = np.random.default_rng(8)
    sense = rng.integers(2, size=1600)
    chance = np.clip(0.5 + rng.normal(0, 0.12, (2, 24)), 0.05, 0.95)
    words = rng.random((1600, 24)) < chance[sense]
    table = pd.DataFrame(np.where(words, "there", "not")).add_prefix("w").assign(y=np.where(sense, "bank", "shore"))
    five = {
        "naive Bayes": naive_bayes(table),
        "logistic": learner("logistic"),
        "perceptron": learner("perceptron", max_iter=20),
        "neighbours": learner("knn", n_neighbors=15),
        "forest": learner("random_forest", n_estimators=50),
    }
    found = bl.learning_curve(five, table, sizes=[30, 1000], repeats=3, progress=False).table("accuracy")
    few, many = (found[found["size"] == n]["accuracy"] for n in (30, 1000))
    assert len(few) == 5
    assert many.min() > few.max()


@pytest.mark.slow(why="statistical")
def test_house_prices():
    """house-price-features: missing cells are learned from, and the asking price lowers the error on other houses."""
    rng = np.random.default_rng(9)
    n = 160
    size, age, place = rng.uniform(50, 250, n), rng.uniform(0, 80, n), rng.normal(size=n)
    price = 2.0 * size - 1.0 * age + 60 * place + rng.normal(0, 15, n)
    houses = pd.DataFrame({"size": size, "age": np.where(rng.random(n) < 0.2, np.nan, age), "price": price})
    asking = houses.assign(asking=price * 1.05 + rng.normal(0, 20, n))
    # The place has a price that sellers know and no column holds.
    forest = learner("random_forest", "price", n_estimators=30)
    scores = [
        bl.cross_validate({"forest": forest}, t, folds=0.4, repeats=2, progress=False).table.loc["forest", "rmse"]
        for t in (houses, asking)
    ]
    assert scores[1] < 0.7 * scores[0]
    assert scores[0] < 0.9 * price.std(), "also without, better than the mean"
    with refused("data.missing", "'age'.*row 1.*linear.*'random_forest'"):
        bl.fit(learner("linear", "price"), houses, progress=False)


def test_choose_method():
    """choose-method: the rules give a tree, neighbours and a support vector machine in the three cases they describe."""
    assert suggested(500, 40, 35, irrelevant=True)[0].learner == "decision_tree"
    assert suggested(200_000, 8)[0].learner == "knn"
    assert suggested(2_000, 60)[0].learner == "svm"
    assert [one.learner for one in suggested(20_000, 10, 10, irrelevant=True)] == ["decision_tree", "knn", "svm"]
    assert suggested(1_000_000, 300)[0].learner == "random_forest"
    for one in suggested(20_000, 10, 10, irrelevant=True):
        assert bl.Model(model={"family": "learner", "learner": one.learner, "target": "y"})
    with refused("option.out-of-range", "n_rows"):
        suggested(0, 3)
