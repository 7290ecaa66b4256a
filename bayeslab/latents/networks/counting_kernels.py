"""Compiled loops over rows of discrete data: family counts, distinct rows, completions of missing cells.

Columns are stored one after the other (``columns[v, row]``) in the smallest integer type that holds
the codes; -1 is a missing cell. All tables lie in one flat array: the table of family f starts at
``offsets[f]``, and variable v has the stride ``strides[f, v]`` in it.
"""

from __future__ import annotations

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = [
    "add_observed_families",
    "components_of_rows",
    "count_families",
    "expected_components",
    "first_of_each",
    "gibbs_sweeps",
    "pack",
]

_BLOCK = 2048  # rows counted at a time: their table positions stay in the first-level cache
_SPREAD = 4096  # tables up to this size are counted in four copies, so that equal neighbouring rows run in parallel


@kernel
def pack(codes, out):  # type: ignore[no-untyped-def]
    """Copy rows to columns, block by block, so that both stay in the cache."""
    n_rows, n_variables = codes.shape
    for low in range(0, n_rows, 256):
        high = min(n_rows, low + 256)
        for v in range(n_variables):
            for i in range(low, high):
                out[v, i] = codes[i, v]


@inner
def _smallest(column):  # type: ignore[no-untyped-def]
    low = column[0]
    for x in column:
        low = min(low, x)
    return low


@kernel
def count_families(columns, starts, members, strides, offsets, weights, counts):  # type: ignore[no-untyped-def]
    """Add the rows to ``counts``; return the weight that each family skips because a cell is missing.

    Family f has the variables ``members[starts[f]:starts[f + 1]]``, with the same slice of ``strides``. Every count is
    summed in the order of the rows. Empty ``weights`` mean a weight of 1.
    """
    n_variables, n_rows = columns.shape
    weighted = weights.size > 0
    skipped = np.zeros(offsets.size - 1)
    if n_rows == 0:
        return skipped
    missing = np.zeros(n_variables, np.bool_)
    for v in range(n_variables):
        missing[v] = _smallest(columns[v]) < 0
    place, low = np.empty(_BLOCK, np.int32), np.empty(_BLOCK, columns.dtype)
    copies = np.zeros((4, _SPREAD), np.int64)
    for f in range(offsets.size - 1):
        size = offsets[f + 1] - offsets[f]
        partial = False
        for j in range(starts[f], starts[f + 1]):
            partial |= missing[members[j]]
        plain = not weighted and not partial and size <= _SPREAD
        table = counts[offsets[f] : offsets[f + 1]]
        for first in range(0, n_rows, _BLOCK):
            m = min(_BLOCK, n_rows - first)
            place[:m] = 0
            low[:m] = 0
            for j in range(starts[f], starts[f + 1]):
                column, stride = columns[members[j], first : first + m], np.int32(strides[j])
                for i in range(m):
                    place[i] += stride * column[i]
                if partial:
                    for i in range(m):
                        low[i] |= column[i]
            if plain:
                quads = m - m % 4
                for i in range(0, quads, 4):
                    copies[0, place[i]] += 1
                    copies[1, place[i + 1]] += 1
                    copies[2, place[i + 2]] += 1
                    copies[3, place[i + 3]] += 1
                for i in range(quads, m):
                    copies[0, place[i]] += 1
            else:
                for i in range(m):
                    weight = weights[first + i] if weighted else 1.0
                    if low[i] < 0:
                        skipped[f] += weight
                    else:
                        table[place[i]] += weight
        if plain:
            for k in range(size):
                table[k] += copies[0, k] + copies[1, k] + copies[2, k] + copies[3, k]
                copies[0, k] = copies[1, k] = copies[2, k] = copies[3, k] = 0
    return skipped


@kernel
def first_of_each(values, starts):  # type: ignore[no-untyped-def]
    """Label equal sequences ``values[starts[i]:starts[i + 1]]`` alike, in order of first appearance.

    Returns the label of each sequence and the first sequence of each label. The hash table uses open addressing;
    sequences with equal hashes are compared in full.
    """
    n = starts.size - 1
    size = 16
    while size < 2 * n:
        size *= 2
    slots = np.full(size, -1, np.int64)
    kinds, firsts, hashes = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.uint64)
    n_kinds = 0
    for i in range(n):
        begin, length = starts[i], starts[i + 1] - starts[i]
        h = np.uint64(14695981039346656037)
        for j in range(length):
            h = (h ^ np.uint64(values[begin + j] + 1)) * np.uint64(1099511628211)
        h ^= h >> np.uint64(29)
        slot = np.int64(h & np.uint64(size - 1))
        while True:
            kind = slots[slot]
            if kind < 0:
                slots[slot] = kinds[i] = n_kinds
                firsts[n_kinds], hashes[n_kinds] = i, h
                n_kinds += 1
                break
            other = firsts[kind]
            if hashes[kind] == h and starts[other + 1] - starts[other] == length:
                same = True
                for j in range(length):
                    if values[starts[other] + j] != values[begin + j]:
                        same = False
                        break
                if same:
                    kinds[i] = kind
                    break
            slot = (slot + 1) & (size - 1)
    return kinds, firsts[:n_kinds].copy()


@inner
def _root(parent, v):  # type: ignore[no-untyped-def]
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@inner
def _elimination_order(values, head, cards, dense, budget):  # type: ignore[no-untyped-def]
    """Sort the variables of a group into a greedy elimination order: the smallest product of tables first.

    Returns the total size of the products, or -1 if it exceeds ``budget`` or there are more than 64 variables.
    """
    k, q = values[head], values[head + 1]
    if k > 64:
        return -1.0
    one = np.uint64(1)
    scopes, n = np.zeros(q + k, np.uint64), np.int64(q)
    variables = values[head + 2 : head + 2 + k].copy()
    for t in range(q):
        for j in range(k):
            if dense[values[head + 2 + k + t], variables[j]] > 0:
                scopes[t] |= one << np.uint64(j)
    gone, cost = np.zeros(k, np.bool_), 0.0
    for step in range(k):
        best, least, best_scope = -1, 0.0, np.uint64(0)
        for v in range(k):
            if gone[v]:
                continue
            scope = np.uint64(0)
            for t in range(n):
                if (scopes[t] >> np.uint64(v)) & one:
                    scope |= scopes[t]
            size = 1.0
            for j in range(k):
                if (scope >> np.uint64(j)) & one:
                    size *= cards[variables[j]]
            if best < 0 or size < least:
                best, least, best_scope = v, size, scope
        cost += least
        if cost > budget:
            return -1.0
        values[head + 2 + step] = variables[best]
        gone[best] = True
        bit = one << np.uint64(best)
        for t in range(n):
            if scopes[t] & bit:
                scopes[t] = np.uint64(0)
        scopes[n] = best_scope & ~bit
        n += 1
    return cost


@kernel
def components_of_rows(codes, cards, starts, members, strides, dense, completions, budget):  # type: ignore[no-untyped-def]
    """The missing cells of every row, in groups that are independent given the observed cells.

    Two missing cells belong to one group when they share a family. A group is stored as a sequence of integers, which
    determines its expected counts: the number of its variables, the number of its families, the variables, the
    families, and for each family the table offset of its observed cells. The variables of a group with more than
    ``completions`` completions are in elimination order. A row with a group whose elimination costs more than
    ``budget`` is marked in ``wide`` and has no groups.

    Returns
    -------
    values, ends
        The sequences, concatenated, and the end of each.
    rows : ndarray
        The row of each sequence.
    wide : ndarray of bool
    """
    n_rows, n_variables = codes.shape
    n_families = starts.size - 1
    values, used = np.empty(1024, np.int32), 0
    ends, rows, n_groups = np.empty(256, np.int64), np.empty(256, np.int64), 0
    wide = np.zeros(n_rows, np.bool_)
    parent = np.empty(n_variables, np.int64)
    touched, group_of = np.empty(n_families, np.int64), np.empty(n_families, np.int64)
    roots = np.empty(n_variables, np.int64)
    first_variable, first_family = np.empty(n_variables, np.int64), np.empty(n_variables, np.int64)
    next_variable, next_family = np.empty(n_variables, np.int64), np.empty(n_families, np.int64)
    for r in range(n_rows):
        row = codes[r]
        for v in range(n_variables):
            parent[v], first_variable[v], first_family[v] = v, -1, -1
        n_touched = 0
        for f in range(n_families):
            first = -1
            for j in range(starts[f], starts[f + 1]):
                v = members[j]
                if row[v] < 0:
                    if first < 0:
                        first = _root(parent, v)
                    else:
                        parent[_root(parent, v)] = first
            if first >= 0:
                touched[n_touched], group_of[n_touched] = f, first
                n_touched += 1
        # Variables and families of each group are linked lists: work is proportional to the number of missing cells.
        n_roots = 0
        for v in range(n_variables - 1, -1, -1):
            if row[v] < 0:
                root = _root(parent, v)
                if first_variable[root] < 0:
                    roots[n_roots] = root
                    n_roots += 1
                next_variable[v] = first_variable[root]
                first_variable[root] = v
        for t in range(n_touched - 1, -1, -1):
            root, f = _root(parent, group_of[t]), touched[t]
            next_family[f] = first_family[root]
            first_family[root] = f
        used_before, groups_before = used, n_groups
        for i in range(n_roots):
            root = roots[i]
            if used + 2 + n_variables + 2 * n_touched > values.size:
                larger = np.empty(2 * values.size + 2 * (n_variables + n_families), np.int32)
                larger[:used] = values[:used]
                values = larger
            if n_groups == ends.size:
                more_ends, more_rows = np.empty(2 * n_groups, np.int64), np.empty(2 * n_groups, np.int64)
                more_ends[:n_groups], more_rows[:n_groups] = ends, rows
                ends, rows = more_ends, more_rows
            head, k, q, size = used, 0, 0, 1.0
            used += 2
            v = first_variable[root]
            while v >= 0:
                values[used] = v
                used += 1
                k += 1
                size *= cards[v]
                v = next_variable[v]
            f = first_family[root]
            while f >= 0:
                values[used] = f
                used += 1
                q += 1
                f = next_family[f]
            for t in range(q):
                f = values[head + 2 + k + t]
                place = 0
                for j in range(starts[f], starts[f + 1]):
                    if row[members[j]] >= 0:
                        place += strides[j] * row[members[j]]
                values[used] = place
                used += 1
            values[head], values[head + 1] = k, q
            if size > completions and _elimination_order(values, head, cards, dense, budget) < 0:
                wide[r] = True
                used, n_groups = used_before, groups_before
                break
            ends[n_groups], rows[n_groups] = used, r
            n_groups += 1
    return values[:used].copy(), ends[:n_groups].copy(), rows[:n_groups].copy(), wide


@kernel(error_model="numpy")
def expected_components(values, begins, weights, cards, dense, offsets, completions, flat, counts, logs):  # type: ignore[no-untyped-def]
    """Sum out the missing cells of every group.

    Adds the expected counts of the families of each group, times its weight, to ``counts``, and writes the log
    probability of the group's families, with the missing cells summed out, to ``logs``. ``dense[f, v]`` is the stride
    of variable v in the table of family f, 0 if it is not there. ``completions`` has one element.
    """
    large = np.empty(begins.size, np.bool_)
    for g in range(begins.size):
        size = 1.0
        for j in range(values[begins[g]]):
            size *= cards[values[begins[g] + 2 + j]]
        large[g] = size > completions[0]
    _by_completion(values, begins, weights, cards, dense, offsets, large, flat, counts, logs)
    for g in range(begins.size):
        if large[g]:
            logs[g] = _by_elimination(values, begins[g], weights[g], cards, dense, offsets, flat, counts)


@inner(error_model="numpy")
def _by_completion(values, begins, weights, cards, dense, offsets, skip, flat, counts, logs):  # type: ignore[no-untyped-def]
    """Enumerate the completions of each group.

    The completions are counted like an odometer. A family is looked up again only when one of its digits, or an earlier
    digit, has changed.
    """
    n_variables, n_families = cards.size, offsets.size - 1
    digit, card = np.empty(n_variables, np.int64), np.empty(n_variables, np.int64)
    level_start = np.empty(n_variables + 1, np.int64)
    order, level_of = np.empty(n_families, np.int64), np.empty(n_families, np.int64)
    family_place = np.empty(n_families, np.int64)
    step = np.empty((n_families, n_variables), np.int64)
    product, mass = np.empty(n_variables + 1), np.empty(n_variables + 1)
    for g in range(begins.size):
        if skip[g]:
            continue
        begin = begins[g]
        k, q = values[begin], values[begin + 1]
        for j in range(k):
            card[j] = cards[values[begin + 2 + j]]
        # Families in the order of the last digit they depend on.
        for t in range(q):
            f = values[begin + 2 + k + t]
            level = 0
            for j in range(k):
                if dense[f, values[begin + 2 + j]] > 0:
                    level = j
            level_of[t] = level
        at = 0
        for j in range(k):
            level_start[j] = at
            for t in range(q):
                if level_of[t] == j:
                    order[at] = t
                    at += 1
        level_start[k] = at
        for i in range(q):
            t = order[i]
            f = values[begin + 2 + k + t]
            family_place[i] = offsets[f] + values[begin + 2 + k + q + t]
            for j in range(k):
                step[i, j] = dense[f, values[begin + 2 + j]]
        total = 0.0
        for sweep in range(2):
            if sweep == 1 and not total > 0.0:
                break
            # In the second pass the products are posterior weights and are added to the counts.
            product[0] = 1.0 if sweep == 0 else weights[g] / total
            changed = 0
            for j in range(k):
                digit[j] = 0
                mass[j] = 0.0
            while True:
                for j in range(changed, k):
                    p = product[j]
                    for i in range(level_start[j], level_start[j + 1]):
                        p *= flat[family_place[i]]
                    product[j + 1] = p
                mass[k - 1] += product[k]
                if sweep == 1:
                    for i in range(level_start[k - 1], level_start[k]):
                        counts[family_place[i]] += product[k]
                # Next completion: a full digit is carried, and its mass is added to the digit before.
                j = k - 1
                while True:
                    digit[j] += 1
                    if digit[j] < card[j]:
                        for i in range(level_start[j], q):
                            family_place[i] += step[i, j]
                        break
                    for i in range(level_start[j], q):
                        family_place[i] -= (card[j] - 1) * step[i, j]
                    digit[j] = 0
                    if j == 0:
                        break
                    if sweep == 1:
                        for i in range(level_start[j - 1], level_start[j]):
                            counts[family_place[i]] += mass[j]
                    mass[j - 1] += mass[j]
                    mass[j] = 0.0
                    j -= 1
                changed = j
                if j == 0 and digit[0] == 0:
                    break
            if sweep == 0:
                total = mass[0]
        logs[g] = np.log(total)


@inner(error_model="numpy")
def _by_elimination(values, begin, weight, cards, dense, offsets, flat, counts):  # type: ignore[no-untyped-def]
    """Sum out the variables of one group in their order; a backward pass gives the expected counts.

    To sum out a variable, the tables that contain it (families and earlier results) are multiplied; the result is a
    table over the other variables. Each result is divided by its largest entry, whose logarithm is kept. In the
    backward pass, ``slopes`` are the derivatives of the log probability with respect to the entries of a result. A
    slope times the product of the inputs is a posterior probability.
    """
    one = np.uint64(1)
    k, q = values[begin], values[begin + 1]
    variables, families = values[begin + 2 : begin + 2 + k], values[begin + 2 + k : begin + 2 + k + q]
    # Tables: families first, then the result of each variable.
    n = q + k
    scopes, steps, base = np.zeros(n, np.uint64), np.zeros((n, k), np.int64), np.zeros(n, np.int64)
    user = np.full(n, -1, np.int64)
    for t in range(q):
        base[t] = offsets[families[t]] + values[begin + 2 + k + q + t]
        for j in range(k):
            steps[t, j] = dense[families[t], variables[j]]
            if steps[t, j] > 0:
                scopes[t] |= one << np.uint64(j)
    used = 0
    for j in range(k):
        scope = np.uint64(0)
        for t in range(q + j):
            if user[t] < 0 and (scopes[t] >> np.uint64(j)) & one:
                scope |= scopes[t]
                user[t] = j
        scopes[q + j] = scope & ~(one << np.uint64(j))
        size = 1
        for i in range(k - 1, -1, -1):
            if (scopes[q + j] >> np.uint64(i)) & one:
                steps[q + j, i] = size
                size *= cards[variables[i]]
        base[q + j] = used
        used += size
    results, slopes = np.zeros(used), np.zeros(used)
    digit, places, mine = np.zeros(k, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    inside, scale = np.empty(k, np.int64), np.empty(k)
    total = 0.0
    for turn in range(2 * k):
        forward = turn < k
        j = turn if forward else 2 * k - 1 - turn
        n_mine, m = 0, 0
        for t in range(q + j):
            if user[t] == j:
                mine[n_mine] = t
                places[t] = base[t]
                n_mine += 1
        for i in range(k):
            if i != j and (scopes[q + j] >> np.uint64(i)) & one:
                inside[m] = i
                m += 1
        inside[m] = j
        m += 1
        out = base[q + j]
        for i in range(m):
            digit[i] = 0
        if turn == k:
            slopes[out] = 1.0  # derivative of the log of the last result, which is 1
        while True:
            p = 1.0
            for i in range(n_mine):
                t = mine[i]
                p *= flat[places[t]] if t < q else results[places[t]]
            if forward:
                results[out] += p
            elif p > 0.0 and slopes[out] > 0.0:
                posterior = slopes[out] * p / scale[j]
                for i in range(n_mine):
                    t = mine[i]
                    if t < q:
                        counts[places[t]] += weight * posterior
                    else:
                        slopes[places[t]] += posterior / results[places[t]]
            i = m - 1
            while i >= 0:
                v = inside[i]
                digit[i] += 1
                if digit[i] < cards[variables[v]]:
                    for t in range(n_mine):
                        places[mine[t]] += steps[mine[t], v]
                    out += steps[q + j, v]
                    break
                for t in range(n_mine):
                    places[mine[t]] -= (digit[i] - 1) * steps[mine[t], v]
                out -= (digit[i] - 1) * steps[q + j, v]
                digit[i] = 0
                i -= 1
            if i < 0:
                break
        if forward:
            end = base[q + j + 1] if j + 1 < k else used
            largest = 0.0
            for i in range(base[q + j], end):
                largest = max(largest, results[i])
            if not largest > 0.0:
                return -np.inf
            for i in range(base[q + j], end):
                results[i] /= largest
            total += np.log(largest)
            scale[j] = largest
    return total


@kernel(error_model="numpy")
def gibbs_sweeps(  # type: ignore[no-untyped-def]
    state, cells, touching_starts, touching, cards, starts, members, strides, dense, offsets, flat, uniforms
):
    """Draw each missing cell given all other cells of its row; one sweep for each row of ``uniforms``.

    ``cells`` are (row, variable); ``touching`` lists the families of each variable. A cell whose states all have
    probability zero is not changed; returns the number of these cases.
    """
    longest = 1
    for c in cards:
        longest = max(longest, c)
    p = np.empty(longest)
    stuck = 0
    for s in range(uniforms.shape[0]):
        for c in range(cells.shape[0]):
            row, v = state[cells[c, 0]], cells[c, 1]
            card = cards[v]
            p[:card] = 1.0
            for t in range(touching_starts[v], touching_starts[v + 1]):
                f = touching[t]
                place = offsets[f]
                for j in range(starts[f], starts[f + 1]):
                    if members[j] != v:
                        place += strides[j] * row[members[j]]
                for x in range(card):
                    p[x] *= flat[place + x * dense[f, v]]
            total = p[:card].sum()
            if not total > 0.0:
                stuck += 1
                continue
            threshold, x = uniforms[s, c] * total, 0
            while x < card - 1 and threshold >= p[x]:
                threshold -= p[x]
                x += 1
            row[v] = x
    return stuck


@kernel(error_model="numpy")
def evidence_of_tables(flat, observed, values, begins, weights, cards, dense, offsets, completions):  # type: ignore[no-untyped-def]
    """Log probability of all rows and its gradient in the entries of the tables: expected counts divided by entries.

    ``observed`` are the counts of families without a missing cell; the other arrays describe the groups of missing
    cells (:func:`components_of_rows`). The gradient of a zero entry is set to zero.
    """
    counts, logs = observed.copy(), np.empty(begins.size)
    expected_components(values, begins, weights, cards, dense, offsets, completions, flat, counts, logs)
    value = 0.0
    for i in range(flat.size):
        if observed[i] > 0:
            value += observed[i] * np.log(flat[i])
    for g in range(begins.size):
        value += weights[g] * logs[g]
    for i in range(flat.size):
        counts[i] = counts[i] / flat[i] if flat[i] > 0 else 0.0
    return value, counts


@kernel
def add_observed_families(rows, starts, members, strides, offsets, logs, out):  # type: ignore[no-untyped-def]
    """Add to each row the entries of the families without a missing cell."""
    for r in range(rows.shape[0]):
        row = rows[r]
        for f in range(starts.size - 1):
            place = offsets[f]
            for j in range(starts[f], starts[f + 1]):
                code = row[members[j]]
                if code < 0:
                    place = -1
                    break
                place += strides[j] * code
            if place >= 0:
                out[r] += logs[place]
