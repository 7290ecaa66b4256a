"""Compiled loops over the moves of a graph: gains, the best move, and ancestors.

On small nets a search with NumPy calls would spend its time on call overhead.
"""

from __future__ import annotations

import numpy as np

from bayeslab.compiled import kernel

__all__ = ["ancestors", "best_place", "join", "move_gains"]


@kernel
def move_gains(gains, edges, above, needed, out):  # type: ignore[no-untyped-def]
    """Gains of all moves: ``out[u, v, 0]`` adds or deletes u -> v, ``out[u, v, 1]`` reverses it; -inf if not allowed.

    ``gains[u, v]`` is the gain from adding u to, or removing it from, the parents of v; ``above[v, u]`` says whether
    there is a path from u to v.
    """
    n = edges.shape[0]
    for u in range(n):
        for v in range(n):
            out[u, v, 0] = -np.inf
            out[u, v, 1] = -np.inf
            # An edge u -> v closes a cycle if there is a path from v to u.
            if edges[u, v] or not above[u, v]:
                out[u, v, 0] = gains[u, v]
            if edges[u, v] and not needed[u, v]:
                # Turned round, if u leads to v by a way of its own: through another parent of v. One more parent of u
                # is ruled out by its own gain already.
                detour = False
                for w in range(n):
                    if edges[w, v] and above[w, u]:
                        detour = True
                        break
                if not detour:
                    out[u, v, 1] = gains[u, v] + gains[v, u]


@kernel
def best_place(flat, tolerance):  # type: ignore[no-untyped-def]
    """First position whose value is the largest up to the tolerance; -1 if all are -inf."""
    top = -np.inf
    for i in range(flat.size):
        top = max(top, flat[i])
    if top == -np.inf:
        return -1
    for i in range(flat.size):
        if flat[i] >= top - tolerance:
            return i
    return -1


@kernel
def join(above, u, v):  # type: ignore[no-untyped-def]
    """Update the ancestors after adding u -> v: v and its descendants descend from u and its ancestors."""
    n = above.shape[0]
    for d in range(n):
        if (d == v or above[d, v]) and not above[d, u]:
            above[d, u] = True
            for a in range(n):
                if above[u, a]:
                    above[d, a] = True


@kernel
def ancestors(edges, above):  # type: ignore[no-untyped-def]
    """At [v, u] whether there is a path of at least one edge from u to v; ``edges`` are at [from, to]."""
    n = edges.shape[0]
    above[:] = edges.T
    for w in range(n):
        for d in range(n):
            if above[d, w]:
                for a in range(n):
                    if above[w, a]:
                        above[d, a] = True
