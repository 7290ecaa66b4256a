"""Shape matching: outlines, contexts, splines, and digits told apart."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import map_coordinates
from sklearn.neighbors import KNeighborsClassifier

from bayeslab.learners.shape_context import Shape, ShapeContextKNN, outline, shape_distance, thin_plate
from bayeslab.learners.toolbox.shape_kernels import costs, histograms, spread

sys.path.insert(0, str(Path(__file__).parent))
from strokes import sample


def disc(size=28, radius=8.0, centre=(13.0, 14.0)):
    at = np.arange(size)
    r = np.hypot(at[:, None] - centre[0], at[None] - centre[1])
    return np.clip(radius - r + 0.5, 0, 1)


def test_outline():
    """shape-match: 100 points on the edge, spread out, with normals that point inwards."""
    points, angles = outline(disc())
    assert points.shape == (100, 2)
    gap = points - [13, 14]
    np.testing.assert_allclose(np.hypot(*gap.T), 8, atol=0.15)
    inwards = np.stack([np.sin(angles), np.cos(angles)], axis=1)
    assert (-(gap * inwards).sum(axis=1) / np.hypot(*gap.T)).min() > 0.98
    turn = np.sort(np.arctan2(*gap.T))
    assert np.diff(turn).max() < 3 * 2 * np.pi / 100
    assert len(outline(np.ones((5, 5)))[0]) == 0
    np.testing.assert_allclose(outline(np.arange(9.0).reshape(1, 9))[0][:, 1], 4)


def test_spread():
    """As a plain loop does it."""
    points = np.random.default_rng(0).normal(size=(40, 2))
    chosen = [int(((points - points.mean(axis=0)) ** 2).sum(axis=1).argmax())]
    while len(chosen) < 12:
        nearest = ((points[:, None] - points[chosen]) ** 2).sum(axis=2).min(axis=1)
        chosen.append(int(nearest.argmax()))
    np.testing.assert_array_equal(spread(points, 12), chosen)
    assert len(set(spread(points, 100).tolist())) == 40


def test_histograms():
    """Against a plain count; each place counts once, and neither moving nor enlarging changes anything."""
    points = np.random.default_rng(0).normal(size=(25, 2))
    found = histograms(points, 5, 12, 0.125, 2.0)
    edges = 0.125 * 16 ** (np.arange(5) / 4)
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    unit = apart.sum() / (25 * 24)
    expected = np.zeros((25, 60))
    for i, j in itertools.permutations(range(25), 2):
        ring = int(np.searchsorted(edges, apart[i, j] / unit))
        dy, dx = points[j] - points[i]
        if ring < 5:
            expected[i, ring * 12 + int(np.arctan2(dy, dx) % (2 * np.pi) / (2 * np.pi) * 12)] += 1 / 24
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert (found.sum(axis=1) > 0.9).mean() > 0.8
    np.testing.assert_allclose(histograms(3 * points + 7, 5, 12, 0.125, 2.0), found, atol=1e-12)


def test_costs():
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(6), 4), rng.dirichlet(np.ones(6), 3)
    a[0, 2] = 0
    turn_a, turn_b = rng.uniform(-3, 3, 4), rng.uniform(-3, 3, 3)
    plain = 0.5 * ((a[:, None] - b) ** 2 / (a[:, None] + b)).sum(axis=2)
    turned = 0.5 * (1 - np.cos(turn_a[:, None] - turn_b))
    np.testing.assert_allclose(costs(a, b, turn_a, turn_b, 0.1), 0.9 * plain + 0.1 * turned, atol=1e-12)


def test_thin_plate():
    """Goes through the targets when not smoothed; affine maps bend nothing; heavy smoothing is least squares."""
    rng = np.random.default_rng(0)
    points, targets = rng.normal(size=(20, 2)), rng.normal(size=(20, 2))
    moved, energy = thin_plate(points, targets, 0.0)
    np.testing.assert_allclose(moved, targets, atol=1e-8)
    assert energy > 0
    affine = points @ rng.normal(size=(2, 2)) + [1.0, 2.0]
    moved, energy = thin_plate(points, affine, 1.0)
    np.testing.assert_allclose(moved, affine, atol=1e-8)
    assert energy < 1e-12
    plane = np.column_stack([np.ones(20), points])
    flat = plane @ np.linalg.lstsq(plane, targets)[0]
    np.testing.assert_allclose(thin_plate(points, targets, 1e8)[0], flat, atol=1e-4)


@pytest.mark.slow(why="large")
def test_identical():
    """shape-match (F27): the distance of an image to itself is zero, to others it is not."""
    images, _ = sample(np.random.default_rng(0), 10, 20)
    shapes = [Shape.of(one.reshape(20, 20)) for one in images[:5]]
    for a, b in itertools.product(range(5), repeat=2):
        for n_iter in (0, 2):
            found = shape_distance(shapes[a], shapes[b], n_iter)
            assert found == pytest.approx(0, abs=1e-10) if a == b else found > 0.02
    empty = Shape.of(np.zeros((20, 20)))
    assert shape_distance(empty, empty) == 0
    assert shape_distance(empty, shapes[0]) > 1


def test_moved_shape():
    """A shape that is moved is the same shape: only brightness between pixels differs."""
    here, there = Shape.of(disc()), Shape.of(disc(centre=(15.0, 12.0)))
    other = Shape.of(np.pad(np.ones((14, 14)), 7))
    assert shape_distance(here, there) < 0.02 < 0.2 * shape_distance(here, other)


def test_bent_shape():
    """shape-match: sheared digits are bent back: nearer to their own than before, also as a share of the next other."""
    images, _ = sample(np.random.default_rng(1), 10, 28, bend=0.0)
    y, x = np.stack(np.meshgrid(np.arange(28.0), np.arange(28.0), indexing="ij")) - 13.5
    sheared = np.array([y + 0.35 * x, x - 0.1 * y]) + 13.5
    shapes = [Shape.of(one.reshape(28, 28), 60) for one in images]
    own, share = np.zeros((2, 10)), np.zeros((2, 10))
    for i, one in enumerate(images):
        shape = Shape.of(map_coordinates(one.reshape(28, 28), sheared, order=1), 60)
        for k, n_iter in enumerate((0, 1)):
            apart = np.array([shape_distance(shape, other, n_iter) for other in shapes])
            assert apart.argmin() == i
            own[k, i], share[k, i] = apart[i], apart[i] / np.delete(apart, i).min()
    assert own[1].mean() < 0.85 * own[0].mean()
    assert share[1].mean() < 0.95 * share[0].mean()


@pytest.mark.slow(why="large")
def test_shape_match():
    """shape-match (F27): three nearest shapes err less than half as often as three nearest rows of pixels."""
    rng = np.random.default_rng(3)
    x, y = sample(rng, 80, 20)
    new, truth = sample(rng, 60, 20)
    pixels = 1 - KNeighborsClassifier(3).fit(x, y).score(new, truth)
    found = ShapeContextKNN(n_points=40, n_candidates=40).fit(x, y)
    assert 1 - found.score(new, truth) < 0.5 * pixels
    distances = found.distances(new[:5])
    assert np.isfinite(distances).sum(axis=1).tolist() == [40] * 5
    votes = found.predict_proba(new[:5])
    np.testing.assert_allclose(votes.sum(axis=1), 1)
    exact = ShapeContextKNN(n_neighbors=1, n_points=40, n_candidates=None).fit(x[:20], y[:20])
    np.testing.assert_array_equal(exact.predict(x[:20]), y[:20])


def test_errors():
    x, y = sample(np.random.default_rng(0), 10)
    with pytest.raises(ValueError, match="n_neighbors is 11, and there are n_samples = 10"):
        ShapeContextKNN(11).fit(x, y)
    with pytest.raises(ValueError, match="n_candidates is 2, fewer than the 3"):
        ShapeContextKNN(n_candidates=2).fit(x, y)
    with pytest.raises(ValueError, match="15 × 16"):
        ShapeContextKNN(image_shape=(15, 16)).fit(x, y)
