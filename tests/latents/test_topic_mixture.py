"""The density of topics in the samplers' coordinates: by SciPy's densities, by differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayeslab.latents.topics.topic_concentrations import ALPHA_PRIOR, GammaPrior, draw_alpha, draw_beta, slice_sample
from bayeslab.latents.topics.topic_mixture_kernels import coordinate, density, rows


def case(rng, d=3, k=2, v=4):
    parameters = np.concatenate([rng.normal(0, 3, d * k + k * v), rng.gamma(1.0, 0.5, k), [0.07]])
    pairs = np.repeat(np.arange(d), 3), rng.integers(0, v, 3 * d), rng.integers(1, 4, 3 * d)
    return parameters, np.array([d, k, v]), pairs


def log_g(x, a):
    return -np.logaddexp(0, -x) / a + 2 * np.log(np.logaddexp(0, x)) - np.log(2)


def test_density_is_that_of_gammas_and_words():
    rng = np.random.default_rng(0)
    parameters, sizes, (documents, words, counts) = case(rng)
    x_theta, x_phi = parameters[:6].reshape(3, 2), parameters[6:14].reshape(2, 4)
    alpha, beta = parameters[14:16], parameters[16]
    expected = 0.0
    for x, a in ((x_theta, alpha), (x_phi, np.full(4, beta))):
        value, h = log_g(x, a), 1e-6
        slope = (log_g(x + h, a) - log_g(x - h, a)) / (2 * h)
        # Of log g: that of g, times g.
        expected += (stats.gamma.logpdf(np.exp(value), a) + value + np.log(slope)).sum()
    theta, phi = (np.exp(log_g(x, a)) for x, a in ((x_theta, alpha), (x_phi, beta)))
    theta, phi = theta / theta.sum(axis=1, keepdims=True), phi / phi.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rows(x_phi, np.full(4, beta)), phi, rtol=1e-10)
    expected += (counts * np.log((theta @ phi)[documents, words])).sum()
    assert density(parameters, sizes, documents, words, counts)[0] == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("far", [0.0, -40.0, 60.0])
def test_gradient_is_the_difference(far):
    rng = np.random.default_rng(1)
    parameters, sizes, pairs = case(rng)
    parameters[0], parameters[8] = parameters[0] + far, parameters[8] + far / 3
    steps = 1e-6 * np.eye(len(parameters))
    ends = [[density(parameters + s * step, sizes, *pairs)[0] for s in (1, -1)] for step in steps]
    differences = np.array([(up - down) / 2e-6 for up, down in ends])
    np.testing.assert_allclose(density(parameters, sizes, *pairs)[1], differences, rtol=1e-5, atol=1e-4)


def test_coordinates_are_the_inverse():
    for a in (0.05, 1.0, 20.0):
        for value in (-60.0, -1.0, 3.0):
            assert log_g(coordinate(value, a), a) == pytest.approx(value, abs=1e-8)


def test_slices_leave_a_density_as_it_is():
    rng = np.random.default_rng(2)
    prior, x, drawn = GammaPrior(2.0, 3.0), 0.0, []
    for _ in range(6000):
        x = slice_sample(prior.log_density_of_log, x, rng)
        drawn.append(np.exp(x))
    assert stats.kstest(drawn[::6], stats.gamma(2.0, scale=1.5).cdf).pvalue > 0.01


@pytest.mark.slow(why="statistical")
def test_concentrations_and_counts_in_turns_keep_the_prior():
    """Prior to counts to posterior to counts ...: what is drawn of concentrations has their prior's distribution."""
    rng = np.random.default_rng(3)
    alpha, beta, alphas, betas = np.full(2, 0.5), 0.1, [], []
    for _ in range(5000):
        by_document = np.stack([rng.multinomial(3, rng.dirichlet(alpha)) for _ in range(2)])
        alpha = draw_alpha(alpha, by_document, rng)
        # A topic of three words: gammas of small shape by their logarithms.
        logs = np.log(rng.gamma(beta + 1, size=3)) + np.log(rng.random(3)) / beta
        share = np.exp(logs - logs.max())
        share /= share.sum()
        beta = draw_beta(beta, rng.multinomial(4, share)[:, None], rng)
        alphas.append(alpha[0])
        betas.append(beta)
    assert stats.kstest(alphas[::10], stats.expon(scale=ALPHA_PRIOR.mean / 2).cdf).pvalue > 0.01
    assert stats.kstest(betas[::10], stats.expon(scale=0.1).cdf).pvalue > 0.01
