"""Compiled loops of :mod:`bayeslab.latents.topics.topic_sequence`."""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["draw_path"]

_STEPS = 50


@inner
def _of_day(x, others, counts, lengths, begin, end, k):  # type: ignore[no-untyped-def]
    """The terms of log p(topics of a day's documents | concentrations) that contain topic k's concentration exp(x)."""
    concentration = math.exp(x)
    whole, out = others + concentration, 0.0
    base, top = math.lgamma(concentration), math.lgamma(whole)
    for d in range(begin, end):
        if counts[d, k] > 0:
            out += math.lgamma(counts[d, k] + concentration) - base
        out += top - math.lgamma(lengths[d] + whole)
    return out


@inner
def _one(path, mean, tau, counts, lengths, days, t, k, rng):  # type: ignore[no-untyped-def]
    """Draw one element of the path by slice sampling (Neal 2003, Annals of Statistics 31, 705-767)."""
    before = path[t - 1, k] if t > 0 else mean[k]
    others = np.exp(path[t]).sum() - math.exp(path[t, k])
    last = t == len(path) - 1
    after = before if last else path[t + 1, k]
    centre, scale = (before, tau) if last else ((before + after) / 2, tau / math.sqrt(2.0))

    at = path[t, k]
    height = _of_day(at, others, counts, lengths, days[t], days[t + 1], k) - 0.5 * ((at - centre) / scale) ** 2
    height -= rng.exponential()
    low = at - 2 * scale * rng.random()
    high = low + 2 * scale
    for side in range(2):
        for _ in range(_STEPS):
            x = low if side == 0 else high
            value = _of_day(x, others, counts, lengths, days[t], days[t + 1], k) - 0.5 * ((x - centre) / scale) ** 2
            if value <= height:
                break
            if side == 0:
                low -= 2 * scale
            else:
                high += 2 * scale
    while high - low > 1e-14:
        x = low + (high - low) * rng.random()
        value = _of_day(x, others, counts, lengths, days[t], days[t + 1], k) - 0.5 * ((x - centre) / scale) ** 2
        if value > height:
            path[t, k] = x
            return
        if x < at:
            low = x
        else:
            high = x


@inner
def _of_all(path, counts, lengths, days):  # type: ignore[no-untyped-def]
    out = 0.0
    for t in range(len(path)):
        whole = 0.0
        for k in range(path.shape[1]):
            concentration = math.exp(path[t, k])
            whole += concentration
            base = math.lgamma(concentration)
            for d in range(days[t], days[t + 1]):
                if counts[d, k] > 0:
                    out += math.lgamma(counts[d, k] + concentration) - base
        top = math.lgamma(whole)
        for d in range(days[t], days[t + 1]):
            out += top - math.lgamma(lengths[d] + whole)
    return out


@kernel
def draw_path(path, mean, tau, counts, lengths, days, rng):  # type: ignore[no-untyped-def]
    """Draw the log concentrations, in place: each element by slice sampling, then the whole path of each topic by
    elliptical slice sampling (Murray, Adams, MacKay 2010, AISTATS 13, 541-548).

    Parameters
    ----------
    path : float64 (n_days, n_topics)
    mean : float64 (n_topics,)
        Log concentrations before the first day.
    tau : float64
        Standard deviation of a daily step.
    counts : int64 (n_documents, n_topics)
        Numbers of tokens; documents in the order of their days.
    lengths : int64 (n_documents,)
    days : int64 (n_days + 1,)
        Day t has the documents ``days[t]`` to ``days[t + 1]``.
    """
    n_days, n_topics = path.shape
    for t in range(n_days):
        for k in range(n_topics):
            _one(path, mean, tau, counts, lengths, days, t, k, rng)
    old = np.empty(n_days)
    other = np.empty(n_days)
    for k in range(n_topics):
        reached = 0.0
        for t in range(n_days):
            reached += tau * rng.standard_normal()
            other[t] = reached
            old[t] = path[t, k] - mean[k]
        height = _of_all(path, counts, lengths, days) - rng.exponential()
        angle = 2 * math.pi * rng.random()
        low, high = angle - 2 * math.pi, angle
        while True:
            for t in range(n_days):
                path[t, k] = mean[k] + old[t] * math.cos(angle) + other[t] * math.sin(angle)
            if _of_all(path, counts, lengths, days) > height:
                break
            if abs(angle) < 1e-14:
                path[:, k] = mean[k] + old
                break
            if angle < 0.0:
                low = angle
            else:
                high = angle
            angle = low + (high - low) * rng.random()
