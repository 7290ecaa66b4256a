"""The regressions of posteriordb, as formulas: exactly, and by NUTS."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from tests.conformance.references import POSTERIORDB as FOLDER

FILES = Path(__file__).parent / "regression"
NAMES = sorted(path.stem for path in FILES.glob("*.yaml"))

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir() and os.environ.get("CI") != "true", reason="the reference posteriors are not on this machine"
)


def data(name: str) -> pd.DataFrame | Path:
    if name == "sblri-blr":  # the design matrix is an array; a formula wants columns
        content = json.loads((FOLDER / "data" / f"{name}.json").read_text())
        columns = {f"X{k}": column for k, column in enumerate(np.asarray(content["X"]).T, 1)}
        return pd.DataFrame(columns | {"y": content["y"]})
    return FOLDER / "data" / f"{name}.csv"


def test_all_sixteen_regressions_are_here():
    assert len(NAMES) == 16


def reference(name: str) -> dict[str, dict[str, float]]:
    return json.loads((FOLDER / "reference" / f"{name}.json").read_text())["parameters"]


def ours(fit: bl.Fit, name: str) -> list[str]:
    """Our names of the reference's parameters, in its order."""
    slopes = [f"b[{label}]" for label in fit.posterior["b"].coords["predictor"].to_numpy()]
    with_intercept = ["Intercept", *slopes] if "Intercept" in fit.posterior else slopes
    return [*with_intercept, "sigma"]


@pytest.mark.parametrize("name", NAMES)
def test_exact_agrees_with_the_reference(name):
    """Means within 4 of the reference's Monte Carlo standard errors, sds within 5 % (1 / sqrt(2 ESS) is 0.7 %)."""
    fit = bl.fit(FILES / f"{name}.yaml", data(name), runs=None, seed=1, progress=False, draws=10, chains=1)
    assert fit.method == "exact"
    summary = fit.summary()
    known = reference(name)
    for (theirs, numbers), label in zip(known.items(), ours(fit, name), strict=True):
        assert (theirs == "sigma") == (label == "sigma")
        assert abs(summary.loc[label, "mean"] - numbers["mean"]) < 4 * numbers["mcse_mean"], (theirs, label)
        assert abs(summary.loc[label, "sd"] / numbers["sd"] - 1) < 0.05, (theirs, label)


@pytest.mark.slow(why="conformance")
@pytest.mark.parametrize("name", NAMES)
def test_nuts_agrees_with_the_reference(name):
    """Means and sds within 4 combined Monte Carlo standard errors."""
    fit = bl.fit(FILES / f"{name}.yaml", data(name), "nuts", runs=None, seed=1, progress=False, chains=2)
    summary = fit.summary()
    for (theirs, numbers), label in zip(reference(name).items(), ours(fit, name), strict=True):
        error = np.hypot(numbers["mcse_mean"], summary.loc[label, "mcse_mean"])
        assert abs(summary.loc[label, "mean"] - numbers["mean"]) < 4 * error, (theirs, label)
        error = np.hypot(numbers["sd"] / np.sqrt(2 * numbers["ess"]), summary.loc[label, "mcse_sd"])
        assert abs(summary.loc[label, "sd"] - numbers["sd"]) < 4 * error, (theirs, label)
