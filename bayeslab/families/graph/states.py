"""Linear-Gaussian state nodes, such as ``level[month]: LocalLevel(sigma, initial=Normal(0, 10))``: their
declaration.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.node_values import Environment, NotExact
from bayeslab.errors import BayeslabError, DataError, ModelError
from bayeslab.families.graph.hidden_paths import sequence_changes
from bayeslab.families.graph.levels import stand_in
from bayeslab.language.nodes import Node, bound_arguments, call_name

__all__ = [
    "Cells",
    "arguments",
    "cells_of",
    "check_state_node",
    "check_states",
    "extended",
    "seasonal_start",
    "series_of",
    "square_root",
    "times_of",
]

_STARTS = ("initial", "initial_slope")
# Tolerance for negative eigenvalues of a covariance, as a share of the largest one.
_ROUNDING = 1e-9
_INITIAL = {
    "LocalLevel": ("Normal", "initial=Normal(mu, sigma), where the level begins"),
    "LocalTrend": ("Normal", "initial=Normal(mu, sigma) and initial_slope=Normal(mu, sigma), where it begins"),
    "Seasonal": ("ZeroSumNormal", "initial=ZeroSumNormal(sigma), the effects of one period"),
}
# Largest number of seasonal effects: memory grows with its square.
LONGEST_PERIOD = 1_000


# --------------------------------------------------------------------------------- declaration


def check_states(node: Node) -> None:
    """Check everything about a state node that can be checked before data are bound.

    Raises
    ------
    ModelError
        At the place in the node's expression.
    """
    word, given = str(node.distribution), arguments(node)
    if not node.dims:
        raise ModelError(
            f"{word} runs along a dimension: {node.name}[time]: {word}(...)",
            path=(*node.path, "[key]"),
            code="bad-dimensions",
        )
    for name in _STARTS:
        if name not in given:
            continue
        wanted, shown = _INITIAL[word]
        tree = given[name]
        inner = bound_arguments(tree, wanted) if isinstance(tree, ast.Call) and call_name(tree) == wanted else {}
        if not inner or "sigma" not in inner or "tau" in inner or "n_zerosum_axes" in inner:
            raise ModelError(
                f"{word}: {shown}, not '{ast.unparse(tree)}'",
                path=node.path,
                offset=tree.col_offset,
                code="wrong-arguments",
            )
    if word == "Seasonal":
        tree = given["period"]
        value = tree.value if isinstance(tree, ast.Constant) else None
        if not isinstance(value, int) or isinstance(value, bool) or not 2 <= value <= LONGEST_PERIOD:
            raise ModelError(
                f"Seasonal: period is a whole number from 2 to {LONGEST_PERIOD:,}, such as 12, not"
                f" '{ast.unparse(tree)}'",
                path=node.path,
                offset=tree.col_offset,
                code="out-of-range",
            )


def check_state_node(node: Node, nodes: Mapping[str, Node], data: Data) -> None:
    """Check a state node against the data of a fit.

    Raises
    ------
    ModelError, DataError
        Shapes are wrong, a covariance is invalid, or the sequence is not a column or not in order.
    """
    given = arguments(node)
    if str(node.distribution) == "LinearGaussian":
        _check_matrices(node, given, nodes, data)
    else:
        _check_numbers(node, given, nodes, data)
    cells_of(node, data)


def arguments(node: Node) -> dict[str, ast.expr]:
    """The arguments of a node's distribution by name."""
    tree = node.expression.tree
    assert isinstance(tree, ast.Call)
    return bound_arguments(tree, str(node.distribution))


def _check_numbers(node: Node, given: Mapping[str, ast.expr], nodes: Mapping[str, Node], data: Data) -> None:
    """Check that standard deviations and initial values are numbers that do not vary in time."""
    parts = list[ast.expr]()
    for name, tree in given.items():
        if name in _STARTS:
            assert isinstance(tree, ast.Call)
            parts += bound_arguments(tree, str(call_name(tree))).values()
        elif name not in ("sequence", "period"):
            parts.append(tree)
    for part in parts:
        term = stand_in(part, nodes, data)
        extra = [dim for dim in term.dims if dim not in node.dims[:-1]] if term is not None else []
        if extra:
            along = f"runs along '{extra[0]}'" if extra[0] is not None else "is a list"
            raise ModelError(
                f"{node.distribution} takes one number for a series, and '{ast.unparse(part)}' {along}",
                path=node.path,
                offset=part.col_offset,
                code="bad-dimensions",
            )


def _check_matrices(node: Node, given: Mapping[str, ast.expr], nodes: Mapping[str, Node], data: Data) -> None:
    """Check shapes: F, Q and the initial covariance d x d; H and the initial mean d; for d = 1 numbers too."""
    size: int | None = None
    for name in ("H", "F", "Q", "initial_mean", "initial_covariance"):
        tree = given[name]
        core = 1 if name in ("H", "initial_mean") else 2
        term = stand_in(tree, nodes, data)
        if term is None or term.value is None:
            continue
        shape = np.shape(term.value)
        if node.dims[-1] in term.dims:
            raise ModelError(
                f"LinearGaussian: {name} must be the same at all times, and varies along '{node.dims[-1]}'",
                path=node.path,
                offset=tree.col_offset,
                code="bad-dimensions",
            )
        size = size or (shape[0] if shape else 1)
        if shape != (size,) * core and not (size == 1 and shape == ()):
            raise ModelError(
                f"LinearGaussian: with H of {size} number{'s' if size > 1 else ''}, {name} is"
                f" {' × '.join([str(size)] * core)}, not {' × '.join(map(str, shape)) or 'a number'}",
                path=node.path,
                offset=tree.col_offset,
                code="wrong-shape",
            )
        if name in ("Q", "initial_covariance"):
            _check_covariance(node, name, tree, nodes, data)


def _check_covariance(node: Node, name: str, tree: ast.expr, nodes: Mapping[str, Node], data: Data) -> None:
    try:
        value = Environment(nodes, data, {}).eval(tree).value
    except (NotExact, BayeslabError):
        return  # unknown before sampling, or refused elsewhere with its place
    matrix = np.atleast_2d(np.asarray(value, dtype=float))
    values = np.linalg.eigvalsh(0.5 * (matrix + matrix.T))
    uneven = np.abs(matrix - matrix.T).max() > _ROUNDING * max(1.0, np.abs(matrix).max())
    if uneven or values.min() < -_ROUNDING * max(values.max(), 0.0) or values.max() < 0.0:
        why = "is not symmetric" if uneven else f"has the eigenvalue {values.min():.3g}, which is negative"
        raise ModelError(
            f"LinearGaussian: {name} is a covariance, and '{ast.unparse(tree)}' {why}",
            path=node.path,
            offset=tree.col_offset,
            code="out-of-range",
        )


def square_root(covariance: np.ndarray) -> np.ndarray:
    """B with B B' = the covariance, which may be singular."""
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def seasonal_start(period: int) -> np.ndarray:
    """B with B B' = I - 1/period: independent normals minus their mean, without the last."""
    n = period - 1
    return np.linalg.cholesky(np.eye(n) - 1.0 / period)


# ---------------------------------------------------------------------------------- series in the data


@dataclass(frozen=True, eq=False)
class Cells:
    """The times at which a node has states, in the order in which they follow each other.

    Attributes
    ----------
    starts : ndarray of bool (times,)
        Whether a series starts at this time.
    batch : ndarray of int (times,)
        Index over the node's dimensions other than time.
    place : ndarray of int (cells,)
        The time of each cell of the node, in C order.
    known : ndarray of int (times,)
        The time in the data of the fit; -1 for later times.
    """

    starts: np.ndarray
    batch: np.ndarray
    place: np.ndarray
    known: np.ndarray

    def normals(self, d: int, q: int) -> np.ndarray:
        """Start of each time's normals, and last their total number."""
        return np.concatenate([[0], np.cumsum(np.where(self.starts, d, q))]).astype(np.int64)


def cells_of(node: Node, data: Data) -> Cells:
    """The times of a node in the data of a fit."""
    lengths = [len(data.labels.get(dim, ())) for dim in node.dims]
    begins = np.zeros(lengths[-1], bool)
    begins[:1] = True
    column = arguments(node).get("sequence")
    if isinstance(column, ast.Name):
        begins |= sequence_changes(data, column.id, node.dims[-1])
    outer = int(np.prod(lengths[:-1], dtype=int))
    each = np.arange(outer * lengths[-1])
    return Cells(np.tile(begins, outer), np.repeat(np.arange(outer), lengths[-1]), each, each)


def times_of(node: Node, data: Data, d: int, q: int) -> tuple[Cells, np.ndarray, int, int]:
    """The times of a node; where the normals of each begin; and the numbers of normals in the fit, and of later ones.

    Later normals are behind those of the fit. ``d`` and ``q`` are the numbers of normals of a first time and of others.
    """
    fitted = series_of(data)
    before = cells_of(node, fitted)
    begins = before.normals(d, q)
    if fitted is data:
        return before, begins[:-1], int(begins[-1]), 0
    cells = extended(node, fitted, data)
    later = cells.known < 0
    widths = np.where(cells.starts, d, q)[later]
    places = np.where(later, 0, begins[np.maximum(cells.known, 0)])
    places[later] = begins[-1] + np.cumsum(widths) - widths
    return cells, places, int(begins[-1]), int(widths.sum())


def extended(node: Node, fitted: Data, data: Data) -> Cells:
    """The times of a node in new data: the times of the fit, followed by new ones.

    Named rows and the levels of other dimensions are matched with the fit by name; rows without names, and new names,
    follow the end of their series, one step each.
    """
    time, n_old, n_new = node.dims[-1], len(fitted.labels[node.dims[-1]]), len(data.labels[node.dims[-1]])
    at = _places_in_fit(fitted, data, time)
    if "sequence" not in arguments(node):
        _check_after(fitted, data, time, at)
    shape = tuple(len(fitted.labels[dim]) for dim in node.dims[:-1])
    new_shape = tuple(len(data.labels[dim]) for dim in node.dims[:-1])
    places_by_dim = [_places_in_fit(fitted, data, dim) for dim in node.dims[:-1]]
    old_keys, new_keys = _keys(node, fitted, n_old), _keys(node, data, n_new)
    starts, batch, known = list[bool](), list[int](), list[int]()
    place = np.empty((int(np.prod(new_shape, dtype=int)), n_new), np.int64)
    for number, index in enumerate(np.ndindex(new_shape)):
        old_index = [int(places[i]) for places, i in zip(places_by_dim, index, strict=True)]
        there = min(old_index, default=0) >= 0
        base = int(np.ravel_multi_index(old_index, shape)) * n_old if there and old_index else 0
        where = at if there else np.full(n_new, -1)
        series: dict[str, list[int]] = {}
        if there:
            for t in range(n_old):
                series.setdefault(old_keys[t], []).append(t)
        later: dict[str, list[int]] = {}
        for t in np.flatnonzero(where < 0).tolist():
            later.setdefault(new_keys[t], []).append(t)
        position = np.full(n_old, -1, np.int64)
        for key in dict.fromkeys([*series, *later]):
            first = len(starts)
            for t in series.get(key, ()):
                position[t] = len(starts)
                starts.append(False)
                known.append(base + t)
            for t in later.get(key, ()):
                place[number, t] = len(starts)
                starts.append(False)
                known.append(-1)
            starts[first] = True
            batch += [number] * (len(starts) - first)
        held = where >= 0
        place[number, held] = position[where[held]]
    return Cells(np.array(starts), np.array(batch, np.int64), place.ravel(), np.array(known, np.int64))


def _keys(node: Node, data: Data, length: int) -> list[str]:
    """Name of the series of each time."""
    column = arguments(node).get("sequence")
    if not isinstance(column, ast.Name):
        return [""] * length
    if not data.has(column.id):
        raise DataError(
            f"'{node.name}' has a series for each '{column.id}', and the new data have no such column",
            path=node.path,
            code="unknown-column",
        )
    sequence_changes(data, column.id, node.dims[-1])
    term = data.term(column.id, missing=True)
    if term.codes is not None and term.factor in data.labels:
        return [str(data.labels[str(term.factor)][code]) for code in term.codes]
    return [f"{value:g}" for value in np.asarray(term.value, dtype=float)]


def _places_in_fit(fitted: Data, data: Data, dim: str) -> np.ndarray:
    """Indices of a dimension's levels among those of the fit; -1 for new levels."""
    old, new = fitted.labels[dim], data.labels[dim]
    if dim == data.dataset.rows and dim not in data.dataset.levels:
        same = len(new) == len(old) and _same_rows(fitted, data)
        return np.arange(len(new)) if same else np.full(len(new), -1)
    known = {str(label): k for k, label in enumerate(_plain(old))}
    return np.array([known.get(str(label), -1) for label in _plain(new)], dtype=np.int64)


def _check_after(fitted: Data, data: Data, dim: str, places: np.ndarray) -> None:
    """Check that new rows whose names are times come after the last row of the fit, in order."""
    if dim != data.dataset.rows or dim not in data.dataset.levels:
        return
    old, new = fitted.labels[dim], data.labels[dim]
    last, later = _times(old), _times(new[places < 0])
    if last is None or later is None or not later.size or np.any(np.diff(last) <= 0):
        return
    bad = np.flatnonzero(np.diff(np.concatenate([last[-1:], later])) <= 0)
    if bad.size:
        row = new[places < 0][bad[0]]
        before = old[-1] if bad[0] == 0 else new[places < 0][bad[0] - 1]
        raise DataError(
            f"the row '{row}' of '{dim}' is not in the fit and does not follow '{before}': new rows must continue the"
            f" series, one step each, in the order of time",
            code="not-in-order",
        )


def _times(labels: np.ndarray) -> np.ndarray | None:
    """Labels as numbers, or dates as days; None if they are neither."""
    words = [str(label) for label in _plain(labels)]
    for kind in (np.float64, "datetime64[s]"):
        try:
            return np.array(words, dtype=kind).astype(np.float64)
        except ValueError:
            continue
    return None


def _same_rows(fitted: Data, data: Data) -> bool:
    """Whether unnamed rows are those of the fit: their data are equal and not empty."""
    if data.dataset is fitted.dataset:
        return True
    there = [name for name, column in data.dataset.columns.items() if not column.absent().all()]
    before, now = fitted.dataset.digests(), data.dataset.digests()
    return bool(there) and all(before.get(name) == now[name] for name in there)


def series_of(data: Data) -> Data:
    """The data with the starts of the series: those of the fit, if new rows follow them."""
    return data if data.origin is None or data.fitted or data.replicate else data.origin


def _plain(labels: np.ndarray | Sequence[object]) -> list[object]:
    return np.asarray(labels).tolist()
