"""The mode against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl
from tests.refusals import refused


@pytest.mark.slow(why="compiles")
def test_the_mode_of_a_regression_is_ridge():
    """Normal priors with known noise: the mode solves (X'X / s² + I / t²) b = X'y / s²."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    y = x @ [1.0, -2.0, 0.0, 3.0] + rng.normal(size=60)
    model = bl.Model(
        data={"dims": {"X": ["obs_id", "k"]}},
        model=bl.Graph(nodes={"b[k]": "Normal(0, 0.7)", "y[obs_id]": "Normal(X @ b, 1.3)"}),
    )
    fit = bl.fit(model, {"X": x, "y": y}, "map", progress=False, runs=None)
    ridge = np.linalg.solve(x.T @ x / 1.3**2 + np.eye(4) / 0.7**2, x.T @ y / 1.3**2)
    np.testing.assert_allclose(fit.posterior["b"].values[0, 0], ridge, rtol=1e-8)
    assert fit.verdict.status == "pass"
    assert fit.posterior.sizes["chain"] == fit.posterior.sizes["draw"] == 1
    assert list(fit.summary().columns) == ["mean"] or "r_hat" not in fit.summary().dropna(axis=1).columns


def test_the_mode_is_on_the_parameters_own_scale():
    """A Gamma posterior's mode is (a - 1) / b, not that of its logarithm."""
    model = bl.Model(model=bl.Graph(nodes={"rate": "Gamma(3, 2)", "y[obs_id]": "Poisson(rate)"}))
    y = [2, 4, 3, 1]
    fit = bl.fit(model, {"y": y}, "map", progress=False, runs=None)
    assert float(fit.posterior["rate"].values[0, 0]) == pytest.approx((3 + sum(y) - 1) / (2 + len(y)), rel=1e-6)


def test_refuses_summed_out_nodes():
    model = bl.Model(
        dims={"k": 2},
        model=bl.Graph(
            nodes={
                "p[k]": "Dirichlet(1)",
                "z[obs_id]": "Categorical(p)",
                "y[obs_id]": "Normal(where(z == 0, -1, 1), 1)",
            }
        ),
    )
    with refused("engine.refused.discrete", r"map.*\bz\b"):
        bl.fit(model, {"y": [0.1, -1.0]}, "map", progress=False, runs=None)


def test_options_of_another_method_in_the_file_are_left_aside():
    model = bl.Model(
        model=bl.Graph(nodes={"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, 1)"}),
        inference={"method": "nuts", "draws": 50},
    )
    fit = bl.fit(model, {"y": [3.0]}, "map", progress=False, runs=None)
    assert float(fit.posterior["m"].values[0, 0]) == pytest.approx(1.5, abs=1e-6)


LASSO = {"b[k]": "Laplace(0, 0.2)", "y[obs_id]": "Normal(X @ b, 0.3)"}


def mode_of(nodes, x, y, **options):
    model = bl.Model(data={"dims": {"X": ["obs_id", "k"]}}, model=bl.Graph(nodes=nodes))
    return bl.fit(model, {"X": x, "y": y}, "map", seed=1, progress=False, runs=None, **options)


@pytest.mark.slow(why="compiles")
def test_the_mode_of_an_orthonormal_lasso_is_the_soft_threshold():
    """With X'X = I: b = sign(z) max(|z| - s²/scale, 0), z = X'y; zeros are exact."""
    rng = np.random.default_rng(1)
    x = np.linalg.qr(rng.normal(size=(50, 6)))[0]
    y = x @ [3.0, -2.0, 0.0, 0.0, 1.0, 0.1] + rng.normal(scale=0.3, size=50)
    z = x.T @ y
    expected = np.sign(z) * np.maximum(np.abs(z) - 0.3**2 / 0.2, 0.0)
    fit = mode_of(LASSO, x, y)
    found = fit.posterior["b"].values[0, 0]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_array_equal(found == 0, expected == 0)
    assert 0 < (found == 0).sum() < 6
    assert f"{(found == 0).sum()} of 6 parameters with a Laplace prior are exactly zero" in str(fit.verdict)
    assert fit.verdict.status == "pass"


def coordinate_descent(x, y, penalty):
    """Least squares / 2 + penalty |b|, one coefficient at a time (Friedman, Hastie and Tibshirani 2010)."""
    b = np.zeros(x.shape[1])
    for _ in range(2_000):
        for j in range(b.size):
            pull = x[:, j] @ (y - x @ b) + x[:, j] @ x[:, j] * b[j]
            b[j] = np.sign(pull) * max(abs(pull) - penalty, 0.0) / (x[:, j] @ x[:, j])
    return b


@pytest.mark.slow(why="compiles")
def test_the_mode_of_a_lasso_with_correlated_predictors():
    """The penalty of least squares / 2 is s² / scale."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(80, 6)) @ (0.7 * np.eye(6) + 0.3)
    y = x @ [2.0, -1.5, 0.0, 0.0, 0.0, 0.7] + rng.normal(size=80)
    expected = coordinate_descent(x, y, 0.3**2 / 0.005)
    ours = mode_of(LASSO | {"b[k]": "Laplace(0, 0.005)"}, x, y).posterior["b"].values[0, 0]
    np.testing.assert_allclose(ours, expected, atol=1e-9)
    np.testing.assert_array_equal(ours == 0, expected == 0)
    assert 0 < (ours == 0).sum() < 6


@pytest.mark.slow(why="compiles")
def test_the_lasso_is_that_of_scikit_learn():
    """Where it is installed; alpha = s² / (scale n)."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(2)
    x = rng.normal(size=(80, 12)) @ (0.5 * np.eye(12) + 0.5)
    y = x @ np.r_[2.0, -1.5, np.zeros(9), 0.7] + rng.normal(size=80)
    lasso = linear_model.Lasso(alpha=0.3**2 / (0.005 * 80), fit_intercept=False, tol=1e-14, max_iter=1_000_000)
    theirs = lasso.fit(x, y).coef_
    ours = mode_of(LASSO | {"b[k]": "Laplace(0, 0.005)"}, x, y).posterior["b"].values[0, 0]
    np.testing.assert_allclose(ours, theirs, atol=1e-7)
    np.testing.assert_array_equal(ours == 0, theirs == 0)
    assert 0 < (ours == 0).sum() < 12


@pytest.mark.slow(why="compiles")
def test_only_laplace_priors_around_zero_with_known_scale_are_sparse():
    """Elsewhere the location (a kink that the mode may sit on) and the scale are left to the optimiser."""
    rng = np.random.default_rng(3)
    x = np.linalg.qr(rng.normal(size=(40, 3)))[0]
    y = x @ [2.0, 0.0, -1.0] + rng.normal(scale=0.3, size=40)
    fit = mode_of({"b[k]": "Laplace(0.5, 0.2)", "y[obs_id]": "Normal(X @ b, 0.3)"}, x, y)
    assert "exactly zero" not in str(fit.verdict)
    mixed = {"a": "Normal(0, 1)", "b[k]": "Laplace(0, 0.2)", "y[obs_id]": "Normal(a + X @ b, 0.3)"}
    fit = mode_of(mixed, x, y, optimizer="BFGS")
    residual = y - float(fit.posterior["a"].values[0, 0]) - x @ fit.posterior["b"].values[0, 0]
    pull = x.T @ residual / 0.3**2
    b = fit.posterior["b"].values[0, 0]
    # Karush-Kuhn-Tucker: the pull of the data is 1/scale where b is not zero, and less where it is.
    np.testing.assert_allclose(pull[b != 0], np.sign(b[b != 0]) / 0.2, rtol=1e-6)
    assert np.all(np.abs(pull[b == 0]) <= 1 / 0.2)
