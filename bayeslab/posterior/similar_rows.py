"""Groups of similar rows: starting points of searches for the parameters of hidden states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeslab.latents.labels.k_means import k_means
from bayeslab.posterior.observed.part import StatePart

__all__ = ["membership", "merged", "similar_rows"]


def similar_rows(parts: Sequence[StatePart], rows: np.ndarray, n_groups: int, rng: np.random.Generator) -> np.ndarray:
    """The group of each row (n_rows,), by k-means.

    It is -1 for rows without an observed cell, and for all rows if fewer of them than groups have one.
    """
    out = np.full(len(rows), -1)
    observed = ~np.isnan(rows[:, sorted({at for part in parts for at in part.at})]).all(axis=1)
    if observed.sum() >= n_groups:
        features = [part.emission.features(part.select(rows[observed])) for part in parts]
        out[observed] = k_means(np.concatenate(features, axis=1), n_groups, rng).labels
    return out


def membership(groups: np.ndarray, n_groups: int) -> np.ndarray:
    """Weights (n_rows, n_groups) of the groups: 1 for the group of a row, equal weights for rows without one (-1)."""
    return np.where(groups[:, None] < 0, 1 / n_groups, np.eye(n_groups)[groups])


def merged(groups: np.ndarray, n_groups: int, n_states: int, rng: np.random.Generator | None) -> np.ndarray:
    """Merge groups of rows into states, first the pairs that follow each other more often than by chance.

    Parameters
    ----------
    groups : ndarray (n_rows,)
        Group of each row, in order of time.
    rng
        If given, the order of merging is slightly random.

    Returns
    -------
    ndarray (n_rows,)
        State of each row.
    """
    follows = np.zeros((n_groups, n_groups))
    np.add.at(follows, (groups[:-1], groups[1:]), 1.0)
    follows = follows + follows.T
    size = np.bincount(groups, minlength=n_groups).astype(float)
    noise = np.ones_like(follows) if rng is None else rng.lognormal(0.0, 0.5, follows.shape)
    state = np.arange(n_groups)
    for _ in range(n_groups - n_states):
        left = np.unique(state)
        i, j = np.triu_indices(len(left), 1)
        a, b = left[i], left[j]
        affinity = noise[a, b] * follows[a, b] / np.maximum(size[a] * size[b], 1.0)
        a, b = a[np.argmax(affinity)], b[np.argmax(affinity)]
        state[state == b] = a
        follows[a] += follows[b]
        follows[:, a] += follows[:, b]
        size[a] += size[b]
    return np.asarray(np.unique(state, return_inverse=True)[1][groups])
