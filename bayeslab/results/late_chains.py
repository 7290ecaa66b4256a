"""Detect chains whose first draws come from a region that no chain visits again: their warm-up was too short.

The effective sample size does not reveal this, and R-hat hardly does if the visit is short, although means and standard
deviations can be far off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["late"]

type Array = NDArray[np.float64]

# Minimum number of consecutive first draws, and share of the others' range that half of them must be away from it.
_FEWEST, _APART = 10, 0.25


def late(draws: Array) -> Array:
    """The number of first draws of each chain outside the range of all other draws, 0 if it may be chance.

    The other draws are those of the other chains and of the chain's second half.

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
