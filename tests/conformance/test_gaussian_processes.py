"""A reference posterior of a Gaussian process that others computed (posteriordb), from a file of that family."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bayeslab as bl
from tests.conformance.references import POSTERIORDB as FOLDER
from tests.conformance.references import agrees, require

HERE = Path(__file__).parent
NAME = "gp_pois_regr-gp_regr"
OURS = {"rho": "rho", "alpha": "alpha", "sigma": "sigma2"}


@pytest.mark.slow(why="conformance")
def test_regression_agrees_with_the_reference():
    require(FOLDER, "reference posteriors")
    data = json.loads((FOLDER / "data" / f"{NAME}.json").read_text())
    given = {name: data[name] for name in ("x", "y")}
    fit = bl.fit(HERE / "gaussian_process" / "gp_regr.yaml", given, method="nuts", seed=20, progress=False, runs=None)
    assert fit.verdict.status == "pass", str(fit.verdict)
    assert agrees(NAME, fit.summary(), OURS.__getitem__) == set(OURS)
