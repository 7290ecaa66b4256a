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

import numpy as np
from pytensor.graph.traversal import ancestors
from scipy.linalg import solve_triangular

from bayeslab.constants import LOG_2PI
from bayeslab.errors import EvidenceError
from bayeslab.evidence import log_evidence
from bayeslab.families.graph.function_layout import (
    Entering,
    FunctionNode,
    Layout,
    integrable,
    kernel_inputs,
    layout_of,
)
from bayeslab.families.graph.linear_rows import NotLinear, Rows, by_row, rows_apart
from bayeslab.families.graph.processes import JITTER
from bayeslab.language.backends import PYTENSOR
from bayeslab.latents.gaussian_process import function_sum_kernels as kernels
from bayeslab.latents.gaussian_process.gaussian_process import factor, threads

__all__ = ["FunctionSum", "summed_functions"]


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


@dataclass(frozen=True, eq=False)
class _GraphRows(Entering):
    """Rows of a PyMC graph; ``drawn`` are its random variables."""

    drawn: set[Any]

    def moves(self, value: Any) -> bool:
        return not set(ancestors([value])).isdisjoint(self.drawn)

    def numbers(self, value: Any) -> np.ndarray:
        return np.asarray(value.eval())


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
    if not integrable(functions):
        raise NotLinear
    symbols = {node.symbol: np.arange(int(np.prod(node.shape))).reshape(node.shape) for node in functions}
    mean, places = rows_apart(rows, symbols, drawn)
    shape = rows.observed.shape
    entering = _GraphRows(
        PYTENSOR,
        rows.observed,
        places,
        {node.name: np.broadcast_to(mean.cells[node.symbol], shape) for node in functions},
        {node.name: by_row(mean.coefficients[node.symbol], shape, places) for node in functions},
        by_row(mean.offset, shape, places),
        by_row(rows.sigma, shape, places),
        drawn,
    )
    layout = layout_of(functions, entering)
    if layout is None:
        raise NotLinear
    given = kernel_inputs(PYTENSOR, functions, layout)
    log_sum = log_evidence(given.kernel, given.flat, *given.kernel_arrays)
    kind = CovarianceSum if functions[0].basis is None else SeriesSum
    return kind(log_sum, given.flat, tuple(functions), rows, layout, given.arrays)
