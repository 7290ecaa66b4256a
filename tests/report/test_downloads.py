"""Files inside the page: their numbers are those of the fit, and their names cannot break LaTeX."""

from __future__ import annotations

import re
from base64 import b64decode
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayeslab as bl
from bayeslab.report import downloads
from bayeslab.report.page import html_of


@pytest.fixture(scope="module")
def fit():
    model = bl.Model(
        name="a level",
        data={"rows": "day"},
        model=bl.Graph(nodes={"mu_0": "Normal(0, 1)", "y[day]": "Normal(mu_0, 1)"}),
        seed=1,
    )
    return bl.fit(model, pd.DataFrame({"y": [0.3, 1.9, 1.1, 0.2, 2.4]}), runs=None, progress=False)


def files_of(html: str) -> dict[str, bytes]:
    found = re.findall(r'<a href="data:[^;]+;base64,([^"]+)" download="([^"]+)"', html)
    return {name: b64decode(content) for content, name in found}


def test_files_have_the_numbers_of_the_fit(fit):
    files = files_of(html_of({"a": fit}))
    assert list(files) == [f"a-level{end}" for end in ("-summary.csv", "-summary.tex", "-draws.csv", "-draws.nc")]
    summary = pd.read_csv(BytesIO(files["a-level-summary.csv"]), index_col="quantity")
    assert summary.loc["mu_0", "mean"] == pytest.approx(float(fit.summary().loc["mu_0", "mean"]))
    draws = pd.read_csv(BytesIO(files["a-level-draws.csv"]))
    whole = fit.posterior["mu_0"].to_numpy()
    assert len(draws) == 1000 and draws["mu_0"].to_numpy() == pytest.approx(whole[draws["chain"], draws["draw"]])
    tree = xr.open_datatree(BytesIO(files["a-level-draws.nc"]), engine="h5netcdf")
    assert tree["posterior"]["mu_0"].to_numpy().ravel() == pytest.approx(draws["mu_0"].to_numpy())
    assert html_of({"a": fit}) == html_of({"a": fit})


def test_latex_is_escaped(fit):
    text = files_of(html_of({"a": fit}))["a-level-summary.tex"].decode()
    assert r"mu\_0 & " in text and r"5.5\%" in text and text.count(r"\\") == 2
    frame = pd.DataFrame({"mean": [-1.5], "sd": [0.1]}, index=["\\input{x}\n^~"])
    assert r"\textbackslash{}input\{x\} \textasciicircum{}\textasciitilde{} & $-1.5" in downloads._latex(frame)


def test_large_files_are_left_out(fit, monkeypatch):
    monkeypatch.setattr(downloads, "_BYTES", 2_000)
    html = html_of({"a": fit})
    files = files_of(html)
    assert "a-level-summary.csv" in files and sum(map(len, files.values())) <= 1_500
    assert "Left out for size" in html or np.all([len(content) < 1_500 for content in files.values()])
