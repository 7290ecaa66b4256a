"""Identification of causal effects from observational distributions: the ID algorithm.

An unobserved common cause becomes a bidirected arc between the observed variables that it affects. These
arcs divide the observed variables into *districts* (c-components). The observational distribution is a
product with one factor Q for each district, which can be computed from it [1]_. The effect of X on Y
needs the factors of the districts of Y's ancestors without X. Each of these lies inside a district of the
whole graph; its factor is computed by summing out non-ancestors and splitting again. If this fails, there
are two models with the same observational distribution but different effects: the effect is not
identifiable [2]_ [3]_.

References
----------
.. [1] Tian, Pearl (2002). A general identification condition for causal effects. AAAI 18, 567-573.
.. [2] Shpitser, Pearl (2006). Identification of joint interventional distributions in recursive
   semi-Markovian causal models. AAAI 21, 1219-1226.
.. [3] Huang, Valtorta (2006). Identifiability in causal Bayesian networks: a sound and complete
   algorithm. AAAI 21, 1149-1154.
.. [4] Verma (1993). Graphical aspects of causal models. UCLA technical report R-191 (latent projection).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import networkx as nx
import numpy as np

from bayeslab.errors import ModelError
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.variable_elimination import eliminate

__all__ = ["Formula", "general_formula"]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The factor P(variable | given) of the observational distribution."""

    variable: str
    given: tuple[str, ...]

    def __str__(self) -> str:
        return f"P({self.variable}{' | ' + ', '.join(self.given) if self.given else ''})"

    def table(self, joint: np.ndarray, names: Sequence[str]) -> np.ndarray:
        kept = {self.variable, *self.given}
        both = joint.sum(axis=tuple(i for i, v in enumerate(names) if v not in kept), keepdims=True)
        return _ratio(both, both.sum(axis=names.index(self.variable), keepdims=True))


@dataclass(frozen=True, slots=True)
class _Product:
    parts: tuple[_Expression, ...]

    def __str__(self) -> str:
        return " ".join(f"[{part}]" if isinstance(part, _Sum) else str(part) for part in self.parts) or "1"

    def table(self, joint: np.ndarray, names: Sequence[str]) -> np.ndarray:
        out = np.ones((1,) * len(names))
        for part in self.parts:
            out = out * part.table(joint, names)
        return out


@dataclass(frozen=True, slots=True)
class _Sum:
    over: tuple[str, ...]
    of: _Expression

    def __str__(self) -> str:
        return f"Σ_{{{', '.join(self.over)}}} {self.of}"

    def table(self, joint: np.ndarray, names: Sequence[str]) -> np.ndarray:
        return self.of.table(joint, names).sum(axis=tuple(names.index(v) for v in self.over), keepdims=True)


@dataclass(frozen=True, slots=True)
class _Ratio:
    above: _Expression
    below: _Expression

    def __str__(self) -> str:
        return f"{{{self.above}}} / {{{self.below}}}"

    def table(self, joint: np.ndarray, names: Sequence[str]) -> np.ndarray:
        return _ratio(self.above.table(joint, names), self.below.table(joint, names))


type _Expression = _Seen | _Product | _Sum | _Ratio


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Ratio of two tables; zero where the denominator is zero."""
    above, below = np.broadcast_arrays(above, below)
    return np.divide(above, below, out=np.zeros(above.shape), where=below > 0)


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula for P(outcome | do(treatment)) in terms of the observational distribution.

    Attributes
    ----------
    treatment, outcome : str
    names : tuple of str
        The variables that must be observed.
    """

    treatment: str
    outcome: str
    names: tuple[str, ...]
    _expression: _Expression

    def __str__(self) -> str:
        return f"P({self.outcome} | do({self.treatment})) = {self._expression}"

    def evaluate(self, network: DiscreteNetwork) -> np.ndarray:
        """Return P(outcome | do(treatment)), one row per treatment state, from the joint distribution of ``names``.

        Raises
        ------
        ModelError
            The formula conditions on an event of probability zero.
        """
        table = self._expression.table(eliminate(network, self.names), self.names)
        # The formula may contain variables on which its value does not depend; if one of their states
        # never occurs with the treatment, another one does.
        kept = (self.names.index(self.treatment), self.names.index(self.outcome))
        table = table.max(axis=tuple(i for i in range(table.ndim) if i not in kept), keepdims=True)
        shape = tuple(len(network.states[v]) if v in (self.treatment, self.outcome) else 1 for v in self.names)
        out = np.broadcast_to(table, shape).reshape([s for i, s in enumerate(shape) if i in kept])
        if np.any(np.abs(out.sum(axis=int(kept[0] < kept[1])) - 1) > 1e-6):
            raise ModelError(
                f"some state of '{self.treatment}' never occurs together with some states of"
                f" {', '.join(v for v in self.names if v not in (self.treatment, self.outcome))}: the formula needs it",
                code="probability-zero",
            )
        return out if kept[0] < kept[1] else out.T


@dataclass(frozen=True, slots=True)
class _Mixed:
    """Observed variables in causal order, the arrows among them, and the pairs with an unobserved common cause."""

    order: tuple[str, ...]
    arrows: nx.DiGraph
    shared: nx.Graph

    def ancestors(self, names: Iterable[str], within: Iterable[str]) -> frozenset[str]:
        part = self.arrows.subgraph(within)
        return frozenset(names).union(*(nx.ancestors(part, v) for v in names))

    def districts(self, within: Iterable[str]) -> list[frozenset[str]]:
        return [frozenset(c) for c in nx.connected_components(self.shared.subgraph(within))]

    def sorted(self, names: Iterable[str]) -> tuple[str, ...]:
        wanted = set(names)
        return tuple(v for v in self.order if v in wanted)


def _projection(graph: nx.DiGraph, observed: frozenset[str]) -> _Mixed:
    """Return the latent projection of the graph onto the observed variables [4]_."""
    arrows, shared = nx.DiGraph(), nx.Graph()
    arrows.add_nodes_from(sorted(observed))
    shared.add_nodes_from(sorted(observed))
    reached = {v: _through_hidden(graph, v, observed) for v in graph}
    arrows.add_edges_from((v, w) for v in observed for w in reached[v])
    shared.add_edges_from(pair for v in graph if v not in observed for pair in combinations(sorted(reached[v]), 2))
    return _Mixed(tuple(nx.lexicographical_topological_sort(arrows)), arrows, shared)


def _through_hidden(graph: nx.DiGraph, start: str, observed: frozenset[str]) -> set[str]:
    """Return the observed variables reached by directed paths through unobserved variables."""
    reached, stack, visited = set(), [start], {start}
    while stack:
        for child in graph.successors(stack.pop()):
            if child in observed:
                reached.add(child)
            elif child not in visited:
                visited.add(child)
                stack.append(child)
    return reached


def general_formula(graph: nx.DiGraph, treatment: str, outcome: str, observed: Iterable[str]) -> Formula | None:
    """Return a formula for the effect from observed variables; ``None`` if it is not identifiable.

    Parameters
    ----------
    observed
        The variables that can be measured; treatment and outcome are included.
    """
    whole = _projection(graph, frozenset(observed) | {treatment, outcome})
    names = whole.sorted(whole.ancestors([outcome], whole.order) | {treatment})
    needed = whole.ancestors([outcome], set(names) - {treatment})
    parts = []
    for district in whole.districts(needed):
        (home,) = (d for d in whole.districts(names) if district <= d)
        part = _reach(whole, district, home, _district_factor(whole, names, home))
        if part is None:
            return None
        parts.append(part)
    left = whole.sorted(needed - {outcome})
    product: _Expression = parts[0] if len(parts) == 1 else _Product(tuple(_flat(parts)))
    return Formula(treatment, outcome, names, _sum(left, product))


def _flat(parts: Iterable[_Expression]) -> list[_Expression]:
    return [p for part in parts for p in (part.parts if isinstance(part, _Product) else (part,))]


def _sum(over: tuple[str, ...], of: _Expression) -> _Expression:
    if isinstance(of, _Sum):
        return _sum((*of.over, *over), of.of)
    return _Sum(over, of) if over else of


def _district_factor(whole: _Mixed, names: Sequence[str], district: frozenset[str]) -> _Expression:
    """Return Q of a district of the whole graph: each variable given its relevant predecessors."""
    parts = []
    for i, v in enumerate(names):
        if v in district:
            (component,) = (d for d in whole.districts(names[: i + 1]) if v in d)
            matter = component.union(*(whole.arrows.predecessors(u) for u in component)) - {v}
            parts.append(_Seen(v, whole.sorted(matter & set(names))))
    return parts[0] if len(parts) == 1 else _Product(tuple(parts))


def _reach(whole: _Mixed, wanted: frozenset[str], home: frozenset[str], factor: _Expression) -> _Expression | None:
    """Return Q of a subset from Q of the district that contains it."""
    above = whole.ancestors(wanted, home)
    summed = _sum(whole.sorted(home - above), factor)
    if above == wanted:
        return summed
    if above == home:
        return None
    (smaller,) = (d for d in whole.districts(above) if wanted <= d)
    order = whole.sorted(above)
    parts = [_step(order, i, summed) for i, v in enumerate(order) if v in smaller]
    return _reach(whole, wanted, smaller, parts[0] if len(parts) == 1 else _Product(tuple(parts)))


def _step(order: tuple[str, ...], i: int, factor: _Expression) -> _Expression:
    """Return the i-th conditional: the factor with later variables summed out, divided by its sum over the variable."""
    return _Ratio(_sum(order[i + 1 :], factor), _sum(order[i:], factor))
