"""``bayeslab effects`` as a user meets it; the model is solved exactly, and its slopes are its coefficients."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from tests.cli.calls import call, refused


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("effects")
    data = pd.DataFrame({"x": rng.normal(size=30), "g": rng.choice(["a", "b"], 30)})
    data["y"] = 2 * data["x"] + (data["g"] == "b") + rng.normal(0, 0.5, 30)
    model = bl.Model(name="line", model=bl.Regression(formula="y ~ x + g"))
    bl.fit(model, data, seed=1, runs=folder, progress=False)
    return folder / "line"


def coefficients(run: Path) -> dict[str, float]:
    means = bl.open(run).posterior["b"].mean(("chain", "draw"))
    return dict(zip(means["predictor"].to_numpy().tolist(), means.to_numpy().tolist(), strict=True))


def test_a_table_of_comparisons(run, capsys):
    code, out, _ = call(capsys, "effects", run)
    title, head, *rows = out.splitlines()
    assert code == 0
    assert title == "difference of the mean of y, averaged over 30 rows"
    assert head.split() == ["term", "contrast", "mean", "sd", "eti89_lb", "eti89_ub", "pd"]
    assert [row.split()[:2] for row in rows] == [["x", "+1"], ["g", "b"]]
    assert float(rows[0].split()[2]) == pytest.approx(coefficients(run)["x"], rel=1e-3)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--of", "x=10"], lambda b: [10 * b["x"]]),
        (["--of", "g=b,a"], lambda b: [-b["g[b]"]]),
        (["--of", "x", "--slope"], lambda b: [b["x"]]),
        (["--slope", "--by", "g"], lambda b: [b["x"]] * 2),
        (["--of", "x", "--of", "g", "--at", "x=1"], lambda b: [b["x"], b["g[b]"]]),
    ],
)
def test_json_has_a_record_for_each_estimate(words, wanted, run, capsys):
    code, out, _ = call(capsys, "effects", run, *words, "--json")
    assert code == 0
    means = [record["mean"] for record in json.loads(out)["estimates"]]
    assert means == pytest.approx(wanted(coefficients(run)), rel=1e-6)


def test_expected_outcomes_at_values(run, capsys):
    code, out, _ = call(capsys, "effects", run, "--expected", "--of", "x=0,1", "--json")
    low, high = json.loads(out)["estimates"]
    assert code == 0
    assert [low["x"], high["x"]] == [0, 1]
    assert high["mean"] - low["mean"] == pytest.approx(coefficients(run)["x"], rel=1e-6)


def test_files(run, capsys, tmp_path):
    table, picture = tmp_path / "effects.csv", tmp_path / "effects.png"
    code, out, _ = call(capsys, "effects", run, "--of", "x", "--by", "g", "--out", table, "--plot", picture)
    assert code == 0
    assert out.splitlines() == [f"written {table}", f"written {picture}"]
    assert pd.read_csv(table)["g"].tolist() == ["a", "b"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    refused(capsys, "option.file-exists", "force", "effects", run, "--out", table)


@pytest.mark.parametrize(
    ("words", "code", "named", "status"),
    [
        (["--of", "xx"], "option.unknown-column", "did you mean 'x'", 1),
        (["--of", "x", "--of", "x"], "option.usage", "twice", 2),
        (["--at", "x"], "option.usage", "NAME=VALUES", 2),
        (["--rope", "1"], "option.usage", "LOW,HIGH", 2),
        (["--slope", "--expected"], "option.conflict", "--slope", 1),
        (["--slope", "--of", "x=2"], "option.usage", "--of x", 2),
        (["--expected", "--kind", "ratio"], "option.conflict", "--kind", 1),
        (["--expected", "--of", "x", "--at", "x=1"], "option.conflict", "--at", 1),
        (["--plot", "p.txt"], "option.unknown-format", "p.txt", 1),
        (["--by", "h"], "option.unknown-column", "'h'", 1),
    ],
)
def test_wrong_words_are_named(words, code, named, status, run, capsys):
    refused(capsys, code, named, "effects", run, *words, status=status)
