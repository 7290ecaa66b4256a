"""States and functions integrated out of observed normal nodes, in programs of the density machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeslab.families.graph.function_layout import Entering, FunctionNode, integrable, kernel_inputs, layout_of
from bayeslab.families.graph.functions_given import functions_given
from bayeslab.families.graph.lowered_draws import Integral
from bayeslab.families.graph.lowered_rows import HiddenRows, by_row, rows_apart
from bayeslab.families.graph.state_components import KERNEL, StateNode, filter_inputs
from bayeslab.families.graph.states_given import StatesGiven
from bayeslab.posterior.machine.arrays import Instruction, NotLinear, Var
from bayeslab.posterior.machine.backend import Machine
from bayeslab.posterior.machine.evidence import log_evidence
from bayeslab.posterior.machine.program import Builder, live

__all__ = ["functions_evidence", "integrate", "states_evidence"]


def integrate(
    builder: Builder,
    states: Sequence[StateNode],
    functions: Sequence[FunctionNode],
    slopes: Sequence[Var],
    rows: Sequence[HiddenRows],
) -> list[Integral]:
    """Add the logs of the integrals over states and functions to the total.

    Parameters
    ----------
    slopes
        Stand-ins for slopes of trends, which no rows may have in their means.
    rows
        The nodes that depend on states, functions or slopes.

    Returns
    -------
    list of Integral
        From which states and functions are drawn.

    Raises
    ------
    NotLinear
        A node of states or functions does not enter one normal node, or not linearly.
    """
    out = list[Integral]()
    left = {node.name for node in states} | {node.name for node in functions}
    for each in rows:
        record = [item for item in live(builder.instructions, [each.mean.buffer]) if isinstance(item, Instruction)]
        inside = {id(var.buffer) for item in record for var in item.inputs} | {id(each.mean.buffer)}
        if any(id(slope.buffer) in inside for slope in slopes):
            raise NotLinear(each.name, "slopes of a trend in its mean")
        its_states = [node for node in states if id(node.symbol.buffer) in inside]
        its_functions = [node for node in functions if id(node.symbol.buffer) in inside]
        entering = {node.name for node in its_states} | {node.name for node in its_functions}
        if not entering <= left:
            raise NotLinear(each.name, "states or functions that enter several nodes")
        if its_states and its_functions:
            raise NotLinear(each.name, "states and functions in its mean")
        left -= entering
        if its_functions:
            evidence, part = functions_evidence(builder, its_functions, each)
        else:
            evidence, part = states_evidence(builder, its_states, each)
        builder.add(evidence)
        out.append(part)
    if left:
        raise NotLinear(min(left), "states or functions on which no data depend")
    return out


class _Rows(Entering):
    """Rows of a program."""

    def moves(self, value: Var) -> bool:
        return not value.constant

    def numbers(self, value: Var) -> np.ndarray:
        return value.value


def functions_evidence(builder: Builder, functions: Sequence[FunctionNode], rows: HiddenRows) -> tuple[Var, Integral]:
    """The log of the integral over functions that enter the mean of a normal node, and the functions given the data.

    Raises
    ------
    NotLinear
        Not all of them enter it linearly, or integration would cost far more than sampling them.
    """
    if not integrable(functions):
        raise NotLinear(rows.name, "functions of several kinds in its mean")
    mean, places = rows_apart(builder, rows, {node.name: node.symbol for node in functions})
    shape, machine = rows.observed.shape, Machine(builder)
    coefficients = {node.name: by_row(mean.coefficients[node.name], shape, places) for node in functions}
    offset, sigma = (by_row(value, shape, places) for value in (mean.offset, rows.sigma))
    layout = layout_of(functions, _Rows(machine, rows.observed, places, mean.cells, coefficients, offset, sigma))
    if layout is None:
        raise NotLinear(rows.name, "too many combinations of inputs of functions")
    given = kernel_inputs(machine, functions, layout)
    hidden = functions_given(functions, rows.name, rows.observed.size, layout, given.arrays)
    return log_evidence(given.kernel, given.flat, *given.kernel_arrays), Integral(given.flat, hidden)


def states_evidence(builder: Builder, states: Sequence[StateNode], rows: HiddenRows) -> tuple[Var, Integral]:
    """The log of the integral over states that enter the mean of a normal node, and the states given the data.

    Raises
    ------
    NotLinear
        They enter it in another way, or they are not states of the same times.
    """
    mean, there = rows_apart(builder, rows, {node.name: node.symbol for node in states})
    first = states[0]
    if any(node.dims != first.dims or not np.array_equal(node.cells.starts, first.cells.starts) for node in states):
        raise NotLinear(rows.name, "states of different times")
    cells = mean.cells[first.name].ravel()
    if any(not np.array_equal(cells, mean.cells[node.name].ravel()) for node in states):
        raise NotLinear(rows.name, "states of different times in a row")
    places, shape = there[np.argsort(cells[there], kind="stable")], rows.observed.shape
    coefficients = [by_row(mean.coefficients[node.name], shape, places) for node in states]
    others = [by_row(value, shape, places) for value in (mean.offset, rows.sigma)]
    y = np.ascontiguousarray(rows.observed.ravel()[places])
    varying = any(not value.constant for value in coefficients)
    flat, arrays = filter_inputs(Machine(builder), states, y, cells[places], [*coefficients, *others], varying)
    hidden = StatesGiven(tuple(states), rows.name, rows.observed.size, places, arrays)
    return log_evidence(KERNEL, flat, *arrays), Integral(flat, hidden)
