"""Compiled recursions of explicit-duration hidden semi-Markov chains, in logarithms."""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel
from bayeslab.latents.chains.log_kernels import log_add

__all__ = ["best_segments", "log_evidence_and_gradient", "smooth_sequences"]


@kernel
def survival(log_duration: np.ndarray) -> np.ndarray:
    """log P(duration ≥ d) at d - 1."""
    out = log_duration.copy()
    for j in range(out.shape[0]):
        for d in range(out.shape[1] - 2, -1, -1):
            out[j, d] = log_add(out[j, d], out[j, d + 1])
    return out


@inner(error_model="numpy")
def _forward(
    log_start: np.ndarray,
    log_transition: np.ndarray,
    log_duration: np.ndarray,
    alive: np.ndarray,
    log_emission: np.ndarray,
    begin: int,
    end: int,
    censored: bool,
    begins: np.ndarray,
    ends: np.ndarray,
) -> float:
    """``begins[t, j]``: log p(rows before t, a segment of j begins at t); ``ends[t, j]``: one ends at t, rows to t.

    Returns the log evidence.
    """
    n_states, longest = log_duration.shape
    evidence = -np.inf
    for t in range(begin, end):
        for j in range(n_states):
            begins[t, j] = log_start[j] if t == begin else -np.inf
            if t > begin:
                for i in range(n_states):
                    begins[t, j] = log_add(begins[t, j], ends[t - 1, i] + log_transition[i, j])
        for j in range(n_states):
            ends[t, j], run = -np.inf, 0.0
            for d in range(min(longest, t - begin + 1)):
                run += log_emission[t - d, j]
                if run == -np.inf:
                    break
                ends[t, j] = log_add(ends[t, j], begins[t - d, j] + log_duration[j, d] + run)
                if censored and t == end - 1:
                    evidence = log_add(evidence, begins[t - d, j] + alive[j, d] + run)
            if not censored and t == end - 1:
                evidence = log_add(evidence, ends[t, j])
    return evidence if end > begin else 0.0


@inner(error_model="numpy")
def _backward(
    log_transition: np.ndarray,
    log_duration: np.ndarray,
    alive: np.ndarray,
    log_emission: np.ndarray,
    begin: int,
    end: int,
    censored: bool,
    begins: np.ndarray,
    ends: np.ndarray,
    evidence: float,
    posterior: np.ndarray,
    transition_counts: np.ndarray,
    duration_counts: np.ndarray,
) -> None:
    """Expected segments, each added to the rows it covers by what changes at its ends."""
    n_states, longest = log_duration.shape
    # after[t, j]: log p(rows from t on | a segment of j begins at t); onwards[t, j]: ... | one of j ended at t - 1.
    after, onwards = np.empty((end - begin, n_states)), np.full((end - begin, n_states), -np.inf)
    posterior[begin:end] = 0.0
    for t in range(end - 1, begin - 1, -1):
        for j in range(n_states):
            after[t - begin, j], run = -np.inf, 0.0
            for d in range(min(longest, end - t)):
                last = t + d
                run += log_emission[last, j]
                if run == -np.inf:
                    break
                if last < end - 1:
                    weight = log_duration[j, d] + run + onwards[last + 1 - begin, j]
                else:
                    weight = (alive[j, d] if censored else log_duration[j, d]) + run
                after[t - begin, j] = log_add(after[t - begin, j], weight)
                share = math.exp(begins[t, j] + weight - evidence)
                if share == 0.0:
                    continue
                posterior[t, j] += share
                if last < end - 1:
                    posterior[last + 1, j] -= share
                if last == end - 1 and censored:
                    for longer in range(d, longest):
                        duration_counts[j, longer] += share * math.exp(log_duration[j, longer] - alive[j, d])
                else:
                    duration_counts[j, d] += share
        for j in range(n_states):
            for k in range(n_states):
                onwards[t - begin, j] = log_add(onwards[t - begin, j], log_transition[j, k] + after[t - begin, k])
    for t in range(begin + 1, end):
        for j in range(n_states):
            posterior[t, j] += posterior[t - 1, j]
            for i in range(n_states):
                move = ends[t - 1, i] + log_transition[i, j] + after[t - begin, j] - evidence
                transition_counts[i, j] += math.exp(move)
    for t in range(begin, end):
        for j in range(n_states):
            posterior[t, j] = max(posterior[t, j], 0.0)


@kernel
def smooth_sequences(
    log_start: np.ndarray,
    log_transition: np.ndarray,
    log_duration: np.ndarray,
    log_emission: np.ndarray,
    offsets: np.ndarray,
    censored: bool,
    log_evidence: np.ndarray,
    posterior: np.ndarray,
    start_counts: np.ndarray,
    transition_counts: np.ndarray,
    duration_counts: np.ndarray,
) -> None:
    """Forward and backward over every sequence; the last five arrays are filled. Impossible sequences count nothing."""
    alive = survival(log_duration)
    begins, ends = np.empty(log_emission.shape), np.empty(log_emission.shape)
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        log_evidence[s] = _forward(
            log_start, log_transition, log_duration, alive, log_emission, begin, end, censored, begins, ends
        )
        if log_evidence[s] == -np.inf:
            posterior[begin:end] = np.nan
            continue
        _backward(
            log_transition,
            log_duration,
            alive,
            log_emission,
            begin,
            end,
            censored,
            begins,
            ends,
            log_evidence[s],
            posterior,
            transition_counts,
            duration_counts,
        )
        if end > begin:
            start_counts += posterior[begin]


@kernel
def log_evidence_and_gradient(
    parameters: np.ndarray, offsets: np.ndarray, sizes: np.ndarray
) -> tuple[float, np.ndarray]:
    """Log evidence of all sequences and its gradient.

    ``parameters`` are log start (n_states), log transition (n_states × n_states), log duration
    (n_states × longest) and log emission (n_rows × n_states), each entry as a free variable; ``sizes`` is
    (n_states, longest, whether the last segment may go on).
    """
    n_states, longest, n_rows = sizes[0], sizes[1], offsets[-1]
    first, second = n_states, n_states + n_states**2
    third = second + n_states * longest
    gradient, log_evidence = np.zeros(parameters.size), np.empty(len(offsets) - 1)
    smooth_sequences(
        parameters[:first],
        parameters[first:second].reshape(n_states, n_states),
        parameters[second:third].reshape(n_states, longest),
        parameters[third:].reshape(n_rows, n_states),
        offsets,
        sizes[2] > 0,
        log_evidence,
        gradient[third:].reshape(n_rows, n_states),
        gradient[:first],
        gradient[first:second].reshape(n_states, n_states),
        gradient[second:third].reshape(n_states, longest),
    )
    total = log_evidence.sum()
    if total == -np.inf:
        gradient[:] = 0.0
    return total, gradient


@kernel(error_model="numpy")
def best_segments(
    log_start: np.ndarray,
    log_transition: np.ndarray,
    log_duration: np.ndarray,
    log_emission: np.ndarray,
    offsets: np.ndarray,
    censored: bool,
    states: np.ndarray,
    segments: np.ndarray,
    log_probability: np.ndarray,
) -> None:
    """The most likely segments of every sequence; ``segments[t]`` is the row where the segment of row t begins.

    Where the last segment may go on, its length has the probability to be at least what is seen.
    """
    n_states, longest = log_duration.shape
    alive = survival(log_duration)
    begins, ends = np.empty(log_emission.shape), np.empty(log_emission.shape)
    came, lengths = np.empty(log_emission.shape, np.int64), np.empty(log_emission.shape, np.int64)
    for s in range(len(offsets) - 1):
        first, end = offsets[s], offsets[s + 1]
        for t in range(first, end):
            for j in range(n_states):
                begins[t, j], came[t, j] = log_start[j] if t == first else -np.inf, -1
                if t > first:
                    for i in range(n_states):
                        score = ends[t - 1, i] + log_transition[i, j]
                        if score > begins[t, j]:
                            begins[t, j], came[t, j] = score, i
            for j in range(n_states):
                ends[t, j], lengths[t, j], run = -np.inf, 0, 0.0
                for d in range(min(longest, t - first + 1)):
                    run += log_emission[t - d, j]
                    last = alive[j, d] if censored and t == end - 1 else log_duration[j, d]
                    score = begins[t - d, j] + last + run
                    if score > ends[t, j]:
                        ends[t, j], lengths[t, j] = score, d + 1
        if first == end:
            log_probability[s] = 0.0
            continue
        state = int(np.argmax(ends[end - 1]))
        log_probability[s] = ends[end - 1, state]
        if log_probability[s] == -np.inf:
            states[first:end], segments[first:end] = -1, -1
            continue
        t = end - 1
        while t >= first:
            begin = t - lengths[t, state] + 1
            states[begin : t + 1], segments[begin : t + 1] = state, begin
            state, t = came[begin, state], begin - 1
