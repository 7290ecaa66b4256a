"""Decoding of hidden paths: most likely paths, and state probabilities of each cell.

Probabilities are averaged over posterior draws. Paths cannot be averaged: the most likely path is computed at the
posterior mean of the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.sequences import row_name
from bayeslab.errors import DataError
from bayeslab.families.graph.discrete_layout import Latent
from bayeslab.families.graph.paths_at_draws import Hidden
from bayeslab.posterior.averaging import AVERAGED
from bayeslab.posterior.decoding import Decoded, Table, check_method, condition, description, of_sequence
from bayeslab.posterior.draws import evenly

__all__ = ["decoded"]


def decoded(
    hidden: Hidden,
    data: Data,
    draws: Mapping[str, np.ndarray],
    method: str,
    best: int,
    sequence: str | None,
    most: int = AVERAGED,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A table with a row for every cell of every path, and remarks on it.

    Parameters
    ----------
    hidden
        The model on the data.
    draws
        Draws of the parameters, shape (draws, ...).
    method : str
        One of :data:`bayeslab.posterior.decoding.METHODS`.
    best : int
        Number of most likely paths (viterbi).
    sequence : str, optional
        Only this sequence; for several chains, the label of the dimensions before the last.
    most : int
        Largest number of draws, evenly spaced, over which probabilities are averaged.

    Raises
    ------
    OptionError, DataError
    """
    check_method(method, best)
    values = _parameters(hidden, draws)
    n = len(next(iter(values.values()))) if values else 1
    at = "the posterior mean" if n > 1 else "the fit"
    chances = _averaged(hidden, values, condition(method), most)
    tables, heights = list[Table](), list[np.ndarray]()
    for k, (latent, average) in enumerate(zip(hidden.paths, chances, strict=True)):
        law = latent.known_path.law
        head, kept = _labels(latent, data, sequence)
        if len(hidden.paths) > 1:
            head = {"node": np.full(law.n_cells, latent.name)} | head
        cells = _cells(head, kept, law.sequence, average, _names(latent, data))
        if method != "viterbi":
            tables.append(cells.states(method))
            continue
        middle = {name: value.mean(axis=0, keepdims=True) for name, value in values.items()}
        paths, height = law.law(*next(hidden.at(middle))[k]).mode(best)
        tables += cells.paths(paths, height)
        heights.append(height)
    return _joined(tables), description(method, n, most, at, heights)


def _cells(
    head: Mapping[str, np.ndarray], kept: np.ndarray, sequence: np.ndarray, chances: np.ndarray, names: np.ndarray
) -> Decoded:
    """The cells of a path whose states have these names."""
    return Decoded(
        head,
        kept,
        sequence,
        chances,
        lambda states: {"state": names[states]},
        lambda chances: {f"P(state={name})": chances[:, k] for k, name in enumerate(names)},
    )


def _parameters(hidden: Hidden, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The draws of the model's parameters; their levels must be those of the fit."""
    out = {}
    for name in hidden.parameters:
        if name not in draws:
            raise DataError(f"the fit has no draws of '{name}'", code="not-kept")
        value = np.asarray(draws[name])
        labels = [hidden.coords[dim] for dim in hidden.dims(name) if dim is not None]
        wanted = tuple(len(levels) for levels in labels if levels is not None)
        if wanted and value.shape[1:] != wanted:
            raise DataError(
                f"'{name}' has other levels in these data than in the fit: decode rows of the levels of the fit",
                code="not-kept",
            )
        out[name] = value
    return out


def _averaged(hidden: Hidden, values: Mapping[str, np.ndarray], kind: str, most: int) -> list[np.ndarray]:
    """P(state) of each path's cells, (cells, states), averaged over draws."""
    n = len(next(iter(values.values()))) if values else 1
    some = evenly(n, most)
    laws = [latent.known_path.law for latent in hidden.paths]
    total = [np.zeros((law.n_cells, law.n_states)) for law in laws]
    for pairs in hidden.at({name: value[some] for name, value in values.items()}):
        for latent, law, pair, chances in zip(hidden.paths, laws, pairs, total, strict=True):
            chances += law.smoothed(latent.name, *pair) if kind == "smooth" else law.law(*pair).filter(kind)
    return [chances / len(some) for chances in total]


def _labels(latent: Latent, data: Data, sequence: str | None) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The labels of each cell by dimension, and which cells are requested."""
    path, law = latent.known_path, latent.known_path.law
    dims, shape = path.dims, latent.shape
    grids = np.meshgrid(*(np.asarray(data.labels[dim]) for dim in dims), indexing="ij")
    head = {dim: grid.ravel() for dim, grid in zip(dims, grids, strict=True)}
    if sequence is None:
        return head, np.arange(law.n_cells)
    outer = np.array(
        [", ".join(str(head[dim][cell]) for dim in dims[:-1]) for cell in range(law.n_cells)], dtype=object
    )
    if len(shape) == 1:
        first = np.unique(law.sequence, return_index=True)[1]
        outer = np.array([str(head[dims[-1]][first[s]]) for s in law.sequence], dtype=object)
        if path.sequence is not None and data.has(path.sequence):
            term = data.term(path.sequence, missing=True)
            values = data.labels[str(term.factor)][term.codes] if term.value is None else term.value
            outer = np.array([row_name(value) for value in np.asarray(values).tolist()], dtype=object)
    return head, of_sequence(outer, sequence)


def _names(latent: Latent, data: Data) -> np.ndarray:
    """Labels of the states."""
    dim = latent.known_path.state
    return np.asarray(data.labels[dim]) if dim is not None else np.arange(latent.states)


def _joined(tables: list[Table]) -> Table:
    """Concatenate tables; columns that one lacks have empty cells."""
    columns = list(dict.fromkeys(name for table in tables for name in table))
    if all(list(table) == columns for table in tables):
        return {name: np.concatenate([table[name] for table in tables]) for name in columns}
    out = {}
    for name in columns:
        known = next(table[name] for table in tables if name in table)
        empty: Any = np.nan if known.dtype.kind == "f" else ""
        parts = []
        for table in tables:
            n = len(next(iter(table.values())))
            column = table.get(name, np.full(n, empty))
            parts.append(column if known.dtype.kind == "f" else column.astype(str))
        out[name] = np.concatenate(parts)
    return out
