"""The command line as a user meets it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from bayeslab import fit, registry
from bayeslab.cli import command_line, main
from bayeslab.cli.toolbox.shared import elsewhere
from bayeslab.preparation import checked
from bayeslab.results.calibrate import calibrate
from tests.cli.calls import call, refused

MODEL = """\
bayeslab: 1
name: tiny
about: A line.
data: {table: t.csv, rows: obs}
model:
  family: graph
  nodes:
    a: Normal(0, 10)
    b: Normal(0, 10)
    y[obs]: Normal(a + b * x, 1)
inference: {method: nuts}
seed: 1
"""
COMMANDS = ("check", "fit", "graph", "new", "predict", "priors", "schema", "show", "simulate")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli")
    (path / "tiny.yaml").write_text(MODEL)
    (path / "t.csv").write_text("x,y\n0,1.1\n1,2.9\n2,5.2\n3,6.8\n")
    (path / "new.csv").write_text("x\n10\n20\n")
    return path


@pytest.fixture(scope="module")
def run(folder):
    """One fit for all tests that need a run."""
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(folder / "tiny.yaml"), "--runs", str(folder / "runs"), "--quiet"])
    assert ended.value.code == 0
    return folder / "runs" / "tiny"


def test_check(folder, capsys):
    code, out, _ = call(capsys, "check", folder / "tiny.yaml")
    assert code == 0 and "ok" in out and "4 rows" in out and "outcomes  y" in out
    code, out, _ = call(capsys, "check", folder / "tiny.yaml", "--json")
    assert json.loads(out)["outcomes"] == ["y"]


@pytest.mark.slow(why="statistical")
def test_show_is_what_fit_printed(run, folder, capsys):
    code, out, err = call(capsys, "show", run)
    assert code == 0 and err == ""
    for word in ("tiny", "mean", "94.5%", "PASS", "R-hat", "run folder", str(run)):
        assert word in out
    _, out, _ = call(capsys, "show", run, "--json")
    shown = json.loads(out)
    # Least squares, up to the weak prior: slope (sum xy - n mean mean) / Sxx.
    assert shown["summary"]["b"]["mean"] == pytest.approx(1.94, abs=0.1)
    assert shown["verdict"]["status"] == "pass" and shown["seed"] == 1


def test_fit_json_is_clean(folder, capsys, tmp_path):
    code, out, _ = call(capsys, "fit", folder / "tiny.yaml", "--json", "--draws", 50, "--tune", 200, "--runs", tmp_path)
    result = json.loads(out)
    assert code in (0, 3) and result["folder"] == str(tmp_path / "tiny")


def test_a_bad_verdict_is_exit_code_3(folder, capsys, tmp_path):
    """Four draws cannot pass."""
    code, out, _ = call(capsys, "fit", folder / "tiny.yaml", "--draws", 4, "--tune", 1, "--runs", tmp_path, "--quiet")
    assert code == 3 and "FAIL" in out


def test_method_and_set(folder, capsys, tmp_path):
    words = ["fit", folder / "tiny.yaml", "--method", "map", "--set", "restarts=2", "--runs", tmp_path, "--quiet"]
    code, out, _ = call(capsys, *words)
    assert code == 0 and "point" in out


def test_predict(run, folder, capsys, tmp_path):
    code, out, _ = call(capsys, "predict", run, "--data", folder / "new.csv", "--json")
    rows = json.loads(out)
    assert code == 0 and [row["obs"] for row in rows] == [0, 1]
    assert rows[1]["mean"] > rows[0]["mean"] > 15
    code, out, _ = call(capsys, "predict", run, "-d", folder / "new.csv", "-o", tmp_path / "p.csv")
    assert code == 0 and (tmp_path / "p.csv").read_text().startswith("obs,mean,sd,")
    code, out, _ = call(capsys, "predict", run, "--kind", "draws", "-o", tmp_path / "d.nc")
    assert code == 0 and (tmp_path / "d.nc").stat().st_size > 1000
    refused(capsys, "option.unknown-word", "kind.*'median'", "predict", run, "--kind", "median")


def test_simulate(folder, capsys, tmp_path):
    code, out, _ = call(capsys, "simulate", folder / "tiny.yaml", "--draws", 100, "--json", "-o", tmp_path / "s.nc")
    assert code == 0 and set(json.loads(out)) == {"a", "b", "y[...]"}
    assert (tmp_path / "s.nc").exists()


def test_graph(folder, capsys, tmp_path):
    code, _, _ = call(capsys, "graph", folder / "tiny.yaml", "-o", tmp_path / "g.svg")
    assert code == 0
    svg = (tmp_path / "g.svg").read_text()
    assert svg.startswith("<svg") and "obs × 4" in svg


def test_schema_accepts_the_shipped_models(capsys):
    code, out, _ = call(capsys, "schema")
    schema = json.loads(out)
    assert code == 0 and schema["$schema"].endswith("2020-12/schema")
    assert set(schema["required"]) == {"bayeslab", "model"}
    assert "nodes" in schema["$defs"]["Graph"]["properties"]


def test_new(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(capsys, "new", "mine")[0] == 0
    assert call(capsys, "check", "mine.yaml")[0] == 0
    text = Path("mine.yaml").read_text()
    Path("mine.yaml").write_text(text + "# edited\n")
    code, _, err = call(capsys, "new", "mine")
    assert code == 1 and "--force" in err and Path("mine.yaml").read_text().endswith("# edited\n")
    assert call(capsys, "new", "mine", "--force")[0] == 0 and Path("mine.yaml").read_text() == text
    assert call(capsys, "new", "no/such/folder/mine")[0] == 1


def test_learners_and_their_options_are_listed(capsys):
    status, out, _ = call(capsys, "learners")
    assert status == 0
    for word in registry.names("learners"):
        assert re.search(rf"^{word} ", out, re.MULTILINE), word
    status, out, _ = call(capsys, "learners", "knn")
    assert status == 0 and "n_neighbors  whole number or leave_one_out; default 5." in out
    _, out, _ = call(capsys, "learners", "logistic", "--json")
    described = json.loads(out)
    assert described["tasks"] == ["classification"] and described["options"]["C"]["default"] == 1.0
    refused(capsys, "option.unknown-word", "did you mean 'knn'", "learners", "knnn")


@pytest.mark.slow(why="statistical")
def test_usage_errors_are_exit_code_2(capsys):
    assert call(capsys, "fitt")[0] == 2
    assert call(capsys, "fit")[0] == 2
    assert call(capsys, "fit", "a.yaml", "--resume", "b")[0] == 2
    assert call(capsys, "check")[0] == 2
    for words in (
        ("fit", "a.yaml", "--set", "seed=3"),
        ("fit", "a.yaml", "--set", "progress=no"),
        ("fit", "a.yaml", "--draws", "5", "--set", "draws=6"),
        ("fit", "a.yaml", "--set", "draws=5", "--set", "draws=6"),
        ("check", "a.yaml", "--set", "method=map"),
        ("calibrate", "a.yaml", "--set", "n=3"),
        ("learn", "a.csv", "--seed", "0", "--set", "seed=3"),
    ):
        refused(capsys, "option.usage", rf"--set {words[-1]}|twice", *words, status=2)
    for option in (
        "--method map",
        "--seed 3",
        "--chains 7",
        "--set tune=3",
        "--target-accept 0.9",
        "--tune 5",
        "--backend machine",
    ):
        refused(capsys, "option.usage", "is for a new fit", "fit", "--resume", "runs/b", *option.split(), status=2)
    refused(capsys, "option.usage", "chains", "fit", "--resume", "b", "--data", "a.csv", "--chains", "2", status=2)
    assert call(capsys, "simulate", "a.yaml", "--draws", "0")[0] == 2


@pytest.mark.parametrize(("word", "function"), [("fit", fit), ("check", checked), ("calibrate", calibrate)])
def test_what_set_cannot_give_has_an_argument_or_an_option(word, function):
    """Each parameter of the function that a command calls, but the options of methods."""
    command = typer.main.get_command(command_line()).commands[word]
    there = {name for parameter in command.params for name in (*parameter.opts, parameter.metavar)}
    assert set(elsewhere(function).values()) <= there


@pytest.mark.parametrize(
    "words",
    [
        "fit a.yaml -d a.csv --data b.csv",
        "fit a.yaml --seed 1 --seed 1",
        "fit a.yaml --draws 1 --draws 2",
        "compare a.yaml --folds 2 --folds=3",
        "compare a.yaml --refit --no-refit",
        "predict runs/a -o a.csv -o b.csv",
        "learn a.csv --score bic --score bdeu",
    ],
)
def test_an_option_of_one_value_is_given_once(capsys, words):
    refused(capsys, "option.usage", "given twice", *words.split(), status=2)


def test_missing_runs_name_the_near_one(run, capsys):
    refused(capsys, "run.no-such-file", "tinny.*'tiny'", "show", run.parent / "tinny")


def test_debug_adds_the_traceback(capsys, tmp_path):
    _, _, err = call(capsys, "check", tmp_path / "none.yaml")
    assert "Traceback" not in err
    _, _, err = call(capsys, "check", tmp_path / "none.yaml", "--debug")
    assert "Traceback" in err


def test_version(capsys):
    code, out, _ = call(capsys, "--version")
    assert code == 0 and out.startswith("bayeslab ")


def test_help_is_light():
    """Half a second of start-up at most: nothing heavy may be imported for it, by any command."""
    code = (
        "import sys\nfrom bayeslab.cli import main\n"
        f"for command in {COMMANDS!r}:\n"
        "    try:\n        main([command, '--help'])\n    except SystemExit as e:\n"
        "        heavy = {'pymc', 'pytensor', 'arviz', 'numba', 'pandas', 'xarray', 'scipy', 'sklearn'} & set(sys.modules)\n"
        "        print('ended', command, e.code, sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ends = [line for line in done.stdout.splitlines() if line.startswith("ended")]
    assert ends == [f"ended {command} 0 []" for command in COMMANDS]
    assert all(f"Usage: bayeslab {command}" in done.stdout for command in COMMANDS)


@pytest.mark.slow(why="processes")
def test_a_closed_pipe_is_no_error(folder):
    code = "from bayeslab.cli import main; main(['schema'])"
    done = subprocess.run(
        f'{sys.executable} -c "{code}" | head -n 1', shell=True, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


@pytest.mark.slow(why="processes")
@pytest.mark.parametrize("closed", ["1", "2"])
def test_standard_streams_may_be_closed(closed):
    """As they are under a service: the answer counts, not who reads it."""
    model = Path(__file__).parents[2] / "models" / "radon.yaml"
    command = f'exec {closed}>&-; exec "{sys.executable}" -m bayeslab.cli check "{model}"'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def ctrl_c(compiled):
    if not compiled:
        raise KeyboardInterrupt
    try:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise SystemError("a compiled function") from error
    except SystemError as error:
        raise SystemError("the one that called it") from error


@pytest.mark.parametrize("compiled", [False, True])
def test_ctrl_c_before_there_is_a_result_says_how_to_go_on(folder, capsys, tmp_path, monkeypatch, compiled):
    with monkeypatch.context() as patch:
        exact = registry.load("engines", "exact")
        patch.setattr(exact, "ENGINE", replace(exact.ENGINE, run=lambda job: ctrl_c(compiled)))
        words = "fit", folder / "tiny.yaml", "--method", "exact", "--runs", tmp_path, "--name", "stopped"
        refused(capsys, "run.interrupted", "--resume .*stopped", *words, "-q", status=130)
    status, out, _ = call(capsys, "fit", "--resume", tmp_path / "stopped")
    assert status == 0 and "PASS" in out


def test_ctrl_c_outside_a_run_is_said(capsys, monkeypatch, folder):
    monkeypatch.setattr("bayeslab.fitting.checked", lambda *_, **__: ctrl_c(compiled=True))
    refused(capsys, "run.interrupted", "interrupted", "check", folder / "tiny.yaml", status=130)


@pytest.mark.slow(why="processes")
def test_more_than_one_ctrl_c_leaves_no_traceback(tmp_path):
    """Ctrl-C in the command, while it is reported, and while Python exits."""
    code = (
        "import atexit, functools, os, signal, sys\n"
        "import bayeslab.cli as cli\n"
        "press = lambda *_, **__: signal.raise_signal(signal.SIGINT)\n"
        "cli._failed, report = (lambda *words: (press(), report(*words))[1]), cli._failed\n"
        "from bayeslab import fitting\n"
        "fitting.checked = functools.wraps(fitting.checked)(lambda *_, **__: press())\n"
        "atexit.register(press)\n"
        "sys.argv = ['bayeslab', 'check', 'a.yaml']\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


def test_priors(folder, capsys, tmp_path):
    code, out, _ = call(capsys, "priors", folder / "tiny.yaml", "--draws", 100, "-o", tmp_path / "p.svg")
    assert code == 0 and "prior predictive" in out and (tmp_path / "p.svg").read_text().count("<svg") == 1
    code, out, _ = call(capsys, "priors", folder / "tiny.yaml", "--json")
    shown = json.loads(out)
    assert code == 0 and shown["priors"].keys() == {"a", "b"} and shown["outcomes"]["y"].keys() == {"prior", "data"}
    refused(capsys, "option.unknown-format", "priors.txt", "priors", folder / "tiny.yaml", "-o", "priors.txt")
