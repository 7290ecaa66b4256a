"""Weights of clusters given who is in them."""

from __future__ import annotations

import numpy as np

__all__ = ["drawn_shares"]


def drawn_shares(sigma: float, labels: np.ndarray, alpha: float, rng: np.random.Generator) -> np.ndarray:
    """Those of the clusters, and of pieces of the rest."""
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


# What is left of a stick that is no longer broken.
_REST, _PIECES = 1e-4, 200
