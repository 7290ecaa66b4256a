"""Regressions against Bambi: time to the first posterior, and effective draws a second, in one run.

``make bench`` prints ratios. Each side runs in a process of its own, imports done before the clock
starts; the clock runs from a dataframe to draws in memory (four chains of 1,000 after 1,000 of tuning).
Ours runs twice: as ``auto`` picks it (exact where the model allows) and by NUTS. The second run in
a process, with everything compiled, gives the time of sampling; an effective draw is the smallest
bulk ESS of the coefficients over that time. Bambi samples with nutpie; with a million rows it draws
200 after 200, which flatters its first posterior and leaves its effective draws a second alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np

ROWS = {"gaussian_1e3": 1_000, "gaussian_1e6": 1_000_000, "logistic_1e4": 10_000, "groups_1e4": 10_000}
FORMULAS = {"gaussian": "y ~ x1 + x2 + x3 + x4", "logistic": "y ~ x1 + x2 + x3 + x4", "groups": "y ~ x1 + (1 | g)"}


def data(case: str) -> Any:
    import pandas as pd

    rng = np.random.default_rng(5)
    n = ROWS[case]
    table = pd.DataFrame(rng.normal(size=(n, 4)), columns=["x1", "x2", "x3", "x4"])
    eta = table.to_numpy() @ [0.5, -0.3, 0.1, 0.0]
    if case.startswith("logistic"):
        return table.assign(y=(rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int))
    group = rng.integers(0, 50, n)
    extra = rng.normal(0, 0.7, 50)[group] if case.startswith("groups") else 0.0
    return table.assign(g=np.char.add("g", group.astype(str)), y=1 + eta + extra + rng.normal(size=n))


def ours(case: str, method: str) -> dict[str, float]:
    import bayeslab as bl
    from bayeslab.families import regression  # noqa: F401

    if method == "nuts":
        import nutpie  # noqa: F401
        import pymc  # noqa: F401
    kind = case.split("_")[0]
    likelihood = "bernoulli" if kind == "logistic" else "gaussian"
    model = bl.Model(model=bl.Regression(formula=FORMULAS[kind], likelihood=likelihood))
    table = data(case)

    def run(seed: int) -> tuple[float, bl.Fit]:
        start = time.perf_counter()
        fit = bl.fit(model, table, method, runs=None, progress=False, seed=seed)
        return time.perf_counter() - start, fit

    first, _ = run(1)
    again, fit = run(2)
    if fit.method == "exact":
        return {"first": first, "draws": 4000 / again}
    return {"first": first, "draws": float(fit.summary(["b"])["ess_bulk"].min()) / fit.timings["sample"]}


def bambi(case: str) -> dict[str, float]:
    import bambi as bmb

    from bayeslab.results.render import summary

    kind = case.split("_")[0]
    table = data(case)
    draws = 1000 if ROWS[case] < 100_000 else 200  # a million rows take minutes

    def run(seed: int) -> tuple[float, Any]:
        start = time.perf_counter()
        model = bmb.Model(FORMULAS[kind], table, family="bernoulli" if kind == "logistic" else "gaussian")
        tree = model.fit(
            draws=draws, tune=draws, chains=4, cores=2, random_seed=seed, progressbar=False, inference_method="nutpie"
        )
        return time.perf_counter() - start, tree

    first, tree = run(1)
    sampling = float(tree["posterior"].attrs.get("sampling_time", np.nan))
    if np.isnan(sampling):
        sampling, tree = run(2)
    names = [name for name in ("x1", "x2", "x3", "x4") if name in tree["posterior"]]
    return {"first": first, "draws": float(summary(tree, names)["ess_bulk"].min()) / sampling}


def measured(side: str, case: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--worker", side, case], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{side} {case}: {done.stderr.strip().splitlines()[-1]}")
    out: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(ROWS), help="comma-separated")
    parser.add_argument("--worker", nargs=2, metavar=("SIDE", "CASE"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        side, case = chosen.worker
        print(json.dumps(bambi(case) if side == "bambi" else ours(case, side)))
        return
    print(
        f"{'':14}{'first posterior, s (auto, nuts, Bambi)':>42}{'effective draws / s (auto, nuts, Bambi)':>46}   ratios"
    )
    for case in chosen.cases.split(","):
        sides = {side: measured(side, case) for side in ("auto", "nuts", "bambi")}
        times = " ".join(f"{sides[s]['first']:10.2f}" for s in sides)
        rates = " ".join(f"{sides[s]['draws']:12.1f}" for s in sides)
        theirs = sides["bambi"]
        ratios = (
            f"time {sides['auto']['first'] / theirs['first']:.3f} / {sides['nuts']['first'] / theirs['first']:.2f}, "
            f"draws {sides['auto']['draws'] / theirs['draws']:.1f} / {sides['nuts']['draws'] / theirs['draws']:.1f}"
        )
        print(f"{case:14}{times:>42}{rates:>46}   {ratios}", flush=True)
    print("ratios are ours / Bambi's, auto and NUTS: small times are good, many draws are good")


if __name__ == "__main__":
    main()
