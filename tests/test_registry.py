"""Plug-ins: each of bayeslab's own keeps its contract, and other projects add theirs by entry points."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bayeslab import registry
from tests.refusals import refused

# The worked example of the documentation.
COIN = re.search(
    r'```python\n("""Family ``coin``.*?)```',
    (Path(__file__).parents[1] / "docs" / "extending.md").read_text(),
    re.DOTALL,
)[1]


@pytest.mark.parametrize("package", registry.CONTRACTS)
def test_our_plug_ins_keep_their_contract(package):
    names = registry.names(package)
    assert names
    for name in names:
        registry.load(package, name)


@pytest.fixture
def other_project(tmp_path):
    """A folder on the path of Python in which a project called ``coins`` is installed."""

    def install(text: str, points: str) -> Path:
        (tmp_path / "coins.py").write_text(text)
        info = tmp_path / "coins-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: coins\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)
        return tmp_path

    return install


def said(folder: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parents[1])])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_worked_example_is_short():
    assert len(COIN.splitlines()) < 60


@pytest.mark.slow(why="processes")
def test_a_family_of_another_project(other_project):
    """The worked example, installed: seven heads of ten tosses, whose posterior is Beta(8, 4)."""
    folder = other_project(COIN, "[bayeslab.families]\ncoin = coins\nhmm = coins\n")
    out = said(
        folder,
        "import bayeslab as bl\n"
        "from bayeslab import registry\n"
        "from bayeslab.errors import ModelError\n"
        "model, data = bl.Model(model={'family': 'coin', 'heads': 'y'}), {'y': [1] * 7 + [0] * 3}\n"
        "bl.check(model, data)\n"
        "try:\n"
        "    bl.check(model, {'x': [0, 1]})\n"
        "except ModelError as error:\n"
        "    print(error.code)\n"
        "print('coin' in registry.names('families'), registry.load('families', 'hmm').__name__)\n"
        "fit = bl.fit(model, data, 'grid', seed=1, draws=2000, progress=False, runs=None)\n"
        "print(float(fit.posterior['bias'].mean()), float(fit.posterior['bias'].std()))\n"
        "print(float(fit.predict(None, 'draws')['y'].mean()))\n",
    )
    code, names, moments, predicted = out.splitlines()
    assert code == "model.unknown-column" and names == "True bayeslab.families.hmm"
    mean, sd = map(float, moments.split())
    truth, spread = 8 / 12, np.sqrt(8 * 4 / (12**2 * 13))
    assert abs(mean - truth) < 5 * spread / np.sqrt(8000)
    assert sd == pytest.approx(spread, rel=0.05)
    assert abs(float(predicted) - truth) < 5 * np.sqrt(truth * (1 - truth) / 8000)


def test_a_plug_in_that_lacks_a_part(other_project):
    folder = other_project("Options = None\n", "[bayeslab.engines]\nguess = coins\ngone = nowhere_at_all\n")
    code = (
        "from bayeslab import registry\n"
        "from bayeslab.errors import ModelError\n"
        "for name in ('guess', 'gone'):\n"
        "    try:\n"
        "        registry.load('engines', name)\n"
        "    except ModelError as error:\n"
        "        print(error)\n"
    )
    lacking, gone = said(folder, code).splitlines()
    assert lacking == "coins is not a plug-in of 'engines': it lacks ENGINE"
    assert gone.startswith("the method 'gone' of another project cannot be imported")


def test_an_unknown_word():
    with refused("model.unknown-word", "'nut'.*'nuts'"):
        registry.load("engines", "nut")


TWICE = '''
"""Twice: a normal number, doubled."""
from bayeslab.distributions import Distribution

DECLARATION = Distribution("TwiceNormal", ("mu", "sigma"))


def pymc_class():
    import pymc as pm

    class Twice(pm.Normal):
        @classmethod
        def dist(cls, mu, sigma, **rest):
            return pm.Normal.dist(2 * mu, 2 * sigma, **rest)

    return Twice
'''


@pytest.mark.slow(why="processes")
def test_a_distribution_of_another_project(other_project):
    folder = other_project(TWICE, "[bayeslab.distributions]\ntwice_normal = coins\n")
    out = said(
        folder,
        "import bayeslab as bl\n"
        "model = bl.Model(model={'family': 'graph', 'nodes': {'m': 'Normal(0, 1)', 'y[obs_id]': 'TwiceNormal(m, 1)'}})\n"
        "graph = bl.to_pymc(model, {'y': [0.0, 1.0]})\n"
        "print(float(graph.compile_logp()({'m': 0.5})))\n",
    )
    # Normal(0.5; 0, 1), then Normal(0; 1, 2) and Normal(1; 1, 2).
    assert float(out) == pytest.approx(-0.125 - 0.125 - 1.5 * np.log(2 * np.pi) - 2 * np.log(2))
