"""Gibbs draws for hidden Markov models: paths given parameters, parameters given paths.

A path is drawn as a whole, by forward filtering and backward sampling [1]_ [2]_; given the path, conjugate parameters
are drawn from their closed-form posteriors. Structural zeros are kept: impossible transitions are never drawn.

References
----------
.. [1] Chib (1996). Calculating posterior distributions and modal estimates in Markov mixture models. J. Econometrics
   75, 79-97.
.. [2] Scott (2002). Bayesian methods for hidden Markov models. JASA 97, 337-351.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import EvidenceError
from bayeslab.latents.chains.forward_backward import HiddenChain, read_rows, room

__all__ = ["DrawnPath", "draw_path", "draw_probabilities"]


@dataclass(frozen=True, eq=False)
class DrawnPath:
    """Posterior draw of the path of every sequence, with counts.

    Attributes
    ----------
    states : ndarray of int, shape (n_rows,)
    starts : ndarray of shape (n_states,)
        Number of sequences that start in each state.
    moves : ndarray of shape (n_states, n_states)
        Counts of transitions.
    log_evidence : float
        log p(rows | parameters) of all sequences, the states summed out.
    """

    states: np.ndarray
    starts: np.ndarray
    moves: np.ndarray
    log_evidence: float


def draw_path(chain: HiddenChain, log_emission: Any, rng: np.random.Generator, offsets: Any = None) -> DrawnPath:
    """Draw all paths given the rows and the parameters.

    Parameters
    ----------
    chain : HiddenChain
    log_emission : array of shape (n_rows, n_states)
        log p(row | state), zeros for a missing row.
    rng : numpy.random.Generator
        One uniform number is used for each row.
    offsets : array of shape (n_sequences + 1,), optional

    Raises
    ------
    EvidenceError
        A sequence is impossible.
    """
    from bayeslab.latents.chains.markov_kernels import draw_sequences

    log_emission, offsets = read_rows(chain, log_emission, offsets)
    n_rows, n_states = log_emission.shape
    filtered, log_predictive = room(n_rows, n_states), np.empty(n_rows)
    states = np.empty(n_rows, np.int64)
    starts, moves = np.empty(n_states), np.empty((n_states, n_states))
    impossible = draw_sequences(
        chain.starts, chain.form(np.exp(chain.log_transition)), chain.form(chain.log_transition), log_emission, offsets,
        rng.random(n_rows), filtered, log_predictive, states, starts, moves,
    )  # fmt: skip
    if impossible >= 0:
        raise EvidenceError(f"row {impossible} has probability zero given the rows before it", code="probability-zero")
    return DrawnPath(states, starts, moves, float(log_predictive.sum()))


def draw_probabilities(rng: np.random.Generator, concentration: np.ndarray) -> np.ndarray:
    """Rows from Dirichlet distributions, along the last axis; zeros where the concentration is zero.

    Small concentrations lose nothing: log gamma(a) is drawn as log gamma(a + 1) + log(u) / a, and no row is all zeros.
    """
    used = concentration > 0
    a = np.where(used, concentration, 1.0)
    logs = np.log(rng.standard_gamma(a + 1)) + np.log(1 - rng.random(a.shape)) / a
    logs = np.where(used, logs, -np.inf)
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
