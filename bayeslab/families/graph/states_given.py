"""Linear-Gaussian states that were integrated out, given the data and the parameters, on arrays.

They are drawn by simulation smoothing [1]_. Rows have log densities too, each given all others.

References
----------
.. [1] Durbin, Koopman (2002). A simple and efficient simulation smoother for state space time series analysis.
   Biometrika 89, 603-615.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.errors import EvidenceError
from bayeslab.families.graph.state_components import StateNode

__all__ = ["StatesGiven"]


@dataclass(frozen=True, eq=False)
class StatesGiven:
    """States that enter the mean of a normal node, at flat vectors of what their filter needs.

    Attributes
    ----------
    states : tuple of StateNode
    name : str
        The node.
    size : int
        Number of its elements.
    places : ndarray of int
        Its observed elements, in the order of time.
    arrays : tuple of ndarray
        The filter's further arguments.
    """

    states: tuple[StateNode, ...]
    name: str
    size: int
    places: np.ndarray
    arrays: tuple[np.ndarray, ...]

    @property
    def normals(self) -> dict[str, str]:
        """The standard normals behind each node."""
        return {node.name: node.normals for node in self.states}

    def drawn(self, tables: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Standard normals of the states drawn given the data, at each of some flat vectors (draws, length)."""
        normals = [self._drawn(table, rng) for table in tables]
        return {node.normals: np.stack([each[k] for each in normals]) for k, node in enumerate(self.states)}

    def expected(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Means of the standard normals given the data, at each of some flat vectors: those of the smoothed states."""
        normals = [self._split(self._smoothed(table, self.arrays[0])[0]) for table in tables]
        return {node.normals: np.stack([each[k] for each in normals]) for k, node in enumerate(self.states)}

    def terms(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Log density (draws, elements) of each row given all others; 0 where a row is missing."""
        out = np.zeros((len(tables), self.size))
        for k, table in enumerate(tables):
            u, diagonal = self._smoothed(table, self.arrays[0])[1]
            out[k, self.places] = 0.5 * (np.log(diagonal) - LOG_2PI - u**2 / diagonal)
        return {self.name: out}

    def _drawn(self, table: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        """Normals drawn without data, and moved by what the data say of the difference."""
        from bayeslab.latents.linear_gaussian.structural_component_kernels import component_values

        y, cells, starts, sets, _, _, sizes = self.arrays
        blocks = self._blocks(table)
        drawn = [rng.normal(size=begins[-1]) for begins in self._begins]
        change = blocks[-1] * rng.normal(size=len(y))
        for k, node in enumerate(self.states):
            parameters = blocks[k].reshape(sizes[0], -1)
            fixed = (starts, self._begins[k][:-1], sets, np.ascontiguousarray(node.component.moves, np.int64),
                     np.array([node.component.d, node.component.q]))  # fmt: skip
            there = component_values(parameters, drawn[k], *fixed)
            alone = component_values(parameters, np.zeros_like(drawn[k]), *fixed)
            change = change + blocks[len(self.states) + k] * (there - alone)[cells]
        moved = self._split(self._smoothed(table, y - change)[0])
        return [one + other for one, other in zip(drawn, moved, strict=True)]

    def _smoothed(self, table: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from bayeslab.latents.linear_gaussian import structural_kernels as kernels

        lengths = [int(begins[-1]) for begins in self._begins]
        first = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
        places = np.stack([begins[:-1] + at for begins, at in zip(self._begins, first, strict=True)])
        normals, alone = np.zeros(sum(lengths)), np.zeros((2, len(y)))
        _, cells, starts, sets, moves, shapes, sizes = self.arrays
        rows = np.ascontiguousarray(y)
        value = kernels.smooth(table, rows, cells, starts, sets, moves, shapes, sizes, places, normals, alone)
        if not value > -np.inf:
            raise EvidenceError(
                f"'{self.name}': a row has the variance 0 given those before: look for standard deviations of 0",
                code="probability-zero",
            )
        return normals, alone

    @cached_property
    def _begins(self) -> list[np.ndarray]:
        return [node.cells.normals(node.component.d, node.component.q) for node in self.states]

    def _split(self, normals: np.ndarray) -> list[np.ndarray]:
        return np.split(normals, np.cumsum([int(begins[-1]) for begins in self._begins])[:-1])

    def _blocks(self, table: np.ndarray) -> list[np.ndarray]:
        """Parameters of each component, coefficients of each, offset and sigma."""
        shapes, sizes = self.arrays[5], self.arrays[6]
        lengths = [sizes[0] * (2 * d + 2 * d * d + d * q) for d, q in shapes]
        return np.split(table, np.cumsum([*lengths, *sizes[1 : len(shapes) + 3]])[:-1])
