"""Simulation-based calibration of Gaussian processes' hyperparameters: ranks of true values are uniform.

The functions are drawn forward by a Cholesky factor; the fits see their marginal likelihood (normal outcomes) or infer
the function as standard normals (counts). With seeds fixed the outcome is; it fails where ranks leave the 99 %
simultaneous bands.
"""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl

DATA = {"x": np.linspace(0, 6, 15), "y": np.zeros(15)}
PRIORS = {"l": "InverseGamma(4, 5)", "s": "HalfNormal(1)"}
MODELS = {
    "gaussian": {"mean": "1", "priors": PRIORS | {"sigma": "HalfNormal(0.5)", "Intercept": "Normal(0, 1)"}},
    "poisson": {"likelihood": "poisson", "mean": "0", "priors": PRIORS},
}


@pytest.mark.parametrize("name", MODELS)
def test_hyperparameters_are_calibrated(name, tmp_path):
    spec = bl.GaussianProcess(target="y", kernel="s ** 2 * Matern52(x, l)", **MODELS[name])
    model = bl.Model(name=name, model=spec)
    options = {"draws": 250, "tune": 400, "chains": 2, "target_accept": 0.95}
    result = bl.calibrate(model, 50, DATA, "nuts", seed=5, jobs=1, runs=tmp_path, progress=False, **options)
    ranks = [finding for finding in result.verdict.findings if finding.check != "fits"]
    assert ranks
    assert all(finding.status != "fail" for finding in ranks), str(result.verdict)
