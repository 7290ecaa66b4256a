"""Assignments of many matrices at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from bayeslab.latents.assignment import best_assignments


@pytest.mark.parametrize("k", range(1, 8))
def test_the_sum_is_that_of_scipy(k):
    costs = np.random.default_rng(k).normal(size=(40, k, k))
    expected = [one[linear_sum_assignment(one)].sum() for one in costs]
    found = best_assignments(costs)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.tile(np.arange(k), (40, 1)))
    np.testing.assert_allclose(np.take_along_axis(costs, found[:, :, None], axis=2).sum(axis=(1, 2)), expected)


def test_of_equal_sums_the_identity():
    np.testing.assert_array_equal(best_assignments(np.zeros((2, 4, 4))), np.tile(np.arange(4), (2, 1)))


@pytest.mark.parametrize("k", [2, 7])
def test_no_matrices(k):
    assert best_assignments(np.zeros((0, k, k))).shape == (0, k)
