"""Compiled sampling from discrete nets, on the flat arrays of `sampling` and `belief_propagation`.

Random numbers are counter-based SplitMix64 (Steele, Lea, Flood 2014, Fast splittable pseudorandom number generators,
figure 13; it passes BigCrush): number i of a stream is a hash of key + i γ. Each row and variable has a fixed number,
so results do not depend on threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["gibbs_chain", "weighted_rows", "weighted_totals"]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_11, _27, _30, _31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)

# Number of rows in a block: for a net of 100 variables, their codes stay in the fast caches.
_BLOCK = 1024
# Up to this number of thresholds, a linear search is faster than bisection.
_FEW_STATES = 12


@inner(error_model="numpy")
def _hash(z: np.uint64) -> np.uint64:
    """53 random bits."""
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return (z ^ (z >> _31)) >> _11


@inner(error_model="numpy")
def _draw(net: Any, v: int, key: np.uint64, row: int, rows: np.ndarray, codes: np.ndarray) -> None:
    """Draw the states of a variable in all rows of a block, by inversion of the table rows with indices ``rows``."""
    n_rows, n_variables = len(rows), len(net.n_states)
    cuts = net.n_states[v] - 1
    start = net.cut_offset[v]
    counter = key + _GAMMA * np.uint64(row * n_variables + v)
    step = _GAMMA * np.uint64(n_variables)
    if cuts == 0:
        codes[v, :n_rows] = 0
    elif cuts == 1:
        for r in range(n_rows):
            bits = np.int64(_hash(counter + step * np.uint64(r)))
            codes[v, r] = bits >= net.cuts[start + rows[r]]
    elif cuts == 2:
        for r in range(n_rows):
            bits = np.int64(_hash(counter + step * np.uint64(r)))
            at = start + 2 * rows[r]
            codes[v, r] = np.int64(bits >= net.cuts[at]) + np.int64(bits >= net.cuts[at + 1])
    elif cuts < _FEW_STATES:
        for r in range(n_rows):
            bits = np.int64(_hash(counter + step * np.uint64(r)))
            at, code = start + cuts * rows[r], 0
            for j in range(cuts):
                code += bits >= net.cuts[at + j]
            codes[v, r] = code
    else:
        for r in range(n_rows):
            bits = np.int64(_hash(counter + step * np.uint64(r)))
            at = start + cuts * rows[r]
            low, high = 0, cuts
            while low < high:
                middle = (low + high) // 2
                if bits >= net.cuts[at + middle]:
                    low = middle + 1
                else:
                    high = middle
            codes[v, r] = low


@inner(error_model="numpy")
def _block(
    net: Any,
    key: np.uint64,
    row: int,
    n_rows: int,
    hard: np.ndarray,
    local: np.ndarray,
    virtual: np.ndarray,
    codes: np.ndarray,
    rows: np.ndarray,
    log_weights: np.ndarray,
) -> None:
    """Draw rows of all variables, parents first; observed variables are fixed, and their likelihood is the weight."""
    rows, log_weights = rows[:n_rows], log_weights[:n_rows]
    log_weights[:] = 0.0
    for v in net.order:
        rows[:] = 0
        for at in range(net.parent_offset[v], net.parent_offset[v + 1]):
            above, stride = codes[net.parents[at]], net.parent_strides[at]
            for r in range(n_rows):
                rows[r] += stride * np.int64(above[r])
        if hard[v] >= 0:
            codes[v, :n_rows] = hard[v]
            at, n = net.table_offset[v] + hard[v], net.n_states[v]
            for r in range(n_rows):
                log_weights[r] += net.log_tables[at + n * rows[r]]
            continue
        _draw(net, v, key, row, rows, codes)
        if virtual[v]:
            for r in range(n_rows):
                log_weights[r] += local[net.variable_offset[v] + codes[v, r]]


@kernel(error_model="numpy")
def weighted_rows(
    net: Any,
    key: np.uint64,
    first: int,
    hard: np.ndarray,
    local: np.ndarray,
    virtual: np.ndarray,
    out: np.ndarray,
    log_weights: np.ndarray,
) -> None:
    """Fill ``out`` with the rows from ``first`` on of the stream, and ``log_weights``, if it is not empty."""
    n, n_variables = out.shape
    codes = np.empty((n_variables, _BLOCK), out.dtype)
    rows, weights = np.empty(_BLOCK, np.int64), np.empty(_BLOCK)
    for start in range(0, n, _BLOCK):
        n_rows = min(_BLOCK, n - start)
        _block(net, key, first + start, n_rows, hard, local, virtual, codes, rows, weights)
        for r in range(n_rows):
            for v in range(n_variables):
                out[start + r, v] = codes[v, r]
        if len(log_weights):
            log_weights[start : start + n_rows] = weights[:n_rows]


@kernel(error_model="numpy")
def weighted_totals(
    net: Any,
    key: np.uint64,
    first: int,
    n: int,
    hard: np.ndarray,
    local: np.ndarray,
    virtual: np.ndarray,
) -> tuple[float, float, float, np.ndarray, np.ndarray]:
    """Sums over rows, which are not stored.

    Returns
    -------
    peak : float
        The largest log weight; the weights in the sums are relative to it.
    total, squares : float
        Sums of weights and of their squares.
    of_states, squares_of_states : ndarray
        The same over the rows with each state of a variable.
    """
    n_variables = len(net.n_states)
    codes = np.empty((n_variables, _BLOCK), np.int32)
    rows, weights = np.empty(_BLOCK, np.int64), np.empty(_BLOCK)
    of_states, squares_of_states = np.zeros(net.variable_offset[-1]), np.zeros(net.variable_offset[-1])
    peak, total, squares = -np.inf, 0.0, 0.0
    for start in range(0, n, _BLOCK):
        n_rows = min(_BLOCK, n - start)
        _block(net, key, first + start, n_rows, hard, local, virtual, codes, rows, weights)
        highest = weights[:n_rows].max()
        if highest == -np.inf:
            continue
        if highest > peak:
            shrink = math.exp(peak - highest)
            total, squares, peak = total * shrink, squares * shrink**2, highest
            of_states *= shrink
            squares_of_states *= shrink**2
        for r in range(n_rows):
            weights[r] = math.exp(weights[r] - peak)
            total += weights[r]
            squares += weights[r] ** 2
        for v in range(n_variables):
            offset = net.variable_offset[v]
            for r in range(n_rows):
                of_states[offset + codes[v, r]] += weights[r]
                squares_of_states[offset + codes[v, r]] += weights[r] ** 2
    return peak, total, squares, of_states, squares_of_states


@inner(error_model="numpy")
def _uniform(counter: np.ndarray) -> float:
    counter[0] += _GAMMA
    return np.int64(_hash(counter[0])) * 2.0**-53


@inner(error_model="numpy")
def _pick(scores: np.ndarray, n: int, u: float) -> int:
    """Draw an index with probability proportional to exp(scores), by inversion."""
    peak, total = -np.inf, 0.0
    for j in range(n):
        peak = max(peak, scores[j])
    for j in range(n):
        scores[j] = math.exp(scores[j] - peak)
        total += scores[j]
    left, last = u * total, 0
    for j in range(n):
        if scores[j] > 0.0:
            last = j
            left -= scores[j]
            if left < 0.0:
                break
    return last


@inner(error_model="numpy")
def _move(net: Any, v: int, code: int, state: np.ndarray, entry: np.ndarray) -> None:
    """Set the state of a variable, and update ``entry``, the current table entry of each factor."""
    change = code - state[v]
    if change != 0:
        for at in range(net.offset[v], net.offset[v + 1]):
            entry[net.factor[at]] += net.stride[at] * change
        state[v] = code


@inner(error_model="numpy")
def _conditional(
    net: Any,
    v: int,
    log_tables: np.ndarray,
    local: np.ndarray,
    state: np.ndarray,
    entry: np.ndarray,
    scores: np.ndarray,
    start: int,
) -> None:
    """Write log P(state of v | its Markov blanket), up to a constant, to ``scores`` from ``start`` on."""
    offset, n = net.variable_offset[v], net.n_states[v]
    for j in range(n):
        scores[start + j] = local[offset + j]
    for at in range(net.offset[v], net.offset[v + 1]):
        stride = net.stride[at]
        place = entry[net.factor[at]] - stride * state[v]
        for j in range(n):
            scores[start + j] += log_tables[place + stride * j]


@inner(error_model="numpy")
def _either(
    net: Any, v: int, log_tables: np.ndarray, local: np.ndarray, state: np.ndarray, entry: np.ndarray, u: float
) -> int:
    """Draw from the conditional distribution of a variable with two states, with one exponential function."""
    offset, here = net.variable_offset[v], state[v]
    first, second = local[offset], local[offset + 1]
    for at in range(net.offset[v], net.offset[v + 1]):
        stride = net.stride[at]
        place = entry[net.factor[at]] - stride * here
        first += log_tables[place]
        second += log_tables[place + stride]
    return int(u * (1.0 + math.exp(first - second)) < 1.0)


@inner(error_model="numpy")
def _apart(
    net: Any, a: int, b: int, log_tables: np.ndarray, local: np.ndarray, state: np.ndarray, entry: np.ndarray
) -> float:
    """The terms that depend on a and not on b, at the current state."""
    total = local[net.variable_offset[a] + state[a]]
    for at in range(net.offset[a], net.offset[a + 1]):
        shared = False
        for other in range(net.offset[b], net.offset[b + 1]):
            shared |= net.factor[other] == net.factor[at]
        if not shared:
            total += log_tables[entry[net.factor[at]]]
    return total


@kernel(error_model="numpy")
def gibbs_chain(
    net: Any,
    log_tables: np.ndarray,
    local: np.ndarray,
    free: np.ndarray,
    pairs: np.ndarray,
    random_scan: bool,
    key: np.uint64,
    warmup: int,
    start: np.ndarray,
    out: np.ndarray,
) -> None:
    """One chain: each sweep draws as many variables as are unobserved, then each pair jointly."""
    counter = np.array([key], np.uint64)
    entry, state, most = net.table_offset[:-1].copy(), np.zeros(len(start), np.int64), 1
    for v in range(len(start)):
        most = max(most, net.n_states[v])
        _move(net, v, start[v], state, entry)
    scores = np.empty(most * most)
    for sweep in range(warmup + len(out)):
        for i in range(len(free)):
            v = free[int(_uniform(counter) * len(free))] if random_scan else free[i]
            u = _uniform(counter)
            if net.n_states[v] == 2:
                code = _either(net, v, log_tables, local, state, entry, u)
            else:
                _conditional(net, v, log_tables, local, state, entry, scores, 0)
                code = _pick(scores, net.n_states[v], u)
            _move(net, v, code, state, entry)
        for p in range(len(pairs)):
            a, b = pairs[p]
            n_a, n_b = net.n_states[a], net.n_states[b]
            for i in range(n_a):
                _move(net, a, i, state, entry)
                _conditional(net, b, log_tables, local, state, entry, scores, i * n_b)
                alone = _apart(net, a, b, log_tables, local, state, entry)
                for j in range(n_b):
                    scores[i * n_b + j] += alone
            both = _pick(scores, n_a * n_b, _uniform(counter))
            _move(net, a, both // n_b, state, entry)
            _move(net, b, both % n_b, state, entry)
        if sweep >= warmup:
            for v in range(len(state)):
                out[sweep - warmup, v] = state[v]
