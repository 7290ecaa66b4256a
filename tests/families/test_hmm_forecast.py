"""Forecasts of hidden Markov models: rows after the data start from the filtered states of the last row."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from tests.refusals import refused

Y = [0, 3, 4, 0, 1, 5, 6]
AHEAD = 3


@pytest.fixture(scope="module")
def fit():
    """One draw: the mode, at which a forecast is one sum over all paths."""
    model = bl.Model(model=bl.HMM(columns=["y"], states=2, emission="poisson"), seed=1)
    return bl.fit(model, {"y": Y}, method="em", runs=None, progress=False)


def enumerated(fit, y):
    """P(state | all observed rows) of every row, by the sum over all paths; missing rows are None."""
    at = {name: fit.posterior[name].to_numpy()[0, 0] for name in ("initial", "transition", "rate")}
    weights = np.zeros((len(y), 2))
    for path in product((0, 1), repeat=len(y)):
        p = at["initial"][path[0]] * np.prod([at["transition"][i, j] for i, j in pairwise(path)])
        p *= np.prod([stats.poisson.pmf(v, at["rate"][s]) for v, s in zip(y, path, strict=True) if v is not None])
        for t, s in enumerate(path):
            weights[t, s] += p
    return weights / weights.sum(axis=1, keepdims=True), at["rate"]


def test_a_forecast_starts_from_the_last_filtered_state(fit):
    rows = pd.DataFrame({"y": [*map(float, Y), *[np.nan] * AHEAD]})
    expected, rate = enumerated(fit, [*Y, *[None] * AHEAD])
    states = fit.predict(rows, kind="probabilities")
    got = states[[name for name in states if str(name).startswith("P(")]].to_numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-250)  # below, numbers have fewer digits
    # Means of the rows ahead, from draws.
    means = fit.predict(rows, kind="mean").iloc[-AHEAD:]
    error = means["sd"].to_numpy() / np.sqrt(1_000)
    assert np.all(np.abs(means["mean"].to_numpy() - expected[-AHEAD:] @ rate) < 4 * error)


def test_rows_ahead_alone_begin_anew_and_say_so(fit):
    with pytest.warns(UserWarning, match="give those rows too"):
        fit.predict(pd.DataFrame({"y": [np.nan] * AHEAD}), kind="probabilities")


def test_interleaved_sequences_are_told_to_be_sorted():
    model = bl.Model(model=bl.HMM(columns=["y"], states=2, emission="poisson", sequence="who"))
    with refused("data.not-in-order", "sort the rows by who"):
        bl.check(model, {"y": [1, 2, 0, 5], "who": ["a", "b", "a", "b"]})
