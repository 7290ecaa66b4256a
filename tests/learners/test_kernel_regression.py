"""Kernel regression and locally weighted regression: weights, limits, the three criteria."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from bayeslab.learners.kernel_regression import KernelRegression, KernelVote
from bayeslab.learners.knn import KNNClassifier, KNNRegressor
from bayeslab.learners.locally_weighted import LocallyWeighted
from bayeslab.learners.toolbox.windows import WINDOWS, window
from tests.refusals import refused

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("kernel", list(WINDOWS))
def test_kernel_regress(kernel):
    """kernel-regress: weights add up to one; a width to zero gives the nearest row; by hand between."""
    x, y = RNG.normal(size=(40, 2)), RNG.normal(size=40)
    queries = RNG.normal(size=(15, 2)) * 2
    for width in (1e-9, 0.3, 5.0):
        weights = KernelRegression(kernel, width).fit(x, y).weights(queries)
        np.testing.assert_allclose(weights.sum(axis=1), 1)
        assert (weights >= 0).all()
    narrow = KernelRegression(kernel, 1e-9).fit(x, y).predict(queries)
    np.testing.assert_allclose(narrow, KNNRegressor(1).fit(x, y).predict(queries))
    votes = KernelVote(kernel, 1e-9).fit(x, y > 0).predict(queries)
    np.testing.assert_array_equal(votes, KNNClassifier(1).fit(x, y > 0).predict(queries))
    wide = window(kernel, np.linalg.norm(queries[:, None] - x, axis=2), 20.0)
    np.testing.assert_allclose(KernelRegression(kernel, 20.0).fit(x, y).predict(queries), wide @ y / wide.sum(axis=1))


def test_width_by_rows_left_out():
    """The width chosen predicts new rows better than a tenth or ten times of it."""
    x = RNG.uniform(0, 10, (200, 1))
    y = np.sin(x[:, 0]) + 0.2 * RNG.normal(size=200)
    fresh = np.linspace(0.5, 9.5, 200)[:, None]
    found = KernelRegression().fit(x, y)

    def error(width):
        return np.mean((KernelRegression(width=width).fit(x, y).predict(fresh) - np.sin(fresh[:, 0])) ** 2)

    assert error(found.width_) < 0.5 * error(0.1 * found.width_)
    assert error(found.width_) < 0.5 * error(10 * found.width_)
    assert KernelVote().fit(x, np.sin(x[:, 0]) > 0).score(fresh, np.sin(fresh[:, 0]) > 0) > 0.95


@pytest.mark.parametrize("kernel", list(WINDOWS))
def test_kernel_properties(kernel):
    """kernel-properties: symmetric, largest at zero, of finite area."""
    d = np.linspace(-30, 30, 601)
    k = window(kernel, d, 4.0)
    np.testing.assert_allclose(k, k[::-1])
    assert k.max() == window(kernel, np.zeros(1), 4.0)[0] == 1
    assert (np.diff(k[300:]) <= 0).all()

    def area(bound):
        return quad(lambda t: window(kernel, np.array([t]), 4.0)[0], -bound, bound, points=[-2, 2], limit=200)[0]

    assert 0 < area(20) < 20
    assert area(40) == pytest.approx(area(20), rel=1e-5), "nothing is added far out"


def test_lwr_quadratic():
    """lwr-quadratic (F29): K(0) = 1, K(2.5) = 0.75, K(±5) = 0 for k = 10; and the fit around one query by hand."""
    values = window("quadratic", np.array([0.0, 2.5, -2.5, 5.0, -5.0, 7.0]), 10.0)
    np.testing.assert_allclose(values, [1, 0.75, 0.75, 0, 0, 0])
    x = np.arange(15.0)
    y = np.where(x == 6, 9.0, 0.4 * x + 1)
    found = LocallyWeighted("E2", kernel="quadratic", width=10.0).fit(x[:, None], y)
    weight = np.maximum(0, 1 - (2 * np.abs(x - 7.2) / 10) ** 2)
    slope, level = np.polyfit(x, y, 1, w=np.sqrt(weight))
    np.testing.assert_allclose(found.local_coefficients([7.2]), [level + 7.2 * slope, slope])
    used = found.row_weights([7.2]) > 0
    np.testing.assert_array_equal(x[used], np.arange(3, 13))


@pytest.mark.parametrize("criterion", ["E1", "E2", "E3"])
@pytest.mark.parametrize("solver", ["exact", "gradient"])
def test_lwr(criterion, solver):
    """lwr: exact on a linear target under each criterion, also outside; the gradient rule comes to least squares."""
    x = RNG.normal(size=(40, 2))
    y = 2 + x @ [1.5, -0.5]
    queries = np.concatenate([RNG.normal(size=(4, 2)), [[3.0, 3.0]]])
    linear = LocallyWeighted(criterion, 12, "gaussian", 2.0, solver).fit(x, y)
    np.testing.assert_allclose(linear.predict(queries), 2 + queries @ [1.5, -0.5], atol=1e-6)
    rough = np.sin(3 * x[:, 0]) + x[:, 1] ** 2
    found = LocallyWeighted(criterion, 12, "gaussian", 1.0, solver).fit(x, rough)
    for query in queries[:4]:
        gap = np.linalg.norm(x - query, axis=1)
        near = gap <= np.sort(gap)[11]
        weight = {"E1": near * 1.0, "E2": np.exp(-0.5 * gap**2), "E3": near * np.exp(-0.5 * gap**2)}[criterion]
        rows = np.column_stack([np.ones(40), x - query])
        expected = np.linalg.solve((weight[:, None] * rows).T @ rows, (weight * rough) @ rows)
        np.testing.assert_allclose(found.local_coefficients(query), expected, atol=1e-6)


def test_neighbours_by_rows_left_out():
    """The number of rows chosen follows the target: all of them for a noisy line, few for a wave."""
    x = RNG.uniform(0, 10, (150, 1))
    line = LocallyWeighted().fit(x, x[:, 0] + RNG.normal(size=150))
    wave = LocallyWeighted().fit(x, np.sin(3 * x[:, 0]) + 0.1 * RNG.normal(size=150))
    assert line.n_neighbors_ > 60
    assert wave.n_neighbors_ < 40
    fresh = np.linspace(1, 9, 50)[:, None]
    assert np.mean((wave.predict(fresh) - np.sin(3 * fresh[:, 0])) ** 2) < 0.05


def test_limits():
    """A kernel that reaches nothing leaves the nearest row; what cannot be is refused."""
    x, y = np.array([[0.0], [1.0], [9.0]]), np.array([1.0, 2.0, 3.0])
    assert LocallyWeighted("E2", width=0.5).fit(x, y).predict([[5.5]])[0] == 3
    assert LocallyWeighted("E1", 1).fit(x, y).predict([[0.6]])[0] == 2
    with refused("option.unknown-word", "LocallyWeighted.*'criterion'", kind=ValueError):
        LocallyWeighted("E4").fit(x, y)
    with refused("option.unknown-word", "KernelRegression.*'kernel'", kind=ValueError):
        KernelRegression("cosmic").fit(x, y)
    with refused("option.out-of-range", "width", kind=ValueError):
        KernelRegression(width=0.0).fit(x, y)
