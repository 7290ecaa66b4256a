"""Weights of clusters given their members."""

from __future__ import annotations

import numpy as np

__all__ = ["drawn_shares"]


def drawn_shares(sigma: float, labels: np.ndarray, alpha: float, rng: np.random.Generator) -> np.ndarray:
    """Draw the weights of the clusters, and of new pieces of the rest of the stick."""
    count = int(labels.max()) + 1
    sizes = np.bincount(labels, minlength=count)
    shares = rng.dirichlet(np.append(sizes - sigma, alpha + count * sigma))
    pieces = []
    left, k = float(shares[-1]), 0
    while left > _REST and k < _PIECES:
        k += 1
        v = rng.beta(1 - sigma, alpha + (count + k) * sigma)
        pieces.append(left * v)
        left *= 1 - v
    weights = np.concatenate([shares[:-1], pieces])
    return np.asarray(weights / weights.sum())


# Rest of the stick below which it is no longer broken.
_REST, _PIECES = 1e-4, 200
