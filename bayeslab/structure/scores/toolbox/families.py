"""Scores of all parent sets of all variables: from clique sums, or one by one for other scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bayeslab.structure.constraints import members_of, n_words
from bayeslab.structure.counts import SetIndex, in_threads, n_sets
from bayeslab.structure.scores import Work

__all__ = ["CliqueFamilies", "Found", "Walk", "one_by_one", "parent_sets"]

# The sets of one child as bits, and their scores.
type Found = tuple[NDArray[np.uint64], NDArray[np.float64]]


class Walk(Protocol):
    """Clique sums for all sets that begin with each variable and have at most limits[variable] members."""

    def __call__(
        self,
        variables: NDArray[np.int64],
        index: SetIndex,
        limits: NDArray[np.int64],
        parent_limit: int,
        *,
        threads: int = 1,
        tick: Callable[[], None] | None = None,
    ) -> NDArray[np.float64]:
        """Shape (index.size, n_types)."""


@dataclass(frozen=True, eq=False)
class CliqueFamilies:
    """Scores that are c_0(P and v) - c_t(P) - penalty * (number of free parameters) - penalty of the size of P.

    Attributes
    ----------
    walk : Walk
    cards : ndarray of int, shape (n,)
        Numbers of states, to count parameters.
    kinds : ndarray of int, shape (n,)
        Type t of sum for the parents of each variable.
    per_parameter : float
    by_size : ndarray, shape (n + 1,)
    """

    walk: Walk
    cards: NDArray[np.int64]
    kinds: NDArray[np.int64]
    per_parameter: float
    by_size: NDArray[np.float64]

    def all_sets(
        self, children: NDArray[np.int64], limits: NDArray[np.int64], allowed: NDArray[np.bool_], work: Work
    ) -> list[Found]:
        """Local scores of all sets of allowed parents, small sets first."""
        n = len(self.cards)
        allowed = allowed & (children[:, None] != np.arange(n))
        used = allowed.any(axis=0)
        used[children] = True
        variables = np.flatnonzero(used).astype(np.int64)
        together = n_sets(len(variables), int(limits.max(initial=0)) + 1)
        sizes = [n_sets(int(row.sum()), int(limit)) for row, limit in zip(allowed, limits, strict=True)]
        out = [(np.zeros((size, n_words(n)), np.uint64), np.zeros(size)) for size in sizes]
        if together <= 2 * sum(sizes):
            self._together(variables, children, limits, allowed, out, work)
        else:
            self._apart(children, limits, allowed, out, work)
        return out

    def _together(
        self,
        variables: NDArray[np.int64],
        children: NDArray[np.int64],
        limits: NDArray[np.int64],
        allowed: NDArray[np.bool_],
        out: list[Found],
        work: Work,
    ) -> None:
        """Scores with every clique counted once for all children."""
        largest = int(limits.max(initial=0))
        index = SetIndex(len(variables), min(largest + 1, len(variables)))
        size = np.full(len(variables), index.largest, dtype=np.int64)
        values = self.walk(variables, index, size, largest, threads=work.threads, tick=work.tick)
        place = np.searchsorted(variables, children)

        def write(i: int) -> None:
            candidates = np.flatnonzero(allowed[i][variables]).astype(np.int64)
            self._expand(int(place[i]), candidates, int(limits[i]), variables, index, values, out[i])

        in_threads(write, range(len(children)), work.threads)

    def _apart(
        self,
        children: NDArray[np.int64],
        limits: NDArray[np.int64],
        allowed: NDArray[np.bool_],
        out: list[Found],
        work: Work,
    ) -> None:
        """Scores of each child separately: sets of its candidates, with and without the child."""

        def write(i: int) -> None:
            candidates = np.flatnonzero(allowed[i]).astype(np.int64)
            limit = min(int(limits[i]), len(candidates))
            # The child is the first variable: only sets that begin with it have one more member than parents.
            variables = np.concatenate([children[i : i + 1], candidates])
            index = SetIndex(len(variables), limit + 1)
            size = np.full(len(variables), limit, dtype=np.int64)
            size[0] = limit + 1
            values = self.walk(variables, index, size, limit)
            self._expand(0, np.arange(1, len(variables)), limit, variables, index, values, out[i])

        in_threads(write, range(len(children)), work.threads, work.tick)

    def _expand(
        self,
        place: int,
        candidates: NDArray[np.int64],
        limit: int,
        variables: NDArray[np.int64],
        index: SetIndex,
        values: NDArray[np.float64],
        out: Found,
    ) -> None:
        from bayeslab.structure.score_kernels import expand

        shape = (variables, self.cards[variables], index.binomial, index.offsets)
        kind = int(self.kinds[variables[place]])
        expand(place, candidates, limit, *shape, values, kind, float(self.per_parameter), self.by_size, *out)


def parent_sets(child: int, allowed: NDArray[np.bool_], limit: int) -> NDArray[np.uint64]:
    """All sets of at most ``limit`` allowed parents as bits, small ones first."""
    from bayeslab.structure.score_kernels import expand

    n = len(allowed)
    candidates = np.flatnonzero(allowed & (np.arange(n) != child)).astype(np.int64)
    limit = min(limit, len(candidates))
    sets, index = np.zeros((n_sets(len(candidates), limit), n_words(n)), np.uint64), SetIndex(n, limit + 1)
    labels, no_scores, no_values = np.arange(n), np.zeros(0), np.zeros((0, 1))
    shape = (labels, np.ones(n, np.int64), index.binomial, index.offsets)
    expand(child, candidates, limit, *shape, no_values, 0, 0.0, np.zeros(limit + 1), sets, no_scores)
    return sets


def one_by_one(
    local: Callable[[int, tuple[int, ...]], float],
    children: NDArray[np.int64],
    limits: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    work: Work,
) -> list[Found]:
    """``all_sets`` for a score without a faster method."""
    out = []
    for child, limit, row in zip(children.tolist(), limits.tolist(), allowed, strict=True):
        sets = parent_sets(child, row, limit)
        out.append((sets, np.array([local(child, members_of(mask)) for mask in sets])))
        if work.tick:
            work.tick()
    return out
