"""Text with every kind of missing cell, and what is not text."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

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
