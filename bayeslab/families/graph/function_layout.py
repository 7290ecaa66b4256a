"""Functions that are integrated out: points of the rows, and the inputs of the kernels of log evidence.

References
----------
.. [1] Rasmussen, Williams (2006). Gaussian Processes for Machine Learning. MIT Press. Sections 2.2 and 5.4.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.families.graph.processes import Inputs, Process
from bayeslab.language.backends import Backend
from bayeslab.latents.gaussian_process.hilbert_gp import HilbertBasis
from bayeslab.latents.gaussian_process.state_space import faster_in_time

__all__ = ["Entering", "FunctionNode", "KernelInputs", "Layout", "integrable", "kernel_inputs", "layout_of"]

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
    symbol : variable
        Placeholder of its values.
    shape : tuple of int
        Dimensions of its values.
    theta : variable
        Hyperparameters of the kernel.
    basis : HilbertBasis or None
        The sines that approximate it.
    roots : variable or None
        Standard deviations of their weights.
    """

    name: str
    normals: str
    symbol: Any
    process: Process
    inputs: Inputs
    shape: tuple[int, ...]
    theta: Any
    basis: HilbertBasis | None = None
    roots: Any = None


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
    coefficients : list of variable
        Coefficient of each function: one number, or one for each point.
    by_row : list of variable
        Overall coefficient, offset and sigma: one number, or one for each row.
    lengths : ndarray of int (3,)
        Of the coefficient of the whole, offset and sigma.
    factors : ndarray of int (functions,)
        Number of coefficients of each function.
    moving : ndarray of bool (functions,)
        Whether a coefficient depends on parameters.
    """

    places: np.ndarray
    y: np.ndarray
    point: np.ndarray
    cells: np.ndarray
    coefficients: list[Any]
    by_row: list[Any]
    lengths: np.ndarray
    factors: np.ndarray
    moving: np.ndarray

    @property
    def n_points(self) -> int:
        return self.cells.shape[1]


@dataclass(frozen=True, eq=False)
class Entering(ABC):
    """The rows that functions enter linearly, in variables of a backend.

    Attributes
    ----------
    y : ndarray
        Data of the node; NaN where a cell is missing.
    places : ndarray of int (rows,)
        Positions of the rows with data.
    cells : dict of str to ndarray of int
        The cell of each function for each element of the node.
    coefficients : dict of str to variable
        Of each function: one number, or one for each row.
    offset, sigma : variable
        One number, or one for each row.
    """

    backend: Backend
    y: np.ndarray
    places: np.ndarray
    cells: Mapping[str, np.ndarray]
    coefficients: Mapping[str, Any]
    offset: Any
    sigma: Any

    @abstractmethod
    def moves(self, value: Any) -> bool:
        """Whether a variable depends on parameters."""

    @abstractmethod
    def numbers(self, value: Any) -> np.ndarray:
        """The numbers of a variable that depends on no parameter."""


@dataclass(frozen=True, eq=False)
class KernelInputs:
    """What the kernels of functions at points take.

    Attributes
    ----------
    flat : variable
        The flat vector of parameters.
    arrays : tuple of ndarray
        Further arguments of the kernel of functions at points, or of sines.
    kernel : str
        The kernel of log evidence.
    kernel_arrays : tuple of ndarray
        Its further arguments.
    """

    flat: Any
    arrays: tuple[np.ndarray, ...]
    kernel: str
    kernel_arrays: tuple[np.ndarray, ...]


def integrable(functions: Sequence[FunctionNode]) -> bool:
    """Whether functions can be integrated out together: by covariances, or by sines without other dimensions."""
    series = [node.basis is not None for node in functions]
    one_batch = all(int(np.prod(node.shape[:-1], dtype=int)) == 1 for node in functions)
    return not any(series) or (all(series) and one_batch)


def layout_of(functions: Sequence[FunctionNode], rows: Entering) -> Layout | None:
    """The points of the rows; None if they are so many that integration would cost far more than sampling."""
    coefficients, rest = [rows.coefficients[node.name] for node in functions], [rows.offset, rows.sigma]
    keys, places = [rows.cells[node.name].ravel()[rows.places] for node in functions], rows.places
    one = rows.backend.constant(np.ones(1))
    if len(functions) == 1:
        points, _, place = np.unique(keys[0], return_index=True, return_inverse=True)
        layout = _ordered(functions, rows, place.ravel(), points[None], [one], [coefficients[0], *rest])
    else:
        # Rows with the same cells and the same coefficients share a point.
        marks = list[np.ndarray](keys)
        for value in coefficients:
            if _single(rows.backend, value):
                continue
            apart = rows.moves(value)
            marks.append(
                np.arange(len(places)) if apart else np.unique(rows.numbers(value), return_inverse=True)[1].ravel()
            )
        points, index, place = np.unique(np.stack(marks), axis=1, return_index=True, return_inverse=True)
        at_points = [v if _single(rows.backend, v) else v[index] for v in coefficients]
        layout = _ordered(functions, rows, place.ravel(), points[: len(functions)], at_points, [one, *rest])
    distinct = max(len(node.inputs.distinct[0]) for node in functions)
    if functions[0].basis is None and layout.n_points > max(_MOST_POINTS, 2 * distinct):
        return None
    return layout


def _single(backend: Backend, value: Any) -> bool:
    return backend.shape(value) == (1,)


def _ordered(
    functions: Sequence[FunctionNode], rows: Entering, place: np.ndarray, cells: np.ndarray, coefficients: list[Any],
    by_row: list[Any],
) -> Layout:  # fmt: skip
    """Order points by independent blocks, and within a block by its input if there is only one."""
    inputs, backend = functions[0].inputs.x, rows.backend
    within = inputs[cells[0] % functions[0].shape[-1], 0] if len(functions) == inputs.shape[1] == 1 else cells[0]
    order = np.lexsort((within, _blocks(functions, cells)))
    moved = np.empty_like(order)
    moved[order] = np.arange(len(order))
    coefficients = [v if _single(backend, v) else v[order] for v in coefficients]
    y = np.ascontiguousarray(rows.y.ravel()[rows.places])
    lengths = [1 if _single(backend, value) else len(y) for value in by_row]
    factors = [1 if _single(backend, value) else len(order) for value in coefficients]
    moving = [rows.moves(value) for value in coefficients]
    return Layout(
        rows.places, y, moved[place].astype(np.int64), cells[:, order], coefficients, by_row,
        np.array(lengths, np.int64), np.array(factors, np.int64), np.array(moving),
    )  # fmt: skip


def _batches(functions: Sequence[FunctionNode], cells: np.ndarray) -> np.ndarray:
    return np.stack([numbers // node.shape[-1] for node, numbers in zip(functions, cells, strict=True)])


def _blocks(functions: Sequence[FunctionNode], cells: np.ndarray) -> np.ndarray:
    """The block of each point; points that share a batch of a function are in the same block."""
    import networkx as nx

    batches = _batches(functions, cells)
    graph = nx.Graph()
    for k, numbers in enumerate(batches):
        graph.add_edges_from((("point", p), (k, int(b))) for p, b in enumerate(numbers))
    out = np.zeros(cells.shape[1], np.int64)
    for number, members in enumerate(nx.connected_components(graph)):
        out[[p for kind, p in members if kind == "point"]] = number
    return out


def kernel_inputs(backend: Backend, functions: Sequence[FunctionNode], layout: Layout) -> KernelInputs:
    """The inputs of the kernels of log evidence, and of what is computed after sampling."""
    return (_covariances if functions[0].basis is None else _series)(backend, functions, layout)


def _covariances(backend: Backend, functions: Sequence[FunctionNode], layout: Layout) -> KernelInputs:
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
    flat = backend.concatenate([*(node.theta for node in functions), *layout.coefficients, *layout.by_row])
    arrays = (
        layout.y,
        layout.point,
        starts,
        layout.lengths,
        layout.moving,
        np.array(sizes, np.int64),
        _batches(functions, layout.cells).astype(np.int64),
        *(np.concatenate([p[k] for p in programs]) for k in range(4)),
        np.ascontiguousarray(np.concatenate(x)),
    )
    if len(functions) == 1 and faster_in_time(functions[0].process.kernel, int(np.diff(starts).max())):
        ops, _, at, fixed = programs[0]
        steps = np.diff(x[0][0], prepend=x[0][0, :1])
        steps[starts[:-1]] = 0.0
        sizes_in_time = np.array([len(functions[0].process.kernel.names)], np.int64)
        in_time = (layout.y, layout.point, starts, layout.lengths, sizes_in_time, ops, at, fixed, steps)
        return KernelInputs(flat, arrays, IN_TIME_KERNEL, in_time)
    return KernelInputs(flat, arrays, KERNEL, arrays)


def _series(backend: Backend, functions: Sequence[FunctionNode], layout: Layout) -> KernelInputs:
    features, of, roots = [], [], []
    for k, (node, cells) in enumerate(zip(functions, layout.cells, strict=True)):
        assert node.basis is not None
        features.append(node.basis.features(node.inputs.x)[cells % node.shape[-1]])
        of.append(np.full(node.basis.n_functions, k, np.int64))
        roots.append(node.roots)
    flat = backend.concatenate([*roots, *layout.coefficients, *layout.by_row])
    whole = np.ascontiguousarray(np.concatenate(features, axis=1))
    counts = np.bincount(layout.point, minlength=layout.n_points).astype(float)
    lengths = np.concatenate([layout.lengths, layout.factors])
    alike = lengths[0] == lengths[2] == 1 and np.all(layout.factors == 1)
    gram = (whole.T * counts) @ whole if alike else np.zeros((0, 0))
    arrays = (layout.y, layout.point, lengths, np.concatenate(of), whole, counts, gram)
    return KernelInputs(flat, arrays, SERIES_KERNEL, arrays)
