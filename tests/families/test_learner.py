"""Learners as models: what a file may say, training, predictions, an earlier run again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

import bayeslab as bl
from bayeslab import registry
from tests.refusals import refused

MODELS = Path(__file__).parents[2] / "models"
_IRIS = load_iris()
IRIS = pd.DataFrame(_IRIS.data, columns=["a", "b", "c", "d"]).assign(species=np.array(_IRIS.target_names)[_IRIS.target])
_DIABETES = load_diabetes(scaled=False)
DIABETES = pd.DataFrame(_DIABETES.data, columns=_DIABETES.feature_names).assign(y=_DIABETES.target)


def model(**spec) -> bl.Model:
    return bl.Model(name="m", model={"family": "learner", **spec})


def fit(spec: bl.Model, data, **options) -> bl.Fit:
    return bl.fit(spec, data, seed=1, progress=False, runs=None, **options)


def test_options_stand_beside_the_family():
    made = model(learner="random_forest", target="y", n_estimators=7, tune={"max_depth": [1, 2]})
    assert made.to_dict()["model"] == {
        "family": "learner", "learner": "random_forest", "target": "y", "tune": {"max_depth": [1, 2]}, "n_estimators": 7,
    }  # fmt: skip
    assert bl.Model(**made.to_dict()) == made
    assert made.digest() != model(learner="random_forest", target="y", n_estimators=8).digest()


@pytest.mark.parametrize(
    ("spec", "code", "match"),
    [
        (
            {"learner": "random_forrest", "target": "y"},
            "model.unknown-word",
            r"^model\.learner.*'random_forrest'.*'random_forest'",
        ),
        ({"learner": "random_forest"}, "model.missing-key", "'target'"),
        (
            {"learner": "random_forest", "target": "y", "n_estimator": 3},
            "model.unknown-option",
            r"^model\.n_estimator.*'n_estimators'",
        ),
        ({"learner": "random_forest", "target": "y", "n_estimators": 0}, "model.out-of-range", r"^model\.n_estimators"),
        ({"learner": "random_forest", "target": "y", "inputs": ["y"]}, "model.self-reference", r"^model\.inputs"),
        (
            {"learner": "linear", "target": "y", "task": "classification"},
            "model.unsupported",
            r"^model\.task.*linear.*'regression'",
        ),
        ({"learner": "linear", "target": "y", "tune": {"alpha": []}}, "model.incomplete", r"^model\.tune\.alpha"),
        (
            {"learner": "linear", "target": "y", "alpha": 1.0, "tune": {"alpha": [2.0]}},
            "model.conflict",
            r"^model\.tune\.alpha",
        ),
        (
            {"learner": "linear", "target": "y", "tune": {"alpha": [-1.0]}},
            "model.out-of-range",
            r"^model\.tune\.alpha.*-1\.0",
        ),
    ],
)
def test_wrong_files(spec, code, match):
    with refused(code, match):
        model(**spec)


def test_probabilities_are_the_estimators():
    """The trained learner is scikit-learn's on the same matrix with the same seed."""
    found = fit(model(learner="random_forest", target="species", n_estimators=20), IRIS, folds=3)
    # Columns are standardised: trees read single precision.
    columns = StandardScaler().fit_transform(IRIS[["a", "b", "c", "d"]].to_numpy())
    theirs = RandomForestClassifier(20, random_state=1).fit(columns, _IRIS.target)
    own = found.predict(IRIS.drop(columns="species"), "probabilities")
    np.testing.assert_allclose(own.iloc[:, 1:], theirs.predict_proba(columns))
    assert list(own.columns[1:]) == [f"P(species={s})" for s in _IRIS.target_names]


def test_left_out_scores():
    """Scores of the verdict and the table are those of the group, which come from rows that were not seen."""
    found = fit(model(learner="random_forest", target="species", n_estimators=20), IRIS, folds=5)
    group = found.data_tree["cross_validation"].to_dataset()
    truth = _IRIS.target
    accuracy = float((group["predicted"].to_numpy().argmax(axis=1) == truth).mean())
    assert float(group["score"].sel(measure="accuracy")) == pytest.approx(accuracy)
    assert found.summary().loc["accuracy (left out)", "value"] == pytest.approx(accuracy)
    sizes = np.bincount(group["fold_of"].to_numpy())
    assert sizes.max() - sizes.min() <= 1
    fold = group["fold_of"].to_numpy() == 2
    scaler = StandardScaler().fit(_IRIS.data[~fold])
    again = RandomForestClassifier(20, random_state=1).fit(scaler.transform(_IRIS.data[~fold]), truth[~fold])
    np.testing.assert_allclose(
        group["predicted"].to_numpy()[fold], again.predict_proba(scaler.transform(_IRIS.data[fold]))
    )


def test_regression_and_its_error():
    found = fit(model(learner="linear", target="y"), DIABETES)
    theirs = LinearRegression().fit(_DIABETES.data, _DIABETES.target)
    mean = found.predict(DIABETES.drop(columns="y"))["mean"]
    # Predictions are spread by the error on rows left out.
    sigma = float(found.posterior["sigma"].to_numpy()[0, 0])
    residual = DIABETES["y"] - found.data_tree["cross_validation"]["predicted"].to_numpy()
    assert sigma == pytest.approx(np.sqrt(np.mean(residual**2)))
    assert np.abs(mean - theirs.predict(_DIABETES.data)).max() < 5 * sigma / np.sqrt(1000)
    terms = found.log_likelihood()["y"].to_numpy()[0, 0]
    expected = -0.5 * ((_DIABETES.target - theirs.predict(_DIABETES.data)) / sigma) ** 2 - np.log(
        sigma * np.sqrt(2 * np.pi)
    )
    np.testing.assert_allclose(terms, expected, rtol=1e-8)


def test_reopened_run_predicts_the_same(tmp_path):
    spec = model(learner="random_forest", target="species", n_estimators=10)
    first = bl.fit(spec, IRIS, seed=3, progress=False, runs=tmp_path, folds=3)
    second = bl.open(first.folder)
    pd.testing.assert_frame_equal(first.predict(IRIS, "probabilities"), second.predict(IRIS, "probabilities"))
    assert second.summary().equals(first.summary())


@pytest.mark.slow(why="statistical")
def test_scores_become_probabilities():
    """A learner without probabilities gets Platt's, from rows of other folds; none are made where they are refused."""
    found = fit(model(learner="perceptron", target="species"), IRIS, folds=3)
    own = found.predict(IRIS, "probabilities").iloc[:, 1:].to_numpy()
    np.testing.assert_allclose(own.sum(axis=1), 1)
    assert own.min() > 0
    assert (own.argmax(axis=1) == _IRIS.target).mean() > 0.8
    with refused("data.not-applicable", "perceptron.*calibration"):
        fit(model(learner="perceptron", target="species", calibration="none"), IRIS)


@pytest.mark.slow(why="statistical")
def test_tuning_stays_inside_the_training_rows():
    """Labels that mean nothing: tuned choices do not make rows left out predictable (no peeking)."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(120, 20))).add_prefix("x").assign(y=rng.choice(["no", "yes"], 120))
    spec = model(
        learner="decision_tree", target="y", tune={"max_nodes": [3, 5, 9, 17, 33], "significance": [None, 0.05]}
    )
    found = fit(spec, table, folds=5)
    accuracy = found.summary().loc["accuracy (left out)", "value"]
    assert abs(accuracy - 0.5) < 4 * 0.5 / np.sqrt(120)
    assert "tuning chose" in str(found.verdict)


def test_bad_data():
    with refused("data.constant", "'y'"):
        fit(model(learner="random_forest", target="y"), {"x": [1.0, 2.0], "y": ["a", "a"]})
    holes = {"x": [1.0, np.nan, 3.0], "y": ["a", "b", "a"]}
    with refused("data.missing", "'x'.*row 2.*logistic.*'decision_tree'"):
        fit(model(learner="logistic", target="y"), holes)
    with refused("data.too-few", "10.*3"):
        fit(model(learner="random_forest", target="y"), {"x": [1.0, 2.0, 3.0], "y": ["a", "b", "a"]})
    with refused("data.missing", "target.*'y'.*row 2"):
        fit(model(learner="random_forest", target="y"), {"x": [1.0, 2.0, 3.0], "y": ["a", None, "b"]})
    with refused("model.unsupported", "linear.*'regression'.*'species'", where="model.learner"):
        fit(model(learner="linear", target="species"), IRIS)
    known = fit(model(learner="decision_tree", target="y"), {"x": ["u", "v"] * 6, "y": ["a", "b"] * 6}, folds=3)
    with refused("data.unknown-level", "'w'"):
        known.predict({"x": ["w"]}, "probabilities")
    with refused("data.unknown-column", "'x'"):
        known.predict({"z": ["u"]}, "probabilities")
    with refused("model.no-graph", "linear", where="model.learner"):
        fit(model(learner="linear", target="y"), DIABETES, method="nuts")
    with refused("engine.refused.other-family", "train.*graph"):
        bl.fit(MODELS / "eight_schools.yaml", method="train", progress=False, runs=None)


def quick(word: str, task: str) -> dict[str, object]:
    """Options with which a learner takes little time; a version space of rows that contradict each other is empty."""
    known = registry.load("learners", word).Options.model_fields
    line, tree = ("logistic", "decision_tree") if task == "classification" else ("linear", "regression_tree")
    short = {"learners": [{"learner": line}, {"learner": tree}], "n_estimators": 5, "cv": 2, "noise": 0.2}
    # Each pass over so few rows is one step: a net needs many, and goes up and down at first.
    passes = {"max_iter": 3000, "n_iter_no_change": 1000} if word == "neural_network" else {}
    return {name: value for name, value in short.items() if name in known} | passes


@pytest.mark.parametrize("word", [w for w in registry.names("learners") if w != "text_svm"])
@pytest.mark.slow(why="large")
def test_columns_that_do_not_vary(word):
    """Every learner: of inputs that are all the same nothing is learned, and of numbers that are all the same that one."""
    n = 12
    for task in registry.load("learners", word).TASKS:
        y = ["a", "b"] * 5 + ["a", "a"] if task == "classification" else [1.5] * n
        spec = model(learner=word, target="y", **quick(word, task))
        found = fit(spec, {"u": [2.0] * n, "v": ["w"] * n, "y": y}, folds=0)
        if task == "classification":
            said = found.predict(kind="probabilities").to_numpy()[:, -2:].astype(float)
            np.testing.assert_allclose(said, said[:1].repeat(n, axis=0), err_msg="rows alike have equal answers")
            np.testing.assert_allclose(said.sum(axis=1), 1)
        else:
            np.testing.assert_allclose(found.predict(kind="mean")["mean"], 1.5, atol=1e-4)


def test_infinite_cells():
    table = {"x": [1.0, 2.0, np.inf] * 4, "y": ["a", "b", "a"] * 4}
    for word in ("random_forest", "svm"):
        with refused("data.not-finite", "'x'.*row 3"):
            fit(model(learner=word, target="y"), table)
    with refused("data.missing", "'y'.*4.*row 3"):
        fit(model(learner="linear", target="y"), {"x": np.arange(12.0), "y": [1.0, 2.0, -np.inf] * 4})


def test_a_fold_that_cannot_be_learned_from_is_named():
    few = {"x": np.arange(4.0), "y": ["a", "b"] * 2}
    with refused("data.failed", "2.*4.*knn.*n_neighbors"):
        fit(model(learner="knn", target="y", n_neighbors=3), few, folds=2)
    with refused("data.failed", "n_neighbors.*5.*n_samples"):
        fit(model(learner="knn", target="y"), few, folds=2)


def test_identifiers_are_told():
    rng = np.random.default_rng(2)
    x = rng.normal(size=30)
    table = {"x": x, "who": [f"person {i}" for i in range(30)], "y": np.where(x > 0, "a", "b")}
    found = fit(model(learner="decision_tree", target="y"), table, folds=3)
    assert "'who' has a different name in each of 30 rows" in str(found.verdict)
    assert "another name" not in str(
        fit(model(learner="decision_tree", target="y", inputs=["x"]), table, folds=3).verdict
    )


def test_kernels_that_are_none():
    """A model file names Mercer kernels only; an estimator tests what it is given on the rows."""
    from bayeslab.learners.knn import KNNClassifier
    from bayeslab.learners.svm import SVMClassifier

    for word in ("knn", "svm", "kernel_perceptron"):
        with refused("model.unknown-word", "sigmoid", where="model.kernel"):
            model(learner=word, target="y", kernel="sigmoid")
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    with refused("option.unknown-word", "'kernel'.*'sigmoid'", kind=ValueError):
        KNNClassifier(metric="kernel", kernel="sigmoid", gamma=1.0).fit(x, y)
    with pytest.raises(ValueError, match="not a Mercer kernel"):
        SVMClassifier(kernel=lambda a, b: -np.abs(a @ b.T)).fit(x, y)


def test_no_better_than_guessing_is_said():
    rng = np.random.default_rng(1)
    table = {"x": rng.normal(size=60), "y": rng.choice(["a", "b"], 60, p=[0.8, 0.2])}
    found = fit(model(learner="decision_tree", target="y", significance=None), table)
    assert found.verdict.status == "warn"
    assert "no better than guessing" in str(found.verdict)


def test_decisions():
    """cost-weighted: the action of least expected cost under the learner's probabilities."""
    found = fit(model(learner="random_forest", target="species", n_estimators=30), IRIS, folds=3)
    loss = {
        s: {t: float(s != t) * (10 if t == "virginica" else 1) for t in _IRIS.target_names} for s in _IRIS.target_names
    }
    chosen = found.decide(IRIS, loss)
    p = found.predict(IRIS, "probabilities").iloc[:, 1:].to_numpy()
    matrix = np.array([[loss[a][s] for a in _IRIS.target_names] for s in _IRIS.target_names])
    best = (p @ matrix).argmin(axis=1)
    clear = np.sort(p @ matrix, axis=1)[:, 1] - np.sort(p @ matrix, axis=1)[:, 0] > 0.4
    assert (chosen["action"].to_numpy()[clear] == np.array(_IRIS.target_names)[best][clear]).all()


@pytest.mark.slow(why="large")
@pytest.mark.parametrize(
    ("name", "least"), [("restaurant", 0.5), ("play_tennis_rule", 0.6), ("digits", 0.95), ("birth_weight_boost", 0.6)]
)
def test_shipped(name, least):
    found = bl.fit(MODELS / f"{name}.yaml", progress=False, runs=None)
    assert found.summary().loc["accuracy (left out)", "value"] >= least


def test_members_are_named():
    """Weights of an ensemble carry the words of its members."""
    members = [
        {"learner": "linear"},
        {"learner": "regression_tree"},
        {"learner": "regression_tree", "leaves": "constant"},
    ]
    found = fit(model(learner="voting", target="y", learners=members), DIABETES, folds=2)
    rows = [row for row in found.summary().index if row.startswith("weight[")]
    assert rows == ["weight[linear]", "weight[regression_tree_1]", "weight[regression_tree_2]"]


@pytest.mark.slow(why="statistical")
def test_noise_passes_seldom():
    """Better than guessing by chance is no reason to trust: two standard errors, two scores."""
    passed = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        data = {"x": rng.normal(size=60), "z": rng.normal(size=60), "y": rng.permutation(["a", "b"] * 30)}
        model = bl.Model(model={"family": "learner", "learner": "logistic", "target": "y"})
        fit = bl.fit(model, data, folds=5, seed=seed, runs=None, progress=False)
        passed += fit.verdict.status == "pass"
    # Of 20 with chances of at most a twentieth each, four or more come 1.6 times in a hundred.
    assert passed <= 3


def test_zeros_and_ones_are_asked_about():
    """Neither silently numbers nor silently classes; cells that are no numbers are shown."""
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=40), "y": rng.integers(0, 2, 40)}
    model = {"family": "learner", "learner": "knn", "target": "y"}
    with refused("data.incomplete", "'y'"):
        bl.fit(bl.Model(model=model), data, runs=None, progress=False)
    fit = bl.fit(bl.Model(model=model | {"task": "classification"}), data, runs=None, progress=False)
    with refused("data.other-kind", "row 2.*'abc'"):
        fit.predict({"x": ["1", "abc"]})


@pytest.mark.parametrize(
    ("derive", "target", "inputs", "match"),
    [
        ({"z": "2 * y"}, "y", [], "'z' is computed from the target 'y'"),
        ({"z": "2 * y", "v": "z + x"}, "y", ["x", "v"], "'v' is computed from the target 'y'"),
        ({"z": "log(y)"}, "z", [], "'z' is computed from 'y'.*name the inputs"),
    ],
)
def test_the_target_is_not_given_away_by_computed_columns(derive, target, inputs, match):
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=40), "y": rng.gamma(2, size=40)}
    learner = {"family": "learner", "learner": "linear", "target": target, "inputs": inputs}
    with refused("data.self-reference", match):
        bl.fit(bl.Model(data={"derive": derive}, model=learner), data, runs=None, progress=False)


def test_a_target_may_be_computed_from_named_inputs():
    """A rule that is to be learned."""
    x = np.random.default_rng(0).normal(size=60)
    learner = {"family": "learner", "learner": "linear", "target": "z", "inputs": ["x"]}
    fit = bl.fit(bl.Model(data={"derive": {"z": "3 * x + 1"}}, model=learner), {"x": x}, runs=None, progress=False)
    assert fit.summary().loc["r2 (left out)", "value"] == pytest.approx(1)
