"""Counting over many sets of variables: one sum over cells per set, shared by all families that need it.

For most scores the score of a family is a difference of two such sums: log p(v | parents) = c(parents and v) -
c(parents). Therefore sets of variables ("cliques") are counted, each once, instead of families: four times fewer for
families with three parents.

There are two equivalent ways to count: *codes* give each row the number of its cell and count row by row; *bits* store
each cell as a set of rows, 64 per machine word, and count by intersection. The numbers of rows and cells determine
which is faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.structure.data import Observations

__all__ = ["CellSums", "CliqueCounter", "SetIndex", "n_sets"]

# Functions of a count are tabulated up to this count, with tables of at most this many numbers in total.
_LONGEST_TABLE, _TABLE_SIZE = 1 << 15, 1 << 23
# Stirling's series is used from this count on.
_FROM_STIRLING = 16
# Largest number of rows that are stored as bits.
_MOST_BITS = 1 << 26
# With fewer sets, starting threads costs more than it saves.
_THREADS_FROM = 5_000


def n_sets(n: int, largest: int) -> int:
    """Number of subsets of n variables with at most ``largest`` members."""
    return sum(math.comb(n, k) for k in range(min(n, largest) + 1))


@dataclass(frozen=True)
class SetIndex:
    """Numbering of the subsets of n variables with at most ``largest`` members: by size, then colexicographic."""

    n: int
    largest: int

    @cached_property
    def binomial(self) -> NDArray[np.int64]:
        """C(u, k) at [u, k]."""
        rows = [[math.comb(u, k) for k in range(self.largest + 2)] for u in range(self.n + 1)]
        return np.array(rows, dtype=np.int64)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Number of the first set of each size."""
        sizes = [math.comb(self.n, k) for k in range(self.largest + 1)]
        return np.cumsum([0, *sizes], dtype=np.int64)

    @property
    def size(self) -> int:
        return int(self.offsets[-1])


@dataclass(frozen=True)
class CellSums:
    """The function of a count that is summed over the cells of a set of variables.

    Attributes
    ----------
    kind : {"log_gamma", "entropy"}
        log Gamma(count + shift) - log Gamma(shift), or count log count.
    ess : float
        If positive, the shift is this divided by the number of cells.
    shifts : tuple of float
        Otherwise the shifts, one per type of sum.
    """

    kind: Literal["log_gamma", "entropy"]
    ess: float = 0.0
    shifts: tuple[float, ...] = ()

    @property
    def n_types(self) -> int:
        return max(1, len(self.shifts))

    def of_total(self, count: float) -> NDArray[np.float64]:
        """Sums of the empty set, whose only cell holds all rows."""
        from scipy.special import gammaln, xlogy

        if self.kind == "entropy":
            return np.array([float(xlogy(count, count))])
        shifts = np.array([self.ess] if self.ess > 0 else self.shifts)
        return np.asarray(gammaln(count + shifts) - gammaln(shifts))

    def table(self, products: NDArray[np.float64], largest: int) -> NDArray[np.float64]:
        """Values at counts 0, 1, ..., one row per shift, up to a limit on memory."""
        from scipy.special import gammaln, xlogy

        shifts = self.ess / products if self.ess > 0 else np.array(self.shifts or (1.0,))
        length = min(largest + 1, _LONGEST_TABLE, _TABLE_SIZE // max(1, len(shifts)))
        counts = np.arange(length, dtype=np.float64)
        if self.kind == "entropy":
            return np.asarray(xlogy(counts, counts))[None, :]
        out = np.empty((len(shifts), length))
        for shift, row in zip(shifts, out, strict=True):  # row by row, so that the data stay in the cache
            row[:_FROM_STIRLING] = gammaln(counts[:_FROM_STIRLING] + shift)
            row[_FROM_STIRLING:] = _log_gamma(counts[_FROM_STIRLING:] + shift)
            row -= gammaln(shift)
        return out


def _log_gamma(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """log Gamma by Stirling's series, from ``_FROM_STIRLING`` on; the first omitted term is below 1e-17."""
    inverse = 1.0 / x
    square = inverse * inverse
    series = np.full_like(x, 1.0 / 156)
    for a in (-691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12):
        series *= square
        series += a
    series *= inverse
    return np.asarray((x - 0.5) * np.log(x) - x + (HALF_LOG_2PI) + series)


@dataclass(frozen=True, eq=False)
class CliqueCounter:
    """Sums over cells of sets of variables, from data."""

    data: Observations
    sums: CellSums

    @cached_property
    def _whole(self) -> bool:
        """Whether all weights, and therefore all counts, are whole numbers, so that values can be tabulated."""
        return bool(self.data.weights.dtype.kind in "iu")

    @cached_property
    def _columns(self) -> NDArray[np.integer]:
        return np.ascontiguousarray(self.data.codes.T)

    @cached_property
    def _weights(self) -> NDArray[Any]:
        return np.ascontiguousarray(self.data.weights, dtype=np.int64 if self._whole else np.float64)

    def _function(self, cards: NDArray[np.int64], largest: int) -> tuple[Any, ...]:
        """Description of the function for the kernels: n_types, kind, ess, shifts, products, table."""
        products = _products(cards, largest) if self.sums.ess > 0 else np.zeros(0)
        table = np.zeros((1, 0))
        if self._whole and (self.sums.ess <= 0 or 0 < len(products) <= 1024):
            table = self.sums.table(products, int(self.data.n_rows))
        kind = 0 if self.sums.kind == "log_gamma" else 1
        shifts = np.array(self.sums.shifts or (1.0,), dtype=np.float64)
        return self.sums.n_types, kind, float(self.sums.ess), shifts, products, table

    def families(self, child: int, sets: NDArray[np.uint64], row: int) -> NDArray[np.float64]:
        """Sums for parent sets (type ``row``) and for the sets with the child (type 0), shape (n_sets, 2)."""
        out = np.zeros((len(sets), 2))
        sets, cards, function = np.ascontiguousarray(sets, dtype=np.uint64), self.data.cards, self._any_function
        largest = int(np.bitwise_count(sets).sum(axis=1).max(initial=0)) + 1
        if self._all_by_bits(largest):
            bits, starts, n_rows = self._bits
            self._kernels.families_by_bits(bits, starts, cards, n_rows, child, sets, row, *function, out)
        else:
            self._kernels.families_by_codes(self._columns, cards, self._weights, child, sets, row, *function, out)
        return out

    def sparse_families(
        self, child: int, candidates: NDArray[np.int64], index: SetIndex, ess: float, out: NDArray[np.float64]
    ) -> None:
        """BDs of a child for each set of candidates in the index, in the order of the numbers of the sets."""
        cards, shape = self.data.cards, (candidates, index.largest, index.binomial, index.offsets, ess, out)
        if self.by_bits(cards[candidates], index.largest + 1):
            bits, starts, n_rows = self._bits
            room = _room(cards[candidates], index.largest + 1, n_rows)
            # One spare row: a cell is written before it is known to occur.
            self._kernels.sparse_families_by_bits(bits, starts, cards, n_rows, room + 1, child, *shape)
        else:
            self._kernels.sparse_families_by_codes(self._columns, cards, self._weights, self._whole, child, *shape)

    @property
    def _kernels(self) -> Any:
        from bayeslab.structure import score_kernels

        return score_kernels

    @cached_property
    def _any_function(self) -> tuple[Any, ...]:
        """The function, tabulated for as many numbers of cells as is worthwhile."""
        return self._function(self.data.cards, 4)

    def prepare(self) -> None:
        """Compute what the threads share."""
        _ = self._whole, self._weights, self._columns
        if self._whole and self.data.n_rows <= _MOST_BITS:
            _ = self._bits

    def walk(
        self,
        variables: NDArray[np.int64],
        index: SetIndex,
        limits: NDArray[np.int64],
        parent_limit: int,
        *,
        threads: int = 1,
        tick: Callable[[], None] | None = None,
    ) -> NDArray[np.float64]:
        """Sums for all sets that begin with each variable and have at most limits[variable] members.

        Parameters
        ----------
        variables
            Numbers of the variables; sets are numbered by positions in this list.
        parent_limit
            Larger sets are not parent sets and get the first type of sum only.

        Returns
        -------
        ndarray, shape (index.size, n_types)
        """
        out = np.zeros((index.size, self.sums.n_types))
        out[0] = self.sums.of_total(self.data.n_rows)
        cards, largest = self.data.cards[variables], int(limits.max(initial=0))
        function = self._function(cards, largest)
        place = (parent_limit, index.binomial, index.offsets)
        if self.by_bits(cards, largest):
            bits, starts, n_rows = self._bits
            starts, room = starts[variables], _room(cards, largest, n_rows)

            def walk_from(root: int) -> None:
                head, tail = (root, int(limits[root]), parent_limit), (room, index.binomial, index.offsets)
                self._kernels.clique_sums_by_bits(bits, starts, cards, n_rows, *head, *tail, *function, out)
        else:
            columns = self._columns if len(variables) == self.data.n else self._columns[variables]

            def walk_from(root: int) -> None:
                head = (columns, cards, self._weights, root, int(limits[root]))
                self._kernels.clique_sums_by_codes(*head, *place, *function, out)

        roots = [root for root in range(len(variables)) if limits[root] > 0]
        in_threads(walk_from, roots, threads if index.size >= _THREADS_FROM else 1, tick)
        return out

    def _all_by_bits(self, largest: int) -> bool:
        """:meth:`by_bits` for all variables, for searches that need few sets at a time."""
        known = self._answers
        if largest not in known:
            known[largest] = self.by_bits(self.data.cards, largest)
        return known[largest]

    @cached_property
    def _answers(self) -> dict[int, bool]:
        return {}

    def by_bits(self, cards: NDArray[np.int64], largest: int) -> bool:
        """Whether counting by bits is faster than counting row by row."""
        if not self._whole or self.data.n_rows > _MOST_BITS:
            return False
        n_rows = int(self.data.n_rows)
        words = (n_rows + 63) // 64
        card = float(cards.mean()) if cards.size else 1.0
        cells = min(float(n_rows), card ** max(largest - 1, 0))
        room = _room(cards, largest, n_rows)
        by_bits = cells * max(1.0, card - 1) * (3 + 0.25 * words)
        return room * words * 8 * max(largest, 1) < 2**28 and by_bits < 1.5 * len(self.data.weights)

    @cached_property
    def _bits(self) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
        columns = self._columns
        if np.any(self._weights != 1):
            columns = np.repeat(columns, self._weights, axis=1)
        starts = np.cumsum([0, *self.data.cards.tolist()], dtype=np.int64)
        bits = np.zeros((int(starts[-1]), (columns.shape[1] + 63) // 64), np.uint64)
        self._kernels.pack_bits(np.ascontiguousarray(columns), starts, bits)
        return bits, starts[:-1], columns.shape[1]


def in_threads(
    work: Callable[[int], None], tasks: Sequence[int], threads: int, tick: Callable[[], None] | None = None
) -> None:
    """Run all tasks in threads; their results must not depend on their order."""
    if threads <= 1 or len(tasks) <= 1:
        for task in tasks:
            work(task)
            if tick:
                tick()
        return
    with ThreadPoolExecutor(min(threads, len(tasks))) as pool:
        for _ in pool.map(work, tasks):
            if tick:
                tick()


def _products(cards: NDArray[np.int64], largest: int) -> NDArray[np.float64]:
    """All possible numbers of cells of sets of at most ``largest`` variables; empty if there are very many."""
    kinds, products, reach = np.unique(cards).astype(float), np.ones(1), np.ones(1)
    for _ in range(largest):
        reach = np.unique(np.outer(reach, kinds)) if kinds.size else reach
        products = np.union1d(products, reach)
        if len(products) > 1024:
            return np.zeros(0)
    return products


def _room(cards: NDArray[np.int64], largest: int, n_rows: int) -> int:
    """Upper bound on the number of occurring cells of a set below the largest size."""
    top = np.sort(cards)[::-1][: max(largest - 1, 0)]
    return max(1, min(n_rows, math.prod(map(int, top))))
