"""Gibbs draws of hidden Markov models: paths against all paths, the rest against closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from bayeslab.distributions import emissions
from bayeslab.distributions.emissions import NormalPrior
from bayeslab.latents.chains.forward_backward import HiddenChain
from bayeslab.latents.chains.hidden_gibbs import draw_path, draw_probabilities
from bayeslab.latents.sampler import run
from bayeslab.posterior.mixtures.gibbs import mixture_sampler
from bayeslab.posterior.mixtures.problem import MixtureProblem
from tests.latents._paths import random_case, truth
from tests.refusals import refused

N = 4_000


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("seed", range(25))
def test_paths_are_drawn_from_their_posterior(seed):
    """Marginals and pairs by enumeration: ragged, missing, zeros, sparse, varying, huge and tiny likelihoods."""
    rng = np.random.default_rng(seed)
    chain, log_emission, offsets = random_case(rng)
    want = truth(chain, log_emission, offsets)
    if not np.all(np.isfinite(want["log_evidence"])):
        with refused("evidence.probability-zero"):
            draw_path(chain, log_emission, rng, offsets)
        return
    k = chain.n_states
    seen, pairs = np.zeros(log_emission.shape), np.zeros((len(log_emission), k, k))
    inner = np.setdiff1d(np.arange(len(log_emission)), offsets)
    for _ in range(N):
        path = draw_path(chain, log_emission, rng, offsets)
        seen += np.eye(k)[path.states]
        pairs[inner, path.states[inner - 1], path.states[inner]] += 1
    assert path.log_evidence == pytest.approx(want["log_evidence"].sum(), rel=1e-9, abs=1e-9)
    for found, exact in ((seen / N, want["posterior"]), (pairs / N, want["pairs"])):
        assert np.all(found[exact == 0] == 0)
        error = np.sqrt(np.maximum(exact * (1 - exact), 1 / N) / N)
        assert np.max(np.abs(found - exact) / error, initial=0) < 5


def test_paths_are_counted():
    rng = np.random.default_rng(0)
    chain = HiddenChain.of([0.2, 0.3, 0.5], rng.dirichlet(np.ones(3), 3))
    offsets = np.array([0, 4, 4, 9, 10])
    path = draw_path(chain, rng.normal(size=(10, 3)), rng, offsets)
    starts, moves = np.zeros(3), np.zeros((3, 3))
    for begin, end in itertools.pairwise(offsets):
        for t in range(begin, end):
            if t == begin:
                starts[path.states[t]] += 1
            else:
                moves[path.states[t - 1], path.states[t]] += 1
    np.testing.assert_array_equal(path.starts, starts)
    np.testing.assert_array_equal(path.moves, moves)


def test_the_same_seed_draws_the_same_path():
    chain = HiddenChain.of([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    rows = np.random.default_rng(0).normal(size=(500, 2))
    one, two = (draw_path(chain, rows, np.random.default_rng(3)).states for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert np.any(draw_path(chain, rows, np.random.default_rng(4)).states != one)


# --------------------------------------------------------------------------------- parameters


def test_probabilities_are_dirichlet_and_zeros_stay():
    rng = np.random.default_rng(0)
    a = np.array([[0.5, 2.0, 0.0, 1.0], [0.0, 0.01, 3.0, 0.0]])
    draws = np.stack([draw_probabilities(rng, a) for _ in range(20_000)])
    np.testing.assert_allclose(draws.sum(-1), 1.0)
    assert np.all(draws[:, a == 0] == 0)
    mean = a / a.sum(-1, keepdims=True)
    sd = np.sqrt(mean * (1 - mean) / (a.sum(-1, keepdims=True) + 1))
    np.testing.assert_allclose(draws.mean(0), mean, atol=5 * sd.max() / np.sqrt(len(draws)))
    np.testing.assert_allclose(draws.std(0), sd, rtol=0.1, atol=1e-12)
    assert stats.kstest(draws[:, 1, 1], stats.beta(0.01, 3.0).cdf, method="asymp").pvalue > 1e-3


def test_tiny_concentrations_still_sum_to_one():
    draws = draw_probabilities(np.random.default_rng(0), np.full((1000, 5), 1e-7))
    assert np.all(np.isfinite(draws))
    np.testing.assert_allclose(draws.sum(-1), 1.0)


CELLS = {
    "normal": (emissions.gaussian(2, "diagonal"), lambda rng: rng.normal(1e6, 2.0, (60, 2))),
    "spherical": (emissions.gaussian(2, "spherical"), lambda rng: rng.normal(0, 2.0, (60, 2))),
    "matrix": (emissions.gaussian(2, "full"), lambda rng: rng.normal(0, 2.0, (60, 2))),
    "groups": (
        emissions.Product(
            {"one": ((0,), emissions.OneParameter("Poisson", 1)), "other": ((1, 2), emissions.gaussian(2, "full"))}
        ),
        lambda rng: np.column_stack([rng.poisson(3, 60), rng.normal(1e6, 2.0, (60, 2))]),
    ),
    "categories": (emissions.Categorical((3, 2)), lambda rng: rng.integers(0, 2, (60, 2)).astype(float)),
    "counts": (emissions.OneParameter("Poisson", 2), lambda rng: rng.poisson(3, (60, 2)).astype(float)),
    "times": (emissions.OneParameter("Exponential", 2), lambda rng: rng.exponential(3, (60, 2))),
    "trials": (
        emissions.OneParameter("Binomial", 2, known={"n": 7}),
        lambda rng: rng.binomial(7, 0.3, (60, 2)).astype(float),
    ),
    "signs": (emissions.OneParameter("Bernoulli", 2), lambda rng: rng.integers(0, 2, (60, 2)).astype(float)),
}


@pytest.mark.parametrize("name", CELLS)
def test_statistics_of_known_states_are_those_of_weights_of_zero_and_one(name):
    emission, rows = CELLS[name]
    rng = np.random.default_rng(0)
    cells, states = rows(rng), rng.integers(0, 3, 60)  # state 3 has no rows
    if name not in ("matrix", "groups"):  # a matrix is conjugate only to whole rows
        cells[rng.random(cells.shape) < 0.3] = np.nan
    found = emission.statistics_of_states(cells, states, 4)
    want = emission.statistics(cells, np.eye(4)[states])
    assert found.keys() == want.keys()
    for key, value in want.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-7)


@pytest.mark.slow(why="statistical")
def test_missing_cells_are_drawn_from_their_conditional():
    """Mean and covariance of what is missing given what is there, by the formula for one state at a time."""
    rng = np.random.default_rng(0)
    mean, factor = rng.normal(size=(2, 3)), rng.normal(size=(2, 3, 3))
    covariance = factor @ factor.swapaxes(1, 2) + 0.1 * np.eye(3)
    rows = np.array([[0.3, np.nan, np.nan], [np.nan, 1.0, -1.0], [np.nan] * 3, [1.0, 2.0, 3.0]])
    states = np.array([1, 0, 1, 0])
    emission, theta = emissions.gaussian(3), {"mean": mean, "covariance": covariance}
    draws = np.stack([emission.imputed(rng, rows, states, theta) for _ in range(8_000)])
    assert np.all(draws[:, ~np.isnan(rows)] == rows[~np.isnan(rows)])
    s = covariance[1]
    centre = mean[1, 1:] + s[1:, 0] / s[0, 0] * (0.3 - mean[1, 0])
    within = s[1:, 1:] - np.outer(s[1:, 0], s[0, 1:]) / s[0, 0]
    for found, m, c in ((draws[:, 0, 1:], centre, within), (draws[:, 2], mean[1], s)):
        np.testing.assert_allclose(found.mean(0), m, atol=5 * np.sqrt(c.max() / len(found)))
        np.testing.assert_allclose(np.cov(found.T), c, atol=8 * c.max() / np.sqrt(len(found)))


@pytest.mark.slow(why="statistical")
def test_one_matrix_for_all_states():
    """E Σ and the means' moments from the posterior, in turn from the log density of scipy's inverse Wishart."""
    rng = np.random.default_rng(0)
    prior = NormalPrior(np.zeros(2), 0.5, 5.0, np.array([[2.0, 0.3], [0.3, 1.0]]))
    emission = emissions.gaussian(2, "tied", prior=prior)
    rows, states = rng.normal(size=(30, 2)) + 1.0, rng.integers(0, 2, 30)
    statistics = emission.statistics(rows, np.eye(3)[states])
    draws = [emission.draw_tied(rng, statistics) for _ in range(10_000)]
    found = np.stack([d["covariance"] for d in draws])
    means = np.stack([d["mean"] for d in draws])
    # The rows of a state given Σ are normal with covariance Σ between columns and I + 11' / κ between rows.
    scale = prior.scale.copy()
    for k in range(2):
        own = rows[states == k]
        scale += own.T @ np.linalg.solve(np.eye(len(own)) + 1 / prior.kappa, own)
    want = stats.invwishart(prior.nu + 30, scale)
    np.testing.assert_allclose(found.mean(0), want.mean(), atol=5 * np.sqrt(want.var().max() / len(draws)))
    np.testing.assert_allclose(found.var(0), want.var(), rtol=0.15)
    for k, n in enumerate(np.bincount(states, minlength=3)):
        centre = rows[states == k].sum(axis=0) / (prior.kappa + n)
        spread = want.mean() / (prior.kappa + n)
        np.testing.assert_allclose(means[:, k].mean(0), centre, atol=5 * np.sqrt(spread.max() / len(draws)))
        np.testing.assert_allclose(np.cov(means[:, k].T), spread, atol=0.1 * spread.max())


@pytest.mark.slow(why="statistical")
def test_a_mixture_with_missing_cells_has_the_spread_of_its_posterior():
    """One component, half of a column missing: mean and matrix by importance sampling from the prior's posterior."""
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 12)
    x[:6, 1] = np.nan
    prior = NormalPrior(np.zeros(2), 1.0, 6.0, 3.0 * np.eye(2))
    emission = emissions.gaussian(2, "full", prior=prior)
    # Proposals from the posterior of the complete rows, weighted by the incomplete ones.
    own = emission.statistics(x[6:], np.ones((6, 1)))
    kappa, centre, nu, scale = (np.asarray(v)[0] for v in emission.posterior(own))
    covariance = stats.invwishart(nu, scale).rvs(20_000, random_state=rng)
    noise = np.einsum("sij,sj->si", np.linalg.cholesky(covariance / kappa), rng.standard_normal((len(covariance), 2)))
    mean = centre + noise
    heights = stats.norm.logpdf(x[:6, :1], mean[:, 0], np.sqrt(covariance[:, 0, 0])).sum(axis=0)
    weights = np.exp(heights - heights.max())
    weights /= weights.sum()
    problem = MixtureProblem.of(emission, x, 1, np.ones(1))
    start = {"weights": np.ones(1), "mean": np.zeros((1, 2)), "covariance": np.eye(2)[None]}
    found = run(mixture_sampler(problem, lambda _: start), rng, 8_000, 200)
    for own, drawn in ((mean[:, 1], found["mean"][:, 0, 1]), (np.log(covariance[:, 1, 1]),
                                                             np.log(found["covariance"][:, 0, 1, 1]))):  # fmt: skip
        centre = weights @ own
        sd = np.sqrt(weights @ (own - centre) ** 2)
        assert drawn.mean() == pytest.approx(centre, abs=0.06 * sd)
        assert drawn.std() == pytest.approx(sd, rel=0.05)
