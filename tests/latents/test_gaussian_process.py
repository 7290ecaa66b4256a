"""Gaussian processes given their hyperparameters: closed forms, scikit-learn, differences, refitting."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from bayeslab.latents.gaussian_process import covariance_kernels as compiled
from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gaussian_process import (
    GaussianProcess,
    NotPositiveDefinite,
    factor,
    likelihood_words,
)
from tests.refusals import refused

RNG = np.random.default_rng(1)
X = np.sort(RNG.uniform(0, 5, 40))[:, None]
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=40)
Z = np.linspace(-1, 6, 15)[:, None]
NONE = np.zeros(0)


def process(text, x=X, y=Y, noise=0.01, theta=NONE, **more):
    return GaussianProcess(Kernel.parse(text), theta, x, y, np.full(len(x), noise), **more)


def test_agrees_with_scikit_learn():
    ours = process("Matern52(x, 1.3, scale=0.8) + Periodic(x, 2.0, 0.7, 0.4)")
    kernel = 0.64 * sk.Matern(1.3, nu=2.5) + 0.16 * sk.ExpSineSquared(0.7, 2.0)
    theirs = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None).fit(X, Y)
    mean, covariance = theirs.predict(Z, return_cov=True)
    for found, want in zip(ours.joint(Z), (mean, covariance), strict=True):
        np.testing.assert_allclose(found, want, atol=1e-11)
    np.testing.assert_allclose(ours.predict(Z)[1], np.diagonal(covariance), atol=1e-11)
    assert ours.log_evidence == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-9)


def test_gp_prior():
    """gp-prior: y = X w with w ~ N(0, I / alpha) has covariance K = X X' / alpha; so have functions drawn with K's factor."""
    x, alpha, n = RNG.normal(size=(4, 2)), 2.5, 40_000
    kernel = Kernel.parse("Linear(a, b, s)", hyperparameters=["s"])
    k = kernel.matrix(np.array([alpha**-0.5]), x)
    np.testing.assert_allclose(k, x @ x.T / alpha, rtol=1e-13)
    lower, jitter = factor(kernel, np.array([alpha**-0.5]), x, np.zeros(4))
    assert jitter > 0  # rank 2 of 4: there is no factor without
    weights = RNG.normal(0, alpha**-0.5, (n, 2))
    for functions in (RNG.normal(size=(n, 4)) @ lower.T, weights @ x.T):
        found = functions.T @ functions / n
        error = np.sqrt((k**2 + np.outer(np.diagonal(k), np.diagonal(k))) / n)  # of a sample covariance
        assert (np.abs(found - k) < 4.5 * error + 2 * jitter).all()


def test_gp_regression():
    """gp-regression: with a linear kernel the answer is that of Bayesian linear regression."""
    x = np.column_stack([np.ones(40), X[:, 0], X[:, 0] ** 2])
    sd, noise = 1.7, 0.3
    ours = GaussianProcess(Kernel.parse("Linear(a, b, c, 1.7)"), NONE, x, Y, np.full(40, noise**2))
    precision = np.eye(3) / sd**2 + x.T @ x / noise**2
    mean, covariance = np.linalg.solve(precision, x.T @ Y / noise**2), np.linalg.inv(precision)
    z = np.column_stack([np.ones(15), Z[:, 0], Z[:, 0] ** 2])
    np.testing.assert_allclose(ours.predict(z)[0], z @ mean, atol=1e-9)
    np.testing.assert_allclose(ours.joint(z)[1], z @ covariance @ z.T, atol=1e-8)
    evidence = stats.multivariate_normal(np.zeros(40), sd**2 * x @ x.T + noise**2 * np.eye(40)).logpdf(Y)
    assert ours.log_evidence == pytest.approx(evidence, abs=1e-7)
    # The same as a mean whose coefficients are integrated out, beside a function that is next to nothing.
    other = process("ExpQuad(x, 1, 1e-7)", noise=noise**2, design=x, prior_variances=np.full(3, sd**2))
    np.testing.assert_allclose(other.coefficients()[0], mean, atol=1e-6)
    np.testing.assert_allclose(other.coefficients()[1], covariance, atol=1e-6)
    np.testing.assert_allclose(other.predict(Z, design=z)[0], z @ mean, atol=1e-6)


def test_gp_weights():
    """gp-weights: the mean as a kernel-weighted sum of the observations is k' C^-1 y."""
    kernel = Kernel.parse("ExpQuad(x, 0.8, 1.2)")
    ours = process(kernel.text)
    c = kernel.matrix(NONE, X) + 0.01 * np.eye(40)
    k = kernel.matrix(NONE, Z, X)
    np.testing.assert_allclose(k @ np.linalg.solve(c, Y), ours.predict(Z)[0], atol=1e-9)
    weights = np.linalg.solve(c, k.T)  # of each observation, for each place
    np.testing.assert_allclose(weights.T @ Y, ours.predict(Z)[0], atol=1e-9)
    one = np.array(
        [sum(ours.weights[i] * kernel.matrix(NONE, z[None], X[i : i + 1])[0, 0] for i in range(40)) for z in Z]
    )
    np.testing.assert_allclose(one, ours.predict(Z)[0], atol=1e-9)


def test_gp_variance():
    """gp-variance: the variance is the prior's far away, and about the noise's at a point measured once."""
    x, y = np.array([[0.0], [1.0], [5.0]]), np.array([0.5, -0.2, 1.0])
    ours = process("ExpQuad(x, 0.3, 2)", x, y, noise=0.01)
    far, sparse, at = ours.predict(np.array([[100.0], [3.0], [5.0]]))[1]
    assert far == pytest.approx(4.0, abs=1e-12)
    assert sparse == pytest.approx(4.0, rel=1e-4)
    assert at == pytest.approx(1 / (1 / 4 + 1 / 0.01), rel=1e-6) and at == pytest.approx(0.01, rel=0.01)


def test_gp_width():
    """gp-width: the longer the lengthscale, the smoother: the total variation of the mean falls."""
    fine = np.linspace(0, 5, 400)[:, None]
    variation = [
        np.abs(np.diff(process(f"ExpQuad(x, {s}, 1)", noise=0.2).predict(fine)[0])).sum() for s in (0.1, 0.3, 1, 3, 10)
    ]
    assert (np.diff(variation) < 0).all(), variation


def arrays(text, x, y, design, known):
    kernel = Kernel.parse(text)
    inputs = np.ascontiguousarray(x.T)
    return kernel, lambda p: compiled.log_marginal(p, *kernel.program, inputs, y, design, known, np.zeros(1))


@pytest.mark.slow(why="statistical")
def test_gp_hyper():
    """gp-hyper: level-II maximum likelihood reaches the maximum of a grid, and scikit-learn's."""
    _, density = arrays("ExpQuad(x)", X, Y, np.empty((40, 0)), np.full(40, 0.01))

    def falling(u):
        value, gradient = density(np.append(np.exp(u), 0.0))
        return -value, -gradient[:2] * np.exp(u)

    found = minimize(falling, np.zeros(2), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 1e-15})
    everywhere = [[-falling(np.array([a, b]))[0] for b in np.linspace(-2, 3, 16)] for a in np.linspace(-3, 3, 19)]
    assert -found.fun >= np.max(everywhere)
    steps = np.linspace(-0.35, 0.35, 8)  # the maximum is between two of them
    around = [[-falling(found.x + np.array([a, b]))[0] for b in steps] for a in steps]
    assert 0 <= -found.fun - np.max(around) < 0.1
    peer = GaussianProcessRegressor(sk.ConstantKernel() * sk.RBF(), alpha=0.01).fit(X, Y)
    assert -found.fun == pytest.approx(peer.log_marginal_likelihood_value_, abs=1e-6)


def test_log_marginal_and_its_gradient():
    n = 30
    design, known = np.column_stack([np.ones(n), X[:n, 0]]), RNG.uniform(0, 0.1, n)
    kernel, density = arrays("Matern52(x) + Periodic(x) * Linear(x)", X[:n], Y[:n], design, known)
    p = np.append(RNG.uniform(0.5, 1.5, len(kernel.names)), [0.3, 0.2, -0.1])
    c = kernel.matrix(p[:-3], X[:n]) + np.diag(known + 0.09)
    value, gradient = density(p)
    assert value == pytest.approx(stats.multivariate_normal(design @ p[-2:], c).logpdf(Y[:n]), abs=1e-9)
    step = 1e-6
    differences = [(density(p + step * e)[0] - density(p - step * e)[0]) / (2 * step) for e in np.eye(len(p))]
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-5)


@pytest.mark.slow(why="large")
@pytest.mark.parametrize(
    ("likelihood", "link", "y", "law"),
    [
        ("student_t", "identity", RNG.normal(size=30), lambda e: stats.t(3.0, e, 0.7)),
        ("bernoulli", "logit", RNG.integers(0, 2, 30), lambda e: stats.bernoulli(1 / (1 + np.exp(-e)))),
        ("bernoulli", "probit", RNG.integers(0, 2, 30), lambda e: stats.bernoulli(stats.norm.cdf(e))),
        ("binomial", "logit", RNG.integers(0, 6, 30), lambda e: stats.binom(5, 1 / (1 + np.exp(-e)))),
        ("binomial", "probit", RNG.integers(0, 6, 30), lambda e: stats.binom(5, stats.norm.cdf(e))),
        ("poisson", "log", RNG.poisson(2, 30), lambda e: stats.poisson(np.exp(e))),
        ("negative_binomial", "log", RNG.poisson(2, 30), lambda e: stats.nbinom(0.7, 0.7 / (0.7 + np.exp(e)))),
    ],
)
def test_whitened_likelihoods_and_their_gradients(likelihood, link, y, law):
    kernel, m = Kernel.parse("Matern52(x) + Linear(x)"), 12
    x, place = np.linspace(0, 3, m)[:, None], RNG.integers(0, m, 30)
    design = np.column_stack([np.ones(30), RNG.normal(size=30)])
    p = np.concatenate([RNG.uniform(0.5, 1.5, 3), [0.7, 3.0, 0.2, 0.3], RNG.normal(size=m)])
    inputs, share, words = np.ascontiguousarray(x.T), np.array([1e-4]), likelihood_words(likelihood, link)
    rest = (place, y.astype(float), np.full(30, 5.0), design, share, words)
    value, gradient = compiled.log_likelihood_whitened(p, *kernel.program, inputs, *rest)
    k = kernel.matrix(p[:3], x)
    lower = np.linalg.cholesky(k + 1e-4 * np.mean(np.diagonal(k)) * np.eye(m))
    frozen = law(design @ p[5:7] + (lower @ p[7:])[place])
    want = frozen.logpdf(y) if likelihood == "student_t" else frozen.logpmf(y)
    assert value == pytest.approx(want.sum(), abs=1e-9)
    step = 1e-6
    differences = [
        (
            compiled.log_likelihood_whitened(p + step * e, *kernel.program, inputs, *rest)[0]
            - compiled.log_likelihood_whitened(p - step * e, *kernel.program, inputs, *rest)[0]
        )
        / (2 * step)
        for e in np.eye(len(p))
    ]
    if likelihood in ("bernoulli", "binomial", "poisson"):
        gradient[3:5], differences[3:5] = 0.0, [0.0, 0.0]
    np.testing.assert_allclose(gradient, differences, rtol=1e-4, atol=1e-5)


def test_tails_of_the_normal_distribution():
    for x in (-40.0, -8.1, -7.9, 0.3, 9.0):
        value, slope = compiled.log_normal_cdf(x)
        assert value == pytest.approx(stats.norm.logcdf(x), rel=1e-6)
        assert slope == pytest.approx(np.exp(stats.norm.logpdf(x) - stats.norm.logcdf(x)), rel=1e-4)


def test_leave_one_out_is_refitting():
    ours = process("Matern32(x, 0.9, 1.1)", noise=0.04)
    found = ours.leave_one_out()
    for i in (0, 17, 39):
        other = process("Matern32(x, 0.9, 1.1)", np.delete(X, i, 0), np.delete(Y, i), noise=0.04)
        mean, variance = other.predict(X[i : i + 1])
        assert found.mean[i] == pytest.approx(mean[0], abs=1e-10)
        assert found.variance[i] == pytest.approx(variance[0] + 0.04, abs=1e-10)
        assert found.log_density[i] == pytest.approx(stats.norm(mean[0], np.sqrt(variance[0] + 0.04)).logpdf(Y[i]))


def test_components_add_up():
    ours = process("ExpQuad(x, 1, 1) + Linear(x, 0.5) + White(0.2)")
    parts = ours.components(Z)
    assert list(parts) == ["ExpQuad(x, 1, 1)", "Linear(x, 0.5)"]
    np.testing.assert_allclose(sum(mean for mean, _ in parts.values()), ours.predict(Z)[0], atol=1e-10)


def test_repairs_are_reported_and_limited():
    """Doubled inputs without noise: a millionth of the variance is added and told; contradictions are not mended."""
    doubled = np.repeat(np.linspace(0, 1, 5), 2)[:, None]
    kernel = Kernel.parse("ExpQuad(x, 1, 3)")
    lower, jitter = factor(kernel, NONE, doubled, np.zeros(10))
    assert 0 < jitter <= 9e-6 * (1 + 1e-12)
    np.testing.assert_allclose(lower @ lower.T, kernel.matrix(NONE, doubled) + jitter * np.eye(10), atol=1e-12)
    assert factor(kernel, NONE, doubled, np.full(10, 0.1))[1] == 0.0
    assert factor(kernel, NONE, doubled, np.zeros(10), nugget=1e-4)[1] == pytest.approx(9e-4)
    broken = Kernel.parse("Brownian(x, 1)")  # of negative inputs: no covariance
    with refused("model.not-a-covariance", r"'Brownian\(x, 1\)'", kind=NotPositiveDefinite):
        factor(broken, NONE, np.array([[-1.0], [2.0]]), np.zeros(2))
