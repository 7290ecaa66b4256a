"""Kernel of decision stumps: the single test with the least weighted error."""

from __future__ import annotations

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["best_stump"]


@inner
def _largest(counts: np.ndarray) -> int:
    best = 0
    for c in range(1, counts.shape[0]):
        if counts[c] > counts[best] + 1e-14:
            best = c
    return best


@kernel
def best_stump(
    table: np.ndarray,
    order: np.ndarray,
    classes: np.ndarray,
    weights: np.ndarray,
    n_values: np.ndarray,
    n_classes: int,
) -> tuple[int, float, np.ndarray, float]:
    """Return the column, cut, class of each branch and weighted error of the best stump.

    ``table`` and ``order`` have the shape (columns, rows); ``order`` sorts the numeric columns. Columns of codes
    (``n_values`` > 0) have a branch for every value; numeric columns have two branches, up to the cut and above it.
    """
    d, n = table.shape
    total = np.zeros(n_classes)
    for i in range(n):
        total[classes[i]] += weights[i]
    whole = total.sum()
    # Baseline that a stump has to beat: always the most frequent class.
    best_error, best_column, best_cut = np.inf, 0, np.nan
    most = 2
    for j in range(d):
        most = max(most, n_values[j])
    best_says = np.full(most, _largest(total), np.int64)
    below, above = np.zeros(n_classes), np.zeros(n_classes)
    for j in range(d):
        if n_values[j] > 0:
            counts = np.zeros((n_values[j], n_classes))
            for i in range(n):
                counts[int(table[j, i]), classes[i]] += weights[i]
            error = whole
            for v in range(n_values[j]):
                error -= counts[v].max()
            if error < best_error - 1e-14:
                best_error, best_column, best_cut = error, j, 0.0
                for v in range(n_values[j]):
                    best_says[v] = _largest(counts[v]) if counts[v].sum() > 0.0 else _largest(total)
            continue
        for c in range(n_classes):
            below[c], above[c] = 0.0, total[c]
        by_value = order[j]
        for a in range(n - 1):
            i = by_value[a]
            c = classes[i]
            below[c] += weights[i]
            above[c] -= weights[i]
            value, following = table[j, i], table[j, by_value[a + 1]]
            if value == following:
                continue
            right = below[0]
            for e in range(1, n_classes):
                if below[e] > right:
                    right = below[e]
            more = above[0]
            for e in range(1, n_classes):
                if above[e] > more:
                    more = above[e]
            error = whole - right - more
            if error < best_error - 1e-14:
                best_error, best_column, best_cut = error, j, 0.5 * (value + following)
                best_says[0], best_says[1] = _largest(below), _largest(above)
    if best_error == np.inf:
        best_error = whole - total.max()
        best_cut = np.inf
    return best_column, best_cut, best_says, max(best_error, 0.0)
