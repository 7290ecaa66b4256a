"""Linear-Gaussian states summed out: by one Kalman filter where they enter one normal node with data linearly.

The filter gives the log evidence and its gradient. States come back after sampling, drawn given the data and the
parameters by simulation smoothing; so do the terms of rows, each given all others.

References
----------
.. [1] Durbin, Koopman (2002). A simple and efficient simulation smoother for state space time series analysis.
   Biometrika 89, 603-615.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.graph.traversal import ancestors

from bayeslab.constants import LOG_2PI
from bayeslab.errors import EvidenceError
from bayeslab.evidence import log_evidence
from bayeslab.families.graph.linear_rows import Linear, NotLinear, Rows, by_row, rows_apart
from bayeslab.families.graph.state_components import KERNEL, StateNode, filter_inputs
from bayeslab.language.backends import PYTENSOR
from bayeslab.latents.linear_gaussian import structural_kernels as kernels
from bayeslab.latents.linear_gaussian.structural_component_kernels import component_values

__all__ = ["StateSum", "summed_states"]


@dataclass(frozen=True, eq=False)
class StateSum:
    """The integral over all states.

    Attributes
    ----------
    log_sum : TensorVariable
        Its logarithm.
    tables : TensorVariable
        The flat vector of what the filter needs: components, coefficients, offset and sigma.
    states : tuple of StateNode
    rows : Rows
    places : ndarray of int
        The rows that are there, in the order of time, among all of the node.
    arrays : tuple of ndarray
        The kernel's further arguments.
    """

    log_sum: Any
    tables: Any
    states: tuple[StateNode, ...]
    rows: Rows
    places: np.ndarray
    arrays: tuple[np.ndarray, ...]

    @property
    def observed(self) -> dict[str, tuple[str, ...]]:
        """The dims of the node with data."""
        return {self.rows.name: self.rows.dims}

    def check_terms(self) -> None:
        """Nothing is refused: every row has a density given all others."""

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
        out = np.zeros((len(tables), self.rows.observed.size))
        for k, table in enumerate(tables):
            u, diagonal = self._smoothed(table, self.arrays[0])[1]
            out[k, self.places] = 0.5 * (np.log(diagonal) - LOG_2PI - u**2 / diagonal)
        return {self.rows.name: out}

    def _drawn(self, table: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        """Normals drawn without data, and moved by what the data say of the difference."""
        y, cells, starts, sets, _, _, sizes = self.arrays
        blocks = self._blocks(table)
        drawn = [rng.normal(size=begins[-1]) for begins in self._begins]
        change = blocks[-1] * rng.normal(size=len(y))
        for k, node in enumerate(self.states):
            parameters = blocks[k].reshape(sizes[0], -1)
            fixed = (starts, self._begins[k][:-1], sets, node.component.moves.astype(np.int64),
                     np.array([node.component.d, node.component.q]))  # fmt: skip
            there = component_values(parameters, drawn[k], *fixed)
            alone = component_values(parameters, np.zeros_like(drawn[k]), *fixed)
            change = change + blocks[len(self.states) + k] * (there - alone)[cells]
        moved = self._split(self._smoothed(table, y - change)[0])
        return [one + other for one, other in zip(drawn, moved, strict=True)]

    def _smoothed(self, table: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lengths = [int(begins[-1]) for begins in self._begins]
        first = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
        places = np.stack([begins[:-1] + at for begins, at in zip(self._begins, first, strict=True)])
        normals, alone = np.zeros(sum(lengths)), np.zeros((2, len(y)))
        _, cells, starts, sets, moves, shapes, sizes = self.arrays
        rows = np.ascontiguousarray(y)
        value = kernels.smooth(table, rows, cells, starts, sets, moves, shapes, sizes, places, normals, alone)
        if not value > -np.inf:
            raise EvidenceError(
                f"'{self.rows.name}': a row has the variance 0 given those before: look for standard deviations of 0",
                code="probability-zero",
            )
        return normals, alone

    @property
    def _begins(self) -> list[np.ndarray]:
        return [node.cells.normals(node.component.d, node.component.q) for node in self.states]

    def _split(self, normals: np.ndarray) -> list[np.ndarray]:
        return np.split(normals, np.cumsum([int(begins[-1]) for begins in self._begins])[:-1])

    def _blocks(self, table: np.ndarray) -> list[np.ndarray]:
        """Parameters of each component, coefficients of each, offset and sigma."""
        shapes, sizes = self.arrays[5], self.arrays[6]
        lengths = [sizes[0] * (2 * d + 2 * d * d + d * q) for d, q in shapes]
        return np.split(table, np.cumsum([*lengths, *sizes[1 : len(shapes) + 3]])[:-1])


def summed_states(states: Sequence[StateNode], rows: Rows, drawn: set[Any]) -> StateSum:
    """The integral over states that enter the mean of a normal node.

    Parameters
    ----------
    drawn
        The random variables of the model: what does not depend on them is known.

    Raises
    ------
    NotLinear
        They enter it in another way, or not all of them; or they are not states of the same times.
    """
    symbols = {node.symbol: np.arange(node.cells.place.size).reshape(node.symbol.type.shape) for node in states}
    mean, there = rows_apart(rows, symbols, drawn)
    first = states[0]
    for node in states:
        if node.dims != first.dims or not np.array_equal(node.cells.starts, first.cells.starts):
            raise NotLinear
    shape = rows.observed.shape
    cells = [np.broadcast_to(mean.cells[node.symbol], shape).ravel() for node in states]
    if any(not np.array_equal(cells[0], other) for other in cells[1:]):
        raise NotLinear
    places = there[np.argsort(cells[0][there], kind="stable")]
    return _summed(states, rows, mean, places, cells[0][places], drawn)


def _summed(
    states: Sequence[StateNode], rows: Rows, mean: Linear, places: np.ndarray, cells: np.ndarray, drawn: set[Any]
) -> StateSum:
    shape = rows.observed.shape
    coefficients = [by_row(mean.coefficients[node.symbol], shape, places) for node in states]
    by_rows = [*coefficients, *(by_row(value, shape, places) for value in (mean.offset, rows.sigma))]
    varying = not set(ancestors(coefficients)).isdisjoint(drawn)
    y = np.ascontiguousarray(rows.observed.ravel()[places])
    flat, arrays = filter_inputs(PYTENSOR, states, y, cells, by_rows, varying)
    return StateSum(log_evidence(KERNEL, flat, *arrays), flat, tuple(states), rows, places, arrays)
