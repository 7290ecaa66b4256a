r"""The tree kernel: shared fragments of two trees, where larger fragments count less.

A fragment of a tree is rooted at a node and contains, for each of its nodes, either all children or none. A fragment
with r nodes that have children has the weight :math:`\lambda^r`, and the kernel is the weighted inner product of the
fragment counts, :math:`K(s, t) = \sum_f \lambda^{r(f)} n_f(s)\, n_f(t)`. There are exponentially many fragments, but
they need not be listed: with :math:`C(a, b)` the contribution of the fragments rooted at the nodes a and b,

.. math:: C(a, b) = \lambda \prod_k \bigl(1 + C(a_k, b_k)\bigr)

if both nodes have the same label and children with the same labels, else 0; and :math:`K = \sum_{ab} C(a, b)` [1]_.
Division by :math:`\sqrt{K(s, s) K(t, t)}` prevents large trees from outweighing small ones. It is a Mercer kernel.

References
----------
.. [1] Collins, Duffy (2001). Convolution kernels for natural language. NIPS 14.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import OptionError

__all__ = ["TreeKernel", "read_tree"]

Tree = tuple[Any, ...]

_PIECES = re.compile(r"[()]|[^\s()]+")


def read_tree(text: str) -> Tree:
    """Parse a bracketed tree, ``(S (NP John) (VP (V sees) (NP Mary)))``: label first, then the children.

    Raises
    ------
    OptionError
        The brackets do not match, or a label is missing.
    """
    stack: list[list[Any]] = [[]]
    for piece in _PIECES.findall(text):
        if piece == "(":
            stack.append([])
        elif piece != ")":
            stack[-1].append(piece)
        elif len(stack) == 1 or not stack[-1] or not isinstance(stack[-1][0], str):
            stack = []
            break
        else:
            stack[-2].append(tuple(stack[-1]))
            stack.pop()
    if len(stack) != 1 or len(stack[0]) != 1 or not isinstance(stack[0][0], tuple):
        raise OptionError(
            f"a tree in brackets is needed, such as (S (NP John) (VP sleeps)); given: {text[:60]!r}", code="syntax"
        )
    tree: Tree = stack[0][0]
    return tree


@dataclass(frozen=True)
class TreeKernel:
    """The tree kernel; call it with one set of trees or two.

    It can be given as ``kernel`` to :class:`bayeslab.learners.svm.SVMClassifier`, which then learns from trees.

    Attributes
    ----------
    decay : float
        Factor of the weight of a fragment for each node with children, in (0, 1]; if it is small, large fragments
        hardly count.
    normalise : bool
        Whether to scale so that each tree has the value 1 with itself.

    Raises
    ------
    OptionError
        The decay is not in (0, 1].

    Examples
    --------
    >>> from bayeslab.learners.toolbox.tree_kernel import TreeKernel
    >>> kernel = TreeKernel(1.0, normalise=False)
    >>> kernel(["(NP (D the) (N dog))"], ["(NP (D the) (N dog))", "(NP (D the) (N cat))"]).tolist()
    [[6.0, 3.0]]
    """

    decay: float = 0.4
    normalise: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.decay <= 1:
            raise OptionError(f"decay is above 0 and at most 1, not {self.decay!r}", code="out-of-range")

    def __call__(self, trees: Sequence[Any], others: Sequence[Any] | None = None) -> Any:
        """Kernel values, shape (trees, others).

        Parameters
        ----------
        trees, others
            Bracketed trees, or tuples of a label and children, which are labels or tuples; ``others`` defaults to the
            trees themselves.
        """
        from bayeslab.learners.toolbox.subtree_kernels import fragments, table

        if isinstance(trees, str) or isinstance(others, str):
            raise OptionError("a list of trees is needed, not a single tree", code="wrong-type")
        same = others is None or others is trees
        codes: dict[Hashable, int] = {}
        parts = [_nodes(tree, codes) for tree in (trees if same else [*trees, *([] if others is None else others)])]
        codes_of, first, inner = (np.concatenate([np.zeros(0, np.int64), *(p[k] for p in parts)]) for k in range(3))
        node_ends, inner_ends = (np.cumsum([0, *(len(p[k]) for p in parts)]) for k in (0, 2))
        values = table(codes_of, first, inner, node_ends, inner_ends, len(trees), self.decay, same)
        if not self.normalise:
            return values
        squared_norms = np.array([fragments(p, f, q, p, f, q, self.decay) for p, f, q in parts])
        return values / np.sqrt(
            np.outer(squared_norms[: len(trees)], squared_norms if same else squared_norms[len(trees) :])
        )


def _nodes(tree: Any, codes: dict[Hashable, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Productions of the inner nodes, children first, and the positions of their inner children."""
    root = read_tree(tree) if isinstance(tree, str) else tree
    if not isinstance(root, tuple) or len(root) < 2:
        raise OptionError(
            f"a tree is a tuple of a label and children, or text in brackets, not {root!r}", code="wrong-type"
        )
    productions: list[int] = []
    first, inner = [0], []
    # No recursion, so that chains may have any length. Each node is visited before and after its children.
    stack: list[tuple[Tree, list[int] | None]] = [(root, None)]
    places: list[list[int]] = [[]]
    while stack:
        node, mine = stack.pop()
        below = [child for child in node[1:] if isinstance(child, tuple) and len(child) > 1]
        if mine is None:
            places.append([])
            stack.append((node, places[-1]))
            stack += [(child, None) for child in reversed(below)]
            continue
        places.pop()
        # The label records whether a node has children.
        right = tuple((c[0], len(c) > 1) if isinstance(c, tuple) else (c, False) for c in node[1:])
        productions.append(codes.setdefault((node[0], right), len(codes)))
        inner += mine
        first.append(len(inner))
        places[-1].append(len(productions) - 1)
    return np.array(productions, np.int64), np.array(first, np.int64), np.array(inner, np.int64)
