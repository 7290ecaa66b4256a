"""Functions integrated out exactly, if they enter one observed normal node linearly.

Given the hyperparameters the rows are jointly normal: one Cholesky factor of the covariance at their distinct inputs
gives log evidence and gradient; for functions approximated by sines, one factor with a row for each sine. After
sampling, functions are drawn given the data and the parameters, and the log density of each row given all others is
computed.

References
----------
.. [1] Rasmussen, Williams (2006). Gaussian Processes for Machine Learning. MIT Press. Sections 2.2 and 5.4.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from scipy.linalg import solve_triangular

from bayeslab.constants import LOG_2PI
from bayeslab.errors import EvidenceError
from bayeslab.evidence import log_evidence
from bayeslab.families.graph.linear_rows import Linear, NotLinear, Rows, by_row, rows_apart
from bayeslab.families.graph.process_nodes import JITTER
from bayeslab.families.graph.processes import Inputs, Process
from bayeslab.latents.gaussian_process import function_sum_kernels as kernels
from bayeslab.latents.gaussian_process.gaussian_process import factor, threads
from bayeslab.latents.gaussian_process.hilbert_gp import HilbertBasis
from bayeslab.latents.gaussian_process.state_space import faster_in_time

__all__ = ["FunctionNode", "FunctionSum", "summed_functions"]

KERNEL = "bayeslab.latents.gaussian_process.function_sum_kernels:log_evidence_and_gradient"
IN_TIME_KERNEL = "bayeslab.latents.gaussian_process.function_sum_kernels:in_time_log_evidence_and_gradient"
SERIES_KERNEL = "bayeslab.latents.gaussian_process.function_sum_kernels:series_log_evidence_and_gradient"
# Largest number of distinct input combinations handled jointly, where a single function has far fewer.
_MOST_POINTS = 1_500


@dataclass(frozen=True, eq=False)
class FunctionNode:
    """A function that is integrated out.

    Attributes
    ----------
    name, normals : str
        Its name, and that of the standard normals behind it.
    symbol : TensorVariable
        Placeholder of its values.
    theta : TensorVariable
        Hyperparameters of the kernel.
    basis : HilbertBasis or None
        The sines that approximate it.
    roots : TensorVariable or None
        Standard deviations of their weights.
    """

    name: str
    normals: str
    symbol: Any
    process: Process
    inputs: Inputs
    theta: Any
    basis: HilbertBasis | None = None
    roots: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions of its values."""
        return tuple(self.symbol.type.shape)


@dataclass(frozen=True, eq=False)
class Layout:
    """Observed rows, and the points at which the functions are evaluated for them.

    Attributes
    ----------
    places : ndarray of int (rows,)
        Positions of the rows in the node.
    y : ndarray (rows,)
    point : ndarray of int (rows,)
    cells : ndarray of int (functions, points)
        The cell of each function's node.
    coefficients : list of TensorVariable
        Coefficient of each function: one number, or one for each point.
    by_row : list of TensorVariable
        Overall coefficient, offset and sigma: one number, or one for each row.
    """

    places: np.ndarray
    y: np.ndarray
    point: np.ndarray
    cells: np.ndarray
    coefficients: list[Any]
    by_row: list[Any]

    @property
    def n_points(self) -> int:
        return self.cells.shape[1]

    @property
    def lengths(self) -> np.ndarray:
        """Of the coefficient of the whole, offset and sigma."""
        return np.array([self._length(value, len(self.y)) for value in self.by_row], np.int64)

    @property
    def factors(self) -> np.ndarray:
        """Number of coefficients of each function."""
        return np.array([self._length(value, self.n_points) for value in self.coefficients], np.int64)

    @staticmethod
    def _length(value: Any, many: int) -> int:
        return 1 if value.type.shape == (1,) else many


@dataclass(frozen=True, eq=False)
class FunctionSum(ABC):
    """The integral over functions.

    Attributes
    ----------
    log_sum : TensorVariable
        Its logarithm.
    tables : TensorVariable
        The flat vector of the kernel's inputs.
    functions : tuple of FunctionNode
    rows : Rows
    layout : Layout
    arrays : tuple of ndarray
        The kernel's further arguments.
    """

    log_sum: Any
    tables: Any
    functions: tuple[FunctionNode, ...]
    rows: Rows
    layout: Layout
    arrays: tuple[np.ndarray, ...]

    @property
    def observed(self) -> dict[str, tuple[str, ...]]:
        """The dims of the observed node."""
        return {self.rows.name: self.rows.dims}

    def check_terms(self) -> None:
        """Nothing is refused: every row has a density given all others."""
        return

    def drawn(self, tables: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Standard normals drawn given the data, at each of some flat vectors (draws, length)."""
        with threads(self.layout.n_points):
            return self._stacked([self._normals(table, rng) for table in tables])

    def expected(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Means of the standard normals given the data, at each of some flat vectors."""
        with threads(self.layout.n_points):
            return self._stacked([self._normals(table, None) for table in tables])

    def terms(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Log density (draws, elements) of each row given all others; 0 where a row is missing."""
        out = np.zeros((len(tables), self.rows.observed.size))
        with threads(self.layout.n_points):
            for k, table in enumerate(tables):
                solved, precision = self._alone(table)
                out[k, self.layout.places] = 0.5 * (np.log(precision) - LOG_2PI - solved**2 / precision)
        return {self.rows.name: out}

    def _stacked(self, normals: list[list[np.ndarray]]) -> dict[str, np.ndarray]:
        return {node.normals: np.stack([each[k] for each in normals]) for k, node in enumerate(self.functions)}

    def _by_row(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coefficient of the whole, offset and sigma."""
        lengths = self.layout.lengths
        c, offset, sigma = np.split(table[-int(lengths.sum()) :], np.cumsum(lengths)[:-1])
        return c, offset, sigma

    def _possible(self, solved: np.ndarray) -> None:
        if not np.all(np.isfinite(solved)):
            raise EvidenceError(
                f"'{self.rows.name}': its rows have no density: look for standard deviations of 0, and for"
                " hyperparameters that are extreme",
                code="probability-zero",
            )

    @abstractmethod
    def _normals(self, table: np.ndarray, rng: np.random.Generator | None) -> list[np.ndarray]:
        """Standard normals of each function given the data: draws, or their means without a generator."""

    @abstractmethod
    def _alone(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """V⁻¹ (y - mean) and the diagonal of V⁻¹, with V the covariance of the rows."""


class CovarianceSum(FunctionSum):
    """By covariances at the points; the log evidence of one Matérn function of a column by Kalman's filter."""

    def _parts(self, table: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Hyperparameters and coefficients of each function."""
        sizes = self.arrays[5]
        pieces = np.split(table, np.cumsum([*sizes[:, 4], *sizes[:, 5]]))
        return pieces[: len(sizes)], pieces[len(sizes) : 2 * len(sizes)]

    def _given(self, table: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        alpha, w, inverse = kernels.given_rows(table, y, *self.arrays[1:])
        self._possible(alpha)
        return alpha, w, inverse

    def _normals(self, table: np.ndarray, rng: np.random.Generator | None) -> list[np.ndarray]:
        theta, factors = self._parts(table)
        lower, drawn = list[np.ndarray](), list[np.ndarray]()
        for node, hyperparameters in zip(self.functions, theta, strict=True):
            x = node.inputs.distinct[0]
            lower.append(factor(node.process.kernel, hyperparameters, x, np.zeros(len(x)), nugget=JITTER)[0])
            drawn.append(np.zeros((int(np.prod(node.shape[:-1], dtype=int)), len(x))))
        y = self.arrays[0]
        places = [self._places(k) for k in range(len(self.functions))]
        if rng is not None:
            c, _, sigma = self._by_row(table)
            drawn = [rng.normal(size=z.shape) for z in drawn]
            total = np.zeros(self.layout.n_points)
            for z, low, coefficient, (batch, at) in zip(drawn, lower, factors, places, strict=True):
                total += coefficient * (z @ low.T)[batch, at]
            y = y - c * total[self.layout.point] - sigma * rng.normal(size=len(y))
        alpha = self._given(table, np.ascontiguousarray(y))[0]
        out = []
        for z, low, coefficient, (batch, at) in zip(drawn, lower, factors, places, strict=True):
            to_f = np.zeros_like(z)
            np.add.at(to_f, (batch, at), coefficient * alpha)
            out.append(z + to_f @ low)
        return [z.reshape(*node.shape[:-1], -1) for node, z in zip(self.functions, out, strict=True)]

    def _places(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The batch of each point, and its index among the distinct inputs."""
        batch, along = np.divmod(self.layout.cells[k], self.functions[k].shape[-1])
        return batch, self.functions[k].inputs.distinct[1][along]

    def _alone(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        c, offset, sigma = self._by_row(table)
        alpha, w, inverse = self._given(table, self.arrays[0])
        at, y = self.layout.point, self.arrays[0]
        share = np.divide(1.0, w, out=np.zeros(len(w)), where=w > 0.0)
        best = share * np.bincount(at, c * (y - offset) / sigma**2, minlength=len(w))
        # Share of the information about a row at its point; all of it, if the point has no other rows.
        part = (c / sigma) ** 2 * share[at]
        solved = (y - offset - c * best[at] + c * (share * alpha)[at]) / sigma**2
        return solved, (1.0 - part + part * inverse[at]) / sigma**2


class SeriesSum(FunctionSum):
    """By the weights of sines."""

    def _given(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        z, lower, a, w = kernels.series_given_rows(table, *self.arrays)
        self._possible(z)
        return z, lower, a, w

    def _normals(self, table: np.ndarray, rng: np.random.Generator | None) -> list[np.ndarray]:
        z, lower, _, _ = self._given(table)
        if rng is not None:
            z = z + solve_triangular(lower, rng.normal(size=len(z)), lower=True, trans=1)
        sizes = [node.basis.n_functions for node in self.functions if node.basis is not None]
        parts = np.split(z, np.cumsum(sizes)[:-1])
        return [part.reshape(*node.shape[:-1], -1) for node, part in zip(self.functions, parts, strict=True)]

    def _alone(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        c, offset, sigma = self._by_row(table)
        z, lower, a, _ = self._given(table)
        at = self.layout.point
        variance = (solve_triangular(lower, a.T, lower=True) ** 2).sum(axis=0)
        solved = (self.layout.y - offset - c * (a @ z)[at]) / sigma**2
        return solved, (1.0 - (c / sigma) ** 2 * variance[at]) / sigma**2


# ------------------------------------------------------------------------------------------ from a graph


def summed_functions(functions: Sequence[FunctionNode], rows: Rows, drawn: set[Any]) -> FunctionSum:
    """The integral over functions that enter the mean of a normal node.

    Parameters
    ----------
    drawn
        The random variables of the model; variables that do not depend on them are known.

    Raises
    ------
    NotLinear
        Not all of them enter it linearly, or integration would cost far more than sampling them.
    """
    symbols = {node.symbol: np.arange(int(np.prod(node.shape))).reshape(node.shape) for node in functions}
    series = [node.basis is not None for node in functions]
    if any(series) and (not all(series) or any(int(np.prod(node.shape[:-1], dtype=int)) > 1 for node in functions)):
        raise NotLinear
    mean, places = rows_apart(rows, symbols, drawn)
    layout = _layout(functions, rows, mean, places, drawn)
    distinct = max(len(node.inputs.distinct[0]) for node in functions)
    if not any(series) and layout.n_points > max(_MOST_POINTS, 2 * distinct):
        raise NotLinear
    return (_series if any(series) else _covariances)(functions, rows, layout, drawn)


def _layout(functions: Sequence[FunctionNode], rows: Rows, mean: Linear, places: np.ndarray, drawn: set[Any]) -> Layout:
    shape = rows.observed.shape
    rest = [by_row(value, shape, places) for value in (mean.offset, rows.sigma)]
    coefficients = [by_row(mean.coefficients[node.symbol], shape, places) for node in functions]
    keys = [np.broadcast_to(mean.cells[node.symbol], shape).ravel()[places] for node in functions]
    one = pt.ones((1,), dtype="float64")
    if len(functions) == 1:
        points, _, place = np.unique(keys[0], return_index=True, return_inverse=True)
        return _ordered(functions, rows, places, place.ravel(), points[None], [one], [coefficients[0], *rest])
    # Rows with the same cells and the same coefficients share a point.
    marks = list[np.ndarray](keys)
    for value in coefficients:
        if value.type.shape == (1,):
            continue
        if set(ancestors([value])).isdisjoint(drawn):
            marks.append(np.unique(np.asarray(value.eval()), return_inverse=True)[1].ravel())
        else:
            marks.append(np.arange(len(places)))
    points, index, place = np.unique(np.stack(marks), axis=1, return_index=True, return_inverse=True)
    at_points = [v if v.type.shape == (1,) else v[pt.constant(index)] for v in coefficients]
    cells = points[: len(functions)]
    return _ordered(functions, rows, places, place.ravel(), cells, at_points, [one, *rest])


def _ordered(
    functions: Sequence[FunctionNode], rows: Rows, places: np.ndarray, place: np.ndarray, cells: np.ndarray,
    coefficients: list[Any], by_row: list[Any],
) -> Layout:  # fmt: skip
    """Order points by independent blocks, and within a block by its input if there is only one."""
    inputs = functions[0].inputs.x
    within = inputs[cells[0] % functions[0].shape[-1], 0] if len(functions) == inputs.shape[1] == 1 else cells[0]
    order = np.lexsort((within, _blocks(functions, cells)))
    moved = np.empty_like(order)
    moved[order] = np.arange(len(order))
    coefficients = [v if v.type.shape == (1,) else v[pt.constant(order)] for v in coefficients]
    y = np.ascontiguousarray(rows.observed.ravel()[places])
    return Layout(places, y, moved[place].astype(np.int64), cells[:, order], coefficients, by_row)


def _batches(functions: Sequence[FunctionNode], cells: np.ndarray) -> np.ndarray:
    return np.stack([numbers // node.shape[-1] for node, numbers in zip(functions, cells, strict=True)])


def _blocks(functions: Sequence[FunctionNode], cells: np.ndarray) -> np.ndarray:
    """The block of each point; points that share a batch of a function are in the same block."""
    batches = _batches(functions, cells)
    graph = nx.Graph()
    for k, numbers in enumerate(batches):
        graph.add_edges_from((("point", p), (k, int(b))) for p, b in enumerate(numbers))
    out = np.zeros(cells.shape[1], np.int64)
    for number, members in enumerate(nx.connected_components(graph)):
        out[[p for kind, p in members if kind == "point"]] = number
    return out


def _covariances(functions: Sequence[FunctionNode], rows: Rows, layout: Layout, drawn: set[Any]) -> CovarianceSum:
    programs = [node.process.kernel.program for node in functions]
    x = []
    for node, cells in zip(functions, layout.cells, strict=True):
        x.append(node.inputs.x[cells % node.shape[-1]].T)
    sizes = [
        (len(p[0]), len(p[1]), len(p[2]), len(inputs), len(node.process.kernel.names), n)
        for p, inputs, node, n in zip(programs, x, functions, layout.factors, strict=True)
    ]
    blocks = _blocks(functions, layout.cells)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(blocks)) + 1, [layout.n_points]]).astype(np.int64)
    flat = pt.concatenate([*(node.theta for node in functions), *layout.coefficients, *layout.by_row])
    arrays = (
        layout.y,
        layout.point,
        starts,
        layout.lengths,
        np.array([not set(ancestors([value])).isdisjoint(drawn) for value in layout.coefficients]),
        np.array(sizes, np.int64),
        _batches(functions, layout.cells).astype(np.int64),
        *(np.concatenate([p[k] for p in programs]) for k in range(4)),
        np.ascontiguousarray(np.concatenate(x)),
    )
    log_sum = log_evidence(KERNEL, flat, *arrays)
    if len(functions) == 1 and faster_in_time(functions[0].process.kernel, int(np.diff(starts).max())):
        ops, _, at, fixed = programs[0]
        steps = np.diff(x[0][0], prepend=x[0][0, :1])
        steps[starts[:-1]] = 0.0
        sizes_in_time = np.array([len(functions[0].process.kernel.names)], np.int64)
        log_sum = log_evidence(
            IN_TIME_KERNEL, flat, layout.y, layout.point, starts, layout.lengths, sizes_in_time, ops, at, fixed, steps
        )
    return CovarianceSum(log_sum, flat, tuple(functions), rows, layout, arrays)


def _series(functions: Sequence[FunctionNode], rows: Rows, layout: Layout, drawn: set[Any]) -> SeriesSum:
    features, of, roots = [], [], []
    for k, (node, cells) in enumerate(zip(functions, layout.cells, strict=True)):
        assert node.basis is not None
        features.append(node.basis.features(node.inputs.x)[cells % node.shape[-1]])
        of.append(np.full(node.basis.n_functions, k, np.int64))
        roots.append(node.roots)
    flat = pt.concatenate([*roots, *layout.coefficients, *layout.by_row])
    whole = np.ascontiguousarray(np.concatenate(features, axis=1))
    counts = np.bincount(layout.point, minlength=layout.n_points).astype(float)
    lengths = np.concatenate([layout.lengths, layout.factors])
    alike = lengths[0] == lengths[2] == 1 and np.all(layout.factors == 1)
    gram = (whole.T * counts) @ whole if alike else np.zeros((0, 0))
    arrays = (layout.y, layout.point, lengths, np.concatenate(of), whole, counts, gram)
    return SeriesSum(log_evidence(SERIES_KERNEL, flat, *arrays), flat, tuple(functions), rows, layout, arrays)
