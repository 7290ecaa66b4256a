"""A reference posterior of a mixture that others computed (posteriordb), from a file of the family ``mixture``.

The components of the reference are ordered by their means. With priors that treat the components alike that is the same
posterior as of draws whose components are put in that order.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bayeslab as bl
from tests.conformance.references import POSTERIORDB as FOLDER
from tests.conformance.references import agrees, require

HERE = Path(__file__).parent
NAME = "low_dim_gauss_mix-low_dim_gauss_mix"
OURS = {
    "mu[1]": "mean[1, y]",
    "mu[2]": "mean[2, y]",
    "sigma[1]": "sd[1, y]",
    "sigma[2]": "sd[2, y]",
    "theta": "weights[1]",
}


@pytest.mark.slow(why="conformance")
def test_a_mixture_of_two_normals_agrees_with_the_reference():
    require(FOLDER, "reference posteriors")
    y = json.loads((FOLDER / "data" / f"{NAME}.json").read_text())["y"]
    model = HERE / "mixture" / "low_dim_gauss_mix.yaml"
    fit = bl.fit(model, {"y": y}, method="nuts", seed=20, progress=False, runs=None)
    assert fit.verdict.status == "pass", str(fit.verdict)
    assert agrees(NAME, fit.summary(), OURS.__getitem__) == set(OURS)
