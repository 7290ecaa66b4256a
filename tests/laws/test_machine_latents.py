"""Hidden paths, states and functions in programs of the machine: the densities of their PyMC graphs."""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from tests.laws.test_machine_models import far_from_the_start, reference
from tests.posterior.machine.checks import differences

DIMS = {"state": 2, "state2": "state", "next_state": "state", "length": 4, "person": ["a", "b", "c"]}
RNG = np.random.default_rng(5)
ROWS = 30
COLUMNS = {
    "y": RNG.standard_normal(ROWS),
    "x": RNG.standard_normal(ROWS),
    "n": RNG.integers(0, 4, ROWS),
    "above": np.array([np.nan, *(RNG.integers(0, max(t, 1)) if t % 11 else np.nan for t in range(1, ROWS))]),
    "series": np.repeat(["first", "second"], [18, 12]),
    "kind": RNG.choice(["a", "b", "c"], ROWS),
}


def model_of(nodes, **columns):
    used = " ".join([*nodes, *nodes.values()])
    columns = {name: value for name, value in (COLUMNS | columns).items() if name in used}
    source = Source(bl.Model(model={"family": "graph", "nodes": nodes}, data={"rows": "t"}, dims=DIMS))
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
        assert mine == pytest.approx(float(value), rel=1e-9)
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
