"""Mixtures of normals inside states: densities by SciPy, the M-step by numeric optimisation, EM's promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from bayeslab.distributions.emissions import GaussianMixture
from bayeslab.posterior.mixtures.problem import MixtureProblem
from tests.refusals import refused

K, M, N, D = 2, 3, 40, 2


def setting(seed=0, missing=0.2):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(N, D)) + 3 * rng.integers(0, 3, N)[:, None]
    rows[rng.random(rows.shape) < missing] = np.nan
    parameters = {
        "weight": rng.dirichlet(np.ones(M), K),
        "mean": rng.normal(0, 3, (K, M, D)),
        "variance": rng.gamma(2, 1, (K, M, D)),
    }
    return rng, rows, rng.dirichlet(np.ones(K), N), parameters


def test_density_is_the_sum_over_parts_with_missing_cells_left_out():
    _, rows, _, p = setting()
    found = GaussianMixture(D, M).log_density(p, rows)
    for n, row in enumerate(rows):
        seen = ~np.isnan(row)
        for k in range(K):
            each = [stats.norm.pdf(row[seen], p["mean"][k, m, seen], np.sqrt(p["variance"][k, m, seen])).prod()
                    for m in range(M)]  # fmt: skip
            assert found[n, k] == pytest.approx(np.log(p["weight"][k] @ each), abs=1e-9)


@pytest.mark.parametrize("prior", [False, True])
def test_maximum_of_the_expected_log_likelihood(prior):
    """The M-step is no lower than what a numeric search from it finds."""
    _, rows, responsibilities, p = setting(1)
    emission = GaussianMixture(D, M)
    emission = emission.with_prior(rows, K) if prior else emission
    statistics = emission.statistics(rows, responsibilities, p)
    best = emission.maximise(statistics)

    def read(x):
        w, mean, log_variance = np.split(x, [K * M, K * M * (1 + D)])
        w = np.exp(w.reshape(K, M))
        return {
            "weight": w / w.sum(axis=1, keepdims=True),
            "mean": mean.reshape(K, M, D),
            "variance": np.exp(log_variance).reshape(K, M, D),
        }

    def lost(x):
        own = read(x)
        return -emission.expected_log_likelihood(statistics, own) - emission.log_prior(own)

    top = np.concatenate([np.log(best["weight"]).ravel(), best["mean"].ravel(), np.log(best["variance"]).ravel()])
    slope = optimize.approx_fprime(top, lost, 1e-6)
    assert np.abs(slope).max() < 1e-3
    assert lost(top) <= optimize.minimize(lost, top + 0.1, method="BFGS").fun + 1e-6


@pytest.mark.parametrize("prior", [False, True])
def test_em_never_falls(prior):
    """Weighted rows of one state at a time: the log likelihood of responsibilities that stay."""
    _, rows, responsibilities, p = setting(2)
    emission = GaussianMixture(D, M)
    emission = emission.with_prior(rows, K) if prior else emission
    heights = []
    for _ in range(30):
        heights.append(np.sum(responsibilities * emission.log_density(p, rows)) + emission.log_prior(p))
        p = emission.maximise(emission.statistics(rows, responsibilities, p))
        if not prior:
            p = {**p, "variance": np.maximum(p["variance"], 1e-6)}
    assert np.diff(heights).min() > -1e-9


def test_one_state_is_a_mixture():
    """Its EM step is that of the mixture of the same parts."""
    _, rows, _, p = setting(3, missing=0.0)
    emission = GaussianMixture(D, M)
    one = {name: value[:1] for name, value in p.items()}
    from bayeslab.distributions.emissions import gaussian

    problem = MixtureProblem.of(gaussian(D, "diagonal"), rows, M)
    theta = {"weights": one["weight"][0], "mean": one["mean"][0], "variance": one["variance"][0]}
    value, statistics = problem.expect(theta)
    assert emission.log_density(one, rows).sum() == pytest.approx(value, rel=1e-12)
    stepped = problem.update(statistics, theta)
    found = emission.maximise(emission.statistics(rows, np.ones((N, 1)), one))
    np.testing.assert_allclose(found["weight"][0], stepped["weights"], atol=1e-12)
    np.testing.assert_allclose(found["mean"][0], stepped["mean"], atol=1e-10)
    np.testing.assert_allclose(found["variance"][0], stepped["variance"], atol=1e-9)


def test_samples_have_the_moments_of_the_mixture():
    rng, _, _, p = setting(4)
    states = np.repeat([0, 1], 100_000)
    rows = GaussianMixture(D, M).sample(rng, p, states)
    for k in range(K):
        mean = p["weight"][k] @ p["mean"][k]
        variance = p["weight"][k] @ (p["variance"][k] + p["mean"][k] ** 2) - mean**2
        own = rows[states == k]
        assert np.all(np.abs(own.mean(axis=0) - mean) < 4 * np.sqrt(variance / len(own)))
        np.testing.assert_allclose(own.var(axis=0), variance, rtol=0.03)


def test_starts_without_parameters_find_separated_parts():
    rng = np.random.default_rng(5)
    rows = np.concatenate([rng.normal(c, 0.1, 50) for c in (-4.0, 0.0, 4.0)])[:, None]
    emission = GaussianMixture(1, 3)
    found = emission.maximise(emission.statistics(rows, np.ones((len(rows), 1))))
    order = np.argsort(found["mean"][0, :, 0])
    np.testing.assert_allclose(found["mean"][0, order, 0], [-4, 0, 4], atol=0.1)


def test_constant_columns_need_a_prior():
    with refused("data.constant"):
        GaussianMixture(1, 2).check(np.ones((5, 1)))
