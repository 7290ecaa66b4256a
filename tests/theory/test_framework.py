"""The framework of learning: the simplest curve, realizable problems, streams that stay, where errors come from."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import bayeslab as bl
from bayeslab.learners.decision_tree import MultiwayTree
from bayeslab.learners.knn import KNNClassifier
from bayeslab.learners.linear import GradientLinear
from bayeslab.learners.perceptron import Perceptron
from bayeslab.theory.curves import fit_curve, polynomial, simplest
from bayeslab.theory.error_sources import error_sources
from bayeslab.theory.hypothesis_space import HypothesisSpace, boolean_inputs, boolean_space
from bayeslab.theory.separability import separable
from bayeslab.theory.stationarity import drift_test, runs_test
from tests.refusals import refused


def test_ockham_simple():
    """ockham-simple (F22): of the line and the polynomial of degree 7 that both go through 0.4 x + 3, the line."""
    x = np.arange(1.0, 9)
    y = 0.4 * x + 3
    spaces = [polynomial(d) for d in range(8)]
    assert fit_curve(x, y, spaces[7]).residual < 1e-8
    degree, line = simplest(x, y, spaces)
    assert degree == 1
    np.testing.assert_allclose(line.weights, [3, 0.4])
    with refused("data.contradiction"):
        simplest(x, np.sin(x), spaces[:3])
    with refused("option.out-of-range", "degree.*-1"):
        polynomial(-1)


@pytest.mark.parametrize(("n", "degree"), [(7, 6), (8, 7)])
def test_poly_consistent(n, degree):
    """poly-consistent: degree 6 through 7 points and 7 through 8, exactly; between them it swings."""
    rng = np.random.default_rng(n)
    x = np.arange(1.0, n + 1)
    y = 0.4 * x + 3 + rng.normal(0, 0.5, n)
    curve, line = fit_curve(x, y, polynomial(degree)), fit_curve(x, y, polynomial(1))
    assert curve.residual < 1e-7
    assert fit_curve(x, y, polynomial(degree - 1)).residual > 1e-3
    between = np.linspace(1, n, 400)
    off = [np.abs(c(between) - (0.4 * between + 3)).max() for c in (curve, line)]
    assert off[0] > 2 * off[1]
    slope = np.diff(curve(between))
    assert np.sum(np.sign(slope[1:]) != np.sign(slope[:-1])) >= 3 > 0 == np.ptp(np.sign(np.diff(line(between))))


def test_sin_basis():
    """sin-basis: points of a x + b + c sin x give back a, b, c exactly; also where a model file derives the column."""
    x = np.linspace(0, 14, 8)
    y = 0.3 * x + 2 - 1.7 * np.sin(x)
    found = fit_curve(x, y, [lambda t: t, np.ones_like, np.sin])
    np.testing.assert_allclose(found.weights, [0.3, 2, -1.7])
    assert found.residual < 1e-12
    # A line and a sine is simpler than the polynomial that also goes through all points.
    spaces = [polynomial(1), [np.ones_like, lambda t: t, np.sin], polynomial(7)]
    assert simplest(x, y, spaces)[0] == 1
    model = bl.Model(
        model={"family": "learner", "learner": "linear", "target": "y", "inputs": ["x", "wave"]},
        data={"derive": {"wave": "sin(x)"}},
        inference={"folds": 0},
    )
    fit = bl.fit(model, {"x": x, "y": y}, runs=None)
    new = np.array([2.5, 20.0])
    np.testing.assert_allclose(fit.predict({"x": new})["mean"], 0.3 * new + 2 - 1.7 * np.sin(new), atol=1e-8)


def test_realizable():
    """realizable: a target in the space is fitted without error at every size; XOR, outside of planes, is not."""
    inputs, everything = boolean_inputs(2), boolean_space(2)
    planes = HypothesisSpace(np.array([t for t in everything.tables if separable(inputs, t)]))
    assert len(planes.tables) == 14
    xor = inputs[:, 0] ^ inputs[:, 1]
    assert everything.realizes(xor)
    assert not planes.realizes(xor)
    for truth in planes.tables:
        assert planes.realizes(truth)
        for n in range(5):
            rows = np.arange(n)
            assert np.array_equal(planes.tables[planes.most_probable(rows, truth[rows])][rows], truth[rows])
    with refused("data.probability-zero"):
        planes.most_probable(np.arange(4), xor)
    assert Perceptron(max_iter=1000, random_state=0).fit(inputs, xor).errors_[0].min() == 1


def streams(rng, n):
    """Independent rows; rows whose level jumps; rows that depend on the one before."""
    alone = rng.normal(size=n)
    depending = np.empty(n)
    depending[0] = alone[0]
    for t in range(1, n):
        depending[t] = 0.4 * depending[t - 1] + alone[t]
    return alone, alone + 1.0 * (np.arange(n) >= 0.6 * n), depending


def test_stationarity_iid():
    """stationarity-iid: independent streams pass as often as they should; shifted and dependent ones fail."""
    rng = np.random.default_rng(0)
    p = np.array([[f(s).p_value for f in (drift_test, runs_test)] for s in (streams(rng, 200)[0] for _ in range(600))])
    for share in (0.05, 0.2):
        # Both tests are slightly careful: their p-values are not too small.
        assert (np.mean(p < share, axis=0) <= share + 4 * np.sqrt(share * (1 - share) / 600)).all()
        assert (np.mean(p < share, axis=0) > share / 3).all()
    jumps, caught, swung = [], [], []
    for _ in range(100):
        _, shifted, depending = streams(rng, 200)
        found = drift_test(shifted)
        jumps.append(found.at)
        caught.append(found.p_value < 0.01)
        swung.append(runs_test(depending).p_value < 0.01)
    assert np.mean(caught) > 0.95
    assert abs(np.median(jumps) - 120) <= 4
    assert np.mean(swung) > 0.8
    assert runs_test(depending).statistic < 0


def test_streams_without_spread():
    """Equal values do not drift, though their standard deviation is a rounding error."""
    assert np.full(23, 0.1).std(ddof=1) > 0
    assert drift_test(np.full(23, 0.1)).p_value == 1
    with refused("data.too-few", "2"):
        runs_test([0.0, *[5.0] * 10, 10.0])


def test_simplest_far_from_zero():
    x = np.arange(7.0)
    for y, degree in ((np.full(7, 5.1), 0), (1e9 + 1e-3 * x, 1), (1e9 + x**2, 2)):
        assert simplest(x, y, [polynomial(k) for k in range(4)])[0] == degree


def test_stationarity_by_hand():
    """stationarity-iid: the runs of a short stream, and right and wrong answers as a stream of two values."""
    found = runs_test([1, 2, 3, 9, 8, 1, 2, 7, 9, 8])
    assert found.runs == 4
    # Five on either side: 6 runs are expected, with a variance of 2·25·40 / (100·9).
    assert found.statistic == pytest.approx((4 - 6) / np.sqrt(20 / 9))
    swings = runs_test(np.arange(40) % 2)
    assert swings.runs == 40 and swings.statistic > 5
    right = np.concatenate([np.arange(300) % 10 > 0, np.arange(200) % 2])
    found = drift_test(right)
    assert found.p_value < 1e-6 and abs(found.at - 300) < 5
    with refused("data.wrong-shape"):
        drift_test([1.0, 2.0])
    with refused("data.constant"):
        runs_test(np.ones(20))
    assert drift_test(np.ones(20)).p_value == 1


def square(x):
    return x[:, 0] ** 2


def uniform(rng, n):
    return rng.uniform(-1, 1, size=(n, 1))


@pytest.mark.slow(why="statistical")
def test_error_sources():
    """error-sources: of lines for x² on [-1, 1]: noise σ², approximation 4/45, an estimation that falls as 1/N; search."""
    parts = [
        error_sources(LinearRegression(), uniform, square, 0.3, n, np.random.default_rng(n), n_samples=250)
        for n in (20, 80, 320)
    ]
    for one in parts:
        assert one.noise == pytest.approx(0.09)
        assert one.approximation == pytest.approx(4 / 45, abs=0.006)
        assert one.search == 0
        assert one.variance == pytest.approx(one.estimation, rel=0.15)
    spent = [one.variance for one in parts]
    assert spent[0] > 3 * spent[1] > 9 * spent[2]
    # Two weights: 2 σ'² / N with the variance of noise and of what lines lack.
    assert spent[2] == pytest.approx(2 * (0.09 + 4 / 45) / 320, rel=0.3)
    rng = np.random.default_rng(1)
    hasty = GradientLinear(rate=0.1, max_iter=10)
    slow = error_sources(hasty, uniform, lambda x: 2 * x[:, 0], 0.3, 50, rng, exact=LinearRegression(), n_samples=100)
    assert slow.approximation < 1e-20
    assert slow.search > 0.5
    assert slow.estimation < 0.02
    # The parts add up to the error that is seen on new rows.
    errors = []
    for _ in range(300):
        x, new = uniform(rng, 50), uniform(rng, 200)
        y, truth = 2 * x[:, 0] + 0.3 * rng.normal(size=50), 2 * new[:, 0] + 0.3 * rng.normal(size=200)
        errors.append(np.mean((GradientLinear(rate=0.1, max_iter=10).fit(x, y).predict(new) - truth) ** 2))
    assert slow.total == pytest.approx(np.mean(errors), abs=5 * np.std(errors) / np.sqrt(300))
    with refused("option.out-of-range", r"noise.*-1\.0"):
        error_sources(LinearRegression(), uniform, square, -1.0, 5, rng)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    "learner", [MultiwayTree((0, 1, 2)), KNNClassifier(1), Perceptron(max_iter=20, random_state=0)]
)
def test_no_free_lunch(learner):
    """no-free-lunch: averaged over all targets, trees, neighbours and planes guess unseen rows half right."""
    inputs = boolean_inputs(3).astype(float)
    seen, unseen = np.array([0, 3, 5]), np.array([1, 2, 4, 6, 7])
    right = []
    for table in itertools.product([0, 1], repeat=8):
        y = np.array(table)
        if len(set(y[seen])) == 1:
            # One class: it is what any of them would say.
            right.append(np.mean(y[unseen] == y[seen[0]]))
            continue
        right.append(np.mean(learner.fit(inputs[seen], y[seen]).predict(inputs[unseen]) == y[unseen]))
    assert np.mean(right) == pytest.approx(0.5)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_drift_has_no_unit(unit):
    x = np.random.default_rng(1).normal(size=50).cumsum()
    assert drift_test(unit * x).p_value == pytest.approx(drift_test(x).p_value)
