"""A hidden Markov model bound to its data: sequences, chain and emissions of a model file."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.rows import read_columns
from bayeslab.data.sequences import Sequences, parent_rows, sequences_of, spread
from bayeslab.distributions import emissions
from bayeslab.errors import DataError, ModelError, hint
from bayeslab.families.hmm import classes, product_parts
from bayeslab.families.hmm.chains import chain_of, driven, labels_of
from bayeslab.families.hmm.emission_parts import joint_of, parts_of
from bayeslab.families.hmm.regression import expert_of
from bayeslab.families.hmm.spec import HMM, emission_parameters, layout_of
from bayeslab.families.hmm.truncation import truncated
from bayeslab.families.hmm.urns import urns_of
from bayeslab.language.spec import Model
from bayeslab.latents.chains import hidden_tree
from bayeslab.latents.chains.chain import Chain
from bayeslab.latents.chains.classes import ClassChain
from bayeslab.latents.chains.product import ProductChain
from bayeslab.latents.chains.state_chain import StateChain
from bayeslab.latents.chains.tree import TreeChain
from bayeslab.posterior.chains.choice import choose_states
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.chains.linear import Linear
from bayeslab.posterior.number_choice import NumberChoice
from bayeslab.posterior.observed.categories import Categories
from bayeslab.posterior.observed.part import StatePart

__all__ = ["candidate", "hidden_at", "hidden_of", "linear_of", "settled"]

# Key under which the data store the chosen number, so that a reopened run need not choose again.
_KEPT = "number of states"


def _spec(model: Model) -> HMM:
    assert isinstance(model.model, HMM)
    return model.model


# --------------------------------------------------------------------------------- the number of states


def settled(model: Model, data: Data) -> tuple[Model, NumberChoice | None]:
    """The model with one number of states, and the choice of that number (None if it was given or chosen before).

    The data store the number, like other values of the fit.
    """
    spec, choice = _spec(model), None
    if not spec.ranged:
        return model, None
    if _KEPT not in data.frozen:
        low, high = spec.ranged
        candidates = {n: candidate(model, data, n) for n in range(low, high + 1)}
        choice = choose_states(candidates, spec.choose)
        data.frozen[_KEPT] = choice.best
    return _with(model, int(data.frozen[_KEPT])), choice


def _with(model: Model, n: int) -> Model:
    return model.model_copy(update={"model": _spec(model).model_copy(update={"states": n})})


def candidate(model: Model, data: Data, n: int) -> Hidden:
    """The model with this number of states, resolved on its data."""
    return hidden_at(_with(model, n), data)


def hidden_of(model: Model, data: Data) -> Hidden:
    """The model resolved on its data, with the number of states fixed."""
    return hidden_at(settled(model, data)[0], data)


# --------------------------------------------------------------------------------- discrete states


def hidden_at(model: Model, data: Data) -> Hidden:
    """Resolve the model on its data, with one number of states."""
    spec = truncated(model.model)
    sequences = _pieces(spec, data)
    if spec.emission == "observed":
        return _observed(spec, data, sequences)
    chain = _chain(spec, data, sequences)
    if spec.emission == "urn":
        of_urns, urns, rows = urns_of(spec, data, sequences, chain)
        return Hidden(labels_of(spec), of_urns, (urns,), sequences, rows)
    states, parameters = _names(spec, chain), emission_parameters(spec)
    if spec.inputs or spec.window:
        expert, rows = expert_of(spec, data, sequences, chain.n_states, parameters)
        return Hidden(states, chain, (expert,), sequences, rows)
    layout = layout_of(spec)
    categories = frozenset(columns[0] for _, word, columns in layout if word == "categorical")
    order = [column for _, _, columns in layout for column in columns]
    read = read_columns(data, order, categories)
    base = read if data.origin is None else read_columns(data.origin, order, categories)
    parts: tuple[StatePart, ...]
    if isinstance(chain, ProductChain):
        parts = product_parts.parts_of(spec, data, chain, layout, read, base)
    elif spec.covariance in ("full", "tied"):
        parts = (joint_of(spec, read, base, chain.n_states, parameters),)
    else:
        parts = parts_of(
            data, layout, read, base, chain.n_states, parameters, covariance=spec.covariance, trials=spec.trials,
            dof=spec.dof, mixtures=spec.mixtures,
        )  # fmt: skip
    return Hidden(states, chain, parts, sequences, spread(sequences, read))


def _forest(data: Data, column: str) -> tuple[Sequences, np.ndarray]:
    """Sort the rows of a table tree by tree; with the position of each row's parent.

    Parameters
    ----------
    column : str
        Column with the label of the parent's row, empty for roots.

    Returns
    -------
    Sequences
        One sequence for each tree, with the root's label as its name.
    parents : ndarray (n_times,)
    """
    rows = data.dataset.rows
    labels = np.asarray(data.labels.get(rows, ()))
    if not len(labels):
        raise DataError("the data have no rows", code="no-rows")
    if column not in data.dataset.columns:
        raise DataError(f"the data have no column '{column}', which names the parents", code="unknown-column")
    # Reading the data has checked that row names are unique.
    given = parent_rows(column, data.column(column), labels, rows)
    try:
        order = hidden_tree.parents_first(given)
    except DataError as error:
        raise DataError(f"column '{column}', {error.message}", code=error.code) from None
    at = np.empty(len(order), np.int64)
    at[order] = np.arange(len(order))
    parents = np.where(given[order] >= 0, at[given[order]], -1)
    roots = np.flatnonzero(parents < 0)
    return Sequences(np.append(roots, len(order)), labels[order[roots]], labels[order], at), parents


def _pieces(spec: HMM, data: Data) -> Sequences:
    """The sequences or trees that the rows form."""
    if spec.parent is not None:
        return _forest(data, spec.parent)[0]
    return sequences_of(data, spec.sequence, spec.time)


def _names(spec: HMM, chain: StateChain) -> np.ndarray:
    return chain.states if isinstance(chain, (ClassChain, ProductChain)) else labels_of(spec)


def _chain(spec: HMM, data: Data, sequences: Sequences) -> StateChain:
    """The chain, with its inputs."""
    if spec.classes is not None:
        return classes.class_chain(spec, data, sequences, chain_of)
    base, names = chain_of(spec), tuple(spec.transitions_on)
    if spec.parent is not None:
        if not isinstance(base, Chain) or base.order != 1:
            raise ModelError(
                "trees need plain transitions of order 1 from parent to child",
                path=("model", "parent"),
                code="unsupported",
            )
        return TreeChain(base, _forest(data, spec.parent)[1])
    if not names:
        return base

    def read(table: Data) -> np.ndarray:
        return read_columns(table, names)

    return driven(base, names, spread(sequences, read(data)), read(data if data.origin is None else data.origin))


def _observed(spec: HMM, data: Data, sequences: Sequences) -> Hidden:
    """A chain with observed states: each state emits its own name."""
    states, chain, name = labels_of(spec), _chain(spec, data, sequences), spec.columns[0]
    codes = np.full(len(sequences.at), np.nan)
    if name in data.dataset.columns:
        column = data.column(name)
        words = {str(s): i for i, s in enumerate(states)}
        shown = [str(v) if column.text else f"{v:g}" for v in column.values.tolist()]
        absent = column.absent()
        for row, word in enumerate(shown):
            if not absent[row] and word not in words:
                raise DataError(
                    f"column '{name}', row {row + 1}: '{word}' is not a state{hint(word, words)}", code="unknown-state"
                )
        codes = np.array([np.nan if gone else words[w] for w, gone in zip(shown, absent, strict=True)], dtype=float)
    k = len(states)
    emission = emissions.Categorical((k,), 1.0)
    part = Categories(
        columns=(name,), at=(0,), n_states=k, emission=emission, states=(states,),
        known={f"p_{name}": np.eye(k)},
    )  # fmt: skip
    return Hidden(states, chain, (part,), sequences, spread(sequences, codes[:, None]), observed=True)


def linear_of(model: Model, data: Data, origin: Linear | None = None) -> Linear:
    """Resolve the model on its data.

    Parameters
    ----------
    origin
        The model on the data of the fit, if the model's data are others; None: computed from the model.

    Raises
    ------
    DataError
        A column has no values or is constant.
    """
    spec: Any = model.model
    sequences = sequences_of(data, spec.sequence, spec.time)
    read = read_columns(data, spec.columns)
    if data.origin is not None and origin is None:
        origin = linear_of(model, data.origin)
    base = read if origin is None else origin.rows
    for j, column in enumerate(spec.columns):
        values = base[~np.isnan(base[:, j]), j]
        if len(values) < 3 or np.ptp(values) == 0:
            why = "is constant" if len(values) >= 3 else f"has {len(values)} values"
            raise DataError(f"column '{column}' {why}: a level cannot be told from noise", code="constant")
    return Linear(
        tuple(spec.columns),
        spec.dimension,
        sequences,
        spread(sequences, read),
        np.nanmean(base, axis=0),
        emissions.column_variances(base),
    )
