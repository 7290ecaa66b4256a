"""Compiled recursions of hidden Markov trees, in logarithms.

Nodes come after their parents: ``parents[t] < t``, -1 for a root; ``trees[t]`` is the number of the tree.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel
from bayeslab.latents.chains.log_kernels import log_sum

__all__ = ["best_states", "log_evidence_and_gradient", "sample_states", "simulate_states", "smooth_trees"]


@inner(error_model="numpy")
def _upward(
    log_start: np.ndarray,
    log_transition: np.ndarray,
    log_emission: np.ndarray,
    parents: np.ndarray,
    trees: np.ndarray,
    below: np.ndarray,
    messages: np.ndarray,
    log_evidence: np.ndarray,
    impossible: np.ndarray,
) -> None:
    """``below[t, k]``: log p(rows of t and its descendants | state k); ``messages[t, i]``: ... | the parent's state i.

    ``impossible`` is the last node of each tree whose descendants no state explains, or -1.
    """
    n_states, terms = len(log_start), np.empty(len(log_start))
    below[:] = log_emission
    impossible[:] = -1
    for t in range(len(parents) - 1, -1, -1):
        if parents[t] < 0:
            for k in range(n_states):
                terms[k] = log_start[k] + below[t, k]
            log_evidence[trees[t]] = log_sum(terms)
            peak = log_evidence[trees[t]]
        else:
            peak = -np.inf
            for i in range(n_states):
                for k in range(n_states):
                    terms[k] = log_transition[i, k] + below[t, k]
                messages[t, i] = log_sum(terms)
                peak = max(peak, messages[t, i])
                below[parents[t], i] += messages[t, i]
        if peak == -np.inf and impossible[trees[t]] < 0:
            impossible[trees[t]] = t


@kernel(error_model="numpy")
def smooth_trees(
    log_start: np.ndarray,
    log_transition: np.ndarray,
    log_emission: np.ndarray,
    parents: np.ndarray,
    trees: np.ndarray,
    log_evidence: np.ndarray,
    posterior: np.ndarray,
    start_counts: np.ndarray,
    transition_counts: np.ndarray,
    below: np.ndarray,
    messages: np.ndarray,
    impossible: np.ndarray,
) -> None:
    """Upward and downward; the last seven arrays are filled, counts added to. Impossible trees count nothing."""
    n_states = len(log_start)
    _upward(log_start, log_transition, log_emission, parents, trees, below, messages, log_evidence, impossible)
    for t in range(len(parents)):
        evidence = log_evidence[trees[t]]
        if evidence == -np.inf:
            posterior[t] = np.nan
            continue
        if parents[t] < 0:
            for k in range(n_states):
                posterior[t, k] = math.exp(log_start[k] + below[t, k] - evidence)
                start_counts[k] += posterior[t, k]
            continue
        posterior[t] = 0.0
        for i in range(n_states):
            above = posterior[parents[t], i]
            if above == 0.0:
                continue
            for k in range(n_states):
                both = above * math.exp(log_transition[i, k] + below[t, k] - messages[t, i])
                transition_counts[i, k] += both
                posterior[t, k] += both


@kernel
def log_evidence_and_gradient(
    parameters: np.ndarray, parents: np.ndarray, trees: np.ndarray, sizes: np.ndarray
) -> tuple[float, np.ndarray]:
    """Log evidence of all trees and its gradient.

    ``parameters`` are log start (n_states), log transition (n_states × n_states) and log emission
    (n_nodes × n_states), each entry as a free variable; ``sizes`` is (n_states, n_trees).
    """
    n_states, n_nodes = sizes[0], len(parents)
    first, second = n_states, n_states + n_states**2
    gradient, log_evidence = np.zeros(parameters.size), np.empty(sizes[1])
    smooth_trees(
        parameters[:first],
        parameters[first:second].reshape(n_states, n_states),
        parameters[second:].reshape(n_nodes, n_states),
        parents,
        trees,
        log_evidence,
        gradient[second:].reshape(n_nodes, n_states),
        gradient[:first],
        gradient[first:second].reshape(n_states, n_states),
        np.empty((n_nodes, n_states)),
        np.empty((n_nodes, n_states)),
        np.empty(sizes[1], np.int64),
    )
    total = log_evidence.sum()
    if total == -np.inf:
        gradient[:] = 0.0
    return total, gradient


@kernel(error_model="numpy")
def best_states(
    log_start: np.ndarray,
    log_transition: np.ndarray,
    log_emission: np.ndarray,
    parents: np.ndarray,
    trees: np.ndarray,
    states: np.ndarray,
    log_probability: np.ndarray,
) -> None:
    """The most likely states of each tree together, of equals the lower; -1 where a tree is impossible."""
    n_states = len(log_start)
    below, came = log_emission.copy(), np.empty(log_emission.shape, np.int64)
    for t in range(len(parents) - 1, -1, -1):
        if parents[t] < 0:
            continue
        for i in range(n_states):
            peak, at = -np.inf, 0
            for k in range(n_states):
                score = log_transition[i, k] + below[t, k]
                if score > peak:
                    peak, at = score, k
            came[t, i] = at
            below[parents[t], i] += peak
    for t in range(len(parents)):
        if parents[t] < 0:
            peak, at = -np.inf, -1
            for k in range(n_states):
                if log_start[k] + below[t, k] > peak:
                    peak, at = log_start[k] + below[t, k], k
            states[t], log_probability[trees[t]] = at, peak
        else:
            above = states[parents[t]]
            states[t] = came[t, above] if above >= 0 else -1


@inner
def _pick(weights: np.ndarray, uniform: float) -> int:
    """The place where the running sum passes a share of the whole."""
    left, last = uniform * weights.sum(), -1
    for k in range(len(weights)):
        if weights[k] > 0.0:
            last = k
            left -= weights[k]
            if left < 0.0:
                return k
    return last


@kernel(error_model="numpy")
def sample_states(
    log_transition: np.ndarray,
    parents: np.ndarray,
    posterior: np.ndarray,
    below: np.ndarray,
    messages: np.ndarray,
    uniform: np.ndarray,
    states: np.ndarray,
) -> None:
    """States drawn given all rows, from the roots down."""
    weights = np.empty(log_transition.shape[0])
    for t in range(len(parents)):
        if parents[t] < 0:
            states[t] = _pick(posterior[t], uniform[t])
            continue
        i = states[parents[t]]
        for k in range(len(weights)):
            weights[k] = math.exp(log_transition[i, k] + below[t, k] - messages[t, i])
        states[t] = _pick(weights, uniform[t])


@kernel
def simulate_states(
    start: np.ndarray, transition: np.ndarray, parents: np.ndarray, uniform: np.ndarray, states: np.ndarray
) -> None:
    """States drawn from the law itself."""
    for t in range(len(parents)):
        states[t] = _pick(start if parents[t] < 0 else transition[states[parents[t]]], uniform[t])
