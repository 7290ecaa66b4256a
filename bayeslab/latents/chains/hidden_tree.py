r"""Hidden Markov trees: states with transitions from parents to children, as in pedigrees, cell lineages, wavelets.

Every node of one or several trees has a state and a row; given the state of its parent, a node is independent of all
nodes that are not its descendants:

    p(z, y) = prod over roots p(z_r) prod over others p(z_t | z_parent(t)) prod_t p(y_t | z_t)

Upward, from the leaves, each node collects the likelihood of its descendants, b_t(k) = p(rows of t and below | z_t =
k):

    b_t(k) = p(y_t | k) prod over children c of m_c(k),     m_c(i) = sum_j a_ij b_c(j)

Downward, P(z_t = j, z_parent = i | y) = P(z_parent = i | y) a_ij b_t(j) / m_t(i). Expected starts and transitions are
the gradient of the log evidence, as for chains. Time is O(n N²). All computations are in logarithms [1]_ [2]_.

References
----------
.. [1] Crouse, Nowak, Baraniuk (1998). Wavelet-based statistical signal processing using hidden Markov models.
   IEEE Transactions on Signal Processing 46, 886-902.
.. [2] Durand, Gonçalvès, Guédon (2004). Computational methods for hidden Markov tree models - an application to
   wavelet trees. IEEE Transactions on Signal Processing 52, 2551-2560.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bayeslab.errors import DataError, EvidenceError
from bayeslab.latents.chains.forward_backward import HiddenChain, read_rows

__all__ = ["KERNEL", "Forest", "SmoothedTree", "best", "parents_first", "sample", "simulate", "smooth"]

# For `bayeslab.evidence.log_evidence`: (parameters, parents, trees, sizes); see `Forest.flat`.
KERNEL = "bayeslab.latents.chains.branching_kernels:log_evidence_and_gradient"


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees whose nodes come after their parents.

    Parameters
    ----------
    parents : array of int, shape (n_nodes,)
        The number of each node's parent, less than its own; -1 for roots.

    Raises
    ------
    DataError
        A parent does not precede its child.
    """

    parents: np.ndarray

    def __post_init__(self) -> None:
        parents = np.require(self.parents, np.int64, ["C", "W"])
        wrong = np.flatnonzero((parents >= np.arange(len(parents))) | (parents < -1))
        if parents.ndim != 1 or len(wrong):
            raise DataError(
                f"node {wrong[0] if len(wrong) else 0}: its parent comes before it, or is -1 for none",
                code="not-in-order",
            )
        object.__setattr__(self, "parents", parents)

    @property
    def trees(self) -> np.ndarray:
        """The number of the tree of each node, by the order of roots."""
        out = np.cumsum(self.parents < 0) - 1
        for t in np.flatnonzero(self.parents >= 0):
            out[t] = out[self.parents[t]]
        return out

    @property
    def n_trees(self) -> int:
        return int(np.sum(self.parents < 0))

    def flat(self, chain: HiddenChain, log_emission: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``(parameters, sizes)`` as `KERNEL` takes them."""
        parameters = np.concatenate([np.ravel(a) for a in (chain.log_start, chain.log_transition, log_emission)])
        return parameters, np.array([chain.n_states, self.n_trees])

    def arrays(self, chain: HiddenChain, log_emission: Any) -> tuple[np.ndarray, ...]:
        """Start, transition, rows, parents and trees as kernels take them, checked."""
        if chain.varying or chain.edges is not None or chain.log_start.ndim > 1:
            raise DataError("a tree has one start and one dense transition matrix for all nodes", code="unsupported")
        rows, _ = read_rows(chain, log_emission)
        if len(rows) != len(self.parents):
            raise DataError(f"rows for {len(rows)} nodes, parents for {len(self.parents)}", code="wrong-length")
        return chain.log_start, chain.log_transition, rows, self.parents, self.trees


def parents_first(parents: Any) -> np.ndarray:
    """An order of nodes in which each tree is contiguous and parents precede children.

    Parameters
    ----------
    parents : array of int, shape (n_nodes,)
        The number of each node's parent, -1 for roots; in any order.

    Raises
    ------
    DataError
        A node is its own ancestor; the message has its number (from 1).
    """
    parents = np.asarray(parents, np.int64)
    children: list[list[int]] = [[] for _ in parents]
    for child, parent in enumerate(parents.tolist()):
        if parent >= 0:
            children[parent].append(child)
    order: list[int] = []
    waiting = np.flatnonzero(parents < 0)[::-1].tolist()
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting.extend(reversed(children[node]))
    if len(order) < len(parents):
        raise DataError(
            f"row {_on_a_cycle(parents, order) + 1} is its own ancestor: parents form a cycle", code="cycle"
        )
    return np.array(order, np.int64)


def _on_a_cycle(parents: np.ndarray, reached: list[int]) -> int:
    """The first node that is its own ancestor."""
    outside = np.ones(len(parents), bool)
    outside[reached] = False
    node = int(np.flatnonzero(outside)[0])
    for _ in range(len(parents)):  # from any start outside the cycle, the walk ends in it
        node = int(parents[node])
    circle = {node}
    while (node := int(parents[node])) not in circle:
        circle.add(node)
    return min(circle)


@dataclass(frozen=True, eq=False)
class SmoothedTree:
    """Smoothed states: given all rows of the tree.

    Parameters
    ----------
    log_evidence : ndarray of shape (n_trees,)
        -inf where a tree is impossible.
    posterior : ndarray of shape (n_nodes, n_states)
        P(z_t | y); NaN where a tree is impossible.
    start_counts, transition_counts : ndarray
        Expected numbers of starts at roots, and of transitions from parent to child.
    below, messages : ndarray of shape (n_nodes, n_states)
        log b and log m, as above.
    impossible : ndarray of shape (n_trees,)
        A node whose row and descendants no state explains, or -1.
    """

    log_evidence: np.ndarray
    posterior: np.ndarray
    start_counts: np.ndarray
    transition_counts: np.ndarray
    below: np.ndarray
    messages: np.ndarray
    impossible: np.ndarray

    def possible(self) -> Self:
        """Return the result; raise EvidenceError if a tree is impossible."""
        bad = np.flatnonzero(self.impossible >= 0)
        if len(bad):
            raise EvidenceError(
                f"node {self.impossible[bad[0]]} (tree {bad[0]}) and those below it have probability zero: check start,"
                " transitions and emissions for zeros",
                code="probability-zero",
            )
        return self


def smooth(forest: Forest, chain: HiddenChain, log_emission: Any) -> SmoothedTree:
    """Upward and downward over all trees.

    Parameters
    ----------
    forest : Forest
    chain : HiddenChain
        Start of roots, and transition from parent to child.
    log_emission : array of shape (n_nodes, n_states)
        log p(row | state), zeros for a missing row.

    Returns
    -------
    SmoothedTree
        Counts and ``posterior`` are the gradient of ``log_evidence.sum()`` with respect to log_start,
        log_transition and log_emission.
    """
    from bayeslab.latents.chains import branching_kernels as kernels

    inputs: tuple[Any, ...] = forest.arrays(chain, log_emission)
    shape = inputs[2].shape
    out = SmoothedTree(
        np.empty(forest.n_trees),
        np.empty(shape),
        np.zeros(shape[1]),
        np.zeros((shape[1], shape[1])),
        np.empty(shape),
        np.full(shape, np.nan),
        np.empty(forest.n_trees, np.int64),
    )
    outputs = (out.log_evidence, out.posterior, out.start_counts, out.transition_counts)
    inputs += (*outputs, out.below, out.messages, out.impossible)
    kernels.smooth_trees(*inputs)
    return out


def best(forest: Forest, chain: HiddenChain, log_emission: Any) -> tuple[np.ndarray, np.ndarray]:
    """The most likely states (n_nodes,) of each tree together, and their log probability (n_trees,) with the data."""
    from bayeslab.latents.chains import branching_kernels as kernels

    states, height = np.empty(len(forest.parents), np.int64), np.empty(forest.n_trees)
    inputs: tuple[Any, ...] = (*forest.arrays(chain, log_emission), states, height)
    kernels.best_states(*inputs)
    return states, height


def sample(forest: Forest, chain: HiddenChain, log_emission: Any, n: int, rng: np.random.Generator) -> np.ndarray:
    """Independent draws (n, n_nodes) of all states given the data, from the roots down."""
    from bayeslab.latents.chains import branching_kernels as kernels

    smoothed = smooth(forest, chain, log_emission).possible()
    states = np.empty((n, len(forest.parents)), np.int64)
    arguments = (chain.log_transition, forest.parents, smoothed.posterior, smoothed.below, smoothed.messages)
    for each in states:
        inputs: tuple[Any, ...] = (*arguments, rng.random(len(each)), each)
        kernels.sample_states(*inputs)
    return states


def simulate(forest: Forest, chain: HiddenChain, uniform: np.ndarray) -> np.ndarray:
    """States (n_nodes,) drawn from the law itself with given uniform numbers, one a node."""
    from bayeslab.latents.chains import branching_kernels as kernels

    states = np.empty(len(forest.parents), np.int64)
    law = np.exp(chain.log_start), np.exp(chain.log_transition)
    inputs: tuple[Any, ...] = (*law, forest.parents, np.ascontiguousarray(uniform, float), states)
    kernels.simulate_states(*inputs)
    return states
