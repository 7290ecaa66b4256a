"""Compiled evidence of normal factors: log p(X | m, W, Ψ) and its gradient from means and scatter of the rows.

With Σ = W W' + Ψ and C the scatter of n rows about m,

    log p = -1/2 (n D log 2π + n log |Σ| + tr Σ⁻¹ C),

and the slopes are n Σ⁻¹ (x̄ - m) in m, (Σ⁻¹ C Σ⁻¹ - n Σ⁻¹) W in W, and half the diagonal of that bracket in Ψ. Only the
K × K matrix M = I + W' Ψ⁻¹ W is ever inverted: with U = Ψ⁻¹ W and V = U M⁻¹, Σ⁻¹ = Ψ⁻¹ - V U', and Σ⁻¹ W = V. A pass
costs O(D² K), whatever the number of rows. Rows with missing cells are summed up pattern by pattern.

If the noise of a column is negligible relative to its loadings (a Heywood case), both terms of Σ⁻¹ are huge and their
difference is rounding error, while Σ itself is well conditioned: then Σ is inverted, which costs O(D³).
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel
from bayeslab.constants import LOG_2PI

__all__ = ["HEYWOOD", "factor_evidence"]

# Variance of a column from the features, as a multiple of its noise's, from which Σ is inverted as it is.
HEYWOOD = 1e4


@inner(error_model="numpy")
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
    inverse = np.zeros((size, size))
    for j in range(size):
        inverse[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, size):
            total = 0.0
            for m in range(j, i):
                total += lower[i, m] * inverse[m, j]
            inverse[i, j] = -total / lower[i, i]
    out = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            for m in range(max(i, j), size):
                out[i, j] += inverse[m, i] * inverse[m, j]
    return out, log_det


@inner(error_model="numpy")
def _whole(
    parameters: np.ndarray,
    d_all: int,
    size: int,
    n: float,
    cells: np.ndarray,
    psi: np.ndarray,
    apart: np.ndarray,
    scatter: np.ndarray,
    slope: np.ndarray,
) -> float:
    """Log evidence of a pattern's rows by Σ itself; adds to the gradient."""
    d, at_noise = len(cells), d_all + d_all * size
    # In units in which every column has variance one.
    unit = np.empty(d)
    loading = np.empty((d, size))
    for i in range(d):
        total = psi[i]
        for k in range(size):
            loading[i, k] = parameters[d_all + cells[i] * size + k]
            total += loading[i, k] * loading[i, k]
        unit[i] = math.sqrt(total)
    sigma = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            total = psi[i] if i == j else 0.0
            for k in range(size):
                total += loading[i, k] * loading[j, k]
            sigma[i, j] = total / (unit[i] * unit[j])
    inverse, log_det = _inverse(sigma)
    scaled, product = np.empty((d, d)), np.zeros((d, d))
    for i in range(d):
        log_det += 2.0 * math.log(unit[i])
        for j in range(d):
            scaled[i, j] = (scatter[i, j] + n * apart[i] * apart[j]) / (unit[i] * unit[j])
    trace = 0.0
    for i in range(d):
        for j in range(d):
            trace += inverse[i, j] * scaled[i, j]
            for m in range(d):
                product[i, j] += inverse[i, m] * scaled[m, j]
    for i in range(d):
        for j in range(d):
            # The element of Σ⁻¹ C Σ⁻¹ - n Σ⁻¹.
            pull = -n * inverse[i, j]
            for m in range(d):
                pull += product[i, m] * inverse[m, j]
            pull /= unit[i] * unit[j]
            for k in range(size):
                slope[d_all + cells[i] * size + k] += pull * loading[j, k]
            if i == j:
                slope[at_noise + cells[i]] += pull * parameters[at_noise + cells[i]]
            slope[cells[i]] += n * inverse[i, j] * apart[j] / (unit[i] * unit[j])
    return -0.5 * (n * (d * LOG_2PI + log_det) + trace)


@kernel(error_model="numpy")
def factor_evidence(
    parameters: np.ndarray,
    sizes: np.ndarray,
    counts: np.ndarray,
    n_observed: np.ndarray,
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
    counts, n_observed : ndarray (P,)
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
        n, d = float(counts[p]), int(n_observed[p])
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
        heywood = False
        for i in range(d):
            share = 0.0
            for k in range(size):
                share += u[i, k] * u[i, k] * psi[i]
            heywood = heywood or not share < HEYWOOD
        if heywood:
            value += _whole(parameters, d_all, size, n, cells[p, :d], psi, apart, scatters[p], slope)
            continue
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
        value -= 0.5 * (n * (d * LOG_2PI + log_det) + trace)
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
