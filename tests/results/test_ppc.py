"""Predictive checks, LOO-PIT, decisions and calibration of fits."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.decisions.loss import Asymmetric
from bayeslab.results.ppc import STATISTICS, two_sided
from tests.refusals import refused

N = 120
RNG = np.random.default_rng(21)
X = RNG.normal(size=N)
Y = 1 + 2 * X + RNG.normal(size=N)
WINS = (RNG.uniform(size=N) < 1 / (1 + np.exp(-0.5 - 1.5 * X))).astype(int)


@pytest.fixture(scope="module")
def right():
    model = bl.Model(name="right", model=bl.Regression(formula="y ~ x"), seed=1)
    return bl.fit(model, {"x": X, "y": Y}, "exact", progress=False, runs=None)


@pytest.fixture(scope="module")
def wrong():
    """A normal model of skewed data."""
    model = bl.Model(name="wrong", model=bl.Regression(formula="y ~ 1"), seed=1)
    return bl.fit(model, {"y": np.exp(1.2 * X)}, "exact", progress=False, runs=None)


@pytest.fixture(scope="module")
def binary():
    nodes = {"a": "Normal(0, 2)", "b": "Normal(0, 2)", "win[obs_id]": "Bernoulli(sigmoid(a + b * x))"}
    words = np.array(["lost", "won"])[WINS]
    model = bl.Model(name="binary", model=bl.Graph(nodes=nodes), dims={"win": ["lost", "won"]}, seed=2)
    return bl.fit(model, {"x": X, "win": words}, "nuts", progress=False, runs=None, draws=1000, tune=500)


# ------------------------------------------------------------------------------------- checks


def test_statistics_by_scipy():
    values = RNG.gamma(2, size=(5, 80))
    by_scipy = {"mean": np.mean, "median": np.median, "min": np.min, "max": np.max, "skewness": stats.skew}
    for name, function in by_scipy.items():
        assert np.allclose(STATISTICS[name](values), function(values, axis=-1)), name
    assert np.allclose(STATISTICS["sd"](values), np.std(values, axis=-1, ddof=1))
    assert STATISTICS["zeros"](np.array([0, 1, 0, 2])) == 0.5
    assert STATISTICS["autocorrelation"](np.array([1.0, -1, 1, -1])) == pytest.approx(-0.75)


def test_two_sided_p_values():
    draws = np.arange(1.0, 101)
    assert two_sided(50.5, draws) == 1 and two_sided(5.0, draws) == pytest.approx(0.1)
    assert two_sided(100.0, draws) == pytest.approx(0.02) and two_sided(101.0, draws) == 0
    assert two_sided(1.0, np.ones(10)) == 1


def test_posterior_check_against_the_exact_distribution():
    """Known sd, flat prior: the mean of a replication is normal around the data's with variance 2/n."""
    y = RNG.normal(3, 1, size=30)
    nodes = {"mu": "Normal(0, 1000)", "y[obs_id]": "Normal(mu, 1)"}
    fit = bl.fit(bl.Model(name="mean", model=bl.Graph(nodes=nodes), seed=1), {"y": y}, progress=False, runs=None)
    row = fit.check(["mean"], ci_prob=0.9).iloc[0]
    half = stats.norm.ppf(0.95) * np.sqrt(2 / 30)
    assert row["observed"] == pytest.approx(y.mean()) and row["p_value"] > 0.9
    assert row["mean"] == pytest.approx(y.mean(), abs=0.025)
    assert [row["eti90_lb"], row["eti90_ub"]] == pytest.approx([y.mean() - half, y.mean() + half], abs=0.05)


def test_a_misfit_shows(right, wrong):
    assert wrong.check(["skewness"])["p_value"].iloc[0] < 0.01
    assert wrong.check(["min"])["p_value"].iloc[0] < 0.01
    assert (right.check()["p_value"] > 0.05).all()
    own = right.check([np.ptp, "max", "min"]).set_index("statistic")["observed"]
    assert own["ptp"] == pytest.approx(own["max"] - own["min"])


def test_prior_check_is_wider(right):
    prior, posterior = right.check(["mean"], "prior").iloc[0], right.check(["mean"]).iloc[0]
    assert prior["eti89_ub"] - prior["eti89_lb"] > 5 * (posterior["eti89_ub"] - posterior["eti89_lb"])


def test_nonsense_is_refused(right):
    with refused("option.unknown-word", "'maen'.*'mean'"):
        right.check(["maen"])
    with refused("option.unknown-word", "kind"):
        right.check(kind="both")
    with refused("option.wrong-type", "'<lambda>'"):
        right.check([lambda v: v])


# -------------------------------------------------------------------------------------- LOO-PIT


def test_pit_is_the_predictive_distribution_function():
    """Normal mean with known sd, left out by hand."""
    y = RNG.normal(0, 1, size=25)
    nodes = {"mu": "Normal(0, 2)", "y[obs_id]": "Normal(mu, 1)"}
    fit = bl.fit(bl.Model(name="mean", model=bl.Graph(nodes=nodes), seed=1), {"y": y}, progress=False, runs=None)
    precision = len(y) - 1 + 0.25
    truth = stats.norm((y.sum() - y) / precision, np.sqrt(1 + 1 / precision)).cdf(y)
    assert np.allclose(fit.loo_pit()["y"], truth, atol=5 * 0.5 / np.sqrt(2000))


def test_pit_is_uniform_only_for_the_right_model(right, wrong):
    assert stats.kstest(right.loo_pit()["y"], "uniform").pvalue > 0.05
    assert stats.kstest(wrong.loo_pit()["y"], "uniform").pvalue < 0.001


@pytest.mark.slow(why="statistical")
def test_pit_of_discrete_outcomes(binary):
    values = binary.loo_pit()["win"]
    assert stats.kstest(values, "uniform").pvalue > 0.01
    assert np.all((values > 0) & (values < 1))


# ------------------------------------------------------------------------------------ decisions


def test_decisions_on_new_rows(right):
    new = {"x": np.array([-1.0, 1.0])}
    drawn = right.predict(new, "draws", seed=3)["y"].to_numpy().reshape(-1, 2)
    squared, absolute = right.decide(new, seed=3), right.decide(new, "absolute", seed=3)
    assert np.allclose(squared["action"], drawn.mean(axis=0))
    assert np.allclose(squared["expected_loss"], drawn.var(axis=0))
    assert np.allclose(absolute["action"], np.median(drawn, axis=0))
    ninety = right.decide(new, Asymmetric(9, 1), seed=3)
    assert np.allclose(ninety["action"], np.quantile(drawn, 0.9, axis=0), atol=0.02)


@pytest.mark.slow(why="compiles")
def test_decisions_between_words(binary):
    new = {"x": np.array([-3.0, 0.0, 3.0])}
    assert binary.decide(new, "zero_one")["action"].tolist()[::2] == ["lost", "won"]
    p = binary.predict(new, "probabilities", seed=5)["P(win=won)"].to_numpy()
    table = {"bet": {"lost": 4.0, "won": -1.0}, "stay": {"lost": 0.0, "won": 0.0}}
    for loss in (table, pd.DataFrame(table)):
        found = binary.decide(new, loss, seed=5)
        by_hand = 4 * (1 - p) - p
        assert np.allclose(found["E[bet]"], by_hand) and np.allclose(found["expected_loss"], np.minimum(by_hand, 0))
        assert found["action"].tolist() == ["bet" if cost < 0 else "stay" for cost in by_hand]
    array = binary.decide(new, np.array([[0.0, 1.0], [1.0, 0.0]]), seed=5)
    assert array["action"].tolist() == ["won" if q > 0.5 else "lost" for q in p]
    with refused("option.unknown-state", "'bet'.*'wonn'.*'won'"):
        binary.decide(new, {"bet": {"lost": 1, "won": 0, "wonn": 2}})
    with refused("option.incomplete", "'won'"):
        binary.decide(new, {"bet": {"lost": 1}})
    with refused("option.unknown-variable", "'a'"):
        binary.decide(new, "zero_one", node="a")


@pytest.mark.slow(why="statistical")
def test_calibration_of_probabilities(binary):
    table = binary.calibration(bins=5)
    assert table["n"].sum() == N and table["state"].unique().tolist() == ["won"]
    assert (table["n"] * table["observed"]).sum() == pytest.approx(WINS.sum())
    assert np.all(np.diff(table["predicted"]) > 0)
    p = binary.predict(kind="probabilities", seed=binary.seed)["P(win=won)"].to_numpy()
    assert table.attrs["brier"] == pytest.approx(2 * ((p - WINS) ** 2).mean())
    fair = np.log(np.where(WINS == 1, p, 1 - p)).mean()
    assert table.attrs["log_score"] == pytest.approx(fair, abs=0.003)
    x = np.random.default_rng(5).normal(size=400)
    won = np.random.default_rng(6).uniform(size=400) < 1 / (1 + np.exp(-0.5 - 1.5 * x))
    other = binary.calibration({"x": x, "win": np.where(won, "won", "lost")}, bins=4, ci_prob=0.999)
    assert other["n"].sum() == 400
    assert np.all((other["eti99.9_lb"] < other["predicted"]) & (other["predicted"] < other["eti99.9_ub"]))


def test_calibration_is_for_discrete_outcomes(right):
    with refused("option.not-applicable", "'y'"):
        right.calibration()
    with refused("option.not-applicable", "zero_one.*loss"):
        right.decide(loss="zero_one")


# ---------------------------------------------------------------------------------------- plots


@pytest.mark.parametrize("what", ["density", "pit", "max"])
def test_plots(right, what, tmp_path):
    file = tmp_path / "plot.png"
    right.plot_check(what).savefig(file)
    assert file.stat().st_size > 5000


def test_a_statistic_is_drawn_with_its_p_value(right):
    axes = right.plot_check("max").axes[0]
    p = right.check("max")["p_value"][0]
    assert axes.get_legend().get_title().get_text() == f"p-value {p:.3f}"


@pytest.mark.slow(why="statistical")
def test_calibration_plot(binary):
    axes = binary.plot_check("calibration").axes[0]
    assert axes.get_xlabel() == "predicted probability of win = won"


def test_unknown_plot(right):
    with refused("option.unknown-word", "'densty'.*'density'"):
        right.plot_check("densty")
    with refused("option.unknown-word", "'mist'") as caught:
        right.plot_check("mist")
    # Offered where outcomes have probabilities only.
    assert "calibration" not in str(caught.value)


def test_without_matplotlib(right, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with refused("run.not-installed", r"'bayeslab\[notebook\]'"):
        right.plot_check("density")


def test_a_loss_for_each_state_needs_states(right):
    with refused("option.not-applicable", "loss for each state"):
        right.decide(loss={"a": {"1": 2}})


def test_one_statistic_stands_for_a_list_of_one(right):
    assert right.check("median").equals(right.check(["median"]))
    assert right.check(np.mean)["observed"].tolist() == pytest.approx([Y.mean()])


@pytest.mark.parametrize("given", [None, 3, [], {"a": np.mean}])
def test_what_is_no_list_of_statistics(right, given):
    with refused("option.wrong-type", "'autocorrelation'"):
        right.check(given)


def _fails(values):
    raise KeyError("p")


@pytest.mark.parametrize("function", [_fails, lambda v: "a", lambda v: v[1000]])
def test_a_statistic_that_fails_is_named(right, function):
    with refused("option.not-applicable", f"{function.__name__}.*'y'.*Error"):
        right.check([function])


@pytest.mark.parametrize("given", [["mode"], [3], [["mean"]]])
def test_an_unknown_statistic(right, given):
    with refused("option.unknown-word", "mode|3|mean"):
        right.check(given)
