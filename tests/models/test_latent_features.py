"""The shipped models of latent features: planted shapes found, factors of a real table as scikit-learn has them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from tests.models.shipped import MODELS

SHAPES = np.array(
    [
        [[0, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0], *[[0] * 6] * 3],
        [[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 0, 1], [0, 0, 0, 1, 1, 1], *[[0] * 6] * 3],
        [*[[0] * 6] * 3, [1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0]],
        [*[[0] * 6] * 3, [0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 0]],
    ]
).reshape(4, 36)


def simulated_shapes():
    """The table ``models/data/shapes.csv``, and which shapes are in which image."""
    rng = np.random.default_rng(2005)
    z = (rng.random((100, 4)) < 0.5).astype(int)
    values = np.round(z @ SHAPES + 0.5 * rng.standard_normal((100, 36)), 2)
    return pd.DataFrame(values, columns=[f"r{i + 1}c{j + 1}" for i in range(6) for j in range(6)]), z


@pytest.mark.slow(why="statistical")
def test_shapes_are_the_planted_ones():
    """beta-process-factor, binary-factor: four shapes, each cell within what the noise allows; which image has which."""
    told, z = simulated_shapes()
    table = pd.read_csv(MODELS / "data" / "shapes.csv")
    pd.testing.assert_frame_equal(table, told)
    fit = bl.fit(MODELS / "shapes.yaml", draws=300, tune=200, progress=False, runs=None)
    assert fit.method == "gibbs"
    assert float(fit.summary().loc["noise", "r_hat"]) < 1.05
    number = fit.posterior["n_features"].values
    assert 4 <= np.median(number) <= 5
    group = fit.features()
    loading = group["loading"].values
    for shape, has in zip(SHAPES, z.T, strict=True):
        own = int(np.argmin(((loading - shape[:, None]) ** 2).sum(axis=0)))
        # sd of a cell given the other features: 0.5 / sqrt(50 images), 0.07, and what the features share.
        assert np.sqrt(np.mean((loading[:, own] - shape) ** 2)) < 0.15
        assert np.mean(group["z"].values[:, own] != has) <= 0.05
    assert abs(fit.posterior["noise"].mean() - 0.5) < 0.03
    assert abs(group["reconstruction"].values - z @ SHAPES).mean() < 0.15


def test_crime_factors_are_scikit_learns():
    """The maximum of the likelihood beside another implementation of factor analysis."""
    from sklearn.decomposition import FactorAnalysis

    fit = bl.fit(MODELS / "crime_factors.yaml", method="em", prior="ignore", tolerance=1e-9, progress=False, runs=None)
    assert fit.verdict.status == "pass", str(fit.verdict)
    columns = list(fit.model.model.columns)
    table = pd.read_csv(MODELS / "data" / "crime.csv")[columns]
    # Its starting values and its tolerance are absolute: standardised columns, the same model.
    sd = table.std(ddof=0)
    peer = FactorAnalysis(2, tol=1e-10, max_iter=50_000, svd_method="lapack").fit((table - table.mean()) / sd)
    height = peer.score((table - table.mean()) / sd) * len(table) - len(table) * np.log(sd).sum()
    assert fit.posterior.attrs["log_likelihood"] == pytest.approx(height, abs=1e-3)
    noise = fit.posterior["noise"].values.squeeze() / sd.to_numpy()
    assert np.allclose(noise**2, peer.noise_variance_, atol=5e-3)
    group = fit.features()
    assert np.allclose(group["communality"], 1 - noise**2, atol=0.05)


@pytest.mark.slow(why="statistical")
def test_crime_factors_pass_from_any_seed():
    """Chains were held where a loading is zero (8) and where a column has next to no noise (9, 10)."""
    for seed in (8, 9, 10):
        fit = bl.fit(MODELS / "crime_factors.yaml", seed=seed, progress=False, runs=None)
        assert fit.verdict.status == "pass", str(fit.verdict)


def test_crime_factors_check_and_simulate():
    """Priors on the scale of the data, and draws of the prior on the columns' scales."""
    drawn = bl.simulate(MODELS / "crime_factors.yaml", draws=40)
    wealth, prison = (drawn["prior_predictive"][c].values.std() for c in ("wealth", "prison"))
    assert wealth / prison > 100
