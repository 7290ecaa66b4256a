"""Linear-Gaussian states summed out of a PyMC graph: by one Kalman filter where they enter one normal node with data
linearly.

The filter gives the log evidence and its gradient. States come back after sampling: see :mod:`.states_given`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.traversal import ancestors

from bayeslab.evidence import log_evidence
from bayeslab.families.graph.joint_sums import GraphSum
from bayeslab.families.graph.linear_rows import Linear, NotLinear, Rows, by_row, rows_apart
from bayeslab.families.graph.state_components import KERNEL, StateNode, filter_inputs
from bayeslab.families.graph.states_given import StatesGiven
from bayeslab.language.backends import PYTENSOR

__all__ = ["summed_states"]


def summed_states(states: Sequence[StateNode], rows: Rows, drawn: set[Any]) -> GraphSum:
    """The integral over states that enter the mean of a normal node.

    Parameters
    ----------
    drawn
        The random variables of the model: what does not depend on them is known.

    Raises
    ------
    NotLinear
        They enter it in another way, or not all of them; or they are not states of the same times.
    """
    symbols = {node.symbol: np.arange(node.cells.place.size).reshape(node.symbol.type.shape) for node in states}
    mean, there = rows_apart(rows, symbols, drawn)
    first = states[0]
    for node in states:
        if node.dims != first.dims or not np.array_equal(node.cells.starts, first.cells.starts):
            raise NotLinear
    shape = rows.observed.shape
    cells = [np.broadcast_to(mean.cells[node.symbol], shape).ravel() for node in states]
    if any(not np.array_equal(cells[0], other) for other in cells[1:]):
        raise NotLinear
    places = there[np.argsort(cells[0][there], kind="stable")]
    return _summed(states, rows, mean, places, cells[0][places], drawn)


def _summed(
    states: Sequence[StateNode], rows: Rows, mean: Linear, places: np.ndarray, cells: np.ndarray, drawn: set[Any]
) -> GraphSum:
    shape = rows.observed.shape
    coefficients = [by_row(mean.coefficients[node.symbol], shape, places) for node in states]
    by_rows = [*coefficients, *(by_row(value, shape, places) for value in (mean.offset, rows.sigma))]
    varying = not set(ancestors(coefficients)).isdisjoint(drawn)
    y = np.ascontiguousarray(rows.observed.ravel()[places])
    flat, arrays = filter_inputs(PYTENSOR, states, y, cells, by_rows, varying)
    given = StatesGiven(tuple(states), rows.name, rows.observed.size, places, arrays)
    return GraphSum(log_evidence(KERNEL, flat, *arrays), flat, rows, given)
