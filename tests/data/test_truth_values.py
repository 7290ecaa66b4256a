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


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Two columns of truth values and one of words, in every form; the counts of the cells."""
    rng = np.random.default_rng(0)
    a = rng.random(200) < 0.4
    b = rng.random(200) < np.where(a, 0.8, 0.2)
    table = pd.DataFrame({"a": a, "b": b, "w": np.where(rng.random(200) < 0.5, "p", "q")})
    folder = tmp_path_factory.mktemp("pairs")
    table.to_csv(folder / "rows.csv", index=False)
    table.to_parquet(folder / "rows.parquet")
    table.to_json(folder / "rows.json", orient="records")
    forms = {
        "csv": folder / "rows.csv",
        "parquet": folder / "rows.parquet",
        "json": folder / "rows.json",
        "frame": table,
        "nullable": table.astype({"a": "boolean"}),
        "objects": table.astype(object),
        "lists": table.to_dict("list"),
        "arrays": {name: table[name].to_numpy() for name in table},
    }
    return table, forms


FORMS = ("csv", "parquet", "json", "frame", "nullable", "objects", "lists", "arrays")


@pytest.mark.parametrize("form", FORMS)
def test_structures_have_the_states_false_and_true_in_any_form(pairs, form):
    table, forms = pairs
    net = bl.learn(forms[form], "exact", "bic").network(equivalent_sample_size=1e-9)
    assert net.states == {"a": ("False", "True"), "b": ("False", "True"), "w": ("p", "q")}
    share = table["b"][table["a"]].mean()
    assert net.query({"a": "True"}, ["b"])["b"]["True"] == pytest.approx(share, abs=1e-6)
    assert bl.learn(forms[form], "structural_em", "bic").network().states["a"] == ("False", "True")
    graph = float(bl.score(["a -> b"], forms[form], "bic"))
    assert graph == pytest.approx(float(bl.score(["a -> b"], forms["csv"], "bic")), rel=1e-12)
    stated = bl.learn(forms[form], "exact", "bic", score_options={"states": {"a": ["True", "False"]}})
    assert stated.network().states["a"] == ("True", "False")


@pytest.mark.parametrize("form", FORMS)
def test_sampled_structures_have_these_states_too(pairs, tmp_path, form):
    """Also after the run folder is opened, and beside measurements."""
    _, forms = pairs
    model = bl.Model(model={"family": "bayes_net", "structure": {}})
    fit = bl.fit(model, forms[form], runs=tmp_path, progress=False)
    for one in (fit, bl.open(fit.folder)):
        assert one.structures.states["a"] == ("False", "True")
        assert one.structures.query_many(forms["frame"].head(3), ["b"]).shape == (3, 3)


def test_truth_values_beside_measurements_are_states(pairs):
    table, _ = pairs
    mixed = table[["a", "b"]].assign(x=np.linspace(0.1, 0.9, len(table)))
    for data in (mixed, mixed.to_dict("list")):
        assert bl.learn(data, "tabu").criterion == "mixed_bic"


def test_empty_cells_of_truth_values_are_missing():
    columns = {"a": [True, None, False, True] * 20, "b": ["u", "v", "v", "u"] * 20}
    for data in (columns, pd.DataFrame(columns), pd.DataFrame(columns).astype({"a": "boolean"})):
        with refused("data.missing", "'a'"):
            bl.learn(data, "tabu", "bic")
        assert bl.learn(data, "structural_em", "bic").network().states["a"] == ("False", "True")


@pytest.mark.parametrize(
    "cells", [("True", "0", "1", "False"), ("TRUE", "1", "TRUE", "1"), ("0", "0", "true", "false")]
)
def test_numbers_among_truth_words_are_refused_from_files_as_from_python(cells, tmp_path):
    """Four levels, True, False, 1 and 0, would be fitted in place of two."""
    file = tmp_path / "t.csv"
    file.write_text("x,y\n" + "".join(f"{cell},{i * i}\n" for i, cell in enumerate(cells * 2)))
    model = bl.Model(name="m", model={"family": "regression", "formula": "y ~ x"})
    values = [bool("t" in cell.casefold()) if cell.isalpha() else int(cell) for cell in cells * 2]
    for data in (file, {"x": values, "y": [i * i for i in range(8)]}):
        with refused("data.odd-cell", match="x.*numbers and truth values"):
            bl.check(model, data)
    with refused("data.odd-cell", match="truth values"):
        bl.learn(file)
