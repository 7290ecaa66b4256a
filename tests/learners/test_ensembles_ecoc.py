"""Output codes: matrices by their counts and distances, errors corrected, soft votes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from bayeslab.learners.ecoc import (
    OutputCodes,
    column_distance,
    decoded,
    exhaustive,
    one_against_all,
    optimised,
    pairwise,
    random_code,
    row_distance,
)


class Knows(ClassifierMixin, BaseEstimator):
    """The first input is the class: says the side by heart."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.table_ = dict(zip(X[:, 0], y, strict=True))
        return self

    def predict(self, X):
        return np.array([self.table_[v] for v in X[:, 0]])


def rng():
    return np.random.RandomState(0)


def blobs(seed, k, n=300, spread=1.0):
    r = np.random.default_rng(seed)
    centres = r.normal(0, 3, (k, 4))
    y = np.arange(n) % k
    return centres[y] + r.normal(0, spread, (n, 4)), y


def test_ecoc():
    """ecoc (F35): one wrong learner is corrected where rows differ in three places; the columns of the source."""
    code = exhaustive(4)
    for y in range(4):
        for wrong in range(7):
            said = code[y].copy()
            said[wrong] *= -1
            assert decoded(code, said[None]).argmax() == y
    assert row_distance(code) >= 3
    y = np.repeat(np.arange(4), 5)
    x = y[:, None].astype(float)
    assert OutputCodes(Knows(), code="exhaustive", decode="hamming").fit(x, y).score(x, y) == 1
    own = np.array([[-1, 1], [1, 1], [1, -1]])
    found = OutputCodes(Knows(), code=own, decode="hamming").fit(x[y < 3], y[y < 3])
    np.testing.assert_array_equal(found.answers([[0.0], [1.0], [2.0]]), own)


def test_ecoc_onevsall():
    """ecoc-onevsall (F35): K = 4, L = K, rows differ in 2 places: nothing is corrected."""
    code = one_against_all(4)
    np.testing.assert_array_equal(code, np.where(np.eye(4), 1, -1))
    assert row_distance(code) == 2
    said = code[0].copy()
    said[1] *= -1
    assert len(np.flatnonzero(decoded(code, said[None])[0] == decoded(code, said[None]).max())) > 1


def test_ecoc_pairwise():
    """ecoc-pairwise (F35): L = K(K − 1)/2; of C2 d1 = −1, d4 = d5 = +1, the others do not count."""
    assert [pairwise(k).shape[1] for k in (3, 4, 5, 10)] == [3, 6, 10, 45]
    np.testing.assert_array_equal(pairwise(4)[1], [-1, 0, 0, 1, 1, 0])
    r = np.random.default_rng(0)
    ignored = r.uniform(-1, 1, (50, 6))
    ignored[:, [0, 3, 4]] = -1, 1, 1
    np.testing.assert_allclose(decoded(pairwise(4), ignored)[:, 1], 1)
    x, y = blobs(0, 4)
    assert OutputCodes(LogisticRegression(), code="pairwise").fit(x, y).score(x, y) > 0.95


def test_ecoc_exhaustive():
    """ecoc-exhaustive (F35): 2^(K−1) − 1 columns; K = 4 any two rows differ in 4 of 7 places."""
    assert [exhaustive(k).shape[1] for k in (3, 4, 5, 10)] == [3, 7, 15, 511]
    code = exhaustive(4)
    assert {int(np.sum(a != b)) for a, b in itertools.combinations(code, 2)} == {4}
    assert column_distance(code) >= 1
    with pytest.raises(ValueError, match="random or optimised"):
        exhaustive(13)


def test_ecoc_random():
    """ecoc-random: the least distance of rows grows with L."""
    distances = [
        np.mean([row_distance(random_code(8, n, np.random.RandomState(s))) for s in range(10)]) for n in (8, 20, 60)
    ]
    assert distances[0] < distances[1] < distances[2]
    code = random_code(15, 30, rng())
    assert code.shape == (15, 30)
    assert column_distance(code) >= 1
    assert (np.abs(code.sum(axis=0)) < 15).all()


@pytest.mark.parametrize("n_columns", [3, 4, 5])
def test_ecoc_optimise(n_columns):
    """ecoc-optimise: K = 4, the chosen columns have the largest row distance, then column distance, by brute force."""
    pool = exhaustive(4)
    every = [pool[:, list(at)] for at in itertools.combinations(range(7), n_columns)]
    best = max((row_distance(one), column_distance(one)) for one in every)
    found = optimised(4, n_columns, rng())
    assert (row_distance(found), column_distance(found)) == best


def test_optimised_by_exchange():
    found = optimised(8, 15, rng())
    assert row_distance(found) > np.mean(
        [row_distance(random_code(8, 15, np.random.RandomState(s))) for s in range(20)]
    )


def test_ecoc_soft():
    """ecoc-soft: d = 2p − 1, so that p = 0, 1/2, 1 are −1, 0, 1; of crisp answers soft and Hamming decoding agree."""
    soft = OutputCodes(decode="soft")
    np.testing.assert_allclose(soft._answer(np.array([0, 0.5, 1])), [-1, 0, 1])
    x, y = blobs(1, 4, spread=2.5)
    full = DecisionTreeClassifier(random_state=0)  # pure leaves: probabilities 0 and 1
    soft = OutputCodes(full, code="exhaustive", random_state=0).fit(x, y)
    hard = OutputCodes(full, code="exhaustive", decode="hamming", random_state=0).fit(x, y)
    fresh, _ = blobs(1, 4, n=200, spread=3)
    assert set(np.unique(soft.answers(fresh))) == {-1.0, 1.0}
    np.testing.assert_array_equal(soft.predict(fresh), hard.predict(fresh))
    distance = np.array([[np.sum(row != d) for row in hard.code_] for d in hard.answers(fresh)])
    np.testing.assert_array_equal(hard.predict(fresh), distance.argmin(axis=1))


@pytest.mark.slow(why="large")
def test_ecoc_learned():
    """ecoc-learned: with as many learners the learned matrix is at least as accurate as random ones; more are added."""
    x, y = load_digits(return_X_y=True)
    x, y = x[:700] / 16, y[:700]
    train, test = np.arange(700) % 2 == 0, np.arange(700) % 2 == 1
    one = DecisionTreeClassifier(max_depth=4)
    learned, random = [], []
    for seed in range(2):
        found = OutputCodes(one, "learned", n_learners=10, n_candidates=4, random_state=seed).fit(x[train], y[train])
        learned.append(found.score(x[test], y[test]))
        assert found.code_.shape == (10, 10)
    for seed in range(8):
        found = OutputCodes(one, "random", n_learners=10, random_state=seed).fit(x[train], y[train])
        random.append(found.score(x[test], y[test]))
    assert np.mean(learned) >= np.mean(random)
    few = OutputCodes(one, "learned", n_learners=4, n_candidates=4, random_state=0).fit(x[train], y[train])
    assert few.score(x[test], y[test]) < np.mean(learned)


def test_bad_codes():
    x, y = blobs(2, 3)
    with pytest.raises(ValueError, match="a row for each of 3 classes"):
        OutputCodes(code=np.ones((2, 2))).fit(x, y)
    with pytest.raises(ValueError, match="on each side"):
        OutputCodes(code=np.ones((3, 2))).fit(x, y)
