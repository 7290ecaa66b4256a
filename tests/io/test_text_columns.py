"""Text with every kind of missing cell, and what is not text."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab import dataset
from bayeslab.dataset import as_values
from bayeslab.errors import DataError
from bayeslab.io.tables import read_dataset
from bayeslab.spec import DataSource


@pytest.mark.parametrize("nothing", [None, float("nan"), np.nan, pd.NA])
def test_missing_cells_among_text(nothing):
    for given in (["b", nothing, "größer"], np.array(["b", nothing, "größer"], dtype=object)):
        text, missing = as_values(given, "column")
        assert text.tolist() == ["b", "", "größer"] and text.dtype.kind == "U"
        assert missing.tolist() == [False, True, False]


def test_whole_text_has_no_mask():
    text, missing = as_values(np.array([["a", "bb"], ["c", "d"]], dtype=object), "column")
    assert text.tolist() == [["a", "bb"], ["c", "d"]] and missing is None


def test_numbers_with_missing_cells_stay_numbers():
    for nothing in (None, float("nan"), pd.NA):
        values, missing = as_values([1, nothing], "column")
        assert values[0] == 1 and np.isnan(values[1]) and missing is None


@pytest.mark.parametrize(("mixed", "row"), [(["a", 1.5], 2), ([2, "a"], 1), (["a", None, b"x"], 3)])
def test_text_and_others_do_not_mix(mixed, row):
    with pytest.raises(DataError, match=rf"mixes text and .* \(row {row}\)"):
        as_values(mixed, "column")


def test_lists_of_words_are_text_cut_already():
    text, missing = as_values([["to", "be"], None, [], ("or",)], "column")
    assert text.tolist() == ["\x1fto\x1fbe", "", "\x1f", "\x1for"]
    assert missing.tolist() == [False, True, False, False]
    frame = pd.DataFrame({"words": [["a"], ["b", "c"]]})
    assert as_values(frame["words"].to_numpy(), "column")[0].tolist() == ["\x1fa", "\x1fb\x1fc"]


def test_a_column_of_text_has_a_limit(monkeypatch, tmp_path):
    """All cells have room for the longest: one long document among many short ones."""
    monkeypatch.setattr(dataset, "_MOST_TEXT", 1000)
    with pytest.raises(DataError, match=r"column: 3 cells .* longest, 200 letters.*counts of words"):
        as_values(["a" * 200, "b", None], "column")
    (tmp_path / "t.csv").write_text("text\n" + "a" * 300 + "\nb\n")
    with pytest.raises(DataError, match=r"column 'text': 2 cells .*longest, 300 letters"):
        read_dataset(DataSource(), None, tmp_path / "t.csv")


# ------------------------------------------------------------------- numbers with a slip, names, and missing cells

LINE = {"family": "regression", "formula": "y ~ x"}
Y = [2.1, 3.9, 6.2, 8.0, 9.0, 11.9, 15.0, 16.2]
X = ["1.2", "2.3", "3.1", "4.1", "5.0", "6.1", "7.3", "8.0"]


def table(tmp_path, **columns):
    path = tmp_path / "t.csv"
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n", "utf-8")
    return path


def with_cell(cell):
    return [cell if i == 2 else x for i, x in enumerate(X)]


@pytest.mark.parametrize("cell", ["?", "None", "n/a", ".", "-", "0x10", "3;0", "TRUE", "1_000", "1.234.567"])
def test_a_slip_among_numbers_is_refused_where_the_column_is_used(tmp_path, cell):
    model = bl.Model(model=LINE)
    words = rf"column 'x', row 3: '{cell.replace('.', '[.]').replace('?', '[?]')}' is no number, and 7 of 8 cells are"
    for data in (table(tmp_path, x=with_cell(cell), y=Y), {"x": with_cell(cell), "y": Y}):
        with pytest.raises(DataError, match=words) as caught:
            bl.check(model, data)
        assert f'missing: ["{cell}"]' in str(caught.value) and "text: [x]" in str(caught.value)
    # Where the model does not use it, it may be what it is.
    bl.check(bl.Model(model=LINE | {"formula": "y ~ 1"}), table(tmp_path, x=with_cell(cell), y=Y))


def test_the_data_section_says_what_a_word_means(tmp_path):
    path = table(tmp_path, x=with_cell("?"), y=Y)
    numbers = bl.check(bl.Model(model=LINE, data={"missing": ["?"]}), path).dataset.columns["x"].values
    assert np.array_equal(numbers, [1.2, 2.3, np.nan, 4.1, 5.0, 6.1, 7.3, 8.0], equal_nan=True)
    names = bl.check(bl.Model(model=LINE, data={"text": ["x"]}), path)
    assert names.labels["x"].tolist() == sorted(with_cell("?"))


def test_columns_of_numbers_can_be_names(tmp_path):
    group = [1, 2, 1, 2, 1, 2, 1, 2]
    model = bl.Model(model=LINE | {"formula": "y ~ g"}, data={"text": ["g"]})
    for data in (table(tmp_path, g=group, y=Y), {"g": group, "y": Y}, {"g": [*group[:7], np.nan], "y": Y}):
        assert bl.check(model, data).labels["g"].tolist() == ["1", "2"]


def test_the_typographical_minus_is_a_minus(tmp_path):
    path = table(tmp_path, x=with_cell("\u22123"), y=Y)
    assert read_dataset(DataSource(), None, path).columns["x"].values[2] == -3.0


def test_numbers_given_as_text_are_refused():
    with pytest.raises(DataError, match=r"'x' holds numbers as text [(]'1.2' in row 1[)]: make numbers of it"):
        bl.check(bl.Model(model=LINE), {"x": X, "y": Y})


@pytest.mark.parametrize("word", ["NA", "null", "", " ", "N/A", "NaN"])
def test_missing_words_are_the_same_for_text_and_numbers(tmp_path, word):
    text, numbers = ["a", word, "b "], ["1.5", word, "2"]
    for data in (table(tmp_path, t=text, n=numbers), {"t": text, "n": [1.5, None, 2.0]}):
        columns = read_dataset(DataSource(), None, data).columns
        assert columns["t"].absent().tolist() == columns["n"].absent().tolist() == [False, True, False]
        assert columns["t"].values[[0, 2]].tolist() == ["a", "b"]


def test_a_missing_word_that_the_model_declares_is_a_level(tmp_path):
    rows = {"country": ["NA", "FR", "NA", ""], "y": Y[:4]}
    nodes = {"a[country]": "Normal(0, 1)", "y[obs_id]": "Normal(where(isnan(country), 0, 1), 1)"}
    declared = bl.Model(model={"family": "graph", "nodes": nodes}, dims={"country": ["FR", "NA"]})
    for model in (declared, bl.Model(model=declared.model, data={"text": ["country"]})):
        data = bl.check(model, table(tmp_path, **rows))
        assert data.labels["country"].tolist() == ["FR", "NA"]
        assert data.dataset.columns["country"].absent().tolist() == [False, False, False, True]


def test_codes_with_leading_zeros_are_names(tmp_path):
    model = bl.Model(model=LINE | {"formula": "y ~ 1 + (1 | g)"})
    path = table(tmp_path, g=["01", "1"] * 4, y=Y)
    assert bl.check(model, path).labels["g"].tolist() == ["01", "1"]
    numbers = read_dataset(DataSource(), None, table(tmp_path, x=["0", "0.5", "10", "-0"])).columns["x"]
    assert numbers.values.tolist() == [0, 0.5, 10, 0]


def test_levels_that_differ_in_capitals_or_spaces_get_a_remark(tmp_path):
    model = bl.Model(model=LINE | {"formula": "y ~ g", "priors": {"b": "Normal(0, 1)"}})
    data = {"g": ["A", "a", "B", "new york", "newyork", "B", "A", "a"], "y": Y, "unused": ["k", "K"] * 4}
    found = bl.check(model, data).remarks()
    assert [(check, name) for check, name, *_ in found] == [("levels", "g")] * 2
    assert found[0][3] == "'g': the levels 'A', 'a' differ only in capitals or spaces"
    assert not bl.check(model, data | {"g": list("ABABABAB")}).remarks()
