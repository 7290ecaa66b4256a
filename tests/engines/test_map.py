"""The mode against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl


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
    np.testing.assert_allclose(fit.posterior["b"].values[0, 0], ridge, rtol=1e-6)
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
    with pytest.raises(bl.BayeslabError, match="method map does not apply: the discrete nodes z"):
        bl.fit(model, {"y": [0.1, -1.0]}, "map", progress=False, runs=None)


def test_options_of_another_method_in_the_file_are_left_aside():
    model = bl.Model(
        model=bl.Graph(nodes={"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, 1)"}),
        inference={"method": "nuts", "draws": 50},
    )
    fit = bl.fit(model, {"y": [3.0]}, "map", progress=False, runs=None)
    assert float(fit.posterior["m"].values[0, 0]) == pytest.approx(1.5, abs=1e-6)
