"""Decoding of hidden paths: most likely paths, and state probabilities of each cell.

Probabilities are averaged over posterior draws. Paths cannot be averaged: the most likely path is computed at the
posterior mean of the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.sequences import row_name
from bayeslab.errors import DataError, ModelError
from bayeslab.families.graph.path_sums import PathSum, Sums
from bayeslab.posterior.averaging import AVERAGED
from bayeslab.posterior.decoding import Decoded, Table, check_method, condition, description, of_sequence
from bayeslab.posterior.draws import evenly
from bayeslab.posterior.transforms import tables_at

if TYPE_CHECKING:
    import pymc

__all__ = ["decoded"]


def decoded(
    model: pymc.Model,
    sums: Sums,
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
    model, sums
        The graph on the data.
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
    OptionError, DataError, ModelError
    """
    check_method(method, best)
    if not sums.paths:
        tied = [latent.name for latent in sums.latents if latent.path is not None]
        raise ModelError(
            f"'{tied[0]}' is summed out together with other discrete nodes, so that its states are those drawn with the"
            " parameters: see its draws in the posterior"
            if tied
            else "the model has no hidden path to decode, such as z[t]: MarkovChain(P)",
            code="not-applicable" if tied else "other-family",
        )
    values = _parameters(model, draws)
    n = len(next(iter(values.values()))) if values else 1
    at = "the posterior mean" if n > 1 else "the fit"
    chances = _averaged(model, sums, values, condition(method), most)
    tables, heights = list[Table](), list[np.ndarray]()
    middle = {name: value.mean(axis=0, keepdims=True) for name, value in values.items()}
    (flat,) = next(iter(tables_at(model, sums, middle)))
    for path, path_tables, average in zip(sums.paths, sums.parts(flat[None]), chances, strict=False):
        head, kept = _labels(path, data, sequence)
        if len(sums.paths) > 1:
            head = {"node": np.full(path.law.n_cells, path.latent.name)} | head
        cells = _cells(head, kept, path.law.sequence, average, _names(path, data))
        if method != "viterbi":
            tables.append(cells.states(method))
            continue
        paths, height = path.law.law(*path.at(path_tables[0])).mode(best)
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


def _parameters(model: pymc.Model, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The draws of the graph's parameters; their levels must be those of the fit."""
    out = {}
    for rv in model.free_RVs:
        if rv.name not in draws:
            raise DataError(f"the fit has no draws of '{rv.name}'", code="not-kept")
        value = np.asarray(draws[rv.name])
        wanted = tuple(len(model.coords[dim]) for dim in model.named_vars_to_dims.get(rv.name) or ())
        if wanted and value.shape[1:] != wanted:
            raise DataError(
                f"'{rv.name}' has other levels in these data than in the fit: decode rows of the levels of the fit",
                code="not-kept",
            )
        out[rv.name] = value
    return out


def _averaged(
    model: pymc.Model, sums: Sums, values: Mapping[str, np.ndarray], kind: str, most: int
) -> list[np.ndarray]:
    """P(state) of each path's cells, (cells, states), averaged over draws."""
    n = len(next(iter(values.values()))) if values else 1
    some = evenly(n, most)
    total = [np.zeros((path.law.n_cells, path.law.n_states)) for path in sums.paths]
    for tables in tables_at(model, sums, {name: value[some] for name, value in values.items()}):
        parts = sums.parts(tables)
        for k, path in enumerate(sums.paths):
            for table in parts[k]:
                law = path.law.law(*path.at(table))
                total[k] += path.smoothed(table) if kind == "smooth" else law.filter(kind)
    return [summed / len(some) for summed in total]


def _labels(path: PathSum, data: Data, sequence: str | None) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The labels of each cell by dimension, and which cells are requested."""
    dims, shape = path.path.dims, path.latent.shape
    grids = np.meshgrid(*(np.asarray(data.labels[dim]) for dim in dims), indexing="ij")
    head = {dim: grid.ravel() for dim, grid in zip(dims, grids, strict=True)}
    if sequence is None:
        return head, np.arange(path.law.n_cells)
    outer = np.array(
        [", ".join(str(head[dim][cell]) for dim in dims[:-1]) for cell in range(path.law.n_cells)], dtype=object
    )
    if len(shape) == 1:
        first = np.unique(path.law.sequence, return_index=True)[1]
        outer = np.array([str(head[dims[-1]][first[s]]) for s in path.law.sequence], dtype=object)
        column = path.path.sequence
        if column is not None and data.has(column):
            term = data.term(column, missing=True)
            values = data.labels[str(term.factor)][term.codes] if term.value is None else term.value
            outer = np.array([row_name(value) for value in np.asarray(values).tolist()], dtype=object)
    return head, of_sequence(outer, sequence)


def _names(path: PathSum, data: Data) -> np.ndarray:
    """Labels of the states."""
    dim = path.path.state
    return np.asarray(data.labels[dim]) if dim is not None else np.arange(path.law.n_states)


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
