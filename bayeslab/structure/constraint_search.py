"""What constraint-based searches share: the edges that no test explains away, and the colliders among them.

Two variables that are not joined in a DAG are independent given the parents of one of them; so it is enough
to look among the variables still joined to either. In the stable form [1]_ those are taken as they were when
sets of one size began to be looked at, and which edges stay does not depend on the order of the variables.
An unshielded triple a - b - c (a, c not joined) is a collider a → b ← c exactly when the sets that separate a
and c leave b out. From data the sets disagree; one decides by the set with the largest p-value [2]_, by the
majority of the separating sets [1]_, or by the one found first, which depends on the order.

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
# P-values nearer than this are equal: the order of a sum may differ.
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Removal:
    """An edge that was taken out, and the independence that says so.

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
    """What a constraint-based search found.

    Attributes
    ----------
    graph : PartialGraph
    tests : int
        Number of different tests.
    trace : tuple of Removal
        The edges taken out, in order.
    conflicts : tuple of str
        What the tests say that cannot all hold; none if they are those of a DAG.
    """

    graph: PartialGraph
    tests: int
    trace: tuple[Removal, ...] = ()
    conflicts: tuple[str, ...] = ()


@dataclass
class Asked:
    """A test that remembers its answers, and the level at which it says 'dependent'."""

    test: IndependenceTest
    alpha: float
    answers: dict[tuple[int, int, tuple[int, ...]], Outcome] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Any, test: str | None, alpha: float) -> Asked:
        """Of a test object, or of a table and the name of a test."""
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
    """A set that makes a pair independent."""

    given: tuple[int, ...]
    p_value: float


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Edges that stay, and how the others were explained.

    Attributes
    ----------
    joined : ndarray of bool, shape (n, n)
    separations : dict
        The separating set found first, for each pair (x, y) with x < y that was tested apart.
    largest : int
        Size of the largest sets that were looked at.
    farther : dict
        All separating sets of pairs that only sets with variables joined to neither separate.
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
    """Take out every edge between variables that some set makes independent.

    Parameters
    ----------
    max_given
        Size of the largest sets.
    start, keep : ndarray of bool, shape (n, n)
        The edges there are at first, and those that stay whatever tests say; symmetric.
    above : ndarray of bool, shape (n, n)
        At [v, u] whether u may be a parent of v; separating sets are looked for among possible parents.
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
    """Sets of one size among the variables around x or around y, each once."""
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
    """Every set among the variables joined to x or to y, now that edges are known, that makes them independent.

    The set that took the edge out is not among them if its members are joined no longer: which set that was
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
    """The separating sets of a pair that a rule listens to."""
    known = skeleton.separations.get((min(x, y), max(x, y)))
    if rule == "first" and known is not None:
        return [known]
    sets = separating_sets(asked, skeleton, x, y, above)
    if rule != "max_p":
        return sets
    best = max((s.p_value for s in sets), default=0.0)
    return [s for s in sets if s.p_value >= best - _TIE]


def share_with(sets: Sequence[Separation], v: int) -> float:
    """The share of the sets which contain v; one half of none."""
    return sum(v in s.given for s in sets) / len(sets) if sets else 0.5


def judge_triples(
    asked: Asked, skeleton: Skeleton, rule: ColliderRule = "max_p", above: NDArray[np.bool_] | None = None
) -> dict[Triple, float | None]:
    """Whether each unshielded triple (a, b, c), a < c, is a collider.

    Returns
    -------
    dict
        How sure one is of each collider, larger is surer; ``None`` for triples that are none or for which the
        sets do not agree. Equal numbers are equal evidence.
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
    """Triples a - b - c with a < c and no edge between a and c."""
    for b in range(len(joined)):
        for a, c in combinations(np.flatnonzero(joined[b]).tolist(), 2):
            if not joined[a, c]:
                yield a, b, c
