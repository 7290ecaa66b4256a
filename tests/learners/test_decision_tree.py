"""Trees against the restaurant's printed and derived numbers, and a plain twin."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.learners.decision_list import DecisionList
from bayeslab.learners.decision_tree import MultiwayTree, deviation, entropy, information_gain
from bayeslab.learners.toolbox.tree_kernels import best_splits
from tests.learners.restaurant import DOMAINS, NAMES, all_inputs, original_tree, rows, sample
from tests.refusals import refused

ALL = tuple(range(10))
X, Y = rows()


def root_tests(criterion: str = "gain"):
    n_values = np.array([len(d) for d in DOMAINS.values()])
    codes = (Y == "Y").astype(np.int64)
    return best_splits(X, codes, np.ones(12), np.arange(12), n_values, 2, False)


def test_restaurant_data():
    """restaurant-data (F14)."""
    assert (Y == "Y").sum() == 6
    assert len(np.unique(all_inputs(), axis=0)) == 9216
    assert (original_tree(X) == Y).all()
    assert (original_tree(all_inputs()) == "Y").mean() == pytest.approx(0.541667, abs=1e-6)


def test_information_gain():
    """The textbook's twelve examples: 0.541 bits of the patrons, none of the type of food (Russell, Norvig, 18.3.4)."""
    table = pd.read_csv(Path(__file__).parents[2] / "models" / "data" / "restaurant.csv", keep_default_na=False)
    gains = {name: information_gain(table[name], table["wait"]) for name in ("patrons", "type")}
    assert gains["patrons"] == pytest.approx(0.541, abs=5e-4)
    assert gains["type"] == pytest.approx(0, abs=1e-12)
    assert information_gain([1, 2], ["a", "b"]) == 1
    with refused("option.wrong-shape", "3 values and 2 classes"):
        information_gain([1, 2, 3], ["a", "b"])


def test_entropy():
    """entropy (F15)."""
    assert entropy([0.5, 0.5]) == 1
    assert entropy([1, 1, 1, 1]) == 2
    assert entropy([99, 1]) == pytest.approx(0.080793, abs=1e-6)


def test_info_gain_and_ratio():
    """info-gain, gain-ratio (F15)."""
    gain, info, _ = root_tests()
    expected = {
        "Pat": (0.540852, 1.459148), "Est": (0.207519, 1.792481), "Hun": (0.195710, 0.979869),
        "Price": (0.195710, 1.384432), "Fri": (0.020721, 0.979869), "Rain": (0.020721, 0.979869),
        "Res": (0.020721, 0.979869), "Alt": (0, 1), "Bar": (0, 1), "Type": (0, 1.918296),
    }  # fmt: skip
    for name, (g, i) in expected.items():
        j = NAMES.index(name)
        assert gain[j] == pytest.approx(g, abs=1e-6), name
        assert info[j] == pytest.approx(i, abs=1e-6), name
    assert gain[4] / info[4] == pytest.approx(0.370663, abs=1e-6)


def test_exact_time_is_penalised():
    """gain-ratio: a column with a value for every row gains most, and has no larger ratio than a good one."""
    table = np.column_stack([X, np.arange(12)])
    assert MultiwayTree((*ALL, 10)).fit(table, Y).root_.column == 10
    assert MultiwayTree((*ALL, 10), criterion="gain_ratio").fit(table, Y).root_.column == 4


def test_dtree_learn():
    """dtree-learn (F17): root Patrons, all rows right; None is No, Some is Yes, Full asks Hungry."""
    tree = MultiwayTree(ALL).fit(X, Y)
    assert NAMES[tree.root_.column] == "Pat"
    assert tree.score(X, Y) == 1
    none, some, full = tree.root_.children
    assert none.column is None
    assert some.column is None
    assert (tree.classes_[none.distribution.argmax()], tree.classes_[some.distribution.argmax()]) == ("N", "Y")
    assert NAMES[full.column] == "Hun"
    hungry = full.children[1]
    assert NAMES[hungry.column] == "Type"
    assert NAMES[hungry.children[3].column] == "Fri"
    used = {NAMES[n.column] for n in tree.root_.walk() if n.column is not None}
    assert not used & {"Rain", "Res"}
    agreement = (tree.predict(all_inputs()) == original_tree(all_inputs())).mean()
    assert min(abs(agreement - 0.8138), abs(agreement - 0.8060)) < 1e-4


def test_dtree_represent_and_original():
    """dtree-represent, dtree-original: a tree is the disjunction of its paths."""
    tree = MultiwayTree(ALL).fit(all_inputs(), original_tree(all_inputs()))
    assert tree.score(all_inputs(), original_tree(all_inputs())) == 1
    covered = np.zeros(9216, int)
    yes = np.zeros(9216, bool)
    for rule in tree.rules():
        covered += rule.covers(all_inputs())
        yes |= rule.covers(all_inputs()) & (rule.label == "Y")
    assert (covered == 1).all()
    np.testing.assert_array_equal(np.where(yes, "Y", "N"), original_tree(all_inputs()))
    path = (all_inputs()[:, 4] == 2) & (all_inputs()[:, 9] == 0)
    assert yes[path].all()


def test_ex20_15():
    """dtree-ex20-15 (F24)."""
    words = (0x28, 0x2C, 0x2A, 0x33, 0x3C, 0x23, 0x22, 0x1D, 0x1B, 0x06, 0x15, 0x05, 0x1B, 0x1C)
    table = np.array([[w >> b & 1 for b in range(5, -1, -1)] for w in words], float)
    target = np.array([1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0])
    gain, _, _ = best_splits(table, target, np.ones(14), np.arange(14), np.full(6, 2), 2, False)
    np.testing.assert_allclose(gain, [0.408327, 0.014772, 0.061054, 0.014772, 0.014772, 0.014772], atol=1e-6)
    tree = MultiwayTree(tuple(range(6))).fit(table, target)
    assert tree.root_.column == 0
    assert [child.column for child in tree.root_.children] == [2, 2]
    assert tree.score(table, target) == 1


def test_chi2():
    """chi2-prune, chi2-delta (F16; M7: values less one, not rows less one)."""
    assert stats.chi2.isf([0.05, 0.01], 3) == pytest.approx([7.814728, 11.344867], abs=1e-6)
    expected = {
        "Pat": (6.666667, 2),
        "Hun": (3.085714, 1),
        "Price": (2.476190, 2),
        "Est": (2.666667, 3),
        "Type": (0, 3),
    }
    for name, (delta, freedom) in expected.items():
        j = NAMES.index(name)
        table = [[np.sum((X[:, j] == v) & (c == Y)) for c in ("N", "Y")] for v in range(len(DOMAINS[name]))]
        assert deviation(table) == (pytest.approx(delta, abs=1e-6), freedom)
    one_test = MultiwayTree((0,), significance=0.05).fit(X[:, [4]], Y)
    assert one_test.root_.column == 0
    assert MultiwayTree((0,), significance=0.03).fit(X[:, [4]], Y).root_.column is None


def test_early_stopping_xor():
    """early-stopping-xor: no gain at the root; stopping there misses it, growing and then cutting keeps it."""
    table = np.array(list(itertools.product([0, 1], repeat=2)) * 10, float)
    y = (table[:, 0] != table[:, 1]).astype(int)
    assert MultiwayTree((0, 1), min_gain=1e-6).fit(table, y).n_nodes_ == 1
    tree = MultiwayTree((0, 1), significance=0.01).fit(table, y)
    assert tree.score(table, y) == 1


def test_dice_overfit():
    """dice-overfit: dice rolls explained by nothing; the tree is large, and one leaf after cutting."""
    rng = np.random.default_rng(1)
    table = rng.integers(6, size=(400, 4)).astype(float)
    y = np.where(rng.integers(6, size=400) == 5, "yes", "no")
    columns = (0, 1, 2, 3)
    assert MultiwayTree(columns).fit(table, y).n_nodes_ > 100
    cut = MultiwayTree(columns, significance=0.001).fit(table, y)
    assert cut.n_nodes_ == 1
    assert set(cut.predict(table)) == {"no"}


def test_majority_size():
    """dtree-majority-size: leaves of the early-stopping tree of the majority function."""
    for n, leaves in zip((1, 3, 5, 7, 9, 11), (2, 6, 20, 70, 252, 924), strict=True):
        table = np.array(list(itertools.product([0, 1], repeat=n)), float)
        tree = MultiwayTree(tuple(range(n))).fit(table, table.sum(axis=1) > n / 2)
        assert tree.n_leaves_ == leaves == math.comb(n + 1, (n + 1) // 2)


def flipped(rng, x, share):
    """Each cell with a chance another value of its column."""
    out = x.copy()
    for j, domain in enumerate(DOMAINS.values()):
        at = rng.random(len(x)) < share
        out[at, j] = (out[at, j] + rng.integers(1, len(domain), size=at.sum())) % len(domain)
    return out


@pytest.mark.slow(why="large")
def test_noise_in_labels_and_attributes():
    """noise-label-attr: error rises in proportion to wrong labels, steeper with wrong cells; cut trees are better."""
    rng = np.random.default_rng(2)
    rates = np.array([0.0, 0.05, 0.1, 0.15, 0.2])
    errors, sizes = np.zeros((5, 4)), np.zeros((5, 2))
    for k, noise in enumerate(rates):
        for _ in range(8):
            x, y = sample(rng, 300)
            new, truth = sample(rng, 2000)
            wrong = np.where(rng.random(300) < noise, np.where(y == "Y", "N", "Y"), y)
            spoilt, new_spoilt = flipped(rng, x, noise), flipped(rng, new, noise)
            for m, level in enumerate((None, 0.01)):
                by_label = MultiwayTree(ALL, significance=level).fit(x, wrong)
                by_cell = MultiwayTree(ALL, significance=level).fit(spoilt, y)
                errors[k, [m, 2 + m]] += 1 - by_label.score(new, truth), 1 - by_cell.score(new_spoilt, truth)
                sizes[k, m] += by_label.n_nodes_
    grown, cut, grown_cells, cut_cells = errors.T / 8
    assert np.corrcoef(rates, grown)[0, 1] > 0.98
    slopes = [np.polyfit(rates, e, 1)[0] for e in (grown, grown_cells)]
    assert slopes[1] > 1.1 * slopes[0]
    assert (grown_cells[1:] > grown[1:]).all()
    assert (cut[1:] < 0.6 * grown[1:]).all()
    assert (cut_cells[1:] < grown_cells[1:]).all()
    assert (sizes[1:, 1] < 0.5 * sizes[1:, 0]).all()


def test_missing():
    """missing-train-test: shares of a descent add up to one; without missing cells nothing changes."""
    rng = np.random.default_rng(3)
    x, y = sample(rng, 200)
    tree = MultiwayTree(ALL).fit(x, y)
    holes = x.copy()
    holes[rng.random(x.shape) < 0.2] = np.nan
    np.testing.assert_allclose(tree.predict_proba(holes).sum(axis=1), 1)
    learned = MultiwayTree(ALL).fit(holes, y)
    np.testing.assert_allclose(learned.predict_proba(x).sum(axis=1), 1)
    assert learned.score(*sample(rng, 500)) > 0.75
    # By hand: a root of three branches holding 2, 6 and 4 rows.
    stump = MultiwayTree((0,)).fit(X[:, [4]], Y)
    by_hand = sum(c.counts.sum() / 12 * c.distribution for c in stump.root_.children)
    np.testing.assert_allclose(stump.predict_proba([[np.nan]])[0], by_hand)


def test_equality_splits():
    """equality-splits: the gain of Patrons = Some, and both kinds of tree fit the rows."""
    n_values = np.array([3])
    gain, _, cut = best_splits(X[:, [4]], (Y == "Y").astype(np.int64), np.ones(12), np.arange(12), n_values, 2, True)
    by_hand = 1 - 8 / 12 * entropy([2, 6])
    assert cut[0] == 1
    assert gain[0] == pytest.approx(by_hand)
    assert MultiwayTree(ALL, equality=True).fit(X, Y).score(X, Y) == 1


@pytest.mark.parametrize("seed", range(5))
def test_split_point(seed):
    """split-point: the best cut is that of an exhaustive search, between rows of different classes."""
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=40), 1)
    y = np.digitize(x + 0.3 * rng.normal(size=40), [-0.6, 0.6])
    gain, _, cut = best_splits(x[:, None], y, np.ones(40), np.arange(40), np.zeros(1, np.int64), 3, False)
    distinct = np.unique(x)
    middles = (distinct[1:] + distinct[:-1]) / 2
    counts = [np.bincount(y[x <= m], minlength=3) for m in middles]
    whole = np.bincount(y, minlength=3)
    gains = [entropy(whole) - c.sum() / 40 * entropy(c) - (40 - c.sum()) / 40 * entropy(whole - c) for c in counts]
    assert gain[0] == pytest.approx(max(gains))
    chosen = int(np.argmin(np.abs(middles - cut[0])))
    assert gains[chosen] == pytest.approx(max(gains))
    # Cuts between two values whose rows all have one class are not worth a look: none is better than those that are.
    kinds = [set(y[x == v]) for v in distinct]
    changes = [len(a | b) > 1 for a, b in itertools.pairwise(kinds)]
    assert changes[chosen]
    assert 0 < sum(changes) < len(changes)
    assert max(g for g, c in zip(gains, changes, strict=True) if c) == pytest.approx(max(gains))


def test_size_limited():
    """dtree-size-limited: never more nodes than allowed, and the whole tree when the limit is large."""
    x, y = sample(np.random.default_rng(4), 150)
    whole = MultiwayTree(ALL).fit(x, y)
    scores = []
    for limit in (1, 4, 10, 30, 10_000):
        tree = MultiwayTree(ALL, max_nodes=limit).fit(x, y)
        assert tree.n_nodes_ <= limit
        scores.append(tree.score(x, y))
    assert (np.diff(scores) >= 0).all()
    assert tree.n_nodes_ == whole.n_nodes_


def test_learning_curve():
    """dtree-learning-curve (F18): about 95 % with 100 examples (derived 0.9524, sd 0.0145 over runs)."""
    rng = np.random.default_rng(5)
    everything, truth = all_inputs(), original_tree(all_inputs())
    scores = [MultiwayTree(ALL).fit(*sample(rng, 100)).score(everything, truth) for _ in range(40)]
    assert abs(np.mean(scores) - 0.9524) < 4 * 0.0145 * math.sqrt(1 / 40 + 1 / 60)


@pytest.mark.slow(why="large")
def test_learning_curve_of_one_hundred_examples():
    """dtree-learning-curve: of 100 examples 20 random parts of each size are learned from, the others are predicted."""
    x, y = sample(np.random.default_rng(9), 100)
    words = np.char.add("v", x.astype(int).astype(str))
    table = {name: words[:, j] for j, name in enumerate(NAMES)} | {"wait": y}
    model = bl.Model(model={"family": "learner", "learner": "decision_tree", "target": "wait", "significance": None})
    sizes = [2, 10, 30, 60, 90]
    found = bl.learning_curve({"tree": model}, table, sizes=sizes, repeats=20, progress=False)
    mean = found.table("accuracy")["accuracy"].to_numpy()
    assert (np.diff(mean) > -0.03).all()
    assert mean[0] < 0.7
    assert mean[-1] > 0.88


def test_weighted_training():
    """weighted-training: whole weights are copies of rows."""
    rng = np.random.default_rng(6)
    x, y = sample(rng, 80)
    weights = rng.integers(0, 4, size=80)
    weighted = MultiwayTree(ALL).fit(x, y, sample_weight=weights)
    copied = MultiwayTree(ALL).fit(np.repeat(x, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.predict_proba(everything := all_inputs()), copied.predict_proba(everything))


def test_instability():
    """tree-instability: trees of bootstrap samples differ, what they say differs less."""
    rng = np.random.default_rng(7)
    x, y = sample(rng, 40)
    trees = []
    for _ in range(8):
        at = rng.integers(40, size=40)
        trees.append(MultiwayTree(ALL).fit(x[at], y[at]))
    shapes = {tuple(n.column for n in t.root_.walk()) for t in trees}
    said = np.array([t.predict(all_inputs()) == "Y" for t in trees])
    assert len(shapes) >= 6
    assert np.mean(said == said[0]) > 0.75


def test_description_length():
    """Tests that explain nothing cost more bits than they save."""
    rng = np.random.default_rng(8)
    table = rng.integers(3, size=(300, 4)).astype(float)
    y = rng.integers(2, size=300)
    grown = MultiwayTree((0, 1, 2, 3)).fit(table, y)
    cut = MultiwayTree((0, 1, 2, 3), significance=0.01).fit(table, y)
    assert cut.description_length() < grown.description_length()
    told = np.where(table[:, 0] == 1, 1, 0)
    stump = MultiwayTree((0, 1, 2, 3)).fit(table, told)
    none = MultiwayTree((0, 1, 2, 3), max_nodes=1).fit(table, told)
    assert stump.description_length() < none.description_length()


def test_cut_by_bits():
    """Cut by bits a tree is smaller and better on new rows, and no cut that is left would make it shorter."""
    rng = np.random.default_rng(11)
    x, y = sample(rng, 300)
    wrong = np.where(rng.random(300) < 0.1, np.where(y == "Y", "N", "Y"), y)
    everything, truth = all_inputs(), original_tree(all_inputs())
    grown, cut = MultiwayTree(ALL).fit(x, wrong), MultiwayTree(ALL, pruning="bits").fit(x, wrong)
    assert cut.description_length() < grown.description_length()
    assert cut.n_nodes_ < 0.5 * grown.n_nodes_
    assert cut.score(everything, truth) > grown.score(everything, truth)
    shortest = cut.description_length()
    for node in cut.root_.walk():
        if node.column is not None:
            kept = node.column, node.children
            node.column, node.children = None, []
            assert cut.description_length() >= shortest - 1e-9
            node.column, node.children = kept
    noise = rng.integers(3, size=(300, 4)).astype(float)
    assert MultiwayTree((0, 1, 2, 3), pruning="bits").fit(noise, rng.integers(2, size=300)).n_nodes_ == 1
    with refused("option.unknown-word", "'pruning'.*'chance'", kind=ValueError):
        MultiwayTree(pruning="chance").fit(X, Y)


@pytest.mark.parametrize("equality", [False, True])
def test_rules_are_a_tree_again(equality):
    """dtree-represent: of the rules of a tree the same tree grows, numbers and codes; of a list one that says the same."""
    rng = np.random.default_rng(12)
    x, y = sample(rng, 120)
    x = np.column_stack([x, np.round(rng.normal(size=120), 1)])
    y = np.where((x[:, 10] > 0.4) & (x[:, 3] == 1), "Y", y)
    tree = MultiwayTree(ALL, equality=equality).fit(x, y)
    sizes = [*(len(d) for d in DOMAINS.values()), 0]
    again = MultiwayTree.from_rules(tree.rules(), sizes, equality)
    of_tree, of_again = ([(n.column, len(n.children)) for n in t.root_.walk()] for t in (tree, again))
    assert of_again == of_tree
    new = np.column_stack([sample(rng, 1000)[0], rng.normal(size=1000)])
    np.testing.assert_array_equal(again.predict(new), tree.predict(new))
    found = DecisionList(k=2, categorical=ALL).fit(x[:, :10], np.where(x[:, 0] == 1, "Y", y))
    as_tree = MultiwayTree.from_rules(found.rules_, sizes[:10], equality)
    np.testing.assert_array_equal(as_tree.predict(all_inputs()), found.predict(all_inputs()))
    with pytest.raises(ValueError, match="do not cover all rows"):
        MultiwayTree.from_rules(found.rules_[:-1], sizes[:10], equality)


def test_rules_in_words():
    """dtree-represent: the rules of a fit with the names of its columns; of a list in order."""
    models = Path(__file__).parents[2] / "models"
    said = bl.fit(models / "restaurant.yaml", runs=None, progress=False, folds=0).learner.rules()
    assert said["if"].iloc[0] == "patrons = None"
    assert said["if"].iloc[-1] == "patrons = Full and hungry = yes and type = Thai and friday = yes"
    assert said["wait"].iloc[1] == "yes"
    assert said["rows"].sum() == said["right"].sum() == 12
    model = bl.Model(model={"family": "learner", "learner": "decision_list", "target": "y"}, inference={"folds": 0})
    table = {"x": [1.0, 2, 3, 4, 5, 6], "z": list("abacbc"), "y": ["no", "no", "no", "yes", "yes", "yes"]}
    said = bl.fit(model, table, runs=None, progress=False).learner.rules()
    assert said["if"].tolist() == ["x <= 3.5", "otherwise"]
    assert said["y"].tolist() == ["no", "yes"]
    assert said["rows"].tolist() == [3, 3]
    other = bl.Model(model={"family": "learner", "learner": "knn", "target": "y"}, inference={"folds": 0})
    with refused("option.not-applicable", "decision_tree.*decision_list"):
        bl.fit(other, table, runs=None, progress=False).learner.rules()


def plain_gain(table, y, rows, j, n_values):
    whole = [sum(1 for i in rows if y[i] == c) for c in (0, 1)]
    out = entropy(whole)
    for v in range(n_values):
        inside = [i for i in rows if table[i][j] == v]
        if inside:
            out -= len(inside) / len(rows) * entropy([sum(1 for i in inside if y[i] == c) for c in (0, 1)])
    return out


def test_gain_twin():
    rng = np.random.default_rng(9)
    x, y = sample(rng, 60)
    codes = (y == "Y").astype(np.int64)
    n_values = np.array([len(d) for d in DOMAINS.values()])
    rows_ = np.sort(rng.choice(60, 35, replace=False))
    gain, _, _ = best_splits(x, codes, np.ones(60), rows_, n_values, 2, False)
    for j in range(10):
        assert gain[j] == pytest.approx(plain_gain(x, codes, rows_.tolist(), j, n_values[j]), abs=1e-9)


@pytest.mark.parametrize("options", [{}, {"criterion": "gain_ratio"}, {"equality": True}, {"max_nodes": 20}])
def test_compiled_growth_twin(options):
    """A tree grown in one call is the tree grown node by node, which rows with missing cells take."""
    rng = np.random.default_rng(10)
    x, y = sample(rng, 150)
    x = np.column_stack([x, np.round(rng.normal(size=150), 1)])
    whole = MultiwayTree(ALL, **options).fit(x, y)
    slow = MultiwayTree(ALL, **options)
    slow._compiled = lambda *_: pytest.fail("the compiled path was taken")
    # A last row of weight zero with a missing cell: present, and without any say.
    slow.fit(np.vstack([x, np.full(11, np.nan)]), np.append(y, "Y"), sample_weight=np.append(np.ones(150), 0.0))
    shape = [(n.column, n.cut, n.counts.tolist()) for n in whole.root_.walk()]
    assert str(shape) == str([(n.column, n.cut, n.counts.tolist()) for n in slow.root_.walk()])
