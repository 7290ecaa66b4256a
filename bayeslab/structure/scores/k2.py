r"""K2: the log marginal likelihood under uniform priors on all rows of all tables (Dirichlet with a = 1).

.. math:: \sum_j \Big[\log\frac{\Gamma(r_i)}{\Gamma(r_i + N_{ij})} + \sum_k \log \Gamma(1 + N_{ijk})\Big]

Equivalent structures do not have equal scores.

References
----------
.. [1] Cooper, Herskovits (1992). A Bayesian method for the induction of probabilistic networks from data.
   Machine Learning 9, 309-347, eq. 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayeslab.structure.counts import CellSums
from bayeslab.structure.data import Observations
from bayeslab.structure.scores.toolbox.discrete import DiscreteScore

__all__ = ["score"]


def score(data: Any, *, states: Mapping[str, Sequence[Any]] | None = None) -> DiscreteScore:
    """Return the K2 score of a table."""
    observations = Observations.of(data, kind="discrete", states=states)
    # The function summed over the cells of the parents depends on the number of states of the child.
    cards, kinds = np.unique(observations.cards, return_inverse=True)
    sums = CellSums("log_gamma", shifts=(1.0, *cards.astype(float).tolist()))
    return DiscreteScore.of("k2", observations, sums, kinds=kinds.astype(np.int64) + 1)
