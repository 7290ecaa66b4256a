"""The shipped nets of unknown structure: their data, and their posteriors against sums over all structures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.structure import scores
from bayeslab.structure.exact_posterior import dag_posterior
from bayeslab.structure.score_table import ScoreTable
from tests.models.shipped import MODELS, fitted
from tests.models.shipped import words as table

# Of each node the parents; every share is made up, rising with the states of the parents.
PATHWAY = {
    "pkc": (),
    "pka": ("pkc",),
    "raf": ("pkc", "pka"),
    "mek": ("pkc", "pka", "raf"),
    "erk": ("pka", "mek"),
    "akt": ("pka", "erk"),
    "jnk": ("pkc", "pka"),
    "p38": ("pkc", "pka"),
    "plcg": (),
    "pip3": ("plcg",),
    "pip2": ("plcg", "pip3"),
}
LEVELS = np.array(["low", "mid", "high"])


def simulated_cells(n: int = 700) -> pd.DataFrame:
    """What models/data/sachs.csv holds."""
    rng = np.random.default_rng(2005)
    codes: dict[str, np.ndarray] = {}
    for v, parents in PATHWAY.items():
        pull = rng.uniform(0.6, 1.2, len(parents))
        drive = sum((p * (codes[u] - 1) for p, u in zip(pull, parents, strict=True)), np.zeros(n))
        weights = np.exp(np.outer(drive, [-1, 0, 1]))
        shares = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
        codes[v] = (rng.random(n)[:, None] > shares[:, :-1]).sum(axis=1)
    return pd.DataFrame({v: LEVELS[codes[v]] for v in sorted(codes)})


def simulated_patients(n: int = 1000) -> pd.DataFrame:
    """What models/data/asia.csv holds."""
    return bl.network(MODELS / "asia.yaml").sample(n, seed=1988)


def simulated_pumps(n: int = 1200) -> pd.DataFrame:
    """What models/data/pumps.csv holds: no column says which bearings are worn."""
    rng = np.random.default_rng(1997)
    old = rng.random(n) < 0.4
    worn = rng.random(n) < np.where(old, 0.6, 0.15)
    out = {"age": np.where(old, "old", "new")}
    for v, (yes, no) in {
        "heat": (0.7, 0.1),
        "leak": (0.6, 0.05),
        "noise": (0.85, 0.2),
        "vibration": (0.8, 0.1),
    }.items():
        out[v] = np.where(rng.random(n) < np.where(worn, yes, no), "yes", "no")
    return pd.DataFrame(out)


SIMULATED = [("asia", simulated_patients), ("sachs", simulated_cells), ("pumps", simulated_pumps)]


@pytest.mark.parametrize(("name", "made"), SIMULATED)
def test_simulated_tables_are_reproducible(name, made):
    pd.testing.assert_frame_equal(table(name), made().astype(table(name).dtypes))


def exact_edges(data: pd.DataFrame, word: str, max_parents: int = 3, **options) -> np.ndarray:
    """Sums over all DAGs, uniform prior."""
    return dag_posterior(ScoreTable.build(scores.load(word, data, **options), max_parents=max_parents)).edges


def test_asia_from_data():
    """Sums written elsewhere; the edges that 1,000 patients show are those of the net, or turned round."""
    fit = fitted("asia_structure")
    assert fit.method == "exact" and fit.verdict.status == "pass"
    exact = exact_edges(table("asia"), "bdeu", equivalent_sample_size=1)
    found = fit.structures.edge_probability
    np.testing.assert_allclose(found.to_numpy(), exact, atol=1e-9)
    true = bl.network(MODELS / "asia.yaml").graph
    either_way = found + found.T
    assert either_way.loc["bronchitis", "smoking"] > 0.95
    assert either_way.loc["bronchitis", "dyspnoea"] > 0.95
    for a, b in fit.structures.consensus(0.7).edges:
        assert true.has_edge(a, b) or true.has_edge(b, a)


@pytest.mark.slow(why="processes")
def test_sachs_by_chains_are_the_sums():
    fit = fitted("sachs")
    assert fit.method == "structure" and fit.verdict.status == "pass", str(fit.verdict)
    exact = exact_edges(table("sachs"), "bdeu", equivalent_sample_size=1)
    edges = fit.structures.edges()
    for row in edges.itertuples():
        names = list(table("sachs").columns)
        truth = exact[names.index(row.source), names.index(row.target)]
        # An edge that is nearly always there has hardly any error of its own: one draw in the 4,000.
        error = max(0.0 if np.isnan(row.mcse) else row.mcse, 1 / 4000)
        assert row.probability == pytest.approx(truth, abs=5 * error), (row.source, row.target)


def test_crime_in_the_states():
    """BGe by sums; police and crime go together in whatever direction."""
    fit = fitted("crime_structure")
    assert fit.verdict.status == "pass"
    names = ["crime", "police_1960", "wealth", "inequality", "schooling", "prison"]
    found = fit.structures.edge_probability
    np.testing.assert_allclose(
        found.loc[names, names].to_numpy(), exact_edges(table("crime")[names].astype(float), "bge", 5), atol=1e-9
    )
    assert found.loc["police_1960", "crime"] + found.loc["crime", "police_1960"] > 0.9


def test_what_is_known_about_births_is_kept():
    fit = fitted("birth_weight_structure")
    assert fit.verdict.status == "pass"
    found = fit.structures.edge_probability
    assert found.loc["smoker", "low"] == pytest.approx(1.0, abs=1e-9)
    assert found.loc["race", "low"] == 0
    order = [["race"], ["smoker", "hypertension"], ["premature"], ["irritability"], ["low"]]
    tier = {v: k for k, group in enumerate(order) for v in group}
    back = [found.loc[a, b] for a in tier for b in tier if tier[a] > tier[b]]
    assert max(back) == 0


@pytest.mark.slow(why="large")
def test_what_lies_behind_the_alarms_of_pumps_is_found():
    """The planted cause, given or invented, makes eight edges five, and its shares are those of the simulation."""
    found = bl.learn(MODELS / "pumps_hidden.yaml")
    alarms = {"heat", "leak", "noise", "vibration"}
    assert set(found.graph.edges) == {("age", "bearing"), *(("bearing", v) for v in alarms)}
    seen = bl.learn(table("pumps"), "tabu", "bic")
    assert found.score > seen.score + 30 and seen.graph.number_of_edges() > 5
    net = found.network()
    worn = max(net.states["bearing"], key=lambda state: net.query({"bearing": state})["heat"]["yes"])
    for v, (yes, _) in {"heat": (0.7, 0.1), "noise": (0.85, 0.2), "vibration": (0.8, 0.1)}.items():
        assert net.query({"bearing": worn})[v]["yes"] == pytest.approx(yes, abs=0.08)
    assert net.query({"age": "old"})["bearing"][worn] == pytest.approx(0.6, abs=0.08)
    invented = bl.learn(table("pumps"), "structural_em", invent=1)
    assert dict(invented.found.hidden) == {"hidden1": 2} and invented.score == pytest.approx(found.score, abs=1e-3)
