"""Diagnostics of sampled structures against ArviZ, against exact probabilities, and on made-up symptoms."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.engines.toolbox.structure_groups import edges_of, structure_groups
from bayeslab.results.structure_checks import edge_diagnostics, judge_structures, mean_error, score_r_hat
from bayeslab.structure import chains
from bayeslab.structure.exact_posterior import dag_posterior
from tests.structure._dags import random_scores, table_of


def run(table, word="structure", n_chains=4, n_draws=1000, thin=60, seed=0):
    chain, out = chains.load(word), []
    for rng in np.random.default_rng(seed).spawn(n_chains):
        state, _, _ = chain.run(table, chain.init(table, rng), 500)
        out.append(chain.run(table, state, n_draws * thin, thin)[1])
    return np.array(out)


@pytest.fixture(scope="module")
def mixing():
    table = table_of(5, random_scores(7, 1.5), max_parents=2)
    return table, structure_groups(table, run(table))


def diagnostics(groups):
    names = groups["posterior"]["target"].values
    return edge_diagnostics(names, groups["parent_sets"]["member"].values, groups["posterior"]["parents"].values)


def by_check(groups, **options):
    return {f.check: f for f in judge_structures(groups, **options).findings}


def of_edges(edges):
    """Groups of made-up draws of two variables: 0 no edge, 1 a -> b, 2 b -> a; shape (chain, draw)."""
    table = table_of(2, lambda child, masks: -1.0 * (masks > 0))
    number = [[table.number(0, ()), table.number(0, (1,))], [table.number(1, ()), table.number(1, (0,))]]
    draws = np.stack([np.array(number[0])[(edges == 2) * 1], np.array(number[1])[(edges == 1) * 1]], axis=-1)
    return structure_groups(table, draws)


# --- the numbers


def test_edges_are_those_of_the_drawn_graphs(mixing):
    table, groups = mixing
    posterior, sets = groups["posterior"], groups["parent_sets"]
    draws = run(table)
    for chain, draw in ((0, 0), (3, 999), (1, 500)):
        graph = table.graph(draws[chain, draw])
        one = posterior.isel(chain=chain, draw=draw)
        edges = {(u, v) for u in table.names for v in table.names if one["edge"].sel(source=u, target=v)}
        assert edges == set(graph.edges) and len(edges) == int(one["n_edges"])
        assert float(one["score"]) == pytest.approx(table.of_graph(graph))
        for v in table.names:
            own = sets.isel(parent_set=int(one["parents"].sel(target=v)))
            assert {u for u in table.names if own["member"].sel(source=u)} == set(graph.predecessors(v))
            assert table.names[int(own["child"])] == v
            parents = [table.number_of[u] for u in graph.predecessors(v)]
            assert float(own["local_score"]) == table.local(table.number_of[v], parents)


def test_many_edges_are_left_to_be_computed(mixing, monkeypatch):
    table, groups = mixing
    monkeypatch.setattr("bayeslab.engines.toolbox.structure_groups.MOST_CELLS", 1000)
    slim = structure_groups(table, run(table))
    assert "edge" not in slim["posterior"]
    computed = edges_of(slim["parent_sets"]["member"].values, slim["posterior"]["parents"].values)
    np.testing.assert_array_equal(computed, groups["posterior"]["edge"].values)


def test_error_and_r_hat_of_indicators_are_arviz_s(mixing):
    import arviz as az
    import xarray as xr

    _, groups = mixing
    found = diagnostics(groups)
    moving = ~found.constant & ~np.eye(5, dtype=bool)
    assert moving.sum() > 12
    edge = xr.Dataset({"edge": (("chain", "draw", "which"), groups["posterior"]["edge"].values[..., moving] * 1.0)})
    for name, theirs in (
        ("ess", az.ess(edge, method="mean")["edge"].values),
        ("r_hat", az.rhat(edge, method="split")["edge"].values),
        ("mcse", az.mcse(edge, method="mean")["edge"].values),
    ):
        np.testing.assert_allclose(getattr(found, name)[moving], theirs, rtol=1e-6)


def test_errors_cover_the_exact_probabilities(mixing):
    table, groups = mixing
    found = diagnostics(groups)
    exact = dag_posterior(table).edges
    moving = ~found.constant & ~np.eye(5, dtype=bool)
    z = (found.probability - exact)[moving] / found.mcse[moving]
    assert np.abs(z).max() < 4.5
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.7  # errors are neither far too small nor far too large


def test_score_and_means():
    import arviz as az

    rng = np.random.default_rng(1)
    series = rng.normal(size=(4, 600)).cumsum(axis=1) * 0.05 + rng.normal(size=(4, 600))
    assert score_r_hat(series)[0] == pytest.approx(float(az.rhat(series, method="rank")), rel=1e-6)
    assert score_r_hat(series)[1] == pytest.approx(float(az.ess(series, method="bulk")), rel=1e-6)
    error, size = mean_error(np.stack([series, np.full_like(series, 3.0)]))
    assert error[0] == pytest.approx(float(az.mcse(series, method="mean")), rel=1e-6)
    assert error[1] == 0 and np.isnan(size[1])


# --- the verdict


def test_chains_that_mix_pass(mixing):
    _, groups = mixing
    verdict = judge_structures(groups)
    assert verdict.status == "pass", str(verdict)
    assert {f.check for f in verdict.findings} == {
        "chains", "score", "edge R-hat", "edge ESS", "agreement", "constant",
    }  # fmt: skip


def test_constant_edges_are_counted():
    rng = np.random.default_rng(2)
    found = by_check(of_edges(rng.integers(0, 2, (4, 1000))))  # b -> a never
    assert found["constant"].value == 1
    assert "1 of 2 edges are constant" in found["constant"].message and "1 never" in found["constant"].message
    assert found["edge R-hat"].status == "pass"


def test_chains_in_different_modes_fail():
    edges = np.repeat([1, 1, 2, 2], 500).reshape(4, 500)
    found = by_check(of_edges(edges))
    assert found["edge R-hat"].status == "fail" and "infinite" in found["edge R-hat"].message
    assert found["modes"].status == "fail" and "different modes" in found["modes"].message
    assert found["agreement"].status == "fail" and found["agreement"].value == 1
    assert "tempering" in found["modes"].advice


def test_rare_jumps_between_modes_are_flagged():
    stretch = np.repeat([1, 2, 1, 2], 250)
    found = by_check(of_edges(np.stack([stretch, stretch[::-1], np.roll(stretch, 125), np.roll(stretch, 60)])))
    assert found["modes"].status == "warn" and "jumps between modes" in found["modes"].message
    assert found["edge ESS"].status == "fail"


def test_how_many_more_draws():
    """With a tenth of the effective draws that are wanted, ten times as many draws are advised."""
    rng = np.random.default_rng(3)
    edges = np.repeat(rng.integers(0, 2, (4, 200)), 10, axis=1)  # 2,000 draws a chain worth 200
    found = by_check(of_edges(edges))["edge ESS"]
    assert found.status == "pass" and found.value == pytest.approx(800, rel=0.25)
    found = by_check(of_edges(edges[:, :600]))["edge ESS"]
    assert found.status == "warn" and found.value == pytest.approx(240, rel=0.35)
    more = int(found.advice.split("--draws +")[1].split(")")[0].replace(",", ""))
    assert more == pytest.approx(600 * (400 / found.value - 1), abs=10)


def test_one_chain_and_too_few_draws():
    rng = np.random.default_rng(4)
    edges = rng.integers(0, 3, (1, 1000))
    found = by_check(of_edges(edges), complete=False)
    assert found["chains"].status == "warn" and "agreement" not in found
    assert found["interrupted"].status == "warn"
    assert judge_structures(of_edges(edges[:, :3])).status == "fail"


def test_one_structure_in_all_draws():
    same = np.ones((4, 100), dtype=int)
    assert judge_structures(of_edges(same)).status == "pass"
    assert by_check(of_edges(same[:1]))["constant"].status == "warn"


def test_temperatures_that_do_not_exchange_are_told(mixing):
    table, _ = mixing
    groups = structure_groups(table, run(table), stats={"acceptance": {"edge": 0.2, "exchange": 0.02}})
    assert by_check(groups)["exchanges"].status == "warn"
