"""Scores of given graphs and tests of independence from the public door, and what a network says of its tables."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from matplotlib.patches import Circle, FancyArrowPatch
from scipy import stats
from scipy.special import gammaln

import bayeslab as bl
from tests.refusals import refused


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 300)
    b = np.where(rng.random(300) < 0.8, a, 1 - a)
    c = np.where(rng.random(300) < 0.7, b, rng.integers(0, 2, 300))
    return {"a": [f"a{k}" for k in a], "b": [f"b{k}" for k in b], "c": [f"c{k}" for k in c]}


def counts(rows, child, parent=None):
    above = rows[parent] if parent else [""] * len(rows[child])
    pairs = list(zip(above, rows[child], strict=True))
    return [[pairs.count((u, v)) for v in sorted(set(rows[child]))] for u in sorted(set(above))]


def bdeu(table, ess=1.0):
    table = np.array(table, dtype=float)
    row, cell = ess / len(table), ess / table.size
    return float(sum(gammaln(row) - gammaln(row + t.sum()) + (gammaln(cell + t) - gammaln(cell)).sum() for t in table))


def test_bdeu_and_bic_are_the_formulas(rows):
    """Heckerman, Geiger, Chickering (1995); Schwarz (1978)."""
    found = bl.score(["a -> b", ("b", "c")], rows, "bdeu", score_options={"equivalent_sample_size": 1.0})
    terms = {"a": bdeu(counts(rows, "a")), "b": bdeu(counts(rows, "b", "a")), "c": bdeu(counts(rows, "c", "b"))}
    assert found.by_variable == pytest.approx(terms, rel=1e-12)
    assert float(found) == pytest.approx(sum(terms.values()), rel=1e-12) and found.criterion == "bdeu"
    table = np.array(counts(rows, "b", "a"), dtype=float)
    likelihood = float((table * np.log(table / table.sum(axis=1, keepdims=True))).sum())
    bic = bl.score(["a -> b"], rows, "bic").by_variable["b"]
    assert bic == pytest.approx(likelihood - 0.5 * 2 * math.log(300), rel=1e-12)


def test_a_learned_graph_has_the_score_of_its_search(rows):
    learned = bl.learn(rows)
    for graph in (learned, learned.graph, learned.network(), [f"{u} -> {v}" for u, v in learned.graph.edges]):
        assert float(bl.score(graph, rows)) == pytest.approx(learned.score, rel=1e-12)
    part = nx.DiGraph([("a", "b")])
    assert set(bl.score(part, rows | {"text with gaps": [None] * 300}).by_variable) == {"a", "b"}


@pytest.mark.parametrize(
    ("graph", "code", "match"),
    [
        (["a -> z"], "model.unknown-variable", "'z'"),
        (["a -> b", "b -> a"], "model.cycle", "a -> b"),
        (nx.Graph([("a", "b")]), "model.not-a-graph", "Graph"),
        ("a -> b", "model.not-a-graph", "str"),
        (5, "model.not-a-graph", "int"),
    ],
)
def test_what_is_no_graph_of_the_columns_is_refused(rows, graph, code, match):
    with refused(code, match):
        bl.score(graph, rows)


def test_tests_of_independence_are_scipys(rows):
    found = bl.independence(rows, "a", "b")
    statistic, p_value, dof, _ = stats.chi2_contingency(
        counts(rows, "b", "a"), correction=False, lambda_="log-likelihood"
    )
    assert (found.statistic, found.dof) == pytest.approx((statistic, dof), rel=1e-10)
    assert found.p_value == pytest.approx(p_value, rel=1e-8) and found.test == "g2"
    pearson = bl.independence(rows, "a", "b", test="chi2")
    assert pearson.statistic == pytest.approx(stats.chi2_contingency(counts(rows, "b", "a"), correction=False)[0])
    within = [{v: [x for x, s in zip(rows[v], rows["b"], strict=True) if s == k] for v in "ac"} for k in ("b0", "b1")]
    separate = [stats.chi2_contingency(counts(r, "c", "a"), correction=False, lambda_="log-likelihood") for r in within]
    given = bl.independence(rows, "a", "c", "b")
    assert given.statistic == pytest.approx(sum(t.statistic for t in separate), rel=1e-10) and given.dof == 2
    assert given.given == ("b",) and "a ⊥ c | b" in repr(given)


def test_partial_correlations_of_numbers():
    """Fisher (1924): atanh of the correlation of two least-squares residuals, times sqrt(n - k - 3)."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=80)
    x, y = z + rng.normal(size=80), z + rng.normal(size=80)
    design = np.column_stack([np.ones(80), z])
    left, right = (v - design @ np.linalg.lstsq(design, v)[0] for v in (x, y))
    wanted = math.atanh(np.corrcoef(left, right)[0, 1]) * math.sqrt(80 - 1 - 3)
    found = bl.independence({"x": x, "y": y, "z": z}, "x", "y", ["z"])
    assert found.test == "fisher_z" and abs(found.statistic) == pytest.approx(abs(wanted), rel=1e-9)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(wanted)), rel=1e-8)


@pytest.mark.parametrize(
    ("arguments", "options", "code"),
    [
        (("a", "z"), {}, "model.unknown-variable"),
        (("a", "a"), {}, "model.duplicate"),
        (("a", "b", "a"), {}, "model.duplicate"),
        (("a", "b"), {"test": "g3"}, "option.unknown-word"),
        (("a", "x"), {}, "option.not-states"),
        (("a", "b"), {"permutations": -1}, None),
    ],
)
def test_questions_without_an_answer_are_refused(rows, arguments, options, code):
    with pytest.raises(bl.BayeslabError) as caught:
        bl.independence(rows | {"x": np.linspace(0.1, 1, 300)}, *arguments, **options)
    assert code is None or caught.value.code == code


def test_tables_of_a_network():
    net = bl.network("models/asia.yaml")
    for v in net.variables:
        table = net.cpt(v)
        np.testing.assert_allclose(table.sum(axis=1), 1, rtol=1e-12)
        assert list(table.columns) == list(net.states[v])
    for v in net.variables:
        above = tuple(net.plain.parents[v])
        if above:
            given = {u: net.states[u][-1] for u in above}
            row = net.do(given).query(targets=[v])[v]
            key = tuple(given.values()) if len(above) > 1 else next(iter(given.values()))
            assert net.cpt(v).loc[key].to_dict() == pytest.approx(row)
    with refused("evidence.unknown-variable"):
        net.cpt("nobody")


def test_moral_graphs_and_separators():
    net = bl.network("models/asia.yaml")
    moral = net.moral_graph()
    for v in net.variables:
        above = net.plain.parents[v]
        assert all(moral.has_edge(v, u) for u in above)
        assert all(moral.has_edge(u, w) for u in above for w in above if u != w)
    for x in net.variables:
        for y in net.variables:
            if x < y:
                found = net.separator(x, y)
                joined = net.graph.has_edge(x, y) or net.graph.has_edge(y, x)
                assert (found is None) == joined
                if found is not None:
                    assert net.d_separated(x, y, found)
                    assert not any(net.d_separated(x, y, found - {v}) for v in found)


def test_searches_by_tests_say_what_separates(rows):
    learned = bl.learn(rows, "pc")
    removal = learned.separators[frozenset({"a", "c"})]
    assert removal.given == ("b",)
    assert removal.p_value == pytest.approx(bl.independence(rows, "a", "c", "b").p_value)
    with refused("option.not-applicable"):
        bl.learn(rows).separators  # noqa: B018
    for found in (learned, bl.learn(rows, "fci")):
        patches = found.plot().axes[0].patches
        assert sum(isinstance(patch, FancyArrowPatch) for patch in patches) == found.pattern.n_edges > 0
        ends = [found.pattern.mark(u, v) for u, v in found.pattern.graph.edges]
        assert sum(isinstance(patch, Circle) for patch in patches) == ends.count("circle")
