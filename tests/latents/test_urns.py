"""Draws without replacement from hidden urns, against enumeration of all paths and all colours."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bayeslab.latents.chains import forward_backward
from bayeslab.latents.chains import urn_draws as urns
from bayeslab.latents.chains.forward_backward import HiddenChain
from bayeslab.latents.chains.urn_draws import UrnDraws
from tests.latents._paths import random_rows
from tests.refusals import refused


def colours_given_path(balls, path, colours):
    """p(colours | path) by taking balls out one by one; every colour of a row not seen is tried."""
    holes = [t for t, c in enumerate(colours) if c < 0]
    total = 0.0
    for filling in product(range(balls.shape[1]), repeat=len(holes)):
        left, p, seen = balls.astype(float).copy(), 1.0, list(colours)
        for t, c in zip(holes, filling, strict=True):
            seen[t] = c
        for z, c in zip(path, seen, strict=True):
            size = left[z].sum()
            p *= left[z, c] / size if size > 0 else 0.0
            left[z, c] -= 1
            if p == 0.0:
                break
        total += p
    return total


def truth(balls, chain, colours, rows):
    """By summing over all paths: evidence, posterior, starts, moves, the best path's height; paths and weights."""
    k, n = len(balls), len(colours)
    start, move = np.exp(chain.log_start), np.exp(chain.log_transition)
    paths = np.array(list(product(range(k), repeat=n)))
    weights = np.empty(len(paths))
    for i, path in enumerate(paths):
        p = start[path[0]] * np.prod(move[path[:-1], path[1:]]) * np.exp(rows[np.arange(n), path].sum())
        weights[i] = p * colours_given_path(balls, path, colours) if p > 0 else 0.0
    total = weights.sum()
    posterior, moves = np.zeros((n, k)), np.zeros((k, k))
    if total > 0:
        for t in range(n):
            posterior[t] = np.bincount(paths[:, t], weights / total, k)
            if t:
                np.add.at(moves, (paths[:, t - 1], paths[:, t]), weights / total)
    return total, posterior, moves, weights, paths


def random_case(rng):
    k, c = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    balls = rng.integers(0, 4, (k, c))
    balls[balls.sum(axis=1) == 0, 0] = 1
    zeros = rng.choice([0, 0.3])
    chain = HiddenChain.of(random_rows(rng, 1, k, zeros)[0], random_rows(rng, k, k, zeros))
    n = int(rng.integers(1, 6))
    colours = rng.integers(0, c, n)
    colours[rng.random(n) < 0.25] = -1
    rows = rng.normal(size=(n, k)) * rng.choice([0, 1])
    return balls, chain, colours, rows


@pytest.mark.slow(why="large")
def test_everything_equals_enumeration():
    rng = np.random.default_rng(1)
    impossible = emptied = 0
    for _ in range(300):
        balls, chain, colours, rows = random_case(rng)
        total, posterior, moves, weights, paths = truth(balls, chain, colours, rows)
        draws = UrnDraws.of(balls, colours)
        found = urns.smooth(draws, chain, rows)
        states, height = urns.best(draws, chain, rows)
        emptied += len(colours) > balls.sum(axis=1).min() and bool(np.any(colours < 0))
        if total == 0:
            impossible += 1
            assert found.log_evidence[0] == -np.inf
            assert np.all(states == -1)
            prefix = [truth(balls, chain, colours[: t + 1], rows[: t + 1])[0] > 0 for t in range(len(colours))]
            assert found.impossible[0] == prefix.index(False)
            with refused("evidence.probability-zero"):
                found.possible()
            continue
        assert found.log_evidence[0] == pytest.approx(np.log(total), rel=1e-10, abs=1e-10)
        np.testing.assert_allclose(found.posterior, posterior, atol=1e-10)
        np.testing.assert_allclose(found.transition_counts, moves, atol=1e-10)
        np.testing.assert_allclose(found.start_counts, posterior[0], atol=1e-10)
        assert height[0] == pytest.approx(np.log(weights.max()), rel=1e-10, abs=1e-10)
        at = np.flatnonzero((paths == states).all(axis=1))[0]
        assert weights[at] == pytest.approx(weights.max(), rel=1e-10)
        before = 1.0
        for t in range(len(colours)):
            own, filtered, *_ = truth(balls, chain, colours[: t + 1], rows[: t + 1])
            np.testing.assert_allclose(found.filtered[t], filtered[t], atol=1e-10)
            assert found.log_predictive[t] == pytest.approx(np.log(own / before), abs=1e-10)
            before = own
    assert 30 < impossible < 200
    assert emptied > 20


def test_urns_predict_before_the_draw():
    """P(z_t | colours before) is the filtered urn moved on by the transition."""
    rng = np.random.default_rng(2)
    chain = HiddenChain.of(rng.dirichlet([1, 1]), rng.dirichlet([1, 1], 2))
    found = urns.smooth(UrnDraws.of([[5, 4], [3, 6]], rng.integers(0, 2, 6)), chain)
    np.testing.assert_allclose(found.predicted[0], np.exp(chain.log_start), atol=1e-12)
    np.testing.assert_allclose(found.predicted[1:], found.filtered[:-1] @ chain.matrix(), atol=1e-12)


@pytest.mark.slow(why="large")
def test_probabilities_of_all_sequences_sum_to_one():
    """As long as no urn can run out."""
    rng = np.random.default_rng(3)
    balls = np.array([[2, 3, 1], [1, 5, 0]])
    chain = HiddenChain.of(rng.dirichlet([1, 1]), rng.dirichlet([1, 1], 2))
    every = np.array(list(product(range(3), repeat=5)))
    draws = UrnDraws.of(balls, every.ravel(), np.arange(0, every.size + 1, 5))
    found = urns.smooth(draws, chain)
    assert np.exp(found.log_evidence).sum() == pytest.approx(1.0, abs=1e-12)
    # Six of them can empty an urn, and a seventh may find it empty.
    every = np.array(list(product(range(3), repeat=7)))
    found = urns.smooth(UrnDraws.of(balls, every.ravel(), np.arange(0, every.size + 1, 7)), chain)
    short = np.exp(np.logaddexp.reduce([chain.log_start[k] + 6 * chain.log_transition[k, k] for k in range(2)]))
    assert np.exp(found.log_evidence).sum() == pytest.approx(1 - short, abs=1e-10)


def test_urns_with_very_many_balls_are_an_ordinary_chain():
    rng = np.random.default_rng(4)
    balls = np.array([[2, 3, 1], [1, 5, 1]])
    chain = HiddenChain.of(rng.dirichlet([1, 1]), rng.dirichlet([1, 1], 2))
    colours, offsets = rng.integers(0, 3, 24), np.array([0, 9, 10, 24])
    mine = urns.smooth(UrnDraws.of(balls * 10**7, colours, offsets), chain)
    rows = np.log(balls / balls.sum(axis=1, keepdims=True)).T[colours]
    theirs = forward_backward.smooth(chain, rows, offsets)
    np.testing.assert_allclose(mine.log_evidence, theirs.log_evidence, atol=1e-5)
    np.testing.assert_allclose(mine.posterior, theirs.posterior, atol=1e-5)
    np.testing.assert_allclose(mine.transition_counts, theirs.transition_counts, atol=1e-4)


def test_one_urn_is_a_product_of_shares():
    """Falling factorials, whatever the order of the colours."""
    chain = HiddenChain.of([1.0], [[1.0]])
    found = urns.smooth(UrnDraws.of([[4, 3]], [0, 1, 0, 0]), chain)
    assert np.exp(found.log_evidence[0]) == pytest.approx(4 * 3 * 2 * 3 / (7 * 6 * 5 * 4), rel=1e-12)


def test_sequences_begin_with_full_urns():
    rng = np.random.default_rng(5)
    chain = HiddenChain.of(rng.dirichlet([1, 1]), rng.dirichlet([1, 1], 2))
    balls, colours, offsets = [[2, 3], [4, 1]], rng.integers(0, 2, 9), [0, 4, 4, 9]
    both = urns.smooth(UrnDraws.of(balls, colours, offsets), chain)
    one, other = (urns.smooth(UrnDraws.of(balls, own), chain) for own in (colours[:4], colours[4:]))
    np.testing.assert_allclose(both.log_evidence, [one.log_evidence[0], 0.0, other.log_evidence[0]], atol=1e-12)
    np.testing.assert_allclose(both.transition_counts, one.transition_counts + other.transition_counts, atol=1e-12)
    cut = UrnDraws.of(balls, colours, offsets).prefix(6)
    want = urns.smooth(UrnDraws.of(balls, colours[4:6]), chain).log_evidence[0]
    assert urns.smooth(cut, chain).log_evidence[-1] == pytest.approx(want, abs=1e-12)


def test_gradient_equals_differences():
    from bayeslab.latents.chains.urn_kernels import log_evidence_and_gradient

    rng = np.random.default_rng(6)
    draws = UrnDraws.of([[2, 3], [4, 1], [1, 3]], [0, 1, -1, 1, 0, 1, 0], [0, 4, 7])
    parameters = rng.normal(size=3 + 9 + 21)
    own = (draws.offsets, draws.begins, draws.targets, draws.weights)
    _, gradient = log_evidence_and_gradient(parameters, *own)
    differences = [
        (log_evidence_and_gradient(parameters + e, *own)[0] - log_evidence_and_gradient(parameters - e, *own)[0]) / 2e-5
        for e in 1e-5 * np.eye(len(parameters))
    ]
    np.testing.assert_allclose(gradient, differences, atol=1e-8)


def test_drawn_paths_have_the_posterior_frequencies():
    rng = np.random.default_rng(7)
    balls, colours = np.array([[2, 2], [3, 1]]), np.array([0, -1, 1, 0])
    chain = HiddenChain.of([0.4, 0.6], [[0.7, 0.3], [0.2, 0.8]])
    total, _, _, weights, _ = truth(balls, chain, colours, np.zeros((4, 2)))
    n = 20_000
    found = urns.sample(UrnDraws.of(balls, colours), chain, n, rng) @ (2 ** np.arange(3, -1, -1))
    share, want = np.bincount(found, minlength=16) / n, weights / total
    assert np.all(np.abs(share - want) <= 4.5 * np.sqrt(want * (1 - want) / n))


@pytest.mark.parametrize(
    ("balls", "colours", "code", "match"),
    [
        ([[1, 2], [0, 0]], [0], "model.no-values", "2"),
        ([[1.5, 2]], [0], "model.not-whole", "balls"),
        ([[1, 2], [3]], [0], "model.not-whole", "balls"),
        ([[1, 2], [3, -1]], [0], "model.not-whole", "balls"),
        ([[1, 2]], [2], "data.out-of-range", "colours.*-1"),
    ],
)
def test_bad_urns_are_refused(balls, colours, code, match):
    with refused(code, match):
        UrnDraws.of(balls, colours)


def test_too_many_shares_are_refused():
    with refused("data.too-costly"):
        UrnDraws.of(np.full((3, 3), 100), np.arange(60) % 3, most=1000)
