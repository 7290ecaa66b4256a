"""States and functions integrated out of observed normal nodes, in programs of the density machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeslab.families.graph.lowered_rows import HiddenRows, by_row, rows_apart
from bayeslab.families.graph.state_components import KERNEL, StateNode, filter_inputs
from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.backend import Machine
from bayeslab.posterior.machine.evidence import log_evidence
from bayeslab.posterior.machine.program import Builder

__all__ = ["states_evidence"]


def states_evidence(builder: Builder, states: Sequence[StateNode], rows: HiddenRows) -> Var:
    """The log of the integral over states that enter the mean of a normal node, by one Kalman filter.

    Raises
    ------
    NotLowered
        They enter it in another way, or they are not states of the same times.
    """
    mean, there = rows_apart(builder, rows, {node.name: node.symbol for node in states})
    first = states[0]
    if any(node.dims != first.dims or not np.array_equal(node.cells.starts, first.cells.starts) for node in states):
        raise NotLowered(rows.name, "states of different times")
    cells = mean.cells[first.name].ravel()
    if any(not np.array_equal(cells, mean.cells[node.name].ravel()) for node in states):
        raise NotLowered(rows.name, "states of different times in a row")
    places, shape = there[np.argsort(cells[there], kind="stable")], rows.observed.shape
    coefficients = [by_row(mean.coefficients[node.name], shape, places) for node in states]
    others = [by_row(value, shape, places) for value in (mean.offset, rows.sigma)]
    y = np.ascontiguousarray(rows.observed.ravel()[places])
    varying = any(not value.constant for value in coefficients)
    flat, arrays = filter_inputs(Machine(builder), states, y, cells[places], [*coefficients, *others], varying)
    return log_evidence(KERNEL, flat, *arrays)
