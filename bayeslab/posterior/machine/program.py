"""Programs of the density machine, and the builder that writes them.

A program is a list of instructions on arrays of float64: elementwise operations, gathers, reductions, linear algebra,
and densities. NumPy computes operations on constants immediately. Equal operations are computed once, and operations
whose results are not used are left out.

A density is *summed into the total*, whose derivative with respect to the density is one. Therefore the forward pass
adds its partial derivatives to the adjoints of its arguments, and it needs no backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.posterior.machine.arrays import (
    PARTS,
    Buffer,
    Instruction,
    Loop,
    NotLowered,
    Part,
    Recorder,
    Var,
    memory_order,
)
from bayeslab.posterior.machine.densities import add_density, elementwise_density
from bayeslab.posterior.machine.layout import Arenas, Callback, callback
from bayeslab.posterior.machine.linear_recursions import linear_terms
from bayeslab.posterior.machine.operations import ELEMENTWISE, REDUCTIONS
from bayeslab.posterior.machine.rewrites import simplified
from bayeslab.posterior.machine.slow import outputs, total
from bayeslab.posterior.machine.views import merged_loops, row_major

__all__ = ["Buffer", "Builder", "Instruction", "Loop", "NotLowered", "Program", "Var"]


class Builder(Recorder):
    """Writes a program, one operation after another.

    Example
    -------
    >>> builder = Builder()
    >>> mu = builder.parameter(1)[0]
    >>> builder.density("normal", builder.constant([1.0, 2.0]), mu, builder.constant(1.0))
    >>> program = builder.finish()
    >>> round(program.value([1.5]), 6)
    -2.087877
    """

    def __init__(self) -> None:
        super().__init__()
        self.point = Buffer(0)
        self._carried: list[Buffer] = []
        self.named_outputs: dict[str, Var] = {}

    # -------------------------------------------------------------------------------- variables

    def parameter(self, size: int) -> Var:
        """The next ``size`` coordinates of the unconstrained point."""
        at = self.point.size
        self.point.size += size
        return Var(self, self.point, (size,), (1,), at)

    # ------------------------------------------------------------------------------- operations

    def elementwise(self, op: str, *operands: Any) -> Var:
        """An elementwise operation on operands that are broadcast to one shape."""
        if op not in ELEMENTWISE:
            raise NotLowered(op, "a function that the machine does not know")
        args = [self.as_var(value) for value in operands]
        if all(arg.constant for arg in args):
            with np.errstate(all="ignore"):
                return self.constant(ELEMENTWISE[op].numpy(*(arg.value for arg in args)))
        literal = self.literal and any(arg.summed for arg in args)
        simple = None if literal else simplified(self, op, args)
        if simple is not None:
            return simple
        shape = np.broadcast_shapes(*(arg.shape for arg in args))
        args = [arg.broadcast_to(shape) for arg in args]
        if self._loop is not None and self._scope(args) is not None and not any(map(self._recursive, args)):
            return self._all_at_once(op, args)
        # Along an axis that repeats every operand the result is computed once, and then repeated.
        repeated = [i for i, n in enumerate(shape) if n > 1 and all(arg.strides[i] == 0 for arg in args)]
        if repeated:
            cut = tuple(slice(0, 1) if i in repeated else slice(None) for i in range(len(shape)))
            return self.elementwise(op, *(arg[cut] for arg in args)).broadcast_to(shape)
        strides = memory_order(args, shape)
        if strides is not None:
            args = [self.laid_out(arg, strides) for arg in args]
            return self.emit(op, args, shape, dtype=ELEMENTWISE[op].dtype, strides=strides)
        return self.emit(op, self.joined(args, shape), shape, dtype=ELEMENTWISE[op].dtype)

    def _recursive(self, var: Var) -> bool:
        """Whether an array of a loop's body depends on the iterations before."""
        return var.buffer.loop is not None or var.buffer in self._carried

    def _all_at_once(self, op: str, args: Sequence[Var]) -> Var:
        """An operation on rows of sequences, done for all rows before the loop."""
        loop, self._loop = self._loop, None
        assert loop is not None
        try:
            rows = [_moving(arg, 0, (loop.steps, *arg.shape), (arg.advance, *arg.strides)) for arg in args]
            out = self.elementwise(op, *rows)
        finally:
            self._loop = loop
        return _moving(out[0], out.strides[0])

    def reduce(self, op: str, value: Any, axis: int | Sequence[int] | None = None) -> Var:
        """``sum``, ``prod``, ``min``, ``max`` or ``logsumexp`` over all or some axes."""
        var = self.as_var(value)
        axes = _axes(var.ndim, axis)
        if var.constant:
            return self.constant(REDUCTIONS[op](var.value, tuple(axes)))
        if not axes:
            return var
        kept = [i for i in range(var.ndim) if i not in axes]
        moved = var.transpose(*kept, *axes)
        shape = tuple(var.shape[i] for i in kept)
        loops = [
            merged_loops(moved.shape[a:b], [moved.strides[a:b]]) for a, b in ((0, len(kept)), (len(kept), var.ndim))
        ]
        if any(len(each) > 1 for each in loops):
            moved = self.copied(moved)
        (rows, step), *others = merged_loops(moved.shape[: len(kept)], [moved.strides[: len(kept)]]) or [(1, (0,))]
        if op == "logsumexp" and step == (1,) and rows >= _COLUMNS and not others and not self.repeating:
            return self.emit(op, [moved], shape, scratch=rows, reduced=len(axes), columns=True)
        return self.emit(op, [moved], shape, reduced=len(axes))

    def matmul(self, left: Any, right: Any) -> Var:
        """The product of vectors and matrices, as NumPy's ``@`` of one or two axes."""
        a, b = self.as_var(left), self.as_var(right)
        if a.constant and b.constant:
            return self.constant(a.value @ b.value)
        if not (a.ndim in (1, 2) and b.ndim in (1, 2)) or a.shape[-1] != b.shape[0]:
            raise NotLowered("@", f"a product of arrays of shapes {a.shape} and {b.shape}")
        if a.constant and a.ndim == 2 and a.shape[0] > a.shape[1]:
            # A tall matrix of data is read by columns.
            a = self.constant(np.ascontiguousarray(a.value.T, dtype=np.float64)).T
        rows = a if a.ndim == 2 else a[None, :]
        columns = b if b.ndim == 2 else b[:, None]
        out = self.emit("matmul", [rows, columns], (rows.shape[0], columns.shape[1]))
        if a.ndim == 1:
            out = out[0]
        if b.ndim == 2:
            return out
        vector = out[..., 0]
        vector.made = out.made
        return vector

    # ---------------------------------------------------------------------------------- density

    def density(self, name: str, x: Any, *parameters: Any, weight: Any = None, where: Any = None) -> None:
        """Add a distribution's log density, summed over the broadcast shape of its arguments, to the total.

        Parameters
        ----------
        name
            Module of the distribution in :mod:`bayeslab.distributions`, such as ``half_normal``.
        x, *parameters
            Values and the parameters of its ``canonical``, in their order.
        weight
            Factor of each value's log density.
        where
            Constant mask of the values that are included.
        """
        add_density(self, name, [self.as_var(v) for v in (x, *parameters)], weight, where)

    def log_density(self, name: str, x: Any, *parameters: Any) -> Var:
        """A distribution's log density of each value, of the arguments' broadcast shape."""
        return elementwise_density(self, name, [self.as_var(v) for v in (x, *parameters)])

    # ------------------------------------------------------------------------------------ loops

    def loop(
        self,
        steps: int,
        body: Callable[[list[Var], list[Var]], Sequence[Any]],
        initial: Sequence[Any],
        sequences: Sequence[Any] = (),
    ) -> list[Var]:
        """Recursions: ``body`` computes the next row of each carried array from its past rows.

        Parameters
        ----------
        steps
            Number of iterations.
        body
            ``body(past, rows) -> next``: ``past`` holds, of each carried array, the window of its last k rows (the
            latest last), ``rows`` the current row of each sequence, ``next`` the next row of each carried array.
            It is called once.
        initial
            First k rows of each carried array, shape (k, ...).
        sequences
            Arrays with one row for each iteration.

        Returns
        -------
        list of Var
            The rows computed of each carried array, shape (steps, ...).
        """
        if self._loop is not None:
            raise NotLowered("recursion", "a recursion inside another")
        starts = [self.as_var(v) for v in initial]
        rows = [self.as_var(v) for v in sequences]
        if steps == 0:
            return [start[:0] for start in starts]
        carried = []
        for start in starts:
            lag, shape = start.shape[0], start.shape[1:]
            out = self._new((steps + lag, *shape), None)
            if start.constant:
                out.buffer.presets.append((out[:lag], start.value.astype(np.float64)))
            else:
                self._append(Instruction("copy", (self.contiguous(start),), out[:lag]), None)
            carried.append(out)
        loop = self._loop = Loop(steps)
        self._carried = [out.buffer for out in carried]
        known, self._known = self._known, dict(self._known)
        linear = None
        try:
            past = [_moving(out[: start.shape[0]], out.strides[0]) for out, start in zip(carried, starts, strict=True)]
            current = [_moving(row[0], row.strides[0]) for row in rows]
            following = [self.as_var(v) for v in body(past, current)]
            first_order = len(carried) == 1 and starts[0].shape == (1, *following[0].shape)
            if first_order and all(item.output is not None for item in loop.body):
                linear = linear_terms(self, following[0], past[0][0])
            for out, start, new in zip(carried, starts, following, strict=True):
                place = _moving(out[start.shape[0]], out.strides[0])
                alone = sum(each.buffer is new.buffer for each in following) == 1
                if not (alone and _written_to(loop, new, place)):
                    (row,) = self.joined([new.broadcast_to(place.shape)], place.shape)
                    loop.body.append(Instruction("copy", (row,), place))
        finally:
            self._loop, self._known, self._carried = None, known, []
        if linear is not None:
            a, b = map(self.as_var, linear)
            return [self._recursion(a, b, starts[0], carried[0][1:])]
        self.instructions.append(loop)
        return [out[start.shape[0] :] for out, start in zip(carried, starts, strict=True)]

    def _recursion(self, a: Var, b: Var, start: Var, out: Var) -> Var:
        """Write the rows a[t] + b[t] y[t-1] of a recursion from its first row; a and b are views of an iteration."""
        steps, *shape = out.shape
        columns = math.prod(shape)
        flat = []
        for x in (a, b):
            rows = _moving(x, 0, (steps, *x.shape), (x.advance, *x.strides))
            missing = (1,) * (len(shape) - x.ndim)
            rows = rows.reshape(steps, *missing, *x.shape).broadcast_to((steps, *shape))
            flat.append(rows.reshape(steps, columns))
        flat.append(start.reshape(1, columns))
        self._append(Instruction("recursion", tuple(flat), out.reshape(steps, columns)), None)
        return out

    # ------------------------------------------------------------------------------------- ends

    def output(self, name: str, value: Any) -> None:
        """Name an array that :meth:`Program.outputs` computes."""
        self.named_outputs[name] = self.as_var(value)

    def finish(self) -> Program:
        """The program."""
        return Program(self)


# Columns whose exponentials are summed at once.
_COLUMNS = 8


def _moving(
    var: Var, advance: int, shape: tuple[int, ...] | None = None, strides: tuple[int, ...] | None = None
) -> Var:
    """The view with another advance, and another shape and strides."""
    shape, strides = shape or var.shape, var.strides if strides is None else strides
    return Var(var.builder, var.buffer, shape, strides, var.offset, advance, var.dtype)


def _written_to(loop: Loop, new: Var, place: Var) -> bool:
    """Whether the instruction that computes a row can write it to its place; then it does."""
    buffer, made = new.buffer, new.made
    writers = [item for item in loop.body if item.output is not None and item.output.buffer is buffer]
    whole = buffer.loop is loop and new.size == buffer.size and new.strides == row_major(new.shape)
    if made is None or writers != [made] or not whole or buffer.presets or new.shape != place.shape:
        return False

    def moved(var: Var) -> Var:
        if var.buffer is not buffer:
            return var
        return Var(
            var.builder, place.buffer, var.shape, var.strides, var.offset + place.offset, place.advance, var.dtype
        )

    for item in loop.body:
        item.inputs = tuple(map(moved, item.inputs))
        item.output = None if item.output is None else moved(item.output)
    return True


def _axes(ndim: int, axis: int | Sequence[int] | None) -> list[int]:
    if axis is None:
        return list(range(ndim))
    return sorted({int(a) % ndim for a in ([axis] if isinstance(axis, int | np.integer) else axis)})


class Program:
    """A log density with its gradient, and named quantities, as functions of an unconstrained point.

    Parameters
    ----------
    parts
        Parts of the log density that are included.
    named
        Named quantities; default: those of the builder.

    Attributes
    ----------
    n_dim : int
    instructions : list of Instruction or Loop
        Those of the density.
    output_instructions : list of Instruction or Loop
        Those of the named quantities.
    """

    def __init__(
        self, builder: Builder, parts: Collection[Part] = PARTS, named: Mapping[str, Var] | None = None
    ) -> None:
        self.n_dim = builder.point.size
        self.point, self.constant = builder.point, sum(builder.offsets[part] for part in parts)
        self.named_outputs = dict(builder.named_outputs if named is None else named)
        self._results = Buffer(sum(var.size for var in self.named_outputs.values()))
        at, copies = 0, list[Instruction]()
        for var in self.named_outputs.values():
            place = Var(builder, self._results, var.shape, offset=at)
            at += var.size
            if var.constant:
                self._results.presets.append((place, var.value.astype(np.float64)))
            elif var.size:
                copies.append(Instruction("copy", (builder.contiguous(var),), place))
        everything = list(builder.instructions)
        self.instructions = live(everything, (), parts)
        self.output_instructions = live([*everything, *copies], [self._results])

    @cached_property
    def arenas(self) -> Arenas:
        """The density laid out in memory."""
        return Arenas(self.point, self.instructions, self.constant)

    @cached_property
    def callback(self) -> Callback:
        """The C callback ``(n, point*, gradient*, log_density*, user_data*) -> status``.

        The status is 3 if the gradient, and 4 if the log density is not finite. ``user_data`` is that of
        :attr:`arenas`. Threads may call it at the same time.
        """
        return callback("density")

    def value_and_gradient(self, point: Any) -> tuple[float, np.ndarray]:
        """The log density and its gradient, NaN where the log density is not finite."""
        x = np.ascontiguousarray(point, dtype=np.float64)
        if x.shape != (self.n_dim,):
            raise ValueError(f"a point has {self.n_dim} coordinates")
        gradient, value = np.empty(self.n_dim), np.empty(1)
        arenas = self.arenas.user_data.ctypes.data
        self.callback.ctypes(self.n_dim, x.ctypes.data, gradient.ctypes.data, value.ctypes.data, arenas)
        return float(value[0]), gradient

    def outputs(self, points: Any) -> dict[str, np.ndarray]:
        """The named quantities at each point, shape (points, ...)."""
        array = np.ascontiguousarray(points, dtype=np.float64)
        results = np.empty((len(array), self._results.size))
        arenas = self._output_arenas
        callback("sweep").ctypes(len(array), array.ctypes.data, results.ctypes.data, arenas.user_data.ctypes.data)
        out, at = {}, 0
        for name, var in self.named_outputs.items():
            out[name] = results[:, at : at + var.size].reshape(len(array), *var.shape)
            at += var.size
        return out

    @cached_property
    def _output_arenas(self) -> Arenas:
        return Arenas(self.point, self.output_instructions, 0.0, self._results, backward=False, count=1)

    def value(self, point: Any) -> float:
        """The log density by NumPy, the independent slow evaluation."""
        return self.constant + total(self.point, self.instructions, np.asarray(point, dtype=np.float64))

    def slow_outputs(self, points: Any) -> dict[str, np.ndarray]:
        """The named quantities at each point by NumPy, shape (points, ...)."""
        array = np.asarray(points, dtype=np.float64)
        return outputs(self.point, self.output_instructions, self.named_outputs, array)


def live(
    instructions: Sequence[Instruction | Loop], wanted: Sequence[Buffer], parts: Collection[Part] = ()
) -> list[Instruction | Loop]:
    """The instructions on which wanted buffers and parts of the total depend."""
    needed, kept = set(map(id, wanted)), list[Instruction | Loop]()

    def keep(instruction: Instruction) -> bool:
        if instruction.output is None and instruction.part not in parts:
            return False
        if instruction.output is not None and id(instruction.output.buffer) not in needed:
            return False
        needed.update(id(var.buffer) for var in instruction.inputs)
        return True

    for item in reversed(instructions):
        if isinstance(item, Instruction):
            if keep(item):
                kept.append(item)
            continue
        # What an iteration reads may be written by the one before it, further down.
        count = -1
        body: list[Instruction] = []
        while len(body) != count:
            count = len(body)
            body = [i for i in reversed(item.body) if keep(i)][::-1]
        if body:
            kept.append(Loop(item.steps, body))
    return kept[::-1]
