"""Kernels of trees: how much each column tells of the class in a node."""

from __future__ import annotations

import math

import numba
import numpy as np

__all__ = ["best_splits"]


@numba.njit(cache=True)
def _information(counts: np.ndarray, total: float) -> float:
    """Total times entropy in bits."""
    out = 0.0
    for c in range(counts.shape[0]):
        if counts[c] > 0.0:
            out -= counts[c] * math.log2(counts[c] / total)
    return out


@numba.njit(cache=True)
def best_splits(
    table: np.ndarray,
    classes: np.ndarray,
    weights: np.ndarray,
    rows: np.ndarray,
    n_values: np.ndarray,
    n_classes: int,
    equality: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gain, split information (both in bits) and cut of every column's best test in a node.

    ``n_values`` is 0 for number columns, which are cut in two between rows of different classes; columns of codes are
    divided by all values, or with ``equality`` into one value and the rest. Rows whose cell is NaN count for no branch:
    the gain is that of the other rows times their share.
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
        # Runs of equal values; a cut can only be best where the class changes.
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
                found = share * (before / total - left)
                if found > gain[j] + 1e-12 or math.isnan(cut[j]):
                    gain[j] = found
                    cut[j] = 0.5 * (value + order_values[order[a - 1]])
                    info[j] = _information(np.array([under, total - under, missing]), whole) / whole
            for e in range(a, b):
                below[classes[members[order[e]]]] += weights[members[order[e]]]
                under += weights[members[order[e]]]
            last_class, mixed = run_class, run_mixed
            a = b
    return gain, info, cut
