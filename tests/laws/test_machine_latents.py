"""Hidden paths, states and functions in programs of the machine: the densities of their PyMC graphs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ive

import bayeslab as bl
from bayeslab.families.graph.processes import basis_of, inputs_of, process_of
from bayeslab.language.nodes import nodes_of
from bayeslab.posterior.density import Density
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from tests.laws.test_machine_models import far_from_the_start, reference
from tests.posterior.machine.checks import differences

DIMS = {"state": 2, "state2": "state", "next_state": "state", "length": 4, "person": ["a", "b", "c"]}
RNG, RNG_2 = np.random.default_rng(5), np.random.default_rng(6)
ROWS = 30
COLUMNS = {
    "y": RNG.standard_normal(ROWS),
    "x": RNG.standard_normal(ROWS),
    "n": RNG.integers(0, 4, ROWS),
    "above": np.array([np.nan, *(RNG.integers(0, max(t, 1)) if t % 11 else np.nan for t in range(1, ROWS))]),
    "series": np.repeat(["first", "second"], [18, 12]),
    "kind": RNG.choice(["a", "b", "c"], ROWS),
}


def model_of(nodes, data_dims=None, **columns):
    used = " ".join([*nodes, *nodes.values()])
    columns = {name: value for name, value in (COLUMNS | columns).items() if name in used}
    data = {"rows": "t"} | ({"dims": data_dims} if data_dims else {})
    source = Source(bl.Model(model={"family": "graph", "nodes": nodes}, data=data, dims=DIMS))
    return source.posterior(source.bound(columns).dataset)


def is_its_graph(model, name, spreads=(0.1, 0.3, 0.6, 1.0), far=True):
    """Values and gradients at 20 points and far out, values by NumPy, and gradients by their finite differences."""
    graph = model.graph()
    density, start = MachineDensity(model.machine_model(), lambda: graph), graph.initial_point()
    assert density.names == tuple(v.name for v in graph.value_vars)
    program, at = density.machine.program, density.flat(start)
    np.testing.assert_allclose(density.centre(), at, atol=1e-12)
    rng, function = np.random.default_rng(1), reference(graph)
    for spread in np.repeat(spreads, 20 // len(spreads)):
        point = at + spread * rng.standard_normal(at.size)
        value, *slopes = function(*density.split(point).values())
        mine, gradient = density(point)
        assert mine == pytest.approx(float(value), rel=1e-9, abs=1e-9)
        assert program.value(point) == pytest.approx(mine, rel=1e-10)
        slope = np.concatenate([np.ravel(s) for s in slopes])
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(slope).max()))
    size = max(1.0, np.abs(gradient).max())
    np.testing.assert_allclose(gradient / size, differences(program, point) / size, rtol=1e-5, atol=1e-6)
    if far:
        far_from_the_start(density, function, at, name)
    return density, graph


NODES = {"P[state, next_state]": "Dirichlet(1)", "mu[state]": "Normal(0, 1)", "y[t]": "Normal(mu[z], 1)"}
MIXED = {key: node for key, node in NODES.items() if key != "P[state, next_state]"}
Q = {"Q[state, state2, next_state]": "Dirichlet(1)"}
PATHS = {
    "tree": NODES | {"z[t]": "MarkovTree(P, parent=above)"},
    "tree whose first states are known": NODES | {"z[t]": "MarkovTree(P, parent=above, initial=[0.6, 0.4])"},
    "segments": MIXED | {"D[state, length]": "Dirichlet(1)", "z[t]": "SemiMarkovChain([[0, 1], [1, 0]], durations=D)"},
    "segments of several series": MIXED
    | {
        "D[state, length]": "Dirichlet(1)",
        "z[t]": "SemiMarkovChain([[0, 1], [1, 0]], durations=D, initial=[0.6, 0.4], sequence=series)",
        "n[t]": "Poisson(exp(mu[z] / 3))",
    },
    "second order": MIXED | Q | {"z[t]": "MarkovChain(Q, order=2)"},
    "second order, stationary": MIXED | Q | {"z[t]": "MarkovChain(Q, stationary, order=2)"},
    "second order, several series": MIXED
    | {
        "pair[state, next_state]": "[[0.1, 0.2], [0.3, 0.4]]", "b": "Normal(0, 1)",
        "z[t]": "MarkovChain(softmax(log(R) + b * x * index(next_state), next_state), pair, order=2, sequence=series)",
        "R[state, state2, next_state]": "Dirichlet(2)",
    },
    "second order, with labels": MIXED
    | Q
    | {
        "z[t]": "MarkovChain(Q, order=2)", "w[t]": "Bernoulli(0.3)", "y[t]": "Normal(mu[z] + w, 1)",
    },
    "tree with labels": NODES
    | {"z[t]": "MarkovTree(P, parent=above)", "w[t]": "Bernoulli(0.3)", "y[t]": "Normal(mu[z] + w, 1)"},
    "second order with impossible transitions": MIXED
    | {
        "a": "Beta(2, 2)",
        "z[t]": "MarkovChain([[[a, 1 - a], [0.2, 0.8]], [[1, 0], [0.5, 0.5]]], initial=[1, 0], order=2)",
    },
}  # fmt: skip


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", PATHS)
def test_a_lowered_path_is_that_of_the_graph(name):
    is_its_graph(model_of(PATHS[name]), name)


STATES = {
    "level": {"s": "HalfNormal(1)", "a": "Normal(0, 1)", "level[t]": "LocalLevel(s, initial=Normal(a, 2))",
              "sd": "HalfNormal(1)", "y[t]": "Normal(level, sd)"},
    "trend, season and regression": {
        "s[length]": "HalfNormal(1)", "b": "Normal(0, 1)",
        "trend[t]": "LocalTrend(s[0], s[1], initial=Normal(0, 1), initial_slope=Normal(0, 0.1))",
        "season[t]": "Seasonal(4, s[2], initial=ZeroSumNormal(0.5))", "y[t]": "Normal(trend + season + b * x, s[3])",
    },
    "coefficients of data and of parameters": {
        "s": "HalfNormal(1)", "c": "Normal(1, 1)", "level[t]": "LocalLevel(s, initial=Normal(0, 2))",
        "y[t]": "Normal(1 - c * x * level / 2 + c, exp(x / 5))",
    },
    "several series": {
        "s[kind]": "HalfNormal(1)", "level[t]": "LocalLevel(0.3, initial=Normal(0, 2), sequence=series)",
        "y[t]": "Normal(level, s[kind])",
    },
    "matrices": {
        "phi[state]": "Uniform(-0.9, 0.9)", "s": "HalfNormal(1)", "h": "Normal(1, 1)",
        "F[state, state2]": "[[phi[0], phi[1]], [1, 0]]", "Q[state, state2]": "[[s ** 2, 0], [0, 0.1]]",
        "ar[t]": "LinearGaussian(F, Q, [1, h], [0, 0], [[1, 0], [0, 1]])", "y[t]": "Normal(ar, 1)",
    },
    "levels that enter two nodes": {
        "s": "HalfNormal(1)", "a[t]": "LocalLevel(s, initial=Normal(0, 2))",
        "b[t]": "LocalLevel(0.5, initial=Normal(0, 1))", "y[t]": "Normal(a, 1)", "x[t]": "Normal(b, s)",
    },
}  # fmt: skip


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", STATES)
def test_states_are_integrated_out_as_in_the_graph(name):
    model = model_of(STATES[name])
    _, graph = is_its_graph(model, name)
    assert not any(rv.name.startswith("_") for rv in graph.free_RVs)


F = {
    "ell": "InverseGamma(5, 5)", "amount": "HalfNormal(1)", "a": "Normal(0, 2)", "b": "Normal(1, 1)",
    "sigma": "HalfNormal(1)", "of[kind]": "Normal(0, 1)",
}  # fmt: skip
IN_TIME = F | {"f[t]": "GaussianProcess(Matern32(x, ell, amount))"}
SQUARE = {"f[t]": "GaussianProcess(ExpQuad(x, ell, amount))"}
SINES = {"f[t]": "GaussianProcess(ExpQuad(x, ell, amount), approximation=hsgp, functions=12)"}
FUNCTIONS = {
    "alone": F | SQUARE | {"y[t]": "Normal(f, sigma)"},
    "beside other terms": F | SQUARE | {"y[t]": "Normal(a + of[kind] + f + b * x, sigma * exp(0.1 * x))"},
    "scaled by a parameter": F | SQUARE | {"y[t]": "Normal(a - b * f / 2, sigma)"},
    "scaled by data": F | SQUARE | {"y[t]": "Normal(a + n * f, sigma)"},
    "through a computed node": F | SQUARE | {"mean[t]": "a + f", "y[t]": "Normal(2 * mean, sigma)"},
    "Matérn in time": IN_TIME | {"y[t]": "Normal(a + f, sigma)"},
    "Matérn in time, scaled by effects": IN_TIME | {"y[t]": "Normal(a + of[kind] * f, sigma)"},
    "products and sums": F | {"other": "InverseGamma(5, 5)"} | {
        "f[t]": "GaussianProcess(Matern52(x, ell, amount) * Periodic(when, 3, other) + Linear(x, 0, b))",
        "y[t]": "Normal(a + f, sigma)",
    },
    "of two columns": F | {"other": "InverseGamma(5, 5)"} | {
        "f[t]": "GaussianProcess(Matern32(x, when, [ell, other], amount))", "y[t]": "Normal(a + f, sigma)",
    },
    "two functions that are scaled": F | SQUARE | {
        "h[t]": "GaussianProcess(Matern12(when, 2, 0.7))", "y[t]": "Normal(a + of[kind] * f - b * h + n * h, sigma)",
    },
    "functions that enter two nodes": F | SQUARE | {
        "h[t]": "GaussianProcess(ExpQuad(when, 2, 0.7))", "y[t]": "Normal(a + f, sigma)", "n[t]": "Normal(h, 1)",
    },
    "sines": F | SINES | {"y[t]": "Normal(a + f, sigma)"},
    "sines in rows of different weights": F | SINES | {"y[t]": "Normal(a + of[kind] * f, sigma * exp(0.1 * x))"},
    "two sums of sines": F | SINES | {
        "h[t]": "GaussianProcess(Periodic(when, 7, 1, amount) + Matern52(x, 3, 1), approximation=hsgp,"
        " functions=8)", "y[t]": "Normal(a + f + n * h, sigma)",
    },
    "levels and a function of different rows": F | SQUARE | {
        "level[t]": "LocalLevel(amount, initial=Normal(0, 1))", "y[t]": "Normal(f, sigma)", "when[t]": "Normal(level, b ** 2)",
    },
}  # fmt: skip


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_integrated_out_as_in_the_graph(name):
    model = model_of(FUNCTIONS[name], when=np.sort(RNG_2.uniform(0, 10, ROWS)))
    _, graph = is_its_graph(model, name)
    assert not any(rv.name.startswith("_") for rv in graph.free_RVs)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("kernel", ["ExpQuad", "Matern32"])
def test_a_function_of_each_person_is_integrated_out_as_in_the_graph(kernel):
    nodes = F | {
        "f[person, t]": f"GaussianProcess({kernel}(when, ell, amount))", "y[person, t]": "Normal(a + b * f, sigma)",
    }  # fmt: skip
    del nodes["of[kind]"]
    y = np.where(RNG_2.uniform(size=(3, ROWS)) < 0.1, np.nan, RNG_2.standard_normal((3, ROWS)))
    when = np.sort(RNG_2.uniform(0, 10, ROWS))
    is_its_graph(model_of(nodes, {"y": ["person", "t"]}, y=y, when=when), kernel)


LEVEL = {"s": "HalfNormal(1)", "level[t]": "LocalLevel(s, initial=Normal(0, 2))"}
#: Of ExpQuad the covariance of many inputs is nearly singular, and derivatives by its lengthscale have fewer digits.
SAMPLED = {
    "sines": F | SINES | {"n[t]": "Poisson(exp(f / 2 + of[kind]))"},
    "sines of each state": F | {
        "f[state, t]": "GaussianProcess(Matern32(x, ell, amount), approximation=hsgp, functions=9)",
        "n[t]": "Poisson(exp(sum(f, state) / 2 + a))",
    },
    "a function of full covariance": F | IN_TIME | {"n[t]": "Poisson(exp(f / 2 + of[kind]))"},
    "functions of full covariance of each state": F | {
        "f[state, t]": "GaussianProcess(Matern32(x, ell, amount) + Constant(b2))", "b2": "HalfNormal(1)",
        "n[t]": "Poisson(exp(sum(f, state) / 2 + a))",
    },
    "a function of rows that share inputs": F | {
        "f[t]": "GaussianProcess(ExpQuad(place, ell, amount))", "n[t]": "Poisson(exp(f / 2))",
    },
    "states beside counts": LEVEL | {"n[t]": "Poisson(exp(level))"},
    "states in a curve": LEVEL | {"y[t]": "Normal(exp(level), 1)"},
    "states in a standard deviation": LEVEL | {"y[t]": "Normal(level, exp(level))"},
    "the logarithm of an exponential": LEVEL | {"y[t]": "Normal(log(exp(level)), 1)"},
    "a state of the time before": LEVEL | {"y[t]": "Normal(lag(level, 1, start=0), 1)"},
    "a level in two nodes": LEVEL | {"y[t]": "Normal(level, 1)", "x[t]": "Normal(level, 1)"},
    "a level and a node without data": LEVEL | {"w[t]": "Normal(level, 1)", "y[t]": "Normal(level + w, 1)"},
    "a potential of states": LEVEL | {"y[t]": "Normal(level, 1)", "tie": "Potential(-0.5 * sum(level) ** 2)"},
    "a maximum over states": LEVEL | {"y[t]": "Normal(maximum(level, 0), 1)"},
    "a mean of states": LEVEL | {"y[t]": "Normal(level - mean(level), 1)"},
    "slopes": {
        "s": "HalfNormal(1)", "trend[t]": "LocalTrend(1, s, initial=Normal(0, 1), initial_slope=Normal(0, 0.1))",
        "y[t]": "Normal(trend + trend_slope, 1)",
    },
    "trend and season beside counts": {
        "s[length]": "HalfNormal(1)", "trend[t]": "LocalTrend(s[0], s[1], initial=Normal(0, 1), initial_slope=Normal(0, 0.1))",
        "season[t]": "Seasonal(4, s[2], initial=ZeroSumNormal(s[3]))", "n[t]": "Poisson(exp(trend / 3 + season))",
    },
    "matrices beside counts": {
        "phi[state]": "Uniform(-0.9, 0.9)", "F[state, state2]": "[[phi[0], phi[1]], [1, 0]]", "s": "HalfNormal(1)",
        "Q[state, state2]": "[[s ** 2, 0], [0, 0.1]]",
        "ar[t]": "LinearGaussian(F, Q, [1, 0.5], [0, 0], [[1, 0], [0, 1]])", "n[t]": "Poisson(exp(ar))",
    },
    "levels of each person, of several series": {
        "s[person]": "HalfNormal(1)", "level[person, t]": "LocalLevel(s, initial=Normal(0, 1), sequence=series)",
        "n[t]": "Poisson(exp(sum(level, person) / 3))",
    },
}  # fmt: skip


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", SAMPLED)
def test_sampled_functions_are_those_of_the_graph(name):
    model = model_of(SAMPLED[name], place=np.repeat(np.arange(6.0), 5))
    _, graph = is_its_graph(model, name)
    assert any(rv.name.startswith("_") for rv in graph.free_RVs)


MIXED_SETS = {
    "states that are sampled beside a function": F | SQUARE | LEVEL | {"n[t]": "Poisson(exp(level))", "y[t]": "Normal(f, sigma)"},
    "a function that is sampled beside states": F | LEVEL | {
        "f[t]": "GaussianProcess(Matern32(when, ell, amount))", "n[t]": "Poisson(exp(f))", "y[t]": "Normal(level, sigma)",
    },
}  # fmt: skip


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", MIXED_SETS)
def test_the_same_nodes_are_integrated_out(name):
    model = model_of(MIXED_SETS[name], when=np.sort(RNG_2.uniform(0, 10, ROWS)))
    _, graph = is_its_graph(model, name)
    assert sum(rv.name.startswith("_") for rv in graph.free_RVs) == 1


@pytest.mark.slow(why="large")
def test_periodic_sines_have_the_variances_of_their_series():
    """By Bessel functions of SciPy; PyTensor's Python mode cannot evaluate the continued fraction."""
    nodes = {
        "ell": "InverseGamma(5, 5)", "amount": "HalfNormal(1)",
        "f[t]": "GaussianProcess(Periodic(x, 4, ell, amount), approximation=hsgp, functions=9)", "n[t]": "Poisson(exp(f))",
    }  # fmt: skip
    model = model_of(nodes)
    program = model.machine_model().program
    named = nodes_of(model.spec.nodes)
    process = process_of(named["f"], named, model.data)
    basis = basis_of(process, inputs_of(process, named["f"], named, model.data), named["f"], named)
    for ell in (0.3, 1.0, 4.0):
        point = np.concatenate([[np.log(ell), np.log(0.7)], RNG_2.standard_normal(basis.n_functions)])
        order = ive(np.arange(9 + 1), ell**-2.0) * 2.0
        order[0] /= 2.0
        variances = 0.7**2 * np.concatenate([order[:1], order[1:], order[1:]])
        by_hand = basis.features(COLUMNS["x"][:, None]) @ (np.sqrt(variances) * point[2:])
        np.testing.assert_allclose(program.outputs(point[None])["f"][0], by_hand, rtol=1e-10, atol=1e-13)
        value, gradient = program.value_and_gradient(point)
        assert value == pytest.approx(program.value(point), rel=1e-12)
        size = max(1.0, np.abs(gradient).max())
        np.testing.assert_allclose(gradient / size, differences(program, point) / size, rtol=1e-5, atol=1e-6)


#: What PyTensor evaluates, and the words that say why.
OTHERS = {
    "segments with labels": (
        PATHS["segments"] | {"w[t]": "Bernoulli(0.3)", "y[t]": "Normal(mu[z] + w, 1)"},
        "segments that are linked",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_machine_does_not_know_is_named(name):
    nodes, why = OTHERS[name]
    with pytest.raises(NotLowered, match=why):
        model_of(nodes).machine_model()


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", ["second order", "tree", "segments"])
def test_the_compiled_density_is_that_of_the_machine(name):
    """PyTensor's simplifications change nothing: those of two ranges as indices did, in chains of second order."""
    model = model_of(PATHS[name])
    density, machine = Density.of(model.graph()), model.machine_model()
    point = machine.start() + 0.3 * np.random.default_rng(1).standard_normal(machine.program.n_dim)
    value, slope = density(point)
    mine, gradient = machine.program.value_and_gradient(point)
    assert value == pytest.approx(mine, rel=1e-10)
    np.testing.assert_allclose(slope, gradient, rtol=1e-8, atol=1e-10)
