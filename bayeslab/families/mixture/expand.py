"""Expand a mixture in the model language: a label for each row, summed out, and a node for each column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.families.mixture.model import resolved
from bayeslab.families.mixture.spec import Mixture
from bayeslab.language.expansion import Expansion, check_columns, number, numbers, unsupported
from bayeslab.language.spec import Model
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture
from bayeslab.posterior.observed.language import emission_nodes

__all__ = ["expand"]

_LABEL = "label"


def expand(model: Model, data: Data) -> Expansion:
    """Write the mixture as nodes of the language.

    Raises
    ------
    ModelError
        Some part of the model has no form in the language; the message names it and the reason.
    """
    assert isinstance(model.model, Mixture)
    _check(model.model)
    return _written(model.model, resolved(model, data), data)


def _check(spec: Mixture) -> None:
    """Refuse parts that the language does not have."""
    if spec.components == "sampled":
        raise unsupported("a graph has a fixed number of components, not a sampled number of them", "components")
    reasons = {
        "regression": "components that are regressions cannot be expanded yet",
        "gating": "weights that depend on columns cannot be expanded yet",
        "labels": "a column of labels, known in some rows, cannot be expanded yet",
    }
    for key, reason in reasons.items():
        if getattr(spec, key):
            raise unsupported(reason, key)


def _written(spec: Mixture, resolved: BoundMixture, data: Data) -> Expansion:
    k, row = resolved.n_components, data.dataset.rows
    if np.isnan(resolved.rows).any():
        raise unsupported(
            "cells are missing, which the family leaves out and a graph makes parameters of: leave these rows out",
            "columns",
        )
    parts = [replace(part, n_states=k) for part in resolved.parts.values()]
    emitted = emission_nodes(parts, _LABEL, row, resolved.columns)
    dims = {"component": [str(name) for name in resolved.names[:k]], **emitted.dims}
    label = f"{_LABEL}[{row}]"
    nodes, comments = _weights(resolved)
    nodes |= {**emitted.parameters, label: "Categorical(weights)", **emitted.columns}
    comments |= emitted.comments
    comments[label] = "The component of each row. It has no data: fits sum it out exactly, and give it back afterwards."
    check_columns(nodes, dims, data.dataset.columns, resolved.columns, "columns")
    chosen = f" {k} components were chosen by {spec.choose}." if resolved.choice is not None else ""
    about = (
        f"A mixture of {k} components, written out in the model language.{chosen} Components are exchangeable: their"
        " numbers mean nothing, and chains may swap them. A prior that puts a parameter in order, such as"
        " Ordered(Normal(0, 1)) along `component`, tells them apart."
    )
    return Expansion(nodes, {}, dims, comments, about)


def _weights(resolved: BoundMixture) -> tuple[dict[str, str], dict[str, str]]:
    """Nodes of the weights of components, and their comments."""
    weights, process = "weights[component]", resolved.process
    if process is None:
        text = f"Dirichlet({numbers(resolved.problem.latent.prior_counts)})"
        return {weights: text}, {weights: "How large the components are."}
    if isinstance(process.alpha, str):
        raise unsupported("a concentration that is estimated from the data has no prior to write", "concentration")
    nodes, alpha = dict[str, str](), "alpha"
    if isinstance(process.alpha, tuple):
        shape, rate = process.alpha
        nodes["alpha"] = f"Gamma({number(shape)}, {number(rate)})"
    else:
        alpha = number(process.alpha)
    more = f", discount={number(process.discount)}" if process.discount else ""
    text = f"StickBreaking({alpha}{more})"
    remark = "How large the components are: pieces of a stick, of which the last is what is left of it."
    return {**nodes, weights: text}, {weights: remark}
