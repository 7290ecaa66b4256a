"""Log evidence of latent variables by NumPy: the slow twins of the kernels that programs call."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["evidence_slowly"]


def evidence_slowly(kernel: str, parameters: np.ndarray, *arrays: np.ndarray) -> float:
    """The log evidence that a kernel computes, by its name ``module:function``."""
    module, _, function = kernel.rpartition(".")[2].partition(":")
    return float(_TWINS[module, function](parameters, *arrays))


def _log_sum(values: np.ndarray, axis: int | None = None) -> Any:
    return np.logaddexp.reduce(values.ravel() if axis is None else values, axis=axis or 0)


# ------------------------------------------------------------------------------------------ chains


def _sparse_chain(
    parameters: np.ndarray, offsets: np.ndarray, sizes: np.ndarray, starts: np.ndarray, targets: np.ndarray
) -> float:
    """Chains with the transitions of edges, as matrices in which other transitions are impossible."""
    k, n_starts, n_steps = (int(n) for n in sizes)
    logs, edges, rest = np.split(parameters, [n_starts * k, n_starts * k + n_steps * len(targets)])
    moves = np.full((n_steps, k, k), -np.inf)
    moves[:, np.repeat(np.arange(k), np.diff(starts)), targets] = edges.reshape(n_steps, -1)
    emission, total = rest.reshape(-1, k), 0.0
    for s, (begin, end) in enumerate(pairwise(offsets.tolist())):
        if begin == end:
            continue
        state = logs.reshape(n_starts, k)[s if n_starts > 1 else 0] + emission[begin]
        for t in range(begin + 1, end):
            state = _log_sum(state[:, None] + moves[t if n_steps > 1 else 0], axis=0) + emission[t]
        total += _log_sum(state)
    return total


def _segments(parameters: np.ndarray, offsets: np.ndarray, sizes: np.ndarray) -> float:
    """Segments of known lengths; the last one of a sequence may go on after its end if ``sizes[2]``."""
    k, longest, censored = (int(n) for n in sizes)
    start, moves, durations, emission = np.split(parameters, np.cumsum([k, k * k, k * longest]))
    moves, durations, emission = moves.reshape(k, k), durations.reshape(k, longest), emission.reshape(-1, k)
    alive = np.logaddexp.accumulate(durations[:, ::-1], axis=1)[:, ::-1]
    total = 0.0
    for begin, end in pairwise(offsets.tolist()):
        n = end - begin
        begins, ends, last = np.full((n, k), -np.inf), np.full((n, k), -np.inf), []
        for t in range(n):
            begins[t] = start if t == 0 else _log_sum(ends[t - 1][:, None] + moves, axis=0)
            for d in range(min(longest, t + 1)):
                run = begins[t - d] + emission[begin + t - d : begin + t + 1].sum(axis=0)
                ends[t] = np.logaddexp(ends[t], run + durations[:, d])
                if t == n - 1 and censored:
                    last.append(run + alive[:, d])
        total += _log_sum(np.array(last) if censored else ends[-1]) if n else 0.0
    return total


def _trees(parameters: np.ndarray, parents: np.ndarray, trees: np.ndarray, sizes: np.ndarray) -> float:
    """Trees whose parents come before their children, from the leaves to the roots."""
    k = int(sizes[0])
    start, moves, emission = np.split(parameters, [k, k + k * k])
    below, total = emission.reshape(-1, k).copy(), 0.0
    for cell in range(len(parents) - 1, -1, -1):
        if parents[cell] < 0:
            total += _log_sum(start + below[cell])
        else:
            below[parents[cell]] += _log_sum(moves.reshape(k, k) + below[cell], axis=1)
    return total


# ------------------------------------------------------------------------------------------ states


def _states(
    flat: np.ndarray, y: np.ndarray, cells: np.ndarray, starts: np.ndarray, sets: np.ndarray, moves: np.ndarray,
    shapes: np.ndarray, sizes: np.ndarray,
) -> float:  # fmt: skip
    """A Kalman filter with whole matrices; components are blocks."""
    n_sets, n, d = int(sizes[0]), len(y), int(shapes[:, 0].sum())
    lengths = [n_sets * int(2 * m + 2 * m * m + m * q) for m, q in shapes]
    blocks = np.split(flat, np.cumsum([*lengths, *sizes[1 : len(shapes) + 3]])[:-1])
    parts = [_systems(block.reshape(n_sets, -1), int(m), int(q)) for block, (m, q) in zip(blocks, shapes, strict=False)]
    by_row = [np.broadcast_to(block, n) for block in blocks[len(shapes) :]]
    offset, sigma = by_row[-2:]
    if np.any(sigma < 0.0):
        return -np.inf
    state, covariance, total, r = np.zeros(d), np.zeros((d, d)), 0.0, 0
    for t in range(len(starts)):
        a, begin, move, noise, read = (_block_diagonal([part[k][sets[t]] for part in parts]) for k in range(5))
        if starts[t]:
            state, covariance = a.copy(), begin @ begin.T
        else:
            state, covariance = move @ state, move @ covariance @ move.T + noise @ noise.T
        while r < n and cells[r] == t:
            load = np.repeat([each[r] for each in by_row[:-2]], shapes[:, 0]) * read
            spread = covariance @ load
            variance, gap = load @ spread + sigma[r] ** 2, y[r] - offset[r] - load @ state
            if not 0.0 < variance < np.inf:
                return -np.inf
            total -= 0.5 * (np.log(2 * np.pi * variance) + gap**2 / variance)
            state, covariance = state + spread * gap / variance, covariance - np.outer(spread, spread) / variance
            r += 1
    return total


def _systems(block: np.ndarray, d: int, q: int) -> tuple[np.ndarray, ...]:
    """a, A, T, R and h of each set."""
    a, begin, move, noise, read = np.split(block, np.cumsum([d, d * d, d * d, d * q]), axis=1)
    return a, begin.reshape(-1, d, d), move.reshape(-1, d, d), noise.reshape(-1, d, q), read


def _block_diagonal(parts: list[np.ndarray]) -> np.ndarray:
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    out = np.zeros(np.sum([part.shape for part in parts], axis=0))
    at = np.zeros(2, int)
    for part in parts:
        out[at[0] : at[0] + part.shape[0], at[1] : at[1] + part.shape[1]] = part
        at += part.shape
    return out


_TWINS: dict[tuple[str, str], Any] = {
    ("markov_kernels", "log_evidence_and_gradient_sparse"): _sparse_chain,
    ("duration_kernels", "log_evidence_and_gradient"): _segments,
    ("branching_kernels", "log_evidence_and_gradient"): _trees,
    ("structural_kernels", "log_evidence_and_gradient"): _states,
}
