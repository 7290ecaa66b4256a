"""FCI with an oracle against enumeration of ancestral graphs, and on data with a hidden cause."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, combinations, permutations, product

import networkx as nx
import numpy as np
import pytest

from bayeslab.structure.constraints import Constraints
from bayeslab.structure.cpdag import cpdag
from bayeslab.structure.data import Observations
from bayeslab.structure.independence import Oracle, Outcome
from bayeslab.structure.partial_graph import ARROW, CIRCLE, NONE, TAIL, PartialGraph
from bayeslab.structure.searches import fci, pc
from tests.refusals import refused
from tests.structure._dags import random_dag

# Marks (at the first, at the second) of each kind of edge of an ancestral graph.
KINDS = [(NONE, NONE), (TAIL, ARROW), (ARROW, TAIL), (ARROW, ARROW), (TAIL, TAIL)]


def subsets(names):
    return chain.from_iterable(combinations(names, k) for k in range(len(names) + 1))


def arrows(marks: np.ndarray) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(marks)))
    graph.add_edges_from(np.argwhere((marks == ARROW) & (marks.T == TAIL)).tolist())
    return graph


def below(marks: np.ndarray) -> list[set[int]]:
    """Each node and its descendants."""
    graph = arrows(marks)
    return [nx.descendants(graph, v) | {v} for v in graph]


def ancestral(marks: np.ndarray) -> bool:
    """Richardson and Spirtes (2002), definition 3.1."""
    if not nx.is_directed_acyclic_graph(arrows(marks)):
        return False
    reach = below(marks)
    into = (marks == ARROW).any(axis=0)
    for u, v in np.argwhere(np.triu(marks)).tolist():
        kind = marks[v, u], marks[u, v]
        if kind == (ARROW, ARROW) and (v in reach[u] or u in reach[v]):
            return False
        if kind == (TAIL, TAIL) and (into[u] or into[v]):
            return False
    return True


def independences(marks: np.ndarray) -> frozenset:
    """M-separation by its definition: every path is looked at."""
    n, reach = len(marks), below(marks)
    skeleton = nx.from_numpy_array(marks != NONE)
    found = set()
    for x, y in combinations(range(n), 2):
        paths = list(nx.all_simple_paths(skeleton, x, y))
        for z in subsets([v for v in range(n) if v not in (x, y)]):
            if not any(connects(marks, reach, path, z) for path in paths):
                found.add((x, y, z))
    return frozenset(found)


def connects(marks: np.ndarray, reach: list[set[int]], path: list[int], z: tuple[int, ...]) -> bool:
    for a, v, b in zip(path, path[1:], path[2:], strict=False):
        collider = marks[a, v] == ARROW == marks[b, v]
        if not reach[v].intersection(z) if collider else v in z:
            return False
    return True


def maximal(marks: np.ndarray, statements: frozenset) -> bool:
    separated = {(x, y) for x, y, _ in statements}
    return all((x, y) in separated for x, y in np.argwhere(np.triu(marks == NONE, 1)).tolist())


def shared(members: list[np.ndarray]) -> np.ndarray:
    """The PAG by definition: marks of all members, circles where they differ."""
    out = members[0].copy()
    for marks in members[1:]:
        out[out != marks] = CIRCLE
    return out


class Model:
    """A test that answers from a set of independences."""

    def __init__(self, n: int, statements: frozenset) -> None:
        self.names = tuple("abcdef"[:n])
        self.statements = statements

    def __call__(self, x: int, y: int, given: tuple[int, ...] = ()) -> Outcome:
        return Outcome(0.0, 1, float((min(x, y), max(x, y), tuple(sorted(given))) in self.statements))


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("n", [2, 3, 4])
def test_causality_from_data_every_class_of_ancestral_graphs(n):
    """All maximal ancestral graphs with up to four nodes: the PAG of each class, from its independences."""
    classes = defaultdict(list)
    pairs = list(combinations(range(n), 2))
    for kinds in product(KINDS, repeat=len(pairs)):
        marks = np.zeros((n, n), np.int8)
        for (u, v), (at_u, at_v) in zip(pairs, kinds, strict=True):
            marks[v, u], marks[u, v] = at_u, at_v
        if ancestral(marks):
            statements = independences(marks)
            if maximal(marks, statements):
                classes[statements].append(marks)
    seen = set()
    for statements, members in classes.items():
        expected = PartialGraph(tuple("abcdef"[:n]), shared(members))
        for rule in ("max_p", "majority", "first"):
            assert fci.search(Model(n, statements), colliders=rule).graph == expected
        seen |= {*expected.marks.ravel().tolist()}
        seen |= {"tails"} if expected.undirected else set()
    assert seen >= {NONE, CIRCLE} if n < 3 else seen >= {NONE, ARROW, CIRCLE}
    assert n < 4 or {TAIL, "tails"} <= seen


def confounded_dag(rng: np.random.Generator) -> nx.DiGraph:
    """Five variables with three common causes p, q, r of two of them each."""
    graph = nx.relabel_nodes(random_dag(rng, 5, 0.25), {f"v{i}": v for i, v in enumerate("abcde")})
    graph.add_edges_from((h, str(v)) for h in "pqr" for v in rng.choice(list("abcde"), 2, replace=False))
    return graph


def ancestral_graph_of(graph: nx.DiGraph, oracle: Oracle) -> np.ndarray:
    """Richardson and Spirtes (2002), section 4.2.1: joined if nothing separates, a tail at ancestors."""
    names = oracle.names
    marks = np.zeros((len(names),) * 2, np.int8)
    above = {v: nx.ancestors(graph, v) for v in graph}
    for x, y in combinations(range(len(names)), 2):
        others = [v for v in range(len(names)) if v not in (x, y)]
        if any(oracle(x, y, z).p_value for z in subsets(others)):
            continue
        for u, v in ((x, y), (y, x)):
            ends = [names[u], *oracle.selected]
            marks[u, v] = TAIL if any(names[v] in above[end] for end in ends) else ARROW
    return marks


def fillings(pag: np.ndarray):
    places = np.argwhere(pag == CIRCLE).tolist()
    for kinds in product((TAIL, ARROW), repeat=len(places)):
        marks = pag.copy()
        for (u, v), mark in zip(places, kinds, strict=True):
            marks[u, v] = mark
        yield marks


@pytest.mark.slow(why="large")
def test_causality_from_data_hidden_and_selected_variables():
    """Random DAGs of which five variables are seen: what is marked is true, and what is not differs in the class."""
    rng = np.random.default_rng(1)
    n_circles = n_marks = n_bidirected = 0
    for i in range(200):
        graph = random_dag(rng, 8, rng.uniform(0.25, 0.45)) if i % 2 else confounded_dag(rng)
        names = [f"v{v}" for v in rng.permutation(8)[:3]] if i % 2 else list("pqr")
        n_selected = int(rng.integers(0, 2)) if i % 2 else 0
        oracle = Oracle(graph, hidden=names[n_selected:], selected=names[:n_selected])
        pag = fci.search(oracle).graph.marks
        true = ancestral_graph_of(graph, oracle)
        assert np.array_equal(pag == NONE, true == NONE)
        fixed = pag != CIRCLE
        assert np.array_equal(pag[fixed], true[fixed])
        n_marks += np.count_nonzero(fixed & (pag != NONE))
        if np.count_nonzero(~fixed) <= 6:
            statements = independences(true)
            members = [m for m in fillings(pag) if ancestral(m) and independences(m) == statements]
            assert np.array_equal(shared(members), pag)
            n_circles += np.count_nonzero(~fixed)
        n_bidirected += len(PartialGraph(oracle.names, pag).bidirected)
    assert n_marks > 400
    assert n_circles > 200
    assert n_bidirected > 15


@pytest.mark.slow(why="statistical")
def test_larger_graphs_are_sound():
    rng = np.random.default_rng(2)
    for _ in range(40):
        graph = random_dag(rng, 11, 0.22)
        oracle = Oracle(graph, hidden=("v0", "v1", "v2"))
        pag, true = fci.search(oracle).graph.marks, ancestral_graph_of(graph, oracle)
        assert np.array_equal(pag == NONE, true == NONE)
        assert np.array_equal(pag[pag != CIRCLE], true[pag != CIRCLE])


def dag(edges: str) -> nx.DiGraph:
    return nx.DiGraph([tuple(edge) for edge in edges.split()])


def test_known_examples():
    # M structure: the classical sign of a hidden cause.
    hidden = Oracle(dag("ac hc hd bd"), hidden="h")
    assert set(fci.search(hidden).graph.edges()) == {"a o→ c", "c ↔ d", "b o→ d"}
    # Y structure: c is a cause of d without a hidden one.
    assert set(fci.search(Oracle(dag("ac bc cd"))).graph.edges()) == {"a o→ c", "b o→ c", "c → d"}
    # Nothing hidden, nothing to see.
    assert fci.search(Oracle(dag("ab bc"))).graph.edges() == ["a o-o b", "b o-o c"]


def test_distant_separation():
    """b and e are separated by sets with c only, which is joined to neither: PC's search does not see them."""
    oracle = Oracle(dag("ab ca de pa pe qc qd rb rd"), hidden="pqr")
    assert pc.search(oracle).graph.skeleton.has_edge("b", "e")
    found = fci.search(oracle)
    assert set(found.graph.edges()) == {"a → b", "c o→ a", "a ↔ e", "b ↔ d", "c o→ d", "d → e"}
    removal = next(r for r in found.trace if set(r.pair) == {"b", "e"})
    assert "c" in removal.given


@pytest.mark.parametrize(
    ("edges", "hidden", "selected"),
    [
        ("ac ba bc db dc eb ec", "", ""),  # rule 2
        ("ab ae bs ce cd ds ed", "", "s"),  # rule 6
        ("ac bs cs ea eb fd fc fb", "", "s"),  # rule 7
        ("ac ab be bd cb ce ed hd ha", "h", ""),  # rule 10
    ],
)
def test_graphs_that_need_one_rule(edges, hidden, selected):
    """Found by looking for graphs that lose a mark without the rule; what is right is enumerated."""
    graph = dag(edges)
    oracle = Oracle(graph, hidden=hidden, selected=selected)
    pag, true = fci.search(oracle).graph.marks, ancestral_graph_of(graph, oracle)
    statements = independences(true)
    members = [m for m in fillings(pag) if ancestral(m) and independences(m) == statements]
    assert any(np.array_equal(m, true) for m in members)
    assert np.array_equal(shared(members), pag)


def test_without_hidden_variables_arrows_agree_with_the_class():
    rng = np.random.default_rng(3)
    for _ in range(40):
        graph = random_dag(rng, 7, 0.35)
        pag, partial = fci.search(Oracle(graph)).graph, cpdag(graph)
        assert set(map(frozenset, pag.skeleton.edges)) == set(map(frozenset, partial.skeleton.edges))
        assert pag.directed <= partial.directed
        heads = {(u, v) for u in graph for v in pag.adjacent(u) if pag.mark(u, v) == "arrow"}
        assert heads == partial.directed


def test_tiers():
    oracle = Oracle(dag("ab bc"))
    found = fci.search(oracle, constraints=Constraints.of("abc", tiers=["a", "bc"])).graph
    assert found.mark("a", "b") == "arrow" and found.mark("b", "a") == "circle"
    assert found.directed == {("b", "c")}  # c is below b, as b is no collider and a *→ b
    with refused("model.unsupported", "FCI.*tiers"):
        fci.search(oracle, constraints=Constraints.of("abc", max_parents=2))
    with refused("model.different-data", "constraints"):
        fci.search(oracle, constraints=Constraints.of("ab", tiers=["a", "b"]))


def test_hidden_cause_in_data_whatever_the_order_of_columns():
    """Rows of a → c ← h → d ← b with h hidden."""
    rng = np.random.default_rng(4)
    n = 8000
    a, b, h = rng.normal(size=(3, n))
    columns = {"a": a, "b": b, "c": a + h + rng.normal(size=n), "d": b + h + rng.normal(size=n)}
    for order in permutations("abcd"):
        found = fci.search(Observations.of({v: columns[v] for v in order}, kind="continuous")).graph
        assert found.bidirected == {frozenset("cd")}
        assert found.mark("a", "c") == found.mark("b", "d") == "arrow"
        assert found.n_edges == 3


def test_few_rows_leave_a_valid_graph():
    rng = np.random.default_rng(5)
    for _ in range(10):
        data = Observations.of({v: rng.integers(3, size=60) for v in "abcdef"})
        for rule in ("max_p", "majority", "first"):
            found = fci.search(data, alpha=0.5, colliders=rule, max_given=2)
            assert found.graph.n_edges + len(found.trace) == 15
