"""A regression as a program of the density machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.families.graph.lowering import Lowering
from bayeslab.families.graph.lowering import lowered as lowered_graph
from bayeslab.families.regression.pymc_graph import SquaredRows, without_rows
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.machine.model import MachineModel

if TYPE_CHECKING:
    from bayeslab.families.regression.lowered import Lowered

__all__ = ["machine_model"]


def machine_model(lowered: Lowered, weights: Mapping[str, np.ndarray] | None = None) -> MachineModel:
    """The program of a regression; rows of a linear one enter through their sufficient statistics if that is cheaper.

    Parameters
    ----------
    weights
        Factors of the rows' log likelihoods, besides the regression's weights.

    Raises
    ------
    NotLowered
        The machine does not know a part of the model, or there is no response.
    """
    outcome = lowered.formula.outcome
    if lowered.y is None:
        raise NotLowered(outcome, "without data")
    if lowered.summable and not weights:
        return _rows_summed(lowered)
    weights = dict(weights or {})
    if lowered.weights is not None:
        weights[outcome] = lowered.weights * weights.get(outcome, 1.0)
    return lowered_graph(lowered.model, lowered.data, weights=weights)


def _rows_summed(lowered: Lowered) -> MachineModel:
    nodes, form = without_rows(lowered), SquaredRows.of(lowered)
    lowering = Lowering(nodes.model, nodes.data, {}, frozenset())
    lowering.walk()
    builder = lowering.builder

    def value(name: str) -> Any:
        return lowering.terms[name].value if name in lowering.nodes else lowered.fixed[name]

    theta = builder.concatenate([builder.as_var(value(name)).reshape(-1) for name in form.names])
    delta = builder.concatenate([builder.constant(form.at.inverse) @ (theta - form.at.point), np.ones(1)])
    square = delta @ (builder.constant(form.whole) @ delta)
    sigma = builder.as_var(value("sigma"))
    constant = 0.5 * form.count * LOG_2PI
    logs = builder.elementwise("log", sigma)
    builder.add(-0.5 * square * (form.at.unit / sigma) ** 2 - form.count * logs - constant)
    lowering.used |= {*form.names, "sigma"}
    return lowering.finish()
