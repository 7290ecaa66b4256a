"""A model as a program of the density machine, with the names and shapes of its PyMC graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayeslab.posterior.machine.arrays import Var
from bayeslab.posterior.machine.laws import Law
from bayeslab.posterior.machine.program import Builder, Program, live
from bayeslab.posterior.machine.slow import outputs
from bayeslab.posterior.machine.transforms import Transform

__all__ = ["MachineModel", "Parameter"]


@dataclass(frozen=True, eq=False)
class Parameter:
    """A random node that is sampled.

    Attributes
    ----------
    name : str
    value_name : str
        Name of its unconstrained coordinates, as PyMC calls them.
    shape : tuple of int
        Of the coordinates.
    law : Law
    transform : Transform or None
    value : Var
        The node's value.
    start : Var
        The coordinates at which searches start: those of PyMC's support point.
    """

    name: str
    value_name: str
    shape: tuple[int, ...]
    law: Law
    transform: Transform | None
    value: Var
    start: Var

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return int(np.prod(self.shape))


@dataclass(frozen=True, eq=False)
class MachineModel:
    """A program, with the names and shapes of its parameters and outputs.

    Attributes
    ----------
    program : Program
        Its outputs are the parameters and the deterministic nodes, by name, in PyMC's order.
    parameters : tuple of Parameter
    deterministics : tuple of str
    intermediate : frozenset of str
        Deterministic nodes from which others are computed, and internal parameters represented by other nodes.
    dims : dict of str to tuple of str
        Names of the axes of variables.
    coords : dict of str to labels
    observed_cells, constants : dict of str to ndarray
        Data of observed nodes, and data that nodes use.
    """

    program: Program
    builder: Builder
    parameters: tuple[Parameter, ...]
    deterministics: tuple[str, ...] = ()
    intermediate: frozenset[str] = frozenset()
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    coords: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    observed_cells: Mapping[str, np.ndarray] = field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)

    def start(self, given: Mapping[str, Any] | None = None) -> np.ndarray:
        """PyMC's initial point: given values, or the support point of each parameter, given those before it."""
        point, at = np.zeros(self.program.n_dim), 0
        for parameter in self.parameters:
            if given and parameter.name in given:
                (place,) = self._coordinates(parameter, [np.asarray(given[parameter.name], float)], point[None])
            else:
                (place,) = self.values_at([parameter.start], point[None])[0]
            point[at : at + parameter.size] = place.ravel()
            at += parameter.size
        return point

    @property
    def improper(self) -> list[str]:
        """Parameters with an improper prior."""
        return [parameter.name for parameter in self.parameters if parameter.law.improper]

    def prior_points(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws from the prior, unconstrained, shape (n, n_dim).

        Raises
        ------
        NotImplementedError
            A prior has no random draws, as an improper one.
        """
        points, at = np.zeros((n, self.program.n_dim)), 0
        for parameter in self.parameters:
            inputs = self.values_at(parameter.law.inputs, points)
            drawn = [parameter.law.draw(rng, [values[i] for values in inputs]) for i in range(n)]
            ordered = parameter.transform is not None and parameter.transform.name == "ordered"
            if ordered and parameter.law.exchangeable:  # otherwise draws without the order are left out
                drawn = [np.sort(x, axis=-1) for x in drawn]
            placed = self._coordinates(parameter, drawn, points)
            points[:, at : at + parameter.size] = np.stack([np.ravel(x) for x in placed])
            at += parameter.size
        return points

    def _coordinates(self, parameter: Parameter, drawn: Sequence[np.ndarray], points: np.ndarray) -> list[np.ndarray]:
        """Unconstrained coordinates of values of a parameter, given points of those before it."""
        if parameter.transform is None:
            return [np.broadcast_to(x, parameter.shape) for x in drawn]
        bounds, out = self.values_at(parameter.transform.inputs, points), []
        for i, x in enumerate(drawn):
            builder = Builder()
            transform = parameter.transform.at([builder.constant(values[i]) for values in bounds])
            out.append(transform.forward(builder.constant(np.broadcast_to(x, parameter.law.shape).copy())).value)
        return out

    def values_at(self, variables: Sequence[Var], points: np.ndarray) -> list[np.ndarray]:
        """Values of arrays at points, shape (points, ...)."""
        moving = {str(k): var for k, var in enumerate(variables) if not var.constant}
        needed = live(self.builder.instructions, [var.buffer for var in moving.values()])
        values = outputs(self.builder.point, needed, moving, points) if moving else {}
        return [
            values[str(k)] if str(k) in values else np.broadcast_to(var.value, (len(points), *var.shape))
            for k, var in enumerate(variables)
        ]
