"""The hidden Markov model among the reference posteriors of posteriordb, in our words."""

from __future__ import annotations

import json

import numpy as np
import pytest

import bayeslab as bl
from tests.conformance.references import POSTERIORDB as FOLDER
from tests.conformance.references import require

# Its names, and ours. The reference weighs each first state by one: a constant factor.
PARAMETERS = {
    "theta1[1]": "transition[1, 1]",
    "theta1[2]": "transition[1, 2]",
    "theta2[1]": "transition[2, 1]",
    "theta2[2]": "transition[2, 2]",
    "mu[1]": "mean[1]",
    "mu[2]": "mean[2]",
}


@pytest.mark.slow(why="conformance")
def test_agrees_with_the_reference():
    require(FOLDER, "reference posteriors")
    name = "hmm_example-hmm_example"
    y = json.loads((FOLDER / "data" / f"{name}.json").read_text())["y"]
    model = bl.Model(
        name="hmm_example",
        model={
            "family": "hmm",
            "columns": ["y"],
            "states": 2,
            "initial": "uniform",
            # The reference cuts these at 0 and orders them: under one in 10^20 of its posterior is beyond.
            "parameters": {"mean": ["Normal(3, 1)", "Normal(10, 1)"], "sd": 1},
        },
    )
    fit = bl.fit(model, {"y": y}, method="nuts", seed=20, progress=False, runs=None)
    assert fit.verdict.status == "pass", str(fit.verdict)
    table = fit.summary()
    reference = json.loads((FOLDER / "reference" / f"{name}.json").read_text())["parameters"]
    assert set(reference) == set(PARAMETERS)
    for parameter, want in reference.items():
        row = table.loc[PARAMETERS[parameter]]
        error = np.hypot(row["mcse_mean"], want["mcse_mean"])
        assert abs(row["mean"] - want["mean"]) < 4 * error, parameter
        assert row["sd"] == pytest.approx(want["sd"], rel=0.1), parameter
