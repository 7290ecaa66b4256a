"""Compiled sums over layers of DAGs and over orders, and draws from them.

Numbers are stored as in :mod:`exact_kernels`: a float and a power of two for sums over parent sets; sums over the
completions of a set of variables are relative to its heaviest completion.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["draw_by_layers", "draw_by_orders", "layer_sums", "order_rest"]

_LOW = -(1 << 28)
_OFFSET = 1100


@inner
def _powers():  # type: ignore[no-untyped-def]
    out = np.zeros(_OFFSET + 1024)
    for e in range(-1074, 1024):
        out[e + _OFFSET] = 2.0**e
    return out


@inner(inline="always")
def _power(power, e):  # type: ignore[no-untyped-def]
    return power[min(max(e, -_OFFSET), 1023) + _OFFSET]


@inner(inline="always")
def _squeeze(s, v):  # type: ignore[no-untyped-def]
    low = (1 << v) - 1
    return (s & low) | ((s >> 1) & ~low)


@inner
def _heaviest_completions(n, value, exponent):  # type: ignore[no-untyped-def]
    """Power of two of the heaviest order in which the variables outside each set can be added to it."""
    full = (1 << n) - 1
    below = np.full(full + 1, -np.inf)
    below[full] = 0.0
    for s in range(full - 1, -1, -1):
        for v in range(n):
            if s >> v & 1:
                continue
            place = _squeeze(s, v)
            if value[v, place] > 0.0 and below[s | 1 << v] > -np.inf:
                weight = below[s | 1 << v] + math.log2(value[v, place]) + exponent[v, place]
                below[s] = max(below[s], weight)
    scale = np.empty(full + 1, np.int64)
    for s in range(full + 1):
        scale[s] = math.floor(below[s]) if below[s] > -np.inf else _LOW
    return scale


@inner
def _ternary(n):  # type: ignore[no-untyped-def]
    """Sum of 3 ** v over the members of each set; the pair of S and its subset L is numbered by the sum of both."""
    out = np.zeros(1 << n, np.int64)
    step = 1
    for v in range(n):
        for s in range(1 << v):
            out[s | 1 << v] = out[s] + step
        step *= 3
    return out


@inner(inline="always")
def _reaching(v, s, layer, value, exponent, power):  # type: ignore[no-untyped-def]
    """Sum over the parent sets of v inside S with a member in the layer, as (float, exponent)."""
    place = _squeeze(s, v)
    a, e = value[v, place], exponent[v, place]
    if layer == 0:
        return a, e
    before = _squeeze(s & ~layer, v)
    b = value[v, before] * _power(power, exponent[v, before] - e)
    # A difference of equal numbers is rounding error.
    return (a - b if a - b > 4e-15 * a else 0.0), e


@inner
def _steps(n, s, layer, value, exponent, power, scale, ternary, rest, sets, floats, exponents, out):  # type: ignore[no-untyped-def]
    """Weights of the next layers after S with a given last layer: sets and cumulative weights; their number."""
    count = 1
    sets[0], floats[0], exponents[0] = 0, 1.0, 0
    for v in range(n):
        if s >> v & 1:
            continue
        d, e = _reaching(v, s, layer, value, exponent, power)
        if d == 0.0:
            continue
        end = count
        for i in range(count):
            sets[end], floats[end], exponents[end] = sets[i] | 1 << v, floats[i] * d, exponents[i] + e
            end += 1
        count = end
    total = 0.0
    for i in range(1, count):
        after = s | sets[i]
        remaining = rest[ternary[after] + ternary[sets[i]]]
        if remaining > 0.0:
            total += floats[i] * remaining * _power(power, exponents[i] + scale[after] - scale[s])
        out[i] = total
    return count, total


@kernel
def layer_sums(n, value, exponent):  # type: ignore[no-untyped-def]
    """For each set S and last layer L, the sum over the ways to add the other variables layer by layer.

    Each variable of the next layer T has a parent in L: f(S, L) = sum over T of f(S + T, T) prod of the sums over
    parent sets inside S that meet L. Returns f by ternary number of (S, L), relative to powers of two of S, and these
    powers.
    """
    full = (1 << n) - 1
    power, ternary = _powers(), _ternary(n)
    scale = _heaviest_completions(n, value, exponent)
    rest = np.zeros(2 * ternary[full] + 1)
    sets, floats = np.empty(full + 1, np.int64), np.empty(full + 1)
    exponents, out = np.empty(full + 1, np.int64), np.empty(full + 1)
    for s in range(full, -1, -1):
        if s < full and scale[s] == _LOW:
            continue
        layer = s
        while True:
            if s == full:
                rest[ternary[s] + ternary[layer]] = 1.0
            elif layer or s == 0:
                _, total = _steps(
                    n, s, layer, value, exponent, power, scale, ternary, rest, sets, floats, exponents, out
                )
                rest[ternary[s] + ternary[layer]] = total
            if layer == 0:
                break
            layer = (layer - 1) & s
    return rest, scale


@inner
def _parent_set(pointer, sets, scores, v, s, layer, u):  # type: ignore[no-untyped-def]
    """Draw by u in [0, 1) a parent set of v inside S with a member in the layer (any set if the layer is empty)."""
    first, total = -1, 0.0
    for i in range(pointer[v], pointer[v + 1]):
        parents = np.int64(sets[i])
        if parents & ~s == 0 and (layer == 0 or parents & layer):
            first = i if first < 0 else first
            total += math.exp(scores[i] - scores[first])
    u *= total
    chosen = first
    for i in range(max(first, 0), pointer[v + 1]):
        parents = np.int64(sets[i])
        if parents & ~s == 0 and (layer == 0 or parents & layer):
            w = math.exp(scores[i] - scores[first])
            if w > 0.0:
                chosen = i
            if u < w:
                break
            u -= w
    return chosen


@kernel
def draw_by_layers(n, pointer, sets_of, scores, value, exponent, rest, scale, uniforms, draws):  # type: ignore[no-untyped-def]
    """Draw DAGs, as numbers of parent sets, from the sums over layers; ``uniforms`` has 2 n numbers per draw."""
    full = (1 << n) - 1
    power, ternary = _powers(), _ternary(n)
    sets, floats = np.empty(full + 1, np.int64), np.empty(full + 1)
    exponents, out = np.empty(full + 1, np.int64), np.zeros(full + 1)
    first_sets, first = np.empty(full + 1, np.int64), np.zeros(full + 1)
    n_first, first_total = _steps(
        n, 0, 0, value, exponent, power, scale, ternary, rest, first_sets, floats, exponents, first
    )
    for row in range(draws.shape[0]):
        s, layer, used = 0, 0, 0
        while s != full:
            u = uniforms[row, used]
            used += 1
            if s == 0:
                i = np.searchsorted(first[1:n_first], u * first_total, side="right") + 1
                chosen = first_sets[min(i, n_first - 1)]
            else:
                count, total = _steps(
                    n, s, layer, value, exponent, power, scale, ternary, rest, sets, floats, exponents, out
                )
                i = np.searchsorted(out[1:count], u * total, side="right") + 1
                chosen = sets[min(i, count - 1)]
            for v in range(n):
                if chosen >> v & 1:
                    draws[row, v] = _parent_set(pointer, sets_of, scores, v, s, layer, uniforms[row, n + v])
            s, layer = s | chosen, chosen


@kernel
def order_rest(n, value, exponent):  # type: ignore[no-untyped-def]
    """For each set, the sum over the orders of the other variables, relative to powers of two, and these powers."""
    full = (1 << n) - 1
    power = _powers()
    scale = _heaviest_completions(n, value, exponent)
    rest = np.zeros(full + 1)
    rest[full] = 1.0
    for s in range(full - 1, -1, -1):
        if scale[s] == _LOW:
            continue
        for v in range(n):
            if not s >> v & 1:
                place, after = _squeeze(s, v), s | 1 << v
                if rest[after] > 0.0:
                    shift = exponent[v, place] + scale[after] - scale[s]
                    rest[s] += value[v, place] * rest[after] * _power(power, shift)
    return rest, scale


@kernel
def draw_by_orders(n, pointer, sets_of, scores, value, exponent, rest, scale, uniforms, draws):  # type: ignore[no-untyped-def]
    """Draw DAGs, as numbers of parent sets: an order variable by variable, and parents among the predecessors."""
    full = (1 << n) - 1
    power = _powers()
    for row in range(draws.shape[0]):
        s, used = 0, 0
        while s != full:
            u = uniforms[row, used] * rest[s]
            used += 1
            chosen = -1
            for v in range(n):
                if s >> v & 1:
                    continue
                place, after = _squeeze(s, v), s | 1 << v
                if rest[after] > 0.0 and value[v, place] > 0.0:
                    shift = exponent[v, place] + scale[after] - scale[s]
                    w = value[v, place] * rest[after] * _power(power, shift)
                    if w > 0.0:
                        chosen = v
                    if u < w:
                        break
                    u -= w
            draws[row, chosen] = _parent_set(pointer, sets_of, scores, chosen, s, 0, uniforms[row, n + chosen])
            s |= 1 << chosen
