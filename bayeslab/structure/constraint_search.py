"""Shared parts of constraint-based searches: the skeleton from independence tests, and its colliders.

Two variables that are not adjacent in a DAG are independent given the parents of one of them, so it is enough
to search for separating sets among the current neighbours of either. In the stable form [1]_ the neighbours
are fixed while sets of one size are tested, so that the skeleton does not depend on the order of the
variables. An unshielded triple a - b - c (a, c not adjacent) is a collider a → b ← c if and only if the sets
that separate a and c do not contain b. On data the separating sets may disagree; the decision is then made by
the set with the largest p-value [2]_, by the majority of the separating sets [1]_, or by the set found first,
which depends on the order.

References
----------
.. [1] Colombo, Maathuis (2014). Order-independent constraint-based causal structure learning. JMLR 15,
   3921-3962.
.. [2] Ramsey (2016). Improving accuracy and scalability of the PC algorithm by maximizing p-value.
   arXiv:1610.00378.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import OptionError, hint
from bayeslab.structure.data import Observations
from bayeslab.structure.independence import IndependenceTest, Outcome, independence_test
from bayeslab.structure.partial_graph import PartialGraph

__all__ = [
    "Asked",
    "ColliderRule",
    "Removal",
    "Result",
    "Separation",
    "Skeleton",
    "Triple",
    "judge_triples",
    "skeleton",
]

type ColliderRule = Literal["max_p", "majority", "first"]
type Triple = tuple[int, int, int]

_RULES = ("max_p", "majority", "first")
# P-values nearer than this count as equal, because the order of summation may differ.
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Removal:
    """A removed edge, and the independence that removed it.

    Attributes
    ----------
    pair : tuple of str
    given : tuple of str
    p_value : float
    """

    pair: tuple[str, str]
    given: tuple[str, ...]
    p_value: float

    def __str__(self) -> str:
        left, right = self.pair
        given = f" | {', '.join(self.given)}" if self.given else ""
        return f"{left} ⊥ {right}{given} (p {self.p_value:.3g})"


@dataclass(frozen=True, eq=False)
class Result:
    """Result of a constraint-based search.

    Attributes
    ----------
    graph : PartialGraph
    tests : int
        Number of distinct tests.
    trace : tuple of Removal
        The removed edges, in order.
    conflicts : tuple of str
        Contradictions between the tests; empty if they are those of a DAG.
    """

    graph: PartialGraph
    tests: int
    trace: tuple[Removal, ...] = ()
    conflicts: tuple[str, ...] = ()


@dataclass
class Asked:
    """A test with cached results and a significance level."""

    test: IndependenceTest
    alpha: float
    answers: dict[tuple[int, int, tuple[int, ...]], Outcome] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Any, test: str | None, alpha: float) -> Asked:
        """Create from a test object, or from a table and the name of a test."""
        if not 0.0 < alpha < 1.0:
            raise OptionError(f"alpha is a probability between 0 and 1, not {alpha:g}", code="out-of-range")
        if callable(data):
            return cls(data, alpha)
        numbers = isinstance(data, Observations) and bool(data.continuous.all())
        return cls(independence_test(test or ("fisher_z" if numbers else "g2"), data), alpha)

    @property
    def names(self) -> tuple[str, ...]:
        return self.test.names

    @property
    def n(self) -> int:
        return len(self.test.names)

    def outcome(self, x: int, y: int, given: Iterable[int]) -> Outcome:
        key = (x, y, tuple(sorted(given))) if x < y else (y, x, tuple(sorted(given)))
        answer = self.answers.get(key)
        if answer is None:
            answer = self.answers[key] = self.test(*key)
        return answer

    def p_value(self, x: int, y: int, given: Iterable[int]) -> float:
        return self.outcome(x, y, given).p_value

    def named(self, variables: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.names[v] for v in variables)


@dataclass(frozen=True, slots=True)
class Separation:
    """A set given which a pair is independent."""

    given: tuple[int, ...]
    p_value: float


@dataclass(frozen=True, eq=False)
class Skeleton:
    """The remaining edges, and the separating sets of the others.

    Attributes
    ----------
    joined : ndarray of bool, shape (n, n)
    separations : dict
        The first separating set found, for each separated pair (x, y) with x < y.
    largest : int
        Size of the largest conditioning sets tested.
    farther : dict
        All separating sets of pairs that are separated only by sets with variables adjacent to neither.
    """

    joined: NDArray[np.bool_]
    separations: dict[tuple[int, int], Separation]
    largest: int
    farther: dict[tuple[int, int], list[Separation]] = field(default_factory=dict)

    def trace(self, asked: Asked) -> tuple[Removal, ...]:
        return tuple(
            Removal((asked.names[x], asked.names[y]), asked.named(separation.given), separation.p_value)
            for (x, y), separation in self.separations.items()
        )


def skeleton(
    asked: Asked,
    *,
    max_given: int | None = None,
    start: NDArray[np.bool_] | None = None,
    keep: NDArray[np.bool_] | None = None,
    above: NDArray[np.bool_] | None = None,
) -> Skeleton:
    """Return the skeleton: remove every edge between variables that are independent given some set.

    Parameters
    ----------
    max_given
        Size of the largest conditioning sets.
    start, keep : ndarray of bool, shape (n, n)
        The initial edges, and those that are never removed; symmetric.
    above : ndarray of bool, shape (n, n)
        At [v, u] whether u may be a parent of v; separating sets consist of possible parents.
    """
    if max_given is not None and max_given < 0:
        raise OptionError(f"max_given is a number of variables, 0 or more, not {max_given}", code="out-of-range")
    joined = ~np.eye(asked.n, dtype=bool) if start is None else start.copy()
    fixed = np.zeros_like(joined) if keep is None else keep
    possible = np.ones_like(joined) if above is None else above
    separations: dict[tuple[int, int], Separation] = {}
    size = 0
    while max_given is None or size <= max_given:
        around = [np.flatnonzero(joined[v] & possible[v]).tolist() for v in range(asked.n)]
        pairs = [(x, y) for x, y in np.argwhere(np.triu(joined & ~fixed)).tolist() if _enough(around, x, y, size)]
        if not pairs:
            break
        for x, y in pairs:
            separation = _first(asked, x, y, _candidates(around, x, y, size))
            if separation is not None:
                separations[x, y] = separation
                joined[x, y] = joined[y, x] = False
        size += 1
    return Skeleton(joined, separations, max(size - 1, 0))


def _enough(around: Sequence[Sequence[int]], x: int, y: int, size: int) -> bool:
    return max(len(around[x]) - (y in around[x]), len(around[y]) - (x in around[y])) >= size


def _candidates(around: Sequence[Sequence[int]], x: int, y: int, size: int) -> Iterator[tuple[int, ...]]:
    """Yield the sets of one size among the neighbours of x or of y, each once."""
    near = [v for v in around[x] if v != y]
    yield from combinations(near, size)
    inside = set(near)
    for given in combinations([v for v in around[y] if v != x], size):
        if not inside.issuperset(given):
            yield given


def _first(asked: Asked, x: int, y: int, sets: Iterable[tuple[int, ...]]) -> Separation | None:
    for given in sets:
        p_value = asked.p_value(x, y, given)
        if p_value > asked.alpha:
            return Separation(given, p_value)
    return None


def separating_sets(
    asked: Asked, skeleton: Skeleton, x: int, y: int, above: NDArray[np.bool_] | None = None
) -> list[Separation]:
    """Return all sets among the final neighbours of x or of y that make them independent.

    The set that removed the edge is not included if its members are no longer neighbours: which set that was
    depends on the order of the variables.
    """
    pair = (min(x, y), max(x, y))
    if pair in skeleton.farther:
        return skeleton.farther[pair]
    joined = skeleton.joined if above is None else skeleton.joined & above
    around = [np.flatnonzero(row).tolist() for row in joined]
    sets = chain.from_iterable(_candidates(around, x, y, size) for size in range(skeleton.largest + 1))
    answers = [Separation(given, asked.p_value(x, y, given)) for given in sets]
    return [answer for answer in answers if answer.p_value > asked.alpha]


def deciding_sets(
    asked: Asked, skeleton: Skeleton, x: int, y: int, rule: ColliderRule, above: NDArray[np.bool_] | None = None
) -> list[Separation]:
    """Return the separating sets of a pair that a collider rule uses."""
    known = skeleton.separations.get((min(x, y), max(x, y)))
    if rule == "first" and known is not None:
        return [known]
    sets = separating_sets(asked, skeleton, x, y, above)
    if rule != "max_p":
        return sets
    best = max((s.p_value for s in sets), default=0.0)
    return [s for s in sets if s.p_value >= best - _TIE]


def share_with(sets: Sequence[Separation], v: int) -> float:
    """Return the share of the sets that contain v; one half if there are no sets."""
    return sum(v in s.given for s in sets) / len(sets) if sets else 0.5


def judge_triples(
    asked: Asked, skeleton: Skeleton, rule: ColliderRule = "max_p", above: NDArray[np.bool_] | None = None
) -> dict[Triple, float | None]:
    """Decide whether each unshielded triple (a, b, c), a < c, is a collider.

    Returns
    -------
    dict
        Strength of evidence for each collider; ``None`` for triples that are not colliders or on which the sets
        do not agree.
    """
    if rule not in _RULES:
        raise OptionError(f"no rule '{rule}' for colliders{hint(rule, _RULES)}", code="unknown-word")
    out: dict[Triple, float | None] = {}
    ends: dict[tuple[int, int], list[Separation]] = {}
    for a, b, c in unshielded(skeleton.joined):
        if (a, c) not in ends:
            ends[a, c] = deciding_sets(asked, skeleton, a, c, rule, above)
        sets = ends[a, c]
        share = share_with(sets, b)
        surest = max((s.p_value for s in sets if b not in s.given), default=0.0)
        collider = share < 0.5 if rule == "majority" else share == 0.0
        out[a, b, c] = round(1.0 - share if rule == "majority" else surest, 9) if collider else None
    return out


def unshielded(joined: NDArray[np.bool_]) -> Iterator[Triple]:
    """Yield the triples a - b - c with a < c and no edge between a and c."""
    for b in range(len(joined)):
        for a, c in combinations(np.flatnonzero(joined[b]).tolist(), 2):
            if not joined[a, c]:
                yield a, b, c
