"""Transitions of chains that begin where they settle: the slope by differences, the maximum against a grid."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.latents.chains.stationary_transitions import best_transition, expected_log_density


def test_maximum_of_two_states_against_a_grid():
    moves, starts = np.array([[30.0, 10.0], [4.0, 20.0]]), np.array([2.0, 25.0])
    grid = np.linspace(0.001, 0.999, 500)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    pi = (1 - b) / (2 - a - b)
    q = 30 * np.log(a) + 10 * np.log(1 - a) + 4 * np.log(1 - b) + 20 * np.log(b)
    q += 2 * np.log(pi) + 25 * np.log(1 - pi)
    found = best_transition(moves, starts, np.ones((2, 2), bool), np.full((2, 2), 0.5))
    i, j = np.unravel_index(q.argmax(), q.shape)
    np.testing.assert_allclose(np.diag(found), [grid[i], grid[j]], atol=0.003)
    assert expected_log_density(found, moves, starts) >= q.max()


@pytest.mark.parametrize("seed", range(5))
def test_no_lower_than_before_and_flat_at_the_top(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((4, 4)) < 0.7
    mask |= np.eye(4, dtype=bool) | np.roll(np.eye(4, dtype=bool), 1, axis=1)
    moves, starts = rng.gamma(1, 10, (4, 4)) * mask, rng.gamma(1, 10, 4)
    before = np.where(mask, rng.random((4, 4)), 0.0)
    before /= before.sum(axis=1, keepdims=True)
    found = best_transition(moves, starts, mask, before)
    assert np.all(found[~mask] == 0)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    top = expected_log_density(found, moves, starts)
    assert top >= expected_log_density(before, moves, starts)
    for _ in range(50):
        other = found * np.exp(1e-3 * rng.standard_normal((4, 4)))
        assert expected_log_density(other / other.sum(axis=1, keepdims=True), moves, starts) < top + 1e-7


def test_without_starts_it_is_the_shares():
    moves = np.array([[3.0, 1.0], [2.0, 2.0]])
    found = best_transition(moves, np.zeros(2), np.ones((2, 2), bool), np.full((2, 2), 0.5))
    np.testing.assert_allclose(found, [[0.75, 0.25], [0.5, 0.5]], atol=1e-5)
