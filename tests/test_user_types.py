"""A user's script under plain type checkers: what is right passes, what is misspelt is found before it runs."""

from __future__ import annotations

import ast
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import bayeslab as bl
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
posterior = bl.learn(table, "tabu").network().query({"x": 1.0})
names: list[str] = [name for name in posterior if name in posterior][: len(posterior)]
bl.compare({"a": fit, "b": fit})
intercepts = fit.posterior["Intercept"], fit.observed_data, fit.prior_predictive["y"], fit.children
# What a model file may say, classes take too.
bl.BayesNet(variables={"a": {"states": ["x", "y"]}, "b": {"states": ["u", "v"], "parents": ["a"]}})
bl.BayesNet(variables={"a": ["x", "y"], "b": {"linear_gaussian": {"sd": 1}, "parents": ["a"]}})
bl.BayesNet(variables={"a": [True, False], "b": [1, 2]}, prior=1)
bl.BayesNet(variables={"a": ["x", "y"]}, prior={"pseudocount": 2}, learn="all")
bl.BayesNet(structure={"score": "bdeu"})
bl.MarkovRandomField(
    variables={"a": ["x", "y"], "b": ["x", "y"]},
    potentials=[{"variables": ["a", "b"], "table": [[1, 2], [3, 4]]}],
)
bl.MarkovRandomField(grid={"observed": "x", "states": ["a", "b"], "coupling": 1, "noise": 0.1})
bl.Learner(learner="knn", target="y", n_neighbors=3)
bl.Graph(nodes={"m": "Normal(0, 1)", "k": 2, "v[b]": [1, 2]})
nodes = {"m": "Normal(0, 1)"}
priors = {"x": "Normal(0, 1)"}
emission = {"x": "gaussian"}
bl.Graph(nodes=nodes)
bl.Regression(formula={"mu": "y ~ x", "sigma": "~ x"}, priors=priors)
bl.HMM(columns=["x"], states=2, durations={"longest": 5, "law": "poisson"})
bl.HMM(columns=["x"], states={"from": 1, "to": 3}, emission=emission)
bl.HMM(columns=["x"], states=2, initial=[1, 0], transition=[[1, 0], [0, 1]])
bl.Hypotheses(observed="x", hypotheses={"a": {"prior": 0.5, "likelihood": {"h": 0.5, "t": 0.5}}})
"""
WRONG = """
import bayeslab as bl

bl.fit("m.yaml", sed=1)
bl.fit("m.yaml", draws="many")
bl.Regression(formla="y ~ x")
bl.fit("m.yaml").summry()
bl.BayesNet(varables={})
bl.HMM(columns=["x"], state=2)
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
    assert {line.partition("wrong.py:")[2].partition(":")[0] for line in errors} >= {
        "4", "5", "6", "7", "8", "9",
    }, done.stdout  # fmt: skip


CLASSES = (bl.BayesNet, bl.GaussianProcess, bl.Graph, bl.HMM, bl.Hypotheses, bl.Learner, bl.MarkovRandomField,
           bl.Mixture, bl.Regression)  # fmt: skip


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_types_for_checkers_have_every_key_of_a_class(kind):
    # What a checker reads is no code that runs: the parameters are read from the source.
    tree = ast.parse(Path(inspect.getfile(kind)).read_text())
    of_class = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    typed = next(node for node in of_class.body if isinstance(node, ast.If))
    (init,) = typed.body
    assert isinstance(init, ast.FunctionDef)
    parameters = {argument.arg for argument in init.args.kwonlyargs}
    assert parameters - {"network"} == kind.model_fields.keys() - {"options"}
    optional = {a.arg for a, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True) if default}
    assert parameters - optional == {name for name, field in kind.model_fields.items() if field.is_required()}


def test_a_misspelt_attribute_of_a_fit_names_the_nearest():
    fit = bl.fit(bl.Model(model=bl.Regression(formula="y ~ x")), {"x": [1.0, 2, 3, 5], "y": [1.0, 2, 2, 4]}, runs=None)
    for given, near in (("summry", "summary"), ("posteror", "posterior"), ("childern", "children")):
        with pytest.raises(AttributeError, match=f"did you mean '{near}'"):
            getattr(fit, given)
    assert not hasattr(fit, "zzz")
    assert "y" in fit.posterior_predictive
    assert list(fit.posterior_predictive) == ["y"]
    assert len(fit.posterior_predictive) == 1
