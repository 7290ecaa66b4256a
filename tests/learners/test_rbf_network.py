"""Radial basis functions and condensed neighbours: interpolation, least squares, consistency."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from bayeslab.learners.condensed_nn import CondensedNN
from bayeslab.learners.knn import KNNClassifier
from bayeslab.learners.rbf_network import RBFClassifier, RBFRegressor, farthest_first
from tests.refusals import refused

RNG = np.random.default_rng(6)
X = RNG.uniform(-2, 2, (150, 2))
Y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1])


@pytest.mark.parametrize("centres", ["kmeans", "mixture", "farthest"])
def test_rbf_net(centres):
    """rbf-net: centres first, from inputs alone; then the linear solve, exact at these centres."""
    found = RBFRegressor(centres, 12, alpha=0, random_state=0).fit(X, Y)
    other = RBFRegressor(centres, 12, alpha=0, random_state=0).fit(X, RNG.normal(size=150))
    np.testing.assert_array_equal(found.centres_, other.centres_)
    bumps = np.exp(-((X[:, None] - found.centres_) ** 2).sum(axis=2) / (2 * found.widths_**2))
    reference = LinearRegression().fit(bumps, Y)
    np.testing.assert_allclose(found.predict(X), reference.predict(bumps), atol=1e-6)
    residual = Y - found.predict(X)
    np.testing.assert_allclose(np.column_stack([bumps, np.ones(150)]).T @ residual, 0, atol=1e-6)
    fresh = RNG.uniform(-1.8, 1.8, (200, 2))
    truth = np.sin(2 * fresh[:, 0]) * np.cos(fresh[:, 1])
    more = RBFRegressor(centres, 20, random_state=0).fit(X, Y)
    assert np.mean((more.predict(fresh) - truth) ** 2) < 0.1 * truth.var()


def test_rbf_centres_all():
    """rbf-centres-all: a bump of equal width on every row joins the training values."""
    found = RBFRegressor("all", width=0.3, alpha=0).fit(X, Y)
    assert len(found.centres_) == 150
    assert len(set(found.widths_)) == 1
    np.testing.assert_allclose(found.predict(X), Y, atol=1e-6)


def test_rbf_centres_few():
    """rbf-centres-few: more of nested centres never raise the training error; the solve is lstsq's."""
    errors = []
    for k in (1, 2, 5, 10, 20, 40):
        found = RBFRegressor("farthest", k, width=0.7, alpha=0).fit(X, Y)
        np.testing.assert_array_equal(found.centres_, farthest_first(X, 40)[:k])
        bumps = np.exp(-((X[:, None] - found.centres_) ** 2).sum(axis=2) / (2 * 0.7**2))
        rows = np.column_stack([np.ones(150), bumps])
        errors.append(np.mean((Y - found.predict(X)) ** 2))
        residual = Y - rows @ np.linalg.lstsq(rows, Y, rcond=None)[0]
        assert errors[-1] == pytest.approx(np.mean(residual**2), rel=1e-5)
    assert (np.diff(errors) <= 1e-12).all()
    assert errors[-1] < 0.1 * errors[0]
    mixture = RBFRegressor("mixture", 10, random_state=0).fit(X, Y)
    assert len(set(np.round(mixture.widths_, 9))) >= 5, "components have widths of their own"


def test_rbf_classes():
    inside = (X**2).sum(axis=1) < 2
    ring = RBFClassifier(n_centres=30, random_state=0).fit(X, inside)
    fresh = RNG.uniform(-2, 2, (500, 2))
    assert ring.score(fresh, (fresh**2).sum(axis=1) < 2) > 0.93
    three = np.digitize(X[:, 0], [-0.7, 0.7])
    assert RBFClassifier("mixture", 10, random_state=0).fit(X, three).score(X, three) > 0.9
    with pytest.raises(ValueError, match="one class"):
        RBFClassifier().fit(X, np.zeros(150))
    with refused("option.unknown-word", "'centres'.*'nowhere'", kind=ValueError):
        RBFRegressor("nowhere").fit(X, Y)


def test_condensed():
    """The rows kept get all training rows right by 1-NN; there are few of them, near the border."""
    x = RNG.uniform(-1, 1, (1000, 2))
    y = np.where(x[:, 0] > 0, "right", "left")
    for options in ({}, {"shuffle": False}, {"p": 1.0}):
        found = CondensedNN(random_state=0, **options).fit(x, y)
        assert found.score(x, y) == 1
        few = KNNClassifier(1, p=options.get("p", 2.0)).fit(x[found.kept_], y[found.kept_])
        np.testing.assert_array_equal(few.predict(x), y)
        assert len(found.kept_) < 100
        assert np.median(np.abs(x[found.kept_, 0])) < 0.5 * np.median(np.abs(x[:, 0]))
    fresh = RNG.uniform(-1, 1, (1000, 2))
    assert found.score(fresh, np.where(fresh[:, 0] > 0, "right", "left")) > 0.95


def test_condensed_equal_rows():
    """Equal rows of different classes: what most of them have, and an end."""
    found = CondensedNN().fit([[0.0], [0.0], [0.0], [1.0]], [0, 1, 1, 0])
    np.testing.assert_array_equal(found.predict([[0.0], [1.0]]), [1, 0])
