"""Graphs against definitions: every path looked at, and independence in random tables."""

from __future__ import annotations

from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest

from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.structure import dag
from tests.refusals import refused
from tests.structure._dags import random_dag


def is_open(graph: nx.DiGraph, path: list[str], given: set[str]) -> bool:
    """By the definition, node by node."""
    for a, v, b in zip(path, path[1:], path[2:], strict=False):
        if graph.has_edge(a, v) and graph.has_edge(b, v):
            if not ({v} | nx.descendants(graph, v)) & given:
                return False
        elif v in given:
            return False
    return True


def test_separation_is_that_no_path_is_open():
    rng = np.random.default_rng(1)
    seen = {True: 0, False: 0}
    for _ in range(150):
        graph = random_dag(rng, 6, 0.4)
        x, y, *rest = rng.permutation(list(graph)).tolist()
        given = set(rest[: rng.integers(0, 5)])
        skeleton = graph.to_undirected()
        opened = {
            v: [p for p in nx.all_simple_paths(skeleton, x, v) if is_open(graph, p, given)]
            for v in graph
            if v != x and v not in given
        }
        assert dag.d_connected(graph, x, given) == {v for v, paths in opened.items() if paths}
        assert dag.d_separated(graph, x, y, given) == (not opened[y])
        found = dag.open_path(graph, x, y, given)
        seen[found is None] += 1
        assert (found is None) == (not opened[y])
        if found is not None:
            assert list(found.nodes) in opened[y]
            assert len(found.nodes) == min(map(len, opened[y]))
            assert set(found.opened_by.values()) <= given
    assert min(seen.values()) > 20


def test_separation_is_separation_in_the_moral_ancestral_graph():
    rng = np.random.default_rng(2)
    for _ in range(100):
        graph = random_dag(rng, 9, 0.25)
        names = rng.permutation(list(graph)).tolist()
        x, y, z = set(names[:2]), set(names[2:4]), set(names[4:7])
        moral = dag.moral_graph(dag.ancestral_graph(graph, x | y | z))
        moral.remove_nodes_from(z)
        apart = not any(nx.has_path(moral, a, b) for a in x for b in y)
        assert dag.d_separated(graph, x, y, z) == apart
        assert (dag.d_connected(graph, x, z) & y == set()) == apart


def joint(graph: nx.DiGraph, rng: np.random.Generator) -> np.ndarray:
    """A random joint distribution of Boolean variables that factorises along the graph; axes in node order."""
    order = list(graph)
    out = np.ones((2,) * len(order))
    for v in graph:
        family = [*graph.predecessors(v), v]
        table = rng.dirichlet([1, 1], size=(2,) * (len(family) - 1))
        axes = np.argsort([order.index(u) for u in family])
        shape = [2 if u in family else 1 for u in order]
        out = out * table.transpose(axes).reshape(shape)
    return out


def dependence(table: np.ndarray, order: list[str], statement: dag.Independence) -> float:
    """How far p(x, y | z) is from p(x | z) p(y | z), over all states."""
    keep = [order.index(v) for names in (statement.left, statement.right, statement.given) for v in sorted(names)]
    shape = (2 ** len(statement.left), 2 ** len(statement.right), 2 ** len(statement.given))
    p = np.einsum(table, range(len(order)), keep).reshape(shape)
    return np.abs(p * p.sum((0, 1)) - p.sum(0) * p.sum(1)[:, None]).max()


@pytest.mark.parametrize("basis", ["local", "pairwise"])
def test_implied_independences_hold_in_every_distribution(basis):
    rng = np.random.default_rng(3)
    n = 0
    for _ in range(40):
        graph = random_dag(rng, 6, 0.4)
        p = joint(graph, rng)
        for statement in dag.implied_independences(graph, basis):
            n += 1
            assert dag.d_separated(graph, statement.left, statement.right, statement.given)
            assert dependence(p, list(graph), statement) < 1e-14
    assert n > 100


def test_connected_variables_are_dependent_in_almost_every_distribution():
    rng = np.random.default_rng(4)
    for _ in range(40):
        graph = random_dag(rng, 5, 0.4)
        p = joint(graph, rng)
        x, z = rng.choice(list(graph), 2, replace=False).tolist()
        connected = dag.d_connected(graph, x, z)
        for y in set(graph) - {x, z}:
            statement = dag.Independence(frozenset({x}), frozenset({y}), frozenset({z}))
            assert (dependence(p, list(graph), statement) > 1e-12) == (y in connected)


def test_every_pair_without_an_edge_has_one_statement():
    graph = nx.DiGraph([("a", "c"), ("b", "c"), ("c", "d")])
    found = [str(s) for s in dag.implied_independences(graph, "pairwise")]
    assert found == ["b ⊥ a", "d ⊥ a | c", "d ⊥ b | c"]
    assert [str(s) for s in dag.implied_independences(graph)] == ["a ⊥ b", "b ⊥ a", "d ⊥ a, b | c"]


def test_the_markov_blanket_shields_and_no_smaller_set_does():
    rng = np.random.default_rng(5)
    for _ in range(40):
        graph = random_dag(rng, 7, 0.4)
        x = rng.choice(list(graph)).item()
        blanket = dag.markov_blanket(graph, x)
        assert not dag.d_connected(graph, x, blanket)
        for v in blanket:
            assert dag.d_connected(graph, x, blanket - {v})
        assert blanket == set(dag.moral_graph(graph).neighbors(x))


def test_storm_net_explaining_away():
    """Campfire and Lightning meet in ForestFire, and in Storm above them only through Lightning."""
    edges = [("Storm", "Lightning"), ("Storm", "Campfire"), ("BusTourGroup", "Campfire"), ("Lightning", "Thunder")]
    graph = nx.DiGraph([*edges, *((v, "ForestFire") for v in ("Storm", "Lightning", "Campfire"))])
    assert dag.d_separated(graph, "Campfire", {"Lightning", "Thunder"}, {"Storm", "BusTourGroup"})
    found = dag.open_path(graph, "BusTourGroup", "Storm", "ForestFire")
    assert str(found) == "BusTourGroup → Campfire ← Storm (ForestFire, below Campfire, is given)"
    assert str(dag.open_path(graph, "Thunder", "Campfire")) == "Thunder ← Lightning ← Storm → Campfire"
    assert dag.open_path(graph, "Thunder", "Campfire", "Storm") is None


def test_a_graph_keeps_what_its_nodes_carry():
    graph = nx.DiGraph(name="n")
    graph.add_node("a", states=("no", "yes"))
    assert dag.moral_graph(graph).nodes["a"]["states"] == ("no", "yes")
    assert dag.ancestral_graph(graph, "a").nodes["a"]["states"] == ("no", "yes")


@pytest.mark.parametrize("n", range(5))
def test_count_dags_is_what_enumeration_counts(n):
    pairs = list(combinations(range(n), 2))
    count = 0
    for arrows in product((None, 1, -1), repeat=len(pairs)):
        graph = nx.DiGraph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from((a, b)[::way] for (a, b), way in zip(pairs, arrows, strict=True) if way)
        count += nx.is_directed_acyclic_graph(graph)
    assert dag.count_dags(n) == count


def test_count_dags_grows_as_published():
    assert [dag.count_dags(n) for n in range(1, 8)] == [1, 3, 25, 543, 29281, 3781503, 1138779265]


def heart(*, hidden: bool) -> nx.DiGraph:
    causes, effects = ("smoking", "diet", "exercise"), ("s1", "s2", "s3")
    graph = nx.DiGraph()
    graph.add_nodes_from([*causes, *(["heart"] if hidden else []), *effects])
    if hidden:
        graph.add_edges_from([(c, "heart") for c in causes] + [("heart", e) for e in effects])
    else:
        graph.add_edges_from([(c, e) for c in causes for e in effects])
        graph.add_edges_from(combinations(effects, 2))
    return graph


@pytest.mark.parametrize(
    ("hidden", "counts"), [(True, [2, 2, 2, 54, 6, 6, 6]), (False, [2, 2, 2, 54, 162, 486])], ids=["78", "708"]
)
def test_hidden_variables_save_parameters(hidden, counts):
    """Heart disease: 78 parameters with the hidden node, 708 without (Russell and Norvig, figure 20.7)."""
    graph = heart(hidden=hidden)
    found = dag.parameter_counts(graph, dict.fromkeys(graph, 3))
    assert list(found.values()) == counts
    assert sum(found.values()) == (78 if hidden else 708)


def test_parameters_of_a_network_are_those_of_its_tables():
    states = {"a": ("x", "y", "z"), "b": ("no", "yes")}
    tables = {"a": np.full(3, 1 / 3), "b": np.full((3, 2), 0.5)}
    network = DiscreteNetwork(states, {"b": ("a",)}, tables)
    assert dag.parameter_counts(network.graph) == {"a": 2, "b": 3}
    assert sum(dag.parameter_counts(network.graph).values()) == network.n_parameters


@pytest.mark.parametrize("n", [1, 4, 9])
def test_naive_bayes_on_boolean_attributes_has_2n_plus_1_parameters(n):
    graph = nx.DiGraph([("class", f"x{i}") for i in range(n)])
    assert sum(dag.parameter_counts(graph, dict.fromkeys(graph, 2)).values()) == 2 * n + 1


def test_errors_name_the_variable():
    graph = nx.DiGraph([("rain", "wet"), ("sprinkler", "wet")])
    with refused("model.unknown-variable", "'rein'.*'rain'"):
        dag.d_separated(graph, "rein", "wet")
    with refused("model.duplicate", "'wet'"):
        dag.open_path(graph, "rain", "wet", {"wet"})
    with refused("model.unknown-variable", "'snow'"):
        dag.markov_blanket(graph, "snow")
    with refused("model.cycle"):
        dag.d_connected(nx.DiGraph([("a", "b"), ("b", "a")]), "a")
    with refused("model.unknown-word", "'globel'"):
        dag.implied_independences(graph, "globel")
    with refused("model.incomplete", "'wet'"):
        dag.parameter_counts(graph, {"rain": 2, "sprinkler": 2})
    with refused("model.out-of-range", "-1"):
        dag.count_dags(-1)
