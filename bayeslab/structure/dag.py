"""Independence in directed acyclic graphs: d-separation, Markov blankets, implied independences.

A path between X and Y is *open* given Z if every inner node transmits information: a chain (a → v → b)
or a fork (a ← v → b) is open while v is not given, a collider (a → v ← b) is open once v or one of its
descendants is given. X and Y are d-separated by Z if no path is open. In every distribution that
factorises along the graph, X is then independent of Y given Z [1]_; otherwise they are dependent in
almost every such distribution. Open paths are found by a walk from X whose state is the current node and
the side it was entered from, in time linear in the size of the graph [2]_.

Functions take a ``networkx.DiGraph`` and return plain results.

References
----------
.. [1] Pearl (1988). Probabilistic Reasoning in Intelligent Systems, section 3.3.
.. [2] Koller, Friedman (2009). Probabilistic Graphical Models, algorithm 3.1; Shachter (1998).
   Bayes-ball. UAI 14, 480-487.
.. [3] Lauritzen, Dawid, Larsen, Leimer (1990). Independence properties of directed Markov fields.
   Networks 20, 491-505.
.. [4] Robinson (1977). Counting unlabeled acyclic digraphs. Combinatorial Mathematics V, 28-43.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import comb, prod
from typing import Literal

import networkx as nx

from bayeslab.errors import ModelError, hint
from bayeslab.questions import names_of

__all__ = [
    "Independence",
    "OpenPath",
    "ancestral_graph",
    "count_dags",
    "d_connected",
    "d_separated",
    "implied_independences",
    "markov_blanket",
    "moral_graph",
    "open_path",
    "parameter_counts",
    "separator",
]

# State of the walk: a node, and whether it was entered along an arrow (from above) or against one (from below).
type _Place = tuple[str, bool]


def names_in(graph: nx.DiGraph, names: str | Iterable[str]) -> frozenset[str]:
    """Return one or several names as a set, after checking that each is a node of the graph."""
    members = frozenset(names_of(names, "a set of variables"))
    for name in members:
        if name not in graph:
            raise ModelError(f"'{name}' is not a variable{hint(name, graph)}", code="unknown-variable")
    return members


def _sets(
    graph: nx.DiGraph, left: str | Iterable[str], right: str | Iterable[str], given: str | Iterable[str]
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    x, y, z = names_in(graph, left), names_in(graph, right), names_in(graph, given)
    if (x & y) or (x & z) or (y & z):
        name = min((x & y) | (x & z) | (y & z))
        raise ModelError(
            f"'{name}' is in two of the three sets; separation is asked of sets without common variables",
            code="duplicate",
        )
    if not nx.is_directed_acyclic_graph(graph):
        raise ModelError("the graph has a cycle; d-separation is defined for acyclic graphs", code="cycle")
    return x, y, z


def d_separated(
    graph: nx.DiGraph, left: str | Iterable[str], right: str | Iterable[str], given: str | Iterable[str] = ()
) -> bool:
    """Return whether ``left`` and ``right`` are d-separated by ``given``.

    Parameters
    ----------
    left, right, given
        A name, or a set of names; the sets are disjoint.

    Raises
    ------
    ModelError
        An unknown name, overlapping sets, or a graph with a cycle.
    """
    return bool(nx.is_d_separator(graph, *map(set, _sets(graph, left, right, given))))


def separator(graph: nx.DiGraph, x: str, y: str) -> frozenset[str] | None:
    """Return a minimal set that d-separates two variables; None if they are adjacent.

    Raises
    ------
    ModelError
        An unknown name, the same name twice, or a graph with a cycle.
    """
    left, right, _ = map(set, _sets(graph, x, y, ()))
    minimal = nx.find_minimal_d_separator(graph, left, right)
    return None if minimal is None else frozenset(minimal)


def d_connected(graph: nx.DiGraph, sources: str | Iterable[str], given: str | Iterable[str] = ()) -> frozenset[str]:
    """Return the variables d-connected to one of the sources, without the sources and the given variables.

    The time is linear in the numbers of nodes and edges.
    """
    x, _, z = _sets(graph, sources, (), given)
    return frozenset(node for node, _ in _walk(graph, x, z)) - x - z


@dataclass(frozen=True, slots=True)
class OpenPath:
    """An open path, and the given variables that open it.

    Attributes
    ----------
    nodes : tuple of str
    arrows : tuple of str
        ``→`` or ``←`` between consecutive nodes.
    opened_by : mapping of str to str
        For each collider on the path, the given variable (itself or a descendant) that opens it.
    """

    nodes: tuple[str, ...]
    arrows: tuple[str, ...]
    opened_by: Mapping[str, str]

    def __str__(self) -> str:
        path = self.nodes[0] + "".join(f" {a} {n}" for a, n in zip(self.arrows, self.nodes[1:], strict=True))
        why = [f"{v} is given" if v == z else f"{z}, below {v}, is given" for v, z in self.opened_by.items()]
        return f"{path} ({'; '.join(why)})" if why else path


def open_path(
    graph: nx.DiGraph, left: str | Iterable[str], right: str | Iterable[str], given: str | Iterable[str] = ()
) -> OpenPath | None:
    """Return a shortest open path between two sets; ``None`` if they are d-separated.

    See Also
    --------
    d_separated
    """
    x, y, z = _sets(graph, left, right, given)
    # A shortest open walk visits no node twice: without its loop it would still be open.
    came_from: dict[_Place, _Place | None] = {}
    for place in _walk(graph, x, z, came_from):
        if place[0] in y:
            return _path(graph, place, came_from, z)
    return None


def _walk(
    graph: nx.DiGraph,
    sources: frozenset[str],
    given: frozenset[str],
    came_from: dict[_Place, _Place | None] | None = None,
) -> Iterator[_Place]:
    """Breadth-first walk from the sources along open paths."""
    opening = _ancestors(graph, given)
    reached = {} if came_from is None else came_from
    reached |= {(node, False): None for node in sorted(sources)}
    queue = deque(reached)
    while queue:
        place = queue.popleft()
        node, from_above = place
        yield place
        onward: list[_Place] = []
        if node not in given:
            onward += [(child, True) for child in graph.successors(node)]
        if node in opening if from_above else node not in given:
            onward += [(parent, False) for parent in graph.predecessors(node)]
        for following in onward:
            if following not in reached:
                reached[following] = place
                queue.append(following)


def _path(graph: nx.DiGraph, end: _Place, came_from: Mapping[_Place, _Place | None], given: frozenset[str]) -> OpenPath:
    places = [end]
    while (previous := came_from[places[-1]]) is not None:
        places.append(previous)
    places.reverse()
    arrows = tuple("→" if from_above else "←" for _, from_above in places[1:])
    inner = zip(places[1:-1], pairwise(arrows), strict=True)
    colliders = [node for (node, _), around in inner if around == ("→", "←")]
    opened_by = {v: v if v in given else min(given & nx.descendants(graph, v)) for v in colliders}
    return OpenPath(tuple(node for node, _ in places), arrows, opened_by)


def _ancestors(graph: nx.DiGraph, nodes: frozenset[str]) -> frozenset[str]:
    """Return the nodes and their ancestors."""
    ancestors, stack = set(nodes), list(nodes)
    while stack:
        new = [parent for parent in graph.predecessors(stack.pop()) if parent not in ancestors]
        ancestors.update(new)
        stack += new
    return frozenset(ancestors)


def markov_blanket(graph: nx.DiGraph, variable: str) -> frozenset[str]:
    """Return the Markov blanket: parents, children, and the other parents of the children."""
    (name,) = names_in(graph, variable)
    children = set(graph.successors(name))
    above = {parent for child in children for parent in graph.predecessors(child)}
    return frozenset((children | above | set(graph.predecessors(name))) - {name})


def moral_graph(graph: nx.DiGraph) -> nx.Graph:
    """Return the moral graph: parents of a common child are joined, directions dropped; node attributes are kept."""
    return nx.moral_graph(graph)


def ancestral_graph(graph: nx.DiGraph, nodes: str | Iterable[str]) -> nx.DiGraph:
    """Return the subgraph of some nodes and their ancestors.

    X and Y are d-separated by Z exactly when Z separates them in the moral graph of the ancestral
    graph of all three [3]_.
    """
    return graph.subgraph(_ancestors(graph, names_in(graph, nodes))).copy()


@dataclass(frozen=True, slots=True)
class Independence:
    """``left`` is independent of ``right`` given ``given``."""

    left: frozenset[str]
    right: frozenset[str]
    given: frozenset[str]

    def __str__(self) -> str:
        left, right, given = (", ".join(sorted(names)) for names in (self.left, self.right, self.given))
        return f"{left} ⊥ {right}" + (f" | {given}" if given else "")


def implied_independences(graph: nx.DiGraph, basis: Literal["local", "pairwise"] = "local") -> list[Independence]:
    """Return independence statements from which all others follow.

    Parameters
    ----------
    basis
        ``local``: each variable is independent of its non-descendants given its parents; all
        d-separations follow [3]_. ``pairwise``: one statement for each non-adjacent pair, given the
        parents of the later variable; use these to test against data. All d-separations follow from
        them if independence of A and of B implies joint independence, as in Gaussian distributions;
        for discrete variables this may fail (exclusive or).
    """
    if basis == "local":
        return [statement for node in graph if (statement := _local(graph, node)) is not None]
    if basis != "pairwise":
        raise ModelError(f"no basis '{basis}'{hint(basis, ('local', 'pairwise'))}", code="unknown-word")
    order = list(nx.lexicographical_topological_sort(graph, key=str))
    return [
        Independence(frozenset({later}), frozenset({earlier}), frozenset(graph.predecessors(later)))
        for i, later in enumerate(order)
        for earlier in order[:i]
        if not graph.has_edge(earlier, later)
    ]


def _local(graph: nx.DiGraph, node: str) -> Independence | None:
    parents = frozenset(graph.predecessors(node))
    others = frozenset(graph) - nx.descendants(graph, node) - parents - {node}
    return Independence(frozenset({node}), others, parents) if others else None


@cache
def count_dags(n_nodes: int) -> int:
    """Return the number of directed acyclic graphs on labelled nodes: 1, 1, 3, 25, 543, 29281, …

    References
    ----------
    Robinson (1977): inclusion-exclusion over the k nodes without parents.
    """
    if n_nodes < 0:
        raise ModelError(f"a graph has 0 nodes or more, not {n_nodes}", code="out-of-range")
    if n_nodes == 0:
        return 1
    return sum(
        (-1) ** (k + 1) * comb(n_nodes, k) * 2 ** (k * (n_nodes - k)) * count_dags(n_nodes - k)
        for k in range(1, n_nodes + 1)
    )


def parameter_counts(graph: nx.DiGraph, n_states: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the number of free parameters of each variable's full table.

    Parameters
    ----------
    n_states
        Number of states of each variable; default: the lengths of the node attribute ``states``, as in
        :attr:`bayeslab.latents.networks.network.DiscreteNetwork.graph`.
    """
    sizes = {v: len(states) for v, states in graph.nodes(data="states") if states} if n_states is None else n_states
    for node in graph:
        if node not in sizes:
            raise ModelError(f"how many states '{node}' has is not said{hint(node, sizes)}", code="incomplete")
    return {v: (sizes[v] - 1) * prod(sizes[p] for p in graph.predecessors(v)) for v in graph}
