"""Compiled recursions of chains that draw from urns without replacement, in logarithms.

A share is the number of balls drawn so far from each urn. Row t is drawn at one of the shares ``begins[t]`` to
``begins[t + 1]``; a draw from urn k at share g has probability ``exp(weights[g, k])`` and leads to share ``targets[g,
k]`` of the next row, or -1 where none follows.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel
from bayeslab.latents.chains.log_kernels import log_add, log_sum

__all__ = ["best_path", "log_evidence_and_gradient", "sample_path", "smooth_sequences"]


@inner(error_model="numpy")
def _forward(
    log_start: np.ndarray,
    log_transition: np.ndarray,
    log_emission: np.ndarray,
    begins: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    first: int,
    end: int,
    ahead: np.ndarray,
    predicted: np.ndarray,
    filtered: np.ndarray,
    log_predictive: np.ndarray,
) -> tuple[float, int]:
    """``ahead[g, k]``: log p(rows to t, urn k at share g), and what the rows before and up to t say of urns.

    Returns the log evidence and the first impossible row, or -1.
    """
    n_states = len(log_start)
    log_prior, before = np.empty(n_states), 0.0
    ahead[begins[first] : begins[end]] = -np.inf
    predicted[first:end], filtered[first:end] = np.nan, np.nan
    for t in range(first, end):
        if t > first:
            # What came through the last draw stands at the shares of this row until it is moved on.
            for h in range(begins[t - 1], begins[t]):
                for k in range(n_states):
                    if targets[h, k] >= 0:
                        ahead[targets[h, k], k] = ahead[h, k]
        expected, log_filtered = np.full(n_states, -np.inf), np.full(n_states, -np.inf)
        for g in range(begins[t], begins[t + 1]):
            for k in range(n_states):
                log_prior[k] = log_start[k] if t == first else -np.inf
            if t > first:
                reached = ahead[g].copy()
                for k in range(n_states):
                    log_prior[k] = log_sum(reached + log_transition[:, k])
            for k in range(n_states):
                expected[k] = log_add(expected[k], log_prior[k])
                ahead[g, k] = log_prior[k] + weights[g, k] + log_emission[t, k]
                log_filtered[k] = log_add(log_filtered[k], ahead[g, k])
        total = log_sum(log_filtered)
        log_predictive[t] = total - before
        if total == -np.inf:
            log_predictive[t + 1 : end] = np.nan
            return -np.inf, t
        for k in range(n_states):
            predicted[t, k] = math.exp(expected[k] - before)
            filtered[t, k] = math.exp(log_filtered[k] - total)
        before = total
    return before, -1


@inner(error_model="numpy")
def _backward(
    log_transition: np.ndarray,
    log_emission: np.ndarray,
    begins: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    first: int,
    end: int,
    ahead: np.ndarray,
    evidence: float,
    posterior: np.ndarray,
    counts: np.ndarray,
    onwards: np.ndarray,
) -> None:
    """``onwards[g, k]``: log p(rows from t on | urn k at share g)."""
    n_states = len(log_transition)
    posterior[first:end] = 0.0
    for t in range(end - 1, first - 1, -1):
        for g in range(begins[t], begins[t + 1]):
            for k in range(n_states):
                here, rest = weights[g, k] + log_emission[t, k], 0.0
                follows = targets[g, k]
                if t < end - 1:
                    rest = log_sum(log_transition[k] + onwards[follows]) if follows >= 0 else -np.inf
                onwards[g, k] = here + rest
                share = math.exp(ahead[g, k] + rest - evidence)
                posterior[t, k] += share
                if t < end - 1 and share > 0.0:
                    for j in range(n_states):
                        counts[k, j] += math.exp(ahead[g, k] + log_transition[k, j] + onwards[follows, j] - evidence)


@kernel(error_model="numpy")
def smooth_sequences(
    log_start: np.ndarray,
    log_transition: np.ndarray,
    log_emission: np.ndarray,
    offsets: np.ndarray,
    begins: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    log_evidence: np.ndarray,
    posterior: np.ndarray,
    start_counts: np.ndarray,
    transition_counts: np.ndarray,
    predicted: np.ndarray,
    filtered: np.ndarray,
    log_predictive: np.ndarray,
    impossible: np.ndarray,
    ahead: np.ndarray,
) -> None:
    """Forward and backward over every sequence; the last nine arrays are filled, counts added to."""
    onwards = np.empty(ahead.shape)
    for s in range(len(offsets) - 1):
        first, end = offsets[s], offsets[s + 1]
        if first == end:
            log_evidence[s], impossible[s] = 0.0, -1
            continue
        log_evidence[s], impossible[s] = _forward(
            log_start,
            log_transition,
            log_emission,
            begins,
            targets,
            weights,
            first,
            end,
            ahead,
            predicted,
            filtered,
            log_predictive,
        )
        if impossible[s] >= 0:
            posterior[first:end] = np.nan
            continue
        _backward(
            log_transition,
            log_emission,
            begins,
            targets,
            weights,
            first,
            end,
            ahead,
            log_evidence[s],
            posterior,
            transition_counts,
            onwards,
        )
        start_counts += posterior[first]


@kernel
def log_evidence_and_gradient(
    parameters: np.ndarray, offsets: np.ndarray, begins: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """Log evidence of all sequences and its gradient.

    ``parameters`` are log start (n_states), log transition (n_states × n_states) and log emission beside that of the
    urns (n_rows × n_states), each entry as a free variable.
    """
    n_states, n_rows = weights.shape[1], offsets[-1]
    first, second = n_states, n_states + n_states**2
    gradient, log_evidence = np.zeros(parameters.size), np.empty(len(offsets) - 1)
    smooth_sequences(
        parameters[:first],
        parameters[first:second].reshape(n_states, n_states),
        parameters[second:].reshape(n_rows, n_states),
        offsets,
        begins,
        targets,
        weights,
        log_evidence,
        gradient[second:].reshape(n_rows, n_states),
        gradient[:first],
        gradient[first:second].reshape(n_states, n_states),
        np.empty((n_rows, n_states)),
        np.empty((n_rows, n_states)),
        np.empty(n_rows),
        np.empty(len(offsets) - 1, np.int64),
        np.empty(weights.shape),
    )
    total = log_evidence.sum()
    if total == -np.inf:
        gradient[:] = 0.0
    return total, gradient


@kernel(error_model="numpy")
def best_path(
    log_start: np.ndarray,
    log_transition: np.ndarray,
    log_emission: np.ndarray,
    offsets: np.ndarray,
    begins: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    states: np.ndarray,
    log_probability: np.ndarray,
) -> None:
    """The most likely urns of every sequence; -1 where it is impossible."""
    n_states = len(log_start)
    scores, came = np.full(weights.shape, -np.inf), np.full(weights.shape, -1)
    sources = np.full(weights.shape, -1)
    for s in range(len(offsets) - 1):
        first, end = offsets[s], offsets[s + 1]
        if first == end:
            log_probability[s] = 0.0
            continue
        for t in range(first, end):
            if t > first:
                for h in range(begins[t - 1], begins[t]):
                    for k in range(n_states):
                        if targets[h, k] >= 0:
                            scores[targets[h, k], k], sources[targets[h, k], k] = scores[h, k], h
            for g in range(begins[t], begins[t + 1]):
                reached = scores[g].copy()
                for k in range(n_states):
                    peak = log_start[k] if t == first else -np.inf
                    if t > first:
                        for i in range(n_states):
                            if reached[i] + log_transition[i, k] > peak:
                                peak, came[g, k] = reached[i] + log_transition[i, k], i
                    scores[g, k] = peak + weights[g, k] + log_emission[t, k]
        peak, share, state = -np.inf, -1, -1
        for g in range(begins[end - 1], begins[end]):
            for k in range(n_states):
                if scores[g, k] > peak:
                    peak, share, state = scores[g, k], g, k
        log_probability[s] = peak
        states[first:end] = -1
        for t in range(end - 1, first - 1, -1):
            if state < 0:
                break
            states[t] = state
            if t > first:
                state, share = came[share, state], sources[share, came[share, state]]


@kernel(error_model="numpy")
def sample_path(
    log_transition: np.ndarray,
    offsets: np.ndarray,
    begins: np.ndarray,
    targets: np.ndarray,
    ahead: np.ndarray,
    uniform: np.ndarray,
    states: np.ndarray,
) -> None:
    """Urns drawn given all rows, backwards from what the forward recursion left in ``ahead``."""
    n_states = len(log_transition)
    for s in range(len(offsets) - 1):
        first, end = offsets[s], offsets[s + 1]
        share, state = -1, -1
        for t in range(end - 1, first - 1, -1):
            # Where draws of this row can have led to what was drawn of the next.
            logs = ahead[begins[t] : begins[t + 1]].copy()
            if t < end - 1:
                for g in range(begins[t], begins[t + 1]):
                    for k in range(n_states):
                        there = targets[g, k] == share
                        logs[g - begins[t], k] = logs[g - begins[t], k] + log_transition[k, state] if there else -np.inf
            peak = logs.max()
            total = np.exp(logs - peak).sum()
            left, chosen = uniform[t] * total, False
            for g in range(logs.shape[0]):
                for k in range(n_states):
                    weight = math.exp(logs[g, k] - peak)
                    if weight > 0.0 and not chosen:
                        share, state = begins[t] + g, k
                        left -= weight
                        chosen = left < 0.0
            states[t] = state
