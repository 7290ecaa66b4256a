r"""Learner ``decision_tree``: trees that split on the most informative column, with one branch for every value.

A test is chosen by the information it gains,

.. math:: \mathrm{Gain}(A) = H(C) - \sum_v \frac{n_v}{n} H(C \mid A = v),

or by the gain ratio, the gain divided by the entropy of the split itself, which does not favour columns with many
values [1]_. Numeric columns are split in two at a place where the class changes. The tree is grown greedily until the
rows of each node agree, and is then pruned: for a node whose children are leaves, the deviation from independence
:math:`\Delta = \sum_k \sum_c (n_{kc} - \hat n_{kc})^2 / \hat n_{kc}` is compared with the :math:`\chi^2` distribution
with (branches − 1)(classes − 1) degrees of freedom [2]_ (the first edition of the source has the sample size in place
of the number of values). Alternatively, tests that lengthen the description of the tree and its exceptions are pruned
[3]_. Rows with a missing cell go down all branches, in proportion [1]_.

A tree is equivalent to a set of rules, one for each path (:meth:`MultiwayTree.rules`); conversely, ordered rules define
a tree (:meth:`MultiwayTree.from_rules`).

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

from bayeslab.errors import OptionError
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
    "information_gain",
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
    criterion: Literal["gain", "gain_ratio"] = Field("gain", description="Criterion by which tests are chosen.")
    significance: float | None = Field(
        0.05, gt=0, lt=1, description="Significance level of the pruning test; null: no pruning."
    )
    pruning: Literal["significance", "bits"] = Field(
        "significance", description="Pruning criterion: a significance test, or the description length in bits."
    )
    equality: bool = Field(False, description="Split one value from the rest instead of a branch for every value.")
    max_nodes: int | None = Field(None, ge=1, le=10**9, description="Maximum number of nodes; growth is breadth first.")
    min_gain: float = Field(0.0, ge=0, description="A node becomes a leaf if no test gains more than this, in bits.")
    min_rows: int = Field(2, ge=2, le=10**9, description="Nodes with fewer rows are leaves.")


def entropy(counts: Any) -> float:
    """Return the entropy in bits of a distribution given by counts or probabilities."""
    p = np.asarray(counts, float)
    p = p[p > 0] / p.sum()
    return float(-(p * np.log2(p)).sum())


def information_gain(values: Any, classes: Any) -> float:
    """Return the information gain of a column about the classes, in bits: H(class) - H(class | column).

    It is the mutual information of two columns of names, by which a tree with ``criterion: gain`` chooses its tests.

    Parameters
    ----------
    values, classes
        One name or code for each row, shape (rows,); a missing cell is a value of its own.

    Raises
    ------
    OptionError
        The two differ in length, or are empty.

    References
    ----------
    Quinlan (1986). Induction of decision trees. Machine Learning 1, 81-106.

    Examples
    --------
    >>> round(information_gain(["full", "none", "full", "some"], ["no", "no", "yes", "yes"]), 4)
    0.5
    """
    names, outcomes = (np.array([str(value) for value in np.ravel(one)]) for one in (values, classes))
    if len(names) != len(outcomes) or not len(names):
        raise OptionError(
            f"each row has a value and a class; given: {len(names)} values and {len(outcomes)} classes",
            code="wrong-shape",
        )
    of_value, of_class = (np.unique(one, return_inverse=True)[1] for one in (names, outcomes))
    counts = np.zeros((of_value.max() + 1, of_class.max() + 1))
    np.add.at(counts, (of_value, of_class), 1)
    return float(entropy(counts.sum(axis=0)) - sum(row.sum() / len(names) * entropy(row) for row in counts))


def deviation(counts: Any) -> tuple[float, int]:
    """Return the χ² deviation Δ of a table (branches, classes) from independence, and its degrees of freedom.

    Empty branches are ignored.
    """
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
        The column that is tested; None for a leaf.
    cut : float
        For a numeric column: rows up to the cut go to the first child. For an equality test: the value.
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
        """Class frequencies; those of the parent if the node has no rows."""
        counts = self.counts if self.counts.sum() > 0 or self.fallback is None else self.fallback
        return np.asarray(counts / counts.sum())

    def walk(self) -> Iterator[Node]:
        """Yield this node and all its descendants."""
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
        """Return which rows meet all conditions."""
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
        Columns of codes 0, 1, ...; all other columns are numeric.
    criterion : {"gain", "gain_ratio"}
    significance : float or None
        Significance level of the pruning test; None: no pruning.
    pruning : {"significance", "bits"}
        With ``bits``, tests that lengthen the description of tree and rows are pruned, and the level is ignored.
    equality : bool
    max_nodes : int or None
        Maximum number of nodes; growth is breadth first.
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
        """Grow the tree, then prune it."""
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
        """Return the tree for rows without missing cells, grown in one compiled call."""
        n_classes = len(self.classes_)
        columns, cuts, gains, first, counts = grow(
            np.require(X, requirements=["C", "W"]),  # of one type: the kernel is compiled once
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
        """Return the column of the best test, the first on a tie; None if no test splits the rows and gains enough."""
        open_ = ~np.isnan(cut)
        if not open_.any() or gain[open_].max() < self.min_gain or (self.min_gain > 0 and gain.max() <= self.min_gain):
            return None
        value = np.where(open_, gain, -np.inf)
        if self.criterion == "gain_ratio":
            # Only tests of at least average gain compete: very uneven splits have large ratios.
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
        """Return the class frequencies of the leaves; a value absent from training stops at the node that tests it."""
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
        """Return the most frequent class of the leaf; the first on a tie."""
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
        """Return the tree as rules, one per leaf: a disjunction of conjunctions for every class."""
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
        """Return the description length in bits of the tree and of the training rows that it misclassifies [3]_.

        Each node encodes whether it is a leaf. A test encodes its column (and, for numbers, its cut); a leaf encodes
        its class and which of its rows are exceptions.
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
        """Return the bits of a test and the number of columns left below it; only numeric columns are tested again."""
        coded = self._n_values[node.column] > 0
        cuts = 0.0 if coded else np.log2(max(node.counts.sum(), 1))
        return float(1 + np.log2(max(columns, 1)) + cuts), max(columns - 1, 1) if coded else columns

    def _shorten(self, node: Node, columns: int) -> float:
        """Prune the tests below a node that cost more than they save, and return the bits of the node."""
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
        """Return the tree equivalent to ordered rules: a row gets the label of the first rule that covers it.

        Each node tests the first undecided condition of the first rule; the branches keep the rules that are still
        possible. The rules of a tree give the same tree again.

        Parameters
        ----------
        rules
            The rules in order. Every row must be covered, for instance by a last rule without conditions.
        n_values
            Number of values of each column of codes; 0 for a numeric column.
        equality
            Split one value from the rest instead of a branch for every value.
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
    """Return a rule without the conditions known to hold; None if one is known not to hold."""
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
    """Prune bottom up: remove a test above leaves if its deviation is not significant."""
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
    """Return the size, depth and description length of the tree."""
    return {
        "nodes": ((), np.array(float(estimator.n_nodes_))),
        "leaves": ((), np.array(float(estimator.n_leaves_))),
        "depth": ((), np.array(float(estimator.depth_))),
        "bits": ((), np.array(estimator.description_length())),
    }


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [MultiwayTree(), MultiwayTree(criterion="gain_ratio", significance=0.05)]
