"""Sums over discrete variables against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from bayeslab.latents.networks import elimination_kernels as kernels
from bayeslab.latents.networks.elimination import Factor, planned
from tests.refusals import refused


def random_problem(rng, scopes, sizes):
    """Dense tables of the scopes, one behind the other."""
    factors, at = [], 0
    for scope in scopes:
        shape = [sizes[cell] for cell in scope]
        strides = tuple(int(np.prod(shape[j + 1 :])) for j in range(len(shape)))
        factors.append(Factor(tuple(scope), at, strides))
        at += int(np.prod(shape))
    return factors, rng.normal(0, 1.5, at)


def enumerated(sizes, factors, tables):
    """Log weight of every joint state."""
    states = list(itertools.product(*(range(size) for size in sizes)))
    weights = [
        sum(tables[f.offset + sum(s * state[c] for c, s in zip(f.scope, f.strides, strict=True))] for f in factors)
        for state in states
    ]
    return np.array(states), np.array(weights)


PROBLEMS = {
    "chain": ([(0,), (0, 1), (1, 2), (2, 3), (3,)], [2, 3, 2, 4]),
    "loop and apart": ([(0, 1), (1, 2), (2, 0), (3,), (3,), (4, 0), ()], [2, 2, 3, 2, 2]),
    "three meet": ([(0, 2, 1), (3, 1, 4), (4, 0)], [3, 2, 2, 2, 3]),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_sum_and_gradient_equal_enumeration(name):
    scopes, sizes = PROBLEMS[name]
    rng = np.random.default_rng(1)
    factors, tables = random_problem(rng, scopes, sizes)
    tables[1] = -np.inf
    plan = planned(sizes, factors, len(tables))
    states, weights = enumerated(sizes, factors, tables)
    value, gradient = kernels.log_sum(tables, *plan.arrays)
    assert value == pytest.approx(logsumexp(weights), abs=1e-12)
    posterior = np.exp(weights - logsumexp(weights))
    expected = np.zeros_like(tables)
    for state, share in zip(states, posterior, strict=True):
        for f in factors:
            expected[f.offset + sum(s * state[c] for c, s in zip(f.scope, f.strides, strict=True))] += share
    np.testing.assert_allclose(gradient, expected, atol=1e-12)
    each = kernels.parts(tables[None], *plan.arrays)[0][plan.roots].sum() + tables[plan.arrays[-1]].sum()
    assert each == pytest.approx(value, abs=1e-12)


def test_draws_have_the_joint_probabilities():
    scopes, sizes = PROBLEMS["loop and apart"]
    rng = np.random.default_rng(2)
    factors, tables = random_problem(rng, scopes, sizes)
    plan = planned(sizes, factors, len(tables))
    states, weights = enumerated(sizes, factors, tables)
    n = 40_000
    uniform = rng.random((n, len(sizes)))
    drawn = kernels.draw(np.tile(tables, (n, 1)), uniform, *plan.arrays)
    assert np.array_equal(kernels.draw(tables.reshape(1, -1), uniform, *plan.arrays), drawn)  # one table for all
    probabilities = np.exp(weights - logsumexp(weights))
    often = n * probabilities > 10
    assert often.sum() > 10
    for state, p in zip(states[often], probabilities[often], strict=True):
        share = np.mean(np.all(drawn == state, axis=1))
        assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / n)


def test_a_sum_that_would_not_fit_is_refused_with_its_size():
    with refused("model.too-costly"):
        planned([2] * 40, [Factor(tuple(range(40)), 0, tuple(2**k for k in range(40)))], 1)


@pytest.mark.slow(why="large")
def test_a_long_chain_and_a_hub_are_planned_in_linear_time():
    n = 3_000
    chain = [Factor((k, k + 1), 4 * k, (2, 1)) for k in range(n - 1)]
    plan = planned([2] * n, chain, 4 * n)
    assert plan.roots.size == 1 and np.diff(plan.arrays[1]).max() == 2
    hub = [Factor((0, k), 4 * k, (2, 1)) for k in range(1, n)]
    plan = planned([2] * n, hub, 4 * n)
    assert np.diff(plan.arrays[1]).max() == 2
