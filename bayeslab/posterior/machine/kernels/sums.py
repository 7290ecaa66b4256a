"""Kernels of sums over discrete variables: elimination of the variables of a product of tables, and Markov chains.

The plan of an elimination is that of :mod:`bayeslab.latents.networks.elimination_kernels`, in one array of whole
numbers; see :func:`bayeslab.posterior.machine.sums.eliminated`.

The forward pass of a chain holds, of each row, the log probability of each state given the data so far, relative to the
largest. A sum of probabilities that underflows is taken again in logarithms. The backward pass is that of [1]_; see
:mod:`bayeslab.latents.chains.forward_backward`.

References
----------
.. [1] Kitagawa (1987). Non-Gaussian state-space modeling of nonstationary time series. JASA 82, 1032-1063.
"""

from __future__ import annotations

import math
from typing import Any

from bayeslab.posterior.machine.kernels.memory import add, jit, load, store, store_word, word
from bayeslab.posterior.machine.kernels.vector_math import exp, log

__all__ = ["sums"]

_inner = jit(error_model="numpy", fastmath={"contract"})

_OUT, _A, _B = 4, 8, 12
_EXTRA = 28
# Words of the head of a plan.
_SIZE, _STEPS, _WIDTH, _CONSTANTS, _WORK, _DIGITS, _PLACES = 0, 1, 2, 3, 4, 5, 6
_INPUTS, _VARS, _SIZES, _RESULTS, _OFFSETS, _STRIDES, _SINGLES = 7, 8, 9, 10, 11, 12, 13
# Sums of products of probabilities below this may have lost terms.
_TINY = 1e-280


def scatter_forward(row: int) -> float:
    """Sums of values by group."""
    o, a, index = word(row, _OUT), word(row, _A), word(row, _EXTRA)
    for i in range(word(row, 1)):
        store(o, i, 0.0)
    for i in range(word(row, 2)):
        add(o, word(index, i), load(a, i))
    return 0.0


def scatter_backward(row: int) -> float:
    g, ga, index = word(row, _OUT + 1), word(row, _A + 1), word(row, _EXTRA)
    for i in range(word(row, 2)):
        add(ga, i, load(g, word(index, i)))
    return 0.0


@_inner
def _at(plan: int, array: int) -> int:
    """Address of an array of the plan."""
    return plan + 8 * word(plan, array)


@_inner
def _sum_of(work: int, offsets: int, places: int, shift: int, n: int) -> float:
    total = 0.0
    for i in range(n):
        total += load(work, word(offsets, i) + word(places, i) + word(shift, i))
    return total


@_inner
def _next(sizes: int, strides: int, width: int, r: int, n: int, digits: int, places: int) -> None:
    """The next joint value of the variables that remain, and its position in each input."""
    j = r - 1
    while j >= 0:
        digit = word(digits, j) + 1
        if digit < word(sizes, j):
            store_word(digits, j, digit)
            for i in range(n):
                store_word(places, i, word(places, i) + word(strides, i * width + j))
            return
        for i in range(n):
            store_word(places, i, word(places, i) - word(strides, i * width + j) * (word(sizes, j) - 1))
        store_word(digits, j, 0)
        j -= 1


@_inner
def _step(plan: int, work: int, slopes: int, spare: int, s: int, single: float) -> float:
    """One step forward, whose sum is returned; backward, if the slopes have an address."""
    width, out = word(plan, _WIDTH), word(_at(plan, _RESULTS), s)
    first, low = word(_at(plan, _INPUTS), s), word(_at(plan, _VARS), s)
    n, r = word(_at(plan, _INPUTS), s + 1) - first, word(_at(plan, _VARS), s + 1) - low - 1
    sizes, offsets = _at(plan, _SIZES) + 8 * low, _at(plan, _OFFSETS) + 8 * first
    strides = _at(plan, _STRIDES) + 8 * first * width
    digits, places = spare, spare + 8 * word(plan, _DIGITS)
    shift = places + 8 * word(plan, _PLACES)
    count, k = 1, word(sizes, r)
    for j in range(r):
        count *= word(sizes, j)
        store_word(digits, j, 0)
    for i in range(n):
        store_word(places, i, 0)
    for c in range(count):
        for i in range(n):
            store_word(shift, i, 0)
        if slopes == 0:
            high, total = -math.inf, 0.0
            for _ in range(k):
                value = _sum_of(work, offsets, places, shift, n)
                if value != value:
                    high, total = value, 1.0
                    break
                if value > high:
                    total = total * exp(high - value) + 1.0 if high > -math.inf else 1.0
                    high = value
                elif value > -math.inf:
                    total += exp(value - high)
                for i in range(n):
                    store_word(shift, i, word(shift, i) + word(strides, i * width + r))
            single = high + log(total) if high > -math.inf else high
            if out >= 0:
                store(work, out + c, single)
        else:
            slope = load(slopes, out + c) if out >= 0 else 1.0
            value = load(work, out + c) if out >= 0 else single
            if slope != 0.0 and value > -math.inf:
                for _ in range(k):
                    share = slope * exp(_sum_of(work, offsets, places, shift, n) - value)
                    for i in range(n):
                        add(slopes, word(offsets, i) + word(places, i) + word(shift, i), share)
                        store_word(shift, i, word(shift, i) + word(strides, i * width + r))
        _next(sizes, strides, width, r, n, digits, places)
    return single


def eliminate_forward(row: int) -> float:
    o, a, plan = word(row, _OUT), word(row, _A), word(row, _EXTRA)
    steps, size = word(plan, _STEPS), word(plan, _SIZE)
    work = o + 8 * (1 + steps)
    spare = work + 16 * word(plan, _WORK)
    for i in range(size):
        store(work, i, load(a, i))
    total, constants = 0.0, _at(plan, _SINGLES)
    for i in range(word(plan, _CONSTANTS)):
        total += load(a, word(constants, i))
    for s in range(steps):
        single = _step(plan, work, 0, spare, s, 0.0)
        store(o, 1 + s, single)
        if word(_at(plan, _RESULTS), s) < 0:
            total += single
    store(o, 0, total)
    return 0.0


def eliminate_backward(row: int) -> float:
    o, g, ga, plan = word(row, _OUT), word(row, _OUT + 1), word(row, _A + 1), word(row, _EXTRA)
    steps, size, length = word(plan, _STEPS), word(plan, _SIZE), word(plan, _WORK)
    work = o + 8 * (1 + steps)
    slopes = work + 8 * length
    spare = slopes + 8 * length
    for i in range(length):
        store(slopes, i, 0.0)
    constants = _at(plan, _SINGLES)
    for i in range(word(plan, _CONSTANTS)):
        add(slopes, word(constants, i), 1.0)
    for back in range(steps):
        s = steps - 1 - back
        _step(plan, work, slopes, spare, s, load(o, 1 + s))
    slope = load(g, 0)
    for i in range(size):
        add(ga, i, slope * load(slopes, i))
    return 0.0


@_inner
def _log_predicted(before: int, logs: int, j: int, k: int) -> float:
    """Log probability of a state from those of the states before it."""
    top = -math.inf
    for i in range(k):
        value = load(before, i) + load(logs, i * k + j)
        top = value if not (value <= top) else top
    if top - top != 0.0:
        return top
    total = 0.0
    for i in range(k):
        total += exp(load(before, i) + load(logs, i * k + j) - top)
    return top + log(total)


@_inner
def _relative(state_logs: int, weights: int, k: int) -> float:
    """Subtract the largest, which is returned, and write the exponentials."""
    top = load(state_logs, 0)
    for j in range(1, k):
        value = load(state_logs, j)
        top = value if not (value <= top) else top
    shift = top if top > -math.inf else 0.0
    for j in range(k):
        value = load(state_logs, j) - shift
        store(state_logs, j, value)
        store(weights, j, exp(value))
    return top


@_inner
def _exponentials(logs: int, out: int, n: int) -> None:
    for i in range(n):
        store(out, i, exp(load(logs, i)))


def markov_forward(row: int) -> float:
    """Log evidence of chains, from the logs of first states and transitions, and of the data given each state."""
    cells, k, o, plan = word(row, 1), word(row, 2), word(row, _OUT), word(row, _EXTRA)
    first_logs, e, by_cell, by_state = word(row, _A), word(row, _B), word(row, _B + 2), word(row, _B + 3)
    starts, steps, sequences, offsets = word(plan, 0), word(plan, 1), word(plan, 2), plan + 24
    moves = first_logs + 8 * starts * k
    matrix = o + 8
    state_logs = matrix + 8 * k * k
    weights = state_logs + 8 * cells * k
    predicted = weights + 8 * cells * k
    if steps == 1:
        _exponentials(moves, matrix, k * k)
    total = 0.0
    for s in range(sequences):
        begin, end = word(offsets, s), word(offsets, s + 1)
        if end == begin:
            continue
        here = first_logs + (8 * k * s if starts > 1 else 0)
        for j in range(k):
            store(state_logs, begin * k + j, load(here, j) + load(e + begin * by_cell + j * by_state, 0))
        total += _relative(state_logs + 8 * k * begin, weights + 8 * k * begin, k)
        for t in range(begin + 1, end):
            before, logs = 8 * k * (t - 1), moves
            if steps > 1:
                logs = moves + 8 * k * k * t
                _exponentials(logs, matrix, k * k)
            for j in range(k):
                share = 0.0
                for i in range(k):
                    share += load(weights + before, i) * load(matrix, i * k + j)
                store(predicted, t * k + j, share)
                value = log(share) if share > _TINY else _log_predicted(state_logs + before, logs, j, k)
                store(state_logs, t * k + j, value + load(e + t * by_cell + j * by_state, 0))
            total += _relative(state_logs + 8 * k * t, weights + 8 * k * t, k)
        share = 0.0
        for j in range(k):
            share += load(weights, (end - 1) * k + j)
        total += log(share)
    store(o, 0, total)
    return 0.0


def markov_backward(row: int) -> float:
    """Expected counts: the probabilities of states and of transitions given all data, times the adjoint."""
    cells, k, o, plan, moving = word(row, 1), word(row, 2), word(row, _OUT), word(row, _EXTRA), word(row, 3)
    first_logs, by_cell, by_state = word(row, _A), word(row, _B + 2), word(row, _B + 3)
    starts, steps, sequences, offsets = word(plan, 0), word(plan, 1), word(plan, 2), plan + 24
    first_slopes, slopes_e = word(row, _A + 1), word(row, _B + 1)
    moves, move_slopes = first_logs + 8 * starts * k, first_slopes + 8 * starts * k
    matrix = o + 8
    state_logs = matrix + 8 * k * k
    weights = state_logs + 8 * cells * k
    predicted = weights + 8 * cells * k
    now = predicted + 8 * cells * k
    earlier = now + 8 * k
    g = load(word(row, _OUT + 1), 0)
    for s in range(sequences):
        begin, end = word(offsets, s), word(offsets, s + 1)
        if end == begin:
            continue
        share = 0.0
        for j in range(k):
            share += load(weights, (end - 1) * k + j)
        for j in range(k):
            store(now, j, g * load(weights, (end - 1) * k + j) / share)
        for back in range(end - begin):
            t = end - 1 - back
            if moving & 4:
                for j in range(k):
                    add(slopes_e + t * by_cell + j * by_state, 0, load(now, j))
            if t == begin:
                continue
            before, logs, slopes = 8 * k * (t - 1), moves, move_slopes
            if steps > 1:
                logs, slopes = moves + 8 * k * k * t, move_slopes + 8 * k * k * t
                _exponentials(logs, matrix, k * k)
            for i in range(k):
                store(earlier, i, 0.0)
            for j in range(k):
                slope, share = load(now, j), load(predicted, t * k + j)
                if slope == 0.0:
                    continue
                if share > _TINY:
                    ratio = slope / share
                    for i in range(k):
                        part = load(weights + before, i) * load(matrix, i * k + j) * ratio
                        add(earlier, i, part)
                        add(slopes, i * k + j, part)
                else:
                    value = _log_predicted(state_logs + before, logs, j, k)
                    for i in range(k):
                        part = slope * exp(load(state_logs + before, i) + load(logs, i * k + j) - value)
                        add(earlier, i, part)
                        add(slopes, i * k + j, part)
            now, earlier = earlier, now
        if moving & 2:
            here = first_slopes + (8 * k * s if starts > 1 else 0)
            for j in range(k):
                add(here, j, load(now, j))
    return 0.0


def sums() -> dict[str, Any]:
    """Kernels by name."""
    scope = globals()
    return {name: scope[name] for name in scope if name.endswith(("_forward", "_backward"))}
