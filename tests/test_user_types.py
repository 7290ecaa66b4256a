"""A user's script under plain type checkers: what is right passes, what is misspelt is found before it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from bayeslab.engines.toolbox.contract import engines
from bayeslab.options import FitOptions

ROOT = Path(__file__).parents[1]

RIGHT = """
import bayeslab as bl

table = {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.5, 2.9]}
line = bl.Model(model=bl.Regression(formula="y ~ x"), name="line", seed=1)
graph = bl.Model(model=bl.Graph(nodes={"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, 1)"}))
mixture = bl.Model(model=bl.Mixture(columns=["x"], components=2))
chain = bl.Model(model=bl.HMM(columns=["x"], states=2))
process = bl.Model(model=bl.GaussianProcess(target="y", kernel="ExpQuad(x)"))
fit = bl.fit(line, table, draws=500, chains=2, seed=1, initvals={"sigma": 1.0}, runs=None)
status: str = fit.verdict.status
bl.learn(table, "tabu").network().query({"x": 1.0})
bl.compare({"a": fit, "b": fit})
"""
WRONG = """
import bayeslab as bl

bl.fit("m.yaml", sed=1)
bl.fit("m.yaml", draws="many")
bl.Regression(formla="y ~ x")
"""


def test_the_type_of_options_knows_every_option():
    assert set(get_type_hints(FitOptions)) == {
        name for each in engines().values() for name in each.options.model_fields
    }


@pytest.mark.slow(why="processes")
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_users_script(checker, tmp_path):
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    if checker == "mypy":
        (tmp_path / "mypy.ini").write_text("[mypy]\n")
        command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "right.py", "wrong.py"]
    else:
        if (found := shutil.which("pyright")) is None:
            pytest.skip("pyright is not on this machine")
        command = [found, "--pythonpath", sys.executable, "right.py", "wrong.py"]
    paths = {"MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | paths, capture_output=True, text=True, check=False, timeout=600
    )
    errors = [line for line in done.stdout.splitlines() if "error" in line and ".py:" in line]
    assert not [line for line in errors if "right.py" in line], done.stdout
    assert {line.partition("wrong.py:")[2].partition(":")[0] for line in errors} >= {"4", "5", "6"}, done.stdout
