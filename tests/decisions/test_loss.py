"""Best actions against enumeration of all actions; scores against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayeslab.decisions.loss import Asymmetric, expected_losses, from_draws, from_probabilities, incurred
from bayeslab.decisions.scores import brier_score, calibration_bins, log_score
from tests.refusals import refused

LOSS_OF = {
    "squared": lambda y, a: (y - a) ** 2,
    "absolute": lambda y, a: abs(y - a),
    "zero_one": lambda y, a: (y != a).astype(float),
    Asymmetric(3, 1): lambda y, a: np.where(y > a, 3 * (y - a), a - y),
}


@pytest.mark.parametrize("loss", LOSS_OF, ids=str)
def test_no_other_action_costs_less(loss):
    rng = np.random.default_rng(1)
    draws = rng.poisson(rng.uniform(1, 6, size=(1, 7)), size=(501, 7))
    found = from_draws(draws, loss)
    actions = np.linspace(-1, draws.max() + 1, 5 * (draws.max() + 2) + 1)
    for j in range(7):
        costs = [LOSS_OF[loss](draws[:, j], a).mean() for a in actions]
        assert found.expected_loss[j] == pytest.approx(LOSS_OF[loss](draws[:, j], found.action[j]).mean(), abs=1e-12)
        assert found.expected_loss[j] <= min(costs) + 1e-12


def test_actions_are_the_statistics_of_the_distribution():
    """Exponential(1): mean 1, median log 2, 75 % quantile log 4."""
    draws = stats.expon.ppf((np.arange(100_000) + 0.5) / 100_000)
    assert from_draws(draws, "squared").action == pytest.approx(1, abs=1e-3)
    assert from_draws(draws, "absolute").action == pytest.approx(np.log(2), abs=1e-4)
    assert from_draws(draws, Asymmetric(3, 1)).action == pytest.approx(np.log(4), abs=1e-4)


def test_loss_matrix_against_enumeration():
    rng = np.random.default_rng(2)
    matrix = rng.uniform(0, 5, size=(4, 3))
    for p in rng.dirichlet(np.ones(4), size=50):
        by_hand = [sum(p[s] * matrix[s, a] for s in range(4)) for a in range(3)]
        found = from_probabilities(p, matrix)
        assert found.action == int(np.argmin(by_hand))
        assert found.expected_loss == pytest.approx(min(by_hand))


def test_zero_one_matrix_is_the_most_probable_state():
    p = np.random.default_rng(3).dirichlet(np.ones(5), size=40)
    assert np.array_equal(from_probabilities(p, 1 - np.eye(5)).action, p.argmax(axis=1))


@pytest.mark.parametrize(("p_spam", "spam"), [(0.5, 0), (10 / 11 - 1e-9, 0), (10 / 11 + 1e-9, 1)])
def test_spam_only_when_ten_to_one(p_spam, spam):
    """Spam let through costs 1, a letter lost 10: call it spam above 10/11."""
    matrix = np.array([[0, 10], [1, 0]])  # states letter, spam; actions keep, discard
    assert from_probabilities(np.array([1 - p_spam, p_spam]), matrix).action == spam


def test_two_drugs_for_two_diseases():
    """Diseases A (40 %) and B (60 %): both drugs save always; drug B alone saves 60 %."""
    death = np.array([[0, 1, 0], [1, 0, 0]])  # actions: drug A, drug B, both
    p = np.array([0.4, 0.6])
    assert expected_losses(p, death) == pytest.approx([0.6, 0.4, 0])
    assert from_probabilities(p, death).action == 2


@pytest.mark.parametrize(
    ("call", "code", "match"),
    [
        (lambda: from_draws(np.zeros(3), "square"), "option.unknown-word", "'square'.*'squared'"),
        (lambda: from_draws(np.array([0.1, 0.2]), "zero_one"), "option.not-applicable", "zero_one"),
        (lambda: Asymmetric(-1, 1), "option.out-of-range", "cost.*-1"),
        (lambda: from_probabilities(np.array([0.5, 0.5]), np.eye(3)), "option.wrong-shape", r"\(2\).*\(3, 3\)"),
        (lambda: from_probabilities(np.array([0.5, 0.5]), np.full((2, 2), np.nan)), "option.not-finite", ""),
    ],
)
def test_nonsense_is_refused(call, code, match):
    with refused(code, match):
        call()


# ------------------------------------------------------------------------------------- scores


def test_scores_by_hand():
    p = np.array([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]])
    y = np.array([0, 0, 1])
    assert brier_score(p, y) == pytest.approx((2 * 0.09 + 2 * 0.64 + 2 * 0.25) / 3)
    assert log_score(p, y) == pytest.approx(np.log([0.7, 0.2, 0.5]).mean())
    assert log_score(np.array([[1.0, 0.0]]), np.array([1])) == -np.inf


@pytest.mark.parametrize("score", [lambda p, y: -brier_score(p, y), log_score])
def test_scores_are_proper(score):
    """Averaged over the truth no forecast scores higher than the truth."""
    truth = np.array([0.25, 0.75])
    outcomes = np.repeat([0, 1], [25, 75])
    best = score(np.tile(truth, (100, 1)), outcomes)
    for q in np.linspace(0.05, 0.95, 19):
        if abs(q - 0.25) > 1e-9:
            assert score(np.tile([q, 1 - q], (100, 1)), outcomes) < best


def test_calibration_bins_of_true_probabilities():
    rng = np.random.default_rng(4)
    p = rng.uniform(size=40_000)
    bins = calibration_bins(p, rng.uniform(size=p.size) < p, ci_prob=0.999)
    assert bins.count.sum() == p.size and len(bins.count) == 10
    assert np.all((bins.lower < bins.predicted) & (bins.predicted < bins.upper))
    wrong = calibration_bins(p**2, rng.uniform(size=p.size) < p, ci_prob=0.999)
    assert not np.all((wrong.lower < wrong.predicted) & (wrong.predicted < wrong.upper))


def test_calibration_bins_keep_ties_together():
    bins = calibration_bins(np.array([0.2] * 6 + [0.9] * 4), np.array([True] + [False] * 5 + [True] * 4), n_bins=10)
    assert np.allclose(bins.predicted, [0.2, 0.9]) and np.allclose(bins.observed, [1 / 6, 1])
    assert np.array_equal(bins.count, [6, 4]) and bins.upper[1] == 1
    # Jeffreys: quantiles of Beta(hits + ½, misses + ½).
    assert bins.lower[0] == pytest.approx(stats.beta(1.5, 5.5).ppf(0.055))


def test_cases_said_twice_count_once():
    """Every case twice, with half the weight, is every case once."""
    rng = np.random.default_rng(4)
    p = rng.uniform(size=60)
    happened = rng.uniform(size=60) < p
    once = calibration_bins(p, happened, 5)
    twice = calibration_bins(np.repeat(p, 2), np.repeat(happened, 2), 5, weights=np.full(120, 0.5))
    for name in ("predicted", "observed", "lower", "upper", "count"):
        np.testing.assert_allclose(getattr(twice, name), getattr(once, name))


def test_names_are_not_compared_with_numbers():
    with refused("option.wrong-type", "states"):
        incurred(["1"], [1], "zero_one")
    assert incurred(["a", "b"], ["a", "a"], "zero_one").tolist() == [0, 1]
    with refused("option.wrong-type", "draws"):
        from_draws(np.array(["a", "b"]))
    with refused("option.wrong-type", "loss"):
        from_draws(np.ones(3), np.eye(2))


def test_costs_may_be_huge():
    assert Asymmetric(1e308, 1e308).quantile == 0.5
