"""Compiled evidence of normal factors: log p(X | m, W, Ψ) and its gradient from means and scatter of the rows.

With Σ = W W' + Ψ and C the scatter of n rows about m,

    log p = -1/2 (n D log 2π + n log |Σ| + tr Σ⁻¹ C),

and the slopes are n Σ⁻¹ (x̄ - m) in m, (Σ⁻¹ C Σ⁻¹ - n Σ⁻¹) W in W, and half the diagonal of that bracket in Ψ. Only the
K × K matrix M = I + W' Ψ⁻¹ W is ever inverted: with U = Ψ⁻¹ W and V = U M⁻¹, Σ⁻¹ = Ψ⁻¹ - V U', and Σ⁻¹ W = V. A pass
costs O(D² K), whatever the number of rows. Rows with missing cells are summed up pattern by pattern.
"""

from __future__ import annotations

import math

import numba
import numpy as np

__all__ = ["factor_evidence"]

_LOG_2PI = math.log(2.0 * math.pi)


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _inverse(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """Of a positive definite matrix, and the log of its determinant."""
    size = len(matrix)
    lower = np.zeros((size, size))
    log_det = 0.0
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for m in range(j):
                total -= lower[i, m] * lower[j, m]
            lower[i, j] = math.sqrt(total) if i == j else total / lower[j, j]
        log_det += 2.0 * math.log(lower[i, i])
    own = np.zeros((size, size))
    for j in range(size):
        own[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, size):
            total = 0.0
            for m in range(j, i):
                total += lower[i, m] * own[m, j]
            own[i, j] = -total / lower[i, i]
    out = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            for m in range(max(i, j), size):
                out[i, j] += own[m, i] * own[m, j]
    return out, log_det


@numba.njit(cache=True, error_model="numpy", nogil=True)
def factor_evidence(
    parameters: np.ndarray,
    sizes: np.ndarray,
    counts: np.ndarray,
    seen: np.ndarray,
    cells: np.ndarray,
    means: np.ndarray,
    scatters: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Log evidence and its gradient.

    Parameters
    ----------
    parameters : ndarray
        m (D), W (D · K) row by row, sds of the noise (D).
    sizes : ndarray (2,)
        D and K.
    counts, seen : ndarray (P,)
        Rows of each pattern, and how many cells they have.
    cells : ndarray (P, D)
        Which these are, first.
    means, scatters : ndarray (P, D), (P, D, D)
        Of these cells, first: their means, and sums of squares and products about these.
    """
    d_all, size = int(sizes[0]), int(sizes[1])
    slope = np.zeros(len(parameters))
    value = 0.0
    at_noise = d_all + d_all * size
    for p in range(len(counts)):
        n, d = float(counts[p]), int(seen[p])
        psi, u, apart = np.empty(d), np.empty((d, size)), np.empty(d)
        m = np.eye(size)
        for i in range(d):
            c = cells[p, i]
            psi[i] = parameters[at_noise + c] ** 2
            apart[i] = means[p, i] - parameters[c]
            for k in range(size):
                u[i, k] = parameters[d_all + c * size + k] / psi[i]
        for i in range(d):
            for k in range(size):
                for j in range(size):
                    m[k, j] += u[i, k] * psi[i] * u[i, j]
        inverse, log_det = _inverse(m)
        v = np.zeros((d, size))
        for i in range(d):
            log_det += math.log(psi[i])
            for k in range(size):
                for j in range(size):
                    v[i, k] += u[i, j] * inverse[j, k]
        # C U, and U' C U.
        cu, ucu, trace = np.zeros((d, size)), np.zeros((size, size)), 0.0
        for i in range(d):
            for j in range(d):
                c = scatters[p, i, j] + n * apart[i] * apart[j]
                for k in range(size):
                    cu[i, k] += c * u[j, k]
        for i in range(d):
            trace += (scatters[p, i, i] + n * apart[i] * apart[i]) / psi[i]
            for k in range(size):
                for j in range(size):
                    ucu[k, j] += u[i, k] * cu[i, j]
        for k in range(size):
            for j in range(size):
                trace -= inverse[k, j] * ucu[k, j]
        value -= 0.5 * (n * (d * _LOG_2PI + log_det) + trace)
        # Σ⁻¹ C Σ⁻¹ W = (Ψ⁻¹ - V U') C V, and C V = C U M⁻¹; U' C V = U' C U M⁻¹.
        projected = np.zeros(size)
        for k in range(size):
            for i in range(d):
                projected[k] += u[i, k] * apart[i]
        ucv = np.zeros((size, size))
        for k in range(size):
            for j in range(size):
                for r in range(size):
                    ucv[k, j] += ucu[k, r] * inverse[r, j]
        for i in range(d):
            c = cells[p, i]
            pull = apart[i] / psi[i]
            inner = (scatters[p, i, i] + n * apart[i] * apart[i]) / (psi[i] * psi[i]) - n / psi[i]
            for k in range(size):
                pull -= v[i, k] * projected[k]
                cv, rest = 0.0, 0.0
                for j in range(size):
                    cv += cu[i, j] * inverse[j, k]
                    rest += v[i, j] * ucv[j, k]
                slope[d_all + c * size + k] += cv / psi[i] - rest - n * v[i, k]
                inner += n * v[i, k] * u[i, k] - 2.0 * v[i, k] * cu[i, k] / psi[i]
                for j in range(size):
                    inner += v[i, k] * ucu[k, j] * v[i, j]
            slope[c] += n * pull
            slope[at_noise + c] += inner * parameters[at_noise + c]
    return value, slope
