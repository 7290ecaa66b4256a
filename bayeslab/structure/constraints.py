"""Prior constraints on a structure: required and forbidden edges, tiers, limits on the numbers of parents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import ModelError, hint

__all__ = ["Constraints", "mask_of", "members_of", "n_words"]

type Edge = tuple[str, str]


def n_words(n: int) -> int:
    """Number of 64-bit words that hold a set of n variables."""
    return max(1, (n + 63) // 64)


def mask_of(members: Iterable[int], n: int) -> NDArray[np.uint64]:
    """A set of variables as bits: bit u % 64 of word u // 64."""
    out = np.zeros(n_words(n), np.uint64)
    for u in members:
        out[u // 64] |= np.uint64(1) << np.uint64(u % 64)
    return out


def members_of(mask: NDArray[np.uint64]) -> tuple[int, ...]:
    """The variables of a set given as bits, ascending."""
    words = [int(word) for word in np.atleast_1d(mask)]
    return tuple(64 * w + b for w, word in enumerate(words) for b in range(word.bit_length()) if word >> b & 1)


@dataclass(frozen=True)
class Constraints:
    """Constraints on a DAG, checked for consistency when they are created.

    Parameters
    ----------
    names : tuple of str
        The variables.
    required, forbidden : frozenset of (str, str)
        Edges (from, to) that every graph must contain, and edges that no graph may contain.
    tiers : tuple of tuple of str
        Groups of variables, earliest first: no edge leads from a later group to an earlier one. Variables without a
        tier are unconstrained.
    max_parents : int or mapping of str to int, optional
        Largest number of parents, for all variables or for each.
    candidates : mapping of str to tuple of str, optional
        The only variables that may be parents of a variable.

    Raises
    ------
    ModelError
        An unknown variable, or two constraints that contradict each other; the message names both.
    """

    names: tuple[str, ...]
    required: frozenset[Edge] = frozenset()
    forbidden: frozenset[Edge] = frozenset()
    tiers: tuple[tuple[str, ...], ...] = ()
    max_parents: int | Mapping[str, int] | None = None
    candidates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        *,
        required: Iterable[str | Sequence[str]] = (),
        forbidden: Iterable[str | Sequence[str]] = (),
        tiers: Iterable[Sequence[str]] = (),
        max_parents: int | Mapping[str, int] | None = None,
        candidates: Mapping[str, Sequence[str]] | None = None,
    ) -> Constraints:
        """Create from lists, as in files."""
        return cls(
            tuple(names),
            frozenset(_edge(edge, "required") for edge in required),
            frozenset(_edge(edge, "forbidden") for edge in forbidden),
            tuple(tuple(tier) for tier in tiers),
            max_parents,
            {v: tuple(parents) for v, parents in (candidates or {}).items()},
        )

    def __post_init__(self) -> None:
        self._check_names()
        self._check_required()

    def _check_names(self) -> None:
        limits = self.max_parents if isinstance(self.max_parents, Mapping) else {}
        used = [(v, "required edges") for edge in sorted(self.required) for v in edge]
        used += [(v, "forbidden edges") for edge in sorted(self.forbidden) for v in edge]
        used += [(v, "tiers") for tier in self.tiers for v in tier] + [(v, "max_parents") for v in limits]
        used += [(v, "candidates") for child, parents in self.candidates.items() for v in (child, *parents)]
        for v, where in used:
            if v not in self._number:
                raise ModelError(f"{where}: '{v}' is not a variable{hint(v, self.names)}", code="unknown-variable")
        tiered = [v for tier in self.tiers for v in tier]
        for v in tiered:
            if tiered.count(v) > 1:
                raise ModelError(f"tiers: '{v}' is in two tiers; it has one place in time", code="duplicate")
        given = list(limits.values()) if isinstance(self.max_parents, Mapping) else [self.max_parents]
        for limit in given:
            whole = isinstance(limit, int | np.integer) and not isinstance(limit, bool)
            if limit is not None and not (whole and limit >= 0):
                raise ModelError(f"max_parents is a number of parents, 0 or more; given {limit!r}", code="out-of-range")

    def _check_required(self) -> None:
        for u, v in sorted(self.required):
            if u == v:
                raise ModelError(f"the required edge {u} -> {v} leads from a variable to itself", code="self-reference")
            if (u, v) in self.forbidden:
                raise ModelError(
                    f"the edge {u} -> {v} is required and forbidden; take it out of one of the lists",
                    code="contradiction",
                )
            if self._tier(u) > self._tier(v) >= 0:
                raise ModelError(
                    f"the required edge {u} -> {v} contradicts the tiers: '{u}' is in tier {self._tier(u) + 1}, later"
                    f" than '{v}' in tier {self._tier(v) + 1}",
                    code="contradiction",
                )
            if v in self.candidates and u not in self.candidates[v]:
                raise ModelError(
                    f"the required edge {u} -> {v} contradicts the candidates of '{v}', which leave out '{u}'",
                    code="contradiction",
                )
        for v, limit in zip(self.names, self.limits.tolist(), strict=True):
            into = sorted(u for u, w in self.required if w == v)
            if len(into) > limit:
                edges = ", ".join(f"{u} -> {v}" for u in into)
                raise ModelError(
                    f"'{v}' may have {limit} parents at most (max_parents), and {len(into)} are required: {edges}",
                    code="contradiction",
                )
        graph = nx.DiGraph(sorted(self.required))
        if not nx.is_directed_acyclic_graph(graph):
            cycle = ", ".join(f"{u} -> {v}" for u, v in nx.find_cycle(graph))
            raise ModelError(f"the required edges form a cycle: {cycle}; a structure has none", code="cycle")

    @cached_property
    def _number(self) -> dict[str, int]:
        return {v: i for i, v in enumerate(self.names)}

    @cached_property
    def _place(self) -> dict[str, int]:
        return {v: i for i, tier in enumerate(self.tiers) for v in tier}

    def _tier(self, v: str) -> int:
        return self._place.get(v, -1)

    @property
    def n(self) -> int:
        return len(self.names)

    @cached_property
    def limits(self) -> NDArray[np.int64]:
        """The largest number of parents of each variable; n - 1 without a limit."""
        free = max(0, self.n - 1)
        if isinstance(self.max_parents, Mapping):
            return np.array([min(free, self.max_parents.get(v, free)) for v in self.names], dtype=np.int64)
        limit = free if self.max_parents is None else min(free, self.max_parents)
        return np.full(self.n, limit, dtype=np.int64)

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """Shape (n, n): whether u may be a parent of v, at [v, u]."""
        out = ~np.eye(self.n, dtype=bool)
        for u, v in self.forbidden:
            out[self._number[v], self._number[u]] = False
        for v, parents in self.candidates.items():
            out[self._number[v]] &= np.isin(np.arange(self.n), [self._number[u] for u in parents])
        for u, i in self._place.items():
            for v, j in self._place.items():
                if i > j:
                    out[self._number[v], self._number[u]] = False
        for u, v in self.required:
            out[self._number[u], self._number[v]] = False
        return out

    @cached_property
    def needed(self) -> NDArray[np.bool_]:
        """Shape (n, n): whether u must be a parent of v, at [v, u]."""
        out = np.zeros((self.n, self.n), dtype=bool)
        for u, v in self.required:
            out[self._number[v], self._number[u]] = True
        return out

    @cached_property
    def allowed_masks(self) -> NDArray[np.uint64]:
        """Shape (n, n_words): the possible parents of each variable as bits."""
        return np.array([mask_of(np.flatnonzero(row).tolist(), self.n) for row in self.allowed]).reshape(self.n, -1)

    @cached_property
    def needed_masks(self) -> NDArray[np.uint64]:
        """Shape (n, n_words): the required parents of each variable as bits."""
        return np.array([mask_of(np.flatnonzero(row).tolist(), self.n) for row in self.needed]).reshape(self.n, -1)

    def allows(self, child: int, parents: Iterable[int]) -> bool:
        """Whether a variable may have exactly these parents."""
        parent_set = set(parents)
        inside = all(self.allowed[child, u] for u in parent_set)
        return (
            inside
            and len(parent_set) <= self.limits[child]
            and parent_set >= set(np.flatnonzero(self.needed[child]).tolist())
        )

    def allowed_sets(self, child: int, sets: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """As :meth:`allows`, for many sets given as bits, shape (n_sets, n_words)."""
        inside = ~np.any(sets & ~self.allowed_masks[child], axis=1)
        complete = ~np.any(self.needed_masks[child] & ~sets, axis=1)
        return inside & complete & (np.bitwise_count(sets).sum(axis=1) <= self.limits[child])

    def check(self, graph: nx.DiGraph) -> None:
        """Raise a ModelError that names the violated constraint, if the graph violates one."""
        for v in self.names:
            above = set(graph.predecessors(v)) if v in graph else set()
            for u in sorted({u for u, w in self.required if w == v} - above):
                raise ModelError(f"the graph lacks the required edge {u} -> {v}", code="missing-edge")
            for u in sorted(above):
                if not self.allowed[self._number[v], self._number[u]]:
                    raise ModelError(
                        f"the graph has the edge {u} -> {v}, which the constraints rule out", code="forbidden-edge"
                    )
            limit = int(self.limits[self._number[v]])
            if len(above) > limit:
                raise ModelError(f"'{v}' has {len(above)} parents and may have {limit}", code="contradiction")


def edge_of(given: str | Sequence[str]) -> Edge:
    """An edge, written ``from -> to`` or as a pair.

    >>> edge_of("a -> b"), edge_of(["a", "b"])
    (('a', 'b'), ('a', 'b'))

    Raises
    ------
    ModelError
        The input is neither.
    """
    if isinstance(given, str):
        first, arrow, second = (part.strip() for part in given.partition("->"))
        if not (first and arrow and second):
            raise ModelError(f"an edge is written `from -> to`, not '{given}'", code="syntax")
        return first, second
    if not isinstance(given, Sequence) or len(given) != 2:
        raise ModelError(f"an edge is a pair [from, to] or written `from -> to`, not {given!r}", code="wrong-type")
    return str(given[0]), str(given[1])


def _edge(given: str | Sequence[str], what: str) -> Edge:
    try:
        return edge_of(given)
    except ModelError as error:
        raise ModelError(f"{what} edges: {error.message}", code=error.code) from None
