"""Expand a hidden Markov model in the model language: a path of states, summed out, and a node for each column."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.families.hmm.expand_chains import expanded_chains
from bayeslab.families.hmm.expand_durations import duration_nodes
from bayeslab.families.hmm.expand_linear import expanded_levels
from bayeslab.families.hmm.model import hidden_at, linear_of
from bayeslab.families.hmm.spec import HMM
from bayeslab.language.expansion import Expansion, check_columns, listed_numbers, nested, numbers, unsupported
from bayeslab.language.spec import Model
from bayeslab.latents.chains.durations import DurationChain
from bayeslab.latents.chains.state_chain import MarkovChain
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.observed.joint_normal import JointNormal
from bayeslab.posterior.observed.language import emission_nodes

__all__ = ["expand"]

_PATH = "path"
# Keys that the language form of a plain chain does not have.
_BEYOND = {
    "classes": "a chain for each class", "inputs": "regressions in each state", "parent": "trees of rows",
    "transitions_on": "transitions by columns",
}  # fmt: skip


def expand(model: Model, data: Data) -> Expansion:
    """Write the model as nodes of the language.

    Raises
    ------
    ModelError
        Some part of the model has no form in the language; the message names it.
    """
    assert isinstance(model.model, HMM)
    spec = model.model
    for key, what in _BEYOND.items():
        if getattr(spec, key):
            raise unsupported(f"{what} cannot be expanded yet", key)
    if spec.states == "continuous":
        return expanded_levels(spec, linear_of(model, data), data)
    if isinstance(spec.states, str):
        raise unsupported(f"{spec.states} states cannot be expanded", "states")
    if spec.window or spec.order == 2:
        raise unsupported(
            "states and rows that look further back cannot be expanded yet", "window" if spec.window else "order"
        )
    if spec.emission == "observed":
        raise unsupported("a column of states is a node with data: write it as a graph", "emission")
    return _written(spec, hidden_at(model, data), data)


def _written(spec: HMM, hidden: Hidden, data: Data) -> Expansion:
    row = data.dataset.rows
    n = len(data.labels.get(row, ()))
    if len(hidden.rows) != n or not np.array_equal(hidden.sequences.at, np.arange(n)):
        raise unsupported(
            "times are missing, or rows are not in their order: sort the table, and fill the gaps", "time"
        )
    if spec.chains:
        expansion = expanded_chains(spec, hidden, row)
        check_columns(expansion.nodes, expansion.dims, data.dataset.columns, spec.columns, "columns")
        return expansion
    if np.isnan(hidden.rows).any() and any(isinstance(part, JointNormal) for part in hidden.parts):
        raise unsupported("columns with covariances have missing cells: fill them, or drop these rows", "columns")
    emitted = emission_nodes(list(hidden.parts), _PATH, row, tuple(spec.columns))
    states = [label.item() if isinstance(label, np.generic) else label for label in hidden.states]
    dims: dict[str, Any] = {"state": states, "next_state": "state", **emitted.dims}
    nodes: dict[str, str] = {}
    comments = dict(emitted.comments)
    chain, call = hidden.chain, "MarkovChain(transition"
    moves = "transition[state, next_state]"
    comments[moves] = "From each state to the next: every row sums to 1."
    if isinstance(chain, DurationChain):
        lasting, length, remarks = duration_nodes(chain)
        call, chain = "SemiMarkovChain(transition, durations=durations", chain.base
        if len(states) > 2 or not np.array_equal(chain.mask, ~np.eye(2, dtype=bool)):
            raise unsupported("durations are expanded for two states that take turns", "durations")
        nodes |= {moves: "[[0, 1], [1, 0]]", **lasting}
        dims |= length
        comments |= {moves: "The states take turns.", **remarks}
    elif not isinstance(chain, MarkovChain) or not chain.full:
        raise unsupported("chains in which some transitions cannot be are not expanded yet", "topology")
    elif chain.transition is not None:
        nodes[moves] = nested(np.asarray(chain.transition, float))
    else:
        nodes |= _dirichlet("transition", "state, next_state", np.asarray(chain.concentration("transition"), float))
    start = chain.initial
    if isinstance(start, str) and start == "free":
        nodes |= _dirichlet("initial", "state", np.asarray(chain.concentration("initial"), float))
        comments["initial[state]"] = "Where the path begins."
        begins = "initial"
    else:
        begins = start if isinstance(start, str) else listed_numbers(np.asarray(start, float))
    sequence = f", sequence={spec.sequence}" if spec.sequence is not None else ""
    path = f"{_PATH}[{row}]"
    nodes |= {**emitted.parameters, path: f"{call}, initial={begins}{sequence})", **emitted.columns}
    comments[path] = "The hidden states, row by row: fits sum over all paths, and give one back for each draw."
    check_columns(nodes, dims, data.dataset.columns, spec.columns, "columns")
    about = (
        f"A hidden Markov model of {len(states)} states, written out in the model language. Anything may depend on"
        f" `{_PATH}`, and several nodes may."
    )
    return Expansion(nodes, {}, dims, comments, about)


def _dirichlet(name: str, axes: str, concentration: np.ndarray) -> dict[str, str]:
    """Nodes for rows of probabilities; a prior that differs between cells has a node for its concentrations."""
    if np.all(concentration == concentration.flat[0]):
        return {f"{name}[{axes}]": f"Dirichlet({numbers(concentration)})"}
    text = nested(concentration)
    return {f"{name}_prior[{axes}]": text, f"{name}[{axes}]": f"Dirichlet({name}_prior)"}
