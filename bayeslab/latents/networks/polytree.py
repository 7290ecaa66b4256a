"""Pearl's π/λ propagation on polytrees: nets with at most one path between any two variables.

Each variable X with parents U and children Y receives messages from its children, the likelihood λ_Y(x) of the evidence
below, and from its parents, their distribution π_X(u) given the evidence above:

    λ(x) = l(x) prod_Y λ_Y(x)                                            (14.24 of [2]_)
    π(x) = sum_u P(x | u) prod_U π_X(u)                                  (14.26)
    λ_X(u) = sum_x λ(x) sum_{u' ≠ u} P(x | u, u') prod_{U' ≠ U} π_X(u')  (14.25, to parent U)
    π_Y(x) = π(x) l(x) prod_{Y' ≠ Y} λ_Y'(x)                             (14.27, to child Y)

with l the hard or virtual evidence on X; P(x | evidence) is proportional to π(x) λ(x). Messages are sent once to a root
of each connected component and once back. They are logarithms with maximum 0, so that long chains and many children do
not underflow; the scale factors removed on the way to the roots add up to the log probability of the evidence.

References
----------
.. [1] Pearl (1988). Probabilistic Reasoning in Intelligent Systems, chapter 4. Morgan Kaufmann.
.. [2] Alpaydın (2020). Introduction to Machine Learning, 4th edition, section 14.5. MIT Press.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import accumulate
from typing import Any

import networkx as nx
import numpy as np

from bayeslab.errors import EngineRefusal, EvidenceError
from bayeslab.latents.networks.belief_propagation import Beliefs
from bayeslab.latents.networks.factors import read_evidence
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["propagate"]


def propagate(network: DiscreteNetwork, given: Mapping[str, Any] | None = None) -> Beliefs:
    """Exact marginals and the probability of the evidence in a polytree.

    Parameters
    ----------
    network : DiscreteNetwork
        Its undirected structure must have no loops; it need not be connected.
    given : mapping, optional
        Variable to state, or to likelihoods of its states (see `bayeslab.latents.networks.factors.read_evidence`).

    Raises
    ------
    EngineRefusal
        The structure has a loop.
    EvidenceError
        The evidence is unknown or has probability zero.
    """
    skeleton = network.graph.to_undirected()
    if not nx.is_forest(skeleton):
        loop = [a for a, _ in nx.find_cycle(skeleton)]
        raise EngineRefusal(
            f"the network has a loop: {' - '.join([*loop, loop[0]])}; π/λ propagation is exact only on polytrees."
            " The junction tree handles loops.",
            code="loops",
        )
    messages = _Messages(network, given)
    order, towards = _traversal(skeleton)
    for variable in reversed(order):
        messages.collect(variable, towards[variable])
    for variable in order:
        messages.distribute(variable, [v for v in skeleton[variable] if v != towards[variable]])
    return Beliefs({v: messages.belief(v) for v in network.states}, messages.log_evidence)


def _traversal(skeleton: nx.Graph) -> tuple[list[str], dict[str, str | None]]:
    """The variables in breadth-first order, and for each its neighbour nearer to the root of its component."""
    towards: dict[str, str | None] = {}
    order: list[str] = []
    for root in skeleton:
        if root in towards:
            continue
        towards[root] = None
        part = [root]
        for variable in part:
            for other in skeleton[variable]:
                if other not in towards:
                    towards[other] = variable
                    part.append(other)
        order += part
    return order, towards


class _Messages:
    """Log messages sent so far: ``pi[parent, child]`` and ``lam[child, parent]``."""

    def __init__(self, network: DiscreteNetwork, given: Mapping[str, Any] | None) -> None:
        evidence = read_evidence(network.states, given)
        self.parents = network.parents
        self.children: dict[str, list[str]] = {v: [] for v in network.states}
        for variable, above in network.parents.items():
            for parent in above:
                self.children[parent].append(variable)
        with np.errstate(divide="ignore"):
            self.log_tables = {v: np.log(t) for v, t in network.tables.items()}
            self.local = {v: np.zeros(len(s)) for v, s in network.states.items()}
            for variable, likelihood in evidence.likelihood.items():
                self.local[variable] = np.log(likelihood)
            for variable, code in evidence.hard.items():
                self.local[variable] = np.log(np.eye(len(network.states[variable]))[code])
        self.pi: dict[tuple[str, str], np.ndarray] = {}
        self.lam: dict[tuple[str, str], np.ndarray] = {}
        self.log_evidence = 0.0

    def collect(self, variable: str, target: str | None) -> None:
        """Send a message towards the root; the scale factors, also of the root, are added to the log evidence."""
        if target is None:
            self.log_evidence += float(np.logaddexp.reduce(self.of_parents(variable) + self.of_children(variable)))
        elif target in self.parents[variable]:
            message, scale = _scaled(self.to_parent(variable, target))
            self.lam[variable, target] = message
            self.log_evidence += scale
        else:
            others = [self.lam[c, variable] for c in self.children[variable] if c != target]
            message, scale = _scaled(sum(others, self.of_parents(variable) + self.local[variable]))
            self.pi[variable, target] = message
            self.log_evidence += scale
        if self.log_evidence == -np.inf:
            raise EvidenceError(
                "the evidence has probability zero: no joint state of the variables agrees with it",
                code="probability-zero",
            )

    def distribute(self, variable: str, targets: list[str]) -> None:
        """Send messages away from the root, to all targets in one pass."""
        above = [v for v in targets if v in self.parents[variable]]
        below = {v for v in targets if v not in self.parents[variable]}
        for parent in above:
            self.lam[variable, parent] = _scaled(self.to_parent(variable, parent))[0]
        if not below:
            return
        heard = [self.lam[c, variable] for c in self.children[variable]]
        start = self.of_parents(variable) + self.local[variable]
        for child, message in zip(self.children[variable], _without_each(heard, start), strict=True):
            if child in below:
                self.pi[variable, child] = _scaled(message)[0]

    def of_children(self, variable: str) -> np.ndarray:
        """log λ(x), equation 14.24."""
        return sum((self.lam[c, variable] for c in self.children[variable]), self.local[variable])

    def of_parents(self, variable: str) -> np.ndarray:
        """log π(x), equation 14.26."""
        axes = list(enumerate(self.parents[variable]))
        return reduce(
            lambda table, axis: _sum_out(table, axis[0], self.pi[axis[1], variable]),
            reversed(axes),
            self.log_tables[variable],
        )

    def to_parent(self, variable: str, parent: str) -> np.ndarray:
        """log λ_X(u), equation 14.25: all axes except the parent's are summed out, from the last to the first."""
        axes = [(axis, u) for axis, u in enumerate(self.parents[variable]) if u != parent]
        table = _sum_out(self.log_tables[variable], len(self.parents[variable]), self.of_children(variable))
        return reduce(lambda t, axis: _sum_out(t, axis[0], self.pi[axis[1], variable]), reversed(axes), table)

    def belief(self, variable: str) -> np.ndarray:
        """P(x | evidence), proportional to π(x) λ(x)."""
        both = self.of_parents(variable) + self.of_children(variable)
        return np.exp(both - np.logaddexp.reduce(both))


def _sum_out(table: np.ndarray, axis: int, message: np.ndarray) -> np.ndarray:
    shape = (-1,) + (1,) * (table.ndim - 1 - axis)
    return np.logaddexp.reduce(table + message.reshape(shape), axis=axis)


def _without_each(messages: list[np.ndarray], start: np.ndarray) -> list[np.ndarray]:
    """For each message the product of all others, by cumulative products from both ends: zeros rule out division."""
    nothing = np.zeros_like(start)
    before = accumulate(messages[:-1], np.add, initial=start)
    after = accumulate(messages[:0:-1], np.add, initial=nothing)
    return [a + b for a, b in zip(before, reversed(list(after)), strict=True)]


def _scaled(message: np.ndarray) -> tuple[np.ndarray, float]:
    peak = float(message.max())
    return (message - peak, peak) if peak > -np.inf else (message, peak)
