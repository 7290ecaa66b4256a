"""Special functions of single numbers equal SciPy's, and closed forms where SciPy loses digits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special as scipy

from bayeslab.distributions.toolbox import special

WIDE = np.concatenate([np.logspace(-250, 12, 300), np.linspace(0.01, 20, 400)])
ALL = np.concatenate([-np.logspace(-9, 4, 100), [0.0], np.logspace(-9, 4, 100)])


def each(function, *arguments):
    return np.array([function(*map(float, row)) for row in np.broadcast(*arguments)])


def test_gamma_functions():
    pairs = each(special.gamma_pair, WIDE)
    np.testing.assert_allclose(pairs[:, 0], scipy.gammaln(WIDE), rtol=2e-14, atol=1e-14)
    np.testing.assert_allclose(pairs[:, 1], scipy.digamma(WIDE), rtol=1e-14, atol=1e-14)
    assert special.gamma_pair(1.0)[0] == special.gamma_pair(2.0)[0] == 0.0


@pytest.mark.parametrize("a", [1e-200, 1e-3, 0.5, 7.9, 8.0, 33.0, 1e5, 1e14])
@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_a_ratio_of_gamma_functions_is_a_product(a, n):
    value, by_a, by_n = special.gamma_ratio(a, float(n))
    assert value == pytest.approx(sum(math.log(a + k) for k in range(n)), rel=1e-13, abs=1e-14)
    assert by_a == pytest.approx(sum(1.0 / (a + k) for k in range(n)), rel=1e-12, abs=4e-16)
    assert by_n == pytest.approx(float(scipy.digamma(a + n)), rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("a", [1e-3, 0.5, 9.0, 1e5, 1e14])
@pytest.mark.parametrize("b", [1, 3, 8])
def test_the_beta_function_of_an_integer(a, b):
    # B(a, b) = (b - 1)! / (a (a + 1) ... (a + b - 1))
    expected = math.lgamma(b) - sum(math.log(a + k) for k in range(b))
    value, by_a, by_b = special.log_beta(a, float(b))
    assert value == pytest.approx(expected, rel=1e-13, abs=1e-13)
    assert special.log_beta(float(b), a) == (value, by_b, by_a)
    assert by_a == pytest.approx(-sum(1.0 / (a + k) for k in range(b)), rel=1e-12, abs=4e-16)
    assert by_b == pytest.approx(float(scipy.digamma(b) - scipy.digamma(a + b)), rel=1e-12, abs=1e-12)


def test_binomial_coefficients():
    for n in (0, 1, 5, 30):
        for k in range(n + 1):
            assert special.choose(float(n), float(k)) == pytest.approx(math.log(math.comb(n, k)), rel=1e-13, abs=1e-14)
    assert special.choose(1e15, 1.0) == pytest.approx(math.log(1e15), rel=1e-15)


def test_error_functions():
    x = np.concatenate([[0.0], np.logspace(-9, 150, 200), np.linspace(0.1, 30, 300)])
    np.testing.assert_allclose(each(special.erfcx, x), scipy.erfcx(x), rtol=4e-15)
    z = np.concatenate([-np.logspace(-9, 100, 200), np.linspace(-9, 8, 300)])
    tail = each(special.normal_tail, z)
    np.testing.assert_allclose(tail[:, 0], scipy.log_ndtr(z), rtol=4e-14)
    moderate = np.abs(z) < 30
    w = z[moderate]
    hazard = np.exp(-0.5 * w**2 - 0.5 * math.log(2 * math.pi) - scipy.log_ndtr(w))
    np.testing.assert_allclose(tail[moderate, 1], hazard, rtol=1e-12)
    assert special.normal_tail(-math.inf) == (-math.inf, math.inf)
    assert special.normal_tail(math.inf) == (0.0, 0.0)


def test_bessel_functions():
    x = np.concatenate([[0.0], np.logspace(-9, 9, 300), np.linspace(1, 60, 200)])
    pairs = each(special.bessel_ratio, x)
    np.testing.assert_allclose(pairs[:, 0], np.log(scipy.i0e(x)), rtol=2e-14, atol=2e-15)
    np.testing.assert_allclose(1.0 - pairs[:, 1], scipy.i1e(x) / scipy.i0e(x), atol=4e-15)


def test_elementary_functions():
    np.testing.assert_allclose(each(special.softplus, ALL), np.logaddexp(0.0, ALL), rtol=1e-15)
    np.testing.assert_allclose(each(special.sigmoid, ALL), scipy.expit(ALL), rtol=4e-15)
    below = -np.logspace(-300, 3, 200)
    near = below > -0.6
    by_hand = np.concatenate([np.log(-np.expm1(below[near])), np.log1p(-np.exp(below[~near]))])
    np.testing.assert_allclose(each(special.log1mexp, below), by_hand, rtol=1e-15)
    np.testing.assert_allclose(each(special.log_add, ALL, ALL[::-1]), np.logaddexp(ALL, ALL[::-1]), rtol=1e-15)


def test_poles_are_infinite_and_nothing_raises():
    inf = math.inf
    assert special.exp(1e4) == special.expm1(1e4) == inf
    assert special.log(0.0) == special.log1p(-1.0) == special.log1mexp(0.0) == -inf
    assert math.isnan(special.log(-1.0))
    assert math.isnan(special.log1p(-2.0))
    assert [special.power(0.0, y) for y in (2.0, 0.0, -1.0)] == [0.0, 1.0, inf]
    assert special.log_add(-inf, -inf) == -inf
    assert special.log_add(-inf, 3.0) == 3.0
    assert [special.whole(x) for x in (3.0, -2.0, 0.5, inf, math.nan)] == [True, True, False, False, False]
