"""Groups of similar rows put together to states: where searches start of states that have parts."""

from __future__ import annotations

import numpy as np

__all__ = ["lumped"]


def lumped(groups: np.ndarray, n_groups: int, n_states: int, rng: np.random.Generator | None) -> np.ndarray:
    """Groups of rows put together to states: pairs that follow each other more often than by chance, first.

    Parameters
    ----------
    groups : ndarray (n_rows,)
        In the order of time.
    rng
        With it the order of merging is a little random.

    Returns
    -------
    ndarray (n_rows,)
        States.
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
