"""Kernels of locality-sensitive hashing: buckets of rows, probes around a query, and the candidates' distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["buckets", "first_near", "hit_ranks", "nearest", "sorted_buckets"]

_GOLDEN = np.int64(-7046029254386353131)
_MOST = 64


@inner
def _bucket(key: Any, bits: int) -> Any:
    return ((key * _GOLDEN) >> np.int64(63 - bits)) & ((np.int64(1) << np.int64(bits)) - np.int64(1))


@kernel
def buckets(projected: np.ndarray, factors: np.ndarray, bits: int) -> np.ndarray:
    """Bucket of each row in each table; ``projected`` has the shape (rows, tables * length)."""
    tables, length = factors.shape
    out = np.empty((tables, projected.shape[0]), np.int32)
    for i in range(projected.shape[0]):
        for t in range(tables):
            key = np.int64(0)
            for j in range(length):
                key += np.int64(np.floor(projected[i, t * length + j])) * factors[t, j]
            out[t, i] = _bucket(key, bits)
    return out


@kernel
def sorted_buckets(bucket: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """For one table: the start of each bucket, and the rows sorted by bucket."""
    n, size = len(bucket), 1 << bits
    starts = np.zeros(size + 1, np.int32)
    for i in range(n):
        starts[bucket[i] + 1] += 1
    for b in range(size):
        starts[b + 1] += starts[b]
    rows, at = np.empty(n, np.int32), starts[:-1].copy()
    for i in range(n):
        rows[at[bucket[i]]] = i
        at[bucket[i]] += 1
    return starts, rows


@inner
def _probes(
    fraction: np.ndarray,
    factors: np.ndarray,
    n_probes: int,
    out: np.ndarray,
    cost: np.ndarray,
    step: np.ndarray,
    heap: np.ndarray,
    order: np.ndarray,
) -> int:
    """Key offsets of the cells around a query, the nearest first; return their number.

    A step over a wall of the cell costs the squared distance to the wall. Sets of steps are generated in the order of
    their total cost from a heap: each set is followed by the set with its last step advanced, and by the set with one
    further step.
    """
    length = len(fraction)
    out[0] = 0
    made = 1
    if n_probes == 1:
        return made
    for j in range(length):
        cost[2 * j], step[2 * j] = fraction[j] ** 2, -factors[j]
        cost[2 * j + 1], step[2 * j + 1] = (1.0 - fraction[j]) ** 2, factors[j]
    steps = min(2 * length, 24)
    used = np.int64(0)
    # Sort the steps by cost; selection sort, because length is small.
    for a in range(steps):
        best = -1
        for j in range(2 * length):
            if (used >> np.int64(j)) & 1:
                continue
            if best < 0 or cost[j] < cost[best]:
                best = j
        used |= np.int64(1) << np.int64(best)
        order[a] = best
    # A heap of (cost, set of positions, last position).
    size = 1
    heap[0, 0], heap[0, 1], heap[0, 2] = cost[order[0]], 1.0, 0.0
    while made < n_probes and size > 0:
        total, members, last = heap[0, 0], np.int64(heap[0, 1]), np.int64(heap[0, 2])
        size -= 1
        heap[0] = heap[size]
        _down(heap, size)
        valid, delta = True, np.int64(0)
        moved_cells = np.int64(0)
        for a in range(last + 1):
            if (members >> np.int64(a)) & 1:
                j = order[a] // 2
                if (moved_cells >> np.int64(j)) & 1:
                    valid = False
                moved_cells |= np.int64(1) << np.int64(j)
                delta += step[order[a]]
        if valid:
            out[made] = delta
            made += 1
        if last + 1 < steps and size + 2 <= heap.shape[0]:
            more = np.int64(1) << np.int64(last + 1)
            _push(heap, size, total + cost[order[last + 1]], members | more, last + 1)
            size += 1
            moved = (members & ~(np.int64(1) << np.int64(last))) | more
            _push(heap, size, total - cost[order[last]] + cost[order[last + 1]], moved, last + 1)
            size += 1
    return made


@inner
def _push(heap: np.ndarray, size: int, total: float, members: Any, last: Any) -> None:
    i = size
    heap[i, 0], heap[i, 1], heap[i, 2] = total, members, last
    while i > 0 and heap[(i - 1) // 2, 0] > heap[i, 0]:
        for c in range(3):
            heap[(i - 1) // 2, c], heap[i, c] = heap[i, c], heap[(i - 1) // 2, c]
        i = (i - 1) // 2


@inner
def _down(heap: np.ndarray, size: int) -> None:
    i = 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[i, 0] <= heap[child, 0]:
            return
        for c in range(3):
            heap[i, c], heap[child, c] = heap[child, c], heap[i, c]
        i = child


@kernel
def hit_ranks(fraction: np.ndarray, offset: np.ndarray, factors: np.ndarray, n_probes: int) -> np.ndarray:
    """For simulated pairs: the rank of the probe that reaches the other point's cell; ``n_probes`` if none does."""
    m, length = fraction.shape
    out, cost, step = np.empty(n_probes, np.int64), np.empty(2 * length), np.empty(2 * length, np.int64)
    heap, order = np.empty((4 * n_probes + 8, 3)), np.empty(2 * length, np.int64)
    ranks = np.full(m, n_probes, np.int64)
    for i in range(m):
        made = _probes(fraction[i], factors, n_probes, out, cost, step, heap, order)
        wanted = np.int64(0)
        for j in range(length):
            wanted += offset[i, j] * factors[j]
        for a in range(made):
            if out[a] == wanted:
                ranks[i] = a
                break
    return ranks


@inner(fastmath=True)
def _squared(points: np.ndarray, row: int, query: np.ndarray, limit: float) -> Any:
    total = np.float32(0.0)
    d = len(query)
    whole = d - d % 32
    for start in range(0, whole, 32):
        for j in range(32):
            gap = points[row, start + j] - query[start + j]
            total += gap * gap
        if total > limit:
            return total
    for j in range(whole, d):
        gap = points[row, j] - query[j]
        total += gap * gap
    return total


@kernel
def nearest(
    points: np.ndarray,
    queries: np.ndarray,
    projected: np.ndarray,
    factors: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    bits: int,
    n_probes: int,
    k: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return squared distances and rows of the k nearest candidates (-1 if fewer), and the number of candidates."""
    m, n = len(queries), len(points)
    tables, length = factors.shape
    best, best_rows = np.full((m, k), np.inf, np.float32), np.full((m, k), -1, np.int64)
    examined = np.zeros(m, np.int64)
    visited, touched = np.zeros((n >> 6) + 1, np.int64), np.empty(n, np.int32)
    out, cost, step = np.empty(n_probes, np.int64), np.empty(2 * length), np.empty(2 * length, np.int64)
    heap, order, fraction = np.empty((4 * n_probes + 8, 3)), np.empty(2 * length, np.int64), np.empty(length)
    for q in range(m):
        count = 0
        for t in range(tables):
            key = np.int64(0)
            for j in range(length):
                cell = np.floor(projected[q, t * length + j])
                fraction[j] = projected[q, t * length + j] - cell
                key += np.int64(cell) * factors[t, j]
            made = _probes(fraction, factors[t], n_probes, out, cost, step, heap, order)
            for a in range(made):
                bucket = _bucket(key + out[a], bits)
                for i in range(starts[t, bucket], starts[t, bucket + 1]):
                    row = rows[t, i]
                    mask = np.int64(1) << np.int64(row & 63)
                    if visited[row >> 6] & mask:
                        continue
                    visited[row >> 6] |= mask
                    touched[count] = row
                    count += 1
        examined[q] = count
        for a in range(count):
            row = touched[a]
            visited[row >> 6] = 0
            total = _squared(points, row, queries[q], best[q, k - 1])
            if total > best[q, k - 1] or (total == best[q, k - 1] and row > best_rows[q, k - 1] >= 0):
                continue
            at = k - 1
            while at > 0 and (best[q, at - 1] > total or (best[q, at - 1] == total and best_rows[q, at - 1] > row)):
                best[q, at], best_rows[q, at] = best[q, at - 1], best_rows[q, at - 1]
                at -= 1
            best[q, at], best_rows[q, at] = total, row
    return best, best_rows, examined


@kernel
def first_near(
    points: np.ndarray,
    queries: np.ndarray,
    projected: np.ndarray,
    factors: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    bits: int,
    n_probes: int,
    limit: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first candidate within the limit on the squared distance (-1: none), and the number examined."""
    m = len(queries)
    tables, length = factors.shape
    first, examined = np.full(m, -1, np.int64), np.zeros(m, np.int64)
    out, cost, step = np.empty(n_probes, np.int64), np.empty(2 * length), np.empty(2 * length, np.int64)
    heap, order, fraction = np.empty((4 * n_probes + 8, 3)), np.empty(2 * length, np.int64), np.empty(length)
    for q in range(m):
        for t in range(tables):
            key = np.int64(0)
            for j in range(length):
                cell = np.floor(projected[q, t * length + j])
                fraction[j] = projected[q, t * length + j] - cell
                key += np.int64(cell) * factors[t, j]
            made = _probes(fraction, factors[t], n_probes, out, cost, step, heap, order)
            for a in range(made):
                bucket = _bucket(key + out[a], bits)
                for i in range(starts[t, bucket], starts[t, bucket + 1]):
                    examined[q] += 1
                    if _squared(points, rows[t, i], queries[q], limit) <= limit:
                        first[q] = rows[t, i]
                        break
                if first[q] >= 0:
                    break
            if first[q] >= 0:
                break
    return first, examined
