"""The shipped models of functions, ``f[row]: GaussianProcess(...)``, against PyMC and against closed forms."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayeslab as bl
from tests.densities import Density
from tests.models.shipped import MODELS, table
from tests.models.test_models import importance


def test_births_are_those_of_a_leap_year():
    days = table("births")
    assert days["day"].tolist() == list(range(1, 367))
    assert days.loc[0, "weekday"] == "Sat"  # 1 January 2000
    assert days["births"].sum() == 4_150_067
    assert days.groupby("holiday").size().drop("none").tolist() == [1] * 9


def test_places_are_in_minnesota():
    places = table("radon_places")
    assert places["county"].tolist() == table("radon_counties")["county"].tolist()
    assert places["latitude"].between(43.5, 49.4).all()
    assert places["longitude"].between(-97.3, -89.5).all()


@pytest.mark.slow(why="compiles")
def test_density_of_births_in_pymc():
    """``pm.gp.HSGP`` with as many sines in a box as wide as the rule says."""
    days = table("births")
    built = bl.to_pymc(MODELS / "births.yaml")
    count, law = len(built.coords["season_functions"]), stats.invgamma(4, scale=120)
    half = 0.5 * 365 * 1.1
    width = max(1.2 * half, half + 1.86 * law.ppf(0.95))
    weekday, holiday = (np.unique(days[name], return_inverse=True) for name in ("weekday", "holiday"))
    none = holiday[0].tolist().index("none")
    with pm.Model() as theirs:
        level, reach = pm.Normal("level", 9.3, 0.2), pm.InverseGamma("reach", 4, 120)
        swing, scatter = pm.HalfNormal("swing", 0.1), pm.HalfNormal("scatter", 0.05)
        gp = pm.gp.HSGP(m=[count], L=[width], cov_func=swing**2 * pm.gp.cov.ExpQuad(1, reach))
        season = gp.prior("season", days[["day"]].to_numpy(float))
        of_weekday = pm.ZeroSumNormal("of_weekday", 0.2, shape=7)
        of_holiday = pm.Normal("of_holiday", 0, 0.3, shape=10)
        special = pm.math.where(holiday[1] == none, 0, of_holiday[holiday[1]])
        rate = pm.math.exp(level + season + of_weekday[weekday[1]] + special)
        pm.NegativeBinomial("births", mu=rate, alpha=1 / scatter**2, observed=days["births"])
    mine, other = Density.of(built), Density.of(theirs)
    gaps = []
    for point in mine.points(np.random.default_rng(1), 3, 0.03):
        names = {"season_hsgp_coeffs": "_season_z"}
        gaps.append(mine.at(point)[0] - other.at({name: point[names.get(name, name)] for name in other.names})[0])
    # Our width comes from a quantile that is summed up on a grid.
    np.testing.assert_allclose(gaps, gaps[0], atol=0.05)


@pytest.mark.slow(why="statistical")
def test_weekdays_and_holidays_of_births(fits):
    """A regression of the log counts on a polynomial of the season, weekdays and holidays."""
    days = table("births")
    rows = fits("births").summary()
    names = sorted(set(days["weekday"]))
    season = np.polynomial.chebyshev.chebvander(np.linspace(-1, 1, len(days)), 20)
    weekday = np.stack([days["weekday"] == name for name in names], axis=1).astype(float)
    weekday = weekday[:, :-1] - weekday[:, -1:]
    holidays = sorted(set(days["holiday"]) - {"none"})
    special = np.stack([days["holiday"] == name for name in holidays], axis=1).astype(float)
    found = np.linalg.lstsq(np.column_stack([season, weekday, special]), np.log(days["births"]))[0]
    for k, name in enumerate(names[:-1]):
        assert rows.loc[f"of_weekday[{name}]", "mean"] == pytest.approx(found[21 + k], abs=0.004)
    for k, name in enumerate(holidays):
        # Shrunken by the prior, and with the trend of another form at the ends of the year.
        assert rows.loc[f"of_holiday[{name}]", "mean"] == pytest.approx(found[27 + k], abs=0.03)


@pytest.mark.slow(why="statistical")
def test_radon_on_a_map_by_importance_sampling(fits):
    """Given four scales everything else is normal, and is integrated out."""
    homes, places = table("radon"), table("radon_places")
    county = places.set_index("county").index.get_indexer(homes["county"])
    at = np.column_stack([0.77 * (places["longitude"] + 94), 1.11 * (places["latitude"] - 46)])
    distance = np.sqrt(((at[:, None] - at[None]) ** 2).sum(axis=2))
    w = np.column_stack([np.ones(len(homes)), homes["floor"], np.eye(len(places))[county]])
    y = homes["log_radon"].to_numpy()
    ww, wy, yy, first = w.T @ w, w.T @ y, y @ y, np.zeros(len(places) + 2)
    first[0] = 1.0

    def given(reach, swing, tau, sigma):
        """Log density of the data, and the posterior mean of base, floor and the counties' deviations."""
        u = np.sqrt(3) * distance / reach
        precision = np.eye(len(first))
        precision[2:, 2:] = np.linalg.inv(
            swing**2 * (1 + u) * np.exp(-u) + (tau**2 + 1e-8 * swing**2) * np.eye(len(at))
        )
        a = precision + ww / sigma**2
        b = precision @ first + wy / sigma**2
        m = np.linalg.solve(a, b)
        dets = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(a)[1]
        return 0.5 * (dets - yy / sigma**2 - first @ precision @ first + b @ m) - len(y) * np.log(sigma), m

    def log_density(points):
        reach, swing, tau, sigma = np.exp(points.T)
        prior = stats.invgamma.logpdf(reach, 5, scale=8) + stats.halfnorm.logpdf(swing, scale=0.5)
        prior += stats.halfnorm.logpdf(tau, scale=0.3) + stats.halfnorm.logpdf(sigma) + points.sum(axis=1)
        return np.array([given(*row)[0] for row in np.exp(points)]) + prior

    points, mean = importance(log_density, np.log([2.0, 0.35, 0.1, 0.76]), draws=6_000)
    rows = fits("radon_map").summary()
    exact = dict(zip(("reach", "swing", "tau", "sigma"), np.exp(points.T), strict=True))
    linear = np.stack([given(*row)[1] for row in np.exp(points)])
    exact |= {"per_floor": linear[:, 1]}
    exact |= {f"a[{name}]": linear[:, 0] + linear[:, 2 + k] for k, name in enumerate(places["county"]) if k % 20 == 0}
    for name, values in exact.items():
        centre, error = mean(values)
        assert abs(rows.loc[name, "mean"] - centre) < 4 * np.hypot(rows.loc[name, "mcse_mean"], error), name


@pytest.mark.slow(why="statistical")
def test_radon_on_a_map_shows_the_uranium_of_the_soil(fits):
    """Which the model is not told: the map of the function and that of soil uranium are alike."""
    fit = fits("radon_map")
    soil = fit.posterior["soil"].mean(("chain", "draw")).to_series()
    uranium = table("radon_places").set_index("county")["log_uranium"]
    assert np.corrcoef(soil, uranium[soil.index])[0, 1] > 0.6
