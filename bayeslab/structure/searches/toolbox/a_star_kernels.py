"""Compiled best-first search over sets of variables; sets are bits of one integer."""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["expand", "moved", "patterns", "place_of"]

_EMPTY = -1


@inner(inline="always")
def _first_inside(sets, begin, end, outside):  # type: ignore[no-untyped-def]
    """Number of the first, hence best, set without a member in ``outside``; -1 if there is none."""
    for i in range(begin, end):
        if sets[i] & outside == 0:
            return i
    return -1


@kernel
def patterns(pointer, sets, scores, members):  # type: ignore[no-untyped-def]
    """Largest total score that one group can add, for each subset of the group that is still to be placed.

    Variables outside the group count as available parents.
    """
    k = members.size
    out = np.full(1 << k, -math.inf)
    out[0] = 0.0
    for p in range(1, 1 << k):
        left = 0
        for j in range(k):
            if p >> j & 1:
                left |= 1 << members[j]
        for j in range(k):
            if p >> j & 1:
                v = members[j]
                i = _first_inside(sets, pointer[v], pointer[v + 1], left)
                if i >= 0:
                    out[p] = max(out[p], scores[i] + out[p & ~(1 << j)])
    return out


@inner(inline="always")
def _promise(left, groups, starts, tables, begins):  # type: ignore[no-untyped-def]
    """Upper bound on what the remaining variables can add: the sum over the groups."""
    total = 0.0
    for g in range(begins.size - 1):
        p = 0
        for j in range(starts[g], starts[g + 1]):
            p |= (left >> groups[j] & 1) << (j - starts[g])
        total += tables[begins[g] + p]
    return total


@kernel
def place_of(keys, key):  # type: ignore[no-untyped-def]
    """Slot of a set, present or new, in an open-addressing hash table whose length is a power of two."""
    size = keys.size - 1
    mixed = key * 0x9E3779B97F4A7C1
    at = (mixed ^ mixed >> 31) & size
    while keys[at] != _EMPTY and keys[at] != key:
        at = (at + 1) & size
    return at


@inner(inline="always")
def _push(heap_f, heap_key, size, f, key):  # type: ignore[no-untyped-def]
    at = size
    while at > 0 and heap_f[(at - 1) >> 1] < f:
        heap_f[at] = heap_f[(at - 1) >> 1]
        heap_key[at] = heap_key[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap_f[at] = f
    heap_key[at] = key


@inner(inline="always")
def _pop(heap_f, heap_key, size):  # type: ignore[no-untyped-def]
    """Remove the first element of a heap of this size; its place is filled from the end."""
    f, key = heap_f[size - 1], heap_key[size - 1]
    at, last = 0, size - 1
    while 2 * at + 1 < last:
        child = 2 * at + 1
        if child + 1 < last and heap_f[child + 1] > heap_f[child]:
            child += 1
        if heap_f[child] <= f:
            break
        heap_f[at] = heap_f[child]
        heap_key[at] = heap_key[child]
        at = child
    heap_f[at] = f
    heap_key[at] = key


@kernel
def expand(  # type: ignore[no-untyped-def]
    n, pointer, sets, scores, groups, starts, tables, begins, keys, best, last, closed, heap_f, heap_key, state, floor,
    steps,
):  # fmt: skip
    """Expand the most promising sets; return 1 if all variables are placed, 0 if sets remain, -1 if none remain.

    ``state`` holds the sizes of the heap and of the table of sets. Stops before either could overflow.
    """
    full = (1 << n) - 1
    for _ in range(steps):
        if state[0] == 0:
            return -1
        if state[0] + n >= heap_f.size or 2 * (state[1] + n) >= keys.size:
            return 0
        u = heap_key[0]
        _pop(heap_f, heap_key, state[0])
        state[0] -= 1
        here = place_of(keys, u)
        if closed[here]:
            continue
        closed[here] = True
        if u == full:
            return 1
        base = best[here]
        for v in range(n):
            if u >> v & 1:
                continue
            i = _first_inside(sets, pointer[v], pointer[v + 1], ~u)
            if i < 0:
                continue
            s = u | 1 << v
            value = base + scores[i]
            at = place_of(keys, s)
            new = keys[at] == _EMPTY
            if not new and (closed[at] or value <= best[at]):
                continue
            f = value + _promise(full & ~s, groups, starts, tables, begins)
            if f < floor:
                continue
            if new:
                keys[at] = s
                state[1] += 1
            best[at] = value
            last[at] = v
            _push(heap_f, heap_key, state[0], f, s)
            state[0] += 1
    return 0


@kernel
def moved(keys, best, last, closed, new_keys, new_best, new_last, new_closed):  # type: ignore[no-untyped-def]
    """Copy a table of sets to a larger one."""
    for old in range(keys.size):
        if keys[old] != _EMPTY:
            at = place_of(new_keys, keys[old])
            new_keys[at] = keys[old]
            new_best[at] = best[old]
            new_last[at] = last[old]
            new_closed[at] = closed[old]
