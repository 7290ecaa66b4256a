"""Numbers that stand for a missing cell: the same from every source of data, whatever the cells look like."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayeslab as bl
from bayeslab.data.tables import read_dataset
from bayeslab.language.spec import DataSource
from tests.refusals import refused

CELLS = {"x": [1, 2, -999, 4, 5, 6], "y": [2.1, 3.9, 6.2, -999.0, 9.8, 12.3], "name": ["a", "b", "-999", "a", "b", "a"]}
FRAME = pd.DataFrame(CELLS)


def csv(folder, *, cell="-999"):
    lines = ["x,y,name", *(",".join(map(str, row)) for row in zip(*CELLS.values(), strict=True))]
    (folder / "t.csv").write_text("\n".join(lines).replace("-999.0", "-999").replace("-999", cell) + "\n")
    return folder / "t.csv"


def parquet(folder):
    FRAME.to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def records(folder):
    FRAME.to_json(folder / "t.json", orient="records")
    return folder / "t.json"


def arrays(folder):
    (folder / "t.json").write_text(json.dumps(CELLS))
    return folder / "t.json"


SOURCES = {
    "csv": csv,
    "csv with a point": lambda folder: csv(folder, cell="-999.0"),
    "csv with an exponent": lambda folder: csv(folder, cell="-9.99e2"),
    "csv with a typographical minus": lambda folder: csv(folder, cell="\u2212999"),
    "parquet": parquet,
    "records": records,
    "arrays": arrays,
    "pandas": lambda folder: FRAME,
    "pandas with NA": lambda folder: FRAME.convert_dtypes(),
    "pandas of objects": lambda folder: FRAME.astype(object),
    "polars": lambda folder: pl.DataFrame(CELLS),
    "lists": lambda folder: CELLS,
    "numpy": lambda folder: {name: np.array(cells) for name, cells in CELLS.items()},
}


@pytest.mark.parametrize("entry", ["-999", -999, -999.0, "-999.0", " -999 "])
@pytest.mark.parametrize("source", SOURCES)
def test_a_number_is_missing_from_every_source(tmp_path, source, entry):
    found = read_dataset(DataSource(missing=[entry]), None, SOURCES[source](tmp_path))
    np.testing.assert_array_equal(found.columns["x"].values, [1, 2, np.nan, 4, 5, 6])
    np.testing.assert_array_equal(found.columns["y"].values, [2.1, 3.9, 6.2, np.nan, 9.8, 12.3])
    assert found.columns["name"].text and found.unused == ()
    if not source.startswith("csv with") and entry != "-999.0":
        assert found.columns["name"].absent().tolist() == [False, False, True, False, False, False]


def test_a_column_of_32_bits_has_the_number_rounded():
    x = np.array([1.5, -99.9, 2.5], dtype=np.float32)
    found = read_dataset(DataSource(missing=[-99.9]), None, pd.DataFrame({"x": x}))
    np.testing.assert_array_equal(found.columns["x"].values, [1.5, np.nan, 2.5])


def test_a_declared_level_is_no_missing_number():
    net = bl.BayesNet(variables={"a": {"states": ["0", "1", "9"]}, "b": {"states": ["0", "1"], "parents": ["a"]}})
    model = bl.Model(data={"missing": ["9"]}, model=net)
    data = bl.check(model, {"a": [0, 1, 9, 0], "b": [0, 9, 1, 1]})
    assert not data.dataset.columns["a"].absent().any()
    assert data.dataset.columns["b"].absent().tolist() == [False, True, False, False]


def test_columns_of_names_and_truth_values_hold_no_numbers():
    source = DataSource(missing=[1], text=["code"])
    given = {"code": [1, 2, 3], "yes": [True, False, True], "x": [1.0, 2.0, 3.0]}
    for table in (given, pd.DataFrame(given), pl.DataFrame(given)):
        columns = read_dataset(source, None, table).columns
        assert columns["yes"].values.tolist() == [1, 0, 1]
        assert columns["code"].absent().tolist() == [True, False, False]
        assert np.isnan(columns["x"].values).tolist() == [True, False, False]


def test_decimal_commas_may_be_in_the_word(tmp_path):
    (tmp_path / "t.csv").write_text("x;y\n1,5;1\n-99,9;2\n2,5;3\n")
    for entry in ("-99,9", -99.9):
        found = read_dataset(DataSource(missing=[entry]), tmp_path, tmp_path / "t.csv")
        np.testing.assert_array_equal(found.columns["x"].values, [1.5, np.nan, 2.5])


def test_fits_and_predictions_are_those_without_the_cells(tmp_path):
    model = bl.Model(data={"missing": ["-999"]}, model={"family": "regression", "formula": "y ~ x"})
    fits = [bl.fit(model, table, runs=None, progress=False) for table in (FRAME, csv(tmp_path), parquet(tmp_path))]
    slopes = [fit.summary().loc["b[x]", "mean"] for fit in fits]
    assert slopes == pytest.approx([slopes[0]] * 3, rel=1e-12) and slopes[0] == pytest.approx(2, abs=0.2)
    FRAME[["x"]].to_parquet(tmp_path / "new.parquet")
    for table in (FRAME[["x"]], tmp_path / "new.parquet"):
        with refused("data.missing", "'x'"):
            fits[0].predict(table)


def test_entries_that_fit_no_column_are_mentioned(tmp_path):
    """By check, in Python and in the verdict of a fit; a word that stands for a cell is not."""
    model = bl.Model(
        data={"missing": ["-999", "?", "NA"], "text": ["nmae", "name"]},
        model={"family": "regression", "formula": "y ~ x"},
    )
    want = {
        ("missing", "'?' of data.missing stands for no cell: no column holds it, unless as a declared level"),
        ("text", "'nmae' of data.text is not a column; did you mean 'name'?"),
    }
    data = bl.check(model, FRAME)
    assert {(check, message) for check, _, _, message, _ in data.remarks()} == want
    findings = bl.fit(model, FRAME, runs=None, progress=False).verdict.findings
    assert want <= {(one.check, one.message) for one in findings if one.status == "warn"}


@pytest.mark.parametrize("entry", [True, None, [1]])
def test_what_is_no_word_is_refused(entry):
    with refused("model.wrong-type", where="data.missing.0"):
        bl.Model(data={"missing": [entry]}, model={"family": "regression", "formula": "y ~ x"})


def test_infinity_may_stand_for_a_missing_cell():
    model = bl.Model(data={"missing": [float("inf")]}, model={"family": "regression", "formula": "y ~ x"})
    data = bl.check(model, {"x": [0.0, 1.0, 2.0, 3.0], "y": [1.0, float("inf"), 2.0, 3.0]})
    assert np.isnan(data.cells("y").value).tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x > 2", [0, np.nan, 1, 1, 0]),
        ("not (x > 2)", [1, np.nan, 0, 0, 1]),
        ("x != 3", [1, np.nan, 0, 1, 1]),
        ("where(x > 2, 7, 8)", [8, np.nan, 7, 7, 8]),
        ("x > 2 or k > 1", [0, 1, 1, 1, 1]),
        ("x > 2 and k < 2", [0, 0, 0, 0, 0]),
        ("isnan(x) or x > 2", [0, 1, 1, 1, 0]),
        ("g == 'a'", [1, 0, np.nan, 1, 0]),
        ("g != 'a'", [0, 1, np.nan, 0, 1]),
        ("where(k > 1, 6 / (k - 1), 0) > 5", [0, 1, 0, 0, 0]),
    ],
)
def test_a_comparison_with_a_missing_cell_is_missing(expression, expected):
    """In computed columns, unless the other parts of the expression decide (Kleene's logic)."""
    data = {
        "x": [1.0, np.nan, 3.0, 4.0, 0.5],
        "k": [1, 2, 3, 4, 5],
        "g": ["a", "b", None, "a", "b"],
        "y": [1.0, 2, 3, 5, 4],
    }
    model = bl.Model(data={"derive": {"z": expression}}, model={"family": "regression", "formula": "y ~ z"})
    made = bl.fit(model, data, runs=None, progress=False).data.term("z", missing=True).value
    np.testing.assert_array_equal(np.asarray(made, float), expected)


def test_what_is_not_defined_is_no_truth_value():
    data = {"x": [0.0, 1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0, 5.0]}
    for expression, row in (
        ("1 / x > 0", 1),
        ("x % 0 > 1", 1),
        ("log(x - 1) < 0", 1),
        ("where(1 / (x - 2) > 0, 1, 0)", 3),
    ):
        model = bl.Model(data={"derive": {"z": expression}}, model={"family": "regression", "formula": "y ~ z"})
        with refused("data.not-finite", rf"row {row}"):
            bl.fit(model, data, runs=None, progress=False)
