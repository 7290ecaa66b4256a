"""Truncated and censored nodes on the density machine have the density and the gradient of the PyMC graph."""

from __future__ import annotations

import re

import numpy as np
import pytest
from pytensor.compile.mode import Mode
from pytensor.scalar.basic import autocast_float_as

import bayeslab as bl
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.preparation import Source

pytestmark = pytest.mark.usefixtures("double_precision")

PYTHON = Mode("py", "fast_compile")
X = np.array([0.3, 1.0, 2.0, 0.7, 2.0])
K = np.array([1, 3, 4, 2, 4])
UPPER = np.array([2.0, 2.0, 2.0, np.inf, 2.0])
POSITIVE = {"s": "HalfNormal(2)", "a": "Gamma(2, 1)"}

CASES = {
    "censored above": {"m": "Normal(0, 3)", "s": "HalfNormal(2)", "x[obs_id]": "Censored(Normal(m, s), upper=2)"},
    "censored on both sides": {
        "m": "Normal(0, 3)",
        "s": "HalfNormal(2)",
        "x[obs_id]": "Censored(StudentT(4, m, s), lower=0.3, upper=2)",
    },
    "bounds by row": {**POSITIVE, "x[obs_id]": "Censored(Weibull(a, s), upper=c)"},
    "censored counts": {"m": "Gamma(2, 1)", "k[obs_id]": "Censored(Poisson(m), lower=1, upper=4)"},
    "censored overdispersed counts": {**POSITIVE, "k[obs_id]": "Censored(NegativeBinomial(s, a), upper=4)"},
    "truncated below": {**POSITIVE, "x[obs_id]": "Truncated(Gamma(a, s), lower=0.2)"},
    "truncated above": {**POSITIVE, "x[obs_id]": "Truncated(Weibull(a, s), upper=2.5)"},
    "truncated on both sides": {
        "m": "Normal(0, 3)",
        "s": "HalfNormal(2)",
        "x[obs_id]": "Truncated(Cauchy(m, s), 0.1, 3)",
    },
    "truncated counts": {**POSITIVE, "k[obs_id]": "Truncated(Poisson(s), lower=1)"},
    "counts between": {"p": "Beta(2, 2)", "k[obs_id]": "Truncated(Binomial(9, p), lower=1, upper=5)"},
    "truncated normal": {"m": "Normal(0, 3)", "s": "HalfNormal(2)", "x[obs_id]": "Truncated(Normal(m, s), lower=0.1)"},
    "truncated priors": {
        "m": "Truncated(StudentT(4, 0, 1), lower=1)",
        "s": "Truncated(Gamma(2, 1), 0.5, 3)",
        "b": "Truncated(Logistic(0, 1), upper=-1)",
        "x[obs_id]": "Normal(m + b, s)",
    },
}


def both(nodes):
    """The machine's model and the PyMC graph."""
    columns = {"x": X, "k": K, "c": UPPER}
    text = " ".join([*nodes, *nodes.values()])
    used = {name: values for name, values in columns.items() if re.search(rf"\b{name}\b", text)}
    model = bl.Model(model={"family": "graph", "nodes": dict(nodes)})
    with autocast_float_as("float16", "float32", "float64"):
        graph = bl.to_pymc(model, used)
    return Source(model).posterior(used).machine_model(), graph


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("case", CASES)
def test_the_machine_has_the_density_of_the_graph(case):
    machine, graph = both(CASES[case])
    assert [p.value_name for p in machine.parameters] == [v.name for v in graph.value_vars]
    density, slope = graph.compile_logp(mode=PYTHON), graph.compile_dlogp(mode=PYTHON)
    start, rng = graph.initial_point(), np.random.default_rng(5)
    np.testing.assert_allclose(machine.start(), np.concatenate([np.ravel(v) for v in start.values()]), rtol=1e-12)
    for spread in (0.3, 0.6, 2.0, 4.0):
        point = {name: np.asarray(v + rng.normal(0, spread, np.shape(v))) for name, v in start.items()}
        flat = np.concatenate([np.ravel(v) for v in point.values()])
        value, gradient = machine.program.value_and_gradient(flat)
        np.testing.assert_allclose(value, density(point), rtol=1e-9)
        np.testing.assert_allclose(gradient, slope(point), rtol=1e-8, atol=1e-9)
        assert machine.program.value(flat) == pytest.approx(value, rel=1e-10)


def test_values_beyond_the_bounds_are_left_to_the_graph():
    with pytest.raises(NotLowered):
        both({"m": "Normal(0, 3)", "x[obs_id]": "Censored(Normal(m, 1), upper=0.5)"})


def test_a_distribution_without_tails_is_left_to_the_graph():
    with pytest.raises(NotLowered):
        both({"m": "Normal(0, 3)", "x[obs_id]": "Truncated(VonMises(m, 1), lower=0)"})
