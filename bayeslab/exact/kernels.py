"""Compiled loops of the exact engine."""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import kernel

__all__ = ["mixture_quantiles", "solve_each"]


@kernel(error_model="numpy")
def solve_each(
    factors: np.ndarray,
    stats: np.ndarray,
    cross: np.ndarray,
    diagonal: np.ndarray,
    mixed: np.ndarray,
    cross_diagonal: np.ndarray,
    noise: np.ndarray,
    starts: np.ndarray,
    columns: np.ndarray,
    entries: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Solve one Gaussian system for each row of weights.

    The precision is ``sum_m factors[k, m] * S_m`` with S_m in blocks: ``stats[m]`` (dense, p × p),
    ``diagonal[m]`` (q) and ``mixed[m]`` (p × q); the right-hand side in the same blocks. The diagonal
    block is eliminated first, so the cost is O(q p^2 + p^3). With standard normal ``noise`` (K, p + q)
    the means become draws; with zeros (or no rows) they are the means.

    Returns
    -------
    log_determinant, quadratic : ndarray (K,)
        Log determinant of the precision, and h' Λ^-1 h; NaN if the precision is not positive definite.
    means : ndarray (K, p + q)
    variances : ndarray (K, R)
        Variances of R linear combinations, the rows of a sparse matrix (``starts``, ``columns``, ``entries``).
    """
    n_points, n_classes = factors.shape
    p, q = stats.shape[1], diagonal.shape[1]
    log_determinant, quadratic = np.empty(n_points), np.empty(n_points)
    n_outputs = len(starts) - 1
    means, spread = np.zeros((n_points, p + q)), np.zeros((n_points, n_outputs))
    matrix, right = np.empty((p, p)), np.empty(p)
    diag, between, right_diag = np.empty(q), np.empty((p, q)), np.empty(q)
    combination = np.empty(p)
    noisy = len(noise) == n_points
    for k in range(n_points):
        matrix[:], right[:], diag[:], between[:], right_diag[:] = 0.0, 0.0, 0.0, 0.0, 0.0
        for m in range(n_classes):
            f = factors[k, m]
            matrix += f * stats[m]
            right += f * cross[m]
            diag += f * diagonal[m]
            between += f * mixed[m]
            right_diag += f * cross_diagonal[m]
        total, square, good = 0.0, 0.0, True
        for j in range(q):
            if not diag[j] > 0.0:
                good = False
                break
            total += np.log(diag[j])
            square += right_diag[j] ** 2 / diag[j]
            for a in range(p):
                scaled = between[a, j] / diag[j]
                if scaled != 0.0:
                    right[a] -= scaled * right_diag[j]
                    for b in range(a + 1):
                        matrix[a, b] -= scaled * between[b, j]
        # Cholesky factor in the lower triangle, row by row.
        for a in range(p):
            if not good:
                break
            for b in range(a + 1):
                value = matrix[a, b]
                for c in range(b):
                    value -= matrix[a, c] * matrix[b, c]
                if a == b:
                    if not value > 1e-13 * abs(matrix[a, a]):
                        good = False
                        break
                    matrix[a, a] = np.sqrt(value)
                else:
                    matrix[a, b] = value / matrix[b, b]
        if not good:
            log_determinant[k], quadratic[k] = np.nan, np.nan
            continue
        for a in range(p):
            value = right[a]
            for c in range(a):
                value -= matrix[a, c] * right[c]
            right[a] = value / matrix[a, a]
            total += 2.0 * np.log(matrix[a, a])
            square += right[a] ** 2
        if noisy:
            right += noise[k, :p]
        log_determinant[k], quadratic[k] = total, square
        for a in range(p - 1, -1, -1):
            value = right[a]
            for c in range(a + 1, p):
                value -= matrix[c, a] * right[c]
            right[a] = value / matrix[a, a]
            means[k, a] = right[a]
        for j in range(q):
            value = right_diag[j]
            for a in range(p):
                value -= between[a, j] * right[a]
            means[k, p + j] = value / diag[j]
            if noisy:
                means[k, p + j] += noise[k, p + j] / np.sqrt(diag[j])
        for r in range(n_outputs):
            combination[:] = 0.0
            value = 0.0
            for e in range(starts[r], starts[r + 1]):
                j = columns[e]
                if j < p:
                    combination[j] += entries[e]
                    continue
                j -= p
                value += entries[e] ** 2 / diag[j]
                for a in range(p):
                    combination[a] -= entries[e] * between[a, j] / diag[j]
            for a in range(p):
                part = combination[a]
                for c in range(a):
                    part -= matrix[a, c] * combination[c]
                combination[a] = part / matrix[a, a]
                value += combination[a] ** 2
            spread[k, r] = value
    return log_determinant, quadratic, means, spread


@kernel(error_model="numpy")
def mixture_quantiles(
    weights: np.ndarray, means: np.ndarray, sds: np.ndarray, start: np.ndarray, probability: float
) -> np.ndarray:
    """Quantiles of R mixtures of K normals with the same weights, by Newton's method inside a bracket.

    Parameters
    ----------
    weights : ndarray (K,)
    means, sds : ndarray (R, K)
    start : ndarray (R,)
    """
    n_mixtures, n_parts = means.shape
    out = np.empty(n_mixtures)
    for r in range(n_mixtures):
        low, high, point, widest = np.inf, -np.inf, start[r], 0.0
        for k in range(n_parts):
            low, high = min(low, means[r, k] - 40 * sds[r, k]), max(high, means[r, k] + 40 * sds[r, k])
            widest = max(widest, sds[r, k])
        for _ in range(200):
            below, slope = 0.0, 0.0
            for k in range(n_parts):
                apart = point - means[r, k]
                if sds[r, k] > 0.0:
                    z = apart / sds[r, k]
                    if z > 9.0:
                        below += weights[k]
                    elif z > -9.0:
                        below += weights[k] * 0.5 * math.erfc(-z * 0.7071067811865476)
                        slope += weights[k] * math.exp(-0.5 * z * z) / sds[r, k]
                elif apart >= 0.0:
                    below += weights[k]
            if below < probability:
                low = point
            else:
                high = point
            new = point - (below - probability) / (slope * 0.3989422804014327)
            if not low < new < high:
                new = 0.5 * (low + high)
            moved = abs(new - point)
            point = new
            if moved <= 1e-11 * widest + 1e-15 * abs(point):
                break
        out[r] = point
    return out
