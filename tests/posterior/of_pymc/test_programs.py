"""Programs of plain PyMC models: densities and gradients, starts, names; what is refused."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import bayeslab as bl
from bayeslab.errors import ModelError, OptionError
from tests.bench.time_to_posterior import OURS, data_of, theirs
from tests.posterior.machine.checks import check
from tests.posterior.of_pymc.models import MODELS

QUICK = ("hierarchical_logistic", "with_coords", "correlated_effects", "mixtures")


def doubles():
    """PyMC else keeps short constants in single precision, and so their logarithms."""
    return pytensor.config.change_flags(cast_policy="numpy+floatX")


def compare(model, jitter=0.4, mode="FAST_COMPILE", start=True):
    """Log density and gradient at 20 random points around the start, against PyMC's functions."""
    program = bl.machine.from_pymc(model)
    with doubles():
        value = model.compile_fn(model.logp(), inputs=model.value_vars, mode=mode, point_fn=False)
        slope = model.compile_fn(model.dlogp(), inputs=model.value_vars, mode=mode, point_fn=False)
    centre, rng, finite = program.log_density.centre(), np.random.default_rng(0), 0
    if start:
        np.testing.assert_allclose(centre, program.log_density.flat(model.initial_point()), rtol=1e-9, atol=1e-9)
    assert program.log_density.names == tuple(v.name for v in model.value_vars)
    for _ in range(20):
        point = centre + rng.uniform(-jitter, jitter, centre.size)
        split = program.log_density.split(point)
        args = [split[v.name] for v in model.value_vars]
        ours, gradient = program.value_and_gradient(point)
        wanted = float(value(*args))
        if not np.isfinite(wanted):
            assert not np.isfinite(ours)
            continue
        finite += 1
        assert ours == pytest.approx(wanted, rel=1e-9, abs=1e-9)
        np.testing.assert_allclose(gradient, slope(*args), rtol=1e-9, atol=1e-9)
    assert finite >= 5


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", QUICK)
def test_density_and_gradient_equal_those_of_pymc(name):
    compare(MODELS[name]())


@pytest.mark.slow(why="compiles")
@pytest.mark.filterwarnings("ignore:SplineWrapper should implement")
@pytest.mark.parametrize("name", sorted(MODELS.keys() - set(QUICK)))
def test_densities_and_gradients_equal_those_of_pymc(name):
    compare(MODELS[name]())


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", OURS)
def test_the_models_of_the_benchmark(name):
    """By the function that PyMC's samplers take."""
    with doubles():
        model = theirs(name, data_of(name))
    compare(model, mode="NUMBA")


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(MODELS))
def test_programs_equal_their_slow_evaluation(name):
    program = bl.machine.from_pymc(MODELS[name]()).log_density.program
    start = bl.machine.from_pymc(MODELS[name]()).log_density.centre()
    rng = np.random.default_rng(1)
    for _ in range(20):
        point = start + rng.uniform(-0.3, 0.3, start.size)
        if np.isfinite(program.value(point)):
            check(program, point)
            return
    pytest.fail("no point with a finite density")


def test_quantities_are_those_of_pymc():
    model = MODELS["correlated_effects"]()
    density = bl.machine.from_pymc(model).log_density
    points = density.centre() + np.random.default_rng(0).uniform(-1, 1, (3, density.n_dim))
    ours = density.constrained(density.split(points))
    outputs = [*model.unobserved_value_vars]
    function = model.compile_fn(outputs, inputs=model.value_vars, mode="FAST_COMPILE", point_fn=False)
    names = {v.name for v in [*model.free_RVs, *model.deterministics]}
    assert ours.keys() == names
    for k, point in enumerate(points):
        values = function(*(density.split(point)[v.name] for v in model.value_vars))
        for variable, value in zip(outputs, values, strict=True):
            if variable.name in names:
                np.testing.assert_allclose(ours[variable.name][k], value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "transform",
    [
        pm.distributions.transforms.Chain([pm.distributions.transforms.log, pm.distributions.transforms.ordered]),
        pm.distributions.transforms.log_exp_m1,
        pm.distributions.transforms.Ordered(positive=True),
        pm.distributions.transforms.Ordered(ascending=False),
        pm.distributions.transforms.Interval(np.float64(0.0), np.float64(9.0)),
        pm.distributions.transforms.Interval(np.float64(0.0), None),
    ],
)
def test_transforms(transform):
    with doubles(), pm.Model() as model:
        rate = pm.Exponential("rate", 1.0)
        down = getattr(transform, "ascending", True) is False
        start = np.array([3.0, 2.0, 1.0]) if down else np.array([1.0, 2.0, 3.0])
        x = pm.Gamma("x", 2.0, rate, shape=3, default_transform=None, transform=transform, initval=start)
        pm.Normal("y", x, 1.0, observed=[0.5, 1.5, 2.0])
    compare(model)


def test_a_likelihood_of_some_of_the_rows():
    with doubles(), pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        pm.Normal("y", mu, 1.0, observed=np.array([0.3, 0.1]), total_size=10)
    compare(model)


def test_a_prior_given_observed_values():
    with doubles(), pm.Model() as model:
        y = pm.Normal("y", 0.0, 1.0, observed=[0.3, 0.1])
        pm.Normal("mu", y.sum(), 1.0)
    compare(model, start=False)  # PyMC's draws y for it


def test_probabilities_that_do_not_sum_to_one():
    with pm.Model() as model:
        p = pm.Beta("p", 2.0, 2.0, shape=3)
        pm.Categorical("k", p, observed=[0, 1, 2])
    program = bl.machine.from_pymc(model)
    assert program.value_and_gradient(np.zeros(3))[0] == -np.inf


def test_starting_values():
    with pm.Model() as model:
        pm.HalfNormal("s", 1.0, initval=0.2)
        pm.Normal("x", 3.0, 1.0)
    assert bl.machine.from_pymc(model).log_density.centre() == pytest.approx([np.log(0.2), 3.0])


def test_the_error_names_all_that_is_unknown():
    with pm.Model() as model:
        k = pm.Poisson("k", 3.0)
        a = pm.Normal("a", 0.0, 1.0, shape=4)
        b = pm.Deterministic("b", pt.i0(a))
        pm.Normal("y", b[0] + k, 1.0, observed=0.3)
        pm.Potential("p", pt.sort(a)[0])
    with pytest.raises(ModelError) as caught:
        bl.machine.from_pymc(model)
    assert caught.value.code == "model.unsupported"
    for part in ("Poisson in 'k' (a discrete variable without data)", "i0 in 'y'", "SortOp in 'p'"):
        assert part in str(caught.value)


def test_positions_that_depend_on_parameters_are_refused():
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 1.0, shape=4)
        pm.Normal("y", a[pt.cast(pt.clip(a[0], 0.0, 3.0), "int64")], 1.0, observed=0.3)
    with pytest.raises(ModelError, match="positions that depend on parameters"):
        bl.machine.from_pymc(model)


def test_random_numbers_that_are_no_variable_are_refused():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal.dist(0.0, 1.0) + pm.Normal("mu", 0.0, 1.0), 1.0, observed=0.3)
    with pytest.raises(ModelError, match="random numbers that are not a variable of the model"):
        bl.machine.from_pymc(model)


def test_a_model_without_parameters():
    with pm.Model() as model:
        pm.Normal("y", 0.0, 1.0, observed=0.3)
    with pytest.raises(ModelError, match="no free") as caught:
        bl.machine.from_pymc(model)
    assert caught.value.code == "model.nothing-to-fit"


def test_what_is_no_model():
    with pytest.raises(ModelError, match=r"pymc\.Model, not dict"):
        bl.machine.from_pymc({})


def test_a_method_that_needs_more_than_a_density():
    with pytest.raises(OptionError, match="nuts"):
        bl.machine.from_pymc(MODELS["potential"]()).fit("gibbs")
