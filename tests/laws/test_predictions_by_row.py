"""Law: what is predicted of a row does not depend on which other rows stand in the table.

A complete row is replicated, in a row with open cells what is given stays; a net, which has nothing to predict of a
complete row, returns it. Rows of chains depend on each other, and there an empty row at the end, which says nothing,
changes no other.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from tests.refusals import refused

ROWS = pd.DataFrame({"a": [0.5, 4.0, np.nan, np.nan, 3.0], "b": [0.0, np.nan, 5.0, np.nan, 6.0]})
COMPLETE = [0, 4]


def clouds():
    rng = np.random.default_rng(3)
    first = rng.random(160) < 0.6
    a = np.where(first, 0.0, 4.0) + rng.normal(0, 1, 160)
    return pd.DataFrame({"a": a, "b": 0.5 * a + np.where(first, 0.0, 4.0) + rng.normal(0, 1, 160)})


def fitted(content, method, table=None, **options):
    declared = bl.Model(name="m", model=content)
    return bl.fit(declared, clouds() if table is None else table, method, seed=1, progress=False, runs=None, **options)


SHORT = {"draws": 400, "tune": 100}
MODELS = {
    "mixture": ({"family": "mixture", "components": 2}, "em", {}),
    "mixture of independent columns": (
        {"family": "mixture", "components": 2, "covariance": "diagonal"},
        "gibbs",
        SHORT,
    ),
    "process": ({"family": "mixture", "components": "dirichlet_process"}, "gibbs", SHORT),
    "latent features": ({"family": "latent_features", "features": 1}, "em", {}),
    "binary features": ({"family": "latent_features", "features": 1, "kind": "binary"}, "gibbs", SHORT),
}


def cells(fit, table):
    """Draws of each column (draws, rows), NaN where the answer has none."""
    made = fit.predict(table, kind="draws", seed=5)
    n = made.sizes["chain"] * made.sizes["draw"]
    lost = np.full((n, len(table)), np.nan)
    return {c: made[c].to_numpy().reshape(n, -1).astype(float) if c in made else lost for c in table}


def assert_alike(one, other):
    """Equal, or equal in mean and spread: in standard errors of as many draws as are independent, a fourth."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        np.testing.assert_array_equal(one, other)
        return
    n = min(len(one), len(other)) / 4
    sd = np.hypot(one.std(), other.std())
    assert abs(one.mean() - other.mean()) < 4.5 * sd / n**0.5
    assert abs(one.std() - other.std()) < 4.5 * sd / n**0.5


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("name", MODELS)
def test_independent_rows(name):
    content, method, options = MODELS[name]
    fit = fitted(content | {"columns": ["a", "b"]}, method, **options)
    together = cells(fit, ROWS)
    for row in range(len(ROWS)):
        alone = cells(fit, ROWS.iloc[[row]].reset_index(drop=True))
        for column in ROWS:
            given = ROWS[column][row]
            here, there = together[column][:, row], alone[column][:, 0]
            if row in COMPLETE:
                assert np.ptp(here) > 0 and np.ptp(there) > 0
            elif not np.isnan(given):
                assert np.all(here == given) and np.isnan(there).all()
                continue
            assert_alike(here, there)


def test_columns_of_the_answer_are_those_that_some_row_predicts():
    content = {"family": "mixture", "columns": ["a", "b"], "components": 2, "covariance": "diagonal"}
    fit = fitted(content, "em")
    for rows, columns in (([1], ["b"]), ([2], ["a"]), ([1, 2], ["a", "b"]), ([0], ["a", "b"]), ([0, 1], ["a", "b"])):
        made = fit.predict(ROWS.iloc[rows].reset_index(drop=True), kind="draws")
        assert sorted(made.data_vars) == columns


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("content", [{}, {"covariance": "full"}, {"window": 1, "columns": ["a"]}])
def test_an_empty_row_at_the_end_of_a_chain(content):
    fit = fitted({"family": "hmm", "columns": ["a", "b"], "states": 2} | content, "em")
    columns = content.get("columns", ["a", "b"])
    table = ROWS.iloc[[0, 4, 1, 4]][columns].reset_index(drop=True)
    longer = pd.concat([table, pd.DataFrame({c: [np.nan] for c in columns})], ignore_index=True)
    one, other = cells(fit, table), cells(fit, longer)
    for column in columns:
        for row in range(len(table)):
            assert_alike(one[column][:, row], other[column][:, row])
    open_row = cells(fit, longer)["a"][:, -1]
    assert np.ptp(open_row) > 0


def test_given_cells_of_chains_are_certain():
    fit = fitted({"family": "hmm", "columns": ["a", "b"], "states": 2}, "em")
    rows = pd.DataFrame({"a": [0.1, 0.3, 1e8 / 3], "b": [np.nan] * 3})
    mixed = pd.concat([rows, pd.DataFrame({"a": [0.0], "b": [0.5]})], ignore_index=True)
    given = fit.predict(mixed).query("node == 'a'").iloc[:3]
    assert given["sd"].eq(0).all() and given["mean"].tolist() == rows["a"].tolist()


def test_a_net_returns_what_is_given():
    table = pd.DataFrame({"r": ["y", "n", "y", "n"] * 10, "s": ["u", "u", "v", "v"] * 10})
    content = {
        "family": "bayes_net",
        "variables": {"r": {"states": ["y", "n"]}, "s": {"parents": ["r"], "states": ["u", "v"]}},
    }
    fit = fitted(content, "exact", table)
    both = fit.predict(pd.DataFrame({"r": ["y", "n"], "s": ["v", np.nan]}))
    alone = fit.predict(pd.DataFrame({"r": ["n"], "s": [np.nan]}))
    assert both["P(s=v)"][0] == pytest.approx(1.0, abs=1e-12)
    assert both["P(s=v)"][1] == pytest.approx(alone["P(s=v)"][0], rel=1e-9)
    with refused("data.nothing-to-predict"):
        fit.predict(pd.DataFrame({"r": ["y"], "s": ["v"]}))
