"""The writer of programs: families' log densities without PyMC."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.language.writer import Rising, Scaled, Writer
from bayeslab.posterior.machine.arrays import Instruction, NotLowered, Recorder, Var
from bayeslab.posterior.machine.backend import Machine
from bayeslab.posterior.machine.declarations import Declarations
from bayeslab.posterior.machine.evidence import called, log_evidence, python_evidence
from bayeslab.posterior.machine.laws import Law
from bayeslab.posterior.machine.model import MachineModel
from bayeslab.posterior.machine.program import Builder
from bayeslab.posterior.machine.transforms import Affine, Interval, Ordered, OrderedBetween, Transform
from bayeslab.posterior.machine.vector_laws import law_of
from bayeslab.posterior.machine.wrapped import Truncated

__all__ = ["ProgramWriter"]


class ProgramWriter(Declarations, Writer):
    """Writes a program of the density machine.

    Parameters
    ----------
    coords : mapping of str to labels
        Labels of the dimensions.
    begun : Declarations, optional
        Parameters that a program has already, and its builder.
    known : mapping of str to Var
        Variables of that program, by name.
    """

    def __init__(
        self,
        coords: Mapping[str, Sequence[Any]],
        begun: Declarations | None = None,
        known: Mapping[str, Var] | None = None,
    ) -> None:
        self.builder = Builder() if begun is None else begun.builder
        self.parameters = [] if begun is None else list(begun.parameters)
        self.computed_nodes = [] if begun is None else list(begun.computed_nodes)
        self.dims = {} if begun is None else dict(begun.dims)
        self.ops = Machine(self.builder)
        self.coords = dict(coords)
        self.values: dict[str, Var] = dict(known or {})
        # What the evidence is computed from.
        self.read: list[Var] = []

    # -------------------------------------------------------------------------------- the model

    def random(
        self,
        name: str,
        word: str,
        parameters: Mapping[str, Any],
        shape: tuple[int, ...] = (),
        *,
        dims: tuple[str, ...] = (),
        start: np.ndarray | None = None,
        coordinates: Scaled | Rising | None = None,
        between: tuple[float, float] | None = None,
    ) -> Any:
        law = law_of(self.builder, word, {n: self.builder.as_var(v) for n, v in parameters.items()}, shape)
        if between is not None:
            law = Truncated.of(law, *(self.builder.constant(end) for end in between))
        transform = law.transform()
        match coordinates:
            case Scaled(centre, step):
                transform = Affine(self.builder.constant(centre), self.builder.constant(step))
            case Rising(lower, upper) if np.isinf(lower) and np.isinf(upper):
                transform = Ordered()
            case Rising(lower, upper):
                ends = (None if np.isinf(end) else self.builder.constant(end) for end in (lower, upper))
                transform = OrderedBetween(within=Interval(*ends))
        return self._declared(name, law, dims, transform, start)

    def rotated_normal(
        self, name: str, factors: Any, kappa: float, shape: tuple[int, int], start: np.ndarray | None
    ) -> Any:
        return self._declared(name, _RotatedNormal(self.builder, shape, factors, kappa), (), None, start)

    def _declared(
        self, name: str, law: Law, dims: tuple[str, ...], transform: Transform | None, start: np.ndarray | None
    ) -> Var:
        first = None if start is None else self.builder.constant(np.broadcast_to(start, law.shape).astype(float))
        self.values[name] = self.free(name, law, dims, transform, first)
        return self.values[name]

    def computed(self, name: str, value: Any, dims: tuple[str, ...] = ()) -> Any:
        self.computed_nodes.append(name)
        if dims:
            self.dims[name] = dims
        self.values[name] = self.builder.as_var(value)
        return self.values[name]

    def existing(self, name: str, start: np.ndarray | None = None) -> Any:
        for i, parameter in enumerate(self.parameters):
            if parameter.name == name and start is not None:
                first = self.builder.constant(np.broadcast_to(start, parameter.law.shape).astype(float))
                first = first if parameter.transform is None else parameter.transform.forward(first)
                self.parameters[i] = replace(parameter, start=first)
        return self.values[name]

    def evidence(self, kernel: str, parameters: Sequence[Any], *arrays: np.ndarray) -> Any:
        return log_evidence(kernel, self._vector(parameters), *arrays)

    def python_evidence(
        self, function: Callable[[np.ndarray], tuple[float, np.ndarray]], parameters: Sequence[Any]
    ) -> Any:
        return python_evidence(function, self._vector(parameters))

    def _vector(self, parts: Sequence[Any]) -> Var:
        return self.builder.concatenate([self.builder.as_var(part).reshape(-1) for part in parts])

    def row_terms(self, kernel: str, first: Any, second: Any, shape: tuple[int, int], *arrays: np.ndarray) -> Any:
        gradient = f"{kernel.partition(':')[2]}_apart_slope"
        return called(f"{kernel}_apart", gradient, first.reshape(-1), second.reshape(-1), shape, *arrays)

    def cells(self, word: str, parameters: Mapping[str, Any], values: np.ndarray) -> Any:
        there = ~np.isnan(values)
        shape = len(values), len(next(iter(parameters.values())))
        if not there.any():
            return self.constant(np.zeros(shape))
        filled = self.constant(np.where(there, values, values[there][0])[:, None])
        given = {name: self.builder.as_var(value)[None, :] for name, value in parameters.items()}
        return self.observed(there, law_of(self.builder, word, given, shape).log_density(filled))

    def add(self, name: str, value: Any) -> None:
        self.read.append(self.builder.as_var(value))
        self.builder.add(value)

    def data(self, name: str, word: str, parameters: Mapping[str, Any], values: np.ndarray) -> None:
        given = {key: self.builder.as_var(value) for key, value in parameters.items()}
        self.read += given.values()
        law_of(self.builder, word, given, values.shape).add(self.builder.constant(values))

    def only_pymc(self, reason: str) -> None:
        raise NotLowered("evidence", reason)

    # ------------------------------------------------------------------------------ the program

    def finish(self) -> MachineModel:
        """The program."""
        outputs = {parameter.name: parameter.value for parameter in self.parameters}
        outputs |= {name: self.values[name] for name in self.computed_nodes}
        for name, value in outputs.items():
            self.builder.output(name, value)
        return MachineModel(
            self.builder.finish(),
            self.builder,
            tuple(self.parameters),
            tuple(self.computed_nodes),
            self._intermediate(outputs),
            self.dims,
            self.coords,
        )

    def _intermediate(self, outputs: Mapping[str, Var]) -> frozenset[str]:
        """Computed nodes from which others are computed, and internal parameters that other nodes show."""
        sources, at = _Sources(self.builder, outputs), 0
        for parameter in self.parameters:  # whose coordinates may be read in place of the value
            sources.name(parameter.name, Var(self.builder, self.builder.point, (parameter.size,), (1,), at))
            at += parameter.size
        computed, hidden = set(self.computed_nodes), {p.name for p in self.parameters if p.name.startswith("_")}
        # What other nodes read of constants is not recorded, and constants need no checks.
        used, shows, shown = {name for name in computed if outputs[name].constant}, set[str](), set[str]()
        for var in (*(var for p in self.parameters for var in p.law.inputs), *self.read):
            used |= sources.of(var) & computed
        for name in computed:
            direct = sources.of(outputs[name], besides=name)
            used |= direct & computed
            if not name.startswith("_") and direct & hidden:
                shows.add(name)
                shown |= direct & hidden
        return frozenset(used - shows) | shown


class _Sources:
    """The nearest named nodes that variables are computed from."""

    def __init__(self, builder: Recorder, named: Mapping[str, Var]) -> None:
        self.named: dict[int, list[tuple[str, Var]]] = {}
        for name, var in named.items():
            self.name(name, var)
        self.writers: dict[int, list[Instruction]] = {}
        for item in builder.instructions:
            for one in [item] if isinstance(item, Instruction) else item.body:
                if one.output is not None:
                    self.writers.setdefault(id(one.output.buffer), []).append(one)

    def name(self, name: str, var: Var) -> None:
        """Give a variable a name."""
        self.named.setdefault(id(var.buffer), []).append((name, var))

    def of(self, var: Var, besides: str = "") -> set[str]:
        """Names of the nodes, without that of the variable itself."""
        out, todo, known = set[str](), [var], set[Any]()
        while todo:
            at = todo.pop()
            if at.key in known or at.buffer.value is not None:
                continue
            known.add(at.key)
            there = self.named.get(id(at.buffer), ())
            names = {name for name, other in there if name != besides and _overlap(at, other)}
            if names:
                out |= names
                continue
            todo += [one for item in self.writers.get(id(at.buffer), ()) for one in item.inputs]
        return out


def _overlap(one: Var, other: Var) -> bool:
    """Whether two views of a buffer share memory, by their first and last places."""

    def ends(var: Var) -> tuple[int, int]:
        steps = [step * (n - 1) for n, step in zip(var.shape, var.strides, strict=True)]
        return var.offset + sum(min(s, 0) for s in steps), var.offset + sum(max(s, 0) for s in steps)

    (a, b), (c, d) = ends(one), ends(other)
    return a <= d and c <= b


@dataclass(frozen=True, eq=False)
class _RotatedNormal(Law):
    """u (K, d) with A u ~ Normal(0, I / κ), row by row of triangular A."""

    factors: Var
    kappa: float
    support = 2

    def log_density(self, x: Var) -> Var:
        z, n = (self.factors * x[:, None, :]).sum(-1), self.shape[-1]
        diagonal = self.factors[:, np.arange(n), np.arange(n)]
        logs = self.builder.elementwise("log", diagonal).sum()
        constant = 0.5 * self.shape[0] * n * (np.log(self.kappa) - LOG_2PI)
        return logs - 0.5 * self.kappa * (z**2).sum() + constant

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.factors,)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        z = rng.standard_normal(self.shape) / np.sqrt(self.kappa)
        return np.asarray(np.linalg.solve(inputs[0], z[..., None])[..., 0])

    def start(self) -> Var:
        return self.builder.constant(np.zeros(self.shape))
