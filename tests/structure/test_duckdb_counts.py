"""Counts by DuckDB give the same scores as counts in memory, for rows that are fetched and for rows that stay."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from bayeslab.structure.constraints import Constraints
from bayeslab.structure.data import Observations
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.scores import load
from bayeslab.structures import read_rows
from tests.refusals import refused

duckdb = pytest.importorskip("duckdb")
counts = pytest.importorskip("bayeslab.structure.duckdb_counts")

SCORES = ["bdeu", "k2", "bic", "aic", "mdl", "log_likelihood"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 600)
    b = np.where(rng.random(600) < 0.7, a, rng.integers(0, 3, 600))
    return pl.DataFrame(
        {
            "a": [f"s{x}" for x in a],
            "b it's": [("low", "mid", "None")[x] for x in b],
            "c": rng.integers(0, 2, 600) * 10 + 2,
            "d": [f"d{x}" for x in rng.integers(0, 4, 600)],
            "e": (a + rng.integers(0, 2, 600)) > 1,
        }
    )


@pytest.fixture(scope="module", params=["parquet", "csv", "several"])
def source(request, frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "several":
        frame[:250].write_parquet(folder / "x1.parquet")
        frame[250:].write_parquet(folder / "x2.parquet")
        return folder / "*.parquet"
    path = folder / f"x.{request.param}"
    frame.write_parquet(path) if request.param == "parquet" else frame.write_csv(path)
    return path


@pytest.mark.parametrize("fetch", [0, 10**6])
@pytest.mark.parametrize("name", SCORES)
def test_scores_are_the_same(frame, source, fetch, name):
    there = counts.observations(source, fetch=fetch)
    assert (there.elsewhere is not None) == (fetch == 0)
    assert there.n_rows == 600
    want, found = load(name, frame), load(name, there)
    tables = [ScoreTable.build(score, max_parents=3) for score in (want, found)]
    assert found.names == want.names
    for v in range(5):
        for i in range(tables[0].pointer[v], tables[0].pointer[v + 1]):
            parents = tables[0].parents(i)
            assert tables[1].local(v, parents) == pytest.approx(tables[0].scores[i], abs=1e-9)
    assert found.local(2, (0, 4)) == pytest.approx(want.local(2, (0, 4)), abs=1e-9)
    assert found.local(0, ()) == pytest.approx(want.local(0, ()), abs=1e-9)


def test_fetched_rows_are_the_rows(frame, source):
    there, here = counts.observations(source), Observations.of(frame)
    assert there.weights.sum() == here.weights.sum() == 600
    assert there.states[:4] == here.states[:4]

    def sorted_rows(data):
        rows = np.repeat(data.codes, data.weights, axis=0)
        return rows[np.lexsort(rows.T)]

    np.testing.assert_array_equal(sorted_rows(there), sorted_rows(here))


def test_digests_tell_rows_apart(source):
    one, two = (counts.observations(source, fetch=0) for _ in range(2))
    assert one.digest() == two.digest()
    assert one.digest() != counts.observations(source, columns=["a", "d"], fetch=0).digest()


def test_candidates_and_constraints(frame, source):
    there = load("bdeu", counts.observations(source, fetch=0))
    here = load("bdeu", frame)
    known = Constraints.of(here.names, candidates={"a": ["c"], "c": [], "d": ["a"], "e": ["a"], "b it's": ["a"]})
    one, two = (ScoreTable.build(score, max_parents=2, constraints=known) for score in (here, there))
    assert np.array_equal(one.sets, two.sets)
    np.testing.assert_allclose(one.scores, two.scores, atol=1e-9)


def test_columns_and_states(source):
    found = counts.observations(source, columns=["d", "a"], states={"a": ["s2", "s1", "s0", "s9"]})
    assert found.names == ("d", "a") and found.states[1] == ("s2", "s1", "s0", "s9")
    with refused("data.unknown-state", "'s0'.*'a'"):
        counts.observations(source, states={"a": ["s1", "s2"]})
    with refused("data.unknown-column", "'aa'"):
        counts.observations(source, columns=["aa"])


def test_what_cannot_be_read(tmp_path, source):
    pl.DataFrame({"a": ["x", None, "y"], "b": ["u", "v", "u"]}).write_parquet(tmp_path / "holes.parquet")
    with refused("data.missing", "'a'.*1"):
        counts.observations(tmp_path / "holes.parquet")
    with refused("data.no-such-file", "'?holes.parquet"):
        counts.observations(tmp_path / "none.parquet")
    (tmp_path / "no.parquet").write_text("a,b")
    with refused("data.unreadable", "DuckDB"):
        counts.observations(tmp_path / "no.parquet")
    for name in ("bds", "mixed_bic"):
        with refused("data.unsupported", f"'{name}'.*'fetch'"):
            load(name, counts.observations(source, fetch=0))


@pytest.mark.parametrize(
    ("head", "tail", "code"),
    [
        ("a,b\nx,y\nx,y,z\n", "", "data.unreadable"),
        ("a,b\nx\n", "", "data.unreadable"),
        ("a,b\n", "x,y,z\n", "data.unreadable"),
        ("some title\na,b\n", "", "data.unreadable"),
        ("a,b\n# a note\n", "", "data.unreadable"),
        ("a,a\n", "", "data.duplicate"),
        ("a,b\nNA,y\n", "", "data.missing"),
    ],
)
@pytest.mark.parametrize("n", [20, 20_000])
def test_a_file_that_is_no_table_is_refused(tmp_path, head, tail, code, n):
    """DuckDB guesses how a text is to be read: of such files it left out lines, or made one column of all."""
    file = tmp_path / "a.csv"
    file.write_text(head + "x,y\np,q\n" * n + tail)
    with refused(code, where=str(file)):
        counts.observations(file)


def test_a_header_alone_has_no_rows(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n")
    with refused("data.no-rows", where=str(tmp_path / "a.csv")):
        counts.observations(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "cells",
    [
        [" 1", "1", "1 ", "2"],
        ["1.0", "1", "2", "2"],
        ["-1", "\u22121", "2", "2"],
        ["01", "1", "01", "1"],
        ["x ", "x", " y", "y"],
        ["10", "9", "10", "9"],
    ],
)
def test_cells_of_a_text_file_are_read_as_in_memory(tmp_path, cells):
    """Each writing of a number, and each space, made a state of its own."""
    file = tmp_path / "a.csv"
    file.write_text("a,b\n" + "".join(f"{cell},{'uv'[k % 2]}\n" for k, cell in enumerate(cells)), encoding="utf-8")
    there, here = counts.observations(file), Observations.of(read_rows(file))
    assert there.states == here.states
    rows = [np.repeat(each.codes, each.weights, axis=0) for each in (there, here)]
    np.testing.assert_array_equal(*(each[np.lexsort(each.T)] for each in rows))


@pytest.mark.parametrize(
    ("cells", "code", "match"),
    [
        (["2024-01-01", "2024-01-02", "2024-01-01"], "data.odd-cell", "'2024-01-0[12]' is a date"),
        (['"1,000"', '"2,000"', '"1,000"'], "data.odd-cell", "a number with marks"),
        (["1", "2", "?", "1", "1", "2"], "data.odd-cell", "'\\?' is not a number"),
        (["1.5", "2.5", "1.5"], "data.not-states", "not whole \\(1.5\\)"),
        (["1", " NA", "2"], "data.missing", "1 missing cell"),
    ],
)
def test_cells_that_are_no_states_are_refused_as_in_memory(tmp_path, cells, code, match):
    file = tmp_path / "a.csv"
    file.write_text("a,b\n" + "".join(f"{cell},x\n" for cell in cells))
    with refused(code, f"'a'.*{match}", where=str(file)):
        counts.observations(file)
