"""Compiled expected losses of a partition, and the search for the least."""

from __future__ import annotations

import numpy as np

from bayeslab.compiled import kernel

__all__ = ["expected_loss", "move_rows"]


@kernel(error_model="numpy")
def expected_loss(labels: np.ndarray, draws: np.ndarray, weight: np.ndarray, f: np.ndarray) -> float:
    """Weighted average over draws of Σ f(n_k) + Σ f(n_s) - 2 Σ f(n_sk), of clusters, draws' clusters and overlaps.

    Parameters
    ----------
    labels : ndarray (N,) of int
    draws : ndarray (S, N) of int
    weight : ndarray (S,)
        Of the draws; adds up to one.
    f : ndarray (N + 1,)
        f(0), f(1), ...; f(0) is 0.
    """
    n_clusters, width = labels.max() + 1, draws.max() + 1
    overlap, size = np.zeros((width, n_clusters), np.int64), np.zeros(width, np.int64)
    first = np.zeros(n_clusters, np.int64)
    for n in range(len(labels)):
        first[labels[n]] += 1
    total = 0.0
    for k in range(n_clusters):
        total += f[first[k]]
    for s in range(len(draws)):
        value = 0.0
        for n in range(len(labels)):
            overlap[draws[s, n], labels[n]] += 1
            size[draws[s, n]] += 1
        for c in range(width):
            if size[c]:
                value += f[size[c]]
                for k in range(n_clusters):
                    value -= 2.0 * f[overlap[c, k]]
                    overlap[c, k] = 0
                size[c] = 0
        total += weight[s] * value
    return total


@kernel(error_model="numpy")
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
