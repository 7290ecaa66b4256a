r"""BIC: the maximised log likelihood minus :math:`\frac{1}{2} \log N` for each free parameter.

A table has q (r - 1) free parameters, whether or not its cells occur.

References
----------
.. [1] Schwarz (1978). Estimating the dimension of a model. Annals of Statistics 6, 461-464.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bayeslab.structure.counts import CellSums
from bayeslab.structure.data import Observations
from bayeslab.structure.scores.toolbox.discrete import DiscreteScore

__all__ = ["score"]


def score(data: Any, *, states: Mapping[str, Sequence[Any]] | None = None) -> DiscreteScore:
    """Return the BIC score of a table."""
    observations = Observations.of(data, kind="discrete", states=states)
    return DiscreteScore.of("bic", observations, CellSums("entropy"), per_parameter=0.5 * math.log(observations.n_rows))
