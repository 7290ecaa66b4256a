"""Unknown structures of few variables by engine exact, against all DAGs one by one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import bayeslab as bl
from bayeslab.engines import auto
from bayeslab.families.bayes_net import unknown_structure
from bayeslab.families.bayes_net.exact_structure import MOST_BY_DAGS, plan
from bayeslab.posterior.contract import posterior_of
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.scores import load
from tests.structure._dags import Everything


def columns():
    rng = np.random.default_rng(3)
    a = rng.integers(0, 2, 50)
    b = np.where(rng.random(50) < 0.75, a, rng.integers(0, 2, 50))
    c = rng.integers(0, 3, 50)
    d = np.where(rng.random(50) < 0.6, (b + c) % 2, rng.integers(0, 2, 50))
    return {name: np.array(list("xyz"))[code] for name, code in zip("abcd", (a, b, c, d), strict=True)}


def model(**structure):
    return bl.Model(model=bl.BayesNet(structure={"score": "bdeu", "equivalent_sample_size": 2, **structure}))


def solved(draws=2500, **structure):
    return bl.fit(model(**structure), columns(), "exact", seed=2, progress=False, runs=None, draws=draws)


def everything(**options):
    return Everything.of(ScoreTable.build(load("bdeu", columns(), equivalent_sample_size=2.0), **options))


@pytest.fixture(scope="module")
def fit():
    return solved()


def test_probabilities_are_those_of_all_dags(fit):
    every = everything(max_parents=3)
    exact = fit.data_tree["exact_posterior"]
    np.testing.assert_allclose(exact["edge_probability"].values, every.mean(every.adjacency), atol=1e-12)
    np.testing.assert_allclose(exact["path_probability"].values, every.mean(every.reachable), atol=1e-12)
    frame = fit.structures.edges()
    assert "mcse" not in frame and len(frame) == 12
    for row in frame.itertuples():
        at = "abcd".index(row.source), "abcd".index(row.target)
        assert row.probability == pytest.approx(every.mean(every.adjacency)[at], abs=1e-12)
    paths = fit.structures.paths()
    assert paths.probability.max() == pytest.approx(every.mean(every.reachable).max(), abs=1e-12)


def test_evidence_is_the_mean_over_all_dags(fit):
    every = everything(max_parents=3)
    want = logsumexp(every.scores) - np.log(543)
    assert fit.data_tree["exact_posterior"].attrs["log_evidence"] == pytest.approx(want, abs=1e-9)
    assert {f.check: f.value for f in fit.verdict.findings}["evidence"] == pytest.approx(want, abs=1e-9)


def test_evidence_under_another_prior():
    """A sparse prior weighs parent sets by one over their number of the same size; the weights are made to add up."""
    every = everything(max_parents=3)
    sizes = every.adjacency.sum(axis=1)
    log_prior = -(gammaln(4) - gammaln(sizes + 1) - gammaln(4 - sizes)).sum(axis=1)
    want = logsumexp(every.scores + log_prior) - logsumexp(log_prior)
    got = solved(prior="sparse").data_tree["exact_posterior"].attrs["log_evidence"]
    assert got == pytest.approx(want, abs=1e-9)


def test_draws_are_independent_and_from_the_posterior(fit):
    every = everything(max_parents=3)
    code = 2 ** np.arange(16).reshape(4, 4)
    seen = (fit.posterior["edge"].values.astype(int) * code).sum(axis=(2, 3)).ravel()
    known = (every.adjacency * code).sum(axis=(1, 2))
    assert set(seen) <= set(known)
    counts, wanted = np.array([(seen == k).sum() for k in known]), every.weights() * seen.size
    rare = wanted < 5
    counts, wanted = np.append(counts[~rare], counts[rare].sum()), np.append(wanted[~rare], wanted[rare].sum())
    assert stats.chisquare(counts, wanted).pvalue > 1e-4
    scores = fit.posterior["score"].values
    assert abs(np.corrcoef(scores[:, 1:].ravel(), scores[:, :-1].ravel())[0, 1]) < 4 / np.sqrt(scores.size)


@pytest.mark.slow(why="statistical")
def test_groups_are_those_of_sampled_structures(fit):
    sampled = bl.fit(
        model(sampler="partition"),
        columns(),
        "structure",
        seed=2,
        progress=False,
        runs=None,
        draws=20,
        tune=10,
        chains=2,
    )
    for group in ("posterior", "parent_sets", "sample_stats"):
        one, other = fit.data_tree[group], sampled.data_tree[group]
        for name in other.data_vars:
            assert (name in one) and one[name].dims == other[name].dims and one[name].dtype == other[name].dtype
    assert fit.posterior.attrs["score"] == "bdeu" and fit.posterior.attrs["draws_of"] == "dags"
    assert fit.posterior.attrs["score_options_equivalent_sample_size"] == 2


def test_sampler_order_means_the_order_modular_prior():
    found = solved(sampler="order", draws=500)
    every = everything(max_parents=3)
    got = found.data_tree["exact_posterior"]
    np.testing.assert_allclose(got["edge_probability"].values, every.mean(every.adjacency, by_orders=True), atol=1e-12)
    assert "path_probability" not in got
    want = every.log_sum(by_orders=True) - np.log(every.n_orders.sum())
    assert got.attrs["log_evidence"] == pytest.approx(want, abs=1e-9)
    sampled = found.structures.edges()
    assert found.structures.draws_of == "orders" and len(sampled) == 12
    paths = found.structures.paths()
    reach = every.mean(every.reachable, by_orders=True)
    truth = [reach["abcd".index(u), "abcd".index(v)] for u, v in zip(paths.source, paths.target, strict=True)]
    assert np.abs((paths.probability - truth) / paths.mcse).max() < 4.5


def test_constraints_and_few_parents():
    found = solved(max_parents=1, forbidden=[["a", "b"]], required=[["c", "d"]], draws=100)
    p = found.structures.edge_probability
    assert p.loc["a", "b"] == 0 and p.loc["c", "d"] == pytest.approx(1) and p.loc["d", "c"] == 0
    assert found.posterior["n_edges"].values.max() <= 4


def test_a_penalty_is_no_evidence():
    found = bl.fit(
        bl.Model(model=bl.BayesNet(structure={"score": "bic"})), columns(), "exact", progress=False, runs=None, draws=10
    )
    assert "log_evidence" not in found.data_tree["exact_posterior"].attrs


def test_exact_probabilities_of_graphs(fit):
    every = everything(max_parents=3)
    best = fit.structures.top_graphs(3)
    assert [one.probability for one in best] == pytest.approx(np.sort(every.weights())[::-1][:3], rel=1e-9)
    assert all(one.mcse == 0 for one in best)


class Many:
    names = tuple(f"v{i}" for i in range(MOST_BY_DAGS + 1))


def test_too_many_variables_are_refused_with_the_way_out():
    assert "sampler order up to 20" in plan(Many())
    assert not isinstance(plan(Many(), "orders"), str)
    Many.names = tuple(f"v{i}" for i in range(40))
    assert "up to 20" in plan(Many(), "orders")


def test_few_variables_are_solved_without_being_asked():
    found = bl.fit(model(), columns(), progress=False, runs=None, draws=10)
    assert found.method == "exact"
    assert unknown_structure.plan(found.model, found.data).names == ("a", "b", "c", "d")


@pytest.mark.parametrize("written", [{}, {"temperatures": [1, 0.5]}, {"reversal": 0.1}, {"exchange_every": 50}])
def test_keys_of_chains_ask_for_chains(written):
    asked = model(**written)
    method, why = auto.choose(posterior_of(asked, bl.check(asked, columns())))
    assert method == ("structure" if written else "exact")
    assert all(name in why for name in written)
