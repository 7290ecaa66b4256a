"""Discrete unknowns of a program: the cells that an array depends on, and the array in each state of them.

What depends on discrete unknowns is first recorded as if they had values. Such records are never run. From them follow
the cells that occur in each element of an array, and the array in any states of the cells, as an array that is run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayeslab.posterior.machine.arrays import Buffer, Instruction, NotLowered, Var
from bayeslab.posterior.machine.catalogue import core_of, forms
from bayeslab.posterior.machine.numpy_densities import log_choose, log_factorial
from bayeslab.posterior.machine.operations import ELEMENTWISE, REDUCTIONS
from bayeslab.posterior.machine.program import Builder, live
from bayeslab.posterior.machine.views import flat_positions

__all__ = ["States", "scopes_of"]

# Largest number of cells over all elements of an array.
_MOST_CELLS = 20_000_000
_NONE = np.iinfo(np.int64).max


def scopes_of(builder: Builder, outputs: Sequence[Var], cells: Mapping[int, np.ndarray]) -> list[np.ndarray]:
    """The discrete cells that each element of some arrays depends on.

    Parameters
    ----------
    outputs
        Arrays.
    cells
        Of each unknown, by the id of its buffer, the numbers of its cells.

    Returns
    -------
    list of ndarray of int (elements, most cells)
        Elements in C order; the cells of one ascending, and behind them -1.

    Raises
    ------
    NotLowered
        The cells are too many.
    """
    scopes: dict[int, np.ndarray] = {key: numbers.reshape(-1, 1) for key, numbers in cells.items()}
    for item in live(builder.instructions, [var.buffer for var in outputs if var.summed]):
        if isinstance(item, Instruction) and item.output is not None and item.output.summed:
            scopes[id(item.output.buffer)] = _by_position(item, _of_instruction(item, scopes))
    return [_at(var, scopes) for var in outputs]


def _at(var: Var, scopes: Mapping[int, np.ndarray]) -> np.ndarray:
    """Cells of the elements of a view."""
    if not var.summed:
        return np.empty((var.size, 0), np.int64)
    return scopes[id(var.buffer)][var.offset + flat_positions(var.shape, var.strides).ravel()]


def _by_position(item: Instruction, scope: np.ndarray) -> np.ndarray:
    """Cells by position in the buffer of the result, from those by element."""
    out = item.output
    assert out is not None
    placed = np.full((max(out.buffer.size, 1), scope.shape[1]), -1)
    placed[out.offset + flat_positions(out.shape, out.strides).ravel()] = scope
    return placed


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The union of the cells of each row."""
    parts = [part for part in parts if part.shape[1]]
    if not parts:
        return np.empty((0, 0), np.int64)
    whole = np.concatenate(parts, axis=1)
    if whole.size > _MOST_CELLS:
        raise NotLowered("sum", f"{whole.shape[1]:,} discrete cells in each of {whole.shape[0]:,} elements")
    whole = np.sort(np.where(whole < 0, _NONE, whole), axis=1)
    whole[:, 1:][whole[:, 1:] == whole[:, :-1]] = _NONE
    whole = np.sort(whole, axis=1)
    whole = whole[:, : int((whole < _NONE).sum(axis=1).max(initial=0))]
    return np.where(whole == _NONE, -1, whole)


def _of_instruction(item: Instruction, scopes: Mapping[int, np.ndarray]) -> np.ndarray:
    """Cells of the elements of an instruction's result."""
    out, op, inputs = item.output, item.op, item.inputs
    assert out is not None
    each = [_at(var, scopes) for var in inputs]
    if op in ELEMENTWISE or op == "copy" or item.options.get("density"):
        return _joined(each)
    if op == "gather":
        return each[0][item.options["index"].ravel()]
    if op == "concatenate":
        return _concatenated(item, each)
    if op in REDUCTIONS:
        return _joined([each[0].reshape(out.size, -1)])
    if op == "lookup":
        return _of_lookup(item, each)
    if op in ("softmax", "cumsum", "cumprod"):
        rows = each[0].reshape(out.size // max(out.shape[-1], 1), -1)
        return _joined([rows.repeat(out.shape[-1], axis=0)])
    if op == "matmul":
        (n, k), m = inputs[0].shape, inputs[1].shape[1]
        left = _joined([each[0].reshape(n, -1)]) if each[0].shape[1] else np.empty((n, 0), np.int64)
        right = each[1].reshape(k, m, -1).swapaxes(0, 1).reshape(m, -1)
        right = _joined([right]) if each[1].shape[1] else np.empty((m, 0), np.int64)
        return _joined([left.repeat(m, axis=0), np.tile(right, (n, 1))])
    everything = np.unique(np.concatenate([scope.ravel() for scope in each]))
    return np.broadcast_to(everything[everything >= 0], (out.size, int((everything >= 0).sum())))


def _of_lookup(item: Instruction, each: Sequence[np.ndarray]) -> np.ndarray:
    """Of ``base[indices]``: the cells of the indices, and those of all that the indices may select."""
    base, *indices = item.inputs
    drawn, rest = indices[0].shape, base.shape[len(indices) :]
    numbers = np.arange(math.prod(drawn)).repeat(math.prod(rest))
    parts = [scope[numbers] for scope in each[1:]]
    if base.summed:
        open_axes = [axis for axis, index in enumerate(indices) if not index.constant]
        shape = tuple(1 if axis in open_axes else n for axis, n in enumerate(base.shape))
        scope = np.moveaxis(each[0].reshape(*base.shape, -1), open_axes, range(-1 - len(open_axes), -1))
        joined = _joined([scope.reshape(math.prod(shape), -1)])
        at = tuple(0 if axis in open_axes else index.value for axis, index in enumerate(indices))
        chosen = np.arange(math.prod(shape)).reshape(shape)[tuple(np.broadcast_arrays(*at, np.empty(drawn))[:-1])]
        parts.append(joined[chosen.ravel()])
    return _joined(parts)


def _concatenated(item: Instruction, each: Sequence[np.ndarray]) -> np.ndarray:
    most = max(scope.shape[1] for scope in each)
    parts = [
        np.pad(scope, ((0, 0), (0, most - scope.shape[1])), constant_values=-1).reshape(*var.shape, most)
        for scope, var in zip(each, item.inputs, strict=True)
    ]
    return np.concatenate(parts, axis=item.options["axis"]).reshape(-1, most)


class States:
    """Arrays in several joint states of discrete unknowns: arrays with an axis of the states before their own.

    Parameters
    ----------
    builder : Builder
    given
        Values of each unknown, by the id of its buffer: constants of shape (states, ...).
    """

    def __init__(self, builder: Builder, given: Mapping[int, Var]) -> None:
        self.builder = builder
        self._whole = dict(given)
        self._made = {
            id(item.output.buffer): item
            for item in builder.instructions
            if isinstance(item, Instruction) and item.output is not None and item.output.made is item
        }

    def of(self, var: Var) -> Var:
        """An array in each state: (states, ...), or (1, ...) where it depends on none of the unknowns.

        Raises
        ------
        NotLowered
            It is computed by an operation that is not known for several states.
        """
        if not var.summed:
            return var[None]
        key = id(var.buffer)
        item = self._made.get(key)
        if key not in self._whole:
            if item is None:
                raise NotLowered("sum", "an unknown without states")
            self._whole[key] = self._computed(item)
        whole = self._whole[key]
        made = item.output if item is not None else None
        shape, strides = (made.shape, made.strides) if made is not None else (whole.shape[1:], None)
        if strides is None:
            strides = Var(self.builder, Buffer(0), shape).strides
        if (var.shape, var.strides, var.offset) == (shape, strides, 0):
            return whole
        view = _view(whole, shape, strides, var)
        if view is not None:
            return view
        order = sorted(range(len(shape)), key=lambda axis: -strides[axis])
        flat = whole.transpose(0, *(axis + 1 for axis in order)).reshape(whole.shape[0], -1)
        return flat[:, var.offset + flat_positions(var.shape, var.strides)]

    def _computed(self, item: Instruction) -> Var:
        op, builder = item.op, self.builder
        args = [self.of(var) for var in item.inputs]
        if op == "copy":
            return args[0]
        if op in ELEMENTWISE or item.options.get("density"):
            return self._each(op, args)
        if op == "gather":
            return args[0][:, item.options["index"]]
        if op == "lookup":
            return _looked_up(args[0], args[1:])
        if op == "concatenate":
            n = max(arg.shape[0] for arg in args)
            parts = [arg.broadcast_to((n, *arg.shape[1:])) for arg in args]
            return builder.concatenate(parts, item.options["axis"] + 1)
        if op in REDUCTIONS:
            last = args[0].ndim
            return builder.reduce(op, args[0], range(last - item.options["reduced"], last))
        if op == "matmul":
            left, right = args
            return (left[..., None] * right[:, None]).sum(2)
        raise NotLowered(op, "a function of discrete nodes that are summed out")

    def _each(self, op: str, args: Sequence[Var]) -> Var:
        """An operation on each number; along an axis that repeats every operand it is done once."""
        shape = np.broadcast_shapes(*(arg.shape for arg in args))
        whole = [arg.broadcast_to(shape) for arg in args]
        alike = [axis for axis, n in enumerate(shape) if n > 1 and all(arg.strides[axis] == 0 for arg in whole)]
        some = [
            arg[tuple(slice(0, 1) if axis in alike and n > 1 else slice(None) for axis, n in enumerate(arg.shape))]
            for arg in args
        ]
        made = self._elementwise(op, some) if op in ELEMENTWISE else self._density(op, some)
        return made.broadcast_to(shape)

    def _elementwise(self, op: str, args: Sequence[Var]) -> Var:
        """Zero or one times a number is a choice, which keeps the number as it was made."""
        if op == "multiply":
            for switch, other in (args, args[::-1]):
                if switch.constant and not other.constant and np.isin(switch.value, (0, 1)).all():
                    return self.builder.elementwise("where", switch, other, 0.0)
        return self.builder.elementwise(op, *args)

    def _density(self, op: str, args: Sequence[Var]) -> Var:
        """The log density of each number; the part of counts that depends on data alone is computed once."""
        for k, arg in enumerate(args):
            made = arg.made
            if made is None or made.op != "where" or not made.inputs[0].constant:
                continue
            branches = [_unrepeated(branch) for branch in made.inputs[1:]]
            if sum(branch.size for branch in branches) <= arg.size:
                either = [self._each(op, [*args[:k], branch, *args[k + 1 :]]) for branch in branches]
                return self.builder.elementwise("where", made.inputs[0], *either)
        args = [self._by_link(arg, forms(op).get(k, ("", ""))[0]) for k, arg in enumerate(args)]
        x, *_ = args
        core = core_of(op)
        counts = x.constant and core is not None and bool(np.all((x.value >= 0) & (x.value % 1 == 0)))
        if core is not None and counts and op.startswith("poisson"):
            return self.builder.log_density(core, *args) - log_factorial(x.value)
        of_trials = op.startswith("binomial") and args[1].constant and bool(np.all(args[1].value >= x.value))
        if core is not None and counts and of_trials:
            return self.builder.log_density(core, *args) + log_choose(args[1].value, x.value)
        return self.builder.log_density(op, *args)

    def _by_link(self, var: Var, inverse: str) -> Var:
        """A view of the values of an inverse link, as the inverse link of a view, whose density keeps more digits."""
        item = self._made.get(id(var.buffer))
        if var.made is not None or item is None or item.output is None or item.op != inverse:
            return var
        view = _view(item.inputs[0][None], item.output.shape, item.output.strides, var)
        return var if view is None else self.builder.elementwise(inverse, view[0])


def _unrepeated(var: Var) -> Var:
    """An array without the repetitions along its axes."""
    return var[tuple(slice(0, 1) if step == 0 else slice(None) for step in var.strides)]


def _looked_up(base: Var, indices: Sequence[Var]) -> Var:
    """``base[indices]`` in each state; the indices are known there."""
    if not all(index.constant for index in indices):
        raise NotLowered("index", "positions that depend on parameters")
    places = [index.value.astype(np.int64) for index in indices]
    for place, length in zip(places, base.shape[1:], strict=False):
        if place.size and (place.min() < 0 or place.max() >= length):
            raise NotLowered("index", "a state that is no position of an axis")
    if base.shape[0] == 1:
        return base[0][tuple(places)]
    states = np.arange(base.shape[0]).reshape(-1, *[1] * (places[0].ndim - 1))
    return base[(states, *places)]


def _view(whole: Var, shape: tuple[int, ...], strides: tuple[int, ...], var: Var) -> Var | None:
    """A view of an array, repeated for an array with an axis before; None if it has other axes."""
    left, start = var.offset, dict[int, int]()
    for axis in sorted((k for k, n in enumerate(shape) if n > 1), key=lambda k: -strides[k]):
        start[axis], left = divmod(left, strides[axis])
    if left:
        return None
    keys: list[Any] = [start.get(axis, 0) for axis in range(len(shape))]
    source: list[int | None] = []
    for n, step in zip(var.shape, var.strides, strict=True):
        if n == 1 or step == 0:
            source.append(None)
            continue
        fitting = [axis for axis in start if step % strides[axis] == 0 and isinstance(keys[axis], int)]
        if not fitting:
            return None
        axis = max(fitting, key=lambda k: strides[k])
        jump = step // strides[axis]
        last = start[axis] + (n - 1) * jump
        if not 0 <= last < shape[axis]:
            return None
        keys[axis] = slice(start[axis], last + (1 if jump > 0 else -1) if last or jump > 0 else None, jump)
        source.append(axis)
    if any(isinstance(key, int) and not 0 <= key < max(shape[axis], 1) for axis, key in enumerate(keys)):
        return None
    taken = whole[(slice(None), *keys)]
    kept = [axis for axis, key in enumerate(keys) if isinstance(key, slice)]
    order = [1 + kept.index(axis) for axis in source if axis is not None]
    taken = taken.transpose(0, *order)
    moved = taken[(slice(None), *(None if axis is None else slice(None) for axis in source))]
    return moved.broadcast_to((moved.shape[0], *var.shape))
