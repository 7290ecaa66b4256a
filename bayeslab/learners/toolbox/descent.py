"""Rows of inputs for gradient descent, dense or sparse, and the rates of descent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import svds

from bayeslab.learners.toolbox.descent_kernels import perceptron, perceptron_sparse, stochastic, stochastic_sparse

__all__ = ["DenseRows", "Rows", "SparseRows", "rows_of", "safe_rate", "settled"]

Array = NDArray[np.float64]


class Rows(ABC):
    """Rows of inputs, each with a leading 1 for the bias.

    Attributes
    ----------
    shape : tuple of int
        Number of rows, and of columns with that of ones.
    """

    shape: tuple[int, int]

    @abstractmethod
    def scores(self, weights: Array) -> Array:
        """Products with weights of shape (columns,) or (columns, units)."""

    @abstractmethod
    def pulled(self, errors: Array) -> Array:
        """The sum of the rows, each times its error; shape (columns,)."""

    @abstractmethod
    def squared_lengths(self) -> Array:
        """Squared length of each row."""

    @abstractmethod
    def squared_columns(self, weight: Array) -> Array:
        """The weighted sum of the squares in each column."""

    @abstractmethod
    def largest_eigenvalue(self, weight: Array) -> float:
        """The largest eigenvalue of X'WX."""

    @abstractmethod
    def descend(self, targets: Array, weight: Array, order: Any, weights: Array, *settings: Any) -> int:
        """A pass of stochastic gradient descent: :func:`~.descent_kernels.stochastic`."""

    @abstractmethod
    def correct(self, labels: Any, order: Any, weights: Array, *settings: Any) -> tuple[int, int]:
        """A pass of the perceptron: :func:`~.descent_kernels.perceptron`."""


class DenseRows(Rows):
    """Rows of an array, shape (rows, columns)."""

    def __init__(self, X: Array) -> None:
        self._all = np.column_stack([np.ones(len(X)), X])
        self.shape = self._all.shape

    def scores(self, weights: Array) -> Array:
        return np.asarray(self._all @ weights)

    def pulled(self, errors: Array) -> Array:
        return np.asarray(errors @ self._all)

    def squared_lengths(self) -> Array:
        return np.asarray((self._all**2).sum(axis=1))

    def squared_columns(self, weight: Array) -> Array:
        return np.asarray(weight @ self._all**2)

    def largest_eigenvalue(self, weight: Array) -> float:
        return float(np.linalg.eigvalsh((self._all * weight[:, None]).T @ self._all)[-1])

    def descend(self, targets: Array, weight: Array, order: Any, weights: Array, *settings: Any) -> int:
        return stochastic(self._all, targets, weight, order, weights, *settings)

    def correct(self, labels: Any, order: Any, weights: Array, *settings: Any) -> tuple[int, int]:
        return perceptron(self._all, labels, order, weights, *settings)


class SparseRows(Rows):
    """Rows of a sparse matrix of SciPy in CSR format; the column of ones is not stored."""

    def __init__(self, X: Any) -> None:
        self._inputs = X
        self._entries = X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)
        self.shape = (X.shape[0], X.shape[1] + 1)

    def scores(self, weights: Array) -> Array:
        return np.asarray(self._inputs @ weights[1:] + weights[0])

    def pulled(self, errors: Array) -> Array:
        return np.concatenate([[errors.sum()], self._inputs.T @ errors])

    def squared_lengths(self) -> Array:
        return 1 + np.asarray(self._inputs.multiply(self._inputs).sum(axis=1)).ravel()

    def squared_columns(self, weight: Array) -> Array:
        return np.concatenate([[weight.sum()], self._inputs.multiply(self._inputs).T @ weight])

    def largest_eigenvalue(self, weight: Array) -> float:
        root = sparse.diags_array(np.sqrt(weight))
        whole = root @ sparse.hstack([np.ones((self.shape[0], 1)), self._inputs]).tocsr()
        if min(whole.shape) < 3:
            return float(np.linalg.norm(whole.toarray(), 2) ** 2)
        start = np.ones(min(whole.shape))
        return float(svds(whole, 1, v0=start, return_singular_vectors=False)[0] ** 2)

    def descend(self, targets: Array, weight: Array, order: Any, weights: Array, *settings: Any) -> int:
        return stochastic_sparse(*self._entries, targets, weight, order, weights, *settings)

    def correct(self, labels: Any, order: Any, weights: Array, *settings: Any) -> tuple[int, int]:
        return perceptron_sparse(*self._entries, labels, order, weights, *settings)


def rows_of(X: Any) -> Rows:
    """Rows of an array or of a CSR matrix."""
    return SparseRows(X) if sparse.issparse(X) else DenseRows(X)


def safe_rate(rows: Rows, weight: Array, solver: str) -> float:
    """Learning rate at which gradient descent cannot diverge."""
    if solver == "stochastic":
        return float(1 / max((weight * rows.squared_lengths()).max(), 1e-300))
    return float(weight.sum() / rows.largest_eigenvalue(weight))


def settled(slope: Array, rows: Rows, weight: Array, scale: float, stochastic: bool) -> bool:
    """Whether the mean gradient is below 1e-4 of a single row's gradient, as in scikit-learn's logistic regression.

    Stochastic descent, in which every row moves the weights a little, uses 1e-3, as scikit-learn's stochastic descent.

    Parameters
    ----------
    slope
        The mean gradient, shape (columns,).
    scale
        Scale of the distance between target and prediction: 1 for probabilities, the spread of numbers.
    """
    reach = np.sqrt(rows.squared_columns(weight) / weight.sum())
    return bool((np.abs(slope) <= (1e-3 if stochastic else 1e-4) * scale * reach + 1e-300).all())
