"""Causal effects of interventions, from a causal graph.

Setting X from outside removes the arrows into X and leaves the other tables unchanged. P(y | do(x)) is
computed in the network after this surgery, P(y | x) in the network as it is; they differ if, for
instance, X and Y have a common cause [1]_. P(y | do(x)) can be computed from observational data alone if
the graph has one of these sets:

- *back door*: variables Z, none of them a descendant of X, that block every path from Y into X,

  .. math:: P(y \\mid do(x)) = \\sum_z P(z)\\, P(y \\mid x, z)

- *front door*: variables Z on every directed path from X to Y, with no open back-door path from X to
  Z, and none from Z to Y once X is given,

  .. math:: P(y \\mid do(x)) = \\sum_z P(z \\mid x) \\sum_{x'} P(x')\\, P(y \\mid x', z)

Some other effects are identified by longer formulas, which the ID algorithm finds [3]_.

References
----------
.. [1] Pearl (2009). Causality, 2nd ed., sections 3.2 and 3.3.
.. [2] van der Zander, Liskiewicz, Textor (2019). Separators and adjustment sets in causal graphs.
   Artificial Intelligence 270, 1-40.
.. [3] Shpitser, Pearl (2006). Identification of joint interventional distributions. AAAI 21, 1219-1226.
.. [4] Jeong, Tian, Bareinboim (2022). Finding and listing front-door adjustment sets. NeurIPS 35.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import networkx as nx
import numpy as np

from bayeslab.arrays import number
from bayeslab.errors import EvidenceError, ModelError, OptionError, hint
from bayeslab.latents.networks.factors import read_evidence
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.variable_elimination import eliminate
from bayeslab.structure.dag import d_connected, names_in
from bayeslab.structure.identification import Formula, general_formula

__all__ = [
    "Identification",
    "average_effect",
    "back_door_adjusted",
    "back_door_sets",
    "front_door_adjusted",
    "front_door_sets",
    "identify",
    "intervene",
    "interventional",
    "is_back_door_set",
    "is_front_door_set",
    "observational",
]


def intervene(network: DiscreteNetwork, do: Mapping[str, Any]) -> DiscreteNetwork:
    """Return the network after an intervention: the arcs from the parents are removed and the state is set.

    Parameters
    ----------
    do
        Variable to the state it is set to, or to a mapping from states to probabilities.

    Raises
    ------
    EvidenceError
        An unknown variable or state, or probabilities that do not sum to one.

    Examples
    --------
    >>> from bayeslab.latents.networks.variable_elimination import eliminate
    >>> states = {"rain": ("no", "yes"), "wet": ("no", "yes")}
    >>> tables = {"rain": np.array([0.8, 0.2]), "wet": np.array([[0.9, 0.1], [0.1, 0.9]])}
    >>> network = DiscreteNetwork(states, {"wet": ("rain",)}, tables)
    >>> eliminate(intervene(network, {"wet": "yes"}), ["rain"]).round(2).tolist()
    [0.8, 0.2]
    >>> eliminate(network, ["rain"], {"wet": "yes"}).round(2).tolist()
    [0.31, 0.69]
    """
    wanted = read_evidence(network.states, do)
    tables = {v: np.eye(len(network.states[v]))[code] for v, code in wanted.hard.items()}
    for variable, weights in wanted.likelihood.items():
        if abs(weights.sum() - 1) > 1e-9:
            raise EvidenceError(
                f"'{variable}' is set with probabilities that add up to {weights.sum():g}, not 1",
                code="not-probabilities",
            )
        tables[variable] = weights
    parents = {v: () if v in tables else above for v, above in network.parents.items()}
    return replace(network, parents=parents, tables={**network.tables, **tables})


def observational(network: DiscreteNetwork, treatment: str, outcome: str) -> np.ndarray:
    """Return P(outcome | treatment), one row for each state of the treatment; NaN for states that never occur."""
    _two(network.graph, treatment, outcome)
    joint = eliminate(network, (treatment, outcome))
    with np.errstate(invalid="ignore"):
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def interventional(
    network: DiscreteNetwork, treatment: str, outcome: str, given: Mapping[str, Any] | None = None
) -> np.ndarray:
    """Return P(outcome | do(treatment), given) by graph surgery, one row for each state of the treatment.

    Parameters
    ----------
    given
        Evidence observed after the treatment was set.
    """
    _two(network.graph, treatment, outcome)
    rows = (eliminate(intervene(network, {treatment: state}), (outcome,), given) for state in network.states[treatment])
    return np.stack(list(rows))


def back_door_adjusted(
    network: DiscreteNetwork, treatment: str, outcome: str, adjust_for: str | Iterable[str]
) -> np.ndarray:
    """Return the back-door formula on the observational distribution, one row for each state of the treatment.

    It equals P(outcome | do(treatment)) if ``adjust_for`` meets the back-door criterion; this is not
    checked, so that the effect of adjusting for the wrong variables can be shown.

    Raises
    ------
    ModelError
        A state of the treatment never occurs together with some occurring values of ``adjust_for``, so
        that the formula is undefined (positivity).
    """
    names = _others(network.graph, treatment, outcome, adjust_for)
    joint = eliminate(network, (*names, treatment, outcome))
    joint = joint.reshape(-1, *joint.shape[-2:])
    strata, cells = joint.sum(axis=(1, 2)), joint.sum(axis=2)
    if np.any((strata > 0)[:, None] & (cells <= 0)):
        raise ModelError(
            f"some state of '{treatment}' never occurs together with some states of {', '.join(names) or 'nothing'}:"
            " adjustment needs every treatment in every stratum",
            code="probability-zero",
        )
    shares = np.divide(joint, cells[:, :, None], out=np.zeros_like(joint), where=cells[:, :, None] > 0)
    return np.einsum("z,zxy->xy", strata, shares)


def front_door_adjusted(
    network: DiscreteNetwork, treatment: str, outcome: str, through: str | Iterable[str]
) -> np.ndarray:
    """Return the front-door formula on the observational distribution, one row for each state of the treatment.

    It equals P(outcome | do(treatment)) if ``through`` meets the front-door criterion; this is not
    checked.

    Raises
    ------
    ModelError
        A state of the treatment never occurs together with some occurring values of ``through``.
    """
    names = _others(network.graph, treatment, outcome, through)
    joint = eliminate(network, (*names, treatment, outcome))
    joint = joint.reshape(-1, *joint.shape[-2:])
    cells, treated = joint.sum(axis=2), joint.sum(axis=(0, 2))
    if np.any(cells.any(axis=1)[:, None] & (cells <= 0)):
        raise ModelError(
            f"some state of '{treatment}' never occurs together with some states of {', '.join(names) or 'nothing'}:"
            " the front-door formula needs them all",
            code="probability-zero",
        )
    shares = np.divide(joint, cells[:, :, None], out=np.zeros_like(joint), where=cells[:, :, None] > 0)
    return np.einsum("zx,zwy,w->xy", cells / treated, shares, treated)


def average_effect(
    network: DiscreteNetwork,
    treatment: str,
    outcome: str,
    *,
    values: str | Mapping[str, float] | None = None,
    contrast: tuple[str, str] | None = None,
) -> float:
    """Return E[outcome | do(treatment = second)] − E[outcome | do(treatment = first)].

    Parameters
    ----------
    values
        A number for each state of the outcome, or the state whose probability is compared; default: the
        second of two states.
    contrast
        The two states of the treatment (from, to); default: the two states in order.
    """
    scores = _scores(network.states[_known(network, outcome)], outcome, values)
    options = network.states[_known(network, treatment)]
    if contrast is None and len(options) != 2:
        raise OptionError(
            f"'{treatment}' has {len(options)} states: choose two to compare (contrast)", code="incomplete"
        )
    compared = options if contrast is None else contrast
    if (
        isinstance(compared, str | Mapping)
        or not isinstance(compared, Sequence)
        or len(compared) != 2
        or any(isinstance(state, Mapping) for state in compared)
    ):
        raise OptionError(
            f"contrast is two states of '{treatment}', (from, to); given: {contrast!r:.60}", code="wrong-type"
        )
    rows = [read_evidence(network.states, {treatment: state}).hard[treatment] for state in compared]
    means = interventional(network, treatment, outcome) @ scores
    return float(means[rows[1]] - means[rows[0]])


def _known(network: DiscreteNetwork, name: str) -> str:
    if not isinstance(name, str) or name not in network.states:
        raise ModelError(f"'{name}' is not a variable{hint(str(name), network.states)}", code="unknown-variable")
    return name


def _scores(states: tuple[str, ...], outcome: str, values: str | Mapping[str, float] | None) -> np.ndarray:
    if values is None:
        if len(states) != 2:
            raise OptionError(
                f"'{outcome}' has {len(states)} states: give each a number, or name the one meant (values)",
                code="incomplete",
            )
        values = states[1]
    if isinstance(values, str):
        if values not in states:
            raise OptionError(f"'{values}' is not a state of '{outcome}'{hint(values, states)}", code="unknown-state")
        return np.array([float(state == values) for state in states])
    if not isinstance(values, Mapping):
        raise OptionError(
            f"values of '{outcome}' are a mapping of each state to a number, or one state; given: {values!r:.60}",
            code="wrong-type",
        )
    for state in {*states} ^ {*values}:
        raise OptionError(
            f"values of '{outcome}' are one number for each of {', '.join(states)}; look at '{state}'",
            code="wrong-length",
        )
    return np.array([number(values[state], f"the value of '{outcome}={state}'") for state in states])


def _two(graph: nx.DiGraph, treatment: str, outcome: str) -> None:
    names_in(graph, (treatment, outcome))
    if treatment == outcome:
        raise ModelError(f"treatment and outcome are the same variable, '{treatment}'", code="self-reference")


def _others(graph: nx.DiGraph, treatment: str, outcome: str, names: str | Iterable[str]) -> tuple[str, ...]:
    _two(graph, treatment, outcome)
    others = names_in(graph, names)
    for name in others & {treatment, outcome}:
        raise ModelError(f"'{name}' is the treatment or the outcome and cannot be adjusted for", code="conflict")
    return tuple(sorted(others))


def _candidates(graph: nx.DiGraph, treatment: str, outcome: str, observed: Iterable[str] | None) -> frozenset[str]:
    _two(graph, treatment, outcome)
    if not nx.is_directed_acyclic_graph(graph):
        raise ModelError("the graph has a cycle; causes come before their effects", code="cycle")
    usable = frozenset(graph) if observed is None else names_in(graph, observed)
    return usable - {treatment, outcome}


def _without_arrows_from(graph: nx.DiGraph, names: Iterable[str]) -> nx.DiGraph:
    out = graph.copy()
    out.remove_edges_from(list(graph.out_edges(list(names))))
    return out


def is_back_door_set(graph: nx.DiGraph, treatment: str, outcome: str, names: str | Iterable[str]) -> bool:
    """Return whether adjusting for these variables meets the back-door criterion."""
    chosen = frozenset(_others(graph, treatment, outcome, names))
    below = nx.descendants(graph, treatment)
    back = _without_arrows_from(graph, [treatment])
    return not chosen & below and outcome not in d_connected(back, treatment, chosen)


def back_door_sets(
    graph: nx.DiGraph, treatment: str, outcome: str, observed: Iterable[str] | None = None
) -> Iterator[frozenset[str]]:
    """Yield all minimal sets of observed variables that meet the back-door criterion.

    Parameters
    ----------
    observed
        The variables that can be measured; default: all.

    Yields
    ------
    frozenset of str
        Minimal sets: no variable can be omitted. The empty set alone means that there is no
        confounding. There may be very many sets: take as many as needed.
    """
    usable = _candidates(graph, treatment, outcome, observed) - nx.descendants(graph, treatment)
    back = _without_arrows_from(graph, [treatment])

    def within(names: frozenset[str]) -> frozenset[str] | None:
        separator = nx.find_minimal_d_separator(back, treatment, outcome, restricted=set(names))
        return None if separator is None else frozenset(separator)

    return _all_minimal(within, usable)


def is_front_door_set(graph: nx.DiGraph, treatment: str, outcome: str, names: str | Iterable[str]) -> bool:
    """Return whether these variables meet the front-door criterion."""
    chosen = frozenset(_others(graph, treatment, outcome, names))
    return (
        not chosen & d_connected(_without_arrows_from(graph, [treatment]), treatment)
        and chosen == _unconfounded(graph, treatment, outcome, chosen)
        and _intercepts(graph, treatment, outcome, chosen)
    )


def front_door_sets(
    graph: nx.DiGraph, treatment: str, outcome: str, observed: Iterable[str] | None = None
) -> Iterator[frozenset[str]]:
    """Yield all minimal sets of observed variables that meet the front-door criterion.

    Parameters
    ----------
    observed
        The variables that can be measured; default: all.
    """
    usable = _candidates(graph, treatment, outcome, observed)
    usable -= d_connected(_without_arrows_from(graph, [treatment]), treatment)

    def largest(names: frozenset[str]) -> frozenset[str] | None:
        mediators = _unconfounded(graph, treatment, outcome, names)
        return mediators if _intercepts(graph, treatment, outcome, mediators) else None

    def within(names: frozenset[str]) -> frozenset[str] | None:
        # A valid proper subset omits some variable and lies in the largest valid set without that variable.
        best = largest(names)
        while best is not None:
            smaller = (candidate for v in sorted(best) if (candidate := largest(best - {v})) is not None)
            following = next(smaller, None)
            if following is None:
                return best
            best = following
        return None

    return _all_minimal(within, usable)


def _unconfounded(graph: nx.DiGraph, treatment: str, outcome: str, names: frozenset[str]) -> frozenset[str]:
    """Return the largest subset whose back-door paths to the outcome are blocked by the treatment [4]_."""
    while True:
        cut = _without_arrows_from(graph, names)
        confounded = names & d_connected(cut, outcome, {treatment})
        if not confounded:
            return names
        names -= confounded


def _intercepts(graph: nx.DiGraph, treatment: str, outcome: str, names: frozenset[str]) -> bool:
    """Whether every directed path from the treatment to the outcome goes through the set."""
    return not nx.has_path(graph.subgraph(frozenset(graph) - names), treatment, outcome)


def _all_minimal(
    within: Callable[[frozenset[str]], frozenset[str] | None], usable: frozenset[str]
) -> Iterator[frozenset[str]]:
    """Yield all minimal solutions, given a function that finds one in a set; any other one lacks some member of it."""
    solutions: set[frozenset[str]] = set()
    tried, queue = {usable}, deque([usable])
    while queue:
        names = queue.popleft()
        minimal = within(names)
        if minimal is None:
            continue
        if minimal not in solutions:
            solutions.add(minimal)
            yield minimal
        for name in sorted(minimal):
            smaller = names - {name}
            if smaller not in tried:
                tried.add(smaller)
                queue.append(smaller)


@dataclass(frozen=True, slots=True)
class Identification:
    """How an effect is identified from the observational distribution.

    Attributes
    ----------
    criterion : str
        ``no effect`` (the outcome is not a descendant of the treatment), ``back-door``, ``front-door``,
        ``do-calculus`` (identifiable, but by neither of these) or ``none`` (not identifiable).
    names : frozenset of str
        Variables that must be observed besides treatment and outcome.
    formula : str
    """

    treatment: str
    outcome: str
    criterion: Literal["no effect", "back-door", "front-door", "do-calculus", "none"]
    names: frozenset[str]
    formula: str
    _general: Formula | None = None

    def __str__(self) -> str:
        if self.criterion == "none":
            return self.formula
        by = self.criterion if self.criterion in ("no effect", "do-calculus") else f"{self.criterion}: {self._listed}"
        return f"{self.formula}  ({by})"

    @property
    def _listed(self) -> str:
        return ", ".join(sorted(self.names)) or "nothing to adjust for"

    def estimate(self, network: DiscreteNetwork) -> np.ndarray:
        """Return P(outcome | do(treatment)) by the formula, from the observational distribution of a network.

        The network need not contain unobserved variables or have causal directions: only its joint
        distribution is used.

        Raises
        ------
        ModelError
            The effect is not identifiable, or the formula conditions on an event of probability zero.
        """
        if self.criterion == "none":
            raise ModelError(self.formula, code="not-identified")
        if self.criterion == "no effect":
            n_states = len(network.states[_known(network, self.treatment)])
            return np.tile(eliminate(network, (self.outcome,)), (n_states, 1))
        if self._general is not None:
            return self._general.evaluate(network)
        adjusted = back_door_adjusted if self.criterion == "back-door" else front_door_adjusted
        return adjusted(network, self.treatment, self.outcome, self.names)


def identify(graph: nx.DiGraph, treatment: str, outcome: str, observed: Iterable[str] | None = None) -> Identification:
    """Identify the effect of the treatment on the outcome from observed variables, if that is possible.

    The back-door criterion is tried first, then the front-door criterion, then the ID algorithm, which
    finds a formula whenever there is one [3]_.

    Parameters
    ----------
    observed
        The variables that can be measured; default: all.
    """
    usable = _candidates(graph, treatment, outcome, observed)
    if outcome not in nx.descendants(graph, treatment):
        formula = f"P({outcome} | do({treatment})) = P({outcome})"
        return Identification(treatment, outcome, "no effect", frozenset(), formula)
    back = next(back_door_sets(graph, treatment, outcome, usable), None)
    if back is not None:
        return Identification(treatment, outcome, "back-door", back, _back_formula(treatment, outcome, back))
    front = next(front_door_sets(graph, treatment, outcome, usable), None)
    if front is not None:
        return Identification(treatment, outcome, "front-door", front, _front_formula(treatment, outcome, front))
    general = general_formula(graph, treatment, outcome, usable)
    if general is not None:
        names = frozenset(general.names) - {treatment, outcome}
        return Identification(treatment, outcome, "do-calculus", names, str(general), general)
    listed_names = ", ".join(sorted(usable)) or "these two alone"
    words = f"the effect of '{treatment}' on '{outcome}' is not identifiable from observations of {listed_names}"
    return Identification(treatment, outcome, "none", frozenset(), words)


def _back_formula(x: str, y: str, names: frozenset[str]) -> str:
    z = ", ".join(sorted(names))
    right = f"Σ_{{{z}}} P({z}) P({y} | {x}, {z})" if z else f"P({y} | {x})"
    return f"P({y} | do({x})) = {right}"


def _front_formula(x: str, y: str, names: frozenset[str]) -> str:
    z = ", ".join(sorted(names))
    return f"P({y} | do({x})) = Σ_{{{z}}} P({z} | {x}) Σ_{{{x}'}} P({x}') P({y} | {x}', {z})"
