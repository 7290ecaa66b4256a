"""Structural EM: expected counts against junction trees, scores against closed forms, searches against plain ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.latents.expectation_maximisation import maximise
from bayeslab.latents.networks.incomplete_rows import IncompleteRows
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.learning import TableProblem, maximum_likelihood
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.structure import scores
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.cpdag import class_distance
from bayeslab.structure.data import Observations
from bayeslab.structure.incomplete import Incomplete
from bayeslab.structure.searches import structural_em, tabu
from bayeslab.structure.searches.structural_em import GraphTables, Task, outer_inner, search
from tests.refusals import refused

Structure = Mapping[str, tuple[str, ...]]


def states_of(names: str | tuple[str, ...], card: int = 2) -> dict[str, tuple[str, ...]]:
    return {v: tuple(str(i) for i in range(card)) for v in names}


def sampled(network: DiscreteNetwork, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows, variable by variable; parents come first."""
    place = {v: i for i, v in enumerate(network.states)}
    codes = np.zeros((n, len(place)), int)
    for v, table in network.tables.items():
        p = table[tuple(codes[:, place[u]] for u in network.parents[v])]
        p = np.broadcast_to(p, (n, table.shape[-1]))
        codes[:, place[v]] = (rng.random(n)[:, None] > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    return codes


def holes(codes: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(codes.shape) < share, -1, codes)


def asia() -> DiscreteNetwork:
    """Lauritzen and Spiegelhalter (1988); the rare causes are less rare, so that some hundred rows know of them."""
    parents: Structure = {
        "asia": (), "smoke": (), "tub": ("asia",), "lung": ("smoke",), "bronc": ("smoke",), "either": ("tub", "lung"),
        "xray": ("either",), "dysp": ("bronc", "either"),
    }  # fmt: skip

    def yes(p):
        p = np.asarray(p, float)
        return np.stack([p, 1 - p], axis=-1)

    tables = {
        "asia": yes(0.3), "smoke": yes(0.5), "tub": yes([0.5, 0.05]), "lung": yes([0.4, 0.05]), "bronc": yes([0.7, 0.2]),
        "either": yes([[1, 1], [1, 0]]), "xray": yes([0.95, 0.05]), "dysp": yes([[0.95, 0.75], [0.7, 0.1]]),
    }  # fmt: skip
    return DiscreteNetwork(dict.fromkeys(parents, ("yes", "no")), parents, tables)


HEART: Structure = {
    "smoking": (), "diet": (), "exercise": (), "disease": ("smoking", "diet", "exercise"), "chest": ("disease",),
    "breath": ("disease",), "pressure": ("disease",),
}  # fmt: skip


def heart(rng: np.random.Generator) -> DiscreteNetwork:
    """Three causes, the disease, three symptoms, of three states each; the more of the causes, the worse."""
    tables = {v: rng.dirichlet(np.full(3, 8.0)) for v in ("smoking", "diet", "exercise")}
    load = np.add.outer(np.add.outer(np.arange(3), np.arange(3)), np.arange(3)) / 3
    near = np.exp(-3.0 * np.abs(load[..., None] - np.arange(3)))
    tables["disease"] = near / near.sum(axis=-1, keepdims=True)
    for v in ("chest", "breath", "pressure"):
        tables[v] = 0.82 * np.eye(3)[rng.permutation(3)] + 0.06
    return DiscreteNetwork(states_of(tuple(HEART), 3), HEART, tables)


def n_parameters(states, parents) -> int:
    return sum((len(states[v]) - 1) * math.prod(len(states[u]) for u in own) for v, own in parents.items())


# --------------------------------------------------------------------------------- expected counts


def test_expected_counts_of_any_family_are_those_of_junction_trees():
    rng = np.random.default_rng(1)
    net = asia()
    gone = holes(sampled(net, 60, rng), 0.3, rng)
    rows = Incomplete.of_codes(gone, net.states)
    graph = nx.DiGraph([(u, v) for v, own in net.parents.items() for u in own])
    task = Task(rows, structural_em.Setting("bic", {}, None, "uniform", "tabu", 10, 1e-6))
    log_likelihood, expected = GraphTables.of(task, graph).complete(
        {v: net.tables[v] if len(own) < 2 else _sorted(net, v, rows.names) for v, own in net.parents.items()}
    )
    tree = JunctionTree.of(net)
    evidence, counts = tree.expected_counts(rows.codes.astype(np.int64), rows.weights)
    assert log_likelihood == pytest.approx(float(rows.weights @ evidence), rel=1e-10)
    own = rows.completions.observations(expected)
    for v, count in zip(net.states, counts, strict=True):
        family = [list(net.states).index(u) for u in (*net.parents[v], v)]
        found = np.zeros(count.shape)
        np.add.at(found, tuple(own.codes[:, u] for u in family), own.weights)
        np.testing.assert_allclose(found, count, atol=1e-9)
    # A pair that shares no family: by asking for it row by row, in two steps.
    found = np.zeros((2, 2))
    np.add.at(found, (own.codes[:, 0], own.codes[:, 6]), own.weights)
    truth = np.zeros((2, 2))
    for row, weight in zip(rows.codes, rows.weights, strict=True):
        for i, j in itertools.product(range(2), range(2)):
            filled = row.astype(np.int64)
            if (filled[0], filled[6]) in itertools.product((-1, i), (-1, j)):
                filled[[0, 6]] = i, j
                both = tree.expected_counts(np.stack([row.astype(np.int64), filled]), np.ones(2))[0]
                truth[i, j] += weight * math.exp(both[1] - both[0])
    np.testing.assert_allclose(found, truth, atol=1e-9)


def _sorted(net, v, names):
    """A table with its parents in the order of the columns."""
    own = net.parents[v]
    order = sorted(range(len(own)), key=lambda i: names.index(own[i]))
    return net.tables[v].transpose(*order, len(own))


@pytest.fixture(scope="module")
def small():
    """Five variables, a fifth of the cells missing."""
    rng = np.random.default_rng(4)
    parents: Structure = {"a": (), "b": (), "c": ("a", "b"), "d": ("c",), "e": ("c",)}
    tables = {
        "a": np.array([0.4, 0.6]), "b": np.array([0.7, 0.3]), "c": np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.4, 0.6], [0.05, 0.95]]]),
        "d": np.array([[0.9, 0.1], [0.2, 0.8]]), "e": np.array([[0.15, 0.85], [0.7, 0.3]]),
    }  # fmt: skip
    net = DiscreteNetwork(states_of("abcde"), parents, tables)
    codes = sampled(net, 800, rng)
    return net, codes, Incomplete.of_codes(holes(codes, 0.2, rng), net.states)


# --------------------------------------------------------------------------------- scores that never fall


@pytest.mark.parametrize("start", [None, "wrong"])
def test_neither_score_falls_and_the_observed_one_rises_at_least_as_much(small, start):
    """Friedman's theorem, for a penalised likelihood."""
    net, _, rows = small
    graph = nx.DiGraph([("d", "a"), ("e", "b"), ("a", "e")]) if start else None
    found = search(rows, score="bic", start=graph, starts=1, tolerance=1e-9)
    assert len(found.trace) >= 2
    for before, after in found.expected:
        assert after >= before - 1e-9
    for (before, after), one, other in zip(found.expected, found.trace, found.trace[1:], strict=False):
        assert other - one >= after - before - 1e-5
    assert class_distance(found.graph, nx.DiGraph([(u, v) for v, own in net.parents.items() for u in own])) == 0


@pytest.mark.parametrize("score", ["bdeu", "k2", "aic"])
def test_scores_on_the_way_rise(small, score):
    found = search(small[2], score=score, starts=1)
    assert np.all(np.diff(found.trace) > 0)
    assert all(after >= before - 1e-9 for before, after in found.expected)


def test_the_score_is_the_observed_likelihood_less_the_penalty(small):
    rows = small[2]
    found = search(rows, score="bic")
    net = found.network
    incomplete = IncompleteRows.of(net.states, net.parents, rows.codes.astype(np.int64), rows.weights)
    tables = [net.tables[v] for v in net.states]
    log_likelihood = incomplete.expected_counts(tables)[0]
    assert found.log_likelihood == pytest.approx(log_likelihood, rel=1e-9)
    free = n_parameters(net.states, net.parents)
    assert found.n_parameters == free
    assert found.score == pytest.approx(log_likelihood - 0.5 * free * math.log(800), rel=1e-9)


def test_cheeseman_and_stutz_is_the_evidence_where_nothing_is_missing_and_near_it_where_little_is(small):
    """Against the sum over all completions of two missing cells."""
    net, codes, _ = small
    codes = codes[:40].copy()
    where = [(3, 2), (11, 3)]
    graph = nx.DiGraph([(u, v) for v, own in net.parents.items() for u in own])
    logs = []
    for filled in itertools.product(range(2), repeat=2):
        for (row, column), x in zip(where, filled, strict=True):
            codes[row, column] = x
        score = scores.load("bdeu", Observations.of_codes(codes, net.states), equivalent_sample_size=1)
        place = {v: i for i, v in enumerate(net.states)}
        logs.append(sum(score.local(place[v], tuple(place[u] for u in own)) for v, own in net.parents.items()))
    exact = float(np.logaddexp.reduce(logs))
    for row, column in where:
        codes[row, column] = -1
    setting = structural_em.Setting("bdeu", {"equivalent_sample_size": 1}, None, "uniform", "tabu", 100, 1e-9)
    task = Task(Incomplete.of_codes(codes, net.states), setting)
    start = structural_em.first_tables(task, graph, np.random.default_rng(0))
    fit = task.fitted(graph, start, structural_em.Tally())
    assert fit.score == pytest.approx(exact, abs=0.25)
    assert abs(fit.score - exact) < abs(max(logs) - exact)


# --------------------------------------------------------------------------------- against other ways


def test_it_takes_far_fewer_passes_than_em_for_every_neighbour(small):
    rows = small[2]
    fast, slow = search(rows, score="bic", starts=1), outer_inner(rows, score="bic")
    assert fast.score >= slow.score - 1e-2
    assert fast.e_steps < slow.e_steps / 10


@pytest.mark.parametrize("score", ["bic", "bdeu", "k2"])
def test_without_missing_cells_it_is_the_plain_search(small, score):
    net, codes, _ = small
    seen = Observations.of_codes(codes, net.states)
    plain, found = tabu.search(scores.load(score, seen)), search(seen, score=score)
    assert set(found.graph.edges) == set(plain.graph.edges)
    assert found.score == pytest.approx(plain.score, rel=1e-10)
    assert found.e_steps == 0


def test_cells_missing_at_random_cost_little_of_asia():
    rng = np.random.default_rng(7)
    net = asia()
    codes = sampled(net, 3000, rng)
    seen = Observations.of_codes(codes, net.states)
    whole = tabu.search(scores.load("bdeu", seen, equivalent_sample_size=1)).graph
    truth = nx.DiGraph([(u, v) for v, own in net.parents.items() for u in own])
    rows = Incomplete.of_codes(holes(codes, 0.1, rng), net.states)
    found = search(rows, score="bdeu", score_options={"equivalent_sample_size": 1})
    assert class_distance(found.graph, whole) <= 1
    assert class_distance(found.graph, truth) <= class_distance(whole, truth) + 1
    # Rows without a missing cell alone, four in ten, see no more.
    few = rows.whole_rows()
    assert few is not None and few.n_rows < 1500
    # What it would have been to know the cells: the tables.
    assert bl.Network(found.network).query()["smoke"]["yes"] == pytest.approx(0.5, abs=4 * math.sqrt(0.25 / 2700))


def test_constraints_are_kept(small):
    names = tuple(small[0].states)
    known = Constraints.of(names, required=[("e", "d")], forbidden=[("a", "c"), ("c", "a")], max_parents=2)
    found = search(small[2], constraints=known, starts=3, rng=np.random.default_rng(1))
    known.check(found.graph)


# --------------------------------------------------------------------------------- hidden variables


@pytest.fixture(scope="module")
def patients():
    net = heart(np.random.default_rng(2))
    codes = sampled(net, 2500, np.random.default_rng(3))
    seen = {v: own for v, own in net.states.items() if v != "disease"}
    return net, np.delete(codes, 3, axis=1), seen


@pytest.mark.slow(why="statistical")
def test_seventy_eight_parameters_with_the_disease_are_preferred_to_708_without(patients):
    """The figures of the textbook; EM and counting by other modules than the search."""
    net, codes, seen = patients
    dense = dict.fromkeys(("smoking", "diet", "exercise"), ())
    causes = ("smoking", "diet", "exercise")
    dense |= {"chest": causes, "breath": (*causes, "chest"), "pressure": (*causes, "chest", "breath")}
    assert n_parameters(net.states, net.parents) == 78
    assert n_parameters(seen, dense) == 708
    half_log = 0.5 * math.log(len(codes))
    without = maximum_likelihood(codes, seen, dense).log_likelihood - 708 * half_log
    order = [*seen, "disease"]
    states = {v: net.states[v] for v in order}
    unknown = np.column_stack([codes, np.full(len(codes), -1)])
    blank = DiscreteNetwork(states, {v: net.parents[v] for v in order}, {v: net.tables[v] for v in order})
    problem = TableProblem.of(blank, unknown)
    ends = [maximise(problem, problem.start(np.random.default_rng(i)), max_iterations=300) for i in range(3)]
    with_it = max(end.log_likelihood for end in ends) - 78 * half_log
    assert with_it > without + 500

    found = search(Incomplete.of_codes(codes, seen), hidden={"disease": 3}, score="bic", rng=np.random.default_rng(1))
    assert found.hidden == {"disease": 3}
    assert found.score >= with_it - 0.1
    assert found.n_parameters <= 78
    assert {"chest", "breath", "pressure"} <= set(found.graph.successors("disease")) | set(
        found.graph.predecessors("disease")
    )
    plain = tabu.search(scores.load("bic", Observations.of_codes(codes, seen)))
    assert found.score > plain.score + 100


@pytest.mark.slow(why="large")
def test_hidden_variables_are_invented_only_if_the_score_rises(patients):
    _, codes, seen = patients
    rows = Incomplete.of_codes(codes, seen)
    plain = tabu.search(scores.load("bic", Observations.of_codes(codes, seen)))
    found = search(rows, invent=1, score="bic", rng=np.random.default_rng(1))
    given = search(rows, hidden={"h": 3}, score="bic", rng=np.random.default_rng(1))
    assert set(found.hidden) == {"hidden1"}
    assert found.score >= given.score - 0.1 > plain.score + 100
    assert found.score == max([plain.score, *(move.after for move in found.moves)])
    assert {move.what.split(" ")[0] for move in found.moves} >= {"add", "delete", "hidden1:"}
    taken = plain.score
    for before, tried in itertools.groupby(found.moves, key=lambda move: move.before):
        own = list(tried)
        assert before == pytest.approx(taken, abs=1e-6)
        best = max(move.after for move in own)
        taken = max(taken, best)
        assert all(move.accepted == (move.after > before + 1e-6) for move in own)
    assert not any(move.accepted for move in own)


@pytest.mark.slow(why="statistical")
def test_nothing_is_invented_where_nothing_is_hidden(small):
    net, codes, _ = small
    found = search(Observations.of_codes(codes, net.states), invent=2, score="bic", rng=np.random.default_rng(1))
    assert found.hidden == {} and found.moves
    assert not any(move.accepted for move in found.moves)
    assert set(found.graph.nodes) == set("abcde")


def test_constraints_know_of_hidden_variables(patients):
    _, codes, seen = patients
    known = Constraints.of((*seen, "h"), forbidden=[(v, "h") for v in seen])
    found = search(
        Incomplete.of_codes(codes[:400], seen), hidden={"h": 2}, constraints=known, starts=2,
        rng=np.random.default_rng(1),
    )  # fmt: skip
    assert not list(found.graph.predecessors("h"))


# --------------------------------------------------------------------------------- tables, words, errors


def test_tables_are_read_with_their_missing_cells():
    table = pd.DataFrame({"a": ["x", None, "y", "x"], "b": [1.0, 0.0, np.nan, 1.0], "c": [True, False, True, True]})
    rows = Incomplete.of(table)
    assert rows.states == {"a": ("x", "y"), "b": ("0", "1"), "c": ("False", "True")}
    assert sorted(map(tuple, rows.codes.tolist())) == [(-1, 0, 0), (0, 1, 1), (1, -1, 1)]
    assert sorted(rows.weights.tolist()) == [1.0, 1.0, 2.0]
    again = Incomplete.of({"a": ["x", None, "y", "x"], "b": [1, 0, None, 1], "c": [1, 0, 1, 1]})
    np.testing.assert_array_equal(again.codes, rows.codes)
    given = Incomplete.of({"a": ["x", None]}, states={"a": ["y", "x"]})
    assert given.codes[:, 0].tolist() == [-1, 1]
    with refused("data.unknown-state", "'z'"):
        Incomplete.of({"a": ["z", None]}, states={"a": ["y", "x"]})


@pytest.mark.slow(why="large")
def test_learn_takes_tables_with_missing_cells(small):
    net, codes, _ = small
    gone = holes(codes, 0.1, np.random.default_rng(3))
    words = np.array(["no", "yes", None], dtype=object)
    table = pd.DataFrame({v: words[gone[:, i]] for i, v in enumerate(net.states)})
    with refused("data.missing", "'a'.*rows 1"):
        bl.learn(table)
    found = bl.learn(table, "structural_em", "bic", forbidden=[("e", "a")])
    assert class_distance(found.graph, nx.DiGraph([(u, v) for v, own in net.parents.items() for u in own])) == 0
    learned = found.network()
    p = learned.query({"c": "yes"})["d"]
    assert float(p["yes"]) == pytest.approx(0.8, abs=0.1)
    assert "structural_em" in repr(found)
    for options in ({"hidden": {"h": 2}, "starts": 1}, {"invent": 1}):
        assert bl.learn(table[:200], "structural_em", "bic", **options).graph
    with refused("option.unknown-option", "'hiden'"):
        bl.learn(table, "structural_em", hiden={"h": 2})


def test_what_cannot_be_is_said(small):
    rows = small[2]
    with refused("option.not-suited", "'bds'"):
        search(rows, score="bds")
    with refused("model.name-clash", "'a'"):
        search(rows, hidden={"a": 2})
    with refused("model.out-of-range", "hidden.*'h'"):
        search(rows, hidden={"h": 1})
    with refused("option.out-of-range", "starts"):
        search(rows, starts=0)
    with refused("option.unknown-word", "hill_climbing"):
        search(rows, inner="ges")
    with refused("data.no-values"):
        Incomplete.of({"a": ["x", "y"], "b": [None, None]})
    names = tuple(f"v{i}" for i in range(20))
    with refused("engine.refused.too-costly"):
        search(Incomplete.of_codes(np.full((2, 20), -1), states_of(names)))
