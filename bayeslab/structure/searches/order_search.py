"""Search over orders of the variables; the score of an order is that of its best consistent graph.

Given an order, each variable independently takes its best parent set among its predecessors [1]_. A search over orders
therefore compares whole graphs and has far fewer local optima than a search over graphs. A move takes a variable out
and inserts it elsewhere, with simulated annealing; it changes only the parents of the variables in between.

References
----------
.. [1] Teyssier, Koller (2005). Ordering-based search: a simple and effective algorithm for learning Bayesian networks.
   UAI 21, 584-590.
.. [2] Scanagatta, de Campos, Corani, Zaffalon (2015). Learning Bayesian networks with thousands of variables.
   NeurIPS 28 (insertion moves).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import EngineRefusal, ModelError, OptionError
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.searches import Found, hill_climbing
from bayeslab.structure.searches.toolbox.scorer import Prior, Source, in_name_order, members

__all__ = ["best_for_order", "search"]

# Number of random numbers drawn at a time.
_BLOCK = 1 << 15


def search(
    source: Source,
    *,
    rng: np.random.Generator,
    constraints: Constraints | None = None,
    prior: Prior = "uniform",
    max_parents: int = 3,
    steps: int = 300_000,
    hottest: float = 50.0,
    coldest: float = 0.2,
    runs: int = 1,
) -> Found:
    """Anneal over orders.

    Parameters
    ----------
    source, constraints, prior, rng
        See :mod:`bayeslab.structure.searches`. For a score, a table of parent sets is built first, and the graph found
        is then improved by hill climbing, with as many parents as the constraints allow. A table may be pruned.
    max_parents
        Largest number of parents in the table.
    steps
        Number of proposed insertions in each run.
    hottest, coldest
        First and last temperature, in nats.
    runs
        Number of runs, each from a random order.

    Returns
    -------
    Found
        Its trace has the best score so far after each block of steps.

    Raises
    ------
    EngineRefusal
        The table would need more memory than available.
    """
    if not (hottest >= coldest > 0 and runs >= 1 and steps >= 0):
        raise OptionError(
            f"annealing goes from hottest >= coldest > 0, one run or more; given {hottest}, {coldest}",
            code="out-of-range",
        )
    if isinstance(source, ScoreTable):
        if constraints is not None or prior != "uniform":
            raise ModelError(
                "a score table holds its constraints and its prior; give them when it is built", code="conflict"
            )
        return _search(_Orders.of(source), rng, steps, np.geomspace(hottest, coldest, max(steps, 1)), runs)
    known = constraints or Constraints(tuple(source.names))
    table = ScoreTable.build(source, max_parents=max_parents, constraints=known, prior=prior, prune=0.0)
    annealed = _search(_Orders.of(table), rng, steps, np.geomspace(hottest, coldest, max(steps, 1)), runs)
    after = hill_climbing.search(source, start=annealed.graph, constraints=known, prior=prior, tabu=20)
    trace = (*annealed.trace, *after.trace[1:])
    return Found(after.graph, after.score, trace, annealed.n_scored + after.n_scored)


def best_for_order(table: ScoreTable, order: Sequence[str]) -> Found:
    """Return the best graph in which every parent precedes its children in the order.

    Raises
    ------
    ModelError
        The order does not contain all variables, or no allowed parent set of some variable fits the order.
    """
    orders = _Orders.of(table)
    if sorted(order) != sorted(table.names):
        raise ModelError(f"the order has each variable once: {', '.join(table.names)}", code="incomplete")
    choice = orders.choice(np.array([orders.names.index(v) for v in order], dtype=np.int64))
    return orders.result(choice, [])


@dataclass(frozen=True, eq=False)
class _Orders:
    """A score table with variables in the order of names."""

    columns: tuple[str, ...]
    names: tuple[str, ...]
    pointer: NDArray[np.int64]
    sets: NDArray[np.uint64]
    scores: NDArray[np.float64]
    n_scored: int

    @classmethod
    def of(cls, table: ScoreTable) -> _Orders:
        kept = table.pruned(0.0)
        return cls(table.names, tuple(sorted(table.names)), *in_name_order(kept), len(table.sets))

    def choice(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        from bayeslab.structure.searches.toolbox.order_kernels import best_sets

        out = np.empty(len(order), dtype=np.int64)
        if best_sets(order, self.pointer, self.sets, out) < len(order):
            v = int(np.flatnonzero(out == self.pointer[1:])[0])
            raise ModelError(
                f"no parent set of '{self.names[v]}' lies before it in this order; required edges rule it out",
                code="contradiction",
            )
        return out

    def start(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a random order in which every variable has a parent set."""
        pointer, sets = self.pointer, self.sets
        needed = [np.bitwise_and.reduce(sets[a:b]) for a, b in pairwise(pointer)]
        above = [members(mask) for mask in needed]
        order: list[int] = []
        placed, waiting = 0, rng.permutation(len(self.names)).tolist()
        while waiting:
            ready = next((v for v in waiting if not above[v] & ~placed), None)
            if ready is None:
                raise EngineRefusal("the parent sets of the table allow no acyclic graph", code="no-acyclic-graph")
            order.append(ready)
            waiting.remove(ready)
            placed |= 1 << ready
        return np.array(order, dtype=np.int64)

    def result(self, choice: NDArray[np.int64], trace: Sequence[float]) -> Found:
        graph = nx.DiGraph()
        graph.add_nodes_from(self.columns)
        above = [members(self.sets[i]) for i in choice]
        edges = [(u, v) for v, mask in enumerate(above) for u in range(len(self.names)) if mask >> u & 1]
        graph.add_edges_from(sorted((self.names[u], self.names[v]) for u, v in edges))
        return Found(graph, float(self.scores[choice].sum()), tuple(trace), self.n_scored)


def _search(
    orders: _Orders, rng: np.random.Generator, steps: int, temperatures: NDArray[np.float64], runs: int
) -> Found:
    from bayeslab.structure.searches.toolbox.order_kernels import anneal, descend

    table = (orders.pointer, orders.sets, orders.scores)
    grain = 1e-11 * max(1.0, float(np.abs(orders.scores[orders.pointer[:-1]]).sum()))
    best: NDArray[np.int64] | None = None
    trace: list[float] = []
    for _ in range(runs):
        order = orders.start(rng)
        choice = orders.choice(order)
        top = total = float(orders.scores[choice].sum())
        best_of_run = choice.copy()
        for begin in range(0, steps if len(order) > 1 else 0, _BLOCK):
            uniforms = rng.random((min(_BLOCK, steps - begin), 3))
            heat = temperatures[begin : begin + len(uniforms)]
            total, top = anneal(order, choice, total, *table, uniforms, heat, best_of_run, top)
            trace.append(max(top, trace[-1]) if trace else top)
        order = _order_of(orders, best_of_run)
        choice = orders.choice(order)
        descend(order, choice, *table, grain)
        if best is None or orders.scores[choice].sum() > orders.scores[best].sum() + grain:
            best = choice.copy()
    assert best is not None
    return orders.result(best, [*trace, float(orders.scores[best].sum())])


def _order_of(orders: _Orders, choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a topological order of the graph given by parent set numbers; ties are broken by name."""
    graph = orders.result(choice, []).graph
    numbers = {v: i for i, v in enumerate(orders.names)}
    return np.array([numbers[v] for v in nx.lexicographical_topological_sort(graph)], dtype=np.int64)
