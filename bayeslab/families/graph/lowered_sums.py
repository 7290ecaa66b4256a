"""Discrete nodes that are summed out, in programs of the density machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.families.graph.discrete_layout import Latent, tables_of
from bayeslab.families.graph.lowered_draws import Alone, CellSum, Elements, EliminationSum, PathSum
from bayeslab.families.graph.markov_law import MarkovLaw
from bayeslab.latents.networks.elimination import Factor, planned
from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.backend import Machine
from bayeslab.posterior.machine.discrete import States, scopes_of
from bayeslab.posterior.machine.evidence import log_evidence
from bayeslab.posterior.machine.functions import logsumexp
from bayeslab.posterior.machine.laws import Categories, Law, Scalar
from bayeslab.posterior.machine.program import Builder
from bayeslab.posterior.machine.sums import eliminated, markov_evidence, summed_by_group
from bayeslab.posterior.machine.wrapped import Truncated

__all__ = ["states_of", "sum_out"]

#: Largest number of values of one discrete cell.
_MOST_STATES = 10_000


def states_of(name: str, law: Law) -> tuple[int, int]:
    """Lowest value and number of values of a discrete distribution.

    Raises
    ------
    NotLowered
        The number of values is infinite, too large, or unknown before sampling.
    """
    limits = _range(law)
    if limits is None or not 1 <= limits[1] - limits[0] + 1 <= _MOST_STATES:
        raise NotLowered(name, "a discrete node that is summed out, whose values are not known or too many")
    return limits[0], limits[1] - limits[0] + 1


def _range(law: Law) -> tuple[int, int] | None:
    if isinstance(law, Categories):
        return 0, law.logs.shape[-1] - 1
    if isinstance(law, Truncated):
        ends = law.lower, law.upper
        if not all(end.constant and np.all(np.isfinite(end.value)) for end in ends):
            return None
        return int(np.ceil(np.min(ends[0].value))), int(np.max(ends[1].value))
    if not isinstance(law, Scalar):
        return None
    first = law.parameters[0]
    match law.word:
        case "Bernoulli":
            return 0, 1
        case "DiscreteUniform":
            lower, upper = law.parameters
            known = lower.constant and upper.constant
            return (int(np.min(lower.value)), int(np.max(upper.value))) if known else None
        case "Binomial" | "BetaBinomial" if first.constant:
            return 0, int(np.max(first.value))
    return None


def sum_out(
    builder: Builder,
    latents: Sequence[Latent],
    densities: Sequence[tuple[str, Var]],
    observed: Mapping[str, tuple[int, np.ndarray]],
) -> list[CellSum | PathSum | EliminationSum | Alone]:
    """Add the log of the sum over all values of the discrete nodes to the total.

    Parameters
    ----------
    densities
        Log densities that depend on them, by name.
    observed
        Of each node with data the number of its elements, and the positions of those in its density.

    Returns
    -------
    list
        The parts of the sum, from which the nodes are drawn.

    Raises
    ------
    NotLowered
        The sum is too large, or an operation on the nodes is not known.
    """
    ends = np.cumsum([0, *(latent.size for latent in latents)])
    cells = [np.arange(a, b) for a, b in pairwise(ends)]
    by_buffer = {id(latent.symbol.buffer): numbers for latent, numbers in zip(latents, cells, strict=True)}
    scopes = scopes_of(builder, [value for _, value in densities], by_buffer)
    owner = np.repeat(np.arange(len(latents)), [latent.size for latent in latents])
    # A node whose cells never occur together, nor with those of another, is summed out cell by cell.
    tied = set[int]()
    for scope in scopes:
        joint = scope[(scope >= 0).sum(axis=1) > 1]
        tied |= set(np.unique(owner[joint[joint >= 0]]).tolist())
    paths = [latents[k] for k in sorted(tied) if latents[k].path is not None]
    if paths:
        densities = [*densities, *((latent.name, _path_density(builder, latent)) for latent in paths)]
        scopes += scopes_of(builder, [value for _, value in densities[-len(paths) :]], by_buffer)
    sums, elements = dict[int, Var](), dict[int, list[Elements]]()
    rest: list[tuple[str, Var, np.ndarray, np.ndarray]] = []
    for (name, value), scope in zip(densities, scopes, strict=True):
        first = scope[:, 0] if scope.shape[1] else np.full(len(scope), -1)
        of_element = np.where(first < 0, -1, owner[first])
        for k in np.unique(of_element).tolist():
            rows = np.flatnonzero(of_element == k)
            if k in tied:
                continue
            table = _rows(_in_states(builder, latents, value, k), rows)
            if name in observed:
                size, places = observed[name]
                cells_of = first[rows] - ends[k] if k >= 0 else np.zeros(len(rows), np.int64)
                whole = table.broadcast_to((table.shape[0], len(rows)))
                elements.setdefault(k, []).append(Elements(name, size, places[rows], cells_of, whole))
            if k < 0:
                builder.add(table)
                continue
            part = _by_cell(table, first[rows] - ends[k], latents[k].size)
            sums[k] = sums[k] + part if k in sums else part
        rows = np.flatnonzero(np.isin(of_element, list(tied)))
        if len(rows):
            rest.append((name, value, scope, rows))
    parts: list[CellSum | PathSum | EliminationSum | Alone] = []
    for k, latent in enumerate(latents):
        if k in tied:
            continue
        these = tuple(elements.get(k, ()))
        if latent.path is not None:
            parts.append(_along_path(builder, latent, sums.get(k), these))
        elif k in sums:
            builder.add(logsumexp(sums[k], 0))
            parts.append(CellSum(latent, sums[k], these))
    if rest:
        parts.append(_eliminate(builder, latents, cells, sorted(tied), rest, observed))
    if -1 in elements:
        parts.append(Alone(tuple(elements[-1])))
    return parts


def _along_path(builder: Builder, latent: Latent, log_emission: Var | None, elements: tuple[Elements, ...]) -> PathSum:
    """Add the evidence of a path of hidden states, given log densities (states, cells) of what depends on each cell."""
    law, logs = latent.known_path.law, latent.known_path.logs
    if log_emission is None:
        raise NotLowered(latent.name, "a path on which no data depend")
    emission = log_emission.broadcast_to((latent.states, latent.size)).T
    if isinstance(law, MarkovLaw) and law.order == 1:
        builder.add(markov_evidence(logs, emission, law.offsets, law.n_starts, law.n_steps))
    else:
        kernel, flat, arrays = law.recursion(Machine(builder), logs, emission)
        builder.add(log_evidence(kernel, flat, *arrays))
    return PathSum(latent, emission, elements)


def _path_density(builder: Builder, latent: Latent) -> Var:
    """Log probability of each cell's state, given those before it."""
    assert latent.path is not None
    if not latent.path.law.eliminable:
        raise NotLowered(latent.name, "segments that are linked to other discrete nodes")
    density: Var = latent.path.law.density(Machine(builder), latent.path.logs, latent.symbol.reshape(-1))
    return density


def _in_states(builder: Builder, latents: Sequence[Latent], value: Var, k: int) -> Var:
    """A density in each state of the cells of one node, all in the same one, others at their first: (states, ...)."""
    given = {}
    for at, latent in enumerate(latents):
        states = latent.first + np.arange(latent.states if at == k else 1)
        numbers = builder.constant(states.reshape(-1, *[1] * len(latent.shape)))
        given[id(latent.symbol.buffer)] = numbers.broadcast_to((len(states), *latent.shape))
    return States(builder, given).of(value)


def _rows(table: Var, rows: np.ndarray) -> Var:
    """Some elements of a density, (states, elements)."""
    flat = table.reshape(table.shape[0], -1)
    return flat if len(rows) == flat.shape[1] else flat[:, rows]


def _by_cell(table: Var, cells: np.ndarray, number: int) -> Var:
    """Sums over the elements of each cell: (states, elements) as (states, cells)."""
    if np.array_equal(cells, np.arange(number)):
        return table
    if number == 1:
        return table.sum(1)[:, None]
    return summed_by_group(table, cells, number)


def _eliminate(
    builder: Builder,
    latents: Sequence[Latent],
    cells: Sequence[np.ndarray],
    tied: Sequence[int],
    densities: Sequence[tuple[str, Var, np.ndarray, np.ndarray]],
    observed: Mapping[str, tuple[int, np.ndarray]],
) -> EliminationSum:
    """Sum out nodes whose cells occur together, by variable elimination."""
    number = int(sum(len(each) for each in cells))
    place = np.full(number, -1)
    kept = np.concatenate([cells[k] for k in tied])
    place[kept] = np.arange(len(kept))
    used = [latents[k] for k in tied]
    factors, parts, length = list[Factor](), list[Var](), 0
    elements = list[Elements]()
    for name, value, scope, rows in densities:
        of_rows = [place[row[row >= 0]] for row in scope[rows]]
        try:
            tables, its, size = tables_of(name, of_rows, used, [place[cells[k]] for k in tied], len(kept), length)
        except ModelError as error:
            raise NotLowered(name, error.message) from None
        for table in tables:
            given = {
                id(each.symbol.buffer): builder.constant(some) for each, some in zip(used, table.values, strict=True)
            }
            for latent in latents:
                if latent not in used:
                    first = builder.constant(np.full((1, *latent.shape), latent.first))
                    given[id(latent.symbol.buffer)] = first
            made = States(builder, given).of(value)
            states = len(table.values[0])
            flat = _rows(made, rows).broadcast_to((states, len(rows)))
            parts.append((flat if len(table.elements) == len(rows) else flat[:, table.elements]).reshape(-1))
        if name in observed:
            total, places = observed[name]
            elements.append(Elements(name, total, places[rows], place[scope[rows, 0]], value))
        factors += its
        length += size
    sizes = [latents[k].states for k in tied for _ in cells[k]]
    try:
        plan = planned(sizes, factors, length)
    except ModelError as error:
        raise NotLowered(densities[0][0], error.message) from None
    flat = builder.concatenate(parts)
    builder.add(eliminated(builder, flat, plan.arrays))
    return EliminationSum(tuple(used), flat, plan, tuple(elements))
