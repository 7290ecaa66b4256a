"""Compiled recursions of linear Gaussian state-space models.

Covariances are updated in Joseph's form, a sum of two squares, so that they stay symmetric and
non-negative. Matrices are small; their products are plain loops.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel
from bayeslab.constants import LOG_2PI

__all__ = ["filter_sequences", "log_evidence_and_gradient", "smooth_sequences"]

# A pivot of a Cholesky factor that is smaller than this share of its diagonal entry is zero.
_ZERO = 1e-13


@inner(error_model="numpy")
def _times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a b"""
    out = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
    return out


@inner(error_model="numpy")
def _times_transposed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a b'"""
    out = np.zeros((a.shape[0], b.shape[0]))
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            for k in range(a.shape[1]):
                out[i, j] += a[i, k] * b[j, k]
    return out


@inner(error_model="numpy")
def _apply(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """a x"""
    out = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i] += a[i, j] * x[j]
    return out


@inner(error_model="numpy")
def _apply_transposed(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """a' x"""
    out = np.zeros(a.shape[1])
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j] += a[i, j] * x[i]
    return out


@inner(error_model="numpy")
def _sandwich(a: np.ndarray, s: np.ndarray) -> np.ndarray:
    """a s a'"""
    out = _times_transposed(_times(a, s), a)
    return 0.5 * (out + out.T)


@inner(error_model="numpy")
def _cholesky(s: np.ndarray) -> tuple[np.ndarray, bool]:
    """Lower factor, with zero columns where s is singular, and whether it is positive definite."""
    n = len(s)
    out, definite = np.zeros((n, n)), True
    for j in range(n):
        pivot = s[j, j]
        for k in range(j):
            pivot -= out[j, k] ** 2
        if not pivot > _ZERO * s[j, j]:
            definite = False
            continue
        out[j, j] = math.sqrt(pivot)
        for i in range(j + 1, n):
            total = s[i, j]
            for k in range(j):
                total -= out[i, k] * out[j, k]
            out[i, j] = total / out[j, j]
    return out, definite


@inner(error_model="numpy")
def _solve(lower: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x with lower lower' x = b; a generalised solution, zero where the factor is."""
    n, out = len(lower), b.copy()
    for column in range(b.shape[1]):
        for i in range(n):
            for k in range(i):
                out[i, column] -= lower[i, k] * out[k, column]
            out[i, column] = out[i, column] / lower[i, i] if lower[i, i] > 0.0 else 0.0
        for i in range(n - 1, -1, -1):
            for k in range(i + 1, n):
                out[i, column] -= lower[k, i] * out[k, column]
            out[i, column] = out[i, column] / lower[i, i] if lower[i, i] > 0.0 else 0.0
    return out


@kernel
def _observed(row: np.ndarray) -> np.ndarray:
    """The columns of a row that are not missing."""
    n = 0
    out = np.empty(len(row), np.int64)
    for j in range(len(row)):
        if not math.isnan(row[j]):
            out[n] = j
            n += 1
    return out[:n]


@inner
def _rows(a: np.ndarray, at: np.ndarray) -> np.ndarray:
    out = np.empty((len(at), a.shape[1]))
    for i in range(len(at)):
        out[i] = a[at[i]]
    return out


@inner
def _block(a: np.ndarray, at: np.ndarray) -> np.ndarray:
    out = np.empty((len(at), len(at)))
    for i in range(len(at)):
        for j in range(len(at)):
            out[i, j] = a[at[i], at[j]]
    return out


@inner(error_model="numpy")
def _surprise(
    row: np.ndarray,
    offset: np.ndarray,
    cells: np.ndarray,
    observation: np.ndarray,
    noise: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float, bool]:
    """Of the observed cells: S⁻¹v, S⁻¹C, their C and R, log density, and whether S is positive definite.

    v is what the row differs from its prediction by and S the covariance of v.
    """
    loading, cell_noise = _rows(observation, cells), _block(noise, cells)
    difference = np.empty((len(cells), 1))
    expected = _apply(loading, mean)
    for i in range(len(cells)):
        difference[i, 0] = row[cells[i]] - offset[cells[i]] - expected[i]
    lower, definite = _cholesky(_sandwich(loading, covariance) + cell_noise)
    scaled = _solve(lower, difference)
    log_density = 0.0
    for i in range(len(cells)):
        log_density -= 0.5 * (LOG_2PI + difference[i, 0] * scaled[i, 0]) + math.log(lower[i, i])
    return scaled[:, 0].copy(), _solve(lower, loading), loading, cell_noise, log_density, definite


@kernel(error_model="numpy")
def filter_sequences(
    start_mean: np.ndarray,
    start_covariance: np.ndarray,
    transition: np.ndarray,
    state_noise: np.ndarray,
    observation: np.ndarray,
    observation_noise: np.ndarray,
    state_offset: np.ndarray,
    observation_offset: np.ndarray,
    rows: np.ndarray,
    offsets: np.ndarray,
    predicted_mean: np.ndarray,
    predicted_covariance: np.ndarray,
    filtered_mean: np.ndarray,
    filtered_covariance: np.ndarray,
    log_predictive: np.ndarray,
) -> int:
    """Kalman's filter over every sequence; all from ``predicted_mean`` on is filled.

    ``state_offset`` and ``observation_offset`` have one row, or one a row. Returns the first row whose
    prediction has a singular covariance, or -1.
    """
    d = len(start_mean)
    for s in range(len(offsets) - 1):
        for t in range(offsets[s], offsets[s + 1]):
            if t == offsets[s]:
                mean, covariance = start_mean.copy(), start_covariance.copy()
            else:
                mean = _apply(transition, filtered_mean[t - 1]) + state_offset[min(t, len(state_offset) - 1)]
                covariance = _sandwich(transition, filtered_covariance[t - 1]) + state_noise
            predicted_mean[t], predicted_covariance[t] = mean, covariance
            cells, log_predictive[t] = _observed(rows[t]), 0.0
            if len(cells):
                offset = observation_offset[min(t, len(observation_offset) - 1)]
                scaled, weighted, loading, noise, log_density, definite = _surprise(
                    rows[t], offset, cells, observation, observation_noise, mean, covariance
                )
                if not definite:
                    return t
                log_predictive[t] = log_density
                gain = _times_transposed(covariance, weighted)
                mean = mean + _apply(covariance, _apply_transposed(loading, scaled))
                kept = np.eye(d) - _times(gain, loading)
                covariance = _sandwich(kept, covariance) + _sandwich(gain, noise)
            filtered_mean[t], filtered_covariance[t] = mean, covariance
    return -1


@kernel(error_model="numpy")
def smooth_sequences(
    transition: np.ndarray,
    state_noise: np.ndarray,
    offsets: np.ndarray,
    predicted_mean: np.ndarray,
    predicted_covariance: np.ndarray,
    filtered_mean: np.ndarray,
    filtered_covariance: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    gain: np.ndarray,
    spread: np.ndarray,
) -> None:
    """Rauch, Tung and Striebel's smoother; the last four arrays are filled.

    ``gain`` at row t is G with E[x_t | x_{t+1}, y] = filtered mean + G (x_{t+1} - predicted mean), and
    ``spread`` the covariance left.
    """
    d = transition.shape[0]
    for s in range(len(offsets) - 1):
        for t in range(offsets[s + 1] - 1, offsets[s] - 1, -1):
            if t == offsets[s + 1] - 1:
                mean[t], covariance[t] = filtered_mean[t], filtered_covariance[t]
                gain[t], spread[t] = 0.0, filtered_covariance[t]
                continue
            lower, _ = _cholesky(predicted_covariance[t + 1])
            g = _solve(lower, _times(transition, filtered_covariance[t])).T.copy()
            kept = np.eye(d) - _times(g, transition)
            left = _sandwich(kept, filtered_covariance[t]) + _sandwich(g, state_noise)
            gain[t], spread[t] = g, left
            mean[t] = filtered_mean[t] + _apply(g, mean[t + 1] - predicted_mean[t + 1])
            covariance[t] = left + _sandwich(g, covariance[t + 1])


@kernel(error_model="numpy")
def log_evidence_and_gradient(
    parameters: np.ndarray, rows: np.ndarray, offsets: np.ndarray, sizes: np.ndarray
) -> tuple[float, np.ndarray]:
    """Log evidence of all sequences and its gradient.

    ``parameters`` are start mean and covariance, transition, state noise, observation, observation
    noise (covariances), state offset and observation offset, one after the other; ``sizes`` is the
    number of rows of the two offsets, 0, 1 or n_rows. The gradient takes each entry as free; that of
    a covariance is symmetric. The observation noise must be positive definite.
    """
    n_rows, p = rows.shape
    extra = sizes[1] * p
    d = 0
    while d + 3 * d * d + p * d + p * p + sizes[0] * d + extra < parameters.size:
        d += 1
    at = np.cumsum(np.array([0, d, d * d, d * d, d * d, p * d, p * p, sizes[0] * d, extra]))
    start_covariance = parameters[at[1] : at[2]].reshape(d, d)
    transition, state_noise = parameters[at[2] : at[3]].reshape(d, d), parameters[at[3] : at[4]].reshape(d, d)
    observation, noise = parameters[at[4] : at[5]].reshape(p, d), parameters[at[5] : at[6]].reshape(p, p)
    state_offset, observation_offset = np.zeros((max(1, sizes[0]), d)), np.zeros((max(1, sizes[1]), p))
    if sizes[0]:
        state_offset[:] = parameters[at[6] : at[7]].reshape(sizes[0], d)
    if sizes[1]:
        observation_offset[:] = parameters[at[7] :].reshape(sizes[1], p)
    predicted_mean, predicted_covariance = np.empty((n_rows, d)), np.empty((n_rows, d, d))
    filtered_mean, filtered_covariance = np.empty((n_rows, d)), np.empty((n_rows, d, d))
    log_predictive, gradient = np.empty(n_rows), np.zeros(parameters.size)
    singular = filter_sequences(
        parameters[: at[1]],
        start_covariance,
        transition,
        state_noise,
        observation,
        noise,
        state_offset,
        observation_offset,
        rows,
        offsets,
        predicted_mean,
        predicted_covariance,
        filtered_mean,
        filtered_covariance,
        log_predictive,
    )
    if singular >= 0:
        return -np.inf, gradient

    to_start, to_start_covariance = gradient[: at[1]], gradient[at[1] : at[2]].reshape(d, d)
    to_transition, to_state_noise = gradient[at[2] : at[3]].reshape(d, d), gradient[at[3] : at[4]].reshape(d, d)
    to_observation, to_noise = gradient[at[4] : at[5]].reshape(p, d), gradient[at[5] : at[6]].reshape(p, p)
    for s in range(len(offsets) - 1):
        # The derivative of the log density of rows t and later: r by the predicted mean at t, and
        # (r r' - n) / 2 by the predicted covariance.
        r, n = np.zeros(d), np.zeros((d, d))
        for t in range(offsets[s + 1] - 1, offsets[s] - 1, -1):
            if t < offsets[s + 1] - 1:
                r, n = _apply_transposed(transition, r), _sandwich(transition.T.copy(), n)
            mean, covariance = predicted_mean[t], predicted_covariance[t]
            cells = _observed(rows[t])
            if len(cells):
                offset = observation_offset[min(t, len(observation_offset) - 1)]
                scaled, weighted, loading, cell_noise, _, _ = _surprise(
                    rows[t], offset, cells, observation, noise, mean, covariance
                )
                kept = np.eye(d) - _times(_times_transposed(covariance, weighted), loading)
                r = _apply_transposed(loading, scaled) + _apply_transposed(kept, r)
                n = _times(loading.T.copy(), weighted) + _sandwich(kept.T.copy(), n)
                _add_observation(
                    rows[t], offset, cells, loading, cell_noise, mean, covariance, r, n, to_observation, to_noise
                )
                if sizes[1]:
                    smoothed = _apply(loading, mean + _apply(covariance, r))
                    lower, _ = _cholesky(cell_noise)
                    left = np.empty((len(cells), 1))
                    for i in range(len(cells)):
                        left[i, 0] = rows[t, cells[i]] - offset[cells[i]] - smoothed[i]
                    left = _solve(lower, left)
                    for i in range(len(cells)):
                        gradient[at[7] + min(t, sizes[1] - 1) * p + cells[i]] += left[i, 0]
            change = np.empty((d, d))
            for i in range(d):
                for j in range(d):
                    change[i, j] = 0.5 * (r[i] * r[j] - n[i, j])
            if t == offsets[s]:
                to_start += r
                to_start_covariance += change
            else:
                to_state_noise += change
                to_transition += 2 * _times(_times(change, transition), filtered_covariance[t - 1])
                for i in range(d):
                    for j in range(d):
                        to_transition[i, j] += r[i] * filtered_mean[t - 1, j]
                if sizes[0]:
                    first = at[6] + min(t, sizes[0] - 1) * d
                    gradient[first : first + d] += r
    return log_predictive.sum(), gradient


@inner(error_model="numpy")
def _add_observation(
    row: np.ndarray,
    offset: np.ndarray,
    cells: np.ndarray,
    loading: np.ndarray,
    noise: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    r: np.ndarray,
    n: np.ndarray,
    to_observation: np.ndarray,
    to_noise: np.ndarray,
) -> None:
    """Add R⁻¹ E[e x'] and (R⁻¹ E[e e'] R⁻¹ - R⁻¹) / 2, with e the noise of the observed cells given all rows."""
    d = len(mean)
    state = mean + _apply(covariance, r)
    spread = covariance - _sandwich(covariance, n)
    lower, _ = _cholesky(noise)
    expected, cross = _apply(loading, state), _times(loading, spread)
    left, both = np.empty((len(cells), d)), _times_transposed(cross, loading) - noise
    for i in range(len(cells)):
        for j in range(d):
            left[i, j] = (row[cells[i]] - offset[cells[i]] - expected[i]) * state[j] - cross[i, j]
        for j in range(len(cells)):
            both[i, j] += (row[cells[i]] - offset[cells[i]] - expected[i]) * (
                row[cells[j]] - offset[cells[j]] - expected[j]
            )
    left, both = _solve(lower, left), _solve(lower, _solve(lower, both).T.copy())
    for i in range(len(cells)):
        for j in range(d):
            to_observation[cells[i], j] += left[i, j]
        for j in range(len(cells)):
            to_noise[cells[i], cells[j]] += 0.5 * both[i, j]
