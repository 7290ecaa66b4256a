"""Simulated annealing over graphs: worse graphs are accepted with probability exp(change / temperature).

A move adds, deletes or reverses an edge without closing a cycle. Instead of proposing and rejecting, the number of
proposals until the next acceptance is drawn (geometric), and then the accepted move: this gives the same chain at the
cost of its accepted moves [2]_.

References
----------
.. [1] Kirkpatrick, Gelatt, Vecchi (1983). Optimization by simulated annealing. Science 220, 671-680.
.. [2] Bortz, Kalos, Lebowitz (1975). A new algorithm for Monte Carlo simulation of Ising spin systems.
   Journal of Computational Physics 17, 10-18.
"""

from __future__ import annotations

import networkx as nx
import numpy as np

from bayeslab.errors import OptionError
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.searches import Found
from bayeslab.structure.searches.toolbox.climber import Climber
from bayeslab.structure.searches.toolbox.scorer import Prior, Scorer, Source

__all__ = ["search"]


def search(
    source: Source,
    *,
    rng: np.random.Generator,
    start: nx.DiGraph | None = None,
    constraints: Constraints | None = None,
    prior: Prior = "uniform",
    proposals: int = 300_000,
    hottest: float = 50.0,
    coldest: float = 2.0,
    levels: int = 100,
) -> Found:
    """Anneal, then climb from the best visited graph.

    Parameters
    ----------
    source, constraints, prior, rng
        See :mod:`bayeslab.structure.searches`.
    start
        The initial graph; default: the required edges only.
    proposals
        Number of proposed moves over all temperatures.
    hottest, coldest
        First and last temperature, in nats; it decreases geometrically.
    levels
        Number of temperatures.

    Returns
    -------
    Found
        Its trace has the score at the end of each temperature, and after the final climb.
    """
    if not (hottest >= coldest > 0 and levels >= 1 and proposals >= 0):
        raise OptionError(
            f"annealing goes from hottest >= coldest > 0 in one level or more; given {hottest}, {coldest}, {levels}",
            code="out-of-range",
        )
    scorer = Scorer(source, constraints, prior)
    climber = Climber(scorer, scorer.parents_of(start))
    best, top = list(climber.parents), climber.score
    trace = [top]
    for temperature in np.geomspace(hottest, coldest, levels).tolist():
        left = proposals // levels
        while True:
            gains = climber.gains().reshape(-1)
            rates = np.exp(np.minimum(gains / temperature, 0.0))
            total = float(rates.sum())
            if total <= 0:
                break
            share = min(1.0, total / np.count_nonzero(gains > -np.inf))
            left -= int(rng.geometric(share))
            if left < 0:
                break
            at = int(np.searchsorted(np.cumsum(rates), rng.random() * total, side="right"))
            climber.apply(climber.move_at(min(at, rates.size - 1)))
            if climber.score > top + scorer.tolerance:
                best, top = list(climber.parents), climber.score
        trace.append(climber.score)
    climber = Climber(scorer, best)
    while (move := climber.best(climber.gains())) is not None and move[1] > scorer.tolerance:
        climber.apply(move[0])
    return scorer.result(climber.parents, [*trace, climber.score])
