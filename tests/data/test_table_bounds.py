"""Readers refuse what has no end, what does not fit into memory, and numbers that they would have to change."""

from __future__ import annotations

import json
import os
import resource
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import bayeslab as bl
from bayeslab.data.cells import as_values
from bayeslab.data.tables import read_dataset
from bayeslab.errors import BayeslabError
from bayeslab.formats.network_files import read_network
from bayeslab.language.spec import DataSource
from tests.refusals import refused

SOURCE = DataSource(rows="row")
MODEL = {"family": "graph", "nodes": {"m": "Normal(0, 1)", "y[row]": "Normal(m, 1)"}}


def table(path: Path) -> None:
    read_dataset(SOURCE, None, path).complete()


READERS = {".csv": table, ".tsv": table, ".json": table, ".parquet": table, ".yaml": bl.load, ".bif": read_network,
           ".xdsl": read_network, ".uai": read_network}  # fmt: skip


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(size: int):
    def make(path: Path) -> None:
        path.touch()
        os.truncate(path, size)

    return make


THINGS = {"a pipe": pipe, "zeros without end": endless, "a terabyte": sparse(1 << 40), "900 MB": sparse(900 << 20)}


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("ending", READERS)
def test_what_has_no_end_or_no_room_is_refused_at_once(tmp_path, ending, thing):
    path = tmp_path / f"x{ending}"
    THINGS[thing](path)
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(BayeslabError) as error:
        READERS[ending](path)
    assert "\n" not in str(error.value) and str(path) in str(error.value)
    assert time.process_time() - begun < 1.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 800_000  # kilobytes


def test_a_small_parquet_file_of_many_rows(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    schema = pa.schema([(f"x{i}", pa.int64()) for i in range(200)])
    with pq.ParquetWriter(tmp_path / "x.parquet", schema) as writer:
        one = pa.chunked_array([np.zeros(10_000, np.int64)])
        writer.write_table(pa.table([one] * 200, schema=schema))
    table(tmp_path / "x.parquet")
    from bayeslab.data import tables

    real, tables.memory_size = tables.memory_size, lambda: 10_000_000
    try:
        with refused("data.too-costly"):
            table(tmp_path / "x.parquet")
    finally:
        tables.memory_size = real


@pytest.mark.parametrize("length", [10**12, 10**30, 10**9, 10**400])
def test_dimensions_beyond_memory(length):
    with refused("model.out-of-range", "'row'.*50.*000.*000"):
        bl.Model(dims={"row": length}, model=bl.Graph(nodes=MODEL["nodes"]))


# ------------------------------------------------------------------------------------ whole numbers

LARGE = "data.too-large"
INEXACT = "data.too-many-digits"


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        ([1, 2**63], LARGE), ([1, 2**64], LARGE), ([-1, 2**63], LARGE), ([-1, -(2**63) - 1], LARGE), ([1, 10**400], LARGE),
        ([None, 2**53 + 1], INEXACT), ([float("nan"), 2**53 + 1], INEXACT), ([0.5, 10**400], INEXACT),
        (np.array([1, 2**63], np.uint64), LARGE), ([[1, 2], [3, 2**63]], LARGE),
    ],
)  # fmt: skip
def test_numbers_that_would_be_changed_are_refused_with_their_row(cells, code):
    with refused(code, "column 'k', row") as error:
        as_values(cells, "column 'k'")
    assert len(str(error.value)) < 300
    if np.asarray(cells, dtype=object).ndim == 1:
        assert "row 2" in str(error.value)


@pytest.mark.parametrize(
    "cells", [[2**63 - 1, -(2**63)], np.array([2**63 - 1], np.uint64), [2**53 + 1, 7], [None, 2**53], [0.5, 1e300]]
)
def test_numbers_that_are_kept(cells):
    values, _ = as_values(cells, "k")
    for given, kept in zip(cells, values.tolist(), strict=True):
        assert (given is None and np.isnan(kept)) or int(given) == int(kept)


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        (["1", str(2**63)], LARGE), (["1", "9" * 5000], LARGE), (["", str(2**53 + 1)], INEXACT), (["", "9" * 5000], INEXACT),
        (["1.5", "9" * 5000], LARGE), (["1", "1e400"], LARGE),
        (["1", str(-(2**63) - 1)], LARGE),
    ],
)  # fmt: skip
def test_tables_refuse_them_too(tmp_path, cells, code):
    path = tmp_path / "t.csv"
    path.write_text("k,z\n" + "".join(f"{cell},0\n" for cell in cells))
    read_dataset(SOURCE, None, path)  # a model may do without the column
    with refused(code, "column 'k', row 2") as error:
        table(path)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("number", "match"),
    [(str(2**63), "'k', row 2"), ("9" * 350, "'k', row 2"), ("9" * 5000, "5,000"), ("1e400", "1e400|1.8e308")],
)
@pytest.mark.parametrize("shape", ["rows", "arrays"])
def test_json_refuses_them_too(tmp_path, number, match, shape):
    path = tmp_path / "t.json"
    path.write_text(f'[{{"k": 1}}, {{"k": {number}}}]' if shape == "rows" else f'{{"k": [1, {number}]}}')
    with refused(LARGE, match) as error:
        table(path)
    assert len(str(error.value)) < 400


def test_large_whole_numbers_come_back_to_the_last_digit(tmp_path):
    """Not by way of numbers with a point, in which neighbours beyond 2⁵³ are one."""
    numbers = [2**53 + 1, 2**53 + 2, 2**63 - 1, -(2**63)]
    pd.DataFrame({"k": numbers}).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "t.json").write_text(json.dumps([{"k": k} for k in numbers]))
    for name in ("t.csv", "t.json"):
        assert read_dataset(SOURCE, None, tmp_path / name).columns["k"].values.tolist() == numbers
    assert as_values(np.array(numbers, dtype=object), "k")[0].tolist() == numbers


# ------------------------------------------------------------------------------------------ mistakes


def test_a_mapping_of_single_values_is_no_table():
    model = bl.Model(data={"rows": "row"}, model=bl.Regression(formula="y ~ x"))
    with refused("data.not-a-column", "'y'"):
        bl.check(model, {"y": 1.0, "x": 2.0})


def test_numbers_whose_squares_are_none():
    model = bl.Model(data={"rows": "row"}, model=bl.Regression(formula="y ~ x"))
    with refused("data.too-large", "row 2.*300"):
        bl.check(model, {"y": [1.0, 2e300, 3.0], "x": [1.0, 2.0, 3.0]})


def test_a_frame_with_a_column_twice():
    model = bl.Model(data={"rows": "row"}, model=bl.Regression(formula="y ~ x"))
    frame = pd.DataFrame([[1, 2, 3], [4, 5, 6]], columns=["y", "x", "x"])
    with refused("data.duplicate", "'x'"):
        bl.check(model, frame)


def test_a_parquet_file_with_a_column_twice(tmp_path):
    columns = pa.Table.from_arrays([pa.array([1, 2])] * 3, names=["y", "x", "x"])
    parquet.write_table(columns, tmp_path / "t.parquet")
    with refused("data.duplicate", "'x'"):
        table(tmp_path / "t.parquet")


DECIMALS = [Decimal("1.50"), Decimal("2"), None, Decimal("-0.25")]


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "list", "parquet"])
def test_decimals_are_numbers(kind, tmp_path):
    data = {"x": DECIMALS}
    data = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table, "parquet": pa.table}.get(kind, dict)(
        data
    )
    if kind == "parquet":
        parquet.write_table(data, tmp_path / "t.parquet")
        data = tmp_path / "t.parquet"
    np.testing.assert_array_equal(read_dataset(SOURCE, None, data).columns["x"].values, [1.5, 2, np.nan, -0.25])


def test_whole_decimals_keep_every_digit():
    values = read_dataset(SOURCE, None, {"x": [Decimal(2**62 + 1), Decimal(1)]}).columns["x"].values
    assert values.tolist() == [2**62 + 1, 1]
    for code, cells in ("too-large", [Decimal(2**64), Decimal(1)]), ("too-many-digits", [Decimal(2**62 + 1), None]):
        with refused(f"data.{code}", "row 1"):
            read_dataset(SOURCE, None, {"x": cells}).complete()


def test_integers_of_128_bits():
    frame = pl.DataFrame({"x": pl.Series([1, -5], dtype=pl.Int128), "y": pl.Series([None, 5], dtype=pl.Int128)})
    columns = read_dataset(SOURCE, None, frame).columns
    np.testing.assert_array_equal(columns["x"].values, [1, -5])
    np.testing.assert_array_equal(columns["y"].values, [np.nan, 5])
    with refused("data.too-large", "row 2"):
        read_dataset(SOURCE, None, pl.DataFrame({"x": pl.Series([1, 2**70], dtype=pl.Int128)}))


@pytest.mark.parametrize("kind", ["json", "python"])
def test_a_single_text_among_lists_is_that_of_all_rows(kind, tmp_path):
    data = {"x": "abc", "y": [1.0, 2.0, 4.0]}
    if kind == "json":
        (tmp_path / "t.json").write_text(json.dumps(data))
        data = tmp_path / "t.json"
    model = bl.Model(data={"rows": "row"}, model=bl.Regression(formula="y ~ x"))
    one, many = (bl.fit(model, given) for given in (data, {"x": ["abc"] * 3, "y": [1.0, 2.0, 4.0]}))
    pd.testing.assert_frame_equal(one.summary(), many.summary())


def test_nothing_but_single_texts():
    with refused("data.not-a-column", "'y': give lists"):
        bl.check(bl.Model(model={"family": "mixture", "columns": ["y"], "components": 2}), {"y": "abc"})


@pytest.mark.parametrize("cell", [2**70, "1e400"])
@pytest.mark.parametrize("given", ["frame", "csv"])
def test_an_unused_column_too_large_to_read_is_left_out(tmp_path, given, cell):
    """Only a model that uses the column refuses it, and says what to do."""
    frame = pd.DataFrame({"x": [1.0, 2.5] * 8, "y": [2.0, 1.0, 4.5, 3.0] * 4, "code": [cell] * 16})
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = frame if given == "frame" else tmp_path / "t.csv"
    bl.check(bl.Model(model=bl.Regression(formula="y ~ x")), data)
    if given == "frame" and isinstance(cell, str):
        return  # text
    with refused(LARGE, "'code', row 1"):
        bl.check(bl.Model(model=bl.Regression(formula="y ~ x + code")), data)
    linear = {"family": "learner", "learner": "linear", "target": "y"}
    with refused(LARGE, "'code', row 1.*list the inputs"):  # all columns are inputs
        bl.check(bl.Model(model=linear), data)
    bl.check(bl.Model(model=linear | {"inputs": ["x"]}), data)
