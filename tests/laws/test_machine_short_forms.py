"""Short forms as programs of the density machine are the models of their PyMC graphs, whatever their keys."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.preparation import Source
from tests.laws.test_machine_models import SHORT, same_as_its_graph
from tests.models.shipped import MODELS

RNG, N = np.random.default_rng(0), 24
TABLE = pd.DataFrame(
    {
        "a": RNG.normal(size=N), "b": RNG.normal(size=N) + 1, "c": RNG.poisson(3, N),
        "k": np.array(["u", "v", "w"])[np.arange(N) % 3], "d": 2 * RNG.normal(size=N), "t": np.arange(float(N)),
        "half": np.repeat(["p", "q"], N // 2), "kind": np.repeat(["x", "y"], N // 2),
    }
)  # fmt: skip
TABLE["positive"] = np.exp(TABLE["b"])
TABLE["seldom"] = np.where(np.arange(N) % 4 == 1, None, TABLE["k"])
TABLE["rarely"] = np.where(np.arange(N) % 5 > 2, None, TABLE["half"])
TABLE["gaps"] = TABLE["a"].where(~np.isin(np.arange(N), (3, 7)))


def mixture(*columns, **more):
    return {"family": "mixture", "columns": list(columns), "components": 2} | more


def hmm(*columns, **more):
    return {"family": "hmm", "columns": list(columns), "states": 2} | more


def process(target, kernel="ExpQuad(t)", **more):
    return {"family": "gaussian_process", "target": target, "kernel": kernel} | more


def net(states, parents, **more):
    variables = {v: {"states": list(s), "parents": parents.get(v, [])} for v, s in states.items()}
    return {"family": "bayes_net", "variables": variables} | more


def features(*columns, **more):
    return {"family": "latent_features", "columns": list(columns)} | more


CASES = {
    "binary features": features("a", "b", "d", kind="binary", features=2),
    "factors of cells with gaps": features("gaps", "b", "d", kind="gaussian", features=1, noise="shared"),
    "matrices, with gaps": mixture("gaps", "b", covariance="full"),
    "one matrix": mixture("a", "b", covariance="tied"),
    "one scale": mixture("a", "b", covariance="spherical"),
    "t": mixture("gaps", "b", component="student_t"),
    "different columns": mixture(
        "gaps", "c", "k", component={"gaps": "gaussian", "c": "poisson", "k": "categorical"}
    ),
    "any distribution": mixture("positive", component="LogNormal"),
    "gate": mixture("a", gating=["b"]),
    "priors in the language": mixture(
        "a", "b", covariance="full", priors={"mean": "Normal(0, 5)", "sd": "HalfNormal(2)", "correlation": "LKJ(2)"}
    ),
    "regressions": {"family": "mixture", "regression": "a ~ b", "components": 2},
    "t of states": hmm("a", emission="student_t"),
    "matrices of states, with gaps": hmm("gaps", "b", covariance="full"),
    "any distribution of states": hmm("positive", emission="Weibull"),
    "from left to right": hmm("a", states=3, topology="left_right"),
    "stationary": hmm("c", emission="poisson", initial="stationary"),
    "second order": hmm("c", emission="poisson", order=2),
    "durations in a table": hmm("a", durations={"longest": 4, "law": "table"}),
    "regressions of states": hmm("a", inputs=["b"]),
    "transitions by a column": hmm("a", transitions_on=["b"]),
    "classes": hmm("a", classes="kind", sequence="half"),
    "Matern in time": process("a", "Matern32(t)"),
    "mean": process("a", mean="b"),
    "counts about a function": process("c", likelihood="poisson"),
    "net": net({"k": "uvw", "half": "pq", "kind": "xy"}, {"k": ["half"], "kind": ["half", "k"]}),
    "net with a hidden variable": net(
        {"class": "12", "k": "uvw", "half": "pq"}, {"k": ["class"], "half": ["class"]}, hidden=["class"]
    ),
    "net with gaps": net(
        {"seldom": "uvw", "rarely": "pq", "kind": "xy", "last": "12"},
        {"rarely": ["seldom"], "kind": ["seldom", "rarely"], "last": ["kind"]},
        hidden=["last"],
    ),
    "overdispersed counts": process("c", "Matern12(t)", likelihood="negative_binomial"),
}  # fmt: skip


def posterior(model):
    return Source(bl.Model(model=model)).posterior(TABLE)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", CASES)
def test_a_short_form_is_its_graph(name):
    same_as_its_graph(posterior(CASES[name]), name)


def test_every_model_file_of_these_families_is_covered():
    families = {"mixture", "hmm", "gaussian_process", "latent_features", "bayes_net"}
    files = {path.stem for path in MODELS.glob("*.yaml") if bl.load(path).model.family in families}
    # Everything is given; numbers of components and of features that are sampled, unknown structures and decisions have
    # no density; variables of a net that are continuous have a graph only.
    given, sampled = {"umbrella", "asia", "sprinkler"}, {"geyser_number", "shapes"}
    structures = {"asia_structure", "birth_weight_structure", "crime_structure", "pumps_hidden", "sachs"}
    assert files == {*SHORT, *given, *sampled, *structures, "oil", "timber_net"}


def test_what_the_machine_does_not_know_is_named():
    with pytest.raises(NotLowered, match="a continuous variable of a net"):
        Source(MODELS / "timber_net.yaml").posterior(None).machine_model()
    with pytest.raises(NotLowered, match="approximation: hsgp"):
        posterior(process("a", approximation="hsgp")).machine_model()


CODE = """
import sys
from bayeslab.cli import main
sys.argv = ["bayeslab", "fit", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert end.code in (None, 0, 3), end.code  # 3: the verdict of so few draws is a failure
print("LOADED", *sorted({"pymc", "pytensor", "arviz", "pandas"} & sys.modules.keys()))
"""


@pytest.mark.slow(why="processes")
@pytest.mark.parametrize("name", SHORT)
def test_a_fit_loads_neither_pymc_nor_pytensor(name, tmp_path):
    """From the start of the process to the verdict."""
    options = ["--method", "nuts", "--seed", "1", "--draws", "50", "--tune", "50", "--chains", "2"]
    file = str(MODELS / f"{name}.yaml")
    done = subprocess.run(
        [sys.executable, "-c", CODE, file, *options], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1].strip() == "LOADED", done.stdout[-2000:]


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("name", ["coal_regimes", "geyser_clusters", "orings", "crime_factors"])
def test_the_same_seed_gives_the_same_draws_on_any_number_of_cores(name):
    few = {"method": "nuts", "seed": 3, "draws": 40, "tune": 60, "chains": 2, "runs": None, "progress": False}
    first, second = (bl.fit(MODELS / f"{name}.yaml", cores=cores, **few).data_tree["posterior"] for cores in (1, 2))
    assert first.data_vars.keys() == second.data_vars.keys()
    for key in first.data_vars:
        np.testing.assert_array_equal(first[key], second[key])
