"""The pocket algorithm: a perceptron that keeps its best weights."""

from __future__ import annotations

from typing import Any

from bayeslab.compiled import inner, kernel

__all__ = ["pocket"]


@kernel
def pocket(rows: Any, side: Any, orders: Any, weights: Any) -> tuple[Any, int]:
    """Return the weights with the fewest errors, and their number; all rows are checked after each pass (ratchet).

    Parameters
    ----------
    rows
        The rows, with a column of ones.
    side
        The classes, -1 and 1.
    orders
        Order of the rows in each pass.
    weights
        Initial weights; changed in place.
    """
    best, fewest = weights.copy(), _wrong(rows, side, weights)
    for order in orders:
        if fewest == 0:
            break
        for i in order:
            score = 0.0
            for j in range(rows.shape[1]):
                score += rows[i, j] * weights[j]
            if (score >= 0) != (side[i] > 0):
                for j in range(rows.shape[1]):
                    weights[j] += side[i] * rows[i, j]
        wrong = _wrong(rows, side, weights)
        if wrong < fewest:
            fewest = wrong
            best[:] = weights
    return best, fewest


@inner
def _wrong(rows: Any, side: Any, weights: Any) -> int:
    count = 0
    for i in range(len(rows)):
        score = 0.0
        for j in range(rows.shape[1]):
            score += rows[i, j] * weights[j]
        count += (score >= 0) != (side[i] > 0)
    return count
