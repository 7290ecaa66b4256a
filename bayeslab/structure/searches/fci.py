"""FCI: structure from tests of independence with hidden variables and selection.

With hidden variables, the independences among the observed variables are those of a *maximal ancestral graph*,
in which a ↔ b means that neither is a cause of the other. Data determine its equivalence class, drawn as a
partial ancestral graph (PAG, see :mod:`bayeslab.structure.partial_graph`). Two non-adjacent variables need not
be separated by neighbours of one of them; a sufficient superset, possible-d-sep, is searched once the colliders
are known [1]_. Ten rules then find every mark that all members share [2]_; rules 5 to 7 concern selection.

References
----------
.. [1] Spirtes, Meek, Richardson (1995). Causal inference in the presence of latent variables and selection
   bias. UAI 11, 499-506.
.. [2] Zhang (2008). On the completeness of orientation rules for causal discovery in the presence of latent
   confounders and selection bias. Artificial Intelligence 172, 1873-1896.
.. [3] Colombo, Maathuis, Kalisch, Richardson (2012). Learning high-dimensional directed acyclic graphs with
   latent and selection variables. Annals of Statistics 40, 294-321.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import ModelError
from bayeslab.structure.constraint_search import (
    Asked,
    ColliderRule,
    Result,
    Separation,
    Skeleton,
    deciding_sets,
    judge_triples,
    share_with,
    skeleton,
)
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.partial_graph import ARROW, CIRCLE, NONE, TAIL, PartialGraph

__all__ = ["search"]

type Marks = NDArray[np.int8]


def search(
    data: Any,
    *,
    test: str | None = None,
    alpha: float = 0.01,
    max_given: int | None = None,
    colliders: ColliderRule = "max_p",
    constraints: Constraints | None = None,
) -> Result:
    """Learn a partial ancestral graph.

    Parameters
    ----------
    data, test, alpha, colliders
        As in :func:`bayeslab.structure.searches.pc.search`.
    max_given : int, optional
        Size of the largest conditioning sets. Without a limit the time may be exponential in the number of
        variables.
    constraints : Constraints, optional
        Tiers only: a variable of a later tier is not a cause of one of an earlier tier. Other constraints concern
        direct edges, which a PAG does not show.

    Returns
    -------
    Result
        Its graph is a PAG if the tests are those of a DAG with hidden and selected variables.

    Raises
    ------
    ModelError
        Constraints other than tiers.
    """
    asked = Asked.of(data, test, alpha)
    later = _later(asked, constraints)
    near = skeleton(asked, max_given=max_given)
    adjacencies = _without_distant_separation(asked, near, _colliders(asked, near, colliders, later), max_given)
    marks = _colliders(asked, adjacencies, colliders, later)
    orient(marks, lambda x, y, v: _separates(asked, adjacencies, colliders, x, y, v))
    return Result(PartialGraph(asked.names, marks), len(asked.answers), adjacencies.trace(asked))


def _later(asked: Asked, constraints: Constraints | None) -> NDArray[np.bool_]:
    """At [u, v] whether v is known not to be a cause of u because its tier is later."""
    if constraints is None:
        return np.zeros((asked.n, asked.n), dtype=bool)
    if set(constraints.names) != set(asked.names):
        raise ModelError("the constraints are on other variables than those of the data", code="different-data")
    if constraints.required or constraints.forbidden or constraints.candidates or constraints.max_parents is not None:
        raise ModelError(
            "FCI supports only tiers: its edges are not direct effects, to which other constraints refer",
            code="unsupported",
        )
    tier = {v: i for i, names in enumerate(constraints.tiers) for v in names}
    place = np.array([tier.get(v, np.nan) for v in asked.names], dtype=float)
    return place[None, :] > place[:, None]


def _colliders(asked: Asked, adjacencies: Skeleton, rule: ColliderRule, later: NDArray[np.bool_]) -> Marks:
    """Circles, with arrowheads into colliders and into later variables."""
    marks = np.where(adjacencies.joined, CIRCLE, NONE).astype(np.int8)
    marks[adjacencies.joined & later] = ARROW
    for (a, b, c), sure in judge_triples(asked, adjacencies, rule).items():
        if sure is not None:
            marks[a, b] = marks[c, b] = ARROW
    return marks


def _without_distant_separation(asked: Asked, near: Skeleton, marks: Marks, max_given: int | None) -> Skeleton:
    """Remove edges that are separated only by sets with variables adjacent to neither end."""
    joined, separations = near.joined.copy(), dict(near.separations)
    farther: dict[tuple[int, int], list[Separation]] = {}
    possible = [_possible_d_sep(marks, v) for v in range(asked.n)]
    largest = near.largest
    for x, y in np.argwhere(np.triu(near.joined)).tolist():
        sets = _distant(asked, [possible[x] - {y}, possible[y] - {x}], x, y, max_given)
        if sets:
            farther[x, y] = sets
            separations[x, y] = max(sets, key=lambda s: s.p_value)
            joined[x, y] = joined[y, x] = False
    return Skeleton(joined, separations, largest, farther)


def _distant(asked: Asked, pools: list[set[int]], x: int, y: int, max_given: int | None) -> list[Separation]:
    """Return the separating sets of the smallest size."""
    largest = max(map(len, pools))
    for size in range((largest if max_given is None else min(largest, max_given)) + 1):
        sets = dict.fromkeys(given for pool in pools for given in combinations(sorted(pool), size))
        answers = [Separation(given, asked.p_value(x, y, given)) for given in sets]
        separating = [answer for answer in answers if answer.p_value > asked.alpha]
        if separating:
            return separating
    return []


def _possible_d_sep(marks: Marks, start: int) -> set[int]:
    """Nodes at the end of a path on which each inner node is a collider or lies in a triangle with its neighbours."""
    around = [np.flatnonzero(row).tolist() for row in marks]
    visited = {(start, v) for v in around[start]}
    queue = deque(sorted(visited))
    while queue:
        a, b = queue.popleft()
        for c in around[b]:
            collider = marks[a, b] == ARROW == marks[c, b]
            if c not in (a, start) and (b, c) not in visited and (collider or marks[a, c]):
                visited.add((b, c))
                queue.append((b, c))
    return {b for _, b in visited}


def _separates(asked: Asked, adjacencies: Skeleton, rule: ColliderRule, x: int, y: int, v: int) -> bool | None:
    """Whether v is in the sets that separate x and y; None if they do not agree."""
    share = share_with(deciding_sets(asked, adjacencies, x, y, rule), v)
    if rule == "majority":
        return None if share == 0.5 else share > 0.5
    return {0.0: False, 1.0: True}.get(share)


def orient(marks: Marks, separates: Callable[[int, int, int], bool | None]) -> None:
    """Orient circle marks by Zhang's rules, in place.

    Parameters
    ----------
    marks
        Circles, and arrowheads into colliders.
    separates
        Whether the third variable is in the set that separates the first two, for rule 4.

    References
    ----------
    Zhang (2008), rules 1 to 10 in the order given there [2]_.
    """
    _until_still(marks, lambda m: _rule_1(m) + _rule_2(m) + _rule_3(m) + _rule_4(m, separates))
    _until_still(marks, _rule_5)
    _until_still(marks, lambda m: _rule_6(m) + _rule_7(m))
    _until_still(marks, lambda m: _rule_8(m) + _rule_9(m) + _rule_10(m))


def _until_still(marks: Marks, rules: Callable[[Marks], list[tuple[int, int, int]]]) -> None:
    """Apply rules until nothing changes; all rules of a round are applied to the same graph.

    If contradictory tests imply two marks for one circle, it becomes an arrowhead.
    """
    while True:
        asked = [(u, v, mark) for u, v, mark in rules(marks) if marks[u, v] == CIRCLE]
        if not asked:
            return
        for u, v, mark in asked:
            marks[u, v] = max(mark, marks[u, v] if marks[u, v] != CIRCLE else TAIL)


# A rule returns (u, v, mark): the mark at v of the edge between u and v. In comments a *-* b is any edge.


def _pairs(where: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    return ((int(u), int(v)) for u, v in np.argwhere(where))


def _apart(marks: Marks, u: int, v: int) -> bool:
    return u != v and marks[u, v] == NONE


def _into(marks: Marks) -> NDArray[np.bool_]:
    """At [u, v] whether u → v."""
    return (marks == ARROW) & (marks.T == TAIL)


def _rule_1(marks: Marks) -> list[tuple[int, int, int]]:
    """a *→ b o-* c, a and c not adjacent: b → c."""
    return [
        change
        for c, b in _pairs(marks == CIRCLE)
        if any(_apart(marks, a, c) for a in np.flatnonzero(marks[:, b] == ARROW).tolist())
        for change in ((c, b, TAIL), (b, c, ARROW))
    ]


def _rule_2(marks: Marks) -> list[tuple[int, int, int]]:
    """a → b *→ c or a *→ b → c, and a *-o c: a *→ c."""
    into, arrow = _into(marks), marks == ARROW
    return [
        (a, c, ARROW) for a, c in _pairs(marks == CIRCLE) if np.any((into[a] & arrow[:, c]) | (arrow[a] & into[:, c]))
    ]


def _rule_3(marks: Marks) -> list[tuple[int, int, int]]:
    """a *→ b ←* c, a *-o d o-* c, a and c not adjacent, d *-o b: d *→ b."""
    out = []
    for d, b in _pairs(marks == CIRCLE):
        ends = np.flatnonzero((marks[:, b] == ARROW) & (marks[:, d] == CIRCLE)).tolist()
        if any(_apart(marks, a, c) for a, c in combinations(ends, 2)):
            out.append((d, b, ARROW))
    return out


def _rule_4(marks: Marks, separates: Callable[[int, int, int], bool | None]) -> list[tuple[int, int, int]]:
    """A discriminating path from e over a to b and c, b o-* c: b → c if b separates e and c, else a ↔ b ↔ c."""
    out = []
    for c, b in _pairs(marks == CIRCLE):
        for a, e in _discriminating(marks, b, c):
            inside = separates(e, c, b)
            if inside is not None:
                collider = [(a, b, ARROW), (c, b, ARROW), (b, c, ARROW)]
                out += [(c, b, TAIL), (b, c, ARROW)] if inside else collider
    return out


def _discriminating(marks: Marks, b: int, c: int) -> Iterator[tuple[int, int]]:
    """The neighbour of b and the far end of each shortest discriminating path for b.

    All nodes between the far end, which is not adjacent to c, and b are colliders on the path and parents of c.
    """
    parents = _into(marks)[:, c]
    for a in np.flatnonzero(parents & (marks[b] == ARROW)).tolist():
        visited, queue = {a, b, c}, deque([a])
        while queue:
            v = queue.popleft()
            for u in np.flatnonzero(marks[:, v] == ARROW).tolist():
                if u in visited:
                    continue
                if marks[u, c] == NONE:
                    yield a, u
                elif parents[u] and marks[v, u] == ARROW:
                    queue.append(u)
                else:
                    continue
                visited.add(u)


def _rule_5(marks: Marks) -> list[tuple[int, int, int]]:
    """a o-o b, an uncovered path a, c, ..., d, b of o-o, a, d and b, c not adjacent: tails on the whole cycle."""
    out = []
    free = (marks == CIRCLE) & (marks.T == CIRCLE)
    for a, b in _pairs(np.triu(free)):
        for path in _uncovered(marks, free, [a], b):
            if len(path) > 3 and _apart(marks, a, path[-2]) and _apart(marks, b, path[1]):
                round_ = [*path, a]
                out += [c for u, v in pairwise(round_) for c in ((u, v, TAIL), (v, u, TAIL))]
    return out


def _rule_6(marks: Marks) -> list[tuple[int, int, int]]:
    """a — b o-* c: b -* c."""
    tails = ((marks == TAIL) & (marks.T == TAIL)).any(axis=0)
    return [(c, b, TAIL) for c, b in _pairs(marks == CIRCLE) if tails[b]]


def _rule_7(marks: Marks) -> list[tuple[int, int, int]]:
    """a —o b o-* c, a and c not adjacent: b -* c."""
    half = (marks == CIRCLE) & (marks.T == TAIL)
    return [
        (c, b, TAIL)
        for c, b in _pairs(marks == CIRCLE)
        if any(_apart(marks, a, c) for a in np.flatnonzero(half[:, b]).tolist())
    ]


def _half_arrows(marks: Marks) -> Iterator[tuple[int, int]]:
    """All a o→ c."""
    return _pairs((marks == ARROW) & (marks.T == CIRCLE))


def _rule_8(marks: Marks) -> list[tuple[int, int, int]]:
    """a → b → c or a —o b → c, and a o→ c: a → c."""
    into = _into(marks)
    first = into | ((marks == CIRCLE) & (marks.T == TAIL))
    return [(c, a, TAIL) for a, c in _half_arrows(marks) if np.any(first[a] & into[:, c])]


def _towards(marks: Marks) -> NDArray[np.bool_]:
    """At [u, v] whether the edge may be u → v: no arrowhead at u, no tail at v."""
    return (marks != NONE) & (marks != TAIL) & (marks.T != ARROW)


def _rule_9(marks: Marks) -> list[tuple[int, int, int]]:
    """a o→ c and an uncovered potentially directed path from a over b to c, b and c not adjacent: a → c."""
    towards = _towards(marks)
    return [
        (c, a, TAIL)
        for a, c in _half_arrows(marks)
        if any(_apart(marks, path[1], c) for path in _uncovered(marks, towards, [a], c))
    ]


def _rule_10(marks: Marks) -> list[tuple[int, int, int]]:
    """a o→ c, b → c ← d, uncovered potentially directed paths a to b and a to d, second nodes not adjacent: a → c."""
    into, towards = _into(marks), _towards(marks)
    out = []
    for a, c in _half_arrows(marks):
        ends = [v for v in np.flatnonzero(into[:, c]).tolist() if v != a]
        seconds = {v: {path[1] for path in _uncovered(marks, towards, [a], v)} for v in ends}
        pairs = ((u, w) for b, d in combinations(ends, 2) for u in seconds[b] for w in seconds[d])
        if any(_apart(marks, u, w) for u, w in pairs):
            out.append((c, a, TAIL))
    return out


def _uncovered(marks: Marks, allowed: NDArray[np.bool_], path: list[int], end: int) -> Iterator[list[int]]:
    """Yield uncovered paths along allowed edges: no three consecutive nodes form a triangle."""
    last = path[-1]
    for v in np.flatnonzero(allowed[last]).tolist():
        if v in path or (len(path) > 1 and marks[path[-2], v] != NONE):
            continue
        if v == end:
            yield [*path, v]
        else:
            yield from _uncovered(marks, allowed, [*path, v], end)
