"""Leave-one-out checks of a report, against closed forms of a normal mean."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.report import charts, left_out
from bayeslab.report.contract import record
from bayeslab.results.compare import loo, observations
from bayeslab.results.ppc import replications

DAYS = ["<b>mon", "tue", "wed", "thu", "fri", "sat", "sun"]
# The last value is far from the others.
Y = np.array([0.3, 1.1, 0.2, 0.9, -0.4, 0.6, 3.9])


@pytest.fixture(scope="module")
def fit():
    """y = mu + noise of sd 1, mu ~ Normal(0, 1)."""
    model = bl.Model(
        name="level",
        data={"rows": "day"},
        model=bl.Graph(nodes={"mu": "Normal(0, 1)", "y[day]": "Normal(mu, 1)"}),
        seed=1,
    )
    return bl.fit(model, pd.DataFrame({"day": DAYS, "y": Y}), runs=None, progress=False)


def left_out_predictions():
    """Mean and sd of the prediction of each value from the others: their number and the prior make the precision n."""
    n = len(Y)
    return (Y.sum() - Y) / n, np.sqrt(1 + 1 / n)


def test_observations_have_the_names_of_their_rows(fit):
    found = record(fit)
    assert observations(found) == [("y", day) for day in DAYS]
    mean, sd = left_out_predictions()
    assert loo(found, refit=False).elpd == pytest.approx(stats.norm(mean, sd).logpdf(Y), abs=0.05)


def test_far_observations_are_named_with_their_residual(fit):
    html = left_out.section(record(fit), replications(record(fit), "posterior"))
    mean, sd = left_out_predictions()
    truth = (Y - mean) / sd
    assert np.flatnonzero(np.abs(truth) > 1.96).tolist() == [6]
    rows = re.search(r"Largest residuals.*?</table>", html)[0]
    assert re.findall(r'<th scope="row">(.*?)</th>', rows) == ["sun"]
    cells = re.findall(r"<td>(.*?)</td>", rows)
    assert cells[:2] == ["y", "3.9"] and float(cells[-1]) == pytest.approx(truth[6], abs=0.25)
    assert "Pareto k" in html and "p-value" in html and "<b>mon" not in html


def test_many_observations_have_no_checks(fit, monkeypatch):
    monkeypatch.setattr(left_out, "_OBSERVATIONS", 3)
    html = left_out.section(record(fit), replications(record(fit), "posterior"))
    assert "left out for more than 3 observations" in html and "<svg" not in html


def test_uniform_values_give_a_level_curve():
    values = (np.arange(2000) + 0.5) / 2000
    at = np.array([0.25, 0.5, 0.75])
    made = charts.uniformity(values, at, at - 0.1, at + 0.1, "a", "says")
    band, curve = re.findall(r'd="M([^"]+)"', made)
    heights = [float(point.split()[1]) for point in curve.split("L")]
    level = float(re.search(r'y1="([\d.]+)"', made)[1])
    assert heights == pytest.approx([level] * len(heights), abs=0.5)
    ends = [float(point.split()[1]) for point in band.removesuffix("Z").split("L")]
    # The band is a tenth each way; the axis is a tenth longer.
    assert (max(ends) - min(ends)) == pytest.approx((146 - 24) / 1.1, abs=0.2)


def test_points_beyond_a_level_are_all_drawn():
    y = np.zeros(5_000)
    y[777] = 3.0
    made = charts.scatter(np.arange(5_000.0), y, [-2.0, 2.0], "a", "says")
    assert made.count("h0") in (charts.POINTS, charts.POINTS + 1)
    assert min(float(v) for v in re.findall(r"M[\d.]+ ([\d.]+)h0", made)) < 40
