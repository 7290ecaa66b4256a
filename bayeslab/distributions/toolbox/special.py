"""Special functions of single numbers in plain Python, for fused densities: value and derivative in one pass.

Every function holds far into the tails and has neither state nor exceptions: a pole gives an infinity, and an argument
outside the domain gives NaN. All are written so that numba compiles them unchanged; most have no branch around their
arithmetic, so that loops over them become vector instructions.

References
----------
.. [1] NIST Digital Library of Mathematical Functions, sections 5.5, 5.11 (gamma), 10.25, 10.40 (Bessel).
.. [2] Cody (1969). Rational Chebyshev approximations for the error function. Mathematics of Computation 23, 631-637.
.. [3] Mächler (2012). Accurately computing log(1 - exp(-|a|)). Vignette of the R package Rmpfr.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.constants import HALF_LOG_2PI, LOG_2, ROOT_2_OVER_PI, ROOT_HALF

__all__ = [
    "bessel_ratio",
    "choose",
    "complement",
    "erfcx",
    "exp",
    "expm1",
    "gamma_pair",
    "gamma_ratio",
    "log",
    "log1mexp",
    "log1p",
    "log_add",
    "log_beta",
    "log_gamma",
    "normal_tail",
    "power",
    "sigmoid",
    "softplus",
    "whole",
]

_INF = math.inf
_NAN = math.nan
_ONE_OVER_ROOT_PI = 1.0 / math.sqrt(math.pi)
# exp(x) is infinite above.
_OVERFLOW = math.log(1.7976931348623157e308)


# ------------------------------------------------------------------------------- elementary functions


def exp(x: float) -> float:
    """e to the power x; infinite where it overflows."""
    return _INF if x > _OVERFLOW else math.exp(x)


def log(x: float) -> float:
    """Natural logarithm: -inf at 0, NaN below."""
    return math.log(x) if x > 0.0 else -_INF if x == 0.0 else _NAN


def log1p(x: float) -> float:
    """log(1 + x): -inf at -1, NaN below."""
    return math.log1p(x) if x > -1.0 else -_INF if x == -1.0 else _NAN


def expm1(x: float) -> float:
    """exp(x) - 1; infinite where it overflows."""
    return _INF if x > _OVERFLOW else math.expm1(x)


def power(x: float, y: float) -> float:
    """x to the power y, for x ≥ 0."""
    if x == 0.0:
        return 0.0 if y > 0.0 else 1.0 if y == 0.0 else _INF
    return exp(y * math.log(x)) if x > 0.0 else _NAN


def softplus(x: float) -> float:
    """log(1 + exp(x))."""
    return max(x, 0.0) + log1p(math.exp(-abs(x)))


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), with all digits in both tails."""
    e = math.exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


def log1mexp(x: float) -> float:
    """log(1 - exp(x)) for x ≤ 0 [3]_."""
    if x > -LOG_2:
        return log(-math.expm1(x)) if x <= 0.0 else _NAN
    return log1p(-math.exp(x))


def complement(x: float) -> tuple[float, float]:
    """log(1 - exp(x)) for x ≤ 0, and its derivative; -inf with derivative 0 at 0."""
    value = log1mexp(x)
    return value, (-exp(x - value) if value > -_INF else 0.0)


def log_add(a: float, b: float) -> float:
    """log(exp(a) + exp(b))."""
    high, low = max(a, b), min(a, b)
    if low == -_INF:
        return high
    return high + log1p(math.exp(low - high))


def whole(x: float) -> bool:
    """Whether a number is an integer."""
    return bool(x == np.floor(x)) and abs(x) < _INF


# ---------------------------------------------------------------------------------- gamma functions
# Arguments below 8 are moved up by 8: Γ(x) = Γ(x + 8) / (x (x + 1) ... (x + 7)); from there on Stirling's series has
# all digits.


def _eight(x: float) -> tuple[float, float]:
    """The product x (x + 1) ... (x + 7), and its derivative."""
    product, slope = x, 1.0
    slope, product = slope * (x + 1.0) + product, product * (x + 1.0)
    slope, product = slope * (x + 2.0) + product, product * (x + 2.0)
    slope, product = slope * (x + 3.0) + product, product * (x + 3.0)
    slope, product = slope * (x + 4.0) + product, product * (x + 4.0)
    slope, product = slope * (x + 5.0) + product, product * (x + 5.0)
    slope, product = slope * (x + 6.0) + product, product * (x + 6.0)
    slope, product = slope * (x + 7.0) + product, product * (x + 7.0)
    return product, slope


def _stirling(r: float) -> float:
    """log Γ(1/r) minus its leading terms (x - 1/2) log x - x + log(2π) / 2, for r ≤ 1/8 (NIST 5.11.1)."""
    q = r * r
    series = 691 / 360360 - q * (1 / 156 - q * (3617 / 122400 - q * (43867 / 244188)))
    return r * (1 / 12 - q * (1 / 360 - q * (1 / 1260 - q * (1 / 1680 - q * (1 / 1188 - q * series)))))


def _stirling_slope(r: float) -> float:
    """log x minus digamma(x) at x = 1/r, without the term r / 2, for r ≤ 1/8 (NIST 5.11.2)."""
    q = r * r
    series = 691 / 32760 - q * (1 / 12 - q * (3617 / 8160 - q * (43867 / 14364)))
    return q * (1 / 12 - q * (1 / 120 - q * (1 / 252 - q * (1 / 240 - q * (1 / 132 - q * series)))))


def gamma_pair(x: float) -> tuple[float, float]:
    """log Γ(x) and digamma(x), for x > 0."""
    small = x < 8.0
    product, slope = _eight(x if small else 1.0)
    y = x + 8.0 if small else x
    r, log_y = 1.0 / y, log(y)
    value = (y - 0.5) * log_y - y + HALF_LOG_2PI + _stirling(r) - (log(product) if small else 0.0)
    digamma = log_y - 0.5 * r - _stirling_slope(r) - (slope / product if small else 0.0)
    return (0.0 if x == 1.0 or x == 2.0 else value), digamma


def log_gamma(x: float) -> float:
    """log Γ(x), for x > 0."""
    return gamma_pair(x)[0]


def gamma_ratio(a: float, n: float) -> tuple[float, float, float]:
    """log Γ(a + n) - log Γ(a) and its derivatives by a and n, for a > 0 and n ≥ 0, without cancellation at large a."""
    small = a < 8.0
    below, below_slope = _eight(a if small else 1.0)
    above, above_slope = _eight(a + n if small else 1.0)
    y = a + 8.0 if small else a
    top = y + n
    r, s, log_y, log_ratio = 1.0 / y, 1.0 / top, log(y), log1p(n / y)
    shift_value, shift_slope = log(above / below), above_slope / above
    value = (top - 0.5) * log_ratio + n * (log_y - 1.0) + (_stirling(s) - _stirling(r))
    by_a = log_ratio + 0.5 * (n * r * s) + (_stirling_slope(r) - _stirling_slope(s))
    by_n = log_y + log_ratio - 0.5 * s - _stirling_slope(s)
    if small:
        value -= shift_value
        by_a -= shift_slope - below_slope / below
        by_n -= shift_slope
    return value, by_a, by_n


def log_beta(a: float, b: float) -> tuple[float, float, float]:
    """log B(a, b) and its derivatives by a and b, for positive a and b."""
    large, small = max(a, b), min(a, b)
    rising, by_large, digamma_sum = gamma_ratio(large, small)
    value, digamma = gamma_pair(small)
    by_small = digamma - digamma_sum
    return value - rising, -by_large if a >= b else by_small, by_small if a >= b else -by_large


def choose(n: float, k: float) -> float:
    """Log of the binomial coefficient, for 0 ≤ k ≤ n."""
    least = min(k, n - k)
    return gamma_ratio(n - least + 1.0, least)[0] - gamma_pair(least + 1.0)[0]


# ---------------------------------------------------------------------------------- error functions


def erfcx(x: float) -> float:
    """exp(x²) erfc(x), for x ≥ 0, by the rational approximations of [2]_."""
    if x > 4.0:
        q = 1.0 / (x * x)
        top = 1.63153871373020978e-2 * q + 3.05326634961232344e-1
        top = (top * q + 3.60344899949804439e-1) * q + 1.25781726111229246e-1
        top = (top * q + 1.60837851487422766e-2) * q + 6.58749161529837803e-4
        bottom = (q + 2.56852019228982242) * q + 1.87295284992346725
        bottom = (bottom * q + 5.27905102951428412e-1) * q + 6.05183413124413191e-2
        bottom = bottom * q + 2.33520497626869185e-3
        return (_ONE_OVER_ROOT_PI - q * top / bottom) / x
    if x > 0.46875:
        top = (2.15311535474403846e-8 * x + 5.64188496988670089e-1) * x + 8.88314979438837594
        top = (top * x + 6.61191906371416295e1) * x + 2.98635138197400131e2
        top = (top * x + 8.81952221241769090e2) * x + 1.71204761263407058e3
        top = (top * x + 2.05107837782607147e3) * x + 1.23033935479799725e3
        bottom = (x + 1.57449261107098347e1) * x + 1.17693950891312499e2
        bottom = (bottom * x + 5.37181101862009858e2) * x + 1.62138957456669019e3
        bottom = (bottom * x + 3.29079923573345963e3) * x + 4.36261909014324716e3
        bottom = (bottom * x + 3.43936767414372164e3) * x + 1.23033935480374942e3
        return top / bottom
    q = x * x
    return math.exp(q) * (1.0 - _erf_near_zero(x))


def _erf_near_zero(x: float) -> float:
    """erf(x) for |x| ≤ 0.46875 [2]_."""
    q = x * x
    top = (1.85777706184603153e-1 * q + 3.16112374387056560) * q + 1.13864154151050156e2
    top = (top * q + 3.77485237685302021e2) * q + 3.20937758913846947e3
    bottom = (q + 2.36012909523441209e1) * q + 2.44024637934444173e2
    bottom = (bottom * q + 1.28261652607737228e3) * q + 2.84423683343917062e3
    return x * top / bottom


def normal_tail(z: float) -> tuple[float, float]:
    """log Φ(z) of the standard normal, and its derivative φ(z) / Φ(z)."""
    if z == -_INF:
        return -_INF, _INF
    scaled = erfcx(abs(z) * ROOT_HALF)
    if z < 0.0:
        return log(0.5 * scaled) - 0.5 * z * z, ROOT_2_OVER_PI / scaled
    height = math.exp(-0.5 * z * z)
    above = 0.5 * height * scaled
    return log1p(-above), 0.5 * ROOT_2_OVER_PI * height / (1.0 - above)


# --------------------------------------------------------------------------------- Bessel functions


def bessel_ratio(x: float) -> tuple[float, float]:
    """log(exp(-x) I₀(x)) and 1 - I₁(x) / I₀(x), for x ≥ 0.

    The power series up to 30, and Hankel's expansion (NIST 10.40.1) above, where it has all digits after 20 terms.
    """
    if x < 30.0:
        q = 0.25 * x * x
        term, zero, one = 1.0, 1.0, 1.0
        for k in range(1, 80):
            term *= q / (k * k)
            zero += term
            one += term / (k + 1.0)
            if term < 1e-18 * zero:
                break
        return log(zero) - x, 1.0 - 0.5 * x * one / zero
    zero, gap, first, second = 1.0, 0.0, 1.0, 1.0
    for k in range(1, 21):
        odd = (2.0 * k - 1.0) * (2.0 * k - 1.0)
        first *= odd / (8.0 * k * x)
        second *= (odd - 4.0) / (8.0 * k * x)
        zero += first
        gap += first - second
    return log(zero) - 0.5 * log(x) - HALF_LOG_2PI, gap / zero
