"""The hidden Markov model among the reference posteriors of posteriordb, in our words."""

from __future__ import annotations

import json

import pytest

import bayeslab as bl
from tests.conformance.references import POSTERIORDB as FOLDER
from tests.conformance.references import agrees, require

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
    assert agrees(name, fit.summary(), PARAMETERS.__getitem__) == set(PARAMETERS)
