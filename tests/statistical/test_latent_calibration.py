"""Simulation-based calibration of binary features: rows drawn from the prior by sticks, fitted by Gibbs sweeps."""

from __future__ import annotations

import pytest

import bayeslab as bl


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(("features", "more"), [("ibp", {"alpha": "Gamma(2, 1)"}), (2, {"probability": "Beta(1, 2)"})])
def test_scales_and_concentration_are_calibrated(features, more):
    """beta-process-factor, binary-factor: ranks of noise, scale and α are uniform; those of features have no order."""
    spec = bl.LatentFeatures(
        columns=["a", "b", "c"],
        features=features,
        kind="binary",
        priors={"noise": "HalfNormal(1)", "scale": "HalfNormal(2)"} | more,
    )
    model = bl.Model(model=spec, dims={"obs_id": 8})
    # Ranks among draws that depend on each other are too often extreme: of buffets more are needed.
    draws = 400 if features == "ibp" else 150
    how = {"draws": draws, "tune": 100, "chains": 1, "seed": 5, "jobs": 1, "runs": None, "progress": False}
    found = bl.calibrate(model, 60, method="gibbs", **how)
    quantities = {"noise", "scale", "alpha"} if features == "ibp" else {"noise", "scale"}
    assert set(found.table.index) == quantities
    assert (found.table["p_ecdf"] > 0.005).all() and (found.table["p_chi2"] > 0.002).all(), found.table
