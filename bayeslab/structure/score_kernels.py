"""Compiled loops that count and sum over many sets of variables at once.

The sets of at most ``limit`` variables that begin with a given variable are visited depth first, in increasing order of
variables. The data of a set are derived from the set without its last variable, so that each further variable costs one
pass. Sets are numbered by size and then in colexicographic order: the set s_0 < s_1 < ... of size k has the number
offsets[k] + C(s_0, 1) + C(s_1, 2) + ...

Functions of a count: kind 0 is lgamma(count + shift) - lgamma(shift), kind 1 is count log count. If ``ess`` is
positive, the shift is ``ess`` over the number of cells; otherwise shifts are given, one per type of sum. Small counts
are looked up in a table.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types
from numba.extending import intrinsic

from bayeslab.compiled import inner, kernel

__all__ = [
    "clique_log_determinants",
    "clique_sums_by_bits",
    "clique_sums_by_codes",
    "expand",
    "families_by_bits",
    "families_by_codes",
    "pack_bits",
    "sparse_families_by_bits",
    "sparse_families_by_codes",
    "undominated",
]


@intrinsic
def _popcount(typingctx, word):  # type: ignore[no-untyped-def]
    """Number of bits set."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), code


@inner(inline="always")
def _term(count, kind, shift, row, known, table):  # type: ignore[no-untyped-def]
    if known and count < table.shape[1]:
        return table[row, int(count)]
    if kind == 1:
        return count * math.log(count)
    return math.lgamma(count + shift) - math.lgamma(shift)


@inner
def _sums(counts, n_cells, n_types, kind, ess, shifts, products, product, table, out, place):  # type: ignore[no-untyped-def]
    """Write the sums over cells of one set, one per type, to out[place]."""
    row, shift, known = 0, 1.0, True
    if ess > 0.0:
        shift = ess / product
        row = np.searchsorted(products, product)
        known = row < products.size and products[row] == product
    for t in range(n_types):
        if ess <= 0.0 and kind == 0:
            row, shift = t, shifts[t]
        total = 0.0
        for i in range(n_cells):
            if counts[i] > 0:
                total += _term(counts[i], kind, shift, row, known, table)
        out[place, t] = total


@kernel
def clique_sums_by_codes(  # type: ignore[no-untyped-def]
    columns,
    cards,
    weights,
    root,
    limit,
    parent_limit,
    binomial,
    offsets,
    n_types,
    kind,
    ess,
    shifts,
    products,
    table,
    out,
):
    """Sums for all sets of at most ``limit`` variables whose first is ``root``, from one code per row.

    Sets of more than ``parent_limit`` variables are not parent sets and get the first type of sum only.

    Rows in the same cell have the same code; only occurring cells are numbered, at most as many as there are rows.
    """
    n, n_rows = columns.shape
    longest = 1
    for c in cards:
        longest = max(longest, c)
    codes = np.zeros((limit, n_rows), np.int32)
    n_codes = np.ones(limit + 1, np.int64)
    product = np.ones(limit + 1)
    rank = np.zeros(limit + 1, np.int64)
    chosen = np.empty(limit, np.int64)
    counts = np.zeros(n_rows * longest, weights.dtype)
    fresh = np.empty(counts.size, np.int32)
    depth = 0
    chosen[0] = root
    while True:
        u = chosen[depth]
        card, before, column = cards[u], codes[depth], columns[u]
        n_cells = n_codes[depth] * card
        for i in range(n_cells):
            counts[i] = 0
        for r in range(n_rows):
            counts[before[r] * card + column[r]] += weights[r]
        product[depth + 1] = product[depth] * card
        rank[depth + 1] = rank[depth] + binomial[u, depth + 1]
        types_here = n_types if depth < parent_limit else 1
        place = offsets[depth + 1] + rank[depth + 1]
        _sums(counts, n_cells, types_here, kind, ess, shifts, products, product[depth + 1], table, out, place)
        if depth + 1 < limit and u + 1 < n:
            used = 0
            for i in range(n_cells):
                if counts[i] > 0:
                    fresh[i] = used
                    used += 1
                else:
                    fresh[i] = 0
            for r in range(n_rows):
                codes[depth + 1, r] = fresh[before[r] * card + column[r]]
            n_codes[depth + 1] = max(used, 1)
            depth += 1
            chosen[depth] = u + 1
            continue
        while depth > 0:
            chosen[depth] += 1
            if chosen[depth] < n:
                break
            depth -= 1
        if depth == 0:
            return


@kernel
def pack_bits(columns, starts, out):  # type: ignore[no-untyped-def]
    """Pack one row of bits for each state of each variable: bit r % 64 of word r // 64 is row r."""
    for v in range(columns.shape[0]):
        for r in range(columns.shape[1]):
            out[starts[v] + columns[v, r], r // 64] |= np.uint64(1) << np.uint64(r % 64)


@kernel
def clique_sums_by_bits(  # type: ignore[no-untyped-def]
    bits,
    starts,
    cards,
    n_rows,
    root,
    limit,
    parent_limit,
    room,
    binomial,
    offsets,
    n_types,
    kind,
    ess,
    shifts,
    products,
    table,
    out,
):
    """As :func:`clique_sums_by_codes` for rows of weight one: a cell is a set of rows, 64 per word.

    ``room`` is an upper bound on the number of occurring cells of a set that is extended.
    """
    n, n_words = cards.size, bits.shape[1]
    longest = 1
    for c in cards:
        longest = max(longest, c)
    held = np.empty((limit, room, n_words), np.uint64)
    sizes = np.empty((limit, room), np.int64)
    n_held = np.ones(limit + 1, np.int64)
    product = np.ones(limit + 1)
    rank = np.zeros(limit + 1, np.int64)
    chosen = np.empty(limit, np.int64)
    counts = np.zeros(room * longest, np.int64)
    for w in range(n_words):
        held[0, 0, w] = ~np.uint64(0)
    sizes[0, 0] = n_rows
    depth = 0
    chosen[0] = root
    while True:
        u = chosen[depth]
        card, begin = cards[u], starts[u]
        extend = depth + 1 < limit and u + 1 < n
        used = 0
        at = 0
        for i in range(n_held[depth]):
            cell = held[depth, i]
            rest = sizes[depth, i]
            for x in range(card):
                count = rest
                if x + 1 < card:
                    state = bits[begin + x]
                    count = 0
                    if rest > 0:
                        for w in range(n_words):
                            count += _popcount(cell[w] & state[w])  # type: ignore[call-arg]
                    rest -= count
                counts[at] = count
                at += 1
                if extend and count > 0:
                    state, target = bits[begin + x], held[depth + 1, used]
                    for w in range(n_words):
                        target[w] = cell[w] & state[w]
                    sizes[depth + 1, used] = count
                    used += 1
        product[depth + 1] = product[depth] * card
        rank[depth + 1] = rank[depth] + binomial[u, depth + 1]
        types_here = n_types if depth < parent_limit else 1
        place = offsets[depth + 1] + rank[depth + 1]
        _sums(counts, at, types_here, kind, ess, shifts, products, product[depth + 1], table, out, place)
        if extend:
            n_held[depth + 1] = used
            depth += 1
            chosen[depth] = u + 1
            continue
        while depth > 0:
            chosen[depth] += 1
            if chosen[depth] < n:
                break
            depth -= 1
        if depth == 0:
            return


@kernel
def families_by_bits(  # type: ignore[no-untyped-def]
    bits, starts, cards, n_rows, child, sets, row, n_types, kind, ess, shifts, products, table, out
):
    """Sums for parents (type ``row``) and for parents with child (type 0), for parent sets given as bits."""
    n, n_words = cards.size, bits.shape[1]
    members = np.empty(n + 1, np.int64)
    values = np.zeros((1, n_types))
    for p in range(sets.shape[0]):
        k = _members(sets[p], members)
        members[k] = child
        room, size = 1.0, 1.0
        for i in range(k):
            size *= cards[members[i]]
        room = int(min(float(n_rows), size))
        longest = 1
        for i in range(k + 1):
            longest = max(longest, cards[members[i]])
        held = np.empty((2, room, n_words), np.uint64)
        sizes = np.empty((2, room), np.int64)
        counts = np.empty(room * longest, np.int64)
        for w in range(n_words):
            held[0, 0, w] = ~np.uint64(0)
        sizes[0, 0] = n_rows
        n_held, product = 1, 1.0
        for i in range(k + 1):
            here, there = i % 2, 1 - i % 2
            u = members[i]
            if i == k:
                _sums(sizes[here], n_held, n_types, kind, ess, shifts, products, product, table, values, 0)
                out[p, 0] = values[0, row]
            at, used = 0, 0
            for c in range(n_held):
                cell, rest = held[here, c], sizes[here, c]
                for x in range(cards[u]):
                    count = rest
                    state = bits[starts[u] + x]
                    if x + 1 < cards[u]:
                        count = 0
                        if rest > 0:
                            for w in range(n_words):
                                count += _popcount(cell[w] & state[w])  # type: ignore[call-arg]
                        rest -= count
                    counts[at] = count
                    at += 1
                    if i < k and count > 0:
                        target = held[there, used]
                        for w in range(n_words):
                            target[w] = cell[w] & state[w]
                        sizes[there, used] = count
                        used += 1
            n_held = used
            product *= cards[u]
            if i == k:
                _sums(counts, at, n_types, kind, ess, shifts, products, product, table, values, 0)
                out[p, 1] = values[0, 0]


@kernel
def families_by_codes(  # type: ignore[no-untyped-def]
    columns, cards, weights, child, sets, row, n_types, kind, ess, shifts, products, table, out
):
    """As :func:`families_by_bits`, from one code per row."""
    n, n_rows = columns.shape
    members = np.empty(n + 1, np.int64)
    values = np.zeros((1, n_types))
    longest = 1
    for c in cards:
        longest = max(longest, c)
    codes = np.empty(n_rows, np.int32)
    fresh = np.empty(n_rows * longest, np.int32)
    counts = np.empty(n_rows * longest, weights.dtype)
    for p in range(sets.shape[0]):
        k = _members(sets[p], members)
        members[k] = child
        codes[:] = 0
        counts[0] = weights.sum()
        n_codes, product = 1, 1.0
        for i in range(k + 1):
            u = members[i]
            card = cards[u]
            if i == k:
                _sums(counts, n_codes, n_types, kind, ess, shifts, products, product, table, values, 0)
                out[p, 0] = values[0, row]
            for c in range(n_codes * card):
                counts[c] = 0
            for r in range(n_rows):
                codes[r] = codes[r] * card + columns[u, r]
                counts[codes[r]] += weights[r]
            used = 0
            for c in range(n_codes * card):
                fresh[c] = used
                if counts[c] > 0:
                    counts[used] = counts[c]
                    used += 1
            # Rows of weight zero do not count; any cell will do.
            n_codes = max(used, 1)
            if i < k:
                for r in range(n_rows):
                    codes[r] = min(fresh[codes[r]], n_codes - 1)
            product *= card
        _sums(counts, n_codes, n_types, kind, ess, shifts, products, product, table, values, 0)
        out[p, 1] = values[0, 0]


@inner
def _members(mask, out):  # type: ignore[no-untyped-def]
    """The variables of a set given as bits, ascending; returns their number."""
    k = 0
    for w in range(mask.size):
        word = mask[w]
        u = 64 * w
        while word:
            if word & np.uint64(1):
                out[k] = u
                k += 1
            word >>= np.uint64(1)
            u += 1
    return k


@kernel
def clique_log_determinants(matrix, root, limit, binomial, offsets, constant, slope, out):  # type: ignore[no-untyped-def]
    """constant[k] + slope[k] * log det matrix[S, S] of all sets S of k <= limit variables whose first is ``root``.

    Each further variable adds a row to a Cholesky factor. A variable determined by the others is treated as if 1e-14 of
    its variance were independent of them.
    """
    n = matrix.shape[0]
    lower = np.zeros((limit, limit))
    log_det = np.zeros(limit + 1)
    rank = np.zeros(limit + 1, np.int64)
    chosen = np.empty(limit, np.int64)
    depth = 0
    chosen[0] = root
    while True:
        u = chosen[depth]
        rest = matrix[u, u]
        for i in range(depth):
            value = matrix[u, chosen[i]]
            for j in range(i):
                value -= lower[depth, j] * lower[i, j]
            value /= lower[i, i]
            lower[depth, i] = value
            rest -= value * value
        rest = max(rest, 1e-14 * matrix[u, u])
        lower[depth, depth] = math.sqrt(rest)
        log_det[depth + 1] = log_det[depth] + math.log(rest)
        rank[depth + 1] = rank[depth] + binomial[u, depth + 1]
        out[offsets[depth + 1] + rank[depth + 1], 0] = constant[depth + 1] + slope[depth + 1] * log_det[depth + 1]
        if depth + 1 < limit and u + 1 < n:
            depth += 1
            chosen[depth] = u + 1
            continue
        while depth > 0:
            chosen[depth] += 1
            if chosen[depth] < n:
                break
            depth -= 1
        if depth == 0:
            return


@inner(inline="always")
def _remembered(count, shift, row, memory, whole):  # type: ignore[no-untyped-def]
    """lgamma(count + shift) - lgamma(shift), cached in memory[row, count]; zero means not yet computed."""
    if not whole or row >= memory.shape[0] or count >= memory.shape[1]:
        return math.lgamma(count + shift) - math.lgamma(shift)
    place = int(count)
    if memory[row, place] == 0.0:
        memory[row, place] = math.lgamma(count + shift) - math.lgamma(shift)
    return memory[row, place]


@inner
def _sparse(counts, n_rows, card, ess, whole, of_cells, of_rows):  # type: ignore[no-untyped-def]
    """BDs of one family from its counts, ``card`` counts for each occurring row."""
    shift = ess / n_rows
    part = shift / card
    total = 0.0
    for j in range(n_rows):
        row = counts[j * card] * 0
        for x in range(card):
            count = counts[j * card + x]
            if count > 0:
                total += _remembered(count, part, n_rows, of_cells, whole)
                row += count
        if row > 0:
            total -= _remembered(row, shift, n_rows, of_rows, whole)
    return total


@inner
def _next(chosen, depth, limit, m):  # type: ignore[no-untyped-def]
    """Advance ``chosen[1:]`` to the next set of at most ``limit`` of m candidates; return its size, 0 at the end."""
    if depth < limit and (depth == 0 or chosen[depth] + 1 < m) and m > 0:
        chosen[depth + 1] = 0 if depth == 0 else chosen[depth] + 1
        return depth + 1
    while depth > 0:
        chosen[depth] += 1
        if chosen[depth] < m:
            return depth
        depth -= 1
    return 0


@kernel
def sparse_families_by_bits(  # type: ignore[no-untyped-def]
    bits, starts, cards, n_rows, room, child, candidates, limit, binomial, offsets, ess, out
):
    """As :func:`sparse_families_by_codes` for rows of weight one; at most ``room`` cells of parents occur."""
    m, n_words, card = candidates.size, bits.shape[1], cards[child]
    held = np.empty((limit + 1, room, n_words), np.uint64)
    sizes = np.empty((limit + 1, room), np.int64)
    n_held = np.ones(limit + 1, np.int64)
    rank = np.zeros(limit + 1, np.int64)
    chosen = np.empty(limit + 1, np.int64)
    counts = np.empty(room * card, np.int64)
    of_cells = np.zeros((min(n_rows, 127) + 1, min(n_rows, 1 << 14) + 1))
    of_rows = np.zeros(of_cells.shape)
    for w in range(n_words):
        held[0, 0, w] = ~np.uint64(0)
    sizes[0, 0] = n_rows
    depth = 0  # number of parents
    while True:
        for i in range(n_held[depth]):
            cell, rest = held[depth, i], sizes[depth, i]
            for x in range(card - 1):
                state = bits[starts[child] + x]
                count = 0
                if rest > 0:
                    for w in range(n_words):
                        count += _popcount(cell[w] & state[w])  # type: ignore[call-arg]
                rest -= count
                counts[i * card + x] = count
            counts[i * card + card - 1] = rest
        out[offsets[depth] + rank[depth]] = _sparse(counts, n_held[depth], card, ess, True, of_cells, of_rows)
        depth = _next(chosen, depth, limit, m)
        if depth == 0:
            return
        u = candidates[chosen[depth]]
        rank[depth] = rank[depth - 1] + binomial[chosen[depth], depth]
        used = 0
        for i in range(n_held[depth - 1]):
            cell, rest = held[depth - 1, i], sizes[depth - 1, i]
            for x in range(cards[u]):
                if rest == 0:
                    break
                state, target = bits[starts[u] + x], held[depth, used]
                count = 0
                for w in range(n_words):
                    both = cell[w] & state[w]
                    target[w] = both
                    count += _popcount(both)  # type: ignore[call-arg]
                if count > 0:
                    sizes[depth, used] = count
                    used += 1
                    rest -= count
        n_held[depth] = used


@kernel
def sparse_families_by_codes(  # type: ignore[no-untyped-def]
    columns, cards, weights, whole, child, candidates, limit, binomial, offsets, ess, out
):
    """BDs of a child for each set of at most ``limit`` candidates; the occurring parent cells share ``ess``.

    Results are in the order of the numbers of the sets among the candidates.
    """
    m, n_rows, card = candidates.size, columns.shape[1], cards[child]
    longest = 1
    for u in candidates:
        longest = max(longest, cards[u])
    codes = np.zeros((limit + 1, n_rows), np.int32)
    n_codes = np.ones(limit + 1, np.int64)
    rank = np.zeros(limit + 1, np.int64)
    chosen = np.empty(limit + 1, np.int64)
    counts = np.zeros(n_rows * card, weights.dtype)
    cell_counts = np.zeros(n_rows * longest + 1, weights.dtype)
    fresh = np.empty(cell_counts.size, np.int32)
    # Few distinct values recur: they are cached by the number of occurring cells and the count.
    heaviest = 0
    for w in weights:
        heaviest += int(w)
    of_cells = np.zeros((min(n_rows, 127) + 1, min(heaviest, 1 << 14) + 1))
    of_rows = np.zeros(of_cells.shape)
    child_codes = columns[child]
    depth = 0  # number of parents
    while True:
        now = codes[depth]
        for i in range(n_codes[depth] * card):
            counts[i] = 0
        for r in range(n_rows):
            counts[now[r] * card + child_codes[r]] += weights[r]
        out[offsets[depth] + rank[depth]] = _sparse(counts, n_codes[depth], card, ess, whole, of_cells, of_rows)
        depth = _next(chosen, depth, limit, m)
        if depth == 0:
            return
        u = candidates[chosen[depth]]
        rank[depth] = rank[depth - 1] + binomial[chosen[depth], depth]
        before, column = codes[depth - 1], columns[u]
        n_cells = n_codes[depth - 1] * cards[u]
        for i in range(n_cells):
            cell_counts[i] = 0
        for r in range(n_rows):
            cell_counts[before[r] * cards[u] + column[r]] += weights[r]
        used = 0
        for i in range(n_cells):
            fresh[i] = used
            if cell_counts[i] > 0:
                used += 1
        for r in range(n_rows):
            codes[depth, r] = min(fresh[before[r] * cards[u] + column[r]], max(used - 1, 0))
        n_codes[depth] = max(used, 1)


@kernel
def expand(  # type: ignore[no-untyped-def]
    child, candidates, limit, labels, cards, binomial, offsets, values, kind, per_parameter, by_size, sets, scores
):
    """Parent sets of a child in the order of their numbers among the candidates, with scores from clique sums.

    The score is values[parents + child, 0] - values[parents, kind], minus ``per_parameter`` for each free parameter and
    by_size[number of parents]. Without ``values`` only the sets are written. ``labels`` are the numbers of the
    variables in the bits of ``sets``.
    """
    m = candidates.size
    s = np.empty(limit + 1, np.int64)
    place = 0
    for k in range(min(limit, m) + 1):
        for i in range(k):
            s[i] = i
        while True:
            alone, both, shift, product = 0, 0, 0, 1.0
            for i in range(k):
                u = candidates[s[i]]
                label = labels[u]
                sets[place, label // 64] |= np.uint64(1) << np.uint64(label % 64)
                if u > child and shift == 0:
                    both += binomial[child, i + 1]
                    shift = 1
                alone += binomial[u, i + 1]
                both += binomial[u, i + 1 + shift]
                product *= cards[u]
            if shift == 0:
                both += binomial[child, k + 1]
            if values.shape[0] > 0:
                penalty = per_parameter * product * (cards[child] - 1) + by_size[k]
                scores[place] = values[offsets[k + 1] + both, 0] - values[offsets[k] + alone, kind] - penalty
            place += 1
            i = 0
            while i < k:
                top = m if i + 1 == k else s[i + 1]
                if s[i] + 1 < top:
                    break
                i += 1
            if i == k:
                break
            s[i] += 1
            for j in range(i):
                s[j] = j
    return place


@kernel
def undominated(sets, scores, nats):  # type: ignore[no-untyped-def]
    """Whether each set, sorted best first, has no proper subset whose score is better by more than ``nats``.

    With ``nats`` zero an equally good subset suffices, and only kept subsets need to be checked: a dropped subset has
    an even better subset.
    """
    n, words = sets.shape
    keep = np.ones(n, np.bool_)
    front = np.empty(n, np.int64)  # sets without an earlier subset: they include the best subset of every set
    used = 0
    for i in range(n):
        best = -1
        for j in range(used):
            inside = True
            for w in range(words):
                if sets[front[j], w] & ~sets[i, w]:
                    inside = False
                    break
            if inside:
                best = front[j]
                break
        if best < 0:
            front[used] = i
            used += 1
        elif nats == 0.0 or scores[best] - scores[i] > nats:
            keep[i] = False
    return keep
