"""Hidden Markov trees against enumeration of all states, and a single branch against a chain."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bayeslab.latents.chains import forward_backward, hidden_tree
from bayeslab.latents.chains.decoding import viterbi
from bayeslab.latents.chains.forward_backward import HiddenChain
from bayeslab.latents.chains.hidden_tree import Forest
from tests.latents._paths import random_rows
from tests.refusals import refused


def every(forest, chain, rows):
    """All states of all nodes and log p(states, data) of each."""
    n, k = rows.shape
    states = np.array(list(product(range(k), repeat=n)), int).reshape(k**n, n)
    scores = rows[np.arange(n), states].sum(axis=1)
    for t, p in enumerate(forest.parents):
        scores = scores + (chain.log_start[states[:, t]] if p < 0 else chain.log_transition[states[:, p], states[:, t]])
    return states, scores


def truth(forest, chain, rows):
    """By summing over all states: evidence of each tree, posterior, start and transition counts, the best height."""
    n, k = rows.shape
    out = {
        "evidence": np.full(forest.n_trees, -np.inf),
        "posterior": np.full((n, k), np.nan),
        "starts": np.zeros(k),
        "moves": np.zeros((k, k)),
        "height": np.full(forest.n_trees, -np.inf),
    }
    for tree in range(forest.n_trees):
        nodes = np.flatnonzero(forest.trees == tree)
        place = {int(t): i for i, t in enumerate(nodes)}
        own = Forest([place[int(p)] if p >= 0 else -1 for p in forest.parents[nodes]])
        states, scores = every(own, chain, rows[nodes])
        peak = out["height"][tree] = scores.max()
        if peak == -np.inf:
            continue
        weights = np.exp(scores - peak)
        out["evidence"][tree] = peak + np.log(weights.sum())
        weights = weights / weights.sum()
        for i, t in enumerate(nodes):
            out["posterior"][t] = np.bincount(states[:, i], weights, k)
            if own.parents[i] < 0:
                out["starts"] += out["posterior"][t]
            else:
                np.add.at(out["moves"], (states[:, own.parents[i]], states[:, i]), weights)
    return out


def random_case(rng):
    """Up to nine nodes in one to three trees, up to three states; zeros, missing rows, huge and tiny likelihoods."""
    n, k, zeros = int(rng.integers(1, 8)), int(rng.integers(1, 4)), rng.choice([0, 0.3, 0.6])
    parents = np.array([-1 if t == 0 or rng.random() < 0.15 else rng.integers(0, t) for t in range(n)])
    chain = HiddenChain.of(random_rows(rng, 1, k, zeros)[0], random_rows(rng, k, k, zeros))
    rows = rng.normal(-2, rng.choice([0.5, 3, 50, 2000]), (n, k))
    rows[rng.random((n, k)) < zeros / 3] = -np.inf
    rows[rng.random(n) < 0.25] = 0
    return Forest(parents), chain, rows


def test_everything_equals_enumeration():
    rng = np.random.default_rng(1)
    impossible = several = 0
    for _ in range(300):
        forest, chain, rows = random_case(rng)
        want, found = truth(forest, chain, rows), hidden_tree.smooth(forest, chain, rows)
        np.testing.assert_allclose(found.log_evidence, want["evidence"], rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(found.posterior, want["posterior"], atol=1e-10)
        np.testing.assert_allclose(found.start_counts, want["starts"], atol=1e-10)
        np.testing.assert_allclose(found.transition_counts, want["moves"], atol=1e-10)
        np.testing.assert_array_equal(found.impossible >= 0, want["evidence"] == -np.inf)
        states, height = hidden_tree.best(forest, chain, rows)
        np.testing.assert_allclose(height, want["height"], rtol=1e-11, atol=1e-11)
        for tree in range(forest.n_trees):
            nodes = np.flatnonzero(forest.trees == tree)
            if height[tree] == -np.inf:
                assert np.all(states[nodes] == -1)
                continue
            score = sum(
                rows[t, states[t]]
                + (chain.log_start[states[t]] if p < 0 else chain.log_transition[states[p], states[t]])
                for t, p in zip(nodes, forest.parents[nodes], strict=True)
            )
            assert score == pytest.approx(height[tree], rel=1e-11, abs=1e-11)
        impossible += int((want["evidence"] == -np.inf).any())
        several += forest.n_trees > 1
        if (want["evidence"] == -np.inf).any():
            with refused("evidence.probability-zero"):
                found.possible()
    assert 20 < impossible < 200
    assert several > 50


def test_a_single_branch_is_a_chain():
    rng = np.random.default_rng(2)
    chain = HiddenChain.of(rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3))
    rows, offsets = rng.normal(-3, 4, size=(500, 3)), np.array([0, 200, 201, 500])
    parents = np.arange(500) - 1
    parents[offsets[:-1]] = -1
    mine = hidden_tree.smooth(Forest(parents), chain, rows)
    theirs = forward_backward.smooth(chain, rows, offsets)
    np.testing.assert_allclose(mine.log_evidence, theirs.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(mine.posterior, theirs.posterior, atol=1e-10)
    np.testing.assert_allclose(mine.transition_counts, theirs.transition_counts, atol=1e-9)
    np.testing.assert_allclose(mine.start_counts, theirs.start_counts, atol=1e-10)
    states, height = hidden_tree.best(Forest(parents), chain, rows)
    path = viterbi(chain, rows, offsets)
    np.testing.assert_array_equal(states, path.states)
    np.testing.assert_allclose(height, path.log_probability, rtol=1e-12)


def test_a_star_of_many_leaves_does_not_underflow():
    """Children are independent given the root: the evidence is a product of mixtures."""
    rng = np.random.default_rng(3)
    n = 20_000
    start, move = np.array([0.3, 0.7]), np.array([[0.9, 0.1], [0.2, 0.8]])
    rows = rng.normal(-5, 3, size=(n, 2))
    parents = np.append(-1, np.zeros(n - 1, int))
    each = np.logaddexp.reduce(np.log(move)[None] + rows[1:, None], axis=2).sum(axis=0)
    want = np.logaddexp.reduce(np.log(start) + rows[0] + each)
    found = hidden_tree.smooth(Forest(parents), HiddenChain.of(start, move), rows)
    assert found.log_evidence[0] == pytest.approx(want, rel=1e-12)


def test_gradient_equals_differences():
    from bayeslab.latents.chains.branching_kernels import log_evidence_and_gradient

    rng = np.random.default_rng(4)
    forest = Forest([-1, 0, 0, 2, -1, 4, 1, 4, 4])
    chain = HiddenChain(rng.normal(size=2), rng.normal(size=(2, 2)))
    parameters, sizes = forest.flat(chain, rng.normal(size=(9, 2)))
    own = (forest.parents, forest.trees, sizes)
    _, gradient = log_evidence_and_gradient(parameters, *own)
    differences = [
        (log_evidence_and_gradient(parameters + e, *own)[0] - log_evidence_and_gradient(parameters - e, *own)[0]) / 2e-5
        for e in 1e-5 * np.eye(len(parameters))
    ]
    np.testing.assert_allclose(gradient, differences, atol=1e-8)


def test_draws_have_the_posterior_frequencies():
    """Joint frequencies of all states of a small tree, within four and a half standard errors."""
    rng = np.random.default_rng(5)
    forest = Forest([-1, 0, 0, 1])
    chain = HiddenChain.of([0.4, 0.6], [[0.7, 0.3], [0.2, 0.8]])
    rows = rng.normal(size=(4, 2))
    states, scores = every(forest, chain, rows)
    weights = np.exp(scores - np.logaddexp.reduce(scores))
    n = 20_000
    found = hidden_tree.sample(forest, chain, rows, n, rng) @ (2 ** np.arange(3, -1, -1))
    share = np.bincount(found, minlength=16) / n
    assert np.all(np.abs(share - weights) < 4.5 * np.sqrt(weights * (1 - weights) / n))
    _, law = every(forest, chain, np.zeros((4, 2)))
    made = np.array([hidden_tree.simulate(forest, chain, rng.random(4)) for _ in range(n)]) @ (
        2 ** np.arange(3, -1, -1)
    )
    share, weights = np.bincount(made, minlength=16) / n, np.exp(law)
    assert np.all(np.abs(share - weights) < 4.5 * np.sqrt(weights * (1 - weights) / n))
    assert np.all(states[0] == 0)


def test_parents_come_first():
    parents = np.array([3, -1, 0, 1, -1, 4, 1])
    order = hidden_tree.parents_first(parents)
    assert sorted(order.tolist()) == list(range(7))
    place = {int(node): i for i, node in enumerate(order)}
    assert all(parents[node] < 0 or place[int(parents[node])] < place[int(node)] for node in range(7))
    trees = Forest([place[int(parents[node])] if parents[node] >= 0 else -1 for node in order]).trees
    assert np.all(np.diff(trees) >= 0)


def test_bad_trees_are_refused():
    with refused("data.cycle", "row 2"):
        hidden_tree.parents_first([-1, 3, 1, 2])
    with refused("data.cycle", "row 3"):
        hidden_tree.parents_first([1, 2, 2])
    with refused("data.not-in-order", "node 1"):
        Forest([-1, 1])
    chain = HiddenChain.of([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]])
    with refused("data.wrong-length", "3.*2"):
        hidden_tree.smooth(Forest([-1, 0]), chain, np.zeros((3, 2)))
