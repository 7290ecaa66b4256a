"""Markov equivalence classes of directed acyclic graphs.

Two DAGs imply the same independences if and only if they have the same skeleton and the same
v-structures a → v ← b with a and b not adjacent [1]_. An edge is *compelled* if it has the same
direction in every member of the class, otherwise *reversible*; the CPDAG draws compelled edges as arrows
and reversible edges without direction. Compelled edges are found along a topological order [2]_; given
some of the directions, Meek's rules find all that follow from them [3]_; a DAG of a class is found by
removing one sink after another [4]_.

References
----------
.. [1] Verma, Pearl (1990). Equivalence and synthesis of causal models. UAI 6, 220-227.
.. [2] Chickering (1995). A transformational characterization of equivalent Bayesian network structures.
   UAI 11, 87-98.
.. [3] Meek (1995). Causal inference and causal explanation with background knowledge. UAI 11, 403-410.
.. [4] Dor, Tarsi (1992). A simple algorithm to construct a consistent extension of a partially oriented
   graph. Technical report R-185, UCLA.
.. [5] Tsamardinos, Brown, Aliferis (2006). The max-min hill-climbing Bayesian network structure learning
   algorithm. Machine Learning 65, 31-78.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import ModelError, OptionError, listed
from bayeslab.structure.partial_graph import ARROW, NONE, TAIL, PartialGraph

__all__ = [
    "Comparison",
    "Counts",
    "class_distance",
    "compare",
    "comparison_table",
    "compelled_edges",
    "compelled_parents",
    "cpdag",
    "equivalent",
    "extension",
    "hamming_distance",
    "meek_closure",
    "members",
    "reachable",
    "reversible_edges",
    "v_structures",
]

type VStructure = tuple[frozenset[str], str]


def _checked(graph: nx.DiGraph) -> nx.DiGraph:
    if not isinstance(graph, nx.DiGraph):
        raise OptionError(
            f"a graph is a networkx.DiGraph, such as network.graph; given: {type(graph).__name__}", code="not-a-graph"
        )
    if not nx.is_directed_acyclic_graph(graph):
        raise ModelError(
            "the graph has a cycle; equivalence classes are those of directed acyclic graphs", code="cycle"
        )
    return graph


def v_structures(graph: nx.DiGraph) -> frozenset[VStructure]:
    """Return all v-structures a → v ← b with a and b not adjacent, as pairs ({a, b}, v)."""
    return frozenset(
        (frozenset(pair), v)
        for v in graph
        for pair in combinations(graph.predecessors(v), 2)
        if not (graph.has_edge(*pair) or graph.has_edge(*pair[::-1]))
    )


def equivalent(first: nx.DiGraph, second: nx.DiGraph) -> bool:
    """Return whether two DAGs are Markov equivalent, that is, imply the same independences."""
    if set(_checked(first)) != set(_checked(second)):
        return False
    same_edges = set(map(frozenset, first.edges)) == set(map(frozenset, second.edges))
    return same_edges and v_structures(first) == v_structures(second)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def compelled_parents(parents: Sequence[int]) -> list[int]:
    """Return the parents of each variable along compelled edges.

    Parameters
    ----------
    parents : sequence of int
        The parents of each variable as bits of one number: bit u for variable u. The graph is acyclic.

    Returns
    -------
    list of int
        The same for the compelled edges only.

    References
    ----------
    Chickering (1995), Order-Edges and Label-Edges [2]_: all edges into a variable are labelled when the edge from its
    latest parent is reached.
    """
    compelled = [0] * len(parents)
    order = _topological(parents)
    for y in order:
        if not parents[y]:
            continue
        x = next(v for v in reversed(order) if parents[y] >> v & 1)
        new_corner = parents[y] & ~parents[x] & ~(1 << x)
        compelled[y] = parents[y] if new_corner or compelled[x] & ~parents[y] else compelled[x]
    return compelled


def _topological(parents: Sequence[int]) -> list[int]:
    order: list[int] = []
    placed, waiting = 0, list(range(len(parents)))
    while waiting:
        ready = [v for v in waiting if not parents[v] & ~placed]
        if not ready:
            raise ModelError(
                "the graph has a cycle; equivalence classes are those of directed acyclic graphs", code="cycle"
            )
        order += ready
        placed |= sum(1 << v for v in ready)
        waiting = [v for v in waiting if not placed >> v & 1]
    return order


def cpdag(graph: nx.DiGraph) -> PartialGraph:
    """Return the CPDAG of a DAG: compelled edges as arrows, reversible edges without direction."""
    names = tuple(_checked(graph))
    number = {v: i for i, v in enumerate(names)}
    parents = [sum(1 << number[u] for u in graph.predecessors(v)) for v in names]
    marks = np.zeros((len(names), len(names)), np.int8)
    for y, (above, fixed) in enumerate(zip(parents, compelled_parents(parents), strict=True)):
        for x in _bits(above):
            marks[x, y], marks[y, x] = ARROW if fixed >> x & 1 else TAIL, TAIL
    return PartialGraph(names, marks)


def compelled_edges(graph: nx.DiGraph) -> frozenset[tuple[str, str]]:
    """Return the edges of a DAG that have the same direction in every member of its class."""
    return cpdag(graph).directed


def reversible_edges(graph: nx.DiGraph) -> frozenset[frozenset[str]]:
    """Return the edges of a DAG whose direction differs between members of its class."""
    return cpdag(graph).undirected


def meek_closure(marks: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the marks with every direction that follows from the given ones by Meek's rules.

    Parameters
    ----------
    marks : ndarray of int8, shape (n, n)
        Marks of a PartialGraph with arrows and undirected edges only.

    Returns
    -------
    ndarray of int8, shape (n, n)
        An edge for which both directions follow, or whose direction closes a cycle, stays undirected: the given
        marks then belong to no class, and :func:`extension` raises an error. The result does not depend on the
        order of the variables.

    References
    ----------
    Meek (1995), rules 1 to 4 [3]_; the fourth is needed only for directions that do not come from
    v-structures.
    """
    marks = marks.copy()
    barred = np.zeros(marks.shape, dtype=bool)
    while True:
        proposed = _proposed(marks) & ~barred
        clash = proposed & proposed.T
        barred |= clash
        proposed &= ~clash
        circular = proposed & reachable(_arrows(marks) | proposed).T
        barred |= circular | circular.T
        proposed &= ~circular
        if not proposed.any() and not clash.any() and not circular.any():
            return marks
        marks[proposed] = ARROW


def _arrows(marks: NDArray[np.int8]) -> NDArray[np.bool_]:
    return (marks == ARROW) & (marks.T == TAIL)


def _proposed(marks: NDArray[np.int8]) -> NDArray[np.bool_]:
    """At [u, v] whether a rule turns u — v into u → v."""
    arrows, joined = _arrows(marks), marks != NONE
    free = (marks == TAIL) & (marks.T == TAIL)
    apart = ~joined & ~np.eye(len(marks), dtype=bool)
    out = free & (_meets(arrows.T, apart) | _meets(arrows, arrows))
    for a, c in np.argwhere(free & ~out).tolist():
        # Rule 3: two non-adjacent nodes b, each a — b → c.
        between = free[a] & arrows[:, c]
        # Rule 4: a — d → b → c with a and b adjacent, d and c not adjacent.
        before = free[a] & apart[:, c] & (arrows & (joined[a] & arrows[:, c])).any(axis=1)
        out[a, c] = apart[np.ix_(between, between)].any() or before.any()
    return out


def _meets(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """At [u, v] whether some w has first[u, w] and second[w, v]."""
    return (first.astype(np.float32) @ second.astype(np.float32)) > 0


def reachable(arrows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """At [u, v] whether a directed path of arrows, one at [u, v] for u → v, leads from u to v."""
    reach = arrows
    while True:
        longer = reach | _meets(reach, reach)
        if np.array_equal(longer, reach):
            return reach
        reach = longer


def extension(graph: PartialGraph | nx.DiGraph) -> nx.DiGraph:
    """Return a DAG with the edges, arrows and v-structures of a partially directed graph, and no other v-structures.

    Parameters
    ----------
    graph
        Arrows and undirected edges, as :func:`cpdag` and PC return them; in a DiGraph, an edge in both
        directions is undirected.

    Raises
    ------
    ModelError
        There is no such DAG, as tests of independence on few rows can contradict each other; or the graph has
        other marks.

    References
    ----------
    Dor and Tarsi (1992) [4]_.
    """
    partial = PartialGraph.of(graph)
    marks = partial.marks
    arrows = _directions(partial)
    joined = [_mask(row != NONE) for row in marks]
    free = [_mask(row) for row in (marks == TAIL) & (marks.T == TAIL)]
    below = [_mask(row) for row in arrows]
    left = (1 << partial.n) - 1
    out = nx.DiGraph()
    out.add_nodes_from(partial.names)
    out.add_edges_from((partial.names[u], partial.names[v]) for u, v in np.argwhere(arrows).tolist())
    while left:
        sink = next((v for v in _bits(left) if not below[v] & left and _simplicial(v, free, joined, left)), None)
        if sink is None:
            stuck = listed(partial.names[v] for v in _bits(left))
            raise ModelError(
                f"no acyclic graph has these edges and v-structures: the directions among {stuck} clash",
                code="no-acyclic-graph",
            )
        out.add_edges_from((partial.names[u], partial.names[sink]) for u in _bits(free[sink] & left))
        left &= ~(1 << sink)
    return out


def _directions(partial: PartialGraph) -> NDArray[np.bool_]:
    arrows = _arrows(partial.marks)
    if np.any((partial.marks != NONE) & ~arrows & ~arrows.T & ~((partial.marks == TAIL) & (partial.marks.T == TAIL))):
        raise ModelError(
            "the graph has circles or ↔; only one of arrows and undirected edges stands for a class of DAGs",
            code="not-a-graph",
        )
    return arrows


def _mask(row: NDArray[np.bool_]) -> int:
    return sum(1 << u for u in np.flatnonzero(row).tolist())


def _simplicial(v: int, free: Sequence[int], joined: Sequence[int], left: int) -> bool:
    """Whether each undirected neighbour of v is adjacent to all other neighbours of v."""
    around = joined[v] & left
    return all(not around & ~joined[u] & ~(1 << u) for u in _bits(free[v] & left))


def members(graph: PartialGraph | nx.DiGraph) -> Iterator[nx.DiGraph]:
    """Yield all DAGs of a class.

    Parameters
    ----------
    graph
        A DAG that represents its class, or a partially directed graph as for :func:`extension`.

    Notes
    -----
    A class has up to n! members; the class of a complete graph on n nodes has n!.
    """
    if isinstance(graph, nx.DiGraph) and nx.is_directed_acyclic_graph(graph):
        graph = cpdag(graph)
    partial = PartialGraph.of(graph)
    _directions(partial)
    yield from _members(partial.names, meek_closure(partial.marks), v_structures(extension(partial)))


def _members(names: tuple[str, ...], marks: NDArray[np.int8], corners: frozenset[VStructure]) -> Iterator[nx.DiGraph]:
    free = np.argwhere(np.triu((marks == TAIL) & (marks.T == TAIL)))
    if not len(free):
        graph = nx.DiGraph()
        graph.add_nodes_from(names)
        graph.add_edges_from((names[u], names[v]) for u, v in np.argwhere(marks == ARROW).tolist())
        if nx.is_directed_acyclic_graph(graph) and v_structures(graph) == corners:
            yield graph
        return
    for u, v in (free[0], free[0][::-1]):
        chosen = marks.copy()
        chosen[u, v] = ARROW
        yield from _members(names, meek_closure(chosen), corners)


def _aligned(first: PartialGraph, second: PartialGraph) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    if set(first.names) != set(second.names):
        odd = listed(set(first.names) ^ set(second.names))
        raise ModelError(
            f"graphs are compared on the same variables; only one of the two has {odd}", code="unknown-variable"
        )
    order = [second.names.index(v) for v in first.names]
    return first.marks, second.marks[np.ix_(order, order)]


def hamming_distance(first: PartialGraph | nx.DiGraph, second: PartialGraph | nx.DiGraph) -> int:
    """Structural Hamming distance: pairs of variables with an edge in one graph only, or of another kind.

    A reversed edge counts once. For two DAGs the directions are compared as they are; see
    :func:`class_distance` to compare their classes.
    """
    a, b = _aligned(PartialGraph.of(first), PartialGraph.of(second))
    return int(np.count_nonzero(np.triu((a != b) | (a.T != b.T))))


def _class_of(graph: PartialGraph | nx.DiGraph) -> PartialGraph:
    acyclic = isinstance(graph, nx.DiGraph) and nx.is_directed_acyclic_graph(graph)
    return cpdag(graph) if acyclic else PartialGraph.of(graph)


def class_distance(first: PartialGraph | nx.DiGraph, second: PartialGraph | nx.DiGraph) -> int:
    """Structural Hamming distance of equivalence classes: DAGs are replaced by their CPDAGs first [5]_."""
    return hamming_distance(_class_of(first), _class_of(second))


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of true positives (tp), false positives (fp) and false negatives (fn)."""

    tp: int
    fp: int
    fn: int

    @property
    def precision(self) -> float:
        """Share of the found items that are correct; NaN if nothing was found."""
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else float("nan")

    @property
    def recall(self) -> float:
        """Share of the true items that were found; NaN if there are none."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else float("nan")

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; NaN if nothing was found and there are no true items."""
        total = 2 * self.tp + self.fp + self.fn
        return 2 * self.tp / total if total else float("nan")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of a learned graph with the true graph.

    Attributes
    ----------
    skeleton : Counts
        Edges without direction.
    arrows : Counts
        Arrows; a reversed arrow is both a false positive and a false negative.
    distance, class_distance : int
        Structural Hamming distance of the graphs, and of their equivalence classes.
    """

    skeleton: Counts
    arrows: Counts
    distance: int
    class_distance: int

    def row(self) -> dict[str, float]:
        """All numbers by name, as a row of a table."""
        parts = {"skeleton": self.skeleton, "arrows": self.arrows}
        numbers = {
            f"{what}_{word}": getattr(counts, word)
            for what, counts in parts.items()
            for word in ("tp", "fp", "fn", "precision", "recall")
        }
        return {**numbers, "shd": self.distance, "shd_cpdag": self.class_distance}


def compare(learned: PartialGraph | nx.DiGraph, truth: PartialGraph | nx.DiGraph) -> Comparison:
    """Compare a learned graph with the true graph.

    Raises
    ------
    ModelError
        The graphs have different variables.
    """
    a, b = _aligned(PartialGraph.of(learned), PartialGraph.of(truth))
    return Comparison(
        _counts(np.triu(a != NONE), np.triu(b != NONE)),
        _counts(_arrows(a), _arrows(b)),
        hamming_distance(learned, truth),
        class_distance(learned, truth),
    )


def _counts(learned: NDArray[np.bool_], there: NDArray[np.bool_]) -> Counts:
    return Counts(*(int(np.count_nonzero(w)) for w in (learned & there, learned & ~there, there & ~learned)))


def comparison_table(
    learned: Mapping[str, PartialGraph | nx.DiGraph], truth: PartialGraph | nx.DiGraph
) -> list[dict[str, float | str]]:
    """Return one row for each learned graph, with its name under ``graph``, as a list for a dataframe."""
    return [{"graph": name, **compare(graph, truth).row()} for name, graph in learned.items()]
