"""Densities in the coordinates of their mode's curvature: against closed forms, and where there are none."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import bayeslab as bl
from bayeslab.engines.toolbox.whitened import SEARCHES, Whitened, geometric_mean, whitened
from bayeslab.posterior.density import Density

MEAN = np.array([1.0, -2.0, 30.0])
SD = np.array([0.1, 1.0, 50.0])
CORRELATION = np.array([[1.0, 0.9, -0.3], [0.9, 1.0, -0.1], [-0.3, -0.1, 1.0]])
COVARIANCE = CORRELATION * np.outer(SD, SD)


@pytest.fixture(scope="module")
def normal():
    with pm.Model() as model:
        pm.MvNormal("x", MEAN, COVARIANCE, shape=3)
    return Density.of(model)


@pytest.mark.slow(why="compiles")
def test_a_normal_posterior_becomes_a_standard_normal_one(normal):
    found = whitened(normal, np.random.default_rng(1))
    assert isinstance(found, Whitened)
    # The draws that refine the curvature leave it as it is, up to their error.
    np.testing.assert_allclose(found.centre, MEAN, atol=0.3 * SD.max())
    turned = np.linalg.solve(found.scale, np.linalg.solve(found.scale, COVARIANCE).T)
    np.testing.assert_allclose(turned, np.eye(3), atol=0.25)
    assert np.abs(np.linalg.solve(found.scale, found.centre - MEAN)).max() < 0.3


@pytest.mark.slow(why="compiles")
def test_the_density_is_the_same_and_the_gradient_is_by_the_new_coordinates(normal):
    rng = np.random.default_rng(2)
    made = Whitened(normal, rng.normal(size=3), rng.normal(size=(3, 3)))
    z = rng.normal(size=3)
    value, gradient = made(z)
    x = made.centre + made.scale @ z
    assert value == pytest.approx(normal(x)[0], rel=1e-14)
    steps = 1e-5 * np.eye(3)
    np.testing.assert_allclose(gradient, [(made(z + h)[0] - made(z - h)[0]) / 2e-5 for h in steps], rtol=1e-5)


def test_compiled_callbacks_are_the_same(normal):
    import ctypes

    rng = np.random.default_rng(3)
    made = Whitened(normal, rng.normal(size=3), rng.normal(size=(3, 3)))
    z, gradient, value = rng.normal(size=3), np.empty(3), np.empty(1)
    real, data = ctypes.POINTER(ctypes.c_double), made.callback_arguments.ctypes.data
    at, to, out = (a.ctypes.data_as(real) for a in (z, gradient, value))
    assert made.callback.ctypes(3, at, to, out, data) == 0
    want, slope = made(z)
    np.testing.assert_allclose(made.point(z), made.centre + made.scale @ z, rtol=1e-14)
    np.testing.assert_allclose(value[0], want, rtol=1e-14)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12)


def test_the_geometric_mean_of_matrices():
    rng = np.random.default_rng(4)
    a, b = (m @ m.T for m in rng.normal(size=(2, 4, 4)))
    x = geometric_mean(a, b)
    np.testing.assert_allclose(x @ np.linalg.solve(a, x), b, rtol=1e-8, atol=1e-10)


def refused(model):
    found = whitened(Density.of(model), np.random.default_rng(0))
    assert isinstance(found, str)
    return found


@pytest.mark.slow(why="compiles")
def test_two_modes_are_told():
    with pm.Model() as model:
        pm.NormalMixture("x", [0.5, 0.5], mu=[-0.6, 0.6], sigma=[0.05, 0.1], shape=2)
    assert "ended at different heights" in refused(model)


def test_a_direction_without_curvature_is_told():
    with pm.Model() as model:
        a, b = pm.Flat("a"), pm.Flat("b")
        pm.Potential("sum", -0.5 * (a + b - 1) ** 2)
    assert "does not bend downwards" in refused(model)


@pytest.mark.slow(why="compiles")
def test_a_funnel_is_not_about_normal():
    with pm.Model() as model:
        v = pm.Normal("v", 0, 3)
        pm.Normal("x", 0, pm.math.exp(v / 2), shape=9)
        pm.Potential("mild", -0.5 * (v / 3) ** 2)
    assert refused(model)


LINE = {"family": "graph", "nodes": {"a": "Normal(0, 10)", "b": "Normal(0, 10)", "y[obs_id]": "Normal(a + b * x, 1)"}}


def fit(**options):
    rng = np.random.default_rng(5)
    x = rng.uniform(9, 11, 40)  # far from zero: intercept and slope are correlated by -0.998
    y = 1 + 2 * x + rng.normal(size=40)
    model = bl.Model.model_validate({"bayeslab": 1, "name": "line", "model": LINE})
    made = bl.fit(model, {"x": x, "y": y}, method="nuts", seed=1, runs=None, progress=False, **options)
    design = np.column_stack([np.ones(40), x])
    covariance = np.linalg.inv(design.T @ design + np.eye(2) / 100)
    return made, covariance @ design.T @ y, covariance


def test_draws_from_the_mode_are_of_the_posterior_in_closed_form():
    made, mean, covariance = fit(start="mode", draws=1000, chains=2)
    draws = np.stack([made.posterior[name].to_numpy().ravel() for name in ("a", "b")])
    ess = min(float(v) for v in made.summary()["ess_bulk"])
    sd = np.sqrt(np.diag(covariance))
    assert np.abs(draws.mean(axis=1) - mean).max() < 4 * (sd / np.sqrt(ess)).max()
    np.testing.assert_allclose(draws.std(axis=1), sd, rtol=4 / np.sqrt(2 * ess))
    steps = made.data_tree["sample_stats"]["n_steps"].to_numpy()
    assert steps.mean() < 8  # the correlation does not cost anything
    told = [f.message for f in made.verdict.findings if f.check == "start"]
    assert told == [f"around the mode, 200 tuning draws; {SEARCHES} searches found the same mode"]


def test_a_chain_from_the_mode_does_not_depend_on_how_many_run():
    one, two = (fit(start="mode", draws=30, chains=n, cores=n)[0].posterior["b"].to_numpy() for n in (1, 2))
    np.testing.assert_array_equal(one[0], two[0])
    assert not np.array_equal(two[0], two[1])


def test_others_start_around_the_priors_as_ever():
    made, _, _ = fit(draws=50, chains=1)
    assert not [f for f in made.verdict.findings if f.check == "start"]


@pytest.mark.slow(why="compiles")
def test_where_there_is_no_mode_to_start_from_the_verdict_says_so_and_tuning_is_as_usual():
    nodes = {"x": "NormalMixture([0.5, 0.5], [-0.6, 0.6], [0.1, 0.2])", "z[obs_id]": "Normal(x, 1)"}
    model = bl.Model.model_validate({"bayeslab": 1, "name": "two", "model": {"family": "graph", "nodes": nodes}})
    made = bl.fit(
        model, {"z": [0.0]}, method="nuts", start="mode", draws=50, chains=1, seed=1, runs=None, progress=False
    )
    (told,) = [f.message for f in made.verdict.findings if f.check == "start"]
    assert "different heights" in told
    assert "tuned with 1,000 draws" in told
