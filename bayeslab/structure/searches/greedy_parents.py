"""Greedy parent selection: each variable gets, one by one, the parent that increases its score most.

Given an order of the variables, parents come from earlier variables only, so that no cycle can arise: the K2 algorithm
[1]_. Without an order, the best edge over all variables that closes no cycle is added each time, starting from the
empty graph.

References
----------
.. [1] Cooper, Herskovits (1992). A Bayesian method for the induction of probabilistic networks from data.
   Machine Learning 9, 309-347.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.searches import Found
from bayeslab.structure.searches.toolbox.climber import Climber
from bayeslab.structure.searches.toolbox.scorer import Prior, Scorer, Source, bits

__all__ = ["search"]


def search(
    source: Source,
    *,
    order: Sequence[str] | None = None,
    constraints: Constraints | None = None,
    prior: Prior = "uniform",
) -> Found:
    """Add parents while this increases the score.

    Parameters
    ----------
    source, constraints, prior
        See :mod:`bayeslab.structure.searches`.
    order
        All variables; parents come from earlier variables. Default: edges may have any direction.

    Raises
    ------
    ModelError
        The order does not contain all variables, or a required edge contradicts it.
    """
    scorer = Scorer(source, constraints, prior)
    parents = scorer.parents_of(None)
    if order is None:
        return _any_direction(scorer, parents)
    trace = [_total(scorer, parents)]
    earlier = 0
    for v in scorer.order_of(order):
        late = parents[v] & ~earlier
        if late:
            u = scorer.names[next(bits(late))]
            raise ModelError(
                f"the required edge {u} -> {scorer.names[v]} goes against the order: put '{u}' before"
                f" '{scorer.names[v]}'",
                code="contradiction",
            )
        before = np.array([earlier >> u & 1 for u in range(scorer.n)], dtype=bool)
        while True:
            present = np.array([parents[v] >> u & 1 for u in range(scorer.n)], dtype=bool)
            gains = np.where(before & ~present, scorer.gains(v, parents[v]), -np.inf)
            top = float(gains.max(initial=-np.inf))
            if top <= scorer.tolerance:
                break
            parents[v] |= 1 << int(np.argmax(gains >= top - scorer.tolerance))
            trace.append(_total(scorer, parents))
        earlier |= 1 << v
    return scorer.result(parents, trace)


def _total(scorer: Scorer, parents: list[int]) -> float:
    return sum(scorer.local(v, mask) for v, mask in enumerate(parents))


def _any_direction(scorer: Scorer, parents: list[int]) -> Found:
    climber = Climber(scorer, parents)
    trace = [climber.score]
    while True:
        gains = climber.gains()
        gains[:, :, 1] = -np.inf
        gains[climber.edges, 0] = -np.inf
        move = climber.best(gains)
        if move is None or move[1] <= scorer.tolerance:
            return scorer.result(climber.parents, trace)
        climber.apply(move[0])
        trace.append(climber.score)
