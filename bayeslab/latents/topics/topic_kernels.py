"""Compiled loops of :mod:`bayeslab.latents.topics.topics`.

Topics are padded to whole blocks of 16 with topics of prior weight zero. A block is one value of LLVM's vector type,
which LLVM maps to the registers of the processor (one of AVX-512, four of SSE or NEON). The loops over blocks use this
type because compilers do not vectorise cumulative sums. A topic is drawn by first its lane, then its block. Counts are
32-bit floats, which are exact up to 2^24.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import types

from bayeslab.compiled import inner, kernel

__all__ = [
    "BLOCK",
    "left_to_right",
    "split_merge",
    "sweep",
    "sweep_given",
    "sweep_paired",
    "sweep_process",
    "sweep_sparse",
]

BLOCK = 16
_ONE = np.float32(1)
_ZERO = np.float32(0)
_ROTATIONS = tuple(np.uint64(v) for v in (23, 41, 17, 45, 19, 40, 11))

# Calls of intrinsics have one argument less than their definitions, which type checkers do not know.
intrinsic: Any = extending.intrinsic

_WORD, _INDEX = ir.IntType(32), ir.IntType(64)
_FLOATS, _WORDS = ir.VectorType(ir.FloatType(), BLOCK), ir.VectorType(_WORD, BLOCK)


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Pointer to the block of a contiguous array of float32 that begins at a flat index."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _FLOATS.as_pointer())


def _splat(builder: Any, value: Any, kind: Any) -> Any:
    """A vector with the same number in all lanes."""
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, _WORD(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_WORDS, [0] * BLOCK))


@intrinsic
def _add_block(_: Any, share: Any, at: Any, table: Any, row: Any, beta: Any, lane: Any, less: Any, sums: Any) -> Any:
    """``sums[at + 16 : at + 32] = sums[at : at + 16] + share[at : at + 16] * (table.flat[row : row + 16] + beta)``,
    where ``less`` replaces the product in one lane (in none if ``lane`` is outside 0 to 15)."""
    signature = types.void(
        share, types.int64, table, types.int64, types.float32, types.int64, types.float32, sums
    )  # fmt: skip

    def code(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        share, at, table, row, beta, lane, less, sums = arguments
        first = builder.load(_place(context, builder, sig.args[0], share, at), align=4)
        second = builder.load(_place(context, builder, sig.args[2], table, row), align=4)
        weights = builder.fmul(first, builder.fadd(second, _splat(builder, beta, _FLOATS)))
        lanes = ir.Constant(_WORDS, list(range(BLOCK)))
        replaced = builder.icmp_signed("==", lanes, _splat(builder, builder.trunc(lane, _WORD), _WORDS))
        weights = builder.select(replaced, _splat(builder, less, _FLOATS), weights)
        before = builder.load(_place(context, builder, sig.args[7], sums, at), align=4)
        after = _place(context, builder, sig.args[7], sums, builder.add(at, _INDEX(BLOCK)))
        builder.store(builder.fadd(before, weights), after, align=4)
        return context.get_dummy_value()

    return signature, code


@intrinsic
def _scan(_: Any, sums: Any, at: Any, out: Any) -> Any:
    """``out[:16] = cumsum(sums[at : at + 16])``; returns the last element."""
    signature = types.float32(sums, types.int64, out)

    def code(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        sums, at, out = arguments
        value = builder.load(_place(context, builder, sig.args[0], sums, at), align=4)
        zero = ir.Constant(_FLOATS, [0.0] * BLOCK)
        for step in (1, 2, 4, 8):
            moved = ir.Constant(_WORDS, [BLOCK if j < step else j - step for j in range(BLOCK)])
            value = builder.fadd(value, builder.shuffle_vector(value, zero, moved))
        builder.store(value, _place(context, builder, sig.args[2], out, _INDEX(0)), align=4)
        return builder.extract_element(value, _WORD(BLOCK - 1))

    return signature, code


@intrinsic
def _rank(_: Any, scanned: Any, u: Any) -> Any:
    """The number of elements of ``scanned[:16]`` that are at most u."""
    signature = types.int64(scanned, types.float32)

    def code(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        value = builder.load(_place(context, builder, sig.args[0], arguments[0], _INDEX(0)), align=4)
        below = builder.fcmp_ordered("<=", value, _splat(builder, arguments[1], _FLOATS))
        bits = ir.IntType(BLOCK)
        count = builder.module.declare_intrinsic("llvm.ctpop", [bits])
        return builder.zext(builder.call(count, [builder.bitcast(below, bits)]), _INDEX)

    return signature, code


@inner
def _bits(r):  # type: ignore[no-untyped-def]
    """64 random bits by xoshiro256++ (Blackman, Vigna 2021, ACM TOMS 47(4), 36); ``r`` is its state."""
    s0, s1, s2, s3 = r[0], r[1], r[2], r[3]
    x = s0 + s3
    x = ((x << _ROTATIONS[0]) | (x >> _ROTATIONS[1])) + s0
    s2 ^= s0
    s3 ^= s1
    r[0], r[1] = s0 ^ s3, s1 ^ s2
    r[2], r[3] = s2 ^ (s1 << _ROTATIONS[2]), (s3 << _ROTATIONS[3]) | (s3 >> np.uint64(19))
    return x


@inner
def _uniform(r):  # type: ignore[no-untyped-def]
    """A uniform number in [0, 1) with 24 random bits."""
    return np.float32(np.int64(_bits(r) >> _ROTATIONS[5]) * np.float32(5.9604645e-08))


@inner
def _fine(r):  # type: ignore[no-untyped-def]
    """A uniform number in [0, 1) with 53 random bits."""
    return np.int64(_bits(r) >> _ROTATIONS[6]) * 1.1102230246251565e-16


@inner(error_model="numpy")
def _picked(r, share, table, row, beta, old, less, sums, scanned, alpha):  # type: ignore[no-untyped-def]
    """Draw a topic with probability proportional to ``share * (table.flat[row : row + n_padded] + beta)``.

    The weight of topic ``old`` is replaced by ``less``. ``sums`` (n_padded + 16,) begins with 16 zeros."""
    n_padded = len(share)
    for b in range(n_padded // BLOCK):
        first = b * BLOCK
        _add_block(share, first, table, row + first, beta, old - first, less, sums)
    u = _uniform(r) * _scan(sums, n_padded, scanned)
    lane = min(_rank(scanned, u), BLOCK - 1)
    if lane > 0:
        u -= scanned[lane - 1]
    k = lane
    # The loop has no early exit: an unpredictable branch costs more.
    for b in range(1, n_padded // BLOCK):
        k += BLOCK * (sums[lane + b * BLOCK] <= u)
    # Rounding may lead beyond the last topic.
    while alpha[k] <= _ZERO:
        k -= 1
    return k


@kernel(error_model="numpy")
def sweep(words, offsets, z, by_word, alphas, group, beta, width, r, n_sweeps):  # type: ignore[no-untyped-def]
    """Collapsed Gibbs sweeps over all tokens, with topics and proportions integrated out; arrays are changed in place.

    Parameters
    ----------
    words : int32 (n_tokens,)
        Document by document.
    offsets : int64 (n_documents + 1,)
    z : int32 (n_tokens,)
    by_word : float32 (n_words, n_padded)
        Zeros.
    alphas : float32 (n_groups, n_padded)
        Concentrations of topics for each group of documents; zero for padding.
    group : int64 (n_documents,)
        The group of each document.
    beta, width : float32
        Concentration of each word, and the sum over all words.
    r : uint64 (4,)
    """
    n_padded, n_blocks = alphas.shape[1], alphas.shape[1] // BLOCK
    total, inverse = np.zeros(n_padded, np.int64), np.empty(n_padded, np.float32)
    in_document, share = np.empty(n_padded, np.float32), np.empty(n_padded, np.float32)
    sums, scanned = np.zeros(n_padded + BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for i in range(len(words)):
        by_word[words[i], z[i]] += _ONE
        total[z[i]] += 1
    for _ in range(n_sweeps):
        # Computed from counts only, so that rounding does not depend on how runs are cut.
        for k in range(n_padded):
            inverse[k] = _ONE / (np.float32(total[k]) + width)
        for d in range(len(offsets) - 1):
            alpha = alphas[group[d]]
            in_document[:] = _ZERO
            for i in range(offsets[d], offsets[d + 1]):
                in_document[z[i]] += _ONE
            for k in range(n_padded):
                share[k] = (in_document[k] + alpha[k]) * inverse[k]
            for i in range(offsets[d], offsets[d + 1]):
                w, old = np.int64(words[i]), np.int64(z[i])
                # The token is not subtracted in memory: most keep their topic, and a block read would wait for a write.
                less = (in_document[old] - _ONE + alpha[old]) * (by_word[w, old] - _ONE + beta)
                less /= np.float32(total[old] - 1) + width
                # The code of _picked, inlined: a call with arrays would take a third of the time.
                for b in range(n_blocks):
                    first = b * BLOCK
                    _add_block(share, first, by_word, w * n_padded + first, beta, old - first, less, sums)
                u = _uniform(r) * _scan(sums, n_padded, scanned)
                lane = min(_rank(scanned, u), BLOCK - 1)
                if lane > 0:
                    u -= scanned[lane - 1]
                new = lane
                for b in range(1, n_blocks):
                    new += BLOCK * (sums[lane + b * BLOCK] <= u)
                while alpha[new] <= _ZERO:
                    new -= 1
                if new != old:
                    z[i] = new
                    by_word[w, old] -= _ONE
                    in_document[old] -= _ONE
                    total[old] -= 1
                    inverse[old] = _ONE / (np.float32(total[old]) + width)
                    share[old] = (in_document[old] + alpha[old]) * inverse[old]
                    by_word[w, new] += _ONE
                    in_document[new] += _ONE
                    total[new] += 1
                    inverse[new] = _ONE / (np.float32(total[new]) + width)
                    share[new] = (in_document[new] + alpha[new]) * inverse[new]


@kernel(error_model="numpy")
def sweep_paired(words, offsets, sides, z, by_word, total, alpha, beta, widths, r, n_sweeps):  # type: ignore[no-untyped-def]
    """Sweeps with several vocabularies, each with separate topics, and with common topic proportions in a document.

    Parameters
    ----------
    words : int32 (n_tokens,)
        Jointly numbered over all vocabularies.
    sides : int64 (n_tokens,)
        The vocabulary of each token.
    total : int64 (n_sides, n_padded)
        Zeros; the other arguments are those of ``sweep``.
    widths : float32 (n_sides,)
        Sum of the concentrations of a vocabulary's words.
    """
    n_padded, n_sides = len(alpha), len(widths)
    inverse, share = np.empty((n_sides, n_padded), np.float32), np.empty((n_sides, n_padded), np.float32)
    in_document, sums = np.empty(n_padded, np.float32), np.zeros(n_padded + BLOCK, np.float32)
    scanned = np.empty(BLOCK, np.float32)
    for i in range(len(words)):
        by_word[words[i], z[i]] += _ONE
        total[sides[i], z[i]] += 1
    for _ in range(n_sweeps):
        for s in range(n_sides):
            for k in range(n_padded):
                inverse[s, k] = _ONE / (np.float32(total[s, k]) + widths[s])
        for d in range(len(offsets) - 1):
            in_document[:] = _ZERO
            for i in range(offsets[d], offsets[d + 1]):
                in_document[z[i]] += _ONE
            for s in range(n_sides):
                for k in range(n_padded):
                    share[s, k] = (in_document[k] + alpha[k]) * inverse[s, k]
            for i in range(offsets[d], offsets[d + 1]):
                w, old, side = np.int64(words[i]), np.int64(z[i]), sides[i]
                less = (in_document[old] - _ONE + alpha[old]) * (by_word[w, old] - _ONE + beta)
                less /= np.float32(total[side, old] - 1) + widths[side]
                new = _picked(r, share[side], by_word, w * n_padded, beta, old, less, sums, scanned, alpha)
                if new != old:
                    z[i] = new
                    by_word[w, old] -= _ONE
                    by_word[w, new] += _ONE
                    total[side, old] -= 1
                    total[side, new] += 1
                    in_document[old] -= _ONE
                    in_document[new] += _ONE
                    inverse[side, old] = _ONE / (np.float32(total[side, old]) + widths[side])
                    inverse[side, new] = _ONE / (np.float32(total[side, new]) + widths[side])
                    for s in range(n_sides):
                        share[s, old] = (in_document[old] + alpha[old]) * inverse[s, old]
                        share[s, new] = (in_document[new] + alpha[new]) * inverse[s, new]


@inner
def _of_word(given, w, z, same, last, step, row):  # type: ignore[no-untyped-def]
    """Fill ``row`` with the concentrations of word w in topics, including the document's tokens of this word. These are
    at ``last``, before it at ``same[last]``, and so on until -1."""
    row[:] = given[w]
    while last >= 0:
        row[z[last]] += step
        last = same[last]


@inner
def _seated(k, by, side, alpha, sizes, step, in_document, by_side, share):  # type: ignore[no-untyped-def]
    """Add a token of the document to topic k (by = 1), or remove one (by = -1)."""
    in_document[k] += by
    by_side[side, k] += by
    for s in range(len(sizes)):
        share[s, k] = (in_document[k] + alpha[k]) / (sizes[s, k] + step * by_side[s, k])


@kernel(error_model="numpy")
def sweep_given(words, offsets, z, given, sizes, sides, step, alpha, r, n_sweeps, after, mean):  # type: ignore[no-untyped-def]
    """Gibbs sweeps over documents, separately for each, given the topics.

    From sweep ``after`` on, their counts are added to ``mean`` (n_documents, n_padded).

    Parameters
    ----------
    given : float32 (n_words, n_padded)
        Concentrations of words in topics, or the probabilities themselves.
    sizes : float32 (n_sides, n_padded)
        Their sums over the words of each vocabulary; ones where probabilities are given.
    sides : int64 (n_words,)
        The vocabulary of each word.
    step : float32
        Increase of the concentration by a token of the document: 1, or 0 where probabilities are given.
    """
    n_padded, n_sides = len(alpha), len(sizes)
    share, row = np.empty((n_sides, n_padded), np.float32), np.empty(n_padded, np.float32)
    sums, scanned = np.zeros(n_padded + BLOCK, np.float32), np.empty(BLOCK, np.float32)
    in_document, by_side = np.empty(n_padded, np.float32), np.empty((n_sides, n_padded), np.float32)
    last, same = np.full(len(given), -1, np.int64), np.empty(len(words), np.int64)
    for d in range(len(offsets) - 1):
        begin, n = offsets[d], offsets[d + 1] - offsets[d]
        in_document[:], by_side[:] = _ZERO, _ZERO
        for s in range(n_sides):
            share[s] = alpha / sizes[s]
        for i in range(n):
            w = words[begin + i]
            same[i], last[w] = last[w], i
            _seated(z[begin + i], _ONE, sides[w], alpha, sizes, step, in_document, by_side, share)
        topic = z[begin : begin + n]
        for sweep in range(n_sweeps):
            for i in range(n):
                w, old = np.int64(words[begin + i]), np.int64(topic[i])
                side = sides[w]
                _of_word(given, w, topic, same, last[w], step, row)
                less = (in_document[old] - _ONE + alpha[old]) * (row[old] - step)
                less /= sizes[side, old] + step * (by_side[side, old] - _ONE)
                new = _picked(r, share[side], row, 0, _ZERO, old, less, sums, scanned, alpha)
                if new != old:
                    topic[i] = new
                    _seated(old, -_ONE, side, alpha, sizes, step, in_document, by_side, share)
                    _seated(new, _ONE, side, alpha, sizes, step, in_document, by_side, share)
            if sweep >= after:
                for k in range(n_padded):
                    mean[d, k] += in_document[k]
        for i in range(n):
            last[words[begin + i]] = -1


@inner
def _gather(z, places, starts, n_topics, topic, count, size):  # type: ignore[no-untyped-def]
    """Lists of the topics of each word with their counts: ``size[w]`` topics of word w from ``starts[w]`` on."""
    place = np.full(n_topics, -1, np.int64)
    for w in range(len(size)):
        begin, n = starts[w], 0
        for j in range(starts[w], starts[w + 1]):
            k = z[places[j]]
            if place[k] < begin:
                place[k] = begin + n
                topic[begin + n], count[begin + n] = k, 0
                n += 1
            count[place[k]] += 1
        for j in range(begin, begin + n):
            place[topic[j]] = -1
        size[w] = n


@inner
def _moved(topic, count, n, at, slot, new):  # type: ignore[no-untyped-def]
    """Move one token of a word from place ``at`` to ``slot`` in its list of ``n`` topics; return the new length.

    ``slot`` n is a topic that is not in the list. The list never has more places than the word has tokens."""
    if slot == n and count[at] == 1:
        topic[at] = new
        return n
    count[at] -= 1
    if slot == n:
        topic[n], count[n] = new, 1
        return n + 1
    count[slot] += 1
    if count[at] == 0:
        topic[at], count[at] = topic[n - 1], count[n - 1]
        return n - 1
    if slot > 0 and count[slot] > count[slot - 1]:
        # Frequent topics are kept at the front.
        topic[slot], topic[slot - 1] = topic[slot - 1], topic[slot]
        count[slot], count[slot - 1] = count[slot - 1], count[slot]
    return n


@kernel(error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def sweep_sparse(words, offsets, places, starts, z, alpha, beta, r, n_sweeps):  # type: ignore[no-untyped-def]
    """Sweeps for many topics. The weight of a topic is a sum of three terms: the first is small, the second is zero
    outside the document's topics, the third is zero outside the word's topics (Yao, Mimno, McCallum 2009, Efficient
    methods for topic model inference on streaming document collections, KDD 15).

    Parameters
    ----------
    places : int64 (n_tokens,)
        Tokens ordered by word.
    starts : int64 (n_words + 1,)
        Word w has the tokens ``places[starts[w] : starts[w + 1]]``.
    alpha : float64 (n_topics,)
    beta : float64
    """
    n_topics, n_words = len(alpha), len(starts) - 1
    width = beta * n_words
    topic, count = np.empty(len(words), np.int32), np.empty(len(words), np.int32)
    size, total = np.empty(n_words, np.int64), np.zeros(n_topics, np.int64)
    inverse, share, weights = np.empty(n_topics), np.empty(n_topics), np.empty(n_topics)
    in_document, used, where = (
        np.zeros(n_topics, np.int64),
        np.empty(n_topics, np.int64),
        np.full(n_topics, -1, np.int64),
    )
    for i in range(len(words)):
        total[z[i]] += 1
    for _ in range(n_sweeps):
        # Lists and sums are rebuilt for each sweep, so that order and rounding do not depend on how runs are cut.
        _gather(z, places, starts, n_topics, topic, count, size)
        smooth = 0.0
        for k in range(n_topics):
            inverse[k] = 1.0 / (total[k] + width)
            share[k] = alpha[k] * inverse[k]
            smooth += share[k]
        for d in range(len(offsets) - 1):
            n_used, local = 0, 0.0
            for i in range(offsets[d], offsets[d + 1]):
                k = z[i]
                if where[k] < 0:
                    where[k] = n_used
                    used[n_used] = k
                    n_used += 1
                in_document[k] += 1
            for m in range(n_used):
                k = used[m]
                share[k] = (in_document[k] + alpha[k]) * inverse[k]
                local += in_document[k] * inverse[k]
            for i in range(offsets[d], offsets[d + 1]):
                w, old = words[i], np.int64(z[i])
                begin, n = starts[w], size[w]
                smooth -= alpha[old] * inverse[old]
                local -= in_document[old] * inverse[old]
                in_document[old] -= 1
                total[old] -= 1
                inverse[old] = 1.0 / (total[old] + width)
                share[old] = (in_document[old] + alpha[old]) * inverse[old]
                smooth += alpha[old] * inverse[old]
                local += in_document[old] * inverse[old]
                sparse, at = 0.0, 0
                for j in range(n):
                    k = topic[begin + j]
                    same = k == old
                    if same:
                        at = j
                    weights[j] = (count[begin + j] - same) * share[k]
                    sparse += weights[j]
                u = _fine(r) * (sparse + beta * (local + smooth))
                new, slot = np.int64(old), -1
                if u < sparse:
                    slot = 0
                    u -= weights[0]
                    while u >= 0.0 and slot < n - 1:
                        slot += 1
                        u -= weights[slot]
                    new = topic[begin + slot]
                elif u < sparse + beta * local:
                    u = (u - sparse) / beta
                    m = 0
                    u -= in_document[used[0]] * inverse[used[0]]
                    while u >= 0.0 and m < n_used - 1:
                        m += 1
                        u -= in_document[used[m]] * inverse[used[m]]
                    new = used[m]
                else:
                    u = (u - sparse) / beta - local
                    new = np.int64(0)
                    u -= alpha[0] * inverse[0]
                    while u >= 0.0 and new < n_topics - 1:
                        new += 1
                        u -= alpha[new] * inverse[new]
                if new != old:
                    z[i] = new
                    if slot < 0:
                        slot = 0
                        while slot < n and topic[begin + slot] != new:
                            slot += 1
                    size[w] = _moved(topic[begin:], count[begin:], n, at, slot, new)
                smooth -= alpha[new] * inverse[new]
                local -= in_document[new] * inverse[new]
                in_document[new] += 1
                total[new] += 1
                inverse[new] = 1.0 / (total[new] + width)
                share[new] = (in_document[new] + alpha[new]) * inverse[new]
                smooth += alpha[new] * inverse[new]
                local += in_document[new] * inverse[new]
                if where[new] < 0:
                    where[new] = n_used
                    used[n_used] = new
                    n_used += 1
            for m in range(n_used):
                k = used[m]
                in_document[k], where[k] = 0, -1
                share[k] = alpha[k] * inverse[k]


@kernel
def left_to_right(words, offsets, given, sizes, sides, step, alpha, r, n_particles, n_fresh, out):  # type: ignore[no-untyped-def]
    """Estimate log p(words of each document | topics, alpha) by the left-to-right algorithm: ``out`` (n_documents,).

    Particles are the topics of the tokens so far. The mean over particles of the next token's probability is a factor
    of the estimate. Particles are then resampled in proportion to this probability, draw the token's topic, and redraw
    the topics of ``n_fresh`` earlier tokens from a random position on.

    Parameters
    ----------
    given, sizes, sides, step
        As of ``sweep_given``.
    alpha : float32 (n_padded,)
        Zero for padding.
    """
    n_padded, n_sides, longest = len(alpha), len(sizes), 0
    for d in range(len(offsets) - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    z, same = np.empty((n_particles, longest), np.int32), np.empty(longest, np.int64)
    in_document, row = np.empty((n_particles, n_padded), np.float32), np.empty(n_padded, np.float32)
    by_side = np.empty((n_particles, n_sides, n_padded), np.float32)
    share = np.empty((n_particles, n_sides, n_padded), np.float32)
    chance, copies = np.empty(n_particles), np.empty(n_particles, np.int64)
    sums, scanned = np.zeros(n_padded + BLOCK, np.float32), np.empty(BLOCK, np.float32)
    last = np.full(len(given), -1, np.int64)
    width = 0.0
    for k in range(n_padded):
        width += alpha[k]
    for d in range(len(offsets) - 1):
        begin, total = offsets[d], 0.0
        in_document[:], by_side[:] = _ZERO, _ZERO
        for s in range(n_sides):
            share[:, s] = alpha / sizes[s]
        for i in range(offsets[d + 1] - begin):
            w = np.int64(words[begin + i])
            side = sides[w]
            for m in range(n_particles):
                _of_word(given, w, z[m], same, last[w], step, row)
                here = 0.0
                for k in range(n_padded):
                    here += np.float64(row[k]) * np.float64(share[m, side, k])
                chance[m] = here / (i + width)
            mean = chance.mean()
            total += np.log(mean)
            # Systematic resampling: one random number and equal steps.
            point, source, reached = _fine(r) * mean, 0, chance[0]
            copies[:] = 0
            for _ in range(n_particles):
                while point >= reached and source < n_particles - 1:
                    source += 1
                    reached += chance[source]
                copies[source] += 1
                point += mean
            # Resampled particles keep their place; their copies replace particles that were not resampled.
            source = 0
            for m in range(n_particles):
                if copies[m] > 0:
                    continue
                while copies[source] < 2:
                    source += 1
                copies[source] -= 1
                z[m, :i], in_document[m], by_side[m], share[m] = (
                    z[source, :i],
                    in_document[source],
                    by_side[source],
                    share[source],
                )
            same[i], first = last[w], np.int64(_fine(r) * i)
            for m in range(n_particles):
                _of_word(given, w, z[m], same, last[w], step, row)
                new = _picked(r, share[m, side], row, 0, _ZERO, -1, _ZERO, sums, scanned, alpha)
                z[m, i] = new
                _seated(new, _ONE, side, alpha, sizes, step, in_document[m], by_side[m], share[m])
            last[w] = i
            for m in range(n_particles):
                for move in range(min(n_fresh, i)):
                    j = first + move
                    j -= i * (j >= i)
                    v, old = np.int64(words[begin + j]), np.int64(z[m, j])
                    other = sides[v]
                    _of_word(given, v, z[m], same, last[v], step, row)
                    less = (in_document[m, old] - _ONE + alpha[old]) * (row[old] - step)
                    less /= sizes[other, old] + step * (by_side[m, other, old] - _ONE)
                    new = _picked(r, share[m, other], row, 0, _ZERO, old, less, sums, scanned, alpha)
                    if new != old:
                        z[m, j] = new
                        _seated(old, -_ONE, other, alpha, sizes, step, in_document[m], by_side[m], share[m])
                        _seated(new, _ONE, other, alpha, sizes, step, in_document[m], by_side[m], share[m])
        for i in range(offsets[d + 1] - begin):
            last[words[begin + i]] = -1
        out[d] = total


@inner
def _grown(old, n_rows):  # type: ignore[no-untyped-def]
    """The array with one more block of zeros at the end of each of ``n_rows`` rows."""
    n = len(old) // n_rows
    out = np.zeros(n_rows * (n + BLOCK), old.dtype)
    for row in range(n_rows):
        out[row * (n + BLOCK) : row * (n + BLOCK) + n] = old[row * n : (row + 1) * n]
    return out


@inner
def _begun(base, new, alpha, rest, gamma, r):  # type: ignore[no-untyped-def]
    """Give a new topic a Beta(1, gamma) share of the weight of topics without tokens; return the remainder."""
    part = 1.0 - (1.0 - _fine(r)) ** (1.0 / gamma)
    base[new] = alpha * rest * part
    return rest * (1.0 - part)


@inner
def _seat(topic, base, table, size, dish, following, r):  # type: ignore[no-untyped-def]
    """Draw tables for the tokens of a document given their topics: the ``table`` of each token, and the ``size`` and
    ``dish`` of each table. Returns the number of tables. ``following`` is scratch space for lists."""
    n_tables = 0
    head = np.full(len(base), -1, np.int64)
    for i in range(len(topic)):
        k = topic[i]
        guests, t = 0, head[k]
        while t >= 0:
            guests += size[t]
            t = following[t]
        point, t = _fine(r) * (guests + base[k]), head[k]
        while t >= 0 and point >= size[t]:
            point -= size[t]
            t = following[t]
        if t < 0:
            t = n_tables
            n_tables += 1
            size[t], dish[t], following[t], head[k] = 0, k, head[k], t
        size[t] += 1
        table[i] = t
    return n_tables


@inner
def _link(table, n_tokens, n_tables, begin, following):  # type: ignore[no-untyped-def]
    """Lists of the tokens of each table: the first is ``begin[t]``, the next ``following[i]``, until -1."""
    begin[:n_tables] = -1
    for i in range(n_tokens - 1, -1, -1):
        following[i], begin[table[i]] = begin[table[i]], i


@inner(error_model="numpy")
def _dish(words, first, following, base, by_word, n, total, beta, width, placed, r):  # type: ignore[no-untyped-def]
    """Draw a common topic for the tokens of a table, with probability proportional to ``base`` times the probability of
    their words. ``placed`` (n_words,) is zeros."""
    chance = base.astype(np.float64)
    i, many = first, 0
    while i >= 0:
        w = np.int64(words[i])
        most = 0.0
        for k in range(len(chance)):
            chance[k] *= (by_word[w * n + k] + beta + placed[w]) / (total[k] + width + many)
            most = max(most, chance[k])
        # Products over many words would underflow.
        chance /= most
        placed[w] += 1
        many += 1
        i = following[i]
    i = first
    while i >= 0:
        placed[words[i]] = 0
        i = following[i]
    below = np.cumsum(chance)
    return min(np.searchsorted(below, _fine(r) * below[-1], side="right"), len(chance) - 1)


@kernel(error_model="numpy")
def sweep_process(words, offsets, z, n_words, weights, rest, alpha, gamma, beta, r):  # type: ignore[no-untyped-def]
    """One sweep for an unbounded number of topics: for each document, its tokens one by one, then its tables.

    Parameters
    ----------
    words, offsets, z, r
        As for ``sweep``; the topics in z are changed in place.
    weights : float64 (n_topics,)
        Weights of the topics in the corpus.
    rest : float64
        Total weight of topics without tokens.
    alpha, gamma : float64
        Concentrations of documents and of the corpus.
    beta : float32

    Returns
    -------
    total, tables : int64 (n_padded,)
        Numbers of tokens and tables of each topic; new topics are at the end and may be empty.
    """
    n_topics, width = len(weights), np.float32(beta * n_words)
    n = -(-(n_topics + 1) // BLOCK) * BLOCK
    by_word = np.zeros(n_words * n, np.float32)
    total, tables = np.zeros(n, np.int64), np.zeros(n, np.int64)
    base, inverse = np.zeros(n, np.float32), np.empty(n, np.float32)
    in_document, share, sums = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n + BLOCK, np.float32)
    scanned, placed = np.empty(BLOCK, np.float32), np.zeros(n_words, np.int64)
    longest = 0
    for d in range(len(offsets) - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    table, size, dish = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest, np.int64)
    begin, following = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for i in range(len(words)):
        by_word[np.int64(words[i]) * n + z[i]] += _ONE
        total[z[i]] += 1
    for k in range(n_topics):
        base[k] = alpha * weights[k]
    for k in range(n):
        inverse[k] = _ONE / (np.float32(total[k]) + width)
    for d in range(len(offsets) - 1):
        in_document[:] = _ZERO
        for i in range(offsets[d], offsets[d + 1]):
            in_document[z[i]] += _ONE
        for k in range(n):
            share[k] = (in_document[k] + base[k]) * inverse[k]
        for i in range(offsets[d], offsets[d + 1]):
            if n_topics == n:
                by_word, n = _grown(by_word, n_words), n + BLOCK
                total, tables, base, in_document = (
                    _grown(total, 1),
                    _grown(tables, 1),
                    _grown(base, 1),
                    _grown(in_document, 1),
                )
                inverse, share, sums = _grown(inverse, 1), _grown(share, 1), _grown(sums, 1)
            w, old = np.int64(words[i]), np.int64(z[i])
            less = (in_document[old] - _ONE + base[old]) * (by_word[w * n + old] - _ONE + beta)
            less /= np.float32(total[old] - 1) + width
            for first in range(0, n, BLOCK):
                _add_block(share, first, by_word, w * n + first, beta, old - first, less, sums)
            known = np.float64(_scan(sums, n, scanned))
            point = _fine(r) * (known + alpha * rest / n_words)
            if point < known:
                u = np.float32(point)
                lane = min(_rank(scanned, u), BLOCK - 1)
                if lane > 0:
                    u -= scanned[lane - 1]
                new = lane
                for at in range(lane + BLOCK, lane + n, BLOCK):
                    new += BLOCK * (sums[at] <= u)
                # Rounding may lead to an entry without a topic.
                new = new if new < n_topics else old
            else:
                new = n_topics
                n_topics += 1
                rest = _begun(base, new, alpha, rest, gamma, r)
            if new != old:
                z[i] = new
                by_word[w * n + old] -= _ONE
                by_word[w * n + new] += _ONE
                in_document[old] -= _ONE
                in_document[new] += _ONE
                total[old] -= 1
                total[new] += 1
                inverse[old] = _ONE / (np.float32(total[old]) + width)
                inverse[new] = _ONE / (np.float32(total[new]) + width)
                share[old] = (in_document[old] + base[old]) * inverse[old]
                share[new] = (in_document[new] + base[new]) * inverse[new]
        # Draw the document's tables by the Chinese restaurant process given its topics; then redraw the topics of
        # tables with several tokens.
        document, topic = words[offsets[d] : offsets[d + 1]], z[offsets[d] : offsets[d + 1]]
        n_tables = _seat(topic, base, table, size, dish, following, r)
        _link(table, len(topic), n_tables, begin, following)
        for t in range(n_tables):
            if size[t] > 1:
                if n_topics == n:
                    by_word, n = _grown(by_word, n_words), n + BLOCK
                    total, tables, base, in_document = (
                        _grown(total, 1),
                        _grown(tables, 1),
                        _grown(base, 1),
                        _grown(in_document, 1),
                    )
                    inverse, share, sums = _grown(inverse, 1), _grown(share, 1), _grown(sums, 1)
                old, i = dish[t], begin[t]
                while i >= 0:
                    by_word[np.int64(document[i]) * n + old] -= _ONE
                    i = following[i]
                total[old] -= size[t]
                base[n_topics : n_topics + 1] = alpha * rest
                new = _dish(
                    document, begin[t], following, base[: n_topics + 1], by_word, n, total, beta, width, placed, r
                )
                base[n_topics : n_topics + 1] = _ZERO
                if new == n_topics:
                    n_topics += 1
                    rest = _begun(base, new, alpha, rest, gamma, r)
                dish[t], i = new, begin[t]
                while i >= 0:
                    by_word[np.int64(document[i]) * n + new] += _ONE
                    topic[i], i = new, following[i]
                total[new] += size[t]
                inverse[old] = _ONE / (np.float32(total[old]) + width)
                inverse[new] = _ONE / (np.float32(total[new]) + width)
            tables[dish[t]] += 1
    return total[:n_topics], tables[:n_topics]


@inner
def _height(by_word, by_document, weight, alpha, beta):  # type: ignore[no-untyped-def]
    """Log factor of a topic in the joint probability of tokens and weights, without the factors of gamma."""
    total, out = 0.0, -np.log(weight)
    for w in range(len(by_word)):
        if by_word[w] > 0.0:
            out += math.lgamma(by_word[w] + beta) - math.lgamma(beta)
            total += by_word[w]
    width = beta * len(by_word)
    out -= math.lgamma(total + width) - math.lgamma(width)
    for d in range(len(by_document)):
        if by_document[d] > 0.0:
            out += math.lgamma(by_document[d] + alpha * weight) - math.lgamma(alpha * weight)
    return out


@kernel
def split_merge(words, document, offsets, places, starts, z, weights, alpha, gamma, beta, n_scans, r):  # type: ignore[no-untyped-def]
    """One split-merge proposal for topics (Dahl, Newcomb 2022, JSCS 92, 106-125; for topics: Wang, Blei 2012, arXiv
    1201.1657; here weights are proposed together with tokens).

    Two tokens are drawn, half of the time of the same word. If they share a topic, a split is proposed: its weight is
    divided at random, and its tokens are assigned to the two parts sequentially, each given those before it. Otherwise
    a merger of their topics is proposed. The acceptance probability includes the probability of the reverse move.

    Returns
    -------
    before, after : int
        Topics of the two tokens before the move; equal if they shared one.
    share : float
        After a split, the share of the topic's weight that the first part keeps; the second part has the number
        ``len(weights)`` in z. 0 after a merger, whose tokens are all in ``before``; -1 after a rejection.
    """
    n_tokens, n_words = len(words), len(starts) - 1
    i = np.int64(_fine(r) * n_tokens)
    j = np.int64(_fine(r) * n_tokens)
    if _fine(r) < 0.5:
        w = words[i]
        j = places[starts[w] + np.int64(_fine(r) * (starts[w + 1] - starts[w]))]
    a, b = np.int64(z[i]), np.int64(z[j])
    if i == j:
        return a, b, -1.0
    split = a == b
    whole = weights[a] if split else weights[a] + weights[b]
    part = _fine(r) if split else weights[a] / whole
    base = (alpha * whole * part, alpha * whole * (1.0 - part))
    if base[0] <= 0.0 or base[1] <= 0.0:
        return a, b, -1.0
    tokens = np.empty(n_tokens, np.int64)
    n = 0
    for t in range(n_tokens):
        if (z[t] == a or z[t] == b) and t != i and t != j:
            tokens[n] = t
            n += 1
    # -1: not assigned to a part yet.
    side = np.full(n, -1, np.int64)
    by_word, by_document = np.zeros((2, n_words)), np.zeros((2, len(offsets) - 1))
    total = np.ones(2)
    for g, one in ((0, i), (1, j)):
        by_word[g, words[one]] += 1.0
        by_document[g, document[one]] += 1.0
    width, log_chance = beta * n_words, 0.0
    for scan in range(n_scans + 1):
        final = scan == n_scans
        for at in range(n):
            w, d = words[tokens[at]], document[tokens[at]]
            if side[at] >= 0:
                by_word[side[at], w] -= 1.0
                by_document[side[at], d] -= 1.0
                total[side[at]] -= 1.0
            first = (by_document[0, d] + base[0]) * (by_word[0, w] + beta) / (total[0] + width)
            second = (by_document[1, d] + base[1]) * (by_word[1, w] + beta) / (total[1] + width)
            new = int(_fine(r) * (first + second) >= first)
            if final and not split:
                new = int(z[tokens[at]] == b)
            if final:
                log_chance += np.log((second if new else first) / (first + second))
            side[at] = new
            by_word[new, w] += 1.0
            by_document[new, d] += 1.0
            total[new] += 1.0
    ratio = _height(by_word[0], by_document[0], whole * part, alpha, beta)
    ratio += _height(by_word[1], by_document[1], whole * (1.0 - part), alpha, beta)
    ratio -= _height(by_word[0] + by_word[1], by_document[0] + by_document[1], whole, alpha, beta)
    # Weights of the two parts are relative to the weight of the whole.
    ratio += np.log(gamma) + np.log(whole) - log_chance
    accepted = np.log(1.0 - _fine(r)) < (ratio if split else -ratio)
    if not accepted:
        return a, b, -1.0
    if split:
        z[j] = len(weights)
        for at in range(n):
            if side[at] == 1:
                z[tokens[at]] = len(weights)
        return a, b, part
    for t in range(n_tokens):
        if z[t] == b:
            z[t] = a
    return a, b, 0.0
