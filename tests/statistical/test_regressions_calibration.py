"""Ranks of parameters in their posteriors are uniform for regressions of several responses that share all they can."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl

RNG, N = np.random.default_rng(3), 24
ROWS = pd.DataFrame(
    {"x": RNG.normal(size=N), "g": np.array(list("abcd"))[np.arange(N) % 4], "y": RNG.normal(size=N),
     "z": RNG.normal(size=N), "k": RNG.poisson(2, N)}
)  # fmt: skip
PRIORS = {"Intercept": "Normal(0, 1)", "b": "Normal(0, 1)", "sigma": "HalfNormal(1)"}


def model() -> bl.Model:
    """A normal response with group effects, one with a correlated residual, and a count that depends on the first."""
    responses = {
        "y": {"formula": "y ~ x + (1 | p | g)", "priors": {**PRIORS, "sd_g": "HalfNormal(1)"}},
        "z": {"formula": "z ~ x", "priors": PRIORS},
        "k": {"formula": "k ~ 0 + y + (1 | p | g)", "likelihood": "poisson",
              "priors": {"b": "Normal(0, 0.3)", "sd_g": "HalfNormal(0.5)"}},
    }  # fmt: skip
    return bl.Model(name="three", data={"rows": "row"}, model=bl.Regressions(responses=responses, residuals=["y", "z"]))


@pytest.mark.slow(why="statistical")
def test_ranks_of_all_parameters_are_uniform():
    options = {"draws": 250, "tune": 400, "chains": 2, "target_accept": 0.9}
    found = bl.calibrate(model(), 30, ROWS, "nuts", seed=5, jobs=1, progress=False, runs=None, **options)
    ranks = found.table["p_ecdf"][[not (name.startswith("corr") and len(set(name[:-1].split("[")[1].split(", "))) == 1)
                                   for name in found.table.index]]  # fmt: skip
    assert ranks.min() > 0.01 / len(ranks)


def test_what_is_simulated_follows_the_path():
    """Counts are Poisson about the mean that the response of their row and the effect of their group give."""
    drawn = bl.simulate(model(), ROWS, draws=200, seed=1)
    values = {name: drawn["prior_predictive"][name].to_numpy()[0] for name in ("y", "k")}
    prior = {name: drawn["prior"][name].to_numpy()[0] for name in ("k_b", "k_u_g")}
    effects = prior["k_u_g"][:, np.searchsorted(list("abcd"), ROWS["g"])]
    mean = np.exp(prior["k_b"] * values["y"] + effects)
    kept = mean < 1e4
    z = ((values["k"] - mean) / np.sqrt(mean))[kept]
    assert abs(z.mean()) < 5 / np.sqrt(z.size) and abs((z**2).mean() - 1) < 0.2
