"""Multiple kernel learning: the weights lie on the simplex, are the best there, and go to the kernel that is of use."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from bayeslab.learners.multiple_kernel import MultipleKernelClassifier, MultipleKernelRegressor
from bayeslab.learners.svm import SVMClassifier
from tests.refusals import refused


def rings(rng, n=120, noise=4):
    """Two classes by the radius of two columns; the others are noise."""
    x = rng.normal(size=(n, 2 + noise))
    return x, ((x[:, :2] ** 2).sum(axis=1) > 1.4).astype(int)


def useful(a, b):
    return np.exp(-((a[:, None, :2] - b[None, :, :2]) ** 2).sum(axis=2))


def noise(a, b):
    return np.exp(-((a[:, None, 2:] - b[None, :, 2:]) ** 2).sum(axis=2) / 8)


def test_mkl_picks_useful_kernel():
    """mkl: weights are zero or more, add up to one, and go to the kernel that sees the classes."""
    rng = np.random.default_rng(0)
    x, y = rings(rng)
    new, truth = rings(rng, 300)
    found = MultipleKernelClassifier([noise, useful, "linear"]).fit(x, y)
    assert found.weights_.min() >= 0
    assert found.weights_.sum() == pytest.approx(1)
    assert found.kernel_names_ == ["noise", "useful", "linear"]
    assert found.weights_[1] > 0.8
    assert found.gap_ < 0.01
    both = SVMClassifier(1.0, lambda a, b: useful(a, b) + noise(a, b)).fit(x, y)
    assert found.score(new, truth) > both.score(new, truth)


def test_mkl_weights_are_the_best():
    """mkl: no other weights of two kernels give the machine a lower objective; round by round it never rises."""
    x, y = rings(np.random.default_rng(1), 80, 2)
    side = np.where(y, 1.0, -1.0)
    # Two kernels that both say something.
    kernels = [lambda a, b: useful(a[:, [0, 0]], b[:, [0, 0]]), lambda a, b: useful(a[:, [1, 1]], b[:, [1, 1]])]
    found = MultipleKernelClassifier(kernels, tol=1e-5, max_iter=300).fit(x, y)
    first, second = (scale * kernel(x, x) for scale, kernel in zip(found.scales_, kernels, strict=True))

    def objective(weight):
        gram = weight * first + (1 - weight) * second
        machine = SVC(C=1.0, kernel="precomputed", tol=1e-8).fit(gram, side)
        c, at = machine.dual_coef_[0], machine.support_
        return np.abs(c).sum() - 0.5 * c @ gram[np.ix_(at, at)] @ c

    best = minimize_scalar(objective, bounds=(0, 1), method="bounded", options={"xatol": 1e-6})
    assert 0.1 < best.x < 0.9
    np.testing.assert_allclose(found.weights_, [best.x, 1 - best.x], atol=0.01)
    np.testing.assert_allclose(found.objectives_[-1], best.fun, rtol=1e-4)
    assert np.diff(found.objectives_).max() < 1e-3


def test_one_kernel_is_the_machine():
    """With one kernel the plain machine, its kernel divided by the variance of the rows."""
    x, y = rings(np.random.default_rng(2), 60)
    found = MultipleKernelClassifier(["rbf"], [1.0]).fit(x, y)
    assert found.weights_.tolist() == [1.0]
    plain = SVMClassifier(found.scales_[0], "rbf", gamma=1 / 6, tol=1e-5).fit(x, y)
    np.testing.assert_allclose(found.decision_function(x), plain.decision_function(x), atol=1e-3)


def test_each_input():
    """A kernel for each column: those of noise get no weight."""
    x, y = rings(np.random.default_rng(3), 150)
    found = MultipleKernelClassifier(["rbf"], [1.0], each_input=True, C=1.0).fit(x, y)
    of = dict(zip(found.kernel_names_, found.weights_, strict=True))
    assert len(of) == 7
    assert of["rbf(1) of 0"] + of["rbf(1) of 1"] > 0.8
    assert max(of[f"rbf(1) of {j}"] for j in range(2, 6)) < 0.1


def test_regression():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(100, 2))
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=100)
    found = MultipleKernelRegressor(["linear", "rbf"], [1.0, 5.0], each_input=True, C=5.0).fit(x, y)
    new = rng.uniform(-1.8, 1.8, size=(100, 2))
    assert np.mean((found.predict(new) - np.sin(2 * new[:, 0])) ** 2) < 0.01
    of_first = sum(w for w, name in zip(found.weights_, found.kernel_names_, strict=True) if name.endswith("of 0"))
    assert of_first > 0.7
    assert found.weights_.sum() == pytest.approx(1)


def test_classes_share_the_weights():
    from sklearn.datasets import load_iris

    x, y = load_iris(return_X_y=True)
    found = MultipleKernelClassifier().fit(x, y)
    assert found.score(x, y) > 0.95
    assert found.decision_function(x).shape == (150, 3)
    assert found.weights_.shape == (5,)


def test_errors():
    x, y = rings(np.random.default_rng(0), 20)
    with pytest.raises(ValueError, match="not a Mercer kernel"):
        MultipleKernelClassifier(["linear", lambda a, b: -(a @ b.T)]).fit(x, y)
    with pytest.raises(ValueError, match="one class"):
        MultipleKernelClassifier().fit(x, np.ones(20))
    with refused("option.wrong-length", "'kernels'", kind=ValueError):
        MultipleKernelClassifier([]).fit(x, y)


def test_a_machine_that_is_not_solved_ends_the_rounds():
    """A huge C where classes overlap: each round would take as long, for weights that mean nothing."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 3))
    y = x[:, 0] + rng.normal(size=60) > 0
    with pytest.warns(ConvergenceWarning, match="smaller C than 1e\\+09") as caught:
        found = MultipleKernelClassifier(["linear", "poly"], C=1e9).fit(x, y)
    assert len(caught) == 1 and found.n_iter_ == 1 and not found.converged_
