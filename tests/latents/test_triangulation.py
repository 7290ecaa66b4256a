"""Elimination orders: chordal, running intersection, optimal where the optimum is known, forecast before running."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.triangulation import forecast, triangulate
from tests.latents._enumeration import random_network
from tests.refusals import refused


def ones(states, scopes):
    return FactorGraph(states, tuple(scopes), tuple(np.ones([len(states[v]) for v in s]) for s in scopes))


def binary(n):
    return {f"x{i}": ("a", "b") for i in range(n)}


def grid(n):
    states = {f"x{i}_{j}": ("a", "b") for i in range(n) for j in range(n)}
    down = [(f"x{i}_{j}", f"x{i + 1}_{j}") for i in range(n - 1) for j in range(n)]
    right = [(f"x{i}_{j}", f"x{i}_{j + 1}") for i in range(n) for j in range(n - 1)]
    return ones(states, down + right)


def test_cliques_are_those_of_a_chordal_graph_and_hang_together():
    rng = np.random.default_rng(1)
    for _ in range(200):
        model = random_network(rng, int(rng.integers(1, 12)), most_parents=4)
        factors = FactorGraph.of(model)
        made = triangulate(model)
        assert sorted(made.order) == sorted(model.states)
        filled = nx.Graph()
        filled.add_nodes_from(model.states)
        filled.add_edges_from(pair for clique in made.cliques for pair in combinations(clique, 2))
        assert nx.is_chordal(filled)
        assert {frozenset(c) for c in made.cliques} == {frozenset(c) for c in nx.find_cliques(filled)}
        assert set(map(frozenset, factors.graph.edges)) <= set(map(frozenset, filled.edges))
        tree = nx.Graph([(c, p) for c, p in enumerate(made.parents) if p >= 0])
        tree.add_nodes_from(range(len(made.cliques)))
        assert nx.is_forest(tree)
        assert nx.number_connected_components(tree) == nx.number_connected_components(factors.graph)
        for v in model.states:
            assert nx.is_connected(tree.subgraph(c for c, clique in enumerate(made.cliques) if v in clique))
        for c, p in enumerate(made.parents):
            shared = set(made.cliques[c]) & set(made.cliques[p]) if p >= 0 else set()
            assert set(made.separators[c]) == shared


def test_orders_are_optimal_where_the_optimum_is_known():
    chordal = nx.Graph([("x0", "x1"), ("x1", "x2"), ("x0", "x2"), ("x2", "x3"), ("x3", "x4"), ("x2", "x4")])
    ahead = forecast(ones(binary(5), chordal.edges))
    assert (ahead.n_cliques, ahead.total_entries) == (2, 16)  # nothing to fill in
    cycle = [(f"x{i}", f"x{(i + 1) % 9}") for i in range(9)]
    ahead = forecast(ones(binary(9), cycle))
    assert (ahead.n_cliques, ahead.largest_entries, ahead.total_entries) == (7, 8, 56)  # n - 2 triangles
    # A square of unequal sides: the chord joins the two smaller corners.
    states = {"a": ("1", "2"), "b": tuple("12345"), "c": ("1", "2"), "d": tuple("12345")}
    ahead = forecast(ones(states, [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]))
    assert ahead.total_entries == 2 * 2 * 2 * 5
    # The treewidth of an n × n grid is n.
    assert forecast(grid(5)).largest_entries >= 2**6
    assert forecast(grid(5)).largest_entries <= 2**7


def test_parts_and_lone_variables_have_cliques_of_their_own():
    made = triangulate(ones(binary(4), [("x0", "x1")]))
    assert sorted(map(sorted, made.cliques)) == [["x0", "x1"], ["x2"], ["x3"]]
    assert made.parents == (-1, -1, -1)
    nothing = forecast(ones({}, []))
    assert (nothing.n_cliques, nothing.largest, nothing.total_entries) == (0, (), 0)


@pytest.mark.slow(why="large")
def test_the_forecast_is_known_before_and_too_large_is_refused_with_the_number():
    clique = ones(binary(12), [tuple(binary(12))])
    ahead = forecast(clique)
    assert (ahead.n_cliques, ahead.largest_entries) == (1, 4096)
    assert set(ahead.largest) == set(binary(12))
    assert ahead.bytes >= 8 * 4096
    hopeless = grid(60)
    assert forecast(hopeless).total_entries > 2**55
    with refused("engine.refused.too-costly", r"PB.*x\d+_\d+|PB.*likelihood"):
        JunctionTree.of(hopeless)
    # More entries than an integer of 64 bits counts.
    pairs = list(combinations(binary(90), 2))
    assert forecast(ones(binary(90), pairs)).largest_entries == 2.0**90


def test_the_same_network_gets_the_same_order():
    model = random_network(np.random.default_rng(3), 11)
    assert triangulate(model) == triangulate(model)
    assert triangulate(grid(12)) == triangulate(grid(12))  # large enough for ties by chance
