"""Reference posteriors that others computed (posteriordb), each from a model file beside this test.

The references are means and standard deviations with their Monte Carlo errors. Ours must agree
with the means within four combined standard errors and with the standard deviations within a tenth.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import bayeslab as bl
from tests.conformance.references import POSTERIORDB as FOLDER
from tests.conformance.references import agrees, require

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.yaml"))

# Not here: lotka_volterra needs an ODE solver, hmm_example a hidden Markov model.
ELSEWHERE = {"hudson_lynx_hare-lotka_volterra", "hmm_example-hmm_example"}


def test_every_reference_has_a_model_file():
    require(FOLDER, "reference posteriors")
    assert {path.stem for path in (FOLDER / "reference").glob("*.json")} == set(NAMES) | ELSEWHERE


@pytest.mark.slow(why="conformance")
@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_the_reference(name):
    require(FOLDER, "reference posteriors")
    data = FOLDER / "data" / f"{name}.json"
    fit = bl.fit(HERE / f"{name}.yaml", data, method="nuts", seed=20, progress=False, runs=None)
    assert fit.verdict.status != "fail", str(fit.verdict)
    table = fit.summary()
    assert agrees(name, table, lambda parameter: row_name(parameter, list(table.index)))


# No closed form: GARCH, a Gaussian process with three hyperparameters, a mixture.
NOT_EXACT = {"garch-garch11", "gp_pois_regr-gp_regr", "low_dim_gauss_mix-low_dim_gauss_mix"}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_EXACT])
def test_exact_agrees_with_the_reference(name):
    """The exact posterior has no Monte Carlo error; the reference has."""
    require(FOLDER, "reference posteriors")
    data = FOLDER / "data" / f"{name}.json"
    fit = bl.fit(HERE / f"{name}.yaml", data, seed=20, draws=10, progress=False, runs=None)
    assert fit.method == "exact"
    table = fit.summary()
    reference = json.loads((FOLDER / "reference" / f"{name}.json").read_text())["parameters"]
    for parameter, want in reference.items():
        row = table.loc[row_name(parameter, list(table.index))]
        assert abs(row["mean"] - want["mean"]) < 4 * want["mcse_mean"], parameter
        # The reference's sd has a relative error of about 1 / sqrt(2 ESS), more with heavy tails.
        assert row["sd"] == pytest.approx(want["sd"], rel=6 / np.sqrt(2 * want["ess"])), parameter


def row_name(parameter: str, rows: list[str]) -> str:
    """The reference counts from one, ``beta[2]``; our rows carry labels, in the same order."""
    base, bracket, position = parameter.rstrip("]").partition("[")
    return [row for row in rows if row.startswith(f"{base}[")][int(position) - 1] if bracket else parameter
