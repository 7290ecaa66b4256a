"""Simulation-based calibration of a mixture: ranks of the true parameters among posterior draws are uniform."""

from __future__ import annotations

import pytest

import bayeslab as bl


@pytest.mark.slow(why="statistical")
def test_two_components_in_order_are_calibrated():
    """The components of truth and draws are numbered by the same rule, so that labels do not matter."""
    own = {"mean": 0.0, "rows": 0.3, "dof": 6, "scale": 6.0}
    model = bl.Model(
        dims={"obs_id": 25},
        model=bl.Mixture(columns=["x"], components=2, order="x", priors={"components": own, "weights": 3}),
    )
    found = bl.calibrate(
        model, 100, method="gibbs", seed=5, jobs=1, runs=None, progress=False, draws=500, tune=100, chains=2
    )
    assert found.verdict.status != "fail", str(found.verdict)


@pytest.mark.slow(why="statistical")
def test_a_wrong_prior_is_found_out():
    """Fitted with a prior of the means that is ten times too narrow, the same calibration fails."""
    from bayeslab.fitting import check
    from bayeslab.progress import Progress
    from bayeslab.results.calibrate import calibrated

    def model(rows):
        own = {"mean": 0.0, "rows": rows, "dof": 6, "scale": 6.0}
        return bl.Model(
            dims={"obs_id": 10},
            model=bl.Mixture(columns=["x"], components=2, order="x", priors={"components": own, "weights": 3}),
        )

    told, used = model(0.1), model(10.0)
    options = {"draws": 200, "tune": 50, "chains": 1}
    found = calibrated(told, used, check(told), 60, "gibbs", 5, 1, None, Progress(None), options)
    assert found.verdict.status == "fail"
