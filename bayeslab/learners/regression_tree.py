r"""Learner ``regression_tree``: a regression tree with a linear function in every leaf.

Each split minimises the squared error around the least squares fits on its two sides. Growth stops when a side would
have too few rows or the error decreases by less than a share of the total. With ``leaves: constant`` it is an ordinary
regression tree, grown by scikit-learn with all possible cuts.

References
----------
.. [1] Breiman, Friedman, Olshen, Stone (1984). Classification and Regression Trees. Wadsworth.
.. [2] Quinlan (1992). Learning with continuous classes. AI '92.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import MANY, Applies, Estimator, LearnerOptions

__all__ = ["CATEGORIES", "MISSING", "SCALE", "TASKS", "Leaf", "LinearTree", "Options", "build", "examples", "reported"]

Array = NDArray[np.float64]

TASKS = ("regression",)
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = False
MISSING = False


class Options(LearnerOptions):
    """Options of the tree."""

    applies: ClassVar[Applies] = {
        "cuts": {"leaves": ("linear",)},
    }
    leaves: Literal["linear", "constant"] = Field("linear", description="Function in each leaf.")
    min_rows: int = Field(10, ge=2, le=10**9, description="Minimum number of rows in a leaf.")
    min_gain: float = Field(
        0.01, ge=0, lt=1, description="Minimum decrease of the squared error by a split, as a share of the total."
    )
    max_depth: int | None = Field(None, ge=0, le=10**9, description="Maximum depth; default: no limit.")
    cuts: int = Field(64, ge=1, le=MANY, description="Cuts tried per column for linear leaves, at quantiles.")


@dataclass
class Leaf:
    """A node: a leaf while ``column`` is None.

    Attributes
    ----------
    weights : ndarray
        Intercept and coefficients.
    """

    weights: Array
    rows: int
    column: int | None = None
    cut: float = np.nan
    sides: list[Leaf] = field(default_factory=list)

    def walk(self) -> Iterator[Leaf]:
        """Yield this node and all its descendants."""
        yield self
        for side in self.sides:
            yield from side.walk()


class LinearTree(RegressorMixin, Estimator, options=Options):
    """A regression tree with linear leaves.

    Parameters
    ----------
    leaves : {"linear", "constant"}
    min_rows : int
    min_gain : float
    max_depth : int or None
    cuts : int

    Attributes
    ----------
    root_ : Leaf
    n_leaves_ : int
    """

    def __init__(
        self,
        leaves: str = "linear",
        min_rows: int = 10,
        min_gain: float = 0.01,
        max_depth: int | None = None,
        cuts: int = 64,
    ) -> None:
        self.leaves, self.min_rows, self.min_gain, self.max_depth, self.cuts = (
            leaves,
            min_rows,
            min_gain,
            max_depth,
            cuts,
        )

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the tree greedily."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, float)
        # Sums of squares of very large or small columns would lose all digits.
        level = float(y.mean())
        if self.leaves == "constant":
            self.root_ = self._constant(X, y - level)
        else:
            self.root_ = self._linear(X, y - level)
        nodes = list(self.root_.walk())
        for node in nodes:
            node.weights[0] += level
        self.n_leaves_ = sum(node.column is None for node in nodes)
        return self

    def _constant(self, X: Array, y: Array) -> Leaf:
        """Return scikit-learn's tree on the ranks of the columns: it uses single precision, and only order matters."""
        spread = float(y.std())
        if self.max_depth == 0 or spread == 0 or len(y) < 2 * self.min_rows:
            return Leaf(np.array([y.mean()]), len(y))
        values = [np.unique(column) for column in X.T]
        ranks = np.column_stack([np.searchsorted(v, column) for v, column in zip(values, X.T, strict=True)])
        grown = DecisionTreeRegressor(
            max_depth=self.max_depth,
            min_samples_leaf=self.min_rows,
            min_impurity_decrease=max(self.min_gain, 1e-12),
            random_state=0,
        )
        tree = grown.fit(ranks, y / spread).tree_
        nodes = [Leaf(spread * tree.value[i, :, 0], int(tree.n_node_samples[i])) for i in range(tree.node_count)]
        for i, j in enumerate(tree.feature):
            if tree.children_left[i] >= 0:
                below = int(tree.threshold[i])
                nodes[i].column, nodes[i].cut = int(j), float(values[j][below] / 2 + values[j][below + 1] / 2)
                nodes[i].sides = [nodes[tree.children_left[i]], nodes[tree.children_right[i]]]
        return nodes[0]

    def _linear(self, X: Array, y: Array) -> Leaf:
        """Return the tree with linear leaves."""
        middle = X.mean(axis=0)
        spread = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        rows = np.column_stack([np.ones(len(X)), (X - middle) / spread])
        root = self._node(X, rows, y, np.arange(len(X)), self.min_gain * float((y**2).sum()), 0)
        for node in root.walk():
            node.weights[1:] /= spread
            node.weights[0] -= node.weights[1:] @ middle
        return root

    def _node(self, X: Array, rows: Array, y: Array, at: NDArray[np.int64], least: float, depth: int) -> Leaf:
        weights, error = _fitted(rows[at].T @ rows[at], rows[at].T @ y[at], float(y[at] @ y[at]))
        node = Leaf(weights, len(at))
        best = None
        if self.max_depth is None or depth < self.max_depth:
            best = self._best_cut(X, rows, y, at)
        if best is None or error - best[0] <= max(least, 1e-10 * float(y[at] @ y[at])):
            return node
        _, node.column, node.cut = best
        under = X[at, node.column] <= node.cut
        node.sides = [self._node(X, rows, y, part, least, depth + 1) for part in (at[under], at[~under])]
        return node

    def _best_cut(self, X: Array, rows: Array, y: Array, at: NDArray[np.int64]) -> tuple[float, int, float] | None:
        """Return squared error, column and position of the best cut."""
        least = max(self.min_rows, 1)
        best: tuple[float, int, float] | None = None
        if len(at) < 2 * least:
            return None
        for j in range(X.shape[1]):
            order = at[np.argsort(X[at, j], kind="stable")]
            x, a, t = X[order, j], rows[order], y[order]
            places = np.flatnonzero(np.diff(x) > 0) + 1
            places = places[(places >= least) & (places <= len(order) - least)]
            if len(places) > self.cuts:
                places = places[np.unique(np.linspace(0, len(places) - 1, self.cuts).round().astype(int))]
            if not len(places):
                continue
            # Sums over the rows below each cut, accumulated from sums between cuts.
            edges = np.concatenate([[0], places])
            squares = np.cumsum(np.add.reduceat(a[:, :, None] * a[:, None, :], edges, axis=0)[:-1], axis=0)
            products = np.cumsum(np.add.reduceat(a * t[:, None], edges, axis=0)[:-1], axis=0)
            totals = np.cumsum(np.add.reduceat(t * t, edges)[:-1])
            whole = (a.T @ a, a.T @ t, float(t @ t))
            for k, place in enumerate(places):
                below = (squares[k], products[k], float(totals[k]))
                above = (whole[0] - below[0], whole[1] - below[1], whole[2] - below[2])
                error = _fitted(*below)[1] + _fitted(*above)[1]
                if best is None or error < best[0]:
                    best = error, j, float((x[place] + x[place - 1]) / 2)
        return best

    def predict(self, X: Any) -> np.ndarray:
        """Return the value of the linear function of each row's leaf."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        rows = np.column_stack([np.ones(len(X)), X if self.leaves == "linear" else X[:, :0]])
        out, stack = np.empty(len(X)), [(self.root_, np.arange(len(X)))]
        while stack:
            node, at = stack.pop()
            if node.column is None:
                out[at] = rows[at] @ node.weights
                continue
            under = X[at, node.column] <= node.cut
            stack += [(node.sides[0], at[under]), (node.sides[1], at[~under])]
        return out


def _fitted(squares: Array, products: Array, total: float) -> tuple[Array, float]:
    """Least squares weights and error from sums of products; a tiny ridge handles constant columns."""
    scale = np.trace(squares) / len(squares)
    weights = np.linalg.solve(squares + 1e-10 * max(scale, 1e-300) * np.eye(len(squares)), products)
    return weights, max(total - 2 * float(weights @ products) + float(weights @ squares @ weights), 0.0)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The tree."""
    return LinearTree(**options.model_dump())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Number of leaves."""
    return {"leaves": ((), np.array(float(estimator.n_leaves_)))}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [LinearTree(), LinearTree(leaves="constant", min_rows=2)]
