"""Compiled passes over the rows of a mixture: log evidence, responsibilities, gradients, M-step statistics.

Rows are processed in blocks of 128, stored by column in the cache, so that every inner loop runs over rows and the
compiler vectorises it. One polynomial loop computes a block's exponentials, because calls of the C library's ``exp`` do
not vectorise. Within a row the largest term is subtracted first, so that likelihoods may underflow by any amount. Sums
of a Gaussian component are centred at its current mean, so that data far from zero do not lose precision.

Kernels of `evidence.EvidenceOp` take one flat vector and return (value, gradient).
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel
from bayeslab.constants import LOG_2PI

__all__ = [
    "diagonal_gaussian_evidence",
    "diagonal_gaussian_log_density",
    "diagonal_gaussian_pass",
    "full_gaussian_evidence",
    "full_gaussian_log_density",
    "full_gaussian_pass",
    "log_evidence_and_gradient",
    "normalise_rows",
]

_BLOCK = 128
# Sums may be reordered; infinities and NaN keep their meaning.
_SUMS = {"reassoc", "contract", "nsz", "arcp"}


@inner(error_model="numpy", fastmath={"contract"})
def _exponentials(values: np.ndarray, scratch: np.ndarray, bits: np.ndarray) -> None:
    """exp(x) for x <= 0, in place; below -700 zero. ``bits`` is ``scratch`` seen as integers.

    x = n log 2 + r with |r| <= log(2) / 2: a Taylor polynomial of degree 12 (relative error 2e-16)
    times 2^n, which is built by writing n into the exponent bits. Adding 1.5 · 2^52 rounds n to an
    integer, which is then in the low bits.
    """
    for b in range(len(values)):
        x = max(values[b], -700.0)
        n = np.floor(x * 1.4426950408889634 + 0.5)
        r = x - n * 0.693147180369123816490
        r -= n * 1.90821492927058770002e-10
        p = 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        values[b] = p if values[b] > -700.0 else 0.0
        scratch[b] = n + 6755399441055744.0
    for b in range(len(values)):
        bits[b] = (bits[b] + 1023) << 52
    for b in range(len(values)):
        values[b] *= scratch[b]


@inner(error_model="numpy", fastmath=_SUMS)
def _normalise_block(
    terms: np.ndarray,
    size: int,
    row_weights: np.ndarray,
    begin: int,
    top: np.ndarray,
    total: np.ndarray,
    scratch: np.ndarray,
    bits: np.ndarray,
) -> float:
    """Convert log terms (K, block) to responsibilities times row weights; return the block's log evidence.

    On return ``top`` holds each row's log evidence.
    """
    n_components = terms.shape[0]
    for b in range(size):
        top[b] = terms[0, b]
        total[b] = 0.0
    for k in range(1, n_components):
        for b in range(size):
            term_here = terms[k, b]
            # Keep NaN, so that an invalid density is noticed.
            top[b] = term_here if term_here > top[b] or np.isnan(term_here) else top[b]
    for k in range(n_components):
        term = terms[k, :size]
        for b in range(size):
            # -inf - -inf is NaN; a row with zero density under every component gets no responsibility.
            term[b] = term[b] - top[b] if top[b] > -np.inf else -np.inf
        _exponentials(term, scratch[:size], bits[:size])
        for b in range(size):
            total[b] += term[b]
    value = 0.0
    weighted = len(row_weights) > 0
    for b in range(size):
        weight = row_weights[begin + b] if weighted else 1.0
        top[b] += np.log(total[b])
        value += weight * top[b] if weight > 0.0 else 0.0
        total[b] = weight / total[b] if total[b] > 0.0 else 0.0
    for k in range(n_components):
        for b in range(size):
            terms[k, b] *= total[b]
    return value


@kernel(error_model="numpy")
def normalise_rows(log_weights: np.ndarray, log_components: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log evidence of each row (N,) and responsibilities (N, K).

    Parameters
    ----------
    log_weights : ndarray (1, K) or (N, K)
    log_components : ndarray (N, K)
    """
    n_rows, n_components = log_components.shape
    each = log_weights.shape[0] > 1
    evidence, responsibilities = np.empty(n_rows), np.empty((n_rows, n_components))
    terms, everyone = np.empty((n_components, _BLOCK)), np.empty(0)
    top, total, scratch = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    bits = scratch.view(np.int64)
    for begin in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - begin)
        for b in range(size):
            w = begin + b if each else 0
            for k in range(n_components):
                terms[k, b] = log_weights[w, k] + log_components[begin + b, k]
        _normalise_block(terms, size, everyone, begin, top, total, scratch, bits)
        for b in range(size):
            evidence[begin + b] = top[b]
            for k in range(n_components):
                responsibilities[begin + b, k] = terms[k, b]
    return evidence, responsibilities


@kernel(error_model="numpy")
def log_evidence_and_gradient(parameters: np.ndarray, size: np.ndarray) -> tuple[float, np.ndarray]:
    """Any mixture: ``parameters`` is log weights (K), then log component densities (N · K, row by row).

    ``size`` holds K. The gradient is the expected counts: of components, and of each component in each row.
    """
    n_components = int(size[0])
    n_rows = len(parameters) // n_components - 1
    log_weights = parameters[:n_components].copy().reshape(1, n_components)
    log_components = parameters[n_components:].copy().reshape(n_rows, n_components)
    evidence, responsibilities = normalise_rows(log_weights, log_components)
    gradient = np.empty(len(parameters))
    gradient[n_components:] = responsibilities.ravel()
    for k in range(n_components):
        gradient[k] = responsibilities[:, k].sum()
    return evidence.sum(), gradient


# --------------------------------------------------------------------- gaussian, full covariance


@inner(error_model="numpy", fastmath=_SUMS)
def _whiten(
    columns: np.ndarray,
    mean: np.ndarray,
    factor: np.ndarray,
    size: int,
    apart: np.ndarray,
    point: np.ndarray,
    square: np.ndarray,
) -> None:
    """``apart`` = x - mean and ``square`` = |factor (x - mean)|² for a block, factor lower triangular."""
    d = len(mean)
    for b in range(size):
        square[b] = 0.0
    for i in range(d):
        for b in range(size):
            apart[i, b] = columns[i, b] - mean[i]
            point[b] = 0.0
        for j in range(i + 1):
            f = factor[i, j]
            for b in range(size):
                point[b] += f * apart[j, b]
        for b in range(size):
            square[b] += point[b] * point[b]


@kernel(error_model="numpy", fastmath=_SUMS)
def full_gaussian_pass(
    rows: np.ndarray, row_weights: np.ndarray, log_weights: np.ndarray, means: np.ndarray, factors: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """One E-step with its statistics; nothing of size N is stored.

    Parameters
    ----------
    rows : ndarray (N, d)
    row_weights : ndarray (N,), or of length 0
    log_weights : ndarray (K,)
    means : ndarray (K, d)
    factors : ndarray (K, d, d)
        Inverses of the lower Cholesky factors of the covariances.

    Returns
    -------
    value : float
        Log evidence of all rows.
    counts, first, second : ndarray (K,), (K, d), (K, d, d)
        Σ r, Σ r (x - mean) and Σ r (x - mean)(x - mean)', r the responsibilities times row weights.
    """
    n_rows, d = rows.shape
    n_components = len(log_weights)
    counts, first = np.zeros(n_components), np.zeros((n_components, d))
    second = np.zeros((n_components, d, d))
    columns, apart, terms = np.empty((d, _BLOCK)), np.empty((d, _BLOCK)), np.empty((n_components, _BLOCK))
    point, square, top, total = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    scratch = np.empty(_BLOCK)
    bits = scratch.view(np.int64)
    constant = np.empty(n_components)
    for k in range(n_components):
        constant[k] = log_weights[k] - 0.5 * d * LOG_2PI
        for i in range(d):
            constant[k] += np.log(factors[k, i, i])
    value = 0.0
    for begin in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - begin)
        for b in range(size):
            for i in range(d):
                columns[i, b] = rows[begin + b, i]
        for k in range(n_components):
            _whiten(columns, means[k], factors[k], size, apart, point, square)
            for b in range(size):
                terms[k, b] = constant[k] - 0.5 * square[b]
        value += _normalise_block(terms, size, row_weights, begin, top, total, scratch, bits)
        for k in range(n_components):
            added = 0.0
            for b in range(size):
                added += terms[k, b]
            counts[k] += added
            for i in range(d):
                added = 0.0
                for b in range(size):
                    apart[i, b] = columns[i, b] - means[k, i]
                    point[b] = terms[k, b] * apart[i, b]
                    added += point[b]
                first[k, i] += added
                for j in range(i + 1):
                    added = 0.0
                    for b in range(size):
                        added += point[b] * apart[j, b]
                    second[k, i, j] += added
    for k in range(n_components):
        for i in range(d):
            for j in range(i):
                second[k, j, i] = second[k, i, j]
    return value, counts, first, second


@kernel(error_model="numpy")
def full_gaussian_evidence(parameters: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray]:
    """Gaussian mixture with full covariances.

    ``parameters`` is log weights (K), means (K · d), then the K inverse Cholesky factors W, Σ^-1 = W'W,
    lower triangle row by row. With z = W(x - mean) the gradients are Σ r, W' Σ r z and
    diag(Σ r / W_ii) - Σ r z (x - mean)', so that one pass suffices.
    """
    d = rows.shape[1]
    triangle = d * (d + 1) // 2
    n_components = len(parameters) // (1 + d + triangle)
    log_weights = parameters[:n_components]
    means = parameters[n_components : n_components * (1 + d)].copy().reshape(n_components, d)
    factors = np.zeros((n_components, d, d))
    at = n_components * (1 + d)
    for k in range(n_components):
        for i in range(d):
            for j in range(i + 1):
                factors[k, i, j] = parameters[at]
                at += 1
    value, counts, first, second = full_gaussian_pass(rows, np.empty(0), log_weights, means, factors)
    gradient = np.empty(len(parameters))
    gradient[:n_components] = counts
    at = n_components * (1 + d)
    for k in range(n_components):
        whitened = np.zeros(d)
        for i in range(d):
            for j in range(i + 1):
                whitened[i] += factors[k, i, j] * first[k, j]
        for j in range(d):
            slope = 0.0
            for i in range(j, d):
                slope += factors[k, i, j] * whitened[i]
            gradient[n_components + k * d + j] = slope
        for i in range(d):
            for j in range(i + 1):
                slope = counts[k] / factors[k, i, i] if i == j else 0.0
                for m in range(i + 1):
                    slope -= factors[k, i, m] * second[k, m, j]
                gradient[at] = slope
                at += 1
    return value, gradient


@kernel(error_model="numpy", fastmath=_SUMS)
def full_gaussian_log_density(rows: np.ndarray, means: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Log density of each row under each component, (N, K)."""
    n_rows, d = rows.shape
    n_components = len(means)
    out = np.empty((n_rows, n_components))
    columns, apart = np.empty((d, _BLOCK)), np.empty((d, _BLOCK))
    point, square = np.empty(_BLOCK), np.empty(_BLOCK)
    for begin in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - begin)
        for b in range(size):
            for i in range(d):
                columns[i, b] = rows[begin + b, i]
        for k in range(n_components):
            constant = -0.5 * d * LOG_2PI
            for i in range(d):
                constant += np.log(factors[k, i, i])
            _whiten(columns, means[k], factors[k], size, apart, point, square)
            for b in range(size):
                out[begin + b, k] = constant - 0.5 * square[b]
    return out


# ----------------------------------------------------------------- gaussian, diagonal covariance


@kernel(error_model="numpy", fastmath=_SUMS)
def diagonal_gaussian_pass(
    rows: np.ndarray, row_weights: np.ndarray, log_weights: np.ndarray, means: np.ndarray, log_sds: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """As `full_gaussian_pass`, with log standard deviations (K, d) and second sums (K, d) of squares."""
    n_rows, d = rows.shape
    n_components = len(log_weights)
    counts, first, second = np.zeros(n_components), np.zeros((n_components, d)), np.zeros((n_components, d))
    columns, terms = np.empty((d, _BLOCK)), np.empty((n_components, _BLOCK))
    top, total, scratch = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    bits = scratch.view(np.int64)
    constant = np.empty(n_components)
    halves = 0.5 * np.exp(-2.0 * log_sds)
    for k in range(n_components):
        constant[k] = log_weights[k] - 0.5 * d * LOG_2PI
        for i in range(d):
            constant[k] -= log_sds[k, i]
    value = 0.0
    for begin in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - begin)
        for b in range(size):
            for i in range(d):
                columns[i, b] = rows[begin + b, i]
        for k in range(n_components):
            for b in range(size):
                terms[k, b] = constant[k]
            for i in range(d):
                mean, half = means[k, i], halves[k, i]
                for b in range(size):
                    apart = columns[i, b] - mean
                    terms[k, b] -= half * apart * apart
        value += _normalise_block(terms, size, row_weights, begin, top, total, scratch, bits)
        for k in range(n_components):
            added = 0.0
            for b in range(size):
                added += terms[k, b]
            counts[k] += added
            for i in range(d):
                mean, one, two = means[k, i], 0.0, 0.0
                for b in range(size):
                    apart = columns[i, b] - mean
                    one += terms[k, b] * apart
                    two += terms[k, b] * apart * apart
                first[k, i] += one
                second[k, i] += two
    return value, counts, first, second


@kernel(error_model="numpy")
def diagonal_gaussian_evidence(parameters: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray]:
    """Gaussian mixture with diagonal covariances: log weights (K), means (K · d), log sds (K · d)."""
    d = rows.shape[1]
    n_components = len(parameters) // (1 + 2 * d)
    half = n_components * (1 + d)
    means = parameters[n_components:half].copy().reshape(n_components, d)
    log_sds = parameters[half:].copy().reshape(n_components, d)
    value, counts, first, second = diagonal_gaussian_pass(rows, np.empty(0), parameters[:n_components], means, log_sds)
    gradient = np.empty(len(parameters))
    gradient[:n_components] = counts
    at = n_components
    for k in range(n_components):
        for i in range(d):
            precision = math.exp(-2.0 * log_sds[k, i])
            gradient[at] = first[k, i] * precision
            gradient[at + n_components * d] = second[k, i] * precision - counts[k]
            at += 1
    return value, gradient


@kernel(error_model="numpy", fastmath=_SUMS)
def diagonal_gaussian_log_density(rows: np.ndarray, means: np.ndarray, log_sds: np.ndarray) -> np.ndarray:
    """Log density of each row under each component, (N, K); NaN cells are left out."""
    n_rows, d = rows.shape
    n_components = len(means)
    precision = np.exp(-2.0 * log_sds)
    out = np.zeros((n_rows, n_components))
    for n in range(n_rows):
        for k in range(n_components):
            total = 0.0
            for i in range(d):
                apart = rows[n, i] - means[k, i]
                part = LOG_2PI + 2.0 * log_sds[k, i] + apart * apart * precision[k, i]
                total += part if not np.isnan(part) else 0.0
            out[n, k] = -0.5 * total
    return out
