"""Kernels of structural time series: sums of linear-Gaussian components, each row one number.

A component has the state x[1] = a + A z[1], x[t] = T x[t-1] + R z[t] and the value h' x[t], with z standard normal. A
row is y = offset + sum of coefficient times value + sigma e; several rows may belong to one time, none to others. Rows
come one by one into the filter, so no matrix is inverted.

References
----------
.. [1] Durbin, Koopman (2012). Time Series Analysis by State Space Methods, 2nd ed., sections 4.4, 4.5 and 6.4.
.. [2] Koopman, Shephard (1992). Exact score for time series models in state space form. Biometrika 79, 823-826.
.. [3] de Jong (1988). A cross-validation filter for time series models. Biometrika 75, 594-600.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel
from bayeslab.constants import LOG_2PI

__all__ = ["log_evidence_and_gradient", "smooth"]


@inner(error_model="numpy")
def _system(
    flat: np.ndarray, shapes: np.ndarray, n_sets: int, moves: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All components as one: a, A, entries of T, R, h by set; where each state's parameters begin, and its component.

    The last but one has for every state the place of its component's first parameter, its first state, its first noise.
    """
    d, q = shapes[:, 0].sum(), shapes[:, 1].sum()
    mean, start = np.zeros((n_sets, d)), np.zeros((n_sets, d, d))
    move, noise = np.zeros((n_sets, len(moves))), np.zeros((n_sets, d, q))
    read = np.zeros((n_sets, d))
    where, component = np.zeros((d, 3), np.int64), np.zeros(d, np.int64)
    at, first, first_noise = 0, 0, 0
    for c in range(len(shapes)):
        n, m = shapes[c, 0], shapes[c, 1]
        size = n + 2 * n * n + n * m + n
        for i in range(n):
            component[first + i] = c
            where[first + i] = (at, first, first_noise)
        for s in range(n_sets):
            block = flat[at + s * size : at + (s + 1) * size]
            for i in range(n):
                mean[s, first + i] = block[i]
                read[s, first + i] = block[n + 2 * n * n + n * m + i]
                for j in range(n):
                    start[s, first + i, first + j] = block[n + i * n + j]
                for j in range(m):
                    noise[s, first + i, first_noise + j] = block[n + 2 * n * n + i * m + j]
        at, first, first_noise = at + n_sets * size, first + n, first_noise + m
    for k in range(len(moves)):
        i, j = moves[k, 0], moves[k, 1]
        begin, first, n = where[i, 0], where[i, 1], shapes[component[i], 0]
        size = 2 * n + 2 * n * n + n * shapes[component[i], 1]
        for s in range(n_sets):
            move[s, k] = flat[begin + s * size + n + n * n + (i - first) * n + (j - first)]
    return mean, start, move, noise, read, where, component


@inner(error_model="numpy")
def _products(factors: np.ndarray) -> np.ndarray:
    """B B' of each B."""
    n, d = factors.shape[0], factors.shape[1]
    out = np.zeros((n, d, d))
    for s in range(n):
        for i in range(d):
            for k in range(factors.shape[2]):
                if factors[s, i, k] != 0.0:
                    for j in range(d):
                        out[s, i, j] += factors[s, i, k] * factors[s, j, k]
    return out


@inner(error_model="numpy")
def _rows_of(flat: np.ndarray, shapes: np.ndarray, sizes: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (components, rows), and offset and sigma (2, rows)."""
    k = len(shapes)
    at = 0
    for c in range(k):
        d, q = shapes[c, 0], shapes[c, 1]
        at += sizes[0] * (2 * d + 2 * d * d + d * q)
    coefficients, rest = np.empty((k, n)), np.empty((2, n))
    for c in range(k + 2):
        length = sizes[1 + c]
        for r in range(n):
            value = flat[at + (r if length > 1 else 0)]
            if c < k:
                coefficients[c, r] = value
            else:
                rest[c - k, r] = value
        at += length
    return coefficients, rest


@inner(error_model="numpy")
def _moved(move: np.ndarray, moves: np.ndarray, p: np.ndarray, half: np.ndarray, out: np.ndarray) -> None:
    """``out`` += T P T', of the entries of T."""
    half[:] = 0.0
    for k in range(len(moves)):
        i, j, value = moves[k, 0], moves[k, 1], move[k]
        for c in range(p.shape[0]):
            half[i, c] += value * p[j, c]
    for k in range(len(moves)):
        i, j, value = moves[k, 0], moves[k, 1], move[k]
        for c in range(p.shape[0]):
            out[c, i] += value * half[c, j]


@inner(error_model="numpy")
def _filter(
    mean: np.ndarray,
    start: np.ndarray,
    move: np.ndarray,
    noise: np.ndarray,
    loadings: np.ndarray,
    rest: np.ndarray,
    y: np.ndarray,
    cells: np.ndarray,
    starts: np.ndarray,
    sets: np.ndarray,
    moves: np.ndarray,
    gains: np.ndarray,
    surprises: np.ndarray,
    variances: np.ndarray,
    row_means: np.ndarray,
    row_covariances: np.ndarray,
    cell_means: np.ndarray,
    cell_covariances: np.ndarray,
) -> float:
    """Log evidence; all from ``gains`` on is filled, what has no length is not.

    -inf where a variance is zero, or a standard deviation negative.
    """
    d, n = mean.shape[1], len(y)
    state, covariance = np.zeros(d), np.zeros((d, d))
    half, other, w, u = np.zeros((d, d)), np.zeros((d, d)), np.zeros(d), np.zeros(d)
    total, r = 0.0, 0
    for t in range(len(starts)):
        s = sets[t]
        if starts[t]:
            state[:] = mean[s]
            covariance[:] = start[s]
        else:
            u[:] = 0.0
            for k in range(len(moves)):
                u[moves[k, 0]] += move[s, k] * state[moves[k, 1]]
            state[:] = u
            other[:] = noise[s]
            _moved(move[s], moves, covariance, half, other)
            covariance[:] = other
        while r < n and cells[r] == t:
            c, sigma2 = loadings[r], rest[1, r] ** 2
            v, f = y[r] - rest[0, r], sigma2
            for i in range(d):
                w[i] = 0.0
                for j in range(d):
                    w[i] += covariance[i, j] * c[j]
                v -= c[i] * state[i]
            for i in range(d):
                f += c[i] * w[i]
            if not f > 0.0 or not math.isfinite(f) or rest[1, r] < 0.0:
                return -np.inf
            surprises[r], variances[r] = v, f
            total -= 0.5 * (LOG_2PI + math.log(f) + v * v / f)
            for i in range(d):
                gains[r, i] = w[i] / f
                state[i] += gains[r, i] * v
            # (I - k c') P (I - k c')' + sigma² k k' stays symmetric and positive.
            for i in range(d):
                for j in range(d):
                    covariance[i, j] -= gains[r, i] * w[j]
            for i in range(d):
                u[i] = 0.0
                for j in range(d):
                    u[i] += covariance[i, j] * c[j]
            for i in range(d):
                for j in range(d):
                    covariance[i, j] += (sigma2 * gains[r, i] - u[i]) * gains[r, j]
            if len(row_means):
                row_means[r] = state
                row_covariances[r] = covariance
            r += 1
        if len(cell_means):
            cell_means[t] = state
            cell_covariances[t] = covariance
    return total


@inner(error_model="numpy")
def _row_back(
    c: np.ndarray, k: np.ndarray, v: float, f: float, r: np.ndarray, n: np.ndarray, w: np.ndarray
) -> tuple[float, float]:
    """Add a row to r and n; ``w`` becomes n k as it was.

    Returns u, the row's part of (covariance of all rows)⁻¹ (y - mean), and D, its entry on that inverse's diagonal.
    """
    d = len(c)
    u, diagonal = v / f, 1.0 / f
    for i in range(d):
        w[i] = 0.0
        for j in range(d):
            w[i] += n[i, j] * k[j]
        u -= k[i] * r[i]
    for i in range(d):
        diagonal += k[i] * w[i]
    for i in range(d):
        for j in range(d):
            n[i, j] += c[i] * (diagonal * c[j] - w[j]) - w[i] * c[j]
        r[i] += c[i] * u
    return u, diagonal


@inner(error_model="numpy")
def _time_back(move: np.ndarray, moves: np.ndarray, r: np.ndarray, n: np.ndarray, half: np.ndarray) -> None:
    """T' r and T' n T in place."""
    d = len(r)
    flow = np.zeros(d)
    half[:] = 0.0
    for k in range(len(moves)):
        i, j, value = moves[k, 0], moves[k, 1], move[k]
        flow[j] += value * r[i]
        for c in range(d):
            half[j, c] += value * n[i, c]
    r[:] = flow
    n[:] = 0.0
    for k in range(len(moves)):
        i, j, value = moves[k, 0], moves[k, 1], move[k]
        for c in range(d):
            n[c, j] += value * half[c, i]


@inner(error_model="numpy")
def _loadings(read: np.ndarray, component: np.ndarray, coefficients: np.ndarray, of_row: np.ndarray) -> np.ndarray:
    out = np.empty((coefficients.shape[1], read.shape[1]))
    for r in range(len(out)):
        for i in range(read.shape[1]):
            out[r, i] = coefficients[component[i], r] * read[of_row[r], i]
    return out


@kernel(error_model="numpy")
def log_evidence_and_gradient(
    flat: np.ndarray,
    y: np.ndarray,
    cells: np.ndarray,
    starts: np.ndarray,
    sets: np.ndarray,
    moves: np.ndarray,
    shapes: np.ndarray,
    sizes: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Log evidence of all rows, and its gradient by ``flat``.

    ``flat`` are each component's parameters (sets, ...): a, A, T, R and h; then the coefficients of each component, the
    offset and sigma. ``cells`` is the time of each row, rising; ``starts`` says where series begin; ``sets`` which
    parameters a time has; ``moves`` are the entries of all components' T that can differ from zero; ``shapes`` the
    lengths of x and z by component; ``sizes`` the number of sets, the lengths (1 or rows) of the coefficients, the
    offset and sigma, and two flags: whether T, and whether coefficients and h, are free.
    """
    n_sets, n, k = sizes[0], len(y), len(shapes)
    mean, start, move, noise, read, where, component = _system(flat, shapes, n_sets, moves)
    coefficients, rest = _rows_of(flat, shapes, sizes, n)
    loadings, d = _loadings(read, component, coefficients, sets[cells]), mean.shape[1]
    free_moves, free_loadings = sizes[k + 3] > 0, sizes[k + 4] > 0
    gains, surprises, variances = np.empty((n, d)), np.empty(n), np.empty(n)
    rows_kept, cells_kept = n if free_loadings else 0, len(starts) if free_moves else 0
    row_means, row_covariances = np.empty((rows_kept, d)), np.empty((rows_kept, d, d))
    cell_means, cell_covariances = np.empty((cells_kept, d)), np.empty((cells_kept, d, d))
    gradient = np.zeros(len(flat))
    value = _filter(mean, _products(start), move, _products(noise), loadings, rest, y, cells, starts, sets, moves,
                    gains, surprises, variances, row_means, row_covariances, cell_means, cell_covariances)  # fmt: skip
    if not value > -np.inf:
        return value, gradient
    r, nn, w, half, other = np.zeros(d), np.zeros((d, d)), np.zeros(d), np.zeros((d, d)), np.zeros((d, d))
    to_mean, to_start, to_noise = np.zeros((n_sets, d)), np.zeros((n_sets, d, d)), np.zeros((n_sets, d, d))
    to_move, to_read = np.zeros((n_sets, len(moves))), np.zeros((n_sets, d))
    to_coefficients, to_rest = np.zeros((k, n)), np.zeros((2, n))
    row = n - 1
    for t in range(len(starts) - 1, -1, -1):
        s = sets[t]
        while row >= 0 and cells[row] == t:
            w_r = r.copy() if free_loadings else r
            u, diagonal = _row_back(loadings[row], gains[row], surprises[row], variances[row], r, nn, w)
            to_rest[0, row] = u
            to_rest[1, row] = rest[1, row] * (u * u - diagonal)
            if free_loadings:
                p = row_covariances[row]
                for i in range(d):
                    smoothed, spread = row_means[row, i], gains[row, i]
                    for j in range(d):
                        smoothed += p[i, j] * w_r[j]
                        spread -= p[i, j] * w[j]
                    slope = u * smoothed - spread
                    to_coefficients[component[i], row] += slope * read[s, i]
                    to_read[s, i] += slope * coefficients[component[i], row]
            row -= 1
        if starts[t]:
            for i in range(d):
                to_mean[s, i] += r[i]
                for j in range(d):
                    to_start[s, i, j] += 0.5 * (r[i] * r[j] - nn[i, j])
            r[:] = 0.0
            nn[:] = 0.0
            continue
        for i in range(d):
            for j in range(d):
                to_noise[s, i, j] += 0.5 * (r[i] * r[j] - nn[i, j])
        if free_moves:
            p, m = cell_covariances[t - 1], cell_means[t - 1]
            other[:] = 0.0
            for c in range(len(moves)):
                for j in range(d):
                    other[moves[c, 0], j] += move[s, c] * p[moves[c, 1], j]
            for c in range(len(moves)):
                i, j = moves[c, 0], moves[c, 1]
                to_move[s, c] += r[i] * m[j]
                for x in range(d):
                    to_move[s, c] += (r[i] * r[x] - nn[i, x]) * other[x, j]
        _time_back(move[s], moves, r, nn, half)
    # From B B' to B.
    for s in range(n_sets):
        for i in range(d):
            at, first, first_noise = where[i]
            dim, q = shapes[component[i], 0], shapes[component[i], 1]
            base = at + s * (2 * dim + 2 * dim * dim + dim * q)
            local = i - first
            gradient[base + local] = to_mean[s, i]
            gradient[base + dim + 2 * dim * dim + dim * q + local] = to_read[s, i]
            for j in range(dim):
                total = 0.0
                for x in range(dim):
                    total += to_start[s, i, first + x] * start[s, first + x, first + j]
                gradient[base + dim + local * dim + j] = 2.0 * total
            for j in range(q):
                total = 0.0
                for x in range(dim):
                    total += to_noise[s, i, first + x] * noise[s, first + x, first_noise + j]
                gradient[base + dim + 2 * dim * dim + local * q + j] = 2.0 * total
        for c in range(len(moves)):
            i, j = moves[c, 0], moves[c, 1]
            at, first = where[i, 0], where[i, 1]
            dim, q = shapes[component[i], 0], shapes[component[i], 1]
            base = at + s * (2 * dim + 2 * dim * dim + dim * q)
            gradient[base + dim + dim * dim + (i - first) * dim + (j - first)] = to_move[s, c]
    at = 0
    for c in range(k):
        at += n_sets * (2 * shapes[c, 0] + 2 * shapes[c, 0] ** 2 + shapes[c, 0] * shapes[c, 1])
    for c in range(k + 2):
        length = sizes[1 + c]
        for x in range(n):
            slope = to_coefficients[c, x] if c < k else to_rest[c - k, x]
            gradient[at + (x if length > 1 else 0)] += slope
        at += length
    return value, gradient


@kernel(error_model="numpy")
def smooth(
    flat: np.ndarray,
    y: np.ndarray,
    cells: np.ndarray,
    starts: np.ndarray,
    sets: np.ndarray,
    moves: np.ndarray,
    shapes: np.ndarray,
    sizes: np.ndarray,
    places: np.ndarray,
    normals: np.ndarray,
    alone: np.ndarray,
) -> float:
    """Log evidence; expected normals of all components one after the other, and what is known of rows, are filled.

    ``places`` (components, cells) is where a cell's normals begin. ``alone`` (2, rows) becomes u and D: a row given all
    others is normal with mean y - u / D and variance 1 / D.
    """
    n_sets, n = sizes[0], len(y)
    mean, start, move, noise, read, where, component = _system(flat, shapes, n_sets, moves)
    coefficients, rest = _rows_of(flat, shapes, sizes, n)
    loadings, d = _loadings(read, component, coefficients, sets[cells]), mean.shape[1]
    gains, surprises, variances = np.empty((n, d)), np.empty(n), np.empty(n)
    none, nothing = np.empty((0, d)), np.empty((0, d, d))
    value = _filter(mean, _products(start), move, _products(noise), loadings, rest, y, cells, starts, sets, moves,
                    gains, surprises, variances, none, nothing, none, nothing)  # fmt: skip
    if not value > -np.inf:
        return value
    r, nn, w, half = np.zeros(d), np.zeros((d, d)), np.zeros(d), np.zeros((d, d))
    row = n - 1
    for t in range(len(starts) - 1, -1, -1):
        s = sets[t]
        while row >= 0 and cells[row] == t:
            alone[0, row], alone[1, row] = _row_back(
                loadings[row], gains[row], surprises[row], variances[row], r, nn, w
            )
            row -= 1
        for i in range(d):
            first, first_noise, c = where[i, 1], where[i, 2], component[i]
            if starts[t]:
                for j in range(shapes[c, 0]):
                    normals[places[c, t] + j] += start[s, i, first + j] * r[i]
            else:
                for j in range(shapes[c, 1]):
                    normals[places[c, t] + j] += noise[s, i, first_noise + j] * r[i]
        if starts[t]:
            r[:] = 0.0
            nn[:] = 0.0
        else:
            _time_back(move[s], moves, r, nn, half)
    return value
