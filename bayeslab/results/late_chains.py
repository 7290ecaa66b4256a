"""Chains whose first draws are from where none of them comes again: the warm-up was too short for them.

The effective sample size does not show it, and R-hat hardly does where the visit is short, though means and standard
deviations can be far off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["late"]

type Array = NDArray[np.float64]

# So many draws in a row at the beginning of a chain, half of them farther from the rest than this share of its range.
_FEWEST, _APART = 10, 0.25


def late(draws: Array) -> Array:
    """How many of its first draws each chain spends outside the range of all the others, 0 where that is by chance.

    The others are the draws of the other chains and the second half of its own.

    Parameters
    ----------
    draws
        Shape (quantity, chain, draw).

    Returns
    -------
    ndarray
        Shape (quantity, chain).
    """
    n_quantities, n_chains, n_draws = draws.shape
    half = n_draws // 2
    out = np.zeros((n_quantities, n_chains))
    if half < _FEWEST:
        return out
    lows, highs = draws.min(axis=2), draws.max(axis=2)
    for k in range(n_chains):
        others = np.delete(np.arange(n_chains), k)
        later = draws[:, k, half:]
        low = np.minimum(later.min(axis=1), lows[:, others].min(axis=1, initial=np.inf))
        high = np.maximum(later.max(axis=1), highs[:, others].max(axis=1, initial=-np.inf))
        begin = draws[:, k, :half]
        with np.errstate(invalid="ignore"):
            outside = np.maximum(low[:, None] - begin, begin - high[:, None])
            first_inside = np.where((outside <= 0).any(axis=1), np.argmax(outside <= 0, axis=1), half)
            for q in np.flatnonzero((first_inside >= _FEWEST) & (high > low)):
                run = outside[q, : first_inside[q]]
                if np.median(run) > _APART * (high[q] - low[q]):
                    out[q, k] = len(run)
    return out
