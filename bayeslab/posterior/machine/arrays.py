"""Arrays of a program, the instructions that compute them, and their recorder.

An operand is a *view*: an offset into a buffer, a shape, and strides, so that slices, transposes and
broadcasts cost nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from bayeslab.posterior.machine.views import affine, flat_positions, free_loops, permuted, reshaped_strides, row_major

__all__ = [
    "PARTS",
    "Buffer",
    "Instruction",
    "Loop",
    "NotLinear",
    "NotLowered",
    "Part",
    "Recorder",
    "Var",
    "memory_order",
]

#: Parts of a log density: of the parameters, of their coordinates' map, and of the data.
Part = Literal["prior", "jacobian", "likelihood"]
PARTS: tuple[Part, ...] = ("prior", "jacobian", "likelihood")

_FLOAT, _INT, _BOOL = np.dtype("float64"), np.dtype("int64"), np.dtype("bool")


class NotLowered(Exception):
    """A part of a model that the machine does not support.

    Parameters
    ----------
    node
        The unsupported part: the name of a node, a function or a distribution.
    reason
        The reason, as the text after "NODE: ".
    """

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(f"{node}: {reason}")
        self.node, self.reason = node, reason

    def at(self, node: str) -> Self:
        """The same error about a node that contains the unsupported part."""
        return type(self)(node, str(self))


class NotLinear(NotLowered):
    """Hidden values that cannot be integrated out, since rows are not normal or not linear in them."""


@dataclass(eq=False, slots=True)
class Buffer:
    """Memory of an array.

    Attributes
    ----------
    size : int
        Number of values; within a loop, of one iteration.
    value : ndarray, optional
        Values of a constant, of any type, contiguous.
    loop : Loop, optional
        The loop whose iterations write to it, each to a separate part.
    presets : list of (Var, ndarray)
        Views that hold constants from the start.
    summed : bool
        Whether the values depend on discrete unknowns, which have no value at a point: they are summed out. Nothing
        that is evaluated depends on such a buffer; see :mod:`bayeslab.posterior.machine.discrete`.
    made : Instruction, optional
        The instruction that computes all values, except in a loop.
    """

    size: int
    value: np.ndarray | None = None
    loop: Loop | None = None
    presets: list[tuple[Var, np.ndarray]] = field(default_factory=list)
    summed: bool = False
    made: Instruction | None = None

    @property
    def total(self) -> int:
        """Number of values over all iterations."""
        return self.size * (self.loop.steps if self.loop is not None else 1)


@dataclass(eq=False, slots=True)
class Instruction:
    """One operation.

    Attributes
    ----------
    op : str
    inputs : tuple of Var
    output : Var, optional
        None for a *root*, whose value is added to the total.
    options : dict
        Constants of the operation that are not arrays of the program.
    part : str
        For a root, the part of the total to which it belongs.
    """

    op: str
    inputs: tuple[Var, ...]
    output: Var | None
    options: dict[str, Any] = field(default_factory=dict)
    part: Part = "likelihood"


@dataclass(eq=False, slots=True)
class Loop:
    """Instructions that are repeated; views advance from one iteration to the next.

    Attributes
    ----------
    steps : int
    body : list of Instruction
    """

    steps: int
    body: list[Instruction] = field(default_factory=list)


class Var:
    """An array of a program: a view of a buffer.

    Attributes
    ----------
    shape, strides : tuple of int
        Strides count values, not bytes.
    offset : int
        Position of the first value in the buffer.
    advance : int
        Change of the offset from one iteration of a loop to the next.
    dtype : numpy.dtype
        ``int64`` for numbers known to be whole, ``bool`` for comparisons; memory is always float64.
    """

    __slots__ = ("advance", "buffer", "builder", "dtype", "made", "offset", "shape", "strides")
    __array_ufunc__ = None  # NumPy arrays on the left leave the operation to this class.
    __array_priority__ = 1000

    def __init__(
        self,
        builder: Recorder,
        buffer: Buffer,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
        advance: int = 0,
        dtype: np.dtype = _FLOAT,
    ) -> None:
        self.builder, self.buffer, self.shape = builder, buffer, shape
        self.strides = row_major(shape) if strides is None else strides
        self.offset, self.advance, self.dtype = offset, advance, dtype
        # The instruction that computed exactly this array, for rewrites that improve numerical stability.
        self.made: Instruction | None = None

    # ------------------------------------------------------------------------------- properties

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def constant(self) -> bool:
        """Whether the values are known, except parts of a constant that advance in a loop."""
        return self.buffer.value is not None and not self.advance

    @property
    def fixed(self) -> bool:
        """Whether the values do not depend on the parameters, so that they need no derivatives."""
        return self.buffer.value is not None

    @property
    def summed(self) -> bool:
        """Whether the values depend on discrete unknowns."""
        return self.buffer.summed

    @property
    def value(self) -> np.ndarray:
        """The values of a constant."""
        if not self.constant:
            raise TypeError("the array depends on parameters")
        assert self.buffer.value is not None
        return self.view(self.buffer.value)

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that is equal for views of the same values."""
        return (id(self.buffer), self.offset, self.shape, self.strides, self.advance)

    def view(self, memory: np.ndarray, step: int = 0) -> np.ndarray:
        """The view of a flat array that holds the buffer's values."""
        start = self.offset + step * self.advance
        if not self.size:
            return np.empty(self.shape, memory.dtype)
        return np.lib.stride_tricks.as_strided(
            memory.ravel()[start:], self.shape, tuple(s * memory.itemsize for s in self.strides)
        )

    def __repr__(self) -> str:
        kind = "constant" if self.constant else "variable"
        return f"<{kind} of shape {self.shape}>"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a single number has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Var]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        if self.constant:
            return bool(self.value)
        raise NotLowered("condition", "the value of a random quantity is not known before sampling")

    # ------------------------------------------------------------------------------------ views

    def _with(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Var:
        out = Var(self.builder, self.buffer, shape, strides, offset, self.advance, self.dtype)
        if out.key == self.key:
            out.made = self.made
        return out

    def __getitem__(self, key: Any) -> Var:
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, Var) and k.summed for k in keys):
            return self.builder.lookup(self, keys)
        keys = tuple(_plain_index(k) for k in keys)
        if any(isinstance(k, np.ndarray) for k in keys):
            return self._gathered(flat_positions(self.shape, self.strides)[keys])
        # Basic indexing never reads memory, so NumPy can do it on a stand-in.
        stand_in = np.lib.stride_tricks.as_strided(_CELL, self.shape, tuple(8 * s for s in self.strides))
        out = stand_in[keys if any(k is Ellipsis for k in keys) else (*keys, ...)]
        shift = (out.__array_interface__["data"][0] - _CELL.__array_interface__["data"][0]) // 8
        return self._with(out.shape, tuple(s // 8 for s in out.strides), self.offset + shift)

    def _gathered(self, positions: np.ndarray) -> Var:
        """The values at positions relative to the view's offset."""
        if not positions.size:
            return self.builder.constant(np.zeros(positions.shape))
        if self.constant:
            assert self.buffer.value is not None
            return self.builder.constant(self.buffer.value.ravel()[self.offset + positions])
        strides = affine(positions)
        if strides is not None:
            return self._with(positions.shape, strides, self.offset + int(positions.flat[0]))
        low = int(positions.min())
        span = int(positions.max()) - low + 1
        source = self._with((span,), (1,), self.offset + low)
        return self.builder.emit("gather", [source], positions.shape, dtype=self.dtype, index=positions - low)

    def transpose(self, *axes: Any) -> Var:
        """The array with its axes permuted; reversed by default."""
        if len(axes) == 1 and not isinstance(axes[0], int | np.integer):
            axes = tuple(axes[0]) if axes[0] is not None else ()
        order = [int(a) % self.ndim for a in axes] if axes else list(range(self.ndim))[::-1]
        if sorted(order) != list(range(self.ndim)):
            raise ValueError("each axis is named once")
        return self._with(tuple(self.shape[a] for a in order), tuple(self.strides[a] for a in order), self.offset)

    @property
    def T(self) -> Var:
        return self.transpose()

    def reshape(self, *shape: Any) -> Var:
        """The array in another shape; one length may be -1."""
        if len(shape) == 1 and not isinstance(shape[0], int | np.integer):
            shape = tuple(shape[0])
        lengths = [int(n) for n in shape]
        if -1 in lengths:
            rest = math.prod(n for n in lengths if n != -1)
            lengths[lengths.index(-1)] = self.size // rest if rest else 0
        if math.prod(lengths) != self.size:
            raise ValueError(f"an array of shape {self.shape} has no shape {tuple(lengths)}")
        strides = reshaped_strides(self.shape, self.strides, lengths)
        if strides is None:
            if self.constant:
                return self.builder.constant(self.value.reshape(lengths))
            return self.builder.copied(self).reshape(lengths)
        return self._with(tuple(lengths), strides, self.offset)

    def ravel(self) -> Var:
        return self.reshape(-1)

    flatten = ravel

    def broadcast_to(self, shape: Sequence[int]) -> Var:
        """The array repeated along new and length-one axes."""
        target = tuple(int(n) for n in shape)
        if target == self.shape:
            return self
        new = len(target) - self.ndim
        if new < 0 or any(n not in (1, m) for n, m in zip(self.shape, target[new:], strict=True)):
            raise ValueError(f"an array of shape {self.shape} does not broadcast to {target}")
        pairs = zip(self.shape, self.strides, target[new:], strict=True)
        strides = (0,) * new + tuple(s if n == m else 0 for n, s, m in pairs)
        return self._with(target, strides, self.offset)

    def squeeze(self, axis: int | None = None) -> Var:
        """The array without axes of length one."""
        drop = [i for i, n in enumerate(self.shape) if n == 1] if axis is None else [axis % self.ndim]
        return self[tuple(0 if i in drop else slice(None) for i in range(self.ndim))]

    def astype(self, dtype: Any) -> Var:
        """The same numbers as another type; reals are not converted to integers."""
        kind = np.dtype(dtype)
        if self.constant:
            return self.builder.constant(self.value.astype(kind))
        if kind.kind in "iub" and self.dtype.kind == "f" and not self.summed:
            raise NotLowered("index", "positions that depend on parameters")
        out = self._with(self.shape, self.strides, self.offset)
        out.dtype = _FLOAT if kind.kind == "f" else _BOOL if kind.kind == "b" else _INT
        return out

    def copy(self) -> Var:
        return self

    # ------------------------------------------------------------------------------- arithmetic

    def __add__(self, other: Any) -> Var:
        return self.builder.elementwise("add", self, other)

    def __radd__(self, other: Any) -> Var:
        return self.builder.elementwise("add", other, self)

    def __sub__(self, other: Any) -> Var:
        return self.builder.elementwise("subtract", self, other)

    def __rsub__(self, other: Any) -> Var:
        return self.builder.elementwise("subtract", other, self)

    def __mul__(self, other: Any) -> Var:
        return self.builder.elementwise("multiply", self, other)

    def __rmul__(self, other: Any) -> Var:
        return self.builder.elementwise("multiply", other, self)

    def __truediv__(self, other: Any) -> Var:
        return self.builder.elementwise("divide", self, other)

    def __rtruediv__(self, other: Any) -> Var:
        return self.builder.elementwise("divide", other, self)

    def __pow__(self, other: Any) -> Var:
        return self.builder.elementwise("power", self, other)

    def __rpow__(self, other: Any) -> Var:
        return self.builder.elementwise("power", other, self)

    def __neg__(self) -> Var:
        return self.builder.elementwise("negative", self)

    def __pos__(self) -> Var:
        return self

    def __abs__(self) -> Var:
        return self.builder.elementwise("abs", self)

    def __matmul__(self, other: Any) -> Var:
        return self.builder.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Var:
        return self.builder.matmul(other, self)

    def __lt__(self, other: Any) -> Var:
        return self.builder.elementwise("less", self, other)

    def __le__(self, other: Any) -> Var:
        return self.builder.elementwise("less_equal", self, other)

    def __gt__(self, other: Any) -> Var:
        return self.builder.elementwise("greater", self, other)

    def __ge__(self, other: Any) -> Var:
        return self.builder.elementwise("greater_equal", self, other)

    def sum(self, axis: int | Sequence[int] | None = None) -> Var:
        """Sum over all or some axes."""
        return self.builder.reduce("sum", self, axis)

    def mean(self, axis: int | Sequence[int] | None = None) -> Var:
        """Mean over all or some axes."""
        total = self.sum(axis)
        return total * (max(total.size, 1) / self.size)


_CELL = np.zeros(1)

# For inner loops shorter than this, the order of the axes is changed.
_SHORT = 8


def memory_order(args: Sequence[Var], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of a result with the longest axis innermost, where the last is short; None for the usual order."""
    moving = [arg.strides for arg in args if not arg.constant or 0 in arg.strides]
    usual = free_loops(shape, [row_major(shape), *moving])
    if len(usual) < 2 or usual[-1][0] >= _SHORT:
        return None
    longest = max(range(len(shape)), key=lambda axis: shape[axis])
    strides = permuted(shape, [*(axis for axis in range(len(shape)) if axis != longest), longest])
    loops = free_loops(shape, [strides, *moving])
    better = len(loops) <= 2 and loops[-1][0] > usual[-1][0] and all(step in (0, 1) for step in loops[-1][1])
    return strides if better else None


def _plain_index(key: Any) -> Any:
    """A key as an integer, slice, None, Ellipsis or integer array."""
    if isinstance(key, Var):
        if not key.constant:
            raise NotLowered("index", "positions that depend on parameters")
        key = key.value
    if key is None or key is Ellipsis or isinstance(key, slice):
        return key
    array = np.asarray(key)
    if array.dtype.kind not in "iub":
        raise IndexError("indices are whole numbers")
    if array.ndim == 0 and array.dtype.kind != "b":
        return int(array)
    return array


class Recorder(ABC):
    """Records instructions, each result once."""

    def __init__(self) -> None:
        self.instructions: list[Instruction | Loop] = []
        self.part: Part = "likelihood"
        self.offsets: dict[Part, float] = dict.fromkeys(PARTS, 0.0)
        # Whether operations on unknowns are recorded without rewriting them.
        self.literal = False
        self._loop: Loop | None = None
        self._known: dict[Any, Var] = {}
        self._constants: dict[Any, Buffer] = {}

    @property
    def offset(self) -> float:
        """The constant term of the part of the total that is being recorded."""
        return self.offsets[self.part]

    @offset.setter
    def offset(self, value: float) -> None:
        self.offsets[self.part] = value

    @contextmanager
    def of_part(self, part: Part) -> Iterator[None]:
        """A context in which additions to the total belong to the given part."""
        before, self.part = self.part, part
        try:
            yield
        finally:
            self.part = before

    @abstractmethod
    def elementwise(self, op: str, *operands: Any) -> Var:
        """An elementwise operation on operands that are broadcast to one shape."""

    @abstractmethod
    def reduce(self, op: str, value: Any, axis: int | Sequence[int] | None = None) -> Var:
        """``sum``, ``prod``, ``min``, ``max`` or ``logsumexp`` over all or some axes."""

    @abstractmethod
    def matmul(self, left: Any, right: Any) -> Var:
        """The product of vectors and matrices."""

    def constant(self, value: Any) -> Var:
        """A constant array."""
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise NotLowered("constant", f"an array of {array.dtype}")
        array = np.ascontiguousarray(array).reshape(array.shape)
        if array.dtype.kind == "f":
            array = array.astype(np.float64, copy=False)
        key = (array.dtype.str, array.size, array.tobytes() if array.size <= 64 else id(array))
        buffer = self._constants.get(key)
        if buffer is None:
            buffer = self._constants[key] = Buffer(array.size, array.reshape(-1))
            if array.size > 64:
                self._constants["alive", id(array)] = Buffer(0, array)  # an id is unique while its array lives
        return Var(self, buffer, array.shape, dtype=_FLOAT if array.dtype.kind == "f" else array.dtype)

    def as_var(self, value: Any) -> Var:
        """A variable of this program, or an array as a constant."""
        if isinstance(value, Var):
            if value.builder is not self:
                raise ValueError("the variable belongs to another program")
            return value
        return self.constant(value)

    def copied(self, var: Var) -> Var:
        """A contiguous copy."""
        if len(free_loops(var.shape, [row_major(var.shape), var.strides])) <= 2:
            return self.emit("copy", [var], var.shape, dtype=var.dtype)
        positions = flat_positions(var.shape, var.strides)
        low = int(positions.min())
        span = int(positions.max()) - low + 1
        source = Var(self, var.buffer, (span,), (1,), var.offset + low, var.advance)
        return self.emit("gather", [source], var.shape, dtype=var.dtype, index=positions - low)

    def laid_out(self, var: Var, strides: tuple[int, ...]) -> Var:
        """A constant whose values lie in memory as the strides say; another array as it is."""
        if not var.constant or var.strides == strides or var.size != math.prod(var.shape) or 0 in var.strides:
            return var
        memory = np.empty(var.size)
        out = Var(self, Buffer(0), var.shape, strides)
        out.view(memory)[...] = var.value
        return Var(self, self.constant(memory).buffer, var.shape, strides)

    def joined(self, args: Sequence[Var], shape: Sequence[int], *, output: bool = True) -> list[Var]:
        """Operands of one shape over which two nested loops run, copied if they need more."""
        strides = ([row_major(shape)] if output else []) + [var.strides for var in args]
        if len(free_loops(shape, strides)) <= 2:
            return list(args)
        return [self.copied(var) for var in args]

    def contiguous(self, value: Any) -> Var:
        """The array, copied if its values do not lie one after another."""
        var = self.as_var(value)
        return var if var.strides == row_major(var.shape) else self.copied(var)

    def concatenate(self, parts: Sequence[Any], axis: int = 0) -> Var:
        """Arrays joined along an axis."""
        pieces = [self.as_var(part) for part in parts]
        if all(piece.constant for piece in pieces):
            return self.constant(np.concatenate([piece.value for piece in pieces], axis=axis))
        axis %= pieces[0].ndim
        shape = list(pieces[0].shape)
        shape[axis] = sum(piece.shape[axis] for piece in pieces)
        if any(piece.summed for piece in pieces):
            kind = np.result_type(*(piece.dtype for piece in pieces))
            return self.emit("concatenate", pieces, tuple(shape), dtype=kind, axis=axis)
        out = self._new(tuple(shape), self._scope(pieces))
        at = 0
        for piece in pieces:
            n = piece.shape[axis]
            place = out[(slice(None),) * axis + (slice(at, at + n),)]
            at += n
            if piece.constant:
                out.buffer.presets.append((place, piece.value.astype(np.float64)))
            elif n:
                (piece,) = self.joined([piece], place.shape) if axis else [piece]
                if len(free_loops(place.shape, [place.strides, piece.strides])) > 2:
                    raise NotLowered("concat", f"arrays of shape {piece.shape} along axis {axis}")
                self._append(Instruction("copy", (piece,), place), self._scope([out]))
        return out

    def unknown(self, shape: tuple[int, ...]) -> Var:
        """Whole numbers that are summed out: what is computed from them is evaluated in each of their states."""
        return Var(self, Buffer(math.prod(shape), summed=True), shape, dtype=_INT)

    def hidden(self, shape: tuple[int, ...]) -> Var:
        """Real numbers that are integrated out: what is computed from them is recorded as it is written."""
        out = self.unknown(shape)
        out.dtype = _FLOAT
        self.literal = True
        return out

    def lookup(self, base: Var, keys: Sequence[Any]) -> Var:
        """``base[keys]`` where some indices depend on discrete unknowns; the indices are of the first axes."""
        indices = []
        for key in keys:
            index = key if isinstance(key, Var) else np.asarray(0 if key is None else key)
            if key is None or isinstance(key, slice) or index.dtype.kind not in "iu" or len(keys) > base.ndim:
                raise NotLowered("index", "a part of an axis beside a position that is summed out")
            indices.append(self.as_var(index))
        shape = np.broadcast_shapes(*(index.shape for index in indices))
        indices = [index.broadcast_to(shape) for index in indices]
        return self.emit("lookup", [base, *indices], (*shape, *base.shape[len(indices) :]), dtype=base.dtype)

    def emit(
        self,
        op: str,
        inputs: Sequence[Var],
        shape: tuple[int, ...],
        *,
        scratch: int = 0,
        dtype: np.dtype | None = None,
        strides: tuple[int, ...] | None = None,
        **options: Any,
    ) -> Var:
        """The result of an instruction, or of an equal earlier one.

        ``scratch`` is the number of additional values after the result, working memory of the instruction. ``strides``
        are those of the result, for another order of its axes in memory.
        """
        named = tuple((k, v.tobytes() if isinstance(v, np.ndarray) else v) for k, v in sorted(options.items()))
        key = (op, *(var.key for var in inputs), shape, strides, named)
        if key in self._known:
            return self._known[key]
        scope = self._scope(inputs)
        out = self._new(tuple(shape), scope, scratch, strides)
        if dtype is not None:
            out.dtype = dtype
        instruction = Instruction(op, tuple(inputs), out, options)
        out.made = instruction
        out.buffer.made = None if scope is not None else instruction
        self._append(instruction, scope)
        self._known[key] = out
        return out

    def add(self, value: Any, factor: float = 1.0) -> None:
        """Add the sum of an array, times a number, to the total."""
        var = self.as_var(value)
        if var.constant and not self.repeating:
            self.offset += factor * float(np.sum(var.value, dtype=np.float64))
        elif var.size:
            self.root("total", self.joined([var], var.shape, output=False), factor=float(factor))

    def root(self, op: str, inputs: Sequence[Var], **options: Any) -> None:
        """Append an instruction whose value is added to the total."""
        if any(var.summed for var in inputs):
            raise self._unseen(op, "a density of hidden values that are not summed out")
        self._append(Instruction(op, tuple(inputs), None, options, self.part), self._loop)

    def _unseen(self, node: str, reason: str) -> NotLowered:
        return (NotLinear if self.literal else NotLowered)(node, reason)

    @property
    def repeating(self) -> bool:
        """Whether instructions are recorded for the body of a loop."""
        return self._loop is not None

    def _new(
        self, shape: tuple[int, ...], scope: Loop | None, scratch: int = 0, strides: tuple[int, ...] | None = None
    ) -> Var:
        size = math.prod(shape) + scratch
        return Var(self, Buffer(size, loop=scope), shape, strides, advance=size if scope is not None else 0)

    def _scope(self, inputs: Sequence[Var]) -> Loop | None:
        """The loop that an operation belongs to: the current one, if an operand changes in it."""
        return self._loop if any(var.advance or var.buffer.loop is not None for var in inputs) else None

    def _append(self, instruction: Instruction, scope: Loop | None) -> None:
        if instruction.output is not None and any(var.summed for var in instruction.inputs):
            if scope is not None:
                raise self._unseen("recursion", "rows that depend on hidden values that are summed out")
            instruction.output.buffer.summed = True
        (self.instructions if scope is None else scope.body).append(instruction)
