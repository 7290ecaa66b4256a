"""Gaussian processes as state-space models against the dense formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bayeslab.latents.gaussian_process import linear_sde, state_space
from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gaussian_process import GaussianProcess
from tests.refusals import refused

MIXED = (
    "Matern52(t, scale=s) + Matern32(t, scale=0.7) * Periodic(t, 2.2) + 0.3 * Cosine(t)"
    " + Constant() + Matern12(t) * (Matern32(t, length) + White())"
)


def dense(kernel, theta, x, y, noise):
    """Log likelihood, mean and variance of the process, and of each value given the others."""
    signal = kernel.matrix(theta, x[:, None], x[:, None].copy())
    covariance = kernel.matrix(theta, x[:, None]) + np.diag(np.broadcast_to(noise, len(x)))
    precision = np.linalg.inv(covariance)
    mean = signal @ precision @ y
    variance = np.diag(signal - signal @ precision @ signal)
    left_out = y - (precision @ y) / np.diag(precision), 1 / np.diag(precision)
    return multivariate_normal(np.zeros(len(x)), covariance).logpdf(y), mean, variance, left_out


def series(rng, n=70, width=10.0):
    x = rng.uniform(0, width, n)
    return x, np.sin(x) + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("word", ["Matern12", "Matern32", "Matern52"])
@pytest.mark.parametrize("regular", [True, False])
def test_matern_is_the_dense_process_at_two_hundred_points(word, regular):
    rng = np.random.default_rng(1)
    x = np.linspace(0, 10, 200) if regular else rng.uniform(0, 10, 200)
    y = np.sin(x) + 0.1 * rng.normal(size=200)
    kernel, theta = Kernel.parse(f"{word}(t)"), np.array([1.3, 0.9])
    expected, mean, variance, (left_mean, left_variance) = dense(kernel, theta, x, y, 0.01)
    sde = linear_sde.of_kernel(kernel, theta)
    assert state_space.log_likelihood(sde, x, y, 0.01) == pytest.approx(expected, abs=1e-8)
    found = state_space.smooth(sde, x, y, 0.01)
    np.testing.assert_allclose(found.mean, mean, atol=1e-8)
    np.testing.assert_allclose(found.variance, variance, atol=1e-8)
    np.testing.assert_allclose(found.left_out_mean, left_mean, atol=1e-8)
    np.testing.assert_allclose(found.left_out_variance, left_variance, atol=1e-8)


def test_sums_and_products_with_unequal_noise():
    rng = np.random.default_rng(2)
    x, y = series(rng)
    kernel = Kernel.parse(MIXED, columns=["t"], hyperparameters=["s", "length"])
    theta = rng.uniform(0.6, 1.4, len(kernel.parameters))
    noise = rng.uniform(0.02, 0.2, len(x))
    sde = linear_sde.of_kernel(kernel, theta)
    assert sde.error < 1e-8
    lags = np.linspace(0, 5, 11)[1:]
    np.testing.assert_allclose(
        sde.covariance(lags), kernel.matrix(theta, lags[:, None], np.zeros((1, 1)))[:, 0], atol=1e-8
    )
    expected, mean, variance, _ = dense(kernel, theta, x, y, noise)
    assert state_space.log_likelihood(sde, x, y, noise) == pytest.approx(expected, abs=1e-6)
    found = state_space.smooth(sde, x, y, noise)
    np.testing.assert_allclose(found.mean, mean, atol=1e-7)
    np.testing.assert_allclose(found.variance, variance, atol=1e-7)


@pytest.mark.slow(why="statistical")
def test_gradient_is_that_of_finite_differences():
    rng = np.random.default_rng(3)
    x, y = series(rng, 600, 60.0)  # more rows than are kept between checkpoints
    y[rng.uniform(size=600) < 0.1] = np.nan
    kernel = Kernel.parse(MIXED + " + ExpQuad(t)", columns=["t"], hyperparameters=["s", "length"])
    theta, noise = rng.uniform(0.6, 1.4, len(kernel.parameters)), 0.1

    def value(theta, noise=noise, y=y):
        return state_space.log_likelihood(linear_sde.of_kernel(kernel, theta), x, y, noise)

    found, gradient = state_space.log_likelihood_and_gradient(linear_sde.of_kernel(kernel, theta), x, y, noise)
    assert found == pytest.approx(value(theta), rel=1e-12)
    step = 1e-5
    numeric = [(value(theta + e) - value(theta - e)) / (2 * step) for e in step * np.eye(len(theta))]
    np.testing.assert_allclose(gradient.hyperparameters, numeric, rtol=1e-5, atol=1e-4)
    assert gradient.noise.sum() == pytest.approx((value(theta, 0.1 + 1e-6) - value(theta, 0.1 - 1e-6)) / 2e-6, rel=1e-5)
    row = int(np.flatnonzero(~np.isnan(y))[400])
    up, down = y.copy(), y.copy()
    up[row], down[row] = y[row] + step, y[row] - step
    assert gradient.values[row] == pytest.approx((value(theta, y=up) - value(theta, y=down)) / (2 * step), rel=1e-5)
    assert np.all(gradient.values[np.isnan(y)] == 0)


def test_new_times_terms_and_missing_values():
    rng = np.random.default_rng(4)
    x, y = series(rng, 50)
    kernel = Kernel.parse("Matern32(t) + Periodic(t, 3) + White()")
    theta = np.array([2.0, 0.8, 1.1, 0.5, 0.2])
    at = np.array([12.0, 3.3, x[7], -1.0])
    k, cross = kernel.matrix(theta, x[:, None]) + 0.05 * np.eye(50), kernel.matrix(theta, at[:, None], x[:, None])
    found = state_space.smooth(linear_sde.of_kernel(kernel, theta), x, y, 0.05, at)
    np.testing.assert_allclose(found.mean, cross @ np.linalg.solve(k, y), atol=1e-7)
    prior = kernel.free_of_noise().diagonal(theta, at[:, None])
    np.testing.assert_allclose(found.variance, prior - np.sum(cross.T * np.linalg.solve(k, cross.T), axis=0), atol=1e-7)
    for row, term in enumerate(list(kernel.components().values())[:2]):
        part = term.matrix(theta, at[:, None], x[:, None])
        np.testing.assert_allclose(found.term_mean[row], part @ np.linalg.solve(k, y), atol=1e-7)
        left = term.diagonal(theta, at[:, None]) - np.sum(part.T * np.linalg.solve(k, part.T), axis=0)
        np.testing.assert_allclose(found.term_variance[row], left, atol=1e-7)
    holes = np.where(np.arange(50) % 4 == 0, np.nan, y)
    seen = ~np.isnan(holes)
    sde = linear_sde.of_kernel(kernel, theta)
    assert state_space.log_likelihood(sde, x, holes, 0.05) == pytest.approx(
        state_space.log_likelihood(sde, x[seen], y[seen], 0.05), abs=1e-9
    )


@pytest.mark.parametrize("order", [6, 8, 10, 12])
def test_exponentiated_quadratic_is_as_near_as_it_says(order):
    sde = linear_sde.exponentiated_quadratic(1.7, 2.0, order)
    lags = np.linspace(0, 12, 100)
    worst = np.abs(sde.covariance(lags) - 2.0 * np.exp(-0.5 * (lags / 1.7) ** 2)).max()
    assert worst <= sde.error * 1.001
    assert worst > 0.5 * sde.error
    assert sde.error < 2.0 * {6: 4e-3, 8: 4e-4, 10: 5e-5, 12: 6e-6}[order]


def test_too_few_harmonics_are_owned_up_to():
    sde = linear_sde.periodic(3.0, 0.4, 1.0, harmonics=3)
    lags = np.linspace(0, 3, 60)
    worst = np.abs(sde.covariance(lags) - np.exp(-2 * np.sin(np.pi * lags / 3) ** 2 / 0.16)).max()
    assert 1e-3 < worst <= sde.error


@pytest.mark.slow(why="statistical")
def test_draws_have_the_posterior_s_moments():
    rng = np.random.default_rng(5)
    x, y = series(rng, 20)
    kernel, theta = Kernel.parse("Matern32(t) + ExpQuad(t)"), np.array([2.0, 0.8, 1.1, 0.5])
    sde, at = linear_sde.of_kernel(kernel, theta), np.array([1.0, 1.5, 11.0])
    draws = state_space.draw(sde, x, y, 0.05, at, rng, 4000)
    k, cross = kernel.matrix(theta, x[:, None]) + 0.05 * np.eye(20), kernel.matrix(theta, at[:, None], x[:, None])
    covariance = kernel.matrix(theta, at[:, None]) - cross @ np.linalg.solve(k, cross.T)
    z = (draws.mean(0) - cross @ np.linalg.solve(k, y)) / np.sqrt(np.diag(covariance) / 4000)
    assert np.abs(z).max() < 4
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(
        np.cov(draws.T) / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=4 * 1.5 / 4000**0.5
    )


def test_closely_spaced_rows_stay_stable():
    """A lengthscale of 100,000 steps, where noise covariances of a step are below rounding."""
    x = np.linspace(0, 0.3, 30_000)
    y = np.sin(x) + np.random.default_rng(6).normal(size=len(x))
    sde = linear_sde.matern(2.5, 1.0)
    value, gradient = state_space.log_likelihood_and_gradient(sde, x, y, 1.0)
    # The process hardly leaves a parabola: rank three.
    some = np.linspace(0, 0.3, 3000)
    mean = y.reshape(3000, 10).mean(1)
    within = -0.5 * (
        np.sum((y.reshape(3000, 10) - mean[:, None]) ** 2) + 27_000 * np.log(2 * np.pi) + 3000 * np.log(10)
    )
    middle = x.reshape(3000, 10).mean(1)
    assert np.all(np.isfinite(gradient.hyperparameters)) and len(some) == 3000
    grouped = state_space.log_likelihood(sde, middle, mean, 0.1)
    assert value == pytest.approx(grouped + within, abs=2e-3)


def test_bad_input_is_named():
    with refused("model.unsupported", "RationalQuadratic"):
        linear_sde.of_kernel(Kernel.parse("RationalQuadratic(t)"), np.ones(3))
    with refused("model.unsupported", "column.*2"):
        linear_sde.of_kernel(Kernel.parse("Matern32(t) + Matern32(u)"), np.ones(4))
    with refused("model.not-a-covariance"):
        state_space.log_likelihood(linear_sde.matern(1.5, 1.0), [0.0, 1.0, 1.0], [0.0, 1.0, 2.0], 0.0)
    with refused("data.wrong-shape", r"times.*\(2,\).*\(1,\)"):
        state_space.log_likelihood(linear_sde.matern(1.5, 1.0), [0.0, 1.0], [0.0], 0.1)
    with refused("option.unknown-word", "order"):
        linear_sde.matern(3.5, 1.0)
    with refused("model.too-costly"):
        linear_sde.periodic(1.0, 0.05) * linear_sde.periodic(1.3, 0.05)


def test_a_stretch_is_of_neighbours_in_time():
    rng = np.random.default_rng(8)
    x, y = series(rng, 40)
    model = state_space.StateSpaceRegression(Kernel.parse("Matern32(t)"), x[:, None], y, np.ones((40, 1)), y**2)
    found = model.stretch(0.25)
    order = np.argsort(x)[:10]
    np.testing.assert_array_equal(found.x[:, 0], x[order])
    np.testing.assert_array_equal(found.y, y[order])
    np.testing.assert_array_equal(found.known, y[order] ** 2)


def test_regression_and_process_have_the_shape_of_the_dense_ones():
    rng = np.random.default_rng(7)
    x, y = series(rng, 40)
    kernel = Kernel.parse("Matern32(t) + Periodic(t, 3, 1.2) + White()")
    design, known = np.column_stack([np.ones(40), x]), rng.uniform(0.01, 0.1, 40)
    parameters = np.array([2.0, 0.8, 0.5, 0.2, 0.3, 0.4, -0.1])
    z = np.array([[12.0], [3.3], [x[7]]])
    for variances in (known, known[:1].repeat(40)):
        model = state_space.StateSpaceRegression(kernel, x[:, None], y, design, variances)
        residuals = y - design @ parameters[5:]
        exact = GaussianProcess(kernel, parameters[:4], x[:, None], residuals, variances + 0.09)
        found = model.posterior(parameters)
        value, gradient = model.log_marginal(parameters)
        assert value == pytest.approx(exact.log_evidence, abs=1e-7) == found.log_evidence
        step = 1e-5
        numeric = [
            (model.log_marginal(parameters + e)[0] - model.log_marginal(parameters - e)[0]) / (2 * step)
            for e in step * np.eye(7)
        ]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-5)
        for ours, theirs in zip(
            (*found.predict(z), *found.joint(z)), (*exact.predict(z), *exact.joint(z)), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-7)
        for name, (mean, variance) in exact.components(z).items():
            np.testing.assert_allclose(found.components(z)[name], (mean, variance), atol=1e-7)
            term = kernel.components()[name]
            np.testing.assert_allclose(found.joint(z, term)[1], exact.joint(z, term)[1], atol=1e-7)
        np.testing.assert_allclose(found.leave_one_out().log_density, exact.leave_one_out().log_density, atol=1e-7)
