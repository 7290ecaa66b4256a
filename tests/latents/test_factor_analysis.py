"""Normal factors against dense densities, closed forms, scikit-learn and direct searches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.stats import ks_2samp, multivariate_normal

from bayeslab.families.latent_features.rows import normal
from bayeslab.latents.expectation_maximisation import maximise, restarted
from bayeslab.latents.features.factor_analysis import (
    FactorPrior,
    FactorProblem,
    Patterns,
    pivots,
    principal_components,
    scores,
    triangular,
)
from bayeslab.latents.features.factor_kernels import factor_evidence
from bayeslab.latents.features.feature_matching import principal_axes, rotated


def simulated(n=80, d=6, k=2, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    loading = rng.standard_normal((d, k))
    rows = 3 + rng.standard_normal((n, k)) @ loading.T + rng.uniform(0.4, 1.0, d) * rng.standard_normal((n, d))
    rows[rng.random((n, d)) < missing] = np.nan
    return rows


def problem_of(rows, k, *, shared=False, prior=False, with_mean=True, known=None):
    centre, spread = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
    each = spread[:1] if shared else spread
    own = FactorPrior(spread, 0.7 * each, centre + 0.5, 2 * spread) if prior else None
    return FactorProblem(Patterns.of(rows), k, shared, centre, spread, with_mean, own, known)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_evidence_is_the_normal_density(missing):
    """Also of rows with missing cells, and of a row that has none at all."""
    rows = simulated(n=15, d=5, seed=1, missing=missing)
    if missing:
        rows[3] = np.nan
    rng = np.random.default_rng(2)
    mean, loading, noise = rng.standard_normal(5), rng.standard_normal((5, 2)), rng.random(5) + 0.5
    theta, sizes, arrays = np.concatenate([mean, loading.ravel(), noise]), np.array([5, 2]), Patterns.of(rows).arrays
    value, slope = factor_evidence(theta, sizes, *arrays)
    covariance, total = loading @ loading.T + np.diag(noise**2), 0.0
    for row in rows:
        at = ~np.isnan(row)
        if at.any():
            total += multivariate_normal(mean[at], covariance[np.ix_(at, at)]).logpdf(row[at])
    assert value == pytest.approx(total, abs=1e-9)
    assert np.allclose(slope, approx_fprime(theta, lambda t: factor_evidence(t, sizes, *arrays)[0], 1e-7), atol=1e-3)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("small", [1e-2, 1e-4, 1e-8])
def test_evidence_of_a_column_that_features_explain_all_but_wholly(missing, small):
    """A Heywood case: the covariance is as well conditioned as ever, and its parts are not. On a scale of 1,000 too."""
    rows = simulated(n=15, d=5, seed=1, missing=missing)
    rng = np.random.default_rng(2)
    mean, loading, noise = rng.standard_normal(5), rng.standard_normal((5, 2)), rng.random(5) + 0.5
    noise[2] = small
    unit = np.array([1.0, 1e3, 1.0, 1e-3, 1.0])
    sizes, arrays = np.array([5, 2]), Patterns.of(rows * unit).arrays
    theta = np.concatenate([mean * unit, (loading * unit[:, None]).ravel(), noise * unit])
    value, slope = factor_evidence(theta, sizes, *arrays)
    covariance, total = loading @ loading.T + np.diag(noise**2), 0.0
    for row in rows:
        at = ~np.isnan(row)
        if at.any():
            total += multivariate_normal(mean[at], covariance[np.ix_(at, at)]).logpdf(row[at]) - np.log(unit[at]).sum()
    assert value == pytest.approx(total, rel=1e-9)

    if not missing:
        own = normal(rows * unit, mean * unit, loading * unit[:, None], noise * unit).sum()
        assert own == pytest.approx(total, rel=1e-9)

    # In the log of every noise and in relative steps of all else; the height changes by about 1 in each.
    def along(t, i):
        moved = theta.copy()
        moved[i] += t * abs(theta[i])
        return factor_evidence(moved, sizes, *arrays)[0]

    steep = np.array([(along(1e-6, i) - along(-1e-6, i)) / 2e-6 for i in range(len(theta))])
    np.testing.assert_allclose(slope * abs(theta), steep, rtol=1e-3, atol=1e-2)


def test_principal_components_are_the_maximum():
    """Tipping and Bishop's closed form: no slope, scikit-learn's likelihood, and where EM ends."""
    from sklearn.decomposition import PCA

    rows = simulated(n=60, d=6)
    problem = problem_of(rows, 2, shared=True)
    closed = principal_components(rows, 2)
    value, statistics = problem.expect(closed)
    assert abs(problem.gradient(closed, statistics)).max() < 1e-8
    # scikit-learn divides the covariance by n - 1: its likelihood is that of other parameters, so the maximum is higher.
    peer = PCA(2).fit(rows)
    model = peer.get_covariance() * (len(rows) - 1) / len(rows)
    assert np.allclose(closed["loading"] @ closed["loading"].T + closed["noise"] ** 2 * np.eye(6), model, atol=1e-10)
    assert value >= peer.score(rows) * len(rows)
    found = restarted(problem, problem.start, restarts=2, rng=np.random.default_rng(0), tolerance=1e-10).best
    assert found.log_likelihood == pytest.approx(value, abs=1e-7)
    assert found.parameters["noise"][0] == pytest.approx(closed["noise"][0], rel=1e-4)


def test_factor_analysis_is_scikit_learns():
    from sklearn.decomposition import FactorAnalysis

    rows = simulated(n=100, d=6, seed=3)
    problem = problem_of(rows, 2)
    found = restarted(problem, problem.start, restarts=2, rng=np.random.default_rng(0), tolerance=1e-10).best
    peer = FactorAnalysis(2, tol=1e-10, max_iter=20_000, svd_method="lapack").fit(rows)
    assert found.log_likelihood == pytest.approx(peer.score(rows) * len(rows), abs=1e-4)
    assert np.allclose(found.parameters["noise"] ** 2, peer.noise_variance_, rtol=2e-2)
    turned = principal_axes(found.parameters["loading"], found.parameters["noise"])
    ours = turned @ turned.T
    assert np.allclose(ours, peer.components_.T @ peer.components_, atol=2e-2)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("how", [{}, {"shared": True}, {"prior": True}, {"prior": True, "shared": True},
                                 {"with_mean": False}, {"known": 0.6}])  # fmt: skip
def test_em_with_missing_cells_climbs_to_the_top(how):
    """Every step of plain EM is uphill, and a direct search from the end finds nothing higher."""
    problem = problem_of(simulated(n=50, d=5, seed=4, missing=0.2), 1, **how)
    theta = problem.start(np.random.default_rng(0))
    trace = maximise(problem, theta, variant="em", max_iterations=25).posterior_trace
    assert (np.diff(trace) > -1e-9).all()
    found = maximise(problem, theta, variant="accelerated", tolerance=1e-10)

    def loss(x):
        at = problem.unflatten(x)
        value, statistics = problem.expect(at)
        return -value - problem.log_prior(at), -problem.gradient(at, statistics)

    x = problem.flatten(found.parameters)
    away = x + 0.1 * np.random.default_rng(1).standard_normal(len(x))
    assert np.allclose(approx_fprime(away, lambda t: loss(t)[0], 1e-6), loss(away)[1], atol=1e-2, rtol=1e-4)
    direct = minimize(loss, away, jac=True, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-8, "maxiter": 5000})
    assert -direct.fun == pytest.approx(found.log_posterior, abs=1e-5)


def test_scores_are_the_conditional_normal():
    rng = np.random.default_rng(5)
    mean, loading, noise = rng.standard_normal(4), rng.standard_normal((4, 2)), rng.random(4) + 0.4
    rows = rng.standard_normal((3, 4))
    rows[1, [0, 2]], rows[2] = np.nan, np.nan
    centre, spread = scores(rows, mean, loading, noise)
    for i, row in enumerate(rows):
        at = ~np.isnan(row)
        cross, inner = loading[at], loading[at] @ loading[at].T + np.diag(noise[at] ** 2)
        gain = np.linalg.solve(inner, cross).T if at.any() else np.zeros((2, 0))
        assert np.allclose(centre[i], gain @ (row[at] - mean[at]))
        assert np.allclose(spread[i] ** 2, np.diag(np.eye(2) - gain @ cross))


def test_triangular_loadings_have_the_law_of_independent_ones():
    """Bartlett: W W' from the triangle with chi-squared diagonal, and from independent normal entries."""
    rng = np.random.default_rng(6)
    n, d, k = 4000, 4, 3
    free = rng.standard_normal((n, d, k))
    made = np.zeros((n, d, k))
    low = np.tril_indices(d, -1, k)
    made[:, low[0], low[1]] = rng.standard_normal((n, len(low[0])))
    for j in range(k):
        made[:, j, j] = np.sqrt(rng.chisquare(k - j, n))
    for look in (lambda w: np.linalg.svd(w, compute_uv=False)[:, 0], lambda w: (w @ w.transpose(0, 2, 1))[:, 1, 2],
                 lambda w: np.linalg.svd(w, compute_uv=False)[:, -1], lambda w: (w[:, 3] ** 2).sum(axis=1)):  # fmt: skip
        assert ks_2samp(look(free), look(made)).pvalue > 1e-3
    one = triangular(free[0])
    assert np.allclose(one @ one.T, free[0] @ free[0].T) and np.allclose(one[:3][np.triu_indices(3, 1)], 0)
    assert (np.diag(one[:3]) > 0).all()


def test_pivots_tell_the_factors_apart():
    loading = np.array([[0.01, 0.0], [1.0, 0.0], [1.0, 1e-3], [0.0, 0.5]])
    assert set(pivots(loading, np.ones(4))[:2].tolist()) in ({1, 3}, {2, 3})


def test_rotations_leave_covariances_and_bring_draws_together():
    rng = np.random.default_rng(7)
    base, noise = rng.standard_normal((6, 3)), np.full((40, 6), 0.5)
    turns = [np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(40)]
    draws = np.stack([(base + 0.02 * rng.standard_normal((6, 3))) @ q for q in turns])
    found = rotated(draws, noise)
    assert np.allclose(found @ found.transpose(0, 2, 1), draws @ draws.transpose(0, 2, 1))
    assert found.std(axis=0).max() < 0.1
    axes = found.mean(axis=0)
    inner = axes.T @ axes
    assert abs(inner - np.diag(np.diag(inner))).max() < 0.1 and (np.diff(np.diag(inner)) < 0).all()


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_accelerated_em_ends_at_the_top_of_flat_ridges(seed):
    """The maximum by Jöreskog's (1967) profile of the uniquenesses; extrapolated EM alone ended up to 0.006 below it."""
    rng = np.random.default_rng(seed)
    n, d, k = 200, 6, 2
    loading = rng.normal(size=(d, k))
    rows = rng.normal(size=(n, k)) @ loading.T + rng.normal(size=(n, d)) * rng.uniform(0.3, 1.2, d)
    covariance = np.cov(rows.T, bias=True)

    def profile(log_unique):
        unique = np.exp(log_unique)
        values, vectors = np.linalg.eigh(covariance / np.sqrt(np.outer(unique, unique)))
        best = vectors[:, -k:] * np.sqrt(np.maximum(values[-k:] - 1, 0)) * np.sqrt(unique)[:, None]
        whole = best @ best.T + np.diag(unique)
        return (
            0.5
            * n
            * (d * np.log(2 * np.pi) + np.linalg.slogdet(whole)[1] + np.trace(np.linalg.solve(whole, covariance)))
        )

    starts = (np.log(np.diag(covariance) * share) for share in (0.2, 0.5, 0.8))
    limits = {"ftol": 1e-15, "gtol": 1e-9, "maxfun": 200_000}
    top = max(-minimize(profile, s, method="L-BFGS-B", bounds=[(-14, 10)] * d, options=limits).fun for s in starts)
    problem = problem_of(rows, k)
    found = maximise(problem, problem.start(np.random.default_rng(1)), variant="accelerated", max_iterations=2000)
    assert found.converged
    assert found.log_likelihood > top - 2e-5
