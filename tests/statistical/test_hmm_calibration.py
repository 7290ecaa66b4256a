"""Simulation-based calibration of a hidden Markov model; its priors tell the states apart."""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl


@pytest.mark.slow(why="statistical")
def test_posterior_is_calibrated(tmp_path):
    model = bl.Model(
        name="regimes",
        model={
            "family": "hmm",
            "columns": ["y"],
            "states": 2,
            "initial": "uniform",
            "parameters": {"mean": ["Normal(-1.5, 0.7)", "Normal(1.5, 0.7)"], "sd": 1.0},
        },
    )
    options = {"draws": 300, "tune": 300, "chains": 2}
    result = bl.calibrate(
        model, 50, {"y": np.zeros(30)}, "nuts", seed=3, jobs=2, runs=tmp_path, progress=False, **options
    )
    ranks = [finding for finding in result.verdict.findings if finding.check != "fits"]
    assert ranks
    assert all(finding.status != "fail" for finding in ranks), str(result.verdict)
