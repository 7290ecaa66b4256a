"""A job that samples structures, as a user runs it: started, killed, resumed, made longer, watched and stopped."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import bayeslab as bl
from tests.cli.calls import call, refused

MODEL = """\
bayeslab: 1
name: causes
data: {table: t.csv}
model:
  family: bayes_net
  structure: {score: bdeu, equivalent_sample_size: 1, exchange_every: 500, temperatures: [1, 0.5]}
inference: {method: structure, draws: 120, tune: 30, thin: 4000, chains: 3, segment: 10}
seed: 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model file, a table of six variables that depend on each other in a line, and the job without a break."""
    path, rng = tmp_path_factory.mktemp("job"), np.random.default_rng(0)
    columns = [rng.random(150) < 0.5]
    for _ in range(5):
        columns.append(rng.random(150) < np.where(columns[-1], 0.75, 0.3))
    rows = [",".join(f"v{i}" for i in range(6))]
    rows += [",".join("yes" if cell else "no" for cell in row) for row in np.array(columns).T]
    (path / "t.csv").write_text("\n".join(rows) + "\n")
    (path / "m.yaml").write_text(MODEL)
    return path


@pytest.fixture(scope="module")
def whole(folder):
    """The draws of a run that nothing happens to."""
    return bl.fit(folder / "m.yaml", runs=None, cores=1, progress=False).posterior["edge"].to_numpy()


def begin(*words: object) -> subprocess.Popen[bytes]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-m", "bayeslab.cli", *map(str, words)], start_new_session=True, **quiet)


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def segments(run: Path) -> int:
    """The number of complete segments; the name of one that is being written begins with a dot."""
    return len(list((run / "chains").rglob("[0-9]*.npz")))


def test_check_says_what_is_unknown_and_what_it_costs(folder, capsys):
    code, out, _ = call(capsys, "check", folder / "m.yaml")
    assert code == 0
    assert "DAGs of 6 variables, at most 3 parents, prior uniform" in out
    assert "156 parent sets, about 0 MB" in out and "structure, 2 temperatures" in out
    found = json.loads(call(capsys, "check", folder / "m.yaml", "--json")[1])
    assert found["unknown"]["score"] == "score bdeu was asked for" and found["outcomes"] == [f"v{i}" for i in range(6)]


@pytest.mark.slow(why="processes")
def test_killed_and_resumed_on_the_command_line(folder, whole, capsys):
    runs, moment = folder / "killed", random.Random(1)
    process, run = begin("fit", folder / "m.yaml", "--runs", runs, "--cores", 1), runs / "causes"
    until(lambda: segments(run) > 0)
    time.sleep(moment.uniform(0, 0.3))
    process.kill()
    assert process.wait() == -signal.SIGKILL
    kept = segments(run)
    assert 0 < kept < 45
    # As if the kill had come in the middle of a write.
    unfinished = run / "chains" / "chain-0" / ".000044.0123456789abcdef.npz"
    unfinished.write_bytes(b"PK")
    code, out, _ = call(capsys, "watch", run, "--once")
    assert code == 0 and "killed: go on with `bayeslab fit --resume`" in out
    refused(capsys, "run.no-result", "`bayeslab fit --resume`", "show", run)
    code, out, _ = call(capsys, "fit", "--resume", run, "--cores", 1, "--quiet")
    assert code in (0, 3) and "edge[" in out and segments(run) == 45
    assert not unfinished.exists()
    np.testing.assert_array_equal(bl.open(run).posterior["edge"], whole)


@pytest.mark.slow(why="processes")
def test_interrupted_by_ctrl_c_resumed_and_made_longer(folder, whole, capsys):
    runs = folder / "interrupted"
    process, run = begin("fit", folder / "m.yaml", "--runs", runs), runs / "causes"
    until(lambda: segments(run) >= 18)
    refused(capsys, "run.in-use", f"process {process.pid}", "fit", "--resume", run)
    # A terminal sends it to all processes that it runs, the workers among them.
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) in (0, 3)
    info = json.loads((run / "run.json").read_text())
    assert info["status"] == "interrupted" and bl.open(run).posterior.sizes["draw"] < 120
    assert any(f.check == "interrupted" for f in bl.open(run).verdict.findings)
    _, out, _ = call(capsys, "fit", "--resume", run, "--cores", 1, "--quiet", "--json")
    assert json.loads(out)["summary"]["n_edges"]["mean"] > 0
    np.testing.assert_array_equal(bl.open(run).posterior["edge"], whole)
    _, out, _ = call(capsys, "fit", "--resume", run, "--draws", "+30", "--cores", 1, "--quiet")
    longer = bl.open(run).posterior["edge"].to_numpy()
    assert longer.shape == (3, 150, 6, 6)
    np.testing.assert_array_equal(longer[:, :120], whole)
    refused(capsys, "option.usage", r"--draws.*\+N.*--resume", "fit", folder / "m.yaml", "--draws", "+30", status=2)


# The command leaves its background process to itself.
@pytest.mark.slow(why="processes")
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_detached_watched_and_stopped(folder, whole, capsys):
    runs = folder / "detached"
    words = ["fit", folder / "m.yaml", "--runs", runs, "--cores", 1, "--draws", 100_000, "--detach"]
    code, out, _ = call(capsys, *words)
    run, pid = runs / "causes", int(out.split("pid")[1].split()[0])
    assert code == 0 and str(run) in out and os.getsid(pid) == pid != os.getsid(0)
    until(lambda: segments(run) >= 12)
    code, out, _ = call(capsys, "watch", run, "--once")
    assert code == 0 and "running" in out and "/100,000" in out and "s left" in out
    found = json.loads(call(capsys, "watch", run, "--json")[1])
    assert found["pid"] == pid and found["state"] == "running" and len(found["chains"]) == 3
    assert 0 < found["chains"][0]["acceptance"]["edge"] < 1
    assert call(capsys, "stop", run)[0] == 0
    until(lambda: json.loads((run / "run.json").read_text())["status"] == "interrupted")
    os.waitpid(pid, 0)
    fit = bl.open(run)
    n = fit.posterior.sizes["draw"]
    np.testing.assert_array_equal(fit.posterior["edge"][:, : min(n, 120)], whole[:, :n])
    assert "verdict" in (run / "log.txt").read_text()
    refused(capsys, "run.finished", "interrupted", "stop", run)
    assert "stopped: go on with" in call(capsys, "watch", run, "--once")[1]


@pytest.mark.slow(why="processes")
def test_stopped_before_there_is_a_draw(folder, capsys):
    runs = folder / "early"
    process, run = begin("fit", folder / "m.yaml", "--runs", runs, "--cores", 1, "--tune", 100_000), runs / "causes"
    until(lambda: segments(run) >= 3)
    assert call(capsys, "stop", run)[0] == 0
    assert process.wait(timeout=60) == 1
    info = json.loads((run / "run.json").read_text())
    assert info["status"] == "interrupted" and "stopped before every chain had a draw" in info["error"]


def test_a_folder_of_another_kind(folder, capsys):
    refused(capsys, "run.no-such-file", "cause", "watch", folder / "killed" / "cause")
