"""A plain PyMC model by ``bl.machine.from_pymc`` against the same model by nutpie, in one run.

The models are those of ``time_to_posterior.py``, written in PyMC. For each, two programs sample the same ``pymc.Model``,
each in a process of its own: the density machine, and ``pm.sample(nuts_sampler="nutpie")``. The clock runs from the
built model to a DataTree in memory, four chains of 1,000 draws after 1,000 of tuning, with the imports done before it
starts. *Cold* has an empty compilation cache of PyTensor (the machine's kernels are there: they are compiled once on a
computer), *warm* a second process with the cache that the first one left. ``gradient`` is the time of one value and
gradient through the function in C that the sampler calls, at points around the start, in one process for both.

Ratios are ours / theirs for times (small is good) and for ESS/s (large is good).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from time_to_posterior import CHAINS, CORES, DRAWS, OURS, TUNE, data_of, smallest_ess, theirs


def _posterior(side: str, name: str) -> dict[str, float]:
    """Times to a DataTree, and effective draws."""
    import nutpie
    import pymc as pm

    import bayeslab as bl
    from bayeslab.engines import nuts  # noqa: F401

    bl.machine.from_pymc  # noqa: B018
    model, compared = theirs(name, data_of(name)), OURS[name][3]
    options: dict[str, Any] = {"draws": DRAWS, "tune": TUNE, "chains": CHAINS, "cores": CORES}
    begun = time.perf_counter()
    if side == "ours":
        fit = bl.machine.from_pymc(model).fit(seed=1, progress=False, **options)
        tree, sampling = fit.data_tree, fit.timings["sample"]
        total = time.perf_counter() - begun
    else:
        tree = pm.sample(model=model, nuts_sampler="nutpie", random_seed=1, progressbar=False, **options)
        total = time.perf_counter() - begun
        # Sampling alone, on the compiled model: pm.sample does not report it.
        compiled = nutpie.compile_pymc_model(model)
        begun = time.perf_counter()
        nutpie.sample(compiled, **options, seed=1, progress_bar=False)
        sampling = time.perf_counter() - begun
    return {"total": total, "sampling": sampling, "ess": smallest_ess(tree["posterior"].to_dataset(), compared)}


def _gradient(name: str) -> dict[str, float]:
    """Microseconds of one value and gradient of each side, the best of several rounds that alternate."""
    import nutpie

    import bayeslab as bl

    model = theirs(name, data_of(name))
    density, compiled = bl.machine.from_pymc(model).log_density, nutpie.compile_pymc_model(model)
    n, start = density.n_dim, density.centre()
    points = start + np.random.default_rng(0).uniform(-0.5, 0.5, (20, n))
    gradient, value = np.empty(n), np.empty(1)
    places, ends = [point.ctypes.data for point in points], (gradient.ctypes.data, value.ctypes.data)
    function = compiled.compiled_logp_func
    user_data = compiled.user_data
    kinds = {
        "ours": (density.program.callback.ctypes, density.arguments),  # type: ignore[attr-defined]
        "theirs": (_in_c(function.address), user_data.ctypes.data),
    }
    best = dict.fromkeys(kinds, np.inf)
    for _ in range(7):
        for side, (call, arguments) in kinds.items():
            repeats, spent = 0, 0.0
            begun = time.perf_counter()
            while spent < 0.05:
                for place in places:
                    call(n, place, *ends, arguments)
                repeats, spent = repeats + len(points), time.perf_counter() - begun
            best[side] = min(best[side], 1e6 * spent / repeats)
    return best


def _in_c(address: int) -> Any:
    import ctypes

    pointer, whole = ctypes.c_void_p, ctypes.c_uint64
    return ctypes.CFUNCTYPE(ctypes.c_int64, whole, pointer, pointer, pointer, pointer)(address)


def worker(side: str, name: str) -> None:
    """One job in this process; prints its times as JSON."""
    warnings.simplefilter("ignore")
    print("RESULT " + json.dumps(_gradient(name) if side == "gradient" else _posterior(side, name)))


def run(side: str, name: str, cache: Path) -> dict[str, float]:
    env = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={cache / side / name}"}
    command = [sys.executable, __file__, "--worker", side, name]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise SystemExit(f"{side} {name} failed:\n{done.stderr[-3000:]}")
    out: dict[str, float] = json.loads(lines[-1].removeprefix("RESULT "))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(OURS), help="comma-separated")
    parser.add_argument("--repeats", type=int, default=2, help="warm runs of each side")
    parser.add_argument("--worker", nargs=2, metavar=("SIDE", "MODEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(*options.worker)
        return
    heads = {"gradient": "gradient µs", "cold": "cold s", "warm": "warm s", "speed": "ESS/s"}
    print(f"{'model':14} " + "  ".join(f"{head:>15} {'ratio':>6}" for head in heads.values()) + "   (ours / theirs)")
    ratios: dict[str, list[float]] = {key: [] for key in heads}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models.split(","):
            cold = {side: run(side, name, Path(folder)) for side in ("ours", "theirs")}
            warm: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
            for _ in range(options.repeats):
                for side in warm:
                    warm[side].append(run(side, name, Path(folder)))
            gradient = run("gradient", name, Path(folder))
            row = {"gradient": (gradient["ours"], gradient["theirs"])}
            row["cold"] = (cold["ours"]["total"], cold["theirs"]["total"])
            row["warm"] = tuple(statistics.median(r["total"] for r in warm[side]) for side in warm)  # type: ignore[assignment]
            row["speed"] = tuple(statistics.median(r["ess"] / r["sampling"] for r in warm[side]) for side in warm)  # type: ignore[assignment]
            cells = []
            for key, (a, b) in row.items():
                ratios[key].append(a / b)
                shown = f"{a:.0f} / {b:.0f}" if key == "speed" else f"{a:.1f} / {b:.1f}"
                cells.append(f"{shown:>15} {a / b:6.2f}")
            print(f"{name:14} {'  '.join(cells)}", flush=True)
    print(f"{'median':14} " + "  ".join(f"{'':>15} {statistics.median(each):6.2f}" for each in ratios.values()))


if __name__ == "__main__":
    main()
