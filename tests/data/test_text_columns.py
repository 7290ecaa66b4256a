"""Text with every kind of missing cell, and what is not text."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.data import cells
from bayeslab.data.cells import as_values
from bayeslab.data.tables import read_dataset
from bayeslab.language.spec import DataSource
from tests.refusals import refused


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
    with refused("data.odd-cell", rf"column.*text.*row {row}\b"):
        as_values(mixed, "column")


def test_lists_of_words_are_text_cut_already():
    text, missing = as_values([["to", "be"], None, [], ("or",)], "column")
    assert text.tolist() == ["\x1fto\x1fbe", "", "\x1f", "\x1for"]
    assert missing.tolist() == [False, True, False, False]
    frame = pd.DataFrame({"words": [["a"], ["b", "c"]]})
    assert as_values(frame["words"].to_numpy(), "column")[0].tolist() == ["\x1fa", "\x1fb\x1fc"]


def test_a_column_of_text_has_a_limit(monkeypatch, tmp_path):
    """All cells have room for the longest: one long document among many short ones."""
    monkeypatch.setattr(cells, "MOST_TEXT", 1000)
    with refused("data.too-costly"):
        as_values(["a" * 200, "b", None], "column")
    (tmp_path / "t.csv").write_text("text\n" + "a" * 300 + "\nb\n")
    with refused("data.too-costly", "'text'.*2.*300"):
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
    what = cell.replace(".", "[.]").replace("?", "[?]")
    for data in (table(tmp_path, x=with_cell(cell), y=Y), {"x": with_cell(cell), "y": Y}):
        with refused("data.odd-cell", rf"'x', row 3.*'{what}'.*7.*8.*missing: \[\"{what}\"\].*text: \[x\]"):
            bl.check(model, data)
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
    with refused("data.odd-cell", "'x'.*'1.2'.*row 1"):
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


@pytest.mark.parametrize(
    "cells",
    [
        ["1,000", "2,500", "950", "11,000"],
        ["1'000", "2'500", "11'000", "1'200"],
        ["1.000.000", "2.500.000", "3.100.000", "4.000.000"],
        ["10%", "12.5%", "11 %", "9%"],
        ["$10", "$12.50", "-$3", "$1,000"],
        ["1,5", "2,5", "3,25", "0,1"],
    ],
)
def test_numbers_with_marks_are_no_levels(cells):
    model = bl.Model(model=LINE)
    data = {"x": cells * 2, "y": Y}
    with refused("data.odd-cell", "'x'.*row 1.*'.*'"):
        bl.check(model, data)
    named = bl.check(bl.Model(model=LINE, data={"text": ["x"]}), data)
    assert named.labels["x"].tolist() == sorted(cells)


def test_dates_as_text_are_no_levels_unless_the_model_says_so():
    dates = [f"2024-05-{day:02}" for day in range(1, 9)]
    with refused("data.odd-cell", "'x'.*row 1.*'2024-05-01'"):
        bl.check(bl.Model(model=LINE), {"x": dates, "y": Y})
    assert bl.check(bl.Model(model=LINE, data={"text": ["x"]}), {"x": dates, "y": Y}).labels["x"].tolist() == dates


def test_most_is_more_than_half():
    words = [*X[:5], "a", "b", "c"]
    with refused("data.odd-cell", "'x'.*row 6.*'a'.*5.*8"):
        bl.check(bl.Model(model=LINE), {"x": words, "y": Y})
    half = ["A1", "B2", "12", "13"] * 2
    assert bl.check(bl.Model(model=LINE), {"x": half, "y": Y}).labels["x"].tolist() == sorted(set(half))


@pytest.mark.parametrize("ordered", [False, True])
def test_categories_are_levels_in_memory_and_in_parquet(tmp_path, ordered):
    whole = pd.Categorical([30, 10, 9, 30, 10, 9, 30, None], ordered=ordered)
    words = pd.Categorical(["lo", "hi"] * 4, categories=["lo", "hi"], ordered=ordered)
    frame = pd.DataFrame({"x": whole, "w": words, "y": Y})
    frame.to_parquet(tmp_path / "t.parquet")
    for data in (frame, tmp_path / "t.parquet", {"x": whole, "w": words, "y": Y}):
        bound = bl.check(bl.Model(model=LINE | {"formula": "y ~ x + w"}), data)
        assert bound.labels["x"].tolist() == ["9", "10", "30"]
        assert bound.term("x", missing=True).codes.tolist() == [2, 1, 0, 2, 1, 0, 2, -1]
        assert bound.labels["w"].tolist() == (["lo", "hi"] if ordered else ["hi", "lo"])


def test_an_empty_line_of_a_table_of_one_column_is_a_missing_cell(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n\n3\n\n\n6\n\n")
    column = read_dataset(DataSource(), None, path).columns["x"].values
    assert np.array_equal(column, [1, np.nan, 3, np.nan, np.nan, 6], equal_nan=True)


def test_empty_lines_above_the_header_do_not_count(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\n  \nx,y\n1,2\n3,4\n")
    assert read_dataset(DataSource(), None, path).columns["y"].values.tolist() == [2, 4]
    path.write_text(",\n1,2\n")
    with refused("data.no-rows"):
        read_dataset(DataSource(), None, path)


def test_truth_values_among_numbers_are_refused(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('[{"x": 2, "y": 1}, {"x": true, "y": 3}, {"x": 5, "y": 2}]')
    for data in (path, {"x": [2, True, 5], "y": [1, 3, 2]}, {"x": [2.5, True, 5], "y": [1, 3, 2]}):
        with refused("data.odd-cell", "row 2"):
            bl.check(bl.Model(model=LINE), data)
    columns = read_dataset(DataSource(), None, {"x": [True, False, None], "y": [True, False, np.nan]}).columns
    assert [columns[n].values[:2].tolist() for n in "xy"] == [[1, 0], [1, 0]]


def test_series_of_unlike_indexes_are_not_put_together_by_position():
    frame = pd.DataFrame({"x": X, "y": Y}).astype(float)
    moved = frame["y"].sort_values(ascending=False)
    with refused("data.bad-dimensions", "'x'.*'y'"):
        bl.check(bl.Model(model=LINE), {"x": frame["x"], "y": moved})
    bl.check(bl.Model(model=LINE), {"x": frame["x"][::-1], "y": moved.sort_index()[::-1], "w": Y})


def test_masked_arrays_of_text_and_of_whole_numbers():
    mask = [False, True, False]
    data = {"t": np.ma.array(["a", "b", "c"], mask=mask), "n": np.ma.array([1, 2, 3], mask=mask)}
    columns = read_dataset(DataSource(), None, data).columns
    assert columns["t"].absent().tolist() == columns["n"].absent().tolist() == mask
    assert columns["t"].values[[0, 2]].tolist() == ["a", "c"]
    with refused("data.too-many-digits", "row 1.*9007199254740993"):
        read_dataset(DataSource(), None, {"n": np.ma.array([2**53 + 1, 2, 3], mask=mask)}).complete()
    whole = read_dataset(DataSource(), None, {"n": np.ma.array([2**53 + 1, 2])}).columns["n"].values
    assert whole.tolist() == [2**53 + 1, 2]


def test_whole_numbers_that_floats_do_not_hold_are_no_quantities():
    data = {"x": [2**53 + i for i in range(8)], "y": Y}
    for formula in ("y ~ x", f"y ~ I(x == {2**53 + 1})", "y ~ x:y2"):
        with refused("data.too-many-digits", "'x'.*row 2.*9007199254740993"):
            bl.check(bl.Model(model=LINE | {"formula": formula}), data | {"y2": Y})
    bl.check(bl.Model(model=LINE | {"formula": "y ~ C(x)"}), data)
    with refused("model.too-many-digits", where="model.formula"):
        bl.check(bl.Model(model=LINE | {"formula": f"y ~ I(x == {2**53 + 1})"}), {"x": [2**53, 3] * 4, "y": Y})


def digits(kind):
    cells = {"text": list("123123"), "category": pd.Categorical(list("123123")), "codes": ["01", "02", "03"] * 2}[kind]
    return pd.DataFrame({"y": [1.0, 2.5, 3.0, 1.2, 2.0, 3.1], "x": cells})


@pytest.mark.parametrize(
    ("kind", "data", "formula", "noted"),
    [
        ("text", {}, "y ~ x", True),
        ("text", {"text": ["x"]}, "y ~ x", False),
        ("text", {}, "y ~ 1 + (1 | x)", False),
        ("text", {}, "y ~ 1", False),
        ("category", {}, "y ~ x", False),
        ("codes", {}, "y ~ x", False),
    ],
)
def test_numbers_as_text_are_names_and_that_is_said(kind, data, formula, noted):
    model = bl.Model(data=data, model={"family": "regression", "formula": formula})
    remarks = [message for _, name, _, message, _ in bl.check(model, digits(kind)).remarks() if name == "x"]
    assert remarks == ["'x' is text, and all of its cells are numbers: they are names here, not quantities"] * noted


def test_declared_levels_that_are_one_number_are_told_apart_by_their_words(tmp_path):
    """The mean of each level, in a regression of a file whose levels are 1.1 and 1.10."""
    rows = [("1.1", 0.0), ("1.10", -10.0), ("1.1", 0.2), ("1.10", -10.2), ("1.1", 0.1), ("1.10", -10.1)] * 4
    (tmp_path / "t.csv").write_text("g,y\n" + "".join(f"{g},{y}\n" for g, y in rows))
    model = bl.Model(dims={"g": ["1.1", "1.10"]}, model={"family": "regression", "formula": "y ~ g"})
    fit = bl.fit(model, tmp_path / "t.csv", seed=1, runs=None, progress=False)
    assert fit.summary()["mean"]["b[g[1.10]]"] == pytest.approx(-10.2, abs=0.05)


def test_levels_of_composed_and_decomposed_letters_get_a_remark():
    model = bl.Model(model=LINE | {"formula": "y ~ g", "priors": {"b": "Normal(0, 1)"}})
    found = bl.check(model, {"g": ["\u00f6", "o\u0308", "a", "a"] * 2, "y": Y}).remarks()
    assert [(check, name) for check, name, *_ in found] == [("levels", "g")] and "decomposed" in found[0][3]


def test_a_column_of_empty_text_is_refused_only_where_it_is_used():
    data = {"x": np.arange(8.0), "y": Y, "note": [""] * 8}
    assert not bl.check(bl.Model(model=LINE | {"formula": "y ~ x"}), data).remarks()
    with refused("data.odd-cell", "'note'.*empty"):
        bl.check(bl.Model(model=LINE | {"formula": "y ~ x + note"}), data)
    with refused("data.no-values", "'note'"):
        bl.check(bl.Model(model=LINE | {"formula": "y ~ x + (1 | note)"}), data)
