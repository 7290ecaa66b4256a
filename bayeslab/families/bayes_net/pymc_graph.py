"""A Bayes net as a PyMC graph: with hidden variables summed out, or with a node for every variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Dataset
from bayeslab.errors import ModelError
from bayeslab.families import graph as graphs
from bayeslab.families.bayes_net.density import write_evidence, write_rows
from bayeslab.families.bayes_net.net import Net, Resolved
from bayeslab.families.bayes_net.normal_nodes import Linear, centred, prior_of
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import parse
from bayeslab.language.spec import Model
from bayeslab.language.writer import PYMC

if TYPE_CHECKING:
    import pymc

__all__ = ["with_evidence", "written_out"]


def with_evidence(model: Model, resolved: Resolved) -> pymc.Model:
    """Parameters, and log p(data | parameters) with everything unobserved summed out."""
    import pymc as pm
    import pytensor.tensor as pt

    net, codes, values, counts = resolved
    if not net.learned and not net.regressions:
        raise ModelError(
            "every table is given, so that there is nothing to learn; `bayeslab query` answers questions",
            code="nothing-to-fit",
        )
    if net.linears and (np.any(codes < 0) or np.any(np.isnan(values))):
        raise ModelError(
            "a net with continuous variables needs complete rows here; method em takes missing cells", code="missing"
        )
    built = _parameters(model, resolved, dims=True)
    place = {v: k for k, v in enumerate(net.states)}
    with built:
        value = _values(built, net)
        tables = {v: pt.as_tensor_variable(t) for v, t in net.tables(value, pt).items()}
        column = {v: k for k, v in enumerate(net.linears)}
        for v, node in net.linears.items():
            mean, sd = _normal(
                built,
                node,
                [codes[:, place[p]] for p in node.discrete],
                [values[:, column[p]] for p in node.continuous],
            )
            pm.Normal(v, mean, sd, observed=values[:, column[v]])
        if net.states:
            write_evidence(PYMC, net, codes, tables, counts)
    return built


def _normal(built: pymc.Model, node: Linear, codes: list[Any], values: list[Any]) -> tuple[Any, Any]:
    """Mean and standard deviation of a continuous variable, given its parents."""
    import pytensor.tensor as pt

    at = tuple(codes)
    if node.known is not None:
        intercept, slopes, sd = (pt.as_tensor_variable(getattr(node.known, k)) for k in ("intercept", "slopes", "sd"))
    else:
        names = node.names
        intercept, sd = built[names[0]], built[names[2]]
        slopes = built[names[1]] if node.continuous else None
    mean = intercept[at] if at else intercept
    for k, value in enumerate(values):
        slope = slopes[..., k]
        mean = mean + (slope[at] if at else slope) * value
    return mean, (sd[at] if at else sd)


def written_out(model: Model, resolved: Resolved, data: Data) -> pymc.Model:
    """One node for each variable, with the net's edges, along the rows of the data or for a single instance."""
    import pymc as pm
    import pytensor.tensor as pt

    net, rows = resolved.net, model.data.rows
    n_rows = len(data.labels[rows]) if rows in data.labels else None
    built = _parameters(model, resolved, dims=False)
    with built:
        if n_rows is not None:
            built.add_coord(rows, data.labels[rows].tolist())
        tables = net.tables(_values(built, net), pt)
        order = [*net.states, *net.linears]
        for v in nx.lexicographical_topological_sort(net.graph, key=order.index):
            if v in net.linears:
                node = net.linears[v]
                mean, sd = _normal(built, node, [built[p] for p in node.discrete], [built[p] for p in node.continuous])
                pm.Normal(v, mean, sd, **({"dims": rows, "shape": n_rows} if n_rows is not None else {}))
                continue
            table = pt.as_tensor_variable(tables[v])
            given = tuple(built[p] for p in net.parents[v])
            p = table[given] if given else table
            if n_rows is None:
                pm.Categorical(v, p=p)
            elif given:
                pm.Categorical(v, p=p, dims=rows)
            else:
                pm.Categorical(v, p=p, dims=rows, shape=n_rows)
    return built


def _parameters(model: Model, resolved: Resolved, *, dims: bool) -> pymc.Model:
    """The unknown numbers and rows as free random variables."""
    import pymc as pm

    net = resolved.net
    nodes: dict[str, str | int | float] = {**net.parameters, **net.unknown}
    if nodes:
        lowered = model.model_copy(update={"model": graphs.Graph(nodes=nodes)})
        built = graphs.compile(lowered, bind(lowered, Dataset({}, model.data.rows), ())).graph()
    else:
        built = pm.Model()
    labels = net.labels() if dims else {}
    with built:
        for name, values in labels.items():
            if name not in built.coords:
                built.add_coord(name, values.tolist())
        for v, one in net.locals.items():
            if one.rows is not None:
                write_rows(PYMC, net, v, net.dims(v) if dims else ())
        for v in net.regressions:
            _coefficients(net.linears[v], resolved, dims=dims)
    return built


def _coefficients(node: Linear, resolved: Resolved, *, dims: bool) -> None:
    """Intercept, slopes and sd of a continuous variable, under the prior of :mod:`.normal_nodes`."""
    import pymc as pm

    prior = prior_of(node, resolved.net.linears, resolved.net.measured)
    intercept, slope, sd = node.names
    named = node.dims if dims else {}

    def along(name: str) -> dict[str, Any]:
        return {"dims": named[name]} if name in named else {}

    variance = pm.InverseGamma(f"_variance_{intercept[10:]}", prior.alpha, prior.beta, shape=node.shape)
    spread = pm.Deterministic(sd, pm.math.sqrt(variance), **along(sd))
    widths, centres = centred(prior)
    middle = pm.Normal(f"_middle_{intercept[10:]}", prior.mu[0], spread * widths[0], shape=node.shape)
    if node.continuous:
        slopes = pm.Normal(
            slope,
            0.0,
            spread[..., None] * widths[1:],
            **(along(slope) or {"shape": (*node.shape, len(node.continuous))}),
        )
        pm.Deterministic(intercept, middle - (slopes * centres).sum(axis=-1), **along(intercept))
    else:
        pm.Deterministic(intercept, middle, **along(intercept))


def _values(built: pymc.Model, net: Net) -> Callable[[str], Any]:
    """Unknowns, parameters and expressions of them as PyTensor variables, as a function of the name."""
    known: Mapping[str, Any] = built.named_vars

    def lookup(name: str) -> Term:
        return Term(known[name])

    evaluator = Evaluator(lookup, {})

    def value(text: str) -> Any:
        return known[text] if text in known else evaluator.term(parse(text)).value

    return value
