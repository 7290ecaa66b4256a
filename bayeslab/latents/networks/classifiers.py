"""Bayes nets as classifiers: their structures, and class probabilities of rows.

In naive Bayes all attributes are children of the class and conditionally independent given it. In a tree-augmented
network (TAN) each attribute but one has another attribute as second parent. Of all such trees of attributes, TAN has
the largest likelihood: the tree maximises the sum of conditional mutual informations given the class. Any net
classifies. Where the class's Markov blanket is observed, the class probabilities are the normalised product of the
tables that contain the class; otherwise the missing cells are summed out.

References
----------
.. [1] Friedman, Geiger, Goldszmidt (1997). Bayesian network classifiers. Machine Learning 29, 131-163.
.. [2] Chow, Liu (1968). Approximating discrete probability distributions with dependence trees. IEEE Transactions on
   Information Theory 14, 462-467.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from bayeslab.errors import DataError, EvidenceError, ModelError, hint
from bayeslab.latents.networks.counting import Array, Codes, Families, family_counts, packed
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["classify", "conditional_mutual_information", "naive_bayes", "tan"]

type States = Mapping[str, tuple[str, ...]]
type Parents = dict[str, tuple[str, ...]]


def naive_bayes(variables: Iterable[str], target: str) -> Parents:
    """The structure of naive Bayes: the class is the only parent of every attribute.

    Parameters
    ----------
    variables : iterable of str
        All variables in order; may include the target.
    target : str
        The class.
    """
    return {v: () if v == target else (target,) for v in dict.fromkeys((*variables, target))}


def tan(codes: Codes, states: States, target: str, weights: Array | None = None, root: str | None = None) -> Parents:
    """The structure of the most likely tree-augmented naive Bayes net [1]_.

    Parameters
    ----------
    codes : ndarray of int, shape (n_rows, n_variables)
        State indices, columns in the order of ``states``. Rows in which an attribute of a pair or the class is missing
        do not count for that pair.
    states : mapping of str to tuple of str
    target : str
        The class.
    weights : ndarray, optional
        Weight of each row; 1 if left out.
    root : str, optional
        The attribute whose only parent is the class; the first if left out. The choice does not change the
        distribution.

    Returns
    -------
    dict of str to tuple of str
        Parents of each variable, the class first. Of equally likely trees, the first in the order of ``states``.
    """
    attributes = [v for v in _checked(states, target) if v != target]
    root = root or (attributes[0] if attributes else target)
    if root not in attributes and attributes:
        raise ModelError(f"the root '{root}' is not an attribute{hint(root, attributes)}", code="unknown-variable")
    information = conditional_mutual_information(codes, states, target, weights)
    edges = sorted(((-information[a, b], a, b) for a, b in combinations(range(len(attributes)), 2)))
    tree, joined = nx.Graph(), nx.utils.UnionFind(range(len(attributes)))
    tree.add_nodes_from(range(len(attributes)))
    for _, a, b in edges:
        if joined[a] != joined[b]:
            joined.union(a, b)
            tree.add_edge(a, b)
    out: Parents = {v: () if v == target else (target,) for v in states}
    for parent, child in nx.bfs_edges(tree, attributes.index(root)) if attributes else ():
        out[attributes[child]] = (target, attributes[parent])
    return out


def conditional_mutual_information(codes: Codes, states: States, target: str, weights: Array | None = None) -> Array:
    """I(A; B | class) in nats for every pair of attributes, in the order of ``states`` without the class.

    Parameters
    ----------
    codes, states, target, weights
        As in :func:`tan`.

    Returns
    -------
    ndarray, shape (n_attributes, n_attributes)
        Symmetric; the diagonal is 0.
    """
    names = _checked(states, target)
    t = names.index(target)
    attributes = [i for i in range(len(names)) if i != t]
    pairs = list(combinations(range(len(attributes)), 2))
    families = [(t, attributes[a], attributes[b]) for a, b in pairs]
    cards = np.array([len(s) for s in states.values()], dtype=np.int64)
    out = np.zeros((len(attributes), len(attributes)))
    for (a, b), n in zip(pairs, family_counts(codes, cards, families, weights), strict=True):
        out[a, b] = out[b, a] = _information(n)
    return out


def _information(counts: Array) -> float:
    """I(A; B | C) of counts with the axes (C, A, B)."""
    total = counts.sum()
    if not total > 0:
        return 0.0
    terms = xlogy(counts, counts).sum() + xlogy(counts.sum(axis=(1, 2)), counts.sum(axis=(1, 2))).sum()
    terms -= xlogy(counts.sum(axis=2), counts.sum(axis=2)).sum() + xlogy(counts.sum(axis=1), counts.sum(axis=1)).sum()
    return max(0.0, float(terms / total))


def classify(network: DiscreteNetwork, target: str, codes: Codes) -> Array:
    """P(class | other cells of the row), for every row.

    Parameters
    ----------
    network : DiscreteNetwork
    target : str
        The class. Its column in ``codes`` is ignored.
    codes : ndarray of int, shape (n_rows, n_variables)
        State indices, columns in the order of ``network.states``; -1 where missing.

    Returns
    -------
    ndarray, shape (n_rows, n_classes)

    Raises
    ------
    EvidenceError
        A row has probability zero for every class.
    """
    names = _checked(network.states, target)
    t = names.index(target)
    families = Families.of(network.states, network.parents)
    rows = packed(codes, families.cards).T.astype(np.int64)
    rows[:, t] = -1
    relevant = [f for f, family in enumerate(families.families) if t in family]
    childless = {v for v in range(len(names)) if not any(v in f[:-1] for f in families.families)}
    scores = np.zeros((len(rows), len(network.states[target])))
    open_rows = np.zeros(len(rows), dtype=bool)
    for f in relevant:
        family, table = families.families[f], network.tables[names[f]]
        at = family.index(t)
        lacking = (rows[:, [v for v in family if v != t]] < 0).any(axis=1)
        # A missing child without children sums to one, whatever its other parents are.
        barren = (rows[:, f] < 0) if f in childless and f != t else np.zeros(len(rows), dtype=bool)
        with np.errstate(divide="ignore"):
            logs = np.log(np.moveaxis(table, at, -1))
        index = tuple(np.where(lacking, 0, rows[:, v]) for v in family if v != t)
        scores += np.where(lacking[:, None], 0.0, np.broadcast_to(logs[index], scores.shape))
        open_rows |= lacking & ~barren
    if open_rows.any():
        scores[open_rows] = _by_tree(network, t, rows[open_rows])
    top = scores.max(axis=1, keepdims=True, initial=-np.inf)
    impossible = np.flatnonzero(~np.isfinite(top[:, 0]))
    if impossible.size:
        raise EvidenceError(
            f"row {int(impossible[0])} has probability zero for every state of '{target}'; smooth the tables, such as"
            " by adding 1 to each count",
            code="probability-zero",
        )
    odds = np.exp(scores - top)
    out: Array = odds / odds.sum(axis=1, keepdims=True)
    return out


def _by_tree(network: DiscreteNetwork, t: int, rows: NDArray[np.int64]) -> Array:
    """Log probability of each row with each class."""

    tree = JunctionTree.of(network)
    scores = []
    for k in range(len(list(network.states.values())[t])):
        given = rows.copy()
        given[:, t] = k
        scores.append(tree.log_evidence_of(given))
    return np.stack(scores, axis=1)


def _checked(states: States, target: str) -> list[str]:
    if target not in states:
        raise DataError(f"the class '{target}' is not a variable{hint(target, states)}", code="unknown-variable")
    return list(states)
