"""How many orders of the variables a graph agrees with: the linear extensions of its partial order.

Chains over orders draw a graph as often as the orders that it agrees with weigh together, so that under a uniform prior
of graphs each draw counts too much by that number [1]_. Counting is hard in general; here each connected part is
counted over the sets of variables that hold all their parents, which are few in nets of some ten variables, and the
parts are shuffled into each other.

References
----------
.. [1] Ellis, Wong (2008). Learning causal Bayesian network structures from experimental data. JASA 103, 778-789.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bayeslab.errors import EngineRefusal

__all__ = ["MOST", "log_orders"]

# Sets of one connected part that are gone through at most.
MOST = 100_000


def log_orders(parents: Sequence[Sequence[int]]) -> float:
    """Log of the number of orders in which every variable comes after its parents.

    Raises
    ------
    EngineRefusal
        They are too many to count.
    """
    total = math.lgamma(len(parents) + 1)
    for part in _parts(parents):
        total += math.log(_count(part, parents)) - math.lgamma(len(part) + 1)
    return total


def _parts(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """Connected parts of the graph."""
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
    # Of each set of so many variables that holds all their parents, in how many orders it can have come about.
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
