"""Semi-Markov chains: states that last for durations of their own; the end of a sequence censors the last segment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.families.graph.path_laws import PathLaw
from bayeslab.language.backends import Backend
from bayeslab.latents.chains import duration, segments
from bayeslab.latents.chains.duration import SemiMarkovChain
from bayeslab.latents.chains.segments import PairChain
from bayeslab.latents.latent import Law

__all__ = ["SegmentLaw"]


@dataclass(frozen=True, eq=False)
class SegmentLaw(PathLaw):
    """Chains of segments one after the other.

    The flat logarithms are those of first states (states,), of transitions between segments (states, states), and of
    durations 1, 2, ... (states, longest).

    Attributes
    ----------
    offsets : ndarray (n_sequences + 1,)
        Where each chain begins, and the number of cells.
    longest : int
    """

    n_states: int
    offsets: np.ndarray
    longest: int

    eliminable = False

    @property
    def n_cells(self) -> int:  # type: ignore[override]
        return int(self.offsets[-1])

    @property
    def sequence(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def recursion(self, backend: Backend, logs: Any, log_emission: Any) -> tuple[str, Any, tuple[np.ndarray, ...]]:
        flat = backend.concatenate([logs, log_emission.reshape((-1,))])
        return duration.KERNEL, flat, (self.offsets, np.array([self.n_states, self.longest, 1]))

    def density(self, backend: Backend, logs: Any, states: Any) -> Any:
        raise NotImplementedError("a path of segments has no density cell by cell")

    def _segments(self, logs: np.ndarray) -> SemiMarkovChain:
        k = self.n_states
        return SemiMarkovChain(logs[:k], logs[k : k + k * k].reshape(k, k), logs[k + k * k :].reshape(k, -1))

    @cached_property
    def _pairs(self) -> PairChain:
        return PairChain(np.ones((self.n_states, self.n_states), bool), self.longest)

    def law(self, logs: np.ndarray, log_emission: np.ndarray) -> Law:
        return segments.SegmentLaw(self._pairs, self._segments(logs), log_emission, self.offsets)

    def simulate(self, logs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return duration.simulate_segments(self._segments(logs), np.diff(self.offsets), rng)[0]
