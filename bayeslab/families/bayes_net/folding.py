"""What a Bayes net needs of the rows of a table that is larger than memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayeslab.latents.networks.triangulation import elimination

__all__ = ["chain_of_counts"]


def chain_of_counts(
    cards: Mapping[str, int], parents: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The variables in an order in which rows with the counts of every family can be made, one after the other.

    The likelihood of complete rows depends on them through the counts of each variable with its parents only. The
    cliques of a triangulation of the net hold these families. In the reverse order of elimination, the earlier
    variables that a variable shares a clique with are in one earlier clique, so that rows with the right counts of
    these can be divided among the states of the variable [1]_.

    Returns
    -------
    tuple of (str, tuple of str)
        Each variable, with the earlier variables with which it is counted.

    References
    ----------
    .. [1] Lauritzen, Spiegelhalter (1988). Local computations with probabilities on graphical structures and their
       application to expert systems. JRSS B 50, 157-224.
    """
    names = list(cards)
    place = {v: i for i, v in enumerate(names)}
    scopes = [np.array([place[v], *(place[p] for p in parents.get(v, ()))], np.int64) for v in names]
    order, sets, _ = elimination(scopes, np.array(list(cards.values()), np.int64))
    members = np.unpackbits(sets.view(np.uint8), axis=1, bitorder="little")[:, : len(names)]
    out = []
    for v, clique in zip(order[::-1], members[::-1], strict=True):
        out.append((names[v], tuple(names[u] for u in np.flatnonzero(clique) if u != v)))
    return tuple(out)
