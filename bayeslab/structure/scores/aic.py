"""AIC: the maximised log likelihood minus the number of free parameters.

References
----------
.. [1] Akaike (1974). A new look at the statistical model identification. IEEE Trans. Automatic Control 19, 716-723.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayeslab.structure.counts import CellSums
from bayeslab.structure.data import Observations
from bayeslab.structure.scores.toolbox.discrete import DiscreteScore

__all__ = ["score"]


def score(data: Any, *, states: Mapping[str, Sequence[Any]] | None = None) -> DiscreteScore:
    """Return the AIC score of a table."""
    observations = Observations.of(data, kind="discrete", states=states)
    return DiscreteScore.of("aic", observations, CellSums("entropy"), per_parameter=1.0)
