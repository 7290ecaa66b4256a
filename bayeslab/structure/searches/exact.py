"""The certified best structure, by dynamic programming over sets of variables.

The best graph on a set of variables has a last variable with its best parents among the others, and is otherwise the
best graph on the others [1]_. This takes 2^n n steps and 8 · 2^n bytes for any data: minutes at most for up to 25
variables. :mod:`bayeslab.structure.searches.a_star` visits fewer sets if the data are informative.

References
----------
.. [1] Silander, Myllymäki (2006). A simple approach for finding the globally optimal Bayesian network structure.
   UAI 22, 445-452.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import networkx as nx
import numpy as np

from bayeslab.errors import EngineRefusal, ModelError
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.exact_posterior import best_graph
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.scores import LocalScore
from bayeslab.structure.searches import Found
from bayeslab.structure.searches.toolbox.scorer import Prior, Source, in_name_order

__all__ = ["graph_of", "most_parents", "search", "table_of"]

# Default limit on the number of parents for larger nets.
_PARENTS = 3
_FREE = 12
_LARGEST = 25


def search(
    source: Source,
    *,
    constraints: Constraints | None = None,
    prior: Prior = "uniform",
    max_parents: int | None = None,
    memory: float | None = None,
) -> Found:
    """Return an optimal DAG.

    Parameters
    ----------
    source, constraints, prior
        See :mod:`bayeslab.structure.searches`. A table may be pruned.
    max_parents
        Largest number of parents per variable. Default: no limit for up to 12 variables, 3 for more.
    memory
        Memory limit in megabytes; default: half of the machine's memory.

    Raises
    ------
    EngineRefusal
        There are more than 25 variables, or memory is insufficient; the message says what to use instead.
    ModelError
        The parent sets form no DAG.
    """
    n = len(source.names)
    if n > _LARGEST:
        raise EngineRefusal(
            f"dynamic programming over {n} variables would take {8 * 2.0**n / 1e9:,.1f} GB and is for {_LARGEST} at"
            f" most: search by a_star, which looks at fewer sets of variables, or by tabu or order_search",
            code="too-costly",
        )
    table = table_of(source, constraints, prior, max_parents, memory)
    best = best_graph(table, memory=memory)
    score = float(best.graph["score"])
    return Found(graph_of(source.names, best.edges), score, (score,), len(table.sets))


def graph_of(names: Iterable[str], edges: Iterable[tuple[str, str]]) -> nx.DiGraph:
    """Return a graph with variables in the order of the columns and edges in the order of names."""
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(sorted(edges))
    return graph


def table_of(
    source: Source, constraints: Constraints | None, prior: Prior, max_parents: int | None, memory: float | None
) -> ScoreTable:
    """Return a table of the parent sets that can be in an optimal graph, in the order of names.

    Scores are rounded to multiples of a power of two, about 1e-12 of their sum. Sums are then exact, and ties between
    graphs depend on names only.
    """
    table = source if isinstance(source, ScoreTable) else _built(source, constraints, prior, max_parents, memory)
    if isinstance(source, ScoreTable) and (constraints is not None or prior != "uniform" or max_parents is not None):
        raise ModelError(
            "a score table holds its constraints and its prior; give them when it is built", code="conflict"
        )
    pointer, sets, scores = in_name_order(table.pruned(0.0))
    size = float(np.abs(scores[pointer[:-1]]).sum())
    grain = 2.0 ** (math.ceil(math.log2(size)) - 40) if size > 0 else 1.0
    return ScoreTable(
        tuple(sorted(table.names)), pointer, sets, np.round(scores / grain) * grain, table.score, table.prior
    )


def _built(
    source: LocalScore, constraints: Constraints | None, prior: Prior, max_parents: int | None, memory: float | None
) -> ScoreTable:
    most = most_parents(len(source.names), max_parents)
    return ScoreTable.build(source, max_parents=most, constraints=constraints, prior=prior, prune=0.0, memory=memory)


def most_parents(n: int, max_parents: int | None) -> int:
    """Return the limit on the number of parents: the given one or the default."""
    return min(n - 1, max_parents if max_parents is not None else n - 1 if n <= _FREE else _PARENTS)
