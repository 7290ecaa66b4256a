r"""A k-d tree: recursive median cuts, searched with backtracking.

A search descends to the leaf of the query and then backtracks; it enters the other side of a cut only if the cut is
nearer than the k-th nearest point so far. This saves much time if there are many more points than :math:`2^n` in n
dimensions; with fewer points nearly every leaf is visited [1]_.

References
----------
.. [1] Bentley (1975). Multidimensional binary search trees used for associative searching. CACM 18, 509-517; Friedman,
   Bentley, Finkel (1977). An algorithm for finding best matches in logarithmic expected time. ACM TOMS 3, 209-226.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayeslab.learners.toolbox.kd_tree_kernels import build, search

__all__ = ["Found", "KDTree"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Found:
    """Nearest points.

    Attributes
    ----------
    distances : ndarray, shape (queries, k)
        Nearest first.
    rows : ndarray, shape (queries, k)
        Their rows; ties in the order of the rows.
    examined : ndarray, shape (queries,)
        Number of points whose distance was computed.
    leaves : ndarray, shape (queries,)
        Number of leaves visited.
    """

    distances: Array
    rows: NDArray[np.int64]
    examined: NDArray[np.int64]
    leaves: NDArray[np.int64]


class KDTree:
    """A tree over points, by Euclidean distance.

    Parameters
    ----------
    points : ndarray, shape (points, dimensions)
    leaf_size : int
        Maximum number of points in a leaf.
    split : {"widest", "cyclic"}
        Axis of a cut: the axis of widest spread, or the depth modulo the number of dimensions.
    """

    def __init__(self, points: Any, leaf_size: int = 8, split: Literal["widest", "cyclic"] = "widest") -> None:
        self.points = np.ascontiguousarray(points, float)
        if self.points.ndim != 2 or not self.points.size or not np.isfinite(self.points).all():
            raise ValueError("points are a table of finite numbers with a row and a column at least")
        if leaf_size < 1 or split not in ("widest", "cyclic"):
            raise ValueError(f"leaf_size is at least 1 and split widest or cyclic: {leaf_size!r}, {split!r}")
        self._tree = build(self.points, leaf_size, split == "widest")

    def query(self, queries: Any, k: int = 1) -> Found:
        """The k nearest points of each query."""
        asked = np.ascontiguousarray(np.atleast_2d(queries), float)
        if asked.shape[1] != self.points.shape[1]:
            raise ValueError(f"queries have {asked.shape[1]} columns, points {self.points.shape[1]}")
        if not 1 <= k <= len(self.points):
            raise ValueError(f"k is {k!r}, and there are {len(self.points)} points")
        squared, rows, examined, leaves = search(self.points, *self._tree, asked, k)
        return Found(np.sqrt(squared), rows, examined, leaves)
