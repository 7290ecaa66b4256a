"""Greedy equivalence search (GES): over equivalence classes of DAGs, first adding and then deleting edges.

Each step applies the valid operator that increases the score most. With a consistent, score-equivalent score the class
found is the true one in the limit of many rows, if the distribution is faithful to a DAG [1]_.

References
----------
.. [1] Chickering (2002). Optimal structure identification with greedy search. JMLR 3, 507-554: operators and their
   validity, theorems 15 and 17; their gains, corollaries 16 and 18.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.structure.cpdag import compelled_parents, extension
from bayeslab.structure.partial_graph import ARROW, TAIL, PartialGraph
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.scores import LocalScore
from bayeslab.structure.searches import Found
from bayeslab.structure.searches.toolbox.scorer import Prior, Scorer, bits

__all__ = ["search"]


def search(source: LocalScore, *, prior: Prior = "uniform") -> Found:
    """Learn an equivalence class of DAGs.

    Parameters
    ----------
    source, prior
        See :mod:`bayeslab.structure.searches`. The score should be the same for equivalent DAGs, as BDeu, BIC and BGe
        are, and the prior uniform or nearly so.

    Returns
    -------
    Found
        A DAG of the class; :func:`bayeslab.structure.cpdag.cpdag` draws the class.
    """
    if isinstance(source, ScoreTable):
        raise ModelError(
            "greedy equivalence search needs families of any size: give the score, not a table of it",
            code="unsupported",
        )
    scorer = Scorer(source, None, prior)
    parents = scorer.parents_of(None)
    trace = [sum(scorer.local(v, 0) for v in range(scorer.n))]
    for operators in (insertions, _deletions):
        while True:
            state = Class.of(parents)
            step = best(scorer, state, list(operators(state)))
            if step is None:
                break
            parents = state.after(step)
            trace.append(sum(scorer.local(v, mask) for v, mask in enumerate(parents)))
    return scorer.result(parents, trace)


class _Operator(NamedTuple):
    """Insert or delete an edge between x and y; ``turned`` are neighbours of y whose undirected edges it directs.

    The gain is the score of y with the parents ``after`` minus that with ``before``.
    """

    x: int
    y: int
    turned: int
    insert: bool
    before: int
    after: int


@dataclass(frozen=True)
class Class:
    """A CPDAG: compelled parents and undirected neighbours of each variable, as bits."""

    parents: tuple[int, ...]
    neighbours: tuple[int, ...]
    adjacent: tuple[int, ...]

    @classmethod
    def of(cls, parents: list[int]) -> Class:
        """The class of a DAG."""
        compelled = compelled_parents(parents)
        free, joined = [0] * len(parents), [0] * len(parents)
        for v, mask in enumerate(parents):
            for u in bits(mask):
                joined[v] |= 1 << u
                joined[u] |= 1 << v
                if not compelled[v] >> u & 1:
                    free[v] |= 1 << u
                    free[u] |= 1 << v
        return cls(tuple(compelled), tuple(free), tuple(joined))

    def clique(self, members: int) -> bool:
        return all(not members & ~self.adjacent[v] & ~(1 << v) for v in bits(members))

    def blocked(self, start: int, end: int, by: int) -> bool:
        """Return whether ``by`` blocks every semi-directed path from start to end."""
        children = [0] * len(self.parents)
        for v, mask in enumerate(self.parents):
            for u in bits(mask):
                children[u] |= 1 << v
        visited, front = by | 1 << start, 1 << start
        while front:
            reached = 0
            for v in bits(front):
                reached |= children[v] | self.neighbours[v]
            front = reached & ~visited
            visited |= front
            if front >> end & 1:
                return False
        return True

    def after(self, step: _Operator) -> list[int]:
        """Return a DAG of the class reached by an operator."""
        n = len(self.parents)
        marks = np.zeros((n, n), np.int8)
        for v in range(n):
            for u in bits(self.parents[v]):
                marks[u, v], marks[v, u] = ARROW, TAIL
            for u in bits(self.neighbours[v]):
                marks[u, v] = TAIL
        x, y = step.x, step.y
        if step.insert:
            marks[x, y], marks[y, x] = ARROW, TAIL
            for t in bits(step.turned):
                marks[t, y], marks[y, t] = ARROW, TAIL
        else:
            marks[x, y] = marks[y, x] = 0
            for h in bits(step.turned):
                marks[y, h], marks[h, y] = ARROW, TAIL
                if self.neighbours[x] >> h & 1:
                    marks[x, h], marks[h, x] = ARROW, TAIL
        names = tuple(f"{v:06}" for v in range(n))
        graph = extension(PartialGraph(names, marks))
        return [sum(1 << int(u) for u in graph.predecessors(v)) for v in names]


def insertions(state: Class) -> Iterator[_Operator]:
    """Yield insertions that are valid except for paths from y to x, which are checked last."""
    n = len(state.parents)
    for y in range(n):
        for x in range(n):
            if x == y or state.adjacent[y] >> x & 1:
                continue
            common = state.neighbours[y] & state.adjacent[x]
            if not state.clique(common):
                continue
            for turned in _cliques(state, common, state.neighbours[y] & ~state.adjacent[x]):
                before = common | turned | state.parents[y]
                yield _Operator(x, y, turned, True, before, before | 1 << x)


def _cliques(state: Class, base: int, others: int) -> Iterator[int]:
    """Yield all sets of others that form a clique together with the base, which is a clique."""
    pending = [(0, others)]
    while pending:
        chosen, left = pending.pop()
        yield chosen
        for v in bits(left):
            left ^= 1 << v
            if not (base | chosen) & ~state.adjacent[v]:
                pending.append((chosen | 1 << v, left))


def _deletions(state: Class) -> Iterator[_Operator]:
    n = len(state.parents)
    for y in range(n):
        for x in bits(state.neighbours[y] | state.parents[y]):
            common = state.neighbours[y] & state.adjacent[x]
            # The neighbours that are not turned must form a clique.
            for kept in _cliques(state, 0, common):
                after = (kept | state.parents[y]) & ~(1 << x)
                yield _Operator(x, y, common & ~kept, False, after | 1 << x, after)


def best(scorer: Scorer, state: Class, operators: list[_Operator]) -> _Operator | None:
    """Return the best valid operator that increases the score; the first by name on a tie."""
    by_child: dict[int, list[_Operator]] = {}
    for operator in operators:
        by_child.setdefault(operator.y, []).append(operator)
    gains: list[tuple[float, _Operator]] = []
    for y, of_child in by_child.items():
        after, before = scorer.score(y, [o.after for o in of_child]), scorer.score(y, [o.before for o in of_child])
        with np.errstate(invalid="ignore"):
            change = np.where(after > -np.inf, after - before, -np.inf)
        gains += [(g, o) for g, o in zip(change.tolist(), of_child, strict=True) if g > scorer.tolerance]
    # Rounding must not break ties.
    gains.sort(key=lambda pair: (-round(pair[0] / (10 * scorer.tolerance)), pair[1]))
    for _, operator in gains:
        path_ok = not operator.insert or state.blocked(
            operator.y, operator.x, (state.neighbours[operator.y] & state.adjacent[operator.x]) | operator.turned
        )
        if path_ok:
            return operator
    return None
