"""Simulation-based calibration of Gaussian processes' hyperparameters: ranks of true values are uniform.

The functions are drawn forward by a Cholesky factor; the fits see their marginal likelihood. With seeds fixed the outcome
is. Posteriors on a grid are cheap, so that many replications test the density; fewer, through NUTS, fail where ranks
leave the 99 % simultaneous bands.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.families.gaussian_process.model import resolved
from bayeslab.families.gaussian_process.posterior_mode import Exact
from bayeslab.latents.gaussian_process.gaussian_process import threads

DATA = {"x": np.linspace(0, 6, 15), "y": np.zeros(15)}
PRIORS = {"l": "InverseGamma(4, 5)", "s": "HalfNormal(1)"}
LAWS = {"l": stats.invgamma(4, scale=5), "s": stats.halfnorm(scale=1)}


@pytest.mark.slow(why="statistical")
def test_posteriors_on_a_grid_are_calibrated():
    """True values lie anywhere in their posteriors, equally often: Kolmogorov's test of 200 of them, n = 25."""
    x, n, cells = np.linspace(0, 6, 25), 200, 20
    kernel = "s ** 2 * Matern52(x, l)"
    model = bl.Model(
        name="g", model=bl.GaussianProcess(target="y", kernel=kernel, mean="0", priors=PRIORS | {"sigma": 0.3})
    )
    tree = bl.simulate(model, {"x": x}, draws=n, seed=11)
    truth = {name: tree["prior"][name].to_numpy()[0] for name in LAWS}
    y = tree["prior_predictive"]["y"].to_numpy()[0]
    middles = (np.arange(cells) + 0.5) / cells  # cells of equal prior mass
    length, scale = np.meshgrid(LAWS["l"].ppf(middles), LAWS["s"].ppf(middles), indexing="ij")
    ranks = {name: np.empty(n) for name in LAWS}
    for i in range(n):
        seen = resolved(model, bl.check(model, {"x": x, "y": y[i]}))
        assert seen.kernel.names == ("s", "l")
        of = Exact(seen, np.arange(25)).log_marginal
        with threads(25):
            logs = np.array([of(np.array([s, a, 0.3]))[0] for a, s in zip(length.flat, scale.flat, strict=True)])
        p = np.exp(logs - logs.max()).reshape(cells, cells)
        for axis, name in ((1, "l"), (0, "s")):
            own = np.append(0.0, np.cumsum(p.sum(axis=axis))) / p.sum()
            ranks[name][i] = np.interp(LAWS[name].cdf(truth[name][i]) * cells, np.arange(cells + 1), own)
    for name, found in ranks.items():
        assert stats.kstest(found, "uniform").pvalue > 0.01, name
        wrong = np.clip(found * 0.8, 0, 1)  # it would tell posteriors that are a fifth off
        assert stats.kstest(wrong, "uniform").pvalue < 0.001, name


@pytest.mark.slow(why="statistical")
def test_hyperparameters_are_calibrated(tmp_path):
    priors = PRIORS | {"sigma": "HalfNormal(0.5)", "Intercept": "Normal(0, 1)"}
    spec = bl.GaussianProcess(target="y", kernel="s ** 2 * Matern52(x, l)", mean="1", priors=priors)
    options = {"draws": 200, "tune": 300, "chains": 2, "target_accept": 0.95, "runs": tmp_path, "progress": False}
    result = bl.calibrate(bl.Model(name="gaussian", model=spec), 20, DATA, "nuts", seed=5, jobs=1, **options)
    ranks = [finding for finding in result.verdict.findings if finding.check != "fits"]
    assert ranks
    assert all(finding.status != "fail" for finding in ranks), str(result.verdict)
