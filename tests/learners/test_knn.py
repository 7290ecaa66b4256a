"""Nearest neighbours against brute force, refits, and geometry."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.spatial import KDTree as ScipyTree
from scipy.spatial import Voronoi
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from threadpoolctl import threadpool_limits

from bayeslab.learners.knn import KDTree, KNNClassifier, KNNRegressor, neighbourhood_side, shell_share
from bayeslab.learners.table_lookup import TableLookup, TableLookupRegressor
from bayeslab.learners.toolbox.neighbours import Neighbours, Space
from tests.refusals import refused

RNG = np.random.default_rng(0)
X, Y = load_iris(return_X_y=True)


def test_knn_classify():
    """knn-classify: 1-NN makes no training error on distinct points; votes are scikit-learn's."""
    x = RNG.normal(size=(100, 3))
    y = RNG.integers(0, 3, 100)
    assert KNNClassifier(1).fit(x, y).score(x, y) == 1
    queries = RNG.normal(size=(50, 3))
    mine = KNNClassifier(7).fit(x, y).predict_proba(queries)
    np.testing.assert_allclose(mine, KNeighborsClassifier(7).fit(x, y).predict_proba(queries), atol=1e-12)


def test_knn_figure():
    """knn-figure: a layout where the nearest example is positive and most of the five nearest are negative."""
    x = np.array([[0.1, 0.0], [0.5, 0.0], [-0.5, 0.0], [0.0, 0.5], [0.0, -0.6], [3.0, 3.0], [3.0, 2.0]])
    y = np.array(["+", "-", "-", "-", "+", "+", "+"])
    assert KNNClassifier(1).fit(x, y).predict([[0.0, 0.0]]) == ["+"]
    assert KNNClassifier(5).fit(x, y).predict([[0.0, 0.0]]) == ["-"]


def test_knn_regress_mean():
    """knn-regress-mean: with all rows as neighbours the mean, or the median, of all."""
    x, y = RNG.normal(size=(31, 2)), RNG.standard_exponential(31)
    for combine, expected in (("mean", y.mean()), ("median", np.median(y))):
        found = KNNRegressor(31, combine=combine).fit(x, y).predict(RNG.normal(size=(5, 2)))
        np.testing.assert_allclose(found, expected)
    queries = RNG.normal(size=(20, 2))
    reference = KNeighborsRegressor(4).fit(x, y).predict(queries)
    np.testing.assert_allclose(KNNRegressor(4).fit(x, y).predict(queries), reference)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_knn_linear(weights):
    """knn-linear: exact on a linear target, also at and beyond the ends of the range; the mean is not."""
    x = np.sort(RNG.uniform(0, 14, 40))[:, None]
    y = 3 - 2 * x[:, 0]
    ends = np.array([[-1.0], [x.min()], [7.3], [x.max()], [15.0]])
    linear = KNNRegressor(3, combine="linear", weights=weights).fit(x, y)
    np.testing.assert_allclose(linear.predict(ends), 3 - 2 * ends[:, 0], atol=1e-8)
    assert abs(KNNRegressor(3).fit(x, y).predict(ends[:1])[0] - 5) > 0.5
    wide = RNG.normal(size=(60, 3))
    plane = wide @ [1.0, -2.0, 0.5] + 4
    queries = RNG.normal(size=(10, 3))
    found = KNNRegressor(6, combine="linear", weights=weights).fit(wide, plane).predict(queries)
    np.testing.assert_allclose(found, queries @ [1.0, -2.0, 0.5] + 4, atol=1e-8)


def test_knn_voronoi():
    """knn-voronoi: labels by 1-NN are those of the nearest point; its cells are convex, with the sides of Voronoi's."""
    x = RNG.uniform(size=(25, 2))
    nearest = KNNRegressor(1).fit(x, np.arange(25))
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 60), np.linspace(0, 1, 60)), axis=-1).reshape(-1, 2)
    owner = nearest.predict(grid)
    np.testing.assert_array_equal(owner, cdist(grid, x).argmin(axis=1))
    a, b = RNG.integers(0, len(grid), (2, 5000))
    same = owner[a] == owner[b]
    assert same.sum() > 100
    inside = 0.3 * grid[a[same]] + 0.7 * grid[b[same]]
    np.testing.assert_array_equal(nearest.predict(inside), owner[a[same]])
    for (i, j), ridge in Voronoi(x).ridge_dict.items():
        if -1 in ridge:
            continue
        middle = Voronoi(x).vertices[ridge].mean(axis=0)
        assert set(nearest.kneighbors(middle[None], 2)[1][0]) == {i, j}


def test_knn_weighted():
    """knn-weighted: votes 1/d²; a query at a training row gets its value alone."""
    x, y = RNG.normal(size=(30, 2)), RNG.normal(size=30)
    found = KNNRegressor(30, weights="distance").fit(x, y)
    np.testing.assert_allclose(found.predict(x), y)
    query = np.array([[0.3, -0.2]])
    votes = 1 / ((x - query) ** 2).sum(axis=1)
    np.testing.assert_allclose(found.predict(query), votes @ y / votes.sum())
    labels = RNG.integers(0, 2, 30)
    classes = KNNClassifier(30, weights="distance").fit(x, labels)
    np.testing.assert_allclose(classes.predict_proba(query)[0, 1], votes @ labels / votes.sum())
    assert classes.score(x, labels) == 1
    twice = KNNRegressor(3, weights="distance").fit([[0.0], [0.0], [1.0]], [1.0, 3.0, 50.0])
    assert twice.predict([[0.0]])[0] == 2


@pytest.mark.parametrize("metric", ["minkowski", "hamming", "kernel"])
def test_knn_loocv(metric):
    """knn-loocv: k + 1 neighbours of all rows say what N refits say."""
    x = np.round(RNG.normal(size=(60, 3)), 1) if metric == "hamming" else RNG.normal(size=(60, 3))
    y, target = RNG.integers(0, 3, 60), RNG.normal(size=60)
    cheap = KNNClassifier(4, metric=metric).fit(x, y)
    slow = [
        KNNClassifier(4, metric=metric).fit(np.delete(x, i, 0), np.delete(y, i)).predict(x[[i]])[0] for i in range(60)
    ]
    np.testing.assert_array_equal(cheap.leave_one_out(), slow)
    assert cheap.leave_one_out_errors([4])[0] == np.mean(np.array(slow) != y)
    for combine in ("mean", "median", "linear"):
        values = KNNRegressor(5, metric=metric, combine=combine).fit(x, target)
        refits = [
            KNNRegressor(5, metric=metric, combine=combine)
            .fit(np.delete(x, i, 0), np.delete(target, i))
            .predict(x[[i]])[0]
            for i in range(0, 60, 6)
        ]
        np.testing.assert_allclose(values.leave_one_out()[::6], refits, atol=1e-9)


def test_leaving_out_among_equal_rows():
    """More equal rows than neighbours: a row that the search does not return is still not among its own."""
    x, y = np.zeros((10, 1)), np.arange(10) % 2
    left = KNNClassifier(3).fit(x, y)
    _, rows = left._without_own(3)
    assert rows.shape == (10, 3)
    assert not (rows == np.arange(10)[:, None]).any()


def test_knn_choose_k():
    """knn-choose-k (F28): the odd k at the minimum of the leave-one-out curve; an odd k of two classes leaves no tie."""
    x = RNG.normal(size=(300, 2))
    y = (x[:, 0] > 0) ^ (RNG.uniform(size=300) < 0.2)
    found = KNNClassifier("leave_one_out").fit(x, y)
    tried = np.arange(1, 50, 2)
    curve = found.leave_one_out_errors(tried)
    assert found.n_neighbors_ == tried[curve.argmin()]
    assert found.n_neighbors_ % 2 == 1
    assert curve.min() < curve[0] - 0.05, "noise: one neighbour is too few"
    fresh = RNG.normal(size=(500, 2))
    assert (found.predict_proba(fresh)[:, 0] != 0.5).all()
    assert np.mean(found.predict(fresh) == (fresh[:, 0] > 0)) > KNNClassifier(1).fit(x, y).score(fresh, fresh[:, 0] > 0)


def test_knn_curse():
    """knn-curse (F28): sides of neighbourhoods; and in a sample the k-th neighbour is as far as they say."""
    for d, side in ((2, 0.003162), (3, 0.021544), (17, 0.508022), (100, 0.891251), (200, 0.944061)):
        assert neighbourhood_side(10, 1_000_000, d) == pytest.approx(side, abs=5e-7)
    x = RNG.uniform(size=(10_000, 2))
    inner = x[(np.abs(x - 0.5) < 0.4).all(axis=1)][:500]
    # Largest coordinate: a ball is a cube.
    radius = KNNClassifier(10, p=np.inf).fit(x, x[:, 0] > 0.5).kneighbors(inner, 11)[0][:, -1]
    assert np.mean(2 * radius) == pytest.approx(neighbourhood_side(10, 10_000, 2), rel=0.05)


def test_knn_shell():
    """knn-shell (F28): share of volume within one percent of the surface, and of uniform points there."""
    assert shell_share(1) == pytest.approx(0.02)
    assert shell_share(200) == pytest.approx(0.982412, abs=5e-7)
    x = RNG.uniform(size=(20_000, 10))
    outer = (np.minimum(x, 1 - x) < 0.01).any(axis=1).mean()
    assert outer == pytest.approx(shell_share(10), abs=4 * np.sqrt(0.18 * 0.82 / 20_000))


def distances(metric, x, **options):
    space = Space.of(x, metric, **options)
    points = space.points(x)
    found, rows = Neighbours(space, points).nearest(points, len(x))
    out = np.empty_like(found)
    np.put_along_axis(out, rows, found, 1)
    return out


def test_distance_minkowski():
    """distance-minkowski: p = 2 Euclidean, p = 1 Manhattan; the triangle inequality for p ≥ 1, refused below."""
    x = RNG.normal(size=(20, 3))
    gap = x[:, None] - x[None]
    np.testing.assert_allclose(distances("minkowski", x, p=2), np.sqrt((gap**2).sum(axis=2)))
    np.testing.assert_allclose(distances("minkowski", x, p=1), np.abs(gap).sum(axis=2))
    for p in (1, 1.5, 2, 3, np.inf):
        d = distances("minkowski", x, p=p)
        assert (d[:, :, None] + d[None] >= d[:, None, :] - 1e-12).all()
    with pytest.raises(ValueError, match="triangle"):
        Space.of(x, "minkowski", p=0.5)
    with pytest.raises(ValueError, match="inf"):  # differences of 1e-4 to the power 100 are zero
        Space.of(x, "minkowski", p=100)
    a, b, c = np.array([[0.0, 0], [1, 0], [1, 1]])
    ab, bc, ac = ((np.abs(u - v) ** 0.5).sum() ** 2 for u, v in ((a, b), (b, c), (a, c)))
    assert ab + bc < ac, "so p < 1 is rightly refused"


def test_distance_hamming():
    """distance-hamming: the count of differing columns; on bits it is the Manhattan distance."""
    codes = RNG.integers(0, 4, (20, 6)).astype(float)
    np.testing.assert_allclose(distances("hamming", codes), (codes[:, None] != codes[None]).sum(axis=2))
    bits = RNG.integers(0, 2, (20, 6)).astype(float)
    np.testing.assert_allclose(distances("hamming", bits), distances("minkowski", bits, p=1))
    # Columns of codes beside numbers: one where they differ.
    for p in (1.0, 2.0, np.inf):
        mixed = distances("minkowski", codes[:, :1], p=p, categorical=(0,))
        np.testing.assert_allclose(mixed, codes[:, None, 0] != codes[None, :, 0])


def test_distance_mahalanobis():
    """distance-mahalanobis: equals the Euclidean distance after whitening, and SciPy's; also with a useless column."""
    x = RNG.normal(size=(40, 3)) @ RNG.normal(size=(3, 3))
    found = distances("mahalanobis", x)
    inverse = np.linalg.inv(np.cov(x.T))
    np.testing.assert_allclose(found, cdist(x, x, "mahalanobis", VI=inverse), atol=1e-9)
    white = x @ np.linalg.cholesky(inverse)
    np.testing.assert_allclose(found, distances("minkowski", white), atol=1e-9)
    np.testing.assert_allclose(distances("mahalanobis", np.column_stack([x, np.ones(40)])), found, atol=1e-8)


def test_distance_of_kernels():
    """The linear kernel induces the Euclidean distance; the radial one its own formula."""
    x = RNG.normal(size=(20, 3))
    np.testing.assert_allclose(distances("kernel", x, kernel="linear"), distances("minkowski", x), atol=1e-6)
    squared = cdist(x, x, "sqeuclidean")
    expected = np.sqrt(2 - 2 * np.exp(-0.5 * squared))
    np.testing.assert_allclose(distances("kernel", x, kernel="rbf", gamma=0.5), expected, atol=1e-7)


def test_normalize_features():
    """normalize-features: in a model, another unit of one column leaves the predictions as they are; raw, it does not."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from bayeslab.families.learner.columns import Columns
    from bayeslab.learners import knn

    assert knn.SCALE
    other = X * [1000.0, 1.0, 1.0, 1.0] + [5.0, 0, 0, 0]
    columns = Columns((0, 0, 0, 0), "codes", scale=True)
    first = make_pipeline(columns, KNNClassifier()).fit(X, Y)[-1].kneighbors(columns.transform(X))[1]
    second = make_pipeline(columns, KNNClassifier()).fit(other, Y)[-1].kneighbors(columns.transform(other))[1]
    assert np.mean(first == second) > 0.99, "but for equals within rounding"
    reference = make_pipeline(StandardScaler(), KNNClassifier()).fit(X, Y).predict(X)
    np.testing.assert_array_equal(make_pipeline(columns, KNNClassifier()).fit(other, Y).predict(other), reference)
    raw = KNNClassifier().fit(X, Y).kneighbors(X)[1], KNNClassifier().fit(other, Y).kneighbors(other)[1]
    assert np.mean(raw[0] == raw[1]) < 0.7


def test_metric_adapt():
    """metric-adapt: the local metric shrinks columns that say nothing of the class; 1-NN gets better by it."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 6))
    y = (x[:, 0] > 0).astype(int)
    fresh = rng.normal(size=(200, 6))
    adapted = KNNClassifier(1, metric="local").fit(x, y)
    metric = adapted.local_metric(np.array([0.05, 0, 0, 0, 0, 0]))
    assert metric[0, 0] > 3 * np.diagonal(metric)[1:].max()
    np.testing.assert_allclose(metric, metric.T)
    assert (np.linalg.eigvalsh(metric) > 0).all()
    better = adapted.score(fresh, fresh[:, 0] > 0)
    plain = KNNClassifier(1).fit(x, y).score(fresh, fresh[:, 0] > 0)
    assert better > plain + 0.05, (better, plain)


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("split", ["widest", "cyclic"])
@pytest.mark.parametrize("leaf_size", [1, 8])
def test_kd_tree(split, leaf_size):
    """kd-tree: equals brute force, also with equal points and constant columns."""
    x = RNG.normal(size=(500, 3))
    x[::7] = x[0]
    x = np.column_stack([x, np.ones(500)])
    queries = np.concatenate([RNG.normal(size=(40, 3)) * 2, x[:20, :3]])
    queries = np.column_stack([queries, np.ones(60)])
    found = KDTree(x, leaf_size, split).query(queries, 5)
    table = cdist(queries, x)
    np.testing.assert_allclose(found.distances, np.sort(table, axis=1)[:, :5], atol=1e-12)
    np.testing.assert_allclose(found.distances, ScipyTree(x).query(queries, 5)[0], atol=1e-12)
    np.testing.assert_allclose(np.take_along_axis(table, found.rows, 1), found.distances, atol=1e-12)
    assert all(len(set(line)) == 5 for line in found.rows)


def test_kd_tree_needs_examples():
    """kd-tree: of many more than 2^n points few are examined, of fewer nearly all; examined grow like log N."""
    share = {}
    for n_columns in (2, 14):
        x = RNG.uniform(size=(4000, n_columns))
        share[n_columns] = KDTree(x, 1).query(RNG.uniform(size=(50, n_columns))).examined.mean() / 4000
    assert share[2] < 0.005
    assert share[14] > 0.5
    small, large = (
        KDTree(RNG.uniform(size=(n, 2)), 1).query(RNG.uniform(size=(200, 2))).examined.mean() for n in (1000, 64_000)
    )
    assert large < 2 * small


def test_kd_tree_refuses():
    with pytest.raises(ValueError, match="points"):
        KDTree(np.array([[np.nan]]))
    with pytest.raises(ValueError, match="k is 3"):
        KDTree(np.zeros((2, 1))).query([[0.0]], 3)
    with pytest.raises(ValueError, match="columns"):
        KDTree(np.zeros((2, 1))).query([[0.0, 1.0]])


def test_table_lookup():
    """table-lookup: a stored point gives its answer, any other the default."""
    x = np.array([[0.0, 1.0], [2.0, 3.0], [2.0, 3.0], [4.0, 5.0]])
    found = TableLookup().fit(x, ["a", "b", "b", "a"])
    np.testing.assert_array_equal(found.predict([[0, 1], [2, 3], [4, 5], [4, 5.0001]]), ["a", "b", "a", "a"])
    numbers = TableLookupRegressor(default=-1.0).fit(x, [1.0, 2.0, 4.0, 8.0])
    np.testing.assert_allclose(numbers.predict([[0, 1], [2, 3], [-0.0, 1], [9, 9]]), [1, 3, 1, -1])
    assert TableLookupRegressor().fit(x, [1.0, 2.0, 4.0, 8.0]).predict([[9, 9]])[0] == 3.75


def test_connect_dots():
    """connect-dots: passes through all points and is linear between neighbours."""
    x = RNG.permutation(np.linspace(0, 10, 12))
    y = RNG.normal(size=12)
    found = KNNRegressor(2, combine="interpolate").fit(x[:, None], y)
    np.testing.assert_allclose(found.predict(x[:, None]), y)
    at = np.sort(x)
    between = found.predict((0.25 * at[:-1] + 0.75 * at[1:])[:, None])
    ends = found.predict(at[:, None])
    np.testing.assert_allclose(between, 0.25 * ends[:-1] + 0.75 * ends[1:])
    with pytest.raises(ValueError, match="one input"):
        KNNRegressor(combine="interpolate").fit(np.zeros((9, 2)), np.arange(9))


def test_lazy_tradeoffs():
    """lazy-tradeoffs: training keeps the rows as they are; the cost of a query grows with their number."""
    spent = []
    queries = RNG.normal(size=(20, 8))
    for n in (2000, 100_000):
        x = RNG.normal(size=(n, 8))
        stored = KNNClassifier(algorithm="brute").fit(x, np.arange(n) % 2)
        assert np.shares_memory(stored._points, x), "no number was computed"
        times = []
        with threadpool_limits(1):
            for _ in range(5):
                start = time.process_time()
                stored.predict(queries)
                times.append(time.process_time() - start)
        spent.append(min(times))
    assert spent[1] > 4 * spent[0]


def test_errors_are_clear():
    with pytest.raises(ValueError, match="n_neighbors is 9"):
        KNNClassifier(9).fit([[0.0], [1.0]], [0, 1])
    with refused("option.unknown-word", "'metric'.*'cosmic'", kind=ValueError):
        KNNClassifier(1, metric="cosmic").fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="codes"):
        KNNClassifier(1, categorical=(0,)).fit([[0.5], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="hamming"):
        KNNClassifier(1, metric="hamming", algorithm="kd_tree").fit([[0.5], [1.0]], [0, 1])
    unseen = KNNClassifier(1, categorical=(0,)).fit([[0.0, 0.0], [1.0, 3.0]], [0, 1])
    assert unseen.kneighbors([[7.0, 0.0]])[0][0, 0] == pytest.approx(1), "a new level differs from all"


@pytest.mark.parametrize("options", [{}, {"n_neighbors": "leave_one_out"}, {"metric": "mahalanobis"}])
def test_in_a_model(options):
    import pandas as pd

    import bayeslab as bl

    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(kind=np.array(["s", "e", "v"])[Y])
    model = bl.Model(model={"family": "learner", "learner": "knn", "target": "kind"} | options)
    fit = bl.fit(model, frame)
    assert fit is not None
