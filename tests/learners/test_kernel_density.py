"""Densities by windows and by neighbours: integrals, planted densities, Bayes' rule."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid
from sklearn.datasets import load_iris

from bayeslab.learners.kernel_density import (
    KernelDensity,
    KernelDensityClassifier,
    NeighborDensity,
    conditional_density,
    left_out_log_density,
)
from tests.refusals import refused

RNG = np.random.default_rng(4)


def test_kernel_density():
    """kernel-density (M6): the average of Gaussian windows; it integrates to one, with the printed normaliser to w^-d."""
    for d, w in ((1, 0.4), (2, 0.5)):
        x = RNG.normal(size=(12, d))
        at = np.linspace(-7, 7, 141)
        grid = np.stack(np.meshgrid(*[at] * d, indexing="ij"), axis=-1).reshape(-1, d)
        density = np.exp(KernelDensity(w).fit(x).score_samples(grid))
        by_hand = np.mean([stats.multivariate_normal(c, w**2 * np.eye(d)).pdf(grid) for c in x], axis=0)
        np.testing.assert_allclose(density, by_hand, atol=1e-12)
        cell = (at[1] - at[0]) ** d
        assert density.sum() * cell == pytest.approx(1, abs=1e-6)
        printed = density * (w * np.sqrt(2 * np.pi)) ** d / (w**2 * np.sqrt(2 * np.pi)) ** d
        assert printed.sum() * cell == pytest.approx(w**-d, rel=1e-6)


def test_kernel_density_cv():
    """kernel-density-cv: held-out log density peaks between too small and too large a width; rows left out find it."""
    x, fresh = (np.concatenate([RNG.normal(-2, 0.7, n), RNG.normal(2, 0.7, n)])[:, None] for n in (100, 1000))
    found = KernelDensity().fit(x)
    small, good, large = (KernelDensity(found.width_ * f).fit(x).score(fresh) for f in (0.1, 1, 10))
    assert good > small + 50
    assert good > large + 50
    widths = np.array([0.2, 0.5])
    slow = [
        np.mean([KernelDensity(w).fit(np.delete(x, i, 0)).score_samples(x[[i]])[0] for i in range(len(x))])
        for w in widths
    ]
    np.testing.assert_allclose(left_out_log_density(x, widths), slow)


def test_knn_density():
    """knn-density (M3): of k = 3, 10, 40 of 128 rows, 10 is closest to the planted density; 3 is spiky and 40 flat."""
    centres = np.array([[0.0, 0.0], [1.5, 1.5], [0.0, 1.8]])
    at = np.linspace(-1.2, 2.9, 42)
    grid = np.stack(np.meshgrid(at, at), axis=-1).reshape(-1, 2)
    truth = np.mean([stats.multivariate_normal(c, 0.09 * np.eye(2)).pdf(grid) for c in centres], axis=0)
    error, roughness, peak = {}, {}, {}
    for k in (3, 10, 40):
        errors, rough, peaks = [], [], []
        for _ in range(20):
            x = centres[RNG.integers(0, 3, 128)] + 0.3 * RNG.normal(size=(128, 2))
            density = np.exp(NeighborDensity(k).fit(x).score_samples(grid))
            errors.append(np.mean(np.abs(density - truth)))
            rough.append(np.abs(np.diff(density.reshape(42, 42), axis=0)).mean())
            peaks.append(density.max())
        error[k], roughness[k], peak[k] = np.mean(errors), np.mean(rough), np.mean(peaks)
    assert error[10] < error[3]
    assert error[10] < error[40]
    assert roughness[3] > roughness[10] > roughness[40]
    assert peak[3] > 2 * truth.max()
    assert peak[40] < truth.max()


def test_neighbor_density_by_hand():
    """k over N times the volume of the ball."""
    x = RNG.normal(size=(50, 3))
    query = np.zeros((1, 3))
    radius = np.sort(np.linalg.norm(x, axis=1))[6]
    expected = 7 / (50 * 4 / 3 * np.pi * radius**3)
    assert np.exp(NeighborDensity(7).fit(x).score_samples(query))[0] == pytest.approx(expected)


def test_pred_from_density():
    """pred-from-density: p(y|x) from the joint density by neighbours agrees with the planted conditional density."""
    n = 20_000
    x = RNG.uniform(-1, 1, n)
    y = np.sin(2 * x) + 0.4 * RNG.normal(size=n)
    values = np.linspace(-3, 3, 121)
    joint = NeighborDensity(150).fit(np.column_stack([x, y]))
    for at in (-0.5, 0.0, 0.6):
        found = conditional_density(joint, at, values)
        assert trapezoid(found, values) == pytest.approx(1, abs=0.01)
        truth = stats.norm(np.sin(2 * at), 0.4).pdf(values)
        # Half the area between the curves: 0 the same, 1 nowhere alike.
        assert 0.5 * trapezoid(np.abs(found - truth), values) < 0.1
        mean = trapezoid(found * values, values)
        assert mean == pytest.approx(np.sin(2 * at), abs=0.05)


def test_classifier():
    """Bayes' rule by hand, and on irises; rows that occur twice, and one row of a class, are no trouble."""
    x, y = load_iris(return_X_y=True)
    found = KernelDensityClassifier(0.5).fit(x, y)
    joint = np.stack([50 / 150 * np.exp(KernelDensity(0.5).fit(x[y == c]).score_samples(x)) for c in range(3)], axis=1)
    np.testing.assert_allclose(found.predict_proba(x), joint / joint.sum(axis=1, keepdims=True), atol=1e-12)
    assert KernelDensityClassifier().fit(x[::2], y[::2]).score(x[1::2], y[1::2]) > 0.9
    few = KernelDensityClassifier().fit([[0.0], [0.0], [0.1], [5.0]], [0, 0, 0, 1])
    np.testing.assert_array_equal(few.predict([[0.0], [5.0]]), [0, 1])
    with refused("option.out-of-range", "KernelDensity.*'width'", kind=ValueError):
        KernelDensity(-1.0).fit(x)
