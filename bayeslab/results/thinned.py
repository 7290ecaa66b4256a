"""A fit with few of its draws, for what needs no more."""

from __future__ import annotations

import numpy as np

from bayeslab.results.fitted import Fitted

__all__ = ["thinned"]


def thinned(fit: Fitted, most: int) -> tuple[Fitted, int]:
    """The record of a fit with at most ``most`` evenly spaced draws of all chains together, and their number."""
    sizes = fit.posterior.sizes
    n, chains = sizes["draw"], sizes["chain"]
    kept = max(1, min(n, most // max(chains, 1)))
    tree = fit.data_tree.copy()
    if kept < n and "parent_sets" not in tree.children and "partitions" not in tree.children:
        at = np.unique(np.linspace(0, n - 1, kept).astype(int))
        for name, group in list(tree.children.items()):
            if group.sizes.get("draw") == n:
                tree[name] = group.isel(draw=at)
        n = len(at)
    return Fitted(fit.bound_model, tree, fit.verdict, fit.info, fit.folder), n * chains
