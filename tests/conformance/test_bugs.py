"""Classic examples of BUGS, each written in the model language, against posteriors that JAGS computed.

Where the reference has an exact answer, that one counts. Means and quantiles agree within four Monte Carlo errors of
both, standard deviations within a tenth.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayeslab as bl
from tests.conformance.references import SHARED, require

HERE = Path(__file__).parent / "bugs"
FOLDER = SHARED / "conformance" / "bugs"
NAMES = sorted(path.stem for path in HERE.glob("*.yaml"))

# Names of the reference that are cells of nodes of ours.
CELLS = {f"weight_rat26_day{day}": f"filled[{127 + k}]" for k, day in enumerate((15, 22, 29, 36))}
CELLS |= {"smoker_patient2": "smokes[2]", "smoker_patient3": "smokes[3]"}
# Tails so long that means and standard deviations of draws, JAGS's too, are of little worth.
LONG_TAILS = {"air", "hepatitis_me"}
# A funnel: the error of the 5% quantile of sigma, estimated from 1,000 draws a chain, is itself wrong by half.
LONGER = {"seeds": {"draws": 4000}}


def test_every_example_has_a_model_file():
    require(FOLDER, "BUGS examples")
    assert {path.parent.name for path in FOLDER.glob("*/reference.json")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_checked_without_a_complaint(name, tmp_path):
    require(FOLDER, "BUGS examples")
    bl.check(*as_given(name, tmp_path))


@pytest.mark.slow(why="conformance")
@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_jags(name, tmp_path):
    require(FOLDER, "BUGS examples")
    fit = bl.fit(*as_given(name, tmp_path), seed=1, progress=False, runs=None, **LONGER.get(name, {}))
    assert fit.verdict.status != "fail", str(fit.verdict)
    reference = json.loads((FOLDER / name / "reference.json").read_text())
    exact = reference.get("exact", {}).get("quantities", {})
    for quantity, jags in reference["quantities"].items():
        draws = values_of(fit, CELLS.get(quantity, quantity))
        ours = {"mean": (float(draws.mean()), float(error(draws, "mean")))}
        theirs = {"mean": (jags["mean"], jags.get("mcse", 0.0))}  # none of what is certain
        several = len(np.unique(draws)) > 20
        if several:
            for word, p in (("q05", 0.05), ("q95", 0.95)):
                ours[word] = (float(draws.quantile(p)), float(error(draws, "quantile", prob=p)))
                theirs[word] = (jags[word], jags[f"mcse_{word}"])
        for word, value in exact_values(exact.get(quantity)).items():
            if word in theirs:
                theirs[word] = (value, 0.0)
        if name in LONG_TAILS:
            del theirs["mean"]
        for word, (want, noise) in theirs.items():
            got, own = ours[word]
            assert abs(got - want) <= 4 * np.hypot(own, noise) + 1e-3 * abs(want), (quantity, word, got, want)
        if several and name not in LONG_TAILS:
            assert float(draws.std()) == pytest.approx(jags["sd"], rel=0.1), quantity


def exact_values(given) -> dict[str, float]:
    return given if isinstance(given, dict) else {} if given is None else {"mean": given}


def values_of(fit: bl.Fit, name: str) -> xr.DataArray:
    """Draws of ``mu[2]`` or ``b[1,3]``, which count from one, or of a number."""
    base, bracket, place = name.rstrip("]").partition("[")
    draws = fit.posterior[base]
    at = [int(k) - 1 for k in place.split(",")] if bracket else []
    dims = [dim for dim in draws.dims if dim not in ("chain", "draw")]
    return draws.isel(dict(zip(dims, at, strict=True))).drop_vars(dims, errors="ignore").astype(float)


def error(draws: xr.DataArray, method: str, **more: float) -> float:
    return float(az.mcse(draws.to_dataset(name="x"), method=method, **more)["x"])


def as_given(name: str, folder: Path):
    """The model and its data: the table, or arrays made of it."""
    source = FOLDER / name
    model = HERE / f"{name}.yaml"
    if name == "asia":
        evidence = json.loads((source / "data.json").read_text())["evidence"]
        return model, {key: int(word == "yes") for key, word in evidence.items()}
    table = pd.read_csv(source / "data.csv")
    if name in ("bones", "hepatitis_me"):  # two tables lie beside the model file
        for path in (model, *source.glob("*.csv")):
            shutil.copy(path, folder)
        return (folder / model.name,)
    if name == "pigs":
        seen = table.dropna(subset="affected")
        return model, {f"affected_{pig}": int(word == "yes") for pig, word in zip(seen.pig, seen.affected, strict=True)}
    if name == "lsat":
        students = table.loc[table.index.repeat(table["students"])]
        return model, {"right": students.filter(like="item").to_numpy()}
    if name == "jaw":
        return model, {"jaw": table.pivot(index="boy", columns="age", values="jaw_mm").to_numpy()}
    if name == "alligators":
        counts = table["alligators"].to_numpy().reshape(4, 2, 5)
        return model, {"count": counts, "total": counts.sum(axis=-1)}
    return model, table
