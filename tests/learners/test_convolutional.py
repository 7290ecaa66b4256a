"""A convolutional net: its shape, shared weights, gradients by finite differences, moved images, three nets boosted."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from bayeslab.learners.convolutional import (
    SIDE,
    BoostedConvolutional,
    Convolutional,
    Shape,
    gradient,
    maps,
    padded,
    split_windows,
)
from bayeslab.learners.toolbox.augment import affine, moved
from bayeslab.learners.toolbox.convolution_kernels import scatter


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    return (x[:1200] / 16, y[:1200]), (x[1200:] / 16, y[1200:])


@pytest.fixture(scope="module")
def net(digits):
    return Convolutional(max_iter=12, learning_rate_init=0.01, random_state=0).fit(*digits[0])


def random_weights(rng, dtype=np.float32, n_classes=10):
    shapes = Shape().shapes(n_classes)
    flat = np.zeros(sum(a * b + b for a, b in shapes), dtype)
    for w, b in split_windows(flat, shapes):
        w[:], b[:] = rng.normal(0, np.sqrt(2 / len(w)), w.shape), 0.1 * rng.normal(size=len(b))
    return flat, shapes


def test_shape():
    """lenet (F27): hidden layers of 768, 192 and 30 units on 32 × 32 pixels; the weights are far fewer for being shared."""
    assert Shape().units == (768, 192, 30)
    assert Shape().sides == (SIDE, 8, 4)
    rng = np.random.default_rng(0)
    flat, shapes = random_weights(rng)
    found = maps(split_windows(flat, shapes), rng.random((3, 32, 32), np.float32), Shape())
    assert [found[i].size // 3 for i in (1, 3, 4, 5)] == [768, 192, 30, 10]
    assert shapes[0] == (64, 12)
    assert len(flat) < 12_000


def test_translation():
    """lenet: an image shifted by a stride has its maps shifted by one."""
    rng = np.random.default_rng(1)
    flat, shapes = random_weights(rng)
    image = np.zeros((1, 32, 32), np.float32)
    image[0, 10:18, 10:18] = rng.random((8, 8))
    by_four, by_eight = np.roll(image, (4, 4), (1, 2)), np.roll(image, (8, 8), (1, 2))
    first = [maps(split_windows(flat, shapes), x, Shape())[1].reshape(8, 8, 12) for x in (image, by_four)]
    np.testing.assert_allclose(first[1][1:, 1:], first[0][:-1, :-1], atol=1e-5)
    assert np.abs(first[0]).max() > 0.1
    # Away from the edge, where the units of both layers see nothing but the image and the black around it.
    second = [maps(split_windows(flat, shapes), x, Shape())[3].reshape(4, 4, 12) for x in (image, by_eight)]
    np.testing.assert_allclose(second[1][2, 2], second[0][1, 1], atol=1e-5)


def test_gradient():
    """lenet, backprop: derivatives by shared weights are those of finite differences."""
    rng = np.random.default_rng(2)
    flat, _ = random_weights(rng, np.float64, 3)
    images, targets = rng.random((4, 32, 32)), np.eye(3)[[0, 1, 2, 0]]
    _, found = gradient(flat, images, targets, Shape())
    for i in rng.choice(len(flat), 60, replace=False):
        sides = []
        for h in (1e-6, -1e-6):
            changed = flat.copy()
            changed[i] += h
            sides.append(gradient(changed, images, targets, Shape())[0])
        assert found[i] == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=2e-7)


def test_scatter_against_a_plain_twin():
    rng = np.random.default_rng(3)
    out, twin = np.zeros((2, 6, 6, 3)), np.zeros((2, 10, 10, 3))
    windows = rng.normal(size=(2 * 9, 3 * 25))
    scatter(windows, out, 5, 2, 2)
    for k in range(2):
        for u in range(3):
            for v in range(3):
                block = windows[(k * 3 + u) * 3 + v].reshape(3, 5, 5).transpose(1, 2, 0)
                twin[k, 2 * u : 2 * u + 5, 2 * v : 2 * v + 5] += block
    np.testing.assert_allclose(out, twin[:, 2:8, 2:8])


@pytest.mark.slow(why="large")
def test_digits(digits, net):
    """lenet: real digits of 8 × 8 pixels, enlarged to 24 × 24 in the middle of 32 × 32."""
    assert net.score(*digits[1]) > 0.95
    assert net.loss_curve_[-1] < 0.3 * net.loss_curve_[0]
    images = padded(digits[0][0][:2])
    assert images.shape == (2, 32, 32)
    np.testing.assert_array_equal(images[:, 4:28:3, 4:28:3], digits[0][0][:2].reshape(2, 8, 8).astype(np.float32))
    assert images[:, :4].sum() == images[:, 28:].sum() == 0


def test_affine():
    """augment-affine: no move returns the image, small ones keep its mass, and labels have nothing to do with it."""
    rng = np.random.default_rng(4)
    images = np.zeros((5, 32, 32), np.float32)
    images[:, 8:24, 8:24] = rng.random((5, 16, 16))
    np.testing.assert_array_equal(affine(images), images)
    mass = images.sum(axis=(1, 2))
    np.testing.assert_allclose(affine(images, (1.3, -2.4)).sum(axis=(1, 2)), mass, rtol=1e-4)
    np.testing.assert_allclose(affine(images, 3.0), np.roll(images, (3, 3), (1, 2)), atol=1e-6)
    np.testing.assert_allclose(affine(images, angle=np.pi / 2), np.rot90(images, axes=(1, 2)), atol=1e-4)
    np.testing.assert_allclose(affine(images, scale=2.0).sum(axis=(1, 2)), 4 * mass, rtol=0.1)
    changed = moved(images, rng, 2, 10, 0.1)
    assert changed.shape == images.shape
    assert np.abs(changed - images).max() > 0.1
    np.testing.assert_allclose(changed.sum(axis=(1, 2)), mass, rtol=0.25)


@pytest.mark.slow(why="large")
def test_boosted_nets(digits):
    """boosted-nets: of the second set the first net has half wrong, the third is where they disagree; outputs add up."""
    (x, y), (new, truth) = digits
    small = Convolutional(max_iter=3, random_state=0)
    found = BoostedConvolutional(small, random_state=0).fit(x[:600], y[:600])
    first, second, third = found.estimators_
    (images, codes), (later, _) = found.sets_
    wrong = np.mean(first._says(images).argmax(axis=1) != codes)
    assert abs(wrong - 0.5) < 0.01
    said = [net._says(later).argmax(axis=1) for net in (first, second)]
    assert np.mean(said[0] != said[1]) > 0.99
    parts = [net._says(first._images(new)) for net in (first, second, third)]
    np.testing.assert_allclose(found.predict_proba(new), np.mean(parts, axis=0))
    assert found.score(new, truth) >= first.score(new, truth) - 0.01


def test_errors():
    with pytest.raises(ValueError, match="one class"):
        Convolutional().fit(np.zeros((4, 64)), np.ones(4))
    with pytest.raises(ValueError, match="40 × 40 pixels are larger"):
        Convolutional().fit(np.ones((4, 1600)), [0, 1, 0, 1])


def test_a_loss_without_bounds_is_refused(digits):
    for given in {"learning_rate_init": 1e9}, {"learning_rate_init": 1e30}:
        with pytest.raises(ValueError, match="diverged"):
            Convolutional(max_iter=2, random_state=0, **given).fit(digits[0][0][:40], digits[0][1][:40])
