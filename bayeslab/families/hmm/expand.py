"""Expand a hidden Markov model in the model language: paths or levels of hidden states, and a node for each column."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.sequences import Sequences
from bayeslab.families.hmm.model import hidden_at, linear_of
from bayeslab.families.hmm.spec import HMM
from bayeslab.language.expansion import (
    Expansion,
    check_columns,
    listed_numbers,
    nested,
    number,
    numbers,
    unsupported,
)
from bayeslab.language.spec import Model
from bayeslab.latents.chains.durations import DurationChain
from bayeslab.latents.chains.product import ProductChain
from bayeslab.latents.chains.state_chain import MarkovChain
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.chains.linear import FIRST_SD, PRIOR_DEGREES, Linear
from bayeslab.posterior.observed.additive import Additive
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
        linear = linear_of(model, data)
        expansion = _levels(spec, linear, data.dataset.rows)
        _refuse_gaps(linear.sequences, data)
    elif isinstance(spec.states, str):
        raise unsupported(f"{spec.states} states cannot be expanded", "states")
    elif spec.window or spec.order == 2:
        raise unsupported(
            "states and rows that look further back cannot be expanded yet", "window" if spec.window else "order"
        )
    elif spec.emission == "observed":
        raise unsupported("a column of states is a node with data: write it as a graph", "emission")
    else:
        hidden = hidden_at(model, data)
        _refuse_gaps(hidden.sequences, data)
        expansion = (_several if spec.chains else _plain)(spec, hidden, data.dataset.rows)
    check_columns(expansion.nodes, expansion.dims, data.dataset.columns, spec.columns, "columns")
    return expansion


def _refuse_gaps(sequences: Sequences, data: Data) -> None:
    """Refuse times that are no rows, and rows in another order than their times."""
    n = len(data.labels.get(data.dataset.rows, ()))
    if sequences.n_times != n or not np.array_equal(sequences.at, np.arange(n)):
        raise unsupported(
            "times are missing, or rows are not in their order: sort the table, and fill the gaps", "time"
        )


def _sequence(spec: HMM) -> str:
    return f", sequence={spec.sequence}" if spec.sequence is not None else ""


def _dirichlet(name: str, axes: str, concentration: np.ndarray) -> dict[str, str]:
    """Nodes for rows of probabilities; a prior that differs between cells has a node for its concentrations."""
    if np.all(concentration == concentration.flat[0]):
        return {f"{name}[{axes}]": f"Dirichlet({numbers(concentration)})"}
    text = nested(concentration)
    return {f"{name}_prior[{axes}]": text, f"{name}[{axes}]": f"Dirichlet({name}_prior)"}


# --------------------------------------------------------------------------------- one chain


def _plain(spec: HMM, hidden: Hidden, row: str) -> Expansion:
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
        lasting, remarks = _durations(chain)
        dims["length"] = chain.longest
        call, chain = "SemiMarkovChain(transition, durations=durations", chain.base
        if len(states) > 2 or not np.array_equal(chain.mask, ~np.eye(2, dtype=bool)):
            raise unsupported("durations are expanded for two states that take turns", "durations")
        nodes |= {moves: "[[0, 1], [1, 0]]", **lasting}
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
    path = f"{_PATH}[{row}]"
    nodes |= {**emitted.parameters, path: f"{call}, initial={begins}{_sequence(spec)})", **emitted.columns}
    comments[path] = "The hidden states, row by row: fits sum over all paths, and give one back for each draw."
    about = (
        f"A hidden Markov model of {len(states)} states, written out in the model language. Anything may depend on"
        f" `{_PATH}`, and several nodes may."
    )
    return Expansion(nodes, {}, dims, comments, about)


def _durations(chain: DurationChain) -> tuple[dict[str, str], dict[str, str]]:
    """Nodes of the durations of states, and their comments.

    The node ``durations`` (states, lengths) holds the probabilities of lasting 1, 2, ... rows.
    """
    table, lasting = "durations[state, length]", "Probabilities of lasting 1, 2, ... rows, for each state."
    if chain.word == "table":
        text = nested(chain.given["duration"]) if chain.given else f"Dirichlet({number(chain.pseudocount)})"
        return {table: text}, {table: lasting}
    priors = {"duration_mu": f"Gamma(1, {number(2 / chain.longest)})", "duration_alpha": "Gamma(2, 0.1)"}
    nodes = {
        f"{name}[state]": nested(chain.given[name]) if chain.given else priors[name] for name in chain.of_durations
    }
    if chain.word == "poisson":
        weight = "index(length) * log(duration_mu) - gammaln(index(length) + 1)"
        law = "Poisson"
    else:
        weight = (
            "gammaln(index(length) + duration_alpha) - gammaln(index(length) + 1)"
            " + index(length) * (log(duration_mu) - log(duration_mu + duration_alpha))"
        )
        law = "negative binomial"
    nodes["duration_weight[state, length]"] = weight
    nodes[table] = "softmax(duration_weight, length)"
    comments = {
        f"{chain.of_durations[0]}[state]": "Mean number of rows that a state lasts beyond the first.",
        "duration_weight[state, length]": f"The logarithm of a {law} law of that number, but for a constant.",
        table: lasting,
    }
    return nodes, comments


# --------------------------------------------------------------------------------- several chains


def _several(spec: HMM, hidden: Hidden, row: str) -> Expansion:
    """Factorial chains whose effects on a column add up: a path for each, summed out together."""
    chain, parts = hidden.chain, hidden.parts
    if not isinstance(chain, ProductChain) or chain.coupling != "factorial":
        raise unsupported("chains that depend on each other cannot be expanded yet", "coupling")
    if len(parts) != 1 or not isinstance(parts[0], Additive) or len(spec.columns) != 1 or parts[0].known:
        raise unsupported("several chains can be expanded if their unknown effects on one column add up", "chains")
    if chain.known:
        raise unsupported("several chains with known probabilities cannot be expanded yet", "parameters")
    prior, (column,) = parts[0].emission.prior, spec.columns
    assert prior is not None
    wide = f"sd / sqrt({number(float(prior.kappa))})"
    nodes: dict[str, str] = {}
    dims: dict[str, Any] = {}
    comments: dict[str, str] = {}
    effects, paths = dict[str, str](), dict[str, str]()
    for name, levels in zip(chain.names, chain.levels, strict=True):
        dims |= {name: [level.item() for level in levels], f"next_{name}": name}
        nodes |= _dirichlet(f"initial_{name}", name, chain.concentration(f"initial_{name}"))
        axes = f"{name}, next_{name}"
        nodes |= _dirichlet(f"transition_{name}", axes, chain.concentration(f"transition_{name}"))
        comments[f"transition_{name}[{axes}]"] = f"Of {name}, from each state to the next: every row sums to 1."
        effects[f"effect_{name}[{name}]"] = f"ZeroSumNormal({wide})" if len(levels) > 1 else "0"
        path = f"path_{name}[{row}]"
        paths[path] = f"MarkovChain(transition_{name}, initial=initial_{name}{_sequence(spec)})"
    nodes["variance"] = f"InverseGamma({number(prior.nu / 2)}, {numbers(np.asarray(prior.scale) / 2)})"
    comments["variance"] = "Variance of rows about their mean; the prior is weak, on the scale of the data."
    nodes |= {"sd": "sqrt(variance)", "mean": f"Normal({numbers(np.asarray(prior.mean))}, {wide})", **effects, **paths}
    comments[next(iter(effects))] = "Effects of the states, about the mean: they sum to zero."
    comments[next(iter(paths))] = "The hidden states of each chain: fits sum over all paths of all chains together."
    mean = " + ".join(["mean", *(f"effect_{name}[path_{name}]" for name in chain.names)])
    nodes[f"{column}[{row}]"] = f"Normal({mean}, sd)"
    about = (
        f"Hidden Markov chains of {len(chain.names)} causes whose effects add up, written out in the model language."
        " Anything may depend on any of the paths."
    )
    return Expansion(nodes, {}, dims, comments, about)


# --------------------------------------------------------------------------------- continuous states


def _levels(spec: HMM, linear: Linear, row: str) -> Expansion:
    """Continuous states: a level for each column, and noise around it."""
    if not linear.level:
        raise unsupported("states of a given dimension can be turned without changing the model: they have no priors",
                          "dimension")  # fmt: skip
    several = len(linear.columns) > 1
    dims = {"feature": list(linear.columns)} if several else {}
    nodes, comments = dict[str, str](), dict[str, str]()
    scale = 0.5 * linear.prior_scale
    for name, what in (("level", "the steps of a level"), ("noise", "the rows about their level")):
        along = "[feature]" if several else ""
        shown = listed_numbers(scale) if several else number(scale[0])
        nodes[f"{name}_variance{along}"] = f"InverseGamma({number(0.5 * PRIOR_DEGREES)}, {shown})"
        comments[f"{name}_variance{along}"] = f"Variance of {what}, on the scale of the data."
        nodes[f"{name}_sd{along}"] = f"sqrt({name}_variance)"
    for k, column in enumerate(linear.columns):
        subscript = f"[{column!r}]" if several else ""
        level = f"level_of_{column}" if several else "level"
        start = f"Normal({number(linear.centre[k])}, {number(FIRST_SD * np.sqrt(linear.variances[k]))})"
        nodes[f"{level}[{row}]"] = f"LocalLevel(level_sd{subscript}, initial={start}{_sequence(spec)})"
        comments[f"{level}[{row}]"] = (
            "A random walk from a vague start. Fits integrate it out by a Kalman filter, and give it back for each draw"
            " afterwards."
        )
        nodes[f"{column}[{row}]"] = f"Normal({level}, noise_sd{subscript})"
    about = (
        "Levels that wander, seen through noise, written out in the model language. LocalTrend and Seasonal are nodes"
        " beside LocalLevel; whatever else the mean of a row depends on may stand beside the level."
    )
    return Expansion(nodes, {}, dims, comments, about)
