"""Open cells of the rows of a fit, and of new rows, against sums over all states of the hidden variable."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln, logsumexp

import bayeslab as bl

A = np.array([1, 1, np.nan, 0, 0, 0, 1, 1, 0])
B = np.array([0, 1, 0, 0, 1, np.nan, 1, 1, 0])
PRIORS = {"h": (2, 3), "a1": (5, 2), "a0": (1, 3), "b1": (2, 1), "b0": (1, 2)}


def words(values):
    return [None if np.isnan(v) else "y" if v else "n" for v in values]


def chances(a, b):
    """P(h = y | data) of each row: the tables are integrated out, and the states of h in all rows summed over."""
    states = np.array(list(itertools.product((True, False), repeat=len(a))))
    height = np.zeros(len(states))

    def add(chosen, values, prior):
        known = chosen & ~np.isnan(values)
        ones, all_ = (known & (values == 1)).sum(axis=1), known.sum(axis=1)
        return betaln(prior[0] + ones, prior[1] + all_ - ones) - betaln(*prior)

    height += add(np.ones_like(states), np.where(states, 1.0, 0.0), PRIORS["h"])
    for name, values in (("a", a), ("b", b)):
        height += add(states, values, PRIORS[name + "1"]) + add(~states, values, PRIORS[name + "0"])
    weight = np.exp(height - logsumexp(height))
    return weight @ states


@pytest.fixture(scope="module")
def fit():
    child = {"states": ["y", "n"], "parents": ["h"]}
    variables = {
        "h": {"states": ["y", "n"], "table": "Beta(2, 3)"},
        "a": child | {"table": {"y": "Beta(5, 2)", "n": "Beta(1, 3)"}},
        "b": child | {"table": {"y": "Beta(2, 1)", "n": "Beta(1, 2)"}},
    }
    model = bl.Model(model={"family": "bayes_net", "hidden": ["h"], "variables": variables})
    table = pd.DataFrame({"a": words(A), "b": words(B)})
    return bl.fit(model, table, runs=None, seed=1, draws=4000)


# Draws that are averaged for nine rows of three cells.
AVERAGED = 1400


def at_draws(fit, a, b):
    """P(h = y | a, b) of a row at each draw."""
    h, table_a, table_b = (fit.posterior[f"p_{v}"].to_numpy() for v in "hab")
    weights = h.reshape(-1, 2).copy()
    for value, table in ((a, table_a), (b, table_b)):
        if not np.isnan(value):
            weights *= table.reshape(-1, 2, 2)[:, :, int(value != 1)]
    return weights[:, 0] / weights.sum(axis=1)


@pytest.mark.slow(why="statistical")
def test_rows_of_the_fit_do_not_count_twice(fit):
    """Within four Monte Carlo errors; counted twice, the fifth row would be five away."""
    error = np.array([at_draws(fit, a, b).std() for a, b in zip(A, B, strict=True)]) / np.sqrt(AVERAGED)
    assert np.all(np.abs(fit.predict()["P(h=y)"] - chances(A, B)) < 4 * error)


def test_a_new_row_informs_the_tables(fit):
    new = pd.DataFrame({"a": ["n"], "b": ["y"]})
    expected = chances(np.r_[A, 0], np.r_[B, 1])[-1]
    error = at_draws(fit, 0, 1).std() / np.sqrt(AVERAGED)
    assert fit.predict(new)["P(h=y)"][0] == pytest.approx(expected, abs=4 * error)
