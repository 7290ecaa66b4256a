"""A window on the past: what is conditioned on stays and is not scored, and open cells follow from the values before."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from tests.refusals import refused


def model(states=1, window=1, **content):
    window_of = {"window": window} if window else {}
    return bl.Model(name="m", model={"family": "hmm", "columns": ["y"], "states": states} | window_of | content)


def fitted(declared, table, method="em", **options):
    return bl.fit(declared, table, method, seed=1, progress=False, runs=None, **options)


def drifting(n=120, level=100.0):
    rng = np.random.default_rng(31)
    y = np.zeros(n)
    for t in range(1, n):
        y[t] = 0.8 * y[t - 1] + 0.5 * rng.normal()
    return y + level


@pytest.fixture(scope="module")
def autoregression():
    return fitted(model(), {"y": drifting()})


def line(fit):
    p = fit.posterior
    return p["intercept"].item(), p["slope"].item(), p["sd"].item()


def drawn(fit, table):
    values = fit.predict(table, kind="draws", seed=3)["y"].to_numpy()
    return values.reshape(-1, values.shape[-1])


def assert_normal(draws, mean, sd):
    n = len(draws)
    assert abs(draws.mean() - mean) < 4.5 * sd / n**0.5
    assert abs(draws.std() - sd) < 4.5 * sd / (2 * n) ** 0.5


@pytest.mark.slow(why="statistical")
def test_rows_that_are_conditioned_on_stay(autoregression):
    a, b, sd = line(autoregression)
    made = drawn(autoregression, {"y": [101.0, np.nan, 100.5, 103.0]})
    assert np.all(made[:, 0] == 101.0) and np.all(made[:, 2] == 100.5)
    assert_normal(made[:, 1], a + b * 101.0, sd)
    assert_normal(made[:, 3], a + b * 100.5, sd)
    table = autoregression.predict({"y": [101.0, np.nan, 100.5, 103.0]})
    assert table["mean"].tolist()[::2] == [101.0, 100.5] and table["sd"].tolist()[::2] == [0.0, 0.0]


@pytest.mark.slow(why="statistical")
def test_cells_left_open_at_the_end_are_a_forecast(autoregression):
    a, b, sd = line(autoregression)
    made = drawn(autoregression, {"y": [101.0, np.nan, np.nan, np.nan]})
    mean, variance = 101.0, 0.0
    for step in range(1, 4):
        mean, variance = a + b * mean, sd**2 + b**2 * variance
        assert_normal(made[:, step], mean, variance**0.5)
    want = b * sd / (sd**2 * (1 + b**2)) ** 0.5
    assert np.corrcoef(made[:, 1], made[:, 2])[0, 1] == pytest.approx(want, abs=4.5 * (1 - want**2) / len(made) ** 0.5)


@pytest.mark.slow(why="statistical")
def test_gaps_in_time_are_open_cells():
    y = drifting()
    fit = fitted(model(time="t"), {"t": np.arange(len(y)), "y": y})
    a, b, sd = line(fit)
    made = drawn(fit, {"t": [0, 3, 4], "y": [101.0, np.nan, 103.0]})
    mean = a + b * (a + b * (a + b * 101.0))
    assert_normal(made[:, 1], mean, sd * (1 + b**2 + b**4) ** 0.5)
    assert np.all(made[:, [0, 2]] == [101.0, 103.0])


@pytest.mark.slow(why="statistical")
def test_a_sequence_begins_without_a_past(autoregression):
    y = drifting(100)
    fit = fitted(model(sequence="s"), {"s": ["a"] * 50 + ["b"] * 50, "y": y})
    with pytest.warns(UserWarning, match="row 4"):
        made = drawn(fit, {"s": list("aaabbb"), "y": [101.0, 100.0, 99.0, np.nan, np.nan, 100.0]})
    assert np.isnan(made[:, 3:5]).all() and np.all(made[:, [0, 5]] == [101.0, 100.0])
    with refused("data.nothing-to-predict", "'y'"), pytest.warns(UserWarning, match="begins anew"):
        autoregression.predict({"y": [np.nan, np.nan]})


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("window", [1, 2])
def test_open_cells_of_two_states_by_enumeration(window):
    rng = np.random.default_rng(5)
    z = np.repeat([0, 1, 0, 1, 0, 1], 25)
    y = np.zeros(150)
    for t in range(1, 150):
        y[t] = [0.0, 6.0][z[t]] + [0.5, -0.3][z[t]] * y[t - 1] + rng.normal()
    fit = fitted(model(states=2, window=window), {"y": y})
    p = {name: v.to_numpy()[0, 0] for name, v in fit.posterior.to_dataset().items()}
    new = np.array([0.5, 1.0, 4.5, np.nan, 4.0, 5.0, 3.0])
    past = [[new[t - lag] if t >= lag else np.nan for lag in range(1, window + 1)] for t in range(len(new))]
    there = [t for t in range(len(new)) if not np.isnan([new[t], *past[t]]).any()]
    total, at_open = 0.0, np.zeros(2)
    for path in itertools.product((0, 1), repeat=len(new)):
        weight = p["initial"][path[0]]
        weight *= np.prod([p["transition"][i, j] for i, j in itertools.pairwise(path)])
        for t in there:
            k = path[t]
            weight *= stats.norm.pdf(new[t], p["intercept"][k] + p["slope"][k] @ past[t], p["sd"][k])
        total += weight
        at_open[path[3]] += weight
    share, centre = at_open / total, p["intercept"] + p["slope"] @ past[3]
    mean = share @ centre
    sd = np.sqrt(share @ (p["sd"] ** 2 + (centre - mean) ** 2))
    made = drawn(fit, {"y": new})[:, 3]
    assert abs(made.mean() - mean) < 4.5 * sd / len(made) ** 0.5


def test_checks_are_of_rows_with_a_distribution(autoregression):
    y = drifting()
    kept = autoregression.posterior_predictive()["y"].to_numpy()[..., 0]
    assert np.all(kept == y[0])
    table = autoregression.check(["mean", "sd", "min", "max"]).set_index("statistic")
    assert table.loc["mean", "observed"] == pytest.approx(y[1:].mean(), rel=1e-12)
    assert table["p_value"].min() > 0.05


@pytest.mark.slow(why="statistical")
def test_decisions_are_about_open_cells(autoregression):
    a, b, sd = line(autoregression)
    table = {"y": [101.0, np.nan, 100.5, 103.0, np.nan]}
    decided = autoregression.decide(table, seed=4)
    assert decided["obs_id"].tolist() == [1, 4]
    n = 1_000
    np.testing.assert_allclose(decided["action"], [a + b * 101.0, a + b * 103.0], atol=4.5 * sd / n**0.5)
    anew, first = (pytest.warns(UserWarning, match=match) for match in ("begins anew", "row 1"))
    with refused("option.not-applicable", "'y'"), anew, first:
        autoregression.decide({"y": [np.nan, 101.0, 102.0]})


def least_squares(y, window):
    """The maximum of the log likelihood of an autoregression, given its first values."""
    design = np.column_stack(
        [np.ones(len(y) - window), *(y[window - lag : len(y) - lag] for lag in range(1, window + 1))]
    )
    residual = y[window:] - design @ np.linalg.lstsq(design, y[window:], rcond=None)[0]
    sd = np.sqrt(np.mean(residual**2))
    return stats.norm.logpdf(residual, 0, sd).sum()


def test_windows_are_compared_on_the_rows_that_all_predict():
    y = np.random.default_rng(1).normal(size=60)
    y[:5] = [6, -6, 6, -6, 6]
    windows = (0, 1, 5)
    whole = {f"w{w}": fitted(model(window=w), {"y": y}) for w in windows}
    for criterion in ("bic", "aic", "loo", "evidence"):
        with refused("data.different-data", "'y', row 1"):
            bl.compare(whole, criterion, progress=False)
    fits = {f"w{w}": fitted(model(window=w), {"y": y[5 - w :]}) for w in windows}
    table = bl.compare(fits, "bic", progress=False).table
    for w in windows:
        want = least_squares(y[5 - w :], w)
        assert table.loc[f"w{w}", "max_log_likelihood"] == pytest.approx(want, abs=1e-5)
        assert table.loc[f"w{w}", "bic"] == pytest.approx(-2 * want + (w + 2) * np.log(55), abs=1e-4)
    others = {"w0": fits["w0"], "w1": fitted(model(), {"y": y[3:]})}
    with refused("data.different-data", "55 values.*56"):
        bl.compare(others, "bic", progress=False)


@pytest.mark.slow(why="compiles")
def test_leave_one_out_terms_are_of_predicted_rows():
    y = drifting(40, 0.0)
    fit = fitted(model(window=2), {"y": y}, "nuts", draws=200, tune=200, chains=2)
    loos = bl.compare({"w2": fit}, refit=False, progress=False).loos["w2"]
    assert len(loos.elpd) == 38 and np.all(loos.elpd < 0)


def test_an_unscored_window_has_no_cross_validation():
    table = pd.DataFrame({"y": drifting(), "x": np.arange(120.0)})
    with refused("option.not-applicable", "sequence of states"):
        bl.cross_validate({"w1": model()}, table, method="em", folds=3, progress=False)
