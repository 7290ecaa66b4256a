"""MMPC: the neighbours of each variable by max-min association, the first phase of max-min hill climbing.

For each variable, candidates are added one at a time: the one whose minimum association with the variable,
over all subsets of the current candidates, is largest. Variables that are independent given some subset are
excluded for good. Then each candidate is tested against all subsets of the other candidates. A pair is kept if
each is a candidate of the other [1]_.
Greedy search among these neighbours (:attr:`Candidates.constraints`) is MMHC, :mod:`bayeslab.structure.searches.mmhc`.

References
----------
.. [1] Tsamardinos, Brown, Aliferis (2006). The max-min hill-climbing Bayesian network structure learning
   algorithm. Machine Learning 65, 31-78.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, OptionError
from bayeslab.structure.constraint_search import Asked
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.partial_graph import CIRCLE, PartialGraph

__all__ = ["Candidates", "search"]

# The p-value, then the excess of the statistic over its expectation, because strong dependence always has p-value 0.
type _Association = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The possible neighbours of each variable.

    Attributes
    ----------
    names : tuple of str
    neighbours : mapping of str to tuple of str
        Symmetric.
    tests : int
        Number of distinct tests.
    trace : tuple of (str, tuple of str)
        For each variable, the candidates before the symmetry check of pairs.
    """

    names: tuple[str, ...]
    neighbours: Mapping[str, tuple[str, ...]]
    tests: int
    trace: tuple[tuple[str, tuple[str, ...]], ...] = ()
    known: Constraints | None = field(default=None, repr=False)

    @property
    def graph(self) -> PartialGraph:
        """The edges, with circles at both ends because directions are unknown."""
        marks = [[CIRCLE * (u in self.neighbours[v]) for u in self.names] for v in self.names]
        return PartialGraph(self.names, np.array(marks).reshape(len(self.names), len(self.names)))

    @property
    def constraints(self) -> Constraints:
        """Constraints for a score-based search: parents only among the neighbours, plus the given constraints."""
        known = Constraints(self.names) if self.known is None else self.known
        candidates = {
            v: tuple(u for u in near if v not in known.candidates or u in known.candidates[v])
            for v, near in self.neighbours.items()
        }
        return replace(known, candidates=candidates)


def search(
    data: Any,
    *,
    test: str | None = None,
    alpha: float = 0.01,
    max_given: int | None = None,
    constraints: Constraints | None = None,
) -> Candidates:
    """Find the neighbours of every variable.

    Parameters
    ----------
    data, test, alpha
        As in :func:`bayeslab.structure.searches.pc.search`.
    max_given : int, optional
        Size of the largest conditioning sets.
    constraints : Constraints, optional
        Pairs that may not be adjacent are never neighbours; pairs with a required edge always are.

    Returns
    -------
    Candidates

    Raises
    ------
    ModelError
        The constraints are on other variables.
    """
    if max_given is not None and max_given < 0:
        raise OptionError(f"max_given is a number of variables, 0 or more, not {max_given}", code="out-of-range")
    asked = Asked.of(data, test, alpha)
    known = Constraints(asked.names) if constraints is None else constraints
    if set(known.names) != set(asked.names):
        raise ModelError("the constraints are on other variables than those of the data", code="different-data")
    order = [known.names.index(v) for v in asked.names]
    allowed, needed = (m[np.ix_(order, order)] for m in (known.allowed, known.needed))
    possible, fixed = allowed | allowed.T, needed | needed.T
    limit = asked.n if max_given is None else max_given
    candidates = [
        _neighbours(asked, v, np.flatnonzero(possible[v]).tolist(), np.flatnonzero(fixed[v]).tolist(), limit)
        for v in range(asked.n)
    ]
    both = {
        asked.names[v]: asked.named(u for u in neighbours if v in candidates[u])
        for v, neighbours in enumerate(candidates)
    }
    trace = tuple((asked.names[v], asked.named(neighbours)) for v, neighbours in enumerate(candidates))
    return Candidates(asked.names, both, len(asked.answers), trace, constraints)


def _neighbours(asked: Asked, target: int, possible: list[int], fixed: list[int], limit: int) -> list[int]:
    """Return a superset of the parents and children of one variable, in ascending order."""
    chosen = list(fixed)
    weakest: dict[int, _Association] = {}
    for v in possible:
        if v not in fixed:
            sets = _subsets(chosen, limit)
            weakest[v] = min((_association(asked, target, v, given) for given in sets), default=(0.0, 0.0))
    while True:
        weakest = {v: a for v, a in weakest.items() if -a[0] <= asked.alpha}
        if not weakest:
            break
        new = max(weakest, key=lambda v: (weakest[v], asked.names[v]))
        del weakest[new]
        for v, so_far in weakest.items():
            weakest[v] = _weakened(asked, target, v, so_far, chosen, new, limit)
        chosen.append(new)
    return sorted(v for v in chosen if v in fixed or _stands(asked, target, v, chosen, limit))


def _association(asked: Asked, target: int, v: int, given: tuple[int, ...]) -> _Association:
    outcome = asked.outcome(target, v, given)
    return -outcome.p_value, abs(outcome.statistic) / max(outcome.dof, 1.0)


def _weakened(
    asked: Asked, target: int, v: int, so_far: _Association, chosen: list[int], new: int, limit: int
) -> _Association:
    """Update the minimum association with the sets that contain the newest candidate."""
    for given in _subsets(chosen, limit - 1):
        so_far = min(so_far, _association(asked, target, v, (*given, new)))
        if -so_far[0] > asked.alpha:
            break
    return so_far


def _stands(asked: Asked, target: int, v: int, chosen: list[int], limit: int) -> bool:
    others = [u for u in chosen if u != v]
    return all(asked.p_value(target, v, given) <= asked.alpha for given in _subsets(others, limit))


def _subsets(members: list[int], limit: int) -> Iterator[tuple[int, ...]]:
    for size in range(min(limit, len(members)) + 1):
        yield from combinations(members, size)
