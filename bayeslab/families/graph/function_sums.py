"""Functions integrated out of a PyMC graph exactly, if they enter one observed normal node linearly.

Given the hyperparameters the rows are jointly normal: one Cholesky factor of the covariance at their distinct inputs
gives log evidence and gradient; for functions approximated by sines, one factor with a row for each sine. After
sampling, functions are drawn given the data and the parameters: see :mod:`.functions_given`.

References
----------
.. [1] Rasmussen, Williams (2006). Gaussian Processes for Machine Learning. MIT Press. Sections 2.2 and 5.4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.graph.traversal import ancestors

from bayeslab.evidence import log_evidence
from bayeslab.families.graph.function_layout import Entering, FunctionNode, integrable, kernel_inputs, layout_of
from bayeslab.families.graph.functions_given import functions_given
from bayeslab.families.graph.joint_sums import GraphSum
from bayeslab.families.graph.linear_rows import NotLinear, Rows, by_row, rows_apart
from bayeslab.language.backends import PYTENSOR

__all__ = ["summed_functions"]


@dataclass(frozen=True, eq=False)
class _GraphRows(Entering):
    """Rows of a PyMC graph; ``drawn`` are its random variables."""

    drawn: set[Any]

    def moves(self, value: Any) -> bool:
        return not set(ancestors([value])).isdisjoint(self.drawn)

    def numbers(self, value: Any) -> np.ndarray:
        return np.asarray(value.eval())


def summed_functions(functions: Sequence[FunctionNode], rows: Rows, drawn: set[Any]) -> GraphSum:
    """The integral over functions that enter the mean of a normal node.

    Parameters
    ----------
    drawn
        The random variables of the model; variables that do not depend on them are known.

    Raises
    ------
    NotLinear
        Not all of them enter it linearly, or integration would cost far more than sampling them.
    """
    if not integrable(functions):
        raise NotLinear
    symbols = {node.symbol: np.arange(int(np.prod(node.shape))).reshape(node.shape) for node in functions}
    mean, places = rows_apart(rows, symbols, drawn)
    shape = rows.observed.shape
    entering = _GraphRows(
        PYTENSOR,
        rows.observed,
        places,
        {node.name: np.broadcast_to(mean.cells[node.symbol], shape) for node in functions},
        {node.name: by_row(mean.coefficients[node.symbol], shape, places) for node in functions},
        by_row(mean.offset, shape, places),
        by_row(rows.sigma, shape, places),
        drawn,
    )
    layout = layout_of(functions, entering)
    if layout is None:
        raise NotLinear
    given = kernel_inputs(PYTENSOR, functions, layout)
    log_sum = log_evidence(given.kernel, given.flat, *given.kernel_arrays)
    hidden = functions_given(functions, rows.name, rows.observed.size, layout, given.arrays)
    return GraphSum(log_sum, given.flat, rows, hidden)
