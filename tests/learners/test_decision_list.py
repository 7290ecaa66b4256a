"""Decision lists, and linear regression trees."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from bayeslab.learners.decision_list import DecisionList
from bayeslab.learners.decision_tree import MultiwayTree, Rule
from bayeslab.learners.regression_tree import LinearTree
from tests.learners.restaurant import NAMES, all_inputs, original_tree, rows, sample

X, Y = rows()
ALL = tuple(range(10))


def test_printed_list():
    """decision-list (F17): Some, else Full on Friday or Saturday; 9 of 12 rows right, 85.42 % of the tree's answers."""
    made = DecisionList(categorical=ALL).fit(X, Y)
    pat, fri = NAMES.index("Pat"), NAMES.index("Fri")
    made.rules_ = [Rule(((pat, "=", 1.0),), "Y"), Rule(((pat, "=", 2.0), (fri, "=", 1.0)), "Y"), Rule((), "N")]
    right = made.predict(X) == Y
    assert right.sum() == 9
    assert np.flatnonzero(~right).tolist() == [4, 8, 9]
    assert (made.predict(all_inputs()) == original_tree(all_inputs())).mean() == pytest.approx(0.8542, abs=1e-4)


def test_learner():
    """decision-list-learn: every row fitted or failure reported; the smallest test first."""
    found = DecisionList(k=2, categorical=ALL).fit(X, Y)
    assert found.consistent_
    assert found.score(X, Y) == 1
    sizes = [len(rule.conditions) for rule in found.rules_[:-1]]
    assert sizes[0] == 1
    bits = np.array(list(itertools.product([0, 1], repeat=2)), float)
    xor = (bits[:, 0] != bits[:, 1]).astype(int)
    failed = DecisionList(k=1, categorical=(0, 1)).fit(bits, xor)
    assert not failed.consistent_
    assert DecisionList(k=2, categorical=(0, 1)).fit(bits, xor).consistent_


def test_kdt_subset():
    """kdt-subset: a tree of depth k is a list of conjunctions of k literals."""
    x, y = sample(np.random.default_rng(0), 60)
    tree = MultiwayTree(ALL).fit(x, y)
    made = DecisionList.from_tree(tree)
    assert max(len(rule.conditions) for rule in made.rules_) <= tree.depth_
    test = sample(np.random.default_rng(1), 500)[0]
    np.testing.assert_array_equal(made.predict(test), tree.predict(test))


def test_number_columns():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(150, 3))
    y = np.where(x[:, 0] > 0.5, "a", np.where(x[:, 2] < 0, "b", "a"))
    assert DecisionList(k=2, cuts=40).fit(x, y).score(x, y) > 0.95


def test_regression_tree():
    """regression-tree: a piecewise linear function with a known breakpoint is recovered."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 10, size=(400, 1))
    y = np.where(x[:, 0] < 4, 1 + 2 * x[:, 0], 15 - x[:, 0]) + 0.1 * rng.normal(size=400)
    tree = LinearTree(cuts=400).fit(x, y)
    assert tree.n_leaves_ == 2
    assert tree.root_.column == 0
    assert abs(tree.root_.cut - 4) < 0.1
    np.testing.assert_allclose(tree.root_.sides[0].weights, [1, 2], atol=0.05)
    np.testing.assert_allclose(tree.root_.sides[1].weights, [15, -1], atol=0.05)


@pytest.mark.parametrize(("unit", "origin"), [([1e-6, 1, 1e6], 0), ([1, 1, 1], 2000), ([1, 1e-3, 1], 1e6)])
def test_units_do_not_matter(unit, origin):
    """In other units, and counted from another origin, the same tree."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(300, 3))
    y = np.where(x[:, 0] < 0.3, 2 * x[:, 1], 1 - 3 * x[:, 2]) + 0.1 * rng.normal(size=300)
    plain = LinearTree().fit(x, y)
    moved = x * unit + origin
    other = LinearTree().fit(moved, 1000 * y + origin)
    assert plain.n_leaves_ == other.n_leaves_ == 2
    np.testing.assert_allclose((other.predict(moved) - origin) / 1000, plain.predict(x), atol=1e-4)


def test_best_cut_is_that_of_an_exhaustive_search():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    found = LinearTree(min_rows=5, cuts=1000)._best_cut(x, np.column_stack([np.ones(30), x]), y, np.arange(30))
    best = (np.inf, 0, 0.0)
    for j in range(2):
        values = np.sort(x[:, j])
        for cut in (values[1:] + values[:-1]) / 2:
            under = x[:, j] <= cut
            if min(under.sum(), (~under).sum()) < 5:
                continue
            error = 0.0
            for part in (under, ~under):
                a = np.column_stack([np.ones(part.sum()), x[part]])
                error += float(np.sum((y[part] - a @ np.linalg.lstsq(a, y[part])[0]) ** 2))
            best = min(best, (error, j, cut))
    assert found == pytest.approx(best)


def test_constant_leaves_are_carts():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 3))
    y = np.sin(x[:, 0]) + (x[:, 1] > 0)
    own = LinearTree(leaves="constant", min_rows=5, min_gain=0, max_depth=3, cuts=10_000).fit(x, y)
    theirs = DecisionTreeRegressor(min_samples_leaf=5, max_depth=3, random_state=0).fit(x, y)
    np.testing.assert_allclose(own.predict(x), theirs.predict(x), atol=1e-8)


@pytest.mark.parametrize("origin", [0.0, 1e9])
def test_constant_leaves_are_the_tree_of_scikit_learn(origin):
    """Also where single precision, which scikit-learn's tree reads, would not tell the values apart."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 3))
    y = np.where(x[:, 0] > 0, 3.0, 1.0) * np.sign(x[:, 1]) + rng.normal(scale=0.3, size=400)
    tree = LinearTree(leaves="constant", min_gain=0.0001, min_rows=7, max_depth=4).fit(x + origin, y - origin)
    plain = DecisionTreeRegressor(max_depth=4, min_samples_leaf=7, min_impurity_decrease=0.0001 * y.var()).fit(x, y)
    assert tree.n_leaves_ == plain.get_n_leaves() > 4
    np.testing.assert_allclose(tree.predict(x + origin) + origin, plain.predict(x), atol=1e-6)
