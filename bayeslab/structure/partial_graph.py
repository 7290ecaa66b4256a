"""Graphs whose edges have a mark at either end: tail, arrowhead or circle.

A class of structures with the same independences is drawn as one graph. In a CPDAG an edge ``a → b``
has the same direction in every member, and an edge ``a — b`` has different directions [1]_. In a PAG, in
which variables may be hidden, an arrowhead at b means that b is not a cause of a, a tail at a means that
a is a cause of b (or of a selection variable), and a circle means that members differ [2]_.

References
----------
.. [1] Andersson, Madigan, Perlman (1997). A characterization of Markov equivalence classes for acyclic
   digraphs. Annals of Statistics 25, 505-541.
.. [2] Zhang (2008). On the completeness of orientation rules for causal discovery in the presence of
   latent confounders and selection bias. Artificial Intelligence 172, 1873-1896.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import ModelError, OptionError, hint

__all__ = ["ARROW", "CIRCLE", "NONE", "TAIL", "PartialGraph"]

NONE, TAIL, ARROW, CIRCLE = 0, 1, 2, 3

_WORDS = ("none", "tail", "arrow", "circle")
_LEFT, _RIGHT = " -<o", " ->o"
_DRAWN = {"<->": "↔", "-->": "→", "---": "—", "o->": "o→", "--o": "—o", "o--": "o—"}


@dataclass(frozen=True, eq=False)
class PartialGraph:
    """A graph with a mark at either end of each edge.

    Parameters
    ----------
    names : tuple of str
        The variables.
    marks : ndarray of int8, shape (n, n)
        At [u, v] the mark at v of the edge between u and v: ``NONE`` if there is no edge, else ``TAIL``,
        ``ARROW`` or ``CIRCLE``.

    Raises
    ------
    ModelError
        Marks of the wrong shape, an edge with only one end, or a self-loop.
    """

    names: tuple[str, ...]
    marks: NDArray[np.int8]

    def __post_init__(self) -> None:
        marks = np.array(self.marks, dtype=np.int8)
        n = len(self.names)
        if len(set(self.names)) < n or marks.shape != (n, n):
            raise ModelError(
                f"marks of shape {marks.shape} for {n} variables; give one row and one column for each name",
                code="wrong-shape",
            )
        if np.any((marks == NONE) != (marks.T == NONE)) or np.any(np.diagonal(marks)):
            raise ModelError("each edge has a mark at both ends, and joins two variables", code="not-a-graph")
        if np.any((marks < NONE) | (marks > CIRCLE)):
            raise ModelError("a mark is 0 (no edge), 1 (tail), 2 (arrow) or 3 (circle)", code="out-of-range")
        marks.setflags(write=False)
        object.__setattr__(self, "marks", marks)

    @classmethod
    def of(cls, graph: nx.DiGraph | PartialGraph) -> PartialGraph:
        """Create from directed edges; an edge given in both directions is undirected."""
        if isinstance(graph, PartialGraph):
            return graph
        if not isinstance(graph, nx.DiGraph):
            raise OptionError(
                f"a graph is a networkx.DiGraph, such as network.graph; given: {type(graph).__name__}",
                code="not-a-graph",
            )
        arrows = nx.to_numpy_array(graph, weight=None, dtype=np.int8).astype(bool)
        marks = np.zeros(arrows.shape, np.int8)
        marks[arrows], marks[arrows.T & ~arrows], marks[arrows & arrows.T] = ARROW, TAIL, TAIL
        return cls(tuple(graph), marks)

    @property
    def n(self) -> int:
        """Number of variables."""
        return len(self.names)

    @property
    def n_edges(self) -> int:
        """Number of edges of any kind."""
        return int(np.count_nonzero(self.marks)) // 2

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def _place(self, name: str) -> int:
        if name not in self._number:
            raise ModelError(f"'{name}' is not a variable{hint(name, self.names)}", code="unknown-variable")
        return self._number[name]

    def mark(self, u: str, v: str) -> str:
        """The mark at v of the edge between u and v: ``tail``, ``arrow``, ``circle``, or ``none`` without an edge."""
        return _WORDS[self.marks[self._place(u), self._place(v)]]

    def adjacent(self, v: str) -> frozenset[str]:
        """Return the variables adjacent to v by an edge of any kind."""
        return frozenset(self.names[i] for i in np.flatnonzero(self.marks[self._place(v)]))

    @property
    def directed(self) -> frozenset[tuple[str, str]]:
        """The edges ``u → v``."""
        return frozenset(self._pairs((self.marks == ARROW) & (self.marks.T == TAIL)))

    @property
    def undirected(self) -> frozenset[frozenset[str]]:
        """The edges ``u — v``."""
        return frozenset(map(frozenset, self._pairs(np.triu((self.marks == TAIL) & (self.marks.T == TAIL)))))

    @property
    def bidirected(self) -> frozenset[frozenset[str]]:
        """The edges ``u ↔ v``: a hidden common cause."""
        return frozenset(map(frozenset, self._pairs(np.triu((self.marks == ARROW) & (self.marks.T == ARROW)))))

    def _pairs(self, where: NDArray[np.bool_]) -> Iterator[tuple[str, str]]:
        return ((self.names[u], self.names[v]) for u, v in np.argwhere(where).tolist())

    @property
    def skeleton(self) -> nx.Graph:
        """The edges without their marks."""
        out = nx.Graph()
        out.add_nodes_from(self.names)
        out.add_edges_from(self._pairs(np.triu(self.marks != NONE)))
        return out

    @property
    def graph(self) -> nx.DiGraph:
        """As a networkx graph: each edge in both directions, with the attribute ``mark`` for the mark at its end."""
        out = nx.DiGraph()
        out.add_nodes_from(self.names)
        out.add_edges_from((u, v, {"mark": self.mark(u, v)}) for u, v in self._pairs(self.marks != NONE))
        return out

    def edges(self) -> list[str]:
        """Return each edge as text, such as ``a → b``, ``a — b``, ``a o→ b``."""
        return [self._edge(u, v) for u, v in np.argwhere(np.triu(self.marks != NONE)).tolist()]

    def _edge(self, u: int, v: int) -> str:
        if self.marks[v, u] == ARROW and self.marks[u, v] != ARROW:
            u, v = v, u
        drawn = f"{_LEFT[self.marks[v, u]]}-{_RIGHT[self.marks[u, v]]}"
        return f"{self.names[u]} {_DRAWN.get(drawn, drawn)} {self.names[v]}"

    def __str__(self) -> str:
        return ", ".join(self.edges()) or "no edges"

    @cached_property
    def _key(self) -> tuple[tuple[str, ...], bytes]:
        order = sorted(range(self.n), key=self.names.__getitem__)
        return tuple(self.names[i] for i in order), self.marks[np.ix_(order, order)].tobytes()

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, PartialGraph) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)
