"""What kind of answer suits an outcome, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from tests.refusals import refused


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, 60)
    return pd.DataFrame(
        {"x": x, "word": np.where(x + rng.normal(0, 1, 60) > 0, "yes", "no"), "z": rng.normal(0, 1, 60)}
    )


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("likelihood", ["bernoulli", "categorical", "ordered"])
def test_words_are_predicted_by_their_probabilities(table, likelihood):
    dims = {"word": ["no", "yes"]}
    model = bl.Model(dims=dims, model=bl.Regression(formula="word ~ x", likelihood=likelihood))
    fit = bl.fit(model, table, "laplace", seed=1, progress=False, runs=None)
    found = fit.predict(table.head(3))
    assert {"P(word=no)", "P(word=yes)"} <= set(found)
    np.testing.assert_allclose(found[["P(word=no)", "P(word=yes)"]].sum(axis=1), 1)


@pytest.mark.slow(why="statistical")
def test_numbers_are_predicted_by_their_mean(table):
    model = bl.Model(model=bl.Regression(formula="k ~ x", likelihood="bernoulli"))
    fit = bl.fit(
        model, table.assign(k=table["word"].eq("yes").astype(int)), "laplace", seed=1, progress=False, runs=None
    )
    assert "mean" in fit.predict(table.head(3))


def test_answers_of_states_are_refused_for_numbers(table):
    model = bl.Model(model=bl.BayesNet(structure={"score": "bge"}))
    fit = bl.fit(model, table[["x", "z"]], seed=1, progress=False, runs=None)
    with refused("option.not-applicable", r"'x'.*fit\.predict"):
        fit.structures.query_many(table[["x"]])


def test_a_potential_is_not_left_out_of_the_prior():
    nodes = {"mu": "Normal(0, 1)", "pull": "Potential(-0.5 * (mu - 3) ** 2)", "y[row]": "Normal(mu, 1)"}
    model = bl.Model(name="m", data={"rows": "row"}, model=bl.Graph(nodes=nodes))
    with refused("model.unsupported", "Potential", where="model.nodes.pull") as caught:
        bl.simulate(model, {"y": [1.0, 2.0]}, draws=5, seed=1)
    assert caught.value.code.endswith("unsupported")
    fit = bl.fit(model, {"y": [1.0, 2.0]}, seed=1, runs=None, draws=50, tune=50, chains=1, method="nuts")
    assert np.isfinite(fit.predict({"y": [0.0]})["mean"]).all()


def test_given_cells_that_are_not_used_are_named():
    nodes = {"t[row]": "Normal(0, 1)", "w[row]": "Normal(t, 0.5)", "y[row]": "Normal(2 * t, 0.5)"}
    model = bl.Model(name="m", data={"rows": "row"}, model=bl.Graph(nodes=nodes))
    rng = np.random.default_rng(1)
    t = rng.normal(size=30)
    fit = bl.fit(model, {"w": t + 0.5 * rng.normal(size=30), "y": 2 * t + 0.5 * rng.normal(size=30)}, seed=1, runs=None)
    with pytest.warns(UserWarning, match="'w' of the new rows is drawn anew"):
        fit.predict({"w": [1.0]})


@pytest.mark.parametrize("prior", ["Flat()", "ICAR([[0, 1], [1, 0]])"])
def test_improper_priors_are_not_drawn_from(prior):
    nodes = {"phi[g]": prior, "y[row]": "Normal(phi[g], 1)"}
    model = bl.Model(name="m", data={"rows": "row"}, model=bl.Graph(nodes=nodes))
    with refused("model.improper", "'phi'.*HalfFlat") as caught:
        bl.simulate(model, {"g": ["a", "b", "a"], "y": [1.0, 2.0, 1.5]}, draws=3, seed=1)
    assert caught.value.code.endswith("improper")
