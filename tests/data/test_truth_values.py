"""Columns of true and false: words in text files, truth values in data frames, the same rows to a fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from tests.refusals import refused


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x, old = rng.normal(size=40), rng.random(40) < 0.4
    return pd.DataFrame({"x": x, "old": old, "y": 1 + 2 * x + 3 * old + rng.normal(size=40)})


@pytest.fixture(scope="module")
def written(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("truth")
    table.to_csv(folder / "python.csv", index=False)
    table.assign(old=table["old"].map({True: "TRUE", False: "FALSE"})).to_csv(folder / "r.csv", index=False)
    table.to_parquet(folder / "table.parquet")
    return folder


@pytest.mark.parametrize("source", ["python.csv", "r.csv", "table.parquet"])
def test_rows_in_any_form_are_predicted_alike(table, written, source):
    model = bl.Model(name="m", model={"family": "regression", "formula": "y ~ x + old"})
    fit = bl.fit(model, written / source, runs=None, progress=False)
    design = np.column_stack([np.ones(40), table["x"], table["old"]])
    expected = design @ np.linalg.lstsq(design, table["y"], rcond=None)[0]
    for new in ("python.csv", "r.csv", "table.parquet"):
        found = fit.predict(written / new, kind="mean")["mean"]
        np.testing.assert_allclose(found, expected, atol=0.1)
    one_kind = table[table["old"]].reset_index(drop=True)
    np.testing.assert_allclose(fit.predict(one_kind, kind="mean")["mean"], expected[table["old"]], atol=0.1)


def test_a_learner_reads_them_alike(table, written):
    model = bl.Model(name="m", model={"family": "learner", "learner": "regression_tree", "target": "y"})
    fit = bl.fit(model, written / "python.csv", runs=None, progress=False)
    expected = fit.predict(written / "python.csv")
    for new in (written / "r.csv", written / "table.parquet", table):
        pd.testing.assert_frame_equal(fit.predict(new), expected)


@pytest.mark.parametrize("old", [[2, 0], ["maybe", "True"]])
def test_other_values_are_refused(written, old):
    model = bl.Model(name="m", model={"family": "regression", "formula": "y ~ x + old"})
    fit = bl.fit(model, written / ("r.csv" if old[0] == 2 else "table.parquet"), runs=None, progress=False)
    with refused("data.other-kind", "'old'"):
        fit.predict({"x": [0.0, 1.0], "old": old})
