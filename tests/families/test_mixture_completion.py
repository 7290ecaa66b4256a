"""Open cells of rows of a mixture are predicted from the rest of their row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl


def test_the_component_is_known_from_the_other_cells():
    rng = np.random.default_rng(1)
    first = rng.random(400) < 0.5
    table = pd.DataFrame(
        {"a": np.where(first, 0, 10) + rng.normal(0, 1, 400), "b": np.where(first, -5, 5) + rng.normal(0, 1, 400)}
    )
    model = bl.Model(model=bl.Mixture(columns=["a", "b"], components=2, component="gaussian", covariance="diagonal"))
    fit = bl.fit(model, table, "em", seed=1, progress=False, runs=None)
    drawn = fit.predict(pd.DataFrame({"a": [0.0, 10.0, np.nan], "b": [np.nan, np.nan, 5.0]}), kind="draws", seed=2)
    a, b = (drawn[name].to_numpy().reshape(-1, 3) for name in "ab")
    assert np.all(a[:, :2] == [0, 10]) and np.all(b[:, 2] == 5)
    n = len(a)
    for found, truth in ((b[:, 0], -5), (b[:, 1], 5), (a[:, 2], 10)):
        assert found.mean() == pytest.approx(truth, abs=0.2 + 4 / n**0.5)
        assert found.std() == pytest.approx(1, rel=0.15)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("component", ["gaussian", "student_t"])
def test_columns_that_depend_on_each_other_are_regressed(component):
    rng = np.random.default_rng(2)
    x = rng.normal(3, 2, 3000)
    table = pd.DataFrame({"x": x, "y": 1 + 2 * x + rng.normal(0, 0.5, 3000), "z": rng.normal(0, 1, 3000)})
    known = {"dof": 5} if component == "student_t" else {}
    model = bl.Model(model=bl.Mixture(columns=["x", "y", "z"], components=1, component=component, **known))
    fit = bl.fit(model, table, "em", seed=1, progress=False, runs=None)
    drawn = fit.predict(pd.DataFrame({"x": [5.0], "y": [np.nan], "z": [np.nan]}), kind="draws", seed=3)
    y = drawn["y"].to_numpy().ravel()
    if component == "gaussian":
        assert y.mean() == pytest.approx(11, abs=4 * 0.5 / len(y) ** 0.5 + 0.05)
        assert y.std() == pytest.approx(0.5, rel=0.06)
        return
    # The conditional of Student's t, at the parameters of the fit.
    mean, matrix = fit.posterior["location"].to_numpy()[0, 0, 0], fit.posterior["scale_matrix"].to_numpy()[0, 0, 0]
    centre = mean[1] + matrix[1, 0] / matrix[0, 0] * (5 - mean[0])
    left = matrix[1, 1] - matrix[1, 0] ** 2 / matrix[0, 0]
    distance = (5 - mean[0]) ** 2 / matrix[0, 0]
    law = stats.t(6, centre, np.sqrt(left * (5 + distance) / 6))
    assert stats.kstest(y, law.cdf).pvalue > 1e-4


def test_complete_rows_are_replicated():
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"a": rng.normal(0, 1, 200)})
    model = bl.Model(model=bl.Mixture(columns=["a"], components=1, component="gaussian"))
    fit = bl.fit(model, table, "em", seed=1, progress=False, runs=None)
    assert fit.predict(table.head(3))["sd"].min() > 0.5
