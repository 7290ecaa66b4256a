"""Hidden paths summed out by the recursions of their laws, if each density depends on one cell of one path.

The data then enter as a table log p(data of a cell | state), from one evaluation of each density for every state, and a
compiled kernel sums over all paths at once. A path that is linked to other discrete nodes, by a density that depends on
several of them or by probabilities that depend on one, is summed out together with them by variable elimination.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.special import LogSoftmax, Softmax, log_softmax, softmax
from pytensor.tensor.subtensor import AdvancedSubtensor

from bayeslab.errors import ModelError
from bayeslab.families.graph.dependence import scopes_of
from bayeslab.families.graph.discrete_layout import Latent
from bayeslab.families.graph.discrete_nodes import Density, SummedOut, by_element, flat_at_zero, standing
from bayeslab.families.graph.discrete_nodes import summed_out as eliminated
from bayeslab.families.graph.path_laws import PathLaw
from bayeslab.language.backends import PYTENSOR

if TYPE_CHECKING:
    import pymc

    from bayeslab.families.graph.path_laws import HiddenPath

__all__ = ["Emission", "PathSum", "Sums", "summed_out"]

# Operations that repeat their first input, or check its shape.
_REPEATS = (Alloc, SpecifyShape)


@dataclass(frozen=True, eq=False)
class Emission:
    """A density that depends on a path.

    Attributes
    ----------
    name : str
    dims : tuple of str
    cells : ndarray of int (elements,)
        The cell that each element depends on, or -1.
    place : int
        Start of its table (states, elements) in the path's flat vector.
    observed : bool
    """

    name: str
    dims: tuple[str, ...]
    cells: np.ndarray
    place: int
    observed: bool


@dataclass(frozen=True, eq=False)
class PathSum:
    """The sum over one node's paths.

    Attributes
    ----------
    log_sum : TensorVariable
    tables : TensorVariable
        The flat log probabilities of the path, then the tables of the densities that depend on it.
    latent : Latent
    law : PathLaw
    n_logs : int
        Number of log probabilities.
    emissions : tuple of Emission
    """

    log_sum: Any
    tables: Any
    latent: Latent
    law: PathLaw
    n_logs: int
    emissions: tuple[Emission, ...]

    @property
    def path(self) -> HiddenPath:
        """The node's law, dimensions and names of states."""
        return self.latent.known_path

    def at(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log probabilities of the path, and log p(data of a cell | state) (cells, states), from a flat vector."""
        total = np.zeros((self.law.n_cells, self.law.n_states))
        for emission in self.emissions:
            there = emission.cells >= 0
            np.add.at(total, emission.cells[there], self.table_of(emission, table).T[there])
        return np.ascontiguousarray(table[: self.n_logs]), total

    def table_of(self, emission: Emission, table: np.ndarray) -> np.ndarray:
        """log p(element | state), (states, elements)."""
        size = self.law.n_states * len(emission.cells)
        return table[emission.place : emission.place + size].reshape(self.law.n_states, -1)

    def drawn(self, tables: np.ndarray, rng: np.random.Generator, n: int | None = None) -> dict[str, np.ndarray]:
        """Paths drawn given the data at each of some flat vectors (draws, length), or ``n`` at the only one."""
        filled = [self.at(table) for table in tables] if n is None else [self.at(tables[0])] * n
        states = np.stack([self.law.law(*each).sample(rng) for each in filled])
        return {self.latent.name: states.reshape(len(states), *self.latent.shape)}

    def smoothed(self, table: np.ndarray) -> np.ndarray:
        """P(state | data), (cells, states).

        Raises
        ------
        EvidenceError
            The data are impossible.
        """
        return self.law.smoothed(self.latent.name, *self.at(table))

    def terms(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Log likelihood (draws, elements) of each cell of the nodes with data, given all their other cells.

        p(y | others) = 1 / sum over states of P(state | all) / p(y | state).
        """
        observed = [emission for emission in self.emissions if emission.observed]
        out: dict[str, list[np.ndarray]] = {emission.name: [] for emission in observed}
        for table in tables:
            posterior = self.smoothed(table)
            with np.errstate(divide="ignore"):
                share = np.log(posterior)
            for emission in observed:
                logs = self.table_of(emission, table).T
                log_p = share[np.maximum(emission.cells, 0)]
                possible = log_p > -np.inf
                each = np.where(possible, log_p - np.where(possible, logs, 0.0), -np.inf)
                left = -np.logaddexp.reduce(each, axis=1)
                out[emission.name].append(np.where(emission.cells >= 0, left, logs[:, 0]))
        return {name: np.stack(rows) for name, rows in out.items()}


@dataclass(frozen=True, eq=False)
class Sums:
    """The sum over all discrete nodes, in parts without common nodes.

    Attributes
    ----------
    log_sum, tables : TensorVariable
        Log of the sum; the concatenated flat vectors of the parts.
    paths : tuple of PathSum
    rest : SummedOut or None
        The part summed out by variable elimination.
    ends : ndarray (parts,)
        End of each part's vector: first the paths, then the rest.
    """

    log_sum: Any
    tables: Any
    paths: tuple[PathSum, ...]
    rest: SummedOut | None
    ends: np.ndarray

    @property
    def latents(self) -> tuple[Latent, ...]:
        return (*(path.latent for path in self.paths), *(self.rest.latents if self.rest is not None else ()))

    @property
    def observed(self) -> dict[str, tuple[str, ...]]:
        """The dims of the observed nodes whose densities are in the sum."""
        dims_of = {e.name: e.dims for path in self.paths for e in path.emissions if e.observed}
        rest = self.rest.observed if self.rest is not None else {}
        return dims_of | {name: dims for name, (dims, _, _) in rest.items()}

    def parts(self, tables: np.ndarray) -> list[np.ndarray]:
        """The flat vectors (draws, length) of each part."""
        return [np.ascontiguousarray(part) for part in np.split(tables, self.ends[:-1], axis=1)]

    def drawn(self, tables: np.ndarray, rng: np.random.Generator, n: int | None = None) -> dict[str, np.ndarray]:
        """Values of the nodes drawn jointly at each of some flat vectors, or ``n`` times at the only one."""
        out: dict[str, np.ndarray] = {}
        for part, table in zip((*self.paths, self.rest), self.parts(tables), strict=False):
            if part is not None:
                out |= part.drawn(table, rng, n)
        return out

    def log_evidence(self, tables: np.ndarray) -> np.ndarray:
        """Log of the whole sum (draws,), paths and eliminated nodes, at each flat vector."""
        total = np.zeros(len(tables))
        for part, part_tables in zip((*self.paths, self.rest), self.parts(tables), strict=False):
            if isinstance(part, PathSum):
                total += [float(part.law.law(*part.at(table)).expected().log_evidence.sum()) for table in part_tables]
            elif part is not None:
                total += part.log_evidence(part_tables)
        return total

    def expected(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Empty: discrete nodes have no standard normals behind them."""
        return {}

    def check_terms(self) -> None:
        """Refuse pointwise log likelihoods if observations share a part of the eliminated sum."""
        if self.rest is not None:
            self.rest.check_terms()

    def terms(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Log likelihoods (draws, elements) of the nodes with data."""
        out: dict[str, np.ndarray] = {}
        for part, table in zip((*self.paths, self.rest), self.parts(tables), strict=False):
            if part is not None:
                out |= part.terms(table)
        return out


def summed_out(latents: Sequence[Latent], densities: Sequence[Density], model: pymc.Model) -> Sums:
    """Sum out discrete nodes, hidden paths among them.

    Raises
    ------
    ModelError
        Nothing depends on a path; a path cannot be summed out with the nodes it is linked to; or a table is too large.
    """
    by_symbol = {latent.symbol: latent for latent in latents}
    met = [(density, [by_symbol[v] for v in _symbols(density.value, by_symbol)]) for density in densities]
    paths = [latent for latent in latents if latent.path is not None]
    # Discrete nodes in the probabilities of a path are linked to it.
    above = [
        (latent, [by_symbol[v] for v in _symbols(latent.path.logs, by_symbol)])
        for latent in paths
        if latent.path is not None
    ]
    _refuse_idle(paths, [*(several for _, several in met), *(deciding for _, deciding in above)])
    known = standing(model)
    tied = {node.name for latent, deciding in above if deciding for node in (latent, *deciding)}
    tied |= {node.name for _, several in met if len(several) > 1 for node in several}
    scopes: dict[str, list[tuple[Density, Any, np.ndarray]]] = {latent.name: [] for latent in paths}
    for density, several in met:
        if len(several) != 1 or several[0].path is None or several[0].name in tied:
            continue
        (latent,) = several
        cells = np.arange(latent.size).reshape(latent.shape)
        value = by_element(density.value, {latent.symbol: cells}, known)
        deciding_cells = scopes_of(value, {latent.symbol: cells}, latent.size, known)
        if max(map(len, deciding_cells), default=0) > 1:
            tied.add(latent.name)
            continue
        scopes[latent.name].append(
            (density, value, np.array([s[0] if len(s) else -1 for s in deciding_cells], np.int64))
        )
    _refuse_tied(paths, tied)
    alone = [latent for latent in paths if latent.name not in tied]
    parts: list[PathSum] = [_summed(latent, scopes[latent.name]) for latent in alone]
    gone = {latent.symbol for latent in alone}
    rest = None
    others = [latent for latent in latents if latent.symbol not in gone]
    if others:
        left = [density for density, several in met if not any(latent.symbol in gone for latent in several)]
        rest = eliminated(others, [*_path_densities(others), *left], model)
    whole: list[PathSum | SummedOut] = [*parts, *([rest] if rest is not None else [])]
    tables = pt.concatenate([part.tables for part in whole]) if len(whole) > 1 else whole[0].tables
    # A copied parameter would be drawn again at each evaluation.
    drawn = {v for v in ancestors([tables]) if v.owner is not None and hasattr(v.owner.op, "dist_params")}
    assert all(v in model.basic_RVs for v in drawn if v.dtype.startswith(("float", "int")))
    total = sum((part.log_sum for part in whole[1:]), start=whole[0].log_sum)
    return Sums(total, tables, tuple(parts), rest, np.cumsum([_length(part) for part in whole]))


def _length(part: PathSum | SummedOut) -> int:
    if isinstance(part, SummedOut):
        return int(part.tables.type.shape[0])
    return part.n_logs + sum(part.law.n_states * len(emission.cells) for emission in part.emissions)


def _symbols(variable: Any, by_symbol: Mapping[Any, Latent]) -> list[Any]:
    above = set(ancestors([variable]))
    return [symbol for symbol in by_symbol if symbol in above]


def _refuse_idle(paths: Sequence[Latent], met: Sequence[Sequence[Latent]]) -> None:
    for latent in paths:
        if not any(latent in several for several in met):
            raise ModelError(
                f"no node with data depends on '{latent.name}', so the data carry no information about its states: use"
                f" it in one, as in rate[{latent.name}], or leave it out",
                path=latent.path.where if latent.path is not None else (),
                code="nothing-observed",
            )


def _refuse_tied(paths: Sequence[Latent], tied: set[str]) -> None:
    for latent in paths:
        if latent.name in tied and latent.path is not None and not latent.path.law.eliminable:
            raise ModelError(
                f"the segments of '{latent.name}' cannot be summed out together with other discrete nodes without data",
                path=latent.path.where,
                code="discrete",
            )


def _path_densities(latents: Sequence[Latent]) -> list[Density]:
    """Log probabilities of paths, cell by cell, for variable elimination."""
    out = []
    for latent in latents:
        if latent.path is not None:
            value = latent.path.law.density(PYTENSOR, latent.path.logs, latent.symbol.ravel())
            out.append(Density(latent.name, value, (), False))
    return out


def _summed(latent: Latent, met: Sequence[tuple[Density, Any, np.ndarray]]) -> PathSum:
    """The sum over one node's paths, which are not linked to other discrete nodes."""
    law, logs = latent.known_path.law, latent.known_path.logs
    n_logs = int(logs.type.shape[0]) if logs.type.shape[0] is not None else int(logs.shape[0].eval())
    emissions, tables, place = list[Emission](), [logs], n_logs
    total, constants = None, []
    for density, value, cells in met:
        table = _categories(density, latent, cells)
        if table is None:
            table = _by_state(value, latent, cells)
        emissions.append(Emission(density.name, density.dims, cells, place, density.observed))
        tables.append(table.ravel())
        place += law.n_states * len(cells)
        free = cells < 0
        if free.any():
            constants.append(pt.sum(table[0, pt.constant(np.flatnonzero(free))]))
        log_emission = _laid_out(table, cells, law)
        total = log_emission if total is None else total + log_emission
    log_sum = _normal_evidence(latent, met)
    if log_sum is None:
        log_sum = law.evidence(logs, total)
    for constant in constants:
        log_sum = log_sum + constant
    return PathSum(log_sum, pt.concatenate(tables), latent, law, n_logs, tuple(emissions))


def _normal_evidence(latent: Latent, met: Sequence[tuple[Density, Any, np.ndarray]]) -> Any | None:
    """The sum if all densities are normal with moments that depend only on the state; otherwise None."""
    assert latent.path is not None
    moments = []
    for density, _, cells in met:
        if density.normal is None or not np.array_equal(cells, np.arange(latent.size)):
            return None
        moments_of_state = [_of_state(parameter, latent) for parameter in density.normal[:2]]
        if any(one is None for one in moments_of_state):
            return None
        moments.append(moments_of_state)
    mean, deviation = (pt.stack([pair[k] for pair in moments], axis=1) for k in (0, 1))
    rows = np.stack([density.normal[2].ravel() for density, _, _ in met if density.normal is not None], axis=1)
    return latent.path.law.normal_evidence(latent.path.logs, mean, deviation, np.ascontiguousarray(rows))


def _categories(density: Density, latent: Latent, cells: np.ndarray) -> Any | None:
    """Log probabilities of categories by state, (states, elements), if they depend only on it; otherwise None."""
    if density.categories is None or not np.array_equal(cells, np.arange(latent.size)):
        return None
    logs, codes = density.categories
    logs = flat_at_zero(logs, [latent.symbol])
    if logs.ndim != len(latent.shape) + 1 or not _looks_up(logs, latent):
        return None
    made = _of_one(logs, latent)
    if not all(n == 1 for n in made.type.shape[1:-1]) or made.type.shape[-1] is None:
        return None
    n, at = made.type.shape[-1], codes.ravel()
    table = made.reshape((latent.states, n))[:, np.clip(at, 0, n - 1)]
    return pt.switch(at >= n, -np.inf, pt.switch(at < 0, 0.0, table)) if np.any((at < 0) | (at >= n)) else table


def _of_state(parameter: Any, latent: Latent) -> Any | None:
    """A parameter by state (states,), if it is equal for all cells in a state; otherwise None."""
    if all(parameter.type.broadcastable):
        return pt.broadcast_to(parameter.reshape(()), (latent.states,))
    if not _looks_up(parameter, latent):
        return None
    made = _of_one(parameter, latent)
    return made.reshape((latent.states,)) if all(n == 1 for n in made.type.shape[1:]) else None


def _laid_out(table: Any, cells: np.ndarray, law: PathLaw) -> Any:
    """A table (states, elements) as (cells, states)."""
    if np.array_equal(cells, np.arange(law.n_cells)):
        return table.T
    there = np.flatnonzero(cells >= 0)
    if len(there) == law.n_cells and len(np.unique(cells[there])) == law.n_cells:
        place = np.empty(law.n_cells, np.int64)
        place[cells[there]] = there
        return table.T[place]
    zeros = pt.zeros((law.n_cells, law.n_states))
    return pt.inc_subtensor(zeros[cells[there]], table.T[there])


def _by_state(value: Any, latent: Latent, cells: np.ndarray) -> Any:
    """A density (elements) in every state, (states, elements).

    If each element depends on the cell at its own position, and the operations between only look up the state and
    compute elementwise, a single lookup serves all cells.
    """
    states, ndim = latent.states, len(latent.shape)
    shape = value.type.shape
    if shape == latent.shape and np.array_equal(cells, np.arange(latent.size)) and _looks_up(value, latent):
        return pt.broadcast_to(_of_one(value, latent), (states, *latent.shape)).reshape((states, len(cells)))
    numbers = np.arange(states).reshape(states, *[1] * ndim)
    every = pt.constant(np.broadcast_to(numbers, (states, *latent.shape)).copy())
    made = vectorize_graph(value, {latent.symbol: every})
    return made.reshape((states, len(cells)))


def _of_one(value: Any, latent: Latent) -> Any:
    """A variable that :func:`_looks_up` accepts, by state, (states, ...): one cell represents all equal ones."""
    ndim = len(latent.shape)
    numbers = np.arange(latent.states).reshape(latent.states, *[1] * ndim)
    made = {latent.symbol: pt.constant(numbers)}
    for node in _between(value, latent.symbol):
        out, op = node.outputs[0], node.op
        if isinstance(op, Elemwise):
            made[out] = op(*(made[i] if i in made else i[None] for i in node.inputs))
        elif isinstance(op, Softmax | LogSoftmax):
            again = softmax if isinstance(op, Softmax) else log_softmax
            made[out] = again(made[node.inputs[0]], axis=-1)
        elif isinstance(op, DimShuffle):
            order = (0, *(axis if axis == "x" else axis + 1 for axis in op.new_order))
            made[out] = made[node.inputs[0]].dimshuffle(order)
        elif isinstance(op, AdvancedSubtensor):
            base, *indices = node.inputs
            made[out] = base[tuple(made.get(index, index) for index in indices)]
        else:
            made[out] = made[node.inputs[0]]
    return made[value]


def _between(value: Any, symbol: Any) -> Iterator[Any]:
    """The operations by which a variable depends on a symbol, first ones first."""
    moving = {symbol}
    for node in io_toposort([], [value]):
        if any(i in moving for i in node.inputs):
            moving.update(node.outputs)
            yield node


def _looks_up(value: Any, latent: Latent) -> bool:
    """Whether the states are only indices into tables, and everything else is elementwise."""
    moving = {latent.symbol}
    for node in _between(value, latent.symbol):
        moving.update(node.outputs)
        if isinstance(node.op, Elemwise):
            continue
        if isinstance(node.op, DimShuffle) and not node.op.drop:
            continue
        if isinstance(node.op, AdvancedSubtensor) and node.inputs[0] not in moving and _leading(node):
            continue
        if isinstance(node.op, Softmax | LogSoftmax) and node.op.axis == (node.inputs[0].ndim - 1,):
            continue
        if isinstance(node.op, _REPEATS) and node.outputs[0].type.shape == node.inputs[0].type.shape:
            continue
        return False
    return True


def _leading(node: Any) -> bool:
    """Whether the indices are whole numbers for the first axes, in their order, and nothing else."""
    places, count = node.op.idx_list, len(node.inputs) - 1
    whole = all(index.type.dtype != "bool" for index in node.inputs[1:])
    return whole and list(places[:count]) == list(range(count)) and all(p == slice(None) for p in places[count:])
