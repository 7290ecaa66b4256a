"""Means of rows that are linear in hidden values, with one cell of each for a row, in records of the density machine.

What depends on hidden values is recorded, not run (:meth:`Recorder.hidden`). The record of a mean gives an offset and,
for each node of hidden values, a coefficient and the cell of every element. The operations that are followed are those
of :mod:`bayeslab.families.graph.linear_rows`, so that both backends integrate the same nodes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayeslab.posterior.machine.arrays import Instruction, NotLinear, Var
from bayeslab.posterior.machine.program import Builder, live
from bayeslab.posterior.machine.views import flat_positions

__all__ = ["HiddenRows", "Linear", "by_row", "rows_apart"]


@dataclass(frozen=True, eq=False)
class HiddenRows:
    """An observed normal node from whose mean something is integrated out.

    Attributes
    ----------
    name : str
    mean, sigma : Var
    observed : ndarray
        NaN where a cell is missing.
    """

    name: str
    mean: Var
    sigma: Var
    observed: np.ndarray


@dataclass(frozen=True, eq=False)
class Linear:
    """offset + sum of coefficient times cell.

    Attributes
    ----------
    shape : tuple of int
    offset : Var
        With as many axes, of full length or of length one.
    coefficients : dict of str to Var
        By the name of the node; so are the cells.
    cells : dict of str to ndarray of int
        Of shape ``shape``.
    """

    shape: tuple[int, ...]
    offset: Var
    coefficients: Mapping[str, Var]
    cells: Mapping[str, np.ndarray]


def rows_apart(builder: Builder, rows: HiddenRows, symbols: Mapping[str, Var]) -> tuple[Linear, np.ndarray]:
    """The mean of rows as a linear function of the cells of symbols, and the positions of observed rows.

    Raises
    ------
    NotLinear
        The mean is not linear in all symbols, the standard deviation depends on one, or no row is observed.
    """
    there = np.flatnonzero(~np.isnan(rows.observed.ravel()))
    if rows.sigma.summed or not len(there):
        raise NotLinear(rows.name, "a standard deviation that depends on hidden values, or no data")
    forms: dict[int, tuple[Linear, np.ndarray]] = {}
    for name, symbol in symbols.items():
        one = (1,) * symbol.ndim
        numbers = np.arange(symbol.size).reshape(symbol.shape)
        whole = Linear(
            symbol.shape, builder.constant(np.zeros(one)), {name: builder.constant(np.ones(one))}, {name: numbers}
        )
        forms[id(symbol.buffer)] = whole, np.arange(symbol.size)
    for item in live(builder.instructions, [rows.mean.buffer]):
        if isinstance(item, Instruction) and item.output is not None and item.output.summed:
            out, form = item.output, _of(rows.name, item, forms)
            place = np.zeros(max(out.buffer.size, 1), np.int64)
            place[out.offset + flat_positions(out.shape, out.strides).ravel()] = np.arange(out.size)
            forms[id(out.buffer)] = form, place
    form = _viewed(rows.mean, forms)
    if not symbols.keys() <= form.cells.keys():
        raise NotLinear(rows.name, "hidden values that do not enter its mean linearly")
    return form, there


def by_row(value: Var, shape: tuple[int, ...], places: np.ndarray) -> Var:
    """The values of a variable for rows at some positions; one number if all rows have the same."""
    if value.size == 1:
        return value.reshape(1)
    return value.broadcast_to(shape).reshape(-1)[places]


def _viewed(var: Var, forms: Mapping[int, tuple[Linear, np.ndarray]]) -> Linear:
    """A view of hidden values as a linear function."""
    form, place = forms[id(var.buffer)]
    full = place[var.offset + flat_positions(var.shape, var.strides)]
    numbers = full[tuple(slice(0, 1) if step == 0 else slice(None) for step in var.strides)]

    def moved(value: Var) -> Var:
        if value.size == 1:
            return value.reshape((1,) * var.ndim)
        index = np.unravel_index(numbers, form.shape)
        once = [at if n > 1 else np.zeros_like(at) for at, n in zip(index, value.shape, strict=True)]
        flat = np.ravel_multi_index(once, value.shape)
        return value.reshape(-1)[flat.reshape(numbers.shape)]

    return Linear(
        var.shape,
        moved(form.offset),
        {name: moved(value) for name, value in form.coefficients.items()},
        {name: cells.ravel()[full] for name, cells in form.cells.items()},
    )


def _of(name: str, item: Instruction, forms: Mapping[int, tuple[Linear, np.ndarray]]) -> Linear:
    """The result of an instruction as a linear function."""
    op, inputs, out = item.op, item.inputs, item.output
    assert out is not None
    moving = [var.summed for var in inputs]
    if op == "copy":
        return _viewed(inputs[0], forms)
    if op == "gather":
        source, index = inputs[0], item.options["index"]
        return _viewed_at(_viewed(source, forms), index)
    signs = {"add": (1, 1), "subtract": (1, -1), "negative": (-1,)}.get(op)
    if signs is not None:
        terms = [
            (sign, _viewed(var, forms) if var.summed else _without_repeats(var))
            for sign, var in zip(signs, inputs, strict=True)
        ]
        return _sum(name, out.shape, terms)
    if op == "multiply" and sum(moving) == 1:
        one, other = inputs if moving[0] else inputs[::-1]
        return _scaled(_viewed(one, forms), _without_repeats(other))
    if op == "divide" and moving == [True, False]:
        return _scaled(_viewed(inputs[0], forms), 1.0 / _without_repeats(inputs[1]))
    raise NotLinear(name, f"hidden values that enter its mean through '{op}'")


def _viewed_at(form: Linear, index: np.ndarray) -> Linear:
    """The elements of a vector at positions."""

    def moved(value: Var) -> Var:
        return value.reshape((1,) * index.ndim) if value.size == 1 else value.reshape(-1)[index]

    return Linear(
        index.shape,
        moved(form.offset),
        {name: moved(value) for name, value in form.coefficients.items()},
        {name: cells[index] for name, cells in form.cells.items()},
    )


def _without_repeats(var: Var) -> Var:
    """An array with one element along the axes along which it repeats."""
    return var[tuple(slice(0, 1) if step == 0 else slice(None) for step in var.strides)]


def _scaled(form: Linear, factor: Var) -> Linear:
    coefficients = {name: value * factor for name, value in form.coefficients.items()}
    return Linear(form.shape, form.offset * factor, coefficients, form.cells)


def _sum(name: str, shape: tuple[int, ...], terms: list[tuple[int, Linear | Var]]) -> Linear:
    offset: Var | None = None
    coefficients, cells = dict[str, Var](), dict[str, np.ndarray]()
    for sign, term in terms:
        part = term.offset if isinstance(term, Linear) else term
        part = part if sign > 0 else -part
        offset = part if offset is None else offset + part
        if isinstance(term, Var):
            continue
        for symbol, coefficient in term.coefficients.items():
            signed = coefficient if sign > 0 else -coefficient
            if symbol in cells:
                if not np.array_equal(cells[symbol], term.cells[symbol]):
                    raise NotLinear(name, f"several cells of '{symbol}' in a row")
                signed = coefficients[symbol] + signed
            coefficients[symbol], cells[symbol] = signed, term.cells[symbol]
    assert offset is not None
    return Linear(shape, offset, coefficients, cells)
