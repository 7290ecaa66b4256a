"""Linear and logistic regression against closed forms, finite differences and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, ndtr
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression

from bayeslab.learners import linear, logistic
from bayeslab.learners.linear import GradientLinear, path
from bayeslab.learners.logistic import GradientLogistic, gradient, loss

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
Y = X @ [1.0, 0.0, -2.0, 0.5] + 1.5 + RNG.normal(size=120)


def test_ols_univariate():
    """ols-univariate: the closed form equals the normal equations."""
    x, y = X[:, 0], Y
    n = len(x)
    slope = (n * (x * y).sum() - x.sum() * y.sum()) / (n * (x**2).sum() - x.sum() ** 2)
    found = linear.build(linear.Options(), "regression").fit(x[:, None], y)
    assert found.coef_[0] == pytest.approx(slope)
    assert found.intercept_ == pytest.approx((y.sum() - slope * x.sum()) / n)


def test_house_line():
    """house-line (F22): points around y = 0.232 x + 246 give it back within its standard error."""
    rng = np.random.default_rng(1)
    size = rng.uniform(500, 3500, 4000)
    price = 0.232 * size + 246 + rng.normal(0, 40, 4000)
    found = linear.build(linear.Options(), "regression").fit(size[:, None], price)
    error = 40 / np.sqrt(((size - size.mean()) ** 2).sum())
    assert abs(found.coef_[0] - 0.232) < 4 * error
    assert abs(found.intercept_ - 246) < 4 * 40 * np.sqrt(
        1 / 4000 + size.mean() ** 2 / ((size - size.mean()) ** 2).sum()
    )
    np.testing.assert_allclose(0.232 * np.array([1000, 2000]) + 246, [478, 710])


def test_ols_multivariate():
    """ols-multivariate: equals lstsq, and the gradient there is zero."""
    rows = np.column_stack([np.ones(len(X)), X])
    found = linear.build(linear.Options(), "regression").fit(X, Y)
    weights = np.array([found.intercept_, *found.coef_])
    np.testing.assert_allclose(weights, np.linalg.lstsq(rows, Y)[0])
    np.testing.assert_allclose(rows.T @ (Y - rows @ weights), 0, atol=1e-9)


def test_loss_convex():
    """loss-convex: the Hessian 2X'X has no negative eigenvalue, and all starts end at one minimum."""
    rows = np.column_stack([np.ones(len(X)), X])
    assert np.linalg.eigvalsh(2 * rows.T @ rows).min() > 0
    best = np.linalg.lstsq(rows, Y)[0]
    rng = np.random.default_rng(2)
    for _ in range(5):
        w = rng.normal(size=5) * 20
        for _ in range(3000):
            w -= 0.2 * rows.T @ (rows @ w - Y) / len(Y)
        np.testing.assert_allclose(w, best, atol=1e-8)


def test_gd_batch():
    """gd-batch: below 2/λ_max it reaches the closed form, above it diverges."""
    rows = np.column_stack([np.ones(len(X)), X])
    top = np.linalg.eigvalsh(rows.T @ rows / len(X))[-1]
    exact = LinearRegression().fit(X, Y)
    found = GradientLinear(rate=1.9 / top, max_iter=5000).fit(X, Y)
    np.testing.assert_allclose(found.coef_, exact.coef_, atol=1e-7)
    assert (np.diff(GradientLinear(rate=0.9 / top, max_iter=200).fit(X, Y).losses_) <= 1e-12).all()
    with pytest.raises(ValueError, match="diverges"):
        GradientLinear(rate=2.1 / top, max_iter=100_000).fit(X, Y)


def test_gd_stochastic():
    """gd-stochastic: a fixed rate hovers at a distance, a falling one comes near."""
    exact = LinearRegression().fit(X, Y)
    goal = np.array([exact.intercept_, *exact.coef_])

    def distance(decay: float) -> float:
        found = GradientLinear(solver="stochastic", rate=0.05, decay=decay, max_iter=800, random_state=0).fit(X, Y)
        return float(np.abs(found.weights_[-100:] - goal).max(axis=1).mean())

    assert distance(0.0) > 0.05
    assert distance(100.0) < 0.25 * distance(0.0)


def test_training_curve():
    """training-curve: loss against passes, falling for small rates."""
    curve = GradientLogistic(rate=0.1, max_iter=300).fit(X, Y > 1.5).losses_[0]
    assert (np.diff(curve) < 0).all()


def test_ridge_and_lasso():
    """regularised-linear: the closed form of ridge, the subgradient conditions of the lasso."""
    centred, target = X - X.mean(0), Y - Y.mean()
    ridge = path(X, Y, "ridge", 20)
    for a, w in zip(ridge.alphas, ridge.coefficients, strict=True):
        np.testing.assert_allclose(w, np.linalg.solve(centred.T @ centred + a * np.eye(4), centred.T @ target))
    lasso = path(X, Y, "lasso", 20)
    for a, w in zip(lasso.alphas, lasso.coefficients, strict=True):
        slope = centred.T @ (target - centred @ w) / len(Y)
        assert np.all(np.abs(slope) <= a + 1e-6)
        np.testing.assert_allclose(slope[w != 0], a * np.sign(w[w != 0]), atol=1e-6)
    batch = GradientLinear(ridge=3.0, max_iter=20_000, tol=1e-13).fit(X, Y)
    np.testing.assert_allclose(
        batch.coef_, np.linalg.solve(centred.T @ centred + 3 * np.eye(4), centred.T @ target), atol=1e-8
    )


def test_l1_sparse():
    """l1-sparse (F40): exact zeros on planted irrelevant inputs with L1, none with L2."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 12))
    y = x[:, 0] - 2 * x[:, 1] + rng.normal(size=200)
    lasso, ridge = path(x, y, "lasso", 50), path(x, y, "ridge", 50)
    zero = (lasso.coefficients == 0).sum(axis=1)
    kept = (lasso.coefficients[:, :2] != 0).all(axis=1)
    assert (zero[kept] >= 8).any()
    assert (ridge.coefficients != 0).all()
    assert np.abs([1.0, 0.0]).sum() == 1
    assert np.sum(np.abs([2**-0.5] * 2)) == pytest.approx(1.414214, abs=1e-6)


def test_l1_not_rotation():
    """l1-not-rotation: predictions do not change under rotation for L2 only."""
    turn = np.linalg.qr(np.random.default_rng(4).normal(size=(4, 4)))[0]
    for penalty, same in (("ridge", True), ("lasso", False)):
        made = linear.build(linear.Options(penalty=penalty, alpha=0.3), "regression")
        before = made.fit(X, Y).predict(X)
        after = made.fit(X @ turn, Y).predict(X @ turn)
        assert np.allclose(before, after, atol=1e-8) is same


def test_l1_sample_count():
    """l1-sample-count: with more irrelevant inputs L2 needs about as many more rows, L1 few."""
    rng = np.random.default_rng(5)

    def needed(d: int, penalty: str) -> int:
        for n in (10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 448):
            errors = []
            for _ in range(12):
                x, z = rng.normal(size=(n, d)), rng.normal(size=(400, d))
                y, t = x[:, 0] + 0.3 * rng.normal(size=n), z[:, 0]
                alpha = 0.15 if penalty == "lasso" else 3.0
                made = linear.build(linear.Options(penalty=penalty, alpha=alpha), "regression").fit(x, y)
                errors.append(np.mean((made.predict(z) - t) ** 2))
            if np.mean(errors) < 0.15:
                return n
        return 1000

    l2, l1 = [needed(d, "ridge") for d in (10, 80)], [needed(d, "lasso") for d in (10, 80)]
    assert l2[1] / l2[0] > 3
    assert l1[1] / l1[0] < 3
    assert l1[1] < l2[1]


def test_logistic_function():
    """logistic-function: g(0) = 1/2 and g' = g (1 − g) against finite differences; and M4, M5 are not there."""
    z = np.linspace(-6, 6, 25)
    assert expit(0.0) == 0.5
    np.testing.assert_allclose((expit(z + 1e-6) - expit(z - 1e-6)) / 2e-6, expit(z) * (1 - expit(z)), atol=1e-9)


@pytest.mark.parametrize("kind", ["likelihood", "squared"])
def test_logistic_gradients(kind):
    """logistic-likelihood, logistic-squared: gradients against finite differences; ∂L/∂w = error × input."""
    rows, y = np.column_stack([np.ones(len(X)), X]), (Y > 1).astype(float)
    w = np.random.default_rng(6).normal(size=5)
    slope = gradient(w, rows, y, kind)
    for j in range(5):
        step = np.zeros(5)
        step[j] = 1e-6
        finite = (loss(w + step, rows, y, kind) - loss(w - step, rows, y, kind)) / 2e-6
        assert slope[j] == pytest.approx(finite, rel=1e-5, abs=1e-7)
    h = expit(rows @ w)
    factor = 1 if kind == "likelihood" else h * (1 - h)
    np.testing.assert_allclose(slope, -((y - h) * factor) @ rows)


def test_logistic_descent_reaches_newton():
    """Batch descent ends where scikit-learn's solver does, penalty and weights included."""
    y, weight = Y > 1, np.random.default_rng(7).uniform(0.5, 2, len(Y))
    own = GradientLogistic(C=0.7, max_iter=20_000, tol=1e-12).fit(X, y, weight)
    theirs = LogisticRegression(C=0.7, tol=1e-12, max_iter=10_000).fit(X, y, weight)
    np.testing.assert_allclose(own.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(own.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    squared = GradientLogistic(loss="squared", C=1e6, max_iter=20_000).fit(X, y)
    assert squared.score(X, y) > 0.8
    point = -squared.intercept_[0] * squared.coef_[0] / (squared.coef_[0] @ squared.coef_[0])
    assert squared.predict_proba(point[None])[0, 1] == pytest.approx(0.5)


def test_probit_logit():
    """probit-logit: logistic(z) and Φ(0.588 z) differ by less than 0.02."""
    z = np.linspace(-10, 10, 4001)
    assert np.abs(expit(z) - ndtr(0.588 * z)).max() < 0.02


def test_options_that_do_not_go_together():
    with pytest.raises(ValueError, match="lasso has no gradient"):
        linear.build(linear.Options(penalty="lasso", solver="batch"), "regression")
    with pytest.raises(ValueError, match="batch or stochastic"):
        logistic.build(logistic.Options(loss="squared"), "classification")
    assert isinstance(linear.build(linear.Options(penalty="lasso"), "regression"), Lasso)
