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
