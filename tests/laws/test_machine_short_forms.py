"""Short forms as programs of the density machine are the models of their PyMC graphs, whatever their keys."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.families.gaussian_process.approximations import regression_of, vector_of
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.machine.evidence import python_evidence
from bayeslab.posterior.machine.program import Builder, Program
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
TABLE["hit"] = (TABLE["a"] > 0).astype(int)
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
    "states": process("a", "Matern32(t)", approximation="state_space", mean="b"),
    "inducing points": process("a", approximation="sparse", inducing=6),
    "inducing points, fitc": process("a", approximation="fitc", inducing=6),
    "basis functions": process("a", approximation="hsgp", functions=8),
    "basis functions of counts": process("c", approximation="hsgp", functions=8, likelihood="poisson"),
    "basis functions of heavy tails": process("a", approximation="hsgp", functions=8, likelihood="student_t", mean="b"),
    "basis functions of words": process(
        "hit", "Matern32(t)", approximation="hsgp", functions=6, likelihood="bernoulli",
        link="probit",
    ),
    "Laplace's approximation": process("c", approximation="laplace", likelihood="negative_binomial", mean="b"),
    "Laplace's approximation, heavy tails": process("a", approximation="laplace", likelihood="student_t"),
    "overdispersed counts": process("c", "Matern12(t)", likelihood="negative_binomial"),
}  # fmt: skip


def posterior(model):
    return Source(bl.Model(model=model)).posterior(TABLE)


def local(parents=(), **more):
    return {"states": ["no", "yes"], "parents": list(parents)} | more


def continuous(*parents, **given):
    return {"linear_gaussian": given, "parents": list(parents)}


NOISY = pd.DataFrame({v: np.array(["no", "yes"])[RNG.integers(0, 2, N)] for v in ("cold", "flu", "fever")})
COMPUTED = {
    "some rows": (NOISY, {"cold": local(table=[0.8, 0.2]), "fever": local(["cold"], table=["Beta(2, 1)", 0.9])}),
    "expressions": (
        NOISY,
        {"cold": local(table="a"), "fever": local(["cold"], table=["a * b", "1 - exp(-b)"])},
        {"a": "Beta(2, 2)", "b": "Beta(3, 1)"},
    ),
    "noisy or": (
        NOISY,
        {"cold": local(), "flu": local(), "fever": local(["cold", "flu"], noisy_or={"flu": "Beta(8, 2)", "leak": None})},
    ),
    "logit": (NOISY, {"cold": local(), "flu": local(), "fever": local(["cold", "flu"], logit={})}),
    "continuous": (
        TABLE,
        {"half": {"states": ["p", "q"]}, "a": continuous(), "b": continuous("half", "a"), "d": continuous("a", "b")},
    ),
    "continuous, partly known": (
        TABLE,
        {"a": continuous(intercept=0.1, sd=1.2), "b": continuous("a", intercept=1, sd=1, slopes={"a": 0.5}),
         "d": continuous("b")},
    ),
}  # fmt: skip


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", COMPUTED)
def test_a_net_of_computed_tables_or_continuous_variables_is_its_graph(name):
    table, variables, *parameters = COMPUTED[name]
    spec = {"family": "bayes_net", "variables": variables} | ({"parameters": parameters[0]} if parameters else {})
    same_as_its_graph(Source(bl.Model(model=spec)).posterior(table), name)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", CASES)
def test_a_short_form_is_its_graph(name):
    same_as_its_graph(posterior(CASES[name]), name)


def test_every_model_file_of_these_families_is_covered():
    families = {"mixture", "hmm", "gaussian_process", "latent_features", "bayes_net"}
    files = {path.stem for path in MODELS.glob("*.yaml") if bl.load(path).model.family in families}
    # Everything is given; numbers of components and of features that are sampled, unknown structures and decisions have
    # no density.
    given, sampled = {"umbrella", "asia", "sprinkler"}, {"geyser_number", "shapes"}
    structures = {"asia_structure", "birth_weight_structure", "crime_structure", "pumps_hidden", "sachs"}
    assert files == {*SHORT, *given, *sampled, *structures, "oil"}


def test_what_the_machine_does_not_know_is_named():
    with pytest.raises(NotLowered, match="no data"):
        Source(MODELS / "asia.yaml").posterior(None).machine_model()


@pytest.mark.parametrize(
    ("approximation", "more"),
    [("sparse", {}), ("hsgp", {"functions": 8}), ("laplace", {"likelihood": "poisson"})],
)
def test_gradients_of_approximations_are_those_of_finite_differences(approximation, more):
    target = "c" if more.get("likelihood") else "a"
    model = posterior(process(target, approximation=approximation, **more)).machine_model()
    rng, step = np.random.default_rng(0), 1e-5
    point = 0.3 * rng.standard_normal(model.program.n_dim)
    gradient = model.program.value_and_gradient(point)[1]
    for k, along in enumerate(np.eye(len(point))):
        ends = [model.program.value_and_gradient(point + sign * step * along)[0] for sign in (-1.0, 1.0)]
        assert gradient[k] == pytest.approx(np.subtract(*ends[::-1]) / (2 * step), rel=1e-5, abs=1e-5)


def test_the_likelihood_of_basis_functions_is_that_of_their_weights():
    """The program's value less the priors is the likelihood of a separate implementation, with weights as arguments."""
    model = posterior(process("c", approximation="hsgp", functions=6, likelihood="negative_binomial", mean="b"))
    machine, regression = model.machine_model(), regression_of(model.resolved)
    rng, parts = np.random.default_rng(2), Program(machine.builder, ["likelihood"])
    for _ in range(3):
        point = 0.5 * rng.standard_normal(machine.program.n_dim)
        values = {name: array[0] for name, array in machine.quantities(point[None]).items()}
        weights = values["_z"]
        flat = np.concatenate([vector_of(model.resolved, values), weights])
        expected = regression.log_likelihood(flat)[0]
        assert parts.value_and_gradient(point)[0] == pytest.approx(expected, rel=1e-10)


def test_an_evidence_that_raises_an_error_is_not_a_number():
    """A log density of 0, which ctypes returns for functions that raise errors, would be accepted."""

    def broken(point):
        if point[0] > 1.0:
            raise np.linalg.LinAlgError("not positive definite")
        return -0.5 * float(point @ point), -point

    builder = Builder()
    builder.add(python_evidence(broken, builder.parameter(2)))
    program = builder.finish()
    value, gradient = program.value_and_gradient([0.5, -1.0])
    assert value == program.value([0.5, -1.0]) == -0.625
    assert gradient.tolist() == [-0.5, 1.0]
    assert np.isnan(program.value_and_gradient([2.0, 0.0])[0])
    assert program.value_and_gradient([np.inf, 0.0])[0] == program.value([np.inf, 0.0]) == -np.inf


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
