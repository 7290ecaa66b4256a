"""Posterior probabilities of edges of real tables that others computed by exact sums over DAGs."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from bayeslab.structure.chains import load as load_chain
from bayeslab.structure.exact_posterior import dag_posterior
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.scores import load
from tests.conformance.references import SHARED, require

FOLDER = SHARED / "conformance" / "structure"
NAMES = ["asia", "learning.test", "lizards"]


def reference(name):
    require(FOLDER, "reference posteriors")
    return json.loads((FOLDER / f"edges_{name}.json").read_text())


def table_of(case):
    rows = pd.read_csv(SHARED / "data" / "tables" / case["table"], dtype=str, nrows=case["rows"])[case["columns"]]
    score = load("bdeu", rows, equivalent_sample_size=case["equivalent_sample_size"], states=case["states"])
    return ScoreTable.build(score, max_parents=case["max_parents"])


def test_every_reference_is_compared():
    reference("asia")
    assert {path.stem.removeprefix("edges_") for path in FOLDER.glob("edges_*.json")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_exact_edge_probabilities_agree_with_the_reference(name):
    case = reference(name)
    found = dag_posterior(table_of(case))
    number = {v: i for i, v in enumerate(found.names)}
    for edge, want in case["edge_probability"].items():
        u, v = edge.split("->")
        # References are written with ten digits.
        assert found.edges[number[u], number[v]] == pytest.approx(want, abs=2e-9, rel=2e-9), edge
    assert len(case["edge_probability"]) == len(number) * (len(number) - 1)
    assert np.all(np.diag(found.edges) == 0)


@pytest.mark.slow(why="conformance")
@pytest.mark.parametrize("name", ["structure", "partition"])
def test_structure_mcmc_agrees_with_the_reference(name):
    """Four chains; standard errors from batches of all of them."""
    case = reference("asia")
    table = table_of(case)
    chain, n_steps = load_chain(name), 2_000_000
    batches = []
    for rng in np.random.default_rng(1).spawn(4):
        state, _, _ = chain.run(table, chain.init(table, rng), n_steps // 10, n_steps)
        _, draws, _ = chain.run(table, state, n_steps, 100)
        bits = table.sets[:, 0][draws][:, :, None] >> np.arange(table.n, dtype=np.uint64) & np.uint64(1)
        batches.append(bits.reshape(10, -1, table.n, table.n).mean(axis=1))
    means = np.concatenate(batches)
    found, error = means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(len(means))
    assert np.max(error) < 0.02
    for edge, want in case["edge_probability"].items():
        u, v = (table.number_of[name] for name in edge.split("->"))
        assert abs(found[v, u] - want) < 5 * error[v, u] + 1e-3, edge
