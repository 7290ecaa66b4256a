"""Compiled recursions of Gaussian processes that are stationary linear stochastic differential equations.

States are carried as mean m and D = (covariance) - (stationary covariance P), so that a step of length δ is
m → A m, D → A D A' with A = exp(F δ), and no covariance of its noise is needed. A is block diagonal; each block is a
Kronecker product of factors, which are Jordan blocks (kind 0) or damped rotations (kind 1).

A layout is (kinds, orders, starts, offsets): kind and order of each factor, the first factor of each block with
their number at the end, and the first state of each block with the number of states at the end.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel
from bayeslab.latents.gaussian_process.covariance_kernels import MATERN12, MATERN52, WHITE

__all__ = [
    "draw_path",
    "log_evidence",
    "log_evidence_and_gradient",
    "log_marginal",
    "matern_evidence",
    "matern_states",
    "smooth_path",
    "transition",
]

# Rows between checkpoints: states in between are found again in the backward pass rather than stored.
_SEGMENT = 256
# A value whose variance is this small a share of what it was before the others is known from them.
_ZERO = 1e-13


@inner(error_model="numpy")
def _factor(kind: int, order: int, decay: float, frequency: float, step: float, out: np.ndarray) -> None:
    """exp(F δ) of one factor."""
    shrink = math.exp(-decay * step)
    if kind == 1:
        cosine, sine = shrink * math.cos(frequency * step), shrink * math.sin(frequency * step)
        out[0, 0], out[0, 1], out[1, 0], out[1, 1] = cosine, -sine, sine, cosine
        return
    s = decay * step
    if order == 1:
        out[0, 0] = shrink
    elif order == 2:
        out[0, 0], out[0, 1] = shrink * (1.0 + s), shrink * s
        out[1, 0], out[1, 1] = -shrink * s, shrink * (1.0 - s)
    else:
        h = 0.5 * s * s
        out[0, 0], out[0, 1], out[0, 2] = shrink * (1.0 + s + h), shrink * (s + 2.0 * h), shrink * h
        out[1, 0], out[1, 1], out[1, 2] = -shrink * h, shrink * (1.0 + s - 2.0 * h), shrink * (s - h)
        out[2, 0], out[2, 1], out[2, 2] = shrink * (h - s), shrink * (2.0 * h - 3.0 * s), shrink * (1.0 - 2.0 * s + h)


@kernel(error_model="numpy")
def transition(
    step: float,
    decay: np.ndarray,
    frequency: np.ndarray,
    kinds: np.ndarray,
    orders: np.ndarray,
    starts: np.ndarray,
    offsets: np.ndarray,
    out: np.ndarray,
) -> None:
    """A; only the entries of blocks are written."""
    one = np.empty((3, 3))
    for block in range(len(starts) - 1):
        o, first, last = offsets[block], starts[block], starts[block + 1]
        if last == first + 1:
            _factor(kinds[first], orders[first], decay[first], frequency[first], step, one)
            for i in range(orders[first]):
                for j in range(orders[first]):
                    out[o + i, o + j] = one[i, j]
            continue
        size, now, width = 1, 0, offsets[block + 1] - o
        work = np.empty((2, width, width))
        work[0, 0, 0] = 1.0
        for f in range(first, last):
            _factor(kinds[f], orders[f], decay[f], frequency[f], step, one)
            k = orders[f]
            for i in range(size):
                for j in range(size):
                    for a in range(k):
                        for b in range(k):
                            work[1 - now, i * k + a, j * k + b] = work[now, i, j] * one[a, b]
            size *= k
            now = 1 - now
        for i in range(size):
            for j in range(size):
                out[o + i, o + j] = work[now, i, j]


@inner(error_model="numpy")
def _move(
    a: np.ndarray,
    offsets: np.ndarray,
    m: np.ndarray,
    d: np.ndarray,
    new_m: np.ndarray,
    new_d: np.ndarray,
    work: np.ndarray,
) -> None:
    """A m and A D A'."""
    n = len(m)
    for block in range(len(offsets) - 1):
        low, high = offsets[block], offsets[block + 1]
        for i in range(low, high):
            total = 0.0
            for k in range(low, high):
                total += a[i, k] * m[k]
            new_m[i] = total
            for j in range(n):
                total = 0.0
                for k in range(low, high):
                    total += a[i, k] * d[k, j]
                work[i, j] = total
    for block in range(len(offsets) - 1):
        low, high = offsets[block], offsets[block + 1]
        for j in range(low, high):
            for i in range(j + 1):
                total = 0.0
                for k in range(low, high):
                    total += work[i, k] * a[j, k]
                new_d[i, j] = total
                new_d[j, i] = total


@inner(error_model="numpy")
def _move_back(a: np.ndarray, offsets: np.ndarray, r: np.ndarray, s: np.ndarray, work: np.ndarray) -> None:
    """r ← A' r and S ← A' S A, in place."""
    n = len(r)
    for block in range(len(offsets) - 1):
        low, high = offsets[block], offsets[block + 1]
        for i in range(low, high):
            total = 0.0
            for k in range(low, high):
                total += a[k, i] * r[k]
            work[n, i] = total
            for j in range(n):
                total = 0.0
                for k in range(low, high):
                    total += a[k, i] * s[k, j]
                work[i, j] = total
    for i in range(n):
        r[i] = work[n, i]
    for block in range(len(offsets) - 1):
        low, high = offsets[block], offsets[block + 1]
        for j in range(low, high):
            for i in range(j + 1):
                total = 0.0
                for k in range(low, high):
                    total += work[i, k] * a[k, j]
                s[i, j] = total
                s[j, i] = total


@inner(error_model="numpy")
def _gain(stationary_h: np.ndarray, d: np.ndarray, h: np.ndarray, g: np.ndarray) -> float:
    """(P + D) h, and h'(P + D) h."""
    variance = 0.0
    for i in range(len(h)):
        total = stationary_h[i]
        for j in range(len(h)):
            total += d[i, j] * h[j]
        g[i] = total
        variance += h[i] * total
    return variance


@inner(error_model="numpy")
def _update(
    y: float, noise: float, stationary_h: np.ndarray, h: np.ndarray, m: np.ndarray, d: np.ndarray, g: np.ndarray
) -> float:
    """Condition m and D on a row, in place; its log density, NaN where its variance is not positive."""
    s, v, prior = _gain(stationary_h, d, h, g) + noise, y, noise
    for i in range(len(h)):
        v -= h[i] * m[i]
        prior += h[i] * stationary_h[i]
    if not s > _ZERO * prior:
        return math.nan
    scaled = v / s
    for i in range(len(h)):
        m[i] += g[i] * scaled
        ratio = g[i] / s
        for j in range(i + 1):
            d[i, j] -= ratio * g[j]
            d[j, i] = d[i, j]
    return -0.5 * (math.log(2.0 * math.pi * s) + v * scaled)


@kernel(error_model="numpy")
def log_evidence(
    decay: np.ndarray,
    frequency: np.ndarray,
    stationary: np.ndarray,
    h: np.ndarray,
    noise: np.ndarray,
    kinds: np.ndarray,
    orders: np.ndarray,
    starts: np.ndarray,
    offsets: np.ndarray,
    steps: np.ndarray,
    values: np.ndarray,
) -> float:
    """log p(values); NaN where a row is predicted without variance. NaN among the values is missing.

    ``steps[t]`` is the time from row t - 1 to row t; ``noise`` has one entry, or one a row.
    """
    n = len(h)
    a, work, g = np.zeros((n, n)), np.empty((n + 1, n)), np.empty(n)
    m, d, new_m, new_d = np.zeros(n), np.zeros((n, n)), np.zeros(n), np.zeros((n, n))
    stationary_h = _apply(stationary, h)
    total, last = 0.0, -1.0
    for t in range(len(values)):
        if t > 0:
            if steps[t] != last:
                last = steps[t]
                transition(last, decay, frequency, kinds, orders, starts, offsets, a)
            _move(a, offsets, m, d, new_m, new_d, work)
            m, new_m = new_m, m
            d, new_d = new_d, d
        if not math.isnan(values[t]):
            total += _update(values[t], noise[t if len(noise) > 1 else 0], stationary_h, h, m, d, g)
    return total


@inner(error_model="numpy")
def _apply(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    out = np.zeros(len(x))
    for i in range(len(x)):
        for j in range(len(x)):
            out[i] += a[i, j] * x[j]
    return out


@inner(error_model="numpy")
def _forward(
    first: int,
    last: int,
    m: np.ndarray,
    d: np.ndarray,
    means: np.ndarray,
    differences: np.ndarray,
    decay: np.ndarray,
    frequency: np.ndarray,
    stationary_h: np.ndarray,
    h: np.ndarray,
    noise: np.ndarray,
    kinds: np.ndarray,
    orders: np.ndarray,
    starts: np.ndarray,
    offsets: np.ndarray,
    steps: np.ndarray,
    values: np.ndarray,
    a: np.ndarray,
    work: np.ndarray,
    g: np.ndarray,
    keep: bool,
) -> float:
    """Filter rows first..last - 1 from the state after row first - 1, in place; predicted states are kept."""
    new_m, new_d = np.zeros(len(m)), np.zeros((len(m), len(m)))
    total, step = 0.0, -1.0
    for t in range(first, last):
        if t > 0:
            if steps[t] != step:
                step = steps[t]
                transition(step, decay, frequency, kinds, orders, starts, offsets, a)
            _move(a, offsets, m, d, new_m, new_d, work)
            m[:], d[:] = new_m, new_d
        if keep:
            means[t - first], differences[t - first] = m, d
        if not math.isnan(values[t]):
            total += _update(values[t], noise[t if len(noise) > 1 else 0], stationary_h, h, m, d, g)
    return total


@inner(error_model="numpy")
def _checkpoints(
    decay: np.ndarray,
    frequency: np.ndarray,
    stationary_h: np.ndarray,
    h: np.ndarray,
    noise: np.ndarray,
    kinds: np.ndarray,
    orders: np.ndarray,
    starts: np.ndarray,
    offsets: np.ndarray,
    steps: np.ndarray,
    values: np.ndarray,
    a: np.ndarray,
    work: np.ndarray,
    g: np.ndarray,
) -> tuple[float, np.ndarray, np.ndarray]:
    """The log density of all rows, and the states after the row before each segment."""
    n, n_rows = len(h), len(values)
    n_segments = (n_rows + _SEGMENT - 1) // _SEGMENT
    m, d, total = np.zeros(n), np.zeros((n, n)), 0.0
    kept_m, kept_d = np.empty((n_segments, n)), np.empty((n_segments, n, n))
    unused_m, unused_d = np.empty((0, n)), np.empty((0, n, n))
    for segment in range(n_segments):
        kept_m[segment], kept_d[segment] = m, d
        first, last = segment * _SEGMENT, min(n_rows, (segment + 1) * _SEGMENT)
        total += _forward(
            first, last, m, d, unused_m, unused_d, decay, frequency, stationary_h, h, noise,
            kinds, orders, starts, offsets, steps, values, a, work, g, False,
        )  # fmt: skip
    return total, kept_m, kept_d


@inner(error_model="numpy")
def _again(
    segment: int,
    kept_m: np.ndarray,
    kept_d: np.ndarray,
    means: np.ndarray,
    differences: np.ndarray,
    decay: np.ndarray,
    frequency: np.ndarray,
    stationary_h: np.ndarray,
    h: np.ndarray,
    noise: np.ndarray,
    kinds: np.ndarray,
    orders: np.ndarray,
    starts: np.ndarray,
    offsets: np.ndarray,
    steps: np.ndarray,
    values: np.ndarray,
    a: np.ndarray,
    work: np.ndarray,
    g: np.ndarray,
) -> tuple[int, int]:
    """The first row of a segment and the one after its last; their predicted states are found again."""
    first, last = segment * _SEGMENT, min(len(values), (segment + 1) * _SEGMENT)
    m, d = kept_m[segment].copy(), kept_d[segment].copy()
    _forward(
        first, last, m, d, means, differences, decay, frequency, stationary_h, h, noise,
        kinds, orders, starts, offsets, steps, values, a, work, g, True,
    )  # fmt: skip
    return first, last


@kernel(error_model="numpy")
def log_evidence_and_gradient(
    decay: np.ndarray,
    frequency: np.ndarray,
    stationary: np.ndarray,
    h: np.ndarray,
    noise: np.ndarray,
    kinds: np.ndarray,
    orders: np.ndarray,
    starts: np.ndarray,
    offsets: np.ndarray,
    steps: np.ndarray,
    values: np.ndarray,
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """log p(values), and its derivatives.

    In the direction of a change of F that commutes with F (an array to be multiplied with it, entry by entry), with
    respect to P, to the noise of each row, and to each value.
    """
    n, n_rows = len(h), len(values)
    a, work, g = np.zeros((n, n)), np.empty((n + 1, n)), np.empty(n)
    means, differences = np.empty((_SEGMENT, n)), np.empty((_SEGMENT, n, n))
    stationary_h = _apply(stationary, h)
    total, kept_m, kept_d = _checkpoints(
        decay, frequency, stationary_h, h, noise, kinds, orders, starts, offsets, steps, values, a, work, g
    )
    to_f, to_p, to_noise, to_value = np.zeros((n, n)), np.zeros((n, n)), np.zeros(n_rows), np.zeros(n_rows)
    if not total > -math.inf:
        return total, to_f, to_p, to_noise, to_value
    r, s, to_g = np.zeros(n), np.zeros((n, n)), np.empty(n)  # adjoints of m and D
    for segment in range(len(kept_m) - 1, -1, -1):
        first, last = _again(
            segment, kept_m, kept_d, means, differences, decay, frequency, stationary_h, h, noise,
            kinds, orders, starts, offsets, steps, values, a, work, g,
        )  # fmt: skip
        step = -1.0
        for t in range(last - 1, first - 1, -1):
            mean, difference = means[t - first], differences[t - first]
            if not math.isnan(values[t]):
                variance = _gain(stationary_h, difference, h, g) + noise[t if len(noise) > 1 else 0]
                v, r_g, s_g = values[t], 0.0, 0.0
                for i in range(n):
                    v -= h[i] * mean[i]
                    r_g += r[i] * g[i]
                    inner = 0.0
                    for j in range(n):
                        inner += s[i, j] * g[j]
                    to_g[i] = -2.0 * inner / variance
                    s_g += g[i] * inner
                scaled = v / variance
                to_v = r_g / variance - scaled
                to_variance = -r_g * scaled / variance + s_g / variance**2 + 0.5 * (scaled * scaled - 1.0 / variance)
                to_noise[t], to_value[t] = to_variance, to_v
                for i in range(n):
                    to_g[i] += r[i] * scaled
                for i in range(n):
                    r[i] -= to_v * h[i]
                    for j in range(n):
                        change = to_variance * h[i] * h[j] + 0.5 * (to_g[i] * h[j] + h[i] * to_g[j])
                        s[i, j] += change
                        to_p[i, j] += change
            if t > 0:
                for i in range(n):
                    for j in range(n):
                        inner = 0.0
                        for k in range(n):
                            inner += s[i, k] * difference[k, j]
                        to_f[i, j] += steps[t] * (r[i] * mean[j] + 2.0 * inner)
                if steps[t] != step:
                    step = steps[t]
                    transition(step, decay, frequency, kinds, orders, starts, offsets, a)
                _move_back(a, offsets, r, s, work)
    return total, to_f, to_p, to_noise, to_value


@kernel(error_model="numpy")
def smooth_path(
    decay: np.ndarray,
    frequency: np.ndarray,
    stationary: np.ndarray,
    h: np.ndarray,
    noise: np.ndarray,
    kinds: np.ndarray,
    orders: np.ndarray,
    starts: np.ndarray,
    offsets: np.ndarray,
    steps: np.ndarray,
    values: np.ndarray,
    wanted: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean and variance of ``wanted[c]' x_t`` given all values, (n_rows, c); and of each value given all others."""
    n, n_rows, n_wanted = len(h), len(values), len(wanted)
    a, work, g = np.zeros((n, n)), np.empty((n + 1, n)), np.empty(n)
    means, differences = np.empty((_SEGMENT, n)), np.empty((_SEGMENT, n, n))
    stationary_h = _apply(stationary, h)
    mean_out, variance_out = np.empty((n_rows, n_wanted)), np.empty((n_rows, n_wanted))
    left_out_mean, left_out_variance = np.full(n_rows, np.nan), np.full(n_rows, np.nan)
    _, kept_m, kept_d = _checkpoints(
        decay, frequency, stationary_h, h, noise, kinds, orders, starts, offsets, steps, values, a, work, g
    )
    r, s, along = np.zeros(n), np.zeros((n, n)), np.empty(n)
    for segment in range(len(kept_m) - 1, -1, -1):
        first, last = _again(
            segment, kept_m, kept_d, means, differences, decay, frequency, stationary_h, h, noise,
            kinds, orders, starts, offsets, steps, values, a, work, g,
        )  # fmt: skip
        step = -1.0
        for t in range(last - 1, first - 1, -1):
            mean, difference = means[t - first], differences[t - first]
            if not math.isnan(values[t]):
                variance = _gain(stationary_h, difference, h, g) + noise[t if len(noise) > 1 else 0]
                v, r_k, s_kk = values[t], 0.0, 0.0
                for i in range(n):
                    g[i] /= variance
                for i in range(n):
                    v -= h[i] * mean[i]
                    r_k += r[i] * g[i]
                    inner = 0.0
                    for j in range(n):
                        inner += s[i, j] * g[j]
                    along[i] = inner
                    s_kk += g[i] * inner
                precision, surprise = 1.0 / variance + s_kk, v / variance - r_k
                left_out_mean[t], left_out_variance[t] = values[t] - surprise / precision, 1.0 / precision
                for i in range(n):
                    r[i] += h[i] * surprise
                    for j in range(n):
                        s[i, j] += precision * h[i] * h[j] - along[i] * h[j] - h[i] * along[j]
            for c in range(n_wanted):
                middle, spread, less = 0.0, 0.0, 0.0
                for i in range(n):
                    total = 0.0
                    for j in range(n):
                        total += (stationary[i, j] + difference[i, j]) * wanted[c, j]
                    g[i] = total
                    middle += wanted[c, i] * mean[i] + total * r[i]
                    spread += wanted[c, i] * total
                for i in range(n):
                    for j in range(n):
                        less += g[i] * s[i, j] * g[j]
                mean_out[t, c], variance_out[t, c] = middle, max(spread - less, 0.0)
            if t > 0:
                if steps[t] != step:
                    step = steps[t]
                    transition(step, decay, frequency, kinds, orders, starts, offsets, a)
                _move_back(a, offsets, r, s, work)
    return mean_out, variance_out, left_out_mean, left_out_variance


@inner(error_model="numpy")
def _root(covariance: np.ndarray, floor: float, out: np.ndarray) -> None:
    """Lower factor; a pivot below the floor is rounding, and zero."""
    n = len(covariance)
    out[:] = 0.0
    for j in range(n):
        pivot = covariance[j, j]
        for k in range(j):
            pivot -= out[j, k] ** 2
        if not pivot > floor * covariance[j, j] or not pivot > 0.0:
            continue
        out[j, j] = math.sqrt(pivot)
        for i in range(j + 1, n):
            total = covariance[i, j]
            for k in range(j):
                total -= out[i, k] * out[j, k]
            out[i, j] = total / out[j, j]


@kernel(error_model="numpy")
def draw_path(
    decay: np.ndarray,
    frequency: np.ndarray,
    stationary: np.ndarray,
    h: np.ndarray,
    kinds: np.ndarray,
    orders: np.ndarray,
    starts: np.ndarray,
    offsets: np.ndarray,
    steps: np.ndarray,
    standard: np.ndarray,
) -> np.ndarray:
    """The states (n_rows, n_states) of a path of the process, from standard normal numbers of that shape."""
    n, n_rows = len(h), len(standard)
    a, work = np.zeros((n, n)), np.empty((n + 1, n))
    root, noise, zero, unused = np.empty((n, n)), np.empty((n, n)), np.zeros(n), np.empty(n)
    out = np.empty((n_rows, n))
    _root(stationary, 1e-14, root)
    step = -1.0
    for t in range(n_rows):
        if t > 0 and steps[t] != step:
            step = steps[t]
            transition(step, decay, frequency, kinds, orders, starts, offsets, a)
            _move(a, offsets, zero, stationary, unused, noise, work)
            for i in range(n):
                for j in range(n):
                    noise[i, j] = stationary[i, j] - noise[i, j]
                if noise[i, i] < 1e-15 * stationary[i, i]:
                    noise[i, i] = 0.0
            _root(noise, 1e-12, root)
        for i in range(n):
            total = 0.0
            for k in range(i + 1):
                total += root[i, k] * standard[t, k]
            if t > 0:
                for k in range(n):
                    total += a[i, k] * out[t - 1, k]
            out[t, i] = total
    return out


# ----------------------------------------------- sums of Matérn processes, from hyperparameters to evidence


@kernel(error_model="numpy")
def log_marginal(
    parameters: np.ndarray,
    ops: np.ndarray,
    at: np.ndarray,
    fixed: np.ndarray,
    steps: np.ndarray,
    y: np.ndarray,
    design: np.ndarray,
    known: np.ndarray,
) -> tuple[float, np.ndarray]:
    """log N(y | design b, K + diag(known) + s² I) and its gradient; parameters: θ, s, b; rows in the order of time.

    The same number as that of the covariance kernels' ``log_marginal``, with the first three parts of the kernel's
    program: of ``Matern12``, ``Matern32``, ``Matern52``, ``White`` and sums, of one column. No interpreter is needed,
    so chains run side by side.
    """
    n, n_mean = len(y), design.shape[1]
    n_theta = len(parameters) - 1 - n_mean
    sd, b = parameters[n_theta], parameters[n_theta + 1 :]
    grad = np.zeros(len(parameters))
    residuals = y.copy()
    for i in range(n):
        for k in range(n_mean):
            residuals[i] -= design[i, k] * b[k]
    value, to_noise, to_value = matern_evidence(
        parameters, ops, at, fixed, steps, residuals, known + sd * sd, grad[:n_theta]
    )
    if not value > -math.inf:
        return -math.inf, np.zeros(len(parameters))
    grad[n_theta] = 2.0 * sd * to_noise.sum()
    for k in range(n_mean):
        for i in range(n):
            grad[n_theta + 1 + k] -= design[i, k] * to_value[i]
    return value, grad


@kernel(error_model="numpy")
def matern_evidence(
    theta: np.ndarray,
    ops: np.ndarray,
    at: np.ndarray,
    fixed: np.ndarray,
    steps: np.ndarray,
    values: np.ndarray,
    noise: np.ndarray,
    grad: np.ndarray,
) -> tuple[float, np.ndarray, np.ndarray]:
    """log N(values | 0, K + diag(noise)), and its derivatives by the noise and the values of each row.

    The derivatives by θ are added into ``grad``. Rows are in the order of time; NaN among the values is missing.
    """
    decay, stationary, h, orders, offsets, terms, slots = matern_states(theta, ops, at, fixed)
    white = 0.0
    for k in range(len(ops)):
        if ops[k, 0] == WHITE:
            white += slots[ops[k, 1]] ** 2
    starts, kinds = np.arange(len(terms) + 1), np.zeros(len(terms), np.int64)
    noise = noise + white
    unit_of_y = unit_of(stationary, noise)
    stationary /= unit_of_y * unit_of_y
    value, to_f, to_p, to_noise, to_value = log_evidence_and_gradient(
        decay, np.zeros(len(terms)), stationary, h, noise / (unit_of_y * unit_of_y), kinds, orders, starts, offsets,
        steps, values / unit_of_y,
    )  # fmt: skip
    for i in range(len(values)):
        if not math.isnan(values[i]):
            value -= math.log(unit_of_y)
    to_noise /= unit_of_y
    if not value > -math.inf:
        return -math.inf, to_noise, to_value
    total, by_slot, unit = to_noise.sum(), np.zeros(len(slots)), np.empty((3, 3))
    for k in range(len(terms)):
        first, slot, size = offsets[k], ops[terms[k], 1], orders[k]
        _matern_rate(size, unit)
        to_rate, to_variance = 0.0, 0.0
        for i in range(size):
            for j in range(size):
                to_rate += unit[i, j] * to_f[first + i, first + j]
                to_variance += stationary[first + i, first + j] * to_p[first + i, first + j]
        by_slot[slot + 1] -= to_rate * decay[k] / slots[slot + 1]
        by_slot[slot] += 2.0 * to_variance / slots[slot]
    for k in range(len(ops)):
        if ops[k, 0] == WHITE:
            by_slot[ops[k, 1]] += 2.0 * (slots[ops[k, 1]] / unit_of_y) * total
    for k in range(len(at)):
        if at[k] >= 0:
            grad[at[k]] += by_slot[k]
    return value, to_noise / unit_of_y, to_value / unit_of_y


@kernel(error_model="numpy")
def matern_states(
    theta: np.ndarray, ops: np.ndarray, at: np.ndarray, fixed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The state of a sum of Matérn processes.

    Returns
    -------
    decay, stationary, h, orders, offsets
        As :func:`log_evidence` takes them.
    terms, slots
        The instruction of each process, and the numbers in the slots.
    """
    slots = fixed.copy()
    for k in range(len(at)):
        if at[k] >= 0:
            slots[k] = theta[at[k]]
    terms = np.array([k for k in range(len(ops)) if MATERN12 <= ops[k, 0] <= MATERN52])
    orders = np.array([ops[k, 0] - MATERN12 + 1 for k in terms])
    offsets = np.zeros(len(terms) + 1, np.int64)
    for k in range(len(terms)):
        offsets[k + 1] = offsets[k] + orders[k]
    states = offsets[len(terms)]
    decay, h, stationary = np.empty(len(terms)), np.zeros(states), np.zeros((states, states))
    for k in range(len(terms)):
        first, slot = offsets[k], ops[terms[k], 1]
        decay[k] = math.sqrt(2.0 * orders[k] - 1.0) / slots[slot + 1]
        h[first] = 1.0
        _matern_shape(orders[k], slots[slot] ** 2, stationary[first:, first:])
    return decay, stationary, h, orders, offsets, terms, slots


@kernel(error_model="numpy")
def unit_of(stationary: np.ndarray, noise: np.ndarray) -> float:
    """A unit of the values in which products of variances are in the range of floats: a power of two; mostly 1."""
    largest = noise.max()
    for i in range(len(stationary)):
        largest = max(largest, stationary[i, i])
    if 1e-60 < largest < 1e60 or not 0.0 < largest < math.inf:
        return 1.0
    return 2.0 ** math.floor(0.5 * math.log2(largest))


@inner(error_model="numpy")
def _matern_shape(order: int, variance: float, out: np.ndarray) -> None:
    """Stationary covariance of f and its derivatives in units of the rate."""
    for i in range(order):
        out[i, i] = variance
    if order == 3:
        out[1, 1] = variance / 3.0
        out[0, 2] = out[2, 0] = -variance / 3.0


@inner(error_model="numpy")
def _matern_rate(order: int, out: np.ndarray) -> None:
    """F in units of the rate: the companion matrix of (1 + s)^order."""
    out[:, :] = 0.0
    for i in range(order - 1):
        out[i, i + 1] = 1.0
    coefficient = 1.0
    for j in range(order):
        out[order - 1, j] = -coefficient
        coefficient *= (order - j) / (j + 1.0)
