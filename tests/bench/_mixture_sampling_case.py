"""NUTS on a mixture of five normals, side by side with PyMC's `NormalMixture` and nutpie.

``python _mixture_sampling_case.py [bayeslab|pymc] [N]`` prints, as JSON, seconds to compile and to sample, and the least
effective sample size. N = 10,000 rows unless said otherwise, the same priors for both, and means in ascending order.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np

MEANS = np.array([-6.0, -3.0, 0.0, 3.0, 6.0])
WEIGHTS = np.array([0.1, 0.3, 0.2, 0.25, 0.15])
DRAWS, TUNE, CHAINS = 1000, 1000, 2


def rows(n: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    which = rng.choice(5, n, p=WEIGHTS)
    return MEANS[which] + np.array([0.6, 0.8, 1.0, 0.7, 0.9])[which] * rng.standard_normal(n)


def least_ess(draws: dict[str, np.ndarray]) -> float:
    import arviz as az

    each = [draws[name][..., k] for name in ("weights", "mean", "sd") for k in range(5)]
    return min(float(az.ess(own)) for own in each)


def ours(y: np.ndarray) -> dict[str, float]:
    import bayeslab as bl

    model = bl.Model(
        name="bench",
        model={
            "family": "mixture",
            "columns": ["y"],
            "components": 5,
            "covariance": "diagonal",
            "order": "y",
            "priors": {"weights": 1, "mean": "Normal(0, 5)", "sd": "HalfNormal(2)"},
        },
    )
    fit = bl.fit(
        model, {"y": y}, method="nuts", seed=1, runs=None, progress=False, chains=CHAINS, draws=DRAWS, tune=TUNE
    )
    drawn = {name: values.to_numpy().reshape(CHAINS, DRAWS, -1) for name, values in fit.posterior.data_vars.items()}
    return {"compile": fit.timings["compile"], "sample": fit.timings["sample"], "ess": least_ess(drawn)}


def pymc(y: np.ndarray) -> dict[str, float]:
    import nutpie
    import pymc as pm

    begun = time.perf_counter()
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(5))
        ordered = pm.distributions.transforms.ordered
        mean = pm.Normal("mean", 0.0, 5.0, shape=5, transform=ordered, initval=np.linspace(y.min(), y.max(), 5))
        sd = pm.HalfNormal("sd", 2.0, shape=5)
        pm.NormalMixture("y", weights, mean, sd, observed=y)
    compiled = nutpie.compile_pymc_model(model)
    built = time.perf_counter()
    tree = nutpie.sample(compiled, draws=DRAWS, tune=TUNE, chains=CHAINS, cores=2, seed=1, progress_bar=False)
    done = time.perf_counter()
    drawn = {name: values.to_numpy() for name, values in tree["posterior"].data_vars.items()}
    return {"compile": built - begun, "sample": done - built, "ess": least_ess(drawn)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    which = sys.argv[1]
    found = {"bayeslab": ours, "pymc": pymc}[which](rows(int(sys.argv[2]) if len(sys.argv) > 2 else 10_000))
    print(json.dumps({which: found}))
