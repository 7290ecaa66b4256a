"""PC: structure from tests of independence, without hidden variables.

Edges between variables that are independent given some set are removed; unshielded colliders are oriented; and
further orientations follow from Meek's rules. If every test is correct and the distribution is faithful to its
DAG, the result is the CPDAG of the DAG [1]_. The stable form [2]_ does not depend on the order of the variables.

References
----------
.. [1] Spirtes, Glymour, Scheines (2000). Causation, Prediction, and Search, 2nd ed., section 5.4.2.
.. [2] Colombo, Maathuis (2014). Order-independent constraint-based causal structure learning. JMLR 15,
   3921-3962.
.. [3] Meek (1995). Causal inference and causal explanation with background knowledge. UAI 11, 403-410.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import ModelError
from bayeslab.structure.constraint_search import Asked, ColliderRule, Result, Triple, judge_triples, skeleton
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.cpdag import meek_closure, reachable
from bayeslab.structure.partial_graph import ARROW, TAIL, PartialGraph

__all__ = ["search"]


def search(
    data: Any,
    *,
    test: str | None = None,
    alpha: float = 0.01,
    max_given: int | None = None,
    colliders: ColliderRule = "max_p",
    constraints: Constraints | None = None,
) -> Result:
    """Learn the equivalence class of a DAG.

    Parameters
    ----------
    data
        Observations, a table of states, or a test of independence (see
        :class:`bayeslab.structure.independence.IndependenceTest`), which is used as it is.
    test : str, optional
        Name of the test, see :func:`bayeslab.structure.independence.independence_test`; default: ``g2``, or
        ``fisher_z`` for purely continuous observations.
    alpha : float
        P-value above which variables count as independent. A larger value keeps more edges.
    max_given : int, optional
        Size of the largest conditioning sets.
    colliders : {"max_p", "majority", "first"}
        Rule that decides whether a triple is a collider: the separating set with the largest p-value, the majority of
        the separating sets, or the one found first (fewer tests; depends on the order of the variables).
    constraints : Constraints, optional
        Required and forbidden edges, tiers and candidate parents. Limits on the number of parents are not supported.

    Returns
    -------
    Result
        Its graph is a CPDAG if the tests do not contradict each other, oriented further by the constraints. If
        colliders imply both directions of an edge, the one with stronger evidence is used; on a tie, neither.
        :func:`bayeslab.structure.cpdag.extension` returns a DAG of the class.

    Raises
    ------
    ModelError
        The constraints limit the number of parents, or are on other variables.
    """
    asked = Asked.of(data, test, alpha)
    known = _constraints(asked, constraints)
    either, needed = known.allowed | known.allowed.T, known.needed | known.needed.T
    adjacencies = skeleton(asked, max_given=max_given, start=either, keep=needed, above=known.allowed)
    fixed = adjacencies.joined & known.allowed.T & ~known.allowed
    verdicts = judge_triples(asked, adjacencies, colliders, known.allowed)
    arrows, conflicts = _resolve(asked, verdicts, fixed)
    marks = np.where(adjacencies.joined, TAIL, 0).astype(np.int8)
    marks[arrows] = ARROW
    graph = PartialGraph(asked.names, meek_closure(marks))
    return Result(graph, len(asked.answers), adjacencies.trace(asked), conflicts)


def _constraints(asked: Asked, constraints: Constraints | None) -> Constraints:
    if constraints is None:
        return Constraints(asked.names)
    if set(constraints.names) != set(asked.names):
        raise ModelError("the constraints are on other variables than those of the data", code="different-data")
    if constraints.max_parents is not None:
        raise ModelError(
            "tests of independence cannot limit the number of parents; leave out max_parents, or search by score",
            code="unsupported",
        )
    if constraints.names == asked.names:
        return constraints
    return Constraints.of(
        asked.names,
        required=constraints.required,
        forbidden=constraints.forbidden,
        tiers=constraints.tiers,
        candidates=constraints.candidates,
    )


def _resolve(
    asked: Asked, verdicts: Mapping[Triple, float | None], fixed: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Return the arrows of the colliders, at [u, v] for u → v, strongest evidence first; and the contradictions."""
    arrows, conflicts = fixed.copy(), []
    sure = sorted(((s, t) for t, s in verdicts.items() if s is not None), key=lambda pair: (-pair[0], pair[1]))
    for _, group in groupby(sure, key=lambda pair: pair[0]):
        triples = [triple for _, triple in group]
        fresh = [(a, b, c) for a, b, c in triples if not arrows[b, a] and not arrows[b, c]]
        wanted = np.zeros_like(arrows)
        for a, b, c in fresh:
            wanted[a, b] = wanted[c, b] = True
        clash = {(a, b, c) for a, b, c in fresh if wanted[b, a] or wanted[b, c]} | (set(triples) - set(fresh))
        conflicts += [f"{_collider(asked, triple)} contradicts others or a constraint" for triple in sorted(clash)]
        for a, b, c in set(fresh) - clash:
            arrows[a, b] = arrows[c, b] = True
    circular = arrows & reachable(arrows).T & ~fixed
    conflicts += [f"{asked.names[u]} → {asked.names[v]} closes a cycle" for u, v in np.argwhere(circular).tolist()]
    return arrows & ~circular, tuple(conflicts)


def _collider(asked: Asked, triple: Triple) -> str:
    a, b, c = asked.named(triple)
    return f"{a} → {b} ← {c}"
