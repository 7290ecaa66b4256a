"""Scores of discrete families that are differences of sums over cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayeslab.structure.constraints import n_words
from bayeslab.structure.counts import CellSums, CliqueCounter, SetIndex, in_threads, n_sets
from bayeslab.structure.data import Observations
from bayeslab.structure.scores import Work

__all__ = ["DiscreteScore"]


@dataclass(frozen=True, eq=False)
class DiscreteScore:
    """local(v, P) = c_0(P and v) - c_t(P) - penalty * (number of free parameters) - penalty of the number of parents.

    Attributes
    ----------
    score : str
    data : Observations
    sums : CellSums
        The functions summed over cells; if there are several types, the second one and so on are those of parents,
        by child.
    kinds : ndarray of int, shape (n,)
        Which type of sum the parents of each variable take.
    per_parameter : float
        Penalty of one free parameter.
    by_size : ndarray, shape (n,)
        Penalty of a number of parents.
    """

    score: str
    data: Observations
    sums: CellSums
    kinds: NDArray[np.int64]
    per_parameter: float
    by_size: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        score: str,
        data: Observations,
        sums: CellSums,
        *,
        kinds: NDArray[np.int64] | None = None,
        per_parameter: float = 0.0,
        by_size: NDArray[np.float64] | None = None,
    ) -> DiscreteScore:
        data.require("discrete", score)
        same = np.zeros(data.n, np.int64)
        free = np.zeros(data.n + 1)
        return cls(
            score, data, sums, same if kinds is None else kinds, per_parameter, free if by_size is None else by_size
        )

    @property
    def names(self) -> tuple[str, ...]:
        return self.data.names

    @cached_property
    def counter(self) -> CliqueCounter:
        return CliqueCounter(self.data, self.sums)

    def local(self, child: int, parents: tuple[int, ...]) -> float:
        """Local score of a variable given its parents."""
        own = sorted(parents)
        cards = self.data.cards
        above = self.counter.of_set(own)[self.kinds[child]]
        # The child comes last, so that what is counted for the parents could be shared.
        both = self.counter.of_set([*own, child])[0]
        free = float(np.prod(cards[own], dtype=float)) * (cards[child] - 1)
        return float(both - above - self.per_parameter * free - self.by_size[len(own)])

    def all_sets(
        self,
        children: NDArray[np.int64],
        limits: NDArray[np.int64],
        allowed: NDArray[np.bool_],
        work: Work = Work(),  # noqa: B008 - frozen
    ) -> list[tuple[NDArray[np.uint64], NDArray[np.float64]]]:
        """Local scores of all sets of allowed parents, small sets first."""
        n, allowed = self.data.n, allowed & (children[:, None] != np.arange(self.data.n))
        used = allowed.any(axis=0)
        used[children] = True
        variables = np.flatnonzero(used).astype(np.int64)
        largest = int(limits.max(initial=0))
        together = n_sets(len(variables), largest + 1)
        apart = sum(2 * n_sets(int(row.sum()), int(limit)) for row, limit in zip(allowed, limits, strict=True))
        out = [_empty(row, int(limit), n) for row, limit in zip(allowed, limits, strict=True)]
        if together <= apart:
            self._together(variables, largest, children, limits, allowed, out, work)
        else:
            self._apart(children, limits, allowed, out, work)
        return out

    def _together(
        self,
        variables: NDArray[np.int64],
        largest: int,
        children: NDArray[np.int64],
        limits: NDArray[np.int64],
        allowed: NDArray[np.bool_],
        out: list[tuple[NDArray[np.uint64], NDArray[np.float64]]],
        work: Work,
    ) -> None:
        """Every set of variables is counted once, for all children."""
        index = SetIndex(len(variables), min(largest + 1, len(variables)))
        size = np.full(len(variables), index.largest, dtype=np.int64)
        values = self.counter.walk(variables, index, size, largest, threads=work.threads, tick=work.tick)
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
        out: list[tuple[NDArray[np.uint64], NDArray[np.float64]]],
        work: Work,
    ) -> None:
        """Each child with its own candidates: sets of these, with and without the child."""

        def write(i: int) -> None:
            candidates = np.flatnonzero(allowed[i]).astype(np.int64)
            limit = min(int(limits[i]), len(candidates))
            # The child is the first variable: only sets that begin with it have one more member than parents.
            variables = np.concatenate([children[i : i + 1], candidates])
            index = SetIndex(len(variables), limit + 1)
            size = np.full(len(variables), limit, dtype=np.int64)
            size[0] = limit + 1
            values = self.counter.walk(variables, index, size, limit)
            self._expand(0, np.arange(1, len(variables)), limit, variables, index, values, out[i])

        self.counter.prepare()
        in_threads(write, range(len(children)), work.threads, work.tick)

    def _expand(
        self,
        place: int,
        candidates: NDArray[np.int64],
        limit: int,
        variables: NDArray[np.int64],
        index: SetIndex,
        values: NDArray[np.float64],
        out: tuple[NDArray[np.uint64], NDArray[np.float64]],
    ) -> None:
        from bayeslab.structure._score_kernels import expand

        shape = (variables, self.data.cards[variables], index.binomial, index.offsets)
        kind = int(self.kinds[variables[place]])
        expand(place, candidates, limit, *shape, values, kind, float(self.per_parameter), self.by_size, *out)

    def seconds(self, n_sets: int) -> float:
        """About how long that many sets take on one core."""
        return n_sets * (1e-7 + 0.4e-9 * len(self.data.weights))


def _empty(row: NDArray[np.bool_], limit: int, n: int) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    size = n_sets(int(row.sum()), limit)
    return np.zeros((size, n_words(n)), np.uint64), np.zeros(size)
