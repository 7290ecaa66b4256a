"""Logarithms of the incomplete gamma and beta functions of single numbers, with their derivatives, far into both tails.

The power in front is taken as a logarithm; what is left, a series or a continued fraction, is of order one [1]_, [2]_.
Derivatives by shapes are those of the same series and fractions, by complex steps [3]_. Plain Python for numba, as
:mod:`special`.

References
----------
.. [1] NIST Digital Library of Mathematical Functions, sections 8.7, 8.9 and 8.17.
.. [2] Press, Teukolsky, Vetterling, Flannery (2007). Numerical Recipes, 3rd edition, sections 6.2 and 6.4.
.. [3] Squire, Trapp (1998). Using complex variables to estimate derivatives of real functions. SIAM Review 40, 110-112.
"""

from __future__ import annotations

import math

from bayeslab.distributions.toolbox.special import complement, exp, gamma_pair, log, log_beta

__all__ = ["beta_tail", "gamma_tail"]

_STEP = 1e-30
_TINY = 1e-290
_MOST = 100_000  # terms; about six times the root of the shape are needed
_SETTLED = 3  # terms after the value stands still, for the derivative to do so


def _gamma_series(a: float, x: float) -> tuple[float, float]:
    """Sum of x^n / ((a + 1) ... (a + n)), and the derivative of its logarithm by a."""
    shape = complex(a, _STEP)
    term = complex(1.0, 0.0)
    total = term
    still = 0
    for n in range(1, _MOST):
        term = term * (x / (shape + n))
        total = total + term
        still = still + 1 if abs(term.real) < 1e-17 * total.real else 0
        if still > _SETTLED:
            break
    return total.real, total.imag / _STEP / total.real


def _gamma_fraction(a: float, x: float) -> tuple[float, float]:
    """The continued fraction of Γ(a, x) e^x x^-a for x > a + 1, by Lentz, and the derivative of its log."""
    shape = complex(a, _STEP)
    b = x + 1.0 - shape
    c = complex(1.0 / _TINY, 0.0)
    d = 1.0 / b
    h = d
    still = 0
    for i in range(1, _MOST):
        an = -i * (i - shape)
        b = b + 2.0
        d = an * d + b
        if abs(d) < _TINY:
            d = complex(_TINY, 0.0)
        c = b + an / c
        if abs(c) < _TINY:
            c = complex(_TINY, 0.0)
        d = 1.0 / d
        change = d * c
        h = h * change
        still = still + 1 if abs(change.real - 1.0) < 3e-16 else 0
        if still > _SETTLED:
            break
    return h.real, h.imag / _STEP / h.real


def gamma_tail(a: float, x: float, upper: bool) -> tuple[float, float, float]:
    """Log of the regularised incomplete gamma function, lower or upper, and its derivatives by a and x.

    For a > 0. The derivatives are 0 where the value is 0 or -inf.
    """
    if not x > 0.0 or x == math.inf:
        return (0.0 if (x > 0.0) != upper else -math.inf), 0.0, 0.0
    log_gamma, digamma = gamma_pair(a)
    log_x = log(x)
    density = a * log_x - x - log_gamma
    below = x < a + 1.0
    if below:
        rest, by_a = _gamma_series(a, x)
        value = density - log(a) + log(rest)
        by_a += log_x - digamma - 1.0 / a
    else:
        rest, by_a = _gamma_fraction(a, x)
        value = density + log(rest)
        by_a += log_x - digamma
    if below == upper:
        value, factor = complement(value)
        by_a *= factor
    if value == -math.inf:
        return value, 0.0, 0.0
    by_x = exp(density - log_x - value)
    return value, by_a, -by_x if upper else by_x


def _beta_fraction(first: complex, second: complex, x: float) -> complex:
    """The continued fraction of the incomplete beta function (modified Lentz)."""
    c = complex(1.0, 0.0)
    d = 1.0 - (first + second) * x / (first + 1.0)
    if abs(d) < _TINY:
        d = complex(_TINY, 0.0)
    d = 1.0 / d
    h = d
    still = 0
    for m in range(1, _MOST):
        even = m * (second - m) * x / ((first - 1.0 + 2 * m) * (first + 2 * m))
        d = 1.0 + even * d
        if abs(d) < _TINY:
            d = complex(_TINY, 0.0)
        c = 1.0 + even / c
        if abs(c) < _TINY:
            c = complex(_TINY, 0.0)
        d = 1.0 / d
        h = h * (d * c)
        odd = -(first + m) * (first + second + m) * x / ((first + 2 * m) * (first + 1.0 + 2 * m))
        d = 1.0 + odd * d
        if abs(d) < _TINY:
            d = complex(_TINY, 0.0)
        c = 1.0 + odd / c
        if abs(c) < _TINY:
            c = complex(_TINY, 0.0)
        d = 1.0 / d
        change = d * c
        h = h * change
        still = still + 1 if abs(change.real - 1.0) < 3e-16 else 0
        if still > _SETTLED:
            break
    return h


def beta_tail(a: float, b: float, x: float, y: float) -> tuple[float, float, float, float]:
    """Log of the regularised incomplete beta function I_x(a, b), y = 1 - x, and its derivatives by a, b and x.

    For positive a and b. The derivatives are 0 where the value is 0 or -inf.
    """
    if not x > 0.0 or not y > 0.0:
        return (-math.inf if not x > 0.0 else 0.0), 0.0, 0.0, 0.0
    turned = x >= (a + 1.0) / (a + b + 2.0)
    first, second = (b if turned else a), (a if turned else b)
    near, far = (y if turned else x), (x if turned else y)
    constant, by_first, by_second = log_beta(first, second)
    density = first * log(near) + second * log(far) - constant
    moved = _beta_fraction(complex(first, _STEP), complex(second, 0.0), near)
    by_first = log(near) - by_first - 1.0 / first + moved.imag / _STEP / moved.real
    moved = _beta_fraction(complex(first, 0.0), complex(second, _STEP), near)
    by_second = log(far) - by_second + moved.imag / _STEP / moved.real
    value, factor = density - log(first) + log(moved.real), 1.0
    if turned:
        value, factor = complement(value)
    if value == -math.inf:
        return value, 0.0, 0.0, 0.0
    by_x = exp(density - value) / (x * y)
    by_a, by_b = (by_second if turned else by_first), (by_first if turned else by_second)
    return value, factor * by_a, factor * by_b, by_x
