r"""The maximised log likelihood of the tables: :math:`\sum_{jk} N_{ijk} \log (N_{ijk} / N_{ij})`.

It never decreases when a parent is added, so without a penalty it prefers the complete graph.

References
----------
.. [1] Koller, Friedman (2009). Probabilistic Graphical Models, section 18.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayeslab.structure.counts import CellSums
from bayeslab.structure.data import Observations
from bayeslab.structure.scores.toolbox.discrete import DiscreteScore

__all__ = ["score"]


def score(data: Any, *, states: Mapping[str, Sequence[Any]] | None = None) -> DiscreteScore:
    """Return the maximised log likelihood score of a table."""
    observations = Observations.of(data, kind="discrete", states=states)
    return DiscreteScore.of("log_likelihood", observations, CellSums("entropy"))
