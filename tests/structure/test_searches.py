"""Searches by score, against enumeration, brute force and planted structures."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

from bayeslab.errors import ModelError
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.cpdag import equivalent
from bayeslab.structure.cpdag import members as class_members
from bayeslab.structure.data import Observations
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.scores import load as load_score
from bayeslab.structure.searches import (
    annealing,
    chow_liu,
    comparison_table,
    ges,
    greedy_parents,
    hill_climbing,
    load,
    order_search,
    tabu,
    tan,
)
from bayeslab.structure.searches.toolbox.climber import Climber
from bayeslab.structure.searches.toolbox.scorer import Scorer
from tests.refusals import refused
from tests.structure._dags import Everything, random_scores, table_of

# a -> c <- b, c -> d -> e, b -> f <- d, and g alone.
TRUTH = nx.DiGraph([("a", "c"), ("b", "c"), ("c", "d"), ("d", "e"), ("b", "f"), ("d", "f")])
TRUTH.add_node("g")
NAMES = ("d", "g", "a", "f", "c", "b", "e")


def noisy(rng, parents, weights=(1.0, 1.0)):
    """A binary child: a logistic regression on its parents, each of which matters."""
    drive = sum(w * (2 * x - 1) for w, x in zip(weights, parents, strict=False))
    return (rng.random(len(parents[0])) < 1 / (1 + np.exp(-1.2 * drive))).astype(int)


def planted(n_rows=20_000, seed=0):
    rng = np.random.default_rng(seed)
    a, b, g = (rng.integers(0, r, n_rows) for r in (2, 2, 3))
    c = noisy(rng, (a, b))
    d = noisy(rng, (c,))
    columns = {"a": a, "b": b, "c": c, "d": d, "e": noisy(rng, (d,)), "f": noisy(rng, (b, d)), "g": g}
    return {v: columns[v] for v in NAMES}


def tangled(n=8, n_rows=400, seed=0):
    """Ternary variables with random tables given two earlier ones: few rows, and scores with many local tops."""
    rng = np.random.default_rng(seed)
    columns = {}
    for i in range(n):
        above = [columns[f"x{u}"] for u in rng.choice(i, min(i, 2), replace=False)]
        cell = sum(3**k * x for k, x in enumerate(above)) + np.zeros(n_rows, int)
        steps = rng.dirichlet(np.full(3, 0.5), 9).cumsum(axis=1)
        columns[f"x{i}"] = np.minimum((rng.random(n_rows)[:, None] > steps[cell]).sum(axis=1), 2)
    return columns


def total(score, graph):
    """The score of a graph, family by family."""
    number = {v: i for i, v in enumerate(score.names)}
    return sum(score.local(number[v], tuple(sorted(number[u] for u in graph.predecessors(v)))) for v in graph)


def neighbours(graph):
    """All graphs one edge away, made by networkx."""
    for u, v in itertools.permutations(graph, 2):
        if graph.has_edge(u, v):
            less = graph.copy()
            less.remove_edge(u, v)
            yield (u, v, False), less
            turned = less.copy()
            turned.add_edge(v, u)
            yield (u, v, True), turned
        elif not graph.has_edge(v, u):
            more = graph.copy()
            more.add_edge(u, v)
            yield (u, v, False), more


@pytest.fixture(scope="module")
def data():
    return planted()


@pytest.fixture(scope="module")
def bdeu(data):
    return load_score("bdeu", data)


@pytest.mark.parametrize("seed", range(5))
def test_every_move_adds_what_full_rescoring_says(seed):
    score = load_score("bdeu", tangled(6, seed=seed))
    scorer = Scorer(
        score, Constraints.of(score.names, forbidden=[("x0", "x3")], required=[("x4", "x5")], max_parents=2)
    )
    climber = Climber(scorer, scorer.parents_of(None))
    rng = np.random.default_rng(seed)
    for _ in range(15):
        graph = scorer.graph(climber.parents)
        gains, legal = climber.gains(), set()
        for (u, v, reverse), other in neighbours(graph):
            at = (scorer.names.index(u), scorer.names.index(v), int(reverse))
            if not nx.is_directed_acyclic_graph(other) or not keeps(scorer.constraints, other):
                continue
            legal.add(at)
            assert gains[at] == pytest.approx(total(score, other) - total(score, graph), abs=1e-8)
        assert set(map(tuple, np.argwhere(gains > -np.inf).tolist())) == legal
        assert climber.score == pytest.approx(total(score, graph), abs=1e-8)
        climber.apply(climber.move_at(int(rng.choice(np.flatnonzero(gains.reshape(-1) > -np.inf)))))


def keeps(constraints, graph):
    try:
        constraints.check(graph)
    except ModelError:
        return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_structure_hillclimb_never_falls_stays_acyclic_and_ends_on_a_top(seed):
    score = load_score("bic", tangled(seed=seed))
    seen = []
    found = hill_climbing.search(score, watch=lambda graph, value: seen.append((graph, value)))
    assert len(seen) > 5 and found.trace == tuple(value for _, value in seen)
    assert np.all(np.diff(found.trace) > -1e-7)
    for graph, value in seen:
        assert nx.is_directed_acyclic_graph(graph)
        assert value == pytest.approx(total(score, graph), abs=1e-8)
    assert found.score == pytest.approx(total(score, found.graph), abs=1e-8)
    tops = [total(score, g) for _, g in neighbours(found.graph) if nx.is_directed_acyclic_graph(g)]
    assert max(tops) <= found.score + 1e-6


def test_structure_hillclimb_from_a_guess(bdeu):
    guess = nx.DiGraph([("a", "g"), ("e", "a"), ("c", "b")])
    found = hill_climbing.search(bdeu, start=guess)
    guess.add_nodes_from(NAMES)
    assert found.trace[0] == pytest.approx(total(bdeu, guess))
    assert not found.graph.has_edge("a", "g") and found.score > found.trace[0] + 1000
    assert hill_climbing.search(bdeu, start=found.graph, level=0).trace == (pytest.approx(found.score),)


def test_structure_hillclimb_goes_on_along_the_level():
    better = 0
    for seed in range(6):
        score = load_score("bic", tangled(12, 3000, seed=seed))
        stopped, seen = hill_climbing.search(score, level=0, reinsertion=False), []
        found = hill_climbing.search(
            score, reinsertion=False, watch=lambda g, _, seen=seen: seen.append(frozenset(g.edges))
        )
        assert len(set(seen)) == len(seen)
        assert found.score >= stopped.score - 1e-9
        assert np.all(np.diff(found.trace) > -1e-6)
        better += found.score > stopped.score + 10
    assert better >= 3


def test_structure_hillclimb_leaves_tops_by_tabu_and_restarts():
    better = 0
    for seed in range(6):
        score = load_score("bic", tangled(10, seed=seed))
        plain = hill_climbing.search(score, level=0)
        by_tabu = tabu.search(score, tabu=50)
        by_restarts = hill_climbing.search(score, restarts=20, changes=5, rng=np.random.default_rng(0))
        assert min(by_tabu.score, by_restarts.score) >= plain.score - 1e-9
        better += max(by_tabu.score, by_restarts.score) > plain.score + 1e-6
    assert better >= 2


def test_structure_hillclimb_puts_variables_in_anew():
    """Optimal reinsertion never loses, and leaves tops that single edges do not leave."""
    better = 0
    for seed in range(6):
        score = load_score("bic", tangled(12, 3000, seed=seed))
        plain, more = (hill_climbing.search(score, level=0, reinsertion=r) for r in (False, True))
        assert more.score >= plain.score - 1e-9
        better += more.score > plain.score + 10
    assert better >= 3


@pytest.mark.parametrize("search", [hill_climbing.search, tabu.search])
@pytest.mark.parametrize("word", ["bic", "bdeu"])
def test_constant_columns_change_nothing(search, word):
    """An edge at a constant column costs and gains nothing: climbs used to walk among such graphs."""
    table = tangled(8, seed=1)
    plain = search(load_score(word, table))
    same = np.zeros(len(table["x0"]), int)
    with pytest.warns(UserWarning, match="constant"):
        score = load_score(word, {"AA": same, **table, "zz": same})
    found = search(score)
    assert set(found.graph.edges) == set(plain.graph.edges)
    assert found.score == pytest.approx(plain.score, rel=1e-12)


def test_tabu_goes_back_to_no_recent_graph():
    seen = []
    score = load_score("bic", tangled())
    hill_climbing.search(score, tabu=40, watch=lambda g, _: seen.append(frozenset(g.edges)))
    assert len(seen) > 50
    assert all(len(set(seen[i : i + 40])) == len(seen[i : i + 40]) for i in range(len(seen)))


SEARCHES = {
    "hill climbing": hill_climbing.search,
    "restarts": lambda s, **k: hill_climbing.search(s, restarts=3, rng=np.random.default_rng(1), **k),
    "tabu": lambda s, **k: tabu.search(s, tabu=20, **k),
    "greedy": greedy_parents.search,
    "annealing": lambda s, **k: annealing.search(s, proposals=5000, rng=np.random.default_rng(1), **k),
    "orders": lambda s, **k: order_search.search(s, steps=2000, rng=np.random.default_rng(1), **k),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_constraints_hold(name):
    score = load_score("bdeu", tangled(8))
    free = SEARCHES[name](score).graph
    wanted = Constraints.of(
        score.names,
        required=[("x7", "x0"), ("x1", "x2")],
        forbidden=[e for e in free.edges if e not in {("x7", "x0"), ("x1", "x2")}][:4],
        tiers=[["x6", "x7"], ["x3"]],
        max_parents={"x4": 1, "x5": 2},
    )
    found = SEARCHES[name](score, constraints=wanted)
    wanted.check(found.graph)
    assert nx.is_directed_acyclic_graph(found.graph) and set(found.graph) == set(score.names)
    assert not keeps(wanted, free)
    assert found.score == pytest.approx(total(score, found.graph), abs=1e-7)


@pytest.mark.parametrize("name", ["hill climbing", "tabu", "annealing", "orders"])
def test_a_known_net_is_recovered(bdeu, name):
    found = SEARCHES[name](bdeu)
    assert equivalent(found.graph, TRUTH)


def test_structure_greedy_add_recovers_a_known_net(data):
    """Without f, whose edge with b alone is stronger turned round: what adds only cannot mend that."""
    score = load_score("bdeu", {v: column for v, column in data.items() if v != "f"})
    found = greedy_parents.search(score)
    assert equivalent(found.graph, TRUTH.subgraph("abcdeg"))
    assert len(found.trace) == 5 and np.all(np.diff(found.trace) > 0)


def test_structure_ordering_true_order_gives_the_true_parents(bdeu):
    order = ["a", "b", "g", "c", "d", "e", "f"]
    assert set(greedy_parents.search(bdeu, order=order).graph.edges) == set(TRUTH.edges)
    found = order_search.best_for_order(ScoreTable.build(bdeu), order)
    assert set(found.graph.edges) == set(TRUTH.edges)
    assert found.score == pytest.approx(total(bdeu, TRUTH))


def test_structure_ordering_finds_the_best_of_all_graphs():
    for seed in range(6):
        table = table_of(4, random_scores(seed, 3.0))
        best = Everything.of(table).scores.max()
        found = order_search.search(table, steps=3000, hottest=5, coldest=0.1, rng=np.random.default_rng(seed))
        assert found.score == pytest.approx(best)
        assert table.of_graph(found.graph) == pytest.approx(best)
        assert np.all(np.diff(found.trace) >= -1e-9)


def test_structure_ordering_best_graph_of_an_order_by_enumeration():
    table = table_of(4, random_scores(7, 3.0))
    every = Everything.of(table)
    for order in itertools.permutations(range(4)):
        place = np.argsort(order)
        agree = np.all((every.adjacency == 0) | (place[:, None] < place[None, :]), axis=(1, 2))
        found = order_search.best_for_order(table, [f"v{i}" for i in order])
        assert found.score == pytest.approx(every.scores[agree].max())


def test_structure_ordering_steps_of_the_walk_are_exact():
    """Gains added up along the walk equal the score of the order it ends at."""
    from bayeslab.structure.searches.toolbox.order_kernels import anneal, best_sets

    table = table_of(6, random_scores(1, 2.0)).pruned()
    rng = np.random.default_rng(0)
    order, choice = np.arange(6), np.empty(6, np.int64)
    parts = (table.pointer, table.sets, table.scores)
    best_sets(order, table.pointer, table.sets, choice)
    begun = table.scores[choice].sum()
    end, top = anneal(order, choice, begun, *parts, rng.random((500, 3)), np.full(500, 5.0), choice.copy(), begun)
    again = np.empty(6, np.int64)
    best_sets(order, table.pointer, table.sets, again)
    assert np.array_equal(again, choice) and sorted(order) == list(range(6))
    assert end == pytest.approx(table.scores[again].sum(), abs=1e-9) and top >= end


def trap(n_rows=1000):
    """c is a xor b: one parent alone says nothing of it, so that no single edge helps."""
    rng = np.random.default_rng(5)
    a, b, d = rng.integers(0, 2, (3, n_rows))
    return {"a": a, "b": b, "c": np.where(rng.random(n_rows) < 0.02, 1 - (a ^ b), a ^ b), "d": d}


def test_structure_anneal_leaves_a_planted_trap():
    score = load_score("bic", trap())
    climbed = hill_climbing.search(score)
    annealed = annealing.search(score, rng=np.random.default_rng(0), proposals=20_000)
    assert len(climbed.graph.edges) == 0
    assert annealed.score > climbed.score + 100
    assert len(annealed.graph.edges) == 2 and annealed.graph.degree("d") == 0


def test_structure_anneal_is_no_worse_than_hill_climbing():
    for seed in range(3):
        score = load_score("bic", tangled(seed=seed))
        annealed = annealing.search(score, rng=np.random.default_rng(seed), proposals=50_000, hottest=10, coldest=0.5)
        assert annealed.score >= hill_climbing.search(score).score - 1e-6


def mutual_information(x, y):
    joint = np.histogram2d(x, y, bins=(3, 3), range=((0, 3), (0, 3)))[0] / len(x)
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    return float(np.sum(joint[joint > 0] * np.log(joint[joint > 0] / apart[joint > 0])))


def all_trees(n):
    for code in itertools.product(range(n), repeat=n - 2):
        yield nx.from_prufer_sequence(list(code))


@pytest.mark.parametrize("seed", range(3))
def test_chow_liu_is_the_maximum_spanning_tree(seed):
    columns = tangled(5, seed=seed)
    names = list(columns)
    information = {
        frozenset((i, j)): mutual_information(columns[names[i]], columns[names[j]])
        for i, j in itertools.combinations(range(5), 2)
    }
    best = max(all_trees(5), key=lambda tree: sum(information[frozenset(e)] for e in tree.edges))
    score = load_score("log_likelihood", columns)
    found = chow_liu.search(score, root="x2")
    assert {frozenset(e) for e in found.graph.edges} == {frozenset((names[i], names[j])) for i, j in best.edges}
    assert found.graph.in_degree("x2") == 0 and max(dict(found.graph.in_degree).values()) == 1
    gain = found.score - chow_liu_empty(score)
    assert gain == pytest.approx(400 * sum(information[frozenset(e)] for e in best.edges))


def chow_liu_empty(score):
    return sum(score.local(v, ()) for v in range(len(score.names)))


def test_chow_liu_leaves_out_edges_that_do_not_pay(bdeu):
    found = chow_liu.search(bdeu)
    assert found.graph.degree("g") == 0 and len(found.graph.edges) == 5
    assert found.trace[-1] == pytest.approx(found.score)
    with refused("model.not-suited", "score.*bdeu"):
        chow_liu.search(load_score("k2", tangled(4)))
    with refused("model.unknown-variable", "root.*'z'"):
        chow_liu.search(bdeu, root="z")


def test_tan_has_the_most_likely_tree_of_attributes():
    columns = tangled(5)
    score = load_score("log_likelihood", columns)
    names, found = list(columns), tan.search(score, target="x4")

    def likelihood(tree):
        graph = nx.DiGraph([(names[u], names[v]) for u, v in nx.bfs_edges(tree, 0)])
        graph.add_edges_from(("x4", v) for v in names[:4])
        return total(score, graph)

    assert found.score == pytest.approx(max(map(likelihood, all_trees(4))))
    assert all(found.graph.has_edge("x4", v) for v in names[:4]) and len(found.graph.edges) == 7
    with refused("model.unknown-variable", "'x9'"):
        tan.search(score, target="x9")
    with refused("data.not-states", "discrete"):
        tan.search(load_score("bge", {"x": [0.1, 0.4, 0.2], "y": [1.0, 2.0, 4.0]}), target="x")


@pytest.mark.parametrize("name", [*SEARCHES, "chow-liu", "order given"])
def test_the_order_of_columns_does_not_matter(name):
    searches = {
        **SEARCHES,
        "chow-liu": chow_liu.search,
        "order given": lambda s: greedy_parents.search(s, order=sorted(s.names)),
    }
    for kind in ("bdeu", "bic"):
        columns = tangled(7, n_rows=2000, seed=3)
        first = searches[name](load_score(kind, columns))
        for seed in range(4):
            order = np.random.default_rng(seed).permutation(list(columns))
            other = searches[name](load_score(kind, {str(v): columns[str(v)] for v in order}))
            assert set(other.graph.edges) == set(first.graph.edges)
            assert list(other.graph) == order.tolist()
            assert other.score == pytest.approx(first.score, rel=1e-12)


_PROGRAM = """
import numpy as np
from tests.structure.test_searches import SEARCHES, load_score, tangled
score = load_score("bdeu", tangled(6))
print([sorted(search(score).graph.edges) for search in SEARCHES.values()])
"""


@pytest.mark.slow(why="processes")
def test_hash_seeds_do_not_matter():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(outputs) == 1 and len(outputs.pop()) > 100


def test_numbers_and_their_score():
    rng = np.random.default_rng(2)
    x, z = rng.normal(size=(2, 2000))
    y = x + z + 0.5 * rng.normal(size=2000)
    w = y + rng.normal(size=2000)
    score = load_score("bge", {"w": w, "x": x, "y": y, "z": z})
    truth = nx.DiGraph([("x", "y"), ("z", "y"), ("y", "w")])
    for search in (tabu.search, SEARCHES["orders"], SEARCHES["annealing"]):
        assert equivalent(search(score).graph, truth)


def test_many_variables_need_few_scores():
    rng = np.random.default_rng(0)
    columns = {"v000": rng.integers(0, 2, 500)}
    for i in range(1, 80):
        flip = rng.random(500) < 0.1
        columns[f"v{i:03}"] = np.where(flip, 1 - columns[f"v{i - 1:03}"], columns[f"v{i - 1:03}"])
    found = hill_climbing.search(load_score("bic", columns))
    chain = {frozenset((f"v{i:03}", f"v{i + 1:03}")) for i in range(79)}
    assert chain <= {frozenset(e) for e in found.graph.edges}
    assert found.n_scored < 3 * 80 * 80


def test_a_table_serves_as_well_as_its_score():
    score = load_score("bdeu", tangled(6))
    wanted = Constraints.of(score.names, required=[("x3", "x1")], forbidden=[("x0", "x1")], max_parents=3)
    table = ScoreTable.build(score, constraints=wanted, prior="sparse")
    lazy = hill_climbing.search(score, constraints=wanted, prior="sparse")
    assert set(hill_climbing.search(table).graph.edges) == set(lazy.graph.edges)
    assert table.of_graph(lazy.graph) == pytest.approx(lazy.score)
    assert lazy.score < total(score, lazy.graph)  # the prior counts
    best = order_search.search(table, steps=5000, rng=np.random.default_rng(0))
    wanted.check(best.graph)
    assert best.score >= lazy.score - 1e-9


def test_one_variable_and_none_to_join():
    score = load_score("bdeu", {"only": [0, 1, 1, 0]})
    for search in SEARCHES.values():
        found = search(score)
        assert list(found.graph) == ["only"] and found.score == pytest.approx(score.local(0, ()))


def test_results_side_by_side(bdeu):
    best, empty = hill_climbing.search(bdeu), hill_climbing.search(bdeu, max_steps=0)
    rows = comparison_table({"empty": empty, "climbed": best}, TRUTH)
    assert [row["search"] for row in rows] == ["climbed", "empty"]
    assert [row["shd_cpdag"] for row in rows] == [0, 6] and [row["edges"] for row in rows] == [6, 0]
    assert "shd" not in comparison_table({"empty": empty})[0]
    assert "6 edges" in repr(best)


def test_what_cannot_be_is_said(bdeu):
    with refused("model.cycle"):
        hill_climbing.search(bdeu, start=nx.DiGraph([("a", "b"), ("b", "a")]))
    with refused("model.unknown-variable", "'h'"):
        hill_climbing.search(bdeu, start=nx.DiGraph([("a", "h")]))
    wanted = Constraints.of(bdeu.names, required=[("a", "b")])
    with refused("model.missing-edge", "a -> b"):
        hill_climbing.search(bdeu, start=nx.DiGraph([("a", "c")]), constraints=wanted)
    with refused("model.contradiction", "a -> b.*order"):
        greedy_parents.search(bdeu, order=list("gfedcba"), constraints=wanted)
    with refused("model.incomplete", r"order.*\bg\b"):
        greedy_parents.search(bdeu, order=list("abcdef"))
    with refused("option.incomplete", "restarts.*default_rng"):
        hill_climbing.search(bdeu, restarts=1)
    with refused("option.out-of-range", "tabu"):
        tabu.search(bdeu, tabu=-1)
    with refused("option.unknown-word", "'hill_climbing'"):
        load("hill_climbin")
    with refused("model.conflict", "prior"):
        hill_climbing.search(ScoreTable.build(load_score("bdeu", tangled(3))), prior="sparse")
    assert load("tabu") is tabu
    assert isinstance(bdeu.data, Observations)


def test_ges_recovers_the_class_of_a_known_net(bdeu):
    found = ges.search(bdeu)
    assert equivalent(found.graph, TRUTH)
    assert np.all(np.diff(found.trace) > 0)
    assert found.score == pytest.approx(total(bdeu, found.graph))


@pytest.mark.parametrize("seed", range(4))
def test_ges_ends_where_no_neighbouring_class_is_better(seed):
    """Deleting an edge of any member of the class reaches every class that lies below it: none scores more."""
    score = load_score("bic", tangled(6, seed=seed))
    found = ges.search(score)
    for member in class_members(found.graph):
        assert total(score, member) == pytest.approx(found.score, abs=1e-7)
        for u, v in member.edges:
            less = member.copy()
            less.remove_edge(u, v)
            assert total(score, less) <= found.score + 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_ges_first_step_is_the_best_edge_and_steps_gain_what_they_say(seed):
    score = load_score("bic", tangled(6, seed=seed))
    found = ges.search(score)
    number = range(len(score.names))
    best = max(score.local(v, (u,)) - score.local(v, ()) for u, v in itertools.permutations(number, 2))
    assert found.trace[1] - found.trace[0] == pytest.approx(best)
    permuted = {v: tangled(6, seed=seed)[v] for v in reversed(list(tangled(6, seed=seed)))}
    assert equivalent(ges.search(load_score("bic", permuted)).graph, found.graph)
    with refused("model.unsupported", "table"):
        ges.search(ScoreTable.build(score))


@pytest.mark.parametrize("seed", range(3))
def test_ges_operators_lead_to_all_neighbouring_classes(seed):
    """Each gain is the change of the whole score, and the best one that of the best edge more in any member."""
    score = load_score("bic", tangled(5, seed=seed))
    scorer = Scorer(score)
    parents, steps = scorer.parents_of(None), 0
    while True:
        members = list(class_members(scorer.graph(parents)))
        now = total(score, members[0])
        more = [
            total(score, other) - now
            for member in members
            for _, other in neighbours(member)
            if len(other.edges) > len(member.edges) and nx.is_directed_acyclic_graph(other)
        ]
        state = ges.Class.of(parents)
        step = ges.best(scorer, state, list(ges.insertions(state)))
        if step is None:
            assert max(more, default=0) <= 1e-6
            break
        gain = scorer.local(step.y, step.after) - scorer.local(step.y, step.before)
        parents, steps = state.after(step), steps + 1
        assert gain == pytest.approx(max(more), abs=1e-7)
        assert gain == pytest.approx(total(score, scorer.graph(parents)) - now, abs=1e-7)
    assert steps >= 3
