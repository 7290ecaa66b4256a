"""Row by row equals all at once."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.exact.conjugate import BetaBinomial, NormalInverseGamma
from bayeslab.learners.recursive_least_squares import RecursiveLeastSquares

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) @ RNG.normal(size=(3, 3))
Y = X @ [1.0, -2.0, 0.5] + 3 + RNG.normal(size=60)


def ridge(x, y, penalty, weights=None):
    rows = np.column_stack([np.ones(len(x)), x])
    w = np.ones(len(x)) if weights is None else weights
    # The intercept's penalty is about the first outcome.
    found = np.linalg.solve(rows.T @ (rows * w[:, None]) + penalty * np.eye(rows.shape[1]), rows.T @ (w * (y - y[0])))
    found[0] += y[0]
    return found


def test_streamed_equals_batch():
    """online-incremental: after each part the answer is that of ridge regression over all rows so far."""
    found = RecursiveLeastSquares(ridge=0.1)
    for stop in (1, 5, 30, 60):
        start = {1: 0, 5: 1, 30: 5, 60: 30}[stop]
        found.partial_fit(X[start:stop], Y[start:stop])
        np.testing.assert_allclose([found.intercept_, *found.coef_], ridge(X[:stop], Y[:stop], 0.1), rtol=1e-8)
    again = RecursiveLeastSquares(ridge=0.1).fit(X, Y)
    np.testing.assert_array_equal(again.coef_, found.coef_)


def test_streamed_conjugate_models():
    """online-incremental: streams of counts and of regressions leave the posterior that all rows at once give."""
    rng = np.random.default_rng(1)
    heads = rng.integers(0, 2, 40)
    coin = BetaBinomial(2, 3)
    for outcome in heads:
        coin = coin.update(int(outcome), 1)
    whole = BetaBinomial(2, 3).update(int(heads.sum()), 40)
    assert (coin.alpha, coin.beta) == (whole.alpha, whole.beta)
    rows = np.column_stack([np.ones(len(X)), X])
    prior = NormalInverseGamma(np.zeros(4), np.eye(4), 2.0, 1.0)
    line, at_once = prior, prior.update(rows, Y)
    for i in range(len(X)):
        line = line.update(rows[[i]], Y[[i]])
    np.testing.assert_allclose(line.mu, at_once.mu)
    np.testing.assert_allclose(line.precision, at_once.precision)
    assert (line.alpha, line.beta) == pytest.approx((at_once.alpha, at_once.beta))


def test_forgetting():
    """Weights of old rows fall geometrically, also that of the ridge."""
    found = RecursiveLeastSquares(forgetting=0.9, ridge=1.0).fit(X, Y)
    weights = 0.9 ** np.arange(59, -1, -1)
    np.testing.assert_allclose([found.intercept_, *found.coef_], ridge(X, Y, 0.9**60, weights), rtol=1e-6)
