r"""Logarithms of the incomplete gamma and beta functions, and their derivatives, far into both tails.

``log(gammainc(...))`` is -inf where the function underflows and inaccurate well before. Here the leading power enters
as its logarithm; the remaining factor, a series or a continued fraction, is of order one [1]_, [2]_. Derivatives with
respect to shape parameters are complex-step derivatives of the same series and fractions [3]_.

References
----------
.. [1] NIST Digital Library of Mathematical Functions, sections 8.7, 8.9 and 8.17.
.. [2] Press, Teukolsky, Vetterling, Flannery (2007). Numerical Recipes, 3rd edition, sections 6.2 and 6.4.
.. [3] Squire, Trapp (1998). Using complex variables to estimate derivatives of real functions. SIAM Review 40, 110-112.
"""

from __future__ import annotations

import math

from bayeslab.compiled import inner, kernel

__all__ = [
    "log_beta_first",
    "log_beta_i",
    "log_beta_second",
    "log_gamma_p",
    "log_gamma_p_shape",
    "log_gamma_q",
    "log_gamma_q_shape",
]

_STEP = 1e-30
_TINY = 1e-290
_MAX_TERMS = 100_000  # about six times the square root of the shape are needed
_EXTRA_TERMS = 3  # terms after the value has converged, so that the derivative converges, too


@inner
def _digamma(x: float) -> float:
    """Digamma function of x > 0, by recurrence and its asymptotic series (NIST 5.11.2)."""
    shift = 0.0
    while x < 10.0:
        shift -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * (691 / 32760 - y / 12))))))
    return shift + math.log(x) - 0.5 / x - series


@inner
def _log1mexp(x: float) -> float:
    """log(1 - exp(x)) for x ≤ 0 (Mächler 2012)."""
    if x >= 0.0:
        return -math.inf
    return math.log(-math.expm1(x)) if x > -0.6931471805599453 else math.log1p(-math.exp(x))


@inner
def _gamma_series(a: complex, x: float) -> complex:
    """Sum of x^n / ((a + 1) ... (a + n))."""
    term = 1.0 + 0.0j
    total = term
    still = 0
    for n in range(1, _MAX_TERMS):
        term *= x / (a + n)
        total += term
        still = still + 1 if abs(term.real) < 1e-17 * total.real else 0
        if still > _EXTRA_TERMS:
            break
    return total


@inner
def _gamma_fraction(a: complex, x: float) -> complex:
    """The continued fraction of Γ(a, x) e^x x^-a, for x > a + 1 (modified Lentz)."""
    b = x + 1.0 - a
    c = 1.0 / _TINY + 0.0j
    d = 1.0 / b
    h = d
    still = 0
    for i in range(1, _MAX_TERMS):
        an = -i * (i - a)
        b += 2.0
        d = an * d + b
        if abs(d) < _TINY:
            d = _TINY + 0.0j
        c = b + an / c
        if abs(c) < _TINY:
            c = _TINY + 0.0j
        d = 1.0 / d
        change = d * c
        h *= change
        still = still + 1 if abs(change.real - 1.0) < 3e-16 else 0
        if still > _EXTRA_TERMS:
            break
    return h


@inner
def _gamma(a: float, x: float, upper: bool, shape: bool) -> float:
    """log P(a, x) or log Q(a, x), or its derivative with respect to a."""
    if not (a > 0.0 and x >= 0.0):
        return math.nan
    if x == 0.0 or x == math.inf:
        known = (x == 0.0) == upper
        return 0.0 if known or shape else -math.inf
    below = x < a + 1.0
    if below:
        perturbed = _gamma_series(complex(a, _STEP), x)
        value = a * math.log(x) - x - math.lgamma(a + 1.0) + math.log(perturbed.real)
        slope = math.log(x) - _digamma(a + 1.0) + perturbed.imag / _STEP / perturbed.real
    else:
        perturbed = _gamma_fraction(complex(a, _STEP), x)
        value = a * math.log(x) - x - math.lgamma(a) + math.log(perturbed.real)
        slope = math.log(x) - _digamma(a) + perturbed.imag / _STEP / perturbed.real
    if below != upper:
        return slope if shape else value
    other = _log1mexp(value)
    if not shape:
        return other
    return -math.exp(value - other) * slope


@kernel
def log_gamma_p(a: float, x: float) -> float:
    """log of the regularised lower incomplete gamma function."""
    return _gamma(a, x, False, False)


@kernel
def log_gamma_q(a: float, x: float) -> float:
    """log of the regularised upper incomplete gamma function."""
    return _gamma(a, x, True, False)


@kernel
def log_gamma_p_shape(a: float, x: float) -> float:
    """Derivative of ``log_gamma_p`` with respect to a."""
    return _gamma(a, x, False, True)


@kernel
def log_gamma_q_shape(a: float, x: float) -> float:
    """Derivative of ``log_gamma_q`` with respect to a."""
    return _gamma(a, x, True, True)


@inner
def _beta_fraction(a: complex, b: complex, x: float) -> complex:
    """The continued fraction of the incomplete beta function (modified Lentz)."""
    c = 1.0 + 0.0j
    d = 1.0 - (a + b) * x / (a + 1.0)
    if abs(d) < _TINY:
        d = _TINY + 0.0j
    d = 1.0 / d
    h = d
    still = 0
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * x / ((a - 1.0 + 2 * m) * (a + 2 * m))
        d = 1.0 + even * d
        if abs(d) < _TINY:
            d = _TINY + 0.0j
        c = 1.0 + even / c
        if abs(c) < _TINY:
            c = _TINY + 0.0j
        d = 1.0 / d
        h *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 1.0 + 2 * m))
        d = 1.0 + odd * d
        if abs(d) < _TINY:
            d = _TINY + 0.0j
        c = 1.0 + odd / c
        if abs(c) < _TINY:
            c = _TINY + 0.0j
        d = 1.0 / d
        change = d * c
        h *= change
        still = still + 1 if abs(change.real - 1.0) < 3e-16 else 0
        if still > _EXTRA_TERMS:
            break
    return h


@inner
def _beta_direct(a: float, b: float, x: float, y: float, which: int) -> float:
    """log I_x(a, b), or its derivative in a (``which`` 1) or b (2), where its continued fraction converges fast."""
    first = _STEP if which == 1 else 0.0
    second = _STEP if which == 2 else 0.0
    perturbed = _beta_fraction(complex(a, first), complex(b, second), x)
    if which == 0:
        front = math.lgamma(a + b) - math.lgamma(a + 1.0) - math.lgamma(b) + a * math.log(x) + b * math.log(y)
        return front + math.log(perturbed.real)
    slope = perturbed.imag / _STEP / perturbed.real + _digamma(a + b)
    return slope + (math.log(x) - _digamma(a + 1.0) if which == 1 else math.log(y) - _digamma(b))


@inner
def _beta(a: float, b: float, x: float, y: float, which: int) -> float:
    """log I_x(a, b), or its derivative with respect to a (``which`` 1) or b (2)."""
    if not (a > 0.0 and b > 0.0 and x >= 0.0 and y >= 0.0):
        return math.nan
    if x == 0.0:
        return -math.inf if which == 0 else 0.0
    if y == 0.0:
        return 0.0
    if x < (a + 1.0) / (a + b + 2.0):
        return _beta_direct(a, b, x, y, which)
    other = _beta_direct(b, a, y, x, 0)
    value = _log1mexp(other)
    if which == 0:
        return value
    return -math.exp(other - value) * _beta_direct(b, a, y, x, 3 - which)


@kernel
def log_beta_i(a: float, b: float, x: float, y: float) -> float:
    """log of the regularised incomplete beta function I_x(a, b), y = 1 - x."""
    return _beta(a, b, x, y, 0)


@kernel
def log_beta_first(a: float, b: float, x: float, y: float) -> float:
    """Derivative of ``log_beta_i`` with respect to a."""
    return _beta(a, b, x, y, 1)


@kernel
def log_beta_second(a: float, b: float, x: float, y: float) -> float:
    """Derivative of ``log_beta_i`` with respect to b."""
    return _beta(a, b, x, y, 2)
