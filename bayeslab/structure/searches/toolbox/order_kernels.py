"""Compiled search over orders: each variable takes its best parent set among its predecessors."""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["anneal", "best_sets", "descend"]


@inner(inline="always")
def _first_inside(sets, begin, end, before):  # type: ignore[no-untyped-def]
    """Number of the first, hence best, set with all members in ``before``; ``end`` if there is none."""
    words = before.size
    for i in range(begin, end):
        inside = True
        for w in range(words):
            if sets[i, w] & ~before[w]:
                inside = False
                break
        if inside:
            return i
    return end


@kernel
def best_sets(order, pointer, sets, choice):  # type: ignore[no-untyped-def]
    """The best set of each variable, written to ``choice``; pointer[v + 1] where no set fits. Returns how many fit."""
    before = np.zeros(sets.shape[1], np.uint64)
    fit = 0
    for v in order:
        choice[v] = _first_inside(sets, pointer[v], pointer[v + 1], before)
        fit += choice[v] < pointer[v + 1]
        before[v // 64] |= np.uint64(1) << np.uint64(v % 64)
    return fit


@inner
def _change(order, i, j, pointer, sets, scores, choice, fresh, before):  # type: ignore[no-untyped-def]
    """Gain from moving the variable at position i to position j; writes the new choices to ``fresh``, which equals
    ``choice`` at first. -inf if a variable has no set."""
    x = order[i]
    low, high = min(i, j), max(i, j)
    before[:] = 0
    for k in range(low):
        before[order[k] // 64] |= np.uint64(1) << np.uint64(order[k] % 64)
    word, bit = x // 64, np.uint64(1) << np.uint64(x % 64)
    gain = 0.0
    if j < i:
        # It loses predecessors: sets that did not fit before do not fit now.
        place = _first_inside(sets, choice[x], pointer[x + 1], before)
        fresh[x] = place
        if place == pointer[x + 1]:
            return -math.inf
        gain += scores[place] - scores[choice[x]]
        before[word] |= bit
        # They gain x: only sets better than the current one can newly fit.
        for k in range(low, high):
            y = order[k]
            place = _first_inside(sets, pointer[y], choice[y], before)
            fresh[y] = place
            gain += scores[place] - scores[choice[y]]
            before[y // 64] |= np.uint64(1) << np.uint64(y % 64)
        return gain
    for k in range(low + 1, high + 1):
        y = order[k]
        place = choice[y]
        # They lose x: the current set remains the best unless it contains x.
        if sets[place, word] & bit:
            place = _first_inside(sets, place + 1, pointer[y + 1], before)
            if place == pointer[y + 1]:
                return -math.inf
        fresh[y] = place
        gain += scores[place] - scores[choice[y]]
        before[y // 64] |= np.uint64(1) << np.uint64(y % 64)
    place = _first_inside(sets, pointer[x], choice[x], before)
    fresh[x] = place
    return gain + scores[place] - scores[choice[x]]


@inner
def _take(order, i, j, choice, fresh):  # type: ignore[no-untyped-def]
    x = order[i]
    step = 1 if j > i else -1
    for k in range(i, j, step):
        order[k] = order[k + step]
        choice[order[k]] = fresh[order[k]]
    order[j] = x
    choice[x] = fresh[x]


@kernel
def anneal(order, choice, total, pointer, sets, scores, uniforms, temperatures, best, top):  # type: ignore[no-untyped-def]
    """Run random insertions in place, one per row of ``uniforms`` (variable, position, acceptance).

    The best choices so far are stored in ``best``, with the score ``top``. Returns the final and the best score.
    """
    n = order.size
    fresh, before = choice.copy(), np.zeros(sets.shape[1], np.uint64)
    for t in range(uniforms.shape[0]):
        i = int(uniforms[t, 0] * n)
        j = int(uniforms[t, 1] * (n - 1))
        j += j >= i
        gain = _change(order, i, j, pointer, sets, scores, choice, fresh, before)
        if gain >= 0.0 or uniforms[t, 2] < math.exp(gain / temperatures[t]):
            _take(order, i, j, choice, fresh)
            total += gain
            if total > top + 1e-9:
                top = total
                best[:] = choice
    return total, top


@kernel
def descend(order, choice, pointer, sets, scores, tolerance):  # type: ignore[no-untyped-def]
    """Apply the best insertion repeatedly, in place, until none increases the score by more than ``tolerance``."""
    n = order.size
    fresh, before = choice.copy(), np.zeros(sets.shape[1], np.uint64)
    while True:
        top, a, b = tolerance, -1, -1
        for i in range(n):
            for j in range(n):
                if i != j:
                    gain = _change(order, i, j, pointer, sets, scores, choice, fresh, before)
                    if gain > top + (tolerance if a >= 0 else 0.0):
                        top, a, b = gain, i, j
        if a < 0:
            return
        _change(order, a, b, pointer, sets, scores, choice, fresh, before)
        _take(order, a, b, choice, fresh)
