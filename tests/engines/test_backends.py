"""What evaluates the density: the density machine where it knows the model, else PyTensor; both give the posterior."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.engines.toolbox.nutpie_adapter import library
from bayeslab.posterior.contract import posterior_of
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source, machine_of
from tests.refusals import refused

SCHOOLS = pd.DataFrame(
    {"school": list("ABCDEFGH"), "effect": [28.0, 8, -3, 7, -1, 1, 18, 12], "se": [15.0, 10, 16, 11, 9, 11, 10, 18]}
)
NODES = {
    "mu": "Normal(0, 5)",
    "tau": "HalfNormal(5)",
    "z[school]": "Normal(0, 1)",
    "theta[school]": "mu + tau * z",
    "effect[school]": "Normal(theta, se)",
}
#: A sampled node depends on a discrete one.
BELOW = {"k": "Bernoulli(0.5)", "m": "Normal(k, 1)", "y[obs_id]": "Poisson(exp(m))"}


def model(nodes=NODES, rows="school"):
    return bl.Model(model={"family": "graph", "nodes": nodes}, data={"rows": rows})


def fitted(**options):
    return bl.fit(model(), SCHOOLS, method="nuts", seed=1, progress=False, runs=None, **options)


def machine(nodes, data, backend="auto", rows="obs_id"):
    source = Source(model(nodes, rows))
    options = type("Options", (), {"backend": backend})()
    return machine_of(source.posterior(source.bound(data).dataset), options)


@pytest.mark.slow(why="statistical")
def test_both_backends_sample_the_same_posterior():
    fits = [fitted(backend=word, draws=2000, target_accept=0.95) for word in ("machine", "pytensor")]
    tables = [fit.summary() for fit in fits]
    for name in ("mu", "tau", "theta[A]"):
        mine, theirs = (table.loc[name] for table in tables)
        error = np.hypot(mine["mcse_mean"], theirs["mcse_mean"])
        assert abs(mine["mean"] - theirs["mean"]) < 5 * error, name
    first, second = (fit.data_tree for fit in fits)
    assert first.groups == second.groups
    for group in ("posterior", "observed_data", "constant_data", "unconstrained_posterior"):
        mine, theirs = first[group], second[group]
        assert {n: (v.dims, v.shape) for n, v in mine.data_vars.items()} == {
            n: (v.dims, v.shape) for n, v in theirs.data_vars.items()
        }
        assert {n: v.values.tolist() for n, v in mine.coords.items()} == {
            n: v.values.tolist() for n, v in theirs.coords.items()
        }
    for group in ("observed_data", "constant_data"):
        for name, value in first[group].data_vars.items():
            np.testing.assert_array_equal(value, second[group][name])


LASSO = {"a": "Normal(0, 2)", "s": "HalfNormal(1)", "b[k]": "Laplace(0, 0.02)", "y[obs_id]": "Normal(a + X @ b, s)"}
MODES = {
    "posterior": (NODES | {"tau": "Gamma(3, 1)"}, {}),  # with a mode away from zero
    "likelihood": ({"m": "Normal(0, 1)", "s": "HalfNormal(1)", "y[obs_id]": "Normal(m, s)"}, {"prior": "ignore"}),
    "lasso": (LASSO, {}),
}


def rows():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(30, 4))
    return {"X": x, "y": 1.0 + x @ [2.0, 0.0, 0.0, -1.0] + 0.3 * rng.normal(size=30)}


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("kind", MODES)
def test_both_backends_have_the_same_mode(kind):
    nodes, options = MODES[kind]
    data = SCHOOLS if nodes is not LASSO and "effect[school]" in nodes else rows()
    data = {"y": data["y"]} if kind == "likelihood" else data
    dims = {"X": ["obs_id", "k"]} if kind == "lasso" else {}
    spec = bl.Model(
        model={"family": "graph", "nodes": nodes},
        data={"rows": "school" if data is SCHOOLS else "obs_id", "dims": dims},
    )
    fits = [
        bl.fit(spec, data, "map", seed=1, progress=False, runs=None, backend=word, **options)
        for word in ("machine", "pytensor")
    ]
    for name, mine in fits[0].posterior.data_vars.items():
        theirs = fits[1].posterior[name].to_numpy()
        np.testing.assert_allclose(mine.to_numpy(), theirs, rtol=1e-7, atol=1e-7, err_msg=name)
        np.testing.assert_array_equal(mine.to_numpy() == 0, theirs == 0)
    if kind == "likelihood":  # which is in closed form
        y = rows()["y"]
        assert fits[0].posterior["m"].item() == pytest.approx(y.mean(), rel=1e-7)
        assert fits[0].posterior["s"].item() == pytest.approx(y.std(), rel=1e-7)


PAIR = {"m": "Normal(0, 2)", "s": "Gamma(3, 2)", "y[obs_id]": "Normal(m, s)"}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"tau": -1.0}, "option.out-of-range"),
        ({"tau": [1.0, 2.0]}, "option.wrong-shape"),
        ({"z": 1.0}, "option.wrong-shape"),
        ({"z": "high"}, "option.wrong-type"),
        ({"mu": float("nan")}, "option.not-finite"),
        ({"nu": 1.0}, "option.unknown-parameter"),
    ],
)
def test_starting_values_are_checked_without_a_graph(given, code):
    with refused(code, "initvals"):
        bl.fit(model(), SCHOOLS, "map", seed=1, progress=False, runs=None, backend="machine", initvals=given)


@pytest.mark.slow(why="compiles")
def test_both_backends_have_the_same_grid():
    y = {"y": np.random.default_rng(8).normal(1.0, 2.0, 12)}
    spec = bl.Model(model={"family": "graph", "nodes": PAIR})
    fits = [
        bl.fit(spec, y, "grid", seed=1, progress=False, runs=None, backend=word, draws=50)
        for word in ("machine", "pytensor")
    ]
    mine, theirs = (fit.data_tree["exact_posterior"].to_dataset() for fit in fits)
    assert mine.attrs["log_evidence"] == pytest.approx(theirs.attrs["log_evidence"], abs=1e-9)
    for name, values in theirs.data_vars.items():
        np.testing.assert_allclose(mine[name], values, rtol=1e-6, err_msg=name)


@pytest.mark.slow(why="compiles")
def test_both_backends_have_the_same_evidence_by_smc():
    y = {"y": np.random.default_rng(8).normal(1.0, 2.0, 12)}
    spec = bl.Model(model={"family": "graph", "nodes": PAIR})
    exact = bl.fit(spec, y, "grid", seed=1, progress=False, runs=None, draws=50)
    truth = exact.data_tree["exact_posterior"].attrs["log_evidence"]
    for word in ("machine", "pytensor"):
        attrs = bl.fit(spec, y, "smc", seed=1, progress=False, runs=None, backend=word).posterior.attrs
        assert abs(attrs["log_evidence"] - truth) < 5 * attrs["log_evidence_sd"] / 2.0 + 0.01  # of four runs


@pytest.mark.slow(why="statistical")
def test_priors_of_ordered_numbers_that_differ_are_drawn_until_the_order_holds():
    """The larger of two numbers with one distribution, and a number above another with a far lower mean."""
    data = {"y": np.zeros(2), "at": np.array([0.0, 3.0])}
    alike = {"c[k]": "Ordered(Normal(0, 1))", "y[obs_id]": "Normal(sum(c), 1)"}
    apart = {"c[k]": "Ordered(Normal(at, 1))", "y[obs_id]": "Normal(sum(c), 1)"}
    for nodes, means in ((alike, (-1 / np.sqrt(np.pi), 1 / np.sqrt(np.pi))), (apart, None)):
        spec = bl.Model(model={"family": "graph", "nodes": nodes}, data={"dims": {"at": ["k"]}}, dims={"k": 2})
        source = Source(spec)
        density = MachineDensity(source.posterior(source.bound(data).dataset).machine_model(), lambda: None)
        points = np.stack(density.prior_points(1, 2000, 100_000))
        first, second = points[:, 0], points[:, 0] + np.exp(points[:, 1])
        assert len(points) == 2000
        if means is None:
            rng = np.random.default_rng(2)
            pairs = rng.normal([0.0, 3.0], 1.0, (100_000, 2))
            means = pairs[pairs[:, 0] < pairs[:, 1]].mean(axis=0)
        for drawn, mean in zip((first, second), means, strict=True):
            assert abs(drawn.mean() - mean) < 5 * drawn.std() / np.sqrt(2000)


@pytest.mark.slow(why="statistical")
def test_draws_follow_from_the_seed_on_any_number_of_cores():
    one, two = (fitted(backend="machine", draws=200, tune=200, chains=2, cores=cores) for cores in (1, 2))
    for name, value in one.posterior.data_vars.items():
        np.testing.assert_array_equal(value, two.posterior[name])


def test_a_model_that_the_machine_does_not_know_is_left_to_pytensor():
    data = {"x": np.array([0.0, 1.0, 2.0]), "y": np.array([0, 3, 1])}
    known, note = machine(BELOW, data)
    assert known is None
    assert note.startswith("k: a discrete node")
    with refused("model.unsupported", "k: a discrete node.*backend"):
        machine(BELOW, data, "machine")
    assert machine({"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, 1)"}, data)[0] is not None
    assert machine({"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, 1)"}, data, "pytensor") == (None, "")


def test_a_short_form_without_a_program_says_so():
    source = Source(bl.Model(model={"family": "topics", "text": "text", "topics": 2}))
    bound = source.bound(pd.DataFrame({"text": ["sun rain sun", "rain wind", "sun sun wind"]}))
    known, note = machine_of(posterior_of(source.model, bound), type("Options", (), {"backend": "auto"})())
    assert known is None
    assert "topics" in note


@pytest.mark.slow(why="processes")
def test_a_fit_on_the_machine_compiles_and_imports_nothing_heavy(tmp_path):
    (tmp_path / "data.csv").write_text(SCHOOLS.to_csv(index=False))
    code = """
import sys, json
import bayeslab as bl
spec = {"family": "graph", "nodes": json.loads(sys.argv[1])}
model = bl.Model(model=spec, data={"rows": "school"})
for method in ("nuts", "map", "laplace", "smc"):
    more = {"tune": 100} if method == "nuts" else {}
    draws = {} if method == "map" else {"draws": 100}
    bl.fit(model, sys.argv[2], method=method, seed=1, progress=False, runs=None, **draws, **more)
start = {"tau": 3.0, "z": [0.1] * 8}
bl.fit(model, sys.argv[2], method="map", seed=1, progress=False, runs=None, initvals=start)
pair = {"family": "graph", "nodes": {"mu": "Normal(0, 5)", "tau": "HalfNormal(5)", "effect[school]": "Normal(mu, tau)"}}
bl.fit(bl.Model(model=pair, data={"rows": "school"}), sys.argv[2], method="grid", seed=1, progress=False, runs=None)
heavy = ("pymc", "pytensor", "arviz", "nutpie", "numba")
print(json.dumps([name for name in heavy if name in sys.modules]))
"""
    command = [sys.executable, "-c", code, json.dumps(NODES), str(tmp_path / "data.csv")]
    for _ in range(2):  # the first may compile kernels that this computer has not had yet
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_nutpie_is_loaded_once():
    compiled = library()
    import nutpie

    assert nutpie._lib is compiled
