"""Kernels of sums over discrete variables: elimination of the variables of a product of tables.

The plan of an elimination is that of :mod:`bayeslab.latents.networks.elimination_kernels`, in one array of whole
numbers; see :func:`bayeslab.posterior.machine.sums.eliminated`.
"""

from __future__ import annotations

import math
from typing import Any

from bayeslab.posterior.machine.kernels.memory import add, jit, load, store, store_word, word
from bayeslab.posterior.machine.kernels.vector_math import exp, log

__all__ = ["sums"]

_inner = jit(error_model="numpy", fastmath={"contract"})

_OUT, _A = 4, 8
_EXTRA = 28
# Words of the head of a plan.
_SIZE, _STEPS, _WIDTH, _CONSTANTS, _WORK, _DIGITS, _PLACES = 0, 1, 2, 3, 4, 5, 6
_INPUTS, _VARS, _SIZES, _RESULTS, _OFFSETS, _STRIDES, _SINGLES = 7, 8, 9, 10, 11, 12, 13


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


def sums() -> dict[str, Any]:
    """Kernels by name."""
    scope = globals()
    return {name: scope[name] for name in scope if name.endswith(("_forward", "_backward"))}
