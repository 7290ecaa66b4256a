"""Locality-sensitive hashing: its promise held, against comparing with every point."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import binomtest

from bayeslab.learners.lsh import LSHClassifier, LSHIndex, LSHRegressor
from bayeslab.learners.toolbox.lsh import collision
from bayeslab.learners.toolbox.lsh_kernels import hit_ranks

RNG = np.random.default_rng(2)


def planted(n, n_queries, n_columns, gap):
    """Points, and queries each at this distance from one of them."""
    x = RNG.normal(size=(n, n_columns))
    at = RNG.integers(0, n, n_queries)
    step = RNG.normal(size=(n_queries, n_columns))
    return x, x[at] + gap * step / np.linalg.norm(step, axis=1, keepdims=True), at


@pytest.mark.slow(why="large")
def test_lsh():
    """lsh: planted near pairs of 20,000 points in 32 dimensions are found; candidates are a small part of all."""
    x, queries, at = planted(20_000, 400, 32, 2.0)
    index = LSHIndex(x, 2.0, 0.95, rng=np.random.default_rng(0))
    found = index.query(queries)
    assert np.mean(found.rows[:, 0] == at) >= 0.9
    assert found.examined.mean() < 0.02 * len(x)
    assert index.measured_recall(queries[:50]) >= 0.9
    right = found.rows[:, 0] == at
    np.testing.assert_allclose(found.distances[right, 0], 2.0, rtol=1e-4)


def test_lsh_bits():
    """lsh: random projections on bits; candidates are those that share the bits of a table, a twin says so."""
    x = RNG.integers(0, 2, (5000, 128))
    at = RNG.integers(0, 5000, 200)
    queries = x[at].copy()
    for i in range(200):
        queries[i, RNG.choice(128, 10, replace=False)] ^= 1
    index = LSHIndex(x, 10, 0.95, "hamming", rng=np.random.default_rng(1))
    found = index.query(queries)
    assert np.mean(found.rows[:, 0] == at) >= 0.9
    np.testing.assert_array_equal(found.distances[found.rows[:, 0] == at, 0], 10)
    assert found.examined.mean() < 0.05 * 5000
    picked = index._directions.argmax(axis=0).reshape(index.plan.tables, index.plan.length)
    for i in range(20):
        same = (x[:, picked] == queries[i][picked]).all(axis=2).any(axis=1)
        # Two different words may share a bucket: never fewer, hardly more.
        assert same.sum() <= found.examined[i] <= same.sum() + 40 * index.plan.tables


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("recall", [0.5, 0.9])
def test_near_neighbors_approx(recall):
    """near-neighbors-approx: with a point at r, one within cr is returned as often as promised; none farther, ever."""
    x, queries, _ = planted(10_000, 600, 32, 1.5)
    index = LSHIndex(x, 1.5, recall, rng=np.random.default_rng(3))
    rows, examined = index.near(queries, factor=2.0)
    hit = rows >= 0
    assert binomtest(int(hit.sum()), len(hit), recall, alternative="less").pvalue > 1e-3
    assert (np.linalg.norm(x[rows[hit]] - queries[hit], axis=1) <= 3.0 * (1 + 1e-5)).all()
    assert examined.mean() < 0.05 * len(x)
    far = RNG.normal(size=(100, 32)) * 0.1 + 40
    assert (index.near(far)[0] == -1).all(), "nothing within cr: none is made up"


def test_collision():
    """Probability of sharing a cell: simulated; and of bits 1 - d/n."""
    for distance, width in ((1.0, 2.0), (3.0, 2.0), (0.1, 5.0)):
        shift, step = RNG.uniform(size=200_000), RNG.normal(size=200_000) * distance / width
        simulated = np.mean(np.floor(shift + step) == 0)
        assert float(collision(distance, width)) == pytest.approx(simulated, abs=4 * 0.5 / np.sqrt(200_000))


def test_probes_come_nearest_first():
    """Cells in the order of the squared distance of the query to them, against sorting all steps."""
    from itertools import product

    fraction = np.array([[0.1, 0.45, 0.8]])
    factors = np.array([1, 10, 100], np.int64)
    cost = {
        step: sum(0.0 if s == 0 else (f**2 if s < 0 else (1 - f) ** 2) for s, f in zip(step, fraction[0], strict=True))
        for step in product((-1, 0, 1), repeat=3)
    }
    order = sorted(cost, key=cost.__getitem__)
    for rank, step in enumerate(order[:20]):
        assert hit_ranks(fraction, np.array([step], np.int64), factors, 20)[0] == rank


def test_nearest_of_candidates():
    """With every point a candidate the answer is exact, ties by row; the plan's promise is of the form it says."""
    x = np.repeat(RNG.normal(size=(150, 4)), 2, axis=0)
    index = LSHIndex(x, 100.0, 0.999999)
    queries = RNG.normal(size=(30, 4))
    found = index.query(queries, 6)
    assert (found.examined == 300).all()
    np.testing.assert_allclose(found.distances, np.sort(cdist(queries, x), axis=1)[:, :6], rtol=1e-4)
    np.testing.assert_array_equal(found.rows[:, 1], found.rows[:, 0] + 1)
    assert index.plan.recall >= 0.999999


def test_learners():
    """Classes and numbers as exact neighbours have them; a query far from everything is compared with all rows."""
    from bayeslab.learners.knn import KNNClassifier, KNNRegressor

    centres = 4 * RNG.normal(size=(10, 16))
    group = RNG.integers(0, 10, 2000)
    x = centres[group] + RNG.normal(size=(2000, 16))
    fresh = centres[group[:300]] + RNG.normal(size=(300, 16))
    mine = LSHClassifier(random_state=0).fit(x, group)
    assert np.mean(mine.predict(fresh) == KNNClassifier().fit(x, group).predict(fresh)) > 0.98
    y = x @ np.ones(16)
    values = LSHRegressor(recall=0.95, random_state=0).fit(x, y).predict(fresh)
    assert np.corrcoef(values, KNNRegressor().fit(x, y).predict(fresh))[0, 1] > 0.95
    far = np.full((1, 16), 1000.0)
    far = next(far * s for s in range(1, 100) if mine.index_.query(far * s).examined[0] == 0)
    distances, rows = mine.kneighbors(far)
    np.testing.assert_allclose(distances[0], np.sort(np.linalg.norm(x - far, axis=1))[:5], rtol=1e-5)
    assert len(set(rows[0])) == 5


def test_refuses():
    with pytest.raises(ValueError, match="bits"):
        LSHIndex([[0.5, 1.0]], 1.0, metric="hamming")
    with pytest.raises(ValueError, match="radius"):
        LSHIndex([[0.5, 1.0]], 0.0)
    with pytest.raises(ValueError, match="factor"):
        LSHIndex(np.zeros((3, 2)), 1.0).near([[0.0, 0.0]], 0.5)
    with pytest.raises(ValueError, match="more tables"):
        LSHIndex(RNG.integers(0, 2, (50, 8)), 8, 0.9, "hamming", max_tables=2)


@pytest.mark.parametrize("n", [3000, 6000])
def test_twin(n):
    """Candidates of a query by plain Python: all points whose key, of the probed cells, has the query's bucket."""
    x, queries, _ = planted(n, 5, 16, 1.0)
    index = LSHIndex(x, 1.0, 0.9, rng=np.random.default_rng(7))
    plan = index.plan

    def cells(points):
        projected = index._projected(index._asked(points)).reshape(len(points), plan.tables, plan.length)
        return np.floor(projected).astype(int)

    mine = cells(x)
    for query, asked, examined in zip(queries, cells(queries), index.query(queries).examined, strict=True):
        same = (mine == asked).all(axis=2).any(axis=1)
        step = np.abs(mine - asked)
        around = (step <= 1).all(axis=2).any(axis=1)
        found = index.query(query, int(examined))
        members = set(found.rows[0])
        assert set(np.flatnonzero(same)) <= members, "points in the query's own cells are all there"
        assert len(members) == examined
        # Others share a bucket by chance: at most as many as buckets asked, times a few.
        strangers = members - set(np.flatnonzero(around if plan.probes > 1 else same))
        assert len(strangers) <= 8 * plan.tables * plan.probes
        expected = np.sort(np.linalg.norm(x[sorted(members)] - query, axis=1))
        np.testing.assert_allclose(found.distances[0], expected, rtol=1e-3, atol=1e-3)
