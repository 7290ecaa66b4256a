"""Tabu search: hill climbing that continues from a local optimum without revisiting recent graphs.

References
----------
.. [1] Glover (1989). Tabu search, part I. ORSA Journal on Computing 1, 190-206.
"""

from __future__ import annotations

import networkx as nx

from bayeslab.structure.constraints import Constraints
from bayeslab.structure.searches import Found, hill_climbing
from bayeslab.structure.searches.toolbox.scorer import Prior, Source

__all__ = ["search"]


def search(
    source: Source,
    *,
    start: nx.DiGraph | None = None,
    constraints: Constraints | None = None,
    prior: Prior = "uniform",
    tabu: int = 200,
    patience: int | None = None,
    reinsertion: bool = True,
    max_steps: int = 100_000,
) -> Found:
    """Run :func:`bayeslab.structure.searches.hill_climbing.search` with a tabu list.

    Parameters
    ----------
    source, start, constraints, prior, tabu, patience, reinsertion, max_steps
        As in :func:`bayeslab.structure.searches.hill_climbing.search`.
    """
    return hill_climbing.search(
        source,
        start=start,
        constraints=constraints,
        prior=prior,
        tabu=tabu,
        patience=patience,
        reinsertion=reinsertion,
        max_steps=max_steps,
    )
