"""Kernels of linear algebra on square matrices.

References
----------
.. [1] Smith (1995). Differentiation of the Cholesky algorithm. Journal of Computational and Graphical Statistics 4,
   134-147.
.. [2] Giles (2008). Collected matrix derivative results for forward and reverse mode algorithmic differentiation.
"""

from __future__ import annotations

import math
from typing import Any

from bayeslab.posterior.machine.kernels.memory import add, jit, load, plus, store, word

__all__ = ["matrices"]

_inner = jit(error_model="numpy", fastmath={"contract"})

_OUT, _A, _B = 4, 8, 12
_EXTRA = 28


def cholesky_forward(row: int) -> float:
    n, o, a = word(row, 1), word(row, _OUT), word(row, _A)
    for i in range(n):
        for j in range(i + 1):
            total, x, y = 0.0, o + 8 * n * i, o + 8 * n * j
            for k in range(j):
                total = plus(total, load(x, k), load(y, k))
            rest = load(a, n * i + j) - total
            if i == j:
                # Not a number where the matrix is not positive definite.
                store(o, n * i + i, math.sqrt(rest) if rest > 0.0 else math.nan)
            else:
                store(o, n * i + j, rest / load(o, n * j + j))
        for j in range(i + 1, n):
            store(o, n * i + j, 0.0)
    return 0.0


def cholesky_backward(row: int) -> float:
    """By the lower triangle of the matrix [1]_."""
    n, o, g, ga = word(row, 1), word(row, _OUT), word(row, _OUT + 1), word(row, _A + 1)
    f = o + 8 * n * n
    for i in range(n):
        for j in range(i + 1):
            store(f, n * i + j, load(g, n * i + j))
    for back in range(n):
        k = n - 1 - back
        for j in range(k + 1, n):
            for i in range(j, n):
                add(f, n * i + k, -load(f, n * i + j) * load(o, n * j + k))
                add(f, n * j + k, -load(f, n * i + j) * load(o, n * i + k))
        pivot = load(o, n * k + k)
        for j in range(k + 1, n):
            store(f, n * j + k, load(f, n * j + k) / pivot)
            add(f, n * k + k, -load(o, n * j + k) * load(f, n * j + k))
        store(f, n * k + k, 0.5 * load(f, n * k + k) / pivot)
    for i in range(n):
        for j in range(i + 1):
            add(ga, n * i + j, load(f, n * i + j))
    return 0.0


@_inner
def _substitute(lower: int, x: int, n: int, m: int, transposed: int) -> None:
    """Overwrite the columns of x by the solutions of L x = b, or of L' x = b."""
    for step in range(n):
        i = n - 1 - step if transposed else step
        for other in range(step):
            j = n - 1 - other if transposed else other
            w = load(lower, n * j + i) if transposed else load(lower, n * i + j)
            for c in range(m):
                add(x, m * i + c, -w * load(x, m * j + c))
        pivot = load(lower, n * i + i)
        for c in range(m):
            store(x, m * i + c, load(x, m * i + c) / pivot)


def solve_lower_forward(row: int) -> float:
    n, m, o, b = word(row, 1), word(row, 2), word(row, _OUT), word(row, _B)
    for i in range(n * m):
        store(o, i, load(b, i))
    _substitute(word(row, _A), o, n, m, word(row, _EXTRA))
    return 0.0


def solve_lower_backward(row: int) -> float:
    """The adjoint of b solves the transposed system; that of L is minus its product with x [2]_."""
    n, m, moving, transposed = word(row, 1), word(row, 2), word(row, 3), word(row, _EXTRA)
    x, g, gl, gb = word(row, _OUT), word(row, _OUT + 1), word(row, _A + 1), word(row, _B + 1)
    w = x + 8 * n * m
    for i in range(n * m):
        store(w, i, load(g, i))
    _substitute(word(row, _A), w, n, m, 1 - transposed)
    if moving & 4:
        for i in range(n * m):
            add(gb, i, load(w, i))
    if moving & 2:
        left, right = (x, w) if transposed else (w, x)
        for i in range(n):
            for j in range(i + 1):
                total = 0.0
                for c in range(m):
                    total = plus(total, load(left, m * i + c), load(right, m * j + c))
                add(gl, n * i + j, -total)
    return 0.0


@_inner
def _invert(a: int, work: int, out: int, n: int) -> tuple[float, float]:
    """Write the inverse by Gauss-Jordan elimination; return log |det| and the sign of the determinant."""
    for i in range(n):
        for j in range(n):
            store(work, n * i + j, load(a, n * i + j))
            store(out, n * i + j, 1.0 if i == j else 0.0)
    height, sign = 0.0, 1.0
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(load(work, n * i + k)) > abs(load(work, n * best + k)):
                best = i
        if best != k:
            sign = -sign
            for j in range(n):
                x, y = load(work, n * k + j), load(work, n * best + j)
                store(work, n * k + j, y)
                store(work, n * best + j, x)
                x, y = load(out, n * k + j), load(out, n * best + j)
                store(out, n * k + j, y)
                store(out, n * best + j, x)
        pivot = load(work, n * k + k)
        height += math.log(abs(pivot))
        if pivot < 0.0:
            sign = -sign
        elif pivot == 0.0:
            sign = 0.0
        for j in range(n):
            store(work, n * k + j, load(work, n * k + j) / pivot)
            store(out, n * k + j, load(out, n * k + j) / pivot)
        for i in range(n):
            w = load(work, n * i + k)
            if i != k and w != 0.0:
                for j in range(n):
                    add(work, n * i + j, -w * load(work, n * k + j))
                    add(out, n * i + j, -w * load(out, n * k + j))
    return height, sign


def inv_forward(row: int) -> float:
    n, o = word(row, 1), word(row, _OUT)
    _invert(word(row, _A), o + 8 * n * n, o, n)
    return 0.0


def inv_backward(row: int) -> float:
    n, o, g, ga = word(row, 1), word(row, _OUT), word(row, _OUT + 1), word(row, _A + 1)
    work = o + 8 * n * n
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total = plus(total, load(g, n * i + k), load(o, n * j + k))
            store(work, n * i + j, total)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += load(o, n * k + i) * load(work, n * k + j)
            add(ga, n * i + j, -total)
    return 0.0


def log_abs_det_forward(row: int) -> float:
    n, o = word(row, 1), word(row, _OUT)
    height, _ = _invert(word(row, _A), o + 8, o + 8 + 8 * n * n, n)
    store(o, 0, height)
    return 0.0


def log_abs_det_backward(row: int) -> float:
    n, ga = word(row, 1), word(row, _A + 1)
    inverse, g = word(row, _OUT) + 8 + 8 * n * n, load(word(row, _OUT + 1), 0)
    for i in range(n):
        for j in range(n):
            add(ga, n * i + j, g * load(inverse, n * j + i))
    return 0.0


def det_forward(row: int) -> float:
    n, o = word(row, 1), word(row, _OUT)
    height, sign = _invert(word(row, _A), o + 8, o + 8 + 8 * n * n, n)
    store(o, 0, sign * math.exp(height))
    return 0.0


def det_backward(row: int) -> float:
    n, ga = word(row, 1), word(row, _A + 1)
    inverse, g = word(row, _OUT) + 8 + 8 * n * n, load(word(row, _OUT + 1), 0) * load(word(row, _OUT), 0)
    for i in range(n):
        for j in range(n):
            add(ga, n * i + j, g * load(inverse, n * j + i))
    return 0.0


def matrices() -> dict[str, Any]:
    """Kernels by name."""
    scope = globals()
    return {name: scope[name] for name in scope if name.endswith(("_forward", "_backward"))}
