"""Tiling: no error left on Boolean functions, and a plain twin of its pocket."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bayeslab.learners.tiling import Tiling
from bayeslab.learners.toolbox.tiling_kernels import pocket


def bits(n: int) -> np.ndarray:
    return np.array(list(itertools.product([-1.0, 1.0], repeat=n)))


@pytest.mark.parametrize("seed", range(4))
def test_boolean_functions(seed):
    """tiling: training error 0 on random Boolean functions, on parity and on one that a plane separates."""
    rng = np.random.default_rng(seed)
    for n in (2, 3, 4, 5):
        x = bits(n)
        for y in (rng.integers(0, 2, len(x)), (x.prod(axis=1) > 0).astype(int), (x.sum(axis=1) > 0).astype(int)):
            if len(set(y)) == 2:
                net = Tiling(random_state=seed).fit(x, y)
                assert net.score(x, y) == 1
                assert all(np.diff(errors).max(initial=-1) < 0 for errors in net.errors_)


def test_separable_is_one_unit():
    x = bits(4)
    net = Tiling(random_state=0).fit(x, x[:, 0] + x[:, 1] > 0)
    assert [w.shape for w in net.layers_[0]] == [(5, 1)]


def test_rows_that_contradict():
    """Equal rows of two classes are never told apart: the net ends."""
    x = np.array([[0.0], [0.0], [0.0], [1.0]])
    net = Tiling(random_state=0).fit(x, [0, 1, 1, 0])
    assert net.score(x, [0, 1, 1, 0]) == 0.75


def test_several_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    x = np.array([[0, 0], [3, 0], [0, 3]])[y] + 0.7 * rng.normal(size=(90, 2))
    assert Tiling(random_state=0).fit(x, y).score(x, y) > 0.95


def test_pocket_against_a_plain_twin():
    rng = np.random.default_rng(1)
    rows = np.column_stack([np.ones(30), rng.normal(size=(30, 3))])
    side = np.where(rng.random(30) < 0.5, 1.0, -1.0)
    orders = np.array([rng.permutation(30) for _ in range(20)])
    found, wrong = pocket(rows, side, orders, np.zeros(4))
    w, best, fewest = np.zeros(4), np.zeros(4), int(np.sum(side < 0))
    for order in orders:
        for i in order:
            if (1 if rows[i] @ w >= 0 else -1) != side[i]:
                w = w + side[i] * rows[i]
        count = sum((1 if rows[i] @ w >= 0 else -1) != side[i] for i in range(30))
        if count < fewest:
            fewest, best = count, w.copy()
    assert wrong == fewest
    np.testing.assert_allclose(found, best)
