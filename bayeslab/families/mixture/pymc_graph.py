"""A mixture as a PyMC graph: with the components summed out, or with one node for the labels and each column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.families.graph.priors import pymc_with_priors
from bayeslab.families.mixture.density import (
    coordinates,
    mixing,
    parameters,
    start_values,
    write_evidence,
)
from bayeslab.language.spec import Model
from bayeslab.language.writer import PYMC
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture

if TYPE_CHECKING:
    import pymc

__all__ = ["with_evidence", "written_out"]


def with_evidence(model: Model, resolved: BoundMixture, *, search: bool = True) -> pymc.Model:
    """Parameters, and log p(rows | parameters) with every row's component summed out.

    ``search``: whether to search for a mode where chains start.
    """
    start = start_values(resolved, search=search)
    with pymc_with_priors(model, resolved.free_nodes(), coordinates(resolved)) as built:
        write_evidence(PYMC, resolved, start)
    return built


def written_out(model: Model, resolved: BoundMixture, data: Data) -> pymc.Model:
    """Parameters, ``label`` for each row, and a node for each column."""
    import pymc as pm
    import pytensor.tensor as pt

    rows = model.data.rows
    n_rows = len(data.labels[rows]) if rows in data.labels else 1
    built = pymc_with_priors(model, resolved.free_nodes(), coordinates(resolved))
    with built:
        if rows in data.labels:
            built.add_coord(rows, data.labels[rows].tolist())
        dims = rows if rows in data.labels else None
        log_weights = mixing(PYMC, resolved, None)["log_weights"]
        variables = parameters(PYMC, resolved, None)
        cells = resolved.rows if len(resolved.rows) else np.full((n_rows, len(resolved.columns)), np.nan)
        p = pt.exp(log_weights)
        p = p if resolved.problem.latent.inputs is not None else pt.repeat(p[None, :], n_rows, axis=0)
        label = pm.Categorical("label", p=p, dims=dims)
        for part in resolved.parts.values():
            for column, variable in part.drawn(variables, label, cells).items():
                pm.Deterministic(column, variable, dims=dims)
    return built
