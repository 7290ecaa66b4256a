"""Discrete nodes that a program sums out, and states and functions that it integrates out, drawn given the parameters.

Each part of a sum has tables in the program: log probabilities of the states, together with the data, up to a constant.
From them its nodes are drawn jointly, by the kernels that draw them in PyMC graphs. The table of an integral holds what
its kernel takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayeslab.families.graph.discrete_layout import Latent
from bayeslab.families.graph.functions_given import FunctionsGiven
from bayeslab.families.graph.path_laws import PathLaw
from bayeslab.families.graph.states_given import StatesGiven
from bayeslab.latents.networks.elimination import Elimination
from bayeslab.posterior.machine.arrays import Var

__all__ = ["CellSum", "EliminationSum", "Integral", "PathSum"]


@dataclass(frozen=True, eq=False)
class CellSum:
    """A node whose cells are independent given the parameters.

    Attributes
    ----------
    latent : Latent
    logs : Var (states, cells)
        Log probabilities of the states of each cell.
    """

    latent: Latent
    logs: Var

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


@dataclass(frozen=True, eq=False)
class PathSum:
    """A path of hidden states.

    Attributes
    ----------
    latent : Latent
    log_emission : Var (cells, states)
        Log density of the data of each cell in each state.
    """

    latent: Latent
    log_emission: Var

    @property
    def names(self) -> tuple[str, ...]:
        return (self.latent.name,)

    @property
    def tables(self) -> tuple[Var, ...]:
        assert self.latent.path is not None
        return self.latent.path.logs, self.log_emission

    def drawn(self, tables: Sequence[np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Paths (draws, ...) at log probabilities (draws, length) and log densities (draws, cells, states)."""
        pairs = zip(*map(np.ascontiguousarray, tables), strict=True)
        states = np.stack([self._law.law(logs, emission).sample(rng) for logs, emission in pairs])
        return {self.latent.name: states.reshape(len(states), *self.latent.shape)}

    def smoothed(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        """P(state | data), (cells, states), at tables of one draw."""
        return self._law.smoothed(self.latent.name, *map(np.ascontiguousarray, tables))

    @property
    def _law(self) -> PathLaw:
        assert self.latent.path is not None
        return self.latent.path.law


@dataclass(frozen=True, eq=False)
class EliminationSum:
    """Nodes whose cells occur together.

    Attributes
    ----------
    latents : tuple of Latent
    flat : Var (length,)
        The tables of all factors.
    plan : Elimination
    """

    latents: tuple[Latent, ...]
    flat: Var
    plan: Elimination

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
