"""Golden answers: what every shipped model says under every engine that applies to it.

    nice python tests/golden/answers.py                    make what is missing
    nice python tests/golden/answers.py --anew radon nile  make the answers of two models again
    nice python tests/golden/answers.py --all              with the engines that take minutes
    nice python tests/golden/answers.py --compare          say what is not as it was, of all that is there

They are the answers of the day they were made, so they prove nothing about truth: other tests do. They show what a
change of the code changes. ``answers.json`` holds, for each model and engine, means, standard deviations and their Monte
Carlo errors, and the log evidence; ``densities.json`` the log density of each random variable of the model's PyMC graph
at three fixed points.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from pytensor.compile.mode import Mode
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

import bayeslab as bl
from bayeslab import registry
from bayeslab.errors import BayeslabError, EngineRefusal, NothingToFit, RunError
from bayeslab.fitting import checked

HERE = Path(__file__).parent
MODELS = HERE.parents[1] / "models"
SEED = 20
# Draws that show a difference of a tenth of a standard deviation.
SAMPLE = {"draws": 500, "chains": 2}
OPTIONS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("advi", "exact", "gibbs", "grid", "laplace", "pathfinder", "smc", "variational"), SAMPLE),
    "nuts": {**SAMPLE, "tune": 500, "cores": 1},
    "structure": {**SAMPLE, "tune": 200, "cores": 1},
}
# Engines that take minutes for some models: made on request.
LONG = ("advi", "nuts", "pathfinder", "smc")
LONGER = {("co2", "laplace")}
# Quantities kept of each answer, evenly spaced over all there are.
KEPT = 60
POINTS = 3


def models() -> list[str]:
    """Names of the shipped models."""
    return sorted(path.stem for path in MODELS.glob("*.yaml"))


def engines(model: str, every: bool = False) -> list[str]:
    """Engines that apply to a model; none where there is nothing to fit."""
    names = []
    for name in registry.names("engines"):
        if name == "auto" or (not every and (name in LONG or (model, name) in LONGER)):
            continue
        try:
            prepared = checked(MODELS / f"{model}.yaml", method=name)
        except BayeslabError:
            continue
        if prepared.engine == name:
            names.append(name)
    return names


def answer(model: str, engine: str) -> dict[str, Any]:
    """One model under one engine: statistics by quantity, log evidence, verdict."""
    begun = time.process_time()
    fit = bl.fit(
        MODELS / f"{model}.yaml", None, engine, seed=SEED, progress=False, runs=None, **OPTIONS.get(engine, {})
    )
    table = fit.summary()
    rows = np.unique(np.linspace(0, len(table) - 1, min(KEPT, len(table))).round().astype(int))
    columns = [name for name in ("mean", "sd", "median", "value", "mcse_mean", "mcse_sd") if name in table]
    quantities = {str(table.index[i]): {name: _number(table[name].iloc[i]) for name in columns} for i in rows}
    attrs = fit.posterior.attrs
    evidence = {name: _number(attrs[name]) for name in ("log_evidence", "log_evidence_sd") if name in attrs}
    return {
        "quantities": quantities,
        "rows": len(table),
        **evidence,
        "verdict": fit.verdict.status,
        "cpu": round(time.process_time() - begun, 1),
    }


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What is not as it was: draws of another machine may part in the last digit, and so by Monte Carlo errors."""
    if "refused" in before or "refused" in now:
        return [] if before.get("refused") == now.get("refused") else ["refused"]
    if before["rows"] != now["rows"] or before["quantities"].keys() != now["quantities"].keys():
        return ["the quantities"]
    point = all("value" in values for values in before["quantities"].values())
    if point and before["verdict"] == now["verdict"] == "fail":
        return []  # where a search ends that finds no highest point depends on the machine
    out = []
    old, new = before.get("log_evidence"), now.get("log_evidence")
    error = np.hypot(before.get("log_evidence_sd") or 0.0, now.get("log_evidence_sd") or 0.0)
    if (old is None) != (new is None) or (old is not None and abs(new - old) > 6 * error + 1e-6 * (1 + abs(old))):
        out.append(f"log_evidence: {old} before, {new} now")
    for name, values in before["quantities"].items():
        others = now["quantities"][name]
        for what in ("mean", "sd", "median", "value"):
            old, new = values.get(what), others.get(what)
            if old is None or new is None:
                out += [] if old is new else [f"{what} of {name}: {old} before, {new} now"]
                continue
            kinds = ("mcse_mean", "mcse_sd") if what == "sd" else ("mcse_mean",)
            error = max(np.hypot(values.get(kind) or 0.0, others.get(kind) or 0.0) for kind in kinds)
            slack = (2 if what == "median" else 1) * 6 * error + 1e-6 * abs(old) + 1e-9
            if abs(new - old) > slack:
                out.append(f"{what} of {name}: {old} before, {new} now, error {error:.2g}")
    return out


def densities(model: str) -> dict[str, list[float]] | None:
    """Log density of each random variable of the graph at fixed points; None for a model that has no graph.

    The points are the graph's initial point, moved on the unconstrained scale by normal deviates that depend on the
    variable's name alone.
    """
    try:
        graph = bl.to_pymc(MODELS / f"{model}.yaml")
    except BayeslabError:
        return None
    if not graph.basic_RVs:
        return None
    terms = graph.logp(sum=False)
    names = [variable.name for variable in graph.free_RVs + graph.observed_RVs + graph.potentials]
    # Three points do not repay machine code; the rewrites that keep logarithms finite are those of fits.
    mode = Mode("py", RewriteDatabaseQuery(include=["fast_run"], exclude=["blas", "inplace", "fusion"]))
    function = graph.compile_fn(terms, point_fn=True, on_unused_input="ignore", mode=mode)
    start = graph.initial_point(random_seed=0)
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(POINTS):
        for name, term in zip(names, function({n: _moved(n, v, number) for n, v in start.items()}), strict=True):
            found[name].append(_number(np.sum(term)))
    return dict(sorted(found.items()))


def _moved(name: str, value: np.ndarray, number: int) -> np.ndarray:
    """A start value, moved if it is continuous."""
    seed = int.from_bytes(hashlib.sha256(f"{name} {number}".encode()).digest()[:8])
    if not np.issubdtype(np.asarray(value).dtype, np.floating):
        return value
    return np.asarray(value + 0.3 * np.random.default_rng(seed).normal(size=np.shape(value)))


def _number(value: Any) -> float | None:
    """Twelve digits; JSON has no NaN."""
    number = float(value)
    return float(f"{number:.12g}") if np.isfinite(number) else None


def read(name: str) -> dict[str, Any]:
    """A file of golden values, by model."""
    path = HERE / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(name: str, values: dict[str, Any]) -> None:
    """Write a file of golden values, a line for each quantity."""
    text = json.dumps(values, indent=1, sort_keys=True, allow_nan=False)
    (HERE / name).write_text(text + "\n", encoding="utf-8")


def compare(names: list[str], answers: dict[str, Any]) -> None:
    """Make every answer again and say what is not as it was."""
    for model in names:
        for engine, before in answers.get(model, {}).items():
            found = differences(before, made(model, engine))
            print(model, engine, "; ".join(found[:5]) or "as before", flush=True)


def made(model: str, engine: str) -> dict[str, Any]:
    """An answer, or that there is none."""
    try:
        return answer(model, engine)
    except RunError as error:
        return {"refused": error.code, "verdict": "refused", "cpu": 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", help="names of models; default: all")
    parser.add_argument("--anew", action="store_true", help="make again what is there")
    parser.add_argument("--all", action="store_true", help="also the engines that take minutes")
    parser.add_argument("--compare", action="store_true", help="make nothing; say what is not as it was")
    given = parser.parse_args()
    answers, heights = read("answers.json"), read("densities.json")
    if given.compare:
        compare(given.models or models(), answers)
        return
    for model in given.models or models():
        if given.anew or model not in heights:
            heights[model] = densities(model)
            write("densities.json", heights)
        known = {} if given.anew else answers.get(model, {})
        for engine in engines(model, given.all):
            if engine in known:
                continue
            try:
                known[engine] = made(model, engine)
            except (NothingToFit, EngineRefusal):
                continue
            print(model, engine, known[engine]["verdict"], known[engine]["cpu"], file=sys.stderr, flush=True)
            answers[model] = known
            write("answers.json", answers)


if __name__ == "__main__":
    main()
