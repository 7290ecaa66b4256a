"""Exact inference by variable elimination, in plain NumPy.

Variables that are not targets are summed out one after another: the tables that contain the variable are multiplied and
summed over it, and the result replaces them [1]_. Irrelevant parts are removed first: barren variables of a Bayes net
(not target, not observed, and without such descendants) and, given the observed states, tables that are not connected
with a target [2]_.

It shares no code with the junction tree, so the two methods check each other. For a few targets in a large net it may
be far cheaper, because the pruning depends on the query.

References
----------
.. [1] Zhang and Poole (1996). Exploiting causal independence in Bayesian network inference. JAIR 5, 301-328.
.. [2] Shachter (1986). Evaluating influence diagrams. Operations Research 34, 871-882.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayeslab.errors import EngineRefusal, EvidenceError
from bayeslab.latents.networks.factors import Evidence, FactorGraph, read_evidence, variables_of
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.triangulation import available_bytes

__all__ = ["eliminate", "log_evidence", "marginal_map"]


class _Table(NamedTuple):
    scope: tuple[str, ...]
    values: np.ndarray


def eliminate(
    model: DiscreteNetwork | FactorGraph, targets: Sequence[str], given: Mapping[str, Any] | None = None
) -> np.ndarray:
    """The joint posterior of the targets.

    Parameters
    ----------
    model : DiscreteNetwork or FactorGraph
    targets : sequence of str
    given : mapping, optional
        Variable to its state, or to {state: likelihood}.

    Returns
    -------
    ndarray
        One axis for each target, in the given order; sums to one.

    Raises
    ------
    EvidenceError
        The evidence that is connected with the targets has probability zero.
    EngineRefusal
        An intermediate table would not fit into memory.
    """
    states, evidence = model.states, read_evidence(model.states, given)
    targets = variables_of(states, targets)
    free = [v for v in targets if v not in evidence.hard]
    tables = _connected(_sliced(model, evidence, {*targets, *evidence.hard, *evidence.likelihood}), free)
    tables, log_scale = _sum_out(tables, _others(tables, free))
    if log_scale == -np.inf:
        raise EvidenceError("the evidence has probability zero", code="probability-zero")
    cards = [len(states[v]) for v in free]
    _check_size(np.prod(cards, dtype=float))
    out = np.ones(cards)
    for table in tables:
        out = out * _aligned(table, free)
    if not out.sum() > 0:
        raise EvidenceError("the evidence has probability zero", code="probability-zero")
    return _with_observed(out / out.sum(), targets, evidence, states)


def log_evidence(model: DiscreteNetwork | FactorGraph, given: Mapping[str, Any] | None = None) -> float:
    """Log probability of the evidence (for a factor graph: log of the sum of the product); -inf if it is impossible."""
    evidence = read_evidence(model.states, given)
    tables = _sliced(model, evidence, {*evidence.hard, *evidence.likelihood})
    isolated = set(model.states) - set(evidence.hard) - {v for t in tables for v in t.scope}
    extra = 0.0 if isinstance(model, DiscreteNetwork) else sum(np.log(len(model.states[v])) for v in isolated)
    return _sum_out(tables, _others(tables, ()))[1] + float(extra)


def marginal_map(
    model: DiscreteNetwork | FactorGraph, targets: Sequence[str], given: Mapping[str, Any] | None = None
) -> tuple[tuple[int, ...], float]:
    """The most probable joint state of the targets given the evidence, with the other variables summed out.

    Returns
    -------
    codes : tuple of int
        The index of each target's state.
    log_value : float
        Log of the sum of the product over the other variables, at these states.

    Raises
    ------
    EvidenceError
        Evidence of probability zero.
    EngineRefusal
        An intermediate table would not fit into memory.
    """
    states, evidence = model.states, read_evidence(model.states, given)
    targets = variables_of(states, targets)
    tables = _sliced(model, evidence, {*targets, *evidence.hard, *evidence.likelihood})
    missing = set(states) - set(evidence.hard) - {v for t in tables for v in t.scope}
    if not isinstance(model, DiscreteNetwork):
        tables += [_Table((v,), np.ones(len(states[v]))) for v in missing]
    free = [v for v in targets if v not in evidence.hard]
    tables, log_sum = _sum_out(tables, _others(tables, free))
    if log_sum == -np.inf:
        raise EvidenceError("the evidence has probability zero", code="probability-zero")
    best, log_top = _max_out(tables, free)
    if log_top == -np.inf:
        raise EvidenceError("the evidence has probability zero", code="probability-zero")
    return tuple(evidence.hard[v] if v in evidence.hard else best[v] for v in targets), log_sum + log_top


def _sliced(model: DiscreteNetwork | FactorGraph, evidence: Evidence, relevant: set[str]) -> list[_Table]:
    """The tables at the observed states; for a Bayes net, only those of relevant variables and their ancestors."""
    if isinstance(model, DiscreteNetwork):
        needed = _ancestral(model, relevant)
        tables = [_Table((*model.parents[v], v), model.tables[v]) for v in model.states if v in needed]
    else:
        tables = [_Table(scope, table) for scope, table in zip(model.scopes, model.tables, strict=True)]
    tables += [_Table((v,), vector) for v, vector in evidence.likelihood.items()]
    return [_at(table, evidence.hard) for table in tables]


def _ancestral(model: DiscreteNetwork, variables: set[str]) -> set[str]:
    stack, out = list(variables), set(variables)
    while stack:
        above = set(model.parents[stack.pop()]) - out
        out |= above
        stack += above
    return out


def _at(table: _Table, hard: Mapping[str, int]) -> _Table:
    index = tuple(hard.get(v, slice(None)) for v in table.scope)
    return _Table(tuple(v for v in table.scope if v not in hard), table.values[index])


def _connected(tables: list[_Table], targets: Iterable[str]) -> list[_Table]:
    """The tables connected with a target, and the constants, which detect impossible evidence."""
    reached, grew = set(targets), True
    while grew:
        before = len(reached)
        for table in tables:
            if reached & set(table.scope):
                reached |= set(table.scope)
        grew = len(reached) > before
    return [t for t in tables if not t.scope or reached & set(t.scope)]


def _others(tables: Iterable[_Table], kept: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(v for t in tables for v in t.scope if v not in set(kept)))


def _sum_out(tables: list[_Table], variables: Iterable[str]) -> tuple[list[_Table], float]:
    """Scaled tables with these variables summed out, and the log of the scale, which includes all constants."""
    log_scale = 0.0
    tables = list(tables)
    for variable in _min_fill(tables, variables):
        product, tables = _collected(tables, variable)
        values = product.values.sum(axis=product.scope.index(variable))
        top = float(np.max(values))
        if not top > 0:
            return [], -np.inf
        log_scale += float(np.log(top))
        tables.append(_Table(tuple(v for v in product.scope if v != variable), values / top))
    constants = [float(t.values) for t in tables if not t.scope]
    if any(c == 0 for c in constants):
        return [], -np.inf
    return [t for t in tables if t.scope], log_scale + float(np.log(constants).sum())


def _max_out(tables: list[_Table], variables: Sequence[str]) -> tuple[dict[str, int], float]:
    """The states of the remaining variables that maximise the product; the first of equal ones."""
    steps: list[tuple[str, _Table]] = []
    log_top = 0.0
    for variable in _min_fill(tables, variables):
        product, tables = _collected(tables, variable)
        steps.append((variable, product))
        values = product.values.max(axis=product.scope.index(variable))
        top = float(np.max(values))
        if not top > 0:
            return {}, -np.inf
        log_top += float(np.log(top))
        tables.append(_Table(tuple(v for v in product.scope if v != variable), values / top))
    best: dict[str, int] = {}
    for variable, product in reversed(steps):
        best[variable] = int(np.argmax(_at(product, best).values))
    return best, log_top + float(sum(np.log(t.values) for t in tables))


def _collected(tables: list[_Table], variable: str) -> tuple[_Table, list[_Table]]:
    """The product of the tables that contain a variable, and the other tables."""
    holding = [t for t in tables if variable in t.scope]
    scope = list(dict.fromkeys(v for t in holding for v in t.scope))
    size = {v: n for t in holding for v, n in zip(t.scope, t.values.shape, strict=True)}
    _check_size(float(np.prod([float(size[v]) for v in scope])))
    values = np.ones([size[v] for v in scope])
    for table in sorted(holding, key=lambda t: t.values.size):
        values *= _aligned(table, scope)
    return _Table(tuple(scope), values), [t for t in tables if variable not in t.scope]


def _aligned(table: _Table, scope: Sequence[str]) -> np.ndarray:
    """A table with its axes in the positions of ``scope``, for broadcasting."""
    at = [scope.index(v) for v in table.scope]
    shape = [1] * len(scope)
    for place, n in zip(at, table.values.shape, strict=True):
        shape[place] = n
    return table.values.transpose(np.argsort(at)).reshape(shape)


def _min_fill(tables: Iterable[_Table], variables: Iterable[str]) -> list[str]:
    """The variables in min-fill order: fewest missing edges between neighbours first, then smaller cliques."""
    near: dict[str, set[str]] = {v: set() for v in variables}
    cards: dict[str, int] = {}
    for table in tables:
        for v, n in zip(table.scope, table.values.shape, strict=True):
            near.setdefault(v, set()).update(table.scope)
            cards[v] = n
    for v in near:
        near[v].discard(v)
    left = list(dict.fromkeys(variables))
    cost: dict[str, tuple[int, float]] = {}
    out = []
    while left:
        for v in left:
            if v not in cost:
                around = near[v]
                missing = sum(len(around) - 1 - len(around & near[u]) for u in around)
                cost[v] = missing, float(np.sum(np.log([cards[u] for u in around])))
        best = min(left, key=cost.__getitem__)
        left.remove(best)
        out.append(best)
        around = near.pop(best)
        touched = set(around)
        for u in around:
            near[u] |= around
            near[u] -= {u, best}
            touched |= near[u]
        for u in touched:
            cost.pop(u, None)
    return out


def _check_size(entries: float) -> None:
    limit = available_bytes() / 16 if entries > 1e6 else np.inf
    if entries > limit:
        raise EngineRefusal(
            f"variable elimination needs a table of {entries:.3g} entries, and {limit:.3g} fit into memory; ask for "
            "fewer targets, give more evidence, or approximate by likelihood weighting, Gibbs sampling or loopy "
            "belief propagation",
            code="too-costly",
        )


def _with_observed(
    values: np.ndarray, targets: Sequence[str], evidence: Evidence, states: Mapping[str, tuple[str, ...]]
) -> np.ndarray:
    """Add axes for the observed targets, with all mass on the observed states."""
    out = np.zeros([len(states[v]) for v in targets])
    out[tuple(evidence.hard.get(v, slice(None)) for v in targets)] = values
    return out
