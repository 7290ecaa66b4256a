"""Laplace's approximation: modes, determinants and gradients by other routes, and quadrature in one dimension."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import bernoulli, binom, nbinom, norm, poisson, t

from bayeslab.latents.gaussian_process import gp_likelihoods as likelihoods
from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.laplace_gp import LaplaceRegression
from tests.refusals import refused

KERNEL = Kernel.parse("Matern32(a) + ExpQuad(a, b)")
THETA = np.array([1.1, 0.9, 0.8, 1.6, 0.7])
N = 30


def data():
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, (N, 2))
    f = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1]
    return x, f, rng


def case(word):
    """The likelihood, values of its parameters, and log p(y | f) by scipy."""
    _, f, rng = data()
    exposure, trials = rng.uniform(0.5, 3, N), rng.integers(1, 9, N).astype(float)
    p = 1 / (1 + np.exp(-f))
    match word:
        case "bernoulli":
            y = rng.binomial(1, p).astype(float)
            return likelihoods.Bernoulli(y), [], lambda f: bernoulli.logpmf(y, 1 / (1 + np.exp(-f)))
        case "probit":
            y = rng.binomial(1, p).astype(float)
            return likelihoods.Probit(y), [], lambda f: bernoulli.logpmf(y, norm.cdf(f))
        case "binomial":
            y = rng.binomial(trials.astype(int), p).astype(float)
            return likelihoods.Binomial(y, trials), [], lambda f: binom.logpmf(y, trials, 1 / (1 + np.exp(-f)))
        case "poisson":
            y = rng.poisson(exposure * np.exp(f)).astype(float)
            return likelihoods.Poisson(y, exposure), [], lambda f: poisson.logpmf(y, exposure * np.exp(f))
        case "negative_binomial":
            y = rng.poisson(exposure * np.exp(f)).astype(float)
            return (
                likelihoods.NegativeBinomial(y, exposure),
                [2.5],
                lambda f: nbinom.logpmf(y, 2.5, 2.5 / (2.5 + exposure * np.exp(f))),
            )
        case _:
            y = f + 0.2 * rng.standard_t(3, N)
            y[4] += 4.0  # an outlier, where the likelihood is convex
            return likelihoods.StudentT(y), [3.0, 0.25], lambda f: t.logpdf(y, 3, f, 0.25)


WORDS = ["bernoulli", "probit", "binomial", "poisson", "negative_binomial", "student_t"]


@pytest.mark.parametrize("word", WORDS)
def test_derivatives_of_likelihoods(word):
    likelihood, values, reference = case(word)
    values, f = np.array(values), np.linspace(-2, 2, N)
    found, step = likelihood.at(f, values), 1e-5
    np.testing.assert_allclose(found.value, reference(f), rtol=1e-9, atol=1e-10)
    up, down = likelihood.at(f + step, values), likelihood.at(f - step, values)
    for slope, upper, lower in (
        (found.slope, up.value, down.value),
        (-found.curvature, up.slope, down.slope),
        (found.change, up.curvature, down.curvature),
    ):
        np.testing.assert_allclose(slope, (upper - lower) / (2 * step), rtol=1e-6, atol=1e-6)
    for k, e in enumerate(step * np.eye(len(values))):
        up, down = likelihood.at(f, values + e), likelihood.at(f, values - e)
        for ours, name in zip(found.by_parameter[k], ("value", "slope", "curvature"), strict=True):
            numeric = (getattr(up, name) - getattr(down, name)) / (2 * step)
            np.testing.assert_allclose(ours, numeric, rtol=1e-6, atol=1e-6)
    assert np.all(likelihood.steep(f, values) >= 0)


@pytest.mark.parametrize("word", WORDS)
def test_mode_and_evidence_by_the_definition(word):
    likelihood, values, reference = case(word)
    x, _, _ = data()
    model = LaplaceRegression(KERNEL, x, likelihood, np.ones((N, 1)))
    parameters = np.array([*THETA, *values, 0.3])
    found = model.posterior(parameters)
    k = KERNEL.matrix(THETA, x)
    precision = np.linalg.inv(k)

    def negative(f):
        return -reference(f).sum() + 0.5 * (f - 0.3) @ precision @ (f - 0.3)

    # No search from the mode we found gets higher.
    again = minimize(negative, found.mode, method="BFGS")
    assert negative(found.mode) <= again.fun + 1e-7
    hessian = precision + np.diag(likelihood.at(found.mode, np.array(values)).curvature)
    expected = -negative(found.mode) - 0.5 * np.linalg.slogdet(k)[1] - 0.5 * np.linalg.slogdet(hessian)[1]
    assert found.log_evidence == pytest.approx(expected, abs=1e-6)
    covariance = np.linalg.inv(hessian)
    mean, variance = found.predict(x)
    np.testing.assert_allclose(mean + 0.3, found.mode, atol=1e-6)
    np.testing.assert_allclose(variance, np.diag(covariance), atol=1e-6)
    np.testing.assert_allclose(found.joint(x)[1], covariance, atol=1e-6)
    total = sum(m for m, _ in found.components(x[:4]).values())
    np.testing.assert_allclose(total, found.predict(x[:4])[0], atol=1e-9)


@pytest.mark.parametrize("word", WORDS)
def test_gradient_counts_in_that_the_mode_moves(word):
    likelihood, values, _ = case(word)
    x, _, _ = data()
    model = LaplaceRegression(KERNEL, x, likelihood, np.column_stack([np.ones(N), x[:, 0]]))
    parameters, step = np.array([*THETA, *values, 0.3, -0.2]), 1e-5
    numeric = [
        (model.log_marginal(parameters + e)[0] - model.log_marginal(parameters - e)[0]) / (2 * step)
        for e in step * np.eye(len(parameters))
    ]
    np.testing.assert_allclose(model.log_marginal(parameters)[1], numeric, rtol=2e-5, atol=2e-5)


def test_one_row_against_quadrature():
    """p(y) and E[y] of one count are integrals over one latent value; Laplace is near, quadrature of the mean exact."""
    kernel = Kernel.parse("ExpQuad(a)")
    likelihood = likelihoods.Poisson(np.array([7.0]), np.ones(1))
    found = LaplaceRegression(kernel, np.zeros((1, 1)), likelihood, np.zeros((1, 0))).posterior(np.array([1.0, 1.0]))
    evidence = quad(lambda f: norm.pdf(f) * poisson.pmf(7, np.exp(f)), -8, 8)[0]
    assert found.log_evidence == pytest.approx(np.log(evidence), abs=0.02)
    mean, variance = found.predict(np.zeros((1, 1)))
    expected = quad(lambda f: norm.pdf(f, mean[0], variance[0] ** 0.5) * np.exp(f), -10, 10)[0]
    assert found.predict_mean(np.zeros((1, 1)), np.zeros(1))[0] == pytest.approx(expected, rel=1e-8)
    assert found.predict_mean(np.zeros((1, 1)), np.zeros(1))[0] == pytest.approx(
        np.exp(mean + variance / 2)[0], rel=1e-8
    )


def test_outcomes_are_checked():
    with refused("data.impossible-value", "row 1"):
        likelihoods.Bernoulli(np.array([0.0, 2.0]))
    with refused("data.not-whole", "row 0"):
        likelihoods.Poisson(np.array([0.5]), np.ones(1))
    with refused("data.impossible-value", "row 0"):
        likelihoods.Binomial(np.array([3.0]), np.array([2.0]))


def test_leave_one_out_is_near_fitting_again():
    likelihood, _, _ = case("bernoulli")
    x, _, _ = data()
    found = LaplaceRegression(KERNEL, x, likelihood, np.ones((N, 1))).posterior(np.array([*THETA, 0.3])).leave_one_out()
    for row in (0, 11, 29):
        rest = np.arange(N) != row
        again = LaplaceRegression(
            KERNEL, x[rest], likelihoods.Bernoulli(likelihood.y[rest]), np.ones((N - 1, 1))
        ).posterior(np.array([*THETA, 0.3]))
        p = again.predict_mean(x[row : row + 1], np.full(1, 0.3))[0]
        expected = np.log(p if likelihood.y[row] else 1 - p)
        assert found.log_density[row] == pytest.approx(expected, abs=0.03)
        mean, variance = again.predict(x[row : row + 1])
        assert found.mean[row] == pytest.approx(mean[0], abs=0.1)
        assert found.variance[row] == pytest.approx(variance[0], rel=0.1)


@pytest.mark.parametrize("count", [0.0, 3.0])
def test_the_distance_of_mean_and_mode_is_that_of_quadrature(count):
    """One row: a normal prior times a Poisson likelihood, whose posterior is nearly normal and a little skew."""
    kernel, scale, x = Kernel.parse("ExpQuad(a)"), 0.5, np.zeros((1, 1))
    regression = LaplaceRegression(kernel, x, likelihoods.Poisson(np.array([count]), np.ones(1)), np.zeros((1, 0)))
    process = regression.posterior(np.array([1.0, scale]))
    density = lambda f: np.exp(poisson.logpmf(count, np.exp(f)) + norm.logpdf(f, 0.0, scale))  # noqa: E731
    total, first, second = (quad(lambda f, k=k: f**k * density(f), -5, 5)[0] for k in (0, 1, 2))
    mean = first / total
    distance = (mean - process.mode[0]) / np.sqrt(second / total - mean**2)
    assert process.mean_from_mode[0] == pytest.approx(distance, rel=0.15)
    assert process.mean_from_mode[0] < 0.0


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("word", ["poisson", "student_t"])
def test_errors_are_those_of_quadrature(word):
    """One row: Laplace's normal against the moments of the posterior, skew for a count and with heavy tails for t."""
    if word == "poisson":
        likelihood, values, logpmf = likelihoods.Poisson(np.zeros(1), np.ones(1)), [], poisson.logpmf
        log_density, response = (lambda f: logpmf(0, np.exp(f))), np.exp
    else:
        likelihood, values = likelihoods.StudentT(np.array([0.4])), [4.0, 0.3]
        log_density, response = (lambda f: t.logpdf(0.4, 4, f, 0.3)), (lambda f: f)
    regression = LaplaceRegression(Kernel.parse("ExpQuad(a)"), np.zeros((1, 1)), likelihood, np.zeros((1, 0)))
    process = regression.posterior(np.array([1.0, 2.0, *values]))

    def expected(g):
        return quad(lambda f: g(f) * np.exp(log_density(f) + norm.logpdf(f, 0.0, 2.0)), -14, 8, points=[0.4])[0]

    def moments(g):
        total, first, second = (expected(lambda f, k=k: g(f) ** k) for k in (0, 1, 2))
        return first / total, np.sqrt(second / total - (first / total) ** 2)

    (mean, sd), (response_mean, response_sd) = moments(lambda f: f), moments(response)
    (laplace_sd,) = np.sqrt(process.predict(np.zeros((1, 1)))[1])
    (laplace_response,) = process.predict_mean(np.zeros((1, 1)), np.zeros(1))
    found = process.errors(np.random.default_rng(1))
    # 24,000 draws, of which about one in five counts
    assert found.mean[0] == pytest.approx((process.mode[0] - mean) / sd, abs=0.06)
    # chains that begin at Laplace's normal reach heavy tails late
    assert found.log_sd[0] == pytest.approx(np.log(laplace_sd / sd), abs=0.1)
    assert found.response[0] == pytest.approx((laplace_response - response_mean) / response_sd, abs=0.06)
    assert max(abs(found.log_sd[0]), abs(found.response[0])) > 0.3
