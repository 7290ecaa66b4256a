"""Assignment problems, many at a time: each row of a matrix of costs is given a column of its own."""

from __future__ import annotations

from itertools import permutations
from math import factorial

import numpy as np

__all__ = ["best_assignments"]

# Up to this many permutations are compared, for all matrices at once; of more, each matrix is solved by itself.
_LISTED = 120


def best_assignments(costs: np.ndarray) -> np.ndarray:
    """The permutation with the smallest sum of costs, for each matrix.

    Parameters
    ----------
    costs : ndarray (S, K, K)

    Returns
    -------
    ndarray (S, K)
        The column of each row. Of equal sums the one in lexicographic order, the identity first, if K is at most 5.

    Examples
    --------
    >>> best_assignments(np.array([[[4.0, 1.0], [2.0, 3.0]]]))
    array([[1, 0]])
    """
    n, k = costs.shape[:2]
    if factorial(min(k, 6)) > _LISTED:
        from scipy.optimize import linear_sum_assignment  # takes a while to import

        return np.array([linear_sum_assignment(one)[1] for one in costs]).reshape(n, k)
    orders = np.array(list(permutations(range(k)))).reshape(factorial(k), k)
    totals = np.zeros((n, len(orders)))
    for row in range(k):
        totals += costs[:, row, orders[:, row]]
    return orders[totals.argmin(axis=1)]
