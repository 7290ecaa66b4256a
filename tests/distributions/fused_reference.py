"""Writes ``fused_reference.json``: log densities and their derivatives, by mpmath at 700 digits from textbook
formulas.

Run with mpmath installed (it is no dependency of the tests): ``python tests/distributions/fused_reference.py``.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import mpmath as mp

mp.mp.dps = 700
INF = mp.inf


def phi(z):
    return mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)


def cdf(z):
    return mp.mpf(0) if z == -INF else mp.mpf(1) if z == INF else mp.erfc(-z / mp.sqrt(2)) / 2


def mass(a, b):
    """Φ(b) - Φ(a)."""
    return cdf(-a) - cdf(-b) if a > 0 else cdf(b) - cdf(a)


def t(z, nu):
    return mp.gamma((nu + 1) / 2) / mp.gamma(nu / 2) / mp.sqrt(mp.pi * nu) * (1 + z * z / nu) ** (-(nu + 1) / 2)


def beta(x, a, b):
    return mp.exp((a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x) - log_b(a, b))


def log_b(a, b):
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def log_choose(n, k):
    return mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)


def log_poisson(x, mu):
    return x * mp.log(mu) - mu - mp.loggamma(x + 1)


def log_nb(x, mu, alpha):
    p = mu / (mu + alpha)
    out = mp.loggamma(x + alpha) - mp.loggamma(alpha) - mp.loggamma(x + 1) + alpha * mp.log1p(-p)
    return out + x * mp.log(p)


def log_binomial(x, n, p):
    return log_choose(n, x) + (x * mp.log(p) if x else 0) + ((n - x) * mp.log1p(-p) if x < n else 0)


def inflated(x, psi, base):
    return mp.log(psi) + base(x) if x else mp.log(1 - psi + psi * mp.exp(base(x)))


def hurdle(x, psi, base, none):
    return mp.log(psi) + base(x) - mp.log1p(-mp.exp(none)) if x else mp.log(1 - psi)


def log_gamma_density(x, a, b):
    return a * mp.log(b) - mp.loggamma(a) + (a - 1) * mp.log(x) - b * x


def log_log_normal(x, mu, sigma):
    return mp.log(phi((mp.log(x) - mu) / sigma) / sigma / x)


def log_skew_t(x, a, b, mu, sigma):
    z, s = (x - mu) / sigma, a + b
    u = z / mp.sqrt(s + z * z)
    out = (a + mp.mpf(1) / 2) * mp.log1p(u) + (b + mp.mpf(1) / 2) * mp.log1p(-u)
    return out - (s - 1) * mp.log(2) - log_b(a, b) - mp.log(s) / 2 - mp.log(sigma)


def log_triangular(x, lower, upper, c):
    if x < c:
        return mp.log(2 * (x - lower) / ((upper - lower) * (c - lower)))
    return mp.log(2 * (upper - x) / ((upper - lower) * (upper - c)))


def log_wald(x, mu, lam, alpha):
    s = x - alpha
    return mp.log(lam / (2 * mp.pi * s**3)) / 2 - lam * (s - mu) ** 2 / (2 * mu**2 * s)


def log_asymmetric(x, kappa, mu, b):
    z = x - mu
    return mp.log(b / (kappa + 1 / kappa)) + (-b * kappa * z if z >= 0 else b * z / kappa)


def log_ex_gaussian(x, mu, sigma, nu):
    return -mp.log(nu) + (mu - x) / nu + sigma**2 / (2 * nu**2) + mp.log(cdf((x - mu) / sigma - sigma / nu))


# The log density of each file, from the formula in its docstring; "file.form" by the logarithm or the log odds;
# below, "file:log_cumulative" and "file:log_survival".
DENSITIES = {
    "asymmetric_laplace": log_asymmetric,
    "bernoulli": lambda x, p: mp.log(p) if x else mp.log1p(-p),
    "bernoulli.logit": lambda x, logit_p: -mp.log1p(mp.exp(-logit_p if x else logit_p)),
    "beta": lambda x, a, b: (a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x) - log_b(a, b),
    "beta.logit": lambda odds, a, b: (
        -(a - 1) * mp.log1p(mp.exp(-odds)) - (b - 1) * mp.log1p(mp.exp(odds)) - mp.log(mp.beta(a, b))
    ),
    "beta_binomial": lambda x, a, b, n: log_choose(n, x) + log_b(x + a, n - x + b) - log_b(a, b),
    "binomial": log_binomial,
    "binomial.logit": lambda x, n, odds: (
        log_choose(n, x) - x * mp.log1p(mp.exp(-odds)) - (n - x) * mp.log1p(mp.exp(odds))
    ),
    "cauchy": lambda x, a, b: -mp.log(mp.pi * b * (1 + ((x - a) / b) ** 2)),
    "chi_squared": lambda x, nu: log_gamma_density(x, nu / 2, mp.mpf(1) / 2),
    "discrete_uniform": lambda x, lower, upper: -mp.log(upper - lower + 1),
    "discrete_weibull": lambda x, q, b: mp.log(q ** (x**b) - q ** ((x + 1) ** b)),
    "ex_gaussian": log_ex_gaussian,
    "exponential": lambda x, lam: mp.log(lam) - lam * x,
    "flat": lambda x: mp.mpf(0),
    "gamma": log_gamma_density,
    "geometric": lambda x, p: mp.log(p) + (x - 1) * mp.log1p(-p),
    "geometric.logit": lambda x, odds: -mp.log1p(mp.exp(-odds)) - (x - 1) * mp.log1p(mp.exp(odds)),
    "gumbel": lambda x, mu, b: -(x - mu) / b - mp.exp(-(x - mu) / b) - mp.log(b),
    "half_cauchy": lambda x, b: mp.log(2 / (mp.pi * b * (1 + (x / b) ** 2))),
    "half_flat": lambda x: mp.mpf(0),
    "half_normal": lambda x, sigma: mp.log(2 * phi(x / sigma) / sigma),
    "half_student_t": lambda x, nu, sigma: mp.log(2 * t(x / sigma, nu) / sigma),
    "hurdle_gamma": lambda x, psi, a, b: mp.log(psi) + log_gamma_density(x, a, b) if x else mp.log(1 - psi),
    "hurdle_log_normal": lambda x, psi, mu, s: mp.log(psi) + log_log_normal(x, mu, s) if x else mp.log(1 - psi),
    "hurdle_negative_binomial": lambda x, psi, mu, a: hurdle(
        x, psi, lambda k: log_nb(k, mu, a), a * mp.log(a / (mu + a))
    ),
    "hurdle_poisson": lambda x, psi, mu: hurdle(x, psi, lambda k: log_poisson(k, mu), -mu),
    "hyper_geometric": lambda x, N, k, n: log_choose(k, x) + log_choose(N - k, n - x) - log_choose(N, n),
    "inverse_gamma": lambda x, a, b: a * mp.log(b) - mp.loggamma(a) - (a + 1) * mp.log(x) - b / x,
    "kumaraswamy": lambda x, a, b: mp.log(a * b) + (a - 1) * mp.log(x) + (b - 1) * mp.log1p(-(x**a)),
    "laplace": lambda x, mu, b: -abs(x - mu) / b - mp.log(2 * b),
    "log_normal": log_log_normal,
    "logistic": lambda x, mu, s: -(x - mu) / s - mp.log(s) - 2 * mp.log1p(mp.exp(-(x - mu) / s)),
    "logit_normal": lambda x, mu, s: mp.log(phi((mp.log(x / (1 - x)) - mu) / s) / (s * x * (1 - x))),
    "moyal": lambda x, mu, s: -((x - mu) / s + mp.exp(-(x - mu) / s)) / 2 - mp.log(s * mp.sqrt(2 * mp.pi)),
    "negative_binomial": log_nb,
    "negative_binomial.log": lambda x, log_mu, a: log_nb(x, mp.exp(log_mu), a),
    "normal": lambda x, mu, s: mp.log(phi((x - mu) / s) / s),
    "pareto": lambda x, a, m: mp.log(a / x * (m / x) ** a),
    "poisson": log_poisson,
    "poisson.log": lambda x, log_mu: log_poisson(x, mp.exp(log_mu)),
    "rice": lambda x, nu, s: mp.log(x / s**2 * mp.besseli(0, x * nu / s**2)) - (x * x + nu * nu) / (2 * s**2),
    "skew_normal": lambda x, a, mu, s: mp.log(2 * phi((x - mu) / s) * cdf(a * (x - mu) / s) / s),
    "skew_student_t": log_skew_t,
    "student_t": lambda x, nu, mu, s: mp.log(t((x - mu) / s, nu) / s),
    "triangular": log_triangular,
    "truncated_normal": lambda x, mu, s, low, high: mp.log(
        phi((x - mu) / s) / s / mass((low - mu) / s, (high - mu) / s)
    ),
    "uniform": lambda x, lower, upper: -mp.log(upper - lower),
    "von_mises": lambda x, mu, k: k * mp.cos(x - mu) - mp.log(2 * mp.pi * mp.besseli(0, k)),
    "wald": log_wald,
    "weibull": lambda x, a, b: mp.log(a / b) + (a - 1) * mp.log(x / b) - (x / b) ** a,
    "zero_inflated_binomial": lambda x, psi, n, p: inflated(x, psi, lambda k: log_binomial(k, n, p)),
    "zero_inflated_binomial.logit": lambda x, psi, n, odds: inflated(
        x, psi, lambda k: log_choose(n, k) - k * mp.log1p(mp.exp(-odds)) - (n - k) * mp.log1p(mp.exp(odds))
    ),
    "zero_inflated_negative_binomial": lambda x, psi, mu, a: inflated(x, psi, lambda k: log_nb(k, mu, a)),
    "zero_inflated_poisson": lambda x, psi, mu: inflated(x, psi, lambda k: log_poisson(k, mu)),
}


def gamma_cdf(x, a, b):
    return mp.gammainc(a, 0, b * x, regularized=True)


def beta_cdf(x, a, b):
    return mp.betainc(a, b, 0, x, regularized=True)


def t_cdf(z, nu):
    half = mp.betainc(nu / 2, mp.mpf(1) / 2, 0, nu / (nu + z * z), regularized=True) / 2
    return half if z < 0 else 1 - half


def skew_t_cdf(x, a, b, mu, sigma):
    z = (x - mu) / sigma
    return beta_cdf((1 + z / mp.sqrt(a + b + z * z)) / 2, a, b)


def wald_cdf(x, mu, lam, alpha):
    s = x - alpha
    root = mp.sqrt(lam / s)
    return cdf(root * (s / mu - 1)) + mp.exp(2 * lam / mu) * cdf(-root * (s / mu + 1))


def ex_gaussian_cdf(x, mu, sigma, nu):
    z, ratio = (x - mu) / sigma, sigma / nu
    return cdf(z) - mp.exp(-z * ratio + ratio**2 / 2) * cdf(z - ratio)


def triangular_cdf(x, lower, upper, c):
    if x <= c:
        return (x - lower) ** 2 / ((upper - lower) * (c - lower))
    return 1 - (upper - x) ** 2 / ((upper - lower) * (upper - c))


# P(X ≤ x), from the literature that the files cite.
CUMULATIVE = {
    "beta": beta_cdf,
    "binomial": lambda x, n, p: beta_cdf(1 - p, n - mp.floor(x), mp.floor(x) + 1),
    "cauchy": lambda x, a, b: mp.atan2(b, a - x) / mp.pi,
    "chi_squared": lambda x, nu: gamma_cdf(x, nu / 2, mp.mpf(1) / 2),
    "discrete_uniform": lambda x, lower, upper: (mp.floor(x) - lower + 1) / (upper - lower + 1),
    "discrete_weibull": lambda x, q, b: 1 - q ** ((mp.floor(x) + 1) ** b),
    "ex_gaussian": ex_gaussian_cdf,
    "exponential": lambda x, lam: -mp.expm1(-lam * x),
    "gamma": gamma_cdf,
    "geometric": lambda x, p: 1 - (1 - p) ** mp.floor(x),
    "gumbel": lambda x, mu, b: mp.exp(-mp.exp(-(x - mu) / b)),
    "half_cauchy": lambda x, b: 2 * mp.atan(x / b) / mp.pi,
    "half_normal": lambda x, s: mp.erf(x / s / mp.sqrt(2)),
    "inverse_gamma": lambda x, a, b: 1 - mp.gammainc(a, 0, b / x, regularized=True),
    "kumaraswamy": lambda x, a, b: 1 - (1 - x**a) ** b,
    "laplace": lambda x, mu, b: mp.exp((x - mu) / b) / 2 if x < mu else 1 - mp.exp((mu - x) / b) / 2,
    "log_normal": lambda x, mu, s: cdf((mp.log(x) - mu) / s),
    "logistic": lambda x, mu, s: 1 / (1 + mp.exp((mu - x) / s)),
    "moyal": lambda x, mu, s: mp.erfc(mp.exp((mu - x) / s / 2) / mp.sqrt(2)),
    "negative_binomial": lambda x, mu, a: beta_cdf(a / (mu + a), a, mp.floor(x) + 1),
    "normal": lambda x, mu, s: cdf((x - mu) / s),
    "pareto": lambda x, a, m: 1 - (m / x) ** a,
    "poisson": lambda x, mu: 1 - mp.gammainc(mp.floor(x) + 1, 0, mu, regularized=True),
    "skew_student_t": skew_t_cdf,
    "student_t": lambda x, nu, mu, s: t_cdf((x - mu) / s, nu),
    "triangular": triangular_cdf,
    "uniform": lambda x, lower, upper: (x - lower) / (upper - lower),
    "wald": wald_cdf,
    "weibull": lambda x, a, b: -mp.expm1(-((x / b) ** a)),
}
for file, function in CUMULATIVE.items():
    names = ", ".join(inspect.signature(function).parameters)
    for tail, formula in (("log_cumulative", "mp.log(f({}))"), ("log_survival", "mp.log(1 - f({}))")):
        DENSITIES[f"{file}:{tail}"] = eval(f"lambda {names}: {formula.format(names)}", {"mp": mp, "f": function})

# Parameters; then values in the bulk and far out.
POINTS = {
    "asymmetric_laplace": [((1.7, 0.4, 1.3), (-900.0, -1.0, 0.7, 500.0)), ((1e-3, 0.4, 20.0), (-3.0, 9.0))],
    "bernoulli": [((0.3,), (0, 1)), ((1e-200,), (0, 1)), ((1 - 1e-12,), (0, 1))],
    "bernoulli.logit": [((0.7,), (0, 1)), ((-800.0,), (0, 1)), ((45.0,), (0, 1))],
    "beta": [
        ((2.3, 3.4), (1e-300, 1e-9, 0.4, 0.99999)),
        ((0.01, 0.02), (1e-200, 0.3, 0.999)),
        ((1.0, 3.0), (1e-9, 0.5)),
        ((4e3, 6e3), (0.4, 0.401)),
        ((1e-4, 2e5), (1e-9, 1e-3)),
    ],
    "beta.logit": [((2.3, 3.4), (-700.0, -3.0, 0.4, 45.0)), ((1e-3, 1.0), (-90.0, 60.0)), ((400.0, 1e5), (-5.5, 30.0))],
    "beta_binomial": [((2.3, 3.4, 9), (0, 4, 9)), ((1e9, 2e9, 30), (0, 10, 30)), ((1e-6, 2e-3, 5), (0, 2, 5))],
    "binomial": [((9, 0.3), (0, 4, 9)), ((1000000, 1e-7), (0, 3)), ((50, 1 - 1e-10), (48, 50))],
    "binomial.logit": [((9, 0.7), (0, 4, 9)), ((9, -700.0), (0, 2, 9)), ((9, 60.0), (0, 2, 9))],
    "cauchy": [((0.4, 1.3), (-1e9, 0.3, 7.0, 1e100)), ((0.0, 1e-8), (1.0,))],
    "chi_squared": [((3.4,), (1e-200, 2.0, 900.0)), ((1e-3,), (1e-9, 3.0)), ((4e3,), (3.9e3,))],
    "discrete_uniform": [((-2, 5), (-2, 3, 5))],
    "discrete_weibull": [((0.6, 1.3), (0, 1, 3, 40)), ((0.999999, 0.7), (0, 5, 100000)), ((1e-9, 2.0), (0, 1, 5))],
    "ex_gaussian": [
        ((0.4, 1.3, 0.8), (-60.0, -2.0, 0.5, 4.0, 300.0)),
        ((0.4, 1.3, 0.05), (-1.0, 0.5, 3.0)),
        ((0.0, 1e-3, 2.0), (-0.002, 0.001, 9.0)),
    ],
    "exponential": [((1.3,), (0.0, 1e-200, 2.0, 1e5)), ((1e-200,), (3.0,))],
    "flat": [((), (-1e9, -4.0, 3.0))],
    "gamma": [
        ((2.3, 3.4), (1e-250, 1e-9, 0.6, 900.0)),
        ((1e-3, 1e-3), (1e-200, 1e-9, 3.0)),
        ((5e3, 1.0), (4.9e3,)),
        ((1.0, 2.0), (1e-9, 3.0)),
    ],
    "geometric": [((0.3,), (1, 2, 500)), ((1e-12,), (1, 100000))],
    "geometric.logit": [((0.3,), (1, 2, 500)), ((-700.0,), (1, 100000)), ((60.0,), (1, 3))],
    "gumbel": [((0.4, 1.3), (-7.0, 0.5, 3.0, 900.0))],
    "half_cauchy": [((1.3,), (0.0, 1e-9, 0.7, 1e9))],
    "half_flat": [((), (0.0, 3.0, 1e300))],
    "half_normal": [((1.3,), (0.0, 1e-9, 0.7, 1e5)), ((1e-9,), (1e-3,))],
    "half_student_t": [((4.4, 1.3), (0.0, 1e-9, 0.7, 1e9)), ((1e9, 2.0), (0.3, 9.0)), ((0.01, 2.0), (0.3, 1e50))],
    "hurdle_gamma": [((0.6, 2.3, 3.4), (0.0, 1e-9, 0.6, 90.0)), ((1e-9, 0.3, 0.4), (0.0, 5.0))],
    "hurdle_log_normal": [((0.6, 0.4, 0.8), (0.0, 1e-9, 0.6, 90.0)), ((1 - 1e-9, 0.3, 4.0), (0.0, 5.0))],
    "hurdle_negative_binomial": [
        ((0.6, 2.3, 1.4), (0, 1, 7, 400)),
        ((0.6, 1e-4, 1e4), (0, 1, 3)),
        ((0.1, 900.0, 0.01), (0, 1, 3000)),
    ],
    "hurdle_poisson": [((0.6, 2.3), (0, 1, 7, 400)), ((0.2, 1e-3), (0, 1, 3)), ((0.2, 800.0), (0, 1, 900))],
    "hyper_geometric": [((20, 8, 6), (0, 3, 6)), ((1000, 990, 20), (10, 19, 20))],
    "inverse_gamma": [((3.3, 2.4), (1e-3, 0.6, 1e6)), ((1e-3, 1e-3), (1e-9, 2.0, 1e100))],
    "kumaraswamy": [((2.3, 3.4), (1e-200, 0.4, 1 - 1e-12)), ((0.01, 0.02), (1e-200, 0.4, 1 - 1e-12))],
    "laplace": [((0.4, 1.3), (-900.0, 0.3, 2.0)), ((0.0, 1e-9), (1.0,))],
    "log_normal": [((0.4, 0.8), (1e-300, 0.6, 1e9)), ((-30.0, 0.01), (1e-13, 1.0))],
    "logistic": [((0.4, 1.3), (-2e3, 0.3, 2.0, 2e3))],
    "logit_normal": [((0.4, 0.8), (1e-300, 0.4, 1 - 1e-12)), ((-3.0, 0.01), (0.04, 0.5))],
    "moyal": [((0.4, 1.3), (-9.0, 0.3, 2.0, 900.0))],
    "negative_binomial": [
        ((2.3, 1.4), (0, 1, 7, 4000)),
        ((2.3, 1e12), (0, 1, 7, 40)),
        ((1e-9, 1e-3), (0, 1, 7)),
        ((1e4, 5.0), (0, 1, 10000)),
    ],
    "negative_binomial.log": [
        ((0.9, 1.4), (0, 1, 7, 4000)),
        ((0.9, 1e12), (0, 1, 7, 40)),
        ((-300.0, 0.1), (0, 1, 7)),
        ((600.0, 5.0), (0, 1, 1000)),
    ],
    "normal": [((0.4, 1.3), (-1e6, 0.3, 2.0, 40.0)), ((1e6, 1e-6), (1e6, 1e6 + 1e-4))],
    "pareto": [((3.3, 1.4), (1.4, 2.0, 1e100)), ((1e-3, 1e-3), (0.5,))],
    "poisson": [((2.3,), (0, 1, 7, 4000)), ((1e-200,), (0, 2)), ((1e4,), (0, 10000))],
    "poisson.log": [((0.9,), (0, 1, 7, 4000)), ((-700.0,), (0, 2)), ((9.0,), (0, 8000))],
    "rice": [((1.4, 1.3), (1e-9, 0.6, 3.0, 90.0)), ((50.0, 0.3), (49.0, 52.0)), ((0.0, 2.0), (1.0,))],
    "skew_normal": [((1.7, 0.4, 1.3), (-90.0, 0.1, 2.0, 90.0)), ((-40.0, 0.0, 1.0), (-2.0, 0.01, 30.0))],
    "skew_student_t": [((2.3, 3.4, 0.4, 1.3), (-1e4, 0.1, 2.0, 1e4)), ((0.2, 90.0, 0.0, 1.0), (-9.0, 0.4, 30.0))],
    "student_t": [
        ((4.4, 0.4, 1.3), (-1e9, 0.3, 2.0, 1e50)),
        ((1e9, 0.4, 1.3), (0.3, 9.0)),
        ((0.01, 0.0, 1.3), (0.3, 1e50)),
        ((1e3, 0.0, 1.0), (0.5, 60.0)),
    ],
    "triangular": [((-1.0, 5.0, 2.0), (-1 + 1e-9, 0.5, 3.0, 5 - 1e-9))],
    "truncated_normal": [
        ((0.4, 1.3, -1.0, 2.0), (-1.0, 0.3, 2.0)),
        ((0.4, 1.3, 1.0, INF), (1.0, 30.0)),
        ((0.4, 1.3, -INF, INF), (-9.0, 1.0)),
        ((0.4, 1.3, -INF, -90.0), (-90.1, -95.0)),
        ((0.0, 1.0, 300.0, 301.0), (300.0, 300.5)),
        ((0.0, 1.0, -9.0, -8.0), (-8.1,)),
        ((50.0, 1.0, -1.0, INF), (0.5, 51.0)),
    ],
    "uniform": [((1.0, 3.0), (1.0, 2.0, 3.0))],
    "von_mises": [
        ((0.4, 1.3), (-3.0, 0.3, 3.1)),
        ((0.4, 1e-9), (0.3,)),
        ((3.0, 5e4), (-3.1, 2.99)),
        ((0.0, 29.0), (1.0,)),
    ],
    "wald": [
        ((1.3, 1.4, 0.5), (0.6, 2.0, 400.0)),
        ((1e-3, 1e3, 0.0), (1e-4, 1e-3, 1.0)),
        ((9.0, 1e-6, 0.0), (1e-9, 5.0)),
    ],
    "weibull": [((1.7, 1.3), (1e-200, 0.5, 30.0)), ((0.02, 1.3), (1e-200, 0.5, 1e30)), ((1.0, 2.0), (1e-9, 5.0))],
    "zero_inflated_binomial": [((0.6, 9, 0.3), (0, 4, 9)), ((0.999999, 400, 0.4), (0, 160)), ((1e-9, 9, 1e-9), (0, 4))],
    "zero_inflated_binomial.logit": [((0.6, 9, 0.7), (0, 4, 9)), ((0.2, 9, 60.0), (0, 2)), ((0.7, 5, -700.0), (0, 1))],
    "zero_inflated_negative_binomial": [((0.6, 2.3, 1.4), (0, 7, 400)), ((0.999999, 1e4, 50.0), (0, 9000))],
    "zero_inflated_poisson": [((0.6, 2.3), (0, 7, 400)), ((0.999999, 900.0), (0, 850)), ((1e-9, 1e-9), (0, 1))],
}

# The same for both logarithms of tail probabilities.
TAILS = {
    "beta": [((2.3, 3.4), (1e-9, 0.4, 0.99999)), ((0.01, 0.02), (1e-9, 0.3)), ((40.0, 60.0), (0.01, 0.4, 0.95))],
    "binomial": [((9, 0.3), (0, 4, 8)), ((900, 0.01), (0, 9, 300)), ((50, 1 - 1e-3), (10, 48))],
    "cauchy": [((0.4, 1.3), (-1e9, 0.3, 7.0, 1e30))],
    "chi_squared": [((3.4,), (1e-9, 2.0, 400.0))],
    "discrete_uniform": [((-2, 5), (-2, 3, 4))],
    "discrete_weibull": [((0.6, 1.3), (0, 1, 3, 40)), ((0.999, 0.7), (0, 5, 1000))],
    "ex_gaussian": [((0.4, 1.3, 0.8), (-40.0, -2.0, 0.5, 4.0, 300.0)), ((0.0, 0.1, 2.0), (-0.2, 0.1, 9.0))],
    "exponential": [((1.3,), (1e-9, 2.0, 500.0))],
    "gamma": [((2.3, 3.4), (1e-9, 0.6, 90.0)), ((400.0, 2.0), (50.0, 200.0, 500.0)), ((0.01, 0.1), (1e-9, 3.0))],
    "geometric": [((0.3,), (1, 2, 500)), ((1e-6,), (1, 100000))],
    "gumbel": [((0.4, 1.3), (-6.0, 0.5, 3.0, 30.0, 90.0, 400.0))],
    "half_cauchy": [((1.3,), (1e-9, 0.7, 1e9))],
    "half_normal": [((1.3,), (1e-9, 0.7, 2.0, 40.0))],
    "inverse_gamma": [((3.3, 2.4), (0.01, 0.6, 1e6))],
    "kumaraswamy": [((2.3, 3.4), (1e-9, 0.4, 0.999)), ((0.1, 0.2), (1e-9, 0.4))],
    "laplace": [((0.4, 1.3), (-400.0, 0.3, 2.0, 400.0))],
    "log_normal": [((0.4, 0.8), (1e-9, 0.6, 1e9))],
    "logistic": [((0.4, 1.3), (-500.0, 0.3, 2.0, 500.0))],
    "moyal": [((0.4, 1.3), (-9.0, 0.3, 2.0, 90.0, 200.0))],
    "negative_binomial": [((2.3, 1.4), (0, 1, 7, 400)), ((90.0, 0.1), (0, 1, 300)), ((5.0, 1e4), (0, 5, 60))],
    "normal": [((0.4, 1.3), (-50.0, 0.3, 2.0, 40.0))],
    "pareto": [((3.3, 1.4), (1.41, 2.0, 1e30))],
    "poisson": [((2.3,), (0, 1, 7, 200)), ((1e-9,), (0, 2)), ((400.0,), (100, 400, 600))],
    "skew_student_t": [((2.3, 3.4, 0.4, 1.3), (-1e4, 0.1, 2.0, 1e4))],
    "student_t": [((4.4, 0.4, 1.3), (-1e9, 0.3, 2.0, 1e9)), ((900.0, 0.0, 1.0), (-20.0, 0.5, 20.0))],
    "triangular": [((-1.0, 5.0, 2.0), (-1 + 1e-9, 0.5, 3.0, 5 - 1e-9))],
    "uniform": [((1.0, 3.0), (1 + 1e-9, 2.0, 3 - 1e-9))],
    "wald": [((1.3, 1.4, 0.5), (0.51, 1.0, 2.0, 40.0, 400.0)), ((0.5, 9.0, 0.0), (0.05, 0.5, 3.0))],
    "weibull": [((1.7, 1.3), (1e-9, 0.5, 30.0)), ((0.2, 1.3), (1e-9, 0.5, 1e9))],
}
for file, groups in TAILS.items():
    POINTS |= {f"{file}:{tail}": groups for tail in ("log_cumulative", "log_survival")}


def reference(name: str, values: tuple[float, ...]) -> list[float]:
    """The log density, and its derivatives: 0 by integers, and where only one side is inside the support."""
    function = DENSITIES[name]
    names = list(inspect.signature(function).parameters)
    exact = [mp.mpf(v) for v in values]
    out = [function(*exact)]
    for i in range(len(names)):
        integer = isinstance(values[i], int) or mp.isinf(exact[i])
        if integer or (name.startswith("hurdle") and i == 0 and values[0] == 0):
            out.append(mp.mpf(0))
            continue
        step = mp.mpf(10) ** -80 * (abs(exact[i]) or 1)

        def at(move, i=i, step=step):
            return function(*exact[:i], exact[i] + move * step, *exact[i + 1 :])

        out.append((8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step))
    return [float(v) for v in out]


if __name__ == "__main__":
    rows = {
        name: [
            [[float(v) for v in (x, *parameters)], reference(name, (x, *parameters))]
            for parameters, numbers in groups
            for x in numbers
        ]
        for name, groups in POINTS.items()
    }
    text = ",\n".join(
        f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in each) + "\n]" for name, each in rows.items()
    )
    Path(__file__).with_suffix(".json").write_text("{\n" + text + "\n}\n")
