"""Compiled Markov chains over DAGs, orders and ordered partitions.

The future of a chain depends only on the given arrays, including its random numbers, and every cached number is a
function of the current structure alone: an interrupted chain continues identically.

Sets are 64-bit words. ``t`` is the table (:class:`bayeslab.structure.chains.toolbox.common.Arrays`). Which of 64 parent
sets lie inside a set of variables is computed at once, from one word for each excluded variable.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from bayeslab.compiled import inner, kernel

__all__ = [
    "fill_blocks",
    "hash_table",
    "log_linear_extensions",
    "order_run",
    "order_weight",
    "parents_in_order",
    "partition_run",
    "partition_weight",
    "structure_run",
    "uniforms",
]

# Sets this many nats below the first one do not change a sum in double precision.
_NATS = 37.0
_TINY = 1e-250
_ONE = np.uint64(1)
_ROTATIONS = (np.uint64(23), np.uint64(41), np.uint64(17), np.uint64(45), np.uint64(19), np.uint64(11))


def _trailing_zeros_code(typingctx, word):  # type: ignore[no-untyped-def]
    """The number of the lowest bit set."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.cttz(args[0], context.get_constant(types.boolean, False))

    return types.int64(types.uint64), code


def _popcount_code(typingctx, word):  # type: ignore[no-untyped-def]
    """Number of bits set."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.ctpop(args[0])

    return types.int64(types.uint64), code


_popcount: Any = intrinsic(_popcount_code)


_trailing_zeros: Any = intrinsic(_trailing_zeros_code)


@inner
def _uniform(r):  # type: ignore[no-untyped-def]
    """Random number in [0, 1) by xoshiro256++ (Blackman, Vigna 2021, ACM TOMS 47(4), 36) with state ``r``."""
    s0, s1, s2, s3 = r[0], r[1], r[2], r[3]
    x = s0 + s3
    x = ((x << _ROTATIONS[0]) | (x >> _ROTATIONS[1])) + s0
    s2 ^= s0
    s3 ^= s1
    r[0], r[1] = s0 ^ s3, s1 ^ s2
    r[2], r[3] = s2 ^ (s1 << _ROTATIONS[2]), (s3 << _ROTATIONS[3]) | (s3 >> _ROTATIONS[4])
    return np.int64(x >> _ROTATIONS[5]) * 1.1102230246251565e-16


@kernel
def _below(r, n):  # type: ignore[no-untyped-def]
    """Random integer in 0 .. n - 1."""
    return int(_uniform(r) * n)


@kernel
def uniforms(r, many):  # type: ignore[no-untyped-def]
    """Random numbers in [0, 1)."""
    out = np.empty(many)
    for i in range(many):
        out[i] = _uniform(r)
    return out


@inner
def _has(mask, u):  # type: ignore[no-untyped-def]
    return (mask[u >> 6] >> np.uint64(u & 63)) & _ONE != 0


@inner
def _flip(mask, u):  # type: ignore[no-untyped-def]
    mask[u >> 6] ^= _ONE << np.uint64(u & 63)


@inner
def _in_block(t, v, b, inside, among, needed):  # type: ignore[no-untyped-def]
    """Bits of the 64 sets of v that are subsets of ``inside`` and, if needed, intersect ``among``."""
    n_words = t.candidates.shape[1]
    left = t.blocks[b, t.blocks.shape[1] - 1]
    if needed:
        left = np.uint64(0)
        for w in range(n_words):
            x = t.candidates[v, w] & among[w]
            while x:
                left |= t.blocks[b, _trailing_zeros(x) + 64 * w]
                x &= x - _ONE
        if left == 0:
            return left
    for w in range(n_words):
        x = t.candidates[v, w] & ~inside[w]
        while x:
            left &= ~t.blocks[b, _trailing_zeros(x) + 64 * w]
            x &= x - _ONE
    return left


@inner
def _total(t, v, inside, among, needed):  # type: ignore[no-untyped-def]
    """First set of v within ``inside`` that intersects ``among`` (if needed; -1: none), and the sum relative to it."""
    first, total, linear, limit = -1, 0.0, True, -np.inf
    for b in range(t.first_block[v], t.first_block[v + 1]):
        begin = t.pointer[v] + 64 * (b - t.first_block[v])
        if t.scores[begin] < limit:
            break
        left = _in_block(t, v, b, inside, among, needed)
        while left:
            i = begin + _trailing_zeros(left)
            left &= left - _ONE
            if first < 0:
                if t.scores[i] == -np.inf:
                    return -1, 0.0
                first, limit = i, t.scores[i] - _NATS
                linear = t.weights[i] > _TINY
            elif t.scores[i] < limit:
                break
            total += t.weights[i] if linear else math.exp(t.scores[i] - t.scores[first])
    if first >= 0 and linear:
        total /= t.weights[first]
    return first, total


@inner
def _log_sum(t, v, inside, among, needed):  # type: ignore[no-untyped-def]
    """Log of the sum over the sets of v within ``inside`` that intersect ``among`` (if needed)."""
    first, total = _total(t, v, inside, among, needed)
    return t.scores[first] + math.log(total) if first >= 0 else -np.inf


@inner
def _pick(r, t, v, inside, among, needed):  # type: ignore[no-untyped-def]
    """Number of a set drawn in proportion to its term of that sum (-1 if none), and the log of the sum."""
    first, total = _total(t, v, inside, among, needed)
    if first < 0:
        return -1, -np.inf
    log_sum = t.scores[first] + math.log(total)
    share, last = _uniform(r) * total, first
    b = t.first_block[v] + (first - t.pointer[v]) // 64
    while b < t.first_block[v + 1]:
        begin = t.pointer[v] + 64 * (b - t.first_block[v])
        left = _in_block(t, v, b, inside, among, needed)
        while left:
            i = begin + _trailing_zeros(left)
            left &= left - _ONE
            if t.scores[i] < t.scores[first] - _NATS:
                return last, log_sum
            last = i
            share -= math.exp(t.scores[i] - t.scores[first])
            if share < 0.0:
                return last, log_sum
        b += 1
    return last, log_sum


@kernel
def fill_blocks(pointer, sets, first_block, blocks):  # type: ignore[no-untyped-def]
    """For the sets in groups of 64: bits of the sets that contain each variable, and last, of the sets that exist."""
    for v in range(pointer.size - 1):
        for i in range(pointer[v], pointer[v + 1]):
            b, bit = first_block[v] + (i - pointer[v]) // 64, _ONE << np.uint64((i - pointer[v]) % 64)
            blocks[b, blocks.shape[1] - 1] |= bit
            for w in range(sets.shape[1]):
                x = sets[i, w]
                while x:
                    blocks[b, _trailing_zeros(x) + 64 * w] |= bit
                    x &= x - _ONE


# --- DAGs


@kernel
def hash_table(pointer, sets, keys, slots):  # type: ignore[no-untyped-def]
    """Fill an open-addressing table of parent set numbers; ``slots``, a power of two in length, is initially -1."""
    n, n_words = pointer.size - 1, sets.shape[1]
    last = np.uint64(slots.size - 1)
    for v in range(n):
        for i in range(pointer[v], pointer[v + 1]):
            place = keys[1, v]
            for w in range(n_words):
                x = sets[i, w]
                while x:
                    place ^= keys[0, _trailing_zeros(x) + 64 * w]
                    x &= x - _ONE
            place &= last
            while slots[place] >= 0:
                place = (place + _ONE) & last
            slots[place] = i


@inner
def _find(v, mask, key, pointer, sets, slots):  # type: ignore[no-untyped-def]
    """The number of a parent set of v with this hash key; -1 if it is not in the table."""
    last = np.uint64(slots.size - 1)
    place = key & last
    while slots[place] >= 0:
        i = slots[place]
        if pointer[v] <= i < pointer[v + 1]:
            same = True
            for w in range(sets.shape[1]):
                same &= sets[i, w] == mask[w]
            if same:
                return i
        place = (place + _ONE) & last
    return -1


@inner
def _is_above(a, b, parents, without, visited, open_):  # type: ignore[no-untyped-def]
    """Whether there is a directed path from a to b that does not use an edge from ``without`` to b."""
    n_words = parents.shape[1]
    for w in range(n_words):
        visited[w] = parents[b, w]
    if without >= 0:
        _flip(visited, without)
    for w in range(n_words):
        open_[w] = visited[w]
    w = 0
    while w < n_words:
        if open_[w] == 0:
            w += 1
            continue
        x = _trailing_zeros(open_[w]) + 64 * w
        if x == a:
            return True
        open_[w] &= open_[w] - _ONE
        for k in range(n_words):
            new = parents[x, k] & ~visited[k]
            visited[k] |= new
            open_[k] |= new
        for k in range(w):
            if open_[k] != 0:
                w = k
                break
    return False


@inner
def _not_below(v, parents, out):  # type: ignore[no-untyped-def]
    """All variables except v and its descendants."""
    n, n_words = parents.shape
    for w in range(n_words):
        out[w] = 0
    _flip(out, v)
    changed = True
    while changed:
        changed = False
        for x in range(n):
            if not _has(out, x):
                for w in range(n_words):
                    if parents[x, w] & out[w] != 0:
                        _flip(out, x)
                        changed = True
                        break
    for w in range(n_words):
        out[w] = ~out[w]


@inner
def _reverse_anew(r, choice, parents, t, spare):  # type: ignore[no-untyped-def]
    """Reverse an edge and redraw the parents of both ends; return whether this was accepted, and the two ends.

    Grzegorczyk, Husmeier (2008), Machine Learning 71, 265-305, section 3.
    """
    n, n_words = parents.shape
    sets = t.sets
    inside, among, none = spare[0], spare[1], spare[2]
    n_edges = 0
    for v in range(n):
        for w in range(n_words):
            n_edges += _popcount(parents[v, w])
    if n_edges == 0:
        return False, -1, -1
    left = _below(r, n_edges)
    a = b = -1
    for v in range(n):
        for w in range(n_words):
            x = parents[v, w]
            while x:
                if left == 0:
                    a, b = _trailing_zeros(x) + 64 * w, v
                left -= 1
                x &= x - _ONE
    before_a, before_b = choice[a], choice[b]
    edges_before = _size(parents[a]) + _size(parents[b])
    for w in range(n_words):
        parents[a, w] = 0
        parents[b, w] = 0
        among[w] = 0
    # Both without parents: the reverse move starts from here too.
    _flip(among, a)
    _not_below(b, parents, inside)
    back_b = _log_sum(t, b, inside, among, True)
    for w in range(n_words):
        parents[b, w] = sets[before_b, w]
    _not_below(a, parents, inside)
    back_a = _log_sum(t, a, inside, none, False)
    for w in range(n_words):
        parents[b, w] = 0
        among[w] = 0
    _flip(among, b)
    _not_below(a, parents, inside)
    new_a, there = _pick(r, t, a, inside, among, True)
    accepted = False
    if new_a >= 0:
        for w in range(n_words):
            parents[a, w] = sets[new_a, w]
        _not_below(b, parents, inside)
        new_b, there_b = _pick(r, t, b, inside, none, False)
        if new_b >= 0:
            edges_after = _size(sets[new_a]) + _size(sets[new_b])
            ratio = there + there_b - back_a - back_b + math.log(n_edges / (n_edges - edges_before + edges_after))
            if math.log(1.0 - _uniform(r)) < ratio:
                choice[a], choice[b] = new_a, new_b
                accepted = True
    if not accepted:
        choice[a], choice[b] = before_a, before_b
    for w in range(n_words):
        parents[a, w] = sets[choice[a], w]
        parents[b, w] = sets[choice[b], w]
    return accepted, a, b


@inner
def _size(mask):  # type: ignore[no-untyped-def]
    total = 0
    for w in range(mask.size):
        total += _popcount(mask[w])
    return total


@inner
def _forget(v, parents, keys, key, change):  # type: ignore[no-untyped-def]
    """Update the hash key of v after a change of parents, and clear its cached changes."""
    n = parents.shape[0]
    key[v] = keys[1, v]
    for w in range(parents.shape[1]):
        x = parents[v, w]
        while x:
            key[v] ^= keys[0, _trailing_zeros(x) + 64 * w]
            x &= x - _ONE
    for u in range(n):
        change[v, u] = np.nan


@inner
def _change(v, u, choice, parents, pointer, sets, scores, keys, slots, key, change, target, mask):  # type: ignore[no-untyped-def]
    """Gain of the score when u is added to, or removed from, the parents of v; cached."""
    cached = change[v, u]
    if cached == cached:
        return cached
    for w in range(parents.shape[1]):
        mask[w] = parents[v, w]
    _flip(mask, u)
    i = _find(v, mask, key[v] ^ keys[0, u], pointer, sets, slots)
    target[v, u] = i
    change[v, u] = scores[i] - scores[choice[v]] if i >= 0 else -np.inf
    return change[v, u]


@inner
def _set_parents(v, i, choice, parents, sets, keys, key, change):  # type: ignore[no-untyped-def]
    choice[v] = i
    for w in range(parents.shape[1]):
        parents[v, w] = sets[i, w]
    _forget(v, parents, keys, key, change)


@kernel
def structure_run(  # type: ignore[no-untyped-def]
    t, keys, slots, choice, r, n_steps, until_draw, thin, reversal, renewal, draws, counts
):
    """Run steps over DAGs; updates ``choice`` and ``r``. ``counts`` has rows of [proposed, accepted] by kind of step.

    An ordered pair (u, v) is drawn. Without an edge between the two, u -> v is added; if there is u -> v it is deleted;
    if there is v -> u it is reversed. The proposal is symmetric, so that no correction is needed.
    """
    pointer, sets, scores = t.pointer, t.sets, t.scores
    n, n_words = choice.size, sets.shape[1]
    parents = np.empty((n, n_words), np.uint64)
    key, change, target = np.empty(n, np.uint64), np.empty((n, n)), np.empty((n, n), np.int64)
    spare = np.zeros((3, n_words), np.uint64)
    none, mask, visited, open_ = (
        np.zeros(n_words, np.uint64),
        np.empty(n_words, np.uint64),
        np.empty(n_words, np.uint64),
        np.empty(n_words, np.uint64),
    )
    for v in range(n):
        _set_parents(v, choice[v], choice, parents, sets, keys, key, change)
    n_draws = 0
    for _ in range(n_steps):
        which = _uniform(r)
        if n == 1:
            pass
        elif which < reversal:
            accepted, a, b = _reverse_anew(r, choice, parents, t, spare)
            counts[1, 0] += 1
            if accepted:
                counts[1, 1] += 1
                _forget(a, parents, keys, key, change)
                _forget(b, parents, keys, key, change)
        elif which < reversal + renewal:
            v = _below(r, n)
            _not_below(v, parents, mask)
            i, _ = _pick(r, t, v, mask, none, False)
            counts[2, 0] += 1
            if i != choice[v]:
                counts[2, 1] += 1
                _set_parents(v, i, choice, parents, sets, keys, key, change)
        else:
            u = _below(r, n)
            v = _below(r, n - 1)
            v += v >= u
            counts[0, 0] += 1
            gain = change[v, u]
            if gain != gain:
                gain = _change(v, u, choice, parents, pointer, sets, scores, keys, slots, key, change, target, mask)
            turned = (parents[u, v >> 6] >> np.uint64(v & 63)) & _ONE != 0
            if turned:
                gain += _change(u, v, choice, parents, pointer, sets, scores, keys, slots, key, change, target, mask)
            if gain > -_NATS and (gain >= 0.0 or math.log(1.0 - _uniform(r)) < gain):
                added = not _has(parents[v], u)
                if not (added and _is_above(v, u, parents, v if turned else -1, visited, open_)):
                    counts[0, 1] += 1
                    if turned:
                        _set_parents(u, target[u, v], choice, parents, sets, keys, key, change)
                    _set_parents(v, target[v, u], choice, parents, sets, keys, key, change)
        until_draw -= 1
        if until_draw == 0:
            until_draw = thin
            for v in range(n):
                draws[n_draws, v] = choice[v]
            n_draws += 1
    return until_draw


# --- orders


@inner
def _prefixes(order, begin, end, prefix):  # type: ignore[no-untyped-def]
    """Fill the sets before each position from ``begin`` + 1 to ``end``; the set before ``begin`` is given."""
    for k in range(begin, end):
        for w in range(prefix.shape[1]):
            prefix[k + 1, w] = prefix[k, w]
        _flip(prefix[k + 1], order[k])


@kernel
def order_weight(t, order):  # type: ignore[no-untyped-def]
    """Log weight of an order, and its parts by variable."""
    n = order.size
    prefix = np.zeros((n + 1, t.sets.shape[1]), np.uint64)
    _prefixes(order, 0, n, prefix)
    parts, total = np.empty(n), 0.0
    for k in range(n):
        v = order[k]
        parts[v] = _log_sum(t, v, prefix[k], prefix[k], False)
        total += parts[v]
    return total, parts


@kernel
def parents_in_order(t, order, r, out):  # type: ignore[no-untyped-def]
    """Draw a DAG consistent with an order, as numbers of parent sets."""
    n = order.size
    prefix = np.zeros((n + 1, t.sets.shape[1]), np.uint64)
    _prefixes(order, 0, n, prefix)
    for k in range(n):
        v = order[k]
        out[v], _ = _pick(r, t, v, prefix[k], prefix[k], False)


@kernel
def order_run(t, order, r, n_steps, until_draw, thin, draws, counts):  # type: ignore[no-untyped-def]
    """Run steps over orders: swap two neighbours, swap any two, or move one; all proposals are symmetric.

    ``order`` and ``r`` are updated; each draw is a DAG drawn given the order.
    """
    n = order.size
    most = np.empty(n)
    everything = np.full(t.sets.shape[1], ~np.uint64(0))
    for v in range(n):
        most[v] = _log_sum(t, v, everything, everything, False)
    _, parts = order_weight(t, order)
    new, new_parts = order.copy(), np.empty(n)
    n_words = t.sets.shape[1]
    prefix, predecessors = np.zeros((n + 1, n_words), np.uint64), np.zeros((n, n_words), np.uint64)
    _prefixes(order, 0, n, prefix)
    for k in range(n):
        for w in range(n_words):
            predecessors[order[k], w] = prefix[k, w] & t.candidates[order[k], w]
    n_draws = 0
    for _ in range(n_steps):
        if n > 1:
            which = _uniform(r)
            if which < 0.4:
                kind = 0
                i = _below(r, n - 1)
                j = i + 1
            else:
                kind = 1 if which < 0.6 else 2
                i = _below(r, n)
                j = _below(r, n - 1)
                j += j >= i
            low, high = min(i, j), max(i, j)
            if kind == 2:
                moved = order[i]
                if i < j:
                    for k in range(i, j):
                        new[k] = order[k + 1]
                else:
                    for k in range(i, j, -1):
                        new[k] = order[k - 1]
                new[j] = moved
            else:
                new[i], new[j] = order[j], order[i]
            counts[kind, 0] += 1
            threshold = math.log(1.0 - _uniform(r))
            # Largest possible gain of the remaining variables: a step that cannot be accepted ends early.
            gain = 0.0
            for k in range(low, high + 1):
                gain += most[order[k]] - parts[order[k]]
            _prefixes(new, low, high, prefix)
            for k in range(low, high + 1):
                if gain < threshold:
                    break
                v = new[k]
                same = True
                for w in range(n_words):
                    same &= prefix[k, w] & t.candidates[v, w] == predecessors[v, w]
                if same:
                    new_parts[v] = parts[v]
                else:
                    new_parts[v] = _log_sum(t, v, prefix[k], prefix[k], False)
                gain += new_parts[v] - most[v]
            if threshold < gain:
                counts[kind, 1] += 1
                for k in range(low, high + 1):
                    v = new[k]
                    order[k] = v
                    parts[v] = new_parts[v]
                    for w in range(n_words):
                        predecessors[v, w] = prefix[k, w] & t.candidates[v, w]
            else:
                for k in range(low, high + 1):
                    new[k] = order[k]
                _prefixes(order, low, high, prefix)
        until_draw -= 1
        if until_draw == 0:
            until_draw = thin
            parents_in_order(t, order, r, draws[n_draws])
            n_draws += 1
    return until_draw


@kernel
def log_linear_extensions(parents, members, limit):  # type: ignore[no-untyped-def]
    """Log of the number of orders of some variables in which parents come first; NaN beyond ``limit`` ancestral sets.

    ``parents`` and ``members`` are words; ancestral sets are counted size by size.
    """
    sets, log_counts = np.zeros(1, np.uint64), np.zeros(1)
    n_visited = 0
    for _ in range(_popcount(members)):
        new, log_new = np.empty(sets.size * 64, np.uint64), np.empty(sets.size * 64)
        many = 0
        for i in range(sets.size):
            rest = members & ~sets[i]
            while rest:
                v = _trailing_zeros(rest)
                rest &= rest - _ONE
                if parents[v] & ~sets[i] == 0:
                    new[many] = sets[i] | (_ONE << np.uint64(v))
                    log_new[many] = log_counts[i]
                    many += 1
        order = np.argsort(new[:many])
        sets, log_counts = np.empty(many, np.uint64), np.empty(many)
        distinct = 0
        for i in order:
            if distinct and sets[distinct - 1] == new[i]:
                a, b = log_counts[distinct - 1], log_new[i]
                log_counts[distinct - 1] = max(a, b) + math.log1p(math.exp(-abs(a - b)))
            else:
                sets[distinct], log_counts[distinct] = new[i], log_new[i]
                distinct += 1
        sets, log_counts = sets[:distinct], log_counts[:distinct]
        n_visited += distinct
        if n_visited > limit:
            return np.nan
    return log_counts[0]


# --- ordered partitions


@inner
def _layers(layer, layer_sets, before):  # type: ignore[no-untyped-def]
    """The set of each layer and of all before it, as bits; the number of layers."""
    n, n_words = layer.size, layer_sets.shape[1]
    n_layers = 0
    for v in range(n):
        n_layers = max(n_layers, layer[v] + 1)
    for k in range(n_layers):
        for w in range(n_words):
            layer_sets[k, w] = 0
    for v in range(n):
        _flip(layer_sets[layer[v]], v)
    for w in range(n_words):
        before[0, w] = 0
    for k in range(n_layers):
        for w in range(n_words):
            before[k + 1, w] = before[k, w] | layer_sets[k, w]
    return n_layers


@inner
def _part(v, k, t, empty, layer_sets, before):  # type: ignore[no-untyped-def]
    """Log sum over the parent sets of a variable in layer k, with at least one parent in the layer before."""
    if k == 0:
        return t.scores[empty[v]] if empty[v] >= 0 else -np.inf
    return _log_sum(t, v, before[k], layer_sets[k - 1], True)


@kernel
def partition_weight(t, empty, layer):  # type: ignore[no-untyped-def]
    """Log weight of an ordered partition, and its parts by variable."""
    n = layer.size
    layer_sets, before = np.zeros((n + 2, t.sets.shape[1]), np.uint64), np.zeros((n + 2, t.sets.shape[1]), np.uint64)
    _layers(layer, layer_sets, before)
    parts, total = np.empty(n), 0.0
    for v in range(n):
        parts[v] = _part(v, layer[v], t, empty, layer_sets, before)
        total += parts[v]
    return total, parts


@inner
def _split(r, layer, n_layers, sizes, new):  # type: ignore[no-untyped-def]
    """Split a layer in two; return the log of the reverse over the forward proposal probability, -inf if impossible.

    The layer, the size c of the first part and then its members are uniform: the split has the probability
    1 / (m (k - 1) C(k, c)) with m layers, k variables in this one; joining again, with m + 1 layers, 1 / m.
    """
    n = layer.size
    k = _below(r, n_layers)
    size = sizes[k]
    if size == 1:
        return -np.inf
    c = 1 + _below(r, size - 1)
    left, open_ = c, size
    for v in range(n):
        new[v] = layer[v] + (layer[v] > k)
        if layer[v] == k:
            # Each of the sets of c members is as probable as the others (selection sampling).
            if _uniform(r) * open_ < left:
                left -= 1
            else:
                new[v] = k + 1
            open_ -= 1
    return math.log(size - 1.0) + math.lgamma(size + 1.0) - math.lgamma(c + 1.0) - math.lgamma(size - c + 1.0)


@inner
def _join(r, layer, n_layers, sizes, new):  # type: ignore[no-untyped-def]
    """Join two neighbouring layers; return the same log ratio."""
    n = layer.size
    if n_layers == 1:
        return -np.inf
    k = _below(r, n_layers - 1)
    c, size = sizes[k], sizes[k] + sizes[k + 1]
    for v in range(n):
        new[v] = layer[v] - (layer[v] > k)
    return -(math.log(size - 1.0) + math.lgamma(size + 1.0) - math.lgamma(c + 1.0) - math.lgamma(size - c + 1.0))


@inner
def _move(r, layer, n_layers, sizes, near, new):  # type: ignore[no-untyped-def]
    """Move one variable to another layer, or to a new layer between two others.

    Without it there are m layers and 2 m + 1 positions: 2 k + 1 is in layer k, 2 k before layer k. The new position is
    uniform, or a few positions from the old one; the proposal is symmetric.
    """
    n = layer.size
    x = _below(r, n)
    k = layer[x]
    alone = sizes[k] == 1
    m = n_layers - alone
    was = 2 * k if alone else 2 * k + 1
    if near:
        step = 1 + _below(r, 3)
        place = was + step if _uniform(r) < 0.5 else was - step
        if place < 0 or place > 2 * m:
            return -np.inf
    else:
        place = _below(r, 2 * m)
        place += place >= was
    for v in range(n):
        new[v] = layer[v] - (alone and layer[v] > k)
    if place % 2 == 0:
        for v in range(n):
            new[v] += new[v] >= place // 2
    new[x] = place // 2
    return 0.0


@inner
def _swap(r, layer, new):  # type: ignore[no-untyped-def]
    """Swap two variables of different layers."""
    n = layer.size
    a = _below(r, n)
    b = _below(r, n - 1)
    b += b >= a
    if layer[a] == layer[b]:
        return -np.inf
    for v in range(n):
        new[v] = layer[v]
    new[a], new[b] = layer[b], layer[a]
    return 0.0


@inner
def _draw_parents(r, layer, t, empty, layer_sets, before, out):  # type: ignore[no-untyped-def]
    for v in range(layer.size):
        k = layer[v]
        if k == 0:
            out[v] = empty[v]
        else:
            out[v], _ = _pick(r, t, v, before[k], layer_sets[k - 1], True)


@inner
def _peel(parents, placed, new, layer):  # type: ignore[no-untyped-def]
    """Layers of a DAG, by repeatedly removing all variables without remaining parents."""
    n, n_words = parents.shape
    for w in range(n_words):
        placed[w] = 0
    left, k = n, 0
    while left:
        for w in range(n_words):
            new[w] = 0
        for v in range(n):
            free = not _has(placed, v)
            for w in range(n_words):
                free &= parents[v, w] & ~placed[w] == 0
            if free:
                layer[v] = k
                _flip(new, v)
                left -= 1
        for w in range(n_words):
            placed[w] |= new[w]
        k += 1


@inner
def _reverse_in_partition(r, t, empty, layer, layer_sets, before, choice, parents, spare):  # type: ignore[no-untyped-def]
    """Draw a DAG given the partition, reverse an edge, and take its partition; return whether this was accepted."""
    _draw_parents(r, layer, t, empty, layer_sets, before, choice)
    for v in range(layer.size):
        for w in range(parents.shape[1]):
            parents[v, w] = t.sets[choice[v], w]
    accepted, _, _ = _reverse_anew(r, choice, parents, t, spare)
    if accepted:
        _peel(parents, spare[0], spare[1], layer)
    return accepted


@kernel
def partition_run(  # type: ignore[no-untyped-def]
    t, empty, layer, r, n_steps, until_draw, thin, reversal, draws, counts
):
    """Run steps over ordered partitions; updates ``layer`` and ``r``; each draw is a DAG given the partition."""
    n, n_words = layer.size, t.sets.shape[1]
    most = np.empty(n)
    everything = np.full(n_words, ~np.uint64(0))
    for v in range(n):
        most[v] = _log_sum(t, v, everything, everything, False)
    _, parts = partition_weight(t, empty, layer)
    layer_sets, before = np.zeros((n + 2, n_words), np.uint64), np.zeros((n + 2, n_words), np.uint64)
    new_layer_sets, new_before = np.zeros((n + 2, n_words), np.uint64), np.zeros((n + 2, n_words), np.uint64)
    n_layers = _layers(layer, layer_sets, before)
    sizes = np.empty(n + 1, np.int64)
    for k in range(n_layers):
        sizes[k] = _size(layer_sets[k])
    new, new_parts, touched = layer.copy(), np.empty(n), np.empty(n, np.int64)
    choice, parents, spare = np.empty(n, np.int32), np.empty((n, n_words), np.uint64), np.zeros((3, n_words), np.uint64)
    n_draws = 0
    for _ in range(n_steps):
        if n > 1 and _uniform(r) < reversal:
            counts[4, 0] += 1
            if _reverse_in_partition(r, t, empty, layer, layer_sets, before, choice, parents, spare):
                counts[4, 1] += 1
                n_layers = _layers(layer, layer_sets, before)
                for k in range(n_layers):
                    sizes[k] = _size(layer_sets[k])
                for v in range(n):
                    parts[v] = _part(v, layer[v], t, empty, layer_sets, before)
        elif n > 1:
            which = _uniform(r)
            if which < 0.15:
                kind, ratio = 0, _split(r, layer, n_layers, sizes, new)
            elif which < 0.3:
                kind, ratio = 1, _join(r, layer, n_layers, sizes, new)
            elif which < 0.8:
                kind, ratio = 2, _move(r, layer, n_layers, sizes, which < 0.6, new)
            else:
                kind, ratio = 3, _swap(r, layer, new)
            counts[kind, 0] += 1
            if ratio > -np.inf:
                threshold = math.log(1.0 - _uniform(r))
                _layers(new, new_layer_sets, new_before)
                n_touched, gain = 0, ratio
                for v in range(n):
                    a, b = layer[v], new[v]
                    same = (a == 0) == (b == 0)
                    if same and a > 0:
                        for w in range(n_words):
                            differ = (before[a, w] ^ new_before[b, w]) | (
                                layer_sets[a - 1, w] ^ new_layer_sets[b - 1, w]
                            )
                            same &= differ & t.candidates[v, w] == 0
                    if not same:
                        touched[n_touched] = v
                        n_touched += 1
                        gain += most[v] - parts[v]
                for i in range(n_touched):
                    if gain < threshold:
                        break
                    v = touched[i]
                    new_parts[v] = _part(v, new[v], t, empty, new_layer_sets, new_before)
                    gain += new_parts[v] - most[v]
                if threshold < gain:
                    counts[kind, 1] += 1
                    for i in range(n_touched):
                        parts[touched[i]] = new_parts[touched[i]]
                    for v in range(n):
                        layer[v] = new[v]
                    n_layers = _layers(layer, layer_sets, before)
                    for k in range(n_layers):
                        sizes[k] = _size(layer_sets[k])
        until_draw -= 1
        if until_draw == 0:
            until_draw = thin
            _draw_parents(r, layer, t, empty, layer_sets, before, draws[n_draws])
            n_draws += 1
    return until_draw
