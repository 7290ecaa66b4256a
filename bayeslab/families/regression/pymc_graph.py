"""The PyMC graph of a regression whose rows enter through sufficient statistics or with weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.data.binding import bind
from bayeslab.data.dataset import Dataset
from bayeslab.exact.coordinates import Observations, coordinates
from bayeslab.families import graph as graphs

if TYPE_CHECKING:
    import pymc

    from bayeslab.families.regression.lowered import Lowered

__all__ = ["observations", "with_rows_summed", "with_weights"]


def observations(lowered: Lowered, known: np.ndarray | None = None) -> Observations:
    """The rows of a linear regression.

    The coefficients are, in this order: the intercept (of centred predictors if the model is centred), the slopes, and
    the effects of each group, with those of one level adjacent.

    Parameters
    ----------
    known : ndarray (p,), optional
        Coefficients of the intercept and of the predictors, NaN where unknown; known ones become part of the offset.
    """
    from scipy import sparse

    design = lowered.design
    assert lowered.y is not None
    target = lowered.y - (0.0 if design.offset is None else design.offset)
    dense = lowered.with_ones if design.intercept else lowered.matrix
    if known is not None:
        held = ~np.isnan(known)
        target, dense = target - dense[:, held] @ known[held], dense[:, ~held]
    if not design.groups:
        return Observations.weighted(dense, target, lowered.weights)
    parts = [sparse.csr_array(dense)]
    for group in design.groups:
        k = len(group.effects)
        columns = group.codes[:, None] * k + np.arange(k)
        row = np.repeat(np.arange(design.n), k)
        shape = (design.n, len(group.labels) * k)
        parts.append(sparse.csr_array((group.columns.ravel(), (row, columns.ravel())), shape=shape))
    return Observations.weighted(sparse.hstack(parts, format="csr"), target, lowered.weights)


def with_rows_summed(lowered: Lowered) -> pymc.Model:
    """The graph with the likelihood as a quadratic form in the coefficients.

    The form is centred at the least-squares point, where the linear term vanishes, so that large numbers do not cancel.
    """
    import pymc as pm
    import pytensor.tensor as pt

    outcome = lowered.formula.outcome
    nodes = {name: text for name, text in lowered.nodes.items() if name.split("[")[0] != outcome}
    spec = graphs.Graph(nodes={**nodes})
    model = lowered.model.model_copy(update={"model": spec})
    rows = lowered.data.dataset.rows
    fixed_columns = {n: c for n, c in lowered.data.dataset.columns.items() if c.dims is not None and rows not in c.dims}
    for group in lowered.design.groups:
        fixed_columns.pop(group.name, None)
    built = graphs.compile(model, bind(model, Dataset(fixed_columns, "unused"), model.factors())).graph()
    observed = observations(lowered)
    at, ((gram, cross, square),) = coordinates([[observed]], np.ones(1), np.zeros(1, bool))
    with built:
        start = ["Intercept_centred" if lowered.centre is not None else "Intercept"] if lowered.design.intercept else []
        names = [*start, *(["b"] if lowered.design.names else []), *(f"u_{g.name}" for g in lowered.design.groups)]

        def value(name: str) -> Any:
            return built[name] if name in built.named_vars else pt.constant(lowered.fixed[name])

        theta = pt.concatenate([pt.atleast_1d(value(name)).ravel() for name in names])
        # One array holds everything from the rows, so that other rows need no compilation.
        whole = np.block([[gram, -cross[:, None]], [-cross[None], np.full((1, 1), square)]])
        delta = pt.concatenate([pt.dot(at.inverse, theta - at.point), np.ones(1)])
        square = pt.dot(delta, pt.dot(whole, delta))
        sigma = value("sigma")
        constant = 0.5 * observed.count * LOG_2PI
        pm.Potential(
            f"{outcome}_rows", -constant - observed.count * pt.log(sigma) - 0.5 * square * (at.unit / sigma) ** 2
        )
    return built


def with_weights(lowered: Lowered, built: pymc.Model) -> pymc.Model:
    """Add the terms of the log likelihood for weights other than one."""
    import pymc as pm

    outcome = built[lowered.formula.outcome]
    with built:
        each = pm.logp(outcome, built.rvs_to_values[outcome])
        pm.Potential("weights", ((np.asarray(lowered.weights) - 1.0) * each).sum())
    return built
