"""Commands around models and runs: the examples, the list of runs, the installation, and the two doors of the program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import bayeslab as bl
from bayeslab.shipped import copy_example, example_names, example_path
from tests.cli.calls import call, refused

MODELS = Path(__file__).parents[2] / "models"


def test_the_examples_are_the_models(capsys):
    assert example_names() == sorted(path.stem for path in MODELS.glob("*.yaml"))
    status, out, _ = call(capsys, "examples", "list", "eight_schools")
    assert status == 0
    assert out.startswith("eight_schools  graph  ")
    assert bl.load_example("eight_schools").name == "eight-schools"


@pytest.mark.slow(why="large")
def test_every_example_is_listed_with_what_it_is_about(capsys):
    _, out, _ = call(capsys, "examples", "--json")
    listed = json.loads(out)
    assert list(listed) == example_names()
    assert all(entry["about"] for entry in listed.values())


@pytest.mark.parametrize("name", ["radon", "asia", "eight_schools", "notes", "candy_hidden"])
def test_a_copy_can_be_used_without_the_original(name, tmp_path, capsys):
    """The copy has all files that the model names: it passes the check that reads them."""
    status, out, _ = call(capsys, "examples", "copy", name, "--to", tmp_path / "here")
    assert status == 0
    assert out.splitlines()[0] == f"wrote {tmp_path / 'here' / name}.yaml"
    copied = bl.load(tmp_path / "here" / f"{name}.yaml")
    assert copied == bl.load(example_path(name))
    tables = [copied.data.table, *copied.data.tables.values()]
    assert all((tmp_path / "here" / "data" / Path(str(table)).name).exists() for table in tables if table)


def test_copies_overwrite_nothing(tmp_path, capsys):
    copy_example("asia", tmp_path)
    assert call(capsys, "examples", "copy", "asia", "--to", tmp_path)[0] == 0  # nothing would change
    (tmp_path / "asia.yaml").write_text("mine")
    refused(capsys, "run.file-exists", "asia.yaml.*--force", "examples", "copy", "asia", "--to", tmp_path)
    assert (tmp_path / "asia.yaml").read_text() == "mine"
    assert call(capsys, "examples", "copy", "asia", "--to", tmp_path, "--force")[0] == 0
    assert (tmp_path / "asia.yaml").read_text() == example_path("asia").read_text()
    refused(capsys, "option.unknown-word", "'radom'.*'radon'", "examples", "copy", "radom", "--to", tmp_path)
    refused(capsys, "option.usage", "name the example", "examples", "copy", status=2)


def test_runs_are_listed_with_their_verdicts(tmp_path, capsys):
    fit = bl.fit(MODELS / "trees.yaml", progress=False, runs=tmp_path / "runs")
    damaged = tmp_path / "runs" / "damaged"
    damaged.mkdir()
    (damaged / "run.json").write_text("{}")
    _, out, _ = call(capsys, "runs", tmp_path / "runs", "--json")
    rows = {Path(row["run"]).name: row for row in json.loads(out)}
    assert rows["trees"]["verdict"] == fit.verdict.status
    assert rows["trees"]["status"] == "complete"
    assert rows["damaged"]["status"] == "damaged"
    _, out, _ = call(capsys, "runs", tmp_path / "runs")
    assert out.splitlines()[0].split() == ["run", "model", "method", "status", "verdict", "date"]
    assert len(out.splitlines()) == 3
    # Links that lead nowhere or to themselves hide no other run.
    for name, target in (("dangling", "nowhere"), ("loop", "run.json")):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "run.json").symlink_to(target)
    code, out, _ = call(capsys, "runs", tmp_path / "runs", "--json")
    states = {Path(row["run"]).name: row["status"] for row in json.loads(out)}
    assert code == 0
    assert states == {"trees": "complete", "damaged": "damaged", "dangling": "damaged", "loop": "damaged"}
    refused(capsys, "run.no-such-file", "nowhere", "runs", tmp_path / "nowhere")


def test_the_doctor_names_versions_and_problems(tmp_path, capsys, monkeypatch):
    status, out, _ = call(capsys, "doctor", "--json")
    found = json.loads(out)
    assert {"pymc", "numba", "h5netcdf", "bayeslab"} <= set(found["versions"])
    assert status == (1 if found["problems"] else 0)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("PYTENSOR_FLAGS", f"base_compiledir={shared}")
    status, out, _ = call(capsys, "doctor")
    assert status == 1
    assert f"compiled code is not kept in {shared}: others may write to it" in out


@pytest.mark.slow(why="compiles")
def test_the_doctor_compiles_what_the_examples_need(capsys):
    status, out, _ = call(capsys, "doctor", "--warm", "--json")
    found = json.loads(out)
    assert status == 0 and {"radon", "eight_schools", "sleep"} <= set(found["models"])
    assert list(Path(found["folder"]).glob("machine-density-normal-*.o"))


def test_the_package_can_be_run(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "bayeslab", "--version"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.startswith("bayeslab ")
