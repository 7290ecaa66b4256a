"""Discrete unknowns of programs: cells, states, and sums; the slow twin is enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp as log_sum_exp

from bayeslab.latents.networks.elimination import Factor, planned
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.machine.discrete import States, scopes_of
from bayeslab.posterior.machine.functions import cumsum, logsumexp, stationary
from bayeslab.posterior.machine.program import Builder
from bayeslab.posterior.machine.sums import eliminated, markov_evidence, summed_by_group
from tests.posterior.machine.checks import check, weighted


def expressions(builder, z, w, x):
    """Arrays that depend on z (5 cells), w (1 cell) and parameters x (3 × 4), with the cells of their elements."""
    rows, owner = np.arange(5), np.array([2, 0, 1, 1, 4, 3, 0])
    picked = x[z]
    yield z, [{i} for i in rows]
    yield picked, [{i} for i in rows for _ in range(4)]
    yield picked[:, 2], [{i} for i in rows]
    yield picked.T, [{i} for _ in range(4) for i in rows]
    yield picked[::-2, 1:3], [{i} for i in (4, 2, 0) for _ in range(2)]
    yield x[z[owner], np.arange(7) % 4], [{i} for i in owner]
    yield builder.elementwise("exp", x[z, 0] * 0.3) + z[::-1], [{i, 4 - i} for i in rows]
    yield picked.sum(0), [set(rows)] * 4
    yield picked.sum(1), [{i} for i in rows]
    yield logsumexp(picked * 0.5, 1), [{i} for i in rows]
    yield builder.concatenate([x[0, :2], x[z, 0]]), [set(), set(), *({i} for i in rows)]
    yield builder.concatenate([x[0, :2], x[z, 0]])[np.array([6, 0, 3])], [{4}, set(), {1}]
    yield builder.elementwise("where", z < w, x[0, 0], x[1, 1]), [{i, 5} for i in rows]
    yield builder.log_density("normal", np.arange(5.0), x[z, 1], 1.3), [{i} for i in rows]
    yield picked[rows, w[np.zeros(5, int)]], [{i, 5} for i in rows]
    yield x[(2 - z).astype("int64"), 1], [{i} for i in rows]
    yield picked[:, :3] @ np.array([1.0, -2.0, 0.5]), [{i} for i in rows]
    yield picked.reshape(20)[3:9], [{i // 4} for i in range(3, 9)]
    yield x[2][None, :] * np.ones((2, 4)), [set()] * 8


#: Number of the expressions.
COUNT = 19


def built():
    builder = Builder()
    x = builder.parameter(12).reshape(3, 4)
    z, w = builder.unknown((5,)), builder.unknown((1,))
    return builder, x, z, w


@pytest.mark.parametrize("k", range(COUNT))
def test_cells_and_states_of_an_array(k):
    builder, x, z, w = built()
    value, cells = list(expressions(builder, z, w, x))[k]
    numbers = {id(z.buffer): np.arange(5), id(w.buffer): np.array([5])}
    (scope,) = scopes_of(builder, [value], numbers)
    assert [set(row[row >= 0].tolist()) for row in scope] == cells
    rng = np.random.default_rng(k)
    states = rng.integers(0, 3, (6, 6))
    given = {id(z.buffer): builder.constant(states[:, :5]), id(w.buffer): builder.constant(states[:, 5:])}
    made = States(builder, given).of(value).broadcast_to((6, *value.shape))
    point = rng.standard_normal(12)
    program = weighted(builder, made)
    check(program, point)
    # The same expression with known numbers.
    for row in range(6):
        other = Builder()
        y = other.parameter(12).reshape(3, 4)
        again, _ = list(expressions(other, other.constant(states[row, :5]), other.constant(states[row, 5:]), y))[k]
        other.output("out", again)
        alone = other.finish().slow_outputs(point[None])["out"][0]
        np.testing.assert_allclose(program.slow_outputs(point[None])["out"][0][row], alone, rtol=1e-13, atol=1e-13)


def test_what_is_not_summed_out_is_refused():
    builder, x, z, _ = built()
    with pytest.raises(NotLowered, match="not summed out"):
        builder.add(x[z])
    sums = cumsum(x[z, 0], 0)
    with pytest.raises(NotLowered, match="a function of discrete nodes"):
        States(builder, {id(z.buffer): builder.constant(np.zeros((1, 5), int))}).of(sums)
    rows = x[z]
    with pytest.raises(NotLowered, match="no position"):
        States(builder, {id(z.buffer): builder.constant(np.full((1, 5), 3))}).of(rows)
    with pytest.raises(NotLowered, match="depend on parameters"):
        x[(x[0] > 0.0).astype("int64")]


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7)])
def test_sums_by_group(shape):
    builder, groups = Builder(), np.array([2, 0, 2, 3, 3, 3, 0])
    n = int(np.prod(shape))
    out = summed_by_group(builder.parameter(n).reshape(shape), groups, 5)
    point = np.random.default_rng(0).standard_normal(n)
    program = weighted(builder, out)
    check(program, point)
    by_hand = np.zeros((*shape[:-1], 5))
    for k, group in enumerate(groups):
        by_hand[..., group] += point.reshape(shape)[..., k]
    np.testing.assert_allclose(program.outputs(point[None])["out"][0], by_hand, rtol=1e-14)
    np.testing.assert_allclose(summed_by_group(builder.constant(point.reshape(shape)), groups, 5).value, by_hand)


@pytest.mark.parametrize(("n", "states"), [(8, 3), (40, 2), (9, 1), (300, 12)])
def test_log_sums_of_columns(n, states):
    builder = Builder()
    out = logsumexp(builder.parameter(n * states).reshape(states, n), 0)
    point = 3.0 * np.random.default_rng(1).standard_normal(n * states)
    program = weighted(builder, out)
    check(program, point) if n * states < 200 else None
    x = point.reshape(states, n)
    np.testing.assert_allclose(program.outputs(point[None])["out"][0], log_sum_exp(x, axis=0), rtol=1e-14)
    far = np.where(np.arange(n * states) % n == 0, -800.0, 900.0 * np.sign(point))
    np.testing.assert_allclose(
        program.outputs(far[None])["out"][0], log_sum_exp(far.reshape(states, n), axis=0), rtol=1e-14
    )


def test_a_column_that_is_impossible_has_no_slope():
    builder = Builder()
    x = builder.parameter(9)
    rows = builder.elementwise("log", builder.elementwise("maximum", builder.concatenate([x, x - 50.0]), 0.0))
    builder.output("out", logsumexp(rows.reshape(2, 9), 0))
    builder.add(builder.elementwise("exp", logsumexp(rows.reshape(2, 9), 0)))
    value, gradient = builder.finish().value_and_gradient(np.array([-1.0, *np.arange(1.0, 9.0)]))
    assert value == pytest.approx(36.0)
    np.testing.assert_allclose(gradient, [0.0, *[1.0] * 8], rtol=1e-12)


NETWORKS = {
    "chain": ([2, 3, 2, 2], [(0,), (0, 1), (1, 2), (2, 3), (3,)]),
    "tree": ([3, 2, 2, 2, 3], [(0,), (0, 1), (0, 2), (1, 3), (1, 4)]),
    "loop": ([2, 2, 3, 2], [(0, 1), (1, 2), (2, 3), (0, 3), (0, 1, 3)]),
    "parts": ([2, 3, 4], [(0,), (1, 2), (), (1,)]),
    "one": ([5], [(0,), (0,)]),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_elimination_is_enumeration(name):
    sizes, scopes = NETWORKS[name]
    factors, at = [], 0
    for scope in scopes:
        shape = [sizes[v] for v in scope]
        factors.append(Factor(scope, at, tuple(int(np.prod(shape[j + 1 :])) for j in range(len(shape)))))
        at += int(np.prod(shape))
    builder = Builder()
    out = eliminated(builder, builder.parameter(at), planned(sizes, factors, at).arrays)
    point = np.random.default_rng(2).standard_normal(at)
    program = weighted(builder, out[None])
    check(program, point)
    joint = [
        sum(point[f.offset + sum(s * x[v] for v, s in zip(f.scope, f.strides, strict=True))] for f in factors)
        for x in itertools.product(*(range(n) for n in sizes))
    ]
    assert program.outputs(point[None])["out"][0][0] == pytest.approx(log_sum_exp(joint), rel=1e-13)


def test_elimination_of_impossible_states():
    factors = [Factor((0, 1), 0, (2, 1)), Factor((0,), 4, (1,))]
    builder = Builder()
    x = builder.parameter(6)
    tables = builder.elementwise("log", builder.elementwise("maximum", x, 0.0))
    builder.add(eliminated(builder, tables, planned([2, 2], factors, 6).arrays))
    program, point = builder.finish(), np.array([1.0, 2.0, -1.0, -1.0, 3.0, 4.0])
    value, gradient = program.value_and_gradient(point)
    assert value == pytest.approx(np.log(9.0))
    assert program.value(point) == pytest.approx(np.log(9.0))
    np.testing.assert_allclose(gradient, [1 / 3, 1 / 3, 0, 0, 1 / 3, 0], rtol=1e-13)


def by_enumeration(logs, log_emission, offsets, n_starts, n_steps):
    """Log of the sum over all paths."""
    (cells, k), total = log_emission.shape, 0.0
    starts, moves = logs[: n_starts * k].reshape(n_starts, k), logs[n_starts * k :].reshape(n_steps, k, k)
    for s, (begin, end) in enumerate(itertools.pairwise(offsets)):
        paths = []
        for path in itertools.product(range(k), repeat=end - begin):
            log = starts[s if n_starts > 1 else 0, path[0]] + log_emission[begin, path[0]]
            for t in range(begin + 1, end):
                i, j = path[t - 1 - begin], path[t - begin]
                log += moves[t if n_steps > 1 else 0, i, j] + log_emission[t, j]
            paths.append(log)
        total += log_sum_exp(paths)
    assert cells == offsets[-1]
    return total


@pytest.mark.parametrize("by_state", [False, True])
@pytest.mark.parametrize(("n_starts", "n_steps"), [(1, 1), (3, 1), (1, 9), (3, 9)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_evidence_of_chains_is_enumeration(k, n_starts, n_steps, by_state):
    offsets, size = np.array([0, 4, 5, 9]), n_starts * k + n_steps * k * k
    builder = Builder()
    logs, rows = builder.parameter(size), builder.parameter(9 * k)
    log_emission = rows.reshape(k, 9).T if by_state else rows.reshape(9, k)
    out = markov_evidence(logs, log_emission, offsets, n_starts, n_steps)
    program, point = weighted(builder, out[None]), np.random.default_rng(k).standard_normal(size + 9 * k)
    check(program, point)
    emission = point[size:].reshape(k, 9).T if by_state else point[size:].reshape(9, k)
    expected = by_enumeration(point[:size], emission, offsets, n_starts, n_steps)
    assert program.outputs(point[None])["out"][0][0] == pytest.approx(expected, rel=1e-13)


def test_a_state_whose_probability_underflows_comes_back():
    """The only path through the data begins in a state that the first rows make impossible by e^-2000."""
    builder, never = Builder(), -np.inf
    logs = builder.constant(np.array([np.log(0.5), np.log(0.5), 0.0, never, never, 0.0]))
    rows = builder.parameter(12)
    builder.add(markov_evidence(logs, rows.reshape(6, 2), np.array([0, 6])))
    program = builder.finish()
    point = np.array([0.0, -1000.0, 0.0, -1000.0, 0.0, 0.0, 0.0, 0.0, -3000.0, 0.0, 0.0, 0.0])
    value, gradient = program.value_and_gradient(point)
    assert value == pytest.approx(np.log(0.5) - 2000.0, rel=1e-14)
    assert value == pytest.approx(program.value(point), rel=1e-14)
    np.testing.assert_allclose(gradient, np.tile([0.0, 1.0], 6), atol=1e-12)


def test_chains_without_a_possible_path_have_no_density():
    builder = Builder()
    x = builder.parameter(1)
    never = builder.constant(np.array([0.0, -np.inf, 0.0, -np.inf, 0.0, -np.inf]))
    rows = builder.concatenate([x, np.array([0.0, -np.inf, 0.0])]).reshape(2, 2)
    builder.add(markov_evidence(never, rows, np.array([0, 2])))
    program = builder.finish()
    assert program.value_and_gradient(np.zeros(1))[0] == -np.inf
    assert program.value(np.zeros(1)) == -np.inf


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (4, 4), (3, 4, 4)])
def test_stationary_distributions(shape):
    rng, builder = np.random.default_rng(0), Builder()
    matrix = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
    x = builder.parameter(matrix.size).reshape(shape)
    program = weighted(builder, stationary(x))
    check(program, matrix.ravel())
    found = program.outputs(matrix.ravel()[None])["out"][0]
    np.testing.assert_allclose(found, np.einsum("...i,...ij->...j", found, matrix), rtol=1e-13)
    np.testing.assert_allclose(found.sum(-1), 1.0, rtol=1e-14)


def test_small_stationary_probabilities_keep_their_digits():
    builder, small = Builder(), 1e-25
    x = builder.parameter(4).reshape(2, 2)
    builder.output("out", stationary(x))
    found = builder.finish().outputs(np.array([[1 - small, small, 3 * small, 1 - 3 * small]]))["out"][0]
    np.testing.assert_allclose(found, [0.75, 0.25], rtol=1e-15)
