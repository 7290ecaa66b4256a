"""Virtual support vectors: what the copies are, what the local kernel is, and that both lower the error."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from bayeslab.learners.svm import SVMClassifier
from bayeslab.learners.toolbox.gram import check_gram
from bayeslab.learners.toolbox.images import image_shape, shifted, shifts, turned
from bayeslab.learners.virtual_svm import VirtualSVM, local_products
from tests.refusals import refused

sys.path.insert(0, str(Path(__file__).parent))
from strokes import sample

X, Y = load_digits(return_X_y=True)


def test_shifts():
    assert len(shifts(1)) == 8 and len(shifts(1, diagonal=False)) == 4 and shifts(0) == []
    image = np.arange(1.0, 7).reshape(1, 2, 3)
    np.testing.assert_array_equal(shifted(image, 1, 0)[0], [[0, 0, 0], [1, 2, 3]])
    np.testing.assert_array_equal(shifted(image, 0, -1)[0], [[2, 3, 0], [5, 6, 0]])
    np.testing.assert_array_equal(shifted(image, -1, 1)[0], [[0, 4, 5], [0, 0, 0]])
    assert not shifted(image, 2, 0).any()


def test_turned():
    image = np.zeros((1, 5, 5))
    image[0, 1, 2] = 1.0
    np.testing.assert_allclose(turned(image, 90.0), np.rot90(image, axes=(1, 2)), atol=1e-12)
    np.testing.assert_allclose(turned(image, -90.0), np.rot90(image, -1, axes=(1, 2)), atol=1e-12)
    np.testing.assert_allclose(turned(image), image)
    # Twice as large: the point is twice as far from the middle.
    assert np.unravel_index(turned(image, 0.0, 2.0)[0].argmax(), (5, 5)) == (0, 2)


def test_image_shape():
    assert image_shape(64) == (8, 8)
    assert image_shape(6) == (1, 6)
    assert image_shape(6, (2, 3)) == (2, 3)
    with pytest.raises(ValueError, match="2 × 2 have 4 pixels; the rows have 6"):
        image_shape(6, (2, 2))


@pytest.mark.parametrize("reach", [0, 1, 2])
def test_local_products(reach):
    """svm-virtual: the features' inner product is the sum over pairs of near pixels, weighted by pyramids; PSD."""
    rng = np.random.default_rng(0)
    shape = (3, 4)
    x, z = rng.normal(size=(2, 12))
    places = [(i, j) for i in range(3) for j in range(4)]
    expected = 0.0
    for a, (i, j) in enumerate(places):
        for b, (k, m) in enumerate(places):
            near = max(0, 1 - abs(i - k) / (reach + 1)) * max(0, 1 - abs(j - m) / (reach + 1))
            expected += near * x[a] * x[b] * z[a] * z[b]
    features = local_products(np.array([x, z]), shape, reach)
    assert features[0] @ features[1] == pytest.approx(expected)
    many = local_products(rng.normal(size=(30, 12)), shape, reach)
    check_gram((many @ many.T) ** 3)


def jittered(rng, rows):
    """Digits with a border, each moved by at most one pixel."""
    images = np.pad(X[rows].reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    moves = [(0, 0), *shifts(1)]
    at = rng.integers(0, len(moves), len(rows))
    return np.array([shifted(one[None], *moves[a])[0] for one, a in zip(images, at, strict=True)]).reshape(-1, 100)


@pytest.mark.slow(why="statistical")
def test_svm_virtual():
    """svm-virtual (F27): transformed support vectors at least halve the error on digits that are not centred."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    train, test = order[:400], order[400:1200]
    x, new = jittered(rng, train), jittered(rng, test)
    plain = VirtualSVM(kernel="rbf", rounds=0).fit(x, Y[train])
    virtual = VirtualSVM(kernel="rbf").fit(x, Y[train])
    n = len(virtual.first_.support_)
    assert n < virtual.n_virtual_ <= 9 * n
    assert 1 - virtual.score(new, Y[test]) < 0.5 * (1 - plain.score(new, Y[test]))


@pytest.mark.slow(why="large")
def test_local_kernel():
    """svm-virtual: on synthetic digits products of near pixels err less than those of all, and with copies least."""
    rng = np.random.default_rng(1)
    x, y = sample(rng, 200)
    new, truth = sample(rng, 500)
    error = {
        name: 1 - VirtualSVM(kernel=kernel, degree=degree, rounds=rounds).fit(x, y).score(new, truth)
        for name, kernel, degree, rounds in (
            ("all", "poly", 4, 0),
            ("near", "local", 2, 0),
            ("near and copies", "local", 2, 1),
        )
    }
    assert error["near"] < 0.7 * error["all"]
    assert error["near and copies"] < 0.7 * error["near"]


def test_no_rounds_is_the_machine():
    given = {"kernel": "poly", "degree": 3, "C": 10.0}
    plain = SVMClassifier(**given).fit(X[:200], Y[:200])
    none = VirtualSVM(**given, rounds=0).fit(X[:200], Y[:200])
    np.testing.assert_allclose(none.decision_function(X[200:300]), plain.decision_function(X[200:300]))


def test_virtual_rows():
    """The second machine is the plain machine of the support vectors and their eight shifts."""
    x, y = X[:150], Y[:150]
    found = VirtualSVM(kernel="poly", degree=3).fit(x, y)
    support = x[found.first_.support_]
    images = support.reshape(-1, 8, 8)
    rows = np.vstack([support, *(shifted(images, *s).reshape(-1, 64) for s in shifts(1))])
    again = SVMClassifier(10.0, "poly").fit(rows, np.tile(y[found.first_.support_], 9))
    np.testing.assert_allclose(again.decision_function(X[150:400]), found.decision_function(X[150:400]), atol=1e-3)


def test_errors():
    with refused("option.unknown-word", "'kernel'.*'sigmoid'", kind=ValueError):
        VirtualSVM(kernel="sigmoid").fit(X[:50], Y[:50])
    with pytest.raises(ValueError, match="have 81 pixels"):
        VirtualSVM(image_shape=(9, 9)).fit(X[:50], Y[:50])
