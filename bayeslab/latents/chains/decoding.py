"""Paths of a hidden Markov chain: most likely path, n best paths, posterior draws, and posterior decoding.

The most likely path (Viterbi [1]_) maximises the probability that the whole path is right; the most probable state of
each row (posterior decoding) maximises the expected number of right rows. The latter may contain impossible
transitions; `posterior_decode` then returns a log probability of -inf.

References
----------
.. [1] Viterbi (1967). Error bounds for convolutional codes and an asymptotically optimum decoding
   algorithm. IEEE Transactions on Information Theory 13, 260-269.
.. [2] Seshadri, Sundberg (1994). List Viterbi decoding algorithms with applications. IEEE Transactions
   on Communications 42, 313-323.
.. [3] Scott (2002). Bayesian methods for hidden Markov models. JASA 97, 337-351 (drawing paths backwards).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bayeslab.errors import DataError, EvidenceError, OptionError
from bayeslab.latents.chains.forward_backward import HiddenChain, Smoothed, filter_states, read_rows, room

__all__ = ["Paths", "k_best", "path_log_probability", "posterior_decode", "sample_paths", "viterbi"]


@dataclass(frozen=True, eq=False)
class Paths:
    """Paths of states, with their joint log probability with the data.

    Parameters
    ----------
    states : ndarray of int, shape (n_rows,) or (n_paths, n_rows)
        -1 where there is no path.
    log_probability : ndarray of shape (n_sequences,) or (n_paths, n_sequences)
        log p(path, data) of each sequence, -inf for a path that cannot be.
    """

    states: np.ndarray
    log_probability: np.ndarray

    def possible(self) -> Self:
        """Return the paths; raise EvidenceError if a sequence has no path or an impossible one."""
        bad = np.argwhere(~(self.log_probability > -np.inf))
        if len(bad):
            more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
            raise EvidenceError(
                f"the path of sequence {bad[0][-1]} has probability zero{more}", code="probability-zero"
            )
        return self


def viterbi(chain: HiddenChain, log_emission: Any, offsets: Any = None) -> Paths:
    """The most likely path of each sequence; ties go to the lower state, from the last row back.

    Parameters
    ----------
    chain : HiddenChain
    log_emission : array of shape (n_rows, n_states)
    offsets : array of shape (n_sequences + 1,), optional

    Returns
    -------
    Paths
        States are -1 and log probabilities -inf for impossible sequences.
    """
    from bayeslab.latents.chains.markov_kernels import best_path

    log_emission, offsets = read_rows(chain, log_emission, offsets)
    states, log_probability = np.empty(len(log_emission), np.int64), np.empty(len(offsets) - 1)
    scores = room(*log_emission.shape)
    best_path(chain.starts, chain.form(chain.log_transition), log_emission, offsets, scores, states, log_probability)
    return Paths(states, log_probability)


def k_best(chain: HiddenChain, log_emission: Any, n_paths: int, offsets: Any = None) -> Paths:
    """The ``n_paths`` most likely paths of each sequence, best first.

    Memory is proportional to n_rows × n_states × n_paths. If a sequence has fewer possible paths, the remaining ones
    have states -1 and log probability -inf.
    """
    from bayeslab.latents.chains.markov_kernels import best_paths

    if n_paths < 1:
        raise OptionError(f"n_paths is {n_paths}; at least 1", code="out-of-range")
    log_emission, offsets = read_rows(chain, log_emission, offsets)
    states = np.empty((n_paths, len(log_emission)), np.int64)
    log_probability = np.empty((n_paths, len(offsets) - 1))
    best_paths(chain.starts, chain.form(chain.log_transition), log_emission, offsets, states, log_probability)
    return Paths(states, log_probability)


def posterior_decode(chain: HiddenChain, log_emission: Any, smoothed: Smoothed, offsets: Any = None) -> Paths:
    """The most probable state of each row; ties go to the lower state.

    Their log probability as a path is -inf if it has impossible transitions.
    """
    smoothed.possible()
    states = smoothed.posterior.argmax(1)
    return Paths(states, path_log_probability(chain, log_emission, states, offsets))


def path_log_probability(chain: HiddenChain, log_emission: Any, states: Any, offsets: Any = None) -> np.ndarray:
    """log p(path, data) of each sequence along ``states`` (n_rows,)."""
    from bayeslab.latents.chains import markov_kernels as kernels

    log_emission, offsets = read_rows(chain, log_emission, offsets)
    states = np.require(states, None, ["C", "W"])
    if states.shape != log_emission.shape[:1] or not np.issubdtype(states.dtype, np.integer):
        raise DataError(
            f"a path has one state number a row, {len(log_emission)}; given {states.dtype} {states.shape}",
            code="wrong-shape",
        )
    if len(states) and not 0 <= states.min() <= states.max() < chain.n_states:
        raise DataError(f"states of a path are 0 to {chain.n_states - 1}", code="out-of-range")
    out = np.empty(len(offsets) - 1)
    transition = chain.form(chain.log_transition)
    kernels.path_log_probability(chain.starts, transition, log_emission, offsets, states.astype(np.int64), out)
    return out


def sample_paths(
    chain: HiddenChain, log_emission: Any, n_paths: int, rng: np.random.Generator, offsets: Any = None
) -> np.ndarray:
    """Independent draws of all paths given the data, shape (n_paths, n_rows).

    Filtered forwards once, drawn backwards: P(z_t | z_{t+1}, y) is proportional to the filtered
    P(z_t) times the transition.

    Raises
    ------
    EvidenceError
        A sequence is impossible.
    """
    from bayeslab.latents.chains.markov_kernels import sample_path

    log_emission, offsets = read_rows(chain, log_emission, offsets)
    log_filtered = filter_states(chain, log_emission, offsets).log_filtered
    states = np.empty((n_paths, len(log_emission)), np.int64)
    transition = chain.form(chain.log_transition)
    for path in states:
        sample_path(transition, log_filtered, offsets, rng.random(len(log_emission)), path)
    return states
