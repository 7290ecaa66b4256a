"""Naive Bayes on PlayTennis, trees of attributes against all trees, class probabilities against enumeration."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from bayeslab.latents.networks.classifiers import classify, conditional_mutual_information, naive_bayes, tan
from bayeslab.latents.networks.learning import laplace, m_estimate, maximum_likelihood
from bayeslab.latents.networks.network import DiscreteNetwork
from tests.latents._enumeration import joint, random_network
from tests.refusals import refused

# Mitchell (1997), table 3.2.
TENNIS = {
    "outlook": ("Sunny", "Overcast", "Rain"),
    "temperature": ("Hot", "Mild", "Cool"),
    "humidity": ("High", "Normal"),
    "wind": ("Weak", "Strong"),
    "play": ("Yes", "No"),
}
DAYS = """
Sunny Hot High Weak No; Sunny Hot High Strong No; Overcast Hot High Weak Yes; Rain Mild High Weak Yes
Rain Cool Normal Weak Yes; Rain Cool Normal Strong No; Overcast Cool Normal Strong Yes; Sunny Mild High Weak No
Sunny Cool Normal Weak Yes; Rain Mild Normal Weak Yes; Sunny Mild Normal Strong Yes; Overcast Mild High Strong Yes
Overcast Hot Normal Weak Yes; Rain Mild High Strong No"""


def coded(text):
    rows = [row.split() for line in text.strip().splitlines() for row in line.split(";")]
    return np.array([[own.index(word) if word != "?" else -1 for word, own in zip(row, TENNIS.values(), strict=True)] for row in rows])  # fmt: skip


CODES = coded(DAYS)
QUERY = coded("Sunny Cool High Strong ?")


def learned(codes=CODES, m=0.0, smooth_class=False):
    found = maximum_likelihood(codes, TENNIS, naive_bayes(TENNIS, "play"))
    tables = {v: m_estimate(n, m if v != "play" or smooth_class else 0) for v, n in found.counts.items()}
    return DiscreteNetwork(TENNIS, found.network.parents, tables)


def score(network, row):
    """P(class, attributes) for both classes, by the product itself."""
    tables = network.tables
    return [tables["play"][k] * np.prod([tables[v][k, row[i]] for i, v in enumerate(TENNIS) if v != "play"]) for k in (0, 1)]  # fmt: skip


def test_bn_complete_ml_tables_of_play_tennis():
    found = maximum_likelihood(CODES, TENNIS, naive_bayes(TENNIS, "play"))
    np.testing.assert_allclose(found.network.tables["play"], [9 / 14, 5 / 14])
    assert found.counts["outlook"].tolist() == [[2, 4, 3], [3, 0, 2]]
    assert found.counts["temperature"].tolist() == [[2, 4, 3], [2, 2, 1]]
    assert found.counts["humidity"].tolist() == [[3, 6], [4, 1]]
    assert found.counts["wind"].tolist() == [[6, 3], [2, 3]]
    np.testing.assert_allclose(found.network.tables["wind"][:, 1], [3 / 9, 3 / 5])


def test_naive_bayes_answers_the_query():
    network = learned()
    yes, no = score(network, QUERY[0])
    assert yes == pytest.approx(0.005291, abs=5e-7) and no == pytest.approx(0.020571, abs=5e-7)
    np.testing.assert_allclose(classify(network, "play", QUERY), [[0.204583, 0.795417]], atol=5e-7)


@pytest.mark.parametrize(("m", "no"), [(1, 0.759002), (2, 0.725776), (3, 0.696203)])
def test_naive_bayes_with_the_m_estimate(m, no):
    assert classify(learned(m=m), "play", QUERY)[0, 1] == pytest.approx(no, abs=5e-7)


@pytest.mark.parametrize(("m", "yes", "no"), [(0, 0.010582, 0.0), (1, 0.011375, 0.001929), (3, 0.012556, 0.004316)])
def test_an_overcast_day_needs_the_m_estimate(m, yes, no):
    row = coded("Overcast Cool High Strong ?")[0]
    np.testing.assert_allclose(score(learned(m=m), row), [yes, no], atol=5e-7)
    np.testing.assert_allclose(classify(learned(m=m), "play", row[None])[0, 1], no / (yes + no), atol=1e-4)


def test_naive_bayes_is_right_on_13_of_14_and_on_8_left_out():
    right = (classify(learned(), "play", CODES).argmax(axis=1) == CODES[:, 4]).sum()
    assert right == 13
    kept = [learned(np.delete(CODES, i, axis=0)) for i in range(14)]
    assert sum(classify(net, "play", CODES[i : i + 1]).argmax() == CODES[i, 4] for i, net in enumerate(kept)) == 8


def test_naive_bayes_has_2n_plus_1_parameters():
    for n in (1, 4, 9):
        states = {f"x{i}": ("0", "1") for i in range(n)} | {"class": ("0", "1")}
        codes = np.zeros((1, n + 1), dtype=int)
        assert maximum_likelihood(codes, states, naive_bayes(states, "class")).network.n_parameters == 2 * n + 1


def by_enumeration(network, target, row):
    given = {v: network.states[v][c] for v, c in zip(network.states, row, strict=True) if c >= 0 and v != target}
    whole = joint(network, given)
    axis = list(network.states).index(target)
    out = whole.sum(axis=tuple(i for i in range(whole.ndim) if i != axis))
    return out / out.sum() if out.sum() > 0 else None


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.9])
def test_class_probabilities_are_those_of_enumeration(missing):
    """Any net, any target, complete and incomplete rows; zeros in tables included."""
    compared = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        network = random_network(rng, 6)
        codes = np.stack([rng.integers(0, len(s), 8) for s in network.states.values()], axis=1)
        codes[rng.random(codes.shape) < missing] = -1
        target = str(rng.choice(list(network.states)))
        want = [by_enumeration(network, target, row) for row in codes]
        possible = np.array([w is not None for w in want])
        if possible.any():
            found = classify(network, target, codes[possible])
            np.testing.assert_allclose(found, np.array([w for w in want if w is not None]), atol=1e-10)
            compared += possible.sum()
    assert compared > 50


def test_naive_bayes_with_missing_attributes_needs_no_tree():
    """A missing attribute says nothing: its factor is left out."""
    network = learned(m=1)
    row = coded("Sunny ? High ? ?")
    tables = network.tables
    want = tables["play"] * tables["outlook"][:, 0] * tables["humidity"][:, 0]
    np.testing.assert_allclose(classify(network, "play", row)[0], want / want.sum(), rtol=1e-12)
    nothing = classify(network, "play", np.full((1, 5), -1))
    np.testing.assert_allclose(nothing[0], tables["play"], rtol=1e-12)


@pytest.mark.slow(why="statistical")
def test_many_attributes_do_not_underflow():
    states = {"class": ("0", "1")} | {f"x{i}": ("0", "1") for i in range(3000)}
    rows = np.array([[0.9, 0.1], [0.8, 0.2]])
    tables = {"class": np.array([0.5, 0.5])} | {v: rows for v in states if v != "class"}
    network = DiscreteNetwork(states, naive_bayes(states, "class"), tables)
    codes = np.zeros((1, 3001), dtype=int)
    codes[0, 1:501] = 1
    log_odds = 2500 * np.log(0.9 / 0.8) + 500 * np.log(0.1 / 0.2)
    found = classify(network, "class", codes)[0]
    assert found.sum() == pytest.approx(1) and found[1] == pytest.approx(1 / (1 + np.exp(log_odds)), rel=1e-9)


def test_rows_that_no_class_allows_are_refused():
    network = DiscreteNetwork(
        {"c": ("0", "1"), "x": ("0", "1")}, {"x": ("c",)}, {"c": np.full(2, 0.5), "x": np.array([[1.0, 0], [1, 0]])}
    )
    with refused("evidence.probability-zero", "row 1"):
        classify(network, "c", np.array([[-1, 0], [-1, 1]]))
    with refused("data.unknown-variable", "'d'"):
        classify(network, "d", np.array([[-1, 0]]))


# TAN


def planted(rng, n=4000):
    """Class, and attributes in a chain x0 - x1 - x2 and a pair x3 - x4 given it."""
    c = rng.integers(0, 2, n)

    def noisy(x, p):
        return np.where(rng.random(n) < p, x, rng.integers(0, 3, n))

    x0 = noisy(c, 0.3)
    x1 = noisy((x0 + c) % 3, 0.7)
    x2 = noisy(2 - x1, 0.6)
    x3 = noisy(c, 0.5)
    x4 = noisy((x3 + 1) % 3, 0.8)
    return np.stack([x0, x1, x2, x3, x4, c], axis=1)


STATES = {f"x{i}": ("0", "1", "2") for i in range(5)} | {"c": ("0", "1")}


def test_conditional_mutual_information_is_its_definition():
    rng = np.random.default_rng(0)
    codes, weights = planted(rng, 300), rng.gamma(1.0, size=300)
    found = conditional_mutual_information(codes, STATES, "c", weights)
    for a, b in combinations(range(5), 2):
        table = np.zeros((2, 3, 3))
        np.add.at(table, (codes[:, 5], codes[:, a], codes[:, b]), weights)
        p = table / table.sum()
        pc, pca, pcb = p.sum(axis=(1, 2)), p.sum(axis=2), p.sum(axis=1)
        want = sum(
            p[k, i, j] * np.log(p[k, i, j] * pc[k] / (pca[k, i] * pcb[k, j]))
            for k, i, j in np.ndindex(p.shape)
            if p[k, i, j] > 0
        )
        assert found[a, b] == found[b, a] == pytest.approx(want, abs=1e-12)


def test_tan_is_the_most_likely_tree():
    """Of all 125 trees of five attributes (Prüfer sequences)."""
    codes = planted(np.random.default_rng(1), 400)
    best = maximum_likelihood(codes, STATES, tan(codes, STATES, "c")).log_likelihood
    others = []
    for i in range(125):
        tree = nx.from_prufer_sequence([i // 25, i // 5 % 5, i % 5])
        parents = naive_bayes(STATES, "c")
        for parent, child in nx.bfs_edges(tree, 0):
            parents[f"x{child}"] = ("c", f"x{parent}")
        others.append(maximum_likelihood(codes, STATES, parents).log_likelihood)
    assert best == pytest.approx(max(others), rel=1e-12) and best > sorted(others)[-2]


def test_tan_finds_the_planted_edges_whatever_its_root():
    codes = planted(np.random.default_rng(2))
    likelihoods = []
    for root in ("x0", "x2", "x4"):
        parents = tan(codes, STATES, "c", root=root)
        assert parents[root] == ("c",) and parents["c"] == ()
        edges = {frozenset((v, above[1])) for v, above in parents.items() if len(above) == 2}
        assert {frozenset(("x0", "x1")), frozenset(("x1", "x2")), frozenset(("x3", "x4"))} <= edges and len(edges) == 4
        likelihoods.append(maximum_likelihood(codes, STATES, parents).log_likelihood)
    assert np.ptp(likelihoods) < 1e-8
    with refused("model.unknown-variable", "'x9'"):
        tan(codes, STATES, "c", root="x9")


def test_tan_classifies_better_than_naive_bayes_where_attributes_depend():
    rng = np.random.default_rng(3)
    train, test = planted(rng), planted(rng)
    log_loss = {}
    for name, parents in (("naive", naive_bayes(STATES, "c")), ("tan", tan(train, STATES, "c"))):
        found = maximum_likelihood(train, STATES, parents)
        network = DiscreteNetwork(STATES, parents, {v: laplace(n) for v, n in found.counts.items()})
        p = classify(network, "c", test)
        log_loss[name] = -np.log(p[np.arange(len(test)), test[:, 5]]).mean()
    assert log_loss["tan"] < log_loss["naive"] - 0.02
