"""What decoding, prediction and learning ask of hidden states at given parameters, and the answers of a Markov chain.

Laws of states that are larger Markov chains (second order, durations) answer through the computed chain; a law that
is none (a tree, urns) has a class of its own with the same methods, which its chain gives as ``chain.law(...)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bayeslab.exact import decoding
from bayeslab.exact.forward_backward import HiddenChain, filter_states, predicted_states, smooth

__all__ = ["Expected", "Law", "MarkovLaw"]


@dataclass(frozen=True, eq=False)
class Expected:
    """What all rows say.

    Attributes
    ----------
    log_evidence : ndarray (n_sequences,)
        -inf where a sequence is impossible.
    posterior : ndarray (n_times, n_states)
    counts : mapping of str to ndarray
        Expected counts of what the chain learns.
    """

    log_evidence: np.ndarray
    posterior: np.ndarray
    counts: Mapping[str, np.ndarray]


class Law(Protocol):
    """Hidden states at given parameters, the data seen."""

    # What makes the first impossible time so, for people.
    given: str

    def expected(self) -> Expected: ...
    def impossible(self) -> np.ndarray:
        """The first time (n_sequences,) that no state explains, or -1."""
        ...

    def filtered(self, kind: str) -> np.ndarray:
        """P(state | rows up to its time), or by ``predict`` before it, (n_times, n_states)."""
        ...

    def terms(self, several: bool) -> np.ndarray:
        """Log likelihood of each sequence, or of each time of a single one."""
        ...

    def best(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The n most likely paths (n, n_times), -1 where there is none, and log probabilities (n, n_sequences)."""
        ...

    def sampled(self, rng: np.random.Generator) -> np.ndarray:
        """States (n_times,) drawn given all rows."""
        ...


@dataclass(frozen=True, eq=False)
class MarkovLaw:
    """A Markov chain.

    Attributes
    ----------
    states : Chain
        Folds what is computed into the states.
    chain : HiddenChain
    log_emission : ndarray (n_times, n_chain_states)
    offsets : ndarray
    """

    states: Any
    chain: HiddenChain
    log_emission: np.ndarray
    offsets: np.ndarray

    given = "given the rows before it"

    def expected(self) -> Expected:
        found = smooth(self.chain, self.log_emission, self.offsets)
        counts = self.states.counts(found.start_counts, found.transition_counts)
        return Expected(found.log_evidence, self.states.fold(found.posterior), counts)

    def impossible(self) -> np.ndarray:
        return smooth(self.chain, self.log_emission, self.offsets).impossible

    def filtered(self, kind: str) -> np.ndarray:
        own = np.exp(filter_states(self.chain, self.log_emission, self.offsets).log_filtered)
        own = predicted_states(self.chain, own, self.offsets) if kind == "predict" else own
        return np.asarray(self.states.fold(own))

    def terms(self, several: bool) -> np.ndarray:
        found = filter_states(self.chain, self.log_emission, self.offsets)
        return found.log_evidence if several else found.log_predictive

    def best(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        if n == 1:
            one = decoding.viterbi(self.chain, self.log_emission, self.offsets).possible()
            paths, heights = one.states[None], one.log_probability[None]
        else:
            several = decoding.k_best(self.chain, self.log_emission, n, self.offsets)
            paths, heights = several.states, several.log_probability
        return np.where(paths >= 0, self.states.last[paths], -1), heights

    def sampled(self, rng: np.random.Generator) -> np.ndarray:
        path = decoding.sample_paths(self.chain, self.log_emission, 1, rng, self.offsets)[0]
        return np.asarray(self.states.last[path])
