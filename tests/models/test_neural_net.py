"""A Bayesian neural network: its intervals cover rows that it has not seen, and it is better than a line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import bayeslab as bl
from tests.models.shipped import MODELS


@pytest.fixture(scope="module")
def halves() -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = pd.read_csv(MODELS / "data" / "faithful.csv")
    return rows.iloc[::2].reset_index(drop=True), rows.iloc[1::2].reset_index(drop=True)


@pytest.fixture(scope="module")
def fit(halves) -> bl.Fit:
    return bl.fit(
        MODELS / "faithful_net.yaml", halves[0], progress=False, runs=None, draws=500, tune=500, chains=2, cores=1
    )


def output(draws: xr.Dataset, x: np.ndarray, rows: pd.Series) -> np.ndarray:
    """The net's output from its weights, shape (places, draws), computed by hand."""
    draws = draws.stack(s=("chain", "draw"))
    z = (x - rows.mean()) / rows.std(ddof=1)
    units = np.tanh(draws["slope"].values[:, None] * (z[None, :, None] - draws["centre"].values[:, None]))
    return draws["bias"].values + np.einsum("hns,hs->ns", units, draws["weight"].values)


def test_the_net_is_what_is_written(halves):
    """Waiting times drawn from the prior are normal about the output of the weights drawn with them."""
    tree = bl.simulate(MODELS / "faithful_net.yaml", halves[0], draws=20, seed=1)
    weights, eruptions = tree["prior"].to_dataset(), halves[0]["eruptions"]
    waiting = tree["prior_predictive"]["waiting"].stack(s=("chain", "draw")).values
    left = (waiting - output(weights, eruptions.to_numpy(), eruptions)) / weights["sigma"].values.ravel()
    assert stats.kstest(left.ravel(), stats.norm.cdf).pvalue > 1e-3


@pytest.mark.slow(why="statistical")
def test_intervals_cover(fit, halves):
    """nn-bayes: predictive intervals of 50 % and 90 % hold as many of the rows held out, up to chance."""
    truth = halves[1]["waiting"].to_numpy(float)
    for share in (0.5, 0.9):
        table = fit.predict(halves[1], ci_prob=share)
        low, high = (table[c].to_numpy() for c in table.columns if str(c).endswith(("_lb", "_ub")))
        held = np.mean((truth >= low) & (truth <= high))
        assert abs(held - share) < 3 * np.sqrt(share * (1 - share) / len(truth))


@pytest.mark.slow(why="statistical")
def test_better_than_a_line(fit, halves):
    """nn-bayes: waiting times level off at both ends, which a line cannot say."""
    train, new = halves
    said = fit.predict(new)["mean"].to_numpy()
    line = np.polyval(np.polyfit(train["eruptions"], train["waiting"], 1), new["eruptions"])
    error = [np.mean((new["waiting"] - s) ** 2) for s in (said, line)]
    assert error[0] < 0.98 * error[1]


@pytest.mark.slow(why="statistical")
def test_predictions_are_the_mean_output(fit, halves):
    """nn-bayes: the mean of the draws is the net's output, computed here from its weights."""
    x = np.array([1.8, 3.0, 4.5])
    by_hand = output(fit.posterior.to_dataset(), x, halves[0]["eruptions"])
    said = fit.predict({"eruptions": x})["mean"].to_numpy()
    np.testing.assert_allclose(said, by_hand.mean(axis=1), atol=4 * 6 / np.sqrt(by_hand.shape[1]))
