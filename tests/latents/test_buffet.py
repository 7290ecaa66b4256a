"""The Indian buffet against its own customers, sums over all classes of matrices, and the limit of Bernoulli columns."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln

from bayeslab.latents.features.buffet import draw_alpha, expected_dishes, left_ordered, log_probability, simulate
from tests.refusals import refused


@pytest.mark.parametrize(("n", "expected"), [(10, 2.928968), (100, 5.187378), (1000, 7.485471)])
def test_ibp_expected_dishes(n, expected):
    """ibp: α H_n dishes in all; 2.928968, 5.187378 and 7.485471 for α = 1."""
    assert expected_dishes(1.0, n) == pytest.approx(expected, abs=5e-7)
    assert expected_dishes(2.0, n) == pytest.approx(2 * expected, abs=1e-6)


def test_ibp_dishes_of_simulated_buffets():
    """ibp: dishes in all are Poisson(α H_n), those of every customer Poisson(α), the last as the first."""
    rng, alpha, n = np.random.default_rng(0), 1.7, 12
    drawn = [simulate(alpha, n, rng) for _ in range(3000)]
    number = np.array([z.shape[1] for z in drawn])
    mean = expected_dishes(alpha, n)
    assert abs(number.mean() - mean) < 4 * math.sqrt(mean / len(number))
    assert abs(number.var() - mean) < 4 * mean * math.sqrt(2 / len(number) + 1 / (mean * len(number)))
    each = np.array([z.sum(axis=1) for z in drawn])
    assert (abs(each.mean(axis=0) - alpha) < 4 * math.sqrt(alpha / len(drawn))).all()
    counts = np.bincount(each[:, -1], minlength=6)[:6]
    expected = stats.poisson.pmf(np.arange(6), alpha) * len(drawn)
    found = stats.chisquare(
        np.append(counts, len(drawn) - counts.sum()), np.append(expected, len(drawn) - expected.sum())
    )
    assert found.pvalue > 1e-3
    assert all(z.any(axis=0).all() for z in drawn)


def classes(n, most):
    """All classes of matrices with n rows and at most so many columns."""
    patterns = [p for p in itertools.product((0, 1), repeat=n) if any(p)]
    for k in range(most + 1):
        for chosen in itertools.combinations_with_replacement(patterns, k):
            yield np.array(chosen, int).reshape(k, n).T


def test_probabilities_of_classes_sum_to_one():
    """ibp: over all classes; with up to k columns the sum is a Poisson probability."""
    for alpha in (0.4, 1.3):
        total = sum(math.exp(log_probability(z, alpha)) for z in classes(3, 6))
        assert total == pytest.approx(stats.poisson.cdf(6, expected_dishes(alpha, 3)), abs=1e-12)


def test_probability_is_the_limit_of_beta_bernoulli_columns():
    """Of K columns with Beta(α / K, 1) probabilities, those without ones left out (Griffiths and Ghahramani 2005)."""
    alpha, k = 1.3, 10**6
    z = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]])
    ones = np.append(z.sum(axis=0), np.zeros(k - 3))
    finite = np.sum(betaln(alpha / k + ones, 1 + 4 - ones) - betaln(alpha / k, 1))
    ways = math.lgamma(k + 1) - math.lgamma(k - 2) - math.log(2)  # columns 1 and 2 are alike
    assert finite + ways == pytest.approx(log_probability(z, alpha), abs=1e-4)


def test_simulated_classes_have_their_probabilities():
    rng = np.random.default_rng(1)
    drawn = [left_ordered(simulate(0.8, 2, rng)) for _ in range(20_000)]
    seen = {z.tobytes() + bytes([z.shape[1]]): 0 for z in drawn}
    for z in drawn:
        seen[z.tobytes() + bytes([z.shape[1]])] += 1
    for z in classes(2, 2):
        one = left_ordered(z).astype(np.int8)
        p = math.exp(log_probability(one, 0.8))
        assert abs(seen[one.tobytes() + bytes([one.shape[1]])] / 20_000 - p) < 4 * math.sqrt(p / 20_000)


def test_left_ordered_form():
    z = np.array([[0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    assert left_ordered(z).tolist() == [[1, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert left_ordered(np.zeros((3, 2), int)).shape == (3, 0)


def test_alpha_given_dishes():
    """Poisson(α H_n) dishes and a Gamma prior: the mean of the Gamma posterior."""
    rng = np.random.default_rng(2)
    draws = np.array([draw_alpha(7, 10, 2.0, 0.5, rng) for _ in range(4000)])
    mean = 9 / (0.5 + 2.928968)
    assert abs(draws.mean() - mean) < 4 * draws.std() / math.sqrt(len(draws))


def test_bad_input():
    with refused("option.out-of-range", "alpha"):
        simulate(0.0, 3, np.random.default_rng(0))
    with refused("option.out-of-range", "customer"):
        simulate(1.0, 0, np.random.default_rng(0))
