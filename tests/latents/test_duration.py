"""Hidden semi-Markov chains against enumeration of all segmentations, and as expanded hidden Markov chains."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

from bayeslab.latents.chains import forward_backward
from bayeslab.latents.chains.duration import SemiMarkovChain, simulate_segments, smooth, viterbi
from tests.latents._paths import random_rows
from tests.refusals import refused


@cache
def compositions(n):
    """All ways to cut n rows into durations."""
    return [()] if n == 0 else [(d, *rest) for d in range(1, n + 1) for rest in compositions(n - d)]


def enumerate_segments(chain, rows):
    """(durations, states, probability) of all segmentations, and how the last's durations would be counted."""
    start, move, duration = (np.exp(a) for a in chain.arrays())
    emission = np.exp(rows)
    for durations in compositions(len(rows)):
        inner = durations[:-1] if chain.censored else durations
        if any(d > chain.longest for d in inner) or durations[-1] > chain.longest:
            continue
        for states in product(range(chain.n_states), repeat=len(durations)):
            p, t = start[states[0]], 0
            for k, (d, z) in enumerate(zip(durations, states, strict=True)):
                p *= move[states[k - 1], z] if k else 1
                going_on = chain.censored and k == len(durations) - 1
                p *= duration[z, d - 1 :].sum() if going_on else duration[z, d - 1]
                p *= emission[t : t + d, z].prod()
                t += d
            yield durations, states, p


def truth(chain, rows):
    total, posterior = 0.0, np.zeros(rows.shape)
    starts, moves, lasts = (np.zeros(a.shape) for a in chain.arrays())
    best = (-1.0, None)
    law = np.exp(chain.log_duration)
    for durations, states, p in enumerate_segments(chain, rows):
        total += p
        path = np.repeat(states, durations)
        posterior[np.arange(len(rows)), path] += p
        starts[states[0]] += p
        if p > best[0]:
            best = (p, path)
        for k, (d, z) in enumerate(zip(durations, states, strict=True)):
            if k:
                moves[states[k - 1], z] += p
            if chain.censored and k == len(durations) - 1:
                if p:
                    lasts[z, d - 1 :] += p * law[z, d - 1 :] / law[z, d - 1 :].sum()
            else:
                lasts[z, d - 1] += p
    return total, [a / total if total else a for a in (posterior, starts, moves, lasts)], best


def random_case(rng):
    n_states, longest = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    zeros = rng.choice([0, 0.4])
    move = random_rows(rng, n_states, n_states, zeros)
    if n_states > 1 and rng.random() < 0.5:
        np.fill_diagonal(move, 0)
    chain = SemiMarkovChain.of(
        random_rows(rng, 1, n_states, zeros)[0],
        move,
        random_rows(rng, n_states, longest, zeros),
        bool(rng.random() < 0.5),
    )
    lengths = rng.integers(0, 6, rng.integers(1, 3))
    lengths[0] += 1
    offsets = np.append(0, lengths.cumsum())
    rows = rng.normal(size=(offsets[-1], n_states))
    rows[rng.random(rows.shape) < zeros / 3] = -np.inf
    rows[rng.random(len(rows)) < 0.2] = 0
    return chain, rows, offsets


@pytest.mark.slow(why="large")
def test_segments_equal_enumeration():
    rng = np.random.default_rng(1)
    impossible = 0
    for _ in range(300):
        chain, rows, offsets = random_case(rng)
        found, path = smooth(chain, rows, offsets), viterbi(chain, rows, offsets)
        sums = [np.zeros(a.shape) for a in chain.arrays()]
        for s in range(len(offsets) - 1):
            own = slice(offsets[s], offsets[s + 1])
            if offsets[s] == offsets[s + 1]:
                assert found.log_evidence[s] == 0 and path.log_probability[s] == 0
                continue
            total, (posterior, *counts), best = truth(chain, rows[own])
            assert np.exp(found.log_evidence[s]) == pytest.approx(total, rel=1e-11, abs=0)
            assert np.exp(path.log_probability[s]) == pytest.approx(max(best[0], 0), rel=1e-11, abs=0)
            if total == 0:
                impossible += 1
                assert np.isnan(found.posterior[own]).all() and np.all(path.states[own] == -1)
                continue
            np.testing.assert_allclose(found.posterior[own], posterior, atol=1e-11)
            np.testing.assert_array_equal(path.states[own], best[1])
            sums = [a + b for a, b in zip(sums, counts, strict=True)]
        for mine, true in zip((found.start_counts, found.transition_counts, found.duration_counts), sums, strict=True):
            np.testing.assert_allclose(mine, true, atol=1e-11)
        if (found.log_evidence == -np.inf).any():
            with refused("evidence.probability-zero"):
                found.possible()
    assert 20 < impossible < 200


def expand(chain):
    """A hidden Markov chain on (state, rows left); the last segment may go on, as the censored one may."""
    start, move, duration = (np.exp(a) for a in chain.arrays())
    n, longest = duration.shape
    big_start = (start[:, None] * duration).ravel()
    big = np.zeros((n, longest, n, longest))
    for i in range(n):
        big[i, 0] = move[i][:, None] * duration
        for left in range(1, longest):
            big[i, left, i, left - 1] = 1
    return forward_backward.HiddenChain.of(big_start, big.reshape(n * longest, n * longest))


def test_segments_equal_an_expanded_chain():
    rng = np.random.default_rng(2)
    n, longest, n_rows = 3, 6, 400
    move = rng.dirichlet(np.ones(n), n)
    np.fill_diagonal(move, 0)
    move /= move.sum(1, keepdims=True)
    chain = SemiMarkovChain.of(rng.dirichlet(np.ones(n)), move, rng.dirichlet(np.ones(longest), n))
    rows, offsets = rng.normal(-3, 2, size=(n_rows, n)), np.array([0, 100, 101, n_rows])
    mine = smooth(chain, rows, offsets)
    theirs = forward_backward.smooth(expand(chain), np.repeat(rows, longest, 1), offsets)
    np.testing.assert_allclose(mine.log_evidence, theirs.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(mine.posterior, theirs.posterior.reshape(n_rows, n, longest).sum(2), atol=1e-10)
    moves = theirs.transition_counts.reshape(n, longest, n, longest)[:, 0].sum(2)
    np.testing.assert_allclose(mine.transition_counts, moves, atol=1e-9)
    lasts = theirs.transition_counts.reshape(n, longest, n, longest)[:, 0].sum(0)
    lasts += theirs.start_counts.reshape(n, longest)
    np.testing.assert_allclose(mine.duration_counts, lasts, atol=1e-9)


def test_geometric_durations_are_a_hidden_markov_chain():
    """With durations cut off far beyond the data."""
    rng = np.random.default_rng(3)
    stay, rows = np.array([0.6, 0.8]), rng.normal(size=(30, 2))
    duration = (1 - stay[:, None]) * stay[:, None] ** np.arange(400)
    chain = SemiMarkovChain.of([0.3, 0.7], [[0, 1], [1, 0]], duration)
    plain = forward_backward.HiddenChain.of([0.3, 0.7], [[0.6, 0.4], [0.2, 0.8]])
    mine, theirs = smooth(chain, rows), forward_backward.smooth(plain, rows)
    assert mine.log_evidence == pytest.approx(theirs.log_evidence, abs=1e-10)
    np.testing.assert_allclose(mine.posterior, theirs.posterior, atol=1e-10)


def test_gradient_equals_differences():
    from bayeslab.latents.chains.duration_kernels import log_evidence_and_gradient

    rng = np.random.default_rng(4)
    for censored in (True, False):
        chain = SemiMarkovChain(rng.normal(size=2), rng.normal(size=(2, 2)), rng.normal(size=(2, 3)), censored)
        offsets = np.array([0, 5, 9])
        parameters, sizes = chain.flat(rng.normal(size=(9, 2)))
        _, gradient = log_evidence_and_gradient(parameters, offsets, sizes)
        step = 1e-5 * np.eye(len(parameters))
        differences = [
            (
                log_evidence_and_gradient(parameters + e, offsets, sizes)[0]
                - log_evidence_and_gradient(parameters - e, offsets, sizes)[0]
            )
            / 2e-5
            for e in step
        ]
        np.testing.assert_allclose(gradient, differences, atol=1e-8)


def test_em_recovers_planted_durations():
    """Well separated states that last 5 rows, or 2 or 9: durations within four standard errors; likelihood never falls."""
    rng = np.random.default_rng(5)
    duration = np.zeros((2, 10))
    duration[0, 4], duration[1, [1, 8]] = 1, 0.5
    planted = SemiMarkovChain.of([0.5, 0.5], [[0, 1], [1, 0]], duration)
    states, offsets = simulate_segments(planted, [300] * 10, rng)
    y = rng.normal(3.0 * states, 1)
    rows = -0.5 * (y[:, None] - [0, 3.0]) ** 2
    law, trace = np.full((2, 10), 0.1), []
    for _ in range(60):
        found = smooth(SemiMarkovChain.of([0.5, 0.5], [[0, 1], [1, 0]], law), rows, offsets)
        trace.append(found.log_evidence.sum())
        law = found.duration_counts / found.duration_counts.sum(1, keepdims=True)
    assert np.all(np.diff(trace) > -1e-8)
    n = found.duration_counts.sum(1)
    assert law[0, 4] > 0.97 and law[1, [1, 8]].sum() > 0.95
    assert abs(law[1, 1] - 0.5) < 4 * np.sqrt(0.25 / n[1])


def test_bad_durations_are_refused():
    for duration, code, match in (
        (np.zeros(3), "model.wrong-shape", "log_duration.*2"),
        (np.full((2, 3), np.nan), "model.not-finite", "NaN"),
        (np.zeros((3, 2)), "model.wrong-shape", "log_duration.*2"),
    ):
        with refused(code, match):
            SemiMarkovChain(np.zeros(2), np.zeros((2, 2)), duration)
    with refused("model.unsupported", "start.*transition"):
        SemiMarkovChain(np.zeros(2), np.zeros((5, 2, 2)), np.zeros((2, 3)))
