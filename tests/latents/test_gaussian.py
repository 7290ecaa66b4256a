"""Gaussian given a few scales: against conjugate closed forms and brute-force integrals."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import integrate as quad
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import betaln, logsumexp

from bayeslab.distributions import log_density
from bayeslab.exact.conjugate import NormalGamma, NormalInverseGamma, NormalKnownVariance
from bayeslab.exact.coordinates import Observations, coordinates
from bayeslab.exact.gaussian import GaussianModel, Rows, Scale, integrate
from tests.refusals import refused

RNG = np.random.default_rng(7)


def scale(name, distribution, **arguments):
    function, low, high, proper = log_density(distribution, arguments)
    return Scale(name, function, low, high, proper)


def test_known_variance():
    y = RNG.normal(2.0, 1.5, 9)
    rows = [Rows.of(np.ones((9, 1)), y, 1.5), Rows.of(np.ones((1, 1)), np.array([0.5]), 2.0)]
    merged = Rows(
        *(
            a + b
            for a, b in zip(
                *([getattr(r, n) for n in ("gram", "cross", "square", "count", "log_factors")] for r in rows),
                strict=True,
            )
        )
    )
    found = integrate(GaussianModel([merged], lambda v: np.ones((len(v[0]), 1)), [], []))
    truth = NormalKnownVariance(0.5, 2.0, 1.5)
    assert found.mean()[0] == pytest.approx(truth.update(y).mean(), rel=1e-12)
    assert found.variance()[0] == pytest.approx(truth.update(y).sd() ** 2, rel=1e-12)
    assert found.log_evidence == pytest.approx(truth.log_evidence(y), rel=1e-12)
    assert found.quantile(0.2)[0] == pytest.approx(truth.update(y).quantile(0.2), rel=1e-10)


def normal_gamma(y, mu, kappa, alpha, beta):
    precision = scale("tau", "Gamma", alpha=alpha, beta=beta)
    rows = [Rows.of(np.ones((len(y), 1)), y - mu), Rows.of(np.ones((1, 1)), np.zeros(1), kappa**-0.5)]
    return GaussianModel(
        rows, lambda v: np.stack([v[0] ** -0.5, v[0] ** -0.5], axis=1), [precision], [1.0], origin=np.array([mu])
    )


def test_normal_gamma():
    y = RNG.normal(2.0, 1.5, 9)
    found = integrate(normal_gamma(y, 0.5, 2.0, 3.0, 4.0))
    prior = NormalGamma(0.5, 2.0, 3.0, 4.0)
    after = prior.update(y)
    assert found.log_evidence == pytest.approx(prior.log_evidence(y), abs=1e-8)
    assert found.mean()[0] == pytest.approx(after.mean()[0], rel=1e-9)
    assert np.sqrt(found.variance()[0]) == pytest.approx(after.sd()[0], rel=1e-8)
    means, sds = found.scale_moments()
    assert (means[0], sds[0]) == pytest.approx((after.mean()[1], after.sd()[1]), rel=1e-8)
    for probability in (0.01, 0.5, 0.9):
        mean, precision = after.quantile(probability)
        assert found.quantile(probability)[0] == pytest.approx(mean, rel=1e-7)
        assert found.scale_quantile(0, probability) == pytest.approx(precision, rel=1e-6)


def test_flat_regression_is_student_t():
    x = np.column_stack([np.ones(15), RNG.normal(1e4, 1.0, 15)])  # far from the origin
    y = x @ [1.0, 0.5] + RNG.normal(0, 0.3, 15)
    found = integrate(GaussianModel([Rows.of(x, y)], lambda v: v[0][:, None], [scale("sigma", "HalfFlat")], [1.0]))
    truth = NormalInverseGamma.flat(2, uniform="sigma").update(x, y)
    np.testing.assert_allclose(found.mean(), truth.mean()[0], rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(found.variance()), truth.sd()[0], rtol=1e-5)
    np.testing.assert_allclose(found.quantile(0.9), truth.quantile(0.9)[0], rtol=1e-5)
    assert np.isnan(found.log_evidence)


def two_scales(y, group):
    """y ~ Normal(theta[group], sigma), theta ~ Normal(mu, tau), in residual coordinates."""
    n, k = len(y), group.max() + 1
    design = np.zeros((n, k + 1))
    design[:, 0] = 1
    design[np.arange(n), 1 + group] = 1
    apart = np.zeros((k, k + 1))
    apart[:, 1:] = np.eye(k)
    prior = Rows.of(np.eye(1, k + 1), np.zeros(1), 3.0)
    rows = [prior, Rows.of(apart, np.zeros(k)), Rows.of(design, y)]
    outputs = np.eye(k + 1) + np.outer(np.r_[0, np.ones(k)], np.eye(1, k + 1)[0])
    scales = [scale("tau", "HalfCauchy", beta=1.0), scale("sigma", "HalfNormal", sigma=2.0)]
    factors = lambda v: np.stack([np.ones_like(v[0]), v[0], v[1]], axis=1)  # noqa: E731
    return GaussianModel(rows, factors, scales, [1.0, 1.0], outputs)


@pytest.mark.slow(why="large")
def test_two_scales_against_a_brute_force_integral():
    group = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    y = np.array([1.0, 1.4, 0.7, -0.3, 0.2, 2.0, 1.5, 2.2, 2.4])
    found = integrate(two_scales(y, group))

    def likelihood(tau, sigma):
        cov = 9.0 + tau**2 * (group[:, None] == group) + sigma**2 * np.eye(9)
        return stats.multivariate_normal(np.zeros(9), cov).logpdf(y)

    u, w = np.linspace(-9, 6, 121), np.linspace(-4, 3, 121)
    height = np.array([[likelihood(np.exp(a), np.exp(b)) for b in w] for a in u])
    height += stats.halfcauchy.logpdf(np.exp(u))[:, None] + u[:, None]
    height += stats.halfnorm(scale=2).logpdf(np.exp(w)) + w
    cell = (u[1] - u[0]) * (w[1] - w[0])
    # Below e^-9 tau makes no difference to the likelihood; its prior mass there is known.
    assert found.log_evidence == pytest.approx(logsumexp(height) + np.log(cell), abs=5e-4)
    weights = np.exp(height - logsumexp(height))
    means, _ = found.scale_moments()
    assert means == pytest.approx([(weights.sum(1) * np.exp(u)).sum(), (weights.sum(0) * np.exp(w)).sum()], rel=1e-3)


def test_draws_have_the_posterior_s_moments():
    found = integrate(two_scales(np.array([1.0, 1.4, 0.7, -0.3, 0.2, 2.0]), np.array([0, 0, 1, 1, 2, 2])))
    beta, scales = found.draws(np.random.default_rng(8), 40_000)
    error = np.sqrt(found.variance() / 40_000)
    assert np.all(np.abs(beta.mean(axis=0) - found.mean()) < 4 * error)
    for d in range(2):
        for probability in (0.1, 0.5, 0.9):
            share = np.mean(scales[d] < found.scale_quantile(d, probability))
            assert share == pytest.approx(probability, abs=4 * np.sqrt(probability * (1 - probability) / 40_000))
    for probability in (0.05, 0.6):
        share = np.mean(beta < found.quantile(probability), axis=0)
        assert np.all(np.abs(share - probability) < 4 * np.sqrt(probability * (1 - probability) / 40_000))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Normal", {"mu": -1.0, "sigma": 2.0}),
        ("StudentT", {"nu": 3, "mu": 0.5, "sigma": 1.0}),
        ("Uniform", {"lower": -2, "upper": 1.5}),
    ],
)
def test_a_log_scale_on_any_support(name, arguments):
    y = RNG.normal(0.0, 0.8, 7)
    parameter = scale("log_sigma", name, **arguments)
    rows = [Rows.of(np.ones((7, 1)), y), Rows.of(np.ones((1, 1)), np.zeros(1))]

    def factors(v):
        with np.errstate(over="ignore"):
            f = np.exp(v[0])
        return np.stack([np.where((f > 1e-150) & (f < 1e150), f, np.nan), np.ones_like(f)], axis=1)

    found = integrate(GaussianModel(rows, factors, [parameter], [0.0]))

    def density(s):
        # y has covariance σ² I + 1 1'.
        v = np.exp(2 * s)
        square = (y @ y - y.sum() ** 2 / (7 + v)) / v
        return np.exp(
            -0.5 * (7 * np.log(2 * np.pi * v) + np.log1p(7 / v) + square) + log_density(name, arguments)[0](s)
        )

    low, high = max(parameter.lower, -12), min(parameter.upper, 25)
    total, first = (
        quad.quad(density, low, high, points=[-1, 0, 1])[0],
        quad.quad(lambda s: s * density(s), low, high, points=[-1, 0, 1])[0],
    )
    assert found.log_evidence == pytest.approx(np.log(total), abs=1e-6)
    assert found.scale_moments()[0][0] == pytest.approx(first / total, rel=1e-5)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (2.0, 0.3), (3.0, 2.0)])
def test_a_prior_that_grows_without_bound_at_its_upper_end(a, b):
    """Beta(a, b) for the sd of three rows of known mean; the integral is over the distance from 1, which is not rounded."""
    y = np.array([1.1, -0.9, 1.4])
    sigma = scale("sigma", "Beta", alpha=a, beta=b)
    rows = [Rows.of(np.zeros((3, 1)), y), Rows.of(np.ones((1, 1)), np.zeros(1))]
    found = integrate(GaussianModel(rows, lambda v: np.stack([v[0], np.ones_like(v[0])], axis=1), [sigma], [1.0]))
    u = np.linspace(-60, 250, 400_001)
    log_s, log_rest = -np.logaddexp(0, -u), -np.logaddexp(0, u)
    height = a * log_s + b * log_rest - betaln(a, b) - 3 * log_s - y @ y / 2 * np.exp(-2 * log_s)
    height -= 1.5 * np.log(2 * np.pi)
    weight = np.exp(height)
    total = np.trapezoid(weight, u)
    assert found.log_evidence == pytest.approx(np.log(total), abs=1e-6)
    assert found.scale_moments()[0][0] == pytest.approx(np.trapezoid(np.exp(log_s) * weight, u) / total, rel=1e-6)


def test_improper_posteriors_are_refused():
    y = np.array([1.0])
    sigma = scale("sigma", "HalfFlat")
    with refused("model.improper"):
        integrate(
            GaussianModel(
                [Rows.of(np.ones((1, 1)), y), Rows.of(np.ones((1, 1)), np.zeros(1))],
                lambda v: np.stack([v[0], np.ones_like(v[0])], axis=1),
                [sigma],
                [1.0],
            )
        )


def test_coefficients_that_cannot_be_told_apart():
    design = np.ones((6, 2))
    with refused("model.no-start"):
        integrate(
            GaussianModel(
                [Rows.of(design, np.arange(6.0))],
                lambda v: v[0][:, None],
                [scale("sigma", "HalfNormal", sigma=1.0)],
                [1.0],
            )
        )


@pytest.mark.slow(why="statistical")
def test_a_node_for_each_of_hundreds_of_steps_costs_its_entries():
    """A random walk: a square matrix of all coefficients for each step would be 216 MB."""
    size = 300
    steps = [Observations.normal(np.array([0]), np.zeros(1), np.full(1, 2.0), size)]
    for i in range(1, size):
        row = csr_array((np.array([-1.0, 1.0]), (np.zeros(2, int), np.array([i - 1, i]))), shape=(1, size))
        steps.append(Observations.of(row, np.zeros(1)))
    tracemalloc.start()
    found, ((gram, cross, square),) = coordinates([steps], np.ones(1), np.zeros(1, bool))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6
    covariance = 4.0 + np.minimum.outer(np.arange(size), np.arange(size))
    back = np.linalg.inv(found.transform.toarray())
    np.testing.assert_allclose(back.T @ gram @ back @ covariance, np.eye(size), atol=1e-9)
    assert square == 0 and not cross.any()
