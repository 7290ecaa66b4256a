r"""The certified best structure, by A* search over sets of variables.

As in dynamic programming, variables are placed one after the other, each with its best parents among those already
placed. Sets are expanded in the order of an upper bound: the score so far plus a bound on what the other variables can
add [1]_. The bound respects acyclicity within groups of variables and ignores it between groups (a static pattern
database [2]_); with groups of one variable, each variable may have all others as parents. The bound is admissible and
consistent, so that the first complete graph is optimal.

Variables in different strong components of the graph of possible edges are solved separately [3]_; with required edges,
tiers or many data this divides the work. Sets with a bound below the score of a graph found by a search over orders are
discarded.

References
----------
.. [1] Yuan, Malone (2013). Learning optimal Bayesian networks: a shortest path perspective. JAIR 48, 23-65.
.. [2] Yuan, Malone (2012). An improved admissible heuristic for learning optimal Bayesian networks. UAI 28, 924-933.
.. [3] Fan, Malone, Yuan (2014). Finding optimal Bayesian network structures with constraints learned from data.
   UAI 30, 200-209.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import EngineRefusal, ModelError, OptionError
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.score_table import ScoreTable, half_of_memory
from bayeslab.structure.searches import Found, order_search
from bayeslab.structure.searches.exact import graph_of, table_of
from bayeslab.structure.searches.toolbox.scorer import Prior, Source, members

__all__ = ["search"]

_LARGEST = 62
# Number of expanded sets between checks of memory and Ctrl-C.
_STEPS = 200_000
# Bytes of a set in the table (key, score, last variable, closed) and of a heap entry.
_SET, _ENTRY = 18, 16
FIRST = 1 << 14
# Steps of the initial search over orders; a proposal costs about a microsecond.
_ORDERS = 60_000
_ROUNDING = 1e-9


def search(
    source: Source,
    *,
    constraints: Constraints | None = None,
    prior: Prior = "uniform",
    max_parents: int | None = None,
    group: int = 20,
    memory: float | None = None,
) -> Found:
    """Return an optimal DAG.

    Parameters
    ----------
    source, constraints, prior, max_parents
        As for :func:`bayeslab.structure.searches.exact.search`.
    group
        Number of variables per group of the bound, 1 to 20; larger groups give a sharper bound and need 2^group numbers
        each.
    memory
        Memory limit in megabytes; default: half of the machine's memory.

    Returns
    -------
    Found
        Its trace has the score of the graph found by the search over orders, and the optimal score.

    Raises
    ------
    EngineRefusal
        The sets do not fit into memory; the message has bounds on the optimal score.
    ModelError
        The parent sets form no DAG.
    """
    if not 1 <= group <= 20:
        raise OptionError(f"group is a number of variables from 1 to 20; given {group}", code="out-of-range")
    table = table_of(source, constraints, prior, max_parents, memory)
    rough = order_search.search(table, rng=np.random.default_rng(0), steps=_ORDERS)
    limit = (memory if memory is not None else half_of_memory()) * 1e6
    reached = table.scores[table.choice(rough.graph)]
    edges: list[tuple[str, str]] = []
    score = 0.0
    for part in parts(table):
        numbers, value = _solved(part, float(reached[part.variables].sum()), group, limit)
        score += value
        for v, number in zip(part.variables, numbers, strict=True):
            edges += [(table.names[u], table.names[v]) for u in table.parents(number)]
    return Found(graph_of(source.names, edges), score, (rough.score, score), len(table.sets))


@dataclass(frozen=True, eq=False)
class _Part:
    """Variables that are solved together, with parent sets among them; numbers refer to the whole table."""

    variables: list[int]
    pointer: NDArray[np.int64]
    sets: NDArray[np.int64]
    scores: NDArray[np.float64]
    numbers: NDArray[np.int64]


def parts(table: ScoreTable) -> list[_Part]:
    """Return the strong components of the graph of all possible edges; ancestors outside a component are available."""
    masks = [members(parent_set) for parent_set in table.sets]
    possible = nx.DiGraph()
    possible.add_nodes_from(range(table.n))
    for v in range(table.n):
        union = 0
        for mask in masks[table.pointer[v] : table.pointer[v + 1]]:
            union |= mask
        possible.add_edges_from((u, v) for u in range(table.n) if union >> u & 1)
    return [_part(table, masks, sorted(component)) for component in nx.strongly_connected_components(possible)]


def _part(table: ScoreTable, masks: list[int], variables: list[int]) -> _Part:
    if len(variables) > _LARGEST:
        raise EngineRefusal(
            f"A* over {len(variables)} variables that could all depend on each other: it is for {_LARGEST} at most, and"
            f" for about 30 in practice. Search by tabu or order_search, or give candidates or tiers",
            code="too-costly",
        )
    pointer, sets, numbers = [0], [], []
    for v in variables:
        kept: set[int] = set()
        for number in range(int(table.pointer[v]), int(table.pointer[v + 1])):
            bits = sum(1 << k for k, u in enumerate(variables) if masks[number] >> u & 1)
            # Of sets that differ only in available ancestors the first one is the best.
            if bits not in kept:
                kept.add(bits)
                sets.append(bits)
                numbers.append(number)
        pointer.append(len(sets))
    chosen = np.array(numbers, np.int64)
    return _Part(variables, np.array(pointer, np.int64), np.array(sets, np.int64), table.scores[chosen], chosen)


def _solved(part: _Part, reached: float, group: int, limit: float) -> tuple[list[int], float]:
    """Return the number of the best parent set of each variable, and the sum of their scores."""
    from bayeslab.structure.searches.toolbox.a_star_kernels import expand

    n = len(part.variables)
    bound = _bound(part, group)
    floor = reached - _ROUNDING * max(1.0, abs(reached))
    store = _Store.empty()
    opened: Any = expand
    while True:
        arrays = (part.pointer, part.sets, part.scores, *bound, *store.sets, *store.heap)
        done = opened(n, *arrays, store.state, floor, _STEPS)
        if done == 1:
            return _path(part, store, n)
        if done < 0:
            raise ModelError(
                "no acyclic graph can be made of the parent sets of the score table", code="no-acyclic-graph"
            )
        if not store.grown(n, limit):
            raise EngineRefusal(
                f"A* over {n} variables kept {store.state[1]:,} sets in {limit / 1e6:,.0f} MB and is not done: the best"
                f" score of these is between {reached:,.3f}, which order_search finds, and {store.heap[0][0]:,.3f}."
                f" Take order_search or tabu, or lower max_parents or candidates",
                code="too-costly",
            )


class _Store:
    """The visited sets, in a hash table with open addressing, and the heap of open sets."""

    def __init__(self, sets: list[NDArray[Any]], heap: list[NDArray[Any]], state: NDArray[np.int64]) -> None:
        self.sets, self.heap, self.state = sets, heap, state

    @classmethod
    def empty(cls) -> _Store:
        from bayeslab.structure.searches.toolbox.a_star_kernels import place_of

        sets = _blank(FIRST)
        first = place_of(sets[0], 0)
        sets[0][first], sets[1][first] = 0, 0.0
        return cls(sets, [np.zeros(FIRST), np.zeros(FIRST, np.int64)], np.array([1, 1], np.int64))

    def grown(self, n: int, limit: float) -> bool:
        """Grow the storage if needed; return False if that would exceed the limit in bytes."""
        open_, met = self.state
        heap, table = len(self.heap[0]), len(self.sets[0])
        wider = 2 * heap if open_ + n >= heap else heap
        larger = 2 * table if 2 * (met + n) >= table else table
        # During the copy both old and new arrays exist.
        if wider * _ENTRY * 1.5 + larger * _SET * 1.5 > limit:
            return wider == heap and larger == table
        if wider > heap:
            self.heap = [np.concatenate([array, np.zeros_like(array)]) for array in self.heap]
        if larger > table:
            self.sets = _rehashed(self.sets, _blank(larger))
        return True


def _blank(size: int) -> list[NDArray[Any]]:
    return [np.full(size, -1, np.int64), np.full(size, -np.inf), np.zeros(size, np.int8), np.zeros(size, np.bool_)]


def _rehashed(old: list[NDArray[Any]], new: list[NDArray[Any]]) -> list[NDArray[Any]]:
    from bayeslab.structure.searches.toolbox.a_star_kernels import moved

    moved(*old, *new)
    return new


def _bound(part: _Part, group: int) -> tuple[NDArray[Any], ...]:
    """Return the members of the groups and the bounds of their subsets, each with start positions.

    Of several groupings, the one with the lowest bound on the total is used.
    """
    from bayeslab.structure.searches.toolbox.a_star_kernels import patterns

    n = len(part.variables)
    even = math.ceil(n / math.ceil(n / group))
    best: tuple[float, tuple[NDArray[Any], ...]] = (math.inf, ())
    for size in sorted({even, max(1, group - 2), group} if n > group else {n}):
        for pull in _pulls(part) if n > group else (np.zeros((n, n)),):
            order = np.array(_split(pull, size), np.int64)
            groups = [order[at : at + size] for at in range(0, n, size)]
            tables = [patterns(part.pointer, part.sets, part.scores, members) for members in groups]
            bound = sum(float(table[-1]) for table in tables)
            if bound < best[0] or not best[1]:
                starts, begins = (np.cumsum([0, *map(len, pieces)], dtype=np.int64) for pieces in (groups, tables))
                best = bound, (order, starts, np.concatenate(tables), begins)
    return best[1]


def _pulls(part: _Part) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return pairwise dependence: the gain of a variable as the only parent, and the cost of removing it.

    The bound is loose because of cycles between groups, so dependent variables should be in the same group.
    """
    n = len(part.variables)
    alone, missed = np.zeros((n, n)), np.zeros((n, n))
    for v in range(n):
        places = slice(int(part.pointer[v]), int(part.pointer[v + 1]))
        sets, scores = part.sets[places], part.scores[places]
        for u in range(n):
            inside, single = sets >> u & 1 == 1, sets == 1 << u
            alone[u, v] = (scores[single] - scores.min()).max(initial=0.0)
            missed[u, v] = scores[0] - scores[~inside].max(initial=scores.min())
    return alone + alone.T, missed + missed.T


def _split(pull: NDArray[np.float64], size: int) -> list[int]:
    """Return all variables in an order such that each group of ``size`` depends little on the others."""
    left, out = list(range(len(pull))), []
    while left:
        within = pull[np.ix_(left, left)]
        chosen = _cut(within, min(size, len(left)))
        out += [left[k] for k in chosen]
        left = [v for k, v in enumerate(left) if k not in chosen]
    return out


def _cut(pull: NDArray[np.float64], size: int) -> list[int]:
    """Return a group of this size, grown from the most dependent variable and improved by exchanges."""
    inside = [int(pull.sum(axis=0).argmax())]
    while len(inside) < size:
        near = pull[inside].sum(axis=0)
        near[inside] = -1.0
        inside.append(int(near.argmax()))
    while True:
        outside = [v for v in range(len(pull)) if v not in inside]
        to_group, to_others = pull[:, inside].sum(axis=1), pull[:, outside].sum(axis=1)
        out = (to_others - to_group)[inside]
        gain = out[:, None] + (to_group - to_others)[outside][None, :] - 2 * pull[np.ix_(inside, outside)]
        if not gain.size or gain.max() <= 1e-9 * max(1.0, float(pull.max())):
            return sorted(inside)
        i, j = np.unravel_index(int(gain.argmax()), gain.shape)
        inside[i] = outside[j]


def _path(part: _Part, store: _Store, n: int) -> tuple[list[int], float]:
    from bayeslab.structure.searches.toolbox.a_star_kernels import place_of

    numbers, total = [-1] * n, 0.0
    left = (1 << n) - 1
    while left:
        v = int(store.sets[2][place_of(store.sets[0], left)])
        left &= ~(1 << v)
        i = next(i for i in range(int(part.pointer[v]), int(part.pointer[v + 1])) if not part.sets[i] & ~left)
        numbers[v] = int(part.numbers[i])
        total += float(part.scores[i])
    return numbers, total
