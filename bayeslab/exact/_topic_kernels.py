"""Compiled loops of :mod:`bayeslab.exact.topics`.

Numbers of topics are padded to whole blocks of 16 with topics of prior weight zero, so that one block is a vector
instruction or two; a topic is then drawn by its block first. Counts are floats of 32 bits, exact up to 2^24.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["BLOCK", "left_to_right", "sweep", "sweep_given"]

BLOCK = 16
_ONE = np.float32(1)
_ZERO = np.float32(0)
_ROTATIONS = tuple(np.uint64(v) for v in (23, 41, 17, 45, 19, 40))


@numba.njit(cache=True, nogil=True)
def _uniform(r):  # type: ignore[no-untyped-def]
    """A number of 24 bits in [0, 1) by xoshiro256++ (Blackman, Vigna 2021, ACM TOMS 47(4), 36); ``r`` is its state."""
    s0, s1, s2, s3 = r[0], r[1], r[2], r[3]
    x = s0 + s3
    x = ((x << _ROTATIONS[0]) | (x >> _ROTATIONS[1])) + s0
    s2 ^= s0
    s3 ^= s1
    r[0], r[1] = s0 ^ s3, s1 ^ s2
    r[2], r[3] = s2 ^ (s1 << _ROTATIONS[2]), (s3 << _ROTATIONS[3]) | (s3 >> np.uint64(19))
    return np.float32(np.int64(x >> _ROTATIONS[5]) * np.float32(5.9604645e-08))


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _picked(r, weights, sums):  # type: ignore[no-untyped-def]
    """A topic with probability proportional to ``weights``; ``sums`` are those of whole blocks, cumulated."""
    n_blocks = len(sums)
    u = _uniform(r) * sums[n_blocks - 1]
    b = 0
    while b < n_blocks - 1 and u >= sums[b]:
        b += 1
    if b > 0:
        u -= sums[b - 1]
    k = b * BLOCK
    last = k + BLOCK - 1
    u -= weights[k]
    while u >= _ZERO and k < last:
        k += 1
        u -= weights[k]
    # Rounding may lead past the last topic there is.
    while weights[k] <= _ZERO and k > 0:
        k -= 1
    return k


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def sweep(words, offsets, z, by_document, by_word, total, alpha, beta, width, r, n_sweeps):  # type: ignore[no-untyped-def]
    """Gibbs sweeps over all tokens, topics and proportions integrated out; everything is changed in place.

    Parameters
    ----------
    words : int32 (n_tokens,)
        Document by document.
    offsets : int64 (n_documents + 1,)
    z : int32 (n_tokens,)
    by_document : int32 (n_documents, n_padded)
    by_word : float32 (n_words, n_padded)
    total : int64 (n_padded,)
    alpha : float32 (n_padded,)
        Zero for padding.
    beta, width : float32
        Concentration of each word and of all words.
    r : uint64 (4,)
    """
    n_padded = len(total)
    inverse, weights = np.empty(n_padded, np.float32), np.empty(n_padded, np.float32)
    own, sums = np.empty(n_padded, np.float32), np.empty(n_padded // BLOCK, np.float32)
    for _ in range(n_sweeps):
        # Anew each time, so that however runs are cut they round alike.
        for k in range(n_padded):
            inverse[k] = _ONE / (np.float32(total[k]) + width)
        for d in range(len(offsets) - 1):
            for k in range(n_padded):
                own[k] = np.float32(by_document[d, k]) + alpha[k]
            for i in range(offsets[d], offsets[d + 1]):
                row, old = by_word[words[i]], z[i]
                row[old] -= _ONE
                total[old] -= 1
                inverse[old] = _ONE / (np.float32(total[old]) + width)
                by_document[d, old] -= 1
                own[old] = np.float32(by_document[d, old]) + alpha[old]
                running = _ZERO
                for b in range(len(sums)):
                    first = b * BLOCK
                    block = _ZERO
                    for k in range(first, first + BLOCK):
                        weight = own[k] * (row[k] + beta) * inverse[k]
                        weights[k] = weight
                        block += weight
                    running += block
                    sums[b] = running
                new = _picked(r, weights, sums)
                z[i] = new
                row[new] += _ONE
                total[new] += 1
                inverse[new] = _ONE / (np.float32(total[new]) + width)
                by_document[d, new] += 1
                own[new] = np.float32(by_document[d, new]) + alpha[new]


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def sweep_given(words, offsets, z, by_document, topics, alpha, r, n_sweeps, after, mean):  # type: ignore[no-untyped-def]
    """Gibbs sweeps over documents whose topics (n_words, n_padded) are given; from sweep ``after`` on their
    counts are added to ``mean`` (n_documents, n_padded)."""
    n_padded = topics.shape[1]
    weights, own = np.empty(n_padded, np.float32), np.empty(n_padded, np.float32)
    sums = np.empty(n_padded // BLOCK, np.float32)
    for d in range(len(offsets) - 1):
        for s in range(n_sweeps):
            for i in range(offsets[d], offsets[d + 1]):
                row = topics[words[i]]
                by_document[d, z[i]] -= 1
                for k in range(n_padded):
                    own[k] = np.float32(by_document[d, k]) + alpha[k]
                running = _ZERO
                for b in range(len(sums)):
                    first = b * BLOCK
                    block = _ZERO
                    for k in range(first, first + BLOCK):
                        weight = own[k] * row[k]
                        weights[k] = weight
                        block += weight
                    running += block
                    sums[b] = running
                new = _picked(r, weights, sums)
                z[i] = new
                by_document[d, new] += 1
            if s >= after:
                for k in range(n_padded):
                    mean[d, k] += by_document[d, k]


@numba.njit(cache=True, nogil=True)
def left_to_right(words, offsets, topics, alpha, r, n_particles, out):  # type: ignore[no-untyped-def]
    """Estimates of log p(words of each document | topics, alpha): ``out`` (n_documents,).

    Particles hold the topics of the tokens so far. The next token's probability, averaged over them, is a factor of the
    estimate; then particles are chosen again in proportion to it, draw the token's topic, and all earlier ones anew.
    """
    n_topics, longest = len(alpha), 0
    for d in range(len(offsets) - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    z, z_next = np.empty((n_particles, longest), np.int32), np.empty((n_particles, longest), np.int32)
    counts, counts_next = np.empty((n_particles, n_topics)), np.empty((n_particles, n_topics))
    chance, weights = np.empty(n_particles), np.empty(n_topics)
    width = alpha.sum()
    for d in range(len(offsets) - 1):
        begin, total = offsets[d], 0.0
        counts[:] = 0.0
        for i in range(offsets[d + 1] - begin):
            row = topics[words[begin + i]]
            for m in range(n_particles):
                own = 0.0
                for k in range(n_topics):
                    own += row[k] * (counts[m, k] + alpha[k])
                chance[m] = own / (i + width)
            mean = chance.mean()
            total += np.log(mean)
            # Systematic: one random number, evenly spaced.
            point, source, reached = _uniform(r) * mean, 0, chance[0]
            for m in range(n_particles):
                while point >= reached and source < n_particles - 1:
                    source += 1
                    reached += chance[source]
                z_next[m, :i] = z[source, :i]
                counts_next[m] = counts[source]
                point += mean
            z, z_next, counts, counts_next = z_next, z, counts_next, counts
            for m in range(n_particles):
                z[m, i] = _from(r, row, counts[m], alpha, weights)
                counts[m, z[m, i]] += 1.0
                for j in range(i):
                    counts[m, z[m, j]] -= 1.0
                    z[m, j] = _from(r, topics[words[begin + j]], counts[m], alpha, weights)
                    counts[m, z[m, j]] += 1.0
        out[d] = total


@numba.njit(cache=True, nogil=True)
def _from(r, row, counts, alpha, weights):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(len(alpha)):
        total += row[k] * (counts[k] + alpha[k])
        weights[k] = total
    u = _uniform(r) * total
    k = 0
    while k < len(alpha) - 1 and u >= weights[k]:
        k += 1
    return k
