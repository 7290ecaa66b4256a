"""A model as a program of the density machine, with the names and shapes of its PyMC graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from bayeslab.posterior.machine.arrays import Instruction, Part, Var
from bayeslab.posterior.machine.laws import Law
from bayeslab.posterior.machine.program import Builder, Program, live
from bayeslab.posterior.machine.slow import outputs
from bayeslab.posterior.machine.transforms import Transform

__all__ = ["MachineModel", "Parameter", "SummedPart"]

# Numbers in tables that are computed at a time.
_BLOCK = 10_000_000


class SummedPart(Protocol):
    """A part of a sum over discrete nodes or an integral over others, from whose tables these are drawn."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def tables(self) -> tuple[Var, ...]: ...
    def drawn(self, tables: Sequence[np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]: ...


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
    in_order : bool
        Whether the elements of the value increase along its last axis.
    """

    name: str
    value_name: str
    shape: tuple[int, ...]
    law: Law
    transform: Transform | None
    value: Var
    start: Var
    in_order: bool = False

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
    sums : tuple of SummedPart
        Parts of the sum over discrete nodes, or integrals over states and functions.
    unknowns : dict of str to Var
        The discrete nodes that are summed out.
    derived : dict of str to Var
        Deterministic nodes that depend on them.
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
    sums: tuple[SummedPart, ...] = ()
    unknowns: Mapping[str, Var] = field(default_factory=dict)
    derived: Mapping[str, Var] = field(default_factory=dict)

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

    def part(self, part: Part) -> tuple[Program, np.ndarray]:
        """The program of a part of the density, and which coordinates belong to parameters that it depends on."""
        program = Program(self.builder, (part,), {})
        flat = [i for item in program.instructions for i in ([item] if isinstance(item, Instruction) else item.body)]
        read = {var.offset for item in flat for var in item.inputs if var.buffer is self.builder.point and var.size}
        ends = np.cumsum([0, *(parameter.size for parameter in self.parameters)])
        inside = np.zeros(program.n_dim, bool)
        for first, last in pairwise(ends):
            inside[first:last] = any(first <= at < last for at in read)
        return program, inside

    @property
    def improper(self) -> list[str]:
        """Parameters with an improper prior."""
        return [parameter.name for parameter in self.parameters if parameter.law.improper]

    def quantities(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Parameters and deterministic nodes at unconstrained points (points, n_dim), by name."""
        return self.program.outputs(points)

    def log_priors(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Log prior density (points, ...) of each parameter at points, without the Jacobians of transforms.

        An ordered vector has one density.

        Raises
        ------
        NotLowered
            The density of a parameter is known as a sum only.
        """
        logs = {}
        for parameter in self.parameters:
            law = parameter.law
            each = law.log_density(parameter.value).broadcast_to(law.shape[: len(law.shape) - law.support])
            logs[parameter.name] = each.sum(-1) if parameter.in_order else each
        moving = {name: var for name, var in logs.items() if not var.constant}
        values = Program(self.builder, (), moving).outputs(points) if moving else {}
        return {
            name: values[name] if name in values else np.broadcast_to(var.value, (len(points), *var.shape))
            for name, var in logs.items()
        }

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
            if parameter.in_order and parameter.law.exchangeable:  # otherwise draws without the order are left out
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

    def points_at(self, draws: Mapping[str, np.ndarray], n: int = 1) -> np.ndarray:
        """Unconstrained points (draws, n_dim) of draws of all parameters by name, shape (draws, ...).

        ``n`` is the number of draws where the model has no parameters.
        """
        n = len(draws[self.parameters[0].name]) if self.parameters else n
        points, at = np.zeros((n, self.program.n_dim)), 0
        for parameter in self.parameters:
            values = np.asarray(draws[parameter.name], dtype=np.float64)
            transform = parameter.transform
            if transform is None:
                placed = values
            elif transform.batched:
                builder, bounds = Builder(), self.values_at(transform.inputs, points)
                ndim = len(parameter.law.shape)
                given = [builder.constant(b.reshape(n, *[1] * (ndim - b.ndim + 1), *b.shape[1:])) for b in bounds]
                placed = transform.at(given).forward(builder.constant(values)).value
            else:
                placed = np.stack(self._coordinates(parameter, list(values), points))
            points[:, at : at + parameter.size] = placed.reshape(n, -1)
            at += parameter.size
        return points

    def recovered(self, points: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """What was summed or integrated out, drawn at points.

        Discrete nodes are drawn jointly, with the deterministic nodes that depend on them; of states and functions, the
        standard normals that they are made of.

        Parameters
        ----------
        points
            Unconstrained points, shape (points, n_dim).

        Returns
        -------
        dict of str to ndarray (points, ...)
        """
        out = self._of_parts(points, lambda part, tables: part.drawn(tables, rng))
        if self.integrals:
            return out
        out = {name: out[name] for name in self.unknowns}
        return out | self._derived_at(points, out)

    def expected(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Means of the standard normals behind states and functions that were integrated out, at points."""
        return self._of_parts(points, lambda part, tables: part.expected(tables))

    def terms(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Log density (points, elements) of each observation of the nodes in the sums, given all others, at points."""
        return self._of_parts(points, lambda part, tables: part.terms(tables))

    @property
    def integrals(self) -> bool:
        """Whether the sums are integrals over states and functions."""
        return bool(self.sums) and not self.unknowns

    def _of_parts(
        self, points: np.ndarray, made: Callable[[Any, list[np.ndarray]], dict[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """What each part of the sum makes of its tables."""
        blocks = list[dict[str, np.ndarray]]()
        for tables in self.tables_at(points):
            block: dict[str, np.ndarray] = {}
            for part, its in zip(self.sums, tables, strict=True):
                for name, values in made(part, its).items():
                    # A node's observations may be in several parts, and are zero in the others.
                    block[name] = block[name] + values if name in block else values
            blocks.append(block)
        return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}

    def tables_at(self, points: np.ndarray) -> Iterator[list[list[np.ndarray]]]:
        """The tables of each part of the sum, shape (points, ...), in blocks of points."""
        program = self._tables
        step = max(1, _BLOCK // max(sum(var.size for var in program.named_outputs.values()), 1))
        for i in range(0, len(points), step):
            values = program.outputs(points[i : i + step])
            yield [[values[f"{k} {j}"] for j in range(len(part.tables))] for k, part in enumerate(self.sums)]

    @cached_property
    def _tables(self) -> Program:
        """The program that computes the tables of the parts of the sum."""
        named = {f"{k} {j}": var for k, part in enumerate(self.sums) for j, var in enumerate(part.tables)}
        return Program(self.builder, (), named)

    def _derived_at(self, points: np.ndarray, drawn: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Deterministic nodes at points and values of the discrete nodes."""
        moving = {name: var for name, var in self.derived.items() if not var.constant}
        needed = live(self.builder.instructions, [var.buffer for var in moving.values()])
        given = [(self.unknowns[name].buffer, values.reshape(len(values), -1)) for name, values in drawn.items()]
        values = outputs(self.builder.point, needed, moving, points, given) if moving else {}
        return {
            name: values[name] if name in values else np.broadcast_to(var.value, (len(points), *var.shape))
            for name, var in self.derived.items()
        }

    def values_at(self, variables: Sequence[Var], points: np.ndarray) -> list[np.ndarray]:
        """Values of arrays at points, shape (points, ...)."""
        moving = {str(k): var for k, var in enumerate(variables) if not var.constant}
        needed = live(self.builder.instructions, [var.buffer for var in moving.values()])
        values = outputs(self.builder.point, needed, moving, points) if moving else {}
        return [
            values[str(k)] if str(k) in values else np.broadcast_to(var.value, (len(points), *var.shape))
            for k, var in enumerate(variables)
        ]
