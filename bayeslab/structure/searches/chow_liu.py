"""Chow-Liu trees: the tree over all variables with the highest score.

The gain of an edge is the gain in score of the child with this one parent. For the log likelihood it is N times the
mutual information [1]_. For any score with equal gains in both directions, the best tree is a maximum spanning tree of
the gains. With a penalty or a prior, edges without gain are omitted, which gives a forest.

References
----------
.. [1] Chow, Liu (1968). Approximating discrete probability distributions with dependence trees. IEEE Transactions on
   Information Theory 14, 462-467.
"""

from __future__ import annotations

import networkx as nx
import numpy as np

from bayeslab.errors import ModelError, hint
from bayeslab.structure.searches import Found
from bayeslab.structure.searches.toolbox.scorer import Prior, Scorer, Source

__all__ = ["search"]


def search(source: Source, *, root: str | None = None, prior: Prior = "uniform") -> Found:
    """Return the best tree, or the best forest if some edges have no gain.

    Parameters
    ----------
    source, prior
        See :mod:`bayeslab.structure.searches`. The score must be the same for both directions of an edge, as BDeu,
        BIC, AIC, the log likelihood and BGe are.
    root
        Edges lead away from it; default: the first variable of each tree by name. It does not change the score.

    Raises
    ------
    ModelError
        The root does not exist, or the score distinguishes the directions of an edge, as K2 does.
    """
    scorer = Scorer(source, None, prior)
    if root is not None and root not in scorer.names:
        raise ModelError(f"the root '{root}' is not a variable{hint(root, scorer.names)}", code="unknown-variable")
    gains = np.array([scorer.gains(v, 0) for v in range(scorer.n)]).T
    both = np.triu(np.isfinite(gains) & np.isfinite(gains.T))
    if np.any(np.abs(gains[both] - gains.T[both]) > 1e-6 * np.maximum(1.0, np.abs(gains[both]))):
        raise ModelError(
            "this score depends on the directions of edges, so a maximum spanning tree need not be the best tree: use"
            " one that does not, such as bdeu or bic",
            code="not-suited",
        )
    tree, joined = nx.Graph(), nx.utils.UnionFind(range(scorer.n))
    tree.add_nodes_from(range(scorer.n))
    # Gains equal up to rounding are ties, broken by names.
    edges = sorted((-round(gains[u, v] / scorer.tolerance), u, v) for u, v in np.argwhere(both & (gains > 0)).tolist())
    for rank, u, v in edges:
        if rank < 0 and joined[u] != joined[v]:
            joined.union(u, v)
            tree.add_edge(u, v)
    parents = [0] * scorer.n
    first = [scorer.names.index(root)] if root is not None else []
    visited: set[int] = set()
    trace = [sum(scorer.local(v, 0) for v in range(scorer.n))]
    for top in [*first, *range(scorer.n)]:
        if top not in visited:
            visited.add(top)
            for u, v in nx.bfs_edges(tree, top, sort_neighbors=sorted):
                parents[v] = 1 << u
                visited.add(v)
                trace.append(trace[-1] + float(gains[u, v]))
    return scorer.result(parents, trace)
