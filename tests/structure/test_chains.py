"""Chains over structures against all DAGs of small tables: frequencies, detailed balance, and the same draws again."""

from __future__ import annotations

import io
import itertools
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from scipy.stats import chi2, norm

from bayeslab.structure.chains import load, order, partition, structure
from bayeslab.structure.chains.toolbox.tempering import Tempered
from bayeslab.structure.constraints import mask_of
from bayeslab.structure.score_table import ScoreTable
from tests.refusals import refused
from tests.structure._dags import Everything, flat, needs_first, not_from_last, random_scores, table_of

CHAINS = {"structure": structure, "order": order, "partition": partition}


TABLES = {
    "one": table_of(1, flat),
    "two": table_of(2, random_scores(1, 1.0)),
    "flat": table_of(4, flat),
    "uneven": table_of(4, random_scores(2, 1.2, -500.0)),
    "peaked": table_of(3, random_scores(3, 4.0)),
    "limited": table_of(4, random_scores(4, 1.2), max_parents=2),
    "a sink": table_of(4, random_scores(5, 1.0), not_from_last),
    "a required edge": table_of(4, random_scores(6, 1.0), needs_first),
    "five": table_of(5, random_scores(7, 0.8), max_parents=2),
    "wide": table_of(5, flat, max_parents=1),
}


@pytest.fixture(scope="module", params=CHAINS)
def chain(request):
    return CHAINS[request.param]


@pytest.fixture(scope="module", params=TABLES)
def table(request):
    return TABLES[request.param]


def ids(table, choices):
    """One number for each DAG."""
    return np.ravel_multi_index(tuple((choices - table.pointer[:-1]).T), tuple(table.n_sets))


def frequencies(table, every, draws):
    """Shares of the DAGs, in the order of ``every``; each draw is one of them."""
    known = ids(table, every.choices)
    order_ = np.argsort(known)
    place = np.searchsorted(known[order_], ids(table, draws))
    assert np.all(known[order_][np.minimum(place, len(known) - 1)] == ids(table, draws))
    return order_[place]


def start(chain, table, seed=0):
    return chain.init(table, np.random.default_rng(seed))


@pytest.mark.slow(why="statistical")
def test_structure_mcmc_visits_dags_as_often_as_they_are_probable(chain, table):
    """Thinned until draws are all but independent: a chi-square test over all DAGs."""
    every = Everything.of(table)
    state = start(chain, table)
    thin, n_draws = (150 if chain is structure else 40), 40_000
    state, _, _ = chain.run(table, state, 5_000, 5_000)
    state, draws, info = chain.run(table, state, thin * n_draws, thin)
    seen = frequencies(table, every, draws)
    expected = every.weights(by_orders=chain.PRIOR == "orders") * len(seen)
    counts = np.bincount(seen, minlength=len(expected))
    # Rare DAGs together, so that the statistic has its distribution.
    rare = expected < 8
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    counts, expected = counts[expected > 0], expected[expected > 0]
    statistic = np.sum((counts - expected) ** 2 / expected)
    assert statistic <= chi2.isf(1e-5, max(len(expected) - 1, 1))
    np.testing.assert_allclose(info.scores, every.scores[seen], atol=1e-9)


@pytest.mark.slow(why="statistical")
def test_structure_mcmc_finds_exact_edge_probabilities(chain):
    """Standard errors by batches of one long run."""
    for name in ("uneven", "five"):
        table = TABLES[name]
        every = Everything.of(table)
        want = every.mean(every.adjacency, by_orders=chain.PRIOR == "orders")
        _, draws, _ = chain.run(table, start(chain, table, 5), 1_000_000, 10)
        edges = every.adjacency[frequencies(table, every, draws)]
        batches = edges[: len(edges) // 50 * 50].reshape(50, -1, table.n, table.n).mean(axis=1)
        error = batches.std(axis=0, ddof=1) / np.sqrt(50)
        z = (batches.mean(axis=0) - want)[want > 0] / np.maximum(error[want > 0], 1e-4)
        assert np.max(np.abs(z)) < norm.isf(1e-5 / len(z))
        assert np.max(error) < 0.01


@pytest.mark.slow(why="statistical")
def test_structure_mcmc_single_steps_are_in_detailed_balance():
    """Of all pairs of DAGs: as many steps there as back, with each kind of step alone."""
    table = table_of(3, random_scores(9, 0.8))
    every = Everything.of(table)
    for options in (
        {"reversal": 0.0, "renewal": 0.0},
        {"reversal": 1.0, "renewal": 0.0},
        {"reversal": 0.0, "renewal": 1.0},
    ):
        shares = np.zeros((len(every.scores), len(every.scores)))
        # Reversals alone keep what is without edges: begin in many places.
        for seed in range(20):
            _, draws, _ = structure.run(table, start(structure, table, seed), 40_000, 1, **options)
            seen = frequencies(table, every, draws)
            np.add.at(shares, (seen[:-1], seen[1:]), 1)
        assert balanced(shares)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("reversal", [0.0, 0.7])
def test_structure_mcmc_of_partitions_is_in_detailed_balance(reversal):
    """The partition of a step is that of the DAG drawn from it."""
    table = TABLES["uneven"]
    _, draws, _ = partition.run(table, start(partition, table), 400_000, 1, reversal=reversal)
    unique, where = np.unique(draws, axis=0, return_inverse=True)
    layers = np.array([partition.layers_of(table, choice) for choice in unique])
    _, of_dag = np.unique(layers, axis=0, return_inverse=True)
    seen = of_dag[where]
    shares = np.zeros((of_dag.max() + 1, of_dag.max() + 1))
    np.add.at(shares, (seen[:-1], seen[1:]), 1)
    assert len(shares) == 75  # ordered partitions of four
    assert balanced(shares)


@pytest.mark.slow(why="statistical")
def test_structure_mcmc_of_orders_is_in_detailed_balance():
    table = TABLES["uneven"]
    state, places = start(order, table), {p: i for i, p in enumerate(itertools.permutations(range(4)))}
    shares = np.zeros((24, 24))
    for _ in range(30_000):
        before = places[tuple(state["order"].tolist())]
        state, _, _ = order.run(table, state, 1, 2)
        shares[before, places[tuple(state["order"].tolist())]] += 1
    assert balanced(shares)
    weight = np.array(
        [np.exp(order.log_weight(table, {**state, "order": np.array(p, np.int32)}) + 2000) for p in places]
    )
    np.testing.assert_allclose(shares.sum(axis=1) / shares.sum(), weight / weight.sum(), atol=0.03)


def balanced(shares):
    there, back = shares[np.triu_indices(len(shares), 1)], shares.T[np.triu_indices(len(shares), 1)]
    met = there + back > 10
    z = (there - back)[met] / np.sqrt((there + back)[met])
    assert met.sum() > 10
    return np.max(np.abs(z)) < norm.isf(1e-5 / met.sum()) and np.mean(z**2) < 1.6


def test_weights_of_partitions_and_orders_are_sums_over_their_dags():
    table = TABLES["limited"]
    every = Everything.of(table)
    layers = np.array([partition.layers_of(table, choice) for choice in every.choices])
    for layer in np.unique(layers, axis=0):
        inside = np.all(layers == layer, axis=1)
        want = np.log(np.sum(np.exp(every.scores[inside])))
        assert partition.log_weight(table, {"layer": layer}) == pytest.approx(want, abs=1e-11)
    for permutation in itertools.permutations(range(4)):
        place = np.argsort(permutation)
        inside = np.all((every.adjacency == 0) | (place[:, None] < place[None, :]), axis=(1, 2))
        want = np.log(np.sum(np.exp(every.scores[inside])))
        assert order.log_weight(table, {"order": np.array(permutation, np.int32)}) == pytest.approx(want, abs=1e-11)


def test_structure_mcmc_is_the_same_again_and_after_a_cut(chain):
    table = TABLES["five"]
    first = start(chain, table, 3)
    kept = {word: array.copy() for word, array in first.items()}
    last, draws, info = chain.run(table, first, 30_000, 7)
    assert all(np.array_equal(first[word], kept[word]) for word in kept)  # a state is never changed
    _, same, _ = chain.run(table, start(chain, table, 3), 30_000, 7)
    np.testing.assert_array_equal(draws, same)
    assert draws.dtype == np.int32 and draws.shape == (30_000 // 7, 5)
    state, pieces, scores = first, [], []
    for n_steps in (1, 12, 0, 9_987, 20_000):
        state, part, told = chain.run(table, state, n_steps, 7)
        with io.BytesIO() as file:  # written to a file and read back
            np.savez(file, **state)
            file.seek(0)
            with np.load(file) as held:
                state = {word: held[word] for word in held.files}
        pieces.append(part)
        scores.append(told.scores)
    np.testing.assert_array_equal(np.concatenate(pieces), draws)
    np.testing.assert_array_equal(np.concatenate(scores), info.scores)
    assert all(np.array_equal(state[word], last[word]) for word in last)
    _, other, _ = chain.run(table, start(chain, table, 4), 30_000, 7)
    assert not np.array_equal(other, draws)


def test_more_than_64_variables(chain):
    """Chains of pairs: variables far apart are in different words of a set."""
    n = 70
    rng = np.random.default_rng(8)
    pointer, sets, scores = [0], [], []
    for v in range(n):
        own = [(), ((v + 35) % n,), ((v + 35) % n, (v + 1) % n)]
        value = rng.normal(0, 1, 3)
        best = np.argsort(-value)
        sets += [mask_of(own[i], n) for i in best]
        scores += value[best].tolist()
        pointer.append(len(sets))
    table = ScoreTable(tuple(f"v{i}" for i in range(n)), np.array(pointer), np.array(sets), np.array(scores), "own")
    state, draws, info = chain.run(table, start(chain, table), 20_000, 100)
    assert len(np.unique(draws, axis=0)) > 10
    for choice, score in zip(draws[::20], info.scores[::20], strict=True):
        graph = table.graph(choice)
        assert nx.is_directed_acyclic_graph(graph)
        assert table.of_graph(graph) == pytest.approx(score, abs=1e-9)
    assert chain.log_weight(table, state) > -np.inf


def test_large_differences_between_scores():
    """A list that spans thousands of nats: sums that begin far down are still sums."""
    table = table_of(4, lambda child, masks: -900.0 * np.bitwise_count(masks) + np.arange(len(masks)) % 3)
    layer = np.arange(4, dtype=np.int32)
    every = Everything.of(table)
    inside = [np.array_equal(partition.layers_of(table, choice), layer) for choice in every.choices]
    best = every.scores[inside].max()
    want = best + np.log(np.sum(np.exp(every.scores[inside] - best)))
    assert partition.log_weight(table, {"layer": layer}) == pytest.approx(want, abs=1e-9)


def test_impossible_tables_and_options_are_errors(chain):
    circle = table_of(3, flat, allowed=lambda child, mask: bool(mask & 1 << (child + 1) % 3))
    with refused("model.no-acyclic-graph"):
        start(chain, circle)
    table = TABLES["two"]
    with refused("option.out-of-range", "n_steps"):
        chain.run(table, start(chain, table), 10, 0)
    with refused("option.out-of-range", r"reversal.*renewal.*0\.9, 0\.2"):
        structure.run(table, start(structure, table), 10, 1, reversal=0.9, renewal=0.2)
    with refused("option.out-of-range", r"reversal.*1\.5"):
        partition.run(table, start(partition, table), 10, 1, reversal=1.5)


@pytest.mark.slow(why="statistical")
def test_orders_of_a_dag_are_counted_and_weighed_away():
    table = TABLES["five"]
    every = Everything.of(table)
    for choice, many in zip(every.choices[::23], every.n_orders[::23], strict=True):
        assert order.log_orders(table, choice) == pytest.approx(np.log(many), abs=1e-12)
    _, draws, _ = order.run(table, start(order, table), 200_000, 10)
    weight, worth = order.weights(table, draws)
    edges = np.tensordot(weight, every.adjacency[frequencies(table, every, draws)], axes=1)
    assert 1_000 < worth < len(draws)
    np.testing.assert_allclose(edges, every.mean(every.adjacency), atol=4.5 * 0.5 / np.sqrt(worth / 5))
    assert np.max(np.abs(every.mean(every.adjacency) - every.mean(every.adjacency, by_orders=True))) > 0.05
    with refused("engine.refused.too-costly"):
        order.log_orders(table, draws[0], limit=2)


@pytest.fixture(scope="module", params=CHAINS)
def tempered(request):
    return Tempered(request.param, (1.0, 0.5, 0.2), every=50)


@pytest.mark.slow(why="statistical")
def test_structure_mcmc_tempered_crosses_valleys(tempered):
    """Two DAGs of four variables with a valley between them that is ten nats deep."""
    table = two_peaks()
    every = Everything.of(table)
    want = every.mean(every.adjacency, by_orders=tempered.PRIOR == "orders")
    _, draws, info = tempered.run(table, tempered.init(table, np.random.default_rng(1)), 400_000, 20)
    edges = every.adjacency[frequencies(table, every, draws)]
    batches = edges.reshape(50, -1, table.n, table.n).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(50)
    assert np.max(error) < 0.03
    assert np.max(np.abs(batches.mean(axis=0) - want) / np.maximum(error, 2e-3)) < 5.0
    assert 0.05 < info.acceptance["exchange"] < 1.0
    np.testing.assert_allclose(info.scores, every.scores[frequencies(table, every, draws)], atol=1e-9)


def two_peaks():
    """All edges one way round or all the other way, 0.7 : 1."""
    ahead, back = {(3, 7), (2, 3), (1, 1), (0, 0)}, {(0, 14), (1, 12), (2, 8), (3, 0)}

    def scores(child, masks):
        return np.array([12.0 if (child, m) in back else 11.9 if (child, m) in ahead else 7.0 for m in masks.tolist()])

    return table_of(4, scores)


def test_structure_mcmc_tempered_is_the_same_again_and_after_a_cut(tempered):
    table = TABLES["five"]
    first = tempered.init(table, np.random.default_rng(2))
    last, draws, info = tempered.run(table, first, 2_000, 7)
    state, pieces = first, []
    for n_steps in (1, 48, 3, 948, 1_000):
        state, part, _ = tempered.run(table, state, n_steps, 7)
        pieces.append(part)
    np.testing.assert_array_equal(np.concatenate(pieces), draws)
    assert len(draws) == 2_000 // 7
    assert state.keys() == last.keys()
    assert all(np.array_equal(state[word], last[word]) for word in last)
    assert tempered.log_weight(table, last) > -np.inf
    assert info.proposed["exchange"] == 2 * (2_000 // (50 * CHAINS[tempered.chain].COLD))


def test_hot_copies_take_their_steps_when_an_exchange_is_due(tempered):
    """So many of the cold copy for each of theirs; how many of both is a function of the steps done alone."""
    table, own = TABLES["five"], replace(tempered, cold=4)
    state, _, info = own.run(table, own.init(table, np.random.default_rng(2)), 2_150, 7)
    assert [int(state[f"{k}.steps"][0]) for k in range(3)] == [2_150, 500, 500]
    assert info.proposed["exchange"] == 2 * (2_150 // 200)


def test_options_of_tempering_are_checked():
    for betas in ((), (0.9, 0.5), (1.0, 1.0), (1.0, 0.0)):
        with refused("option.out-of-range", "temperatures"):
            Tempered("order", betas)
    with refused("option.out-of-range", "cold"):
        Tempered("order", cold=0)
    with refused("option.unknown-word", "'partition'"):
        Tempered("partitions")
    assert load("order") is order
