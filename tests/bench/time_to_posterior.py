"""Time to the first posterior and ESS per second, against plain PyMC with nutpie, in one run.

``make bench`` prints a table of ratios. For each model two programs do the same job, each in a
process of its own: bayeslab from a declared model, and a hand-written PyMC model given to
``pm.sample(nuts_sampler="nutpie")``. The clock runs from the data to a DataTree in memory, four
chains of 1,000 draws after 1,000 of tuning, with the imports done before it starts. *Cold* has an
empty compilation cache; *warm* is a second process with the cache the first one left.
``ESS/s`` is the smallest bulk ESS of the shared parameters over the time spent sampling: for
bayeslab as it reports it, for PyMC the ``sampling_time`` of its sampler where it gives one, else a
second call's wall time on the compiled model.

Ratios are ours / theirs for times (small is good) and ours / theirs for ESS/s (large is good).
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
from pathlib import Path
from typing import Any

import numpy as np

DRAWS, TUNE, CHAINS, CORES = 1000, 1000, 4, 2


def data_of(name: str) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    if name == "eight_schools":
        return {"y": np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), "se": np.array([15.0, 10, 16, 11, 9, 11, 10, 18])}
    if name == "radon":
        county, floor = rng.integers(0, 85, 919), rng.integers(0, 2, 919).astype(float)
        level = rng.normal(1.3, 0.3, 85)
        return {"c": county, "floor": floor, "y": level[county] - 0.6 * floor + rng.normal(0, 0.75, 919)}
    if name == "robust":
        x = rng.normal(size=(200, 3))
        return {"X": x, "y": x @ [1.0, -1, 0.5] + rng.standard_t(3, 200)}
    if name == "counts":
        x = rng.normal(size=5000)
        return {"x": x, "y": rng.negative_binomial(3, 3 / (3 + np.exp(1 + 0.5 * x)))}
    if name == "ar2":
        y = np.zeros(302)
        for t in range(2, 302):
            y[t] = 0.5 * y[t - 1] + 0.2 * y[t - 2] + rng.normal()
        return {"y": y[2:]}
    if name == "garch":
        y, h = np.zeros(200), np.ones(200)
        for t in range(1, 200):
            h[t] = 0.3 + 0.4 * y[t - 1] ** 2 + 0.4 * h[t - 1]
            y[t] = np.sqrt(h[t]) * rng.normal()
        return {"y": y}
    if name == "mixture":
        return {"y": np.concatenate([rng.normal(-2, 1, 400), rng.normal(2, 0.7, 600)])}
    if name == "logistic":
        x = rng.normal(size=(10_000, 10))
        p = 1 / (1 + np.exp(-(x @ np.linspace(-1, 1, 10))))
        return {"X": x, "y": (rng.random(10_000) < p).astype(int)}
    raise ValueError(name)


# nodes, dims, dims of arrays, the parameters compared
OURS: dict[str, tuple[dict[str, str], dict[str, Any], dict[str, list[str]], list[str]]] = {
    "eight_schools": (
        {
            "mu": "Normal(0, 5)",
            "tau": "HalfCauchy(5)",
            "z[obs_id]": "Normal(0, 1)",
            "theta[obs_id]": "mu + tau * z",
            "y[obs_id]": "Normal(theta, se)",
        },
        {},
        {},
        ["mu", "tau"],
    ),
    "radon": (
        {
            "mu": "Normal(0, 10)",
            "tau": "HalfNormal(5)",
            "a[c]": "Normal(mu, tau)",
            "b": "Normal(0, 10)",
            "sigma": "HalfNormal(5)",
            "y[obs_id]": "Normal(a[c] + b * floor, sigma)",
        },
        {},
        {},
        ["mu", "tau", "b", "sigma"],
    ),
    "robust": (
        {
            "a": "Normal(0, 5)",
            "b[k]": "Normal(0, 5)",
            "s": "HalfNormal(5)",
            "nu": "Gamma(2, 0.1)",
            "y[obs_id]": "StudentT(nu, a + X @ b, s)",
        },
        {},
        {"X": ["obs_id", "k"]},
        ["a", "b", "s", "nu"],
    ),
    "counts": (
        {
            "a": "Normal(0, 5)",
            "b": "Normal(0, 5)",
            "alpha": "Gamma(2, 0.5)",
            "y[obs_id]": "NegativeBinomial(exp(a + b * x), alpha)",
        },
        {},
        {},
        ["a", "b", "alpha"],
    ),
    "ar2": (
        {
            "a": "Normal(0, 1)",
            "p1": "Normal(0, 1)",
            "p2": "Normal(0, 1)",
            "s": "HalfNormal(2)",
            "y[obs_id]": "Normal(a + p1 * lag(y, 1) + p2 * lag(y, 2), s)",
        },
        {},
        {},
        ["a", "p1", "p2", "s"],
    ),
    "garch": (
        {
            "mu": "Normal(0, 1)",
            "w": "HalfNormal(1)",
            "share[k]": "Dirichlet(1)",
            "h[obs_id]": "w + share[0] * (lag(y, 1) - mu) ** 2 + share[1] * previous(h, 1, start=1)",
            "y[obs_id]": "Normal(mu, sqrt(h))",
        },
        {"k": 3},
        {},
        ["mu", "w", "share"],
    ),
    "mixture": (
        {
            "m[k]": "Ordered(Normal(0, 3))",
            "s[k]": "HalfNormal(2)",
            "w[k]": "Dirichlet(2)",
            "y[obs_id]": "Mixture(w, Normal(m, s))",
        },
        {"k": 2},
        {},
        ["m", "s", "w"],
    ),
    "logistic": (
        {"a": "Normal(0, 2)", "b[k]": "Normal(0, 2)", "y[obs_id]": "Bernoulli(logit_p=a + X @ b)"},
        {},
        {"X": ["obs_id", "k"]},
        ["a", "b"],
    ),
}


def theirs(name: str, data: dict[str, Any]) -> Any:
    """The same model as one writes it in PyMC."""
    import pymc as pm
    import pytensor
    import pytensor.tensor as pt

    y = data["y"]
    with pm.Model() as model:
        if name == "eight_schools":
            mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
            theta = pm.Deterministic("theta", mu + tau * pm.Normal("z", 0, 1, shape=8))
            pm.Normal("y", theta, data["se"], observed=y)
        elif name == "radon":
            mu, tau = pm.Normal("mu", 0, 10), pm.HalfNormal("tau", 5)
            a = pm.Normal("a", mu, tau, shape=85)
            b, sigma = pm.Normal("b", 0, 10), pm.HalfNormal("sigma", 5)
            pm.Normal("y", a[data["c"]] + b * data["floor"], sigma, observed=y)
        elif name == "robust":
            a, b = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5, shape=3)
            s, nu = pm.HalfNormal("s", 5), pm.Gamma("nu", 2, 0.1)
            pm.StudentT("y", nu, a + pt.dot(data["X"], b), sigma=s, observed=y)
        elif name == "counts":
            a, b, alpha = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5), pm.Gamma("alpha", 2, 0.5)
            pm.NegativeBinomial("y", pt.exp(a + b * data["x"]), alpha, observed=y)
        elif name == "ar2":
            a, p1, p2 = pm.Normal("a", 0, 1), pm.Normal("p1", 0, 1), pm.Normal("p2", 0, 1)
            pm.Normal("y", a + p1 * y[1:-1] + p2 * y[:-2], pm.HalfNormal("s", 2), observed=y[2:])
        elif name == "garch":
            mu, w, share = pm.Normal("mu", 0, 1), pm.HalfNormal("w", 1), pm.Dirichlet("share", np.ones(3))

            def step(last, h, mu, w, share):
                return w + share[0] * (last - mu) ** 2 + share[1] * h

            h = pytensor.scan(
                step, sequences=[pt.as_tensor(y[:-1])], outputs_info=[pt.ones(())], non_sequences=[mu, w, share],
                strict=True, return_updates=False,
            )  # fmt: skip
            h = pm.Deterministic("h", pt.concatenate([pt.ones(1), h]))
            pm.Normal("y", mu, pt.sqrt(h), observed=y)
        elif name == "mixture":
            m = pm.Normal("m", 0, 3, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1.0, 1.0])
            s, w = pm.HalfNormal("s", 2, shape=2), pm.Dirichlet("w", 2 * np.ones(2))
            pm.NormalMixture("y", w, m, s, observed=y)
        elif name == "logistic":
            a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2, shape=10)
            pm.Bernoulli("y", logit_p=a + pt.dot(data["X"], b), observed=y)
    return model


def smallest_ess(posterior: Any, names: list[str]) -> float:
    import arviz as az

    found = az.ess(posterior[names], method="bulk")
    return min(float(found[name].min()) for name in names)


def worker(side: str, name: str) -> None:
    """One job in this process; prints its times as JSON."""
    import warnings

    warnings.simplefilter("ignore")
    data = data_of(name)
    nodes, dims, arrays, compared = OURS[name]
    import nutpie
    import pymc as pm

    if side == "ours":
        import bayeslab as bl
        from bayeslab.engines import nuts  # noqa: F401

        if "c" in data:
            data = data | {"c": data["c"]}
        begun = time.perf_counter()
        model = bl.Model(data={"dims": arrays} if arrays else {}, dims=dims, model=bl.Graph(nodes=nodes), seed=1)
        fit = bl.fit(model, data, "nuts", progress=False, runs=None, draws=DRAWS, tune=TUNE, chains=CHAINS, cores=CORES)
        total, sampling = time.perf_counter() - begun, fit.timings["sample"]
        posterior = fit.posterior.to_dataset()
    else:
        begun = time.perf_counter()
        options: dict[str, Any] = {
            "draws": DRAWS, "tune": TUNE, "chains": CHAINS, "cores": CORES, "random_seed": 1, "progressbar": False,
        }  # fmt: skip
        model = theirs(name, data)
        tree = pm.sample(model=model, nuts_sampler="nutpie", **options)
        total = time.perf_counter() - begun
        # Sampling alone, on the compiled model: pm.sample does not report it.
        compiled = nutpie.compile_pymc_model(model)
        begun = time.perf_counter()
        nutpie.sample(compiled, draws=DRAWS, tune=TUNE, chains=CHAINS, cores=CORES, seed=1, progress_bar=False)
        sampling = time.perf_counter() - begun
        posterior = tree["posterior"].to_dataset()
    result = {"total": total, "sampling": sampling, "ess": smallest_ess(posterior, compared)}
    print("RESULT " + json.dumps(result))


def run(side: str, name: str, cache: Path) -> dict[str, float]:
    env = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={cache / side / name}"}
    begun = time.perf_counter()
    command = [sys.executable, __file__, "--worker", side, name]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise SystemExit(f"{side} {name} failed:\n{done.stderr[-3000:]}")
    return json.loads(lines[-1].removeprefix("RESULT ")) | {"process": time.perf_counter() - begun}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(OURS), help="comma-separated")
    parser.add_argument("--repeats", type=int, default=2, help="warm runs of each side")
    parser.add_argument("--worker", nargs=2, metavar=("SIDE", "MODEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(*options.worker)
        return
    print(
        f"{'model':14} {'cold s':>13} {'ratio':>6}  {'warm s':>13} {'ratio':>6}  {'ESS/s':>13} {'ratio':>6}   (ours / theirs)"
    )
    ratios: dict[str, list[float]] = {"cold": [], "warm": [], "speed": []}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models.split(","):
            cold = {side: run(side, name, Path(folder)) for side in ("ours", "theirs")}
            warm: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
            for _ in range(options.repeats):
                for side in warm:
                    warm[side].append(run(side, name, Path(folder)))
            time_of = {side: statistics.median(r["total"] for r in warm[side]) for side in warm}
            speed = {side: statistics.median(r["ess"] / r["sampling"] for r in warm[side]) for side in warm}
            row = {
                "cold": (cold["ours"]["total"], cold["theirs"]["total"]),
                "warm": (time_of["ours"], time_of["theirs"]),
                "speed": (speed["ours"], speed["theirs"]),
            }
            cells = []
            for key, (a, b) in row.items():
                ratios[key].append(a / b)
                shown = f"{a:.0f} / {b:.0f}" if key == "speed" else f"{a:.1f} / {b:.1f}"
                cells.append(f"{shown:>13} {a / b:6.2f}")
            print(f"{name:14} {'  '.join(cells)}", flush=True)
    middle = {key: statistics.median(values) for key, values in ratios.items()}
    print(f"{'median':14} {middle['cold']:20.2f}  {middle['warm']:20.2f}  {middle['speed']:20.2f}")
    print("targets        cold ≤ 1, warm ≤ 0.33, ESS/s ≥ 1")


if __name__ == "__main__":
    main()
