"""Kernels of k-d trees: construction by medians, and search with backtracking."""

from __future__ import annotations

import numpy as np

from bayeslab.compiled import kernel

__all__ = ["build", "search"]


@kernel
def build(
    points: np.ndarray, leaf_size: int, widest: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows in leaf order, and for each node the axis (-1: a leaf), the cut, its rows and its second child.

    The first child of node i is i + 1. The axis has the widest spread, or is the depth modulo the dimensions.
    """
    n, d = points.shape
    rows = np.arange(n)
    most = 2 * n + 1
    axis, cut = np.full(most, -1, np.int64), np.zeros(most)
    span, second = np.zeros((most, 2), np.int64), np.zeros(most, np.int64)
    # For each pending node: first and last row, depth, and the node whose second child it is.
    stack = np.empty((most, 4), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, n, 0, -1
    top, made = 1, 0
    while top > 0:
        top -= 1
        start, end, depth, parent = stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3]
        node = made
        made += 1
        if parent >= 0:
            second[parent] = node
        span[node, 0], span[node, 1] = start, end
        if end - start <= leaf_size:
            continue
        cut_axis = depth % d
        if widest:
            best = -1.0
            for j in range(d):
                low, high = points[rows[start], j], points[rows[start], j]
                for i in range(start + 1, end):
                    low, high = min(low, points[rows[i], j]), max(high, points[rows[i], j])
                if high - low > best:
                    best, cut_axis = high - low, j
        values = np.empty(end - start)
        for i in range(start, end):
            values[i - start] = points[rows[i], cut_axis]
        order = np.argsort(values, kind="mergesort")
        rows[start:end] = rows[start:end][order]
        middle = (start + end) // 2
        axis[node], cut[node] = cut_axis, points[rows[middle], cut_axis]
        stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = middle, end, depth + 1, node
        top += 1
        stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = start, middle, depth + 1, -1
        top += 1
    return rows, axis[:made], cut[:made], span[:made], second[:made]


@kernel
def search(
    points: np.ndarray,
    rows: np.ndarray,
    axis: np.ndarray,
    cut: np.ndarray,
    span: np.ndarray,
    second: np.ndarray,
    queries: np.ndarray,
    k: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return squared distances and rows of the k nearest (ties by row), points examined and leaves visited."""
    m, d = queries.shape
    best, best_rows = np.full((m, k), np.inf), np.full((m, k), -1, np.int64)
    examined, leaves = np.zeros(m, np.int64), np.zeros(m, np.int64)
    stack, bound = np.empty(len(axis) + 1, np.int64), np.empty(len(axis) + 1)
    for q in range(m):
        stack[0], bound[0], top = 0, 0.0, 1
        while top > 0:
            top -= 1
            # The far side of a cut is visited only if a nearer point can be there.
            if bound[top] > best[q, k - 1]:
                continue
            node = stack[top]
            while axis[node] >= 0:
                gap = queries[q, axis[node]] - cut[node]
                near, far = (node + 1, second[node]) if gap < 0.0 else (second[node], node + 1)
                stack[top], bound[top] = far, gap * gap
                top += 1
                node = near
            leaves[q] += 1
            for i in range(span[node, 0], span[node, 1]):
                row = rows[i]
                total = 0.0
                for j in range(d):
                    total += (points[row, j] - queries[q, j]) ** 2
                examined[q] += 1
                if total > best[q, k - 1] or (total == best[q, k - 1] and row > best_rows[q, k - 1] >= 0):
                    continue
                at = k - 1
                while at > 0 and (best[q, at - 1] > total or (best[q, at - 1] == total and best_rows[q, at - 1] > row)):
                    best[q, at], best_rows[q, at] = best[q, at - 1], best_rows[q, at - 1]
                    at -= 1
                best[q, at], best_rows[q, at] = total, row
    return best, best_rows, examined, leaves
