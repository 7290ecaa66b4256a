r"""States with a classifier's scores: columns with P(state | row) instead of a distribution of rows.

By Bayes' rule p(x | z) = P(z | x) p(x) / P(z), and p(x) is the same for all states: P(z | x) / P(z) is a likelihood up
to a factor that does not depend on states or parameters [1]_. Only the chain is learned.

References
----------
.. [1] Bourlard, Morgan (1994). Connectionist Speech Recognition: A Hybrid Approach. Kluwer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.distributions.emissions import EmissionWithoutParameters
from bayeslab.errors import ModelError
from bayeslab.language.writer import Writer
from bayeslab.posterior.observed.part import KnownPart

__all__ = ["ScoredPart", "Scores"]


@dataclass(frozen=True, eq=False)
class Scores(EmissionWithoutParameters):
    """Scaled likelihoods; for the interface see :class:`bayeslab.distributions.emissions.protocol.Emission`.

    Attributes
    ----------
    share : ndarray (n_states,)
        P(state) in the classifier's training data.
    """

    share: np.ndarray

    def log_density(self, parameters: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.where(np.isnan(rows), 0.0, np.log(rows) - np.log(self.share))

    def sample(self, rng: np.random.Generator, parameters: Any, states: np.ndarray) -> np.ndarray:
        raise ModelError(
            "scores of a classifier define no distribution of rows, so there are no replications", code="not-applicable"
        )

    def features(self, rows: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(rows), 1.0 / len(self.share), rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredPart(KnownPart):
    """Columns of scores, one for each state; see :class:`bayeslab.posterior.observed.part.StatePart`."""

    word: str = "scores"
    emission: Scores

    # ------------------------------------------------------------------ PyMC

    def density(self, writer: Writer, values: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        """log P(state | row) / P(state), (N, K)."""
        return self.emission.log_density({}, rows[:, list(self.at)])

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        raise ModelError(
            "scores of a classifier define no distribution of rows, so they cannot be simulated", code="not-applicable"
        )
