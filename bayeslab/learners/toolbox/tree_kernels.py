"""Kernels of decision trees: the best test of every column in a node, and whole trees for complete rows."""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["best_splits", "grow"]


@inner
def _information(counts: np.ndarray, total: float) -> float:
    """Return the total times the entropy in bits."""
    out = 0.0
    for c in range(counts.shape[0]):
        if counts[c] > 0.0:
            out -= counts[c] * math.log2(counts[c] / total)
    return out


@kernel
def best_splits(
    table: np.ndarray,
    classes: np.ndarray,
    weights: np.ndarray,
    rows: np.ndarray,
    n_values: np.ndarray,
    n_classes: int,
    equality: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the gain, split information (both in bits) and cut of every column's best test in a node.

    ``n_values`` is 0 for numeric columns, which are split in two between rows of different classes. Columns of codes
    are split by all values, or with ``equality`` into one value and the rest. Rows with a missing cell (NaN) belong to
    no branch: the gain is that of the other rows times their share.
    """
    d = table.shape[1]
    gain, info, cut = np.zeros(d), np.zeros(d), np.full(d, np.nan)
    whole = 0.0
    for i in rows:
        whole += weights[i]
    order_values = np.empty(rows.shape[0])
    for j in range(d):
        known = np.zeros(n_classes)
        total, m = 0.0, 0
        members = np.empty(rows.shape[0], np.int64)
        for i in rows:
            if not math.isnan(table[i, j]):
                known[classes[i]] += weights[i]
                total += weights[i]
                members[m] = i
                order_values[m] = table[i, j]
                m += 1
        if m < 2 or total <= 0.0:
            continue
        before = _information(known, total)
        share = total / whole
        missing = whole - total
        if n_values[j] > 0:
            counts = np.zeros((n_values[j], n_classes))
            for a in range(m):
                counts[int(table[members[a], j]), classes[members[a]]] += weights[members[a]]
            size = np.zeros(n_values[j])
            branches = 0
            for v in range(n_values[j]):
                size[v] = counts[v].sum()
                if size[v] > 0.0:
                    branches += 1
            if branches < 2:
                continue
            if equality:
                for v in range(n_values[j]):
                    if size[v] <= 0.0:
                        continue
                    rest = known - counts[v]
                    left = (_information(counts[v], size[v]) + _information(rest, total - size[v])) / total
                    value = share * (before / total - left)
                    if value > gain[j] + 1e-12 or math.isnan(cut[j]):
                        gain[j], cut[j] = value, v
                        info[j] = _information(np.array([size[v], total - size[v], missing]), whole) / whole
                continue
            left = 0.0
            for v in range(n_values[j]):
                if size[v] > 0.0:
                    left += _information(counts[v], size[v])
            gain[j] = share * (before - left) / total
            # Rows with a missing cell count as a branch of their own in the split information.
            info[j] = (_information(size, whole) + _information(np.array([missing]), whole)) / whole
            cut[j] = 0.0
            continue
        order = np.argsort(order_values[:m], kind="mergesort")
        below = np.zeros(n_classes)
        under = 0.0
        a = 0
        # Runs of equal values; the best cut is always where the class changes.
        last_class, mixed = -1, False
        while a < m:
            b = a
            value = order_values[order[a]]
            run_class, run_mixed = classes[members[order[a]]], False
            while b < m and order_values[order[b]] == value:
                if classes[members[order[b]]] != run_class:
                    run_mixed = True
                b += 1
            if a > 0 and (mixed or run_mixed or run_class != last_class):
                above = known - below
                left = (_information(below, under) + _information(above, total - under)) / total
                candidate = share * (before / total - left)
                if candidate > gain[j] + 1e-12 or math.isnan(cut[j]):
                    gain[j] = candidate
                    cut[j] = 0.5 * (value + order_values[order[a - 1]])
                    info[j] = _information(np.array([under, total - under, missing]), whole) / whole
            for e in range(a, b):
                below[classes[members[order[e]]]] += weights[members[order[e]]]
                under += weights[members[order[e]]]
            last_class, mixed = run_class, run_mixed
            a = b
    return gain, info, cut


@inner
def _chosen(gain: np.ndarray, info: np.ndarray, cut: np.ndarray, ratio: bool, min_gain: float) -> int:
    """Return the column of the best test, the first on a tie; -1 if no test splits the rows and gains enough."""
    most, mean, n_open = -1.0, 0.0, 0
    for j in range(gain.shape[0]):
        if not math.isnan(cut[j]):
            most = max(most, gain[j])
            mean += gain[j]
            n_open += 1
    if n_open == 0 or most < min_gain or (min_gain > 0.0 and most <= min_gain):
        return -1
    # Only tests of at least average gain compete: very uneven splits have large ratios.
    least = mean / n_open - 1e-12 if ratio else -1.0
    best, column = -np.inf, -1
    for j in range(gain.shape[0]):
        if math.isnan(cut[j]) or gain[j] < least:
            continue
        value = gain[j] / max(info[j], 1e-300) if ratio else gain[j]
        if value > best + 1e-12:
            best, column = value, j
    return column


@kernel
def grow(
    table: np.ndarray,
    classes: np.ndarray,
    weights: np.ndarray,
    rows: np.ndarray,
    n_values: np.ndarray,
    n_classes: int,
    equality: bool,
    ratio: bool,
    min_gain: float,
    min_rows: int,
    max_nodes: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Grow a whole tree on rows without missing cells, breadth first.

    Returns the column (-1 for a leaf), cut, gain, first child (children are consecutive) and counts of each node.
    """
    room = 64
    column, cut_at = np.full(room, -1, np.int64), np.full(room, np.nan)
    gained, child = np.zeros(room), np.full(room, -1, np.int64)
    start, stop = np.zeros(room, np.int64), np.zeros(room, np.int64)
    counts = np.zeros((room, n_classes))
    order, spare = rows.copy(), np.empty_like(rows)
    stop[0] = rows.shape[0]
    for i in rows:
        counts[0, classes[i]] += weights[i]
    n_nodes, node = 1, 0
    while node < n_nodes:
        here = node
        node += 1
        a, b = start[here], stop[here]
        if b - a < min_rows or np.count_nonzero(counts[here]) < 2:
            continue
        gain, info, cut = best_splits(table, classes, weights, order[a:b], n_values, n_classes, equality)
        j = _chosen(gain, info, cut, ratio, min_gain)
        if j < 0:
            continue
        parts = 2 if (n_values[j] == 0 or equality) else n_values[j]
        if max_nodes > 0 and n_nodes + parts > max_nodes:
            continue
        if n_nodes + parts > column.shape[0]:
            more = max(column.shape[0], parts)
            column = np.concatenate((column, np.full(more, -1, np.int64)))
            cut_at = np.concatenate((cut_at, np.full(more, np.nan)))
            gained = np.concatenate((gained, np.zeros(more)))
            child = np.concatenate((child, np.full(more, -1, np.int64)))
            start = np.concatenate((start, np.zeros(more, np.int64)))
            stop = np.concatenate((stop, np.zeros(more, np.int64)))
            counts = np.concatenate((counts, np.zeros((more, n_classes))))
        column[here], cut_at[here], gained[here], child[here] = j, cut[j], gain[j], n_nodes
        at = a
        for p in range(parts):
            new = n_nodes + p
            start[new] = at
            for r in range(a, b):
                i = order[r]
                x = table[i, j]
                if n_values[j] == 0:
                    inside = (x <= cut[j]) == (p == 0)
                elif equality:
                    inside = (x == cut[j]) == (p == 0)
                else:
                    inside = x == p
                if inside:
                    spare[at] = i
                    counts[new, classes[i]] += weights[i]
                    at += 1
            stop[new] = at
        order[a:b] = spare[a:b]
        n_nodes += parts
    return column[:n_nodes], cut_at[:n_nodes], gained[:n_nodes], child[:n_nodes], counts[:n_nodes]
