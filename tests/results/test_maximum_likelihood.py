"""The maximum of the likelihood by the density machine is that of the PyMC graph, and that of a closed form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.families.graph.posterior import GraphPosterior
from bayeslab.families.regression.posterior import RegressionPosterior
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.results.likelihood import maximise

rng = np.random.default_rng(0)
X = rng.normal(size=40)
TABLE = pd.DataFrame({"x": X, "y": 1 + 2 * X + rng.normal(size=40), "g": np.arange(40) % 4})
MODELS = {
    "graph": {"family": "graph", "nodes": {"a": "Normal(0, 10)", "b": "Normal(0, 10)", "s": "HalfNormal(5)", "tau": "HalfNormal(1)",
              "unused": "Normal(0, tau)", "y[row]": "Normal(a + b * x, s)"}},
    "regression": {"family": "regression", "formula": "y ~ x"},
}  # fmt: skip


def not_lowered(self, weights=None):
    raise NotLowered("test", "left to the graph")


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", MODELS)
def test_the_maximum_is_that_of_the_graph_and_of_least_squares(name, monkeypatch):
    model = bl.Model(model=MODELS[name], data={"rows": "row"})
    fit = bl.fit(model, TABLE, method="nuts", draws=50, tune=100, chains=2, runs=None, seed=1, progress=False)
    terms = fit.log_likelihood()["y"].to_numpy().reshape(100, -1)
    mine = maximise(fit, ["y"], terms)
    for posterior in (GraphPosterior, RegressionPosterior):
        monkeypatch.setattr(posterior, "machine_model", not_lowered)
    theirs = maximise(fit, ["y"], terms)
    residual = TABLE["y"] - np.polyval(np.polyfit(X, TABLE["y"], 1), X)
    exact = -20 * (np.log(2 * np.pi * (residual**2).mean()) + 1)
    assert mine.log_likelihood == pytest.approx(exact, abs=1e-5)
    assert theirs.log_likelihood == pytest.approx(exact, abs=1e-5)
    assert (mine.n_parameters, mine.n_obs) == (theirs.n_parameters, theirs.n_obs) == (3, 40)
