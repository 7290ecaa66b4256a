"""Paths of hidden Markov chains against enumeration of all paths."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.latents.chains.decoding import k_best, path_log_probability, posterior_decode, sample_paths, viterbi
from bayeslab.latents.chains.forward_backward import Edges, HiddenChain, smooth
from tests.latents._paths import enumerate_paths, random_case, truth, umbrella
from tests.refusals import refused


@pytest.mark.slow(why="large")
def test_hmm_viterbi():
    """Dense, sparse, varying with time, ragged, impossible; and the umbrella world."""
    rng = np.random.default_rng(1)
    impossible = 0
    for _ in range(400):
        chain, rows, offsets = random_case(rng)
        found = viterbi(chain, rows, offsets)
        for s in range(len(offsets) - 1):
            paths, scores = enumerate_paths(chain, rows, offsets, s)
            own = found.states[offsets[s] : offsets[s + 1]]
            assert found.log_probability[s] == pytest.approx(scores.max(), rel=1e-13, abs=1e-12)
            if scores.max() == -np.inf:
                impossible += 1
                assert np.all(own == -1)
            else:
                assert scores[(paths == own).all(1)] == pytest.approx(scores.max(), rel=1e-13, abs=1e-12)
        if (found.log_probability == -np.inf).any():
            with refused("evidence.probability-zero"):
                found.possible()
    assert impossible > 100
    chain, rows = umbrella("uunuu")
    assert viterbi(chain, rows).states[1:].tolist() == [0, 0, 1, 0, 0]


def test_ties_go_to_the_lower_state():
    chain = HiddenChain.of([0.5, 0.5], np.full((2, 2), 0.5))
    assert viterbi(chain, np.zeros((4, 2))).states.tolist() == [0, 0, 0, 0]
    assert k_best(chain, np.zeros((3, 2)), 8).states[0].tolist() == [0, 0, 0]


@pytest.mark.slow(why="statistical")
def test_k_best_equals_sorted_enumeration():
    rng = np.random.default_rng(2)
    short = 0
    for _ in range(200):
        chain, rows, offsets = random_case(rng)
        n_paths = int(rng.integers(1, 20))
        found = k_best(chain, rows, n_paths, offsets)
        for s in range(len(offsets) - 1):
            paths, scores = enumerate_paths(chain, rows, offsets, s)
            best = np.sort(scores)[::-1][:n_paths]
            best = np.append(best, np.full(n_paths - len(best), -np.inf))
            np.testing.assert_allclose(found.log_probability[:, s], best, rtol=1e-13, atol=1e-11)
            own = found.states[:, offsets[s] : offsets[s + 1]][best > -np.inf]
            assert len(np.unique(own, axis=0)) == len(own)
            for path, score in zip(own, best, strict=False):
                assert scores[(paths == path).all(1)] == pytest.approx(score, rel=1e-13, abs=1e-11)
            short += len(own) < n_paths
    assert short > 50


def test_hmm_posterior_decode():
    """The likeliest states of the rows are no path; Viterbi's is."""
    # Paths a-c, b-c, d-e with 0.3, 0.3, 0.4: row 0 is likeliest in d, row 1 in c, and d never leads to c.
    a, b, c, d, e = range(5)
    move = np.zeros((5, 5))
    move[a, c] = move[b, c] = move[d, e] = move[c, c] = move[e, e] = 1
    chain = HiddenChain.of([0.3, 0.3, 0, 0.4, 0], move)
    rows = np.zeros((2, 5))
    smoothed = smooth(chain, rows)
    row_by_row = posterior_decode(chain, rows, smoothed)
    assert row_by_row.states.tolist() == [d, c]
    assert row_by_row.log_probability.tolist() == [-np.inf]
    with refused("evidence.probability-zero", "sequence 0"):
        row_by_row.possible()
    whole = viterbi(chain, rows)
    assert whole.states.tolist() == [d, e] and np.exp(whole.log_probability[0]) == pytest.approx(0.4)


def test_posterior_decode_has_most_rows_right():
    rng = np.random.default_rng(3)
    chain, rows = HiddenChain.of(rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3)), rng.normal(size=(5, 3))
    posterior = truth(chain, rows, [0, 5])["posterior"]
    found = posterior_decode(chain, rows, smooth(chain, rows))
    assert found.states.tolist() == posterior.argmax(1).tolist()
    assert found.log_probability[0] <= viterbi(chain, rows).log_probability[0] + 1e-12


def test_path_log_probability_equals_enumeration():
    rng = np.random.default_rng(4)
    for _ in range(100):
        chain, rows, offsets = random_case(rng)
        states, expected = np.empty(len(rows), int), []
        for s in range(len(offsets) - 1):
            paths, scores = enumerate_paths(chain, rows, offsets, s)
            pick = rng.integers(len(paths))
            states[offsets[s] : offsets[s + 1]] = paths[pick]
            expected.append(scores[pick])
        np.testing.assert_allclose(path_log_probability(chain, rows, states, offsets), expected, rtol=1e-13, atol=1e-11)


@pytest.mark.parametrize("sparse", [False, True])
def test_sampled_paths_have_the_posterior_of_paths(sparse):
    rng = np.random.default_rng(5)
    move = np.array([[0.6, 0.4, 0], [0, 0.5, 0.5], [0.3, 0, 0.7]])
    edges = Edges.of(move > 0) if sparse else None
    chain = HiddenChain.of([0.5, 0.3, 0.2], edges.take(move) if sparse else move, edges)
    rows = rng.normal(size=(6, 3))
    offsets = np.array([0, 4, 6])
    n = 20_000
    draws = sample_paths(chain, rows, n, np.random.default_rng(6), offsets)
    for s in range(2):
        paths, scores = enumerate_paths(chain, rows, offsets, s)
        p = np.exp(scores - np.logaddexp.reduce(scores))
        own = draws[:, offsets[s] : offsets[s + 1]]
        place = np.ravel_multi_index(own.T, [3] * own.shape[1])
        share = np.bincount(place, minlength=len(paths)) / n
        assert np.all(share[p == 0] == 0)
        error = (share - p)[p > 0] / np.sqrt(p * (1 - p) / n)[p > 0]
        assert abs(error).max() < 4.5
    again = sample_paths(chain, rows, 5, np.random.default_rng(6), offsets)
    np.testing.assert_array_equal(again, draws[:5])


def test_sampled_paths_where_weights_underflow():
    """Two chains that never meet; the posterior is on the one that the first row makes very unlikely."""
    chain = HiddenChain.of([0.5, 0.5], np.eye(2))
    rows = np.tile([-1.0, 0.0], (3000, 1))
    rows[0] = [0.0, -2000.0]
    assert np.all(sample_paths(chain, rows, 3, np.random.default_rng(7)) == 1)
    with refused("evidence.probability-zero", "row 1"):
        sample_paths(chain, [[0, -np.inf], [-np.inf, 0]], 1, np.random.default_rng(8))


def test_bad_paths_are_refused():
    chain, rows = umbrella("uu")
    with refused("option.out-of-range", "n_paths.*0"):
        k_best(chain, rows, 0)
    with refused("data.out-of-range", "path"):
        path_log_probability(chain, rows, np.array([0, 1, 2]))
    with refused("data.wrong-shape", r"3.*\(2,\)"):
        path_log_probability(chain, rows, np.array([0, 1]))
