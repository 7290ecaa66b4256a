"""PC: exact with an oracle, the same whatever the order of columns, sensible on data."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from bayeslab.structure.constraints import Constraints
from bayeslab.structure.cpdag import class_distance, compare, cpdag, extension, hamming_distance, members
from bayeslab.structure.data import Observations
from bayeslab.structure.independence import Oracle, Outcome, TableTest
from bayeslab.structure.searches import pc
from tests.refusals import refused
from tests.structure._dags import all_dags, random_dag

TABLES = Path(__file__).parents[3] / "shared" / "data" / "tables"
RULES = ("max_p", "majority", "first")

# The ALARM network (Beinlich et al. 1989) under the names of the table.
ALARM = (
    "HIST|LVF CVP|LVV PCWP|LVV HYP LVV|HYP:LVF LVF STKV|HYP:LVF ERLO HRBP|ERLO:HR HREK|ERCA:HR ERCA HRSA|ERCA:HR ANES"
    " APL TPR|APL ECO2|ACO2:VLNG KINK MINV|INT:VLNG FIO2 PVS|FIO2:VALV SAO2|PVS:SHNT PAP|PMB PMB SHNT|INT:PMB INT"
    " PRSS|INT:KINK:VTUB DISC MVS VMCH|MVS VTUB|DISC:VMCH VLNG|INT:KINK:VTUB VALV|INT:VLNG ACO2|VALV"
    " CCHL|ACO2:ANES:SAO2:TPR HR|CCHL CO|HR:STKV BP|CO:TPR"
)
ASIA = "A S T|A L|S B|S E|T:L X|E D|B:E"


def network(text: str) -> nx.DiGraph:
    graph = nx.DiGraph()
    for part in text.split():
        child, _, parents = part.partition("|")
        graph.add_node(child)
        graph.add_edges_from((parent, child) for parent in parents.split(":") if parent)
    return graph


def table(name: str) -> dict[str, list[str]]:
    path = TABLES / f"{name}.csv"
    if not path.exists():
        pytest.skip("the table is not on this machine")
    header, *rows = (line.split(",") for line in path.read_text().split())
    return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))


def linear(rng: np.random.Generator, graph: nx.DiGraph, n_rows: int) -> Observations:
    """Normal rows of linear equations along a DAG, with clear coefficients."""
    columns: dict[str, np.ndarray] = {}
    for v in nx.topological_sort(graph):
        weights = [rng.choice([-1, 1]) * rng.uniform(0.5, 1.0) for _ in graph.predecessors(v)]
        columns[v] = rng.normal(size=n_rows) + sum(
            w * columns[u] for w, u in zip(weights, graph.predecessors(v), strict=True)
        )
    return Observations.of({v: columns[v] for v in graph}, kind="continuous")


def binary(rng: np.random.Generator, n_rows: int) -> dict[str, np.ndarray]:
    """Rows of a → c ← b, c → d, b → e, with weak links so that tests err now and then."""
    a, b = rng.random((2, n_rows)) < 0.5
    c = rng.random(n_rows) < 0.2 + 0.3 * a + 0.3 * b
    d = rng.random(n_rows) < 0.4 + 0.2 * c
    e = rng.random(n_rows) < 0.4 + 0.2 * b
    return {name: column.astype(int) for name, column in zip("abcde", (a, b, c, d, e), strict=True)}


@pytest.mark.slow(why="large")
def test_causality_from_data_oracle_gives_the_class_of_every_small_dag():
    for graph in all_dags("abcd"):
        found = pc.search(Oracle(graph))
        assert found.graph == cpdag(graph)
        assert not found.conflicts


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("rule", RULES)
def test_causality_from_data_oracle_gives_the_class_of_larger_dags(rule):
    rng = np.random.default_rng(1)
    n_arrows = 0
    for _ in range(100):
        graph = random_dag(rng, int(rng.integers(5, 13)), rng.uniform(0.05, 0.4))
        found = pc.search(Oracle(graph), colliders=rule)
        assert found.graph == cpdag(graph)
        assert not found.conflicts
        assert len(found.trace) == graph.number_of_nodes() * (graph.number_of_nodes() - 1) / 2 - len(graph.edges)
        n_arrows += len(found.graph.directed)
    assert n_arrows > 300


def test_trace_says_which_independence_took_an_edge_out():
    graph = network("a b|a c|b d|b:c")
    oracle = Oracle(graph)
    found = pc.search(oracle)
    assert sorted(map(str, found.trace)) == ["a ⊥ c | b (p 1)", "a ⊥ d | b (p 1)"]
    assert str(found.graph) == "a — b, b — c, b — d, c — d"


def test_ci_test_structure_a_stricter_test_leaves_more_links():
    """Weak dependence counts as independence at a strict level of alpha."""
    rng = np.random.default_rng(2)
    totals = np.zeros(3)
    for _ in range(40):
        data = Observations.of(binary(rng, 300))
        totals += [pc.search(data, alpha=alpha).graph.n_edges for alpha in (1e-4, 0.05, 0.3)]
    assert totals[0] < totals[1] < totals[2]


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("rule", ["max_p", "majority"])
def test_order_and_names_of_columns_do_not_matter(rule):
    """Also not on few rows, where tests contradict each other."""
    rng = np.random.default_rng(3)
    n_conflicts = 0
    for _ in range(15):
        columns = binary(rng, 150)
        first = pc.search(Observations.of(columns), alpha=0.2, colliders=rule)
        n_conflicts += len(first.conflicts)
        for order in list(permutations("abcde"))[5::17]:
            other = pc.search(Observations.of({v: columns[v] for v in order}), alpha=0.2, colliders=rule)
            assert other.graph == first.graph
            assert len(other.trace) == len(first.trace)
            # The same columns under other names: only the names change.
            other = pc.search(
                Observations.of({w: columns[v] for v, w in zip("abcde", order, strict=True)}), alpha=0.2, colliders=rule
            )
            back = dict(zip(order, "abcde", strict=True))
            assert {tuple(back[v] for v in edge) for edge in other.graph.directed} == first.graph.directed
    assert n_conflicts > 0


@pytest.mark.parametrize("rule", RULES)
def test_linear_normal_rows(rule):
    rng = np.random.default_rng(4)
    distances = []
    for _ in range(10):
        graph = random_dag(rng, 7, 0.25)
        distances.append(class_distance(pc.search(linear(rng, graph, 20_000), alpha=1e-3, colliders=rule).graph, graph))
    assert np.mean(distances) < 1
    assert np.median(distances) == 0


@pytest.mark.slow(why="statistical")
def test_asia_and_alarm():
    """The edge that few rows show (A -> T), and tuberculosis or cancer (a function of both), are hard for any test."""
    asia = network(ASIA)
    found = compare(pc.search(table("asia"), alpha=0.05).graph, cpdag(asia))
    assert found.skeleton.fp == 0
    assert found.skeleton.tp >= 5
    data = Observations.of(table("alarm"))
    alarm = network(ALARM)
    assert alarm.number_of_edges() == 46
    for alpha in (1e-3, 0.01, 0.05):
        learned = pc.search(data, alpha=alpha)
        found = compare(learned.graph, cpdag(alarm))
        assert found.skeleton.fp <= 1
        assert found.skeleton.tp >= 42
        assert found.class_distance <= 5
        assert len(learned.trace) == 37 * 36 // 2 - learned.graph.n_edges


@pytest.mark.slow(why="statistical")
def test_constraints_with_an_oracle():
    """Knowing the direction of a reversible edge gives what the members with it share; all tiers give the DAG."""
    rng = np.random.default_rng(5)
    n_known = 0
    for _ in range(60):
        graph = random_dag(rng, 6, 0.4)
        oracle, names = Oracle(graph), tuple(graph)
        partial = cpdag(graph)
        tiers = [[v] for v in nx.topological_sort(graph)]
        assert pc.search(oracle, constraints=Constraints.of(names, tiers=tiers)).graph.directed == set(graph.edges)
        for u, v in graph.edges:
            if frozenset((u, v)) not in partial.undirected:
                continue
            share = frozenset.intersection(*(frozenset(m.edges) for m in members(graph) if m.has_edge(u, v)))
            for known in ({"required": [(u, v)]}, {"forbidden": [(v, u)]}):
                # Columns in another order than that of the constraints.
                found = pc.search(oracle, constraints=Constraints.of(names[::-1], **known))
                assert found.graph.directed == share
                assert found.graph.skeleton.edges == partial.skeleton.edges
            n_known += 1
    assert n_known > 50


def test_edges_required_or_forbidden_against_the_data():
    graph = network("a b|a c|b")
    oracle = Oracle(graph)
    found = pc.search(
        oracle, constraints=Constraints.of("abc", required=[("a", "c")], forbidden=[("a", "b"), ("b", "a")])
    ).graph
    assert ("a", "c") in found.directed
    assert "b" not in found.adjacent("a")
    assert extension(found).has_edge("a", "c")
    only = pc.search(oracle, constraints=Constraints.of("abc", candidates={"c": [], "a": []})).graph
    assert only.directed == {("a", "b"), ("c", "b")}


class Answers:
    """A test with fixed answers: the p-value of pairs given one set, the empty one unless said; all else depends."""

    def __init__(self, names: str, apart: dict[str, float], given: dict[str, str] | None = None) -> None:
        self.names = tuple(names)
        self.apart = {frozenset(pair): (p, frozenset((given or {}).get(pair, ""))) for pair, p in apart.items()}

    def __call__(self, x: int, y: int, given: tuple[int, ...] = ()) -> Outcome:
        p, needed = self.apart.get(frozenset((self.names[x], self.names[y])), (0.0, frozenset()))
        return Outcome(0.0, 1, p if needed == {self.names[v] for v in given} else 0.0)


def test_colliders_that_contradict_each_other():
    """a - b - c - d with a, c and b, d independent: a → b ← c and b → c ← d both claim the edge b - c."""
    equal = pc.search(Answers("abcd", {"ac": 0.5, "bd": 0.5, "ad": 0.5}))
    assert len(equal.conflicts) == 2
    assert not equal.graph.bidirected
    assert equal.graph.undirected >= {frozenset("bc")}
    surer = pc.search(Answers("abcd", {"ac": 0.9, "bd": 0.5, "ad": 0.5}))
    assert {("a", "b"), ("c", "b")} <= surer.graph.directed
    assert surer.conflicts == ("b → c ← d contradicts others or a constraint",)
    told = pc.search(
        Answers("abcd", {"ac": 0.9, "bd": 0.5, "ad": 0.5}), constraints=Constraints.of("abcd", required=[("b", "c")])
    )
    assert {("b", "c"), ("d", "c")} <= told.graph.directed
    assert told.conflicts == ("a → b ← c contradicts others or a constraint",)


def test_colliders_in_a_circle_are_left_out():
    """Of the triangle a, b, c each edge is the arrow of a collider with x, y or z: a → b → c → a."""
    found = pc.search(Answers("abcxyz", {"ax": 0.5, "by": 0.5, "cz": 0.5}, {"ax": "cyz", "by": "axz", "cz": "bxy"}))
    assert nx.is_directed_acyclic_graph(nx.DiGraph(list(found.graph.directed)))
    assert found.graph.directed >= {("x", "b"), ("y", "c"), ("z", "a")}
    assert sorted(found.conflicts) == [f"{u} → {v} closes a cycle" for u, v in ("ab", "bc", "ca")]


def test_size_of_conditioning_sets():
    graph = network("a b|a c|a d|b:c")
    assert frozenset("ad") in set(map(frozenset, pc.search(Oracle(graph), max_given=1).graph.skeleton.edges))
    assert pc.search(Oracle(graph), max_given=2).graph == cpdag(graph)
    assert pc.search(Oracle(graph), max_given=0).graph.n_edges == 6


def test_a_constant_column_stands_alone():
    columns = binary(np.random.default_rng(7), 500)
    codes = np.column_stack([*columns.values(), np.zeros(500, int)])
    data = Observations.of_codes(codes, {**dict.fromkeys(columns, ("0", "1")), "still": ("0",)})
    found = pc.search(data)
    assert not found.graph.adjacent("still")
    assert found.graph.n_edges == pc.search(columns).graph.n_edges


def test_a_table_of_states_goes_in_as_it_is():
    columns = binary(np.random.default_rng(6), 2000)
    by_name = pc.search(columns, test="chi2")
    assert by_name.graph == pc.search(TableTest(Observations.of(columns), "chi2")).graph
    assert by_name.tests > 10
    assert hamming_distance(by_name.graph, cpdag(network("a b c|a:b d|c e|b"))) <= 2


def test_bad_input():
    oracle = Oracle(network("a b|a"))
    with refused("option.out-of-range", "alpha"):
        pc.search(oracle, alpha=0.0)
    with refused("option.out-of-range", "max_given"):
        pc.search(oracle, max_given=-1)
    with refused("option.unknown-word", "'majority'"):
        pc.search(oracle, colliders="majorty")
    with refused("model.unsupported", "max_parents"):
        pc.search(oracle, constraints=Constraints.of("ab", max_parents=1))
    with refused("model.different-data", "constraints"):
        pc.search(oracle, constraints=Constraints.of("abc"))
    with refused("option.unknown-word", "'g2'"):
        pc.search({"a": [0, 1, 1], "b": [1, 0, 0]}, test="g22")
    assert str(pc.search(Oracle(network("a b"))).graph) == "no edges"
