"""The junction tree and variable elimination against enumeration, on a thousand and more random models."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest

from bayeslab.errors import EvidenceError
from bayeslab.latents.networks import variable_elimination
from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.network import DiscreteNetwork
from tests.latents._enumeration import (
    joint,
    marginals,
    names_of_states,
    random_evidence,
    random_network,
    random_tree_factors,
)
from tests.refusals import refused


def random_factors(rng, n):
    """Factors of up to four variables, loops, lone variables, zeros and scales far from one."""
    states = names_of_states(rng, n)
    scopes = [
        tuple(rng.choice(list(states), size=rng.integers(0, min(n, 4) + 1), replace=False).tolist())
        for _ in range(rng.integers(0, 2 * n))
    ]
    tables = []
    for scope in scopes:
        shape = [len(states[v]) for v in scope]
        tables.append(rng.gamma(1.0, size=shape) * (rng.random(shape) < 0.85) * np.exp(rng.normal(0, 5)))
    return FactorGraph(states, tuple(scopes), tuple(tables))


def random_model(rng, k):
    n = int(rng.integers(1, 8))
    return (random_network, random_factors, random_tree_factors)[k % 3](rng, n)


def random_cases(seed, n):
    rng = np.random.default_rng(seed)
    for k in range(n):
        model = random_model(rng, k)
        yield model, random_evidence(rng, model.states) if k % 4 else {}


def both(model):
    """One tree for all evidence, and a tree for each piece of evidence."""
    tree = JunctionTree.of(model)
    return tree, replace(tree, _tree=None)


def random_codes(rng, states, n, missing):
    cards = np.array([len(s) for s in states.values()])
    codes = rng.integers(0, cards, (n, len(cards)))
    return np.where(rng.random(codes.shape) < missing, -1, codes)


def slices(states, codes):
    """What a row observes, as a mapping."""
    return {v: s[c] for (v, s), c in zip(states.items(), codes, strict=True) if c >= 0}


def chain(n, rng=None, table=None):
    states = {f"x{i}": ("a", "b") for i in range(n)}
    parents = {f"x{i}": (f"x{i - 1}",) for i in range(1, n)}
    step = np.array([[0.9, 0.1], [0.2, 0.8]]) if table is None else table
    tables = {v: step if v in parents else np.array([0.5, 0.5]) for v in states}
    return DiscreteNetwork(states, parents, tables)


# Marginals and the evidence.


@pytest.mark.slow(why="large")
def test_marginals_and_evidence_are_those_of_enumeration_and_of_elimination():
    impossible = 0
    for k, (model, given) in enumerate(random_cases(11, 1200)):
        truth = joint(model, given)
        for tree in both(model):
            if truth.sum() == 0:
                impossible += 1
                with refused("evidence.probability-zero"):
                    tree.query(given)
                continue
            answer = tree.query(given)
            assert answer.log_evidence == pytest.approx(np.log(truth.sum()), abs=1e-10), k
            for v, want in marginals(truth, list(model.states)).items():
                np.testing.assert_allclose(answer.marginals[v], want, atol=1e-12, err_msg=f"{k} {v}")
        want = np.log(truth.sum()) if truth.sum() > 0 else -np.inf
        assert variable_elimination.log_evidence(model, given) == pytest.approx(want, abs=1e-10)
        if truth.sum() > 0:
            for v in model.states:
                found = variable_elimination.eliminate(model, [v], given)
                np.testing.assert_allclose(found, answer.marginals[v], atol=1e-12, err_msg=f"{k} {v}")
    assert 50 < impossible < 1000


@pytest.mark.slow(why="compiles")
def test_few_targets_are_answered_alike():
    rng = np.random.default_rng(12)
    for model, given in random_cases(13, 150):
        truth = joint(model, given)
        if truth.sum() == 0:
            continue
        names = list(rng.permutation(list(model.states))[: rng.integers(1, 3)])
        for tree in both(model):
            answer = tree.query(given, names)
            assert list(answer.marginals) == names
            assert answer.log_evidence == pytest.approx(np.log(truth.sum()), abs=1e-10)
            for v in names:
                np.testing.assert_allclose(answer.marginals[v], marginals(truth, list(model.states))[v], atol=1e-12)


def test_joint_posteriors_of_any_variables():
    rng = np.random.default_rng(14)
    for model, given in random_cases(15, 200):
        truth = joint(model, given)
        if truth.sum() == 0:
            continue
        names = list(model.states)
        targets = list(rng.permutation(names)[: rng.integers(1, 4)])
        rest = tuple(i for i, v in enumerate(names) if v not in targets)
        want = truth.sum(axis=rest) / truth.sum()
        kept = [v for v in names if v in targets]
        want = want.transpose([kept.index(v) for v in targets])
        np.testing.assert_allclose(JunctionTree.of(model).joint(targets, given), want, atol=1e-12)


def test_the_smallest_networks():
    for tree in both(FactorGraph({}, (), ())):
        assert tree.query().log_evidence == 0
        assert tree.query().marginals == {}
        assert tree.log_evidence_of(np.zeros((3, 0))).tolist() == [0, 0, 0]
        assert tree.most_probable()[0].assignment == {}
        assert tree.sample(2, np.random.default_rng(0)).shape == (2, 0)
    for tree in both(FactorGraph({"a": ("x",)}, ((), ("a",)), (np.array(2.0), np.array([3.0])))):
        assert tree.query({"a": "x"}).log_evidence == pytest.approx(np.log(6))
        log_evidence, counts = tree.expected_counts([[-1], [0]], [2.0, 1.0])
        assert log_evidence == pytest.approx([np.log(6)] * 2)
        assert [c.tolist() for c in counts] == [3.0, [3.0]]
    for tree in both(FactorGraph({"a": ("x", "y")}, (), ())):
        assert tree.query().log_evidence == pytest.approx(np.log(2))
    with refused("evidence.probability-zero"):
        JunctionTree.of(FactorGraph({"a": ("x", "y")}, ((),), (np.array(0.0),))).query()


def test_probabilities_do_not_underflow():
    n = 1500
    observed = {f"x{i}": "a" if i % 2 else "b" for i in range(0, n, 3)}
    weak = chain(n, table=np.array([[0.9, 1e-7], [1e-9, 0.8]]) / np.array([[0.9 + 1e-7], [0.8 + 1e-9]]))
    forward, log_scale = np.array([0.5, 0.5]), 0.0  # the forward recursion, scaled
    for i in range(n):
        forward = forward @ weak.tables["x1"] if i else forward
        if f"x{i}" in observed:
            forward = forward * (np.array(["a", "b"]) == observed[f"x{i}"])
        log_scale += np.log(forward.sum())
        forward = forward / forward.sum()
    for tree in both(weak):
        answer = tree.query(observed)
        assert answer.log_evidence == pytest.approx(log_scale, rel=1e-12)
        assert answer.log_evidence < -1000
        np.testing.assert_allclose(answer.marginals[f"x{n - 1}"], forward, rtol=1e-9)
    # A thousand children of one variable: a thousand messages into one clique.
    states = {"y": ("a", "b"), **{f"x{i}": ("a", "b") for i in range(1000)}}
    table = np.array([[0.51, 0.49], [0.5, 0.5]])
    star = DiscreteNetwork(
        states,
        {v: ("y",) for v in states if v != "y"},
        {v: table if v != "y" else np.array([0.5, 0.5]) for v in states},
    )
    given = {f"x{i}": "a" if i < 500 else "b" for i in range(1000)}
    odds = 500 * (np.log(0.51) + np.log(0.49) - 2 * np.log(0.5))
    for tree in both(star):
        answer = tree.query(given)
        assert answer.marginals["y"][0] == pytest.approx(1 / (1 + np.exp(-odds)), rel=1e-10)
        assert answer.log_evidence == pytest.approx(
            np.log(0.5) + 1000 * np.log(0.5) + np.log1p(np.exp(odds)), rel=1e-12
        )


def test_factors_of_any_scale():
    # A ring of neighbours that agree or not, with weights whose products no float holds.
    states = {f"x{i}": ("a", "b") for i in range(9)}
    names = list(states)
    for scale in (1e250, 1e-250):
        table = np.array([[2.0, 1.0], [1.0, 3.0]]) * scale
        ring = FactorGraph(states, tuple((v, names[(i + 1) % 9]) for i, v in enumerate(names)), (table,) * 9)
        # The sum over a ring is the trace of the ninth power of the table.
        want = 9 * np.log(scale) + np.log(np.sum(np.linalg.eigvalsh([[2.0, 1.0], [1.0, 3.0]]) ** 9))
        for tree in both(ring):
            assert tree.query().log_evidence == pytest.approx(want, rel=1e-12)
            assert tree.log_evidence_of(np.ones((1, 9)))[0] == pytest.approx(9 * np.log(3 * scale), rel=1e-12)
            best = tree.most_probable()[0]
            assert set(best.assignment.values()) == {"b"}
            assert best.log_probability == pytest.approx(9 * np.log(3 * scale) - want, abs=1e-9)


# Evidence that cannot be, and evidence that is not certain.


def test_impossible_evidence_names_what_conflicts():
    states = {"a": ("0", "1"), "b": ("0", "1"), "c": ("0", "1"), "d": ("0", "1")}
    tables = {"a": [0.5, 0.5], "b": np.eye(2), "c": np.eye(2), "d": [0.5, 0.5]}
    model = DiscreteNetwork(states, {"b": ("a",), "c": ("b",)}, {v: np.array(t) for v, t in tables.items()})
    for tree in both(model):
        given = {"d": "1", "a": "0", "c": "1"}
        for ask in (tree.query, tree.most_probable, partial(tree.joint, ["b", "d"])):
            with refused("evidence.probability-zero"):
                ask(given)
        with refused("evidence.probability-zero"):
            tree.sample(1, np.random.default_rng(0), given)
        with refused("evidence.probability-zero"):
            tree.marginal_map(["b"], given)
        assert tree.log_evidence_of([[0, -1, 1, 1]])[0] == -np.inf
        with refused("evidence.unknown-variable", "'aa'.*'a'"):
            tree.query(targets=["aa"])


@pytest.mark.slow(why="statistical")
def test_beliefs_hold_afterwards():
    rng = np.random.default_rng(17)
    tried = 0
    for k in range(300):
        model = random_model(rng, k)
        wide = [v for v in model.states if len(model.states[v]) > 1]
        truth = joint(model)
        if len(wide) < 2 or truth.sum() == 0 or np.any(truth == 0):
            continue
        tried += 1
        believed = {}
        for v in rng.permutation(wide)[:2]:
            p = rng.dirichlet(np.ones(len(model.states[v])))
            believed[str(v)] = dict(zip(model.states[v], p.tolist(), strict=True))
        # The minimum of relative entropy to the model under these marginals: proportional fitting of the joint.
        fitted, names = truth / truth.sum(), list(model.states)
        for _ in range(2000):
            for v, p in believed.items():
                axis = names.index(v)
                now = fitted.sum(axis=tuple(i for i in range(fitted.ndim) if i != axis), keepdims=True)
                fitted = fitted * np.array(list(p.values())).reshape(now.shape) / now
        for tree in both(model):
            answer = tree.query(believed=believed)
            assert answer.log_evidence == pytest.approx(np.log(truth.sum()), abs=1e-9)
            for v, want in marginals(fitted, names).items():
                np.testing.assert_allclose(answer.marginals[v], want, atol=1e-9)
            for v, p in believed.items():
                np.testing.assert_allclose(answer.marginals[v], list(p.values()), atol=1e-10)
    assert tried > 30


def test_beliefs_that_cannot_hold():
    tree = JunctionTree.of(chain(3, table=np.eye(2)))
    with refused("evidence.contradiction", "beliefs"):
        tree.query(believed={"x0": {"a": 0.3, "b": 0.7}, "x1": {"a": 0.6, "b": 0.4}})
    with refused("evidence.probability-zero"):
        tree.query({"x0": "a"}, believed={"x2": {"a": 0.5, "b": 0.5}})
    with refused("evidence.not-probabilities"):
        tree.query(believed={"x0": {"a": 0.3, "b": 0.6}})
    with refused("evidence.conflict", "believed"):
        tree.query({"x0": "a"}, believed={"x0": {"a": 0.5, "b": 0.5}})


# Batches.


@pytest.mark.slow(why="statistical")
def test_batches_are_the_queries_one_by_one():
    rng = np.random.default_rng(18)
    for k in range(60):
        model = random_model(rng, k)
        codes = random_codes(rng, model.states, 12 if k else 200, 0.6)
        names = list(model.states)
        for tree in both(model):
            many = tree.query_many(codes)
            alone = tree.log_evidence_of(codes)
            np.testing.assert_array_equal(alone, many.log_evidence)
            for i in range(len(codes)):
                truth = joint(model, slices(model.states, codes[i]))
                if truth.sum() == 0:
                    assert alone[i] == -np.inf
                    assert all(np.isnan(many.marginals[v][i]).all() for v in names)
                    continue
                assert alone[i] == pytest.approx(np.log(truth.sum()), abs=1e-10)
                for v, want in marginals(truth, names).items():
                    np.testing.assert_allclose(many.marginals[v][i], want, atol=1e-12)


def test_expected_counts_are_posteriors_of_the_factors_summed():
    rng = np.random.default_rng(19)
    for k in range(80):
        model = random_model(rng, k)
        factors = FactorGraph.of(model) if isinstance(model, DiscreteNetwork) else model
        codes = np.concatenate([random_codes(rng, model.states, 6, 0.5), random_codes(rng, model.states, 3, 0.0)])
        weights = rng.random(len(codes))
        names = list(model.states)
        want = [np.zeros(t.shape) for t in factors.tables]
        log_evidence = np.full(len(codes), -np.inf)
        for i in range(len(codes)):
            truth = joint(model, slices(model.states, codes[i]))
            if truth.sum() == 0:
                continue
            log_evidence[i] = np.log(truth.sum())
            for f, scope in enumerate(factors.scopes):
                own = truth.sum(axis=tuple(j for j, v in enumerate(names) if v not in scope)) / truth.sum()
                kept = [v for v in names if v in scope]
                want[f] += weights[i] * own.transpose([kept.index(v) for v in scope])
        for tree in both(model):
            found, counts = tree.expected_counts(codes, weights)
            np.testing.assert_allclose(found, log_evidence, atol=1e-10)
            for have, should in zip(counts, want, strict=True):
                np.testing.assert_allclose(have, should, atol=1e-12)


def test_expected_counts_are_the_gradient_of_the_log_evidence():
    rng = np.random.default_rng(20)
    model = random_factors(rng, 6)
    model = FactorGraph(model.states, model.scopes, tuple(t + 0.1 for t in model.tables))
    codes, weights = random_codes(rng, model.states, 7, 0.5), rng.random(7)
    for tree in both(model):
        _, counts = tree.expected_counts(codes, weights)
        for f, table in enumerate(model.tables):
            for cell in np.ndindex(table.shape):
                values = []
                for step in (1e-5, -1e-5):
                    moved = [t.copy() for t in model.tables]
                    moved[f][cell] *= np.exp(step)
                    values.append(tree.with_tables(moved).log_evidence_of(codes, weights).sum())
                assert (values[0] - values[1]) / 2e-5 == pytest.approx(counts[f][cell], abs=1e-6)


def test_the_sum_over_rows_does_not_depend_on_how_they_are_written():
    rng = np.random.default_rng(21)
    model = random_network(rng, 7)
    codes = random_codes(rng, model.states, 500, 0.3)
    tree = JunctionTree.of(model)
    one, two = tree.expected_counts(codes)[1], tree.expected_counts(codes)[1]
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    twice = tree.expected_counts(np.concatenate([codes, codes]), np.full(1000, 0.5))[1]
    for a, b in zip(one, twice, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_rows_that_name_no_state_are_refused():
    tree = JunctionTree.of(chain(3))
    with refused("evidence.unknown-state", "row 1.*2.*'x2'"):
        tree.log_evidence_of([[0, 0, 0], [0, -1, 2]])
    with refused("evidence.wrong-shape", r"\(1, 2\).*3"):
        tree.query_many([[0, 1]])
    with refused("evidence.wrong-shape", r"weights.*\(2,\).*1"):
        tree.expected_counts([[0, 0, 1]], [1.0, 2.0])


def test_other_tables_in_the_same_structure():
    rng = np.random.default_rng(22)
    for k in range(60):
        first = random_model(rng, k)
        factors = FactorGraph.of(first) if isinstance(first, DiscreteNetwork) else first
        tables = tuple(rng.random(t.shape) * (rng.random(t.shape) < 0.8) for t in factors.tables)
        other = FactorGraph(factors.states, factors.scopes, tables)
        truth = joint(other)
        for tree in both(first):
            tree.query_many(-np.ones((1, len(first.states))))  # whatever was cached belongs to the old tables
            changed = tree.with_tables(tables)
            want = np.log(truth.sum()) if truth.sum() > 0 else -np.inf
            assert changed.log_evidence_of(-np.ones((1, len(first.states))))[0] == pytest.approx(want, abs=1e-10)
            if truth.sum() > 0:
                target = next(iter(first.states))
                want = marginals(truth, list(first.states))[target]
                np.testing.assert_allclose(changed.query(targets=[target]).marginals[target], want, atol=1e-12)
                np.testing.assert_allclose(changed.joint([target]), want, atol=1e-12)
    with refused("model.wrong-shape", "shapes"):
        JunctionTree.of(chain(2)).with_tables([np.ones(2)])
    with refused("model.not-probabilities"):
        JunctionTree.of(chain(2)).with_tables([np.array([1.0, -1.0]), np.ones((2, 2))])


# Explanations.


def test_best_assignments_are_those_of_the_sorted_enumeration():
    for i, (model, given) in enumerate(random_cases(23, 160)):
        truth = joint(model, given)
        if truth.sum() == 0:
            continue
        ranked = np.sort(truth[truth > 0].ravel())[::-1] / truth.sum()
        tree = both(model)[i % 2]
        best = tree.most_probable(given, k=8)
        assert len(best) == min(8, len(ranked))
        np.testing.assert_allclose([e.log_probability for e in best], np.log(ranked[:8]), atol=1e-9)
        places = [tuple(s.index(e.assignment[v]) for v, s in model.states.items()) for e in best]
        assert len(set(places)) == len(places)
        np.testing.assert_allclose([truth[p] / truth.sum() for p in places], ranked[:8], rtol=1e-9)
        assert tree.most_probable(given, k=8) == best
    with refused("option.out-of-range", "^k "):
        JunctionTree.of(chain(2)).most_probable(k=0)


def test_marginal_map_is_the_maximum_of_the_enumerated_marginal():
    rng = np.random.default_rng(24)
    for model, given in random_cases(25, 200):
        truth = joint(model, given)
        if truth.sum() == 0:
            continue
        names = list(model.states)
        targets = [str(v) for v in rng.permutation(names)[: rng.integers(1, 4)]]
        kept = [v for v in names if v in targets]
        own = truth.sum(axis=tuple(i for i, v in enumerate(names) if v not in targets)) / truth.sum()
        found = JunctionTree.of(model).marginal_map(targets, given)
        assert list(found.assignment) == targets
        place = tuple(model.states[v].index(found.assignment[v]) for v in kept)
        assert found.log_probability == pytest.approx(np.log(own.max()), abs=1e-10)
        assert own[place] == pytest.approx(own.max(), rel=1e-10)


def test_marginal_map_is_not_the_projection_of_the_best_assignment():
    model = DiscreteNetwork(
        {"a": ("0", "1"), "b": ("0", "1", "2")},
        {"b": ("a",)},
        {"a": np.array([0.4, 0.6]), "b": np.array([[1.0, 0, 0], [0.4, 0.3, 0.3]])},
    )
    tree = JunctionTree.of(model)
    assert tree.most_probable()[0].assignment == {"a": "0", "b": "0"}
    assert tree.marginal_map(["a"]).assignment == {"a": "1"}


# Draws.


def test_draws_have_the_posterior_frequencies():
    rng = np.random.default_rng(26)
    n, z = 4000, []
    for model, given in random_cases(27, 100):
        truth = joint(model, given)
        if truth.sum() == 0:
            continue
        codes = JunctionTree.of(model).sample(n, rng, given)
        found = np.zeros(truth.shape)
        np.add.at(found, tuple(codes.T), 1 / n)
        p = truth / truth.sum()
        assert np.all(found[p == 0] == 0)
        wide = (p > 0.01) & (p < 0.99)
        z += list(((found - p) / np.sqrt(p * (1 - p) / n + (p * (1 - p) == 0)))[wide])
    assert len(z) > 200
    assert np.abs(z).max() < 5
    assert np.mean(np.square(z)) == pytest.approx(1, abs=0.2)


# Elimination by itself.


def test_elimination_leaves_out_what_does_not_bear_on_the_answer():
    # The clique of 60 variables below the target cannot be multiplied out; it need not be.
    states = {f"x{i}": ("a", "b") for i in range(62)}
    above = tuple(f"x{i}" for i in range(10))
    parents = {f"x{i}": above for i in range(10, 62)}
    rng = np.random.default_rng(28)
    wide = rng.dirichlet([1, 1], size=[2] * 10)
    model = DiscreteNetwork(states, parents, {v: wide if v in parents else np.array([0.3, 0.7]) for v in states})
    np.testing.assert_allclose(variable_elimination.eliminate(model, ["x0"]), [0.3, 0.7])
    assert variable_elimination.log_evidence(model) == pytest.approx(0)
    names = tuple(states)
    everywhere = FactorGraph(
        states, tuple((a, b) for a, b in product(names, names) if a < b), tuple(np.ones((2, 2)) for _ in range(61 * 31))
    )
    with refused("engine.refused.too-costly"):
        variable_elimination.log_evidence(everywhere)
    with refused("engine.refused.too-costly"):
        JunctionTree.of(everywhere)


def test_what_does_not_fit_is_refused_before_it_is_allocated():
    rng = np.random.default_rng(29)
    names = [f"x{i}" for i in range(24)]
    pairs = [(a, b) for a, b in product(names, names) if a < b]
    dense = FactorGraph(dict.fromkeys(names, ("a", "b")), tuple(pairs), tuple(rng.random((len(pairs), 2, 2)) + 0.1))
    little = replace(JunctionTree.of(dense), _tree=None, _limit=8 * 2.0**12)
    codes = np.zeros((1, 24))
    for ask in (
        little.query,
        little.most_probable,
        lambda: little.joint(["x0", "x1"]),
        lambda: little.joint(names[:20]),
        lambda: little.sample(1, rng),
        lambda: little.query_many(codes - 1),
    ):
        with refused("engine.refused.too-costly"):
            ask()
    # Evidence on fourteen leaves a clique of ten.
    given = dict.fromkeys(names[:14], "a")
    assert np.isfinite(little.query(given).log_evidence)


@pytest.mark.parametrize("seed", range(12))
def test_the_joint_table_of_a_small_network_agrees(seed):
    """Two ways that share no code; zeros in tables, virtual evidence, factor graphs."""
    from bayeslab.latents.networks.factors import FactorGraph
    from bayeslab.latents.networks.joint_table import JointTable, is_small

    rng = np.random.default_rng(seed)
    states = {f"v{i}": tuple(f"s{k}" for k in range(rng.integers(1, 4))) for i in range(6)}
    names = list(states)
    parents = {v: tuple(rng.permutation(names[:i])[: rng.integers(0, 3)]) for i, v in enumerate(names)}
    tables = {}
    for v in names:
        table = rng.dirichlet(np.ones(len(states[v])), size=[len(states[u]) for u in parents[v]])
        if len(states[v]) > 1 and rng.random() < 0.4:
            table[..., 0] = 0
            table /= table.sum(axis=-1, keepdims=True)
        tables[v] = table
    network = DiscreteNetwork(states, parents, tables)
    given = {"v5": {s: float(rng.random()) + 0.1 for s in states["v5"]}, "v3": states["v3"][-1]}
    for model in (network, FactorGraph.of(network)):
        assert is_small(model)
        small, tree = JointTable(model), JunctionTree.of(model)
        ours, theirs = small.query(given), tree.query(given)
        assert ours.log_evidence == pytest.approx(theirs.log_evidence, abs=1e-12)
        for v in names:
            np.testing.assert_allclose(ours.marginals[v], theirs.marginals[v], atol=1e-13)
        np.testing.assert_allclose(small.joint(["v4", "v0"], given), tree.joint(["v4", "v0"], given), atol=1e-13)
        ranked = [e.log_probability for e in small.most_probable(given, 5)]
        assert ranked == pytest.approx([e.log_probability for e in tree.most_probable(given, 5)], abs=1e-11)
        rows = np.array([[rng.integers(-1, len(s)) for s in states.values()] for _ in range(20)])
        many, of_tree = small.query_many(rows), tree.query_many(rows)
        np.testing.assert_allclose(many.log_evidence, of_tree.log_evidence, atol=1e-12)
        for v in names:
            np.testing.assert_allclose(many.marginals[v], of_tree.marginals[v], atol=1e-13)
        best = small.marginal_map(["v1", "v4"], given)
        assert best.log_probability == pytest.approx(tree.marginal_map(["v1", "v4"], given).log_probability, abs=1e-11)


def test_a_small_network_refuses_what_a_tree_refuses():
    """The same errors, and no probability too small for it."""
    from bayeslab.latents.networks.joint_table import JointTable, is_small

    tiny = np.array([1e-200, 1 - 1e-200])
    network = DiscreteNetwork(
        dict.fromkeys("abc", ("yes", "no")),
        {"c": ("a",)},
        {"a": tiny, "b": tiny, "c": np.array([[0.0, 1.0], [0.5, 0.5]])},
    )
    small, tree = JointTable(network), JunctionTree.of(network)
    for given in ({"a": "yes", "c": "yes"}, {"z": "yes"}, {"a": "maybe"}):
        with pytest.raises(EvidenceError) as ours:
            small.query(given)
        with pytest.raises(EvidenceError) as theirs:
            tree.query(given)
        assert str(ours.value) == str(theirs.value)
    assert small.query({"a": "yes", "b": "yes"}).log_evidence == pytest.approx(2 * np.log(1e-200), rel=1e-14)
    wide = DiscreteNetwork(
        {f"v{i}": ("yes", "no") for i in range(15)}, {}, {f"v{i}": np.full(2, 0.5) for i in range(15)}
    )
    assert not is_small(wide)
    assert is_small(network, 1_000) and not is_small(network, 1_001)
