"""Lays a program out in memory: offsets of its buffers, and its instructions as rows of words.

Words that are addresses are first written relative to one of four regions: values that are computed, adjoints,
constants, and indices. An *arena* has values and adjoints of its own, and rows with addresses; arenas share constants
and indices. Whoever evaluates the program takes a free arena, so that threads do not disturb one another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayeslab.computer import available_cores
from bayeslab.posterior.machine.arrays import Buffer, Instruction, Loop, NotLowered, Var
from bayeslab.posterior.machine.linked import address, load
from bayeslab.posterior.machine.operations import ELEMENTWISE, REDUCTIONS
from bayeslab.posterior.machine.views import free_loops, merged_loops

__all__ = ["Arenas", "Callback", "callback"]

_WORDS = 32
_VALUES, _ADJOINTS, _CONSTANTS, _INDICES = 1, 2, 3, 4
_EXTRA, _MOST_OPERANDS = 28, 6
_HEADER = 16
# Lines of the cache: two threads never write to one.
_ALIGNED = 64
# Bytes that further arenas may take, for more threads than cores.
_MEMORY = 50_000_000


@dataclass(slots=True)
class _Operand:
    """Addresses and strides of an operand: relative addresses, their regions, and their change in a loop."""

    value: int
    value_region: int
    adjoint: int
    adjoint_region: int
    outer: int
    inner: int
    advance: int
    adjoint_advance: int


class _Rows:
    """Rows of words with the region that each word is relative to."""

    def __init__(self) -> None:
        self.words: list[list[int]] = []
        self.regions: list[list[int]] = []

    def new(self) -> tuple[list[int], list[int]]:
        self.words.append([0] * _WORDS)
        self.regions.append([0] * _WORDS)
        return self.words[-1], self.regions[-1]


class _Layout:
    """Offsets and rows of instructions.

    Parameters
    ----------
    point
        The buffer of the parameters.
    instructions
        Those to run.
    backward
        Whether gradients are wanted.
    """

    def __init__(self, point: Buffer, instructions: Sequence[Instruction | Loop], *, backward: bool) -> None:
        self.offsets: dict[int, int] = {id(point): 0}
        self.moving, self.indices = point.size, list[np.ndarray]()
        self._index_size, self._index_at = 0, dict[bytes, int]()
        self.constants: list[np.ndarray] = []
        self._constant_at: dict[int, int] = {}
        self.constant_size = self._largest = 0
        self.presets: list[tuple[Var, np.ndarray]] = []
        flat = [i for item in instructions for i in (item.body if isinstance(item, Loop) else [item])]
        for instruction in flat:
            for var in (instruction.output, *instruction.inputs):
                if var is not None:
                    self._place(var.buffer)
        load(["driver", *(_group(i) for i in flat), *(g for i in flat if (g := _backward_group(i)))])
        self.forward, self.backward = _Rows(), _Rows()
        for item in instructions:
            self._write(self.forward, item, "forward")
        if backward:
            for item in reversed(instructions):
                self._write(self.backward, item, "backward")

    def _place(self, buffer: Buffer) -> None:
        if buffer.value is not None:
            if id(buffer) not in self._constant_at:
                self._constant_at[id(buffer)] = self.constant_size
                self.constants.append(buffer.value.astype(np.float64, copy=False))
                # Each on a line of its own, so that loops over it are always cut in the same way.
                self.constant_size += _rounded(buffer.size)
                self._largest = max(self._largest, buffer.size)
        elif id(buffer) not in self.offsets:
            self.offsets[id(buffer)] = self.moving = _rounded(self.moving)
            self.moving += buffer.total
            self.presets += buffer.presets

    @property
    def adjoint_size(self) -> int:
        """Adjoints of values, and behind them a place for those of constants, which nobody reads."""
        return _rounded(self.moving) + 6 * _rounded(self._largest)

    def operand(self, var: Var, slot: int, outer: int = 0, inner: int = 0) -> _Operand:
        """An operand of a row; ``slot`` tells the constants of a row apart."""
        if var.buffer.value is not None:
            at = self._constant_at[id(var.buffer)] + var.offset
            waste = _rounded(self.moving) + slot * _rounded(self._largest) + var.offset
            return _Operand(at, _CONSTANTS, waste, _ADJOINTS, outer, inner, var.advance, 0)
        at = self.offsets[id(var.buffer)] + var.offset
        return _Operand(at, _VALUES, at, _ADJOINTS, outer, inner, var.advance, var.advance)

    def index(self, positions: np.ndarray) -> int:
        """Where an array of positions begins in the region of indices."""
        key = positions.astype(np.int64).tobytes()
        if key not in self._index_at:
            self._index_at[key] = self._index_size
            self.indices.append(np.frombuffer(key, np.int64))
            self._index_size += positions.size
        return self._index_at[key]

    # ------------------------------------------------------------------------------------- rows

    def _write(self, rows: _Rows, item: Instruction | Loop, direction: str) -> None:
        if isinstance(item, Instruction):
            self._row(rows, item, direction, None)
            return
        head, _ = rows.new()
        count = len(rows.words)
        for instruction in item.body if direction == "forward" else reversed(item.body):
            self._row(rows, instruction, direction, item)
        head[1:4] = item.steps, (len(rows.words) - count) // 2, int(direction == "backward")

    def _row(self, rows: _Rows, item: Instruction, direction: str, loop: Loop | None) -> None:
        out = item.output
        if direction == "backward":
            elementwise = ELEMENTWISE.get(item.op)
            if out is None or all(var.fixed for var in item.inputs) or (elementwise and item.op in _FLAT):
                return
        words, regions = rows.new()
        operands = self._operands(item, words, regions)
        words[3] = sum(1 << k for k, (var, _) in enumerate(operands) if not var.fixed)
        for k, (_, operand) in enumerate(operands):
            at = 4 + 4 * k
            words[at : at + 4] = 8 * operand.value, 8 * operand.adjoint, 8 * operand.outer, 8 * operand.inner
            regions[at], regions[at + 1] = operand.value_region, operand.adjoint_region
        group = (_backward_group(item) if direction == "backward" else None) or _group(item)
        words[0] = address(group, direction)
        if loop is not None:
            changes, _ = rows.new()
            for k, (_, operand) in enumerate(operands):
                changes[4 + 4 * k : 6 + 4 * k] = 8 * operand.advance, 8 * operand.adjoint_advance

    def _operands(self, item: Instruction, words: list[int], regions: list[int]) -> list[tuple[Var, _Operand]]:
        """Fill the lengths and extra words; the operands, the output first."""
        op, out = item.op, item.output
        inputs = list(item.inputs)
        vars_ = inputs if out is None else [out, *inputs]
        if len(vars_) > _MOST_OPERANDS:
            raise NotLowered(op, f"more than {_MOST_OPERANDS} arguments")
        strides = [(0, 0)] * len(vars_)
        if item.options.get("density") or op in ELEMENTWISE or op in ("copy", "total"):
            shape = vars_[0].shape
            (words[1], outer), (words[2], inner) = _two_loops(shape, [var.strides for var in vars_], op)
            strides = list(zip(outer, inner, strict=True))
            if op == "total":
                words[_EXTRA] = int(np.float64(item.options["factor"]).view(np.int64))
            elif item.options.get("density"):
                words[_EXTRA] = len(inputs)
        elif op in ("gather", "scatter", "eliminate"):
            assert out is not None
            words[1:3] = (out.size, inputs[0].size) if op == "scatter" else (1, out.size)
            words[_EXTRA] = 8 * self.index(item.options["index"])
            regions[_EXTRA] = _INDICES
        elif op == "evidence":
            words[1:3] = 1, inputs[0].size
            words[_EXTRA] = 8 * self.index(item.options["index"])
            regions[_EXTRA] = _INDICES
        elif op == "called":
            assert out is not None
            words[1:3] = inputs[0].size, inputs[1].size
            words[_EXTRA : _EXTRA + 2] = 8 * self.index(item.options["index"]), out.size
            regions[_EXTRA] = _INDICES
        elif op == "markov":
            words[1:3] = inputs[1].shape
            strides[2] = (inputs[1].strides[0], inputs[1].strides[1])
            words[_EXTRA] = 8 * self.index(item.options["index"])
            regions[_EXTRA] = _INDICES
        elif op in REDUCTIONS:
            kept = inputs[0].ndim - item.options["reduced"]
            shape, steps = inputs[0].shape, inputs[0].strides
            words[1], s0 = _one_loop(shape[:kept], steps[:kept], op)
            words[2], s1 = _one_loop(shape[kept:], steps[kept:], op)
            strides[1] = (s0, s1)
            words[_EXTRA] = int(item.options.get("columns", False))
        elif op in ("softmax", "cumsum", "cumprod"):
            n = inputs[0].shape[-1]
            words[1:3] = inputs[0].size // max(n, 1), n
        elif op == "recursion":
            words[1:3] = inputs[0].shape[::-1]
            strides = [(s[1], s[0]) for s in (var.strides for var in vars_)]
        elif op == "matmul":
            (n, k), m = inputs[0].shape, inputs[1].shape[1]
            words[1:3], words[_EXTRA] = [n, m], k
            strides[1:] = [(s[0], s[1]) for s in (inputs[0].strides, inputs[1].strides)]
        else:
            words[1] = inputs[0].shape[0]
            words[2] = inputs[-1].shape[-1]
            words[_EXTRA] = int(item.options.get("transposed", False))
        return [(var, self.operand(var, k, *strides[k])) for k, var in enumerate(vars_)]


#: Elementwise operations without derivatives.
_FLAT = frozenset(
    (
        *("floor", "ceil", "round", "sign", "logical_not", "floor_divide", "equal", "not_equal", "less", "less_equal"),
        *("greater", "greater_equal", "logical_and", "logical_or"),
    )
)


def _backward_group(item: Instruction) -> str | None:
    """The group of an instruction's backward kernel, where it is another than that of its forward kernel."""
    if item.output is not None and item.options.get("density"):
        return "operation density"
    return "operation evidence" if item.op == "evidence" else None


def _group(item: Instruction) -> str:
    if item.op == "evidence":
        return f"evidence {item.options['kernel']} {item.options['kinds']}"
    if item.op == "called":
        return " ".join(("called", *(item.options[key] for key in ("kernel", "gradient", "head", "kinds"))))
    if not item.options.get("density"):
        return f"operation {item.op}"
    vars_ = item.inputs if item.output is None else (item.output, *item.inputs)
    loops = free_loops(vars_[0].shape, [var.strides for var in vars_])
    inner = loops[-1][1][-len(item.inputs) :] if loops else (0,) * len(item.inputs)
    letters = "".join("s" if s == 0 else "u" if s == 1 else "g" for s in inner)
    pattern = letters if "g" not in letters else "g" * len(letters)
    if item.output is not None:
        return f"density {item.op} each {pattern}"
    return f"density {item.op} sum {'!' if item.inputs[0].fixed else ''}{pattern}"


def _two_loops(
    shape: Sequence[int], strides: Sequence[Sequence[int]], op: str
) -> tuple[tuple[int, tuple[int, ...]], tuple[int, tuple[int, ...]]]:
    loops = free_loops(shape, strides)
    if len(loops) > 2:
        raise NotLowered(op, f"an array of shape {tuple(shape)} whose axes cannot be joined")
    nothing = (1, (0,) * len(strides))
    if any(n == 0 for n in shape):
        return (0, nothing[1]), (0, nothing[1])
    return (loops[0] if len(loops) == 2 else nothing), (loops[-1] if loops else nothing)


def _one_loop(shape: Sequence[int], strides: Sequence[int], op: str) -> tuple[int, int]:
    loops = merged_loops(shape, [strides])
    if len(loops) > 1:
        raise NotLowered(op, f"axes of lengths {tuple(shape)} that cannot be joined")
    n, (step,) = loops[0] if loops else (1, (0,))
    return n, step


def _rounded(size: int) -> int:
    """A size up to the next line of the cache."""
    line = _ALIGNED // 8
    return -(-size // line) * line


def _aligned(size: int, dtype: type = np.float64) -> np.ndarray:
    """Zeros that begin at a line of the cache."""
    raw = np.zeros(max(size, 1) * 8 + _ALIGNED, np.uint8)
    start = -raw.ctypes.data % _ALIGNED
    return raw[start : start + max(size, 1) * 8].view(dtype)


class Arenas:
    """Instructions laid out for evaluation, with memory for several threads.

    Attributes
    ----------
    user_data : ndarray of uint64
        What the callbacks take as their last argument. The object must be kept as long as they are called.
    """

    def __init__(
        self,
        point: Buffer,
        instructions: Sequence[Instruction | Loop],
        constant: float = 0.0,
        results: Buffer | None = None,
        *,
        backward: bool = True,
        count: int | None = None,
    ) -> None:
        layout = _Layout(point, instructions, backward=backward)
        if results is not None:
            layout._place(results)
        self.n_dim, self.results_size = point.size, 0 if results is None else results.size
        rows = layout.forward.words + layout.backward.words
        words = np.array(rows, np.int64).reshape(-1, _WORDS)
        regions = np.array(layout.forward.regions + layout.backward.regions, np.int8).reshape(-1, _WORDS)
        self.constants = _aligned(layout.constant_size)
        at = 0
        for array in layout.constants:
            self.constants[at : at + array.size] = array
            at += _rounded(array.size)
        self.indices = np.concatenate([np.zeros(1, np.int64), *layout.indices])
        start = np.zeros(layout.moving)
        for var, values in layout.presets:
            base = layout.offsets[id(var.buffer)]
            steps = 1 if var.buffer.loop is None else var.buffer.loop.steps
            for step in range(steps):
                var.view(start[base:], step)[...] = values
        if count is None:
            size = 8 * (layout.moving + layout.adjoint_size + words.size)
            count = max(available_cores() + 2, min(16, _MEMORY // max(size, 1)))
        headers = _aligned(count * _HEADER, np.int64).reshape(count, _HEADER)
        self._memory: list[np.ndarray] = [headers]
        for header in headers:
            values, adjoints = _aligned(layout.moving), _aligned(layout.adjoint_size if backward else 1)
            values[: layout.moving] = start
            bases = [0, values.ctypes.data, adjoints.ctypes.data, self.constants.ctypes.data]
            bases.append(self.indices.ctypes.data + 8)
            code = _aligned(words.size, np.int64)
            code[: words.size] = (words + np.array(bases)[regions]).ravel()
            header[1:7] = (
                code.ctypes.data,
                len(layout.forward.words),
                len(layout.backward.words),
                values.ctypes.data,
                adjoints.ctypes.data,
                layout.moving if backward else 0,
            )
            header[8], header[9] = point.size, np.float64(constant).view(np.int64)
            if results is not None:
                header[10] = values.ctypes.data + 8 * layout.offsets[id(results)]
                header[11] = results.size
            self._memory += [values, adjoints, code]
        self.user_data = np.array([count, headers.ctypes.data, 8 * _HEADER], np.uint64)
        self.size = int(start.size + self.constants.size)
        self.rows = len(rows)


class Callback:
    """A function in C by its address.

    Attributes
    ----------
    address : int
    ctypes : callable
    """

    def __init__(self, name: str, result: type, arguments: Sequence[type]) -> None:
        self.address = address("driver", name)
        self.ctypes = ctypes.CFUNCTYPE(result, *arguments)(self.address)


def callback(name: str) -> Callback:
    """``density``, ``sweep`` or ``copy`` of :mod:`bayeslab.posterior.machine.kernels.driver`."""
    pointer, whole = ctypes.c_void_p, ctypes.c_uint64
    arguments = {
        "density": [whole, pointer, pointer, pointer, pointer],
        "sweep": [ctypes.c_int64, pointer, pointer, pointer],
        "copy": [whole, whole, pointer, pointer, pointer],
    }[name]
    return Callback(name, ctypes.c_int64, arguments)
