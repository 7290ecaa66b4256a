"""Discrete nodes drawn back by the machine: the probabilities of enumeration, and of the sums of PyMC graphs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.families.graph.lowering import at_natural_scale
from bayeslab.families.graph.path_labels import relabelled
from bayeslab.families.graph.paths_at_draws import HiddenInGraph, HiddenInProgram
from bayeslab.families.graph.scope import twins_of
from bayeslab.posterior.transforms import tables_at
from bayeslab.preparation import Source
from tests.laws.test_machine_models import SUMS
from tests.models.shipped import MODELS

Y = np.array([-1.2, 0.3, 2.1, 1.4])
K = np.array([0, 1, 1, 0])
LABELS = {
    "w[kind]": "Dirichlet(2)",
    "mu[kind]": "Normal(0, 2)",
    "z[t]": "Categorical(w)",
    "y[t]": "Normal(mu[z], 1)",
    "twice[t]": "2 * mu[z] + z",
}
TIED = {
    "p": "Beta(2, 2)",
    "mu[kind]": "Normal(0, 2)",
    "a": "Bernoulli(p)",
    "z[t]": "Bernoulli(0.2 + 0.5 * a)",
    "y[t]": "Normal(mu[z], 1)",
    "k[t]": "Bernoulli(0.1 + 0.7 * a)",
    "both[t]": "a + z",
}
CHAIN = {
    "P[kind, kind2]": "Dirichlet(1)",
    "mu[kind]": "Normal(0, 2)",
    "z[t]": "MarkovChain(P)",
    "y[t]": "Normal(mu[z], 1)",
    "level[t]": "mu[z]",
}
DIMS = {"kind": 2, "kind2": "kind"}


def posterior_of(nodes):
    used = " ".join([*nodes, *nodes.values()])
    source = Source(bl.Model(model={"family": "graph", "nodes": nodes}, data={"rows": "t"}, dims=DIMS))
    return source.posterior(source.bound({n: v for n, v in {"y": Y, "k": K}.items() if f"{n}[t]" in used}).dataset)


def normal(y, mu):
    return -0.5 * (y - mu) ** 2


def joint(name, values, z, a):
    """Log probability of states and data, up to a constant."""
    mu = values["mu"][np.array(z)]
    total = normal(Y, mu).sum()
    if name == "labels":
        return total + np.log(values["w"][np.array(z)]).sum()
    if name == "tied":
        total += np.log(values["p"] if a else 1 - values["p"])
        chance, of_k = 0.2 + 0.5 * a, 0.1 + 0.7 * a
        total += np.log(np.where(z, chance, 1 - chance)).sum()
        return total + np.log(np.where(K == 1, of_k, 1 - of_k)).sum()
    steps = values["P"][np.array(z[:-1]), np.array(z[1:])]
    return total - np.log(2) + np.log(steps).sum()


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(("name", "nodes"), [("labels", LABELS), ("tied", TIED), ("chain", CHAIN)])
def test_draws_have_the_probabilities_of_enumeration(name, nodes):
    machine, n = posterior_of(nodes).machine_model(), 20_000
    point = 0.7 * np.random.default_rng(2).standard_normal(machine.program.n_dim)
    values = {key: v[0] for key, v in machine.program.outputs(point[None]).items()}
    found = machine.recovered(np.tile(point, (n, 1)), np.random.default_rng(3))
    cases = [(z, a) for z in product((0, 1), repeat=4) for a in ((0, 1) if name == "tied" else (0,))]
    logs = np.array([joint(name, values, z, a) for z, a in cases])
    wanted = np.exp(logs - np.logaddexp.reduce(logs))
    codes = found["z"] @ (2 ** np.arange(4)[::-1]) + 16 * found.get("a", np.zeros(n, int))
    for (z, a), p in zip(cases, wanted, strict=True):
        share = np.mean(codes == int("".join(map(str, z)), 2) + 16 * a)
        assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / n) + 1e-9
    if name == "labels":
        np.testing.assert_allclose(found["twice"], 2 * values["mu"][found["z"]] + found["z"], rtol=1e-12)
    if name == "tied":
        np.testing.assert_array_equal(found["both"], found["a"][:, None] + found["z"])
    if name == "chain":
        np.testing.assert_allclose(found["level"], values["mu"][found["z"]], rtol=1e-12)


@pytest.mark.parametrize("nodes", [LABELS, TIED, CHAIN])
def test_points_of_draws(nodes):
    machine = posterior_of(nodes).machine_model()
    points = np.random.default_rng(4).standard_normal((7, machine.program.n_dim))
    np.testing.assert_allclose(machine.points_at(machine.program.outputs(points)), points, atol=1e-9)


@pytest.mark.slow(why="compiles")
def test_relabelled_draws_are_those_of_the_graph():
    """States exchanged in half of the draws: both ways of evaluation exchange them back alike."""
    posterior = posterior_of(CHAIN)
    machine, (model, sums) = posterior.machine_model(), posterior.elimination()
    rng = np.random.default_rng(6)
    points = 0.3 * rng.standard_normal((12, machine.program.n_dim))
    draws = machine.program.outputs(points) | machine.recovered(points, rng)
    turned = np.arange(12) % 2 == 1
    draws["mu"][:, 1] += 3.0
    draws["mu"][turned] = draws["mu"][turned, ::-1]
    draws["P"][turned] = draws["P"][turned][:, ::-1, ::-1]
    natural = HiddenInProgram(at_natural_scale(posterior.model, posterior.data))
    for hidden in (natural, HiddenInGraph(model, sums)):
        changed, what = relabelled(hidden, twins_of(posterior.model), draws)
        assert what == "'z'"
        assert (changed["mu"][:, 0] < changed["mu"][:, 1]).all()
    here, there = (relabelled(h, twins_of(posterior.model), draws)[0] for h in (hidden, natural))
    assert here.keys() == there.keys()
    for name in here:
        np.testing.assert_allclose(here[name], there[name], rtol=1e-9)


def test_states_are_decoded_where_a_probability_is_zero():
    """Zero has no unconstrained coordinates."""
    posterior = posterior_of(CHAIN)
    draws = {"mu": np.array([[0.0, 1.5]]), "P": np.array([[[0.4, 0.6], [0.0, 1.0]]])}
    table, _ = posterior.decoded(draws, "smooth", 1, None, 1)
    paths = list(product(range(2), repeat=4))
    with np.errstate(divide="ignore"):
        weights = np.exp([joint("chain", {n: v[0] for n, v in draws.items()}, z, 0) for z in paths])
    expected = [weights[np.array(paths)[:, t] == 1].sum() / weights.sum() for t in range(4)]
    np.testing.assert_allclose(table["P(state=1)"], expected, rtol=1e-12)


def test_vectors_that_are_out_of_order_have_no_density():
    """On the natural scale too, where nothing else keeps their order."""
    posterior = posterior_of(CHAIN | {"mu[kind]": "Ordered(Normal(0, 2))"})
    hidden = HiddenInProgram(at_natural_scale(posterior.model, posterior.data))
    draws = {"mu": np.array([[0.0, 1.5], [1.5, 0.0]]), "P": np.full((2, 2, 2), 0.5)}
    heights = hidden.height(draws)
    assert np.isfinite(heights[0]), heights
    assert heights[1] == -np.inf


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", ["coal_steps", "coal_trend", "cows", "dipper", "feeders", "gnp", "polio"])
def test_paths_at_draws_are_those_of_the_graph(name):
    posterior = Source(MODELS / f"{name}.yaml").posterior(None)
    machine = posterior.machine_model()
    points = machine.start() + 0.3 * np.random.default_rng(2).standard_normal((3, machine.program.n_dim))
    draws = machine.program.outputs(points)
    natural = HiddenInProgram(at_natural_scale(posterior.model, posterior.data))
    graph = HiddenInGraph(*posterior.elimination())
    assert [path.name for path in natural.paths] == [path.name for path in graph.paths]
    for mine, theirs in zip(natural.at(draws), graph.at(draws), strict=True):
        for here, there in zip(mine, theirs, strict=True):
            for a, b in zip(here, there, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", SUMS)
def test_draws_are_those_of_the_graph(name):
    """Frequencies of states at a point, by the machine and by the sums of the graph, within Monte Carlo error."""
    source = Source(MODELS / f"{name}.yaml")
    posterior = source.posterior(None)
    machine, n = posterior.machine_model(), 2000
    point = machine.start() + 0.1 * np.random.default_rng(2).standard_normal(machine.program.n_dim)
    mine = machine.recovered(np.tile(point, (n, 1)), np.random.default_rng(3))
    model, sums = posterior.elimination()
    values = {key: v for key, v in machine.program.outputs(point[None]).items() if key in model.named_vars}
    (tables,) = tables_at(model, sums, values)
    theirs = sums.drawn(tables, np.random.default_rng(4), n)
    assert set(theirs) == set(machine.unknowns)
    for latent, drawn in theirs.items():
        assert mine[latent].shape == drawn.shape
        for state in np.unique(drawn):
            a, b = (mine[latent] == state).mean(axis=0), (drawn == state).mean(axis=0)
            error = np.sqrt((a * (1 - a) + b * (1 - b)) / n)
            assert np.all(np.abs(a - b) < 5.5 * error + 3 / n)
