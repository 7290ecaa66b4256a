"""Rows predicted after fits of hidden paths and of effects of rows: which are rows of the fit, and which are new."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.errors import DataError

P = np.array([[0.9, 0.1], [0.3, 0.7]])
Y = np.array([0.2, 2.9, 1.5, 1.4])
CHAIN = {"z[t]": "MarkovChain([[0.9, 0.1], [0.3, 0.7]])", "y[t]": "Normal(3 * z, 1)"}


def chances(y):
    """P(z = 1) of each cell, by the sum over all paths."""
    paths = np.array(list(itertools.product((0, 1), repeat=len(y))))
    weight = np.prod(P[paths[:, :-1], paths[:, 1:]], axis=1)
    weight = weight * np.exp(np.nansum(stats.norm.logpdf(y, 3.0 * paths, 1), axis=1))
    return weight @ paths / weight.sum()


@pytest.fixture(scope="module")
def named():
    model = bl.Model(data={"rows": "t"}, dims={"state": 2, "next_state": "state"}, model=bl.Graph(nodes=CHAIN))
    table = pd.DataFrame({"t": range(2001, 2005), "y": Y})
    return bl.fit(model, table, runs=None, seed=1, draws=4000, chains=1)


def mean(fit, table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return fit.predict(table)["mean"].to_numpy()


@pytest.mark.slow(why="compiles")
def test_a_path_of_known_numbers_is_decoded(named):
    np.testing.assert_allclose(named.states.probabilities()["P(state=1)"], chances(Y), atol=1e-9)
    assert named.states.path()["state"].tolist() == [0, 1, 1, 1]
    named.log_likelihood()
    np.testing.assert_allclose(
        named.data_tree["log_likelihood"]["y"].to_numpy()[0, [0, -1], 0],
        [_first_given_others()] * 2,
    )


def _first_given_others():
    """log p(y_1 | all other cells)."""
    other = chances(np.r_[np.nan, Y[1:]])[0]
    return np.log(np.array([1 - other, other]) @ stats.norm.pdf(Y[0], [0.0, 3.0], 1))


@pytest.mark.parametrize("names", [[2004, 2002], [2003], [2001, 2002, 2003, 2004]])
def test_named_rows_of_the_fit_keep_their_states(named, names):
    expected = 3 * chances(Y)[[name - 2001 for name in names]]
    np.testing.assert_allclose(mean(named, pd.DataFrame({"t": names})), expected, atol=0.12)


@pytest.mark.slow(why="compiles")
def test_rows_after_those_of_the_fit_are_forecast_beside_them(named):
    table = pd.DataFrame({"t": range(2001, 2007), "y": np.r_[Y, np.nan, np.nan]})
    expected = 3 * chances(np.r_[Y, np.nan, np.nan])
    np.testing.assert_allclose(mean(named, table), expected, atol=0.12)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("table", [{"t": [2005, 2006]}, {"t": [2004, 2005]}, {"t": [2005, 2006], "y": [np.nan] * 2}])
def test_rows_that_begin_a_path_anew_are_named(named, table):
    with pytest.warns(UserWarning, match="the path 'z' of the new rows begins anew"):
        answer = named.predict(pd.DataFrame(table))
    np.testing.assert_allclose(answer["mean"], 3 * chances(np.full(2, np.nan)), atol=0.12)


@pytest.mark.slow(why="compiles")
def test_another_series_begins_without_a_warning():
    model = bl.Model(
        data={"rows": "t"},
        dims={"state": 2, "next_state": "state"},
        model=bl.Graph(nodes=CHAIN | {"z[t]": "MarkovChain([[0.9, 0.1], [0.3, 0.7]], sequence=s)"}),
    )
    fit = bl.fit(model, pd.DataFrame({"s": [1, 1, 2, 2], "y": Y}), runs=None, seed=1, draws=4000, chains=1)
    new = pd.DataFrame({"s": [7, 7], "y": [2.0, np.nan]})
    np.testing.assert_allclose(mean(fit, new)[1], 3 * chances(new["y"].to_numpy())[1], atol=0.12)
    assert mean(fit, pd.DataFrame({"s": [7, 7]})).shape == (2,)
    with pytest.warns(UserWarning, match="begins anew"):
        fit.predict(pd.DataFrame({"s": [2, 2]}))


def test_named_rows_of_the_fit_keep_their_effects_in_any_order():
    nodes = {"tau": "HalfNormal(2)", "u[t]": "Normal(0, tau)", "c[t]": "Poisson(exp(u))"}
    table = pd.DataFrame({"t": range(2001, 2007), "c": [0, 0, 1, 2, 30, 1]})
    fit = bl.fit(bl.Model(data={"rows": "t"}, model=bl.Graph(nodes=nodes)), table, runs=None, seed=1, draws=500)
    expected = np.exp(fit.posterior["u"]).mean(("chain", "draw")).to_numpy()
    np.testing.assert_allclose(mean(fit, table[["t"]][::-1])[::-1], expected, rtol=0.15, atol=0.1)
    np.testing.assert_allclose(mean(fit, table[["t"]].iloc[[4]]), expected[4], rtol=0.1)
    with pytest.raises(DataError, match="new and for known levels separately"):
        fit.predict(pd.DataFrame({"t": [2005, 2009]}))


SERIES = {
    "index in the node 'y'": "Normal(b * index(t), 0.3)",
    "lag in the node 'y'": "Normal(b * lag(y, 1, start=0), 0.3)",
    "cumsum in the node 'm'": "Normal(m, 0.3)",
    "previous in the node 'h'": "Normal(h, 0.3)",
}


@pytest.mark.parametrize("what", SERIES)
@pytest.mark.parametrize("names", [True, False])
def test_rows_that_begin_a_series_anew_are_named(what, names):
    nodes = {"b": "Normal(0, 1)", "y[t]": SERIES[what]}
    nodes |= {"m[t]": "b * cumsum(x)"} if "cumsum" in what else {}
    nodes |= {"h[t]": "Normal(previous(h, 1, start=0), 1)"} if "previous" in what else {}
    table = pd.DataFrame({"t": range(2001, 2009), "x": 1.0, "y": np.arange(8) / 2})
    table = table if names else table.drop(columns="t")
    fit = bl.fit(bl.Model(data={"rows": "t"}, model=bl.Graph(nodes=nodes)), table, runs=None, seed=1, draws=200)
    new = pd.DataFrame({"x": [1.0, 1.0]} | ({"t": [2009, 2010]} if names else {}))
    with pytest.warns(UserWarning, match=f"{what} of the new rows begins anew"):
        fit.predict(new)


def test_rows_that_repeat_those_of_the_fit_go_on():
    nodes = {"b": "Normal(0, 1)", "y[t]": "Normal(b * index(t), 0.3)"}
    y = np.arange(8) / 2
    model = bl.Model(data={"rows": "t"}, model=bl.Graph(nodes=nodes))
    fit = bl.fit(model, {"y": y}, runs=None, seed=1)
    np.testing.assert_allclose(mean(fit, pd.DataFrame({"y": np.r_[y, np.nan]}))[-1], 4, atol=0.2)


def test_a_computed_column_that_begins_anew_is_named():
    model = bl.Model(data={"derive": {"z": "index(obs_id)"}}, model=bl.Regression(formula="y ~ z"))
    fit = bl.fit(model, {"x": np.arange(8.0), "y": np.sqrt(np.arange(8))}, runs=None, seed=1)
    with pytest.warns(UserWarning, match="the computed column 'z' of the new rows begins anew"):
        fit.predict({"x": [8.0]})
