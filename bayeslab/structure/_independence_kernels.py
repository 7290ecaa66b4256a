"""Compiled counts and statistics of contingency tables; one table a call."""

from __future__ import annotations

import math

import numba
import numpy as np

__all__ = ["count_table", "table_statistic"]


@numba.njit(cache=True, nogil=True)
def count_table(columns, cards, weights, chosen, n_cells):  # type: ignore[no-untyped-def]
    """Counts of the joint states of some variables, the last one running fastest.

    ``columns`` has shape (n, n_rows); the product of the cards of the chosen ones is ``n_cells``.
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


@numba.njit(cache=True, nogil=True)
def table_statistic(counts, pearson):  # type: ignore[no-untyped-def]
    """G² or Pearson's χ² of counts of shape (strata, rows, columns), and its degrees of freedom.

    Each stratum has those of the table of its rows and columns that are not empty.
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
