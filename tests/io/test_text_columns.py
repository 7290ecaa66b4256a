"""Text with every kind of missing cell, and what is not text."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayeslab.dataset import as_values
from bayeslab.errors import DataError


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
