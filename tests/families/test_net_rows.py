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


def test_rows_of_the_fit_do_not_count_twice(fit):
    np.testing.assert_allclose(fit.predict()["P(h=y)"], chances(A, B), atol=0.012)


def test_a_new_row_informs_the_tables(fit):
    new = pd.DataFrame({"a": ["n"], "b": ["y"]})
    expected = chances(np.r_[A, 0], np.r_[B, 1])[-1]
    assert fit.predict(new)["P(h=y)"][0] == pytest.approx(expected, abs=0.012)
