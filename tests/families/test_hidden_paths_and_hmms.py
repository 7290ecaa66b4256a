"""The same model as a hidden Markov model and node by node: one log density, one posterior."""

from __future__ import annotations

import numpy as np
import pytest
from pytensor import function
from pytensor.compile.mode import Mode
from pytensor.graph.replace import clone_replace

import bayeslab as bl

PYTHON = Mode("py", "fast_compile")
RNG = np.random.default_rng(8)
N = 12
DATA = {
    "t": np.arange(N),
    "y": np.where(np.arange(N) == 4, np.nan, RNG.normal(size=N)),
    "n": RNG.poisson(2, N),
    "who": np.repeat(["a", "b", "c"], 4),
    "above": np.array([np.nan, 0, 0, 1, 1, 2, np.nan, 6, 6, 7, 9, 10]),
}
K = 3
P = RNG.dirichlet(np.ones(K), K)
VALUES = {
    "transition": P,
    "initial": RNG.dirichlet(np.ones(K)),
    "mean": np.array([-1.0, 0.3, 1.0]),
    "sd": np.array([0.5, 1.0, 2.0]),
    "rate": np.array([0.5, 2.0, 4.0]),
    "second_transition": P,
}
NORMAL = {
    "transition[state, next_state]": "Dirichlet(1)",
    "initial[state]": "Dirichlet(1)",
    "mean[state]": "Normal(0, 5)",
    "sd[state]": "HalfNormal(2)",
    "y[t]": "Normal(mean[z], sd[z])",
}
COUNTS = {
    "transition[state, next_state]": "Dirichlet(1)",
    "rate[state]": "Gamma(1, 1)",
    "n[t]": "Poisson(rate[z])",
}
PRIORS = {"mean": "Normal(0, 5)", "sd": "HalfNormal(2)"}
PAIRS = {
    "free initial": ({"columns": ["y"], "parameters": PRIORS}, NORMAL | {"z[t]": "MarkovChain(transition, initial)"}),
    "sequences": (
        {"columns": ["y"], "sequence": "who", "parameters": PRIORS},
        NORMAL | {"z[t]": "MarkovChain(transition, initial, sequence=who)"},
    ),
    "stationary": (
        {"columns": ["n"], "emission": "poisson", "initial": "stationary"},
        COUNTS | {"z[t]": "MarkovChain(transition, stationary)"},
    ),
    "tree": (
        {"columns": ["n"], "emission": "poisson", "initial": "uniform", "parent": "above"},
        COUNTS | {"z[t]": "MarkovTree(transition, parent=above)"},
    ),
}


def hmm(**spec):
    return bl.Model(data={"rows": "t"}, model={"family": "hmm", "states": K, **spec})


def nodes(written):
    dims = {"state": K, "next_state": "state"}
    return bl.Model(data={"rows": "t"}, dims=dims, model={"family": "graph", "nodes": written})


def evidence(built):
    (potential,) = built.potentials
    start = dict(zip((rv.name for rv in built.free_RVs), (rv.shape.eval() for rv in built.free_RVs), strict=True))
    symbols = {rv: rv.type() for rv in built.free_RVs}
    at = function(list(symbols.values()), clone_replace([potential], symbols), mode=PYTHON, on_unused_input="ignore")
    return float(at(*(np.asarray(VALUES[rv.name], dtype=rv.dtype).reshape(start[rv.name]) for rv in symbols))[0])


@pytest.mark.parametrize("case", PAIRS)
def test_one_sum_over_all_paths(case):
    spec, written = PAIRS[case]
    here, there = (bl.to_pymc(model, DATA) for model in (nodes(written), hmm(**spec)))
    assert evidence(here) == pytest.approx(evidence(there), abs=1e-10)


def test_one_log_density_with_the_same_priors():
    """Of parameters and data, at a random point of the unconstrained scale."""
    spec = {"columns": ["n"], "emission": "poisson", "initial": "uniform", "parameters": {"rate": "Gamma(2, 0.7)"}}
    written = COUNTS | {"rate[state]": "Gamma(2, 0.7)", "z[t]": "MarkovChain(transition)"}
    here, there = (bl.to_pymc(model, DATA) for model in (nodes(written), hmm(**spec)))
    start = here.initial_point()
    point = {name: np.random.default_rng(2).normal(0, 0.5, np.shape(v)) for name, v in start.items()}
    shapes = {name: np.shape(v) for name, v in there.initial_point().items()}
    other = {name: point[name].reshape(shapes[name]) for name in shapes}
    found = [model.compile_logp(mode=PYTHON)(at) for model, at in ((here, point), (there, other))]
    assert found[0] == pytest.approx(found[1], abs=1e-9)


@pytest.mark.slow(why="statistical")
def test_one_posterior():
    rng = np.random.default_rng(1)
    z = [0]
    for _ in range(149):
        z.append(int(rng.random() < [0.1, 0.85][z[-1]]))
    n = rng.poisson(np.array([1.0, 5.0])[z])
    spec = {"columns": ["n"], "emission": "poisson", "initial": "uniform", "states": 2}
    spec["parameters"] = {"rate": "Gamma(2, 0.5)"}
    here = bl.Model(
        data={"rows": "t"},
        dims={"state": 2, "next_state": "state"},
        model={
            "family": "graph",
            "nodes": COUNTS | {"rate[state]": "Gamma(2, 0.5)", "z[t]": "MarkovChain(transition)"},
        },
    )
    fits = [
        bl.fit(model, data={"n": n}, method="nuts", seed=1, runs=None, progress=False) for model in (here, hmm(**spec))
    ]
    assert all(fit.verdict.status == "pass" for fit in fits), [str(fit.verdict) for fit in fits]
    for name in ("rate", "transition"):
        one, two = (fit.summary(var_names=[name]) for fit in fits)
        # Their states are numbered from 0 and from 1.
        error = np.hypot(one["mcse_mean"].to_numpy(), two["mcse_mean"].to_numpy())
        assert np.all(np.abs(one["mean"].to_numpy() - two["mean"].to_numpy()) < 5 * error)
    chances = [fit.decode(method="smooth").filter(like="P(state=").to_numpy()[:, 1] for fit in fits]
    np.testing.assert_allclose(*chances, atol=0.05)
