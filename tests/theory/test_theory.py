"""Numbers of examples, hypotheses and mistakes against the printed and derived values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from bayeslab.theory import pac
from bayeslab.theory.hypothesis_space import HypothesisSpace, boolean_inputs, boolean_space
from bayeslab.theory.separability import separable, separating_plane, shattered, threshold_functions
from bayeslab.theory.weighted_majority import best_beta, follow, mistake_bound
from tests.refusals import refused


@pytest.mark.parametrize(
    ("advice", "outcomes"),
    [([["1", "0"]], [1]), ([["True", "False"]], [True]), (np.array([["a", None]], dtype=object), ["a"])],
)
def test_advice_that_equals_no_outcome_is_refused(advice, outcomes):
    with refused("option.wrong-type"):
        follow(advice, outcomes, 0.5, np.random.default_rng(0))


def test_pac_bound():
    """pac-bound, pac-all-boolean, pac-kdl (F19, F20)."""
    n = pac.sample_size(10 * math.log(2), 0.05, 0.05)
    assert n == pytest.approx(198.544082, abs=1e-6)
    assert math.ceil(n) == 199
    assert pac.sample_size(pac.log_boolean_functions(10), 0.1, 0.05) == pytest.approx(7127.784452, abs=1e-6)
    assert pac.sample_size(pac.log_boolean_functions(5), 0.1, 0.05) == pytest.approx(251.764421, abs=1e-6)
    assert pac.log_decision_lists(10, 1) == pytest.approx(68.450997, abs=1e-6)
    assert pac.sample_size(pac.log_decision_lists(10, 1), 0.1, 0.05) == pytest.approx(714.467292, abs=1e-6)
    assert pac.sample_size(pac.log_decision_lists(10, 2), 0.1, 0.05) == pytest.approx(11_566.402539, abs=1e-6)


def test_boolean_function_count():
    """boolean-function-count (F19): exponents of ten for 10 and 20 attributes."""
    assert [pac.boolean_functions(n) for n in (1, 2, 3, 4)] == [4, 16, 256, 65_536]
    assert pac.log_boolean_functions(10) / math.log(10) == pytest.approx(308.2547, abs=1e-4)
    assert pac.log_boolean_functions(20) / math.log(10) == pytest.approx(315_652.83, abs=1e-2)


def test_kdl_count():
    """kdl-count (F20)."""
    assert [pac.conjunctions(10, k) for k in (1, 2, 3)] == [21, 211, 1351]
    assert [pac.conjunctions(5, k) for k in (1, 2, 3)] == [11, 56, 176]
    assert [pac.conjunctions(2, k) for k in (1, 2, 3)] == [5, 11, 15]


def test_sample_complexity_of_networks():
    """sample-complexity-nn (F34)."""
    assert pac.weights_rule_of_thumb(1000) == (pytest.approx(1000 * math.log(1000)), 10_000)


def test_pac_bad_hypothesis():
    """pac-bad-hypothesis: of hypotheses with error above epsilon, few agree with N examples."""
    rng = np.random.default_rng(0)
    n_trials, n_examples, error = 40_000, 20, 0.12
    survived = (rng.random((n_trials, n_examples)) >= error).all(axis=1).mean()
    bound = pac.survival_bound(0.1, n_examples)
    assert survived <= bound + 4 * math.sqrt(bound / n_trials)
    # The bound is met where the error is epsilon.
    exact = pac.survival_bound(error, n_examples)
    assert abs(survived - exact) < 4 * math.sqrt(exact / n_trials)


def test_pac_bound_holds_by_enumeration():
    """All functions of two inputs, all samples of a size: bad consistent hypotheses are rarer than delta."""
    space = boolean_space(2)
    epsilon, delta = 0.24, 0.2
    n = math.ceil(pac.sample_size(math.log(16), epsilon, delta))
    rng = np.random.default_rng(1)
    bad = 0
    for _ in range(400):
        inputs = rng.integers(4, size=n)
        consistent = space.consistent(inputs, space.tables[6][inputs])
        bad += bool((consistent & (space.errors(6) > epsilon)).any())
    assert bad / 400 <= delta


def test_epsilon_ball():
    """epsilon-ball: functions of three inputs within k differing rows of one: sums of binomial coefficients."""
    space = boolean_space(3)
    for k in range(9):
        assert space.approximately_correct(17, k / 8) == sum(math.comb(8, i) for i in range(k + 1))


def test_refused():
    with refused("option.out-of-range", "epsilon"):
        pac.sample_size(1.0, 0.0, 0.1)
    with refused("option.out-of-range", "^k, .*-1"):
        pac.conjunctions(3, -1)
    with refused("option.out-of-range", "^n, .*from 1 to 5"):
        threshold_functions(6)
    with refused("option.out-of-range", "beta"):
        mistake_bound(1, 2, 1.0)


def test_threshold_function_count():
    """threshold-function-count (F24), and the linear programme says the same of three inputs."""
    assert [threshold_functions(n) for n in (1, 2, 3, 4)] == [4, 14, 104, 1882]
    points = boolean_inputs(3)
    tables = [t for t in itertools.product([0, 1], repeat=8) if t[0] == 0]
    assert 2 * sum(separable(points, t) for t in tables) == 104


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_vc_halfspace(d):
    """vc-halfspace, ex20-21 (F26): d + 1 points in general position are shattered, d + 2 are not."""
    points = np.random.default_rng(d).normal(size=(d + 2, d))
    assert shattered(points[:-1])
    assert not shattered(points)


def test_separating_plane_separates():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 3))
    y = x @ [1.0, -2.0, 0.5] > 0.3
    plane = separating_plane(x, y)
    assert plane is not None
    assert (np.column_stack([np.ones(40), x]) @ plane > 0).tolist() == y.tolist()
    assert separating_plane([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]) is None


@pytest.mark.parametrize(("scale", "shift"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e9), (1e-3, 1e6)])
def test_separability_does_not_depend_on_units(scale, shift):
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]) * [1.0, scale] + [0.0, shift]
    assert separable(corners, [0, 0, 0, 1])
    assert not separable(corners, [0, 1, 1, 0])


def test_margin_of_the_plane():
    """Scores are at least 1 on one side and at most -1 on the other, whatever the units."""
    x = np.random.default_rng(4).normal(size=(50, 2)) * [1e-5, 1e4] + [3.0, 1e5]
    y = x[:, 0] - 3 > (x[:, 1] - 1e5) * 1e-9
    scores = np.column_stack([np.ones(50), x]) @ separating_plane(x, y)
    assert scores[y].min() >= 1 - 1e-4
    assert scores[~y].max() <= -1 + 1e-4


def test_brute_force_map_and_version_space():
    """brute-force-map, version-space-posterior, posterior-evolution (F44)."""
    space = boolean_space(2)
    truth = space.tables[9]
    for seen, size in enumerate([16, 8, 4, 2, 1]):
        posterior = space.posterior(np.arange(seen), truth[:seen])
        consistent = space.consistent(np.arange(seen), truth[:seen])
        assert consistent.sum() == size
        np.testing.assert_allclose(posterior, np.where(consistent, 1 / size, 0.0))


def test_consistent_learner_map():
    """consistent-learner-map: whatever a consistent learner outputs is as probable as the most probable."""
    space = boolean_space(3)
    rng = np.random.default_rng(3)
    for _ in range(20):
        truth = space.tables[rng.integers(256)]
        rows = rng.choice(8, 4, replace=False)
        posterior = space.posterior(rows, truth[rows])
        consistent = np.flatnonzero(space.consistent(rows, truth[rows]))
        assert posterior[rng.choice(consistent)] == pytest.approx(posterior.max())


def test_noise_and_impossible():
    space = HypothesisSpace(np.array([[0, 1], [1, 0]]), np.array([0.25, 0.75]))
    posterior = space.posterior([0], [0], noise=0.1)
    np.testing.assert_allclose(posterior, np.array([0.25 * 0.9, 0.75 * 0.1]) / (0.25 * 0.9 + 0.75 * 0.1))
    with refused("data.probability-zero"):
        space.posterior([0, 1], [1, 1])
    with refused("option.out-of-range", "noise"):
        space.posterior([0], [0], noise=1.5)
    assert space.posterior([0], [0], noise=1.0).tolist() == [0, 1]


def test_many_noisy_reports():
    """The likelihood of 4,000 reports is below the smallest number there is; their ratio is not."""
    space = HypothesisSpace(np.array([[0], [1]]))
    reports = np.repeat([1, 0], [2002, 1998])
    odds = (0.7 / 0.3) ** 4
    np.testing.assert_allclose(
        space.posterior(np.zeros(4000, int), reports, noise=0.3), [1 / (1 + odds), odds / (1 + odds)], rtol=1e-9
    )


def test_no_free_lunch():
    """no-free-lunch: averaged over all functions of three inputs, rows not seen are guessed right half the time."""
    space = boolean_space(3)
    seen, unseen = np.array([0, 3, 5]), np.array([1, 2, 4, 6, 7])
    for learner in (
        lambda values: np.zeros(5),
        lambda values: np.full(5, values.mean() > 0.5),
        lambda values: values[[0, 1, 2, 0, 1]],
    ):
        right = [np.mean(learner(t[seen]) == t[unseen]) for t in space.tables]
        assert np.mean(right) == pytest.approx(0.5)


def test_rwm():
    """rwm, rwm-regret (F32): coefficients of the bound, and expected mistakes below it on adversarial sequences."""
    assert mistake_bound(1, 10, 0.5) - mistake_bound(0, 10, 0.5) == pytest.approx(1.386294, abs=1e-6)
    assert mistake_bound(0, 10, 0.5) == pytest.approx(4.605170, abs=1e-6)
    assert mistake_bound(1, 10, 0.75) - mistake_bound(0, 10, 0.75) == pytest.approx(1.150728, abs=1e-6)
    assert mistake_bound(0, 10, 0.75) == pytest.approx(9.210340, abs=1e-6)
    rng = np.random.default_rng(4)
    for trial in range(60):
        advice = rng.integers(2, size=(300, 10))
        if trial % 2:  # the outcome is what most of the weight says wrongly
            outcomes = 1 - (advice.mean(axis=1) > 0.5)
        else:
            outcomes = rng.integers(2, size=300)
        for beta in (0.5, 0.75, best_beta(300, 10)):
            found = follow(advice, outcomes, beta, rng)
            assert found.expected_mistakes < mistake_bound(found.best_mistakes, 10, beta)


def test_rwm_weights_by_hand():
    found = follow([[1, 0], [1, 0], [0, 0]], [1, 1, 1], 0.5, np.random.default_rng(0))
    np.testing.assert_allclose(found.weights, [[1 / 2, 1 / 2], [2 / 3, 1 / 3], [4 / 5, 1 / 5], [4 / 5, 1 / 5]])
    assert found.expected_mistakes == pytest.approx(1 / 2 + 1 / 3 + 1)
    assert found.best_mistakes == 1


def test_rwm_draws_have_the_expected_mistakes():
    rng = np.random.default_rng(5)
    advice, outcomes = rng.integers(2, size=(50, 4)), rng.integers(2, size=50)
    each = [follow(advice, outcomes, 0.7, np.random.default_rng(s)).mistakes for s in range(400)]
    expected = follow(advice, outcomes, 0.7, rng).expected_mistakes
    assert abs(np.mean(each) - expected) < 4 * np.std(each) / 20


def test_regret_vanishes():
    """rwm-regret: with the tuned factor the regret is below two roots of T ln K, so that a step's goes to zero."""
    rng = np.random.default_rng(6)
    for n in (100, 1000, 10_000):
        advice = rng.integers(2, size=(n, 10))
        outcomes = rng.integers(2, size=n)
        found = follow(advice, outcomes, best_beta(n, 10), rng)
        assert found.expected_mistakes - found.best_mistakes < 2 * math.sqrt(n * math.log(10))
