"""A Bayes net as a PyMC graph: with hidden variables summed out, or with a node for every variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx as nx

from bayeslab.data.bound import Data
from bayeslab.families.bayes_net.density import check, normal, values_by_text, write_data, write_parameters
from bayeslab.families.bayes_net.net import Resolved
from bayeslab.families.graph.priors import pymc_with_priors
from bayeslab.language.backends import PYTENSOR
from bayeslab.language.spec import Model
from bayeslab.language.writer import PYMC

if TYPE_CHECKING:
    import pymc

__all__ = ["with_evidence", "written_out"]


def with_evidence(model: Model, resolved: Resolved) -> pymc.Model:
    """Parameters, and log p(data | parameters) with everything unobserved summed out."""
    import pytensor.tensor as pt

    check(resolved)
    built = _parameters(model, resolved, dims=True)
    with built:
        tables = resolved.net.tables(values_by_text(built.named_vars, PYTENSOR), pt)
        write_data(PYMC, resolved, {v: pt.as_tensor_variable(table) for v, table in tables.items()})
    return built


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
        tables = net.tables(values_by_text(built.named_vars, PYTENSOR), pt)
        order = [*net.states, *net.linears]
        for v in nx.lexicographical_topological_sort(net.graph, key=order.index):
            if v in net.linears:
                node = net.linears[v]
                mean, sd = normal(PYMC, node, [built[p] for p in node.discrete], [built[p] for p in node.continuous])
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
    net = resolved.net
    labels = {dim: values.tolist() for dim, values in net.labels().items()} if dims else {}
    built = pymc_with_priors(model, {**net.parameters, **net.unknown}, labels)
    with built:
        write_parameters(PYMC, resolved, dims=dims)
    return built
