"""Inducing points against dense formulas, the exact process, and finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gaussian_process import GaussianProcess, NotPositiveDefinite
from bayeslab.latents.gaussian_process.sparse_gaussian_process import (
    SparseGaussianProcess,
    SparseRegression,
    choose_inducing,
    move_inducing,
)
from tests.refusals import refused

KERNEL = Kernel.parse("Matern32(a, b) + ExpQuad(a) + White()")
THETA = np.array([1.1, 0.7, 0.9, 1.6, 0.5, 0.2])


def rows(n=60):
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, (n, 2))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] + 0.2 * rng.normal(size=n), rng


def case(bound="vfe", m=12):
    x, y, rng = rows()
    noise = rng.uniform(0.02, 0.1, len(x))
    return SparseGaussianProcess(KERNEL, THETA, x, y, noise, x[:m] + 0.1, bound)


@pytest.mark.parametrize("bound", ["vfe", "fitc"])
def test_dense_formulas(bound):
    found = case(bound)
    signal = KERNEL.free_of_noise()
    cross = signal.matrix(THETA, found.x, found.inducing)
    q = cross @ np.linalg.solve(signal.matrix(THETA, found.inducing), cross.T)
    noise = found.noise + 0.2**2
    left = signal.diagonal(THETA, found.x) - np.diag(q)
    diagonal = noise + (left if bound == "fitc" else 0)
    expected = multivariate_normal(np.zeros(60), q + np.diag(diagonal)).logpdf(found.residuals)
    expected -= 0.5 * (left / noise).sum() if bound == "vfe" else 0
    assert found.log_evidence == pytest.approx(expected, abs=1e-5)
    z = found.x[:5] + 0.05
    to_z = signal.matrix(THETA, z, found.inducing) @ np.linalg.solve(signal.matrix(THETA, found.inducing), cross.T)
    solved = np.linalg.solve(q + np.diag(diagonal), np.column_stack([found.residuals, to_z.T]))
    mean, variance = found.predict(z)
    np.testing.assert_allclose(mean, to_z @ solved[:, 0], atol=1e-6)
    np.testing.assert_allclose(variance, signal.diagonal(THETA, z) - np.diag(to_z @ solved[:, 1:]), atol=1e-6)
    joint_mean, joint = found.joint(z)
    np.testing.assert_allclose(joint_mean, mean)
    np.testing.assert_allclose(np.diag(joint), variance)
    total = sum(found.predict(z, term)[0] for term in KERNEL.components().values())
    np.testing.assert_allclose(total, mean, atol=1e-9)


def test_all_rows_as_inducing_points_are_the_exact_process():
    x, y, _ = rows()
    exact = GaussianProcess(KERNEL, THETA, x, y, np.full(60, 0.05))
    for bound in ("vfe", "fitc"):
        found = SparseGaussianProcess(KERNEL, THETA, x, y, np.full(60, 0.05), x, bound)
        assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-4)
        z = x[:7] + 0.3
        for ours, theirs in zip(found.predict(z), exact.predict(z), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
        for name in ("mean", "variance", "log_density"):
            np.testing.assert_allclose(
                getattr(found.leave_one_out(), name), getattr(exact.leave_one_out(), name), atol=1e-4
            )


def test_the_bound_is_below_the_evidence_and_rises_with_points():
    x, y, rng = rows()
    exact = GaussianProcess(KERNEL, THETA, x, y, np.full(60, 0.05)).log_evidence
    order = rng.permutation(60)
    values = [
        SparseGaussianProcess(KERNEL, THETA, x, y, np.full(60, 0.05), x[order[:m]]).log_evidence
        for m in (1, 3, 10, 20, 40, 60)
    ]
    assert values == sorted(values)
    assert values[0] < exact - 1 and values[-1] <= exact + 1e-6


@pytest.mark.parametrize("bound", ["vfe", "fitc"])
def test_gradients(bound):
    x, y, _ = rows()
    design = np.column_stack([np.ones(60), x[:, 0]])
    model = SparseRegression(KERNEL, x, y, design, np.full(60, 0.01), x[:12] + 0.1, bound)
    parameters = np.array([*THETA, 0.2, 0.3, -0.1])
    value, gradient = model.log_marginal(parameters)
    assert value == pytest.approx(model.posterior(parameters).log_evidence)
    step = 1e-5
    numeric = [
        (model.log_marginal(parameters + e)[0] - model.log_marginal(parameters - e)[0]) / (2 * step)
        for e in step * np.eye(len(parameters))
    ]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-4)
    found = model.posterior(parameters)
    moves = found.inducing_gradient()
    for i, j in ((0, 0), (5, 1), (11, 0)):
        e = np.zeros_like(found.inducing)
        e[i, j] = step
        up, down = (replace(found, inducing=found.inducing + s * e).log_evidence for s in (1, -1))
        assert moves[i, j] == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-5)


@pytest.mark.slow(why="statistical")
def test_points_are_chosen_and_moved():
    x, y, rng = rows(200)
    noise = np.full(200, 0.05)
    found = {
        how: SparseGaussianProcess(KERNEL, THETA, x, y, noise, choose_inducing(KERNEL, THETA, x, 40, rng, how))
        for how in ("variance", "kmeans", "subset")
    }
    assert all(f.inducing.shape == (40, 2) for f in found.values())
    # The first pivots leave the least variance: the trace that is left is below that of random rows.
    left = {how: f._variances[1].sum() for how, f in found.items()}
    assert left["variance"] < left["subset"] and left["kmeans"] < left["subset"]
    moved = move_inducing(found["subset"], 20)
    exact = GaussianProcess(KERNEL, THETA, x, y, noise).log_evidence
    assert found["subset"].log_evidence + 1 < moved.log_evidence < exact
    twice = choose_inducing(KERNEL, THETA, np.vstack([x[:4], x[:4]]), 6, rng)
    assert len(twice) == 4
    with refused("option.unknown-word", "'kmeans'"):
        choose_inducing(KERNEL, THETA, x, 3, rng, "kmean")


def test_no_noise_is_refused():
    x, y, _ = rows()
    kernel = Kernel.parse("ExpQuad(a)")
    model = SparseRegression(kernel, x[:, :1], y, np.zeros((60, 0)), np.zeros(60), x[:5, :1])
    assert model.log_marginal(np.array([1.0, 1.0, 0.0]))[0] == -np.inf
    with refused("model.not-a-covariance", "inducing", kind=NotPositiveDefinite):
        _ = model.posterior(np.array([1.0, 1.0, 0.0])).log_evidence
