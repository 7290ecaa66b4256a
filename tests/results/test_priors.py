"""The priors of a model, their draws, and the outcomes that they imply, against closed forms."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from scipy import stats

import bayeslab as bl
from bayeslab.results.priors import sparkline
from tests.refusals import refused

MODELS = Path(__file__).parents[2] / "models"
DRAWS = 4_000


def near(values: np.ndarray, quantile: float, exact: float, density: float) -> bool:
    """Whether a sample quantile is within four standard errors of the exact one."""
    error = np.sqrt(quantile * (1 - quantile) / len(values)) / density
    return abs(np.quantile(values, quantile) - exact) < 4 * error


def coin(**nodes: str) -> bl.Model:
    return bl.Model(model={"family": "graph", "nodes": {"p": "Beta(2, 5)", **nodes}}, seed=1)


def test_draws_have_the_quantiles_of_the_prior():
    shown = bl.priors(coin(**{"y[obs_id]": "Bernoulli(p)"}), {"y": [1, 0, 1, 1]}, DRAWS)
    assert shown.texts == {"p": "Beta(2, 5)"}
    law = stats.beta(2, 5)
    for quantile in (0.055, 0.5, 0.945):
        exact = law.ppf(quantile)
        assert near(shown.draws["p"], quantile, exact, law.pdf(exact))
    assert shown.frame.loc["p", "50%"] == np.quantile(shown.draws["p"], 0.5)


def test_the_share_of_ones_is_beta_binomial_and_stands_beside_the_data():
    (outcome,) = bl.priors(coin(**{"y[obs_id]": "Bernoulli(p)"}), {"y": [1, 0, 1, 1]}, DRAWS).implied
    assert outcome.levels == ("0", "1") and outcome.observed.tolist() == [0.25, 0.75] and np.isnan(outcome.within)
    exact = stats.betabinom(4, 2, 5)
    for k in range(5):
        share = np.mean(outcome.drawn[:, 1] == k / 4)
        assert abs(share - exact.pmf(k)) < 4 * np.sqrt(exact.pmf(k) * (1 - exact.pmf(k)) / DRAWS)
    table = bl.priors(coin(**{"y[obs_id]": "Bernoulli(p)"}), {"y": [1, 0, 1, 1]}, DRAWS).outcomes
    assert table.loc[("y = 1", "data"), "50%"] == 0.75 and ("y = 0", "data") not in table.index


def test_numbers_have_quantiles_and_the_share_within_the_range_of_the_data():
    model = bl.Model(model={"family": "graph", "nodes": {"m": "Normal(1, 2)", "y[obs_id]": "Normal(m, 1)"}}, seed=1)
    (outcome,) = bl.priors(model, {"y": [0.0, 3.0]}, DRAWS).implied
    law = stats.norm(1, np.sqrt(5))
    # Two rows of one draw share their mean: as many independent values as draws, at least.
    exact = law.cdf(3) - law.cdf(0)
    assert abs(outcome.within - exact) < 4 * np.sqrt(exact * (1 - exact) / DRAWS)
    assert abs(np.quantile(outcome.drawn, 0.945) - law.ppf(0.945)) < 4 * np.sqrt(0.055 * 0.945 / DRAWS) / law.pdf(
        law.ppf(0.945)
    )
    assert outcome.observed.tolist() == [0.0, 3.0]


def test_default_priors_of_a_regression_are_those_of_each_coefficient():
    rng = np.random.default_rng(1)
    data = {"y": rng.normal(10, 2, 50), "x": rng.normal(0, 5, 50), "g": np.array(["a", "b"] * 25)}
    shown = bl.priors(bl.Model(model=bl.Regression(formula="y ~ x + (1 | g)"), seed=1), data, DRAWS)
    assert {"Intercept_centred", "b[x]", "sigma", "sd_g"} <= shown.texts.keys()
    for label in ("b[x]", "Intercept_centred"):
        law = stats.norm(*map(float, shown.texts[label].removeprefix("Normal(").removesuffix(")").split(",")))
        assert near(shown.draws[label], 0.945, law.ppf(0.945), law.pdf(law.ppf(0.945)))


def test_rows_count_as_often_as_their_weights():
    shown = bl.priors(MODELS / "housing.yaml", draws=200)
    counts = dict.fromkeys(("low", "medium", "high"), 0)
    with (MODELS / "data" / "housing.csv").open() as file:
        for row in csv.DictReader(file):
            counts[row["satisfaction"]] += int(row["households"])
    (outcome,) = shown.implied
    assert outcome.levels == tuple(counts)
    np.testing.assert_allclose(outcome.observed, np.array(list(counts.values())) / sum(counts.values()))


def test_missing_outcomes_are_left_out():
    (outcome,) = bl.priors(coin(**{"y[obs_id]": "Bernoulli(p)"}), {"y": [1, np.nan, 1, 0]}, 50).implied
    np.testing.assert_allclose(outcome.observed, [1 / 3, 2 / 3])


def test_an_improper_prior_is_named_and_nothing_is_drawn():
    model = bl.Model(model={"family": "graph", "nodes": {"m": "Flat()", "y[obs_id]": "Normal(m, 1)"}})
    shown = bl.priors(model, {"y": [1.0, 2.0]})
    assert shown.improper == ("m",) and not shown.draws and not shown.implied
    assert "improper: m." in str(shown) and "Flat()" in str(shown) and shown.frame["50%"].isna().all()


def test_an_improper_prior_has_no_picture():
    model = bl.Model(model={"family": "graph", "nodes": {"m": "Flat()", "y[obs_id]": "Normal(m, 1)"}})
    with refused("model.improper", "'m'"):
        bl.priors(model, {"y": [1.0, 2.0]}).plot()


def test_the_diagonal_of_correlations_is_no_parameter():
    """Of two effects under LKJ(2), (1 + r) / 2 is Beta(2, 2)."""
    rng = np.random.default_rng(1)
    data = {"y": rng.normal(size=20), "g": np.array(["a", "b"] * 10)}
    formula = {"mu": "y ~ 1 + (1 | p | g)", "sigma": "~ 1 + (1 | p | g)"}
    shown = bl.priors(bl.Model(model=bl.Regression(formula=formula), seed=1), data, DRAWS)
    assert shown.texts["corr_g_p"] == "LKJ(2)" and shown.draws["corr_g_p"].shape == (DRAWS,)
    law = stats.beta(2, 2, loc=-1, scale=2)
    for quantile in (0.055, 0.5, 0.945):
        assert near(shown.draws["corr_g_p"], quantile, law.ppf(quantile), law.pdf(law.ppf(quantile)))


def test_a_column_called_as_a_parameter_is_no_outcome_if_no_formula_uses_it():
    rng = np.random.default_rng(1)
    data = {"y": rng.normal(size=20), "x": rng.normal(size=20), "b": rng.normal(size=20), "sigma": rng.normal(size=20)}
    shown = bl.priors(bl.Model(model=bl.Regression(formula="y ~ x"), seed=1), data, 100)
    assert [outcome.name for outcome in shown.implied] == ["y"]
    assert {"b[x]", "sigma"} <= shown.draws.keys()


def test_outcomes_beyond_the_largest_float_are_infinite():
    nodes = {"m": "Normal(0, 5000)", "y[obs_id]": "LogNormal(m, 1)"}
    shown = bl.priors(bl.Model(model={"family": "graph", "nodes": nodes}, seed=1), {"y": [1.0, 2.0, 3.0]}, 200)
    row = shown.outcomes.loc[("y", "prior")]
    assert row["5.5%"] == 0.0 and row["94.5%"] == np.inf and "inf" in str(shown)


def test_what_has_no_priors_is_refused():
    with refused("model.no-graph"):
        bl.priors(learner())
    with refused("model.not-applicable", "no priors"):
        bl.priors(MODELS / "asia.yaml")
    with refused("option.out-of-range", "draws"):
        bl.priors(coin(), draws=0)


def learner() -> Path:
    return next(path for path in sorted(MODELS.glob("*.yaml")) if "family: learner" in path.read_text())


def test_a_picture_has_a_panel_for_each_prior_and_outcome():
    figure = bl.priors(MODELS / "housing.yaml", draws=200).plot()
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0].startswith("cutpoints\nOrdered") and titles[9].startswith("satisfaction = high")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["prior predictive", "data"]


def test_shapes():
    assert sparkline(np.linspace(0, 1, 1_000)) == "█" * 16
    assert sparkline(np.ones(5)) == sparkline(None) == sparkline(np.array([0.0, 1.0])) == ""
    assert sparkline(np.random.default_rng(1).exponential(size=10_000))[0] == "█"


def test_a_column_that_a_mixture_does_not_use_may_have_the_name_of_a_parameter():
    rng = np.random.default_rng(1)
    data = {"y": rng.normal(size=20), "mean": rng.normal(size=20), "weights": np.ones(20)}
    shown = bl.priors(bl.Model(model=bl.Mixture(columns=["y"], components=2), seed=1), data, 50)
    assert {"mean", "weights"} <= shown.draws.keys() and [outcome.name for outcome in shown.implied] == ["y"]
