"""Compiled search for the partition with the least expected loss."""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["move_rows"]


@numba.njit(cache=True, error_model="numpy", nogil=True)
def move_rows(
    labels: np.ndarray, draws: np.ndarray, weight: np.ndarray, step: np.ndarray, limit: int, rounds: int
) -> None:
    """Move rows one at a time to the cluster, or a new one, that lowers the expected loss most, until none does.

    Parameters
    ----------
    labels : ndarray (N,) of int
        Changed.
    draws : ndarray (S, N) of int
    weight : ndarray (S,)
        Of the draws; adds up to one.
    step : ndarray (N + 2,)
        f(n + 1) - f(n), with both losses sums of f(n_k) - 2 f(n_sck): see :mod:`bayeslab.latents.labels.clusters`.
    limit : int
        At most so many clusters.
    """
    n_draws, n_rows = draws.shape
    overlap = np.zeros((n_draws, draws.max() + 1, limit + 1), np.int64)
    size = np.zeros(limit + 1, np.int64)
    for n in range(n_rows):
        size[labels[n]] += 1
    for s in range(n_draws):
        for n in range(n_rows):
            overlap[s, draws[s, n], labels[n]] += 1
    cost = np.empty(limit + 1)
    for _ in range(rounds):
        changed = False
        for n in range(n_rows):
            k = labels[n]
            size[k] -= 1
            for c in range(limit + 1):
                cost[c] = step[size[c]]
            for s in range(n_draws):
                cluster = draws[s, n]
                overlap[s, cluster, k] -= 1
                for c in range(limit + 1):
                    cost[c] -= 2 * weight[s] * step[overlap[s, cluster, c]]
            used, best, empty = 0, k, -1
            for c in range(limit + 1):
                used += size[c] > 0
            for c in range(limit + 1):
                if size[c] == 0:
                    if empty >= 0 or used >= limit:
                        continue
                    empty = c
                if cost[c] < cost[best] - 1e-12:
                    best = c
            changed |= best != k
            labels[n] = best
            size[best] += 1
            for s in range(n_draws):
                overlap[s, draws[s, n], best] += 1
        if not changed:
            break
