"""Support vector machines against the textbook's closed forms, two other solvers, and Mercer's condition."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import bayeslab as bl
from bayeslab.learners.kernel_perceptron import KernelPerceptron
from bayeslab.learners.knn import KNNClassifier
from bayeslab.learners.perceptron import Perceptron
from bayeslab.learners.svm import SVMClassifier, SVMRegressor
from bayeslab.learners.toolbox.gram import check_gram, smallest_eigenvalue
from bayeslab.theory.separability import separable, shattered
from tests.refusals import refused

XOR = np.array([[-1.0, -1], [-1, 1], [1, -1], [1, 1]])
XOR_SIDE = np.array([-1, 1, 1, -1])
HARD = {"C": 1e6, "tol": 1e-10}


def clouds(n=60, gap=2.0, seed=0):
    """Two clouds that a line separates."""
    rng = np.random.default_rng(seed)
    side = np.where(np.arange(n) % 2, 1, -1)
    x = rng.normal(size=(n, 2)) * 0.6
    return x + gap * side[:, None] * np.array([0.8, 0.6]), side


def smo(gram, side, price, tol=1e-10):
    """A plain twin of the solver: the pair that violates most, solved exactly, until none does."""
    alpha, gradient = np.zeros(len(side)), -np.ones(len(side))
    q = gram * np.outer(side, side)
    while True:
        up = ((side > 0) & (alpha < price)) | ((side < 0) & (alpha > 0))
        low = ((side < 0) & (alpha < price)) | ((side > 0) & (alpha > 0))
        score = -side * gradient
        i = np.flatnonzero(up)[score[up].argmax()]
        j = np.flatnonzero(low)[score[low].argmin()]
        if score[i] - score[j] < tol:
            return alpha, (score[i] + score[j]) / 2
        curve = max(gram[i, i] + gram[j, j] - 2 * gram[i, j], 1e-12)
        step = (score[i] - score[j]) / curve
        step = min(step, price - alpha[i] if side[i] > 0 else alpha[i], alpha[j] if side[j] > 0 else price - alpha[j])
        alpha[i] += side[i] * step
        alpha[j] -= side[j] * step
        gradient += step * (q[:, i] * side[i] - q[:, j] * side[j])


def all_alphas(machine, n):
    out = np.zeros(n)
    out[machine.support_] = machine.dual_variables_[0]
    return out


def test_svm_xor():
    """svm-xor, svm-margin, svm-dual (F26): in (x1, x1 x2) α = 1/4 each, w = (0, -1), objective 1/2, full width 2."""
    x = np.column_stack([XOR[:, 0], XOR[:, 0] * XOR[:, 1]])
    found = SVMClassifier(kernel="linear", **HARD).fit(x, XOR_SIDE)
    # Four rows in two dimensions have many best α; the symmetric one is among them.
    quarter, q = np.full(4, 0.25), (x @ x.T) * np.outer(XOR_SIDE, XOR_SIDE)
    assert quarter @ XOR_SIDE == 0
    np.testing.assert_allclose(q @ quarter, 1)
    assert quarter.sum() - 0.5 * quarter @ q @ quarter == 0.5
    np.testing.assert_allclose((quarter * XOR_SIDE) @ x, [0, -1])
    np.testing.assert_allclose(found.coef_, [[0, -1]], atol=1e-9)
    np.testing.assert_allclose(found.intercept_, 0, atol=1e-9)
    np.testing.assert_allclose(found.street_widths(), 2)
    np.testing.assert_allclose(found.dual_objective(), 0.5)
    # Each point at distance 1; back in the inputs the border is x1 x2 = 0, the two axes.
    np.testing.assert_allclose(np.abs(x @ found.coef_[0]) / np.linalg.norm(found.coef_), 1)
    on_axes = np.array([[0.0, 0.7], [0, -3], [0.4, 0], [-2, 0]])
    mapped = np.column_stack([on_axes[:, 0], on_axes[:, 0] * on_axes[:, 1]])
    np.testing.assert_allclose(found.decision_function(mapped), 0, atol=1e-9)


def test_svm_xor_by_kernel():
    """svm-dual (F26): kernel (1 + x·z)², α = 1/8 each, objective 1/4, distance √2."""
    found = SVMClassifier(kernel="poly", degree=2, gamma=1.0, coef0=1.0, **HARD).fit(XOR, XOR_SIDE)
    np.testing.assert_allclose(all_alphas(found, 4), 0.125, atol=1e-9)
    np.testing.assert_allclose(found.dual_objective(), 0.25)
    np.testing.assert_allclose(found.street_widths() / 2, math.sqrt(2))


@pytest.mark.parametrize("price", [0.5, 50.0])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_svm_dual(kernel, price):
    """svm-dual: the KKT conditions, and the same α as a plain solver of the quadratic programme."""
    x, side = clouds(gap=0.5)
    found = SVMClassifier(price, kernel, gamma=0.7, tol=1e-9).fit(x, side)
    alpha, f = all_alphas(found, len(x)), found.decision_function(x)
    assert abs(alpha @ side) < 1e-9 * price * len(x)
    assert alpha.min() >= 0 and alpha.max() <= price * (1 + 1e-12)
    free = (alpha > 1e-9 * price) & (alpha < price * (1 - 1e-9))
    assert free.any()
    # libsvm keeps kernel values in single precision.
    np.testing.assert_allclose((side * f)[free], 1, atol=3e-5)
    assert (side * f)[alpha == 0].min() >= 1 - 3e-5
    assert (side * f)[alpha >= price * (1 - 1e-9)].max(initial=0) <= 1 + 3e-5
    gram = x @ x.T if kernel == "linear" else np.exp(-0.7 * ((x[:, None] - x[None]) ** 2).sum(axis=2))
    twin, b = smo(gram, side, price)
    objective = twin.sum() - 0.5 * (twin * side) @ gram @ (twin * side)
    np.testing.assert_allclose(found.dual_objective(), objective, rtol=1e-6)
    np.testing.assert_allclose(gram @ (twin * side) + b, f, atol=1e-4)


def test_svm_primal():
    """svm-primal, svm-decide (M8): least |w|² by another solver is w = Σ α y x; dual and primal decisions agree."""
    x, side = clouds()
    found = SVMClassifier(kernel="linear", **HARD).fit(x, side)
    primal = minimize(
        lambda v: 0.5 * v[:2] @ v[:2],
        np.array([1.0, 1.0, 0.0]),
        jac=lambda v: np.array([v[0], v[1], 0.0]),
        constraints={"type": "ineq", "fun": lambda v: side * (x @ v[:2] + v[2]) - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(found.coef_[0], primal.x[:2], atol=1e-5)
    np.testing.assert_allclose(found.intercept_[0], primal.x[2], atol=1e-5)
    np.testing.assert_allclose(found.dual_objective(), primal.fun, rtol=1e-6)
    w = (found.dual_variables_[0] * side[found.support_]) @ x[found.support_]
    np.testing.assert_allclose(w, found.coef_[0], atol=1e-9)
    # Without the y of each row it is another direction.
    assert np.abs(found.dual_variables_[0] @ x[found.support_] - w).max() > 0.01
    new = np.random.default_rng(1).normal(size=(50, 2)) * 3
    dual = (new @ x[found.support_].T) @ found.dual_coef_[0] + found.intercept_
    np.testing.assert_allclose(dual, new @ w + found.intercept_, atol=1e-9)
    np.testing.assert_array_equal(found.predict(new), np.sign(dual))


def test_svm_support():
    """svm-support: without the rows that are no support vectors w and b are the same."""
    x, side = clouds()
    found = SVMClassifier(kernel="linear", **HARD).fit(x, side)
    assert 2 <= len(found.support_) <= 3
    again = SVMClassifier(kernel="linear", **HARD).fit(x[found.support_], side[found.support_])
    np.testing.assert_allclose(again.coef_, found.coef_, atol=1e-8)
    np.testing.assert_allclose(again.intercept_, found.intercept_, atol=1e-8)


def test_svm_margin():
    """svm-margin: 2/|w| is twice the distance of the nearest row, and no line through the gap leaves more room."""
    x, side = clouds()
    found = SVMClassifier(kernel="linear", **HARD).fit(x, side)
    norm = np.linalg.norm(found.coef_)
    nearest = np.abs(found.decision_function(x)).min() / norm
    np.testing.assert_allclose(found.street_widths()[0], 2 / norm)
    np.testing.assert_allclose(found.street_widths()[0], 2 * nearest, rtol=1e-6)
    widest = 0.0
    for angle in np.linspace(0, np.pi, 3601):
        along = x @ np.array([np.cos(angle), np.sin(angle)])
        gap = max(along[side > 0].min() - along[side < 0].max(), along[side < 0].min() - along[side > 0].max())
        widest = max(widest, gap)
    assert widest <= found.street_widths()[0] * (1 + 1e-9)
    np.testing.assert_allclose(widest, found.street_widths()[0], rtol=1e-3)


def test_street_widths_of_pairs():
    x, y = load_iris(return_X_y=True)
    found = SVMClassifier(kernel="linear").fit(x, y)
    np.testing.assert_allclose(found.street_widths(), 2 / np.linalg.norm(found.coef_, axis=1))


def test_svm_circle():
    """svm-circle, kernel-identity (F26): features x1², x2², √2 x1 x2 give (x·z)²; the circle is f1 + f2 = 1."""

    def features(x):
        return np.column_stack([x[:, 0] ** 2, x[:, 1] ** 2, math.sqrt(2) * x[:, 0] * x[:, 1]])

    assert features(np.array([[1.0, 2]])) @ features(np.array([[3.0, -1]])).T == pytest.approx(1)
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(20, 2)), rng.normal(size=(30, 2))
    np.testing.assert_allclose(features(x) @ features(z).T, (x @ z.T) ** 2, atol=1e-12)
    x = rng.uniform(-1.5, 1.5, size=(600, 2))
    radius = (x**2).sum(axis=1)
    x, radius = x[np.abs(radius - 1) > 0.05], radius[np.abs(radius - 1) > 0.05]
    inside = radius <= 1
    assert not separable(x, inside)
    assert separable(features(x), inside)
    found = SVMClassifier(kernel="linear", C=1e5, tol=1e-8).fit(features(x), inside)
    assert found.score(features(x), inside) == 1
    plane = found.coef_[0] / -found.intercept_[0]
    np.testing.assert_allclose(plane, [1, 1, 0], atol=0.1)
    by_kernel = SVMClassifier(kernel="poly", degree=2, gamma=1.0, coef0=0.0, C=1e5, tol=1e-8).fit(x, inside)
    np.testing.assert_allclose(by_kernel.decision_function(x), found.decision_function(features(x)), atol=1e-3)


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 2), (2, 3), (4, 3)])
def test_kernel_poly(n, d):
    """kernel-poly: (1 + x·z)^d has C(n + d, d) features, 6 for n = d = 2, and Gram matrices without negative eigenvalues."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, n))
    gram = (1 + x @ x.T) ** d
    assert np.linalg.matrix_rank(gram, tol=1e-9 * np.linalg.norm(gram, 2)) == math.comb(n + d, d)
    assert math.comb(2 + 2, 2) == 6
    assert smallest_eigenvalue(gram) > -1e-10 * np.trace(gram)
    check_gram(gram)


def test_mercer():
    """mercer: Gram matrices of kernels pass; what is none is refused with the eigenvalue, by the learner too."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = np.arange(60) % 2
    for kernel in ("laplacian", "cosine", lambda a, b: np.exp(a @ b.T)):
        assert SVMClassifier(kernel=kernel).fit(x, y).score(x, y) > 0.5
    with pytest.raises(ValueError, match="not a Mercer kernel: its matrix of 60 rows has the eigenvalue -"):
        SVMClassifier(kernel="sigmoid", gamma=1.0).fit(x, y)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        SVMClassifier(kernel=lambda a, b: -(a @ b.T)).fit(x, y)
    with pytest.raises(ValueError, match="eigenvalue -1 "):
        SVMClassifier(kernel="precomputed").fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    with pytest.raises(ValueError, match=r"not symmetric: K\(x, z\) and K\(z, x\) differ by up to 1"):
        SVMRegressor(kernel="precomputed").fit([[1.0, 1.0], [0.0, 1.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="square"):
        check_gram(np.ones((2, 3)))
    # Rank deficient, all zero: still kernels.
    check_gram(np.ones((50, 50)))
    check_gram(np.zeros((3, 3)))


def test_mercer_of_many_rows(monkeypatch):
    """A matrix of more rows is tested on some of them, which no true kernel fails and a plain fault does."""
    monkeypatch.setattr("bayeslab.learners.toolbox.gram._MOST_ROWS", 50)
    x = np.random.default_rng(0).normal(size=(120, 2))
    gram = x @ x.T
    check_gram(gram)
    with pytest.raises(ValueError, match="matrix of 50 rows"):
        check_gram(gram - 0.5 * np.eye(120))


def test_svm_soft():
    """svm-soft: a large C is the hard margin; slack is how far a row is beyond its border, in units of half the street."""
    x, side = clouds()
    hard = SVMClassifier(kernel="linear", **HARD).fit(x, side)
    large = SVMClassifier(kernel="linear", C=1e3, tol=1e-10).fit(x, side)
    np.testing.assert_allclose(large.coef_, hard.coef_, atol=1e-8)
    np.testing.assert_allclose(hard.slacks(x, side), 0, atol=1e-8)
    x, side = clouds(gap=0.5)
    price = 2.0
    soft = SVMClassifier(price, "linear", tol=1e-10).fit(x, side)
    slack, norm = soft.slacks(x, side), np.linalg.norm(soft.coef_)
    foot = (side - soft.decision_function(x)) / norm**2
    beyond = np.maximum(0, side * foot) * norm
    np.testing.assert_allclose(slack, beyond * norm, atol=1e-9)
    np.testing.assert_allclose(soft.dual_objective(), 0.5 * norm**2 + price * slack.sum(), rtol=1e-7)
    assert (slack[soft.support_] > 1e-6).any()
    widths = [SVMClassifier(c, "linear").fit(x, side).street_widths()[0] for c in (0.01, 0.1, 1, 10)]
    assert np.all(np.diff(widths) < 0)


def test_kernelise_knn():
    """kernelise-knn: the linear kernel's distance K(x,x) - 2K(x,z) + K(z,z) is Euclid's."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 3)), rng.integers(0, 3, 80)
    new = rng.normal(size=(40, 3))
    plain = KNNClassifier(3).fit(x, y)
    kernel = KNNClassifier(3, metric="kernel", kernel="linear").fit(x, y)
    np.testing.assert_array_equal(kernel.predict(new), plain.predict(new))
    distances, rows = kernel.kneighbors(new)
    z = x[rows]
    squared = (new**2).sum(axis=1)[:, None] - 2 * (new[:, None] * z).sum(axis=2) + (z**2).sum(axis=2)
    np.testing.assert_allclose(distances**2, squared, atol=1e-10)


def test_kernelise_perceptron():
    """kernelise-perceptron: with the linear kernel the perceptron of weights, change by change."""
    x, side = clouds()
    found = KernelPerceptron("linear", max_iter=50, averaged=False, random_state=0).fit(x, side)
    w = found.dual_coef_[0] @ x[found.support_]
    new = np.random.default_rng(1).normal(size=(60, 2))
    np.testing.assert_allclose(found.decision_function(new), new @ w, atol=1e-9)
    assert found.converged_
    assert np.abs(found.dual_coef_[0]).sum() == found.n_updates_[0]


def test_voted_perceptron():
    """voted-perceptron: a vote for each row survived; from kernel values of the rows that were wrong the same votes."""
    x, side = clouds(gap=0.6)
    labels = (side > 0).astype(int)
    found = Perceptron(use="voted", max_iter=1, shuffle=False, at_zero=0).fit(x, labels)
    said, survived, wrong, lived = np.zeros(len(x)), [], [], 0
    gram = 1 + x @ x.T
    for i in range(len(x)):
        if (said[i] > 0) != labels[i]:
            survived.append(lived)
            wrong.append(i)
            said, lived = said + side[i] * gram[i], 1
        else:
            lived += 1
    survived.append(lived)
    assert len(wrong) > 3
    assert sum(survived) == len(x)
    np.testing.assert_array_equal(found._votes[0][1], survived)
    new = np.random.default_rng(1).normal(size=(80, 2))
    votes, score = np.full(80, -1.0) * survived[0], np.zeros(80)
    for i, count in zip(wrong, survived[1:], strict=True):
        score = score + side[i] * (1 + new @ x[i])
        votes += count * np.where(score > 0, 1, -1)
    np.testing.assert_array_equal(found.predict(new), (votes > 0).astype(int))


def test_svm_permute():
    """svm-permute: decisions are the same when the pixels of all images change places alike."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(x.shape[1])
    plain = SVMClassifier(tol=1e-8).fit(x[:300], y[:300])
    mixed = SVMClassifier(tol=1e-8).fit(x[:300][:, order], y[:300])
    np.testing.assert_allclose(
        mixed.decision_function(x[300:600][:, order]), plain.decision_function(x[300:600]), atol=1e-6
    )
    np.testing.assert_array_equal(mixed.support_, plain.support_)


def test_svm_digits():
    """svm-digits (F27): on small real digits the error is of the order of 1.1 %, and a good share of rows support it."""
    x, y = load_digits(return_X_y=True)
    found = SVMClassifier(10.0).fit(x[:1300], y[:1300])
    assert 1 - found.score(x[1300:], y[1300:]) < 0.05
    assert 0.2 < len(found.support_) / 1300 < 0.8
    assert found.dual_variables_.max() <= 10 * (1 + 1e-12)


def test_circle_anywhere():
    """circle-anywhere: with x1², x2², x1, x2 a plane separates any circle's inside; with x1 x2 any ellipse's."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = rng.uniform(-3, 3, size=(150, 2))
        centre, radius = rng.uniform(-1, 1, 2), rng.uniform(0.7, 1.5)
        four = np.column_stack([x**2, x])
        inside = ((x - centre) ** 2).sum(axis=1) < radius**2
        assert 0 < inside.sum() < 150
        assert not separable(x, inside)
        assert separable(four, inside)
        assert SVMClassifier(kernel="linear", C=1e6).fit(four, inside).score(four, inside) == 1
    turned = np.array([[1.0, -1.0], [0.4, 0.4]]) @ (x - 0.3).T
    ellipse = (turned**2).sum(axis=0) < 0.6
    assert not separable(four, ellipse)
    assert separable(np.column_stack([four, x[:, 0] * x[:, 1]]), ellipse)


def test_separable_n_1():
    """separable-n-1 (F26): d + 1 points in general position are separable whatever their labels, d + 2 are not."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 4):
        x = rng.normal(size=(d + 2, d))
        assert shattered(x[: d + 1])
        assert not shattered(x)
    x = rng.normal(size=(6, 5))
    for labels in itertools.product([-1, 1], repeat=6):
        if len(set(labels)) == 2:
            assert SVMClassifier(kernel="linear", C=1e8).fit(x, labels).score(x, labels) == 1


def test_regression():
    """Errors inside the tube cost nothing: α is zero there, C outside; the same as scikit-learn's machine."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, (120, 1)), axis=0)
    y = np.sin(x[:, 0]) + 0.2 * rng.normal(size=120)
    found = SVMRegressor(C=3.0, epsilon=0.15, gamma=1.0, tol=1e-9).fit(x, y)
    alpha, error = all_alphas(found, 120), np.abs(found.predict(x) - y)
    assert error[alpha == 0].max() <= 0.15 + 1e-6
    assert error[alpha >= 3 * (1 - 1e-9)].min() >= 0.15 - 1e-6
    free = (alpha > 0) & (alpha < 3 * (1 - 1e-9))
    np.testing.assert_allclose(error[free], 0.15, atol=1e-6)
    assert np.mean((found.predict(x) - np.sin(x[:, 0])) ** 2) < 0.2**2 / 2


def test_any_rows():
    """Rows may be anything that the kernel takes, here sets; only support vectors are compared with new rows."""
    rows = [frozenset(map(int, np.flatnonzero(bits))) for bits in np.random.default_rng(0).integers(0, 2, (40, 6))]
    y = ["even" if len(r & {0, 1, 2}) % 2 == 0 else "odd" for r in rows]
    asked = []

    def common_subsets(a, b):
        asked.append((len(a), len(b)))
        return np.array([[2.0 ** len(x & z) for z in b] for x in a])

    found = SVMClassifier(100.0, common_subsets).fit(rows, y)
    assert found.score(rows, y) > 0.9
    assert asked[-1] == (40, len(found.support_))
    assert found.street_widths()[0] > 0


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_scikit_learn_gives_the_same(kernel):
    x, y = load_iris(return_X_y=True)
    found = SVMClassifier(kernel=kernel).fit(x, y)
    theirs = SVC(kernel=kernel, coef0=1.0).fit(x, y)
    np.testing.assert_allclose(found.decision_function(x), theirs.decision_function(x))


def test_errors():
    x = np.eye(3)
    with pytest.raises(ValueError, match="1 class"):
        SVMClassifier().fit(x, [1, 1, 1])
    with pytest.raises(ValueError, match="NaN"):
        SVMClassifier().fit([[np.nan], [1.0]], [0, 1])
    with refused("option.out-of-range", "'gamma'.*'scale'.*'auto'", kind=ValueError):
        SVMClassifier(gamma=-1.0).fit(x, [0, 1, 1])
    # Constant columns say nothing, and do no harm.
    assert SVMClassifier().fit(np.ones((4, 2)), [0, 1, 1, 1]).predict(np.ones((1, 2)))[0] == 1


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_balanced_classes_stay_balanced_where_scores_become_probabilities(kernel):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 2))
    y = np.where(x.sum(axis=1) + rng.normal(size=300) > 2.2, "rare", "usual")
    frame = pd.DataFrame(x, columns=["u", "v"])
    words = {"family": "learner", "learner": "svm", "target": "y", "kernel": kernel}
    words |= {"class_weight": "balanced", "task": "classification"}
    found = bl.estimator(bl.Model(name="m", data={"rows": "row"}, model=words), seed=1).fit(frame, y).predict(frame)
    direct = make_pipeline(StandardScaler(), SVC(kernel=kernel, class_weight="balanced")).fit(x, y).predict(x)
    rare = y == "rare"
    assert (direct[rare] == "rare").mean() > 0.8
    assert (found[rare] == "rare").mean() == pytest.approx((direct[rare] == "rare").mean(), abs=0.1)
    assert (found == direct).mean() > 0.95
