"""Compiled evaluation of covariance functions, and computations with one Cholesky factor.

A covariance function is a postfix program, one row of ``ops`` for each instruction, run on a row of the matrix at a
time, a tile of columns at once. So one compiled machine serves every model, and no intermediate is larger than a tile.
Gradients are the reverse sweep over the same tile: sum_ij W_ij dK_ij / dθ, whatever the number of hyperparameters.

Columns of ``ops``: instruction, first slot, number of slots, first column, number of columns, whole-number option,
left operand, right operand. A slot holds one number: ``theta[at]``, or ``fixed`` where ``at`` is negative.

Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, chapters 2 to 5: equations are cited by number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.extending import get_cython_function_address, intrinsic

from bayeslab.compiled import inner, kernel
from bayeslab.constants import HALF_LOG_2PI, LOG_2PI

__all__ = [
    "BROWNIAN",
    "CHANGE",
    "CONSTANT",
    "COREGION",
    "COSINE",
    "EXPQUAD",
    "LINEAR",
    "MATERN12",
    "MATERN32",
    "MATERN52",
    "PERIODIC",
    "POLYNOMIAL",
    "PRODUCT",
    "RATIONAL",
    "SUM",
    "WHITE",
    "cross",
    "cross_gradient",
    "diagonal",
    "diagonal_gradient",
    "gradient",
    "matrix",
]

CONSTANT, WHITE, EXPQUAD, MATERN12, MATERN32, MATERN52, RATIONAL, PERIODIC = 0, 1, 2, 3, 4, 5, 6, 7
LINEAR, POLYNOMIAL, COREGION, COSINE, BROWNIAN, SUM, PRODUCT, CHANGE = 8, 9, 10, 11, 12, 13, 14, 15

_TILE = 256
# Sums may be reordered, so that they run in vector registers; nothing is assumed about NaN or infinity.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
_SQRT3, _SQRT5 = math.sqrt(3.0), math.sqrt(5.0)


def _routine(library: str, name: str, arguments: int) -> Any:
    """A routine of BLAS or LAPACK by a name of our own, so that cached compiled code finds it in the next process."""
    symbol = f"bayeslab_{name}"
    binding.add_symbol(symbol, get_cython_function_address(f"scipy.linalg.cython_{library}", name))
    return types.ExternalFunction(symbol, types.void(*([types.voidptr] * arguments)))


_dpotrf = _routine("lapack", "dpotrf", 5)
_dlauum = _routine("lapack", "dlauum", 5)
_dtrtrs = _routine("lapack", "dtrtrs", 10)
_dtrmm = _routine("blas", "dtrmm", 11)


# ------------------------------------------------------------------- the exponential, many at a time


@intrinsic
def _bits(context: Any, x: Any) -> Any:
    """A double's bits as an integer."""
    return types.int64(types.float64), lambda c, builder, s, given: builder.bitcast(given[0], ir.IntType(64))


@intrinsic
def _double(context: Any, bits: Any) -> Any:
    """The double of some bits."""
    return types.float64(types.int64), lambda c, builder, s, given: builder.bitcast(given[0], ir.DoubleType())


_bits_of: Any = _bits
_double_of: Any = _double

# Adding it leaves the nearest whole number in the last bits of a double; log 2 in two parts, the first with few bits.
_WHOLE = 6755399441055744.0
_PER_LOG_2, _LOG_2_HIGH, _LOG_2_LOW = 1.4426950408889634, 0.693147180369123816490, 1.90821492927058770002e-10
_LOWEST = -708.0


@inner(fastmath={"contract"}, error_model="numpy")
def _exp(x):  # type: ignore[no-untyped-def]
    """exp(x) of x ≤ 700 without a branch or a call, so that loops run in vector registers: 2^k exp(r), |r| < 0.35.

    Relative error up to 4e-16 (Taylor's polynomial of degree 12 leaves out 2e-16). Below -708 it stays at 3e-308. The
    order of operations matters here: no sums are reordered, whatever the loop around it allows.
    """
    x = max(x, _LOWEST)
    shifted = x * _PER_LOG_2 + _WHOLE
    k = shifted - _WHOLE
    r = (x - k * _LOG_2_HIGH) - k * _LOG_2_LOW
    p = 1.0 / 39916800.0 + r * (1.0 / 479001600.0)
    p = 1.0 / 3628800.0 + r * p
    p = 1.0 / 362880.0 + r * p
    p = 1.0 / 40320.0 + r * p
    p = 1.0 / 5040.0 + r * p
    p = 1.0 / 720.0 + r * p
    p = 1.0 / 120.0 + r * p
    p = 1.0 / 24.0 + r * p
    p = 1.0 / 6.0 + r * p
    p = 0.5 + r * p
    p = 1.0 + r * p
    p = 1.0 + r * p
    return _double_of(_bits_of(p) + (_bits_of(shifted) << 52))


# ------------------------------------------------------------------------------ one tile of a row


@inner(fastmath=_FAST, error_model="numpy")
def _squared(op, first, columns, slots, x, i, z, start, stop, out):  # type: ignore[no-untyped-def]
    """out[j] = sum_d ((x_di - z_dj) / lengthscale_d)^2; lengthscales from the slot ``first``."""
    m = stop - start
    for j in range(m):
        out[j] = 0.0
    for d in range(op[4]):
        c = columns[op[3] + d]
        rate, x_i, row = 1.0 / slots[first + d], x[c, i], z[c, start:stop]
        for j in range(m):
            u = (x_i - row[j]) * rate
            out[j] += u * u


@inner(fastmath=_FAST, error_model="numpy")
def _leaf(op, columns, slots, x, i, z, start, stop, same, v, h):  # type: ignore[no-untyped-def]
    """Values of one covariance function along a tile; ``h`` keeps what the reverse sweep needs."""
    code, at, m = op[0], op[1], stop - start
    if code == CONSTANT:
        value = slots[at] ** op[5]
        for j in range(m):
            v[j] = value
        return
    variance = slots[at] * slots[at]
    if code == WHITE:
        for j in range(m):
            v[j] = 0.0
        if same and start <= i < stop:
            v[i - start] = variance
    elif code == EXPQUAD:  # (4.9)
        _squared(op, at + 1, columns, slots, x, i, z, start, stop, h)
        for j in range(m):
            v[j] = variance * _exp(-0.5 * h[j])
            h[j] = v[j]
    elif code == MATERN12:  # (4.18)
        _squared(op, at + 1, columns, slots, x, i, z, start, stop, h)
        for j in range(m):
            r = math.sqrt(h[j])
            v[j] = variance * _exp(-r)
            h[j] = v[j] / r if r > 0.0 else 0.0
    elif code == MATERN32:  # (4.17)
        _squared(op, at + 1, columns, slots, x, i, z, start, stop, h)
        for j in range(m):
            r = _SQRT3 * math.sqrt(h[j])
            e = variance * _exp(-r)
            v[j] = (1.0 + r) * e
            h[j] = 3.0 * e
    elif code == MATERN52:  # (4.17)
        _squared(op, at + 1, columns, slots, x, i, z, start, stop, h)
        for j in range(m):
            r = _SQRT5 * math.sqrt(h[j])
            e = variance * _exp(-r)
            v[j] = (1.0 + r + 5.0 / 3.0 * h[j]) * e
            h[j] = 5.0 / 3.0 * (1.0 + r) * e
    elif code == RATIONAL:  # (4.19)
        alpha = slots[at + 1]
        _squared(op, at + 2, columns, slots, x, i, z, start, stop, h)
        for j in range(m):
            b = 1.0 + 0.5 * h[j] / alpha
            v[j] = variance * _exp(-alpha * math.log(b))
            h[j] = v[j] / b
    elif code == PERIODIC:  # (4.31)
        c = columns[op[3]]
        rate, x_i, row = math.pi / slots[at + 1], x[c, i], z[c, start:stop]
        scale = 1.0 / slots[at + 2] ** 2
        for j in range(m):
            s = math.sin(rate * (x_i - row[j]))
            h[j] = s * s
            v[j] = variance * _exp(-2.0 * scale * h[j])
    elif code == COSINE:
        c = columns[op[3]]
        rate, x_i, row = 2.0 * math.pi / slots[at + 1], x[c, i], z[c, start:stop]
        for j in range(m):
            v[j] = variance * math.cos(rate * (x_i - row[j]))
    elif code == BROWNIAN:
        c = columns[op[3]]
        x_i, row = x[c, i], z[c, start:stop]
        for j in range(m):
            v[j] = variance * min(x_i, row[j])
    elif code == LINEAR:  # (4.20), without the constant
        for j in range(m):
            h[j] = 0.0
        for d in range(op[4]):
            c, centre = columns[op[3] + d], slots[at + 1 + d]
            x_i, row = x[c, i] - centre, z[c, start:stop]
            for j in range(m):
                h[j] += x_i * (row[j] - centre)
        for j in range(m):
            v[j] = variance * h[j]
    elif code == POLYNOMIAL:  # (4.22)
        for j in range(m):
            h[j] = slots[at + 1]
        for d in range(op[4]):
            c = columns[op[3] + d]
            x_i, row = x[c, i], z[c, start:stop]
            for j in range(m):
                h[j] += x_i * row[j]
        for j in range(m):
            v[j] = variance * h[j] ** op[5]
    elif code == COREGION:  # slots: 1, weights (levels, rank) by rows, specific variances (levels)
        c, rank = columns[op[3]], op[5]
        levels = (op[2] - 1) // (rank + 1)
        x_i, row = int(x[c, i]), z[c, start:stop]
        for j in range(m):
            other = int(row[j])
            total = slots[at + 1 + levels * rank + x_i] if x_i == other else 0.0
            for k in range(rank):
                total += slots[at + 1 + x_i * rank + k] * slots[at + 1 + other * rank + k]
            v[j] = total


@inner(fastmath=_FAST, error_model="numpy")
def _sigmoid(rate, location, value):  # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + math.exp(-rate * (value - location)))


@inner(fastmath=_FAST, error_model="numpy")
def _forward(ops, columns, slots, x, i, z, start, stop, same, values, kept):  # type: ignore[no-untyped-def]
    """Values of every instruction for row ``i`` and columns ``start`` to ``stop``."""
    m = stop - start
    for k in range(len(ops)):
        op, v = ops[k], values[k]
        if op[0] == SUM:
            left, right = values[op[6]], values[op[7]]
            for j in range(m):
                v[j] = left[j] + right[j]
        elif op[0] == PRODUCT:
            left, right = values[op[6]], values[op[7]]
            for j in range(m):
                v[j] = left[j] * right[j]
        elif op[0] == CHANGE:
            left, right, weight = values[op[6]], values[op[7]], kept[k]
            c, location, rate = columns[op[3]], slots[op[1]], slots[op[1] + 1]
            weight_i, row = _sigmoid(rate, location, x[c, i]), z[c, start:stop]
            for j in range(m):
                weight[j] = _sigmoid(rate, location, row[j])
                v[j] = (1.0 - weight_i) * (1.0 - weight[j]) * left[j] + weight_i * weight[j] * right[j]
        else:
            _leaf(op, columns, slots, x, i, z, start, stop, same, v, kept[k])


@inner(fastmath=_FAST, error_model="numpy")
def _lengthscales(op, first, columns, slots, x, i, z, start, stop, a, h, out):  # type: ignore[no-untyped-def]
    """dv/dl_d = h ((x_d - z_d) / l_d)^2 / l_d for every function of sum_d ((x_d - z_d) / l_d)^2.

    No power of a lengthscale by itself is within the range of floats in every unit.
    """
    m = stop - start
    for d in range(op[4]):
        c = columns[op[3] + d]
        rate, x_i, row, total = 1.0 / slots[first + d], x[c, i], z[c, start:stop], 0.0
        for j in range(m):
            u = (x_i - row[j]) * rate
            total += a[j] * h[j] * u * u
        out[first + d] += total * rate


@inner(fastmath=_FAST, error_model="numpy")
def _leaf_reverse(op, columns, slots, x, i, z, start, stop, v, h, a, out):  # type: ignore[no-untyped-def]
    """Add to ``out`` (a number a slot) the sum over the tile of a dv/dslot."""
    code, at, m = op[0], op[1], stop - start
    if code == COREGION:
        c, rank = columns[op[3]], op[5]
        levels = (op[2] - 1) // (rank + 1)
        x_i, row = int(x[c, i]), z[c, start:stop]
        for j in range(m):
            other = int(row[j])
            if x_i == other:
                out[at + 1 + levels * rank + x_i] += a[j]
            for k in range(rank):
                p, q = at + 1 + x_i * rank + k, at + 1 + other * rank + k
                out[p] += a[j] * slots[q]
                out[q] += a[j] * slots[p]
        return
    total = 0.0
    for j in range(m):
        total += a[j] * v[j]
    power = float(op[5]) if code == CONSTANT else 2.0
    if slots[at] != 0.0:
        out[at] += power * total / slots[at]
    if EXPQUAD <= code <= MATERN52:
        _lengthscales(op, at + 1, columns, slots, x, i, z, start, stop, a, h, out)
    elif code == RATIONAL:
        _lengthscales(op, at + 2, columns, slots, x, i, z, start, stop, a, h, out)
        total = 0.0
        for j in range(m):
            b = v[j] / h[j] if h[j] > 0.0 else 1.0
            total += a[j] * v[j] * (1.0 - 1.0 / b - math.log(b))
        out[at + 1] += total
    elif code == PERIODIC:
        c = columns[op[3]]
        period, length = slots[at + 1], slots[at + 2]
        rate, x_i, row = math.pi / period, x[c, i], z[c, start:stop]
        by_length, by_period = 0.0, 0.0
        for j in range(m):
            u = rate * (x_i - row[j])
            by_length += a[j] * v[j] * h[j]
            by_period += a[j] * v[j] * math.sin(2.0 * u) * u
        out[at + 2] += 4.0 * by_length / length**3
        out[at + 1] += 2.0 * by_period / (length**2 * period)
    elif code == COSINE:
        c = columns[op[3]]
        period, x_i, row, total = slots[at + 1], x[columns[op[3]], i], z[c, start:stop], 0.0
        for j in range(m):
            u = 2.0 * math.pi / period * (x_i - row[j])
            total += a[j] * math.sin(u) * u
        out[at + 1] += slots[at] ** 2 * total / period
    elif code == LINEAR:
        for d in range(op[4]):
            c, centre = columns[op[3] + d], slots[at + 1 + d]
            x_i, row, total = x[c, i] - centre, z[c, start:stop], 0.0
            for j in range(m):
                total += a[j] * (x_i + row[j] - centre)
            out[at + 1 + d] -= slots[at] ** 2 * total
    elif code == POLYNOMIAL:
        total = 0.0
        for j in range(m):
            total += a[j] * h[j] ** (op[5] - 1)
        out[at + 1] += slots[at] ** 2 * op[5] * total


@inner(fastmath=_FAST, error_model="numpy")
def _reverse(ops, columns, slots, x, i, z, start, stop, values, kept, adjoint, out):  # type: ignore[no-untyped-def]
    """The reverse sweep; the last row of ``adjoint`` holds the weights."""
    m = stop - start
    for back in range(len(ops)):
        k = len(ops) - 1 - back
        op, a = ops[k], adjoint[k]
        if op[0] == SUM:
            first, second = adjoint[op[6]], adjoint[op[7]]
            for j in range(m):
                first[j] = a[j]
                second[j] = a[j]
        elif op[0] == PRODUCT:
            first, second, left, right = adjoint[op[6]], adjoint[op[7]], values[op[6]], values[op[7]]
            for j in range(m):
                first[j] = a[j] * right[j]
                second[j] = a[j] * left[j]
        elif op[0] == CHANGE:
            first, second, left, right = adjoint[op[6]], adjoint[op[7]], values[op[6]], values[op[7]]
            c, location, rate, weight = columns[op[3]], slots[op[1]], slots[op[1] + 1], kept[k]
            weight_i, row = _sigmoid(rate, location, x[c, i]), z[c, start:stop]
            by_location, by_rate = 0.0, 0.0
            for j in range(m):
                w = weight[j]
                first[j] = a[j] * (1.0 - weight_i) * (1.0 - w)
                second[j] = a[j] * weight_i * w
                by_i = a[j] * (w * right[j] - (1.0 - w) * left[j]) * weight_i * (1.0 - weight_i)
                by_j = a[j] * (weight_i * right[j] - (1.0 - weight_i) * left[j]) * w * (1.0 - w)
                by_location -= rate * (by_i + by_j)
                by_rate += by_i * (x[c, i] - location) + by_j * (row[j] - location)
            out[op[1]] += by_location
            out[op[1] + 1] += by_rate
        else:
            _leaf_reverse(op, columns, slots, x, i, z, start, stop, values[k], kept[k], a, out)


# ----------------------------------------------------------------------------------- the matrices


@inner
def _slots(theta, at, fixed):  # type: ignore[no-untyped-def]
    out = fixed.copy()
    for k in range(len(at)):
        if at[k] >= 0:
            out[k] = theta[at[k]]
    return out


@inner
def _gathered(by_slot, at, size):  # type: ignore[no-untyped-def]
    out = np.zeros(size)
    for k in range(len(at)):
        if at[k] >= 0:
            out[at[k]] += by_slot[k]
    return out


@inner(fastmath=_FAST, error_model="numpy")
def _fill_lower(ops, columns, slots, x, out):  # type: ignore[no-untyped-def]
    """The lower triangle of K, into ``out``."""
    values, kept = np.empty((len(ops), _TILE)), np.empty((len(ops), _TILE))
    for i in range(x.shape[1]):
        for start in range(0, i + 1, _TILE):
            stop = min(start + _TILE, i + 1)
            _forward(ops, columns, slots, x, i, x, start, stop, True, values, kept)
            row, last = out[i, start:stop], values[len(ops) - 1]
            for j in range(stop - start):
                row[j] = last[j]


@kernel
def matrix(ops, columns, at, fixed, theta, x):  # type: ignore[no-untyped-def]
    """K(x, x), both triangles; x (columns, n)."""
    n = x.shape[1]
    out = np.empty((n, n))
    _fill_lower(ops, columns, _slots(theta, at, fixed), x, out)
    for i in range(n):
        for j in range(i):
            out[j, i] = out[i, j]
    return out


@kernel
def cross(ops, columns, at, fixed, theta, x, z):  # type: ignore[no-untyped-def]
    """K(x, z) of different points, x (columns, n) and z (columns, m): shape (n, m)."""
    n, m = x.shape[1], z.shape[1]
    slots, out = _slots(theta, at, fixed), np.empty((n, m))
    values, kept = np.empty((len(ops), _TILE)), np.empty((len(ops), _TILE))
    for i in range(n):
        for start in range(0, m, _TILE):
            stop = min(start + _TILE, m)
            _forward(ops, columns, slots, x, i, z, start, stop, False, values, kept)
            for j in range(stop - start):
                out[i, start + j] = values[len(ops) - 1, j]
    return out


@kernel
def diagonal(ops, columns, at, fixed, theta, x):  # type: ignore[no-untyped-def]
    """The diagonal of K(x, x), (n,)."""
    slots, out = _slots(theta, at, fixed), np.empty(x.shape[1])
    values, kept = np.empty((len(ops), 1)), np.empty((len(ops), 1))
    for i in range(x.shape[1]):
        _forward(ops, columns, slots, x, i, x, i, i + 1, True, values, kept)
        out[i] = values[len(ops) - 1, 0]
    return out


@inner(fastmath=_FAST, error_model="numpy")
def _lower_gradient(ops, columns, slots, x, weights):  # type: ignore[no-untyped-def]
    """sum_ij W_ij dK_ij/dslot for symmetric W, of which the lower triangle is read."""
    out = np.zeros(len(slots))
    values, kept, adjoint = (
        np.empty((len(ops), _TILE)),
        np.empty((len(ops), _TILE)),
        np.empty((len(ops), _TILE)),
    )
    for i in range(x.shape[1]):
        for start in range(0, i + 1, _TILE):
            stop = min(start + _TILE, i + 1)
            _forward(ops, columns, slots, x, i, x, start, stop, True, values, kept)
            row, last = weights[i, start:stop], adjoint[len(ops) - 1]
            for j in range(stop - start):
                last[j] = 2.0 * row[j]
            if stop == i + 1:
                last[stop - start - 1] *= 0.5
            _reverse(ops, columns, slots, x, i, x, start, stop, values, kept, adjoint, out)
    return out


@kernel
def gradient(ops, columns, at, fixed, theta, x, weights):  # type: ignore[no-untyped-def]
    """sum_ij W_ij dK_ij/dθ for symmetric W (n, n), of which the lower triangle is read."""
    slots = _slots(theta, at, fixed)
    return _gathered(_lower_gradient(ops, columns, slots, x, weights), at, len(theta))


@kernel
def cross_gradient(ops, columns, at, fixed, theta, x, z, weights):  # type: ignore[no-untyped-def]
    """sum_ij W_ij dK(x_i, z_j)/dθ for W (n, m)."""
    slots = _slots(theta, at, fixed)
    out = np.zeros(len(slots))
    values, kept, adjoint = (
        np.empty((len(ops), _TILE)),
        np.empty((len(ops), _TILE)),
        np.empty((len(ops), _TILE)),
    )
    for i in range(x.shape[1]):
        for start in range(0, z.shape[1], _TILE):
            stop = min(start + _TILE, z.shape[1])
            _forward(ops, columns, slots, x, i, z, start, stop, False, values, kept)
            for j in range(stop - start):
                adjoint[len(ops) - 1, j] = weights[i, start + j]
            _reverse(ops, columns, slots, x, i, z, start, stop, values, kept, adjoint, out)
    return _gathered(out, at, len(theta))


@kernel
def diagonal_gradient(ops, columns, at, fixed, theta, x, weights):  # type: ignore[no-untyped-def]
    """sum_i w_i dK_ii/dθ for w (n,)."""
    slots = _slots(theta, at, fixed)
    out = np.zeros(len(slots))
    values, kept, adjoint = np.empty((len(ops), 1)), np.empty((len(ops), 1)), np.empty((len(ops), 1))
    for i in range(x.shape[1]):
        _forward(ops, columns, slots, x, i, x, i, i + 1, True, values, kept)
        adjoint[len(ops) - 1, 0] = weights[i]
        _reverse(ops, columns, slots, x, i, x, i, i + 1, values, kept, adjoint, out)
    return _gathered(out, at, len(theta))


# --------------------------------------------------------------- Gaussian data: one Cholesky factor

# Shares of the mean variance that are added to the diagonal, one after the other, where a factor does not exist.
_REPAIRS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)


# A share of the mean variance: products of smaller numbers would be below the normal range, where they are slow.
_NOTHING = 1e-150


@inner
def _factored(ops, columns, slots, x, noise, base, out):  # type: ignore[no-untyped-def]
    """The lower Cholesky factor of K + diag(noise) + jitter in the lower triangle of ``out``, the jitter and its share.

    The jitter is ``base`` times the mean variance of K, and more where there is no factor without; NaN where even that
    does not help.
    """
    n = x.shape[1]
    size, status, upper = np.array([n], np.int32), np.zeros(1, np.int32), np.array([85], np.uint8)
    for share in _REPAIRS:
        if 0.0 < share <= base:
            continue
        _fill_lower(ops, columns, slots, x, out)
        mean = 0.0
        for i in range(n):
            mean += out[i, i] / n
        jitter = max(base, share) * mean
        for i in range(n):
            for j in range(i):
                if abs(out[i, j]) < _NOTHING * mean:
                    out[i, j] = 0.0
            out[i, i] += noise[i] + jitter
        if not math.isfinite(mean) or not mean >= 0.0:
            return math.nan, math.nan
        # LAPACK reads columns where we write rows: its upper triangle is our lower one.
        _dpotrf(upper.ctypes, size.ctypes, out.ctypes, size.ctypes, status.ctypes)
        if status[0] == 0:
            return jitter, max(base, share)
    return math.nan, math.nan


@inner
def _with_jitter(weights, share):  # type: ignore[no-untyped-def]
    """Add to the weights of K what those of the jitter, a share of K's mean variance, come to."""
    n, trace = weights.shape[0], 0.0
    for i in range(n):
        trace += weights[i, i]
    for i in range(n):
        weights[i, i] += share * trace / n


@inner
def _solve_in_place(lower, b, transposed):  # type: ignore[no-untyped-def]
    """b becomes L^-1 b, or L'^-1 b; several right-hand sides are the rows of b."""
    size, many = np.array([lower.shape[0]], np.int32), np.array([b.size // lower.shape[0]], np.int32)
    upper, plain, status = np.array([85], np.uint8), np.array([78], np.uint8), np.zeros(1, np.int32)
    how = np.array([78 if transposed else 84], np.uint8)
    _dtrtrs(
        upper.ctypes, how.ctypes, plain.ctypes, size.ctypes, many.ctypes, lower.ctypes, size.ctypes, b.ctypes,
        size.ctypes, status.ctypes,
    )  # fmt: skip


# Triangles up to this size are inverted row by row.
_BLOCK = 32


@inner(fastmath=_FAST, error_model="numpy")
def _invert_small(a, first, last):  # type: ignore[no-untyped-def]
    """The rows from ``first`` to ``last`` of a lower triangle become those of its inverse."""
    work = np.empty(last - first)
    for i in range(last - first):
        row = a[first + i, first : first + i + 1]
        to_own, sums = 1.0 / row[i], work[: i + 1]
        sums[:i] = 0.0
        sums[i] = to_own
        for k in range(i):
            weight, above = -row[k] * to_own, a[first + k, first : first + k + 1]
            for j in range(k + 1):
                sums[j] += weight * above[j]
        row[:] = sums


@inner
def _invert_triangle(a):  # type: ignore[no-untyped-def]
    """A lower triangle becomes its inverse: diagonal blocks first, then pairs: [A 0; B C]⁻¹ = [A⁻¹ 0; -C⁻¹BA⁻¹ C⁻¹].

    Twice as fast as LAPACK's dtrtri at some hundreds of rows, as nearly all of it is products of matrices.
    """
    n = len(a)
    for first in range(0, n, _BLOCK):
        _invert_small(a, first, min(first + _BLOCK, n))
    stride, scales = np.array([n], np.int32), np.array([-1.0, 1.0])
    words, sizes = np.array([76, 82, 85, 78], np.uint8), np.zeros(2, np.int32)  # L R U N
    width = _BLOCK
    while width < n:
        for first in range(0, n - width, 2 * width):
            middle = first + width
            sizes[0], sizes[1] = width, min(width, n - middle)
            above, below, beside = a[first:, first:], a[middle:, first:], a[middle:, middle:]
            # BLAS reads columns where we write rows: everything is transposed, and sides change places.
            _dtrmm(
                words.ctypes, words[2:].ctypes, words[3:].ctypes, words[3:].ctypes, sizes.ctypes, sizes[1:].ctypes,
                scales.ctypes, above.ctypes, stride.ctypes, below.ctypes, stride.ctypes,
            )  # fmt: skip
            _dtrmm(
                words[1:].ctypes, words[2:].ctypes, words[3:].ctypes, words[3:].ctypes, sizes.ctypes, sizes[1:].ctypes,
                scales[1:].ctypes, beside.ctypes, stride.ctypes, below.ctypes, stride.ctypes,
            )  # fmt: skip
        width *= 2


@inner
def _invert(lower):  # type: ignore[no-untyped-def]
    """The lower triangle L becomes that of (L L')^-1."""
    size, status, upper = np.array([len(lower)], np.int32), np.zeros(1, np.int32), np.array([85], np.uint8)
    _invert_triangle(lower)
    _dlauum(upper.ctypes, size.ctypes, lower.ctypes, size.ctypes, status.ctypes)


@kernel
def factor(ops, columns, at, fixed, theta, x, noise, base):  # type: ignore[no-untyped-def]
    """Lower Cholesky factor of K(x, x) + diag(noise) + jitter, zeros above, and the jitter (NaN: there is none)."""
    n = x.shape[1]
    out = np.zeros((n, n))
    jitter, _ = _factored(ops, columns, _slots(theta, at, fixed), x, noise, base, out)
    return out, jitter


@kernel
def log_marginal(parameters, ops, columns, at, fixed, x, y, design, known, base):  # type: ignore[no-untyped-def]
    """log N(y | design b, K + diag(known) + s² I) and its gradient; parameters: θ, s, b.

    With one Cholesky factor L of the covariance, its inverse from L, and d log p / d K = (α α' - (L L')^-1) / 2, where
    α is the inverse times the residuals (5.8, 5.9).
    """
    n, n_mean = len(y), design.shape[1]
    n_theta = len(parameters) - 1 - n_mean
    theta, sd, b = parameters[:n_theta], parameters[n_theta], parameters[n_theta + 1 :]
    grad = np.zeros(len(parameters))
    slots, a = _slots(theta, at, fixed), np.empty((n, n))
    jitter, share = _factored(ops, columns, slots, x, known + sd * sd, base[0], a)
    if math.isnan(jitter):
        return -np.inf, grad
    alpha = y.copy()
    for i in range(n):
        for k in range(n_mean):
            alpha[i] -= design[i, k] * b[k]
    _solve_in_place(a, alpha, False)
    value = -0.5 * n * LOG_2PI
    for i in range(n):
        value -= 0.5 * alpha[i] * alpha[i] + math.log(a[i, i])
    _solve_in_place(a, alpha, True)
    _invert(a)
    trace = 0.0
    for i in range(n):
        row, alpha_i = a[i], alpha[i]
        for j in range(i + 1):
            row[j] = 0.5 * (alpha_i * alpha[j] - row[j])
        trace += row[i]
    _with_jitter(a, share)
    grad[:n_theta] = _gathered(_lower_gradient(ops, columns, slots, x, a), at, n_theta)
    grad[n_theta] = 2.0 * sd * trace
    for k in range(n_mean):
        for i in range(n):
            grad[n_theta + 1 + k] += design[i, k] * alpha[i]
    return value, grad


# ------------------------------------------------------------- other data: the function is inferred

STUDENT_T, BERNOULLI, BINOMIAL, POISSON, NEGATIVE_BINOMIAL = 0, 1, 2, 3, 4
LOGIT, PROBIT = 0, 1


@inner
def _digamma(x):  # type: ignore[no-untyped-def]
    """d log Γ(x) / dx: the recurrence up to 10, then Stirling's series (Abramowitz, Stegun 6.3.18)."""
    out = 0.0
    while x < 10.0:
        out -= 1.0 / x
        x += 1.0
    r = 1.0 / (x * x)
    return (
        out
        + math.log(x)
        - 0.5 / x
        - r * (1.0 / 12 - r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * 5.0 / 660))))
    )


@kernel
def log_normal_cdf(x):  # type: ignore[no-untyped-def]
    """log Φ(x) and its derivative."""
    if x > -8.0:
        value = math.log(0.5 * math.erfc(-x / math.sqrt(2.0)))
        return value, math.exp(-0.5 * x * x - HALF_LOG_2PI - value)
    # Φ(x) = φ(x) / (-x) (1 - 1/x² + 3/x⁴ - 15/x⁶ ...), Abramowitz, Stegun 26.2.12
    r = 1.0 / (x * x)
    series = 1.0 - r * (1.0 - 3.0 * r * (1.0 - 5.0 * r * (1.0 - 7.0 * r)))
    return -0.5 * x * x - HALF_LOG_2PI - math.log(-x) + math.log(series), -x / series


@inner
def _log_sigmoid(x):  # type: ignore[no-untyped-def]
    return -math.log1p(math.exp(-x)) if x > 0.0 else x - math.log1p(math.exp(x))


@kernel
def row_likelihood(code, link, y, trials, eta, first, second):  # type: ignore[no-untyped-def]
    """log p(y | eta), its derivative by eta, and by the likelihood's own parameters."""
    if code == STUDENT_T:  # first: scale, second: degrees of freedom
        u = (y - eta) / first
        s = 1.0 + u * u / second
        value = math.lgamma(0.5 * (second + 1.0)) - math.lgamma(0.5 * second) - 0.5 * math.log(math.pi * second)
        value -= math.log(first) + 0.5 * (second + 1.0) * math.log(s)
        by_eta = (second + 1.0) * u / (second * s * first)
        by_nu = 0.5 * (_digamma(0.5 * (second + 1.0)) - _digamma(0.5 * second) - 1.0 / second - math.log(s))
        by_nu += 0.5 * (second + 1.0) * u * u / (second * second * s)
        return value, by_eta, by_eta * u - 1.0 / first, by_nu
    if code == POISSON:
        mean = math.exp(eta)
        return y * eta - mean - math.lgamma(y + 1.0), y - mean, 0.0, 0.0
    if code == NEGATIVE_BINOMIAL:  # first: the shape
        mean = math.exp(eta)
        total = mean + first
        value = math.lgamma(y + first) - math.lgamma(first) - math.lgamma(y + 1.0)
        value += first * math.log(first / total) + (y * (eta - math.log(total)) if y > 0.0 else 0.0)
        by_shape = _digamma(y + first) - _digamma(first) + math.log(first / total) + 1.0 - (first + y) / total
        return value, y - (y + first) * mean / total, by_shape, 0.0
    m = 1.0 if code == BERNOULLI else trials
    value = 0.0
    if code == BINOMIAL:
        value = math.lgamma(m + 1.0) - math.lgamma(y + 1.0) - math.lgamma(m - y + 1.0)
    if link == PROBIT:
        a, by_a = log_normal_cdf(eta)
        b, by_b = log_normal_cdf(-eta)
        return value + y * a + (m - y) * b, y * by_a - (m - y) * by_b, 0.0, 0.0
    p = 1.0 / (1.0 + math.exp(-eta))
    return value + y * _log_sigmoid(eta) + (m - y) * _log_sigmoid(-eta), y - m * p, 0.0, 0.0


@kernel
def log_likelihood_whitened(parameters, ops, columns, at, fixed, x, place, y, trials, design, base, words):  # type: ignore[no-untyped-def]
    """log p(y | f) with f = design b + (L z)[place], L the Cholesky factor of K(x, x), and its gradient.

    Parameters: θ, two of the likelihood, b, z (one for each of the distinct inputs x). The derivative by K is
    L'^-1 Φ L^-1, where Φ is half the symmetric matrix with the lower triangle u z', u = L' df (Murray 2016, eq. 9:
    the product L' times the lower triangle of df z' has no more than that in its own lower triangle).
    """
    n, n_mean, m = len(y), design.shape[1], x.shape[1]
    n_theta = len(parameters) - 2 - n_mean - m
    theta, b, z = (
        parameters[:n_theta],
        parameters[n_theta + 2 : n_theta + 2 + n_mean],
        parameters[n_theta + 2 + n_mean :],
    )
    first, second = parameters[n_theta], parameters[n_theta + 1]
    grad = np.zeros(len(parameters))
    slots, lower = _slots(theta, at, fixed), np.empty((m, m))
    jitter, share = _factored(ops, columns, slots, x, np.zeros(m), base[0], lower)
    if math.isnan(jitter):
        return -np.inf, grad
    f, df = np.zeros(m), np.zeros(m)
    for i in range(m):
        for j in range(i + 1):
            f[i] += lower[i, j] * z[j]
    value = 0.0
    for i in range(n):
        eta = f[place[i]]
        for k in range(n_mean):
            eta += design[i, k] * b[k]
        term, by_eta, by_first, by_second = row_likelihood(words[0], words[1], y[i], trials[i], eta, first, second)
        value += term
        df[place[i]] += by_eta
        grad[n_theta] += by_first
        grad[n_theta + 1] += by_second
        for k in range(n_mean):
            grad[n_theta + 2 + k] += design[i, k] * by_eta
    if not math.isfinite(value):
        return -np.inf, np.zeros(len(parameters))
    u = np.zeros(m)
    for i in range(m):
        for j in range(i + 1):
            u[j] += lower[i, j] * df[i]
    grad[n_theta + 2 + n_mean :] = u
    if n_theta > 0:
        weights = np.empty((m, m))
        for i in range(m):
            for j in range(i):
                weights[i, j] = 0.5 * u[i] * z[j]
                weights[j, i] = weights[i, j]
            weights[i, i] = 0.5 * u[i] * z[i]
        _solve_in_place(lower, weights, True)
        for i in range(m):
            for j in range(i):
                weights[i, j], weights[j, i] = weights[j, i], weights[i, j]
        _solve_in_place(lower, weights, True)
        _with_jitter(weights, share)
        grad[:n_theta] = _gathered(_lower_gradient(ops, columns, slots, x, weights), at, n_theta)
    return value, grad


@kernel
def log_likelihood_of_predictor(parameters, y, trials, words):  # type: ignore[no-untyped-def]
    """log p(y | η) and its gradient; parameters: two of the likelihood, and η of each row."""
    grad, value = np.zeros(len(parameters)), 0.0
    for i in range(len(y)):
        term, grad[2 + i], by_first, by_second = row_likelihood(
            words[0], words[1], y[i], trials[i], parameters[2 + i], parameters[0], parameters[1]
        )
        value += term
        grad[0] += by_first
        grad[1] += by_second
    if not math.isfinite(value):
        return -np.inf, np.zeros(len(parameters))
    return value, grad


# -------------------------------------------------------------------- a function made of standard normals


@kernel
def coloured(theta, z, ops, columns, at, fixed, x, base):  # type: ignore[no-untyped-def]
    """L z of each row of z, with L the Cholesky factor of K(x, x); NaN where there is none."""
    m = x.shape[1]
    lower, out = np.empty((m, m)), np.zeros(z.shape)
    jitter, _ = _factored(ops, columns, _slots(theta, at, fixed), x, np.zeros(m), base[0], lower)
    if math.isnan(jitter):
        out[:] = np.nan
        return out
    for k in range(len(z)):
        for i in range(m):
            for j in range(i + 1):
                out[k, i] += lower[i, j] * z[k, j]
    return out


@kernel
def coloured_gradient(theta, z, to_f, ops, columns, at, fixed, x, base):  # type: ignore[no-untyped-def]
    """Derivatives by θ and by z, one after the other, of what has the derivatives ``to_f`` by :func:`coloured`.

    The derivative by K is that of :func:`log_likelihood_whitened`, summed over the rows of z.
    """
    m, n_theta = x.shape[1], len(theta)
    grad = np.zeros(n_theta + z.size)
    slots, lower = _slots(theta, at, fixed), np.empty((m, m))
    jitter, share = _factored(ops, columns, slots, x, np.zeros(m), base[0], lower)
    if math.isnan(jitter):
        return grad
    weights, u = np.zeros((m, m)), np.zeros(m)
    for k in range(len(z)):
        u[:] = 0.0
        for i in range(m):
            for j in range(i + 1):
                u[j] += lower[i, j] * to_f[k, i]
        grad[n_theta + k * m : n_theta + (k + 1) * m] = u
        for i in range(m):
            for j in range(i + 1):
                weights[i, j] += 0.5 * u[i] * z[k, j]
    if n_theta > 0:
        for i in range(m):
            for j in range(i):
                weights[j, i] = weights[i, j]
        _solve_in_place(lower, weights, True)
        for i in range(m):
            for j in range(i):
                weights[i, j], weights[j, i] = weights[j, i], weights[i, j]
        _solve_in_place(lower, weights, True)
        _with_jitter(weights, share)
        grad[:n_theta] = _gathered(_lower_gradient(ops, columns, slots, x, weights), at, n_theta)
    return grad
