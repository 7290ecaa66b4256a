"""The shipped models of clusters without a number."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid
from scipy.special import gammaln

import bayeslab as bl
from bayeslab.latents.labels.clusters import adjusted_rand_index
from bayeslab.results.clusters import listing
from tests.models.shipped import MODELS


@pytest.fixture(scope="module")
def galaxies():
    return bl.fit(MODELS / "galaxies.yaml", progress=False, runs=None)


@pytest.mark.slow(why="statistical")
def test_galaxies(galaxies):
    """The seven slow and the three fast galaxies are clusters of their own, and a density is a density."""
    assert galaxies.verdict.status == "pass", str(galaxies.verdict)
    found = listing(galaxies)
    assert len(galaxies.data.labels["galaxy"]) == 82 and found["rows"].sum() == 82
    assert found["rows"].iloc[0] == 7 and found["velocity"].iloc[0] == pytest.approx(9.710, abs=1e-3)
    assert found["rows"].iloc[-1] == 3 and found["velocity"].iloc[-1] == pytest.approx(33.044, abs=1e-3)
    at = np.linspace(-60, 100, 3201)
    assert trapezoid(np.exp(galaxies.density({"velocity": at})["log_density"]), at) == pytest.approx(1, abs=2e-3)


@pytest.mark.slow(why="statistical")
def test_dp_alpha_of_galaxies_by_quadrature(galaxies):
    """Given t clusters α has the density Gamma(2, 4) α^(t-1) Γ(α + 1) / Γ(α + n), up to a constant."""
    alpha = np.linspace(1e-3, 12, 6000)
    means = {}
    for t in range(1, 40):
        logs = np.log(alpha) - 4 * alpha + (t - 1) * np.log(alpha) + gammaln(alpha + 1) - gammaln(alpha + 82)
        p = np.exp(logs - logs.max())
        means[t] = float(np.sum(alpha * p) / p.sum())
    drawn = galaxies.posterior["n_clusters"].to_numpy().ravel()
    expected = np.mean([means[t] for t in drawn])
    values = galaxies.posterior["alpha"].to_numpy()
    error = values.reshape(40, -1).mean(axis=1).std(ddof=1) / np.sqrt(40)
    assert abs(values.mean() - expected) < 4 * error


@pytest.mark.slow(why="statistical")
def test_geyser_process():
    """Two kinds of eruptions, found without being told how many."""
    fit = bl.fit(MODELS / "geyser_process.yaml", progress=False, runs=None)
    assert fit.method == "gibbs" and fit.verdict.status == "pass", str(fit.verdict)
    assert int(np.bincount(fit.posterior["n_clusters"].to_numpy().ravel()).argmax()) == 2
    rows = pd.read_csv(MODELS / "data" / "faithful.csv").to_numpy()
    assert adjusted_rand_index(fit.clusters()["partition"].to_numpy(), rows[:, 0] > 3) > 0.95
