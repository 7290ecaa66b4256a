"""Neighbours by max-min association: exact with an oracle, sensible on data, handed on to searches by score."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from bayeslab.structure.constraints import Constraints
from bayeslab.structure.data import Observations
from bayeslab.structure.independence import Oracle
from bayeslab.structure.scores import load
from bayeslab.structure.searches import hill_climbing, mmhc, mmpc
from tests.refusals import refused
from tests.structure._dags import random_dag

ALARM = Path(__file__).parents[3] / "shared" / "data" / "tables" / "alarm.csv"


def pairs(edges) -> set[frozenset[str]]:
    return set(map(frozenset, edges))


def test_ci_test_structure_oracle_gives_the_neighbours():
    rng = np.random.default_rng(1)
    n_more = 0
    for _ in range(150):
        graph = random_dag(rng, int(rng.integers(2, 10)), rng.uniform(0.1, 0.4))
        found = mmpc.search(Oracle(graph))
        assert pairs(found.graph.skeleton.edges) == pairs(graph.edges)
        # What is found for one variable alone holds its neighbours, and now and then more.
        for v, own in found.trace:
            assert set(own) >= set(graph.predecessors(v)) | set(graph.successors(v))
            n_more += len(own) - graph.degree(v)
    assert n_more > 0


def test_rows_of_a_chain():
    rng = np.random.default_rng(2)
    n = 4000
    a = rng.integers(2, size=n)
    b = np.where(rng.random(n) < 0.8, a, 1 - a)
    c = np.where(rng.random(n) < 0.8, b, 1 - b)
    d = rng.integers(3, size=n)
    columns = {"a": a, "b": b, "c": c, "d": d}
    found = mmpc.search(Observations.of(columns), alpha=1e-3)
    assert dict(found.neighbours) == {"a": ("b",), "b": ("a", "c"), "c": ("b",), "d": ()}
    back = mmpc.search({v: columns[v] for v in "dcba"}, alpha=1e-3)
    assert back.graph == found.graph
    assert back.tests == found.tests


def test_constraints_are_handed_on():
    graph = nx.DiGraph([("a", "b"), ("b", "c"), ("d", "c")])
    known = Constraints.of(
        "dcba",
        required=[("a", "d")],
        forbidden=[("b", "c"), ("c", "b"), ("c", "d")],
        candidates={"b": ["a"]},
        max_parents=2,
    )
    found = mmpc.search(Oracle(graph), constraints=known)
    assert dict(found.neighbours) == {"a": ("b", "d"), "b": ("a",), "c": ("d",), "d": ("a", "c")}
    passed = found.constraints
    assert passed.required == known.required and passed.max_parents == 2
    assert passed.candidates["b"] == ("a",)
    assert set(passed.candidates["d"]) >= {"a"}
    passed.check(nx.DiGraph([("a", "b"), ("a", "d"), ("d", "c")]))
    with refused("model.forbidden-edge", "b -> c"):
        passed.check(nx.DiGraph([("a", "d"), ("b", "c")]))
    free = mmpc.search(Oracle(graph)).constraints
    assert free.allowed.sum() == 6


def test_alarm():
    """At least 40 of 46 edges, and no more than a few others; its edges as Beinlich et al. (1989) give them."""
    if not ALARM.exists():
        pytest.skip("the table is not on this machine")
    header, *rows = (line.split(",") for line in ALARM.read_text().split())
    data = Observations.of(dict(zip(header, map(list, zip(*rows[:10_000], strict=True)), strict=True)))
    found = pairs(mmpc.search(data, max_given=3).graph.skeleton.edges)
    truth = (
        "LVF-HIST LVV-CVP LVV-PCWP HYP-LVV LVF-LVV HYP-STKV LVF-STKV ERLO-HRBP HR-HRBP ERCA-HREK HR-HREK ERCA-HRSA"
        " HR-HRSA APL-TPR ACO2-ECO2 VLNG-ECO2 INT-MINV VLNG-MINV FIO2-PVS VALV-PVS PVS-SAO2 SHNT-SAO2 PMB-PAP INT-SHNT"
        " PMB-SHNT INT-PRSS KINK-PRSS VTUB-PRSS MVS-VMCH DISC-VTUB VMCH-VTUB INT-VLNG KINK-VLNG VTUB-VLNG INT-VALV"
        " VLNG-VALV VALV-ACO2 ACO2-CCHL ANES-CCHL SAO2-CCHL TPR-CCHL CCHL-HR HR-CO STKV-CO CO-BP TPR-BP"
    )
    edges = pairs(edge.split("-") for edge in truth.split())
    assert len(edges) == 46
    assert len(found & edges) >= 40
    assert len(found - edges) <= 2


def test_climbing_among_neighbours():
    """Only edges between neighbours; with every edge a neighbour, hill climbing as it is; constraints hold throughout."""
    rng = np.random.default_rng(3)
    n = 2000
    a, b = rng.integers(2, size=(2, n))
    c = np.where(rng.random(n) < 0.9, a | b, 1 - (a | b))
    d = np.where(rng.random(n) < 0.8, c, 1 - c)
    data = Observations.of({"a": a, "b": b, "c": c, "d": d})
    score = load("bdeu", data)
    found = mmhc.search(score, data=data)
    assert set(found.graph.edges) == {("a", "c"), ("b", "c"), ("c", "d")}
    near = pairs(mmpc.search(data, alpha=0.05).graph.skeleton.edges)
    assert pairs(found.graph.edges) <= near
    known = Constraints.of("abcd", forbidden=[("c", "d")], required=[("d", "c")])
    assert mmhc.search(score, data=data, constraints=known).graph.has_edge("d", "c")
    everything = Oracle(nx.DiGraph([(u, v) for i, u in enumerate("abcd") for v in "abcd"[i + 1 :]]))
    full, plain = mmhc.search(score, data=everything), hill_climbing.search(score, tabu=100)
    assert full.graph.edges == plain.graph.edges
    assert full.score == pytest.approx(plain.score)
    assert found.n_scored < full.n_scored


def test_bad_input():
    oracle = Oracle(nx.DiGraph([("a", "b")]))
    with refused("option.out-of-range", "max_given"):
        mmpc.search(oracle, max_given=-1)
    with refused("model.different-data", "constraints"):
        mmpc.search(oracle, constraints=Constraints.of("abc"))
    assert mmpc.search(oracle, max_given=0).graph.n_edges == 1
