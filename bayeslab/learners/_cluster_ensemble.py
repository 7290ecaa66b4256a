"""Several clusterings of the same rows made one.

References
----------
.. [1] Fred, Jain (2005). Combining multiple clusterings using evidence accumulation. IEEE PAMI 27, 835-850.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import average, fcluster
from scipy.spatial.distance import squareform

__all__ = ["co_association", "combined_clusters"]

Array = NDArray[np.float64]


def co_association(labels: Any) -> Array:
    """How often two rows are in the same cluster, over all clusterings; names of clusters do not matter.

    Parameters
    ----------
    labels : array of int, shape (clusterings, rows)
        −1: the clustering leaves the row out; pairs are counted where both are in.
    """
    labels = np.atleast_2d(np.asarray(labels))
    together = np.zeros((labels.shape[1],) * 2)
    both = np.zeros_like(together)
    for row in labels:
        there = row >= 0
        both += there[:, None] & there
        together += (row[:, None] == row) & there[:, None] & there
    return np.asarray(np.where(both > 0, together / np.maximum(both, 1), np.eye(len(both))))


def combined_clusters(labels: Any, n_clusters: int) -> NDArray[np.int64]:
    """Clusters 0, 1, ... by average linkage of one less the co-association."""
    if n_clusters < 1:
        raise ValueError(f"there is at least one cluster; given: {n_clusters}")
    distance = 1 - co_association(labels)
    np.fill_diagonal(distance, 0)
    return np.asarray(fcluster(average(squareform(distance, checks=False)), n_clusters, "maxclust") - 1, np.int64)
