"""The shipped hidden Markov models, each against what others or a plain computation find."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import bayeslab as bl
from tests.models.shipped import MODELS


@pytest.mark.slow(why="statistical")
def test_mining_disasters_change_regime_around_1890():
    """Maximum likelihood by a general optimiser on a forward pass written here."""
    y = pd.read_csv(MODELS / "data" / "coal.csv")["disasters"].to_numpy()

    def falls(x):
        rates = np.exp(x[:2])
        stay = 1 / (1 + np.exp(-x[2:4]))
        start = 1 / (1 + np.exp(-x[4]))
        a = np.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
        alpha, total = np.array([start, 1 - start]), 0.0
        for t, value in enumerate(y):
            alpha = (alpha if t == 0 else alpha @ a) * stats.poisson.pmf(value, rates)
            total += np.log(alpha.sum())
            alpha = alpha / alpha.sum()
        return -total

    best = optimize.minimize(falls, [0.0, 1.0, 3.0, 3.0, 0.0], method="Nelder-Mead", options={"maxiter": 6000})
    fit = bl.fit(MODELS / "coal_regimes.yaml", method="em", prior="ignore", runs=None, progress=False)
    rates = fit.posterior["rate"].to_numpy()[0, 0]
    np.testing.assert_allclose(rates, np.sort(np.exp(best.x[:2])), rtol=2e-3)
    assert float(fit.log_likelihood()["row"].sum()) == pytest.approx(-best.fun, abs=1e-3)
    states = fit.decode()
    changes = states["year"][1:][np.diff(states["state"]) != 0].tolist()
    assert len(changes) == 1
    assert 1886 <= changes[0] <= 1896  # Jarrett's data: the rate fell about 1891


@pytest.mark.slow(why="large")
def test_bad_air_comes_in_summer():
    fit = bl.fit(MODELS / "ozone_regimes.yaml", method="em", runs=None, progress=False)
    states = fit.decode()
    assert len(states) == 153
    share = (states["state"] == 3).groupby(states["month"]).mean()
    assert share[7] > 0.4
    assert share[5] < 0.1
    mean = fit.posterior["mean"].to_numpy()[0, 0]
    assert np.all(np.diff(mean[:, 0]) > 0)  # numbered by the first column
    assert np.all(np.diff(mean[:, 2]) > 0)
    for figure in (
        fit.plot_states(sequence="7"),
        fit.plot_states("transitions"),
        fit.plot_states("trace", reference=-1),
    ):
        assert figure.axes
        figure.canvas.draw()
    # Replications have a value for every day, missing or not.
    assert np.isfinite(fit.predict()["mean"]).all()


def test_the_nile_through_its_family_is_the_nile_written_out():
    """The local level without the Gaussian walk of nile.yaml: the same smoothed levels as its published ones."""
    fit = bl.fit(MODELS / "nile_level.yaml", method="em", prior="ignore", runs=None, progress=False)
    level = fit.decode(method="smooth").set_index("year")["state"]
    assert level.loc[1871:1898].mean() > 1000
    assert level.loc[1900:].mean() < 900


def simulated_meter(n: int = 400) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """What models/data/meter.csv holds, and when fridge and heater were on."""
    rng = np.random.default_rng(1997)

    def walk(rows):
        path = np.zeros(n, int)
        for t in range(1, n):
            path[t] = rng.choice(len(rows), p=rows[path[t - 1]])
        return path

    fridge = walk([[0.8, 0.2], [0.3, 0.7]])
    heater = walk([[0.97, 0.02, 0.01], [0.05, 0.9, 0.05], [0.02, 0.08, 0.9]])
    power = 200 + np.array([0, 120])[fridge] + np.array([0, 500, 1500])[heater] + 40 * rng.standard_normal(n)
    return pd.DataFrame({"power": power.round().astype(int)}), fridge, heater


@pytest.mark.slow(why="large")
def test_two_appliances_are_told_apart_by_their_sum():
    table, fridge, heater = simulated_meter()
    pd.testing.assert_frame_equal(pd.read_csv(MODELS / "data" / "meter.csv"), table)
    fit = bl.fit(MODELS / "meter.yaml", method="em", runs=None, progress=False)
    own = {name: value.to_numpy()[0, 0] for name, value in fit.posterior.data_vars.items()}
    # What is switched on adds; standard errors are about 40 sqrt(1 / n + 1 / m) for n minutes off and m on.
    assert np.diff(own["effect_fridge"])[0] == pytest.approx(120, abs=4 * 40 * np.sqrt(1 / 256 + 1 / 144) * 1.5)
    np.testing.assert_allclose(np.diff(own["effect_heater"]), [500, 1000], atol=4 * 40 * np.sqrt(2 / 82) * 1.5)
    off = own["mean"] + own["effect_fridge"][0] + own["effect_heater"][0]
    assert off == pytest.approx(200, abs=4 * 40 / np.sqrt(100))
    states = fit.decode()
    assert np.mean(states["heater"] == np.array(["off", "half", "full"])[heater]) > 0.99
    assert np.mean(states["fridge"] == 1 + fridge) > 0.9
    for figure in (fit.plot_states(), fit.plot_states("transitions")):
        figure.canvas.draw()
