"""Draws from the prior, without data and with it."""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl
from tests.refusals import refused


def prior(nodes, draws=2000, seed=1, data=None, **model):
    tree = bl.simulate(bl.Model(model=bl.Graph(nodes=nodes), **model), data, draws, seed=seed)
    groups = [tree[g].to_dataset() for g in ("prior", "prior_predictive")]
    return {str(n): v.values[0] for group in groups for n, v in group.data_vars.items()}


def test_moments_without_data():
    out = prior({"a": "Normal(2, 3)", "y[obs]": "Normal(a, 4)"}, dims={"obs": 50})
    n = 2000
    assert abs(out["a"].mean() - 2) < 4 * 3 / np.sqrt(n)
    assert abs(out["y"][:, 0].std() - 5) < 4 * 5 / np.sqrt(2 * n)
    # Rows share a: their correlation is 9 / 25.
    assert abs(np.corrcoef(out["y"][:, 0], out["y"][:, 1])[0, 1] - 9 / 25) < 4 / np.sqrt(n)


def test_the_same_seed_gives_the_same_draws():
    nodes = {"a": "Gamma(2, 1)", "y[obs]": "Poisson(a)"}
    first, second, other = (prior(nodes, 20, s, dims={"obs": 3}) for s in (5, 5, 6))
    np.testing.assert_array_equal(first["y"], second["y"])
    assert not np.array_equal(first["a"], other["a"])


def test_ordered_vectors_are_order_statistics():
    """The least of two standard normals has mean -1/sqrt(pi)."""
    out = prior({"c[k]": "Ordered(Normal(0, 1))", "y": "Normal(c[0], 1)"}, dims={"k": 2})
    assert np.all(np.diff(out["c"], axis=1) > 0)
    assert abs(out["c"][:, 0].mean() + 1 / np.sqrt(np.pi)) < 4 * 0.83 / np.sqrt(2000)


@pytest.mark.slow(why="compiles")
def test_a_variance_and_its_series_are_drawn_together():
    """GARCH: they look back at each other, and every row obeys the recursion."""
    nodes = {
        "mu": "Normal(5, 0.1)",
        "base": "Gamma(100, 50)",
        "share[k]": "Dirichlet([50, 30, 20])",
        "h[t]": "base + share[0] * (lag(y, 1) - mu) ** 2 + share[1] * previous(h, 1, start=4)",
        "y[t]": "Normal(mu, sqrt(h))",
    }
    out = prior(nodes, 20, dims={"k": 3, "t": 300})
    h, y, mu, share = out["h"], out["y"], out["mu"][:, None], out["share"]
    right = out["base"][:, None] + share[:, :1] * (y[:, :-1] - mu) ** 2 + share[:, 1:2] * h[:, :-1]
    np.testing.assert_allclose(h[:, 1:], right, rtol=1e-10)
    np.testing.assert_array_equal(h[:, 0], 4)
    assert abs(((y - mu) / np.sqrt(h)).std() - 1) < 4 / np.sqrt(2 * y.size)


@pytest.mark.slow(why="statistical")
def test_an_autoregression_is_stationary():
    """Variance 1 / (1 - 0.6²) once the start is forgotten."""
    out = prior({"y[t]": "Normal(0.6 * lag(y, 1, start=0), 1)"}, 400, dims={"t": 200})
    late = out["y"][:, 50:]
    assert abs(late.var() - 1 / (1 - 0.36)) < 0.1
    lagged = np.corrcoef(late[:, 1:].ravel(), late[:, :-1].ravel())[0, 1]
    assert abs(lagged - 0.6) < 0.02


def test_data_give_predictors_and_sizes():
    out = prior(
        {"b": "Normal(0, 1)", "y[obs_id]": "Normal(b * x, 0.001)"}, 50, data={"x": [1.0, 2.0, 3.0], "y": [9.0, 9, 9]}
    )
    assert out["y"].shape == (50, 3)
    np.testing.assert_allclose(out["y"][:, 2], 3 * out["b"], atol=0.01)


def test_a_flat_prior_cannot_be_drawn_from():
    with refused("model.improper", "'a'"):
        prior({"a": "Flat()", "y[obs]": "Normal(a, 1)"}, dims={"obs": 2})


@pytest.mark.parametrize("seed", [-1, 1.5, "a", True])
def test_seeds_that_are_refused(seed):
    with refused("option.out-of-range", "seed"):
        prior({"a": "Normal(2, 3)"}, 5, seed)
