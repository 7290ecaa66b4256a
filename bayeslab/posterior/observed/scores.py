r"""States that a classifier has judged: columns with P(state | row) instead of a distribution of rows.

By Bayes' rule p(x | z) = P(z | x) p(x) / P(z), and p(x) is the same for all states: P(z | x) / P(z) is a likelihood up
to a factor that no state and no parameter changes [1]_. What is learned is the chain alone.

References
----------
.. [1] Bourlard, Morgan (1994). Connectionist Speech Recognition: A Hybrid Approach. Kluwer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import DataError, ModelError
from bayeslab.exact.emissions import EmissionWithoutParameters
from bayeslab.posterior.observed.part import StatePart

__all__ = ["ScoredPart", "Scores", "scored_of"]

# Rows of probabilities may miss one by so much.
_ROUNDED = 0.02


@dataclass(frozen=True, eq=False)
class Scores(EmissionWithoutParameters):
    """Scaled likelihoods; see :class:`bayeslab.exact.emissions.protocol.Emission` for what an emission offers.

    Attributes
    ----------
    share : ndarray (n_states,)
        P(state) where the classifier was trained.
    """

    share: np.ndarray

    def log_density(self, parameters: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.where(np.isnan(rows), 0.0, np.log(rows) - np.log(self.share))

    def sample(self, rng: np.random.Generator, parameters: Any, states: np.ndarray) -> np.ndarray:
        raise ModelError(
            "scores of a classifier say nothing of how rows come about: they are not replicated", code="not-applicable"
        )

    def features(self, rows: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(rows), 1.0 / len(self.share), rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredPart(StatePart):
    """Columns of scores, one for each state; see :class:`bayeslab.posterior.observed.part.StatePart`."""

    word: str = "scores"
    emission: Scores

    @property
    def names(self) -> tuple[str, ...]:
        return ()

    @property
    def symmetric(self) -> bool:
        return False

    @property
    def even(self) -> bool:
        return False

    def shape(self, name: str) -> tuple[int, ...]:
        raise KeyError(name)

    def dims(self, name: str) -> tuple[str, ...]:
        raise KeyError(name)

    def default_prior(self, name: str) -> str:
        raise KeyError(name)

    def labels(self) -> dict[str, np.ndarray]:
        return {}

    def to_exact(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {}

    def from_exact(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {}

    # ------------------------------------------------------------------ PyMC

    def variables(self) -> dict[str, Any]:
        return {}

    def density(self, values: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        """log P(state | row) / P(state), (N, K)."""
        return self.emission.log_density({}, rows[:, list(self.at)])

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        raise ModelError(
            "scores of a classifier say nothing of how rows come about: they are not simulated", code="not-applicable"
        )


def scored_of(
    columns: tuple[str, ...], at: tuple[int, ...], rows: np.ndarray, base: np.ndarray, prior: np.ndarray | None
) -> ScoredPart:
    """The part on its data: rows (n_rows, n_states) of probabilities; those of ``base`` give P(state) if no one does.

    Raises
    ------
    DataError, ModelError
        Numbers that are no probabilities; rows with some cells missing; a prior of zero.
    """
    for j, column in enumerate(columns):
        odd = np.flatnonzero((rows[:, j] < 0) | (rows[:, j] > 1))
        if len(odd):
            raise DataError(
                f"column '{column}', row {odd[0] + 1}: {rows[odd[0], j]:g}; a score is a probability",
                code="impossible-value",
            )
    lost = np.isnan(rows)
    if len(half := np.flatnonzero(lost.any(axis=1) & ~lost.all(axis=1))):
        raise DataError(f"row {half[0] + 1}: some scores are missing; give all of a row, or none", code="missing")
    sums = rows.sum(axis=1)
    if len(odd := np.flatnonzero(np.abs(sums - 1) > _ROUNDED)):
        raise DataError(
            f"row {odd[0] + 1}: the scores of the states sum to {sums[odd[0]]:g}, not to 1", code="not-probabilities"
        )
    path = ("model", "parameters", "prior")
    if prior is None:
        seen = base[~np.isnan(base).any(axis=1)]
        prior = seen.mean(axis=0) if len(seen) else np.full(len(columns), 1 / len(columns))
    elif abs(prior.sum() - 1) > _ROUNDED:
        raise ModelError(
            f"the probabilities of the states sum to {prior.sum():g}, not to 1", path=path, code="not-probabilities"
        )
    if len(zero := np.flatnonzero(prior <= 0)):
        raise ModelError(
            f"the state of '{columns[zero[0]]}' has prior probability 0: leave it out",
            path=path,
            code="not-probabilities",
        )
    return ScoredPart(columns=columns, at=at, n_states=len(columns), emission=Scores(prior / prior.sum()))
