"""A law of Gaussian processes: inputs and outcomes measured in another unit have the same answers in that unit.

From 1e-150 to 1e150: products of variances, and powers of lengthscales, would leave the range of floats there.
"""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.data.binding import bind
from bayeslab.data.dataset import Dataset
from bayeslab.families.gaussian_process.model import resolved
from bayeslab.families.gaussian_process.posterior_mode import likelihood_of, optimum
from bayeslab.latents.gaussian_process.state_space_kernels import log_marginal
from tests.refusals import refused

RNG = np.random.default_rng(0)
N = 24
X = np.linspace(0, 5, N)
Y = np.sin(X) + 0.2 * RNG.standard_normal(N)
UNITS = [(1.0, 1e-150), (1e-150, 1.0), (1.0, 1e150), (1e150, 1.0)]


def process(kernel, inputs=1.0, outcome=1.0, **spec):
    model = bl.Model(model=bl.GaussianProcess(target="y", kernel=kernel, **spec), seed=1)
    data = bind(model, Dataset.from_table({"x": X * inputs, "y": Y * outcome}, "obs_id"), model.factors())
    return resolved(model, data)


def at(seen, inputs, outcome):
    """Hyperparameters, noise and the intercept: the same point in every unit."""
    units = {
        "lengthscale": 0.9 * inputs, "period": 2.1 * inputs, "scale": 1.1 * outcome, "alpha": 1.3, "center": 1.2 * inputs
    }  # fmt: skip
    values = []
    for parameter in seen.kernel.parameters:
        value = units.get(parameter.role, 0.2 * outcome)
        if parameter.word == "Periodic" and parameter.role == "lengthscale":
            value = 0.9
        values.append(value / inputs if parameter.word == "Linear" and parameter.role == "scale" else value)
    return np.array([*values, 0.3 * outcome, 0.1 * outcome])


def slopes(seen, inputs, outcome):
    """Log evidence and its slopes, each in the unit of its parameter."""
    likelihood = likelihood_of(seen)
    point = at(seen, inputs, outcome)
    value, gradient = likelihood.log_marginal(point)
    return np.array([value + N * np.log(outcome), *(gradient * point)])


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(
    ("kernel", "spec"),
    [
        ("Matern12(x)", {}),
        ("Matern52(x)", {}),
        ("ExpQuad(x) + Periodic(x)", {}),
        ("RationalQuadratic(x)", {}),
        ("Linear(x) + Matern32(x)", {}),
        ("Matern52(x) + White()", {"approximation": "state_space"}),
    ],
)
@pytest.mark.parametrize("units", UNITS)
def test_evidence_and_slopes_have_no_unit(kernel, spec, units):
    expected = slopes(process(kernel, **spec), 1.0, 1.0)
    np.testing.assert_allclose(slopes(process(kernel, *units, **spec), *units), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("units", UNITS)
def test_evidence_in_time_has_no_unit(units):
    def found(inputs, outcome):
        seen = process("Matern52(x) + Matern12(x) + White()", inputs, outcome)
        ops, _, places, fixed = seen.kernel.program
        steps, point = np.diff(seen.x[:, 0], prepend=seen.x[:1, 0]), at(seen, inputs, outcome)
        value, gradient = log_marginal(point, ops, places, fixed, steps, seen.y, seen.design, seen.known)
        return np.array([value + N * np.log(outcome), *(gradient * point)])

    np.testing.assert_allclose(found(*units), found(1.0, 1.0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("spec", [{}, {"approximation": "state_space"}])
@pytest.mark.parametrize("units", UNITS)
def test_modes_have_the_unit_of_the_data(spec, units):
    """Default priors have it too, wherever a search for the quartiles of a density has to look for them."""
    before = optimum(process("Matern52(x)", **spec), True, 2, np.random.default_rng(0))
    after = optimum(process("Matern52(x)", *units, **spec), True, 2, np.random.default_rng(0))
    assert after.converged and before.converged
    for name, unit in (("Matern52_lengthscale", units[0]), ("Matern52_scale", units[1]), ("sigma", units[1])):
        assert after.values[name] / unit == pytest.approx(before.values[name], rel=1e-4)


@pytest.mark.parametrize("units", UNITS[1::2])
def test_approximations_serve_inputs_in_any_unit_and_name_outcomes_they_do_not(units):
    how = {"approximation": "hsgp", "functions": 20}
    expected = slopes(process("Matern52(x)", **how), 1.0, 1.0)
    np.testing.assert_allclose(slopes(process("Matern52(x)", *units, **how), *units), expected, rtol=1e-5, atol=1e-5)
    for outcome in (1e-55, 1e55):
        found = slopes(process("Matern52(x)", 1.0, outcome, **how), 1.0, outcome)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    for word in ("sparse", "fitc", "hsgp"):
        with refused("data.too-large", f"'y'.*approximation: {word}"):
            process("Matern52(x)", 1.0, 1e150, approximation=word)
