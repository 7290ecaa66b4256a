"""The declaration and its data as a factor graph with evidence."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.dataset import Column
from bayeslab.distributions import SCALARS, log_densities
from bayeslab.errors import BayeslabError, DataError, EvidenceError, ModelError, hint
from bayeslab.families.bayes_net.net import codes_from, column_of
from bayeslab.families.markov_random_field.spec import Grid, MarkovRandomField
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments, call_name
from bayeslab.latents.networks.factors import FactorGraph, read_evidence

__all__ = ["Block", "Field", "check_emission", "field_of", "graph_of"]

# Steps to half of the neighbours of a pixel; the others are the steps back.
_STEPS = {4: ((0, 1), (1, 0)), 8: ((0, 1), (1, 0), (1, 1), (1, -1))}
# Largest number of pixels.
_MOST_PIXELS = 4_000_000


@dataclass(frozen=True)
class Block:
    """Variables that are one array in results.

    Attributes
    ----------
    dims : tuple of str
        Dimensions of the array, without that of the states.
    places : ndarray of int
        The number of each variable, in the order of the factor graph.
    states : tuple of str
    """

    dims: tuple[str, ...]
    places: np.ndarray
    states: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Field:
    """A factor graph with evidence.

    Attributes
    ----------
    factors : FactorGraph
        The potentials.
    given : mapping
        Evidence: the state of a variable, or likelihoods of its states.
    log_scale : float
        The logarithm of a factor that all likelihoods were divided by.
    blocks : mapping of str to Block
        The variables without a known state, by their name in results.
    labels : mapping of str to ndarray
        Labels of dimensions.
    """

    factors: FactorGraph
    given: Mapping[str, Any]
    log_scale: float
    blocks: Mapping[str, Block]
    labels: Mapping[str, np.ndarray]

    def indicators(self, codes: np.ndarray) -> dict[str, np.ndarray]:
        """State numbers (..., variables) as indicators of every state, by name (..., *dims, states)."""
        return {
            name: (codes[..., block.places][..., None] == np.arange(len(block.states))).astype(np.int8)
            for name, block in self.blocks.items()
        }

    def probabilities(self, marginals: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Marginals by variable as arrays by name (*dims, states)."""
        flat = list(marginals.values())
        return {
            name: np.array([flat[k] for k in block.places.ravel()]).reshape(*block.places.shape, len(block.states))
            for name, block in self.blocks.items()
        }

    def words(self, assignment: Mapping[str, str]) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """An assignment as arrays of state names, with their dimensions."""
        flat = np.array(list(assignment.values()))
        return {name: (block.dims, flat[block.places]) for name, block in self.blocks.items()}

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        """Dimensions of the indicators."""
        return {name: (*block.dims, f"{name}_state") for name, block in self.blocks.items()}

    def with_evidence(self) -> FactorGraph:
        """The factor graph with one more factor for each item of evidence."""
        evidence, states = read_evidence(self.factors.states, self.given), self.factors.states
        vectors = dict(evidence.likelihood)
        vectors |= {v: (np.arange(len(states[v])) == code).astype(float) for v, code in evidence.hard.items()}
        scopes = (*self.factors.scopes, *((v,) for v in vectors))
        return FactorGraph(states, scopes, (*self.factors.tables, *vectors.values()), self.factors.name)


def graph_of(spec: MarkovRandomField, name: str) -> FactorGraph:
    """The factor graph of the written potentials.

    Raises
    ------
    ModelError
        A potential or the evidence is wrong, with its place.
    """
    states = {v: tuple(s) for v, s in spec.variables.items()}
    tables = []
    for k, potential in enumerate(spec.potentials):
        word = "table" if potential.table is not None else "log_table"
        place = ("model", "potentials", k)
        for variable in potential.variables:
            if variable not in states:
                raise ModelError(
                    f"'{variable}' is not a variable{hint(variable, states)}",
                    path=(*place, "variables"),
                    code="unknown-variable",
                )
        axes = [states[v] for v in potential.variables]
        entries = np.array(_entries(getattr(potential, word), axes, potential.variables, (*place, word)))
        with np.errstate(over="ignore"):
            values = np.exp(entries) if word == "log_table" else entries
        if not np.all(np.isfinite(values)) or np.any(values < 0):
            allowed = "at most 700, -.inf for zero" if word == "log_table" else "finite and not negative"
            raise ModelError(f"entries of {word} are {allowed}", path=(*place, word), code="out-of-range")
        tables.append(values.reshape([len(axis) for axis in axes]))
    try:
        read_evidence(states, spec.given)
    except EvidenceError as error:
        raise ModelError(error.message, path=("model", "given"), code=error.code) from None
    return FactorGraph(states, tuple(tuple(p.variables) for p in spec.potentials), tuple(tables), name)


def _entries(value: Any, axes: Sequence[tuple[str, ...]], names: Sequence[str], path: tuple[Any, ...]) -> list[float]:
    """The entries of a table in order, from nested lists or mappings."""
    if not axes:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelError(f"an entry of a table is a number, not {value!r}", path=path, code="wrong-type")
        return [float(value)]
    states, name = axes[0], names[0]
    if isinstance(value, Mapping):
        rows = {("true" if k else "false") if isinstance(k, bool) else str(k): v for k, v in value.items()}
        for key in rows:
            if key not in states:
                raise ModelError(
                    f"'{key}' is not a state of '{name}'{hint(key, states)}", path=path, code="unknown-state"
                )
        for state in states:
            if state not in rows:
                raise ModelError(f"the entry of '{name}={state}' is missing", path=path, code="incomplete")
        value = [rows[state] for state in states]
    if not isinstance(value, list) or len(value) != len(states):
        given = f"{len(value)} entries" if isinstance(value, list) else repr(value)
        raise ModelError(
            f"the table has {given} where '{name}' has {len(states)} states", path=path, code="wrong-shape"
        )
    return [entry for k, one in enumerate(value) for entry in _entries(one, axes[1:], names[1:], (*path, k))]


def field_of(spec: MarkovRandomField, data: Data, name: str) -> Field:
    """The factor graph with the evidence of the model and of the data."""
    if spec.grid is not None:
        return _image(spec.grid, data, name)
    factors = graph_of(spec, name)
    given: dict[str, Any] = dict(spec.given)
    columns = [v for v in spec.variables if data.has(v)]
    n_rows = len(data.labels.get(data.dataset.rows, ()))
    if columns and n_rows != 1:
        raise DataError(
            f"the data have {n_rows} rows, and the model is one field: give one row; `bl.network(model).query_many`"
            " answers a table of evidence row by row",
            code="wrong-length",
        )
    for v in columns:
        code = int(codes_from({v: factors.states[v]}, {v: column_of(v, data)}, 1)[0, 0])
        if code >= 0 and v in given:
            raise DataError(f"'{v}' is in the data and in `given`: leave one of them out", code="duplicate")
        if code >= 0:
            given[v] = factors.states[v][code]
    known = read_evidence(factors.states, given).hard
    blocks = {v: Block((), np.array(k), factors.states[v]) for k, v in enumerate(factors.states) if v not in known}
    return Field(factors, given, 0.0, blocks, {f"{v}_state": np.array(b.states) for v, b in blocks.items()})


def _image(grid: Grid, data: Data, name: str) -> Field:
    """The field of an image: pixels by row and column, coupled with their neighbours."""
    column = column_of(grid.observed, data)
    at, dims, labels = _positions(grid, column, data)
    height, width = (len(labels[dim]) for dim in dims)
    log_likelihood, log_scale = np.zeros((height * width, len(grid.states))), 0.0
    there = np.flatnonzero(~column.absent().ravel())
    values = _log_likelihood(grid, column, data)[there]
    top = values.max(axis=1)
    if np.any(np.isneginf(top)):
        row = int(there[np.isneginf(top)][0]) + 1
        raise DataError(f"column '{grid.observed}', value {row} is impossible in every state", code="probability-zero")
    log_likelihood[at[there]], log_scale = values - top[:, None], float(top.sum())
    names = [f"{grid.label}[{r}, {c}]" for r in labels[dims[0]] for c in labels[dims[1]]]
    states = tuple(grid.states)
    coupling = np.asarray(grid.coupling, float)
    with np.errstate(over="ignore"):
        pair = np.exp(coupling if coupling.ndim else coupling * np.eye(len(states)))
        alone = np.exp([float(grid.external_field.get(state, 0.0)) for state in states])
    if not (np.all(np.isfinite(pair)) and np.all(np.isfinite(alone))):
        raise ModelError("log potentials are at most 700", path=("model", "grid"), code="out-of-range")
    number = np.arange(height * width).reshape(height, width)
    edges = []
    for down, right in _STEPS[grid.neighbours]:
        first = number[: height - down, max(0, -right) : width - max(0, right)]
        second = number[down:, max(0, right) : width - max(0, -right)]
        edges += list(zip(first.ravel().tolist(), second.ravel().tolist(), strict=True))
    scopes: tuple[tuple[str, ...], ...] = tuple((names[a], names[b]) for a, b in edges)
    tables: tuple[np.ndarray, ...] = (pair,) * len(scopes)
    if grid.external_field:
        scopes, tables = (*scopes, *((n,) for n in names)), (*tables, *((alone,) * len(names)))
    likelihood = np.exp(log_likelihood)
    given = {names[k]: dict(zip(states, likelihood[k], strict=True)) for k in np.unique(at[there])}
    block = Block(dims, number, states)
    factors = FactorGraph(dict.fromkeys(names, states), scopes, tables, name)
    return Field(factors, given, log_scale, {grid.label: block}, {**labels, f"{grid.label}_state": np.array(states)})


def _positions(grid: Grid, column: Column, data: Data) -> tuple[np.ndarray, tuple[str, str], dict[str, np.ndarray]]:
    """The number of each observed value's pixel, and the two dimensions of the image with their labels."""
    if grid.row is None or grid.column is None:
        if column.dims is None or len(column.dims) != 2:
            raise DataError(
                f"'{grid.observed}' is not an array of two dimensions: name its dimensions in data.dims, or give the"
                " columns `row` and `column` of a table",
                code="bad-dimensions",
            )
        dims = (column.dims[0], column.dims[1])
        return np.arange(column.values.size), dims, {dim: np.asarray(data.labels[dim]) for dim in dims}
    codes, labels = [], {}
    for name in (grid.row, grid.column):
        term = data.term(name)
        if term.codes is not None:
            labels[name], place = np.asarray(data.labels[str(term.factor)]), np.asarray(term.codes)
        else:
            numbers = np.asarray(term.value, float)
            if np.any(numbers % 1):
                raise DataError(f"column '{name}' holds positions, which are whole numbers", code="out-of-range")
            labels[name] = np.arange(int(numbers.min()), int(numbers.max()) + 1)
            place = (numbers - numbers.min()).astype(np.int64)
        codes.append(place)
    height, width = (len(labels[name]) for name in (grid.row, grid.column))
    if height * width > _MOST_PIXELS:
        raise DataError(f"the image has {height:,} × {width:,} pixels; at most {_MOST_PIXELS:,}", code="too-costly")
    at = codes[0] * width + codes[1]
    distinct, first, counts = np.unique(at, return_index=True, return_counts=True)
    if len(distinct) < len(at):
        row = int(first[counts > 1][0])
        raise DataError(
            f"two rows are the pixel of row {row + 1}: '{grid.row}' and '{grid.column}' give each pixel once",
            code="duplicate",
        )
    return at, (str(grid.row), str(grid.column)), labels


def _log_likelihood(grid: Grid, column: Column, data: Data) -> np.ndarray:
    """Log density of each observed value in each state, (values, states); arbitrary for missing values."""
    n = column.values.size
    if grid.noise is not None:
        flat = Column(column.values.ravel(), (data.dataset.rows,), column.absent().ravel())
        codes = codes_from({grid.observed: tuple(grid.states)}, {grid.observed: flat}, n)[:, 0]
        same = codes[:, None] == np.arange(len(grid.states))
        with np.errstate(divide="ignore"):
            return np.where(same, np.log1p(-grid.noise), np.log(grid.noise / (len(grid.states) - 1)))
    if column.text:
        raise DataError(f"'{grid.observed}' is not numbers, and `emission` has densities", code="not-a-column")
    out = []
    for state in grid.states:
        call = _call(str((grid.emission or {})[state]))
        word = str(call_name(call))
        arguments = {k: np.asarray(data.evaluator.eval(t).value, float) for k, t in bound_arguments(call, word).items()}
        out.append(log_densities(word, arguments, column.values.ravel()))
    return np.stack(out, axis=1)


def check_emission(grid: Grid) -> None:
    """Raise the errors of the distributions of pixels, each with its place."""
    for state, text in (grid.emission or {}).items():
        path = ("model", "grid", "emission", state)
        try:
            word = call_name(parse(text).tree)
            if word not in SCALARS:
                raise ModelError(
                    f"'{text}' is not a distribution that is known here{hint(word, SCALARS)}", code="not-a-distribution"
                )
            bound_arguments(_call(text), str(word))
        except BayeslabError as error:
            raise ModelError(error.message, path=path, code=error.code) from None


def _call(text: str) -> ast.Call:
    tree = parse(text).tree
    assert isinstance(tree, ast.Call)
    return tree
