"""Max-min hill climbing (MMHC): tests of independence find the possible edges, a score chooses among them.

The neighbours of each variable are found by :mod:`bayeslab.structure.searches.mmpc`. Hill climbing with a tabu list
then starts from the empty graph and adds only edges between neighbours, which visits few families even for many
variables.

References
----------
.. [1] Tsamardinos, Brown, Aliferis (2006). The max-min hill-climbing Bayesian network structure learning
   algorithm. Machine Learning 65, 31-78.
"""

from __future__ import annotations

from typing import Any

from bayeslab.structure.constraints import Constraints
from bayeslab.structure.searches import Found, hill_climbing, mmpc
from bayeslab.structure.searches.toolbox.scorer import Prior, Source

__all__ = ["search"]


def search(
    source: Source,
    *,
    data: Any,
    test: str | None = None,
    alpha: float = 0.05,
    max_given: int | None = None,
    constraints: Constraints | None = None,
    prior: Prior = "uniform",
    tabu: int = 100,
) -> Found:
    """Climb among the graphs whose edges join neighbours.

    Parameters
    ----------
    source, prior
        See :mod:`bayeslab.structure.searches`.
    data, test, alpha, max_given
        The tests, as in :func:`bayeslab.structure.searches.mmpc.search`, on the same table as the
        score.
    constraints
        Constraints for both the tests and the climb.
    tabu
        See :func:`bayeslab.structure.searches.hill_climbing.search`.
    """
    near = mmpc.search(data, test=test, alpha=alpha, max_given=max_given, constraints=constraints)
    return hill_climbing.search(source, constraints=near.constraints, prior=prior, tabu=tabu)
