"""Kernels of gathers, sums, reductions and functions along rows, and products of matrices."""

from __future__ import annotations

import math
from typing import Any

from bayeslab.posterior.machine.kernels.memory import (
    accumulate,
    add,
    add_slope,
    from_bits,
    jit,
    load,
    load_value,
    plus,
    store,
    word,
)
from bayeslab.posterior.machine.kernels.vector_math import exp, log

__all__ = ["arrays"]

_inner = jit(error_model="numpy", fastmath={"contract"})

_OUT, _A, _B, _C = 4, 8, 12, 16
_EXTRA = 28
# Rows of a tall matrix that stay in the first cache while its columns are read.
_BLOCK = 1024


def gather_forward(row: int) -> float:
    o, a, index = word(row, _OUT), word(row, _A), word(row, _EXTRA)
    for i in range(word(row, 2)):
        store(o, i, load(a, word(index, i)))
    return 0.0


def gather_backward(row: int) -> float:
    g, ga, index = word(row, _OUT + 1), word(row, _A + 1), word(row, _EXTRA)
    for i in range(word(row, 2)):
        add(ga, word(index, i), load(g, i))
    return 0.0


def total_forward(row: int) -> float:
    """A root: a multiple of the sum; the adjoint grows by the factor."""
    n, s, factor, total = word(row, 2), word(row, _OUT + 3), from_bits(word(row, _EXTRA)), 0.0
    for j in range(word(row, 1)):
        shift = j * word(row, _OUT + 2)
        a, g = word(row, _OUT) + shift, word(row, _OUT + 1) + shift
        if s == 8:
            for i in range(n):
                total = accumulate(total, load(a, i))
                add(g, i, factor)
        else:
            for i in range(n):
                total += load(a + i * s, 0)
                add(g + i * s, 0, factor)
    return factor * total


# ------------------------------------------------------------------------------------ reductions
# Rows of kept positions, each with the reduced values along it.


def sum_forward(row: int) -> float:
    rows, n, o, a = word(row, 1), word(row, 2), word(row, _OUT), word(row, _A)
    s0, s1 = word(row, _A + 2), word(row, _A + 3)
    if s1 == 8 or s0 != 8:
        for j in range(rows):
            total, x = 0.0, a + j * s0
            if s1 == 8:
                for i in range(n):
                    total = accumulate(total, load(x, i))
            else:
                for i in range(n):
                    total += load(x + i * s1, 0)
            store(o, j, total)
    else:
        for j in range(rows):
            store(o, j, 0.0)
        for i in range(n):
            x = a + i * s1
            for j in range(rows):
                add(o, j, load(x, j))
    return 0.0


def sum_backward(row: int) -> float:
    rows, n, g, ga = word(row, 1), word(row, 2), word(row, _OUT + 1), word(row, _A + 1)
    s0, s1 = word(row, _A + 2), word(row, _A + 3)
    if s1 == 8 or s0 != 8:
        for j in range(rows):
            value, x = load(g, j), ga + j * s0
            if s1 == 8:
                for i in range(n):
                    add(x, i, value)
            else:
                for i in range(n):
                    add(x + i * s1, 0, value)
    else:
        for i in range(n):
            x = ga + i * s1
            for j in range(rows):
                add(x, j, load(g, j))
    return 0.0


def prod_forward(row: int) -> float:
    s0, s1 = word(row, _A + 2), word(row, _A + 3)
    for j in range(word(row, 1)):
        x, out = word(row, _A) + j * s0, 1.0
        for i in range(word(row, 2)):
            out *= load(x + i * s1, 0)
        store(word(row, _OUT), j, out)
    return 0.0


def prod_backward(row: int) -> float:
    n, s0, s1 = word(row, 2), word(row, _A + 2), word(row, _A + 3)
    for j in range(word(row, 1)):
        x, gx, g = word(row, _A) + j * s0, word(row, _A + 1) + j * s0, load(word(row, _OUT + 1), j)
        for i in range(n):
            others = 1.0
            for k in range(n):
                if k != i:
                    others *= load(x + k * s1, 0)
            add(gx + i * s1, 0, g * others)
    return 0.0


def max_forward(row: int) -> float:
    s0, s1 = word(row, _A + 2), word(row, _A + 3)
    for j in range(word(row, 1)):
        x = word(row, _A) + j * s0
        out = load(x, 0)
        for i in range(1, word(row, 2)):
            value = load(x + i * s1, 0)
            out = value if not (value <= out) else out
        store(word(row, _OUT), j, out)
    return 0.0


def min_forward(row: int) -> float:
    s0, s1 = word(row, _A + 2), word(row, _A + 3)
    for j in range(word(row, 1)):
        x = word(row, _A) + j * s0
        out = load(x, 0)
        for i in range(1, word(row, 2)):
            value = load(x + i * s1, 0)
            out = value if not (value >= out) else out
        store(word(row, _OUT), j, out)
    return 0.0


def extreme_backward(row: int) -> float:
    """Of the largest or the smallest value: all equal ones receive the adjoint."""
    s0, s1 = word(row, _A + 2), word(row, _A + 3)
    for j in range(word(row, 1)):
        x, gx = word(row, _A) + j * s0, word(row, _A + 1) + j * s0
        out, g = load(word(row, _OUT), j), load(word(row, _OUT + 1), j)
        for i in range(word(row, 2)):
            if load(x + i * s1, 0) == out:
                add(gx + i * s1, 0, g)
    return 0.0


@_inner
def _logsumexp_of_columns(row: int) -> None:
    """Of each column of a matrix, for all columns at once; totals lie behind the result."""
    rows, n, o, a, s1 = word(row, 1), word(row, 2), word(row, _OUT), word(row, _A), word(row, _A + 3)
    t = o + 8 * rows
    for j in range(rows):
        store(o, j, load(a, j))
    for i in range(1, n):
        x = a + i * s1
        for j in range(rows):
            top, value = load(o, j), load(x, j)
            store(o, j, value if not (value <= top) else top)
    for j in range(rows):
        top = load(o, j)
        store(o, j, top if top - top == 0.0 else 0.0)
        store(t, j, 0.0)
    for i in range(n):
        x = a + i * s1
        for j in range(rows):
            add_slope(t, j, exp(load_value(x, j) - load_value(o, j)))
    for j in range(rows):
        store(o, j, load(o, j) + log(load(t, j)))


def logsumexp_forward(row: int) -> float:
    n, s0, s1 = word(row, 2), word(row, _A + 2), word(row, _A + 3)
    if word(row, _EXTRA) == 1:
        _logsumexp_of_columns(row)
        return 0.0
    for j in range(word(row, 1)):
        x = word(row, _A) + j * s0
        top = load(x, 0)
        for i in range(1, n):
            value = load(x + i * s1, 0)
            top = value if not (value <= top) else top
        if top - top != 0.0:
            store(word(row, _OUT), j, top)
            continue
        total = 0.0
        for i in range(n):
            total = accumulate(total, exp(load(x + i * s1, 0) - top))
        store(word(row, _OUT), j, top + log(total))
    return 0.0


def logsumexp_backward(row: int) -> float:
    n, s0, s1 = word(row, 2), word(row, _A + 2), word(row, _A + 3)
    if word(row, _EXTRA) == 1:
        o, g = word(row, _OUT), word(row, _OUT + 1)
        for i in range(n):
            x, gx = word(row, _A) + i * s1, word(row, _A + 1) + i * s1
            for j in range(word(row, 1)):
                out = load_value(o, j)
                share = exp(load_value(x, j) - (out if out > -math.inf else 0.0))
                add_slope(gx, j, load_value(g, j) * share)
        return 0.0
    for j in range(word(row, 1)):
        x, gx = word(row, _A) + j * s0, word(row, _A + 1) + j * s0
        out, g = load(word(row, _OUT), j), load(word(row, _OUT + 1), j)
        if out == -math.inf or g == 0.0:
            continue
        for i in range(n):
            add(gx + i * s1, 0, g * exp(load(x + i * s1, 0) - out))
    return 0.0


# ------------------------------------------------------------------------------- along each row


def softmax_forward(row: int) -> float:
    n = word(row, 2)
    for j in range(word(row, 1)):
        o, x = word(row, _OUT) + 8 * n * j, word(row, _A) + 8 * n * j
        top = load(x, 0)
        for i in range(1, n):
            top = max(top, load(x, i))
        total = 0.0
        for i in range(n):
            value = exp(load(x, i) - top)
            store(o, i, value)
            total = accumulate(total, value)
        for i in range(n):
            store(o, i, load(o, i) / total)
    return 0.0


def softmax_backward(row: int) -> float:
    n = word(row, 2)
    for j in range(word(row, 1)):
        o, g, gx = word(row, _OUT) + 8 * n * j, word(row, _OUT + 1) + 8 * n * j, word(row, _A + 1) + 8 * n * j
        mean = 0.0
        for i in range(n):
            mean = plus(mean, load(g, i), load(o, i))
        for i in range(n):
            add(gx, i, load(o, i) * (load(g, i) - mean))
    return 0.0


def cumsum_forward(row: int) -> float:
    n = word(row, 2)
    for j in range(word(row, 1)):
        o, x, total = word(row, _OUT) + 8 * n * j, word(row, _A) + 8 * n * j, 0.0
        for i in range(n):
            total += load(x, i)
            store(o, i, total)
    return 0.0


def cumsum_backward(row: int) -> float:
    n = word(row, 2)
    for j in range(word(row, 1)):
        g, gx, total = word(row, _OUT + 1) + 8 * n * j, word(row, _A + 1) + 8 * n * j, 0.0
        for k in range(n):
            i = n - 1 - k
            total += load(g, i)
            add(gx, i, total)
    return 0.0


def recursion_forward(row: int) -> float:
    """Columns of y[t] = a[t] + b[t] y[t-1], which begin after a first row."""
    o, a, b, first = word(row, _OUT), word(row, _A), word(row, _B), word(row, _C)
    so, sa, sb = word(row, _OUT + 3), word(row, _A + 3), word(row, _B + 3)
    for _ in range(word(row, 1)):
        y = load(first, 0)
        for t in range(word(row, 2)):
            y = load(a + t * sa, 0) + load(b + t * sb, 0) * y
            store(o + t * so, 0, y)
        o, a, b, first = (
            o + word(row, _OUT + 2),
            a + word(row, _A + 2),
            b + word(row, _B + 2),
            first + word(row, _C + 2),
        )
    return 0.0


def recursion_backward(row: int) -> float:
    n = word(row, 2)
    o, b, first = word(row, _OUT), word(row, _B), word(row, _C)
    go, ga, gb, g0 = word(row, _OUT + 1), word(row, _A + 1), word(row, _B + 1), word(row, _C + 1)
    so, sa, sb = word(row, _OUT + 3), word(row, _A + 3), word(row, _B + 3)
    for _ in range(word(row, 1)):
        slope, by_a, by_b = 0.0, 0.0, 0.0
        for k in range(n):
            t = n - 1 - k
            slope += load(go + t * so, 0)
            before = load(o + (t - 1) * so, 0) if t else load(first, 0)
            # One term for all rows: its slope is written once.
            if sa:
                add(ga + t * sa, 0, slope)
            else:
                by_a += slope
            if sb:
                add(gb + t * sb, 0, slope * before)
            else:
                by_b += slope * before
            slope *= load(b + t * sb, 0)
        add(ga, 0, by_a)
        add(gb, 0, by_b)
        add(g0, 0, slope)
        o, b, first = o + word(row, _OUT + 2), b + word(row, _B + 2), first + word(row, _C + 2)
        go, ga = go + word(row, _OUT + 2), ga + word(row, _A + 2)
        gb, g0 = gb + word(row, _B + 2), g0 + word(row, _C + 2)
    return 0.0


def cumprod_forward(row: int) -> float:
    n = word(row, 2)
    for j in range(word(row, 1)):
        o, x, out = word(row, _OUT) + 8 * n * j, word(row, _A) + 8 * n * j, 1.0
        for i in range(n):
            out *= load(x, i)
            store(o, i, out)
    return 0.0


def cumprod_backward(row: int) -> float:
    n = word(row, 2)
    for j in range(word(row, 1)):
        x, g, gx = word(row, _A) + 8 * n * j, word(row, _OUT + 1) + 8 * n * j, word(row, _A + 1) + 8 * n * j
        below = 1.0
        for i in range(n):
            # The product without x[i], over all ends from i on.
            others, total = below, below * load(g, i)
            for k in range(i + 1, n):
                others *= load(x, k)
                total += others * load(g, k)
            add(gx, i, total)
            below *= load(x, i)
    return 0.0


# --------------------------------------------------------------------------------------- products


def matmul_forward(row: int) -> float:
    n, m, k = word(row, 1), word(row, 2), word(row, _EXTRA)
    o, a, b = word(row, _OUT), word(row, _A), word(row, _B)
    an, ak, bk, bm = word(row, _A + 2), word(row, _A + 3), word(row, _B + 2), word(row, _B + 3)
    if m == 1 and an == 8:
        for start in range(0, n, _BLOCK):
            size, place = min(_BLOCK, n - start), o + 8 * start
            for i in range(size):
                store(place, i, 0.0)
            for j in range(k):
                x, w = a + 8 * start + j * ak, load(b + j * bk, 0)
                for i in range(size):
                    add(place, i, load(x, i) * w)
    elif m > 1 and bm == 8:
        for i in range(n):
            place = o + 8 * m * i
            for j in range(m):
                store(place, j, 0.0)
            for h in range(k):
                w, y = load(a + i * an + h * ak, 0), b + h * bk
                for j in range(m):
                    add(place, j, w * load(y, j))
    else:
        for i in range(n):
            x = a + i * an
            for j in range(m):
                y, total = b + j * bm, 0.0
                if ak == 8 and bk == 8:
                    for h in range(k):
                        total = plus(total, load(x, h), load(y, h))
                else:
                    for h in range(k):
                        total += load(x + h * ak, 0) * load(y + h * bk, 0)
                store(o, i * m + j, total)
    return 0.0


@_inner
def _by_left(row: int, n: int, m: int, k: int) -> None:
    g, ga, b = word(row, _OUT + 1), word(row, _A + 1), word(row, _B)
    an, ak, bk, bm = word(row, _A + 2), word(row, _A + 3), word(row, _B + 2), word(row, _B + 3)
    for i in range(n):
        for h in range(k):
            y, x, total = b + h * bk, g + 8 * m * i, 0.0
            if bm == 8:
                for j in range(m):
                    total = plus(total, load(x, j), load(y, j))
            else:
                for j in range(m):
                    total += load(x, j) * load(y + j * bm, 0)
            add(ga + i * an + h * ak, 0, total)


@_inner
def _by_right(row: int, n: int, m: int, k: int) -> None:
    g, a, gb = word(row, _OUT + 1), word(row, _A), word(row, _B + 1)
    an, ak, bk, bm = word(row, _A + 2), word(row, _A + 3), word(row, _B + 2), word(row, _B + 3)
    if m == 1 and an == 8:
        for start in range(0, n, _BLOCK):
            size, y = min(_BLOCK, n - start), g + 8 * start
            for h in range(k):
                x, total = a + 8 * start + h * ak, 0.0
                for i in range(size):
                    total = plus(total, load(x, i), load(y, i))
                add(gb + h * bk, 0, total)
    elif m == 1 and ak == 8 and bk == 8:
        for i in range(n):
            w, x = load(g, i), a + i * an
            for h in range(k):
                add(gb, h, load(x, h) * w)
    else:
        for i in range(n):
            x = g + 8 * m * i
            for h in range(k):
                w, y = load(a + i * an + h * ak, 0), gb + h * bk
                if bm == 8:
                    for j in range(m):
                        add(y, j, w * load(x, j))
                else:
                    for j in range(m):
                        add(y + j * bm, 0, w * load(x, j))


def matmul_backward(row: int) -> float:
    n, m, k, moving = word(row, 1), word(row, 2), word(row, _EXTRA), word(row, 3)
    if moving & 2:
        _by_left(row, n, m, k)
    if moving & 4:
        _by_right(row, n, m, k)
    return 0.0


def density_backward(row: int) -> float:
    """Of log densities one by one: adjoints times the derivatives that lie behind them."""
    n, size, moving = word(row, 2), 8 * word(row, 1) * word(row, 2), word(row, 3)
    for k in range(word(row, _EXTRA)):
        if not (moving >> (k + 1)) & 1:
            continue
        slot = 8 + 4 * k
        s, slopes = word(row, slot + 3), word(row, _OUT) + (k + 1) * size
        for j in range(word(row, 1)):
            g, ga = word(row, _OUT + 1) + 8 * n * j, word(row, slot + 1) + j * word(row, slot + 2)
            d = slopes + 8 * n * j
            # A value of weight zero may have no derivative.
            if s == 0:
                total = 0.0
                for i in range(n):
                    slope = load_value(g, i)
                    total = accumulate(total, slope * load_value(d, i) if slope != 0.0 else 0.0)
                add(ga, 0, total)
            elif s == 8:
                for i in range(n):
                    slope = load_value(g, i)
                    add_slope(ga, i, slope * load_value(d, i) if slope != 0.0 else 0.0)
            else:
                for i in range(n):
                    slope = load(g, i)
                    add(ga + i * s, 0, slope * load(d, i) if slope != 0.0 else 0.0)
    return 0.0


def arrays() -> dict[str, Any]:
    """Kernels by name."""
    scope = globals()
    out = {name: scope[name] for name in scope if name.endswith(("_forward", "_backward"))}
    extreme = out.pop("extreme_backward")
    return out | {"max_backward": extreme, "min_backward": extreme}
