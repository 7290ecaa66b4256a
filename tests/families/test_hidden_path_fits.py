"""Engines on models of hidden paths: the same states come back, renamed to agree; predictions follow the path."""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.results.decode import decode
from tests.refusals import refused

NODES = {
    "P[state, next_state]": "Dirichlet(1)",
    "z[t]": "MarkovChain(P, initial=stationary)",
    "rate[state]": "Gamma(2, 0.5)",
    "y[t]": "Poisson(rate[z])",
}
MODEL = bl.Model(
    data={"rows": "t"},
    dims={"state": ["low", "high"], "next_state": "state"},
    model={"family": "graph", "nodes": NODES},
)


def simulated(n=40):
    rng = np.random.default_rng(0)
    z = [0]
    for _ in range(n - 1):
        z.append(int(rng.random() < [0.1, 0.9][z[-1]]))
    y = rng.poisson(np.array([1.0, 6.0])[z]).astype(float)
    y[[7, 20]] = np.nan
    return np.array(z), y


Z, Y = simulated()


def test_no_path_is_no_path_to_decode():
    nodes = {"rate": "Gamma(2, 0.5)", "y[t]": "Poisson(rate)"}
    model = bl.Model(data={"rows": "t"}, model={"family": "graph", "nodes": nodes})
    with refused("model.other-family"):
        decode(model, {"y": Y})


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("method", ["map", "laplace", "pathfinder", "nuts"])
def test_engines_find_the_states_again(method):
    options = {"nuts": {"draws": 300, "tune": 300, "chains": 2}, "map": {}}.get(method, {"draws": 300})
    fit = bl.fit(MODEL, data={"y": Y}, method=method, seed=1, runs=None, progress=False, **options)
    rate = fit.posterior["rate"].to_numpy().mean(axis=(0, 1))
    states = fit.decode()
    assert states.attrs["draws"] == (1 if method == "map" else 200)
    if method == "map":
        assert "z" not in fit.posterior  # of a mode the path is decoded
        named = np.argsort(rate)
    else:
        assert rate[0] < rate[1]  # renamed to agree, and numbered by the rate
        named = np.arange(2)
        assert any(finding.check == "relabelled" for finding in fit.verdict.findings)
        np.testing.assert_allclose(
            fit.posterior["z"].to_numpy().mean(axis=(0, 1)),
            fit.decode(method="smooth")["P(state=high)"],
            atol=0.12,
        )
    np.testing.assert_allclose(rate[named], [1.1, 6.6], atol=0.8)
    found = np.array(["low", "high"])[named]
    assert np.mean(states["state"].to_numpy() == found[Z]) > 0.9
    # Replications follow the path, and missing cells have them as well.
    mean = fit.predict()["mean"].to_numpy()
    assert mean[Z == 1].mean() > mean[Z == 0].mean() + 3
    # Rows ahead go on with the chain.
    ahead = fit.predict({"y": np.append(Y, [np.nan] * 30)})
    settled = float(np.sum(mean) / len(mean))
    assert abs(ahead["mean"].to_numpy()[-1] - settled) < 2
    terms = fit.log_likelihood()["y"]
    assert terms.shape[2:] == (40,)
    assert np.allclose(terms[..., 7], 0.0)
