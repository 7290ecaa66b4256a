"""What is read off sampled structures, against all DAGs looked at one by one and their parameters in closed form."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.engines.toolbox.structure_groups import structure_groups
from bayeslab.results.structures import Structures
from bayeslab.structure import chains
from bayeslab.structure.data import Observations
from bayeslab.structure.exact_posterior import dag_posterior, order_posterior
from bayeslab.structure.parameters import Parameters
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.scores import load
from tests.refusals import refused
from tests.structure._dags import Everything, random_scores, table_of

NAMES, STATES = ("a", "b", "c", "d"), {"a": ("0", "1"), "b": ("x", "y", "z"), "c": ("0", "1"), "d": ("0", "1")}
ESS = 3.0


def rows():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 70)
    b = (a + (rng.random(70) < 0.4) + (rng.random(70) < 0.2)) % 3
    c = np.where(rng.random(70) < 0.75, b == 0, rng.integers(0, 2, 70)).astype(int)
    d = np.where(rng.random(70) < 0.65, c ^ a, rng.integers(0, 2, 70))
    return np.column_stack([a, b, c, d])


OBSERVED = Observations.of_codes(rows(), STATES)
LEARNED = Parameters(OBSERVED, "bdeu", {"equivalent_sample_size": ESS})
TABLE = ScoreTable.build(load("bdeu", OBSERVED, equivalent_sample_size=ESS), max_parents=3)
ALL = Everything.of(TABLE)


def sampled(table, word, n_chains=4, n_draws=2000, thin=20):
    chain, out = chains.load(word), []
    for rng in np.random.default_rng(5).spawn(n_chains):
        state, _, _ = chain.run(table, chain.init(table, rng), 500)
        out.append(chain.run(table, state, n_draws * thin, thin)[1])
    return structure_groups(table, np.array(out), prior=chain.PRIOR)


@pytest.fixture(scope="module")
def drawn():
    return Structures(sampled(TABLE, "structure"), LEARNED)


@pytest.fixture(scope="module")
def once():
    """Every DAG drawn exactly once: averages have no Monte Carlo error."""
    return Structures(structure_groups(TABLE, ALL.choices[None]), LEARNED)


def one_graph(table, edges, learned, n=400):
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(table.names)
    return Structures(structure_groups(table, np.tile(table.choice(graph), (1, n, 1))), learned)


def joint_of(adjacency, do=None):
    """Probability of every cell at the posterior means of the tables, from the rows."""
    codes, cards = rows(), [2, 3, 2, 2]
    out = np.ones(cards)
    for v in range(4):
        if do and v in do:
            table = np.eye(cards[v])[do[v]]
            out = out * table.reshape([-1 if i == v else 1 for i in range(4)])
            continue
        family = [*np.flatnonzero(adjacency[:, v]), v]
        shape = [cards[u] for u in family]
        counts = np.full(shape, ESS / np.prod(shape))
        for row in codes:
            counts[tuple(row[family])] += 1
        table = counts / counts.sum(axis=-1, keepdims=True)
        table = table.transpose(np.argsort(family))
        out = out * table.reshape([cards[u] if u in family else 1 for u in range(4)])
    assert out.sum() == pytest.approx(1)
    return out


# --- edges and graphs


@pytest.mark.parametrize("word", ["structure", "order", "partition"])
def test_edges_of_every_chain_are_exact_within_their_errors(word):
    table = table_of(5, random_scores(7, 1.2), max_parents=2)
    found = Structures(sampled(table, word))
    exact = (order_posterior if word == "order" else dag_posterior)(table).edges
    frame = found.edges()
    truth = [exact[table.number_of[u], table.number_of[v]] for u, v in zip(frame.source, frame.target, strict=True)]
    assert len(frame) == 20 and list(frame.probability) == sorted(frame.probability, reverse=True)
    assert np.abs((frame.probability - truth) / frame.mcse).max() < 4.5
    turned = {(u, v): p for u, v, p in zip(frame.source, frame.target, frame.probability, strict=True)}
    for row in frame.itertuples():
        assert row.reverse == turned[row.target, row.source]
        assert row.adjacent == pytest.approx(row.probability + row.reverse)
    assert found.draws_of == ("orders" if word == "order" else "dags")


def test_features_of_all_dags(once):
    every = [nx.DiGraph() for _ in ALL.choices]
    for graph, edges in zip(every, ALL.adjacency, strict=True):
        graph.add_nodes_from(NAMES)
        graph.add_edges_from((NAMES[u], NAMES[v]) for u, v in np.argwhere(edges))
    np.testing.assert_allclose(once.edge_probability.to_numpy(), ALL.adjacency.mean(axis=0))
    for u, v, p in once.paths()[["source", "target", "probability"]].itertuples(index=False):
        assert p == pytest.approx(np.mean([nx.has_path(g, u, v) for g in every]))
    from bayeslab.structure.dag import markov_blanket

    for v, u, p in once.markov_blankets()[["variable", "member", "probability"]].itertuples(index=False):
        assert p == pytest.approx(np.mean([u in markov_blanket(g, v) for g in every]))
    from bayeslab.structure.cpdag import v_structures

    frame = once.v_structures()
    assert len(frame) == 4 * 3
    for row in frame.itertuples():
        corner = (frozenset({row.first, row.second}), row.collider)
        assert row.probability == pytest.approx(np.mean([corner in v_structures(g) for g in every]))
    both = once.probability(lambda g: g.number_of_edges())
    assert both.mean == pytest.approx(ALL.adjacency.sum(axis=(1, 2)).mean())


def test_features_of_a_chain_are_within_their_errors(drawn):
    frame = drawn.paths()
    exact = ALL.mean(ALL.reachable)
    truth = [exact[NAMES.index(u), NAMES.index(v)] for u, v in zip(frame.source, frame.target, strict=True)]
    off = frame.mcse > 0
    assert np.abs((frame.probability - truth)[off] / frame.mcse[off]).max() < 4.5
    estimate = drawn.probability(lambda g: nx.has_path(g, "a", "d"))
    row = frame[(frame.source == "a") & (frame.target == "d")].iloc[0]
    assert (estimate.mean, estimate.mcse) == pytest.approx((row.probability, row.mcse))


def test_top_graphs_and_classes(drawn):
    weights = ALL.weights()
    place = {tuple(choice): i for i, choice in enumerate(ALL.choices.tolist())}
    found = drawn.top_graphs(5)
    for one in found:
        i = place[tuple(TABLE.choice(one.graph).tolist())]
        assert abs(one.probability - weights[i]) < 4.5 * one.mcse
        assert one.score == pytest.approx(ALL.scores[i])
    assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)

    from bayeslab.structure.cpdag import cpdag

    of_class: dict = {}
    for choice, weight in zip(ALL.choices, weights, strict=True):
        key = cpdag(TABLE.graph(choice)).marks.tobytes()
        of_class.setdefault(key, []).append(weight)
    for one in drawn.top_classes(5):
        own = of_class[one.graph.marks.tobytes()]
        assert abs(one.probability - sum(own)) < 4.5 * one.mcse
        assert one.n_graphs <= len(own)
    assert sum(one.probability for one in drawn.top_classes(10_000)) == pytest.approx(1)
    assert "score" in repr(found[0]) and "score" in repr(drawn.top_classes(1)[0])


def test_consensus_is_acyclic_and_says_what_it_left_out():
    """Each of three edges of a circle is in two of three graphs: all are above one half, and not all can be drawn."""
    table = table_of(3, lambda child, masks: np.zeros(len(masks)))
    circle = [("v0", "v1"), ("v1", "v2"), ("v2", "v0")]
    graphs = [nx.DiGraph([e for e in circle if e != left]) for left in circle]
    for graph in graphs:
        graph.add_nodes_from(table.names)
    found = Structures(structure_groups(table, np.array([[table.choice(g) for g in graphs]])))
    graph = found.consensus()
    assert nx.is_directed_acyclic_graph(graph) and graph.number_of_edges() == 2
    assert len(graph.graph["left_out"]) == 1 and set(graph.graph["left_out"]) < set(circle)
    turned = [nx.DiGraph([("v0", "v1")]), nx.DiGraph([("v1", "v0")])]
    for graph in turned:
        graph.add_nodes_from(table.names)
    found = Structures(structure_groups(table, np.array([[table.choice(g) for g in turned]])))
    assert found.consensus().graph["undirected"] == [("v0", "v1", 1.0)]
    assert found.consensus(0.4).number_of_edges() == 1
    with refused("option.out-of-range", "threshold"):
        found.consensus(1.5)


def test_graphs_and_networks_out_of_draws(drawn):
    graph = drawn.graph(2, 17)
    net = drawn.network(2, 17)
    assert set(net.graph.edges) == set(graph.edges)
    parents = [tuple(sorted(NAMES.index(u) for u in graph.predecessors(v))) for v in NAMES]
    for v in NAMES:
        np.testing.assert_array_equal(net.plain.tables[v], LEARNED.mean(parents).tables[v])
    one, two, other = (drawn.network(2, 17, parameters="draw", seed=s).plain.tables["b"] for s in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)
    with refused("option.out-of-range", "chains.*3"):
        drawn.graph(4, 0)
    with refused("model.no-data"):
        Structures(sampled(TABLE, "structure", 1, 10)).network(0, 0)


# --- queries


def exact_query(weights, v, given, do=None):
    top, bottom = 0.0, 0.0
    for weight, edges in zip(weights, ALL.adjacency, strict=True):
        joint = joint_of(edges, do)
        for u, code in given.items():
            joint = joint * np.eye(joint.shape[u])[code].reshape([-1 if i == u else 1 for i in range(4)])
        top = top + weight * joint.sum(axis=tuple(i for i in range(4) if i != v))
        bottom += weight * joint.sum()
    return top / bottom, bottom


@pytest.mark.slow(why="large")
@pytest.mark.parametrize(
    ("given", "do"),
    [({}, None), ({"c": "1"}, None), ({"c": "1", "d": "0"}, None), ({"d": "1"}, {"b": "y"}), ({}, {"b": "y"})],
)
def test_queries_are_averages_over_all_dags(once, drawn, given, do):
    codes = {NAMES.index(v): STATES[v].index(s) for v, s in given.items()}
    set_ = {NAMES.index(v): STATES[v].index(s) for v, s in (do or {}).items()}
    even = np.full(len(ALL.choices), 1 / len(ALL.choices))
    want, evidence = exact_query(even, 0, codes, set_)
    got = once.query(given, ["a"], do=do)
    assert list(got.marginals["a"].values()) == pytest.approx(want, rel=1e-9)
    assert np.exp(got.log_evidence) == pytest.approx(evidence, rel=1e-9)

    want, _ = exact_query(ALL.weights(), 0, codes, set_)
    got = drawn.query(given, "a", do=do)
    assert given or got.log_evidence == 0  # not rounding
    for state, p in zip(STATES["a"], want, strict=True):
        assert abs(got["a"][state] - p) < 4.5 * got.errors["a"][state] + 1e-12
        low, high = got.intervals["a"][state]
        assert low < got["a"][state] < high
    assert set(got.marginals) == {"a"}


@pytest.mark.slow(why="large")
def test_an_interval_is_that_of_the_parameters_where_the_structure_is_known():
    found = one_graph(TABLE, [("a", "b")], LEARNED, n=4000).query(draws=4000, seed=3, ci_prob=0.9)
    counts = np.bincount(rows()[:, 2], minlength=2) + ESS / 2
    want = stats.beta(*counts[::-1]).ppf([0.05, 0.95])
    assert found.intervals["c"]["1"] == pytest.approx(want, abs=0.008)
    assert found.errors["c"]["1"] == 0
    frame = found.to_frame()
    assert list(frame.columns) == ["variable", "state", "probability", "error", "eti90_lb", "eti90_ub"]
    assert len(frame) == 9
    assert found.to_dict()["n_graphs"] == 1 and "image/svg" in found._repr_html_()


@pytest.mark.slow(why="statistical")
def test_rows_of_evidence(drawn):
    import pandas as pd

    table = pd.DataFrame({"c": ["1", "1", None], "d": ["0", "0", "1"]})
    frame = drawn.query_many(table, ["a", "b"])
    for k, given in enumerate([{"c": "1", "d": "0"}, {"c": "1", "d": "0"}, {"d": "1"}]):
        one = drawn.query(given, ["a", "b"])
        assert frame["log_evidence"][k] == pytest.approx(one.log_evidence)
        for v in ("a", "b"):
            for state, p in one[v].items():
                assert frame[f"P({v}={state})"][k] == pytest.approx(p, rel=1e-9)
    assert {"P(a=0)", "P(b=z)"} <= set(drawn.query_many(table).columns)


def test_a_state_that_reads_like_an_empty_cell_is_evidence():
    grades, passed = ["A", "NA"] * 20, ["yes", "no"] * 20
    variables = {"grade": {"states": ["A", "NA"]}, "passed": {"states": ["yes", "no"]}}
    model = bl.Model(
        name="m", data={"rows": "pupil"}, model=bl.BayesNet(variables=variables, structure={"score": "bdeu"})
    )
    fit = bl.fit(model, {"grade": grades, "passed": passed}, seed=1, runs=None, progress=False)
    frame = fit.structures.query_many({"grade": ["A", "NA"]}, ["passed"])
    for k, grade in enumerate(("A", "NA")):
        one = fit.structures.query({"grade": grade}, ["passed"])["passed"]["yes"]
        assert frame["P(passed=yes)"][k] == pytest.approx(one, rel=1e-9)
    assert frame["P(passed=yes)"][0] > 0.8 and frame["P(passed=yes)"][1] < 0.2


def test_what_is_asked_is_checked(drawn):
    with refused("evidence.unknown-variable", "'e'"):
        drawn.query({}, ["e"])
    with refused("evidence.unknown-state", "'q'.*'b'"):
        drawn.query({"b": "q"})
    with refused("option.out-of-range", "ci_prob"):
        drawn.query(ci_prob=1.5)
    with refused("model.unknown-variable", "'aa'"):
        drawn.average_effect("aa", "b")


@pytest.mark.slow(why="statistical")
def test_many_graphs_are_thinned(drawn):
    few = drawn.query({"c": "1"}, ["a"], graphs=40)
    assert few.n_graphs <= 40
    full = drawn.query({"c": "1"}, ["a"])
    assert abs(few["a"]["1"] - full["a"]["1"]) < 4.5 * np.hypot(few.errors["a"]["1"], full.errors["a"]["1"])


# --- effects


def exact_effect(weights, x, y, score):
    def mean(edges, code):
        return joint_of(edges, {x: code}).sum(axis=tuple(i for i in range(4) if i != y)) @ score

    return sum(w * (mean(e, 1) - mean(e, 0)) for w, e in zip(weights, ALL.adjacency, strict=True))


@pytest.mark.slow(why="large")
def test_effects_are_averages_over_all_dags(once, drawn):
    even = np.full(len(ALL.choices), 1 / len(ALL.choices))
    got = once.average_effect("a", "d")
    assert got.mean == pytest.approx(exact_effect(even, 0, 3, np.array([0.0, 1.0])), rel=1e-9)
    assert got.path == pytest.approx(ALL.reachable[:, 0, 3].mean())
    score = np.array([1.0, 2.0, 5.0])
    values = dict(zip(STATES["b"], score, strict=True))
    got = once.average_effect("c", "b", values=values)
    assert got.mean == pytest.approx(exact_effect(even, 2, 1, score), rel=1e-9)

    got = drawn.average_effect("a", "d")
    want = exact_effect(ALL.weights(), 0, 3, np.array([0.0, 1.0]))
    assert abs(got.mean - want) < 4.5 * got.mcse
    assert got.interval[0] < got.mean < got.interval[1] and got.draws.shape[0] == 4
    assert abs(got.draws.mean() - want) < 4.5 * got.sd / np.sqrt(200)
    assert "effect of a (0 → 1) on d" in repr(got)


@pytest.mark.slow(why="statistical")
def test_probabilities_under_intervention(once):
    frame = once.interventional("a", "b")
    even = np.full(len(ALL.choices), 1 / len(ALL.choices))
    for k, code in enumerate((0, 1)):
        want, _ = exact_query(even, 1, {}, {0: code})
        np.testing.assert_allclose(frame.probability[3 * k : 3 * k + 3], want, rtol=1e-9)


def test_which_states_are_compared_must_be_said(drawn):
    with refused("option.incomplete", "'b'"):
        drawn.average_effect("b", "a")
    with refused("option.unknown-state", "'w'.*'b'"):
        drawn.average_effect("b", "a", contrast=("x", "w"))
    assert drawn.average_effect("b", "a", contrast=("x", "z"), values="1").contrast == ("x", "z")


# --- nets of numbers


@pytest.fixture(scope="module")
def gaussian():
    rng = np.random.default_rng(4)
    a = rng.normal(0, 1, 30)
    b = 0.8 * a + rng.normal(0, 1, 30)
    c = 0.5 * a - 0.7 * b + rng.normal(0, 1, 30)
    data = {"a": a, "b": b, "c": c}
    table = ScoreTable.build(load("bge", data), max_parents=2)
    seen = Observations.of(data, kind="continuous")
    return data, table, Parameters(seen, "bge")


def slope_matrix(data, edges):
    """Posterior mean slopes [source, target] of one DAG, from the matrix of the posterior Wishart distribution."""
    x = np.column_stack(list(data.values()))
    centred = x - x.mean(axis=0)
    prior = np.diag(x.var(axis=0, ddof=1)) * (5.0 - 3 - 1) / 2.0
    matrix = centred.T @ centred + prior
    out = np.zeros((3, 3))
    for v in range(3):
        above = np.flatnonzero(edges[:, v])
        if len(above):
            out[above, v] = np.linalg.inv(matrix[np.ix_(above, above)]) @ matrix[above, v]
    return out


def path_sum(slopes, x, y):
    others = [v for v in range(3) if v not in (x, y)]
    total = 0.0
    for k in range(len(others) + 1):
        for between in itertools.permutations(others, k):
            way = (x, *between, y)
            total += np.prod([slopes[u, v] for u, v in itertools.pairwise(way)])
    return total


def test_linear_effects_are_sums_over_paths(gaussian):
    data, table, learned = gaussian
    every = Everything.of(table)
    once = Structures(structure_groups(table, every.choices[None]), learned)
    frame = once.effects()
    for row in frame.itertuples():
        x, y = table.number_of[row.source], table.number_of[row.target]
        want = np.mean([path_sum(slope_matrix(data, e), x, y) for e in every.adjacency])
        assert row.mean == pytest.approx(want, rel=1e-9, abs=1e-12)
        assert once.average_effect(row.source, row.target).mean == pytest.approx(want, rel=1e-9, abs=1e-12)
    assert len(frame) == 6 and list(np.abs(frame["mean"])) == sorted(np.abs(frame["mean"]), reverse=True)
    chain = Structures(sampled(table, "partition"), learned)
    got = chain.average_effect("a", "c", contrast=(1.0, 3.0))
    want = 2 * sum(
        w * path_sum(slope_matrix(data, e), 0, 2) for w, e in zip(every.weights(), every.adjacency, strict=True)
    )
    assert abs(got.mean - want) < 4.5 * got.mcse


@pytest.mark.slow(why="statistical")
def test_interval_of_a_linear_effect(gaussian):
    """Where the structure is known, a slope has a Student t posterior."""
    _, table, learned = gaussian
    got = one_graph(table, [("a", "b")], learned, n=4000).average_effect("a", "b", draws=4000, ci_prob=0.9, seed=1)
    posterior = learned.regressions(1, (0,))[()]
    width = np.sqrt(posterior.beta / posterior.alpha * np.linalg.inv(posterior.precision)[1, 1])
    want = stats.t(2 * posterior.alpha, posterior.mu[1], width).ppf([0.05, 0.95])
    assert got.interval == pytest.approx(want, abs=0.03)
    assert got.mean == pytest.approx(posterior.mu[1], rel=1e-12) and got.mcse == 0


@pytest.mark.slow(why="large")
def test_predictions_of_numbers_are_mixtures_over_structures(gaussian):
    """Given all else, one graph predicts a Student t: mean and sd are those of the conjugate regression."""
    _, table, learned = gaussian
    found = one_graph(table, [("a", "b")], learned, n=4000).query({"a": 1.5}, ["b"], draws=4000, seed=2)
    want = learned.regressions(1, (0,))[()].predictive([1.0, 1.5])
    assert float(found["b"].mean) == pytest.approx(float(want.mean()[0]), abs=4 * float(want.std()[0]) / np.sqrt(4000))
    assert float(found["b"].sd) == pytest.approx(float(want.std()[0]), rel=0.03)
    frame = found.to_frame()
    assert frame["eti89_lb"][0] < frame["mean"][0] < frame["eti89_ub"][0]


# --- nets of states and numbers


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(8)
    g = rng.integers(0, 2, 80)
    h = np.where(rng.random(80) < 0.8, g, 1 - g)
    x = rng.normal(0, 1, 80)
    y = 1.5 * g + (0.5 + g) * x + rng.normal(0, 0.3, 80)
    data = {"g": np.array(["m", "w"])[g], "h": np.array(["n", "y"])[h], "x": x, "y": y}
    seen = Observations.of(data, kind="mixed")
    return ScoreTable.build(load("mixed_bic", data), max_parents=2), Parameters(seen, "mixed_bic"), seen


@pytest.mark.slow(why="large")
def test_nets_of_states_and_numbers(mixed):
    table, learned, seen = mixed
    found = one_graph(table, [("g", "y"), ("x", "y"), ("g", "h")], learned)
    line = learned.regressions(3, (0, 2))
    x_mean = learned.regressions(2, ())[()].mu[0]
    want = (line[1].mu - line[0].mu) @ [1.0, x_mean]
    assert found.average_effect("g", "y").mean == pytest.approx(want, rel=1e-9)
    share = (np.sum(seen.codes[:, 0] * seen.weights) + 0.5) / (seen.weights.sum() + 1)
    slope = (1 - share) * line[0].mu[1] + share * line[1].mu[1]
    assert found.average_effect("x", "y").mean == pytest.approx(slope, rel=1e-9)
    assert found.average_effect("y", "g", values="w").mean == 0
    frame = found.interventional("h", "g")
    assert frame.probability.to_numpy() == pytest.approx([1 - share, share, 1 - share, share])
    answer = found.query({"x": 1.0, "g": "w"}, ["y", "h"])
    assert answer["y"].mean == pytest.approx(line[1].mu @ [1.0, 1.0], abs=0.05)
    assert answer["h"]["y"] == pytest.approx(0.8, abs=0.12) and answer.errors["h"]["y"] < 0.01
    low, high = answer.intervals["y"]["mean"]
    assert low < answer["y"].mean < high
    with refused("option.not-applicable", "tables"):
        found.predictions(np.full((1, 4), -1))
    with refused("option.not-applicable", "'x'.*average_effect"):
        found.interventional("x", "g")
    with refused("option.not-applicable", "average_effect"):
        found.effects()


# --- draws of orders


def test_draws_of_orders_reweighted_are_draws_of_graphs():
    """Exact sums over DAGs, from a chain over orders, of a posterior in which the two differ by far."""
    table = table_of(5, random_scores(7, 1.2), max_parents=2)
    by_orders = Structures(sampled(table, "order"))
    found = by_orders.reweighted()
    truth, biased = dag_posterior(table), order_posterior(table).edges
    frame, before = found.edges(), by_orders.edges()
    place = table.number_of

    def z(frame, exact):
        p = [exact[place[u], place[v]] for u, v in zip(frame.source, frame.target, strict=True)]
        return np.abs((frame.probability - p) / frame.mcse).max()

    assert z(before, biased) < 4.5 < 20 < z(before, truth.edges)
    assert z(frame, truth.edges) < 4.5
    # The error allows for what the weights cost.
    assert np.nanmin(frame.ess) < np.nanmin(before.ess)
    paths = found.paths()
    assert z(paths, truth.paths) < 4.5
    assert found.draws_of == "dags" and found.reweighted() is found


def test_draws_of_orders_say_so_in_the_verdict():
    from bayeslab.results.structure_checks import judge_structures

    table = table_of(4, random_scores(2, 1.0))
    checks = {f.check: f for f in judge_structures(sampled(table, "order", 2, 200)).findings}
    assert checks["prior"].status == "warn" and "reweighted()" in checks["prior"].advice
    assert "prior" not in {f.check for f in judge_structures(sampled(table, "partition", 2, 200)).findings}
