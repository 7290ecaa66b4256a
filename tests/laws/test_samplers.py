"""A law of samplers: a chain that is stopped anywhere, stored in a file and continued is the chain that was not stopped."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.data.binding import bind
from bayeslab.data.dataset import Dataset
from bayeslab.families import hmm, latent_features, markov_random_field, mixture, topics

RNG = np.random.default_rng(5)
ROWS = pd.DataFrame(
    {
        "x": np.where(RNG.random(24) < 0.4, -2.0, 2.0) + RNG.normal(size=24),
        "y": RNG.normal(size=24),
        "count": RNG.poisson(3, 24).astype(float),
    }
)
ROWS.loc[3, "x"] = np.nan
WORDS = ["wheat corn wheat barley", "ship port ship sea", "corn barley wheat corn", "sea port sea ship"]
TEXTS = pd.DataFrame({"text": WORDS * 3})

CASES = {
    "mixture": (mixture, {"family": "mixture", "columns": ["x", "y"], "components": 2}, ROWS),
    "number of components": (
        mixture,
        {"family": "mixture", "columns": ["count"], "component": "poisson", "components": "sampled"},
        ROWS,
    ),
    "Dirichlet process": (
        mixture,
        {"family": "mixture", "columns": ["y"], "components": "dirichlet_process"},
        ROWS,
    ),
    "chain": (hmm, {"family": "hmm", "columns": ["x", "y"], "states": 2}, ROWS),
    "infinite chain": (hmm, {"family": "hmm", "columns": ["y"], "states": "infinite", "most": 8}, ROWS),
    "features": (
        latent_features,
        {"family": "latent_features", "columns": ["x", "y", "count"], "kind": "binary", "features": "ibp"},
        ROWS,
    ),
    "field": (
        markov_random_field,
        {
            "family": "markov_random_field",
            "grid": {"observed": "count", "row": "line", "column": "place", "states": ["0", "1"], "coupling": 0.5,
                     "emission": {"0": "Poisson(2)", "1": "Poisson(5)"}},
        },
        ROWS.assign(line=np.arange(24) // 6, place=np.arange(24) % 6),
    ),
    "topics": (topics, {"family": "topics", "text": "text", "topics": 2}, TEXTS),
}  # fmt: skip


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("name", CASES)
def test_a_chain_continues_bit_for_bit(name, tmp_path):
    family, spec, table = CASES[name]
    model = bl.Model(model=spec)
    data = bind(model, Dataset.from_table(table, model.data.rows), model.factors())
    chains = family.compile(model, data).gibbs_plan.chains
    draws, tune, ends = 9, 8, []
    for stops in ([], [1], [5, 12]):
        (rng,) = np.random.default_rng(2).spawn(1)
        chain = chains.begin(rng, draws, tune)
        for stop in [*(s for s in stops if s > chain["done"]), draws + tune]:
            before = {key: np.array(value) for key, value in chain.items()}
            after = chains.advance(chain, stop - int(chain["done"]))
            assert all(np.array_equal(before[key], chain[key], equal_nan=True) for key in before if key != "rng")
            np.savez(tmp_path / "chain.npz", **after)
            chain = dict(np.load(tmp_path / "chain.npz"))
        ends.append(chain)
    for other in ends[1:]:
        assert other.keys() == ends[0].keys()
        for key, value in ends[0].items():
            assert np.array_equal(value, other[key], equal_nan=value.dtype.kind == "f"), key
