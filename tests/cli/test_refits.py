"""``bayeslab fit --watch``: a fit after each change of the files, and what changed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from bayeslab.cli.toolbox.refits import changes
from bayeslab.results.render import Table
from tests.models.shipped import MODELS


def table(**rows):
    """A summary with columns mean, sd and Monte Carlo error."""
    values = np.array(list(rows.values()), float).reshape(-1, 3)
    return Table(list(rows), dict(zip(("mean", "sd", "mcse_mean"), values.T, strict=True)))


def test_what_changed():
    before = table(a=(1.0, 0.5, 0.01), b=(0.0, 2.0, 0.05), old=(3.0, 1.0, 0.01), same=(1.0, 1.0, 0.1))
    after = table(a=(1.5, 0.4, 0.01), b=(1.0, 2.0, 0.05), same=(1.3, 1.0, 0.1), fresh=(0.0, 1.0, 0.1))
    assert changes(before, after) == [
        "changed",
        "  a  1 → 1.5 (+1 sd), sd 0.5 → 0.4",
        "  b  0 → 1 (+0.5 sd), sd 2 → 2",
        "  new: fresh",
        "  gone: old",
    ]
    assert changes(before, before) == ["nothing changed beyond Monte Carlo error"]


def test_many_changes_are_counted():
    before = table(**{f"x{i}": (0.0, 1.0, 0.01) for i in range(20)})
    after = table(**{f"x{i}": (1.0 + i, 1.0, 0.01) for i in range(20)})
    lines = changes(before, after)
    assert lines[1] == "  x19  0 → 20 (+20 sd), sd 1 → 1"
    assert lines[-1] == "  … and 8 more"


def _waits_for(path, words, many, process):
    for _ in range(600):
        if path.read_text().count(words) >= many:
            return
        assert process.poll() is None
        time.sleep(0.1)
    raise AssertionError(path.read_text())


@pytest.mark.slow(why="processes")
def test_a_saved_file_is_fitted_again(tmp_path):
    (tmp_path / "data").mkdir()
    data = tmp_path / "data" / "eight_schools.csv"
    data.write_text((MODELS / "data" / "eight_schools.csv").read_text())
    file, out, err = (tmp_path / name for name in ("m.yaml", "out.txt", "err.txt"))
    text = (MODELS / "eight_schools.yaml").read_text()
    file.write_text(text)
    command = [sys.executable, "-m", "bayeslab", "fit", str(file), "--watch", "--quiet"]
    with out.open("w") as stdout, err.open("w") as stderr:
        process = subprocess.Popen(
            command, stdout=stdout, stderr=stderr, cwd=tmp_path, env=os.environ | {"PYTHONUNBUFFERED": "1"}
        )
        try:
            _waits_for(err, "watching", 1, process)
            file.write_text(text.replace("Normal(0, 5) ", "Normal(9, 1) "))
            _waits_for(err, "watching", 2, process)
            file.write_text(text + "  bad: [")
            _waits_for(err, "watching", 3, process)
            file.write_text(text)
            _waits_for(err, "watching", 4, process)
            data.write_text(data.read_text().replace("28", "38"))
            _waits_for(err, "watching", 5, process)
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        finally:
            process.kill()
    shown, complaints = out.read_text(), err.read_text()
    assert shown.count("verdict     pass") == 4
    assert shown.count("\nchanged\n  ") == 3
    assert "  mu  " in shown
    assert "not valid YAML" in complaints
    assert "Traceback" not in complaints
    assert not (tmp_path / "runs").exists()
