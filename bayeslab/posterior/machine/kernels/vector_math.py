"""Exponential and logarithm without branches, so that loops over them become vector instructions.

References
----------
.. [1] Sun Microsystems (1993). fdlibm: e_exp.c, e_log.c, s_log1p.c.
"""

from __future__ import annotations

import math

from bayeslab.posterior.machine.kernels.memory import bits, from_bits, jit

__all__ = ["exp", "expm1", "log", "log1p", "sigmoid", "softplus"]

_fast = jit(error_model="numpy", fastmath={"contract"}, forceinline=True)

_INF, _NAN = math.inf, math.nan
_LN2_HIGH, _LN2_LOW, _PER_LN2 = 6.93147180369123816490e-01, 1.90821492927058770002e-10, 1.4426950408889634
# Adding this number leaves the nearest whole number in the lowest bits; its own bits are subtracted afterwards.
_WHOLE = 6755399441055744.0
_WHOLE_BITS = 0x4338000000000000
_ONE_BITS = 0x3FF0000000000000
# Bits of sqrt(1/2), and those of a fraction.
_ROOT_HALF_BITS, _FRACTION = 0x3FE6A09E667F3BCD, 0x000FFFFFFFFFFFFF
# 2^52 and its bits: a whole number below 2^52 in the lowest bits is added to it.
_TWO_52, _TWO_52_BITS = 4503599627370496.0, 0x4330000000000000


@_fast
def _power_of_two(k: float) -> float:
    """2^k for a whole number k from -1022 to 1023."""
    return from_bits((bits(k + _WHOLE) - _WHOLE_BITS + 1023) << 52)


@_fast
def _reduced(x: float) -> tuple[float, float, float]:
    """k, r and (exp(r) - 1 - r) / r² where x = k log 2 + r and |r| ≤ log(2) / 2."""
    k = (x * _PER_LN2 + _WHOLE) - _WHOLE
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.6059043836821613e-10 + r * 1.1470745597729725e-11
    p = 2.08767569878681e-09 + r * p
    p = 2.505210838544172e-08 + r * p
    p = 2.755731922398589e-07 + r * p
    p = 2.7557319223985893e-06 + r * p
    p = 2.48015873015873e-05 + r * p
    p = 1.984126984126984e-04 + r * p
    p = 1.388888888888889e-03 + r * p
    p = 8.333333333333333e-03 + r * p
    p = 4.1666666666666664e-02 + r * p
    p = 1.6666666666666666e-01 + r * p
    return k, r, 0.5 + r * p


@_fast
def exp(x: float) -> float:
    """e to the power x."""
    k, r, p = _reduced(min(max(x, -750.0), 710.0))
    # Two factors, so that numbers below the smallest normal one are right too.
    half = (k * 0.5 + _WHOLE) - _WHOLE
    out = (1.0 + (r + r * r * p)) * _power_of_two(half) * _power_of_two(k - half)
    return out if x == x else x


@_fast
def expm1(x: float) -> float:
    """exp(x) - 1."""
    k, r, p = _reduced(min(max(x, -50.0), 710.0))
    half = (k * 0.5 + _WHOLE) - _WHOLE
    first, second = _power_of_two(half), _power_of_two(k - half)
    # 2^k (exp(r) - 2^-k)
    out = ((r + r * r * p) + (1.0 - 1.0 / first / second)) * first * second
    out = _INF if x > 709.782712893384 else out
    return out if x == x else x


@_fast
def log(x: float) -> float:
    """Natural logarithm [1]_: -inf at 0, NaN below."""
    tiny = x < 2.2250738585072014e-308
    i = bits(x * 18014398509481984.0 if tiny else x) + (_ONE_BITS - _ROOT_HALF_BITS)
    k = from_bits(((i >> 52) & 0xFFF) | _TWO_52_BITS) - (_TWO_52 + 1023.0) - (54.0 if tiny else 0.0)
    f = from_bits((i & _FRACTION) + _ROOT_HALF_BITS) - 1.0
    s = f / (2.0 + f)
    z = s * s
    r = 1.531383769920937332e-01 + z * 1.479819860511658591e-01
    r = 1.818357216161805012e-01 + z * r
    r = 2.222219843214978396e-01 + z * r
    r = 2.857142874366239149e-01 + z * r
    r = 3.999999999940941908e-01 + z * r
    r = 6.666666666666735130e-01 + z * r
    h = 0.5 * f * f
    out = k * _LN2_HIGH - ((h - (s * (h + z * r) + k * _LN2_LOW)) - f)
    out = x if x == _INF else out
    out = -_INF if x == 0.0 else out
    return out if x >= 0.0 else _NAN


@_fast
def log1p(x: float) -> float:
    """log(1 + x): -inf at -1, NaN below."""
    u = 1.0 + x
    # What rounding took from u, to first order.
    rest = (x - (u - 1.0)) if x < 1.0 else (1.0 - (u - x))
    log_u = log(u)
    out = log_u + rest / u
    return out if (u > 0.0) & (u < _INF) else log_u


@_fast
def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), with all digits in both tails."""
    e = exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@_fast
def softplus(x: float) -> float:
    """log(1 + exp(x))."""
    return max(x, 0.0) + log1p(exp(-abs(x)))
