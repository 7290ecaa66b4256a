"""Simulation-based calibration of models with linear-Gaussian states: ranks of true scales and states are uniform.

Series are drawn forward step by step; the fits integrate the states out and draw them again, or sample them.
"""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl

OUTCOMES = {
    "summed out": {"s": "Gamma(4, 4)", "y[month]": "Normal(level + season, s)"},
    "sampled": {"y[month]": "Poisson(exp(level / 2 + season / 4))"},
}


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("kind", OUTCOMES)
def test_scales_and_states_are_calibrated(kind, tmp_path):
    nodes = {
        "sl": "Gamma(4, 8)",
        "level[month]": "LocalLevel(sl, initial=Normal(1, 1))",
        "season[month]": "Seasonal(3, 0.2, initial=ZeroSumNormal(1))",
    }
    data, graph = {"rows": "month"}, {"family": "graph", "nodes": nodes | OUTCOMES[kind]}
    options = {"draws": 200, "tune": 300, "chains": 2, "target_accept": 0.95, "runs": tmp_path, "progress": False}
    rows = {"y": np.ones(9)}
    found = bl.calibrate(bl.Model(name="states", data=data, model=graph), 40, rows, "nuts", seed=5, jobs=1, **options)
    ranks = [finding for finding in found.verdict.findings if finding.check != "fits"]
    assert ranks
    assert all(finding.status == "pass" for finding in ranks), str(found.verdict)


def test_simulated_series_begin_where_they_are_said_to():
    nodes = {"level[month]": "LocalLevel(2.0, initial=Normal(5, 1))", "y[month]": "Normal(level, 1)"}
    model = bl.Model(data={"rows": "month"}, model={"family": "graph", "nodes": nodes}, seed=1)
    drawn = bl.simulate(model, {"y": np.ones(4)}, draws=2_000, seed=2)["prior"]["level"].to_numpy()[0]
    expected = np.sqrt(1 + 4 * np.arange(4))
    assert np.all(np.abs(drawn.mean(axis=0) - 5) < 4 * expected / np.sqrt(2_000))
    np.testing.assert_allclose(drawn.std(axis=0), expected, rtol=4 / np.sqrt(4_000))
