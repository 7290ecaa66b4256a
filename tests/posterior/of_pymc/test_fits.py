"""Fits of plain PyMC models by the density machine."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import bayeslab as bl
from bayeslab.errors import ModelError, OptionError
from tests.posterior.of_pymc.models import MODELS

FEW = {"draws": 100, "tune": 200, "chains": 2, "target_accept": 0.9, "progress": False}


@pytest.fixture(scope="module")
def fitted():
    model = MODELS["with_coords"]()
    return model, bl.machine.from_pymc(model).fit(seed=1, **FEW)


def test_variables_have_names_dims_and_labels(fitted):
    _, fit = fitted
    assert list(fit.posterior.data_vars) == ["mu", "tau", "a", "s", "expected"]
    assert fit.posterior["a"].dims == ("chain", "draw", "county")
    assert fit.posterior["county"].to_numpy().tolist() == ["Anoka", "Clay", "Mower"]
    assert fit.posterior["expected"].dims == ("chain", "draw", "house")
    assert fit.data_tree["observed_data"]["y"].dims == ("house",)
    assert fit.data_tree["constant_data"]["place"].dims == ("house",)
    place = fit.data_tree["constant_data"]["place"].to_numpy()
    np.testing.assert_allclose(fit.posterior["expected"], fit.posterior["a"].to_numpy()[..., place])


def test_the_same_seed_gives_the_same_draws(fitted):
    model, fit = fitted
    again = bl.machine.from_pymc(model).fit(seed=1, cores=1, **FEW)
    for name, values in fit.posterior.data_vars.items():
        np.testing.assert_array_equal(values, again.posterior[name])
    other = bl.machine.from_pymc(model).fit(seed=2, **FEW)
    assert not np.array_equal(fit.posterior["mu"], other.posterior["mu"])


def test_arviz_and_pymc_take_the_fit(fitted):
    model, fit = fitted
    assert "mu" in az.summary(fit).index
    drawn = pm.sample_posterior_predictive(fit.data_tree, model=model, progressbar=False, random_seed=1)
    assert drawn["posterior_predictive"]["y"].sizes == {"chain": 2, "draw": 100, "house": 10}
    with pytest.raises(OptionError, match="sample_posterior_predictive"):
        fit.predict()
    assert "mu" in fit._repr_html_()


def test_starting_values_are_given_by_name(fitted):
    model, _ = fitted
    program = bl.machine.from_pymc(model)
    assert program.fit(seed=1, initvals={"tau": 0.5, "a": [0.1, 0.2, 0.3]}, **FEW).verdict is not None
    with pytest.raises(OptionError, match="no parameter 'taus'"):
        program.fit(seed=1, initvals={"taus": 0.5}, **FEW)
    with pytest.raises(OptionError, match="support"):
        program.fit(seed=1, initvals={"tau": -0.5}, **FEW)


def test_deterministic_variables_that_pymc_evaluates():
    with pm.Model() as model:
        a = pm.Normal("a", [0.0, 3.0, 1.0], 0.1, shape=3)
        pm.Deterministic("sorted", pt.sort(a))
        pm.Deterministic("largest", pt.argmax(a))
        pm.Deterministic("total", a.sum())
    program = bl.machine.from_pymc(model)
    assert program.evaluated_by_pymc == ("sorted", "largest")
    fit = program.fit(seed=1, **FEW)
    a = fit.posterior["a"].to_numpy()
    np.testing.assert_allclose(fit.posterior["sorted"], np.sort(a, axis=-1))
    np.testing.assert_array_equal(fit.posterior["largest"], a.argmax(axis=-1))
    np.testing.assert_allclose(fit.posterior["total"], a.sum(axis=-1))


def test_a_model_without_a_start():
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Potential("never", pt.switch(pt.gt(x, 1e9), 0.0, -np.inf))
    with pytest.raises(ModelError) as caught:
        bl.machine.from_pymc(model).fit(seed=1, **FEW)
    assert caught.value.code == "model.no-start"


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("method", ["advi", "pathfinder", "laplace", "map", "smc"])
def test_other_methods(method):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 10.0)
        pm.Normal("y", mu, 1.0, observed=[1.0, 2.0, 3.0])
    fit = bl.machine.from_pymc(model).fit(method, seed=1, progress=False)
    assert float(fit.posterior["mu"].mean()) == pytest.approx(600 / 301, abs=0.1)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("name", ["hierarchical_logistic", "weibull_survival"])
def test_means_and_deviations_equal_those_of_pymc(name):
    model = MODELS[name]()
    fit = bl.machine.from_pymc(model).fit(seed=1, draws=2000, target_accept=0.95, progress=False)
    tree = pm.sample(
        2000,
        chains=4,
        cores=1,
        random_seed=2,
        target_accept=0.95,
        model=model,
        nuts_sampler="nutpie",
        progressbar=False,
    )
    ours, theirs = (az.summary(each, kind="all", round_to="none") for each in (fit, tree))
    theirs = theirs.loc[ours.index]
    error = np.hypot(ours["mcse_mean"].astype(float), theirs["mcse_mean"].astype(float))
    assert (np.abs(ours["mean"] - theirs["mean"]) < 4.5 * error).all()
    spread = np.hypot(ours["mcse_sd"].astype(float), theirs["mcse_sd"].astype(float))
    assert (np.abs(ours["sd"] - theirs["sd"]) < 4.5 * spread).all()
