"""Case-based retrieval: exact matches first, then best subgraphs, against enumerating all maps of variables."""

from __future__ import annotations

from itertools import permutations

import networkx as nx
import numpy as np
import pytest

from bayeslab.theory.cases import Case, elaborations, influences, match, retrieve, synthesize
from tests.refusals import refused

KINDS = {"Q": "flow", "T": "temperature", "C": "control"}


def kinds(*names):
    return {name: KINDS[name[0]] for name in names}


def junction(names="Q1 Q2 Q3 T1 T2 T3"):
    """Two pipes into one: flows add up, temperatures mix."""
    a, b, c, ta, tb, tc = names.split()
    arcs = [(a, c, "+"), (b, c, "+"), (ta, tc, "+"), (tb, tc, "+")]
    return influences(arcs, kinds(a, b, c, ta, tb, tc))


def faucet():
    """Controls of the whole and of the mixture act on the cold and hot flows, and through them on what comes out."""
    arcs = [("Ct", "Qc", "+"), ("Ct", "Qh", "+"), ("Cf", "Qc", "+"), ("Cf", "Qh", "-")]
    arcs += [
        ("Qc", "Qm", "+"),
        ("Qh", "Qm", "+"),
        ("Qc", "Tm", "-"),
        ("Qh", "Tm", "+"),
        ("Tc", "Tm", "+"),
        ("Th", "Tm", "+"),
    ]
    return influences(arcs, kinds("Qc", "Qh", "Qm", "Tc", "Th", "Tm", "Ct", "Cf"))


def random_function(rng, n=6, n_arcs=6):
    names = [f"{rng.choice(list('QTC'))}{i}" for i in range(n)]
    pairs = [(u, v) for u in names for v in names if u < v]
    chosen = rng.choice(len(pairs), n_arcs, replace=False)
    return influences([(*pairs[i], str(rng.choice(["+", "-"]))) for i in chosen], kinds(*names))


def library(n=75):
    rng = np.random.default_rng(0)
    parts = [
        Case("T-junction", junction(), "a pipe into a pipe"),
        Case("valve", influences([("C1", "Q1", "+"), ("C1", "Q2", "+")], kinds("C1", "Q1", "Q2"))),
        Case("mixer", influences([("C1", "Q1", "+"), ("C1", "Q2", "-")], kinds("C1", "Q1", "Q2"))),
        Case("heat", influences([("Q1", "T1", "-"), ("Q2", "T1", "+")], kinds("Q1", "Q2", "T1"))),
    ]
    return parts + [Case(f"design {i:02}", random_function(rng)) for i in range(n - len(parts))]


def most_by_enumeration(query, other):
    """Arcs explained by the best of all maps of variables, partial ones too."""
    names, targets = list(query), [*other, *[None] * len(query)]
    best = 0
    for image in set(permutations(targets, len(names))):
        to = dict(zip(names, image, strict=True))
        if any(v is not None and query.nodes[u]["kind"] != other.nodes[v]["kind"] for u, v in to.items()):
            continue
        best = max(
            best,
            sum(
                other.has_edge(to[u], to[v]) and other.edges[to[u], to[v]]["sign"] == sign
                for u, v, sign in query.edges.data("sign")
            ),
        )
    return best


@pytest.mark.slow(why="statistical")
def test_cbr_exact_first():
    """cbr (F45): among 75 designs the one with the same graph under other names is found, and comes first."""
    stored = library()
    assert len(stored) == 75
    query = junction("Qin Qtop Qout Tin Ttop Tout")
    found = retrieve(query, stored)
    assert found[0].exact
    assert found[0].case.name == "T-junction"
    assert found[0].arcs == frozenset(query.edges)
    assert all(
        found[0].case.function.edges[found[0].variables[u], found[0].variables[v]]["sign"] == sign
        for u, v, sign in query.edges.data("sign")
    )
    assert not any(m.exact for m in found[1:])
    flipped = junction()
    flipped.edges["Q1", "Q3"]["sign"] = "-"
    assert not retrieve(flipped, stored)[0].exact, "signs count"
    renamed = nx.relabel_nodes(query, {"Qin": "Cin"})
    renamed.nodes["Cin"]["kind"] = "control"
    assert not retrieve(renamed, stored)[0].exact, "kinds count"


@pytest.mark.slow(why="large")
def test_cbr_best_subgraph():
    """cbr (F45): otherwise the best subgraph matches, as many arcs as enumeration of all maps finds."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        query, other = random_function(rng, 4, 4), random_function(rng, 4, 4)
        found = match(query, Case("other", other))
        assert len(found.arcs) == most_by_enumeration(query, other)
        assert len(set(found.variables.values())) == len(found.variables)
    ranks = [len(m.arcs) for m in retrieve(faucet(), library(), 10)]
    assert ranks == sorted(ranks, reverse=True)


@pytest.mark.slow(why="large")
def test_cadet():
    """cadet (F45): the T-junction is stored, the faucet queried: no exact match, and parts that together explain it."""
    query, stored = faucet(), library()
    assert set(query.successors("Ct")) == set(query.successors("Cf")) == {"Qc", "Qh"}
    for control in ("Ct", "Cf"):
        assert not query.has_edge(control, "Qm")
        assert nx.has_path(query, control, "Qm")
        assert nx.has_path(query, control, "Tm")
    found = retrieve(query, stored)
    assert not found[0].exact
    by_name = {m.case.name: m for m in found}
    mixing = {("Qc", "Qm"), ("Qh", "Qm"), ("Tc", "Tm"), ("Th", "Tm")}
    assert by_name["T-junction"].arcs == mixing
    parts, left = synthesize(query, [c for c in stored if not c.name.startswith("design")])
    assert not left
    assert {m.case.name for m in parts} == {"T-junction", "valve", "mixer", "heat"}
    assert sum(len(m.arcs) for m in parts) == query.number_of_edges()
    with_all, left = synthesize(query, stored)
    assert not left
    assert frozenset().union(*(m.arcs for m in with_all)) == frozenset(query.edges)
    exact, left = synthesize(query, [*stored, Case("tap", faucet())])
    assert [m.case.name for m in exact] == ["tap"] and not left


def test_elaborations():
    """An arc led through a new variable keeps the sign of the influence; a case with that chain is then exact."""
    query = influences({("C1", "Q1"): "-"}, kinds("C1", "Q1"))
    chain = influences([("C1", "Q9", "+"), ("Q9", "Q1", "-")], kinds("C1", "Q9", "Q1"))
    assert not match(query, Case("chain", chain)).exact
    found = list(elaborations(query, "flow"))
    assert len(found) == 2
    assert sum(match(g, Case("chain", chain)).exact for g in found) == 1
    for graph in found:
        signs = [s for _, _, s in graph.edges.data("sign")]
        assert signs.count("-") % 2 == 1


def test_refuses():
    with refused("option.unknown-word", r"'\?'"):
        influences({("Q1", "Q2"): "?"}, kinds("Q1", "Q2"))
    with refused("option.unknown-word", "'Q2'"):
        influences({("Q1", "Q2"): "+"}, kinds("Q1"))
    with refused("option.duplicate"):
        influences([("Q1", "Q2", "+"), ("Q1", "Q2", "-")], kinds("Q1", "Q2"))
    with refused("option.name-clash", "'Q1'"):
        list(elaborations(influences({("C1", "Q1"): "-"}, kinds("C1", "Q1")), "flow", "Q1"))
    assert retrieve(faucet(), []) == []
    assert synthesize(faucet(), []) == ([], frozenset(faucet().edges))


@pytest.mark.slow(why="statistical")
def test_work_is_bounded():
    """Twelve variables of one kind have 10¹¹ maps: refused in a line, and not tried; a graph that is the same is found."""
    names = [f"v{i}" for i in range(12)]
    ahead = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if (i * 7 + int(b[1:])) % 4 == 0]
    query = influences([(a, b, "+") for a, b in ahead], dict.fromkeys(names, "flow"))
    other = influences(
        [(b, a, "-") for a, b in ahead[::2]] + [(a, b, "+") for a, b in ahead[1::2]], dict.fromkeys(names, "flow")
    )
    with refused("option.not-converged", "'pump'.*12"):
        match(query, Case("pump", other))
    assert match(query, Case("same", query)).exact
    wide = influences([], {f"v{i}": "flow" for i in range(300)})
    with refused("option.too-costly"):
        match(wide, Case("wide", wide))
