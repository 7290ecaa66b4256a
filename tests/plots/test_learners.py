"""Pictures and tables of learners: what is drawn is what the learner says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import AdaBoostRegressor
from sklearn.linear_model import Lasso, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor

import bayeslab as bl
from bayeslab.cli import main
from bayeslab.learners.adaboost import AdaBoost
from bayeslab.plots import learners as plots
from bayeslab.results.learner import PICTURES
from tests.cli.calls import refused as told
from tests.refusals import refused

IRIS = load_iris(as_frame=True)
COLUMNS = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


def flowers(rows=slice(None), columns=COLUMNS):
    table = {name: IRIS.data.iloc[rows, COLUMNS.index(name)].to_numpy() for name in columns}
    return table | {"species": np.array(IRIS.target_names)[IRIS.target.to_numpy()[rows]].astype(str)}


def trained(data, target, folds=3, runs=None, **options):
    model = bl.Model(name="trained", model={"family": "learner", "target": target, **options})
    return bl.fit(model, data, seed=1, progress=False, runs=runs, folds=folds)


def mesh(axes):
    (found,) = [c for c in axes.collections if type(c).__name__ == "QuadMesh"]
    return found


@pytest.fixture(scope="module")
def machine():
    return trained(flowers(slice(50, 150), COLUMNS[2:]), "species", learner="svm", kernel="linear", C=10.0)


def test_support_vectors_are_marked_and_the_street_is_where_scores_are_one(machine):
    """Against scikit-learn's machine on the same columns, standardised by hand."""
    points = IRIS.data.to_numpy()[50:150, 2:]
    scaler = StandardScaler().fit(points)
    theirs = SVC(kernel="linear", C=10.0).fit(scaler.transform(points), IRIS.target[50:150])
    axes = machine.learner.plot("regions").axes[0]
    (marked,) = [line for line in axes.lines if line.get_label() == "support vector"]
    drawn = np.column_stack(marked.get_data())
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(points[theirs.support_], axis=0))
    contours = [c for c in axes.collections if type(c).__name__ == "QuadContourSet"]
    scores = {}
    for contour in contours[1:]:  # the first is where the probability is one half
        for level, path in zip(contour.levels, contour.get_paths(), strict=True):
            scores[float(level)] = theirs.decision_function(scaler.transform(path.vertices))
    assert set(scores) == {-1.0, 0.0, 1.0}
    for level, values in scores.items():
        np.testing.assert_allclose(values, level, atol=0.01)


def test_regions_have_the_colour_of_the_most_probable_class():
    fit = trained(flowers(columns=COLUMNS[2:]), "species", learner="knn", n_neighbors=5)
    shown = mesh(fit.learner.plot("regions", inputs=["petal_width", "petal_length"]).axes[0])
    at = shown.get_coordinates()
    centres = (at[:-1, :-1] + at[1:, 1:]) / 2
    rows = {"petal_width": centres[..., 0].ravel(), "petal_length": centres[..., 1].ravel()}
    said = fit.predict(rows, "probabilities")
    p = np.column_stack([said[f"P(species={c})"] for c in IRIS.target_names])
    colours = shown.get_array().reshape(-1, 3)
    # Centres of cells are told to rounding, and some lie where neighbours are equally far.
    assert np.mean(np.abs(colours - plots.shades(p)).max(axis=1) > 1e-6) < 0.01
    # A sure region is dark, an undecided one white.
    certain, none = plots.shades(np.array([[1.0, 0.0], [0.5, 0.5]]))
    assert certain.min() < 0.55 and none.min() > 0.9


@pytest.mark.slow(why="large")
def test_regions_of_a_transformed_outcome_are_refused():
    rows = {"volume": [1.0, 2.0, 4.0, 7.5], "girth": [1.0, 2.0, 3.0, 4.0]}
    model = bl.Model(model={"family": "regression", "formula": "log(volume) ~ girth"})
    fit = bl.fit(model, rows, seed=1, runs=None, progress=False)
    with refused("option.not-applicable", "use predict on a grid"):
        bl.plot_regions({"line": fit}, ["girth"])


@pytest.mark.slow(why="compiles")
def test_regions_of_names_numbers_and_other_families():
    rng = np.random.default_rng(0)
    n = 80
    table = {"kind": rng.choice(["a", "b", "c"], n), "x": rng.normal(size=n), "z": rng.normal(size=n)}
    table["y"] = np.where(table["kind"] == "a", 2.0, 0.0) + table["x"]
    tree = trained(table, "y", learner="regression_tree", leaves="constant")
    picture = tree.learner.plot("regions", inputs=["kind", "x"])
    assert [t.get_text() for t in picture.axes[0].get_xticklabels()] == ["a", "b", "c"]
    assert "z = " in picture.get_supxlabel()
    one = tree.learner.plot("regions", inputs=["x"], at={"kind": "a", "z": 0.5}).axes[0]
    at, values = one.lines[1].get_data()
    expected = tree.predict({"kind": ["a"] * len(at), "x": at, "z": [0.5] * len(at)})["mean"]
    np.testing.assert_allclose(values, expected)
    line = bl.fit(
        bl.Model(model={"family": "regression", "formula": "y ~ x + z"}), table, runs=None, progress=False, seed=1
    )
    both = bl.plot_regions({"tree": tree, "line": line}, ["x", "z"])
    *panels, bar = both.axes
    assert [axes.get_title(loc="left") for axes in panels] == ["tree", "line"]
    assert bar.get_ylabel() == "y"  # one scale for both
    slope = np.diff(mesh(both.axes[1]).get_array(), axis=1)
    assert slope.min() > 0
    for wrong, code, match in ((["x", "x"], "option.wrong-length", "'x'"), (["q"], "option.unknown-column", "'q'")):
        with refused(code, match):
            tree.learner.plot("regions", inputs=wrong)
    with refused("option.unknown-word", "'mist'") as caught:
        tree.learner.plot("mist")
    # What is offered can be drawn, and nothing else is.
    for name in PICTURES:
        assert (f"'{name}'" in str(caught.value)) == (name in tree.learner.pictures)
        if name in tree.learner.pictures:
            tree.learner.plot(name)
        else:
            with pytest.raises(bl.BayeslabError):
                tree.learner.plot(name)
    with refused("option.conflict", "'x'"):
        tree.learner.plot("regions", inputs=["x"], at={"x": 1.0})


@pytest.mark.slow(why="large")
def test_staged_errors_are_those_of_the_rounds(tmp_path):
    """Boosting 1, 3, 6 rounds afresh errs as the stages say; the run folder keeps the stages."""
    cancer = load_breast_cancer()
    data = {f"x{j}": cancer.data[:, j] for j in range(8)} | {"tumour": cancer.target_names[cancer.target].astype(str)}
    fit = trained(data, "tumour", learner="adaboost", n_estimators=6, runs=tmp_path)
    stages = fit.learner.staged(data)["error"].to_numpy()
    codes = np.searchsorted(np.unique(data["tumour"]), data["tumour"])
    for n in (1, 3, 6):
        again = AdaBoost(n_estimators=n).fit(cancer.data[:, :8], codes)
        assert stages[n - 1] == pytest.approx(np.mean(again.predict(cancer.data[:, :8]) != codes))
    kept = bl.open(fit.folder)
    assert "training" in kept.data_tree.children
    table = kept.learner.staged()
    folds = []
    for k in range(3):
        out = kept.data_tree["cross_validation"]["fold_of"].to_numpy() == k
        again = AdaBoost(n_estimators=6).fit(cancer.data[~out, :8], codes[~out])
        folds.append(np.mean(again.predict(cancer.data[out, :8]) != codes[out]))
    assert table["left_out"].iloc[-1] == pytest.approx(np.mean(folds))
    left_out = kept.learner.plot("staged").axes[0].lines[1].get_ydata()
    np.testing.assert_allclose(left_out, table["left_out"])
    shown = fit.learner.margins()
    assert list(shown) == ["1 round", "5 rounds", "6 rounds"]
    for n, name in ((5, "5 rounds"), (6, "6 rounds")):
        assert np.mean(shown[name] < 0) == pytest.approx(stages[n - 1])
        assert np.abs(shown[name]).max() <= 1
    drawn = fit.learner.plot("margins").axes[0].lines[-1]
    np.testing.assert_allclose(drawn.get_xdata()[1:], np.sort(shown["6 rounds"]))
    (curve,) = fit.learner.training()["curve"].unique()
    assert curve == "weighted error"


def test_staged_errors_of_boosted_regressions():
    """Drucker's is scikit-learn's, whose stages are those of fewer rounds; a threshold's end in its prediction."""
    diabetes = load_diabetes()
    data = {f"x{j}": diabetes.data[:, j] for j in range(4)} | {"y": diabetes.target}
    fit = trained(data, "y", learner="boosted_regression", method="drucker", n_estimators=5)
    theirs = AdaBoostRegressor(DecisionTreeRegressor(max_depth=3), n_estimators=5, random_state=1)
    x = StandardScaler().fit_transform(diabetes.data[:, :4])
    gaps = [np.sqrt(np.mean((p - diabetes.target) ** 2)) for p in theirs.fit(x, diabetes.target).staged_predict(x)]
    np.testing.assert_allclose(fit.learner.staged(data)["error"], gaps)
    own = trained(data, "y", learner="boosted_regression", method="threshold", n_estimators=5)
    last = own.learner.staged(data)["error"].iloc[-1]
    assert last == pytest.approx(np.sqrt(np.mean((own.predict(data)["mean"] - diabetes.target) ** 2)))


@pytest.mark.slow(why="large")
def test_training_curves():
    fit = trained(flowers(), "species", learner="perceptron", max_iter=30)
    table = fit.learner.training()
    assert set(table["unit"]) == {"setosa", "versicolor", "virginica"}
    setosa = table[table["unit"] == "setosa"]
    assert setosa["value"].iloc[-1] == 0 and len(setosa) < 30  # a plane parts it from the others
    lines = fit.learner.plot("training").axes[0].lines
    assert [len(line.get_xdata()) for line in lines] == table.groupby("unit", sort=False).size().to_list()
    net = trained(flowers(), "species", learner="neural_network", hidden_layer_sizes=[4], early_stopping=True)
    assert [axes.get_ylabel() for axes in net.learner.plot("training").axes] == ["loss", "held out loss"]
    with refused("option.not-applicable", "neural_network.*boosted_regression"):
        net.learner.plot("staged")


def test_paths_pass_through_the_weights_of_each_penalty():
    """Against scikit-learn's solutions at one strength."""
    diabetes = load_diabetes(scaled=False)
    x = StandardScaler().fit_transform(diabetes.data)
    data = {name: diabetes.data[:, j] for j, name in enumerate(diabetes.feature_names)} | {"y": diabetes.target}
    fit = trained(data, "y", learner="linear", penalty="lasso", alpha=2.0)
    for kind, solver in (("lasso", Lasso), ("ridge", Ridge)):
        table = fit.learner.path(kind)
        row = table.iloc[60]
        np.testing.assert_allclose(row.iloc[1:], solver(alpha=row["alpha"]).fit(x, diabetes.target).coef_, atol=0.02)
    axes = fit.learner.plot("path").axes[0]
    assert "alpha = 2" in [t.get_text() for t in axes.texts]
    assert "alpha = 2" not in [t.get_text() for t in fit.learner.plot("path", penalty="ridge").axes[0].texts]


def test_confusion_and_calibration_are_of_rows_left_out():
    fit = trained(flowers(), "species", learner="logistic")
    table, said = fit.learner.confusion(), fit.learner.left_out()
    assert (
        table.loc["versicolor", "virginica"]
        == ((said["species"] == "versicolor") & (said["predicted"] == "virginica")).sum()
    )
    assert table.to_numpy().sum() == 150
    curve = fit.learner.calibration(5)
    assert set(curve["state"]) == {"any"} and curve["n"].sum() == 450
    # Over all classes both the probabilities and what happened have the mean one third.
    for column in ("predicted", "observed"):
        assert np.average(curve[column], weights=curve["n"]) == pytest.approx(1 / 3)
    cells = [t.get_text() for t in fit.learner.plot("confusion").axes[0].texts]
    assert cells == [f"{v}" for v in table.to_numpy().ravel() if v]
    assert fit.learner.plot("calibration").axes[0].get_xlabel() == "predicted probability of any species"


def test_no_folds_no_rows_left_out():
    fit = trained(flowers(), "species", learner="decision_tree", folds=0)
    with refused("option.not-kept", "left out"):
        fit.learner.plot("confusion")
    assert list(fit.learner.margins()) == ["training rows"]
    with refused("option.unknown-word", "'margin'.*'margins'"):
        fit.learner.plot("margin")
    with refused("option.not-applicable", "training"):
        fit.learner.plot("training")
    with refused("option.not-applicable", "path.*decision_tree"):
        fit.learner.plot("path")


@pytest.mark.slow(why="statistical")
def test_on_the_command_line(tmp_path, capsys):
    models = Path(__file__).parents[2] / "models"
    fit = bl.fit(models / "play_tennis_rule.yaml", runs=tmp_path, progress=False)

    def said(*words):
        with pytest.raises(SystemExit) as ended:
            main(["plot", str(fit.folder), *words])
        return (ended.value.code or 0, *capsys.readouterr())

    code, out, _ = said("--columns", "outlook,humidity", "--out", str(tmp_path / "rule.svg"))
    assert code == 0 and "rule.svg" in out
    assert "<svg" in (tmp_path / "rule.svg").read_text()
    code, _, _ = said("confusion")
    assert code == 0 and (fit.folder / "confusion.png").read_bytes().startswith(b"\x89PNG")
    told(capsys, "option.unknown-word", "no picture 'staged'.*confusion", "plot", fit.folder, "staged")
    told(capsys, "option.unknown-format", r"rule\.gif.*\.png, \.svg, \.pdf", "plot", fit.folder, "--out", "rule.gif")
