"""NUTS on a Gaussian hidden Markov model, side by side with pymc-extras' `marginalize` and nutpie: one program, JSON.

``python _hmm_sampling_case.py [bayeslab|marginalize] [T]`` prints seconds to compile and to sample, and the least
effective sample size. Three states, T = 2,000 rows unless said otherwise, the same priors and starting values for both.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

import numpy as np

MEANS = ("Normal(-2, 1)", "Normal(0, 1)", "Normal(3, 1)")


def series(n: int) -> np.ndarray:
    from bayeslab.exact.forward_backward import HiddenChain, simulate_states

    rng = np.random.default_rng(1)
    chain = HiddenChain.of(np.full(3, 1 / 3), [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]])
    states = simulate_states(chain, [0, n], rng)
    return np.array([-2.0, 0.0, 3.0])[states] + np.array([0.5, 0.7, 1.0])[states] * rng.standard_normal(n)


def least_ess(posterior: Any, names: tuple[str, ...]) -> dict[str, float]:
    """The least effective sample size: of all chains together, and (had all done so well) of the best chain alone."""
    import arviz as az

    flat = np.concatenate([posterior[n].to_numpy().reshape(*posterior[n].shape[:2], -1) for n in names], axis=2)
    together = min(float(az.ess(flat[..., k])) for k in range(flat.shape[2]))
    alone = max(min(float(az.ess(chain[None, :, k])) for k in range(flat.shape[2])) for chain in flat)
    return {"ess": together, "ess of the best chain, times chains": alone * len(flat)}


def ours(y: np.ndarray) -> dict[str, float]:
    import bayeslab as bl

    model = bl.Model(
        name="bench",
        model={
            "family": "hmm",
            "columns": ["y"],
            "states": 3,
            "initial": "uniform",
            "parameters": {"mean": list(MEANS), "sd": "HalfNormal(2)"},
        },
    )
    fit = bl.fit(model, {"y": y}, method="nuts", seed=1, runs=None, progress=False, chains=2, draws=1000, tune=1000)
    least = least_ess(fit.posterior.to_dataset(), ("transition", "mean", "sd"))
    return {"compile": fit.timings["compile"], "sample": fit.timings["sample"], **least}


def marginalize(y: np.ndarray) -> dict[str, float]:
    import nutpie
    import pymc as pm
    import pymc_extras as pmx
    from pymc_extras.marginal import marginalize as summed

    begun = time.perf_counter()
    with pm.Model() as model:
        transition = pm.Dirichlet("transition", np.ones((3, 3)))
        start = pm.Categorical.dist(p=np.full(3, 1 / 3))
        state = pmx.DiscreteMarkovChain("state", P=transition, init_dist=start, shape=(len(y),))
        mean = pm.Normal("mean", np.array([-2.0, 0.0, 3.0]), 1.0)
        sd = pm.HalfNormal("sd", 2.0, shape=3)
        pm.Normal("y", mean[state], sd[state], observed=y)
    compiled = nutpie.compile_pymc_model(summed(model, [state]))
    built = time.perf_counter()
    draws, tune = 400, 600
    tree = nutpie.sample(compiled, draws=draws, tune=tune, chains=2, cores=2, seed=1, progress_bar=False)
    done = time.perf_counter()
    least = least_ess(tree["posterior"].to_dataset(), ("transition", "mean", "sd"))
    return {"compile": built - begun, "sample": done - built, **least, "draws": draws, "tune": tune}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    which = sys.argv[1]
    found = (ours if which == "bayeslab" else marginalize)(series(int(sys.argv[2]) if len(sys.argv) > 2 else 2000))
    print(json.dumps({which: found}))
