"""Groups of similar rows merged into states: starting points for states that have mixture components."""

from __future__ import annotations

import numpy as np

__all__ = ["lumped"]


def lumped(groups: np.ndarray, n_groups: int, n_states: int, rng: np.random.Generator | None) -> np.ndarray:
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
