r"""Case-based reasoning: retrieval of stored designs by function, described by graphs of qualitative influences.

A case is a design and the graph of its function: variables (flows, temperatures, controls) and arcs along which the
effect increases (+) or decreases (-) with the cause. A query is the graph of a wanted function. A case whose graph is
isomorphic to the query solves it. Otherwise cases are ranked by the number of query arcs that the best match of their
graph explains, and several cases are combined, each for arcs that are still unexplained, as CADET designs water taps
from a library of parts [1]_. A chain of influences is equivalent to one arc with the product of its signs:
:func:`elaborations` gives equivalent forms of a function.

Cases are not rows of a table, so this is not a learner of :mod:`bayeslab.learners`.

References
----------
.. [1] Sycara, Guttal, Koning, Narasimhan, Navinchandra (1992). CADET: a case-based synthesis tool for engineering
   design. International Journal of Expert Systems 4, 157-188.
.. [2] McGregor (1982). Backtrack search algorithms and the maximal common subgraph problem. Software: Practice and
   Experience 12, 23-34.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
from networkx.algorithms.isomorphism import DiGraphMatcher

from bayeslab.arrays import count
from bayeslab.errors import OptionError

__all__ = ["Case", "Match", "elaborations", "influences", "match", "retrieve", "synthesize"]

Arc = tuple[str, str]

# Limits of about a second, on variables of a graph and on maps tried; the number of maps grows factorially.
_VARIABLES, _TRIALS = 200, 20_000


def influences(arcs: Mapping[Arc, str] | Iterable[tuple[str, str, str]], kinds: Mapping[str, str]) -> nx.DiGraph:
    """Return a graph of qualitative influences.

    Parameters
    ----------
    arcs
        (cause, effect) to "+" or "-", or triples (cause, effect, sign).
    kinds
        Kind of each variable, such as flow, temperature, control; only variables of the same kind match.

    Raises
    ------
    OptionError
        A sign is neither "+" nor "-", a variable has no kind, or an arc is a duplicate or a self-loop.
    """
    graph = nx.DiGraph()
    for name, kind in kinds.items():
        graph.add_node(name, kind=kind)
    triples = [(u, v, sign) for (u, v), sign in arcs.items()] if isinstance(arcs, Mapping) else list(arcs)
    for u, v, sign in triples:
        if sign not in ("+", "-"):
            raise OptionError(f"the influence of {u} on {v} has the sign {sign!r}: write + or -", code="unknown-word")
        if u == v or graph.has_edge(u, v):
            raise OptionError(f"{u} → {v} is given twice, or is an influence of a variable on itself", code="duplicate")
        for name in (u, v):
            if name not in kinds:
                raise OptionError(f"variable {name!r} has no kind; there are {', '.join(kinds)}", code="unknown-word")
        graph.add_edge(u, v, sign=sign)
    return graph


@dataclass(frozen=True, eq=False)
class Case:
    """A stored design.

    Attributes
    ----------
    name : str
    function : networkx.DiGraph
        Graph as returned by :func:`influences`.
    design : object
        Any description of how it is built.
    """

    name: str
    function: nx.DiGraph
    design: Any = None


@dataclass(frozen=True, eq=False)
class Match:
    """The match of a case to a query.

    Attributes
    ----------
    case : Case
    variables : dict
        Map from variables of the query to variables of the case.
    arcs : frozenset
        Arcs of the query that the case explains.
    exact : bool
        Whether the case has exactly the wanted function.
    surplus : int
        Number of arcs of the case that the query does not contain.
    """

    case: Case
    variables: dict[str, str]
    arcs: frozenset[Arc]
    exact: bool
    surplus: int


def _same_kind(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return a.get("kind") == b.get("kind")


def _same_sign(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return a.get("sign") == b.get("sign")


def match(query: nx.DiGraph, case: Case, wanted: frozenset[Arc] | None = None) -> Match:
    """Return the best match of a case: an isomorphism, or else the map of variables that explains most arcs.

    Parameters
    ----------
    wanted
        The query arcs that count; default: all.

    Raises
    ------
    OptionError
        The graphs have too many variables of one kind: the best map is not found in 20,000 trials.
    """
    for name, graph in (("the query", query), (f"the case '{case.name}'", case.function)):
        if len(graph) > _VARIABLES:
            raise OptionError(
                f"{name} has {len(graph)} variables; graphs of up to {_VARIABLES} are matched", code="too-costly"
            )
    query_arcs = frozenset(query.edges)
    if wanted is None or wanted == query_arcs:
        same = DiGraphMatcher(query, case.function, node_match=_same_kind, edge_match=_same_sign)
        if same.is_isomorphic():
            return Match(case, dict(same.mapping), query_arcs, True, 0)
    wanted = query_arcs if wanted is None else wanted
    variables = _largest_common(query.edge_subgraph(wanted), case)
    arcs = frozenset(a for a in wanted if _explained(query, case.function, variables, a))
    used = {u for arc in arcs for u in arc}
    return Match(
        case,
        {u: v for u, v in variables.items() if u in used},
        arcs,
        False,
        case.function.number_of_edges() - len(arcs),
    )


def _explained(query: nx.DiGraph, other: nx.DiGraph, variables: Mapping[str, str], arc: Arc) -> bool:
    u, v = (variables.get(name) for name in arc)
    return other.has_edge(u, v) and other.edges[u, v]["sign"] == query.edges[arc]["sign"]


@dataclass
class _Search:
    """Branch and bound over maps of variables; the bound counts all open arcs as explained."""

    query: nx.DiGraph
    other: nx.DiGraph
    order: list[str]
    best: dict[str, str] = field(default_factory=dict)
    most: int = 0
    trials: int = 0

    def run(self, at: int, variables: dict[str, str], explained: int) -> None:
        self.trials += 1
        if self.trials > _TRIALS:
            raise OptionError(
                f"the best match of {len(self.order)} variables with {len(self.other)} was not found among"
                f" {_TRIALS:,} maps: give variables more kinds, or split the query",
                code="not-converged",
            )
        if explained > self.most:
            self.best, self.most = dict(variables), explained
        if at == len(self.order) or explained + self._open(at) <= self.most:
            return
        name = self.order[at]
        taken = set(variables.values())
        for target in self.other.nodes:
            if target in taken or not _same_kind(self.query.nodes[name], self.other.nodes[target]):
                continue
            variables[name] = target
            self.run(at + 1, variables, explained + self._gain(name, variables))
            del variables[name]
        self.run(at + 1, variables, explained)

    def _gain(self, name: str, variables: Mapping[str, str]) -> int:
        arcs = {*self.query.in_edges(name), *self.query.out_edges(name)}
        return sum(_explained(self.query, self.other, variables, arc) for arc in arcs)

    def _open(self, at: int) -> int:
        """Number of arcs with an end that is not yet mapped."""
        rest = set(self.order[at:])
        return sum(u in rest or v in rest for u, v in self.query.edges)


def _largest_common(query: nx.DiGraph, case: Case) -> dict[str, str]:
    # Variables with many arcs first, so that wrong maps are detected early.
    search = _Search(query, case.function, sorted(query.nodes, key=lambda n: (-query.degree(n), n)))
    try:
        search.run(0, {}, 0)
    except OptionError as error:
        raise OptionError(f"case '{case.name}': {error.message}", code=error.code) from None
    return search.best


def retrieve(query: nx.DiGraph, library: Iterable[Case], n: int | None = None) -> list[Match]:
    """Return the cases that explain some of the query, best first.

    Exact matches come first, then those that explain most arcs; ties are broken by the fewest surplus arcs, then by
    name.
    """
    if n is not None:
        count(n, "n")
    matches = [m for m in (match(query, case) for case in library) if m.exact or m.arcs]
    matches.sort(key=lambda m: (not m.exact, -len(m.arcs), m.surplus, m.case.name))
    return matches if n is None else matches[:n]


def synthesize(query: nx.DiGraph, library: Iterable[Case]) -> tuple[list[Match], frozenset[Arc]]:
    """Return cases that together explain the query, and the arcs that none explains.

    The search is greedy: it always adds the case that explains most of the open arcs.
    """
    cases = list(library)
    exact = next((m for m in retrieve(query, cases) if m.exact), None)
    if exact is not None:
        return [exact], frozenset()
    chosen: list[Match] = []
    left = frozenset(query.edges)
    while left:
        tried = [match(query, case, left) for case in cases]
        best = min(tried, key=lambda m: (-len(m.arcs), m.surplus, m.case.name), default=None)
        if best is None or not best.arcs:
            break
        chosen.append(best)
        left -= best.arcs
    return chosen, left


def elaborations(query: nx.DiGraph, kind: str, name: str = "x") -> Iterator[nx.DiGraph]:
    """Yield the function with each arc in turn replaced by a chain, A → B by A → x → B, with the same product of signs.

    Parameters
    ----------
    kind
        Kind of the new variable.
    """
    if name in query:
        raise OptionError(f"there is a variable {name!r} already: give another name", code="name-clash")
    for u, v, sign in query.edges.data("sign"):
        for first in "+-":
            second = "+" if (first == sign) else "-"
            graph = query.copy()
            graph.remove_edge(u, v)
            graph.add_node(name, kind=kind)
            graph.add_edge(u, name, sign=first)
            graph.add_edge(name, v, sign=second)
            yield graph
