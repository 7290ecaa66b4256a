"""Compiled distances of normal rows with missing cells, under matrices in Bartlett's coordinates, and their slopes.

Component k has the mean m_k = c + L u_k and the covariance S_k = B_k B_k', B_k = L A_k^-1, A_k lower triangular. For
the observed cells o of a row x, e = (x - m)_o, the terms are |S_oo^-1/2 e|^2 and -1/2 log det S_oo. With cotangents s
and t, w = S_oo^-1 e, the slope in S_oo is G = -1/2 t S_oo^-1 - s w w', in m_o it is -2 s w, and from there 2 G B in B,
and -B' (2 G B) A^-T in A. Complete rows need no factor of S: there z = A (L^-1 (x - c) - u).
"""

from __future__ import annotations

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["normal_terms", "normal_terms_apart", "normal_terms_apart_slope", "normal_terms_slope"]


@inner(error_model="numpy")
def _unpacked(parameters: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Means u (K, d) and factors A (K, d, d)."""
    triangle = d * (d + 1) // 2
    n_components = len(parameters) // (d + triangle)
    at = parameters[: n_components * d].copy().reshape(n_components, d)
    factors = np.zeros((n_components, d, d))
    place = n_components * d
    for k in range(n_components):
        for i in range(d):
            for j in range(i + 1):
                factors[k, i, j] = parameters[place]
                place += 1
    return at, factors


@inner(error_model="numpy")
def _triangular_inverse(lower: np.ndarray) -> np.ndarray:
    d = lower.shape[0]
    out = np.zeros((d, d))
    for j in range(d):
        out[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, d):
            total = 0.0
            for m in range(j, i):
                total += lower[i, m] * out[m, j]
            out[i, j] = -total / lower[i, i]
    return out


@inner(error_model="numpy")
def _cholesky(matrix: np.ndarray, size: int, out: np.ndarray) -> None:
    """Lower factor of the first ``size`` rows and columns; NaN where there is none."""
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for m in range(j):
                total -= out[i, m] * out[j, m]
            out[i, j] = np.sqrt(total) if i == j else total / out[j, j]


@inner(error_model="numpy")
def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    n, m = left.shape[0], right.shape[1]
    out = np.zeros((n, m))
    for i in range(n):
        for r in range(left.shape[1]):
            for j in range(m):
                out[i, j] += left[i, r] * right[r, j]
    return out


@kernel(error_model="numpy")
def _mean(centre: np.ndarray, root: np.ndarray, at: np.ndarray) -> np.ndarray:
    out = centre.copy()
    for i in range(len(out)):
        for j in range(len(out)):
            out[i] += root[i, j] * at[j]
    return out


@inner(error_model="numpy")
def _cells(patterns: np.ndarray, p: int, cells: np.ndarray) -> int:
    size = 0
    for i in range(patterns.shape[1]):
        if patterns[p, i]:
            cells[size] = i
            size += 1
    return size


@inner(error_model="numpy")
def _observed_factor(spread: np.ndarray, cells: np.ndarray, size: int, block: np.ndarray, lower: np.ndarray) -> None:
    """Lower Cholesky factor of the covariance of some cells."""
    for a in range(size):
        for b in range(a + 1):
            total = 0.0
            for m in range(spread.shape[1]):
                total += spread[cells[a], m] * spread[cells[b], m]
            block[a, b] = total
    _cholesky(block, size, lower)


@kernel(error_model="numpy")
def normal_terms(
    parameters: np.ndarray,
    rows: np.ndarray,
    white: np.ndarray,
    order: np.ndarray,
    offsets: np.ndarray,
    patterns: np.ndarray,
    centre: np.ndarray,
    root: np.ndarray,
) -> np.ndarray:
    """Squared distances (N, K), then halves of log determinants of precisions (N, K), side by side.

    Parameters
    ----------
    parameters : ndarray
        u (K · d), then the triangles of A (K · d (d + 1) / 2) row by row.
    rows, white : ndarray (N, d)
        x, and L^-1 (x - c) of complete rows.
    order, offsets : ndarray
        Rows of pattern p are ``order[offsets[p] : offsets[p + 1]]``.
    patterns : ndarray (P, d)
        1 for observed cells.
    centre : ndarray (d,)
    root : ndarray (d, d)
        L.
    """
    n_rows, d = rows.shape
    at, factors = _unpacked(parameters, d)
    n_components = len(at)
    out = np.zeros((n_rows, 2 * n_components))
    cells, z = np.empty(d, np.int64), np.empty(d)
    block, lower = np.zeros((d, d)), np.zeros((d, d))
    for k in range(n_components):
        spread = _product(root, _triangular_inverse(factors[k]))
        mean = _mean(centre, root, at[k])
        for p in range(len(patterns)):
            size = _cells(patterns, p, cells)
            log_det = 0.0
            if size == d:
                for i in range(d):
                    log_det += np.log(factors[k, i, i]) - np.log(root[i, i])
            else:
                _observed_factor(spread, cells, size, block, lower)
                for i in range(size):
                    log_det -= np.log(lower[i, i])
            for r in range(offsets[p], offsets[p + 1]):
                n = order[r]
                square = 0.0
                for i in range(size):
                    total = 0.0
                    if size == d:
                        for j in range(i + 1):
                            total += factors[k, i, j] * (white[n, j] - at[k, j])
                    else:
                        total = rows[n, cells[i]] - mean[cells[i]]
                        for j in range(i):
                            total -= lower[i, j] * z[j]
                        total /= lower[i, i]
                        z[i] = total
                    square += total * total
                out[n, k] = square
                out[n, n_components + k] = log_det
    return out


@kernel(error_model="numpy")
def normal_terms_slope(
    cotangent: np.ndarray,
    parameters: np.ndarray,
    rows: np.ndarray,
    white: np.ndarray,
    order: np.ndarray,
    offsets: np.ndarray,
    patterns: np.ndarray,
    centre: np.ndarray,
    root: np.ndarray,
) -> np.ndarray:
    """Slope of the sum of cotangents (N, 2 K) times terms in the parameters."""
    d = rows.shape[1]
    at, factors = _unpacked(parameters, d)
    n_components = len(at)
    out = np.zeros(len(parameters))
    cells, z, w, apart = np.empty(d, np.int64), np.empty(d), np.empty(d), np.empty(d)
    block, lower = np.zeros((d, d)), np.zeros((d, d))
    place = n_components * d
    for k in range(n_components):
        inverse = _triangular_inverse(factors[k])
        spread = _product(root, inverse)
        mean = _mean(centre, root, at[k])
        in_matrix, in_mean = np.zeros((d, d)), np.zeros(d)
        in_factor, in_at = np.zeros((d, d)), np.zeros(d)
        incomplete = False
        for p in range(len(patterns)):
            size, turned = _cells(patterns, p, cells), 0.0
            if size < d:
                incomplete = True
                _observed_factor(spread, cells, size, block, lower)
            for r in range(offsets[p], offsets[p + 1]):
                n = order[r]
                pull = cotangent[n, k]
                turned += cotangent[n, n_components + k]
                if size == d:
                    for i in range(d):
                        apart[i] = white[n, i] - at[k, i]
                        z[i] = 0.0
                        for j in range(i + 1):
                            z[i] += factors[k, i, j] * apart[j]
                    for i in range(d):
                        for j in range(i + 1):
                            in_factor[i, j] += 2.0 * pull * z[i] * apart[j]
                            in_at[j] -= 2.0 * pull * z[i] * factors[k, i, j]
                    continue
                for i in range(size):
                    z[i] = rows[n, cells[i]] - mean[cells[i]]
                    for j in range(i):
                        z[i] -= lower[i, j] * z[j]
                    z[i] /= lower[i, i]
                for i in range(size - 1, -1, -1):
                    w[i] = z[i]
                    for j in range(i + 1, size):
                        w[i] -= lower[j, i] * w[j]
                    w[i] /= lower[i, i]
                for i in range(size):
                    in_mean[cells[i]] -= 2.0 * pull * w[i]
                    for j in range(size):
                        in_matrix[cells[i], cells[j]] -= pull * w[i] * w[j]
            if size == d:
                for i in range(d):
                    in_factor[i, i] += turned / factors[k, i, i]
            elif size > 0:
                back = _triangular_inverse(lower[:size, :size].copy())
                for i in range(size):
                    for j in range(size):
                        total = 0.0
                        for m in range(max(i, j), size):
                            total += back[m, i] * back[m, j]
                        in_matrix[cells[i], cells[j]] -= 0.5 * turned * total
        if incomplete:
            # -B' (2 G B) A^-T and L' times the slope in the mean.
            inner = _product(spread.T.copy(), _product(in_matrix, spread))
            moved = _product(inner, inverse.T.copy())
            for i in range(d):
                for j in range(d):
                    in_factor[i, j] -= 2.0 * moved[i, j]
                    in_at[j] += root[i, j] * in_mean[i]
        for i in range(d):
            out[k * d + i] = in_at[i]
            for j in range(i + 1):
                out[place] = in_factor[i, j]
                place += 1
    return out


@kernel(error_model="numpy")
def normal_terms_apart(
    at: np.ndarray,
    packed: np.ndarray,
    rows: np.ndarray,
    white: np.ndarray,
    order: np.ndarray,
    offsets: np.ndarray,
    patterns: np.ndarray,
    centre: np.ndarray,
    root: np.ndarray,
) -> np.ndarray:
    """:func:`normal_terms` of means and factors in two vectors."""
    return normal_terms(np.concatenate((at, packed)), rows, white, order, offsets, patterns, centre, root)


@kernel(error_model="numpy")
def normal_terms_apart_slope(
    at: np.ndarray,
    packed: np.ndarray,
    cotangent: np.ndarray,
    rows: np.ndarray,
    white: np.ndarray,
    order: np.ndarray,
    offsets: np.ndarray,
    patterns: np.ndarray,
    centre: np.ndarray,
    root: np.ndarray,
) -> np.ndarray:
    """:func:`normal_terms_slope` of means and factors in two vectors."""
    both = np.concatenate((at, packed))
    return normal_terms_slope(cotangent, both, rows, white, order, offsets, patterns, centre, root)
