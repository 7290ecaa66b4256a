"""Belief propagation on factor graphs: sum-product, max-product, and loopy versions.

Variables and factors exchange messages, which are functions of one variable. The message from a factor f to a variable
is the factor's table times the messages from its other variables, with those variables summed (or maximised) out. The
message from a variable to a factor is the product of the messages from its other factors:

    m_f→v(x_v) = sum_{x_f without x_v} f(x_f) prod_{u in f, u ≠ v} m_u→f(x_u)
    m_v→f(x_v) = l_v(x_v) prod_{g of v, g ≠ f} m_g→v(x_v)

with l the likelihood of the evidence. Without loops every message is exact after one pass to the roots and one back,
and the normalised product of the messages at a variable is its marginal [1]_. Observed variables block messages, so
loops through them are harmless. With other loops, messages iterated to convergence are approximate: the fixed points
are the stationary points of the Bethe free energy [2]_.

References
----------
.. [1] Kschischang, Frey, Loeliger (2001). Factor graphs and the sum-product algorithm. IEEE
   Transactions on Information Theory 47, 498-519.
.. [2] Yedidia, Freeman, Weiss (2005). Constructing free-energy approximations and generalized belief
   propagation algorithms. IEEE Transactions on Information Theory 51, 2282-2312.
.. [3] Elidan, McGraw, Koller (2006). Residual belief propagation. UAI 22.
.. [4] Sutton, McCallum (2007). Improved dynamic schedules for belief propagation. UAI 23.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import networkx as nx
import numpy as np

from bayeslab.errors import EngineRefusal, EvidenceError, OptionError, hint
from bayeslab.latents.networks.factors import Evidence, FactorGraph, read_evidence
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = [
    "Beliefs",
    "FlatFactors",
    "LoopyAssignment",
    "LoopyBeliefs",
    "MaxBeliefs",
    "check_possible",
    "flatten",
    "local_evidence",
    "loopy",
    "loopy_max_product",
    "max_product",
    "sum_product",
]

Schedule = Literal["sequential", "residual"]


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Exact posterior of each variable.

    Parameters
    ----------
    marginals : dict of str to ndarray
        P(variable | evidence), in the order of the states.
    log_evidence : float
        Log of the product of all tables and likelihoods, summed over all states: log P(evidence) of
        a Bayes net, log Z of a factor graph.
    """

    marginals: dict[str, np.ndarray]
    log_evidence: float


@dataclass(frozen=True, eq=False)
class MaxBeliefs:
    """The most probable assignment.

    Parameters
    ----------
    assignment : dict of str to str
        A state for each variable, including the observed ones.
    log_score : float
        Log of the product of all tables and likelihoods at the assignment; log P(assignment, evidence) of a Bayes net.
    max_marginals : dict of str to ndarray
        For each state of a variable, the largest log score of an assignment with that state.
    """

    assignment: dict[str, str]
    log_score: float
    max_marginals: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class LoopyBeliefs:
    """Approximate posterior by loopy belief propagation.

    Parameters
    ----------
    marginals : dict of str to ndarray
        Beliefs of the variables. With loops they are approximate and tend to be overconfident.
    factor_beliefs : tuple of ndarray
        Beliefs of the factors, in the order and with the axes of the model's tables.
    bethe_log_evidence : float
        Minus the Bethe free energy: the estimate of log P(evidence), or of log Z.
    converged : bool
    n_sweeps : int
    largest_change : float
        Largest change of a message (largest entry 1) in the last sweep; for the residual schedule, the largest pending
        one.
    has_loops : bool
        Whether the graph has a loop without an observed variable. If it has none, converged beliefs are exact.
    """

    marginals: dict[str, np.ndarray]
    factor_beliefs: tuple[np.ndarray, ...]
    bethe_log_evidence: float
    converged: bool
    n_sweeps: int
    largest_change: float
    has_loops: bool


@dataclass(frozen=True, eq=False)
class LoopyAssignment:
    """An assignment by loopy max-product: with loops, not always the most probable one.

    Parameters
    ----------
    assignment : dict of str to str
    log_score : float
        Log of the product of all tables and likelihoods at the assignment; -inf if it is impossible.
    converged : bool
    n_sweeps : int
    largest_change : float
    """

    assignment: dict[str, str]
    log_score: float
    converged: bool
    n_sweeps: int
    largest_change: float


class FlatFactors(NamedTuple):
    """A factor graph as flat arrays, for compiled loops.

    Edges are numbered factor by factor, in the order of the tables' axes. In every flat array the entries of item i lie
    between ``offset[i]`` and ``offset[i + 1]``. ``largest_table`` is the largest number of entries of a table or states
    of a variable.
    """

    n_states: np.ndarray
    variable_offset: np.ndarray
    log_tables: np.ndarray
    table_offset: np.ndarray
    factor_edges: np.ndarray
    edge_factor: np.ndarray
    edge_variable: np.ndarray
    edge_stride: np.ndarray
    message_offset: np.ndarray
    variable_edges: np.ndarray
    edges_of: np.ndarray
    largest_table: int


def sum_product(model: DiscreteNetwork | FactorGraph, given: Mapping[str, Any] | None = None) -> Beliefs:
    """Exact marginals and evidence of a factor graph without loops.

    Parameters
    ----------
    model : DiscreteNetwork or FactorGraph
    given : mapping, optional
        Variable to state, or to likelihoods of its states (see `bayeslab.latents.networks.factors.read_evidence`).

    Raises
    ------
    EngineRefusal
        The graph has a loop without an observed variable.
    EvidenceError
        The evidence is unknown or has probability zero.

    Notes
    -----
    The algorithm of [1]_ (see the references of the module), on the log scale.
    """
    messages = _exact(_factors(model), given, maximise=False)
    of_variables, _, log_z = _beliefs(messages, maximise=False)
    return Beliefs(_by_variable(messages, np.exp(of_variables)), log_z)


def max_product(model: DiscreteNetwork | FactorGraph, given: Mapping[str, Any] | None = None) -> MaxBeliefs:
    """The most probable assignment given the evidence, for a factor graph without loops.

    On a chain this is the Viterbi algorithm. Of several most probable assignments, one is returned. Parameters and
    errors are those of `sum_product`.
    """
    messages = _exact(_factors(model), given, maximise=True)
    of_variables, _, _ = _beliefs(messages, maximise=True)
    chosen, best = _decode(messages)
    assignment = _assignment(messages, chosen)
    return MaxBeliefs(assignment, best, _by_variable(messages, of_variables + best))


def loopy(
    model: DiscreteNetwork | FactorGraph,
    given: Mapping[str, Any] | None = None,
    *,
    damping: float | None = None,
    tolerance: float = 1e-8,
    max_sweeps: int = 1000,
    schedule: Schedule = "sequential",
) -> LoopyBeliefs:
    """Marginals of any factor graph: approximate with loops, exact without.

    Parameters
    ----------
    model : DiscreteNetwork or FactorGraph
    given : mapping, optional
        Variable to state, or to likelihoods of its states.
    damping : float, optional
        Weight of the old message, on the log scale, in [0, 1). Default: 0.5 with loops, which damps most
        oscillations, and 0 without.
    tolerance : float
        Messages have converged when none changes by more than this.
    max_sweeps : int
        Maximum number of sweeps. A sequential sweep updates every variable towards the roots and back; a residual sweep
        is as many updates as there are variables.
    schedule : {"sequential", "residual"}
        Order of updates: breadth first, or the variable whose messages changed most [3]_, [4]_.

    Raises
    ------
    EvidenceError
        The messages prove that the evidence has probability zero. With loops this may go undetected.
    OptionError

    Notes
    -----
    Check ``converged``: do not use beliefs that did not converge.
    """
    factors = _factors(model)
    messages, n_sweeps, change, no_loop = _iterate(
        factors, given, damping, tolerance, max_sweeps, schedule, maximise=False
    )
    of_variables, of_factors, log_z = _beliefs(messages, maximise=False)
    offset = messages.flat.table_offset
    tables = tuple(np.exp(of_factors[offset[f] : offset[f + 1]]).reshape(t.shape) for f, t in enumerate(factors.tables))
    marginals = _by_variable(messages, np.exp(of_variables))
    return LoopyBeliefs(marginals, tables, log_z, change < tolerance, n_sweeps, change, not no_loop)


def loopy_max_product(
    model: DiscreteNetwork | FactorGraph,
    given: Mapping[str, Any] | None = None,
    *,
    damping: float | None = None,
    tolerance: float = 1e-8,
    max_sweeps: int = 1000,
    schedule: Schedule = "sequential",
) -> LoopyAssignment:
    """An assignment of high probability on any factor graph: the most probable one if there is no loop.

    States are chosen one variable after another, each given those chosen before. Parameters and errors are those of
    `loopy`.
    """
    factors = _factors(model)
    messages, n_sweeps, change, _ = _iterate(factors, given, damping, tolerance, max_sweeps, schedule, maximise=True)
    chosen, best = _decode(messages)
    return LoopyAssignment(_assignment(messages, chosen), best, change < tolerance, n_sweeps, change)


class _Messages(NamedTuple):
    states: Mapping[str, tuple[str, ...]]
    flat: FlatFactors
    order: np.ndarray
    local: np.ndarray
    up: np.ndarray
    down: np.ndarray


def _factors(model: DiscreteNetwork | FactorGraph) -> FactorGraph:
    return FactorGraph.of(model) if isinstance(model, DiscreteNetwork) else model


def flatten(factors: FactorGraph) -> FlatFactors:
    """Flat arrays of a factor graph; tables as logs."""
    number = {v: i for i, v in enumerate(factors.states)}
    n_states = np.array([len(s) for s in factors.states.values()], dtype=np.int64)
    edge_variable = np.array([number[v] for scope in factors.scopes for v in scope], dtype=np.int64)
    edge_factor = np.repeat(np.arange(len(factors.scopes)), [len(s) for s in factors.scopes])
    strides = [math.prod(t.shape[axis + 1 :]) for t in factors.tables for axis in range(t.ndim)]
    entries = np.concatenate([t.ravel() for t in factors.tables]) if factors.tables else np.empty(0)
    with np.errstate(divide="ignore"):
        log_tables = np.log(entries)
    return FlatFactors(
        n_states=n_states,
        variable_offset=_offsets(n_states),
        log_tables=log_tables,
        table_offset=_offsets([t.size for t in factors.tables]),
        factor_edges=_offsets([len(s) for s in factors.scopes]),
        edge_factor=edge_factor.astype(np.int64),
        edge_variable=edge_variable,
        edge_stride=np.array(strides, dtype=np.int64),
        message_offset=_offsets(n_states[edge_variable]),
        variable_edges=_offsets(np.bincount(edge_variable, minlength=len(n_states))),
        edges_of=np.argsort(edge_variable, kind="stable").astype(np.int64),
        largest_table=max([1, *n_states.tolist(), *(t.size for t in factors.tables)]),
    )


def _offsets(sizes: np.ndarray | list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def local_evidence(flat: FlatFactors, states: Mapping[str, tuple[str, ...]], evidence: Evidence) -> np.ndarray:
    """Log likelihood of every state of every variable, in one array; 0 without evidence."""
    number = {v: i for i, v in enumerate(states)}
    out = np.zeros(flat.variable_offset[-1])
    for variable, likelihood in evidence.likelihood.items():
        start, end = flat.variable_offset[number[variable] : number[variable] + 2]
        with np.errstate(divide="ignore"):
            out[start:end] += np.log(likelihood)
    for variable, code in evidence.hard.items():
        start, end = flat.variable_offset[number[variable] : number[variable] + 2]
        out[start:end] = np.where(np.arange(end - start) == code, out[start:end], -np.inf)
    return out


def _start(factors: FactorGraph, given: Mapping[str, Any] | None) -> tuple[_Messages, bool]:
    """Initial messages, and whether the graph has no loop."""
    from bayeslab.latents.networks import message_kernels as kernels

    evidence = read_evidence(factors.states, given)
    flat = flatten(factors)
    observed = np.array([v in evidence.hard for v in factors.states], dtype=bool)
    order, no_loop = kernels.traversal(flat, observed)
    local = local_evidence(flat, factors.states, evidence)
    lengths = np.diff(flat.message_offset)
    within = np.arange(flat.message_offset[-1]) - np.repeat(flat.message_offset[:-1], lengths)
    down = local[np.repeat(flat.variable_offset[flat.edge_variable], lengths) + within]
    messages = _Messages(factors.states, flat, order, local, np.zeros(len(down)), down)
    return messages, bool(no_loop)


def _exact(factors: FactorGraph, given: Mapping[str, Any] | None, *, maximise: bool) -> _Messages:
    from bayeslab.latents.networks import message_kernels as kernels

    messages, no_loop = _start(factors, given)
    if not no_loop:
        raise EngineRefusal(
            f"the factor graph has a loop: {_loop(factors, read_evidence(factors.states, given))}; sum-product and"
            " max-product need a graph without loops. Use the junction tree (exact) or `loopy` (approximate).",
            code="loops",
        )
    flat, order, local, up, down = messages[1:]
    _, change = kernels.sequential(flat, order, maximise, 0.0, 0.0, 1, local, up, down)
    check_possible(change >= 0)
    return messages


def _iterate(
    factors: FactorGraph,
    given: Mapping[str, Any] | None,
    damping: float | None,
    tolerance: float,
    max_sweeps: int,
    schedule: str,
    *,
    maximise: bool,
) -> tuple[_Messages, int, float, bool]:
    from bayeslab.latents.networks import message_kernels as kernels

    run = {"sequential": kernels.sequential, "residual": kernels.residual}.get(schedule)
    if run is None:
        raise OptionError(
            f"'{schedule}' is not a schedule{hint(schedule, ('sequential', 'residual'))}", code="unknown-word"
        )
    if damping is not None and not 0 <= damping < 1:
        raise OptionError(f"damping is {damping}; it must be at least 0 and less than 1", code="out-of-range")
    if not tolerance > 0:
        raise OptionError(f"tolerance is {tolerance}; it must be positive", code="out-of-range")
    if max_sweeps < 1:
        raise OptionError(f"max_sweeps is {max_sweeps}; it must be at least 1", code="out-of-range")
    messages, no_loop = _start(factors, given)
    weight = damping if damping is not None else 0.0 if no_loop else 0.5
    flat, order, local, up, down = messages[1:]
    n_sweeps, change = run(flat, order, maximise, float(weight), float(tolerance), int(max_sweeps), local, up, down)
    check_possible(change >= 0)
    return messages, n_sweeps, change, no_loop


def check_possible(possible: bool) -> None:
    """Raise where the evidence has probability zero."""
    if not possible:
        raise EvidenceError(
            "the evidence has probability zero: no joint state of the variables agrees with it and the tables",
            code="probability-zero",
        )


def _beliefs(messages: _Messages, *, maximise: bool) -> tuple[np.ndarray, np.ndarray, float]:
    from bayeslab.latents.networks import message_kernels as kernels

    flat, _, local, up, down = messages[1:]
    of_variables, of_factors, log_z = kernels.beliefs(flat, maximise, local, up, down)
    check_possible(log_z > -np.inf)
    return of_variables, of_factors, log_z


def _decode(messages: _Messages) -> tuple[np.ndarray, float]:
    from bayeslab.latents.networks import message_kernels as kernels

    flat, order, local, _, down = messages[1:]
    chosen = kernels.decode(flat, order, local, down)
    return chosen, kernels.score(flat, local, chosen)


def _by_variable(messages: _Messages, entries: np.ndarray) -> dict[str, np.ndarray]:
    offset = messages.flat.variable_offset
    return {v: entries[offset[k] : offset[k + 1]] for k, v in enumerate(messages.states)}


def _assignment(messages: _Messages, chosen: np.ndarray) -> dict[str, str]:
    return {v: states[code] for (v, states), code in zip(messages.states.items(), chosen, strict=True)}


def _loop(factors: FactorGraph, evidence: Evidence) -> str:
    """The unobserved variables of one loop."""
    both: nx.Graph = nx.Graph()
    for f, scope in enumerate(factors.scopes):
        both.add_edges_from((f, v) for v in scope if v not in evidence.hard)
    names = [str(a) for a, _ in nx.find_cycle(both) if isinstance(a, str)]
    return " - ".join([*names, names[0]])
