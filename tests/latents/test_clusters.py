"""Relabelling and label-free summaries against enumeration, scikit-learn and planted switches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bayeslab.distributions.emissions import gaussian
from bayeslab.latents.labels.clusters import (
    adjusted_rand_index,
    binder_loss,
    canonical,
    coclustering,
    ordered,
    permute,
    permute_labels,
    point_partition,
    relabel_by_probabilities,
    relabel_to_pivot,
    variation_of_information,
)
from bayeslab.latents.partitions.component_number import NumberPrior
from tests.latents._enumeration import partitions
from tests.latents.partitions import sample_component_number
from tests.refusals import refused


def switched(seed: int, n_draws: int = 60, n_rows: int = 40, k: int = 3):
    """Draws of one clustering with noise, the numbering of each draw shuffled."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n_rows)
    clean = np.where(rng.random((n_draws, n_rows)) < 0.1, rng.integers(0, k, (n_draws, n_rows)), truth)
    shuffles = np.stack([rng.permutation(k) for _ in range(n_draws)])
    means = np.array([-3.0, 0.0, 5.0])[:k] + 0.1 * rng.normal(size=(n_draws, k))
    labels = np.take_along_axis(shuffles, clean, axis=1)
    return truth, clean, labels, permute(means, np.argsort(shuffles, axis=1)), means, shuffles


# --------------------------------------------------------------------------------- comparing


@pytest.mark.slow(why="statistical")
def test_indices_match_scikit_learn_and_pair_counts():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(2, 15))
        a, b = rng.integers(0, 4, n), rng.integers(0, 3, n)
        assert adjusted_rand_index(a, b) == pytest.approx(metrics.adjusted_rand_score(a, b))
        pairs = np.mean(np.equal.outer(a, a) != np.equal.outer(b, b))
        assert binder_loss(a, b) == pytest.approx(pairs)
        mutual = metrics.mutual_info_score(a, b)
        entropies = [metrics.mutual_info_score(x, x) for x in (a, b)]
        assert variation_of_information(a, b) == pytest.approx((sum(entropies) - 2 * mutual) / np.log(2), abs=1e-12)
        assert adjusted_rand_index(a, (a + 1) % 4) == 1 and variation_of_information(a, 3 - a) == pytest.approx(
            0, abs=1e-12
        )
    assert canonical(np.array([5, 2, 5, 9])).tolist() == [0, 1, 0, 2]
    with refused("data.wrong-length", "3.*4"):
        adjusted_rand_index(np.zeros(3, int), np.zeros(4, int))


# --------------------------------------------------------------------------------- relabelling


@pytest.mark.parametrize("seed", range(5))
def test_relabelling_undoes_planted_switches(seed):
    truth, clean, labels, values, means, _ = switched(seed)
    by_order = ordered(values)
    np.testing.assert_allclose(permute(values, by_order), means)
    assert np.array_equal(permute_labels(labels, by_order), clean)
    by_pivot = relabel_to_pivot(labels, 3, pivot=truth)
    assert np.array_equal(permute_labels(labels, by_pivot), clean)
    np.testing.assert_allclose(permute(values, by_pivot), means)
    # Without a pivot the numbering is some draw's: all draws agree with each other.
    own = permute_labels(labels, relabel_to_pivot(labels, 3))
    majority = [np.bincount(column).argmax() for column in own.T]
    assert np.mean(own == majority) > 0.85
    soft = np.eye(3)[labels] * 0.85 + 0.05
    stephens = permute_labels(labels, relabel_by_probabilities(soft))
    majority = [np.bincount(column).argmax() for column in stephens.T]
    assert np.mean(stephens == majority) > 0.85
    assert np.array_equal(relabel_by_probabilities(soft), relabel_by_probabilities(soft))


def test_pivot_assignment_is_the_best_of_all_permutations():
    rng = np.random.default_rng(1)
    for _ in range(100):
        pivot, labels = rng.integers(0, 3, 8), rng.integers(0, 3, (1, 8))
        found = permute_labels(labels, relabel_to_pivot(labels, 3, pivot))[0]
        best = max(np.sum(np.array(p)[labels[0]] == pivot) for p in itertools.permutations(range(3)))
        assert np.sum(found == pivot) == best


def test_stephens_reaches_the_least_divergence():
    """Three draws of probabilities: all numberings tried."""
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(30):
        base = rng.dirichlet([0.4, 0.4], size=6)
        p = np.stack([(0.7 * base + 0.3 * rng.dirichlet([1, 1], size=6))[:, rng.permutation(2)] for _ in range(3)])

        def loss(permutations, p=p):
            moved = np.stack([q[:, list(s)] for q, s in zip(p, permutations, strict=True)])
            return np.sum(moved * (np.log(moved) - np.log(moved.mean(axis=0))))

        best = min(loss(s) for s in itertools.product(itertools.permutations(range(2)), repeat=3))
        found = loss(relabel_by_probabilities(p))
        assert best - 1e-9 <= found <= min(loss([(0, 1)] * 3), loss(relabel_to_pivot(p.argmax(2), 2))) + 1e-9
        hits += found <= best + 1e-9
    # The algorithm ends in a local minimum; where draws agree about clusters it is the global one.
    assert hits >= 29


# --------------------------------------------------------------------------------- label-free


@pytest.mark.slow(why="statistical")
def test_coclustering_needs_no_labels():
    _, clean, labels, _, _, _ = switched(0)
    together = coclustering(labels)
    np.testing.assert_allclose(together, coclustering(clean))
    np.testing.assert_allclose(together, np.mean([np.equal.outer(d, d) for d in labels], axis=0))
    with refused("data.too-costly"):
        coclustering(np.zeros((2, 20_000), int))
    many = np.tile(labels, (1, 600))
    own = permute_labels(many, relabel_to_pivot(many, 3))
    assert np.mean(own == np.array([np.bincount(column).argmax() for column in own[:, :40].T] * 600)) > 0.85
    with refused("data.wrong-shape", r"\(40,\)"):
        coclustering(labels[0])


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("loss", ["vi", "binder"])
def test_the_point_partition_has_the_least_loss_of_all_partitions(loss):
    measure = variation_of_information if loss == "vi" else binder_loss
    rng = np.random.default_rng(3)
    every = list(partitions(6))
    for _ in range(25):
        base = rng.integers(0, 3, 6)
        draws = np.where(rng.random((12, 6)) < 0.3, rng.integers(0, 4, (12, 6)), base)
        losses = [np.mean([measure(c, d) for d in draws]) for c in every]
        found = point_partition(draws, loss=loss, max_clusters=6)
        assert found.expected_loss == pytest.approx(np.mean([measure(found.labels, d) for d in draws]))
        assert found.expected_loss == pytest.approx(min(losses), abs=1e-9)


def test_the_point_partition_finds_planted_clusters_and_its_limits_hold():
    truth, _, labels, _, _, _ = switched(4)
    for loss in ("vi", "binder"):
        found = point_partition(labels, loss=loss)
        assert adjusted_rand_index(found.labels, truth) == 1
        assert np.array_equal(found.labels, canonical(found.labels))
    assert point_partition(labels, max_clusters=2).labels.max() == 1
    assert point_partition(np.zeros((4, 1), int)).labels.tolist() == [0]
    with refused("option.unknown-word", "loss"):
        point_partition(labels, loss="vii")


def test_clusters_of_sampled_partitions():
    """From the sampler over the number of components to one clustering."""
    rng = np.random.default_rng(5)
    truth = np.repeat([0, 1, 2], 20)
    rows = np.array([[-5.0, 0], [0, 5], [5, 0]])[truth] + rng.normal(size=(60, 2))
    posterior = sample_component_number(gaussian(2), rows, rng=rng, prior=NumberPrior.uniform(8), draws=200, tune=100)
    found = point_partition(posterior.labels.reshape(-1, 60))
    assert adjusted_rand_index(found.labels, truth) > 0.95
