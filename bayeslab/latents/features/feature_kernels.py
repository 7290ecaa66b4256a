"""Compiled steps of binary factor models: updates of the rows of Z, and likelihoods with weights or features summed
out.

The weights A of the features have normal priors and are integrated out. The kernels maintain their posterior given all
rows but one: means ``mean`` (K, D) and, in units of the noise variance, one covariance ``spread`` (K, K) for all
columns. A row is removed and added by a rank-one update, so that a sweep costs O(N K (K + D)) instead of the O(N² K) of
the collapsed likelihood (Doshi-Velez and Ghahramani 2009); the conditionals are the same.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel
from bayeslab.constants import LOG_2PI

__all__ = ["binary_evidence", "binary_pass", "collapsed_log_density", "draw_rows", "sweep", "traded"]


@inner(error_model="numpy")
def _factor(matrix: np.ndarray, size: int) -> np.ndarray:
    """Lower Cholesky factor of the first rows and columns."""
    out = np.zeros((size, size))
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for m in range(j):
                total -= out[i, m] * out[j, m]
            out[i, j] = math.sqrt(total) if i == j else total / out[j, j]
    return out


@inner(error_model="numpy")
def _inverse(matrix: np.ndarray, size: int) -> np.ndarray:
    lower = _factor(matrix, size)
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
        for j in range(i + 1):
            total = 0.0
            for m in range(i, size):
                total += inverse[m, i] * inverse[m, j]
            out[i, j] = total
            out[j, i] = total
    return out


@kernel(error_model="numpy")
def collapsed_log_density(
    gram: np.ndarray, cross: np.ndarray, total: float, n: int, d: int, noise: float, scales: np.ndarray
) -> float:
    """log p(X | Z), the weights integrated out.

    Parameters
    ----------
    gram : ndarray (K, K)
        Z'Z.
    cross : ndarray (K, K)
        Z'X X'Z.
    total : float
        Sum of the squares of X, (n, d).
    noise : float
        Sd of the noise.
    scales : ndarray (K,)
        Sds of the features' weights.
    """
    size = len(scales)
    variance = noise * noise
    precision = gram.copy()
    value = -0.5 * n * d * (LOG_2PI + math.log(variance))
    for j in range(size):
        ratio = variance / (scales[j] * scales[j])
        precision[j, j] += ratio
        value += 0.5 * d * math.log(ratio)
    lower = _factor(precision, size)
    for j in range(size):
        value -= d * math.log(lower[j, j])
    inverse = _inverse(precision, size)
    explained = 0.0
    for i in range(size):
        for j in range(size):
            explained += inverse[i, j] * cross[i, j]
    return value - 0.5 * (total - explained) / variance


@inner(error_model="numpy")
def _times(z: np.ndarray, n: int, size: int, matrix: np.ndarray, out: np.ndarray) -> None:
    """z_n times a matrix with one row for each feature."""
    for j in range(matrix.shape[1]):
        out[j] = 0.0
    for k in range(size):
        if z[n, k]:
            for j in range(matrix.shape[1]):
                out[j] += matrix[k, j]


@inner(error_model="numpy")
def _posterior(
    x: np.ndarray, z: np.ndarray, size: int, ratios: np.ndarray, spread: np.ndarray, mean: np.ndarray
) -> None:
    """Of the weights given all rows."""
    gram, moment = np.zeros((size, size)), np.zeros((size, x.shape[1]))
    for n in range(len(x)):
        for i in range(size):
            if z[n, i]:
                for j in range(i + 1):
                    if z[n, j]:
                        gram[i, j] += 1.0
                for j in range(x.shape[1]):
                    moment[i, j] += x[n, j]
    for i in range(size):
        gram[i, i] += ratios[i]
    inverse = _inverse(gram, size)
    for i in range(size):
        for j in range(size):
            spread[i, j] = inverse[i, j]
        for j in range(x.shape[1]):
            mean[i, j] = 0.0
        for m in range(size):
            for j in range(x.shape[1]):
                mean[i, j] += inverse[i, m] * moment[m, j]


@inner(error_model="numpy")
def _moved(
    x: np.ndarray,
    z: np.ndarray,
    n: int,
    size: int,
    spread: np.ndarray,
    mean: np.ndarray,
    along: np.ndarray,
    fit: np.ndarray,
    sign: float,
) -> None:
    """The posterior of the weights without row n (sign -1), or with it (sign 1)."""
    for i in range(size):
        along[i] = 0.0
        for j in range(size):
            if z[n, j]:
                along[i] += spread[i, j]
    share = 0.0
    for i in range(size):
        if z[n, i]:
            share += along[i]
    _times(z, n, size, mean, fit)
    weight = sign / (1.0 + sign * share)
    for i in range(size):
        gain = weight * along[i]
        for j in range(size):
            spread[i, j] -= gain * along[j]
        for j in range(x.shape[1]):
            mean[i, j] += gain * (x[n, j] - fit[j])


@inner(error_model="numpy")
def _log_row(squares: float, variance: float, d: int) -> float:
    return -0.5 * d * math.log(variance) - 0.5 * squares / variance


@inner(error_model="numpy")
def _new_features(
    rng: np.random.Generator, squares: float, share: float, ratio: float, noise: float, rate: float, d: int, most: int
) -> int:
    """How many features this row alone has: Poisson times the row's density, each adding to its variance.

    Summed until the rest is less than e^-40 of what there is, bounded by the highest density any variance gives.
    """
    variance = noise * noise
    best = max(variance * (1.0 + share), squares / d)
    highest = _log_row(squares, best, d)
    logs = np.empty(most + 1)
    top, log_prior, count = -np.inf, 0.0, 0
    for s in range(most + 1):
        if s > 0:
            log_prior += math.log(rate) - math.log(s)
        if s > rate and log_prior + highest < top - 40.0:
            break
        logs[s] = log_prior + _log_row(squares, variance * (1.0 + share + s / ratio), d)
        top = max(top, logs[s])
        count = s + 1
    total = 0.0
    for s in range(count):
        logs[s] = math.exp(logs[s] - top)
        total += logs[s]
    point = rng.random() * total
    for s in range(count):
        point -= logs[s]
        if point < 0.0:
            return s
    return count - 1


@inner(error_model="numpy")
def _drop(
    z: np.ndarray, counts: np.ndarray, ratios: np.ndarray, k: int, size: int, spread: np.ndarray, mean: np.ndarray
) -> None:
    """Remove feature k; the last takes its place."""
    last = size - 1
    if k < last:
        for n in range(len(z)):
            z[n, k] = z[n, last]
        for j in range(size):
            spread[k, j] = spread[last, j]
        for j in range(size):
            spread[j, k] = spread[j, last]
        spread[k, k] = spread[last, last]
        for j in range(mean.shape[1]):
            mean[k, j] = mean[last, j]
        counts[k], ratios[k] = counts[last], ratios[last]
    for n in range(len(z)):
        z[n, last] = 0


@inner(error_model="numpy")
def _pair(
    rng: np.random.Generator,
    x: np.ndarray,
    z: np.ndarray,
    n: int,
    i: int,
    j: int,
    n_unique: int,
    ratio: float,
    variance: float,
    counts: np.ndarray,
    prior_on: float,
    prior_off: float,
    share: float,
    squares: float,
    spread: np.ndarray,
    mean: np.ndarray,
    along: np.ndarray,
    fit: np.ndarray,
    size: int,
) -> tuple[float, float]:
    """Draw two entries of a row together.

    Features with the same weights trade rows that way, and those with opposite weights lose rows that have both; one
    entry after the other would have to pass through what no row looks like.
    """
    n_rows, d = x.shape
    a, b = 1.0 - 2.0 * z[n, i], 1.0 - 2.0 * z[n, j]
    odds_i = a * math.log((counts[i] + prior_on) / (n_rows - 1.0 - counts[i] + prior_off))
    odds_j = b * math.log((counts[j] + prior_on) / (n_rows - 1.0 - counts[j] + prior_off))
    away_i, away_j, away = 0.0, 0.0, 0.0
    for c in range(d):
        left = x[n, c] - fit[c]
        away_i += (left - a * mean[i, c]) ** 2
        away_j += (left - b * mean[j, c]) ** 2
        away += (left - a * mean[i, c] - b * mean[j, c]) ** 2
    share_i = share + 2.0 * a * along[i] + spread[i, i]
    share_j = share + 2.0 * b * along[j] + spread[j, j]
    both = share_i + 2.0 * b * along[j] + spread[j, j] + 2.0 * a * b * spread[i, j]
    more = 1.0 + n_unique / ratio
    stay = _log_row(squares, variance * (more + share), d)
    only_i = odds_i + _log_row(away_i, variance * (more + share_i), d)
    only_j = odds_j + _log_row(away_j, variance * (more + share_j), d)
    turn = odds_i + odds_j + _log_row(away, variance * (more + both), d)
    top = max(max(stay, only_i), max(only_j, turn))
    stay, only_i, only_j, turn = (
        math.exp(stay - top),
        math.exp(only_i - top),
        math.exp(only_j - top),
        math.exp(turn - top),
    )
    point = rng.random() * (stay + only_i + only_j + turn)
    if point < stay:
        return share, squares
    point -= stay
    flip_i = point < only_i or point >= only_i + only_j
    flip_j = point >= only_i
    for k, step, flip in ((i, a, flip_i), (j, b, flip_j)):
        if flip:
            z[n, k] = 1 - z[n, k]
            for c in range(d):
                fit[c] += step * mean[k, c]
            for c in range(size):
                along[c] += step * spread[c, k]
    if flip_i and flip_j:
        return both, away
    return (share_i, away_i) if flip_i else (share_j, away_j)


@kernel(error_model="numpy")
def sweep(
    rng: np.random.Generator,
    x: np.ndarray,
    z: np.ndarray,
    size: int,
    begin: int,
    always: int,
    noise: float,
    scale: float,
    always_scale: float,
    rate: float,
    prior_on: float,
    prior_off: float,
    spare: int,
) -> tuple[int, int]:
    """Draw the rows of Z in turns, from row ``begin``; the new number of columns, and the row to go on from.

    Parameters
    ----------
    x : ndarray (N, D)
        Without missing cells.
    z : ndarray of int8 (N, capacity)
        The first ``always`` columns are ones and stay so; changed in place.
    rate : float
        α / N of a buffet; 0 for a fixed number of features.
    prior_on, prior_off : float
        The Beta prior of a feature's probability; 0 and 1 for a buffet.
    spare : int
        A row may have so many features of its own; with less room for them the sweep stops.
    """
    n_rows, d = x.shape
    capacity = z.shape[1]
    variance = noise * noise
    ratio = variance / (scale * scale)
    ratios, counts = np.empty(capacity), np.zeros(capacity)
    spread, mean = np.zeros((capacity, capacity)), np.zeros((capacity, d))
    along, fit = np.zeros(capacity), np.zeros(d)
    for k in range(capacity):
        ratios[k] = variance / (always_scale * always_scale) if k < always else ratio
    for n in range(n_rows):
        for k in range(size):
            counts[k] += z[n, k]
    _posterior(x, z, size, ratios, spread, mean)
    for n in range(begin, n_rows):
        if rate > 0.0 and capacity - size < spare:
            return size, n
        _moved(x, z, n, size, spread, mean, along, fit, -1.0)
        n_unique = 0
        for k in range(size):
            counts[k] -= z[n, k]
        if rate > 0.0:
            k = always
            while k < size:
                if counts[k] < 0.5:
                    n_unique += z[n, k]
                    _drop(z, counts, ratios, k, size, spread, mean)
                    size -= 1
                else:
                    k += 1
        _times(z, n, size, mean, fit)
        _times(z, n, size, spread, along)
        share, squares = 0.0, 0.0
        for k in range(size):
            if z[n, k]:
                share += along[k]
        for j in range(d):
            squares += (x[n, j] - fit[j]) ** 2
        for k in range(always, size):
            step = 1.0 - 2.0 * z[n, k]
            other_share = share + 2.0 * step * along[k] + spread[k, k]
            other_squares = 0.0
            for j in range(d):
                other_squares += (x[n, j] - fit[j] - step * mean[k, j]) ** 2
            gain = _log_row(other_squares, variance * (1.0 + other_share + n_unique / ratio), d)
            gain -= _log_row(squares, variance * (1.0 + share + n_unique / ratio), d)
            gain += step * math.log((counts[k] + prior_on) / (n_rows - 1.0 - counts[k] + prior_off))
            if rng.random() * (1.0 + math.exp(-gain)) < 1.0:
                z[n, k] = 1 - z[n, k]
                share, squares = other_share, other_squares
                for j in range(d):
                    fit[j] += step * mean[k, j]
                for j in range(size):
                    along[j] += step * spread[j, k]
        for _ in range((size - always) // 2):
            i = always + int(rng.integers(0, size - always))
            j = always + int(rng.integers(0, size - always - 1))
            if j >= i:
                j += 1
            share, squares = _pair(
                rng, x, z, n, i, j, n_unique, ratio, variance, counts, prior_on, prior_off, share, squares, spread,
                mean, along, fit, size,
            )  # fmt: skip
        if rate > 0.0:
            n_unique = _new_features(rng, squares, share, ratio, noise, rate, d, spare - 1)
            for k in range(size, size + n_unique):
                z[n, k] = 1
                ratios[k] = ratio
                for j in range(size + n_unique):
                    spread[k, j] = 0.0
                    spread[j, k] = 0.0
                spread[k, k] = 1.0 / ratio
                for j in range(d):
                    mean[k, j] = 0.0
                counts[k] = 0.0
            size += n_unique
        for k in range(size):
            counts[k] += z[n, k]
        _moved(x, z, n, size, spread, mean, along, fit, 1.0)
    return size, n_rows


@kernel(error_model="numpy")
def traded(
    rng: np.random.Generator,
    x: np.ndarray,
    z: np.ndarray,
    rows: np.ndarray,
    ahead: int,
    behind: int,
    noise: float,
    scale: float,
) -> tuple[float, float]:
    """Redraw a few features of some rows together, one row after the other, so that the first ends or begins.

    Each row's pattern is drawn in proportion to its density given the other rows as they are then, without the prior of
    Z. Seen from the end the other rows are the same, so that the way back is known on the way.

    Parameters
    ----------
    x : ndarray (N, D)
        What the other features leave.
    z : ndarray of int8 (N, F)
        Changed in place.
    rows : ndarray of int
        In the order in which they are drawn.
    ahead, behind : int
        The first feature's entry in the patterns to draw from, and in those that the way back draws from; -1: both.

    Returns
    -------
    tuple of float
        Log probabilities of the proposal and of the way back.
    """
    d, size = x.shape[1], z.shape[1]
    n_patterns, variance = 1 << size, noise * noise
    ratios, spread, mean = np.full(size, variance / (scale * scale)), np.zeros((size, size)), np.zeros((size, d))
    along, fit, logs = np.zeros(size), np.zeros(d), np.empty(n_patterns)
    forth, back = 0.0, 0.0
    _posterior(x, z, size, ratios, spread, mean)
    for n in rows:
        _moved(x, z, n, size, spread, mean, along, fit, -1.0)
        was, top = 0, -np.inf
        for k in range(size):
            was += int(z[n, k]) << k
        for c in range(n_patterns):
            logs[c] = -np.inf
            if ahead < 0 or behind < 0 or c & 1 == ahead or c & 1 == behind:
                share, squares = 0.0, 0.0
                for k in range(size):
                    z[n, k] = (c >> k) & 1
                for k in range(size):
                    for m in range(size):
                        if z[n, k] and z[n, m]:
                            share += spread[k, m]
                _times(z, n, size, mean, fit)
                for j in range(d):
                    squares += (x[n, j] - fit[j]) ** 2
                logs[c] = _log_row(squares, variance * (1.0 + share), d)
        top = logs.max()
        there, here = 0.0, 0.0
        for c in range(n_patterns):
            there += math.exp(logs[c] - top) if ahead < 0 or c & 1 == ahead else 0.0
            here += math.exp(logs[c] - top) if behind < 0 or c & 1 == behind else 0.0
        if there == 0.0 or here == 0.0:
            return 0.0, -np.inf
        point, now = rng.random() * there, 0
        for c in range(n_patterns):
            if ahead < 0 or c & 1 == ahead:
                now = c
                point -= math.exp(logs[c] - top)
                if point < 0.0:
                    break
        forth += logs[now] - top - math.log(there)
        back += logs[was] - top - math.log(here)
        for k in range(size):
            z[n, k] = (now >> k) & 1
        _moved(x, z, n, size, spread, mean, along, fit, 1.0)
    return forth, back


@inner(error_model="numpy")
def _sums_of_subsets(weights: np.ndarray, out: np.ndarray) -> None:
    """out[c] = sum of the weights of the bits of c."""
    out[0] = 0.0
    for k in range(len(weights)):
        half = 1 << k
        for c in range(half):
            out[half + c] = out[c] + weights[k]


@inner(error_model="numpy")
def _subset_penalties(loading: np.ndarray, log_odds: np.ndarray, variance: float) -> np.ndarray:
    """log odds of the bits minus |Σ loadings of the bits|² / 2 variance, for each of 2^K subsets."""
    size, d = loading.shape
    out = np.zeros(1 << size)
    where = np.zeros((1 << size, d))
    for k in range(size):
        half = 1 << k
        for c in range(half):
            out[half + c] = out[c] + log_odds[k]
            for j in range(d):
                where[half + c, j] = where[c, j] + loading[k, j]
    for c in range(1 << size):
        total = 0.0
        for j in range(d):
            total += where[c, j] * where[c, j]
        out[c] -= 0.5 * total / variance
    return out


@kernel(error_model="numpy")
def binary_pass(
    probability: np.ndarray, loading: np.ndarray, offset: np.ndarray, noise: float, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every row's 2^K patterns summed: log evidence (N,), E[z] (N, K), and the sum of E[z z'] (K, K).

    Parameters
    ----------
    probability : ndarray (K,)
    loading : ndarray (K, D)
    offset : ndarray (D,)
    noise : float
        Sd.
    """
    n_rows, d = x.shape
    size = len(probability)
    variance = noise * noise
    log_odds, constant = np.empty(size), -0.5 * d * (LOG_2PI + math.log(variance))
    for k in range(size):
        log_odds[k] = math.log(probability[k]) - math.log1p(-probability[k])
        constant += math.log1p(-probability[k])
    penalty = _subset_penalties(loading, log_odds, variance)
    n_states = 1 << size
    logs, summed = np.empty(n_states), np.zeros(n_states)
    evidence, expected, weights = np.empty(n_rows), np.zeros((n_rows, size)), np.empty(size)
    for n in range(n_rows):
        squares = 0.0
        for j in range(d):
            squares += (x[n, j] - offset[j]) ** 2
        for k in range(size):
            total = 0.0
            for j in range(d):
                total += (x[n, j] - offset[j]) * loading[k, j]
            weights[k] = total / variance
        _sums_of_subsets(weights, logs)
        top = -np.inf
        for c in range(n_states):
            logs[c] += penalty[c]
            top = max(top, logs[c])
        total = 0.0
        for c in range(n_states):
            logs[c] = math.exp(logs[c] - top)
            total += logs[c]
        evidence[n] = constant + top + math.log(total) - 0.5 * squares / variance
        for c in range(n_states):
            logs[c] /= total
            summed[c] += logs[c]
        # E[z_k] by folding the highest bit away.
        for k in range(size - 1, -1, -1):
            half = 1 << k
            for c in range(half):
                expected[n, k] += logs[half + c]
                logs[c] += logs[half + c]
    second = np.zeros((size, size))
    for c in range(n_states):
        for i in range(size):
            if (c >> i) & 1:
                for j in range(size):
                    if (c >> j) & 1:
                        second[i, j] += summed[c]
    return evidence, expected, second


@kernel(error_model="numpy")
def binary_evidence(parameters: np.ndarray, x: np.ndarray, sizes: np.ndarray) -> tuple[float, np.ndarray]:
    """log p(X | parameters) with every row's features summed out, and its gradient by Fisher's identity.

    Parameters
    ----------
    parameters : ndarray
        Probabilities (K), loadings (K · D), offset (D), sd of the noise (1).
    sizes : ndarray (1,)
        K.
    """
    size, (n_rows, d) = int(sizes[0]), x.shape
    probability = parameters[:size].copy()
    loading = parameters[size : size + size * d].copy().reshape(size, d)
    offset = parameters[size + size * d : size + size * d + d].copy()
    noise = parameters[size + size * d + d]
    evidence, expected, second = binary_pass(probability, loading, offset, noise, x)
    slope = np.zeros(len(parameters))
    variance = noise * noise
    value, squares = 0.0, 0.0
    moment = np.zeros((size, d))
    for n in range(n_rows):
        value += evidence[n]
        for j in range(d):
            apart = x[n, j] - offset[j]
            squares += apart * apart
            slope[size + size * d + j] += apart / variance
            for k in range(size):
                moment[k, j] += expected[n, k] * apart
    for k in range(size):
        p = probability[k]
        slope[k] = (second[k, k] - n_rows * p) / (p * (1.0 - p))
        for j in range(d):
            total = moment[k, j]
            squares -= 2.0 * loading[k, j] * moment[k, j]
            for m in range(size):
                total -= second[k, m] * loading[m, j]
                squares += second[k, m] * loading[k, j] * loading[m, j]
            slope[size + k * d + j] = total / variance
            slope[size + size * d + j] -= second[k, k] * loading[k, j] / variance
    slope[-1] = squares / (variance * noise) - n_rows * d / noise
    return value, slope


@kernel(error_model="numpy")
def draw_rows(
    rng: np.random.Generator,
    x: np.ndarray,
    probability: np.ndarray,
    loading: np.ndarray,
    offset: np.ndarray,
    noise: float,
    z: np.ndarray,
    sweeps: int,
) -> None:
    """Gibbs steps of the features of rows at given weights, in place; missing cells (NaN) say nothing."""
    size, d = loading.shape
    apart = np.empty(d)
    for n in range(len(x)):
        for j in range(d):
            apart[j] = x[n, j] - offset[j]
            for k in range(size):
                if z[n, k]:
                    apart[j] -= loading[k, j]
        for _ in range(sweeps):
            for k in range(size):
                gain = math.log(probability[k]) - math.log1p(-probability[k])
                for j in range(d):
                    if not math.isnan(apart[j]):
                        rest = apart[j] + z[n, k] * loading[k, j]
                        gain += (rest * loading[k, j] - 0.5 * loading[k, j] ** 2) / (noise * noise)
                now = 1 if rng.random() * (1.0 + math.exp(-gain)) < 1.0 else 0
                if now != z[n, k]:
                    for j in range(d):
                        apart[j] -= (now - z[n, k]) * loading[k, j]
                    z[n, k] = now
