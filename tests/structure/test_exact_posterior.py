"""Sums over all structures against looking at each of them."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

from bayeslab.structure.constraints import Constraints
from bayeslab.structure.dag import count_dags
from bayeslab.structure.exact_posterior import best_graph, dag_posterior, log_count, order_posterior
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.scores import load
from tests.refusals import refused
from tests.structure._dags import Everything, flat, needs_first, not_from_last, random_scores, table_of

TABLES = {
    "one variable": table_of(1, flat),
    "flat": table_of(4, flat),
    "nearly flat": table_of(4, random_scores(1, 0.5, -1000.0)),
    "peaked": table_of(4, random_scores(2, 30.0)),
    "one DAG has it all": table_of(4, random_scores(3, 3000.0, 1e5)),
    "two parents": table_of(4, random_scores(4, 2.0), max_parents=2),
    "a sink": table_of(4, random_scores(5, 2.0), not_from_last),
    "a required edge": table_of(4, random_scores(6, 2.0), needs_first),
    "five": table_of(5, random_scores(7, 1.5), max_parents=2),
}


@pytest.fixture(scope="module", params=TABLES)
def case(request):
    table = TABLES[request.param]
    return table, Everything.of(table)


def test_structure_count_by_dynamic_programming():
    for n in range(1, 9):
        table = table_of(n, flat)
        assert math.exp(log_count(table)) == pytest.approx(count_dags(n), rel=1e-11)
        assert dag_posterior(table).log_sum == pytest.approx(math.log(count_dags(n)), rel=1e-13, abs=1e-13)


def test_structure_count_by_enumeration(case):
    table, every = case
    assert math.exp(log_count(table)) == pytest.approx(len(every.scores), rel=1e-11)


def test_sums_over_dags_are_those_of_all_dags(case):
    table, every = case
    found = dag_posterior(table)
    np.testing.assert_allclose(found.edges, every.mean(every.adjacency), atol=1e-11)
    np.testing.assert_allclose(found.paths, every.mean(every.reachable), atol=1e-11)
    assert found.log_sum == pytest.approx(every.log_sum(), rel=1e-12, abs=1e-11)
    assert found.defect < 1e-10


def test_sums_over_orders_are_those_of_all_dags_with_their_orders(case):
    table, every = case
    found = order_posterior(table)
    np.testing.assert_allclose(found.edges, every.mean(every.adjacency, by_orders=True), atol=1e-11)
    assert found.log_sum == pytest.approx(every.log_sum(by_orders=True), rel=1e-12, abs=1e-11)
    np.testing.assert_allclose(found.before + found.before.T + np.eye(table.n), 1.0, atol=1e-11)
    assert found.defect < 1e-10


def test_the_best_graph_is_the_best_of_all(case):
    table, every = case
    graph = best_graph(table)
    assert nx.is_directed_acyclic_graph(graph)
    assert graph.graph["score"] == pytest.approx(every.scores.max(), abs=1e-9)
    assert table.of_graph(graph) == pytest.approx(every.scores.max(), abs=1e-9)


def test_nothing_cancels_in_larger_posteriors():
    """Independent routes at n = 11: a flat posterior is symmetric, a decomposable constant changes no probability."""
    n = 11
    found = dag_posterior(table_of(n, flat))
    off = ~np.eye(n, dtype=bool)
    assert np.ptp(found.edges[off]) < 1e-12
    # The DAGs on n variables with the edge u -> v are as many as those with v -> u; the rest have neither.
    assert found.log_sum == pytest.approx(math.log(count_dags(n)), rel=1e-13)
    scores = random_scores(8, 40.0)
    plain = table_of(n, scores, max_parents=3)
    shift = np.repeat(np.linspace(-5e4, 3e4, n), plain.n_sets)
    moved = ScoreTable(plain.names, plain.pointer, plain.sets, plain.scores + shift, "own")
    one, two = dag_posterior(plain), dag_posterior(moved)
    np.testing.assert_allclose(one.edges, two.edges, atol=1e-9)
    np.testing.assert_allclose(one.paths, two.paths, atol=1e-9)
    assert max(one.defect, two.defect) < 1e-9
    assert np.all(one.paths >= one.edges - 1e-12)


def test_some_variables_flat_and_some_decided():
    """Blocks without edges between them are independent: what is left out for one must not touch the other."""
    inner = {False: random_scores(9, 0.3), True: random_scores(10, 200.0)}
    blocks = [table_of(4, inner[False]), table_of(4, inner[True])]
    every = [Everything.of(block) for block in blocks]
    pointer = np.concatenate([blocks[0].pointer, blocks[1].pointer[1:] + blocks[0].pointer[-1]])
    sets = np.concatenate([blocks[0].sets, blocks[1].sets << np.uint64(4)])
    table = ScoreTable(
        tuple(f"v{i}" for i in range(8)), pointer, sets, np.concatenate([b.scores for b in blocks]), "own"
    )
    found = dag_posterior(table)
    for k, own in enumerate(every):
        part = slice(4 * k, 4 * k + 4)
        np.testing.assert_allclose(found.edges[part, part], own.mean(own.adjacency), atol=1e-11)
        np.testing.assert_allclose(found.paths[part, part], own.mean(own.reachable), atol=1e-11)
    assert found.log_sum == pytest.approx(sum(own.log_sum() for own in every), rel=1e-12)


def test_equivalent_graphs_are_equally_probable_under_bdeu():
    """Two variables: the two directions are one class, so their probabilities are equal."""
    rng = np.random.default_rng(11)
    x = rng.integers(0, 2, 60)
    data = {"x": x, "y": np.where(rng.random(60) < 0.7, x, 1 - x)}
    import pandas as pd

    posterior = dag_posterior(ScoreTable.build(load("bdeu", pd.DataFrame(data).astype(str)), max_parents=1))
    assert posterior.edges[0, 1] == pytest.approx(posterior.edges[1, 0], abs=1e-12)
    assert 0.1 < posterior.edges[0, 1] < 0.5


def test_constraints_are_kept():
    rng = np.random.default_rng(12)
    import pandas as pd

    rows = pd.DataFrame(rng.integers(0, 2, (80, 4)).astype(str), columns=list("abcd"))
    rules = Constraints.of("abcd", required=[("a", "b")], forbidden=[("c", "d")])
    table = ScoreTable.build(load("bdeu", rows), max_parents=3, constraints=rules)
    found = dag_posterior(table)
    assert found.edges[0, 1] == pytest.approx(1.0, abs=1e-12)
    assert found.edges[2, 3] == 0.0
    rules.check(best_graph(table))
    every = Everything.of(table)
    np.testing.assert_allclose(found.edges, every.mean(every.adjacency), atol=1e-11)


def test_what_is_too_large_is_refused_with_its_cost():
    with refused("engine.refused.too-costly"):
        dag_posterior(table_of(4, flat), memory=1e-4)
    many = _empty(28)
    with refused("engine.refused.too-costly"):
        dag_posterior(many)
    with refused("engine.refused.too-costly"):
        best_graph(_empty(40))


def test_parent_sets_that_always_make_a_circle_are_an_error():
    circle = table_of(3, flat, allowed=lambda child, mask: bool(mask & 1 << (child + 1) % 3))
    for function in (dag_posterior, order_posterior, best_graph, log_count):
        with refused("model.no-acyclic-graph"):
            function(circle)


def _empty(n):
    return ScoreTable(
        tuple(f"v{i}" for i in range(n)), np.arange(n + 1), np.zeros((n, 1), np.uint64), np.zeros(n), "own"
    )
