"""Rows that follow each other: what leaves rows out must not move the others together.

The truth is the normal linear model in closed form.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.results.compare import loo
from tests.refusals import refused

N = 15


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Each outcome follows the predictor of the row before; one of them is far off, and has leverage."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=N)
    x[6] = 9
    y = np.r_[0, x[:-1]] + rng.normal(size=N) * 0.5
    y[7] = 3
    return pd.DataFrame({"x": x, "y": y})


def left_out(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log p(y_i | other rows) of y = b z + N(0, 0.5²), b ~ N(0, 1)."""
    out = []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        precision = 1 + (z[rest] ** 2).sum() / 0.25
        mean = (z[rest] * y[rest]).sum() / 0.25 / precision
        out.append(stats.norm.logpdf(y[i], mean * z[i], np.sqrt(0.25 + z[i] ** 2 / precision)))
    return np.array(out)


def before(values: pd.Series) -> np.ndarray:
    return np.r_[0, values.to_numpy()[:-1]]


FORMULA = bl.Regression(formula="y ~ 0 + z", priors={"z": "Normal(0, 1)", "sigma": 0.5})
MODELS = {
    "a computed column": bl.Model(data={"derive": {"z": "lag(x, 1, start=0)"}}, model=FORMULA),
    "a computed column of the outcome": bl.Model(data={"derive": {"z": "lag(y, 1, start=0)"}}, model=FORMULA),
    "a node": bl.Model(
        data={"rows": "t"}, model=bl.Graph(nodes={"b": "Normal(0, 1)", "y[t]": "Normal(b * lag(x, 1, start=0), 0.5)"})
    ),
    "a node of the outcome": bl.Model(
        data={"rows": "t"}, model=bl.Graph(nodes={"b": "Normal(0, 1)", "y[t]": "Normal(b * lag(y, 1, start=0), 0.5)"})
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_refit_without_a_row_keeps_the_rows_that_follow_it(name, table):
    fit = bl.fit(MODELS[name], table, runs=None, seed=1)
    assert fit.method == "exact"
    found = loo(fit)
    assert found.refitted
    expected = left_out(before(table["y" if "outcome" in name else "x"]), table["y"].to_numpy())
    np.testing.assert_allclose(found.elpd, expected, atol=0.3)
    others = np.delete(np.arange(N), found.refitted)
    np.testing.assert_allclose(found.elpd[others], expected[others], atol=0.05)


@pytest.mark.slow(why="statistical")
def test_posteriors_that_do_not_overlap_are_joined_in_steps(table):
    """The observation is 60 sds of the posterior away from where it is without it."""
    given = table.assign(y=table["y"].where(table.index != 7, -3.0), z=before(table["x"]))
    model = bl.Model(data={"rows": "t"}, model=bl.Graph(nodes={"b": "Normal(0, 1)", "y[t]": "Normal(b * z, 0.5)"}))
    found = loo(bl.fit(model, given, method="nuts", runs=None, seed=1))
    expected = left_out(given["z"].to_numpy(), given["y"].to_numpy())
    assert found.refitted == (7,)
    np.testing.assert_allclose(found.elpd, expected, atol=0.5)


CHAIN = {"mu": "Normal(3, 1)", "z[t]": "MarkovChain([[0.9, 0.1], [0.3, 0.7]])", "y[t]": "Normal(mu * z, 1)"}
IN_ORDER = {
    "the path 'z'": CHAIN,
    "the states 'l'": {"l[t]": "LocalLevel(1, initial=Normal(0, 3))", "y[t]": "Normal(l, 1)"},
    "lag in the node 'y'": {"a": "Normal(0, 1)", "y[t]": "Normal(a * lag(x, 1, start=0), 1)"},
    "previous in the node 'h'": {"h[t]": "Normal(previous(h, 1, start=0), 1)", "y[t]": "Normal(h, 1)"},
    "index in the node 'm'": {"a": "Normal(0, 1)", "m[t]": "a * index(t)", "y[t]": "Normal(m, 1)"},
    "cumsum in the node 'm'": {"a": "Normal(0, 1)", "m[t]": "a * cumsum(x)", "y[t]": "Normal(m, 1)"},
}


@pytest.mark.parametrize("what", IN_ORDER)
def test_rows_in_an_order_are_not_cross_validated(what, table):
    dims = {"state": 2, "next_state": "state"} if "path" in what else {}
    model = bl.Model(data={"rows": "t"}, dims=dims, model=bl.Graph(nodes=IN_ORDER[what]))
    with refused("option.not-applicable", f"{what} depends on the order of the rows.*compare"):
        bl.cross_validate({"m": model}, table, folds=3, progress=False)


def test_hidden_markov_models_are_not_cross_validated_by_row(table):
    model = bl.Model(data={"rows": "t"}, model={"family": "hmm", "columns": ["y"], "states": 2})
    with refused("option.not-applicable", "sequence of states"):
        bl.cross_validate({"m": model}, table, folds=3, progress=False)


@pytest.mark.parametrize("text", ["lag(x, 1, start=0)", "cumsum(x)", "index(obs_id)", "2 * w"])
@pytest.mark.parametrize("family", ["regression", "learner"])
def test_computed_columns_in_an_order_are_not_cross_validated(text, family, table):
    derive = {"z": text} | ({"w": "cumsum(x)"} if "w" in text else {})
    words = {"family": "learner", "learner": "linear", "target": "y"}
    model = bl.Model(data={"derive": derive}, model=words if family == "learner" else bl.Regression(formula="y ~ z"))
    with refused("option.not-applicable", "computed column '[zw]' depends on the order.*in the table instead"):
        bl.cross_validate({"m": model}, table, folds=3, progress=False)


def test_columns_that_the_model_does_not_use_do_not_matter(table):
    model = bl.Model(data={"derive": {"z": "cumsum(x)", "w": "x - mean(x)"}}, model=bl.Regression(formula="y ~ w"))
    assert len(bl.cross_validate({"m": model}, table, folds=3, progress=False).table) == 1


@pytest.mark.parametrize("ask", [lambda fit: fit.predictions(), lambda fit: fit.slopes("x"), lambda fit: fit.r2()])
def test_effects_are_not_of_rows_in_an_order(ask, table):
    model = bl.Model(data={"derive": {"z": "lag(x, 1, start=0)"}}, model=bl.Regression(formula="y ~ z"))
    fit = bl.fit(model, table, runs=None)
    with refused("option.not-applicable", "computed column 'z' depends on the order"):
        ask(fit)
