"""Clusterings from posterior draws: relabelling, and label-invariant summaries.

The posterior of a mixture is invariant to the numbering of its components, so that labels may switch between draws, and
averages over draws of "component 1" are meaningless. There are three remedies:

- *An ordering rule*, where one is natural: :func:`ordered`.
- *Relabelling* the draws afterwards: to the partition nearest to a pivot (:func:`relabel_to_pivot` [1]_), or so that
  the allocation probabilities agree best (:func:`relabel_by_probabilities`, Stephens [2]_). Each step is an
  assignment problem, solved exactly; both are deterministic.
- *Label-invariant summaries*: how often two rows share a component (:func:`coclustering`), and the partition with the
  smallest expected loss (:func:`point_partition`) under Binder's loss [3]_ or the variation of information [4]_.

Clusterings by different algorithms, or from different samples of the rows, are combined likewise: the ensemble's
clusters come from average linkage on the co-clustering shares of rows (:func:`combined_clusters` [7]_).

References
----------
.. [1] Papastamoulis, Iliopoulos (2010). An artificial allocations based solution to the label switching
   problem in Bayesian analysis of mixtures of distributions. J. Computational and Graphical Statistics 19, 313-331.
.. [2] Stephens (2000). Dealing with label switching in mixture models. JRSS B 62, 795-809, algorithm 2.
.. [3] Binder (1978). Bayesian cluster analysis. Biometrika 65, 31-38.
.. [4] Wade, Ghahramani (2018). Bayesian cluster analysis: point estimation and credible balls.
   Bayesian Analysis 13, 559-626.
.. [5] Dahl, Johnson, Müller (2022). Search algorithms and loss functions for Bayesian clustering.
   J. Computational and Graphical Statistics 31, 1189-1201 (the greedy search).
.. [6] Hubert, Arabie (1985). Comparing partitions. J. Classification 2, 193-218.
.. [7] Fred, Jain (2005). Combining multiple clusterings using evidence accumulation. IEEE PAMI 27, 835-850.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bayeslab.errors import DataError, OptionError, hint
from bayeslab.latents.assignment import best_assignments

__all__ = [
    "MOST_PAIRED",
    "Loss",
    "Partition",
    "adjusted_rand_index",
    "binder_loss",
    "canonical",
    "coclustering",
    "coclustering_of_many",
    "combined_clusters",
    "contingency",
    "ordered",
    "permute",
    "permute_labels",
    "point_partition",
    "relabel_by_probabilities",
    "relabel_to_pivot",
    "variation_of_information",
]

Loss = Literal["vi", "binder"]

# With more rows, point partitions are computed without a matrix of pairs, from this many draws.
_MANY_ROWS, _COMPARED = 2_000, 30
# Largest number of rows of a fit for a matrix of pairs of rows.
MOST_PAIRED = 2_000
# Number of draws for counting pairs of rows, and total number of pairs up to which all of them are used.
_PAIRED, _PAIRED_CELLS = 20_000, 100_000_000
# Number of cells of contingency tables that are counted at once.
_COUNTED_CELLS = 10_000_000
# Two gigabytes of pairs.
_MOST_ROWS = 16_000


# --------------------------------------------------------------------------------- comparing


def contingency(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Contingency table of two labellings."""
    if np.shape(a) != np.shape(b):
        raise DataError(
            f"partitions of {len(a)} and {len(b)} rows cannot be compared; give the same rows", code="wrong-length"
        )
    rows, i = np.unique(a, return_inverse=True)
    columns, j = np.unique(b, return_inverse=True)
    return np.bincount(i * len(columns) + j, minlength=len(rows) * len(columns)).reshape(len(rows), len(columns))


def canonical(labels: np.ndarray) -> np.ndarray:
    """The same partition with clusters numbered by first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _pairs(counts: np.ndarray) -> float:
    counts = counts.astype(float)
    return float(np.sum(counts * (counts - 1)) / 2)


def adjusted_rand_index(a: np.ndarray, b: np.ndarray) -> float:
    """Agreement of two partitions: 1 if equal, 0 on average if one is random [6]_."""
    table = contingency(a, b)
    both, in_a, in_b = _pairs(table), _pairs(table.sum(axis=1)), _pairs(table.sum(axis=0))
    total = _pairs(np.array([len(a)]))
    expected = in_a * in_b / total if total else 0.0
    highest = 0.5 * (in_a + in_b)
    return 1.0 if highest == expected else (both - expected) / (highest - expected)


def binder_loss(a: np.ndarray, b: np.ndarray) -> float:
    """Share of ordered pairs of rows (including a row with itself) that only one partition puts together [3]_."""
    table = contingency(a, b).astype(float)
    apart = np.sum(table.sum(axis=1) ** 2) + np.sum(table.sum(axis=0) ** 2) - 2 * np.sum(table**2)
    return float(apart / len(a) ** 2)


def variation_of_information(a: np.ndarray, b: np.ndarray) -> float:
    """H(A | B) + H(B | A) in bits [4]_."""
    p = contingency(a, b) / len(a)

    def entropy(q: np.ndarray) -> float:
        return float(-np.sum(q[q > 0] * np.log2(q[q > 0])))

    return max(0.0, 2 * entropy(p) - entropy(p.sum(axis=1)) - entropy(p.sum(axis=0)))


# --------------------------------------------------------------------------------- relabelling


def ordered(values: np.ndarray) -> np.ndarray:
    """Permutations (S, K) that sort a statistic of the components, (S, K), in each draw."""
    return np.argsort(values, axis=1, kind="stable")


def permute(values: np.ndarray, permutations: np.ndarray) -> np.ndarray:
    """Parameters (S, K, ...) with component ``permutations[s, k]`` of each draw as the new component k."""
    return values[np.arange(len(values))[:, None], permutations]


def permute_labels(labels: np.ndarray, permutations: np.ndarray) -> np.ndarray:
    """Labels (S, N) in the numbering of :func:`permute`."""
    return np.take_along_axis(np.argsort(permutations, axis=1), labels, axis=1)


def _check_labels(labels: np.ndarray) -> None:
    if labels.ndim != 2 or labels.size == 0:
        raise DataError(
            f"labels have shape {labels.shape}; give one row of labels for each draw: (draws, rows)", code="wrong-shape"
        )


def relabel_to_pivot(labels: np.ndarray, n_components: int, pivot: np.ndarray | None = None) -> np.ndarray:
    """Permutations (S, K) that bring each draw's allocations nearest to a pivot's [1]_.

    Parameters
    ----------
    labels : ndarray (S, N) of int
    pivot : ndarray (N,) of int, optional
        Default: the draw with the smallest expected Binder loss.
    """
    _check_labels(labels)
    if pivot is None:
        # A thousand rows suffice to find a typical draw.
        some = labels[:, np.unique(np.linspace(0, labels.shape[1] - 1, 1000).astype(int))]
        together = coclustering(some)
        losses = [_binder_against(draw, together) for draw in some]
        pivot = labels[int(np.argmin(losses))]
    elif pivot.max() >= n_components:
        raise OptionError(
            f"the pivot has labels up to {pivot.max()}; there are {n_components} components", code="out-of-range"
        )
    n_blocks = min(len(labels), 1 + len(labels) * n_components**2 // _COUNTED_CELLS)
    blocks = np.array_split(labels, n_blocks)
    return np.concatenate([_nearest(block, pivot, n_components) for block in blocks])


def _nearest(labels: np.ndarray, pivot: np.ndarray, n_components: int) -> np.ndarray:
    agree = np.stack([np.bincount(pivot * n_components + draw, minlength=n_components**2) for draw in labels])
    # A slight preference for the existing numbering resolves ties consistently.
    preferred = agree.reshape(-1, n_components, n_components) + 1e-9 * np.eye(n_components)
    return best_assignments(-preferred)


def relabel_by_probabilities(probabilities: np.ndarray, *, max_iterations: int = 100) -> np.ndarray:
    """Permutations (S, K) that make allocation probabilities (S, N, K) agree: Stephens' algorithm [2]_.

    It reduces the Kullback-Leibler divergence of the draws' probabilities from their average by alternation: average,
    then reassign each draw's components. The better of two local minima is returned: from the existing numbering, and
    from that of :func:`relabel_to_pivot`.
    """
    n_draws, _, n_components = probabilities.shape
    as_is = np.tile(np.arange(n_components), (n_draws, 1))
    to_pivot = relabel_to_pivot(probabilities.argmax(axis=2), n_components)
    ends = [_agreed(probabilities, start, max_iterations) for start in (to_pivot, as_is)]
    return min(ends, key=lambda end: end[0])[1]


def _agreed(probabilities: np.ndarray, permutations: np.ndarray, max_iterations: int) -> tuple[float, np.ndarray]:
    """Divergence (up to a constant) and permutations at convergence."""
    divergence = np.inf
    for _ in range(max_iterations):
        moved = np.take_along_axis(probabilities, permutations[:, None, :], axis=2)
        log_average = np.log(np.maximum(moved.mean(axis=0), 1e-300))
        before, divergence = divergence, -float(np.sum(moved * log_average))
        if not divergence < before - 1e-12 * abs(before):
            break
        permutations = best_assignments(-log_average.T @ probabilities)
    return divergence, permutations


# --------------------------------------------------------------------------------- label-invariant


def coclustering(labels: np.ndarray) -> np.ndarray:
    """Share of draws (S, N) in which two rows are in the same cluster, (N, N).

    A draw may leave rows out (label -1): shares are among the draws with both rows, and 0 for pairs without such draws.
    """
    labels = np.asarray(labels)
    _check_labels(labels)
    if labels.shape[1] > _MOST_ROWS:
        raise DataError(
            f"a matrix of pairs of {labels.shape[1]} rows does not fit into memory; give the labels of at most"
            f" {_MOST_ROWS} rows",
            code="too-costly",
        )
    out = np.zeros((labels.shape[1], labels.shape[1]))
    for draw in labels:
        member = draw[:, None] == np.arange(draw.max() + 1)
        out += member.astype(float) @ member.T
    if labels.min() >= 0:
        return out / len(labels)
    there = (labels >= 0).astype(float)
    return np.where(np.eye(len(out), dtype=bool), 1.0, out / np.maximum(there.T @ there, 1))


def coclustering_of_many(labels: np.ndarray, least: int = 500) -> np.ndarray:
    """:func:`coclustering` in all draws or, if that is slow, in evenly spaced ones.

    Parameters
    ----------
    labels : ndarray (S, N) of int
    least
        Smallest number of draws to count, if there are that many.
    """
    most = min(len(labels), _PAIRED, max(least, _PAIRED_CELLS // labels.shape[1] ** 2))
    at = np.unique(np.linspace(0, len(labels) - 1, most).astype(int))
    return coclustering(labels[at].astype(np.int64))


def _binder_against(labels: np.ndarray, together: np.ndarray) -> float:
    """Expected Binder loss, up to a constant."""
    member = np.eye(labels.max() + 1)[labels]
    size = member.sum(axis=0)
    within = np.einsum("ik,ij,jk->", member, together, member, optimize=True)
    return float((size @ size - 2 * within) / len(labels) ** 2)


@dataclass(frozen=True, eq=False)
class Partition:
    """A point estimate of the clustering.

    Attributes
    ----------
    labels : ndarray (N,) of int
        Clusters numbered by first appearance.
    expected_loss : float
        Average loss against the draws.
    loss : str
    """

    labels: np.ndarray
    expected_loss: float
    loss: Loss


def point_partition(
    labels: np.ndarray, *, loss: Loss = "vi", max_clusters: int | None = None, n_starts: int = 8
) -> Partition:
    """The partition with the smallest average loss over draws (S, N), by greedy search.

    Starts are the best of the draws themselves and of the cuts of an average-linkage tree on 1 - coclustering;
    from each, rows move one at a time to the cluster (or a new one) that lowers the expected loss most,
    until none does [5]_. The search is deterministic. With more than 2,000 rows there is no matrix of
    pairs; only draws are starts, and few of them are compared.
    """
    if loss not in ("vi", "binder"):
        raise OptionError(f"unknown loss '{loss}'{hint(loss, ('vi', 'binder'))}", code="unknown-word")
    from bayeslab.latents.labels.clustering_kernels import expected_loss, move_rows

    _check_labels(labels)
    labels = np.stack([canonical(draw) for draw in labels])
    distinct, counts = np.unique(labels, axis=0, return_counts=True)
    limit = max_clusters or min(labels.shape[1], int(labels.max()) + 2)
    if labels.shape[1] > _MANY_ROWS:
        n_starts = 1
        candidates = [draw for draw in distinct[np.argsort(-counts, kind="stable")[:_COMPARED]] if draw.max() < limit]
        candidates.append(np.zeros(labels.shape[1], int))
    else:
        candidates = _candidates(distinct, counts, coclustering(labels), limit)
    n_rows, distinct, weight = labels.shape[1], np.ascontiguousarray(distinct, np.int64), counts / counts.sum()
    # Both losses are sums of f(n_k) + f(n_s) - 2 f(n_sk), of sizes of clusters, of a draw's clusters, and of overlaps.
    sizes = np.arange(n_rows + 3, dtype=float)
    f, scale = (sizes * np.log2(np.maximum(sizes, 1.0)), n_rows) if loss == "vi" else (sizes**2, n_rows**2)
    scored = sorted((expected_loss(c.astype(np.int64), distinct, weight, f), tuple(c)) for c in candidates)
    best: tuple[float, tuple[int, ...]] = scored[0]
    for _, start in scored[:n_starts]:
        moved = np.array(start, np.int64)
        move_rows(moved, distinct, weight, np.diff(f), limit, 50)
        moved = canonical(moved)
        best = min(best, (expected_loss(moved.astype(np.int64), distinct, weight, f), tuple(moved)))
    return Partition(np.array(best[1]), max(0.0, best[0] / scale), loss)


def combined_clusters(labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """Combine several clusterings (S, N) to one with a given number of clusters, by average linkage [7]_.

    The linkage is on 1 - coclustering, which is label-invariant; a clustering may leave rows out (label -1).
    """
    from scipy.cluster.hierarchy import fcluster

    if n_clusters < 1:
        raise OptionError(f"there is at least one cluster, not {n_clusters!r}", code="out-of-range")
    together = coclustering(labels)
    if len(together) == 1:
        return np.zeros(1, int)
    return canonical(fcluster(_linkage(together), n_clusters, "maxclust"))


def _linkage(together: np.ndarray) -> np.ndarray:
    """The average-linkage tree on 1 - coclustering."""
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    distance = np.round(1 - together, 12)
    np.fill_diagonal(distance, 0.0)
    return linkage(squareform(distance, checks=False), "average")


def _candidates(distinct: np.ndarray, counts: np.ndarray, together: np.ndarray, limit: int) -> list[np.ndarray]:
    from scipy.cluster.hierarchy import fcluster

    # The most frequent draws; more would take time and hardly differ.
    often = distinct[np.argsort(-counts, kind="stable")[:100]]
    candidates = [draw for draw in often if draw.max() < limit]
    n_rows = len(together)
    if n_rows > 1:
        tree = _linkage(together)
        candidates += [canonical(fcluster(tree, k, "maxclust")) for k in range(1, min(limit, n_rows) + 1)]
    return list({tuple(c): c for c in [*candidates, np.zeros(n_rows, int)]}.values())
