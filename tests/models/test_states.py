"""The shipped model of states, ``trend[month]: LocalTrend(...)``, against the dense normal distribution of its rows."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from dateutil.easter import easter
from scipy import optimize, stats

import bayeslab as bl
from tests.densities import Density
from tests.families import _state_oracle as oracle
from tests.models.shipped import MODELS, table


def test_passengers_are_series_g():
    air = table("airline")
    assert len(air) == 144
    assert air["passengers"].sum() == 40_363
    assert air["passengers"].iloc[[0, 11, 143]].tolist() == [112, 118, 432]
    for month, share in zip(air["month"], air["easter"], strict=True):
        year, number = map(int, month.split("-"))
        before = [easter(year) - dt.timedelta(days=k) for k in range(1, 9)]
        assert share == sum(day.month == number for day in before) / 8


def moments(sigma_level: float, sigma_season: float, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of log passengers without the days before Easter."""
    trend = oracle.trend(sigma_level, 0.0, 4.8, 0.3, 0.01, 0.01).moments(144)
    season = oracle.seasonal(12, sigma_season, 0.2).moments(144)
    return trend[0] + season[0], trend[1] + season[1] + sigma**2 * np.eye(144)


@pytest.mark.slow(why="compiles")
def test_density_of_passengers():
    air = table("airline")
    y, before = np.log(air["passengers"].to_numpy()), air["easter"].to_numpy()
    density = Density.of(bl.to_pymc(MODELS / "airline.yaml"))
    assert set(density.names) == {"sigma_level", "sigma_season", "sigma", "before_easter"}
    for point in density.points(np.random.default_rng(2), 3):
        scales = {name: float(point[name]) for name in ("sigma_level", "sigma_season", "sigma")}
        mean, covariance = moments(**scales)
        expected = oracle.log_normal(y, mean + point["before_easter"] * before, covariance)
        expected += stats.norm.logpdf(point["before_easter"], 0, 0.1)
        for name, scale in (("sigma_level", 0.05), ("sigma_season", 0.02), ("sigma", 0.05)):
            expected += stats.halfnorm.logpdf(scales[name], scale=scale)
        assert density.at(point)[0] == pytest.approx(float(expected), abs=1e-7)


@pytest.mark.slow(why="statistical")
def test_more_fly_before_easter(fits):
    """Given the scales the effect is generalised least squares; the scales by their own posterior mode and curvature."""
    air = table("airline")
    y, before = np.log(air["passengers"].to_numpy()), air["easter"].to_numpy()

    def solved(log_scales: np.ndarray) -> tuple[float, float, float]:
        scales = np.exp(log_scales)
        mean, covariance = moments(*scales)
        lower = np.linalg.cholesky(covariance)
        r, x = np.linalg.solve(lower, y - mean), np.linalg.solve(lower, before)
        precision = x @ x + 100.0
        effect = x @ r / precision
        value = -np.log(np.diag(lower)).sum() - 0.5 * (r @ r - precision * effect**2) - 0.5 * np.log(precision)
        value += sum(stats.halfnorm.logpdf(s, scale=c) for s, c in zip(scales, (0.05, 0.02, 0.05), strict=True))
        return float(value + log_scales.sum()), float(effect), float(precision**-0.5)

    best = optimize.minimize(lambda p: -solved(p)[0], np.log([0.03, 0.01, 0.01]), method="Nelder-Mead").x
    found = fits("airline").summary().loc["before_easter"]
    _, effect, sd = solved(best)
    # The scales that are not at their mode change the effect by less than a third of its sd.
    assert abs(found["mean"] - effect) < sd / 3
    assert found["sd"] == pytest.approx(sd, rel=0.2)
