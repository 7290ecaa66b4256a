"""Hidden semi-Markov chains: states that last for durations of their own.

The state of a hidden Markov chain lasts for a geometric number of rows. Here each state has a
table of durations; a sequence is cut into segments, each with a state, a duration and rows that
are independent given the state:

    p(segments, y) = start(z_1) prod_k duration(d_k | z_k) prod_t p(y_t | z) prod_k transition(z_k | z_{k-1})

A first segment begins with the sequence. A last one is either still going on when the sequence
ends (``censored``: its duration is at least what is seen), or ends with it. Transitions from a state to
itself are allowed, and zero in most models. Time is O(T N (N + D)) with durations up to D.

References
----------
.. [1] Ferguson (1980). Variable duration models for speech. Proceedings of the Symposium on the
   Application of Hidden Markov Models to Text and Speech, 143-179.
.. [2] Guédon (2003). Estimating hidden semi-Markov chains from discrete sequences. Journal of
   Computational and Graphical Statistics 12, 604-639 (the last segment as censored).
.. [3] Yu (2010). Hidden semi-Markov models. Artificial Intelligence 174, 215-243.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bayeslab.errors import EvidenceError, ModelError
from bayeslab.latents.chains.forward_backward import HiddenChain, read_rows

__all__ = ["KERNEL", "Segments", "SemiMarkovChain", "SmoothedSegments", "simulate_segments", "smooth", "viterbi"]

# For `bayeslab.evidence.log_evidence`: (parameters, offsets, sizes); see `SemiMarkovChain.flat`.
KERNEL = "bayeslab.latents.chains.duration_kernels:log_evidence_and_gradient"


@dataclass(frozen=True, eq=False)
class SemiMarkovChain:
    """The law of segments, in logarithms (-inf where impossible).

    Parameters
    ----------
    log_start : array of shape (n_states,)
        Of the first segment's state.
    log_transition : array of shape (n_states, n_states)
        From one segment's state to the next.
    log_duration : array of shape (n_states, longest)
        Of durations 1, 2, ..., longest.
    censored : bool
        Whether the last segment may go on beyond the last row.
    """

    log_start: np.ndarray
    log_transition: np.ndarray
    log_duration: np.ndarray
    censored: bool = True

    def __post_init__(self) -> None:
        # Shapes and entries of the first two are those of a hidden Markov chain.
        chain = HiddenChain(self.log_start, self.log_transition)
        if chain.varying or chain.log_start.ndim > 1:
            raise ModelError(
                "a semi-Markov chain has one start and one transition for all sequences and rows", code="unsupported"
            )
        duration = np.require(self.log_duration, float, ["C", "W"])
        if duration.ndim != 2 or len(duration) != chain.n_states or duration.shape[1] < 1:
            raise ModelError(
                f"log_duration is {chain.n_states} states × longest duration, not {duration.shape}", code="wrong-shape"
            )
        if np.any(np.isnan(duration)) or np.any(duration == np.inf):
            raise ModelError("log_duration has entries that are NaN or +inf", code="not-finite")
        object.__setattr__(self, "log_start", chain.log_start)
        object.__setattr__(self, "log_transition", chain.log_transition)
        object.__setattr__(self, "log_duration", duration)

    @classmethod
    def of(cls, start: Any, transition: Any, duration: Any, censored: bool = True) -> Self:
        """From probabilities."""
        with np.errstate(divide="ignore", invalid="ignore"):
            start, transition, duration = (np.log(np.asarray(a, float)) for a in (start, transition, duration))
        return cls(start, transition, duration, censored)

    @property
    def n_states(self) -> int:
        return len(self.log_start)

    @property
    def longest(self) -> int:
        return self.log_duration.shape[1]

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.log_start, self.log_transition, self.log_duration

    def flat(self, log_emission: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``(parameters, sizes)`` as `KERNEL` takes them."""
        parameters = np.concatenate([np.ravel(a) for a in (*self.arrays(), log_emission)])
        return parameters, np.array([self.n_states, self.longest, int(self.censored)])

    def read(self, log_emission: Any, offsets: Any) -> tuple[np.ndarray, np.ndarray]:
        """Rows and offsets checked."""
        return read_rows(HiddenChain(self.log_start, self.log_transition), log_emission, offsets)


@dataclass(frozen=True, eq=False)
class SmoothedSegments:
    """What all rows of a sequence say of its segments.

    Parameters
    ----------
    log_evidence : ndarray of shape (n_sequences,)
        -inf where a sequence is impossible.
    posterior : ndarray of shape (n_rows, n_states)
        P(z_t | y); NaN where a sequence is impossible.
    start_counts, transition_counts, duration_counts : ndarray
        Expected numbers of starts, of transitions between segments, and of segments by duration; a segment
        still going on counts towards all durations it may reach, by their probabilities.
    """

    log_evidence: np.ndarray
    posterior: np.ndarray
    start_counts: np.ndarray
    transition_counts: np.ndarray
    duration_counts: np.ndarray

    def possible(self) -> Self:
        """Itself; raises EvidenceError where a sequence is impossible."""
        bad = np.flatnonzero(self.log_evidence == -np.inf)
        if len(bad):
            raise EvidenceError(
                f"sequence {bad[0]} has probability zero: check start, transitions, durations and emissions for zeros",
                code="probability-zero",
            )
        return self


@dataclass(frozen=True, eq=False)
class Segments:
    """The most likely segments.

    Parameters
    ----------
    states : ndarray of shape (n_rows,)
        -1 where a sequence is impossible.
    begins : ndarray of shape (n_rows,)
        The row at which the segment of each row begins: neighbours may be segments of one state.
    log_probability : ndarray of shape (n_sequences,)
        log p(segments, data).
    """

    states: np.ndarray
    begins: np.ndarray
    log_probability: np.ndarray


def smooth(chain: SemiMarkovChain, log_emission: Any, offsets: Any = None) -> SmoothedSegments:
    """Forward-backward over segments.

    Parameters
    ----------
    chain : SemiMarkovChain
    log_emission : array of shape (n_rows, n_states)
        log p(row | state), zeros for a missing row.
    offsets : array of shape (n_sequences + 1,), optional

    Returns
    -------
    SmoothedSegments
        Counts and ``posterior`` are the gradient of ``log_evidence.sum()`` with respect to log_start,
        log_transition, log_duration and log_emission.
    """
    from bayeslab.latents.chains import duration_kernels as kernels

    log_emission, offsets = chain.read(log_emission, offsets)
    log_evidence, posterior = np.empty(len(offsets) - 1), np.empty(log_emission.shape)
    start, transition, duration = (np.zeros(a.shape) for a in chain.arrays())
    outputs = (log_evidence, posterior, start, transition, duration)
    inputs: tuple[Any, ...] = (*chain.arrays(), log_emission, offsets, chain.censored, *outputs)
    kernels.smooth_sequences(*inputs)
    return SmoothedSegments(*outputs)


def viterbi(chain: SemiMarkovChain, log_emission: Any, offsets: Any = None) -> Segments:
    """The most likely segments of each sequence."""
    from bayeslab.latents.chains import duration_kernels as kernels

    log_emission, offsets = chain.read(log_emission, offsets)
    states, begins = np.empty(len(log_emission), np.int64), np.empty(len(log_emission), np.int64)
    log_probability = np.empty(len(offsets) - 1)
    inputs: tuple[Any, ...] = (*chain.arrays(), log_emission, offsets, chain.censored, states, begins, log_probability)
    kernels.best_segments(*inputs)
    return Segments(states, begins, log_probability)


def simulate_segments(chain: SemiMarkovChain, lengths: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """States of sequences of these lengths, cut off where they end, and their offsets."""
    offsets = np.append(0, np.cumsum(np.atleast_1d(lengths)))
    start, transition, duration = (np.exp(a) for a in chain.arrays())
    states = np.empty(offsets[-1], np.int64)
    for s in range(len(offsets) - 1):
        t, law = offsets[s], start
        while t < offsets[s + 1]:
            state = rng.choice(len(law), p=law / law.sum())
            duration_law = duration[state] / duration[state].sum()
            end = min(t + 1 + rng.choice(chain.longest, p=duration_law), offsets[s + 1])
            states[t:end], t, law = state, end, transition[state]
    return states, offsets
