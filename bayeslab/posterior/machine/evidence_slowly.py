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


_TWINS: dict[tuple[str, str], Any] = {
    ("markov_kernels", "log_evidence_and_gradient_sparse"): _sparse_chain,
    ("duration_kernels", "log_evidence_and_gradient"): _segments,
    ("branching_kernels", "log_evidence_and_gradient"): _trees,
}
