"""Orders that agree with a graph, against all orders looked at one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bayeslab.structure.orders import log_orders
from tests.refusals import refused


def brute_force(parents):
    n = len(parents)
    return sum(
        all(order.index(u) < order.index(v) for v in range(n) for u in parents[v])
        for order in itertools.permutations(range(n))
    )


def test_counts_are_those_of_all_orders():
    rng = np.random.default_rng(0)
    for _ in range(40):
        order = rng.permutation(6)
        parents = [()] * 6
        for place, v in enumerate(order):
            parents[v] = tuple(int(u) for u in order[:place] if rng.random() < 0.3)
        assert np.exp(log_orders(parents)) == pytest.approx(brute_force(parents), rel=1e-12)


def test_ends():
    assert log_orders([(), (), ()]) == pytest.approx(np.log(6))
    assert log_orders([(), (0,), (1,)]) == pytest.approx(0.0)
    assert log_orders([()] * 200) == pytest.approx(sum(np.log(np.arange(1, 201))))
    with refused("engine.refused.too-costly"):
        log_orders([(), *[(0,)] * 30])
