"""Number of orders of the variables consistent with a graph: the linear extensions of its partial order.

Chains over orders draw a graph with a weight proportional to the number of consistent orders, so that under a uniform
prior over graphs each draw is overweighted by that number [1]_. Counting linear extensions is hard in general. Here
each connected component is counted over its ancestral sets, of which there are few in nets of about ten variables, and
the orders of the components are interleaved.

References
----------
.. [1] Ellis, Wong (2008). Learning causal Bayesian network structures from experimental data. JASA 103, 778-789.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bayeslab.errors import EngineRefusal

__all__ = ["MOST", "log_orders"]

# Largest number of ancestral sets enumerated in one component.
MOST = 100_000


def log_orders(parents: Sequence[Sequence[int]]) -> float:
    """Return the log of the number of orders in which every variable comes after its parents.

    Raises
    ------
    EngineRefusal
        There are too many to count.
    """
    total = math.lgamma(len(parents) + 1)
    for part in _parts(parents):
        total += math.log(_count(part, parents)) - math.lgamma(len(part) + 1)
    return total


def _parts(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the connected components of the graph."""
    root = list(range(len(parents)))

    def find(v: int) -> int:
        while root[v] != v:
            root[v] = root[root[v]]
            v = root[v]
        return v

    for v, above in enumerate(parents):
        for u in above:
            root[find(u)] = find(v)
    groups: dict[int, list[int]] = {}
    for v in range(len(parents)):
        groups.setdefault(find(v), []).append(v)
    return list(groups.values())


def _count(part: Sequence[int], parents: Sequence[Sequence[int]]) -> int:
    above = [(1 << v, sum(1 << u for u in parents[v])) for v in part]
    # For each ancestral set of this size, the number of consistent orders of its members.
    layer, n_visited = {0: 1}, 0
    for _ in part:
        after: dict[int, int] = {}
        for placed, n in layer.items():
            for bit, needed in above:
                if not placed & bit and needed & ~placed == 0:
                    after[placed | bit] = after.get(placed | bit, 0) + n
        layer, n_visited = after, n_visited + len(after)
        if n_visited > MOST:
            raise EngineRefusal(
                f"the orders that agree with a graph of {len(part)} connected variables are too many to count: sample"
                f" with `sampler: partition`, which needs no weights",
                code="too-costly",
            )
    (total,) = layer.values()
    return total
