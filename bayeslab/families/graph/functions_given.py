"""Functions that were integrated out, given the data and the hyperparameters, on arrays.

References
----------
.. [1] Rasmussen, Williams (2006). Gaussian Processes for Machine Learning. MIT Press. Sections 2.2 and 5.4.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.errors import EvidenceError
from bayeslab.families.graph.function_layout import FunctionNode, Layout
from bayeslab.families.graph.processes import JITTER
from bayeslab.latents.gaussian_process.gaussian_process import factor, threads

__all__ = ["FunctionsGiven", "functions_given"]


def functions_given(
    functions: Sequence[FunctionNode], name: str, size: int, layout: Layout, arrays: tuple[np.ndarray, ...]
) -> FunctionsGiven:
    """Functions by covariances at the points, or by the weights of sines."""
    kind = CovarianceGiven if functions[0].basis is None else SeriesGiven
    return kind(tuple(functions), name, size, layout, arrays)


@dataclass(frozen=True, eq=False)
class FunctionsGiven(ABC):
    """Functions that enter the mean of a normal node, at flat vectors of the kernel's inputs.

    Attributes
    ----------
    functions : tuple of FunctionNode
    name : str
        The node.
    size : int
        Number of its elements.
    layout : Layout
    arrays : tuple of ndarray
        The kernel's further arguments.
    """

    functions: tuple[FunctionNode, ...]
    name: str
    size: int
    layout: Layout
    arrays: tuple[np.ndarray, ...]

    @property
    def normals(self) -> dict[str, str]:
        """The standard normals behind each function."""
        return {node.name: node.normals for node in self.functions}

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
        out = np.zeros((len(tables), self.size))
        with threads(self.layout.n_points):
            for k, table in enumerate(tables):
                solved, precision = self._alone(table)
                out[k, self.layout.places] = 0.5 * (np.log(precision) - LOG_2PI - solved**2 / precision)
        return {self.name: out}

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
                f"'{self.name}': its rows have no density: look for standard deviations of 0, and for"
                " hyperparameters that are extreme",
                code="probability-zero",
            )

    @abstractmethod
    def _normals(self, table: np.ndarray, rng: np.random.Generator | None) -> list[np.ndarray]:
        """Standard normals of each function given the data: draws, or their means without a generator."""

    @abstractmethod
    def _alone(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """V⁻¹ (y - mean) and the diagonal of V⁻¹, with V the covariance of the rows."""


class CovarianceGiven(FunctionsGiven):
    """By covariances at the points; the log evidence of one Matérn function of a column by Kalman's filter."""

    def _parts(self, table: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Hyperparameters and coefficients of each function."""
        sizes = self.arrays[5]
        pieces = np.split(table, np.cumsum([*sizes[:, 4], *sizes[:, 5]]))
        return pieces[: len(sizes)], pieces[len(sizes) : 2 * len(sizes)]

    def _given(self, table: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from bayeslab.latents.gaussian_process import function_sum_kernels as kernels

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


class SeriesGiven(FunctionsGiven):
    """By the weights of sines."""

    def _given(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        from bayeslab.latents.gaussian_process import function_sum_kernels as kernels

        z, lower, a, w = kernels.series_given_rows(table, *self.arrays)
        self._possible(z)
        return z, lower, a, w

    def _normals(self, table: np.ndarray, rng: np.random.Generator | None) -> list[np.ndarray]:
        from scipy.linalg import solve_triangular

        z, lower, _, _ = self._given(table)
        if rng is not None:
            z = z + solve_triangular(lower, rng.normal(size=len(z)), lower=True, trans=1)
        sizes = [node.basis.n_functions for node in self.functions if node.basis is not None]
        parts = np.split(z, np.cumsum(sizes)[:-1])
        return [part.reshape(*node.shape[:-1], -1) for node, part in zip(self.functions, parts, strict=True)]

    def _alone(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from scipy.linalg import solve_triangular

        c, offset, sigma = self._by_row(table)
        z, lower, a, _ = self._given(table)
        at = self.layout.point
        variance = (solve_triangular(lower, a.T, lower=True) ** 2).sum(axis=0)
        solved = (self.layout.y - offset - c * (a @ z)[at]) / sigma**2
        return solved, (1.0 - (c / sigma) ** 2 * variance[at]) / sigma**2
