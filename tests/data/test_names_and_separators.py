"""Names of columns that are swapped or spelt in two ways, and tables with other separators."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.data.tables import read_dataset
from bayeslab.language.spec import DataSource
from tests.refusals import refused


def test_two_columns_change_names():
    table = {"x": [1.0, 2.0], "y": [3.0, 4.0], "z": ["1", "2"]}
    found = read_dataset(DataSource(rename={"x": "y", "y": "x"}), None, table)
    assert found.columns["x"].values.tolist() == [3, 4] and found.columns["y"].values.tolist() == [1, 2]
    around = read_dataset(DataSource(rename={"x": "y", "y": "z", "z": "x"}), None, table)
    assert around.columns["y"].text and around.columns["x"].values.tolist() == [3, 4]
    with refused("data.name-clash", "'x'", where="data.rename.z"):
        read_dataset(DataSource(rename={"z": "x"}), None, table)


def test_text_columns_keep_their_place_when_names_are_swapped():
    source = DataSource(rename={"x": "y", "y": "x"}, text=["x"])
    found = read_dataset(source, None, {"x": [1, 2], "y": [3, 4]})
    assert found.columns["x"].values.tolist() == ["3", "4"] and found.columns["y"].values.tolist() == [1, 2]


def test_names_are_compared_as_composed_letters():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"gro\u0308\u00dfe": rng.normal(size=20), "y": rng.normal(size=20)})
    for formula, rename in (("y ~ gr\u00f6\u00dfe", {}), ("y ~ size", {"size": "gr\u00f6\u00dfe"})):
        model = bl.Model(data={"rename": rename}, model={"family": "regression", "formula": formula})
        assert bl.check(model, table).used


@pytest.mark.parametrize(
    ("text", "separator"),
    [("a|b\n1|2\n3|4\n", r"'\|'"), ("a b\n1 2\n3 4\n", "blanks"), ("a   b\n 1  2\n 3 NA\n", "blanks")],
)
def test_another_separator_is_named(tmp_path, text, separator):
    (tmp_path / "t.csv").write_text(text)
    with refused("data.malformed", separator):
        read_dataset(DataSource(), tmp_path, tmp_path / "t.csv")


@pytest.mark.parametrize("text", ["a name\nNew York\nLos Angeles\n", "a\n1\n2\n", "a|b,c\n1,2\n"])
def test_one_column_with_blanks_is_a_table(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    assert read_dataset(DataSource(), tmp_path, tmp_path / "t.csv").columns


def test_half_a_letter_is_refused_in_one_line(tmp_path):
    (tmp_path / "m.yaml").write_text(
        'bayeslab: 1\nname: s\nmodel:\n  family: bayes_net\n  variables:\n    "x\\uD800": {states: [a, b], table: 0.5}\n'
    )
    with refused("model.not-text", r"m\.yaml:6:5.*'\\ud800'"):
        bl.load(tmp_path / "m.yaml")
    with refused("model.not-text", r"'\\ud800'", where="model.variables.x.states.0"):
        bl.Model(model=bl.BayesNet(variables={"x": ["a\ud800", "b"]}))


def test_numbers_beyond_the_largest_are_refused_where_they_are_written(tmp_path):
    with refused("model.too-large", r"1\.8e308", where="model.nodes.m"):
        bl.check(
            bl.Model(model=bl.Graph(nodes={"m": "Normal(1e400, 1)", "y[obs_id]": "Normal(m, 1)"})), {"y": [1.0, 2.0]}
        )
    (tmp_path / "m.yaml").write_text("bayeslab: 1\nmodel: {family: graph, nodes: {m: 1e400}}\n")
    with refused("model.too-large", r"m\.yaml:2:35.*1e400"):
        bl.load(tmp_path / "m.yaml")


def test_a_column_called_like_the_rows_that_repeats_is_refused_with_the_way_out():
    spec = bl.Model(name="m", model={"family": "regression", "formula": "y ~ x"})
    with refused("data.duplicate", "'obs_id'.*'2'.*data.rows"):
        bl.check(spec, {"obs_id": [1, 2, 2], "x": [1.0, 2.0, 4.0], "y": [1.0, 3.0, 2.0]})


# ------------------------------------------------------------------- names that expressions cannot tell apart

ALIKE = [("a b", "a_b"), ("a b", "a.b"), ("x²", "x2"), ("é", "e\u0301"), ("x\u200b", "x")]


def crossed(first: str, second: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    one, two = rng.normal(size=(2, 40))
    return {first: one, second: two, "y": 1 + 2 * one - 3 * two + 0.01 * rng.normal(size=40)}


@pytest.mark.parametrize("names", ALIKE, ids=lambda names: ascii(names[0]))
@pytest.mark.parametrize(
    "model",
    [
        {"family": "regression", "formula": "y ~ `{0}`"},
        {"family": "regression", "formula": "y ~ `{0}` + `{1}`"},
        {"family": "graph", "nodes": {"b": "Normal(0, 10)", "y[obs_id]": "Normal(b * `{0}`, 1)"}},
        {"family": "mixture", "columns": ["{0}", "y"], "components": 2},
        {"family": "gaussian_process", "target": "y", "kernel": "Matern52(`{0}`)"},
        {"family": "learner", "learner": "linear", "target": "y", "inputs": ["{0}"]},
    ],
    ids=["one", "both", "graph", "mixture", "process", "learner"],
)
def test_columns_with_one_plain_name_are_not_taken_for_each_other(model, names):
    def named(content):
        if isinstance(content, dict):
            return {key: named(value) for key, value in content.items()}
        if isinstance(content, list):
            return [named(value) for value in content]
        return content.format(*names) if isinstance(content, str) else content

    with refused("data.duplicate", "data.rename"):
        bl.check(bl.Model(name="m", model=named(model)), crossed(*names))


def test_a_column_with_the_plain_name_of_another_can_be_renamed():
    model = {"family": "regression", "formula": "y ~ first + a_b"}
    fit = bl.fit(
        bl.Model(name="m", data={"rename": {"first": "a b"}}, model=model),
        crossed("a b", "a_b"),
        runs=None,
        progress=False,
    )
    assert fit.summary().loc["b[first]", "mean"] == pytest.approx(2, abs=0.05)
    assert fit.summary().loc["b[a_b]", "mean"] == pytest.approx(-3, abs=0.05)


@pytest.mark.parametrize("word", ["True", "False"])
def test_columns_called_like_truth_values(word):
    data = crossed(word, "z")
    formula = bl.Model(name="m", model={"family": "regression", "formula": f"y ~ `{word}` + z"})
    fit = bl.fit(formula, data, runs=None, progress=False)
    assert fit.summary().loc[f"b[column_{word}]", "mean"] == pytest.approx(2, abs=0.05)
    nodes = {"a": "Normal(0, 10)", "b": "Normal(0, 10)", "c": "Normal(0, 10)"}
    graph = {"family": "graph", "nodes": nodes | {"y[obs_id]": f"Normal(a + b * `{word}` + c * z, 1)"}}
    assert bl.fit(bl.Model(name="m", model=graph), data, runs=None, progress=False).summary().loc[
        "b", "mean"
    ] == pytest.approx(2, abs=0.1)
    bare = {"family": "graph", "nodes": nodes | {"y[obs_id]": f"Normal(a + b * {word} + c * z, 1)"}}
    with refused("model.reserved-name", "backticks"):
        bl.check(bl.Model(name="m", model=bare), data)


@pytest.mark.parametrize("name", ["mean", "sd", "median", "node", "probability", "eti89_lb"])
def test_rows_are_not_called_as_a_column_of_predictions(name):
    model = bl.Model(data={"rows": name}, model={"family": "regression", "formula": "y ~ x"})
    with refused("data.reserved-name", f"rows are called '{name}'"):
        bl.check(model, {"y": [1.0, 2.0, 4.0], "x": [0.0, 1.0, 2.0]})


@pytest.mark.parametrize("key", ["sequence", "time", "rows"])
@pytest.mark.parametrize("name", ["state", "path", "log_probability"])
def test_sequences_and_times_are_not_called_as_a_column_of_decoded_states(key, name):
    spec = {"family": "hmm", "columns": ["y"], "states": 2, "emission": "poisson"}
    model = {"data": {"rows": name if key == "rows" else "row"}, "model": spec | ({} if key == "rows" else {key: name})}
    with refused("model.reserved-name", "decoded states", where="data.rows" if key == "rows" else f"model.{key}"):
        bl.check(bl.Model(**model), {"y": [1, 2, 0, 7, 8, 9], name: [1, 2, 3, 4, 5, 6]})
