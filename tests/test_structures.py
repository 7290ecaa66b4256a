"""``bl.learn`` and ``bayeslab learn``: from a table to a network."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.structure.cpdag import cpdag
from bayeslab.structures import comparison
from tests.refusals import refused

MODELS = Path(__file__).parents[1] / "models"


@pytest.fixture(scope="module")
def patients() -> pd.DataFrame:
    """20,000 rows of a net without rare causes, so that its class is the best one."""
    rng = np.random.default_rng(0)
    a, b = rng.random(20_000) < 0.4, rng.random(20_000) < 0.5
    c = rng.random(20_000) < np.where(a, np.where(b, 0.9, 0.4), np.where(b, 0.3, 0.1))
    d = rng.random(20_000) < np.where(c, 0.8, 0.2)
    return pd.DataFrame({"d": d, "c": c, "b": b, "a": a}).map(lambda x: "yes" if x else "no")


TRUTH = nx.DiGraph([("a", "c"), ("b", "c"), ("c", "d")])


@pytest.mark.slow(why="large")
@pytest.mark.parametrize(
    "method", ["tabu", "hill_climbing", "order_search", "annealing", "exact", "a_star", "ges", "mmhc", "pc"]
)
def test_the_class_the_data_came_from_is_found(patients, method):
    found = bl.learn(patients, method)
    graph = found.graph
    assert cpdag(graph).directed == cpdag(TRUTH).directed
    assert set(found.compelled) == {("a", "c"), ("b", "c"), ("c", "d")}


@pytest.mark.slow(why="statistical")
def test_without_a_method_the_best_search_that_takes_seconds_is_taken(patients):
    """Certified while that is quick, then over orders; a search whose options are given, where others lack them."""
    assert bl.learn(patients).method == "exact"
    assert bl.learn(patients, restarts=2).method == "hill_climbing"
    rng = np.random.default_rng(3)
    wide = pd.DataFrame(rng.integers(0, 2, size=(50, 14)), columns=list("abcdefghijklmn"))
    assert bl.learn(wide).method == "order_search"
    very_wide = pd.DataFrame(rng.integers(0, 2, size=(30, 150))).rename(columns=lambda k: f"v{k}")
    assert bl.learn(very_wide, max_parents=1, patience=1, reinsertion=False).method == "tabu"


def test_dataframes_and_files_give_the_same(patients, tmp_path):
    """A dataframe of words, whole numbers and truth values is read by another way than a file."""
    table = patients.head(400).assign(n=np.arange(400) % 3, t=np.arange(400) % 2 == 0)
    table.to_csv(tmp_path / "rows.csv", index=False)
    as_file = bl.learn(table.assign(t=table.t.astype(int)).to_dict("list"))
    as_frame = bl.learn(table.assign(t=table.t.astype(int)))
    assert as_frame.score == pytest.approx(as_file.score, rel=1e-14)
    assert as_frame.pattern == as_file.pattern
    assert bl.learn(table.assign(x=np.linspace(0.1, 0.9, 400))[["d", "c", "x"]]).criterion == "mixed_bic"


def test_what_tests_find_is_scored_and_can_be_a_network(patients):
    by_tests, by_score = bl.learn(patients, "pc"), bl.learn(patients)
    assert by_tests.score == pytest.approx(by_score.score, rel=1e-12)
    assert by_tests.pattern == by_score.pattern
    assert by_tests.network().query({"a": "yes"})["d"]["yes"] == pytest.approx(
        by_score.network().query({"a": "yes"})["d"]["yes"], rel=1e-12
    )
    hidden = bl.learn(patients, "fci")
    assert hidden.pattern.mark("c", "d") == "arrow"
    with refused("model.not-a-graph", "Bayes"):
        hidden.network()


def test_the_score_follows_from_the_columns(patients):
    rng = np.random.default_rng(2)
    numbers = {"x": rng.normal(size=200), "y": rng.normal(size=200)}
    assert bl.learn(patients).criterion == "bdeu"
    assert bl.learn(numbers).criterion == "bge"
    assert bl.learn(numbers | {"z": np.repeat(["a", "b"], 100)}).criterion == "mixed_bic"


@pytest.mark.parametrize("method", ["exact", "tabu", "order_search", "a_star", "annealing"])
@pytest.mark.slow(why="statistical")
def test_probabilities_of_edges_are_a_prior_of_learn(patients, method):
    """The score is that of the rows plus the log prior, and what is hardly believed needs more rows."""
    few = patients.head(60)
    assert "c" in bl.learn(few, method).pattern.adjacent("a")
    given = {("a", "c"): 1e-9, ("c", "a"): 1e-9}
    found = bl.learn(few, method, prior={f"{u} -> {v}": p for (u, v), p in given.items()} | {"default": 0.4})
    assert not found.graph.has_edge("a", "c") and not found.graph.has_edge("c", "a")
    names, edges = found.local.names, set(found.graph.edges)
    want = sum(np.log(p if pair in edges else 1 - p) for pair in permutations(names, 2) for p in [given.get(pair, 0.4)])
    for k, v in enumerate(names):
        want += found.local.local(k, tuple(sorted(names.index(u) for u in found.graph.predecessors(v))))
    assert found.score == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize(
    ("given", "code", "match"),
    [
        ({"prior": {"a -> q": 0.9}}, "option.unknown-variable", "'q'"),
        ({"prior": {"a": 0.9}}, "model.syntax", "`from -> to`.*'a'"),
        ({"prior": {"a -> b": 1.0}}, "option.out-of-range", "prior.*'a -> b'"),
        ({"prior": 0.5}, "option.wrong-type", "prior"),
        ({"max_parents": 1.5}, "model.out-of-range", r"max_parents.*1\.5"),
        ({"max_parents": True}, "model.out-of-range", "max_parents"),
        ({"max_parents": {"a": 0.5}}, "model.out-of-range", "max_parents"),
        ({"candidates": True}, "option.out-of-range", "candidates"),
        ({"required": [("a", "b", "c")]}, "model.wrong-type", "required"),
        ({"required": "a, b"}, "model.syntax", "required.*`from -> to`"),
    ],
)
def test_what_is_no_prior_and_no_limit_is_refused(patients, given, code, match):
    with refused(code, match):
        bl.learn(patients, **given)


def test_results_side_by_side(patients):
    turned = bl.learn(patients, required=[("d", "c")], forbidden=[("a", "c"), ("b", "c"), ("a", "b"), ("b", "a")])
    rows = comparison([turned, bl.learn(patients)], TRUTH).to_dict("records")
    for results, truth, code, match in (
        ([turned], {"a": "b"}, "not-a-graph", "dict"),
        ([turned], turned, "not-a-graph", "Learned"),
        ([TRUTH], TRUTH, "wrong-type", "DiGraph"),
        ({"x": turned}, TRUTH, "wrong-type", "dict|str"),
    ):
        with refused(f"option.{code}", match):
            comparison(results, truth)
    assert [row["method"] for row in rows] == ["exact", "exact"]
    assert rows[0]["score"] > rows[1]["score"]
    best = {"precision": 1.0, "recall": 1.0, "arrow_precision": 1.0, "arrow_recall": 1.0, "shd": 0, "shd_class": 0}
    assert {key: rows[0][key] for key in best} == best
    assert rows[1]["shd_class"] > 0


def test_tables_are_posterior_means(patients):
    net = bl.learn(patients).network(equivalent_sample_size=4)
    own = net.plain.parents["d"]
    assert own == ("c",)
    rows = patients[patients.c == "yes"]
    # 4 imaginary rows over 4 cells: one each.
    expected = (np.sum(rows.d == "yes") + 1) / (len(rows) + 2)
    at = net.states["c"].index("yes"), net.states["d"].index("yes")
    assert net.plain.tables["d"][at] == pytest.approx(expected, rel=1e-12)


def test_constraints_hold(patients):
    found = bl.learn(patients, forbidden=[("a", "c"), ("c", "a")], required=[("d", "b")])
    assert found.graph.has_edge("d", "b")
    assert not found.graph.has_edge("a", "c")
    assert not found.graph.has_edge("c", "a")
    assert max(dict(bl.learn(patients, max_parents=1).graph.in_degree).values()) == 1


def test_numbers_give_a_linear_gaussian_net():
    rng = np.random.default_rng(1)
    x = rng.normal(size=500)
    y = 2 * x + rng.normal(size=500)
    net = bl.learn({"x": x, "y": y, "z": rng.normal(size=500)}, score="bge").network()
    assert net.graph.number_of_edges() == 1
    slope = np.cov(x, y)[0, 1] / np.var(x, ddof=1)
    assert float(net.query({"x": 1.0})["y"].mean - net.query({"x": 0.0})["y"].mean) == pytest.approx(slope, rel=1e-9)


@pytest.mark.parametrize(
    ("given", "code", "match"),
    [
        ({"method": "tabuu"}, "option.unknown-word", "'tabuu'.*'tabu'"),
        ({"score": "bdu"}, "option.unknown-word", "'bdu'.*'bdeu'"),
        ({"required": [("a", "q")]}, "model.unknown-variable", "'q'"),
        ({"required": [("a", "c")], "forbidden": [("a", "c")]}, "model.contradiction", "a -> c.*required"),
        ({"patienc": 3}, "option.unknown-option", "'hill_climbing'.*'patienc'.*'patience'"),
        ({"patience": "x"}, "option.wrong-type", "patience.*'x'"),
        ({"method": "pc", "alpha": "x"}, "option.wrong-type", "alpha.*'x'"),
        ({"method": "chow_liu", "required": [("a", "c")]}, "option.unsupported", "'chow_liu'"),
        ({"method": "ges", "max_parents": 2}, "option.unsupported", "'ges'"),
        ({"method": "tan"}, "option.incomplete", "'target'"),
        ({"method": "pc", "max_parents": 2}, "model.unsupported", "max_parents"),
        ({"candidates": -1}, "option.out-of-range", "candidates.*-1"),
    ],
)
def test_what_is_wrong_is_said(patients, given, code, match):
    with refused(code, match):
        bl.learn(patients, **given)


def test_missing_cells_are_refused(patients):
    holes = patients.astype(object)
    holes.loc[3, "a"] = None
    with refused("data.missing", "'a'.*1.*row 4.*structural_em"):
        bl.learn(holes)
    holes.loc[[5, 8], "a"] = None
    with refused("data.missing", "'a'.*3.*rows 4.*6.*9"):
        bl.learn(holes)
    numbers = pd.DataFrame({"x": [0.5, np.nan, 1.5, 2.5], "y": [1.0, 2.0, 3.0, 4.5]})
    with refused("data.missing", "'x'.*1.*row 2"):
        bl.learn(numbers)


def test_a_constant_column_is_told_once(patients):
    with pytest.warns(UserWarning, match="'a' is constant") as told:
        bl.learn(patients.head(100).assign(a="yes"), "hill_climbing")
    assert len(told) == 1


def test_a_model_file_says_what_is_learned_and_how():
    """The searched graph is that of the same words given by hand; what is given beside the file wins."""
    file = MODELS / "birth_weight_structure.yaml"
    found = bl.learn(file, "exact", max_parents=3)
    assert found.method == "exact" and found.criterion == "bdeu" and found.again.keywords["max_parents"] == 3
    assert found.graph.has_edge("smoker", "low") and not found.graph.has_edge("race", "low")
    table = pd.read_csv(MODELS / "data" / "birth_weight.csv")[list(found.observations.names)]
    by_hand = bl.learn(
        table, "exact", "bdeu", max_parents=3, required=[("smoker", "low")], forbidden=[("race", "low")],
        tiers=[["race"], ["smoker", "hypertension"], ["premature"], ["irritability"], ["low"]],
        score_options={"equivalent_sample_size": 1},
    )  # fmt: skip
    assert set(found.graph.edges) == set(by_hand.graph.edges) and found.score == pytest.approx(by_hand.score)
    with refused("model.not-applicable", r"bayes_net.*`structure: \{\}`"):
        bl.learn(MODELS / "asia.yaml")


def test_hidden_variables_of_a_model_are_searched_not_sampled():
    spec = {"search": "structural_em", "hidden": {"h": 2}}
    table = pd.DataFrame({"a": ["x", "y", "x", None], "b": ["0", "1", "1", "1"]})
    model = bl.Model(model=bl.BayesNet(structure=spec))
    with refused("model.nothing-to-fit"):
        bl.fit(model, table, runs=None)
    with refused("model.incomplete", "structural_em"):
        bl.BayesNet(structure={"hidden": {"h": 2}})
    with refused("model.name-clash", "'a'"):
        bl.fit(bl.Model(model=bl.BayesNet(structure=spec | {"hidden": {"a": 2}})), table, runs=None)
    with refused("model.unknown-option", "'tabu'"):
        bl.learn(MODELS / "pumps_hidden.yaml", "tabu")


def test_how_stable_a_search_is(patients):
    """The same as the bootstrap by hand; only of searches by score."""
    from bayeslab.streams import stream
    from bayeslab.structure import scores
    from bayeslab.structure.bootstrap import bootstrap
    from bayeslab.structure.searches import tabu

    found = bl.learn(patients.head(300), "tabu", "bic")
    sure = found.bootstrap(6, seed=5)
    again = bootstrap(
        found.observations, lambda r: tabu.search(scores.load("bic", r)).graph, rng=stream(5, "bootstrap"), samples=6
    )
    np.testing.assert_array_equal(sure.directed, again.directed)
    with refused("option.not-applicable", "pc$"):
        bl.learn(patients.head(300), "pc").bootstrap(2)


@pytest.mark.slow(why="large")
def test_rows_that_stay_in_duckdb_give_the_same_network(patients, tmp_path):
    counts = pytest.importorskip("bayeslab.structure.duckdb_counts")
    pytest.importorskip("duckdb")
    patients.head(500).to_csv(tmp_path / "rows.csv", index=False)
    there = counts.observations(tmp_path / "rows.csv", fetch=1)
    found, plain = bl.learn(there), bl.learn(patients.head(500), "tabu")
    assert set(found.graph.edges) == set(plain.graph.edges)
    for v, table in plain.network().plain.tables.items():
        np.testing.assert_allclose(found.network().plain.tables[v], table, rtol=1e-12)
    for method in ("pc", "structural_em"):
        with refused("option.unsupported", f"'{method}'.*tabu"):
            bl.learn(there, method)
    done = run("learn", tmp_path / "rows.csv", "--counts", "duckdb", "-m", "tabu", "--bootstrap", 3, "--json")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert {(e["from"], e["to"]) for e in content["edges"]} == set(plain.graph.edges)
    assert content["bootstrap"]["samples"] == 3 and content["bootstrap"]["edges"]


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bayeslab.cli", *map(str, words)], capture_output=True, text=True, check=False
    )


@pytest.mark.slow(why="processes")
def test_command_writes_a_network_that_can_be_asked(patients, tmp_path):
    patients.to_csv(tmp_path / "rows.csv", index=False)
    done = run("learn", tmp_path / "rows.csv", "-o", tmp_path / "net.bif", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert {(e["from"], e["to"]) for e in said["edges"]} == set(TRUTH.edges)
    share = np.mean(patients.d[(patients.a == "yes") & (patients.b == "yes")] == "yes")
    found = bl.network(tmp_path / "net.bif").query({"a": "yes", "b": "yes"})["d"]["yes"]
    assert found == pytest.approx(share, abs=4 * np.sqrt(0.2 / len(patients) / 0.2))
    wrong = run("learn", tmp_path / "rows.csv", "--method", "tabuu")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("error: unknown search 'tabuu'")


@pytest.mark.slow(why="processes")
def test_command_compares_searches_with_a_known_network(patients, tmp_path):
    patients.to_csv(tmp_path / "rows.csv", index=False)
    bl.learn(patients).network().write(tmp_path / "true.bif")
    common = ("learn", tmp_path / "rows.csv", "--compare", tmp_path / "true.bif")
    done = run(*common, "-m", "tabu", "-m", "pc", "-m", "fci", "-m", "chow_liu")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line and line[0].isalpha()}
    assert lines["tabu"][3:9] == ["1.00", "1.00", "1.00", "1.00", "0", "0"]
    assert lines["pc"][3:9] == ["1.00", "1.00", "1.00", "1.00", "0", "0"]
    said = json.loads(run(*common, "--json", "-m", "tabu", "-m", "fci").stdout)
    assert [row["method"] for row in said["methods"]] == ["tabu", "fci"]
    assert said["results"]["fci"]["score"] == {"bdeu": None}
    drawn = run("learn", tmp_path / "rows.csv", "-m", "pc", "--tier", "a,b", "--tier", "c,d")
    assert "a -> c" in drawn.stdout and "c -> d" in drawn.stdout
    refused = run("learn", tmp_path / "rows.csv", "-m", "fci", "-o", tmp_path / "x.bif")
    assert refused.returncode == 1 and "no Bayes net" in refused.stderr


@pytest.mark.parametrize("word", ["", " ", "NA", "nan", "null", "N/A"])
def test_cells_of_a_dataframe_are_read_as_those_of_a_mapping(word):
    """Empty cells are missing and spaces do not count, whatever holds the rows."""
    a, b = ["x", "y", "x ", "x", " y", "y"] * 10, ["u", "v", "u", "v", "v", "v"] * 10
    columns = {"a": a, "b": b}
    frame, mapping = (bl.learn(data, "tabu", "bic") for data in (pd.DataFrame(columns), columns))
    assert frame.network().states == mapping.network().states
    assert frame.network().states["a"] == ("x", "y")
    assert frame.score == pytest.approx(mapping.score, rel=1e-12)
    gaps = columns | {"b": [word, *b[1:]]}
    for data in (pd.DataFrame(gaps), gaps):
        for ask in (bl.learn, lambda rows: bl.score(["a -> b"], rows), lambda rows: bl.independence(rows, "a", "b")):
            with refused("data.missing", r"column 'b' has 1 missing cell \(row 1\)"):
                ask(data)
    filled = [bl.learn(data, "structural_em", "bic", seed=1) for data in (pd.DataFrame(gaps), gaps)]
    assert filled[0].score == pytest.approx(filled[1].score, rel=1e-9)


def test_a_state_that_reads_like_an_empty_cell_is_a_state_where_it_is_declared():
    rows = pd.DataFrame({"a": ["NA", "y"] * 20, "b": ["u", "v", "v", "v"] * 10})
    states = {"a": ["NA", "y"], "b": ["u", "v"]}
    declared = float(bl.score(["a -> b"], rows, "bdeu", score_options={"states": states}))
    plain = float(bl.score(["a -> b"], rows.replace({"NA": "none"}), "bdeu"))
    assert declared == pytest.approx(plain, rel=1e-12)


def test_a_column_that_names_the_rows_is_not_left_out_without_a_word():
    frame = pd.DataFrame({"obs_id": ["x", "y"] * 20, "b": ["u", "v"] * 20})
    for ask in (bl.learn, lambda rows: bl.score([], rows), lambda rows: bl.independence(rows, "obs_id", "b")):
        with refused("data.duplicate", "'obs_id' names the rows"):
            ask(frame)
