"""What the theory of Bayesian regression says, on data: each statement against its formula.

References are to Alpaydın, Introduction to Machine Learning (3rd ed.), chapter 16.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, special, stats

import bayeslab as bl
from tests.refusals import refused

RNG = np.random.default_rng(11)
N = 40
X1, X2 = RNG.normal(size=N), RNG.normal(size=N)
TABLE = pd.DataFrame({"x": X1, "z": X2, "y": 1.0 + 0.8 * X1 - 0.5 * X2 + RNG.normal(0, 0.6, N)})
DESIGN = np.column_stack([np.ones(N), X1, X2])
Y = TABLE["y"].to_numpy()


def exact(formula: str, table: pd.DataFrame = TABLE, **priors: object) -> bl.Fit:
    model = bl.Model(model=bl.Regression(formula=formula, priors=priors))
    return bl.fit(model, table, "exact", runs=None, seed=3, progress=False)


def beta(fit: bl.Fit, statistic: str = "mean") -> np.ndarray:
    group = fit.data_tree["exact_posterior"].to_dataset().sel(statistic=statistic)
    parts = [group["Intercept"].to_numpy()] if "Intercept" in group else []
    return np.concatenate([np.atleast_1d(part) for part in [*parts, group["b"].to_numpy()]])


def test_flat_prior_is_least_squares():
    """Equation 16.19-16.22: w = (X'X)^-1 X'r, residuals orthogonal to the columns."""
    fit = exact("y ~ x + z", Intercept="Flat()", b="Flat()", sigma="HalfFlat()")
    np.testing.assert_allclose(beta(fit), np.linalg.lstsq(DESIGN, Y)[0], rtol=1e-10)
    np.testing.assert_allclose(DESIGN.T @ (Y - DESIGN @ beta(fit)), 0, atol=1e-9)


@pytest.mark.parametrize(("alpha", "noise"), [(2.0, 0.5), (0.01, 1.0), (50.0, 0.3)])
def test_normal_prior_and_known_noise(alpha, noise):
    """Equation 16.24: Σ = (α I + β X'X)^-1, mean β Σ X'r; the evidence is that of a normal vector."""
    scale = float(1 / np.sqrt(alpha))
    fit = exact("y ~ x + z", Intercept=f"Normal(0, {scale!r})", b=f"Normal(0, {scale!r})", sigma=noise)
    precision = 1 / noise**2
    covariance = np.linalg.inv(alpha * np.eye(3) + precision * DESIGN.T @ DESIGN)
    np.testing.assert_allclose(beta(fit), precision * covariance @ DESIGN.T @ Y, rtol=1e-9)
    np.testing.assert_allclose(beta(fit, "sd"), np.sqrt(np.diagonal(covariance)), rtol=1e-9)
    marginal = stats.multivariate_normal(np.zeros(N), noise**2 * np.eye(N) + DESIGN @ DESIGN.T / alpha)
    evidence = fit.data_tree["exact_posterior"].attrs["log_evidence"]
    assert evidence == pytest.approx(marginal.logpdf(Y), rel=1e-10)


def test_prior_precision_shrinks_and_noise_widens():
    """α to 0 gives least squares, α up moves to 0; β down widens the posterior."""

    def fitted(alpha: float, noise: float) -> bl.Fit:
        prior = f"Normal(0, {float(1 / np.sqrt(alpha))!r})"
        return exact("y ~ 0 + x + z", b=prior, sigma=noise)

    least = np.linalg.lstsq(DESIGN[:, 1:], Y)[0]
    np.testing.assert_allclose(beta(fitted(1e-8, 1.0)), least, rtol=1e-7)
    sizes = [np.linalg.norm(beta(fitted(alpha, 1.0))) for alpha in (0.1, 1.0, 10.0, 100.0, 1e4)]
    assert np.all(np.diff(sizes) < 0)
    assert sizes[-1] < 0.01
    widths = [beta(fitted(1.0, noise), "sd") for noise in (0.2, 1.0, 5.0)]
    assert np.all(np.diff(widths, axis=0) > 0)


def test_predictive_variance_adds_noise_and_uncertainty():
    """Equation 16.25: 1/β + x'Σx, by Monte Carlo over the posterior's draws."""
    fit = exact("y ~ 0 + x + z", b="Normal(0, 1)", sigma=0.6)
    new = pd.DataFrame({"x": [0.0, 1.0, 4.0], "z": [0.0, -1.0, 3.0]})
    covariance = np.linalg.inv(np.eye(2) + DESIGN[:, 1:].T @ DESIGN[:, 1:] / 0.36)
    rows = new.to_numpy()
    variance = 0.36 + np.einsum("ij,jk,ik->i", rows, covariance, rows)
    predicted = fit.predict(new)
    mean = rows @ (covariance @ DESIGN[:, 1:].T @ Y) / 0.36
    assert np.all(np.abs(predicted["mean"] - mean) < 4 * np.sqrt(variance / 4000))
    np.testing.assert_allclose(predicted["sd"] ** 2, variance, rtol=4 * np.sqrt(2 / 4000))


@pytest.mark.parametrize("declared", ["precision", "sigma2"])
def test_normal_gamma_prior(declared):
    """Section 16.4.2: a_N = a_0 + N/2, coefficients are t with 2 a_N degrees of freedom (the source's b_N is garbled)."""
    a0, b0, k = 3.0, 2.0, 1.5
    prior = {"precision": f"Gamma({a0}, {b0})"} if declared == "precision" else {"sigma2": f"InverseGamma({a0}, {b0})"}
    fit = exact("y ~ 0 + x + z", b=f"Normal(0, {k} * sigma)", **prior)
    design = DESIGN[:, 1:]
    precision = np.eye(2) / k**2 + design.T @ design
    mean = np.linalg.solve(precision, design.T @ Y)
    a_n = a0 + N / 2
    b_n = b0 + 0.5 * (Y @ Y - mean @ precision @ mean)
    scale = np.sqrt(b_n / a_n * np.diagonal(np.linalg.inv(precision)))
    posterior = stats.t(2 * a_n, mean, scale)
    np.testing.assert_allclose(beta(fit), mean, rtol=1e-9)
    np.testing.assert_allclose(beta(fit, "sd"), posterior.std(), rtol=1e-8)
    np.testing.assert_allclose(beta(fit, "q2.5"), posterior.ppf(0.025), rtol=1e-6)
    evidence = (
        special.gammaln(a_n) - special.gammaln(a0) + a0 * np.log(b0) - a_n * np.log(b_n)
        - 0.5 * np.linalg.slogdet(precision)[1] - 2 * np.log(k) - N / 2 * np.log(2 * np.pi)
    )  # fmt: skip
    assert fit.data_tree["exact_posterior"].attrs["log_evidence"] == pytest.approx(evidence, rel=1e-9)
    assert fit.posterior[declared].shape == (4, 1000)


def test_dual_prediction_is_the_primal():
    """Equation 16.28: a weighted sum over the training responses, with the kernel x'Σx'."""
    fit = exact("y ~ 0 + x + z", b="Normal(0, 2)", sigma=0.6)
    design, new = DESIGN[:, 1:], np.array([[0.3, -1.0], [2.0, 0.5]])
    covariance = np.linalg.inv(np.eye(2) / 4 + design.T @ design / 0.36)
    kernel = new @ covariance @ design.T / 0.36
    np.testing.assert_allclose(new @ beta(fit), kernel @ Y, rtol=1e-9)


@pytest.mark.parametrize("degree", [1, 2, 6])
def test_basis_functions_are_polynomial_regression(degree):
    """Figure 16.6: powers written out and orthogonal polynomials fit the same curve."""
    table = TABLE.assign(y=np.sin(2 * X1) + TABLE["z"] * 0.1)
    powers = " + ".join(f"I(x ** {k})" for k in range(1, degree + 1))
    flat = {"Intercept": "Flat()", "b": "Flat()", "sigma": "HalfFlat()"}
    curves = []
    for right in (powers, f"poly(x, {degree})"):
        fit = exact(f"y ~ {right}", table, **flat)
        from bayeslab.families.regression.lowering import lower

        curves.append(np.column_stack([np.ones(N), lower(fit.model, fit.data).design.matrix]) @ beta(fit))
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(curves[0], np.polynomial.Polynomial.fit(X1, table["y"], degree)(X1), atol=1e-6)


def polynomial(degree: int, table: pd.DataFrame) -> bl.Fit:
    right = f"poly(x, {degree})" if degree else "1"
    return exact(f"y ~ {right}", table)


def test_evidence_peaks_at_the_planted_degree():
    """Figure 16.8: the maximised likelihood never falls with the degree, the evidence does."""
    rng = np.random.default_rng(5)
    x = np.linspace(-2, 2, 60)
    table = pd.DataFrame({"x": x, "y": 1 - 2 * x + 0.8 * x**3 + rng.normal(0, 0.5, 60)})
    evidence = [polynomial(d, table).data_tree["exact_posterior"].attrs["log_evidence"] for d in range(8)]
    residuals = [np.polynomial.Polynomial.fit(x, table["y"], d, full=True)[1][0][0] for d in range(8)]
    assert np.all(np.diff(residuals) <= 1e-9)
    assert int(np.argmax(evidence)) == 3


def test_a_line_is_chosen_for_points_on_a_line():
    """Russell and Norvig, section 18.2: points on 0.4 x + 3 are a line."""
    x = np.arange(1.0, 9)
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"x": x, "y": 0.4 * x + 3 + rng.normal(0, 0.05, 8)})
    evidence = [polynomial(d, table).data_tree["exact_posterior"].attrs["log_evidence"] for d in range(6)]
    assert int(np.argmax(evidence)) == 1


def test_averaging_beats_least_squares_at_high_degree():
    """Figure 16.5: ten curves drawn from the posterior of a polynomial of degree 10, averaged."""
    rng = np.random.default_rng(8)
    x, new = np.sort(rng.uniform(-1, 1, 14)), np.linspace(-0.95, 0.95, 50)
    truth = np.sin(3 * new)
    table = pd.DataFrame({"x": x, "y": np.sin(3 * x) + rng.normal(0, 0.3, 14)})
    powers = " + ".join(f"I(x ** {k})" for k in range(1, 11))
    fit = exact(f"y ~ {powers}", table, Intercept="Normal(0, 1)", b="Normal(0, 2)", sigma="HalfNormal(1)")
    draws = fit.posterior.to_dataset().isel(chain=0, draw=slice(0, 10))
    basis = new[:, None] ** np.arange(1, 11)
    curve = np.mean(draws["Intercept"].to_numpy()[:, None] + draws["b"].to_numpy() @ basis.T, axis=0)
    least = np.polynomial.Polynomial.fit(x, table["y"], 10)(new)
    assert np.mean((curve - truth) ** 2) < np.mean((least - truth) ** 2)
    assert np.abs(np.diff(curve, 2)).mean() < np.abs(np.diff(least, 2)).mean()


def test_probit_of_a_normal_is_a_probit():
    """Section 16.4.4: ∫ Φ(a) N(a; m, v) da = Φ(m / sqrt(1 + v)); and the predictive draws know it."""
    for m, v in ((0.3, 0.5), (-1.2, 2.0), (2.0, 9.0)):
        sd = np.sqrt(v)
        value, _ = integrate.quad(
            lambda a, m=m, sd=sd: stats.norm.cdf(a) * stats.norm.pdf(a, m, sd), m - 12 * sd, m + 12 * sd
        )
        assert value == pytest.approx(stats.norm.cdf(m / np.sqrt(1 + v)), abs=1e-8)
        draws = np.random.default_rng(1).normal(m, sd, 200_000)
        from bayeslab.families.regression.likelihoods import inverse_link

        assert inverse_link("probit", draws).mean() == pytest.approx(value, abs=4 * 0.5 / np.sqrt(200_000))


def test_lasso_norms():
    """Section 16.4.1 (the printed numbers are garbled): at equal L2 norm, L1 favours the axes."""
    axis, between = np.array([1.0, 0.0]), np.full(2, 1 / np.sqrt(2))
    assert np.linalg.norm(axis) == pytest.approx(np.linalg.norm(between))
    assert np.abs(axis).sum() == 1
    assert np.abs(between).sum() == pytest.approx(1.414214, abs=1e-6)


@pytest.mark.slow(why="compiles")
def test_logistic_mode_under_a_flat_prior_is_maximum_likelihood():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(4)
    table = TABLE.assign(s=(rng.random(N) < special.expit(0.5 + X1)).astype(int))
    model = bl.Model(
        model=bl.Regression(formula="s ~ x + z", likelihood="bernoulli", priors={"Intercept": "Flat()", "b": "Flat()"})
    )
    fit = bl.fit(model, table, "map", runs=None, seed=1, progress=False)
    found = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(table[["x", "z"]], table["s"])
    np.testing.assert_allclose(fit.posterior["b"].to_numpy().ravel(), found.coef_.ravel(), rtol=1e-4)
    p = special.expit(
        DESIGN @ np.concatenate([fit.posterior["Intercept"].to_numpy().ravel(), fit.posterior["b"].to_numpy().ravel()])
    )
    np.testing.assert_allclose(DESIGN.T @ (table["s"] - p), 0, atol=1e-4)


def test_gradient_descent_on_a_linear_model_reaches_least_squares():
    """Section 16.4.1: any g(x | w) by following the gradient; the linear one ends at w_ML."""
    nodes = {"a": "Flat()", "b": "Flat()", "c": "Flat()", "y[obs_id]": "Normal(a + b * x + c * z, 1)"}
    fit = bl.fit(bl.Model(model=bl.Graph(nodes=nodes)), TABLE, "map", runs=None, seed=1, progress=False)
    found = np.array([float(fit.posterior[name].to_numpy().squeeze()) for name in "abc"])
    np.testing.assert_allclose(found, np.linalg.lstsq(DESIGN, Y)[0], rtol=1e-5)


@pytest.mark.slow(why="statistical")
def test_empirical_bayes_is_the_maximum_of_the_evidence():
    """Section 16.5, level-II maximum likelihood: the scales on a grid of marginal likelihoods."""
    spec = bl.Regression(
        formula="y ~ 0 + x + z", priors={"b": "Normal(0, tau)", "tau": "HalfCauchy(1)", "sigma": "HalfNormal(1)"}
    )
    fit = bl.fit(bl.Model(model=spec), TABLE, "exact", runs=None, seed=1, progress=False, scales="maximise", draws=10)
    sigma, tau = (float(fit.posterior[name].to_numpy()[0, 0]) for name in ("sigma", "tau"))

    def evidence(s: float, t: float) -> float:
        covariance = s**2 * np.eye(N) + t**2 * DESIGN[:, 1:] @ DESIGN[:, 1:].T
        return float(stats.multivariate_normal(np.zeros(N), covariance).logpdf(Y))

    best = evidence(sigma, tau)
    assert fit.data_tree["exact_posterior"].attrs["log_evidence"] == pytest.approx(best, abs=1e-8)
    grid = [evidence(s, t) for s in np.geomspace(0.3, 4, 40) for t in np.geomspace(0.05, 5, 40)]
    assert best >= max(grid)
    for ds, dt in ((1.01, 1), (0.99, 1), (1, 1.01), (1, 0.99)):
        assert evidence(sigma * ds, tau * dt) < best
    again = bl.Model(
        model=bl.Graph(
            nodes={
                "tau": "HalfCauchy(5)",
                "mu": "Normal(0, 5)",
                "t[obs_id]": "Normal(mu, tau)",
                "y[obs_id]": "Normal(t, se)",
            }
        )
    )
    schools = {"y": [28.0, 8, -3, 7, -1, 1, 18, 12], "se": [15.0, 10, 16, 11, 9, 11, 10, 18]}
    shrunk = bl.fit(again, schools, "exact", runs=None, seed=1, progress=False, scales="maximise", draws=10)
    assert (
        float(shrunk.posterior["tau"].to_numpy()[0, 0]) < 1e-3
    )  # the maximum is at complete pooling (BDA3, section 5.5)


def test_scales_to_maximise_must_be_there():
    spec = bl.Regression(formula="y ~ x", priors={"sigma": 1.0})
    with refused("option.not-applicable", "maximise", where="inference.scales"):
        bl.fit(bl.Model(model=spec), TABLE, "exact", runs=None, seed=1, progress=False, scales="maximise")
