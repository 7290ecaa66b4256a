"""Compiled counts and statistics of contingency tables, one table per call.

If all rows have weight one, each state of a variable is also stored as a row of bits, one per case. The cases in a cell
are those whose bits are set in all its states, so that 64 cases are counted at a time; this pays for small tables.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types
from numba.extending import intrinsic

from bayeslab.compiled import inner, kernel

__all__ = ["count_bits", "count_table", "pack_bits", "table_statistic"]


@intrinsic
def _popcount(typingctx, word):  # type: ignore[no-untyped-def]
    """Number of bits set."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), code


@kernel
def pack_bits(columns, starts, out):  # type: ignore[no-untyped-def]
    """Pack states: bit r % 64 of word r // 64 of row starts[v] + s says whether variable v has state s in case r."""
    for v in range(columns.shape[0]):
        for r in range(columns.shape[1]):
            out[starts[v] + columns[v, r], r // 64] |= np.uint64(1) << np.uint64(r % 64)


@inner
def _both(first, second, out):  # type: ignore[no-untyped-def]
    """Write the bits set in both, and return their number."""
    total = np.uint64(0)
    for w in range(first.size):
        word = first[w] & second[w]
        out[w] = word
        total += _popcount(word)  # type: ignore[call-arg]
    return total


@inner
def _overlap(first, second):  # type: ignore[no-untyped-def]
    total = np.uint64(0)
    for w in range(first.size):
        total += _popcount(first[w] & second[w])  # type: ignore[call-arg]
    return total


@kernel
def count_bits(bits, starts, cards, chosen, n_rows, n_cells):  # type: ignore[no-untyped-def]
    """As :func:`count_table` for weights of one, from rows of bits."""
    k, n_words = chosen.size, bits.shape[1]
    counts = np.zeros(n_cells, np.float64)
    inside = np.empty((k, n_words), np.uint64)
    totals = np.zeros(k, np.uint64)
    state = np.zeros(k, np.int64)
    inside[0] = ~np.uint64(0)
    totals[0] = n_rows
    y = chosen[k - 1]
    # inside[d] holds the cases in the first d chosen states; at depth k - 1 the last variable is counted.
    depth, place = 0, 0
    while True:
        if depth < k - 1 and state[depth] < cards[chosen[depth]]:
            row = bits[starts[chosen[depth]] + state[depth]]
            depth += 1
            totals[depth] = _both(inside[depth - 1], row, inside[depth])
            state[depth] = 0
        elif depth == k - 1:
            if totals[depth] > 0:
                left = totals[depth]
                for j in range(cards[y] - 1):
                    overlap = _overlap(inside[depth], bits[starts[y] + j])
                    counts[place + j] = overlap
                    left -= overlap
                counts[place + cards[y] - 1] = left
            place += cards[y]
            depth -= 1
            state[depth] += 1
        else:
            if depth == 0:
                return counts
            depth -= 1
            state[depth] += 1


@kernel
def count_table(columns, cards, weights, chosen, n_cells):  # type: ignore[no-untyped-def]
    """Counts of the joint states of some variables; the last variable changes fastest.

    ``columns`` has shape (n, n_rows); ``n_cells`` is the product of the cards of the chosen variables.
    """
    n_rows = columns.shape[1]
    counts = np.zeros(n_cells, np.float64)
    k = chosen.size
    if k == 2:
        first, last = columns[chosen[0]], columns[chosen[1]]
        card = cards[chosen[1]]
        for r in range(n_rows):
            counts[first[r] * card + last[r]] += weights[r]
        return counts
    if k == 3:
        first, second, last = columns[chosen[0]], columns[chosen[1]], columns[chosen[2]]
        high, low = cards[chosen[1]] * cards[chosen[2]], cards[chosen[2]]
        for r in range(n_rows):
            counts[first[r] * high + second[r] * low + last[r]] += weights[r]
        return counts
    codes = np.zeros(n_rows, np.int32)
    for i in range(k - 1):
        column, card = columns[chosen[i]], np.int32(cards[chosen[i + 1]])
        for r in range(n_rows):
            codes[r] = (codes[r] + column[r]) * card
    last = columns[chosen[k - 1]]
    for r in range(n_rows):
        counts[codes[r] + last[r]] += weights[r]
    return counts


@kernel
def table_statistic(counts, pearson):  # type: ignore[no-untyped-def]
    """G² or Pearson's χ² of counts of shape (strata, rows, columns), and its degrees of freedom.

    The degrees of freedom of a stratum are those of its non-empty rows and columns.
    """
    n_strata, n_x, n_y = counts.shape
    rows, columns = np.empty(n_x), np.empty(n_y)
    total, dof = 0.0, 0
    for k in range(n_strata):
        rows[:] = 0.0
        columns[:] = 0.0
        n = 0.0
        for i in range(n_x):
            for j in range(n_y):
                c = counts[k, i, j]
                rows[i] += c
                columns[j] += c
                n += c
        if n == 0.0:
            continue
        used_x, used_y = 0, 0
        for i in range(n_x):
            used_x += rows[i] > 0.0
        for j in range(n_y):
            used_y += columns[j] > 0.0
        dof += (used_x - 1) * (used_y - 1)
        if used_x < 2 or used_y < 2:
            continue
        for i in range(n_x):
            if rows[i] == 0.0:
                continue
            for j in range(n_y):
                if columns[j] == 0.0:
                    continue
                expected = rows[i] * columns[j] / n
                c = counts[k, i, j]
                if pearson:
                    total += (c - expected) ** 2 / expected
                elif c > 0.0:
                    total += 2.0 * c * math.log(c / expected)
    return total, dof
