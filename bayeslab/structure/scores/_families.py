"""What scores have in common: enumeration of parent sets, and the slow way that works for any score."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bayeslab.structure.constraints import members_of, n_words
from bayeslab.structure.counts import SetIndex, n_sets

__all__ = ["one_by_one", "parent_sets"]


def parent_sets(child: int, allowed: NDArray[np.bool_], limit: int) -> NDArray[np.uint64]:
    """All sets of at most ``limit`` allowed parents as bits, small ones first."""
    from bayeslab.structure._score_kernels import expand

    n = len(allowed)
    candidates = np.flatnonzero(allowed & (np.arange(n) != child)).astype(np.int64)
    limit = min(limit, len(candidates))
    sets, index = np.zeros((n_sets(len(candidates), limit), n_words(n)), np.uint64), SetIndex(n, limit + 1)
    labels, empty = np.arange(n), np.zeros(0)
    penalties = (0.0, np.zeros(limit + 1))
    shape = (labels, np.ones(n, np.int64), index.binomial, index.offsets)
    expand(child, candidates, limit, *shape, np.zeros((0, 1)), 0, *penalties, sets, empty)
    return sets


def one_by_one(
    local: Callable[[int, tuple[int, ...]], float],
    children: NDArray[np.int64],
    limits: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    tick: Callable[[], None] | None = None,
) -> list[tuple[NDArray[np.uint64], NDArray[np.float64]]]:
    """``all_sets`` of a score that has nothing faster."""
    out = []
    for child, limit, row in zip(children.tolist(), limits.tolist(), allowed, strict=True):
        sets = parent_sets(child, row, limit)
        out.append((sets, np.array([local(child, members_of(mask)) for mask in sets])))
        if tick:
            tick()
    return out
