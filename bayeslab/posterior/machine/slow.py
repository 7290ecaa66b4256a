"""Evaluates programs with NumPy and SciPy: the slow twin of the interpreter, which shares no numerical code with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bayeslab.posterior.machine.arrays import Buffer, Instruction, Loop, Var
from bayeslab.posterior.machine.evidence import arrays_of
from bayeslab.posterior.machine.evidence_slowly import called_slowly, evidence_slowly
from bayeslab.posterior.machine.numpy_densities import numpy_density
from bayeslab.posterior.machine.operations import ELEMENTWISE, OTHERS, REDUCTIONS
from bayeslab.posterior.machine.sums import eliminated_slowly, markov_slowly

__all__ = ["outputs", "total"]


class _Memory:
    """Values of the buffers of a program at a point."""

    def __init__(self, buffer: Buffer, point: np.ndarray) -> None:
        self.arrays: dict[int, np.ndarray] = {id(buffer): np.ascontiguousarray(point)}

    def of(self, buffer: Buffer) -> np.ndarray:
        if buffer.value is not None:
            return buffer.value
        if id(buffer) not in self.arrays:
            memory = self.arrays[id(buffer)] = np.full(buffer.total, np.nan)
            steps = 1 if buffer.loop is None else buffer.loop.steps
            for step in range(steps):
                for view, values in buffer.presets:
                    view.view(memory, step)[...] = values
        return self.arrays[id(buffer)]

    def read(self, var: Var, step: int) -> np.ndarray:
        return var.view(self.of(var.buffer), step)

    def run(self, instructions: Sequence[Instruction | Loop]) -> float:
        """Run instructions; the sum of the roots."""
        total = 0.0
        for item, step in _steps(instructions):
            values = _value(item, [self.read(var, step) for var in item.inputs])
            if item.output is None:
                total += float(np.sum(values))
            else:
                self.read(item.output, step)[...] = values
        return total


def _steps(instructions: Sequence[Instruction | Loop]) -> Iterator[tuple[Instruction, int]]:
    for item in instructions:
        if isinstance(item, Loop):
            yield from ((instruction, step) for step in range(item.steps) for instruction in item.body)
        else:
            yield item, 0


def _value(item: Instruction, args: list[np.ndarray]) -> Any:
    op, options = item.op, item.options
    with np.errstate(all="ignore"):
        if options.get("density"):
            return numpy_density(op, args)
        if op in ELEMENTWISE:
            return ELEMENTWISE[op].numpy(*args)
        if op in REDUCTIONS:
            (x,) = args
            return REDUCTIONS[op](x, tuple(range(x.ndim - options["reduced"], x.ndim)))
        if op == "copy":
            return args[0]
        if op == "gather":
            return args[0][options["index"]]
        if op == "scatter":
            sums = np.zeros(options["size"])
            np.add.at(sums, options["index"], np.ravel(args[0]))
            return sums.reshape(item.output.shape if item.output is not None else ())
        if op == "lookup":
            return args[0][tuple(index.astype(np.int64) for index in args[1:])]
        if op == "concatenate":
            return np.concatenate(args, axis=options["axis"])
        if op == "eliminate":
            return eliminated_slowly(args[0], options["index"])
        if op == "markov":
            return markov_slowly(args[0], args[1], options["index"])
        if op == "evidence":
            return evidence_slowly(options["kernel"], args[0], *arrays_of(options["kinds"], options["index"]))
        if op == "called":
            at = sum(int(kind[1:]) for kind in options["head"].split("."))
            return called_slowly(options["kernel"], *args, *arrays_of(options["kinds"], options["index"], at))
        if op == "total":
            return options["factor"] * args[0]
        return OTHERS[op](*args, **options)


def total(parameters: Buffer, instructions: Sequence[Instruction | Loop], point: np.ndarray) -> float:
    """The sum of the roots at a point."""
    return _Memory(parameters, point).run(instructions)


def outputs(
    parameters: Buffer,
    instructions: Sequence[Instruction | Loop],
    named: Mapping[str, Var],
    points: np.ndarray,
    unknowns: Sequence[tuple[Buffer, np.ndarray]] = (),
) -> dict[str, np.ndarray]:
    """Named arrays at each point, shape (points, ...).

    Parameters
    ----------
    unknowns
        Buffers of discrete unknowns, with their values at each point, shape (points, size).
    """
    rows: dict[str, list[np.ndarray]] = {name: [] for name in named}
    for k, point in enumerate(points):
        memory = _Memory(parameters, point)
        memory.arrays |= {id(buffer): values[k].astype(np.float64) for buffer, values in unknowns}
        memory.run(instructions)
        for name, var in named.items():
            rows[name].append(np.array(memory.read(var, 0), dtype=np.float64))
    return {name: np.stack(values) for name, values in rows.items()}
