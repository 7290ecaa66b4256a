"""One seed, independent streams: what is combined never comes from the same random numbers."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.streams import derived, stream
from tests.sources import nodes

PACKAGE = Path(bl.__file__).parent


def test_purposes_are_independent_and_repeatable() -> None:
    assert np.array_equal(stream(1, "predict").random(5), stream(1, "predict").random(5))
    everything = {
        "bare": np.random.default_rng(1),
        "chain": np.random.default_rng(1).spawn(1)[0],
        "predict": stream(1, "predict"),
        "chain of predict": stream(1, "predict").spawn(1)[0],
        "prior": stream(1, "prior"),
        "other seed": stream(2, "predict"),
    }
    numbers = np.array([rng.standard_normal(4000) for rng in everything.values()])
    apart = np.corrcoef(numbers)[np.triu_indices(len(numbers), 1)]
    assert np.abs(apart).max() < 4.5 / np.sqrt(4000)
    assert len({derived(1, "a"), derived(1, "b"), derived(2, "a"), derived((1, 2), "a")}) == 4
    assert derived(1, "a", 32) < 1 << 32


@pytest.mark.slow(why="compiles")
def test_only_engines_take_the_bare_seed() -> None:
    """Elsewhere a generator is an argument, has a constant seed, or the stream of a purpose."""
    engines = {
        "exact",
        "laplace",
        "advi",
        "grid",
        "pathfinder",
        "em",
        "map",
        "variational",
        "gibbs",
        "smc",
        "stepped",
        "loopy",
    }
    offenders = []
    for path in PACKAGE.rglob("*.py"):
        if "engines" in path.parts and path.stem in engines:
            continue
        for node in nodes(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("random.default_rng") and node.args:
                given = ast.unparse(node.args[0])
                if (given.endswith("seed") and given != "seed") or (given == "seed" and "results" in path.parts):
                    offenders.append(f"{path.relative_to(PACKAGE)}: {given}")
    assert not offenders


def _fit(method: str) -> bl.Fit:
    nodes = {"a": "Normal(0, 10)", "y[obs]": "Normal(a, 1)"}
    model = bl.Model(name="m", data={"rows": "obs"}, model={"family": "graph", "nodes": nodes})
    options = {"chains": 2, "draws": 1000} | ({"tune": 500, "progress": False} if method == "nuts" else {})
    return bl.fit(model, method=method, data={"y": [3.0]}, seed=1, runs=None, **options)


@pytest.mark.parametrize("method", ["exact", "laplace", pytest.param("nuts", marks=pytest.mark.slow(why="compiles"))])
def test_noise_of_predictions_is_independent_of_the_parameters(method: str) -> None:
    fit = _fit(method)
    fit.posterior_predictive()
    drawn = fit.data_tree["posterior_predictive"]["y"].to_numpy().reshape(-1)
    a = fit.posterior["a"].to_numpy().reshape(-1)
    n = len(a)
    # a | y is normal with variance 100 / 101; the draws of NUTS are worth a third of as many independent ones.
    assert abs(np.corrcoef(a, drawn - a)[0, 1]) < 4.5 / np.sqrt(n)
    assert (drawn - a).std() == pytest.approx(1, abs=4.5 / np.sqrt(2 * n))
    assert drawn.std() == pytest.approx(
        np.sqrt(1 + 100 / 101), rel=4.5 / np.sqrt(2 * n / (3 if method == "nuts" else 1))
    )


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", [None, 1, 7])
def test_regression_predicts_with_the_spread_of_the_closed_form(rows: int, seed: int | None) -> None:
    priors = {"Intercept": "Normal(0, 10)", "b": "Normal(0, 10)", "sigma": 1}
    model = bl.Model(
        name="m", data={"rows": "obs"}, model={"family": "regression", "formula": "y ~ x", "priors": priors}
    )
    fit = bl.fit(model, data={"y": [3.0, 1.0], "x": [0.0, 1.0]}, runs=None, **({} if seed is None else {"seed": seed}))
    x = np.arange(rows) % 2.0
    seen, new = np.array([[1.0, 0.0], [1.0, 1.0]]), np.column_stack((np.ones(rows), x))
    covariance = new @ np.linalg.inv(seen.T @ seen + np.eye(2) / 100) @ new.T
    expected = np.sqrt(np.diag(covariance) + 1)
    error = 4.5 / np.sqrt(2 * fit.posterior["sigma" if "sigma" in fit.posterior else "Intercept"].size)
    assert fit.predict({"x": x})["sd"].to_numpy() == pytest.approx(expected, rel=error)


@pytest.mark.slow(why="statistical")
def test_noise_of_predictions_is_independent_of_what_a_gibbs_sampler_drew() -> None:
    spec = {"family": "mixture", "columns": ["y"], "components": 1, "component": "gaussian"}
    model = bl.Model(name="m", data={"rows": "obs"}, model=spec)
    data = {"y": [-1.0, 0.5, 2.0, 1.0, 0.3]}
    fit = bl.fit(model, method="gibbs", data=data, seed=1, runs=None, chains=2, draws=1000, tune=50, progress=False)
    fit.posterior_predictive()
    drawn = fit.data_tree["posterior_predictive"]["y"].to_numpy().reshape(-1, 5)
    mean, sd = (fit.posterior[name].to_numpy().reshape(-1, 1) for name in ("mean", "sd"))
    noise = (drawn - mean) / sd
    values = np.column_stack((mean, np.log(sd), noise))
    limit = 4.5 / np.sqrt(len(values))
    apart = np.corrcoef(values.T)[2:] - np.eye(5, 7, 2)
    assert np.abs(apart).max() < limit
    assert noise.std(axis=0) == pytest.approx(np.ones(5), abs=limit)
