"""Discrete nodes that a program sums out, and states and functions that it integrates out, drawn given the parameters.

Each part of a sum has tables in the program: log probabilities of the states, together with the data, up to a constant.
From them its nodes are drawn jointly, by the kernels that draw them in PyMC graphs. The table of an integral holds what
its kernel takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.families.graph.discrete_layout import Latent
from bayeslab.families.graph.functions_given import FunctionsGiven
from bayeslab.families.graph.path_laws import PathLaw
from bayeslab.families.graph.states_given import StatesGiven
from bayeslab.latents.networks.elimination import Elimination
from bayeslab.posterior.machine.arrays import Var

__all__ = ["Alone", "CellSum", "Elements", "EliminationSum", "Integral", "PathSum"]


@dataclass(frozen=True, eq=False)
class Elements:
    """Elements of an observed node whose log densities are in a part of a sum.

    Attributes
    ----------
    name : str
    size : int
        Number of elements of the node.
    places : ndarray of int (elements,)
        Their positions in the node.
    cells : ndarray of int (elements,)
        A cell of the part that each depends on.
    table : Var (states, elements)
        Log densities.
    """

    name: str
    size: int
    places: np.ndarray
    cells: np.ndarray
    table: Var


def _spread(elements: Sequence[Elements], values: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Values (draws, elements) at their places in nodes (draws, size), with zeros elsewhere."""
    out: dict[str, np.ndarray] = {}
    for these, value in zip(elements, values, strict=True):
        whole = out.setdefault(these.name, np.zeros((len(value), these.size)))
        whole[:, these.places] = value
    return out


def _check_alone(elements: Sequence[Elements], part: np.ndarray) -> None:
    """Refuse log likelihoods of single observations, if some share a part of the sum.

    Raises
    ------
    ModelError
    """
    rows = np.bincount(np.concatenate([part[these.cells] for these in elements] or [np.zeros(0, np.int64)]))
    for these in elements:
        if np.any(rows[part[these.cells]] > 1):
            raise ModelError(
                f"observations of '{these.name}' share a discrete node that is summed out, so a single observation has"
                " no log likelihood; compare such models by their predictions for new data",
                code="not-applicable",
            )


@dataclass(frozen=True, eq=False)
class Alone:
    """Elements that depend on no discrete cell.

    Attributes
    ----------
    elements : tuple of Elements
    """

    elements: tuple[Elements, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return ()

    @property
    def tables(self) -> tuple[Var, ...]:
        return tuple(these.table for these in self.elements)

    def drawn(self, tables: Sequence[np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Nothing is drawn."""
        return {}

    def terms(self, tables: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Log density (draws, size) of each observation; 0 of those in other parts."""
        return _spread(self.elements, [table[:, 0] for table in tables])


@dataclass(frozen=True, eq=False)
class CellSum:
    """A node whose cells are independent given the parameters.

    Attributes
    ----------
    latent : Latent
    logs : Var (states, cells)
        Log probabilities of the states of each cell.
    elements : tuple of Elements
    """

    latent: Latent
    logs: Var
    elements: tuple[Elements, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.latent.name,)

    @property
    def tables(self) -> tuple[Var, ...]:
        return (self.logs.broadcast_to((self.latent.states, self.latent.size)),)

    def drawn(self, tables: Sequence[np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Values of the nodes (draws, ...) at tables (draws, states, cells)."""
        (logs,) = tables
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        ends = weights.cumsum(axis=1)
        chosen = (rng.random((len(logs), 1, logs.shape[2])) * ends[:, -1:] >= ends[:, :-1]).sum(axis=1)
        return {self.latent.name: (self.latent.first + chosen).reshape(len(logs), *self.latent.shape)}

    def terms(self, tables: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Log density (draws, size) of each observation with its cell summed out; 0 of those in other parts."""
        _check_alone(self.elements, np.arange(self.latent.size))
        total = np.logaddexp.reduce(tables[0], axis=1)
        return _spread(self.elements, [total[:, these.cells] for these in self.elements])


@dataclass(frozen=True, eq=False)
class PathSum:
    """A path of hidden states.

    Attributes
    ----------
    latent : Latent
    log_emission : Var (cells, states)
        Log density of the data of each cell in each state.
    elements : tuple of Elements
    """

    latent: Latent
    log_emission: Var
    elements: tuple[Elements, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.latent.name,)

    @property
    def tables(self) -> tuple[Var, ...]:
        return self.latent.known_path.logs, self.log_emission, *(these.table for these in self.elements)

    def drawn(self, tables: Sequence[np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Paths (draws, ...) at log probabilities (draws, length) and log densities (draws, cells, states)."""
        pairs = zip(*map(np.ascontiguousarray, tables[:2]), strict=True)
        states = np.stack([self._law.law(logs, emission).sample(rng) for logs, emission in pairs])
        return {self.latent.name: states.reshape(len(states), *self.latent.shape)}

    def smoothed(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        """P(state | data), (cells, states), at tables of one draw."""
        return self._law.smoothed(self.latent.name, *map(np.ascontiguousarray, tables[:2]))

    def terms(self, tables: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Log density (draws, size) of each observation given all others; 0 of those in other parts.

        p(y | others) = 1 / sum over states of P(state | all) / p(y | state).
        """
        made: list[list[np.ndarray]] = [[] for _ in self.elements]
        for its in zip(*tables, strict=True):
            with np.errstate(divide="ignore"):
                share = np.log(self.smoothed(its))
            for these, table, out in zip(self.elements, its[2:], made, strict=True):
                possible = share[these.cells] > -np.inf
                odds = np.where(possible, share[these.cells] - np.where(possible, table.T, 0.0), -np.inf)
                out.append(-np.logaddexp.reduce(odds, axis=1))
        return _spread(self.elements, [np.stack(out) for out in made])

    @property
    def _law(self) -> PathLaw:
        return self.latent.known_path.law


@dataclass(frozen=True, eq=False)
class EliminationSum:
    """Nodes whose cells occur together.

    Attributes
    ----------
    latents : tuple of Latent
    flat : Var (length,)
        The tables of all factors.
    plan : Elimination
    elements : tuple of Elements
    """

    latents: tuple[Latent, ...]
    flat: Var
    plan: Elimination
    elements: tuple[Elements, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(latent.name for latent in self.latents)

    @property
    def tables(self) -> tuple[Var, ...]:
        return (self.flat,)

    def drawn(self, tables: Sequence[np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Joint values of the nodes (draws, ...) at tables (draws, length)."""
        from bayeslab.latents.networks import elimination_kernels

        (flat,) = tables
        uniform = rng.random((len(flat), self.plan.part.size))
        states = elimination_kernels.draw(np.ascontiguousarray(flat), uniform, *self.plan.arrays)
        out, at = {}, 0
        for latent in self.latents:
            cells = states[:, at : at + latent.size]
            out[latent.name] = np.asarray(latent.first + cells).reshape(len(states), *latent.shape)
            at += latent.size
        return out

    def terms(self, tables: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Log density (draws, size) of each observation with its cells summed out; 0 of those in other parts."""
        from bayeslab.latents.networks import elimination_kernels

        _check_alone(self.elements, self.plan.part)
        each = elimination_kernels.parts(np.ascontiguousarray(tables[0]), *self.plan.arrays)[:, self.plan.roots]
        return _spread(self.elements, [each[:, self.plan.part[these.cells]] for these in self.elements])


@dataclass(frozen=True, eq=False)
class Integral:
    """States or functions that enter a normal node.

    Attributes
    ----------
    flat : Var (length,)
    given : StatesGiven or FunctionsGiven
    """

    flat: Var
    given: StatesGiven | FunctionsGiven

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.given.normals.values())

    @property
    def tables(self) -> tuple[Var, ...]:
        return (self.flat,)

    def drawn(self, tables: Sequence[np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """The standard normals behind the nodes, drawn given the data at tables (draws, length)."""
        return self.given.drawn(np.ascontiguousarray(tables[0]), rng)

    def expected(self, tables: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """The means of these normals."""
        return self.given.expected(np.ascontiguousarray(tables[0]))

    def terms(self, tables: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Log density (draws, elements) of each row given all others; 0 where a row is missing."""
        return self.given.terms(np.ascontiguousarray(tables[0]))
