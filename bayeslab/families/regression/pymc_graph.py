"""The PyMC graph of a regression whose rows enter through sufficient statistics or with weights."""

from __future__ import annotations

from dataclasses import dataclass
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

__all__ = ["SquaredRows", "observations", "with_rows_summed", "with_weights", "without_rows"]


def observations(lowered: Lowered, known: np.ndarray | None = None) -> Observations:
    """The rows of a linear regression.

    The coefficients are, in this order: the intercept (of centred predictors if the model is centred), the slopes, and
    the effects of each group, with those of one level adjacent, those of areas and of several groups, and the
    coefficients of smooths.

    Parameters
    ----------
    known : ndarray (p,), optional
        Coefficients of the intercept and of the predictors, NaN where unknown; known ones become part of the offset.
    """
    from scipy.sparse import csr_array, hstack

    design = lowered.design
    assert lowered.y is not None
    target = lowered.y - (0.0 if design.offset is None else design.offset)
    dense = lowered.with_ones if design.intercept else lowered.matrix
    if known is not None:
        held = ~np.isnan(known)
        target, dense = target - dense[:, held] @ known[held], dense[:, ~held]
    plain = [curve.waves for curve in design.curves if curve.codes is None]
    if not (design.groups or design.areas or design.members) and len(plain) == len(design.curves):
        dense = np.hstack([dense, *plain]) if plain else dense
        return Observations.weighted(dense, target, lowered.weights)
    parts = [csr_array(dense)]
    for group in design.groups:
        k = len(group.effects)
        columns = group.codes[:, None] * k + np.arange(k)
        row = np.repeat(np.arange(design.n), k)
        shape = (design.n, len(group.labels) * k)
        parts.append(csr_array((group.columns.ravel(), (row, columns.ravel())), shape=shape))
    for area in design.areas:
        where = (np.arange(design.n), area.codes)
        parts.append(csr_array((np.ones(design.n), where), shape=(design.n, len(area.labels))))
    for several in design.members:
        row = np.repeat(np.arange(design.n), len(several.factors))
        shape = (design.n, len(several.labels))
        # A group that a row has twice counts twice: entries of the same place are added.
        parts.append(csr_array((several.weights.ravel(), (row, several.codes.ravel())), shape=shape))
    for curve in design.curves:
        if curve.codes is None:
            parts.append(csr_array(curve.waves))
            continue
        k = curve.waves.shape[1]
        columns, row = curve.codes[:, None] * k + np.arange(k), np.repeat(np.arange(design.n), k)
        parts.append(csr_array((curve.waves.ravel(), (row, columns.ravel())), shape=(design.n, curve.size)))
    return Observations.weighted(hstack(parts, format="csr"), target, lowered.weights)


def with_rows_summed(lowered: Lowered) -> pymc.Model:
    """The graph with the likelihood as a quadratic form in the coefficients.

    The form is centred at the least-squares point, where the linear term vanishes, so that large numbers do not cancel.
    """
    import pymc as pm
    import pytensor.tensor as pt

    built = without_rows(lowered).graph()
    form = SquaredRows.of(lowered)
    with built:

        def value(name: str) -> Any:
            return built[name] if name in built.named_vars else pt.constant(lowered.fixed[name])

        theta = pt.concatenate([pt.atleast_1d(value(name)).ravel() for name in form.names])
        # One array holds everything from the rows, so that other rows need no compilation.
        delta = pt.concatenate([pt.dot(form.at.inverse, theta - form.at.point), np.ones(1)])
        square = pt.dot(delta, pt.dot(form.whole, delta))
        sigma = value("sigma")
        constant = 0.5 * form.count * LOG_2PI
        pm.Potential(
            f"{lowered.formula.outcome}_rows",
            -constant - form.count * pt.log(sigma) - 0.5 * square * (form.at.unit / sigma) ** 2,
        )
    return built


def without_rows(lowered: Lowered) -> graphs.GraphPosterior:
    """The nodes of a regression without the response."""
    outcome = lowered.formula.outcome
    nodes = {name: text for name, text in lowered.nodes.items() if name.split("[")[0] != outcome}
    spec = graphs.Graph(nodes={**nodes})
    model = lowered.model.model_copy(update={"model": spec})
    rows = lowered.data.dataset.rows
    fixed_columns = {n: c for n, c in lowered.data.dataset.columns.items() if c.dims is not None and rows not in c.dims}
    for name in (*(group.name for group in lowered.design.groups), *(area.factor for area in lowered.design.areas)):
        fixed_columns.pop(name, None)
    return graphs.compile(model, bind(model, Dataset(fixed_columns, "unused"), model.factors()))


@dataclass(frozen=True, eq=False)
class SquaredRows:
    """The residual sum of squares of a linear regression, as a quadratic form in the coefficients.

    Attributes
    ----------
    names : list of str
        The nodes of the coefficients, in their order.
    at : Coordinates
        The least-squares point, with coefficients of curves at zero, and the scale of the coefficients about it.
    whole : ndarray (p + 1, p + 1)
        The form, in scaled coefficients and a one.
    count : float
        Number of rows, or the sum of their weights.
    """

    names: list[str]
    at: Any
    whole: np.ndarray
    count: float

    @classmethod
    def of(cls, lowered: Lowered) -> SquaredRows:
        observed = observations(lowered)
        classes, size = [[observed]], observed.design.shape[1]
        # The functions of a curve can be nearly combinations of each other over the rows, and effects of all groups add
        # up to the intercept: no least-squares point of their coefficients is near their posterior, and they stay
        # centred at zero. Else a response far from zero would be shared by the intercept and the groups.
        free = size - sum(curve.size for curve in lowered.design.curves)
        if lowered.design.intercept:
            free = 1 + len(lowered.design.names)
        if held := size - free:
            places = np.arange(free, size)
            classes.append([Observations.normal(places, np.zeros(held), np.ones(held), size)])
        varies = np.arange(len(classes)) > 0
        at, ((gram, cross, square), *_) = coordinates(classes, np.ones(len(classes)), varies)
        start = ["Intercept_centred" if lowered.centre is not None else "Intercept"] if lowered.design.intercept else []
        names = [*start, *(["b"] if lowered.design.names else []), *(f"u_{g.name}" for g in lowered.design.groups)]
        names += [f"u_{area.name}" for area in lowered.design.areas]
        names += [f"u_{members.name}" for members in lowered.design.members]
        names += [curve.coefficients(curve.name) for curve in lowered.design.curves]
        whole = np.block([[gram, -cross[:, None]], [-cross[None], np.full((1, 1), square)]])
        return cls(names, at, whole, observed.count)


def with_weights(lowered: Lowered, built: pymc.Model) -> pymc.Model:
    """Add the terms of the log likelihood for weights other than one."""
    import pymc as pm

    outcome = built[lowered.formula.outcome]
    with built:
        each = pm.logp(outcome, built.rvs_to_values[outcome])
        pm.Potential("weights", ((np.asarray(lowered.weights) - 1.0) * each).sum())
    return built
