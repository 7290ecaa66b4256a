"""Equivalence classes against their definition, on every DAG with up to four nodes and random larger ones."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest

from bayeslab.structure.cpdag import (
    Counts,
    class_distance,
    compare,
    comparison_table,
    compelled_edges,
    compelled_parents,
    cpdag,
    equivalent,
    extension,
    hamming_distance,
    meek_closure,
    members,
    reversible_edges,
    v_structures,
)
from bayeslab.structure.dag import d_separated
from bayeslab.structure.partial_graph import ARROW, CIRCLE, TAIL, PartialGraph
from tests.refusals import refused
from tests.structure._dags import all_dags, random_dag

NAMES = "abcdef"


def dag(edges: str, nodes: str = "") -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(tuple(edge) for edge in edges.split())
    return graph


def independences(graph: nx.DiGraph) -> frozenset:
    """Every statement x ⊥ y | z between two variables."""
    found = set()
    for x, y in combinations(sorted(graph), 2):
        others = sorted(set(graph) - {x, y})
        for k in range(len(others) + 1):
            found |= {(x, y, z) for z in combinations(others, k) if d_separated(graph, x, y, z)}
    return frozenset(found)


@pytest.fixture(scope="module")
def classes() -> dict[int, dict[frozenset, list[nx.DiGraph]]]:
    """DAGs by what they say of independence: classes by definition."""
    out = {}
    for n in (1, 2, 3, 4):
        groups = defaultdict(list)
        for graph in all_dags(NAMES[:n]):
            groups[independences(graph)].append(graph)
        out[n] = dict(groups)
    return out


@pytest.mark.parametrize(("n", "n_classes"), [(1, 1), (2, 2), (3, 11), (4, 185)])
def test_causality_from_data_class_is_cpdag_is_edges_and_v_structures(classes, n, n_classes):
    """Numbers of classes: Gillispie and Perlman (2002), table 1."""
    by_cpdag, by_corners = defaultdict(set), defaultdict(set)
    for i, group in enumerate(classes[n].values()):
        for graph in group:
            by_cpdag[cpdag(graph)].add(i)
            by_corners[frozenset(map(frozenset, graph.edges)), v_structures(graph)].add(i)
    assert len(classes[n]) == n_classes
    for grouping in (by_cpdag, by_corners):
        assert len(grouping) == n_classes
        assert all(len(own) == 1 for own in grouping.values())


@pytest.mark.parametrize("n", [2, 3, 4])
def test_causality_from_data_compelled_edges_are_those_of_all_members(classes, n):
    for group in classes[n].values():
        common = frozenset.intersection(*(frozenset(graph.edges) for graph in group))
        loose = frozenset(map(frozenset, group[0].edges)) - frozenset(map(frozenset, common))
        for graph in group:
            assert compelled_edges(graph) == common
            assert reversible_edges(graph) == loose


@pytest.mark.parametrize("n", [2, 3, 4])
def test_members_and_extension(classes, n):
    for group in classes[n].values():
        partial = cpdag(group[0])
        found = [frozenset(graph.edges) for graph in members(partial)]
        assert len(found) == len(set(found))
        assert set(found) == {frozenset(graph.edges) for graph in group}
        assert frozenset(extension(partial).edges) in set(found)


def test_equivalence_of_pairs(classes):
    graphs = [(i, graph) for i, group in enumerate(classes[3].values()) for graph in group]
    for (i, first), (j, second) in product(graphs, repeat=2):
        assert equivalent(first, second) == (i == j)
        assert (class_distance(first, second) == 0) == (i == j)
    assert not equivalent(dag("ab"), dag("ab", "abc"))


def test_meek_rules_from_v_structures_give_the_cpdag():
    """The pattern closed under Meek's rules, against Chickering's labels, in graphs of up to 14 nodes."""
    rng = np.random.default_rng(1)
    n_compelled = 0
    for _ in range(300):
        graph = random_dag(rng, int(rng.integers(5, 15)), rng.uniform(0.1, 0.6))
        names = tuple(graph)
        marks = np.zeros((len(names),) * 2, np.int8)
        for u, v in graph.edges:
            marks[names.index(u), names.index(v)] = marks[names.index(v), names.index(u)] = TAIL
        for pair, v in v_structures(graph):
            for u in pair:
                marks[names.index(u), names.index(v)] = ARROW
        expected = cpdag(graph)
        assert PartialGraph(names, meek_closure(marks)) == expected
        assert equivalent(extension(expected), graph)
        n_compelled += len(expected.directed)
    assert n_compelled > 1000


def test_meek_closure_of_background_knowledge_is_what_members_share(classes):
    """With one direction of one reversible edge given, exactly what all members with it share follows (rule 4)."""
    for group in classes[4].values():
        partial = cpdag(group[0])
        for edge in partial.undirected:
            for u, v in (sorted(edge), sorted(edge)[::-1]):
                marks = partial.marks.copy()
                marks[partial.names.index(u), partial.names.index(v)] = ARROW
                closed = PartialGraph(partial.names, meek_closure(marks))
                share = [frozenset(graph.edges) for graph in group if graph.has_edge(u, v)]
                assert closed.directed == frozenset.intersection(*share)


def test_fourth_rule():
    """a — d → b → c with a joined to b by an edge of unknown direction, and c, d apart."""
    known = dag("ad da db bc ab ba ac ca")
    assert PartialGraph.of(known).mark("a", "c") == "tail"
    closed = PartialGraph(tuple(known), meek_closure(PartialGraph.of(known).marks))
    assert ("a", "c") in closed.directed
    assert closed.undirected == {frozenset("ad"), frozenset("ab")}


def test_closure_that_clashes_leaves_edges_undirected():
    """a → b — c ← d: rule 1 asks for both directions of b — c."""
    known = dag("ab bc cb dc")
    closed = PartialGraph(tuple(known), meek_closure(PartialGraph.of(known).marks))
    assert closed.undirected == {frozenset("bc")}
    with refused("model.no-acyclic-graph"):
        extension(closed)


def test_no_extension():
    cycle = dag("ab ba bc cb cd dc da ad")
    with refused("model.no-acyclic-graph"):
        extension(cycle)
    assert nx.is_directed_acyclic_graph(extension(dag("ab ba bc cb ca ac")))
    with refused("model.no-acyclic-graph"):
        extension(dag("ab bc ca"))
    circles = PartialGraph(("a", "b"), np.array([[0, CIRCLE], [CIRCLE, 0]]))
    with refused("model.not-a-graph", "circles"):
        extension(circles)
    with refused("model.cycle"):
        cpdag(dag("ab bc ca"))
    with refused("model.cycle"):
        compelled_parents([2, 1])


def test_known_classes():
    assert str(cpdag(dag("ab bc"))) == "a — b, b — c"
    assert str(cpdag(dag("ab cb"))) == "a → b, c → b"
    assert str(cpdag(dag("ab cb bd"))) == "a → b, c → b, b → d"
    # Members of the class of a complete graph: its orders. Of a tree: its roots.
    assert sum(1 for _ in members(dag("ab ac ad bc bd cd"))) == 24
    assert sum(1 for _ in members(dag("ab ac ad de df"))) == 6


def test_hamming_distance_by_hand():
    truth = dag("ab cb bd", "abcde")
    assert hamming_distance(truth, truth) == 0
    assert hamming_distance(dag("ba cb bd", "abcde"), truth) == 1  # one turned round
    assert hamming_distance(dag("cb bd ed", "abcde"), truth) == 2  # one missing, one extra
    # Turning a → b dissolves the v-structure, and all three arrows of the CPDAG lose their direction.
    assert class_distance(dag("ba cb bd", "abcde"), truth) == 3
    # Order of the nodes does not matter.
    assert hamming_distance(dag("bd cb ab", "edcba"), truth) == 0
    with refused("model.unknown-variable", "'e'"):
        hamming_distance(dag("ab"), truth)


def test_hamming_distance_is_a_metric():
    rng = np.random.default_rng(2)
    for _ in range(50):
        a, b, c = (random_dag(rng, 6) for _ in range(3))
        for distance in (hamming_distance, class_distance):
            assert distance(a, b) == distance(b, a)
            assert distance(a, c) <= distance(a, b) + distance(b, c)


def test_comparison_by_hand():
    truth = dag("ab cb bd", "abcde")
    learned = dag("ba cb ed", "abcde")
    found = compare(learned, truth)
    assert found.skeleton == Counts(tp=2, fp=1, fn=1)
    assert found.arrows == Counts(tp=1, fp=2, fn=2)
    assert (found.skeleton.precision, found.skeleton.recall) == (2 / 3, 2 / 3)
    assert found.arrows.f1 == pytest.approx(1 / 3)
    assert found.distance == 3
    rows = comparison_table({"truth": truth, "learned": learned}, truth)
    assert [row["graph"] for row in rows] == ["truth", "learned"]
    assert rows[0]["arrows_precision"] == rows[0]["skeleton_recall"] == 1
    assert rows[1]["shd"] == 3
    nothing = compare(dag("", "ab"), dag("", "ab")).arrows
    assert np.isnan([nothing.precision, nothing.recall, nothing.f1]).all()


def test_partial_graph():
    graph = PartialGraph.of(dag("ab bc cb", "abcd"))
    assert graph.directed == {("a", "b")}
    assert graph.undirected == {frozenset("bc")}
    assert graph.mark("a", "b") == "arrow" and graph.mark("b", "a") == "tail" and graph.mark("a", "d") == "none"
    assert graph.adjacent("b") == {"a", "c"}
    assert graph.n_edges == 2
    assert set(map(frozenset, graph.skeleton.edges)) == {frozenset("ab"), frozenset("bc")}
    assert graph.graph.edges["b", "a"]["mark"] == "tail"
    assert graph == PartialGraph.of(dag("cb bc ab", "dcba")) and hash(graph) == hash(
        PartialGraph.of(dag("cb bc ab", "dcba"))
    )
    assert graph != PartialGraph.of(dag("ab bc", "abcd"))
    marks = np.zeros((4, 4), np.int8)
    marks[0, 1], marks[1, 0], marks[1, 2], marks[2, 1] = ARROW, CIRCLE, ARROW, ARROW
    marks[2, 3], marks[3, 2] = CIRCLE, TAIL
    assert PartialGraph(tuple("abcd"), marks).edges() == ["a o→ b", "b ↔ c", "c —o d"]
    assert PartialGraph(tuple("abcd"), marks).bidirected == {frozenset("bc")}
    with pytest.raises(ValueError, match="read-only"):
        graph.marks[0, 0] = 1
    for wrong, code in (
        (np.zeros((3, 3)), "model.wrong-shape"),
        (np.eye(4), "model.not-a-graph"),
        (np.triu(np.ones((4, 4)), 1), "model.not-a-graph"),
        (4 * (1 - np.eye(4)), "model.out-of-range"),
    ):
        with refused(code):
            PartialGraph(tuple("abcd"), wrong)
    with refused("model.unknown-variable", "'agee'.*'age'"):
        PartialGraph.of(dag("", ["age", "sex"])).adjacent("agee")
