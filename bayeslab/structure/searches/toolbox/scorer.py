"""Scores of families for graph searches: in the order of names, with constraints, and cached.

Variables are numbered by sorted names, so that ties and random numbers do not depend on the order of the columns.
Parent sets are bits of one integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import ModelError, hint
from bayeslab.structure.constraints import Constraints, mask_of, members_of
from bayeslab.structure.priors import StructurePrior, structure_prior
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.scores import LocalScore
from bayeslab.structure.searches import Found

__all__ = ["Prior", "Scorer", "Source", "bits"]

type Source = LocalScore | ScoreTable
type Prior = str | StructurePrior | NDArray[np.float64]

# Largest number of families whose gains are cached.
_REMEMBERED = 100_000
# Differences below this share of the score count as rounding.
_ROUNDING = 1e-11


def bits(mask: int) -> Iterator[int]:
    """The members of a set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Scorer:
    """Local scores, and the gains from adding or removing one parent.

    Attributes
    ----------
    names : tuple of str
        Sorted.
    allowed, needed : ndarray of bool, shape (n, n)
        Allowed and required edges, at [from, to].
    limits : ndarray of int, shape (n,)
        Largest numbers of parents.
    n_scored : int
        Number of families scored so far.
    """

    def __init__(self, source: Source, constraints: Constraints | None = None, prior: Prior = "uniform") -> None:
        self.columns = tuple(source.names)
        self.names = tuple(sorted(self.columns))
        self.n = len(self.names)
        self.place = [self.columns.index(v) for v in self.names]
        self._single = np.array([mask_of([c], self.n) for c in self.place])
        known = Constraints(self.columns) if constraints is None else constraints
        if set(known.names) != set(self.columns):
            raise ModelError("the constraints are about other variables than the score", code="different-data")
        self.constraints = known
        order = [known.names.index(v) for v in self.names]
        self.allowed = known.allowed[np.ix_(order, order)].T.copy()
        self.needed = known.needed[np.ix_(order, order)].T.copy()
        self.limits = known.limits[order]
        self._many = self._reader(source, structure_prior(prior))
        self._gains: dict[tuple[int, int], NDArray[np.float64]] = {}
        self._local: dict[tuple[int, int], float] = {}
        self.n_scored = 0

    def _reader(self, source: Source, prior: StructurePrior) -> Callable[[int, NDArray[np.uint64]], NDArray[Any]]:
        if not isinstance(source, ScoreTable):
            return lambda child, sets: source.many(child, sets) + prior.log_weights(child, sets, self.n)
        if prior.name != "uniform":
            raise ModelError("a score table holds its prior; give the prior when it is built", code="conflict")
        for v, c in enumerate(self.place):
            present = source.sets[source.pointer[c] : source.pointer[c + 1]]
            inside = [bool(len(present)) and np.all(present & bit == bit, axis=1) for bit in self._single]
            self.needed[:, v] |= np.array([np.all(i) for i in inside], dtype=bool)
            self.allowed[:, v] &= np.array([np.any(i) for i in inside], dtype=bool)
            self.limits[v] = min(self.limits[v], np.bitwise_count(present).sum(axis=1).max(initial=0))

        def read(child: int, sets: NDArray[np.uint64]) -> NDArray[Any]:
            numbers = source.numbers(child, sets)
            return np.where(numbers >= 0, source.scores[numbers], -np.inf)

        return read

    @cached_property
    def tolerance(self) -> float:
        """Changes of the score up to this count as zero."""
        return _ROUNDING * max(1.0, abs(sum(self.local(v, self.required(v)) for v in range(self.n))))

    def required(self, child: int) -> int:
        """Return the required parents of a variable."""
        return sum(1 << int(u) for u in np.flatnonzero(self.needed[:, child]))

    def _sets(self, masks: Sequence[int]) -> NDArray[np.uint64]:
        return np.array([mask_of([self.place[u] for u in bits(m)], self.n) for m in masks])

    def score(self, child: int, masks: Sequence[int]) -> NDArray[np.float64]:
        """Scores of some parent sets of a variable."""
        fresh = [m for m in dict.fromkeys(masks) if (child, m) not in self._local]
        if fresh:
            self.n_scored += len(fresh)
            for mask, value in zip(fresh, self._many(self.place[child], self._sets(fresh)).tolist(), strict=True):
                self._local[child, mask] = value
        return np.array([self._local[child, m] for m in masks])

    def local(self, child: int, mask: int) -> float:
        """Score of a variable given its parents."""
        known = self._local.get((child, mask))
        return float(self.score(child, [mask])[0]) if known is None else known

    def gains(self, child: int, mask: int) -> NDArray[np.float64]:
        """Return the gain from adding each variable to the parents, or from removing it if it is a parent.

        The gain is -inf if constraints forbid the change; the array is read-only.
        """
        known = self._gains.get((child, mask))
        if known is not None:
            return known
        base = self.local(child, mask)
        present = np.array([mask >> u & 1 for u in range(self.n)], dtype=bool)
        room = present.sum() < self.limits[child]
        asked = np.flatnonzero(np.where(present, ~self.needed[:, child], self.allowed[:, child] & room))
        out = np.full(self.n, -np.inf)
        if asked.size:
            self.n_scored += asked.size
            sets = self._sets([mask]) ^ self._single[asked]
            scores = self._many(self.place[child], sets)
            out[asked] = scores - base
            self._local.update(((child, mask ^ (1 << u)), s) for u, s in zip(asked.tolist(), scores.tolist()))  # noqa: B905
        out.flags.writeable = False
        if len(self._gains) >= _REMEMBERED:
            self._gains.clear()
            self._local.clear()
        self._gains[child, mask] = out
        return out

    def isolate(self) -> None:
        """Forbid the edges of variables for which no single edge changes the score, such as constant columns.

        Such edges neither cost nor gain anything, so that searches would wander among these graphs forever.
        """
        blank = np.stack([self.gains(v, self.required(v)) for v in range(self.n)], axis=1)
        flat = (np.abs(blank) <= self.tolerance) | (blank == -np.inf)
        idle = flat.all(axis=0) & flat.all(axis=1) & ~self.needed.any(axis=0) & ~self.needed.any(axis=1)
        if idle.any():
            self.allowed[idle, :] = self.allowed[:, idle] = False
            self._gains.clear()

    def parents_of(self, graph: nx.DiGraph | None) -> list[int]:
        """Return a graph as parent sets; without a graph, the required edges.

        Raises
        ------
        ModelError
            The graph violates a constraint, has a cycle, or has a family without a score.
        """
        if graph is None:
            out = [self.required(v) for v in range(self.n)]
        else:
            for v in graph:
                if v not in self.columns:
                    raise ModelError(
                        f"the start graph: '{v}' is not a variable{hint(str(v), self.columns)}", code="unknown-variable"
                    )
            if not nx.is_directed_acyclic_graph(graph):
                raise ModelError("the start graph has a cycle", code="cycle")
            self.constraints.check(graph)
            number = {v: i for i, v in enumerate(self.names)}
            out = [sum(1 << number[u] for u in (graph.predecessors(v) if v in graph else ())) for v in self.names]
        for v, mask in enumerate(out):
            if self.local(v, mask) == -np.inf:
                listed_parents = ", ".join(self.names[u] for u in bits(mask)) or "none"
                raise ModelError(
                    f"the search cannot start: the parents of '{self.names[v]}' ({listed_parents}) have no score",
                    code="contradiction",
                )
        return out

    def graph(self, parents: Sequence[int]) -> nx.DiGraph:
        """Return parent sets as a graph."""
        out = nx.DiGraph()
        out.add_nodes_from(self.columns)
        edges = [(self.names[u], self.names[v]) for v, mask in enumerate(parents) for u in bits(mask)]
        out.add_edges_from(sorted(edges))
        return out

    def result(self, parents: Sequence[int], trace: Sequence[float]) -> Found:
        """Return the result of a search."""
        score = sum(self.local(v, mask) for v, mask in enumerate(parents))
        return Found(self.graph(parents), float(score), tuple(trace), self.n_scored)

    def order_of(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of the variables in a given order, which must contain each exactly once."""
        for v in names:
            if v not in self.names:
                raise ModelError(f"the order: '{v}' is not a variable{hint(v, self.names)}", code="unknown-variable")
        if len(set(names)) < len(names) or len(names) < self.n:
            missing = ", ".join(sorted(set(self.names) - set(names)))
            raise ModelError(
                f"the order needs each variable once{'; it lacks ' + missing if missing else ''}", code="incomplete"
            )
        return [self.names.index(v) for v in names]


# Only used to read tables of sets; kept next to the class that defines the numbering.
def in_name_order(table: ScoreTable) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.float64]]:
    """Return pointers, sets and scores of a table in the order of names; ties up to rounding by size and name."""
    columns, names = table.names, sorted(table.names)
    place = [columns.index(v) for v in names]
    sets = np.zeros_like(table.sets)
    for u, c in enumerate(place):
        bit = table.sets[:, c // 64] >> np.uint64(c % 64) & np.uint64(1)
        sets[:, u // 64] |= bit << np.uint64(u % 64)
    pieces = []
    for c in place:
        at = np.arange(table.pointer[c], table.pointer[c + 1])
        grain = _ROUNDING * max(1.0, float(np.abs(table.scores[at]).max(initial=1.0))) * 100
        keys = [sets[at, w] for w in range(sets.shape[1])]
        rank = np.round(-table.scores[at] / grain)
        pieces.append(at[np.lexsort((*keys, table.sizes[at], rank))])
    pointer = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
    numbers = np.concatenate(pieces)
    return pointer, np.ascontiguousarray(sets[numbers]), np.ascontiguousarray(table.scores[numbers])


def members(mask: NDArray[np.uint64]) -> int:
    """Convert a set given as words to bits of one integer."""
    return sum(1 << u for u in members_of(mask))
