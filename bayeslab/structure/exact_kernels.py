"""Compiled sums over all DAGs and all orders of a few variables, by dynamic programming over subsets.

Numbers that span thousands of nats are stored as a float and a power of two, so that there is no overflow or underflow
and no logarithm in the inner loops. A set of variables is an integer, with bit u for variable u; parent sets of v are
indexed by the set with bit v removed.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["best_scores", "best_sets", "order_sums", "subset_sums", "sum_over_dags", "sums_below"]

_LOW = -(1 << 28)  # exponent of zero
_OFFSET = 1100  # 2 ** -1100 is 0

# Terms below these powers of two are dropped: relative to the sum they belong to, and to the sum over all DAGs.
# Terms of an expansion never increase as its set T grows, so that dropping a set drops all its supersets.
_RELATIVE, _ABSOLUTE, _NEGLIGIBLE = -66, -120, -85


@inner
def _powers():  # type: ignore[no-untyped-def]
    out = np.zeros(_OFFSET + 1024)
    for e in range(-1074, 1024):
        out[e + _OFFSET] = 2.0**e
    return out


@inner(inline="always")
def _squeeze(s, v):  # type: ignore[no-untyped-def]
    """Return a set without v as an index: bit v removed."""
    low = (1 << v) - 1
    return (s & low) | ((s >> 1) & ~low)


@kernel
def subset_sums(n, pointer, sets, scores):  # type: ignore[no-untyped-def]
    """Sums over the parent sets within each set, as (float, exponent), each of shape (n, 2 ** (n - 1)).

    Scores are base-2 logarithms.
    """
    size = 1 << (n - 1)
    power = _powers()
    value, exponent = np.zeros((n, size)), np.full((n, size), _LOW, np.int32)
    for v in range(n):
        a, e = value[v], exponent[v]
        for i in range(pointer[v], pointer[v + 1]):
            if scores[i] == -np.inf:
                continue
            place = _squeeze(np.int64(sets[i]), v)
            whole = math.floor(scores[i])
            a[place] = 2.0 ** (scores[i] - whole)
            e[place] = int(whole)
        for b in range(n - 1):
            bit = 1 << b
            for base in range(0, size, 2 * bit):
                for lo in range(base, base + bit):
                    hi = lo + bit
                    top = max(e[lo], e[hi])
                    x = a[lo] * power[max(e[lo] - top, -_OFFSET) + _OFFSET]
                    a[hi] = x + a[hi] * power[max(e[hi] - top, -_OFFSET) + _OFFSET]
                    e[hi] = top
    return value, exponent


@inner
def _heaviest_orders(n, value, exponent):  # type: ignore[no-untyped-def]
    """Log2 weight of the heaviest order of each set, and of its heaviest completion; -inf if there is none.

    The weight of an order, a product of subset sums, is a lower bound on a sum over DAGs; at most n! orders account for
    all of it.
    """
    full = (1 << n) - 1
    above, below = np.full(full + 1, -np.inf), np.full(full + 1, -np.inf)
    above[0] = 0.0
    below[full] = 0.0
    for s in range(full):
        if above[s] == -np.inf:
            continue
        for v in range(n):
            if s >> v & 1:
                continue
            place = _squeeze(s, v)
            if value[v, place] > 0.0:
                weight = above[s] + math.log2(value[v, place]) + exponent[v, place]
                if weight > above[s | 1 << v]:
                    above[s | 1 << v] = weight
    for s in range(full - 1, -1, -1):
        if above[s] == -np.inf:
            continue
        for v in range(n):
            if s >> v & 1:
                continue
            place = _squeeze(s, v)
            if value[v, place] > 0.0:
                weight = below[s | 1 << v] + math.log2(value[v, place]) + exponent[v, place]
                if weight > below[s]:
                    below[s] = weight
    return above, below


@inner
def _floors(x):  # type: ignore[no-untyped-def]
    out = np.empty(x.size, np.int32)
    for i in range(x.size):
        out[i] = math.floor(x[i]) if x[i] > -np.inf else _LOW
    return out


@inner
def _log_factorials(n):  # type: ignore[no-untyped-def]
    out = np.zeros(n + 1)
    for i in range(2, n + 1):
        out[i] = out[i - 1] + math.log2(float(i))
    return out


@inner
def _members_out(n, s):  # type: ignore[no-untyped-def]
    count = 0
    for v in range(n):
        count += 1 - (s >> v & 1)
    return count


@kernel
def sum_over_dags(n, value, exponent):  # type: ignore[no-untyped-def]
    """Sums over the DAGs on each set S: Z(S) = sum over T of (-1)^(|T|+1) Z(S - T) prod of z_v(S - T) over v in T.

    Returns Z relative to powers of two, these powers, and the powers for completions.
    """
    full = (1 << n) - 1
    power = _powers()
    above, below = _heaviest_orders(n, value, exponent)
    factorial = _log_factorials(n)
    # Scale and smallest exponent that counts, stored together because they are read together in random order.
    level = np.empty((full + 1, 2), np.int32)
    scale, scale_below = _floors(above), _floors(below)
    for s in range(full + 1):
        level[s, 0] = scale[s]
        if above[s] == -np.inf or below[s] == -np.inf:
            level[s, 1] = -_LOW
        else:
            needed = above[full] - below[s] - factorial[_members_out(n, s)]
            level[s, 1] = max(scale[s] + _RELATIVE, math.floor(needed) + _ABSOLUTE)
    total = np.zeros(full + 1)
    total[0] = 1.0
    sets, floats, exponents = np.empty(full + 1, np.int32), np.empty(full + 1), np.empty(full + 1, np.int32)
    for u in range(full):
        if not total[u] > 0.0 or below[u] == -np.inf:
            continue
        mass = math.log2(total[u]) + scale[u] + below[u] + factorial[_members_out(n, u)] - above[full]
        if mass < _NEGLIGIBLE:
            continue
        count = 1
        sets[0], floats[0], exponents[0] = u, -total[u], scale[u]
        for v in range(n):
            if u >> v & 1:
                continue
            place = _squeeze(u, v)
            z, ze = value[v, place], exponent[v, place]
            if z == 0.0:
                continue
            bit = 1 << v
            end = count
            for i in range(count):
                s = sets[i] | bit
                x = -floats[i] * z
                e = exponents[i] + ze
                sets[end], floats[end], exponents[end] = s, x, e
                beyond = max(e - level[s, 1], -_OFFSET)
                if abs(x) * power[beyond + _OFFSET] >= 1.0:
                    total[s] += x * power[max(e - level[s, 0], -_OFFSET) + _OFFSET]
                    end += 1
            count = end
    return total, scale, scale_below


@inner(inline="always")
def _spread(n, u, v, weight, value, exponent, power, edges, below):  # type: ignore[no-untyped-def]
    """Add the probability that the non-descendants of v are exactly U to the edge and path probabilities."""
    place = _squeeze(u, v)
    z, e = value[v, place], exponent[v, place]
    for w in range(n):
        if w == v:
            continue
        if u >> w & 1:
            without = _squeeze(u & ~(1 << w), v)
            ratio = value[v, without] / z * power[max(exponent[v, without] - e, -_OFFSET) + _OFFSET]
            edges[w, v] += weight * (1.0 - ratio)
        else:
            below[v, w] += weight


@kernel
def sums_below(n, value, exponent, total, scale, scale_below):  # type: ignore[no-untyped-def]
    """Probabilities of edges [u, v] and directed paths [u, v], and for each v the sum of the probabilities.

    For each U from large to small: the sum over completions of U, and for each v outside U the probability that the
    non-descendants of v are exactly U.
    """
    full = (1 << n) - 1
    power = _powers()
    factorial = _log_factorials(n)
    edges, paths, check = np.zeros((n, n)), np.zeros((n, n)), np.zeros(n)
    rest = np.zeros(full + 1)
    rest[full] = 1.0
    sets, floats, exponents = np.empty(full + 2, np.int32), np.empty(full + 2), np.empty(full + 2, np.int32)
    terms, origin = np.empty(full + 2), np.empty(full + 2, np.int32)
    begins = np.empty(n + 1, np.int64)
    log_total = math.log2(total[full]) + scale[full]
    for u in range(full - 1, -1, -1):
        if not total[u] > 0.0 or scale_below[u] == _LOW:
            continue
        log_mass = math.log2(total[u]) + scale[u] + scale_below[u] - log_total
        if log_mass + 1.0 + factorial[_members_out(n, u)] < _NEGLIGIBLE:
            continue
        least = 2.0 ** (_NEGLIGIBLE - log_mass)
        count, added = 1, 0.0
        sets[0], floats[0], exponents[0], terms[0] = u, -1.0, -scale_below[u], 0.0
        for v in range(n):
            begins[v] = count
            if u >> v & 1:
                continue
            place = _squeeze(u, v)
            z, ze = value[v, place], exponent[v, place]
            if z == 0.0:
                continue
            bit = 1 << v
            end = count
            for i in range(count):
                s = sets[i] | bit
                x = -floats[i] * z
                e = exponents[i] + ze
                term = x * rest[s] * power[max(e + scale_below[s], -_OFFSET) + _OFFSET]
                sets[end], floats[end], exponents[end], terms[end], origin[end] = s, x, e, term, i
                if abs(term) >= least:
                    added += term
                    end += 1
            count = end
        begins[n] = count
        rest[u] = added
        weight = 2.0**log_mass
        for v in range(n - 1, -1, -1):
            subtotal = 0.0
            for i in range(begins[v + 1] - 1, begins[v] - 1, -1):
                subtotal += terms[i]
                terms[origin[i]] += terms[i]
            if begins[v + 1] > begins[v]:
                check[v] += subtotal * weight
                _spread(n, u, v, subtotal * weight, value, exponent, power, edges, paths)
    return edges, paths, check


@kernel
def order_sums(n, value, exponent):  # type: ignore[no-untyped-def]
    """The same for orders: log2 of the sum, probabilities of edges and of u before v, and a check."""
    full = (1 << n) - 1
    power = _powers()
    above, below = _heaviest_orders(n, value, exponent)
    scale, scale_below = _floors(above), _floors(below)
    edges, before, check = np.zeros((n, n)), np.zeros((n, n)), np.zeros(n)
    total, rest = np.zeros(full + 1), np.zeros(full + 1)
    total[0] = 1.0
    rest[full] = 1.0
    for u in range(full):
        if total[u] == 0.0:
            continue
        for v in range(n):
            if not u >> v & 1:
                place, s = _squeeze(u, v), u | 1 << v
                shift = scale[u] + exponent[v, place] - scale[s]
                total[s] += total[u] * value[v, place] * power[max(shift, -_OFFSET) + _OFFSET]
    if total[full] == 0.0:
        return -np.inf, edges, before, check
    log_total = math.log2(total[full]) + scale[full]
    for u in range(full - 1, -1, -1):
        if total[u] == 0.0 or scale_below[u] == _LOW:
            continue
        weight = 2.0 ** (math.log2(total[u]) + scale[u] + scale_below[u] - log_total)
        for v in range(n):
            if not u >> v & 1:
                place, s = _squeeze(u, v), u | 1 << v
                shift = exponent[v, place] + scale_below[s] - scale_below[u]
                term = value[v, place] * rest[s] * power[max(shift, -_OFFSET) + _OFFSET]
                rest[u] += term
                if term * weight > 1e-25:
                    check[v] += term * weight
                    _spread(n, u, v, term * weight, value, exponent, power, edges, before)
    return log_total, edges, before, check


@inner(inline="always")
def _first_inside(sets, begin, end, outside):  # type: ignore[no-untyped-def]
    for i in range(begin, end):
        if sets[i] & outside == 0:
            return i
    return -1


@kernel
def best_scores(n, pointer, sets, scores):  # type: ignore[no-untyped-def]
    """Score of the best DAG on each set of variables; parent sets are sorted best first."""
    full = (1 << n) - 1
    best = np.full(full + 1, -np.inf)
    best[0] = 0.0
    for u in range(full):
        base = best[u]
        if base == -np.inf:
            continue
        for v in range(n):
            if not u >> v & 1:
                i = _first_inside(sets, pointer[v], pointer[v + 1], ~u)
                s = u | 1 << v
                if i >= 0 and base + scores[i] > best[s]:
                    best[s] = base + scores[i]
    return best


@kernel
def best_sets(n, pointer, sets, scores, best):  # type: ignore[no-untyped-def]
    """Numbers of the parent sets of the best DAG, found by removing the last variable repeatedly."""
    out = np.full(n, -1, np.int64)
    s = (1 << n) - 1
    while s:
        for v in range(n):
            if s >> v & 1:
                u = s & ~(1 << v)
                i = _first_inside(sets, pointer[v], pointer[v + 1], ~u)
                if i >= 0 and best[u] + scores[i] == best[s]:
                    out[v] = i
                    s = u
                    break
    return out
