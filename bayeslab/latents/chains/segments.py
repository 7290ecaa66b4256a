"""The law of segments given the data, and the Markov chain that has the same law.

For filtering, prediction and paths segments are a Markov chain of pairs (state, rows since the segment's start): a
segment of age a continues with probability S(a + 1) / S(a), S(a) = P(d ≥ a). Paths of pairs and segmentations are one
to one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeslab.latents.chains import duration
from bayeslab.latents.chains.forward_backward import Edges, HiddenChain
from bayeslab.latents.chains.state_chain import ChainStates, MarkovLaw
from bayeslab.latents.latent import Expected, Law

__all__ = ["PairChain", "SegmentLaw"]


@dataclass(frozen=True, eq=False)
class PairChain(ChainStates):
    """The Markov chain of pairs (state, rows since the segment's start) that has the same law as segments.

    Attributes
    ----------
    mask : ndarray (n_states, n_states) of bool
        Possible transitions between segments.
    longest : int
    """

    mask: np.ndarray
    longest: int

    @cached_property
    def _moves(self) -> tuple[np.ndarray, np.ndarray]:
        """Transitions of pairs, numbered by state: sources and targets in order."""
        longest = self.longest
        pairs = np.arange(len(self.mask) * longest)
        stay = pairs[pairs % longest < longest - 1]
        i, j = np.nonzero(self.mask)
        leave = (i[:, None] * longest + np.arange(longest)).ravel()
        sources = np.concatenate([stay, leave])
        targets = np.concatenate([stay + 1, np.repeat(j * longest, longest)])
        order = np.lexsort((targets, sources))
        return sources[order], targets[order]

    @cached_property
    def edges(self) -> Edges:
        sources, targets = self._moves
        return Edges(np.searchsorted(sources, np.arange(len(self.last) + 1)), targets)

    @cached_property
    def last(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.mask)), self.longest)

    def fold(self, posterior: np.ndarray) -> np.ndarray:
        return np.asarray(posterior).reshape(*posterior.shape[:-1], len(self.mask), self.longest).sum(axis=-1)

    def hidden(self, segments: duration.SemiMarkovChain) -> HiddenChain:
        """The chain, from the law of the segments."""
        log_duration, longest = segments.log_duration, self.longest
        alive = np.logaddexp.accumulate(log_duration[:, ::-1], axis=1)[:, ::-1]
        after = np.concatenate([alive[:, 1:], np.full((len(alive), 1), -np.inf)], axis=1)
        there = alive > -np.inf
        base = np.where(there, alive, 0.0)
        go_on = np.where(there, after - base, -np.inf).ravel()
        end = np.where(there, log_duration - base, -np.inf).ravel()
        sources, targets = self._moves
        i, j = sources // longest, targets // longest
        begins = targets % longest == 0
        values = np.where(begins, end[sources] + segments.log_transition[i, j], go_on[sources])
        start = np.full(log_duration.shape, -np.inf)
        start[:, 0] = segments.log_start
        return HiddenChain(start.ravel(), values, self.edges)


@dataclass(frozen=True, eq=False)
class SegmentLaw(Law):
    """Segments at given parameters; computations other than counts use the chain of pairs."""

    states: PairChain
    segments: duration.SemiMarkovChain
    log_density: np.ndarray
    offsets: np.ndarray

    condition = MarkovLaw.condition

    def expected(self) -> Expected:
        smoothed = duration.smooth(self.segments, self.log_density, self.offsets)
        counts = {
            "initial": smoothed.start_counts,
            "transition": smoothed.transition_counts,
            "duration": smoothed.duration_counts,
        }
        return Expected(smoothed.log_evidence, smoothed.posterior, counts)

    @cached_property
    def pairs(self) -> MarkovLaw:
        """The chain of pairs (state, age)."""
        expanded = self.log_density[:, self.states.last]
        return MarkovLaw(self.states, self.states.hidden(self.segments), expanded, self.offsets)

    def impossible(self) -> np.ndarray:
        if np.all(self.expected().log_evidence > -np.inf):
            return np.full(len(self.offsets) - 1, -1)
        return self.pairs.impossible()

    def filter(self, kind: str) -> np.ndarray:
        return self.pairs.filter(kind)

    def log_likelihoods(self, by_sequence: bool) -> np.ndarray:
        return self.expected().log_evidence if by_sequence else self.pairs.log_likelihoods(by_sequence)

    def mode(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        return self.pairs.mode(n)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        return self.pairs.sample(rng)
