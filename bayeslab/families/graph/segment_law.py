"""Semi-Markov chains: states that last for durations of their own; the end of a sequence censors the last segment.

Drawing, filtering and paths use the same law as a Markov chain of the pairs (state, cells since it began): a segment of
age a goes on with probability S(a + 1) / S(a), S(a) = P(d ≥ a). Paths of pairs and segmentations are one to one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.families.graph.path_laws import PathLaw, Smoothed
from bayeslab.latents.chains import decoding, duration
from bayeslab.latents.chains.duration import SemiMarkovChain
from bayeslab.latents.chains.forward_backward import Edges, HiddenChain, filter_states, predicted_states

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

    def evidence(self, logs: Any, log_emission: Any) -> Any:
        import pytensor.tensor as pt

        from bayeslab.evidence import log_evidence

        sizes = np.array([self.n_states, self.longest, 1])
        return log_evidence(duration.KERNEL, pt.concatenate([logs, log_emission.ravel()]), self.offsets, sizes)

    def density(self, logs: Any, states: Any) -> Any:
        raise NotImplementedError("a path of segments has no density cell by cell")

    def _segments(self, logs: np.ndarray) -> SemiMarkovChain:
        k = self.n_states
        return SemiMarkovChain(logs[:k], logs[k : k + k * k].reshape(k, k), logs[k + k * k :].reshape(k, -1))

    @cached_property
    def _moves(self) -> tuple[np.ndarray, np.ndarray]:
        """Where pairs (state, age) lead, numbered state by state: sources and targets in order."""
        k, longest = self.n_states, self.longest
        pairs = np.arange(k * longest)
        stay = pairs[pairs % longest < longest - 1]
        i, j = np.nonzero(np.ones((k, k), bool))
        leave = (i[:, None] * longest + np.arange(longest)).ravel()
        sources, targets = np.concatenate([stay, leave]), np.concatenate([stay + 1, np.repeat(j * longest, longest)])
        order = np.lexsort((targets, sources))
        return sources[order], targets[order]

    @property
    def _last(self) -> np.ndarray:
        return np.repeat(np.arange(self.n_states), self.longest)

    def _pairs(self, logs: np.ndarray) -> HiddenChain:
        law, longest = self._segments(logs), self.longest
        alive = np.logaddexp.accumulate(law.log_duration[:, ::-1], axis=1)[:, ::-1]
        after = np.concatenate([alive[:, 1:], np.full((self.n_states, 1), -np.inf)], axis=1)
        there = alive > -np.inf
        base = np.where(there, alive, 0.0)
        go_on = np.where(there, after - base, -np.inf).ravel()
        end = np.where(there, law.log_duration - base, -np.inf).ravel()
        sources, targets = self._moves
        i, j = sources // longest, targets // longest
        values = np.where(targets % longest == 0, end[sources] + law.log_transition[i, j], go_on[sources])
        start = np.full((self.n_states, longest), -np.inf)
        start[:, 0] = law.log_start
        n = self.n_states * longest
        return HiddenChain(start.ravel(), values, Edges(np.searchsorted(sources, np.arange(n + 1)), targets))

    def smooth(self, logs: np.ndarray, log_emission: np.ndarray) -> Smoothed:
        smoothed = duration.smooth(self._segments(logs), log_emission, self.offsets)
        bad = np.flatnonzero(smoothed.log_evidence == -np.inf)
        return Smoothed(
            float(smoothed.log_evidence.sum()), smoothed.posterior, int(self.offsets[bad[0]]) if len(bad) else -1
        )

    def filtered(self, logs: np.ndarray, log_emission: np.ndarray, kind: str) -> np.ndarray:
        chain = self._pairs(logs)
        out = np.exp(filter_states(chain, log_emission[:, self._last], self.offsets).log_filtered)
        out = predicted_states(chain, out, self.offsets) if kind == "predict" else out
        return np.asarray(out.reshape(len(out), self.n_states, self.longest).sum(axis=-1))

    def best(self, logs: np.ndarray, log_emission: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        chain, rows = self._pairs(logs), log_emission[:, self._last]
        if n == 1:
            one = decoding.viterbi(chain, rows, self.offsets)
            paths, heights = one.states[None], one.log_probability[None]
        else:
            several = decoding.k_best(chain, rows, n, self.offsets)
            paths, heights = several.states, several.log_probability
        return np.where(paths >= 0, self._last[paths], -1), heights

    def sample(self, logs: np.ndarray, log_emission: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        path = decoding.sample_paths(self._pairs(logs), log_emission[:, self._last], 1, rng, self.offsets)[0]
        return np.asarray(self._last[path])

    def simulate(self, logs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return duration.simulate_segments(self._segments(logs), np.diff(self.offsets), rng)[0]
