"""A multiway tree in plain Python, the same tests in the same order as :class:`MultiwayTree`, and kernel perceptrons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["PlainTree", "plain_kernel_perceptron"]


def _entropy(counts: Sequence[int]) -> float:
    total = sum(counts)
    return -sum(c / total * math.log2(c / total) for c in counts if c)


class PlainTree:
    """Greedy growth by information gain, lists and dictionaries only."""

    def __init__(self, n_values: Sequence[int]) -> None:
        self.n_values = n_values

    def fit(self, rows: list[list[int]], labels: list[Any]) -> PlainTree:
        self.root = self._node(rows, labels, list(range(len(rows))), set())
        return self

    def _node(self, rows: list[list[int]], labels: list[Any], at: list[int], used: set[int]) -> Any:
        own = Counter(labels[i] for i in at)
        if len(own) < 2 or len(at) < 2:
            return own.most_common(1)[0][0] if own else None
        best, column = -1.0, None
        for j, n in enumerate(self.n_values):
            if j in used:
                continue
            inside = [Counter[Any]() for _ in range(n)]
            for i in at:
                inside[rows[i][j]][labels[i]] += 1
            if sum(1 for c in inside if c) < 2:
                continue
            rest = sum(sum(c.values()) / len(at) * _entropy(list(c.values())) for c in inside if c)
            gain = _entropy(list(own.values())) - rest
            if gain > best + 1e-12:
                best, column = gain, j
        if column is None:
            return own.most_common(1)[0][0]
        parts: list[list[int]] = [[] for _ in range(self.n_values[column])]
        for i in at:
            parts[rows[i][column]].append(i)
        return column, [self._node(rows, labels, part, used | {column}) for part in parts], own.most_common(1)[0][0]

    def predict_one(self, row: Sequence[int]) -> Any:
        node, above = self.root, None
        while isinstance(node, tuple):
            column, children, above = node
            node = children[row[column]]
        return above if node is None else node


def plain_kernel_perceptron(gram: np.ndarray, side: np.ndarray, orders: Sequence[np.ndarray]) -> np.ndarray:
    """Passes in the given orders, each row's score summed anew."""
    counts = np.zeros(len(side))
    for order in orders:
        for i in order:
            if side[i] * float(np.dot(counts * side, gram[i])) <= 0:
                counts[i] += 1
    return counts
