"""Simulation-based calibration of the regressions: ranks of true values among posterior draws are uniform.

Each model is drawn from its prior, its data from these draws, and fitted by the engine named. With
seeds fixed the outcome is; it fails where ranks leave the 99 % simultaneous bands, all quantities together.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl

RNG = np.random.default_rng(3)
DATA = {
    "x": RNG.normal(size=40),
    "g": np.repeat([f"g{k}" for k in range(10)], 4),
    "k": np.arange(40) % 4,
    "h": np.tile(["a", "b"], 20),
    "y": RNG.normal(size=40),
    "n": RNG.integers(0, 2, 40),
    "border": pd.DataFrame([(f"g{k}", f"g{(k + step) % 10}") for k in range(10) for step in (1, 3)]),
}
PRIORS = {"Intercept": "Normal(0, 1)", "b": "Normal(0, 0.5)"}
SCALES = {"sigma": "HalfNormal(1)", "sd": "HalfNormal(1)"}
LINE = {"formula": "y ~ x", "priors": PRIORS | {"sigma": "HalfNormal(1)"}}
GROUPS = {"formula": "y ~ x + (1 | g)", "priors": PRIORS | SCALES}
SPREAD = {
    "formula": {"mu": "y ~ x", "sigma": "~ x + (1 | g)"},
    "priors": PRIORS | {"sigma": {"Intercept": "Normal(0, 0.5)", "b": "Normal(0, 0.5)", "sd": "HalfNormal(0.5)"}},
}
SMOOTH = {"formula": "y ~ s(x, k=6)", "priors": PRIORS | {"sigma": "HalfNormal(1)", "sd_s_x": "HalfNormal(1)"}}
SMOOTHS = {
    "formula": "n ~ h + s(x, k=5, by=h)", "likelihood": "poisson", "priors": PRIORS | {"sd_s_x_h": "HalfNormal(0.5)"},
}  # fmt: skip
STEPS = {"formula": "y ~ mo(k)", "priors": PRIORS | {"sigma": "HalfNormal(1)"}}
PROCESS = {"formula": "n ~ gp(x, k=15)", "likelihood": "poisson"}
PROCESS |= {"priors": PRIORS | {"sd_gp_x": "HalfNormal(0.5)"}}
MAP = {"formula": "y ~ x + bym2(border, g)", "priors": PRIORS | SCALES}
ERRORS = {"formula": "y ~ me(x, 0.7)"}
ERRORS |= {"priors": PRIORS | {"mean_me_x": "Normal(0, 1)", "sd_me_x": "HalfNormal(1)", "sigma": "HalfNormal(1)"}}
MODELS: dict[str, tuple[str, int, dict[str, object], dict[str, object]]] = {
    "linear-exact": ("exact", 200, LINE, {}),
    "hierarchical-exact": ("exact", 80, GROUPS, {}),
    "smooth-exact": ("exact", 80, SMOOTH, {}),
    "smooths-nuts": ("nuts", 60, SMOOTHS, {"target_accept": 0.95}),
    "steps-nuts": ("nuts", 60, STEPS, {"target_accept": 0.95}),
    "process-nuts": ("nuts", 60, PROCESS, {"target_accept": 0.95}),
    "errors-nuts": ("nuts", 60, ERRORS, {"target_accept": 0.95}),
    "map-nuts": ("nuts", 60, MAP, {"target_accept": 0.95}),
    "linear-nuts": ("nuts", 60, LINE, {}),
    "logistic-nuts": ("nuts", 60, {"formula": "n ~ x", "likelihood": "bernoulli", "priors": PRIORS}, {}),
    "poisson-nuts": ("nuts", 60, {"formula": "n ~ x", "likelihood": "poisson", "priors": PRIORS}, {}),
    "hierarchical-nuts": ("nuts", 60, GROUPS, {"target_accept": 0.99}),
    "spread-nuts": ("nuts", 60, SPREAD, {"target_accept": 0.95}),
}


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("name", MODELS)
def test_posterior_is_calibrated(name, tmp_path):
    method, n, spec, options = MODELS[name]
    model = bl.Model(name=name, model=bl.Regression(**spec))
    result = bl.calibrate(model, n, DATA, method, seed=12, runs=tmp_path, progress=False, **options)
    ranks = [finding for finding in result.verdict.findings if finding.check != "fits"]
    assert ranks
    assert all(finding.status != "fail" for finding in ranks), str(result.verdict)
