"""Processes as sums of fixed functions: against dense formulas, the exact process, and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, nbinom

from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gaussian_process import GaussianProcess
from bayeslab.latents.gaussian_process.gp_likelihoods import NegativeBinomial
from bayeslab.latents.gaussian_process.hilbert_gp import HilbertLatent, HilbertRegression, choose_basis
from tests.refusals import refused

MIXED = Kernel.parse(
    "ExpQuad(a, b) + Matern52(a) * Matern32(b, 1.3) + 0.5 * Periodic(a, 2.5) + Linear(b) + Constant() + White()"
)


def rows(n=80):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 3, (n, 2))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] + 0.2 * rng.normal(size=n), rng


def regression(kernel=MIXED, known=None, **options):
    x, y, _ = rows()
    limits = {p.name: (0.5, 2.0) for p in kernel.parameters if p.role == "lengthscale"}
    if len(kernel.columns) == 1:
        x, y = x[:, :1], y - x[:, 1]
    known = np.full(len(y), 0.02) if known is None else known
    design = np.column_stack([np.ones(len(y)), x[:, 0]])
    return HilbertRegression(kernel, x, y, design, known, choose_basis(kernel, x, limits, **options))


def parameters_of(kernel, rng):
    return np.array([*rng.uniform(0.7, 1.4, len(kernel.parameters)), 0.3, 0.2, -0.1])


@pytest.mark.parametrize("equal", [True, False])
def test_evidence_and_predictions_of_the_linear_model(equal):
    _, _, rng = rows()
    known = np.full(80, 0.02) if equal else rng.uniform(0.01, 0.1, 80)
    model, parameters = regression(known=known, functions=9), parameters_of(MIXED, rng)
    theta, k = parameters[: len(MIXED.parameters)], len(MIXED.parameters)
    s, _ = model.basis.variances(theta)
    features = model.basis.features(model.x)
    signal = (features * s) @ features.T
    white = theta[MIXED.names.index("White_scale")] ** 2
    covariance = signal + np.diag(known + 0.3**2 + white)
    residuals = model.y - model.design @ parameters[k + 1 :]
    expected = multivariate_normal(np.zeros(80), covariance).logpdf(residuals)
    found = model.posterior(parameters)
    assert found.log_evidence == pytest.approx(expected, abs=1e-7)
    assert model.log_marginal(parameters)[0] == pytest.approx(expected, abs=1e-7)
    solved = np.linalg.solve(covariance, np.column_stack([residuals, signal]))
    mean, variance = found.predict(model.x)
    np.testing.assert_allclose(mean, signal @ solved[:, 0], atol=1e-8)
    np.testing.assert_allclose(variance, np.diag(signal - signal @ solved[:, 1:]), atol=1e-8)
    total = sum(m for m, _ in found.components(model.x).values())
    np.testing.assert_allclose(total, mean, atol=1e-9)
    left, precision = found.leave_one_out(), np.linalg.inv(covariance)
    np.testing.assert_allclose(left.variance, 1 / np.diag(precision), atol=1e-8)
    np.testing.assert_allclose(left.mean, residuals - precision @ residuals / np.diag(precision), atol=1e-8)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("equal", [True, False])
def test_gradient(equal):
    _, _, rng = rows()
    known = np.full(80, 0.02) if equal else rng.uniform(0.01, 0.1, 80)
    model, parameters, step = regression(known=known, functions=7), parameters_of(MIXED, rng), 1e-5
    numeric = [
        (model.log_marginal(parameters + e)[0] - model.log_marginal(parameters - e)[0]) / (2 * step)
        for e in step * np.eye(len(parameters))
    ]
    np.testing.assert_allclose(model.log_marginal(parameters)[1], numeric, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("text", ["ExpQuad(a)", "Matern52(a)", "Matern32(a)", "ExpQuad(a, b)", "Periodic(a, 3)"])
@pytest.mark.parametrize("length", [0.5, 2.0])
def test_the_chosen_box_serves_the_range_of_lengthscales(text, length):
    kernel = Kernel.parse(text)
    model = regression(kernel)
    theta = np.array([length] * (len(kernel.parameters) - 1) + [1.0])
    # The rules promise one hundredth of the variance for each column, at the edges too.
    assert model.basis.error(theta, model.x) < 0.015 * len(kernel.columns)
    parameters = np.array([*theta, 0.3, 0.0, 0.0])
    exact = GaussianProcess(kernel, theta, model.x, model.y, model.known + 0.09)
    z = np.random.default_rng(3).uniform(model.x.min(axis=0), model.x.max(axis=0), (20, len(kernel.columns)))
    ours, theirs = model.posterior(parameters).predict(z), exact.predict(z)
    spread, tolerance = np.sqrt(theirs[1]), 0.1 if len(kernel.columns) == 1 else 0.35
    assert (np.abs(ours[0] - theirs[0]) < tolerance * spread).all()
    np.testing.assert_allclose(np.sqrt(ours[1]), spread, rtol=tolerance)


@pytest.mark.parametrize("word", ["ExpQuad", "Matern52", "Matern32"])
@pytest.mark.parametrize("length", [0.6, 2.5])
def test_standard_deviations_are_right_up_to_the_edges(word, length):
    """Little noise shows what the sines leave out: within 3 % of the exact process, from edge to edge."""
    kernel, rng = Kernel.parse(f"{word}(a)"), np.random.default_rng(5)
    x = np.sort(rng.uniform(0, 10, 100))[:, None]
    basis = choose_basis(kernel, x, {f"{word}_lengthscale": (0.3, 2.5)}, domain={"a": (0.0, 10.0)})
    theta, y, none = np.array([length, 1.0]), np.sin(x[:, 0]), np.zeros(100)
    noise = 0.2
    ours = HilbertRegression(kernel, x, y, np.zeros((100, 0)), none, basis).posterior(np.array([*theta, noise]))
    exact, z = GaussianProcess(kernel, theta, x, y, none + noise**2), np.linspace(0, 10, 101)[:, None]
    (mean, variance), (wanted, spread) = ours.predict(z), exact.predict(z)
    np.testing.assert_allclose(np.sqrt(variance), np.sqrt(spread), rtol=0.03)
    assert (np.abs(mean - wanted) < 0.1 * np.sqrt(spread)).all()


def test_inputs_outside_the_domain_are_refused_with_what_to_write():
    model = regression(Kernel.parse("Matern32(a)"))
    process = model.posterior(np.array([1.0, 1.0, 0.3, 0.0, 0.0]))
    with refused("data.out-of-range", "'a'.*row 2.*9.*0.84.*9"):
        process.predict(np.array([[0.0], [9.0]]))
    x = rows()[0][:, :1]
    wide = choose_basis(model.kernel, x, {"Matern32_lengthscale": (0.5, 2.0)}, domain={"a": (-1.0, 9.0)})
    theta, parameters = np.array([1.0, 1.0]), np.array([1.0, 1.0, 0.3, 0.0, 0.0])
    ours = HilbertRegression(model.kernel, x, model.y, model.design, model.known, wide).posterior(parameters)
    exact = GaussianProcess(model.kernel, theta, x, model.y, model.known + 0.09)
    z = np.array([[4.0], [6.0], [9.0]])  # back to the prior, far from the data
    for found, wanted in zip(ours.predict(z), exact.predict(z), strict=True):
        np.testing.assert_allclose(found, wanted, atol=0.02)


def test_more_functions_come_nearer():
    kernel, theta, x = Kernel.parse("ExpQuad(a)"), np.array([0.5, 1.0]), rows()[0][:, :1]
    limits = {"ExpQuad_lengthscale": (0.5, 3.0)}
    bases = [choose_basis(kernel, x, limits, functions=m) for m in (6, 12, 24, 48)]
    errors = [basis.error(theta, x) for basis in bases]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-6
    served = [next(iter(basis.walls.values())).shortest for basis in bases]
    np.testing.assert_allclose(served[0] / np.array(served), [1, 2, 4, 8])


def test_what_has_no_such_form_is_named():
    x = rows()[0]
    for text, code, match in (
        ("Matern12(a)", "model.unsupported", "Matern12"),
        ("ExpQuad(a) * Matern32(a)", "model.unsupported", r"'ExpQuad\(a\) \* Matern32\(a\)'"),
        ("Periodic(a)", "model.unsupported", r"'Periodic\(a\)'"),
        ("Linear(a) * ExpQuad(b)", "model.unsupported", r"'Linear\(a\) \* ExpQuad\(b\)'"),
    ):
        with refused(code, match):
            choose_basis(Kernel.parse(text), x, {})
    kernel = Kernel.parse("ExpQuad(a, b)")
    limits = dict.fromkeys(kernel.names, (0.01, 1.0))
    with refused("model.too-costly"):
        choose_basis(kernel, x, limits)


def test_counts_around_unknown_weights():
    kernel = Kernel.parse("Matern52(a) + Linear(b)")
    x, _, rng = rows(50)
    basis = choose_basis(kernel, x, {"Matern52_lengthscale": (0.5, 2.0)}, functions=8)
    y = rng.poisson(2, 50).astype(float)
    model = HilbertLatent(kernel, x, NegativeBinomial(y, np.ones(50)), np.ones((50, 1)), basis)
    theta, raw = np.array([1.1, 0.8, 0.6]), rng.normal(size=basis.n_functions)
    parameters = np.array([*theta, 2.5, 0.3, *raw])
    value, gradient = model.log_likelihood(parameters)
    f = basis.features(x) @ (np.sqrt(basis.variances(theta)[0]) * raw) + 0.3
    assert value == pytest.approx(nbinom.logpmf(y, 2.5, 2.5 / (2.5 + np.exp(f))).sum())
    step = 1e-6
    numeric = [
        (model.log_likelihood(parameters + e)[0] - model.log_likelihood(parameters - e)[0]) / (2 * step)
        for e in step * np.eye(len(parameters))
    ]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.posterior(theta, raw).predict(x)[0] + 0.3, f)
