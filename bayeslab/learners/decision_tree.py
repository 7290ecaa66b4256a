r"""Learner ``decision_tree``: trees of tests that tell most about the class, one branch for every value.

A test is chosen by the information it gains,

.. math:: \mathrm{Gain}(A) = H(C) - \sum_v \frac{n_v}{n} H(C \mid A = v),

or by that over the information of the division itself (gain ratio), which does not favour columns of many values [1]_.
Number columns are cut in two where the class changes. Greedy growth goes on until the rows of a node agree; then
tests that chance explains are cut off again: of a node with leaves below it the deviation
:math:`\Delta = \sum_k \sum_c (n_{kc} - \hat n_{kc})^2 / \hat n_{kc}` from no relation at all is compared with the
:math:`\chi^2` distribution with (branches − 1)(classes − 1) degrees of freedom [2]_ (the source's first edition has the
sample size for the number of values). Instead, tests can be cut off that make the description of tree and exceptions
longer [3]_. Rows with a missing cell go down all branches, in proportion [1]_.

A tree is a set of rules, a path each (:meth:`MultiwayTree.rules`), and rules in order are a tree
(:meth:`MultiwayTree.from_rules`).

References
----------
.. [1] Quinlan (1986). Induction of decision trees. Machine Learning 1, 81-106; (1993) C4.5. Morgan Kaufmann.
.. [2] Russell, Norvig (2010). Artificial Intelligence: A Modern Approach, 3rd ed., sections 18.3 and 18.4.1.
.. [3] Quinlan, Rivest (1989). Inferring decision trees using the minimum description length principle. Information and
   Computation 80, 227-248.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import gammaln
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import Applies, Estimator, LearnerOptions
from bayeslab.learners.toolbox.tree_kernels import best_splits, grow

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "MultiwayTree",
    "Node",
    "Options",
    "Rule",
    "build",
    "deviation",
    "entropy",
    "examples",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = True


class Options(LearnerOptions):
    """Options of the tree."""

    applies: ClassVar[Applies] = {
        "significance": {"pruning": ("significance",)},
    }
    criterion: Literal["gain", "gain_ratio"] = Field("gain", description="What tests are chosen by.")
    significance: float | None = Field(
        0.05, gt=0, lt=1, description="Tests below which chance is as good are cut off at this level; null: none are."
    )
    pruning: Literal["significance", "bits"] = Field(
        "significance", description="What cuts tests off: chance, or a description in bits that they make longer."
    )
    equality: bool = Field(False, description="Tests of one value against the rest, not a branch for every value.")
    max_nodes: int | None = Field(None, ge=1, le=10**9, description="Growth, breadth first, ends at so many nodes.")
    min_gain: float = Field(0.0, ge=0, description="Growth stops early where no test gains more (bits).")
    min_rows: int = Field(2, ge=2, le=10**9, description="Nodes with fewer rows are leaves.")


def entropy(counts: Any) -> float:
    """Entropy of a distribution given by counts or probabilities, in bits."""
    p = np.asarray(counts, float)
    p = p[p > 0] / p.sum()
    return float(-(p * np.log2(p)).sum())


def deviation(counts: Any) -> tuple[float, int]:
    """Deviation Δ of a table (branches, classes) from no relation, and its degrees of freedom; empty rows left out."""
    table = np.asarray(counts, float)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    return float(((table - expected) ** 2 / expected).sum()), (table.shape[0] - 1) * (table.shape[1] - 1)


@dataclass
class Node:
    """A node of a tree.

    Attributes
    ----------
    counts : ndarray, shape (n_classes,)
        Weights of the training rows by class.
    column : int or None
        The column that is tested; None of a leaf.
    cut : float
        Of a number column: rows up to it go to the first child; of an equality test: the value.
    children : list of Node
    """

    counts: Array
    column: int | None = None
    cut: float = np.nan
    gain: float = 0.0
    children: list[Node] = field(default_factory=list)
    fallback: Array | None = None

    @property
    def distribution(self) -> Array:
        """Shares of the classes; of a node without rows those of its parent."""
        counts = self.counts if self.counts.sum() > 0 or self.fallback is None else self.fallback
        return np.asarray(counts / counts.sum())

    def walk(self) -> Iterator[Node]:
        """This node and all below."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Rule:
    """A path from the root to a leaf.

    Attributes
    ----------
    conditions : tuple of (int, str, float)
        Column, one of ``=``, ``!=``, ``<=``, ``>``, and value.
    label : object
        The class of the leaf.
    """

    conditions: tuple[tuple[int, str, float], ...]
    label: Any

    def covers(self, X: Any) -> NDArray[np.bool_]:
        """Which rows meet all conditions."""
        table = np.asarray(X, float)
        out = np.ones(len(table), bool)
        for column, sign, value in self.conditions:
            x = table[:, column]
            out &= {"=": x == value, "!=": x != value, "<=": x <= value, ">": x > value}[sign]
        return out


class MultiwayTree(ClassifierMixin, Estimator, options=Options):
    """A decision tree with a branch for every value of a column of codes.

    Parameters
    ----------
    categorical : tuple of int
        Columns of codes 0, 1, ...; all others are numbers.
    criterion : {"gain", "gain_ratio"}
    significance : float or None
        Level of the tests that are cut off after growth; None: none are.
    pruning : {"significance", "bits"}
        With ``bits`` tests are cut off that make the description of tree and rows longer, and the level is of no use.
    equality : bool
    max_nodes : int or None
        Growth, breadth first, ends at so many nodes.
    min_gain : float
    min_rows : int

    Attributes
    ----------
    root_ : Node
    """

    def __init__(
        self,
        categorical: tuple[int, ...] = (),
        criterion: str = "gain",
        significance: float | None = None,
        pruning: str = "significance",
        equality: bool = False,
        max_nodes: int | None = None,
        min_gain: float = 0.0,
        min_rows: int = 2,
    ) -> None:
        self.categorical, self.criterion, self.significance = categorical, criterion, significance
        self.pruning, self.equality, self.max_nodes = pruning, equality, max_nodes
        self.min_gain, self.min_rows = min_gain, min_rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow, then cut off what chance explains."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan")
        check_classification_targets(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._n_values = np.zeros(X.shape[1], np.int64)
        for j in self.categorical:
            observed = X[~np.isnan(X[:, j]), j]
            if np.any(observed < 0) or np.any(observed != np.floor(observed)):
                raise ValueError(
                    f"column {j} is one of codes 0, 1, ...; it has {observed[observed != np.floor(observed)][:1]}"
                )
            self._n_values[j] = int(observed.max()) + 1 if len(observed) else 1
        self.root_ = self._grown(np.ascontiguousarray(X), codes.astype(np.int64), weights)
        if self.pruning == "bits":
            self._shorten(self.root_, X.shape[1])
        elif self.significance is not None:
            _prune(self.root_, self.significance)
        return self

    def _grown(self, X: Array, codes: NDArray[np.int64], weights: Array) -> Node:
        n_classes = len(self.classes_)
        rows = np.flatnonzero(weights > 0)
        if not np.isnan(X).any():
            return self._compiled(X, codes, weights, rows)
        root = Node(np.bincount(codes[rows], weights[rows], n_classes))
        queue, n_nodes = deque([(root, rows, weights)]), 1
        while queue:
            node, rows, node_weights = queue.popleft()
            if len(rows) < self.min_rows or np.count_nonzero(node.counts) < 2:
                continue
            gain, info, cut = best_splits(X, codes, node_weights, rows, self._n_values, n_classes, bool(self.equality))
            column = self._chosen(gain, info, cut)
            if column is None:
                continue
            parts = self._parts(X[rows, column], column, cut[column])
            if self.max_nodes is not None and n_nodes + len(parts) > self.max_nodes:
                continue
            node.column, node.cut, node.gain = column, float(cut[column]), float(gain[column])
            known = sum(node_weights[rows[p]].sum() for p in parts)
            gone = np.isnan(X[rows, column])
            for p in parts:
                inside, part = rows[p | gone], node_weights
                if gone.any():
                    part = node_weights.copy()
                    part[rows[gone]] *= node_weights[rows[p]].sum() / known
                child = Node(np.bincount(codes[inside], part[inside], n_classes), fallback=node.distribution)
                node.children.append(child)
                queue.append((child, inside[part[inside] > 0], part))
            n_nodes += len(parts)
        return root

    def _compiled(self, X: Array, codes: NDArray[np.int64], weights: Array, rows: NDArray[np.int64]) -> Node:
        """The same tree of complete rows, grown in one compiled call."""
        n_classes = len(self.classes_)
        columns, cuts, gains, first, counts = grow(
            X,
            codes,
            weights,
            rows,
            self._n_values,
            n_classes,
            bool(self.equality),
            self.criterion == "gain_ratio",
            float(self.min_gain),
            int(self.min_rows),
            int(self.max_nodes or 0),
        )
        nodes = [Node(row) for row in counts]
        for node, column, cut, gain, at in zip(
            nodes, columns.tolist(), cuts.tolist(), gains.tolist(), first.tolist(), strict=True
        ):
            if column < 0:
                continue
            parts = 2 if self._n_values[column] == 0 or self.equality else int(self._n_values[column])
            node.column, node.cut, node.gain = column, cut, gain
            node.children = nodes[at : at + parts]
            for child in node.children:
                child.fallback = node.distribution
        return nodes[0]

    def _chosen(self, gain: Array, info: Array, cut: Array) -> int | None:
        """The column of the best test, the first of equals; None where none divides the rows or gains enough."""
        open_ = ~np.isnan(cut)
        if not open_.any() or gain[open_].max() < self.min_gain or (self.min_gain > 0 and gain.max() <= self.min_gain):
            return None
        value = np.where(open_, gain, -np.inf)
        if self.criterion == "gain_ratio":
            # Among tests of at least average gain: tiny divisions have large ratios.
            least = gain[open_].mean() - 1e-12
            value = np.where(open_ & (gain >= least), gain / np.maximum(info, 1e-300), -np.inf)
        return int(np.flatnonzero(value >= value.max() - 1e-12)[0])

    def _parts(self, values: Array, column: int, cut: float) -> list[NDArray[np.bool_]]:
        if self._n_values[column] == 0:
            return [values <= cut, values > cut]
        if self.equality:
            return [values == cut, (values != cut) & ~np.isnan(values)]
        return [values == v for v in range(self._n_values[column])]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Shares of the classes in the leaves; values that training rows did not have stop at the node above."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        out = np.zeros((len(X), len(self.classes_)))
        stack = [(self.root_, np.arange(len(X)), np.ones(len(X)))]
        while stack:
            node, rows, weight = stack.pop()
            if node.column is None:
                np.add.at(out, rows, weight[:, None] * node.distribution)
                continue
            values = X[rows, node.column]
            parts = self._parts(values, node.column, node.cut)
            gone = np.isnan(values)
            unknown = ~gone & ~np.any(parts, axis=0)
            if unknown.any():
                np.add.at(out, rows[unknown], weight[unknown, None] * node.distribution)
            sizes = np.array([child.counts.sum() for child in node.children])
            for part, child, share in zip(parts, node.children, sizes / sizes.sum(), strict=True):
                if part.any():
                    stack.append((child, rows[part], weight[part]))
                if gone.any() and share > 0:
                    stack.append((child, rows[gone], weight[gone] * share))
        return out

    def predict(self, X: Any) -> np.ndarray:
        """The most frequent class of the leaf; of equals the first."""
        p = self.predict_proba(X)
        return np.asarray(self.classes_[(p >= p.max(axis=1, keepdims=True) - 1e-12).argmax(axis=1)])

    @property
    def n_nodes_(self) -> int:
        return sum(1 for _ in self.root_.walk())

    @property
    def n_leaves_(self) -> int:
        return sum(1 for node in self.root_.walk() if node.column is None)

    @property
    def depth_(self) -> int:
        return _depth(self.root_)

    def rules(self) -> list[Rule]:
        """The tree as rules, one for each leaf: a disjunction of conjunctions for every class."""
        check_is_fitted(self)
        return list(self._rules(self.root_, ()))

    def _rules(self, node: Node, path: tuple[tuple[int, str, float], ...]) -> Iterator[Rule]:
        if node.column is None:
            yield Rule(path, self.classes_[node.distribution.argmax()])
            return
        for k, child in enumerate(node.children):
            if self._n_values[node.column] == 0:
                condition = (node.column, ("<=", ">")[k], node.cut)
            elif self.equality:
                condition = (node.column, ("=", "!=")[k], node.cut)
            else:
                condition = (node.column, "=", float(k))
            yield from self._rules(child, (*path, condition))

    def description_length(self) -> float:
        """Bits of the tree and of the training rows that its leaves get wrong [3]_.

        A node says whether it is a leaf, a test which column (and of numbers which of the cuts); a leaf its class, and
        which of its rows are exceptions.
        """
        check_is_fitted(self)
        return float(self._bits(self.root_, len(self._n_values)))

    def _bits(self, node: Node, columns: int) -> float:
        if node.column is None:
            return self._leaf_bits(node)
        bits, left = self._test_bits(node, columns)
        return bits + sum(self._bits(child, left) for child in node.children)

    def _leaf_bits(self, node: Node) -> float:
        n, right = node.counts.sum(), node.counts.max(initial=0.0)
        wrong = n - right
        which = (gammaln(n + 1) - gammaln(wrong + 1) - gammaln(right + 1)) / np.log(2)
        return float(1 + np.log2(len(self.classes_)) + np.log2(n + 1) + which)

    def _test_bits(self, node: Node, columns: int) -> tuple[float, int]:
        """Bits of a test, and the columns that are left below it: codes are asked once, numbers again and again."""
        coded = self._n_values[node.column] > 0
        cuts = 0.0 if coded else np.log2(max(node.counts.sum(), 1))
        return float(1 + np.log2(max(columns, 1)) + cuts), max(columns - 1, 1) if coded else columns

    def _shorten(self, node: Node, columns: int) -> float:
        """Bits of a node once tests below it that cost more than they save are cut off."""
        leaf = self._leaf_bits(node)
        if node.column is None:
            return leaf
        bits, left = self._test_bits(node, columns)
        whole = bits + sum(self._shorten(child, left) for child in node.children)
        if whole < leaf:
            return whole
        node.column, node.children = None, []
        return leaf

    @classmethod
    def from_rules(cls, rules: Sequence[Rule], n_values: Sequence[int], equality: bool = False) -> Self:
        """A tree that answers what the first rule does that covers a row: of a list, or of another tree.

        The first condition of the first rule that is still open is tested; in each branch the rules are what is left
        of them there. Of the rules of a tree it is that tree again.

        Parameters
        ----------
        rules
            In order. All rows are covered by one of them, for instance by a last one without conditions.
        n_values
            Number of values of each column of codes; 0 of a number column.
        equality
            Tests of one value against the rest, not a branch for every value.
        """
        made = cls(tuple(j for j, n in enumerate(n_values) if n), equality=equality)
        made.classes_ = np.unique([rule.label for rule in rules])
        made.n_features_in_, made._n_values = len(n_values), np.array(n_values, np.int64)
        known = tuple((-np.inf, np.inf) if n == 0 else tuple(range(n)) for n in n_values)
        made.root_ = made._of_rules(list(rules), known)
        return made

    def _of_rules(self, rules: list[Rule], known: tuple[tuple[float, ...], ...]) -> Node:
        if not rules:
            raise ValueError("the rules do not cover all rows: let a last one have no conditions")
        if not rules[0].conditions:
            return Node((self.classes_ == rules[0].label).astype(float))
        column, _, value = rules[0].conditions[0]
        possible = known[column]
        if self._n_values[column] == 0:
            parts: list[tuple[float, ...]] = [(possible[0], value), (value, possible[1])]
        elif self.equality:
            parts = [(value,), tuple(v for v in possible if v != value)]
        else:
            parts = [(v,) for v in possible]
        node = Node(np.zeros(len(self.classes_)), column, float(value))
        for part in parts:
            below = (*known[:column], part, *known[column + 1 :])
            left = [r for r in (_left(rule, below, self._n_values) for rule in rules) if r is not None]
            child = self._of_rules(left, below)
            node.children.append(child)
            node.counts = node.counts + child.counts
        return node


def _left(rule: Rule, known: tuple[tuple[float, ...], ...], n_values: NDArray[np.int64]) -> Rule | None:
    """A rule without the conditions that are known to hold; None where one is known not to."""
    open_ = []
    for column, sign, value in rule.conditions:
        possible = known[column]
        if n_values[column] == 0:
            low, high = possible
            truth = sign == "<=" if high <= value else sign == ">" if low >= value else None
        else:
            truth = sign == "!=" if value not in possible else sign == "=" if len(possible) == 1 else None
        if truth is False:
            return None
        if truth is None:
            open_.append((column, sign, value))
    return Rule(tuple(open_), rule.label)


def _depth(node: Node) -> int:
    return 1 + max((_depth(child) for child in node.children), default=-1)


def _prune(node: Node, level: float) -> None:
    """Bottom up: a test above leaves is cut off when its deviation is what chance gives."""
    from scipy.stats import chi2

    for child in node.children:
        _prune(child, level)
    if node.column is None or any(child.column is not None for child in node.children):
        return
    statistic, freedom = deviation(np.array([child.counts for child in node.children]))
    if freedom == 0 or chi2.sf(statistic, freedom) > level:
        node.column, node.children = None, []


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The tree."""
    return MultiwayTree(categorical, **options.model_dump())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Size, depth and bits of the tree."""
    return {
        "nodes": ((), np.array(float(estimator.n_nodes_))),
        "leaves": ((), np.array(float(estimator.n_leaves_))),
        "depth": ((), np.array(float(estimator.depth_))),
        "bits": ((), np.array(estimator.description_length())),
    }


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks."""
    return [MultiwayTree(), MultiwayTree(criterion="gain_ratio", significance=0.05)]
