"""Decisions and calibration predict a cell without looking at it, whatever other rows leave open."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from tests.refusals import refused

RNG = np.random.default_rng(2)
HIDDEN = RNG.integers(0, 2, 80)
ROWS = pd.DataFrame(
    {
        "g": np.where(RNG.random(80) < np.where(HIDDEN == 0, 0.8, 0.2), "a", "b"),
        "y": (RNG.random(80) < np.where(HIDDEN == 0, 0.9, 0.2)).astype(int),
        "x": RNG.normal(3 * HIDDEN, 1),
    }
)
LOSS = {"act": {"0": 0, "1": 1}, "wait": {"0": 3, "1": 0}}


@pytest.fixture(scope="module")
def mixture():
    spec = {
        "family": "mixture",
        "columns": ["g", "y", "x"],
        "components": 2,
        "component": {"g": "categorical", "y": "bernoulli", "x": "gaussian"},
        "covariance": "diagonal",
    }
    return bl.fit(bl.Model(model=spec), ROWS, "em", seed=1, runs=None, progress=False)


@pytest.fixture(scope="module")
def by_hand(mixture):
    """P(y = 1 | g, x) of each row at the fitted point."""
    found = {name: mixture.posterior[name].to_numpy()[0, 0] for name in mixture.posterior}
    level = (ROWS["g"] == "b").to_numpy().astype(int)
    weight = found["weights"] * found["p_g"][:, level].T
    sd, mean = found["gaussian_sd"].reshape(2), found["gaussian_mean"].reshape(2)
    weight = weight * np.exp(-0.5 * ((ROWS["x"].to_numpy()[:, None] - mean) / sd) ** 2) / sd
    return weight @ found["bernoulli_probability"].reshape(2) / weight.sum(axis=1)


@pytest.mark.slow(why="statistical")
def test_calibration_predicts_from_the_other_columns(mixture, by_hand):
    scores = mixture.calibration(ROWS, node="y").attrs
    y = ROWS["y"].to_numpy()
    assert scores["brier"] == pytest.approx(2 * np.mean((by_hand - y) ** 2), abs=0.02)
    assert scores["log_score"] == pytest.approx(np.log(np.where(y == 1, by_hand, 1 - by_hand)).mean(), abs=0.03)


@pytest.mark.slow(why="statistical")
def test_decisions_on_a_row_do_not_depend_on_other_rows(mixture, by_hand):
    row = ROWS.iloc[[0]]
    beside = pd.concat([row, pd.DataFrame({"g": ["b"], "y": [np.nan], "x": [3.0]})], ignore_index=True)
    for table in (row, beside, row.assign(y=1 - row["y"])):
        decided = mixture.decide(table, LOSS, node="y").iloc[0]
        assert decided["E[act]"] == pytest.approx(by_hand[0], abs=0.08)
        assert decided["E[wait]"] == pytest.approx(3 * (1 - by_hand[0]), abs=0.24)


@pytest.mark.slow(why="statistical")
def test_cells_of_chains_are_not_predicted_from_themselves():
    chain = {"family": "hmm", "columns": ["y", "z"], "states": 2, "emission": {"y": "bernoulli", "z": "gaussian"}}
    seen = {"y": RNG.integers(0, 2, 60), "z": RNG.normal(size=60)}
    fit = bl.fit(bl.Model(model=chain), seen, "em", runs=None, progress=False)
    table = {"y": [0, 1, 1], "z": [0.0, 1.0, 0.5]}
    with refused("option.not-applicable", "from themselves"):
        fit.calibration(table, node="y")
    with refused("option.not-applicable", "from themselves"):
        fit.decide(table, "zero_one", node="y")
    decided = fit.decide({"y": np.array([0, np.nan, 1]), "z": [0.0, 1.0, 0.5]}, "zero_one", node="y")
    assert decided["obs_id"].tolist() == [1] and decided["expected_loss"][0] > 0


def test_an_order_beside_unequal_weights_is_refused():
    spec = {"family": "mixture", "columns": ["y"], "components": 2, "component": "poisson", "order": "y"}
    for weights, there in (("Dirichlet([1, 30])", True), ("Dirichlet([2, 2])", False)):
        model = bl.Model(model=spec | {"priors": {"weights": weights}})
        if there:
            with refused("model.conflict", where="model.order"):
                bl.check(model, {"y": [0, 0, 9, 8, 0, 1]})
        else:
            fit = bl.fit(model, {"y": [0, 0, 9, 8, 0, 1] * 3}, "gibbs", draws=200, tune=100, runs=None, progress=False)
            rate = fit.posterior["rate"].to_numpy().reshape(-1, 2)
            assert np.mean(rate[:, 0] < rate[:, 1]) > 0.99


def test_checks_at_a_point_have_many_replications(mixture):
    """One replication of a point gave p-values of 0 and 1."""
    table = mixture.check(["mean", "sd"])
    numbers = table[table["node"] != "g"]
    assert numbers["p_value"].gt(0.02).all()
    np.testing.assert_allclose(numbers["mean"], numbers["observed"], atol=0.3)
