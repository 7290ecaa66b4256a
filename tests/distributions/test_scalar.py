"""Log densities of priors against SciPy and, where SciPy has none, quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from bayeslab.distributions import Law, log_densities, log_density
from tests.refusals import refused

CASES = [
    ("Normal", {"mu": 1, "sigma": 2}, stats.norm(1, 2)),
    ("Normal", {"mu": 1, "tau": 4}, stats.norm(1, 0.5)),
    ("Normal", {}, stats.norm()),
    ("HalfNormal", {"sigma": 2}, stats.halfnorm(scale=2)),
    ("HalfNormal", {"tau": 4}, stats.halfnorm(scale=0.5)),
    ("HalfCauchy", {"beta": 2.5}, stats.halfcauchy(scale=2.5)),
    ("Cauchy", {"alpha": 1, "beta": 2}, stats.cauchy(1, 2)),
    ("StudentT", {"nu": 3, "mu": 1, "sigma": 2}, stats.t(3, 1, 2)),
    ("StudentT", {"nu": 3, "lam": 4}, stats.t(3, 0, 0.5)),
    ("Exponential", {"lam": 3}, stats.expon(scale=1 / 3)),
    ("Exponential", {"scale": 3}, stats.expon(scale=3)),
    ("Gamma", {"alpha": 3, "beta": 2}, stats.gamma(3, scale=0.5)),
    ("Gamma", {"mu": 3, "sigma": 2}, stats.gamma(9 / 4, scale=4 / 3)),
    ("ChiSquared", {"nu": 5}, stats.chi2(5)),
    ("InverseGamma", {"alpha": 3, "beta": 2}, stats.invgamma(3, scale=2)),
    ("InverseGamma", {"alpha": 3}, stats.invgamma(3)),
    ("LogNormal", {"mu": 1, "sigma": 0.5}, stats.lognorm(0.5, scale=np.e)),
    ("Lognormal", {"mu": 1, "tau": 4}, stats.lognorm(0.5, scale=np.e)),
    ("Uniform", {"lower": 2, "upper": 5}, stats.uniform(2, 3)),
    ("Laplace", {"mu": 1, "b": 2}, stats.laplace(1, 2)),
    ("Logistic", {"mu": 1, "s": 2}, stats.logistic(1, 2)),
    ("Gumbel", {"mu": 1, "beta": 2}, stats.gumbel_r(1, 2)),
    ("Weibull", {"alpha": 2, "beta": 3}, stats.weibull_min(2, scale=3)),
    ("Pareto", {"alpha": 2, "m": 3}, stats.pareto(2, scale=3)),
    ("TruncatedNormal", {"mu": 0, "sigma": 1, "lower": 1, "upper": 3}, stats.truncnorm(1, 3)),
    ("TruncatedNormal", {"mu": 0, "sigma": 1, "lower": 9}, stats.truncnorm(9, np.inf)),
    ("TruncatedNormal", {"mu": 2, "sigma": 2, "upper": 3}, stats.truncnorm(-np.inf, 0.5, 2, 2)),
    ("Beta", {"alpha": 2, "beta": 3}, stats.beta(2, 3)),
    ("Beta", {"mu": 0.4, "nu": 5}, stats.beta(2, 3)),
    ("Beta", {"mu": 0.4, "sigma": 0.2}, stats.beta(2, 3)),
]


@pytest.mark.parametrize(("name", "arguments", "truth"), CASES, ids=lambda c: c if isinstance(c, str) else "")
def test_agrees_with_scipy(name, arguments, truth):
    function, lower, upper, proper = log_density(name, arguments)
    x = truth.ppf(np.linspace(0.001, 0.999, 41))
    np.testing.assert_allclose(function(x), truth.logpdf(x), rtol=1e-11, atol=1e-11)
    assert proper
    assert (lower, upper) == truth.support()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("HalfStudentT", {"nu": 4, "sigma": 2}),
        ("HalfStudentT", {"nu": 4, "lam": 2}),
        ("Kumaraswamy", {"a": 2, "b": 3}),
        ("LogitNormal", {"mu": 0.5, "sigma": 0.7}),
    ],
)
def test_integrates_to_one(name, arguments):
    function, lower, upper, proper = log_density(name, arguments)
    assert proper
    assert integrate.quad(lambda x: float(np.exp(function(np.array(x)))), lower, upper)[0] == pytest.approx(1, abs=1e-8)


def test_half_student_t_is_the_folded_t():
    x = np.linspace(0.1, 9, 20)
    got = log_density("HalfStudentT", {"nu": 3, "sigma": 2})[0](x)
    np.testing.assert_allclose(got, np.log(2) + stats.t(3, 0, 2).logpdf(x), rtol=1e-12)


def test_improper_priors():
    for name, support in (("Flat", (-np.inf, np.inf)), ("HalfFlat", (0.0, np.inf))):
        function, lower, upper, proper = log_density(name, {})
        assert (lower, upper) == support
        assert not proper
        assert np.all(function(np.array([0.5, 7.0])) == 0)


@pytest.mark.parametrize(
    ("name", "arguments", "code", "match"),
    [
        ("HalfCauchi", {"beta": 1}, "model.not-a-distribution", "HalfCauchy"),
        ("HalfCauchy", {"bet": 1}, "model.unknown-parameter", "HalfCauchy.*'bet'"),
        ("HalfCauchy", {}, "model.incomplete", "'beta'"),
        ("HalfNormal", {"sigma": -1}, "model.out-of-range", "sigma"),
        ("Normal", {"sigma": 1, "tau": 1}, "model.conflict", "Normal.*sigma"),
        ("Gamma", {"alpha": 1}, "model.wrong-arguments", "alpha"),
        ("Uniform", {"lower": 1, "upper": 0}, "model.out-of-range", "lower.*upper"),
    ],
)
def test_says_what_is_wrong(name, arguments, code, match):
    with refused(code, match):
        log_density(name, arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "x", "truth"),
    [
        ("LogNormal", {"mu": 0.0, "sigma": 1.0}, 0.0, stats.lognorm(1)),
        ("InverseGamma", {"alpha": 2.0, "beta": 1.0}, 0.0, stats.invgamma(2)),
        ("Wald", {"mu": 1.0, "lam": 1.0}, 0.0, stats.invgauss(1)),
        ("Exponential", {"lam": 2.0}, 0.0, stats.expon(scale=0.5)),
        ("Beta", {"alpha": 1.0, "beta": 1.0}, 1.0, stats.beta(1, 1)),
        ("Gamma", {"alpha": 2.0, "beta": 1.0}, 0.0, stats.gamma(2)),
    ],
)
def test_at_an_end_of_the_support_the_density_says(name, arguments, x, truth):
    """Open ends have density zero, NaN before; closed ones what the density is there."""
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = truth.logpdf(x)
    assert log_densities(name, arguments, np.array([x]))[0] == pytest.approx(expected)
    assert float(Law(name, arguments).log_density(np.array(x))) == pytest.approx(expected)
