"""Recognise in a PyTensor graph whether the mean of rows is linear in some variables, with one cell of each for a row.

A variable is decomposed into an offset and, for each symbol, a coefficient and the cell for every element. Supported
operations are sums, products with and quotients by expressions without the symbols, and operations that move cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.graph.utils import MissingInputError
from pytensor.scalar.basic import Add, Cast, Identity, Mul, Neg, Second, Sub, TrueDiv
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

__all__ = ["Linear", "NotLinear", "Rows", "by_row", "rows_apart", "taken_apart"]

_INDEXING = (Subtensor, AdvancedSubtensor)


class NotLinear(Exception):
    """The variable is not linear in the symbols."""


@dataclass(frozen=True, eq=False)
class Linear:
    """offset + sum of coefficient times cell.

    Attributes
    ----------
    offset : TensorVariable
    coefficients : dict of TensorVariable to TensorVariable
        Coefficients by symbol, with as many axes as the variable.
    cells : dict of TensorVariable to ndarray of int
        The cell of each element by symbol, with as many axes as the variable.
    """

    offset: Any
    coefficients: dict[Any, Any]
    cells: dict[Any, np.ndarray]


@dataclass(frozen=True, eq=False)
class Rows:
    """An observed normal node from whose mean something is integrated out.

    Attributes
    ----------
    name : str
    dims : tuple of str
    mean, sigma : TensorVariable
    observed : ndarray
        NaN where a cell is missing.
    """

    name: str
    dims: tuple[str, ...]
    mean: Any
    sigma: Any
    observed: np.ndarray


def rows_apart(rows: Rows, cells: Mapping[Any, np.ndarray], drawn: Set[Any]) -> tuple[Linear, np.ndarray]:
    """The mean of rows as a linear function of the cells of symbols, and the positions of observed rows.

    Raises
    ------
    NotLinear
        The mean is not linear in all symbols, the standard deviation depends on one, or no row is observed.
    """
    if not set(ancestors([rows.sigma])).isdisjoint(cells):
        raise NotLinear
    mean = taken_apart(rows.mean, cells, drawn)
    there = np.flatnonzero(~np.isnan(rows.observed.ravel()))
    if not cells.keys() <= mean.cells.keys() or not len(there):
        raise NotLinear
    return mean, there


def by_row(value: Any, shape: tuple[int, ...], places: np.ndarray) -> Any:
    """The values of a variable for rows at some positions; one number if all rows have the same."""
    if all(value.type.broadcastable):
        return pt.cast(value.reshape((1,)), "float64")
    return pt.cast(pt.broadcast_to(value, shape).ravel()[pt.constant(places)], "float64")


def taken_apart(value: Any, symbols: Mapping[Any, np.ndarray], drawn: Set[Any]) -> Linear:
    """A variable as a linear function of the cells of symbols.

    Parameters
    ----------
    value : TensorVariable
    symbols : dict of TensorVariable to ndarray of int
        The numbers of each symbol's cells.
    drawn : set of TensorVariable
        The random variables, on which the choice of an element's cell must not depend.

    Raises
    ------
    NotLinear
        It is not linear; or an element has several cells of a symbol, or a cell that depends on random variables.
    """
    made: dict[Any, Linear] = {}
    for symbol, cells in symbols.items():
        one = pt.ones((1,) * symbol.type.ndim)
        made[symbol] = Linear(pt.zeros((1,) * symbol.type.ndim), {symbol: one}, {symbol: cells})
    for node in io_toposort([], [value]):
        if any(i in made for i in node.inputs) and not isinstance(node.op, Shape | Shape_i):
            made[node.outputs[0]] = _of(node, made, drawn)
    if value not in made:
        raise NotLinear
    return made[value]


def _of(node: Any, made: Mapping[Any, Linear], drawn: Set[Any]) -> Linear:
    op, inputs = node.op, node.inputs
    moving = [i for i in inputs if i in made]
    if isinstance(op, Elemwise):
        return _elementwise(node, made)
    if len(moving) != 1 or moving[0] is not inputs[0]:
        raise NotLinear
    form = made[inputs[0]]
    if isinstance(op, SpecifyShape):
        return form
    if isinstance(op, DimShuffle):
        if not all(v.type.broadcastable[a] for v in (form.offset, *form.coefficients.values()) for a in op.drop):
            raise NotLinear
        return Linear(
            form.offset.dimshuffle(op.new_order),
            {s: c.dimshuffle(op.new_order) for s, c in form.coefficients.items()},
            {s: _shuffled(at, op.new_order) for s, at in form.cells.items()},
        )
    if isinstance(op, Alloc):
        more = node.outputs[0].type.ndim - inputs[0].type.ndim
        return Linear(
            pt.shape_padleft(form.offset, more),
            {s: pt.shape_padleft(c, more) for s, c in form.coefficients.items()},
            {s: at.reshape((1,) * more + at.shape) for s, at in form.cells.items()},
        )
    if isinstance(op, (Reshape, *_INDEXING)):
        return _moved(node, form, drawn)
    raise NotLinear


def _shuffled(cells: np.ndarray, order: tuple[Any, ...]) -> np.ndarray:
    kept = [axis for axis in order if axis != "x"]
    dropped = tuple(axis for axis in range(cells.ndim) if axis not in kept)
    if any(cells.shape[axis] != 1 for axis in dropped):
        raise NotLinear
    out = cells.transpose([*kept, *dropped]).reshape([cells.shape[axis] for axis in kept])
    return out[tuple(None if axis == "x" else slice(None) for axis in order)]


def _moved(node: Any, form: Linear, drawn: Set[Any]) -> Linear:
    """An operation that moves the elements of its first input."""
    shape = node.inputs[0].type.shape
    if None in shape or not drawn.isdisjoint(ancestors(node.inputs[1:])):
        raise NotLinear
    rest, ndim = node.inputs[1:], node.outputs[0].type.ndim

    def made(value: Any) -> Any:
        if all(value.type.broadcastable):
            return value.reshape((1,) * ndim)
        return node.op(pt.broadcast_to(value, shape), *rest)

    mode = pytensor.compile.mode.Mode("py", "fast_compile")
    cells = {}
    for symbol, at in form.cells.items():
        moved = node.op(pt.constant(np.ascontiguousarray(np.broadcast_to(at, shape))), *rest)
        try:
            cells[symbol] = np.asarray(moved.eval(mode=mode))
        except (MissingInputError, IndexError) as error:  # an index without a value, or out of range
            raise NotLinear from error
    return Linear(made(form.offset), {s: made(c) for s, c in form.coefficients.items()}, cells)


def _elementwise(node: Any, made: Mapping[Any, Linear]) -> Linear:
    inputs = node.inputs
    moving = [i for i in inputs if i in made]
    match node.op.scalar_op:
        case Add():
            return _sum([(1, i) for i in inputs], made)
        case Sub():
            return _sum([(1, inputs[0]), (-1, inputs[1])], made)
        case Neg():
            return _sum([(-1, inputs[0])], made)
        case Cast() | Identity() if inputs[0].dtype == node.outputs[0].dtype == "float64":
            return made[inputs[0]]
        case Second() if inputs[0] not in made:
            return made[inputs[1]]
        case Mul() if len(moving) == 1:
            factor = pt.mul(*(i for i in inputs if i not in made)) if len(inputs) > 2 else _other(inputs, moving[0])
            return _scaled(made[moving[0]], factor)
        case TrueDiv() if moving == [inputs[0]]:
            return _scaled(made[inputs[0]], 1.0 / inputs[1])
        case _:
            raise NotLinear


def _other(inputs: list[Any], moving: Any) -> Any:
    return inputs[1] if inputs[0] is moving else inputs[0]


def _scaled(form: Linear, factor: Any) -> Linear:
    return Linear(form.offset * factor, {s: c * factor for s, c in form.coefficients.items()}, form.cells)


def _sum(terms: list[tuple[int, Any]], made: Mapping[Any, Linear]) -> Linear:
    offset: Any = None
    coefficients, cells = dict[Any, Any](), dict[Any, np.ndarray]()
    for sign, term in terms:
        form = made.get(term)
        part = term if form is None else form.offset
        part = part if sign > 0 else -part
        offset = part if offset is None else offset + part
        for symbol, coefficient in (form.coefficients if form is not None else {}).items():
            signed, at = coefficient if sign > 0 else -coefficient, form.cells[symbol] if form is not None else None
            assert at is not None
            if symbol in cells:
                one, other = np.broadcast_arrays(cells[symbol], at)
                if not np.array_equal(one, other):
                    raise NotLinear
                cells[symbol], coefficients[symbol] = one, coefficients[symbol] + signed
            else:
                cells[symbol], coefficients[symbol] = at, signed
    return Linear(offset, coefficients, cells)
