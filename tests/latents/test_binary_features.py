"""Gibbs sweeps over binary features against sums over all matrices, dense normal densities, and planted features."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from bayeslab.latents.expectation_maximisation import restarted
from bayeslab.latents.features import buffet
from bayeslab.latents.features.binary_em import BinaryModes, BinaryProblem
from bayeslab.latents.features.binary_features import (
    BinaryPrior,
    Evidence,
    log_likelihood,
    log_prior,
    sample,
    slice_step,
    start_values,
)
from bayeslab.latents.features.feature_kernels import binary_evidence, binary_pass, draw_rows
from bayeslab.latents.features.feature_matching import match_columns, permutations, turned
from tests.refusals import refused


def half_normal(sigma):
    return lambda v: -0.5 * (v / sigma) ** 2


def dense(x, z, noise, scales):
    """log p(X | Z) column by column, over the cells there are."""
    total, covariance = 0.0, z * scales**2 @ z.T
    for column in x.T:
        at = ~np.isnan(column)
        spread = covariance[np.ix_(at, at)] + noise**2 * np.eye(at.sum())
        total += multivariate_normal(np.zeros(at.sum()), spread).logpdf(column[at])
    return total


def test_likelihood_is_the_dense_normal_density():
    rng = np.random.default_rng(0)
    for k in (0, 1, 3):
        x, z = rng.standard_normal((7, 3)), (rng.random((7, k)) < 0.5).astype(int)
        scales = rng.random(k) + 0.5
        assert log_likelihood(x, z, 0.7, scales) == pytest.approx(dense(x, z, 0.7, scales), abs=1e-9)


def level_density(x, noise, scale):
    """log p(X) of one feature that all rows have, from deviations and column means: nothing cancels."""
    (n, d), v = x.shape, noise**2
    means = x.mean(axis=0)
    total = -0.5 * d * (n * math.log(2 * math.pi * v) + math.log1p(n * scale**2 / v))
    return total - 0.5 * (((x - means) ** 2).sum() / v + n * (means**2).sum() / (v + n * scale**2))


def test_likelihood_keeps_its_digits_far_from_zero():
    x = 2.0**20 + 0.4 * np.random.default_rng(2).standard_normal((120, 4))
    z, scales = np.ones((120, 1), np.int8), np.array([2.0**20])
    for noise in (0.05, 0.4, 3.0):
        exact = level_density(x, noise, 2.0**20)
        assert log_likelihood(x, z, noise, scales) == pytest.approx(exact, abs=1e-6)
        # Slices ask for other sds than those it was prepared for.
        near = Evidence.of(x, z, 0.4, scales / 3)
        assert near.at(noise, scales) == pytest.approx(exact, abs=1e-6)


def test_slices_end():
    """Without a density there is nothing to draw; under one that is flat or only noise a draw takes bounded steps."""
    rng = np.random.default_rng(0)
    with refused("engine.refused.degenerate"):
        slice_step(lambda v: math.nan, 1.0, rng)
    assert 0 < slice_step(lambda v: -math.log(v), 1.0, rng) < math.inf
    calls = itertools.count()

    def sinking(v):
        return -100.0 * next(calls)

    assert slice_step(sinking, 2.0, rng) == pytest.approx(2.0)
    assert next(calls) < 3_000


def frequencies(found, wanted):
    """Draws of each wanted key, and their standard errors from batches."""
    size = len(found) // 40
    batches = [found[i * size : (i + 1) * size] for i in range(40)]
    shares = np.array([[Counter(batch)[key] / len(batch) for key in wanted] for batch in batches])
    return shares.mean(axis=0), shares.std(axis=0, ddof=1) / math.sqrt(len(shares))


def key(z):
    return left(z).tobytes() + bytes([left(z).shape[1]])


def left(z):
    return np.ascontiguousarray(buffet.left_ordered(np.asarray(z, np.int8)))


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("offset", [False, True])
def test_ibp_gibbs_is_enumeration(offset):
    """ibp, beta-process-factor: over classes of matrices, with features that come and go; up to 7 features of 3 rows."""
    rng = np.random.default_rng(1)
    x, noise, scale, alpha = 1.5 * rng.standard_normal((3, 2)), 0.6, 1.2, 1.5
    patterns = [p for p in itertools.product((0, 1), repeat=3) if any(p)]
    logs, number = {}, {}
    for k in range(8):
        for chosen in itertools.combinations_with_replacement(patterns, k):
            z = np.array(chosen, int).reshape(k, 3).T
            whole, scales = (np.hstack([np.ones((3, 1)), z]), [0.9] + k * [scale]) if offset else (z, k * [scale])
            logs[key(z)] = buffet.log_probability(z, alpha) + log_likelihood(x, whole, noise, np.array(scales))
            number[key(z)] = k
    total = logsumexp(list(logs.values()))
    truth = {one: math.exp(value - total) for one, value in logs.items()}
    draws = sample(
        x,
        BinaryPrior(None, noise, scale, (1, 1), alpha, np.zeros(2) if offset else None, 0.9),
        draws=8_000,
        tune=80,
        rng=rng,
    )
    found = [key(z) for z in draws.z]
    wanted = sorted(truth, key=truth.get)[-12:]
    share, error = frequencies(found, wanted)
    assert (abs(share - [truth[w] for w in wanted]) < 4.5 * error + 1e-4).all()
    share, error = frequencies(list(draws.n_features), range(5))
    exact = [sum(p for one, p in truth.items() if number[one] == k) for k in range(5)]
    assert (abs(share - exact) < 4.5 * error + 1e-4).all()


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("offset", [False, True])
def test_fixed_number_of_features_is_enumeration(offset):
    """binary-factor: two features of four rows, all 2^8 matrices; with and without means of the columns."""
    rng = np.random.default_rng(2)
    x, noise, scale = rng.standard_normal((4, 2)) + 0.5, 0.5, 1.1
    centre = np.array([0.3, -0.2])
    prior = BinaryPrior(2, noise, scale, probability=(1.5, 0.8), offset=centre if offset else None, offset_scale=0.9)
    draws = sample(x, prior, draws=12_000, tune=40, rng=rng)
    logs = {}
    for bits in itertools.product((0, 1), repeat=8):
        z = np.array(bits).reshape(4, 2)
        whole, scales = (np.hstack([np.ones((4, 1)), z]), [0.9, 1.1, 1.1]) if offset else (z, [1.1, 1.1])
        logs[bits] = log_prior(z, prior, 1.0) + dense(x - centre * offset, whole, noise, np.array(scales))
    total = logsumexp(list(logs.values()))
    wanted = sorted(logs, key=logs.get)[-20:]
    share, error = frequencies([tuple(z.ravel().tolist()) for z in draws.z], wanted)
    assert (abs(share - [math.exp(logs[w] - total) for w in wanted]) < 4.5 * error + 2e-4).all()


@pytest.mark.slow(why="statistical")
def test_missing_cells_and_scales_by_quadrature():
    """One feature of four rows with two cells missing: sums over matrices, a grid over noise and scale."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 2)) + np.array([1.0, -1.0])
    x[0, 1] = x[2, 0] = np.nan
    prior = BinaryPrior(1, half_normal(1.0), half_normal(2.0))
    draws = sample(x, prior, draws=12_000, tune=100, rng=rng)
    noise, scale = (np.arange(60) + 0.5) / 18, (np.arange(50) + 0.5) / 7
    every = [np.array(bits) for bits in itertools.product((0, 1), repeat=4)]
    grid = np.meshgrid(noise, scale, indexing="ij")
    terms = np.stack([one_feature(x, z, *grid) + log_prior(z[:, None], prior, 1.0) for z in every])
    terms += -0.5 * noise[:, None] ** 2 - 0.5 * (scale / 2.0) ** 2
    p = np.exp(terms - terms.max())
    p /= p.sum()
    for values, weights, drawn in (
        (noise, p.sum(axis=(0, 2)), draws.noise),
        (scale, p.sum(axis=(0, 1)), draws.scale),
        (
            np.array([z.sum() for z in every]),
            p.sum(axis=(1, 2)),
            [z.sum() for z in draws.z],
        ),
    ):
        parts = np.array([np.mean(part) for part in np.array_split(np.array(drawn, float), 40)])
        error = parts.std(ddof=1) / math.sqrt(40)
        assert abs(parts.mean() - values @ weights) < 4.5 * error + 2e-3


def one_feature(x, z, noise, scale):
    """log p(X | z) of one feature over the cells there are, by the formula for I + a a'."""
    total, v = 0.0, noise**2
    for column in x.T:
        at = ~np.isnan(column)
        on, inner = z[at].sum(), column[at] @ z[at]
        total = total - 0.5 * (at.sum() * np.log(2 * math.pi * v) + np.log1p(on * scale**2 / v))
        total = total - 0.5 * (column[at] @ column[at] - inner**2 / (v / scale**2 + on)) / v
    return total


def planted(n=120, k=4, d=16, noise=0.4, seed=4):
    rng = np.random.default_rng(seed)
    loading = np.zeros((k, d))
    for j in range(k):
        loading[j, 4 * j : 4 * j + 4] = rng.uniform(0.7, 1.5, 4) * rng.choice([-1, 1], 4)
    z = (rng.random((n, k)) < [0.3, 0.4, 0.5, 0.6][:k]).astype(int)
    return z @ loading + noise * rng.standard_normal((n, d)), z, loading


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("k", [4, None])
def test_planted_factors_are_recovered(k):
    """binary-factor, beta-process-factor: up to permutation; the number of features used is near the planted four."""
    x, z, loading = planted()
    prior = BinaryPrior(k, half_normal(1.0), half_normal(1.0))
    draws = sample(x, prior, draws=150, tune=250, rng=np.random.default_rng(5))
    best = int(draws.log_joint.argmax())
    names = match_columns(z, draws.z[best])
    assert set(range(4)) <= set(names.tolist())
    for j in range(4):
        own = int(np.flatnonzero(names == j)[0])
        assert np.mean(draws.z[best][:, own] != z[:, j]) < 0.03
        # A draw is off by what the rows are and by its own chance, each noise / sqrt(rows that have the feature) or
        # 0.08 at most.
        assert abs(draws.loading[best][own] - loading[j]).max() < 4 * np.sqrt(2) * 0.08
    assert 4 <= np.median(draws.n_features) <= 5 and draws.n_features.max() <= 9
    assert abs(draws.noise.mean() - 0.4) < 0.03


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("k", [5, None])
@pytest.mark.parametrize("level", [2.0**4, 2.0**13])
def test_planted_factors_far_from_zero_without_an_offset(k, level):
    """A feature is the level, and the others begin although weights may be as large as it; which side has one is open."""
    x, z, _ = planted()
    prior = BinaryPrior(k, half_normal(1.0), half_normal(level))
    draws = sample(x + level, prior, draws=60, tune=200, rng=np.random.default_rng(6))
    best = draws.z[int(draws.log_joint.argmax())]
    assert best.all(axis=0).sum() == 1
    for j in range(4):
        share = (best == z[:, j : j + 1]).mean(axis=0)
        assert max(share.max(), 1 - share.min()) > 0.97
    assert abs(draws.noise.mean() - 0.4) < 0.03
    # Sides trade places: no row alone could turn a feature round.
    sides = {tuple(2 * one.sum(axis=0) > len(x)) for one in draws.z}
    assert len(sides) > 2


def test_rows_with_an_offset_may_be_anywhere():
    """A law: rows moved by a constant have the same features, with the same random numbers."""
    x = np.round(planted(n=60)[0] * 256) / 256
    made = []
    for level in (0.0, 2.0**17):
        prior = BinaryPrior(4, half_normal(1.0), half_normal(1.0), offset=x.mean(axis=0) + level, offset_scale=3.0)
        made.append(sample(x + level, prior, draws=40, tune=80, rng=np.random.default_rng(7)))
    before, after = made
    np.testing.assert_array_equal(np.stack(after.z), np.stack(before.z))
    for name in ("noise", "scale", "log_likelihood", "log_joint"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), rtol=1e-6, err_msg=name)
    np.testing.assert_allclose(np.stack(after.loading), np.stack(before.loading), atol=1e-6)
    np.testing.assert_allclose(after.offset - 2.0**17, before.offset, atol=1e-6)


@pytest.mark.slow(why="large")
def test_features_of_thousands_of_rows_are_found():
    """beta-process-factor: row by row sums of two features that have become one would stay so."""
    rng = np.random.default_rng(12)
    loading = rng.standard_normal((6, 12))
    z = (rng.random((2_500, 6)) < 0.3).astype(int)
    x = z @ loading + 0.4 * rng.standard_normal((2_500, 12))
    prior = BinaryPrior(None, half_normal(1.0), half_normal(1.0))
    draws = sample(x, prior, draws=20, tune=100, rng=np.random.default_rng(13))
    best = int(draws.log_joint.argmax())
    names = match_columns(z, draws.z[best])
    assert set(range(6)) <= set(names.tolist())
    for j in range(6):
        assert np.mean(draws.z[best][:, int(np.flatnonzero(names == j)[0])] != z[:, j]) < 0.02


@pytest.mark.slow(why="statistical")
def test_where_rows_say_nothing_features_are_those_of_the_prior():
    """ibp: dishes and who takes them are as many as buffets have, with features that end and begin together."""
    alpha, n, draws = 1.3, 12, 4_000
    chain = start_values(np.zeros((n, 2)), BinaryPrior(None, 1e4, 1.0, alpha=alpha), np.random.default_rng(15))
    seen = np.zeros((draws, 2))
    for i in range(-200, draws):
        chain.rows()
        chain.trades()
        if i >= 0:
            seen[i] = chain.features.shape[1], chain.features.sum()
    error = seen.reshape(40, -1, 2).mean(axis=1).std(axis=0, ddof=1) / np.sqrt(40)
    exact = np.array([buffet.expected_dishes(alpha, n), alpha * n])
    assert np.all(error < [0.15, 0.9]) and np.all(np.abs(seen.mean(axis=0) - exact) < 4 * error)


@pytest.mark.parametrize("which", ["sum", "part"])
def test_a_feature_that_others_stand_for_ends(which):
    """Rows with two features have one of their own instead, their sum; or some rows of a feature another like it."""
    rng = np.random.default_rng(14)
    x, z, _ = planted(n=1_500)
    own = (z[:, 0] & z[:, 1]) if which == "sum" else z[:, 1] & (rng.random(1_500) < 0.5)
    chain = start_values(x, BinaryPrior(None, half_normal(1.0), half_normal(1.0)), rng)
    chain.z[:, :4] = np.where((own == 1)[:, None] & np.isin(np.arange(4), (0, 1) if which == "sum" else 1), 0, z)
    chain.z[:, 4], chain.size = own, 5
    chain.noise, chain.scale = 0.4, 1.0
    for _ in range(60):
        chain.trades()
    assert chain.size == 4
    names = match_columns(z, chain.features)
    assert sorted(names.tolist()) == [0, 1, 2, 3]
    assert np.mean(chain.features != z[:, names]) < 0.01


@pytest.mark.slow(why="statistical")
def test_many_new_features_at_once():
    """Rows of huge values under a large α take many features at once: room is made for them."""
    prior = BinaryPrior(None, 0.1, 0.5, alpha=80.0)
    x = np.full((2, 4), 12.0) * np.array([[1.0], [-1.0]])
    draws = sample(x, prior, draws=5, tune=8, rng=np.random.default_rng(6))
    assert draws.n_features.max() > 64
    assert all(len(p) == z.shape[1] for p, z in zip(draws.probability, draws.z, strict=True))


def test_chains_repeat_with_their_seed():
    x, _, _ = planted(n=40)
    prior = BinaryPrior(None, half_normal(1.0), half_normal(1.0))
    one, two = (sample(x, prior, draws=10, tune=16, rng=np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(one.log_joint, two.log_joint)
    assert all(np.array_equal(a, b) for a, b in zip(one.z, two.z, strict=True))


# --------------------------------------------------------------------------------- patterns summed out


def by_patterns(x, probability, loading, offset, noise):
    logs = []
    for row in x:
        terms = []
        for bits in itertools.product((0, 1), repeat=len(probability)):
            on = np.array(bits)
            prior = np.sum(np.where(on, np.log(probability), np.log1p(-probability)))
            terms.append(prior + multivariate_normal(offset + on @ loading, noise**2 * np.eye(len(row))).logpdf(row))
        logs.append(terms)
    return np.array(logs)


def test_patterns_are_summed_out():
    rng = np.random.default_rng(8)
    x, p, a, m = rng.standard_normal((6, 3)), np.array([0.2, 0.7, 0.5]), rng.standard_normal((3, 3)), rng.random(3)
    logs = by_patterns(x, p, a, m, 0.6)
    bits = np.array(list(itertools.product((0, 1), repeat=3)))
    evidence, expected, second = binary_pass(p, a, m, 0.6, x)
    r = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    assert np.allclose(evidence, logsumexp(logs, axis=1), atol=1e-12)
    assert np.allclose(expected, r @ bits, atol=1e-12)
    assert np.allclose(second, np.einsum("nc,ci,cj->ij", r, bits, bits), atol=1e-12)


def test_gradient_is_the_slope():
    rng = np.random.default_rng(9)
    x, k = np.ascontiguousarray(rng.standard_normal((20, 3))), 2
    theta = np.concatenate([[0.3, 0.6], rng.standard_normal(6), rng.random(3), [0.8]])
    value, slope = binary_evidence(theta, x, np.array([k]))
    logs = by_patterns(x, theta[:2], theta[2:8].reshape(2, 3), theta[8:11], 0.8)
    assert value == pytest.approx(logsumexp(logs, axis=1).sum(), abs=1e-9)
    numeric = approx_fprime(theta, lambda t: binary_evidence(t, x, np.array([k]))[0], 1e-7)
    assert np.allclose(slope, numeric, atol=1e-4)


def test_rows_are_drawn_from_their_posterior():
    """Also where a cell is missing."""
    rng = np.random.default_rng(10)
    p, a, m = np.array([0.3, 0.6]), np.array([[1.0, -0.5], [0.7, 0.8]]), np.array([0.1, 0.2])
    row = np.array([0.9, np.nan])
    logs = by_patterns(row[None, :1], p, a[:, :1], m[:1], 0.7)[0]
    z = np.zeros((4000, 2), np.int8)
    draw_rows(rng, np.tile(row, (4000, 1)), p, a, m, 0.7, z, 30)
    share = np.array([np.mean((z == bits).all(axis=1)) for bits in itertools.product((0, 1), repeat=2)])
    truth = np.exp(logs - logsumexp(logs))
    assert (abs(share - truth) < 4 * np.sqrt(truth / 4000)).all()


@pytest.mark.parametrize("prior", [None, BinaryModes(1.0, 0.8, (2.0, 1.5), 2.0)])
def test_em_reaches_what_a_direct_search_reaches(prior):
    x, _, _ = planted(n=60, k=2, d=8, seed=11)
    problem = BinaryProblem(np.ascontiguousarray(x), 2, True, None, prior)
    found = restarted(problem, problem.start, restarts=4, rng=np.random.default_rng(0), tolerance=1e-9).best
    trace = found.posterior_trace
    assert (np.diff(trace) > -1e-8).all()

    def loss(at):
        theta = problem.unflatten(at)
        value, statistics = problem.expect(theta)
        return -value - problem.log_prior(theta), -problem.gradient(theta, statistics)

    at = problem.flatten(found.parameters)
    assert np.allclose(approx_fprime(at + 0.05, lambda t: loss(t)[0], 1e-6), loss(at + 0.05)[1], atol=2e-2, rtol=1e-3)
    direct = minimize(
        loss,
        at + 0.1 * np.random.default_rng(1).standard_normal(len(at)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "ftol": 1e-13, "gtol": 1e-7},
    )
    assert -direct.fun == pytest.approx(found.log_posterior, abs=1e-4)


@pytest.mark.parametrize("prior", [None, BinaryModes(1.0, 0.8, (2.0, 1.5), 2.0)])
def test_em_loses_no_digits_far_from_zero(prior):
    """Rows moved by a number that they hold exactly: the same sums, another mean."""
    x, _, _ = planted(n=60, k=2, d=8, seed=11)
    x, far = np.round(x * 2**20) / 2**20, 2.0**27
    ends = []
    for level in (0.0, far):
        problem = BinaryProblem(np.ascontiguousarray(x + level), 2, True, None, prior)
        ends.append(restarted(problem, problem.start, restarts=2, rng=np.random.default_rng(0), tolerance=1e-9).best)
    near, moved = ends
    assert moved.log_likelihood == pytest.approx(near.log_likelihood, abs=1e-5)
    assert moved.parameters["noise"][0] == pytest.approx(near.parameters["noise"][0], rel=1e-5)
    np.testing.assert_allclose(moved.parameters["loading"], near.parameters["loading"], atol=1e-5)
    np.testing.assert_allclose(moved.parameters["mean"] - far, near.parameters["mean"], atol=1e-5)


# --------------------------------------------------------------------------------- numbering


def test_columns_find_their_partners():
    rng = np.random.default_rng(12)
    z = (rng.random((30, 4)) < 0.5).astype(int)
    noisy = z[:, [2, 0, 3, 1]].copy()
    noisy[0] = 1 - noisy[0]
    extra = np.zeros((30, 1), int)
    extra[4] = 1
    assert match_columns(z, np.hstack([noisy, extra])).tolist() == [2, 0, 3, 1, -1]
    assert match_columns(z[:, :0], noisy).tolist() == [-1, -1, -1, -1]


def test_permutations_undo_permutations():
    rng = np.random.default_rng(13)
    base = rng.standard_normal((5, 3)) * np.array([1.0, 3.0, 2.0])
    moves = np.array([rng.permutation(3) for _ in range(50)])
    draws = np.take_along_axis(base + 0.05 * rng.standard_normal((50, 5, 3)), moves[:, None, :], axis=2)
    found = np.take_along_axis(draws, permutations(draws)[0][:, None, :], axis=2)
    assert found.std(axis=0).max() < 0.1
    assert np.allclose(found.mean(axis=0), base[:, np.argsort(-(base**2).sum(axis=0))], atol=0.1)


def test_turned_features_have_the_same_law():
    """Draws turned and permuted at random come together, and every row's density stays what it was."""
    rng = np.random.default_rng(14)
    base, p, m = np.array([[1.0, -2.0], [3.0, 0.5], [0.0, 1.0]]), np.array([0.2, 0.4]), np.array([0.1, -0.3, 0.5])
    signs = rng.choice([-1.0, 1.0], (40, 2))
    given = [np.broadcast_to(v, (40, *v.shape)) for v in (base, p, m)]
    draws, chances, means = turned(signs, *given)
    moves, facing = permutations(draws, turning=True)
    draws, chances = np.take_along_axis(draws, moves[:, None, :], axis=2), np.take_along_axis(chances, moves, axis=1)
    back = turned(facing, draws, chances, means)
    assert all(np.allclose(values, values[0]) for values in back)
    x = rng.standard_normal((5, 3))
    one = binary_pass(p, np.ascontiguousarray(base.T), m, 0.7, x)[0]
    two = binary_pass(back[1][0], np.ascontiguousarray(back[0][0].T), back[2][0], 0.7, x)[0]
    three = binary_pass(chances[1], np.ascontiguousarray(draws[1].T), means[1], 0.7, x)[0]
    assert np.allclose(one, two, atol=1e-12) and np.allclose(one, three, atol=1e-12)
