"""Kernel of the tree kernel: common fragments of trees given as arrays of nodes, children before parents."""

from __future__ import annotations

import numpy as np

from bayeslab.compiled import kernel

__all__ = ["fragments", "table"]


@kernel
def fragments(
    a: np.ndarray, a_first: np.ndarray, a_inner: np.ndarray, b: np.ndarray, b_first: np.ndarray, b_inner: np.ndarray,
    decay: float,
) -> float:  # fmt: skip
    """Sum over pairs of nodes of the weights of the common fragments rooted at both.

    ``a`` holds the code of the production of each node. ``a_inner`` holds the positions of the children that have
    children themselves; those of a node run from its ``a_first`` to that of the next node.
    """
    n, m = a.shape[0], b.shape[0]
    common = np.zeros((n, m))
    total = 0.0
    for i in range(n):
        for j in range(m):
            if a[i] != b[j]:
                continue
            value = decay
            # Nodes with equal productions have equally many children with children.
            for k in range(a_first[i + 1] - a_first[i]):
                value *= 1.0 + common[a_inner[a_first[i] + k], b_inner[b_first[j] + k]]
            common[i, j] = value
            total += value
    return total


@kernel
def table(
    codes: np.ndarray, first: np.ndarray, inner: np.ndarray, node_ends: np.ndarray, inner_ends: np.ndarray, n: int,
    decay: float, same: bool,
) -> np.ndarray:  # fmt: skip
    """Kernel values of the first n trees with the others, or with themselves; the trees are concatenated."""
    others = node_ends.shape[0] - 1 - n
    m = n if same else others
    out = np.zeros((n, m))
    for i in range(n):
        a, c = node_ends[i], node_ends[i + 1]
        for j in range(i if same else 0, m):
            t = j if same else n + j
            b, d = node_ends[t], node_ends[t + 1]
            out[i, j] = fragments(
                codes[a:c], first[a + i : c + i + 1], inner[inner_ends[i] : inner_ends[i + 1]],
                codes[b:d], first[b + t : d + t + 1], inner[inner_ends[t] : inner_ends[t + 1]],
                decay,
            )  # fmt: skip
            if same:
                out[j, i] = out[i, j]
    return out
