"""Kernels of shape matching: spread-out points, log-polar histograms, and pairing costs."""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import kernel

__all__ = ["costs", "histograms", "spread"]


@kernel
def spread(points: np.ndarray, n: int) -> np.ndarray:
    """Positions of n points far apart: the point farthest from the centre, then repeatedly the farthest remaining."""
    m = points.shape[0]
    out = np.empty(min(n, m), np.int64)
    if m == 0:
        return out
    mean_x, mean_y = points[:, 0].mean(), points[:, 1].mean()
    nearest = np.full(m, np.inf)
    at, best = 0, -1.0
    for i in range(m):
        d = (points[i, 0] - mean_x) ** 2 + (points[i, 1] - mean_y) ** 2
        # If distances differ only by rounding, take the first.
        if d > best + 1e-9:
            at, best = i, d
    for k in range(out.shape[0]):
        out[k] = at
        x, y = points[at, 0], points[at, 1]
        following, best = 0, -1.0
        for i in range(m):
            d = (points[i, 0] - x) ** 2 + (points[i, 1] - y) ** 2
            if d < nearest[i]:
                nearest[i] = d
            if nearest[i] > best + 1e-9:
                following, best = i, nearest[i]
        at = following
    return out


@kernel
def histograms(points: np.ndarray, n_radii: int, n_angles: int, inner: float, outer: float) -> np.ndarray:
    """Share of the other points in each cell of rings, equal in log radius, and sectors around each point.

    Radii are in units of the mean distance of all pairs. Points beyond the last ring do not count; points inside the
    first ring belong to it. Shape (points, n_radii · n_angles).
    """
    n = points.shape[0]
    out = np.zeros((n, n_radii * n_angles))
    if n < 2:
        return out
    mean = 0.0
    for i in range(n):
        for j in range(n):
            mean += math.hypot(points[i, 0] - points[j, 0], points[i, 1] - points[j, 1])
    mean /= n * (n - 1)
    if mean == 0:
        return out
    step = math.log(outer / inner) / (n_radii - 1)
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            dy, dx = points[j, 0] - points[i, 0], points[j, 1] - points[i, 1]
            r = math.hypot(dx, dy) / mean
            if r > outer:
                continue
            # Ring k reaches to inner · exp(k step).
            ring = 0 if r <= inner else math.ceil(math.log(r / inner) / step - 1e-9)
            turn = math.atan2(dy, dx) / (2 * math.pi) * n_angles
            sector = math.floor(turn + 1e-9) % n_angles
            out[i, ring * n_angles + sector] += 1.0 / (n - 1)
    return out


@kernel(fastmath=True)
def costs(a: np.ndarray, b: np.ndarray, turn_a: np.ndarray, turn_b: np.ndarray, tangents: float) -> np.ndarray:
    """Cost of pairing each point of one shape with each of another, shape (points of a, points of b), in [0, 1].

    A weighted mean of half the χ² between histograms and of half of one less the cosine between the outlines' normals.
    """
    n, m, bins = a.shape[0], b.shape[0], a.shape[1]
    out = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            total = 0.0
            for k in range(bins):
                # No branch for empty cells, so that the loop can be vectorised.
                d = a[i, k] - b[j, k]
                total += d * d / (a[i, k] + b[j, k] + 1e-30)
            turned = 0.5 * (1 - math.cos(turn_a[i] - turn_b[j]))
            out[i, j] = (1 - tangents) * 0.5 * total + tangents * turned
    return out
