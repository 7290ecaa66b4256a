"""NUTS on a Gaussian hidden Markov model, side by side with pymc-extras' `marginalize` and nutpie, and with NumPyro.

``python _hmm_sampling_case.py [bayeslab|marginalize|numpyro] [T]`` prints, as JSON, seconds to compile and to sample,
and the least effective sample size. Three states, T = 2,000 rows unless said otherwise, the same priors for all.
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
    from bayeslab.latents.chains.forward_backward import HiddenChain, simulate_states

    rng = np.random.default_rng(1)
    chain = HiddenChain.of(np.full(3, 1 / 3), [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]])
    states = simulate_states(chain, [0, n], rng)
    return np.array([-2.0, 0.0, 3.0])[states] + np.array([0.5, 0.7, 1.0])[states] * rng.standard_normal(n)


def least_ess(draws: dict[str, np.ndarray]) -> dict[str, float]:
    """The least effective sample size: of all chains together, and (had all done so well) of the best chain alone."""
    import arviz as az

    flat = np.concatenate([draws[n].reshape(*draws[n].shape[:2], -1) for n in ("transition", "mean", "sd")], axis=2)
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
    least = least_ess({name: values.to_numpy() for name, values in fit.posterior.data_vars.items()})
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
    least = least_ess({name: values.to_numpy() for name, values in tree["posterior"].data_vars.items()})
    return {"compile": built - begun, "sample": done - built, **least, "draws": draws, "tune": tune}


def numpyro(y: np.ndarray) -> dict[str, float]:
    """NumPyro sums the states out one time after the other (its ``scan`` with enumeration)."""
    import numpyro as npyro

    npyro.set_host_device_count(2)
    npyro.enable_x64()
    import jax
    import jax.numpy as jnp
    import numpyro.distributions as dist
    from numpyro.contrib.control_flow import scan
    from numpyro.infer import MCMC, NUTS

    def model(rows: Any) -> None:
        transition = npyro.sample("transition", dist.Dirichlet(jnp.ones((3, 3))).to_event(1))
        mean = npyro.sample("mean", dist.Normal(jnp.array([-2.0, 0.0, 3.0]), 1.0).to_event(1))
        sd = npyro.sample("sd", dist.HalfNormal(2.0).expand([3]).to_event(1))

        def step(carry: Any, row: Any) -> tuple[Any, None]:
            before, t = carry
            law = jnp.where(t == 0, jnp.full(3, 1 / 3), transition[before])
            state = npyro.sample("state", dist.Categorical(law), infer={"enumerate": "parallel"})
            npyro.sample("y", dist.Normal(mean[state], sd[state]), obs=row)
            return (state, t + 1), None

        scan(step, (0, 0), rows)

    draws, tune = 400, 600
    sampler = MCMC(
        NUTS(model),
        num_warmup=tune,
        num_samples=draws,
        num_chains=2,
        chain_method="parallel",
        progress_bar=False,
        jit_model_args=True,
    )
    begun = time.perf_counter()
    sampler.run(jax.random.key(1), jnp.asarray(y))
    jax.block_until_ready(sampler.get_samples())
    done = time.perf_counter()
    # The second run, tuning and all, has nothing to compile.
    sampler.run(jax.random.key(1), jnp.asarray(y))
    jax.block_until_ready(sampler.get_samples())
    sample = time.perf_counter() - done
    least = least_ess({name: np.asarray(v) for name, v in sampler.get_samples(group_by_chain=True).items()})
    return {"compile": max(done - begun - sample, 0.0), "sample": sample, **least, "draws": draws, "tune": tune}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    which = sys.argv[1]
    found = {"bayeslab": ours, "marginalize": marginalize, "numpyro": numpyro}[which](
        series(int(sys.argv[2]) if len(sys.argv) > 2 else 2000)
    )
    print(json.dumps({which: found}))
