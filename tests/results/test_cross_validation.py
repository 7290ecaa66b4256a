"""Models of any kind on the same splits, against scores computed by hand and by scikit-learn."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score

import bayeslab as bl
from bayeslab.results.cross_validation import splits
from tests.refusals import refused

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
TABLE = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "y": 1 + 2 * X[:, 0] + RNG.normal(size=N)})
LINES = bl.Model(name="lines", model={"family": "learner", "learner": "linear", "target": "y"})
BAYES = bl.Model(name="bayes", model={"family": "regression", "formula": "y ~ u + v"})
NEIGHBOUR = bl.Model(name="near", model={"family": "learner", "learner": "knn", "target": "y"})
_IRIS = load_iris()
IRIS = pd.DataFrame(_IRIS.data[:, 2:], columns=["c", "d"]).assign(species=np.array(_IRIS.target_names)[_IRIS.target])
TREE = bl.Model(name="t", model={"family": "learner", "learner": "decision_tree", "target": "species"})
NEAR = bl.Model(
    name="n", model={"family": "learner", "learner": "random_forest", "target": "species", "n_estimators": 10}
)


@pytest.mark.parametrize(("share", "left", "learn"), [(0.999, 60, 0), (0.98, 59, 1), (0.001, 0, 60)])
def test_shares_that_leave_too_few_rows_are_refused(share, left, learn):
    with refused("option.out-of-range", rf"%.*\b60\b.*\b{left}\b.*\b{learn}\b"):
        splits(np.arange(60.0), share, 1, np.random.default_rng(0), classes=False)


def test_splits():
    """holdout, kfold, loocv, validation-set: disjoint, sizes as asked, each row once, by seed."""
    outcome = np.repeat([0, 1, 2], [50, 30, 20])
    found = splits(outcome, 10, 2, np.random.default_rng(1), classes=True)
    assert len(found) == 20
    for split in found:
        assert not set(split.inside) & set(split.outside)
        assert len(split.inside) + len(split.outside) == 100
        assert np.bincount(outcome[split.outside]).tolist() == [5, 3, 2]
    assert sorted(np.concatenate([s.outside for s in found[:10]])) == list(range(100))
    assert not np.array_equal(found[0].outside, found[10].outside)
    again = splits(outcome, 10, 2, np.random.default_rng(1), classes=True)
    assert all(np.array_equal(a.outside, b.outside) for a, b in zip(found, again, strict=True))
    held = splits(outcome, 0.3, 5, np.random.default_rng(2), classes=True)
    assert [len(s.outside) for s in held] == [30] * 5
    assert all(abs(np.bincount(outcome[s.outside]) - [15, 9, 6]).max() <= 1 for s in held)
    one = splits(outcome, "loo", 1, np.random.default_rng(3), classes=True)
    assert sorted(int(s.outside[0]) for s in one) == list(range(100))
    uneven = splits(np.arange(23.0), 5, 1, np.random.default_rng(4), classes=False)
    sizes = [len(s.outside) for s in uneven]
    assert max(sizes) - min(sizes) == 1


@pytest.mark.parametrize("bad", [1, 61, 0.0, 1.5, "five", True])
def test_bad_folds(bad):
    with refused("option.out-of-range", f"(folds|share).*{re.escape(repr(bad))}$"):
        splits(np.arange(60.0), bad, 1, np.random.default_rng(0), classes=False)


@pytest.mark.slow(why="large")
def test_leave_one_out_of_least_squares():
    """loocv: equals separate fits, by the closed form of least squares; the Bayesian model is scored alike."""
    found = bl.cross_validate({"lines": LINES, "bayes": BAYES}, TABLE, folds="loo", progress=False)
    rows = np.column_stack([np.ones(N), X])
    hat = rows @ np.linalg.solve(rows.T @ rows, rows.T)
    left_out = TABLE["y"] - (TABLE["y"] - hat @ TABLE["y"]) / (1 - np.diag(hat))
    # A learner's mean is that of draws around its prediction.
    np.testing.assert_allclose(found.predictions["lines"][0], left_out, atol=0.25)
    assert np.abs(found.predictions["lines"][0] - left_out).mean() < 0.05
    assert np.abs(found.predictions["bayes"][0] - left_out).mean() < 0.1
    assert {"rmse", "mae", "log_score"} <= set(found.measures)
    gap = found.difference("lines", "bayes", "rmse", margin=0.05)
    assert gap.same > 0.9


@pytest.mark.parametrize("outlier", [1.5, 20.0])
def test_densities_of_few_draws_are_in_doubt(outlier):
    """Means over draws of an unknown mean are right for ordinary outcomes, and a note says where they are not."""
    y = np.array([0.3, -0.8, 1.1, 0.2, -0.4, outlier])
    nodes = {"mu": "Normal(0, 10)", "y[row]": "Normal(mu * one, 1)"}
    model = bl.Model(name="mean", data={"rows": "row"}, model={"family": "graph", "nodes": nodes})
    found = bl.cross_validate({"mean": model}, {"y": y, "one": np.ones(len(y))}, folds="loo", progress=False)
    precision = 1 / 100 + len(y) - 1
    exact = stats.norm.logpdf(y, (y.sum() - y) / precision, np.sqrt(1 + 1 / precision)).mean()
    score = found.table.loc["mean", "log_score"]
    if outlier < 2:
        assert score == pytest.approx(exact, abs=0.02)
        assert not found.notes()
    else:
        assert score < exact - 1  # the doubt is not about nothing
        assert any("few draws" in note for note in found.notes())


def test_classes_are_scored_by_hand():
    loss = {
        s: {t: 0.0 if s == t else 1.0 + 4.0 * (t == "virginica") for t in _IRIS.target_names}
        for s in _IRIS.target_names
    }
    found = bl.cross_validate(
        {"tree": TREE, "forest": NEAR}, IRIS, folds=5, repeats=2, loss=loss, progress=False, seed=3
    )
    p, truth = found.predictions["forest"], _IRIS.target
    assert p.shape == (2, 150, 3)
    table = found.table
    assert table.loc["forest", "accuracy"] == pytest.approx(np.mean(p.argmax(axis=2) == truth))
    assert table.loc["forest", "brier"] == pytest.approx(np.mean(((p - np.eye(3)[truth]) ** 2).sum(axis=2)))
    matrix = np.array([[loss[a][s] for a in _IRIS.target_names] for s in _IRIS.target_names])
    cost = np.mean([matrix[truth, (one @ matrix).argmin(axis=1)].mean() for one in p])
    assert table.loc["forest", "cost"] == pytest.approx(cost)
    with np.errstate(divide="ignore"):
        scores = np.log(p[:, np.arange(150), truth])
    assert table.loc["forest", "log_score"] == pytest.approx(scores.mean())
    assert len(found.scores) == 20
    assert set(found.differences().columns) == {"difference", "eti89_lb", "eti89_ub", "better", "same", "worse"}
    calibrated = found.calibration("forest", 5)
    assert calibrated["n"].sum() == pytest.approx(3 * 150), "each row once, however often it was left out"
    assert "5 folds" in repr(found)
    assert "<table" in found._repr_html_()
    assert found.plot().axes
    assert found.plot_calibration().axes


def test_peeking_would_show():
    """cv-peeking: labels that mean nothing. Inputs chosen on all rows look good; chosen inside the folds they do not."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(60, 400)), rng.integers(2, size=60)
    chosen = np.argsort(-np.abs(np.corrcoef(x.T, y)[-1, :-1]))[:5]
    words = np.array(["no", "yes"])[y]
    peeked = pd.DataFrame(x[:, chosen]).add_prefix("x").assign(y=words)
    honest = pd.DataFrame(x[:, :5]).add_prefix("x").assign(y=words)
    spec = bl.Model(name="l", model={"family": "learner", "learner": "logistic", "target": "y"})
    scores = [
        bl.cross_validate({"m": spec}, t, folds=5, progress=False).table.loc["m", "accuracy"] for t in (peeked, honest)
    ]
    assert scores[0] >= 0.7
    assert abs(scores[1] - 0.5) < 4 * 0.5 / np.sqrt(60)


def test_a_bayes_net_and_a_tree():
    """A net with a target and a learner on the same splits (the net's other outcomes are evidence)."""
    from pathlib import Path

    models = Path(__file__).parents[2] / "models"
    found = bl.cross_validate(
        {"net": models / "play_tennis.yaml", "tree": models / "play_tennis_rule.yaml"}, folds="loo", progress=False
    )
    assert found.target == "play"
    # F10: naive Bayes left out is right on 8 of 14 with ML counts; the m-estimate here stays near.
    assert found.table.loc["net", "accuracy"] * 14 == pytest.approx(8, abs=1)
    assert found.table.loc["tree", "accuracy"] * 14 == pytest.approx(11, abs=0.1)


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("folds", ["loo", 10])
def test_rmse_is_of_all_rows(folds):
    """The root of the mean square over rows, also where each split has one; as the fit itself says of its folds."""
    found = bl.cross_validate({"lines": LINES, "near": NEIGHBOUR}, TABLE, folds=folds, progress=False)
    errors = {name: TABLE["y"] - said[0] for name, said in found.predictions.items()}
    rmse = {name: np.sqrt(np.mean(e**2)) for name, e in errors.items()}
    for name in rmse:
        assert found.table.loc[name, "rmse"] == pytest.approx(rmse[name])
        assert found.table.loc[name, "mae"] == pytest.approx(np.abs(errors[name]).mean())
    gap = found.difference("lines", "near", "rmse")
    assert gap.mean == pytest.approx(rmse["near"] - rmse["lines"])
    if folds == "loo":
        # The t-test of squared errors, in the unit of the target.
        squares = (errors["near"] ** 2 - errors["lines"] ** 2) / (rmse["near"] + rmse["lines"])
        assert gap.scale == pytest.approx(np.sqrt((1 / N + 1 / (N - 1)) * squares.var(ddof=1)))


def test_the_unit_changes_no_verdict():
    models = {"lines": LINES, "near": NEIGHBOUR}
    own, others = (
        bl.cross_validate(models, TABLE.assign(y=TABLE["y"] * unit), folds=5, progress=False) for unit in (1, 1000)
    )
    for measure in ("rmse", "mae"):
        a, b = (found.difference("lines", "near", measure) for found in (own, others))
        assert 0.01 < a.same < 0.99 or a.better > 0.9
        assert (b.better, b.same, b.worse) == pytest.approx((a.better, a.same, a.worse))
        assert b.mean == pytest.approx(1000 * a.mean)
    assert own.margin("rmse") == pytest.approx(0.01 * TABLE["y"].std(ddof=0))
    assert "(1 % of the standard deviation of 'y')" in repr(own)
    loss = {"go": {"setosa": 0, "versicolor": 500, "virginica": 500}, "stay": dict.fromkeys(_IRIS.target_names, 100)}
    assert bl.cross_validate({"t": TREE}, IRIS, folds=2, loss=loss, progress=False).margin("cost") == 5


def test_differences_that_coincide_are_no_answer():
    found = bl.cross_validate({"a": TREE, "b": TREE}, IRIS, folds=4, progress=False)
    assert found.differences()[["better", "same", "worse", "eti89_lb"]].isna().all(axis=None)
    (note,) = found.differences().attrs["notes"]
    assert "a − b: accuracy differs by the same in all 4 splits" in note
    assert note in repr(found) and note in found._repr_html_()


def test_leave_one_out_has_no_repeats():
    for folds in ("loo", 150):
        with refused("option.conflict", "repeats"):
            bl.cross_validate({"t": TREE}, IRIS, folds=folds, repeats=3, progress=False)


@pytest.mark.slow(why="statistical")
def test_numbers_or_classes():
    """Of 0 and 1 it depends on the model what they are; models that differ in it are told so before any fit."""
    rng = np.random.default_rng(8)
    table = pd.DataFrame({"u": rng.normal(size=40)}).assign(buy=lambda t: (t["u"] + rng.normal(size=40) > 0) * 1)
    bayes = bl.Model(name="b", model={"family": "regression", "formula": "buy ~ u", "likelihood": "bernoulli"})
    near = {"family": "learner", "learner": "knn", "target": "buy"}
    number = bl.Model(model=near | {"task": "regression"})
    with refused("data.different-data", "'buy'.*'near'.*'bayes'.*'task: classification'"):
        bl.cross_validate({"bayes": bayes, "near": number}, table, progress=False)
    line = bl.Model(name="l", model={"family": "regression", "formula": "buy ~ u"})
    with refused("data.different-data", "'buy'.*'line'"):
        bl.cross_validate({"bayes": bayes, "line": line}, table, progress=False)
    alone = bl.Model(model={"family": "learner", "learner": "linear", "target": "buy", "task": "regression"})
    found = bl.cross_validate({"alone": alone, "near": number}, table, folds=4, progress=False)
    assert found.classes is None and "rmse" in found.measures
    both = {"bayes": bayes, "near": bl.Model(model=near | {"task": "classification"})}
    said = bl.cross_validate(both, table, folds=2, method="map", progress=False)
    assert said.classes == ["0", "1"]
    assert said.table.loc["bayes", "accuracy"] > 0.6


@pytest.mark.slow(why="statistical")
def test_calibration_counts_rows_once():
    """Repeats say the same rows again: intervals do not get narrower by them."""
    widths = []
    for repeats in (1, 20):
        found = bl.cross_validate({"t": NEAR}, IRIS, folds=2, repeats=repeats, progress=False)
        calibrated = found.calibration("t", 1)
        assert calibrated["n"].sum() == pytest.approx(3 * 150)
        widths.append((calibrated["eti89_ub"] - calibrated["eti89_lb"]).mean())
    assert widths[1] == pytest.approx(widths[0], rel=0.05)


def test_faults_are_of_the_tables_rows():
    bad = TABLE.copy()
    bad.loc[3, "u"] = np.inf
    with refused("data.not-finite", "lines.*'u'.*row 4"):
        bl.cross_validate({"lines": LINES}, bad, progress=False)
    with refused("data.not-finite", "bayes") as raised:
        bl.cross_validate({"bayes": BAYES}, bad, folds=3, progress=False)
    assert "row" not in raised.value.message or "row 4" in raised.value.message, raised.value.message
    gone = TABLE.copy()
    gone.loc[[3, 9], "y"] = np.nan
    for model in (LINES, BAYES):
        with refused("data.missing", "'y'.*2.*4.*10"):
            bl.cross_validate({"m": model}, gone, progress=False)


def test_infinite_log_scores_are_explained():
    models = {"tree": TREE, "forest": NEAR}
    found = bl.cross_validate(models, IRIS, folds=5, progress=False, seed=3)
    truth = found.predictions["tree"][0][np.arange(150), _IRIS.target]
    n = int((truth == 0).sum())
    assert n > 0
    (note,) = [x for x in found.notes() if x.startswith("tree")]
    assert f"the class of {n} held-out rows had the predicted probability 0" in note
    assert "calibration: platt" in note
    assert note in repr(found)
    with refused("option.not-finite", "tree"):
        found.difference("tree", "forest", "log_score")
    assert found.differences("log_score")["better"].isna().all()


@pytest.mark.slow(why="statistical")
def test_learning_curve():
    """learning-curve, gen-emp-loss: more rows, fewer errors; bands over repeats."""
    found = bl.learning_curve({"tree": TREE, "forest": NEAR}, IRIS, sizes=[6, 30, 90], repeats=8, progress=False)
    table = found.table("accuracy")
    curve = table[table["model"] == "forest"]["accuracy"].to_numpy()
    assert curve[0] < curve[2]
    assert (table["eti89_lb"] <= table["accuracy"]).all()
    assert found.plot().axes
    with refused("option.out-of-range", "sizes.*149"):
        bl.learning_curve({"tree": TREE}, IRIS, sizes=[150], progress=False)


def test_refused():
    with refused("data.unknown-variable", "'other'"):
        bl.cross_validate({"tree": TREE, "other": BAYES}, IRIS.assign(u=1.0, v=2.0, y=3.0), progress=False)
    with refused("option.incomplete", "'name'"):
        bl.cross_validate({}, IRIS)
    with refused("option.unknown-word", "'f1'"):
        bl.cross_validate({"a": TREE, "b": TREE}, IRIS, folds=3, progress=False).difference("a", "b", "f1")


def test_leave_one_out_of_naive_bayes():
    """loocv (F10): naive Bayes from frequencies is right on 8 of the 14 days of PlayTennis, each left out in turn."""
    from pathlib import Path

    path = Path(__file__).parents[2] / "models" / "play_tennis.yaml"
    content = bl.load(path).to_dict()
    content["model"]["prior"] = {"m_estimate": 1e-9}
    found = bl.cross_validate(
        {"net": bl.Model(**content)}, path.parent / "data" / "play_tennis.csv", folds="loo", progress=False
    )
    assert found.table.loc["net", "accuracy"] * 14 == pytest.approx(8)


@pytest.mark.parametrize("calibration", ["platt", "isotonic"])
@pytest.mark.parametrize("word", ["perceptron", "svm", "knn", "decision_tree", "ecoc", "adaboost"])
def test_probabilities_and_decisions_of_any_learner(word, calibration):
    """Scores made probabilities of rows left out, and the action of least expected loss under a matrix."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(400, 2))
    p = 1 / (1 + np.exp(-2 * x[:, 0]))
    table = pd.DataFrame(x, columns=["u", "v"]).assign(y=np.where(rng.random(400) < p, "yes", "no"))
    spec = {"family": "learner", "learner": word, "target": "y", "calibration": calibration}
    fit = bl.fit(bl.Model(model=spec), table.iloc[:250], folds=0, seed=1, progress=False, runs=None)
    new = table.iloc[250:]
    said = fit.predict(new.drop(columns="y"), "probabilities")["P(y=yes)"].to_numpy()
    happened = (new["y"] == "yes").to_numpy()
    assert ((said >= 0) & (said <= 1)).all()
    # Better than the share of yes; and about as often right as is said.
    assert np.mean((said - happened) ** 2) < 0.95 * np.mean((happened.mean() - happened) ** 2)
    assert abs(said.mean() - happened.mean()) < 4 * np.sqrt(0.25 / 150)
    loss = {"act": {"yes": 0.0, "no": 1.0}, "wait": {"yes": 4.0, "no": 0.0}}
    decided = fit.decide(new.drop(columns="y"), loss)
    clear = np.abs(said - 0.2) > 1e-9  # isotonic shares can be a fifth
    np.testing.assert_array_equal((decided["action"] == "act")[clear], (said > 0.2)[clear])
    np.testing.assert_allclose(decided["expected_loss"], np.minimum(1 - said, 4 * said), atol=1e-9)


@pytest.mark.slow(why="large")
def test_naive_bayes_of_numbers_is_an_estimator():
    """The class is the parent of continuous columns too; with many rows scikit-learn's naive Bayes says the same."""
    from sklearn.naive_bayes import GaussianNB

    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, 600)
    x = rng.normal(size=(600, 2)) * np.where(y[:, None] == 1, [1.0, 0.5], [1.5, 1.0]) + y[:, None] * [1.0, -0.5]
    names = np.array(["no", "yes"])[y]
    variables = {"u": {"linear_gaussian": {}}, "v": {"linear_gaussian": {}}, "y": ["no", "yes"]}
    net = bl.Model(model={"family": "bayes_net", "target": "y", "structure": "naive_bayes", "variables": variables})
    own = bl.estimator(net, seed=1).fit(pd.DataFrame(x, columns=["u", "v"]), names)
    few = pd.DataFrame(x[:30], columns=["u", "v"])
    theirs = GaussianNB().fit(x, names).predict_proba(x[:30])
    np.testing.assert_allclose(own.predict_proba(few), theirs, atol=0.05)
    with refused("model.unknown-variable", "'w'"):
        bl.estimator(net, target="w")


def test_estimators():
    """Every model with a target is a scikit-learn estimator, Bayesian or not."""
    bayes, lines = bl.estimator(BAYES), bl.estimator(LINES)
    truth = LinearRegression()
    for made in (bayes, lines):
        own = cross_val_score(made, TABLE[["u", "v"]], TABLE["y"], cv=4)
        theirs = cross_val_score(truth, TABLE[["u", "v"]], TABLE["y"], cv=4)
        np.testing.assert_allclose(own, theirs, atol=0.05)
    tree = bl.estimator(TREE).fit(IRIS[["c", "d"]], IRIS["species"])
    assert tree.score(IRIS[["c", "d"]], IRIS["species"]) > 0.9
    # Rows are left out by whoever scores an estimator, and inside fit only when asked for.
    assert "cross_validation" not in tree.fit_.data_tree.children
    asked = bl.estimator(TREE, folds=3).fit(IRIS[["c", "d"]], IRIS["species"])
    assert asked.fit_.data_tree["cross_validation"].sizes["fold"] == 3
    np.testing.assert_allclose(tree.predict_proba(IRIS[["c", "d"]]).sum(axis=1), 1)
    array = bl.estimator(bl.Model(name="a", model={"family": "learner", "learner": "linear", "target": "y"}))
    assert array.fit(X, TABLE["y"]).score(X, TABLE["y"]) > 0.5
    with pytest.raises(ValueError, match="X has 1 features, but WeightedRegressor is expecting 2"):
        array.predict(X[:, :1])
    with refused("model.incomplete", "outcome"):
        bl.estimator(bl.Model(name="g", model={"family": "graph", "nodes": {"m": "Normal(0, 1)"}}))


@pytest.mark.slow(why="large")
def test_curves_have_the_same_rmse():
    """One row left out at a time: curves by size and by option say what cross-validation says, not the mean error."""
    found = bl.cross_validate({"near": NEIGHBOUR}, TABLE, folds="loo", progress=False).table.loc["near"]
    by_option = bl.validation_curve(NEIGHBOUR, "n_neighbors", [5], TABLE, folds="loo", progress=False).table("rmse")
    assert by_option["left_out"][0] == pytest.approx(found["rmse"]) != found["mae"]
    by_size = bl.learning_curve({"near": NEIGHBOUR}, TABLE, sizes=[N - 1], repeats=20, progress=False)
    each = by_size.scores["mae"].to_numpy()
    assert by_size.table("rmse")["rmse"][0] == pytest.approx(np.sqrt(np.mean(each**2)))


def test_a_loss_is_of_classes():
    model = bl.Model(name="line", data={"rows": "row"}, model=bl.Regression(formula="y ~ x"))
    data = {"x": np.arange(12.0), "y": np.arange(12.0) % 3}
    with refused("option.not-applicable", "loss.*'y'") as caught:
        bl.cross_validate({"line": model}, data, folds=3, loss="absolute")
    assert caught.value.code.endswith("not-applicable")


@pytest.mark.slow(why="statistical")
def test_a_learner_of_numbers_has_densities_and_a_count_a_probability():
    rng = np.random.default_rng(3)
    x = rng.normal(size=40)
    data = {"x": x, "k": rng.poisson(np.exp(0.5 * x))}
    counts = bl.Model(name="m", data={"rows": "row"}, model=bl.Regression(formula="k ~ x", likelihood="poisson"))
    words = {"family": "learner", "learner": "linear", "target": "k", "inputs": ["x"], "task": "regression"}
    line = bl.Model(name="m", data={"rows": "row"}, model=words)
    found = bl.cross_validate({"counts": counts, "line": line}, data, folds=3, seed=1, draws=100, chains=2)
    assert "log_score" not in found.table
    assert any("log score" in note for note in found.notes())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"family": "mixture", "components": 2}, "'x'"),
        ({"family": "hmm", "states": 2, "emission": "gaussian"}, "the sequence of states"),
    ],
)
def test_models_without_a_target_are_refused(words, why):
    data = {"x": np.concatenate([np.arange(10.0), 50 + np.arange(10.0)])}
    model = bl.Model(name="m", data={"rows": "row"}, model={**words, "columns": ["x"]})
    with pytest.raises(bl.BayeslabError) as caught:
        bl.cross_validate({"m": model}, data, folds=2, seed=1, method="em")
    assert why in caught.value.message


def test_classes_are_compared_by_name():
    """Models whose levels have another order, or one that no row has, give the same probabilities to the same words."""
    kinds = ["virginica", "unborn", "setosa", "versicolor"]
    models = {
        "plain": TREE,
        "more": bl.Model(name="m", dims={"species": kinds}, model=TREE.model),
        "turned": bl.Model(name="u", dims={"species": [k for k in kinds if k != "unborn"]}, model=TREE.model),
    }
    for order in (["plain", "more", "turned"], ["more", "turned", "plain"], ["turned", "plain", "more"]):
        both = bl.cross_validate({name: models[name] for name in order}, IRIS, folds=3, progress=False, seed=1)
        assert set(both.classes) >= set(IRIS["species"])
        for name in order[1:]:
            np.testing.assert_allclose(both.predictions[name], both.predictions[order[0]])
        assert both.table["accuracy"].min() > 0.9


@pytest.mark.slow(why="compiles")
def test_computed_targets():
    """A target that the data section computes has the scores of one in the table; unlike ones are refused."""
    table = TABLE.assign(z=np.exp(TABLE["y"]))
    inner = {"family": "learner", "learner": "linear", "target": "t", "inputs": ["u", "v"]}
    line = {"family": "regression", "formula": "t ~ u + v"}

    def both(**data):
        return {"a": bl.Model(name="a", data=data, model=inner), "b": bl.Model(name="b", data=data, model=line)}

    computed = bl.cross_validate(both(derive={"t": "log(z)"}), table, folds=3, progress=False).table
    given = bl.cross_validate(both(), table.assign(t=np.log(table["z"])), folds=3, progress=False).table
    assert "log_score" in computed
    np.testing.assert_allclose(computed.loc[given.index], given, rtol=1e-6)
    mixed = {"a": both(derive={"t": "log(z)"})["a"], "b": both(derive={"t": "z / 10"})["b"]}
    with refused("data.different-data", "'a' and 'b'.*'t', row 1"):
        bl.cross_validate(mixed, table, progress=False)
    kinds = bl.Model(
        name="k", data={"derive": {"t": "log(z)"}}, model={"family": "mixture", "columns": ["t", "u"], "components": 2}
    )
    with refused("option.not-applicable", "'t' is computed"):
        bl.cross_validate({"k": kinds}, table, folds=2, target="t", method="em", progress=False)
    with refused("option.not-applicable", "'t' is computed"):
        bl.fit(kinds, table, "em", runs=None, progress=False).decide(table[:2], "squared", node="t")


@pytest.mark.parametrize("seed", [-1, "a", 1.5, True])
def test_seeds_are_whole_numbers(seed):
    with refused("option.out-of-range", "seed"):
        bl.cross_validate({"a": LINES}, TABLE, seed=seed, progress=False)
    with refused("option.out-of-range", "seed"):
        bl.learning_curve({"a": LINES}, TABLE, sizes=[20], seed=seed, progress=False)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"sizes": []}, "wrong-type"),
        ({"sizes": 5}, "wrong-type"),
        ({"sizes": [5], "repeats": 0}, "out-of-range"),
        ({"sizes": [5], "repeats": "two"}, "out-of-range"),
    ],
)
def test_learning_curves_of_nothing_are_refused(options, code):
    with refused(f"option.{code}"):
        bl.learning_curve({"a": LINES}, TABLE, progress=False, **options)


def test_scores_and_intervals_of_curves_are_known():
    curve = bl.learning_curve({"a": LINES}, TABLE, sizes=[20], repeats=2, progress=False)
    with refused("option.unknown-word", "'mse'.*'rmse'"):
        curve.table("mse")
    with refused("option.out-of-range", "ci_prob"):
        curve.table(ci_prob=2)


@pytest.mark.parametrize("loss", ["squared", [["a", "b"]], {"act": 3}])
def test_losses_are_of_actions_and_states(loss):
    with refused("option.wrong-type"):
        bl.cross_validate({"t": TREE}, IRIS, folds=2, loss=loss, progress=False)


def test_names_are_text_in_html():
    script = "<script>alert(1)</script>"
    table = IRIS.assign(**{script: [script + word for word in IRIS["species"]]}).drop(columns="species")
    rule = bl.Model(name="r", model={"family": "learner", "learner": "decision_tree", "target": script})
    found = bl.cross_validate({script: rule, "b": rule}, table, folds=3, progress=False)
    assert any(script in note for note in found.notes())
    assert "<script" not in found._repr_html_() and "&lt;script" in found._repr_html_()
