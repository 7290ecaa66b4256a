"""Compiled loops of :mod:`bayeslab.latents.topics.variational_topics`."""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["expected_log", "fit_documents"]


@inner
def _digamma(x):  # type: ignore[no-untyped-def]
    """Digamma function of x > 0 to 1e-12: recurrence, then the asymptotic series (Abramowitz, Stegun 1964, 6.3.18)."""
    shift = 0.0
    while x < 6.0:
        shift -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * 691 / 32760)))))
    return shift + math.log(x) - 0.5 / x - series


@kernel
def expected_log(a, out):  # type: ignore[no-untyped-def]
    """exp(E[log p]) of Dirichlet rows (n_topics, n_words), transposed into ``out`` (n_words, n_topics)."""
    for k in range(a.shape[0]):
        whole = _digamma(a[k].sum())
        for w in range(a.shape[1]):
            out[w, k] = math.exp(_digamma(a[k, w]) - whole)


@kernel(fastmath={"reassoc", "contract", "nsz", "arcp"})
def fit_documents(words, counts, offsets, topics, alpha, gamma, statistics, most, tolerance, bound):  # type: ignore[no-untyped-def]
    """Coordinate ascent for the proportions of each document.

    Parameters
    ----------
    words : int32 (n_pairs,), counts : float32 (n_pairs,), offsets : int64 (n_documents + 1,)
        The distinct words of each document and their counts.
    topics : float32 (n_words, n_topics)
        exp(E[log p(word | topic)]).
    alpha : float64 (n_topics,)
    gamma : float64 (n_documents, n_topics)
        Start values; changed in place.
    statistics : float32 (n_words, n_topics)
        Expected counts, not yet multiplied by ``topics``, are added.
    bound : float64 (n_documents,)
        Each document's term of the bound.

    Returns
    -------
    int
        Total number of iterations.
    """
    n_topics = len(alpha)
    weights, fresh = np.empty(n_topics, np.float32), np.empty(n_topics, np.float32)
    total_alpha, iterations = alpha.sum(), 0
    log_alpha = math.lgamma(total_alpha)
    for k in range(n_topics):
        log_alpha -= math.lgamma(alpha[k])
    for d in range(len(offsets) - 1):
        document_gamma = gamma[d]
        whole = _digamma(document_gamma.sum())
        for k in range(n_topics):
            weights[k] = math.exp(_digamma(document_gamma[k]) - whole)
        for _ in range(most):
            iterations += 1
            for k in range(n_topics):
                fresh[k] = 0.0
            for i in range(offsets[d], offsets[d + 1]):
                row = topics[words[i]]
                norm = np.float32(1e-30)
                for k in range(n_topics):
                    norm += weights[k] * row[k]
                scale = counts[i] / norm
                for k in range(n_topics):
                    fresh[k] += scale * row[k]
            change, total = 0.0, 0.0
            for k in range(n_topics):
                value = alpha[k] + weights[k] * np.float64(fresh[k])
                change += abs(value - document_gamma[k])
                document_gamma[k] = value
                total += value
            whole = _digamma(total)
            for k in range(n_topics):
                weights[k] = math.exp(_digamma(document_gamma[k]) - whole)
            if change < tolerance * n_topics:
                break
        value, total = log_alpha, 0.0
        for i in range(offsets[d], offsets[d + 1]):
            row = topics[words[i]]
            norm = np.float32(1e-30)
            for k in range(n_topics):
                norm += weights[k] * row[k]
            scale = counts[i] / norm
            value += counts[i] * math.log(norm)
            target = statistics[words[i]]
            for k in range(n_topics):
                target[k] += scale * weights[k]
        for k in range(n_topics):
            expected = _digamma(document_gamma[k]) - whole
            value += (alpha[k] - document_gamma[k]) * expected + math.lgamma(document_gamma[k])
            total += document_gamma[k]
        bound[d] = value - math.lgamma(total)
    return iterations
