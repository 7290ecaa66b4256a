"""Influence diagrams: optimal sequential decisions, and the value of information.

A diagram has chance nodes with conditional tables, decisions with options, and utilities that are added
[1]_. An arc into a decision means that its tail is known when the decision is taken; what was known or
decided before is never forgotten. The optimal policy makes every decision a function of its past. It is
found backwards in time: sum over what is never observed, maximise over the last decision for each
observed past, sum over what is first observed before that decision, maximise again, ...

.. math:: \\sum_{I_0} \\max_{D_1} \\sum_{I_1} \\max_{D_2} \\cdots \\sum_{I_n} \\prod_v p(v \\mid pa(v)) \\sum_k u_k

Variables are eliminated one at a time on pairs of potentials, probabilities φ and utilities ψ: summing
out X gives φ' = Σ φ and ψ' = Σ φψ / φ'; maximising over D gives ψ' = max ψ [2]_. Factors are multiplied
as late as possible [3]_, and observations that cannot change the best option are found beforehand by
d-separation and dropped [4]_.

References
----------
.. [1] Howard, Matheson (1984/2005). Influence diagrams. Decision Analysis 2, 127-143.
.. [2] Jensen, Jensen, Dittmer (1994). From influence diagrams to junction trees. UAI 10, 367-373.
.. [3] Madsen, Jensen (1999). Lazy evaluation of symmetric Bayesian decision problems. UAI 15, 382-390.
.. [4] Nielsen, Jensen (1999). Well-defined decision scenarios. UAI 15, 502-511; Shachter (1999).
   Efficient value of information computation. UAI 15, 594-601.
.. [5] Raiffa (1968). Decision Analysis. Addison-Wesley.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import networkx as nx
import numpy as np

from bayeslab.errors import EngineRefusal, EvidenceError, ModelError, OptionError, hint
from bayeslab.latents.networks.factors import read_evidence
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.triangulation import available_bytes
from bayeslab.questions import names_of
from bayeslab.structure.dag import d_connected

__all__ = [
    "InfluenceDiagram",
    "Policy",
    "Rule",
    "evaluate",
    "expected_utilities",
    "information_values",
    "required_observations",
    "solve",
    "under_policy",
    "value_of_information",
]

# Bytes per entry of a table that is formed as a product and then summed.
_BYTES = 16


@dataclass(frozen=True, eq=False)
class InfluenceDiagram:
    """An influence diagram: chance nodes, decisions and utilities.

    Parameters
    ----------
    states : mapping of str to tuple of str
        The states of each chance node and the options of each decision, in order.
    parents : mapping of str to tuple of str
        For a chance node, the variables that its table is conditional on; for a decision, what is known
        when it is taken (earlier knowledge and decisions need not be repeated); for a utility, the
        variables it depends on. Nodes without parents may be omitted.
    tables : mapping of str to ndarray
        P(chance node | parents): shape (states of parent 1, ..., states of the node).
    utilities : mapping of str to ndarray
        Shape (states of parent 1, ..., states of the last parent). The utilities are added.
    decisions : tuple of str
        The decisions in the order in which they are taken.
    name : str

    Raises
    ------
    ModelError
        An unknown parent, a cycle, a table of the wrong shape or one that does not sum to one, a
        utility that is not finite, or a decision with an arc into an earlier decision.
    """

    states: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, np.ndarray]
    utilities: Mapping[str, np.ndarray]
    decisions: tuple[str, ...]
    name: str = "decisions"

    def __post_init__(self) -> None:
        states = {str(v): tuple(map(str, s)) for v, s in self.states.items()}
        nodes = [*states, *self.utilities]
        listed: dict[str, Any] = {v: self.parents.get(v, ()) for v in nodes}
        parents = {v: (above,) if isinstance(above, str) else tuple(above) for v, above in listed.items()}
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "decisions", tuple(self.decisions))
        for node in (*self.parents, *self.tables, *self.decisions):
            if node not in nodes:
                raise ModelError(
                    f"'{node}' has parents, a table or options but no states{hint(node, nodes)}",
                    code="unknown-variable",
                )
        for node in states.keys() & self.utilities.keys():
            raise ModelError(f"'{node}' is a utility and has states; utilities have none", code="conflict")
        for node, above in parents.items():
            _check_parents(node, above, states)
        object.__setattr__(self, "parents", parents)
        utilities = {v: _utility(v, u, tuple(len(states[p]) for p in parents[v])) for v, u in self.utilities.items()}
        object.__setattr__(self, "utilities", utilities)
        object.__setattr__(self, "tables", _chance_tables(states, parents, self.tables, self.decisions))
        _check_order(self)

    @classmethod
    def of(
        cls,
        network: DiscreteNetwork,
        *,
        decisions: Mapping[str, Sequence[str]],
        known: Mapping[str, Sequence[str]],
        utilities: Mapping[str, tuple[Sequence[str], Any]],
    ) -> InfluenceDiagram:
        """Return a diagram of decisions about the variables of a network; the decisions do not affect the network.

        Parameters
        ----------
        decisions
            Each decision and its options.
        known
            For each decision, the variables that are known when it is taken.
        utilities
            For each utility, the variables it depends on and its table.

        Examples
        --------
        The state with the largest posterior probability, by a utility of 1 for the right one::

            InfluenceDiagram.of(network, decisions={"say": states}, known={"say": symptoms},
                                utilities={"right": (("disease", "say"), np.eye(len(states)))})
        """
        states = {**network.states, **{d: tuple(options) for d, options in decisions.items()}}
        arcs = {d: tuple(known.get(d, ())) for d in decisions} | {u: tuple(on) for u, (on, _) in utilities.items()}
        worth = {u: table for u, (_, table) in utilities.items()}
        return cls(states, {**network.parents, **arcs}, network.tables, worth, tuple(decisions), network.name)

    @property
    def graph(self) -> nx.DiGraph:
        """The graph of the diagram; the node attribute ``kind`` is chance, decision or utility."""
        out = nx.DiGraph(name=self.name)
        for node, above in self.parents.items():
            kind = "utility" if node in self.utilities else "decision" if node in self.decisions else "chance"
            out.add_node(node, kind=kind, states=self.states.get(node, ()))
            out.add_edges_from((parent, node) for parent in above)
        return out

    def past(self, decision: str) -> tuple[str, ...]:
        """Return what is known when a decision is taken: earlier decisions, their past, and new observations."""
        self._check_decision(decision)
        known: dict[str, None] = {}
        for earlier in self.decisions:
            known |= dict.fromkeys(self.parents[earlier])
            if earlier == decision:
                break
            known[earlier] = None
        return tuple(known)

    def _check_decision(self, name: str) -> None:
        if name not in self.decisions:
            raise ModelError(f"'{name}' is not a decision{hint(name, self.decisions)}", code="unknown-variable")


def _check_parents(node: str, above: tuple[str, ...], states: Mapping[str, tuple[str, ...]]) -> None:
    for parent in above:
        if parent not in states:
            raise ModelError(
                f"'{parent}', a parent of '{node}', has no states{hint(parent, states)}", code="unknown-variable"
            )
    if len(set(above)) < len(above):
        raise ModelError(f"'{node}' has a parent twice", code="duplicate")


def _utility(node: str, table: Any, shape: tuple[int, ...]) -> np.ndarray:
    out = np.array(table, dtype=float)
    if out.shape != shape:
        given, want = (" × ".join(map(str, s)) or "a number" for s in (out.shape, shape))
        raise ModelError(f"the utility '{node}' is {given}; its parents make {want}", code="wrong-shape")
    if not np.all(np.isfinite(out)):
        raise ModelError(f"the utility '{node}' has an entry that is not finite", code="not-finite")
    return out


def _chance_tables(
    states: Mapping[str, tuple[str, ...]],
    parents: Mapping[str, tuple[str, ...]],
    tables: Mapping[str, np.ndarray],
    decisions: tuple[str, ...],
) -> Mapping[str, np.ndarray]:
    """Check and normalise the tables as those of a network in which the decisions are roots."""
    for decision in decisions:
        if decision in tables:
            raise ModelError(f"'{decision}' is a decision: it has options and no table", code="conflict")
    roots = {d: np.full(len(states[d]), 1 / max(len(states[d]), 1)) for d in decisions}
    above = {v: () if v in roots else parents[v] for v in states}
    checked = DiscreteNetwork(states, above, {**tables, **roots}).tables
    return {v: checked[v] for v in states if v not in roots}


def _check_order(diagram: InfluenceDiagram) -> None:
    graph = diagram.graph
    if not nx.is_directed_acyclic_graph(graph):
        circle = [a for a, _ in nx.find_cycle(graph)]
        raise ModelError(f"the diagram has a cycle: {' -> '.join([*circle, circle[0]])}", code="cycle")
    for i, later in enumerate(diagram.decisions):
        for earlier in diagram.decisions[:i]:
            if later == earlier:
                raise ModelError(f"'{later}' is in the order of decisions twice", code="duplicate")
            if nx.has_path(graph, later, earlier):
                raise ModelError(
                    f"'{earlier}' is taken before '{later}' but depends on it: order them the other way",
                    code="contradiction",
                )


@dataclass(frozen=True, eq=False)
class Rule:
    """One decision as a function of what is known.

    Attributes
    ----------
    decision : str
    options : tuple of str
    known : mapping of str to tuple of str
        The variables that the choice depends on, with their states.
    choices : ndarray of int
        Index of the option to take, with one axis for each variable in ``known``.
    """

    decision: str
    options: tuple[str, ...]
    known: Mapping[str, tuple[str, ...]]
    choices: np.ndarray

    def choose(self, past: Mapping[str, str]) -> str:
        """Return the option to take; ``past`` may omit variables that the choice does not depend on."""
        for name in self.known:
            if name not in past:
                raise EvidenceError(f"'{self.decision}' depends on '{name}': give its state", code="incomplete")
        seen = read_evidence(self.known, {name: past[name] for name in self.known})
        for name in seen.likelihood:
            raise EvidenceError(
                f"'{self.decision}' depends on '{name}': give its state, not likelihoods", code="wrong-type"
            )
        codes = seen.hard
        return self.options[int(self.choices[tuple(codes[name] for name in self.known)])]

    def rows(self) -> list[dict[str, str]]:
        """Return the rule as rows: the states of the known variables, and the option under the name of the decision."""
        return [
            {name: states[code] for (name, states), code in zip(self.known.items(), place, strict=True)}
            | {self.decision: self.options[int(option)]}
            for place, option in np.ndenumerate(self.choices)
        ]


@dataclass(frozen=True, eq=False)
class Policy:
    """The optimal rules and their expected utility.

    Attributes
    ----------
    rules : mapping of str to Rule
    expected_utility : float
        Expected utility of following the rules: the maximum over all policies.
    """

    rules: Mapping[str, Rule]
    expected_utility: float

    def choose(self, decision: str, past: Mapping[str, str] | None = None) -> str:
        """Return the option to take, given what is known."""
        if decision not in self.rules:
            raise ModelError(f"no rule for '{decision}'{hint(decision, self.rules)}", code="unknown-variable")
        return self.rules[decision].choose(past or {})


def solve(diagram: InfluenceDiagram, given: Mapping[str, Any] | None = None) -> Policy:
    """Return the policy with the largest expected utility; the first option on a tie.

    Parameters
    ----------
    given
        What is already known, and decisions already taken: variable to state, or to a mapping from
        states to likelihoods. The rules are then for the remaining decisions.

    Raises
    ------
    EngineRefusal
        The diagram is too large; the message says how large.
    EvidenceError
        The evidence is impossible, or is observed only after a remaining decision.
    """
    problem = _problem(diagram, given or {})
    steps = _plan(problem)
    return _eliminate(problem, steps)


def expected_utilities(diagram: InfluenceDiagram, given: Mapping[str, Any] | None = None) -> dict[str, float]:
    """Return the expected utility of each option of the first remaining decision, if later ones are optimal.

    Parameters
    ----------
    given
        As in :func:`solve`. The option is taken regardless of observations before it that are not given.
    """
    _observe(diagram, given or {})
    remaining = [d for d in diagram.decisions if d not in (given or {})]
    if not remaining:
        raise OptionError("every decision is taken: there is nothing to choose", code="nothing-to-decide")
    first = remaining[0]
    return {
        option: solve(diagram, {**(given or {}), first: option}).expected_utility for option in diagram.states[first]
    }


def under_policy(diagram: InfluenceDiagram, rules: Mapping[str, Rule]) -> InfluenceDiagram:
    """Return the diagram with decisions replaced by chance nodes that follow their rules.

    With a rule for every decision, the result is an ordinary network with utilities.
    """
    parents, tables = dict(diagram.parents), dict(diagram.tables)
    for decision, rule in rules.items():
        past = diagram.past(decision)
        if not isinstance(rule, Rule):
            raise ModelError(f"the rule for '{decision}' is a Rule, not {rule!r:.60}", code="wrong-type")
        for name in rule.known:
            if name not in past:
                raise ModelError(
                    f"the rule for '{decision}' uses '{name}', which is not known by then{hint(name, past)}",
                    code="misplaced",
                )
        parents[decision] = tuple(rule.known)
        tables[decision] = np.eye(len(diagram.states[decision]))[rule.choices]
    remaining = tuple(d for d in diagram.decisions if d not in rules)
    # Later decisions may still know what a rule ignores.
    parents |= {d: tuple(n for n in diagram.past(d)) for d in remaining}
    return replace(diagram, parents=parents, tables=tables, decisions=remaining)


def evaluate(diagram: InfluenceDiagram, rules: Mapping[str, Rule]) -> float:
    """Return the expected utility of following the rules, with optimal decisions where no rule is given."""
    return solve(under_policy(diagram, rules)).expected_utility


def value_of_information(
    diagram: InfluenceDiagram,
    variables: str | Iterable[str],
    decision: str,
    given: Mapping[str, Any] | None = None,
) -> float:
    """Return the gain in expected utility from knowing chance variables before a decision.

    For the quantity of interest itself this is the expected value of perfect information; for a test or
    a sample it is the expected value of sample information. If utility is money, it is the largest price
    worth paying.

    References
    ----------
    Howard (1966). Information value theory. IEEE Transactions on Systems Science and Cybernetics 2, 22-26.
    """
    diagram._check_decision(decision)
    _observe(diagram, given or {})
    if decision in (given or {}):
        raise EvidenceError(
            f"'{decision}' is taken already: nothing can be known before it any more; ask about a later decision",
            code="conflict",
        )
    names = names_of(variables, "variables")
    below = nx.descendants(diagram.graph, decision)
    for name in names:
        if name not in diagram.tables:
            raise ModelError(f"'{name}' is not a chance variable{hint(name, diagram.tables)}", code="unknown-variable")
        if name in below:
            raise ModelError(f"'{name}' depends on '{decision}' and cannot be known before it", code="not-applicable")
    known = tuple(dict.fromkeys((*diagram.parents[decision], *names)))
    informed = replace(diagram, parents={**diagram.parents, decision: known})
    with_it, without = (solve(d, given).expected_utility for d in (informed, diagram))
    return max(with_it - without, 0.0)


def information_values(
    diagram: InfluenceDiagram, given: Mapping[str, Any] | None = None
) -> dict[tuple[str, str], float]:
    """Return (decision, variable) → value of knowing the variable before the decision, largest first.

    Includes all chance variables that are not known by then and depend neither on the decision nor on a later one.
    """
    _observe(diagram, given or {})
    out = {}
    for place, decision in enumerate(diagram.decisions):
        if decision in (given or {}):
            continue
        later = set().union(*(nx.descendants(diagram.graph, d) for d in list(diagram.decisions)[place:]))
        open_ = diagram.tables.keys() - set(diagram.past(decision)) - later
        for variable in sorted(open_ - (given or {}).keys()):
            gain = value_of_information(diagram, variable, decision, given)
            out[decision, variable] = gain
    return dict(sorted(out.items(), key=lambda item: -item[1]))


def required_observations(diagram: InfluenceDiagram) -> dict[str, tuple[str, ...]]:
    """Return, for each decision, the part of its past that can change the best option, by d-separation.

    References
    ----------
    Nielsen, Jensen (1999): from the last decision to the first, with what later ones require.
    """
    pasts = {d: diagram.past(d) for d in diagram.decisions}
    return _required(diagram.graph, pasts, diagram.utilities.keys())


def _required(
    graph: nx.DiGraph, pasts: Mapping[str, tuple[str, ...]], utilities: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    graph = graph.copy()
    for decision, past in pasts.items():
        graph.add_edges_from((name, decision) for name in past)
    out: dict[str, tuple[str, ...]] = {}
    for decision in reversed(list(pasts)):
        aims = nx.descendants(graph, decision) & set(utilities)
        known = {decision, *pasts[decision]}
        out[decision] = tuple(v for v in pasts[decision] if aims & d_connected(graph, v, known - {v}))
        graph.remove_edges_from([(v, decision) for v in pasts[decision] if v not in out[decision]])
    return {d: out[d] for d in pasts}


@dataclass(frozen=True, eq=False)
class _Potential:
    """A table over some variables; summing a conditional table over its ``heads`` gives one."""

    scope: tuple[str, ...]
    table: np.ndarray
    heads: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class _Problem:
    """An elimination problem: blocks of variables from last to first, each of chance nodes and then a decision."""

    states: Mapping[str, tuple[str, ...]]
    probabilities: tuple[_Potential, ...]
    utilities: tuple[_Potential, ...]
    blocks: tuple[tuple[frozenset[str], str | None], ...]
    idle: tuple[str, ...]


def _problem(diagram: InfluenceDiagram, given: Mapping[str, Any]) -> _Problem:
    diagram, codes = _observe(diagram, given)
    remaining = [d for d in diagram.decisions if d not in codes]
    graph = diagram.graph
    graph.remove_edges_from([(p, d) for d in diagram.decisions for p in diagram.parents[d]])
    required = _required(graph, {d: diagram.past(d) for d in remaining}, diagram.utilities.keys())
    graph.add_edges_from((v, d) for d, known in required.items() for v in known)
    evidence = {v for v in codes if v in diagram.tables}
    relevant = set().union(evidence, *(nx.ancestors(graph, u) for u in diagram.utilities))
    for v in evidence:
        relevant |= nx.ancestors(graph, v)
    probabilities = [
        _Potential((*diagram.parents[v], v), table, frozenset({v} if v not in codes else {f"{v} as seen", v}))
        for v, table in diagram.tables.items()
        if v in relevant
    ]
    utilities = [_Potential(diagram.parents[u], table) for u, table in diagram.utilities.items()]
    return _Problem(
        diagram.states,
        tuple(_slice(p, codes) for p in probabilities),
        tuple(_slice(u, codes) for u in utilities),
        tuple(
            _blocks([d for d in remaining if d in relevant], required, relevant - codes.keys() - set(remaining), codes)
        ),
        tuple(d for d in remaining if d not in relevant),
    )


def _blocks(
    decisions: list[str], required: Mapping[str, tuple[str, ...]], chance: set[str], codes: Mapping[str, int]
) -> list[tuple[frozenset[str], str | None]]:
    """Strong elimination order: the never observed nodes, then decisions and what is first observed before each."""
    observed: set[str] = set(codes)
    before: list[tuple[frozenset[str], str | None]] = []
    decided: str | None = None
    for decision in decisions:
        new = frozenset(required[decision]) & chance - observed
        before.append((new, decided))
        observed |= new
        decided = decision
    before.append((frozenset(chance - observed), decided))
    return before[::-1]


def _observe(diagram: InfluenceDiagram, given: Mapping[str, Any]) -> tuple[InfluenceDiagram, dict[str, int]]:
    """Enter the evidence: arcs into the first remaining decision, and virtual evidence as observed children."""
    evidence = read_evidence(diagram.states, given)
    taken = [d for d in diagram.decisions if d in given]
    for decision in taken:
        if decision not in evidence.hard:
            raise EvidenceError(
                f"'{decision}' is a decision: give the option that was taken, not likelihoods", code="wrong-type"
            )
    if taken != list(diagram.decisions[: len(taken)]):
        late, early = taken[-1], next(d for d in diagram.decisions if d not in given)
        raise EvidenceError(f"'{late}' is given but '{early}', taken before it, is not", code="incomplete")
    codes = dict(evidence.hard)
    states, parents, tables = dict(diagram.states), dict(diagram.parents), dict(diagram.tables)
    for variable, weights in evidence.likelihood.items():
        child, chance = f"{variable} (likelihood)", weights / weights.max()
        states[child], parents[child] = ("seen", "not seen"), (variable,)
        tables[child] = np.stack([chance, 1 - chance], axis=-1)
        codes[child] = 0
    if len(taken) == len(diagram.decisions):
        return replace(diagram, states=states, parents=parents, tables=tables), codes
    first = diagram.decisions[len(taken)]
    for decision in diagram.decisions[len(taken) :]:
        for variable in nx.descendants(diagram.graph, decision) & given.keys():
            raise EvidenceError(
                f"'{variable}' depends on '{decision}', which is still to be decided; give that too", code="incomplete"
            )
    known = [v for v in codes if v not in taken]
    parents[first] = tuple(dict.fromkeys((*parents[first], *known)))
    return replace(diagram, states=states, parents=parents, tables=tables), codes


def _slice(potential: _Potential, codes: Mapping[str, int]) -> _Potential:
    index = tuple(codes.get(v, slice(None)) for v in potential.scope)
    scope = tuple(v for v in potential.scope if v not in codes)
    return _Potential(scope, potential.table[index], potential.heads - codes.keys())


def _union(scopes: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(v for scope in scopes for v in scope))


type _Scopes = list[tuple[tuple[str, ...], frozenset[str]]]


def _plan(problem: _Problem) -> list[str]:
    """Elimination order, found from the scopes alone; within a block the cheapest variable is next."""
    sizes = {v: len(s) for v, s in problem.states.items()}
    probabilities: _Scopes = [(p.scope, p.heads) for p in problem.probabilities]
    utilities = [u.scope for u in problem.utilities]
    order, largest = [], 1
    for chance, decision in problem.blocks:
        left = set(chance)
        while left:
            costs = {v: _cost(v, probabilities, utilities, sizes) for v in sorted(left)}
            best = min(costs, key=lambda v: costs[v])
            largest = max(largest, costs[best])
            _sum_scopes(best, probabilities, utilities)
            order.append(best)
            left.remove(best)
        if decision is not None:
            joined = _union(u for u in utilities if decision in u)
            largest = max(largest, prod(sizes[v] for v in joined))
            utilities = [u for u in utilities if decision not in u]
            utilities.append(tuple(v for v in joined if v != decision))
            _settle_scopes(decision, probabilities)
            order.append(decision)
    fits = available_bytes() / _BYTES
    if largest > fits:
        raise EngineRefusal(
            f"the largest step needs tables of {largest:.3g} entries and {fits:.3g} fit into memory: drop information"
            " arcs that matter little, or merge states",
            code="too-costly",
        )
    return order


def _cost(variable: str, probabilities: _Scopes, utilities: list[tuple[str, ...]], sizes: Mapping[str, int]) -> int:
    """Number of table entries created by summing out the variable."""
    joined = _union(scope for scope, _ in probabilities if variable in scope)
    touched = [_union((joined, scope)) for scope in utilities if variable in scope]
    return sum(prod(sizes[v] for v in scope) for scope in (joined, *touched))


def _sum_scopes(variable: str, probabilities: _Scopes, utilities: list[tuple[str, ...]]) -> None:
    inside = [p for p in probabilities if variable in p[0]]
    joined = _union(scope for scope, _ in inside)
    heads = frozenset().union(*(h for _, h in inside)) - {variable}
    probabilities[:] = [p for p in probabilities if variable not in p[0]]
    if heads:
        probabilities.append((tuple(v for v in joined if v != variable), heads))
    utilities[:] = [tuple(v for v in _union((joined, u)) if v != variable) if variable in u else u for u in utilities]


def _settle_scopes(decision: str, probabilities: _Scopes) -> None:
    inside = [p for p in probabilities if decision in p[0]]
    if inside:
        probabilities[:] = [p for p in probabilities if decision not in p[0]]
        joined = _union(scope for scope, _ in inside)
        probabilities.append((tuple(v for v in joined if v != decision), frozenset().union(*(h for _, h in inside))))


def _eliminate(problem: _Problem, order: list[str]) -> Policy:
    decisions = {d for _, d in problem.blocks if d is not None}
    probabilities, utilities = list(problem.probabilities), list(problem.utilities)
    rules = {d: Rule(d, problem.states[d], {}, np.array(0)) for d in problem.idle}
    for variable in order:
        if variable in decisions:
            probabilities = _settle(variable, probabilities)
            utilities, rules[variable] = _decide(variable, utilities, problem.states)
        else:
            probabilities, utilities = _average(variable, probabilities, utilities)
    if prod(float(p.table) for p in probabilities) == 0:
        raise EvidenceError("what is given has probability zero under every policy", code="probability-zero")
    ordered = {d: rules[d] for d in problem.states if d in rules}
    return Policy(ordered, float(sum(u.table for u in utilities)))


def _average(
    variable: str, probabilities: list[_Potential], utilities: list[_Potential]
) -> tuple[list[_Potential], list[_Potential]]:
    """φ' = Σ φ, ψ' = Σ φψ / φ'."""
    inside = [p for p in probabilities if variable in p.scope]
    scope = (*(v for v in _union(p.scope for p in inside) if v != variable), variable)
    weight = _Potential(scope, _product(inside, scope), frozenset().union(*(p.heads for p in inside)) - {variable})
    total = _Potential(scope[:-1], weight.table.sum(axis=-1), weight.heads)
    left = [p for p in probabilities if variable not in p.scope]
    # A conditional table is one everywhere once its head variables are summed out.
    left += [total] if total.heads else []
    return left, [_expected(u, weight, total) if variable in u.scope else u for u in utilities]


def _expected(utility: _Potential, weight: _Potential, total: _Potential) -> _Potential:
    variable = weight.scope[-1]
    scope = (*(v for v in _union((weight.scope, utility.scope)) if v != variable), variable)
    value = (_aligned(weight, scope) * _aligned(utility, scope)).sum(axis=-1)
    mass = _aligned(total, scope[:-1])
    # For an impossible past the value has no effect.
    return _Potential(scope[:-1], np.divide(value, mass, out=np.zeros_like(value), where=mass > 0))


def _settle(decision: str, probabilities: list[_Potential]) -> list[_Potential]:
    """Drop the decision from probability factors: they are constant in it, because the past does not depend on it."""
    inside = [p for p in probabilities if decision in p.scope]
    if not inside:
        return probabilities
    scope = (*(v for v in _union(p.scope for p in inside) if v != decision), decision)
    heads = frozenset().union(*(p.heads for p in inside))
    settled = _Potential(scope[:-1], _product(inside, scope).max(axis=-1), heads)
    return [*(p for p in probabilities if decision not in p.scope), settled]


def _decide(
    decision: str, utilities: list[_Potential], states: Mapping[str, tuple[str, ...]]
) -> tuple[list[_Potential], Rule]:
    inside = [u for u in utilities if decision in u.scope]
    known = tuple(v for v in _union(u.scope for u in inside) if v != decision)
    scope = (*known, decision)
    worth = sum((_aligned(u, scope) for u in inside), np.zeros(tuple(len(states[v]) for v in scope)))
    rule = Rule(decision, states[decision], {v: states[v] for v in known}, worth.argmax(axis=-1))
    return [*(u for u in utilities if decision not in u.scope), _Potential(known, worth.max(axis=-1))], rule


def _aligned(potential: _Potential, scope: tuple[str, ...]) -> np.ndarray:
    """Table with the axes of ``scope``; axes on which it does not depend have length one."""
    order = sorted(range(len(potential.scope)), key=lambda i: scope.index(potential.scope[i]))
    sizes = dict(zip(potential.scope, potential.table.shape, strict=True))
    return potential.table.transpose(order).reshape([sizes.get(v, 1) for v in scope])


def _product(potentials: list[_Potential], scope: tuple[str, ...]) -> np.ndarray:
    out = np.ones(())
    for potential in potentials:
        out = out * _aligned(potential, scope)
    return out
