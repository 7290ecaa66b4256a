"""Weights of rows, missing cells that are filled in, and columns as they are: words of every classical learner."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

import bayeslab as bl
from tests.refusals import refused

N = 60


def table(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(3, 2, N), rng.normal(-50, 30, N)
    word = rng.choice(["a", "b", "c"], N)
    y = 2 * x + 0.1 * z + np.where(word == "b", 4, 0) + rng.normal(size=N)
    return pd.DataFrame({"x": x, "z": z, "word": word, "y": y, "won": np.where(y > np.median(y), "yes", "no")})


def fitted(rows, target="y", **words):
    model = bl.Model(model={"family": "learner", "target": target, "inputs": ["x", "z", "word"], **words})
    return bl.fit(model, rows, seed=1, folds=0, runs=None, progress=False)


def predicted(fit, rows):
    frame = fit.predict(rows[["x", "z", "word"]])
    return frame["P(won=yes)"].to_numpy() if "P(won=yes)" in frame else frame["mean"].to_numpy()


@pytest.mark.parametrize(
    ("words", "target", "error"),
    [
        ({"learner": "linear"}, "y", 1e-8),
        ({"learner": "logistic"}, "won", 1e-3),
        ({"learner": "decision_tree"}, "won", 1e-9),
    ],
)
def test_a_weight_of_three_is_a_row_three_times(words, target, error):
    """Of learners with probabilities of their own: others calibrate scores on folds, which know rows from weights."""
    rows, new = table(), table(1)
    weights = np.random.default_rng(2).integers(0, 4, N)
    weighted = fitted(rows.assign(w=weights), target, sample_weight="w", **words)
    repeated = fitted(rows.loc[rows.index.repeat(weights)].reset_index(drop=True), target, **words)
    np.testing.assert_allclose(predicted(weighted, new), predicted(repeated, new), atol=error * 10, rtol=error)
    alike = fitted(rows, target, **words)
    assert np.abs(predicted(weighted, new) - predicted(alike, new)).max() > 100 * error


def test_a_column_of_weights_is_no_input():
    rows = table().drop(columns=["won"]).assign(w=1.0)
    model = bl.Model(model={"family": "learner", "learner": "linear", "target": "y", "sample_weight": "w"})
    fit = bl.fit(model, rows, seed=1, folds=3, runs=None, progress=False)
    assert {str(name).partition("=")[0] for name in fit.posterior["column"].to_numpy()} == {"x", "z", "word"}
    fit.predict(rows.drop(columns=["w", "y"]))


@pytest.mark.parametrize(
    ("words", "weights", "code", "match"),
    [
        ({"learner": "knn", "sample_weight": "w"}, 1.0, "model.unsupported", "knn takes no weights"),
        ({"learner": "linear", "sample_weight": "w"}, -1.0, "data.out-of-range", "-1 in row 1"),
        ({"learner": "linear", "sample_weight": "w"}, np.nan, "data.out-of-range", "nan in row 1"),
        ({"learner": "linear", "sample_weight": "w"}, 0.0, "data.constant", "nothing to learn"),
        ({"learner": "linear", "sample_weight": "v"}, 1.0, "model.unknown-column", "'v'"),
        ({"learner": "linear", "sample_weight": "x"}, 1.0, "model.conflict", "neither the target nor an input"),
    ],
)
def test_weights_that_cannot_be(words, weights, code, match):
    with refused(code, match):
        fitted(table().assign(w=weights), **words)


@pytest.mark.parametrize("word", ["mean", "median"])
def test_missing_cells_are_filled_by_the_rows_trained_on(word):
    rows, new = table(), table(1)
    rows.loc[[3, 5], "x"], rows.loc[[7], "word"] = np.nan, None
    new.loc[[0, 1], "z"], new.loc[[2], "word"] = np.nan, None
    with refused("data.missing", "impute: mean"):
        fitted(rows, learner="linear")
    filling = rows[["x", "z"]].agg(word).to_dict() | {"word": rows["word"].mode()[0]}
    ours = predicted(fitted(rows, learner="linear", impute=word), new)
    full, empty = rows.fillna(filling), new.fillna(filling)
    design = [np.column_stack([t[["x", "z"]], *(t["word"] == w for w in "bc")]) for t in (full, empty)]
    np.testing.assert_allclose(ours, LinearRegression().fit(design[0], rows["y"]).predict(design[1]), rtol=1e-8)


@pytest.mark.parametrize("standardise", [True, False])
def test_numbers_reach_a_learner_standardised_or_as_they_are(standardise):
    rows, new = table()[["x", "z", "y"]], table(1)[["x", "z"]]
    words = {"learner": "knn", "task": "regression", "standardise": standardise}
    model = bl.Model(model={"family": "learner", "target": "y", **words})
    ours = bl.fit(model, rows, seed=1, folds=0, runs=None, progress=False).predict(new)["mean"]
    centre, spread = (rows[["x", "z"]].mean(), rows[["x", "z"]].std(ddof=0)) if standardise else (0.0, 1.0)
    theirs = KNeighborsRegressor(5).fit(((rows[["x", "z"]] - centre) / spread).to_numpy(), rows["y"])
    np.testing.assert_allclose(ours, theirs.predict(((new - centre) / spread).to_numpy()), rtol=1e-9)


def test_an_estimator_takes_weights_as_scikit_learn_does():
    rows, new = table(), table(1)
    weights = np.random.default_rng(2).uniform(0, 3, N)
    inputs = ["x", "z", "word"]
    model = bl.Model(model={"family": "learner", "learner": "logistic", "target": "won", "inputs": inputs})
    ours = bl.estimator(model, seed=1).fit(rows[inputs], rows["won"], sample_weight=weights).predict_proba(new[inputs])
    file = fitted(rows.assign(w=weights), "won", learner="logistic", sample_weight="w")
    np.testing.assert_allclose(ours[:, 1], predicted(file, new), rtol=1e-9)
    regression = bl.Model(model={"family": "regression", "formula": "y ~ x"})
    knn = bl.Model(model={"family": "learner", "learner": "knn", "task": "regression", "target": "y", "inputs": ["x"]})
    for model in (regression, knn):
        with pytest.raises(TypeError, match="sample_weight"):
            bl.estimator(model).fit(rows[["x"]], rows["y"], sample_weight=weights)
