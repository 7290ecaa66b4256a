"""Predictions, decisions and checks of outcomes with levels speak of the levels, not of their positions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from tests.refusals import refused

LEVELS = [10, 20, 40]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(7)
    word = rng.choice(["no", "yes", "maybe"], 150, p=[0.5, 0.3, 0.2])
    side = np.where(rng.random(150) < np.where(word == "yes", 0.9, 0.2), "left", "right")
    number = pd.Series(word).map({"no": 10, "yes": 20, "maybe": 40}).to_numpy()
    return pd.DataFrame({"word": word, "side": side, "number": number})


def net_of(table, name, states, **more):
    variables = {name: {"states": states}, "side": {"states": ["right", "left"], "parents": [name]}}
    model = bl.BayesNet(variables=variables, **more)
    return bl.fit(bl.Model(model=model), table, seed=1, progress=False, runs=None)


def graded(table, likelihood, **more):
    model = bl.Regression(formula="number ~ side", likelihood=likelihood)
    return bl.fit(bl.Model(model=model), table, "laplace", seed=1, progress=False, runs=None, **more)


NEW = pd.DataFrame({"side": ["left", "right"]})


def agree(fit, name, levels, table):
    """Means, draws, decisions and calibration of a numeric outcome by its probabilities."""
    p = fit.predict(NEW, "probabilities")[[f"P({name}={level})" for level in levels]].to_numpy()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    mean = p @ levels
    error = 5 * np.sqrt((p @ np.square(levels) - mean**2) / 4000)
    assert (np.abs(fit.predict(NEW, "mean")["mean"] - mean) < error).all()
    assert set(np.unique(fit.predict(NEW, "draws")[name])) <= set(levels)
    assert (np.abs(fit.decide(NEW)["action"].to_numpy(float) - mean) < error).all()
    best = fit.decide(NEW, "zero_one")
    assert best["action"].astype(int).tolist() == [levels[k] for k in p.argmax(axis=1)]
    np.testing.assert_allclose(best["expected_loss"], 1 - p.max(axis=1))
    loss = {"a": dict(zip(levels, [0, 1, 5], strict=True)), "b": dict(zip(levels, [1, 0, 0], strict=True))}
    np.testing.assert_allclose(fit.decide(NEW, loss)[["E[a]", "E[b]"]], p @ [[0, 1], [1, 0], [5, 0]])
    there, new = fit.calibration(bins=2), fit.calibration(table, bins=2)
    pd.testing.assert_frame_equal(there, new, check_dtype=False)
    shares = [(table[name] == level).mean() for level in levels]
    for level, share in zip(levels, shares, strict=True):
        part = there[there["state"].astype(int) == level]
        assert np.average(part["observed"], weights=part["n"]) == pytest.approx(share)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("likelihood", ["ordered", "categorical"])
@pytest.mark.parametrize("levels", [[10, 20, 40], [1, 2, 3], [0, 1, 2]])
def test_a_response_of_numbered_levels(table, likelihood, levels):
    table = table.assign(number=table["number"].map(dict(zip(LEVELS, levels, strict=True))))
    fit = graded(table, likelihood)
    agree(fit, "number", levels, table)
    assert fit.check(["mean"])["observed"][0] == pytest.approx(table["number"].mean())


@pytest.mark.slow(why="compiles")
def test_states_that_are_numbers(table):
    fit = net_of(table, "number", LEVELS, target="number")
    agree(fit, "number", LEVELS, table)
    fit = net_of(table, "number", LEVELS)
    assert fit.check(["mean"])["observed"][0] == pytest.approx(table["number"].mean())
    found = fit.predict(pd.DataFrame({"number": [None], "side": ["left"]}), "mean")
    p = fit.predict(pd.DataFrame({"number": [None], "side": ["left"]}), "probabilities").iloc[0, 1:].to_numpy(float)
    assert abs(found["mean"][0] - p @ LEVELS) < 5 * 14 / np.sqrt(4000)
    found = fit.predict(pd.DataFrame({"number": [40], "side": [None]}), "mean")
    assert found["most_probable"].tolist() == ["right"]


@pytest.mark.slow(why="compiles")
def test_words_have_no_mean(table):
    fit = net_of(table, "word", ["no", "yes", "maybe"], target="word")
    found = fit.predict(NEW, "mean")
    assert found["mean"].isna().all()
    assert found["most_probable"].tolist() == ["yes", "no"]
    for loss in ("squared", "absolute"):
        with refused("option.not-applicable", "words"):
            fit.decide(NEW, loss)
    assert fit.decide(NEW, "zero_one")["action"].tolist() == ["yes", "no"]


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("strange", [0, 15, 70])
def test_a_number_that_is_no_level_is_not_the_nearest_level(table, strange):
    fit = graded(table, "ordered")
    with refused("data.unknown-level", rf"row 2: {strange} is not a level"):
        fit.calibration(NEW.assign(number=[10, strange]))
