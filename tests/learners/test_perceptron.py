"""Perceptrons against the textbook's runs and bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bayeslab.learners.decision_tree import MultiwayTree
from bayeslab.learners.kernel_perceptron import KernelPerceptron
from bayeslab.learners.perceptron import Perceptron, novikoff_bound
from bayeslab.learners.toolbox.descent_kernels import kernel_perceptron as one_pass
from bayeslab.theory.separability import separable, separating_plane
from tests.learners.restaurant import DOMAINS, all_inputs, original_tree, sample
from tests.refusals import refused

BITS = np.array(list(itertools.product([0, 1], repeat=2)))
# Facts F24: exercise 20.15 of the second edition of Russell and Norvig.
SIX_ROWS = (0x28, 0x2C, 0x2A, 0x33, 0x3C, 0x23, 0x22, 0x1D, 0x1B, 0x06, 0x15, 0x05, 0x1B, 0x1C)
SIX = np.array([[row >> bit & 1 for bit in range(5, -1, -1)] for row in SIX_ROWS])
SIX_TARGET = np.array([1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0])


@pytest.mark.parametrize(("table", "name"), [([0, 0, 0, 1], "and"), ([0, 1, 1, 1], "or"), ([1, 1, 0, 0], "not")])
def test_perceptron_boolean(table, name):
    """perceptron-boolean: truth tables of separable functions."""
    found = Perceptron().fit(BITS, table)
    assert found.converged_
    np.testing.assert_array_equal(found.predict(BITS), table)


def test_majority_unit():
    """Weights of one and a threshold of half the inputs."""
    rows = np.array(list(itertools.product([0, 1], repeat=5)))
    found = Perceptron().fit(rows, rows.sum(axis=1) >= 3)
    found.coef_, found.intercept_ = np.ones((1, 5)), np.array([-2.5])
    np.testing.assert_array_equal(found.predict(rows), rows.sum(axis=1) >= 3)


def test_exercise_20_15():
    """ex20-15a (F24): weights, passes and changes from zero weights, rows in order."""
    found = Perceptron(at_zero=0, shuffle=False).fit(SIX, SIX_TARGET)
    assert found.intercept_.tolist() == [0]
    assert found.coef_.tolist() == [[2, 0, 1, -1, -2, 1]]
    assert (found.n_iter_[0], found.n_updates_[0]) == (4, 10)
    other = Perceptron(at_zero=1, shuffle=False).fit(SIX, SIX_TARGET)
    assert other.coef_.tolist() == [[5, -1, 3, -1, -3, 2]]
    assert other.intercept_.tolist() == [-3]
    assert (other.n_iter_[0], other.n_updates_[0]) == (13, 41)
    scaled = Perceptron(at_zero=0, shuffle=False, rate=0.125).fit(SIX, SIX_TARGET)
    np.testing.assert_array_equal(scaled.coef_, 0.125 * found.coef_)


def test_parity():
    """parity-perceptron (F24): never converges; weights at the ends of passes repeat."""
    rows = np.array(list(itertools.product([0, 1], repeat=4)))
    parity = rows.sum(axis=1) % 2
    # In units of the rate, 0.1: scores of exactly zero must be zero. The bias input of the source is -1.
    at_40, at_41 = (
        Perceptron(shuffle=False, max_iter=passes, at_zero=0).fit(
            rows, parity, coef_init=np.ones((1, 4)), intercept_init=[-1.0]
        )
        for passes in (40, 41)
    )
    for found in (at_40, at_41):
        assert not found.converged_
        assert [-found.intercept_[0], *found.coef_[0]] == [-1, -2, 0, 0, 0]
    assert at_41.n_updates_[0] - at_40.n_updates_[0] == 12


def test_two_bit_adder():
    """perceptron-two-bit-adder (F24): the carry is learned, the sum is not, as the linear programme confirms."""
    carry, total = BITS[:, 0] & BITS[:, 1], BITS[:, 0] ^ BITS[:, 1]
    assert separable(BITS, carry)
    assert not separable(BITS, total)
    assert Perceptron().fit(BITS, carry).score(BITS, carry) == 1
    stuck = Perceptron(max_iter=500).fit(BITS, total)
    assert not stuck.converged_
    assert stuck.score(BITS, total) < 1


@pytest.mark.parametrize("seed", range(5))
def test_novikoff(seed):
    """perceptron-rule: zero errors on separable rows within (R/γ)² changes, whatever the order."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(80, 3))
    y = x @ [1.0, -0.5, 2.0] + 0.3 > 0
    plane = separating_plane(x, y)
    assert plane is not None
    bound = novikoff_bound(x, y, plane[1:], plane[0])
    found = Perceptron(max_iter=100_000, random_state=seed).fit(x, y)
    assert found.converged_
    assert found.errors_[0][-1] == 0
    assert found.n_updates_[0] <= bound
    # The widest margin gives the least bound; the plane that was found gives one, too.
    assert found.n_updates_[0] <= found.update_bounds_[0] == novikoff_bound(x, y, found.coef_, found.intercept_[0])
    assert np.isnan(Perceptron(decay=100.0, random_state=seed).fit(x, y).update_bounds_[0])
    with refused("option.not-applicable"):
        novikoff_bound(x, y, -plane[1:], -plane[0])


def test_correct_row_changes_nothing():
    found = Perceptron(max_iter=1, shuffle=False).fit([[1.0], [-1.0]], [1, 0], coef_init=[[2.0]])
    assert found.coef_.tolist() == [[2.0]]
    assert found.n_updates_[0] == 0


def test_seismic():
    """threshold-classifier, seismic-separator, seismic-training (F22, F23): a line like the printed one is learned."""
    rng = np.random.default_rng(2)
    x = np.column_stack([rng.uniform(4.5, 7, 90), rng.uniform(2.5, 7, 90)])
    score = -4.9 + 1.7 * x[:, 0] - x[:, 1]
    # 63 rows, as many as printed, that leave a gap.
    x, score = x[np.abs(score) > 0.3][:63], score[np.abs(score) > 0.3][:63]
    assert len(x) == 63
    found = Perceptron(max_iter=100_000, random_state=0).fit(x, score > 0)
    assert found.converged_
    assert found.score(x, score > 0) == 1
    assert found.errors_[0][-1] == 0 < found.errors_[0][0]
    printed = Perceptron().fit([[0, 0], [1, 1]], [0, 1])
    printed.intercept_, printed.coef_ = np.array([-4.9]), np.array([[1.7, -1.0]])
    assert printed.decision_function([[5.4, 3.7]])[0] == pytest.approx(0.58)
    # A score of exactly zero counts as 1.
    printed.intercept_, printed.coef_ = np.array([-1.0]), np.array([[1.0, 0.0]])
    assert printed.predict([[1.0, 5.0]]).tolist() == [1]


def noisy(seed: int):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(72, 2))
    y = x @ [1.0, -1.0] > 0
    y[:4] = ~y[:4]
    return x, y


def test_cycle_and_pocket():
    """perceptron-cycle: never at rest on rows that no plane separates; the pocket keeps the best that was seen."""
    x, y = noisy(0)
    assert not separable(x, y)
    # More than 10,000 steps.
    last = Perceptron(max_iter=150, random_state=1).fit(x, y)
    pocket = Perceptron(max_iter=150, use="pocket", random_state=1).fit(x, y)
    assert not last.converged_
    assert (pocket.predict(x) != y).sum() == pocket.errors_[0].min() <= last.errors_[0].min()
    assert last.errors_[0].max() > last.errors_[0].min()
    xor = BITS[:, 0] ^ BITS[:, 1]
    stuck = Perceptron(max_iter=2500, random_state=0).fit(BITS, xor)
    assert not stuck.converged_
    assert stuck.n_updates_[0] >= 2500, "a change in every pass"
    assert stuck.errors_[0].min() == 1, "a plane that has one of the four wrong is visited"


def test_majority():
    """majority-learning: of 11 inputs, 1 where 6 or more are: the perceptron is above the tree at every size."""
    everything = np.array(list(itertools.product([0, 1], repeat=11)), float)
    truth = everything.sum(axis=1) >= 6
    rng = np.random.default_rng(0)
    for n in (10, 20, 40, 60, 80, 100):
        scores = []
        for seed in range(15):
            while len(np.unique(truth[at := rng.integers(2048, size=n)])) < 2:
                pass
            # Inputs standardised, as the family has them.
            plane = Perceptron(max_iter=200, random_state=seed).fit(2 * everything[at] - 1, truth[at])
            tree = MultiwayTree(tuple(range(11))).fit(everything[at], truth[at])
            scores.append([plane.score(2 * everything - 1, truth), tree.score(everything, truth)])
        of_plane, of_tree = np.mean(scores, axis=0)
        assert of_plane > of_tree, n
    assert of_plane > 0.95
    assert of_tree < 0.78


def test_restaurant():
    """perceptron-restaurant (F18, F48): the best plane is right on 73.96 % of codes, 97.40 % of indicators, not on 65 %.

    With as many examples as the tree has, the perceptron stays below it.
    """
    everything = all_inputs()
    truth = original_tree(everything)

    def indicators(table):
        return np.column_stack([table[:, [j]] == np.arange(len(d)) for j, d in enumerate(DOMAINS.values())]).astype(
            float
        )

    for rows, share in ((everything, 0.7396), (indicators(everything), 0.9740)):
        best = LogisticRegression(C=1e6, max_iter=5000).fit(rows, truth)
        assert best.score(rows, truth) == pytest.approx(share, abs=1e-4)
    rng = np.random.default_rng(1)
    for n in (20, 50, 100):
        scores = []
        for seed in range(10):
            x, y = sample(rng, n)
            tree = MultiwayTree(tuple(range(10))).fit(x, y).score(everything, truth)
            for code in (np.asarray, indicators):
                plane = Perceptron(max_iter=300, use="averaged", random_state=seed).fit(code(x), y)
                scores.append([plane.score(code(everything), truth), tree])
        of_codes, of_indicators = (np.mean(scores[k::2], axis=0) for k in (0, 1))
        assert of_codes[0] < of_codes[1] - 0.1
        assert of_indicators[0] < of_indicators[1] - 0.01


def test_decay():
    """perceptron-decay (F23): with 1000/(1000 + t) over 100,000 steps the weights settle, with a constant they do not."""
    x, y = noisy(0)

    def spread(decay: float) -> float:
        ends = [
            Perceptron(max_iter=passes, decay=decay, random_state=1).fit(x, y).coef_[0]
            for passes in range(1200, 1401, 20)
        ]
        return float(np.std(ends, axis=0).max())

    assert spread(1000.0) < 0.1 * spread(0.0)


def test_decay_of_rates():
    """Σα diverges and Σα² converges for α(t) = 1000/(1000 + t)."""
    t = np.arange(10**6)
    rate = 1000 / (1000 + t)
    assert rate.sum() == pytest.approx(1000 * np.log(1001), rel=1e-3)
    assert (rate**2).sum() < 1001


def test_several_classes_and_votes():
    rng = np.random.default_rng(3)
    centres = np.array([[0, 4], [4, 0], [-4, -4]])
    y = rng.integers(3, size=240)
    x = centres[y] + rng.normal(size=(240, 2))
    for use in ("last", "pocket", "averaged", "voted"):
        found = Perceptron(use=use, max_iter=30, random_state=0).fit(x[:160], y[:160])
        assert found.score(x[160:], y[160:]) > 0.93, use


def test_voted_by_hand():
    """Every weight vector has as many votes as rows it survived."""
    x, y = np.array([[1.0], [-1.0], [2.0], [0.5]]), np.array([1, 0, 1, 0])
    found = Perceptron(use="voted", max_iter=1, shuffle=False).fit(x, y)
    votes, lived = found._votes[0]
    weights, expected, count = np.zeros(2), [], 0
    for row, label in zip(np.column_stack([np.ones(4), x]), y, strict=True):
        said = int(weights @ row >= 0)
        if said != label:
            expected.append((weights.copy(), count))
            weights, count = weights + (label - said) * row, 1
        else:
            count += 1
    expected.append((weights, count))
    np.testing.assert_allclose(votes, [w for w, _ in expected])
    np.testing.assert_allclose(lived, [c for _, c in expected])


def slow_kernel(gram, side, order, passes=1):
    counts, summed = np.zeros(len(side)), np.zeros(len(side))
    for i, at in enumerate(order):
        if side[at] * np.sum(counts * side * gram[at]) <= 0:
            counts[at] += 1
            summed[at] += len(order) - i
    return counts, summed


def test_kernel_twin():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(60, 3))
    side = np.where((x**2).sum(axis=1) > 2.5, 1.0, -1.0)
    gram = (1 + x @ x.T) ** 2
    counts, summed, scores = np.zeros(60), np.zeros(60), np.zeros(60)
    order = rng.permutation(60)
    one_pass(gram, side, order, counts, summed, scores)
    slow = slow_kernel(gram, side, order)
    np.testing.assert_array_equal(counts, slow[0])
    np.testing.assert_array_equal(summed, slow[1])
    np.testing.assert_allclose(scores, gram @ (counts * side))


def test_kernel_perceptron_learns_a_circle():
    """What no plane separates a quadratic kernel does; a linear kernel is the plain perceptron without a bias."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-2, 2, size=(200, 2))
    y = (x**2).sum(axis=1) < 1.5
    found = KernelPerceptron(kernel="poly", max_iter=500, averaged=False, random_state=0).fit(x, y)
    assert found.converged_
    assert found.score(x, y) == 1
    assert LogisticRegression().fit(x, y).score(x, y) < 0.8
    rows = np.column_stack([np.ones(100), rng.normal(size=(100, 2))])
    target = rows @ [0.2, 1.0, -1.0] > 0
    dual = KernelPerceptron(kernel="linear", averaged=False, max_iter=1, random_state=0).fit(rows, target)
    weights = dual.dual_coef_ @ rows[dual.support_]
    np.testing.assert_allclose(dual.decision_function(rows), rows @ weights[0])
