r"""MDL: minus the length, in nats, of a description of graph, tables and rows.

.. math:: \log \hat L - \tfrac{1}{2} \log N \cdot q (r - 1) - \log n - \log \binom{n}{k}

This is BIC plus the cost of encoding the graph: the number k of parents of a variable, and which k of the n variables
they are.

References
----------
.. [1] Friedman, Goldszmidt (1996). Learning Bayesian networks with local structure. UAI 12, 252-262, section 2.2.
.. [2] Lam, Bacchus (1994). Learning Bayesian belief networks: an approach based on the MDL principle. Computational
   Intelligence 10, 269-293.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayeslab.structure.counts import CellSums
from bayeslab.structure.data import Observations
from bayeslab.structure.scores.toolbox.discrete import DiscreteScore

__all__ = ["score"]


def score(data: Any, *, states: Mapping[str, Sequence[Any]] | None = None) -> DiscreteScore:
    """Return the MDL score of a table."""
    observations = Observations.of(data, kind="discrete", states=states)
    by_size = np.array(
        [math.log(observations.n) + math.log(math.comb(observations.n, k)) for k in range(observations.n + 1)]
    )
    penalty = 0.5 * math.log(observations.n_rows)
    return DiscreteScore.of("mdl", observations, CellSums("entropy"), per_parameter=penalty, by_size=by_size)
