"""Posteriors of parameters that belong to scores: evidence equals the score, updates equal the closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from bayeslab.exact.conjugate import NormalInverseGamma
from bayeslab.latents.networks.mixed_network import MixedNetwork
from bayeslab.structure.data import Observations
from bayeslab.structure.parameters import Parameters
from bayeslab.structure.scores import load
from tests.refusals import refused


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(0)
    a = rng.normal(3, 2, 60)
    b = 0.5 * a + rng.normal(0, 1, 60)
    c = a - 2 * b + rng.normal(1, 0.5, 60)
    return {"a": a, "b": b, "c": c}


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(1)
    a = rng.integers(0, 3, 80)
    b = np.where(rng.random(80) < 0.7, a % 2, rng.integers(0, 2, 80))
    return Observations.of_codes(
        np.column_stack([a, b, rng.integers(0, 2, 80)]), {"a": list("xyz"), "b": ["n", "y"], "c": ["n", "y"]}
    )


@pytest.mark.parametrize(("score", "options"), [("bdeu", {"equivalent_sample_size": 3.0}), ("bdeu", {}), ("k2", {})])
@pytest.mark.parametrize("parents", [(), (0,), (0, 2)])
def test_dirichlet_priors_are_those_of_the_score(words, score, options, parents):
    """Prior and posterior concentrations have the log marginal likelihood of the score between them."""
    found = Parameters(words, score, options)
    after = found.concentration(1, parents)
    counts = np.zeros_like(after)
    np.add.at(counts, tuple(words.codes[:, u] for u in (*parents, 1)), words.weights)
    before = after - counts
    evidence = gammaln(after).sum() - gammaln(before).sum() + (gammaln(before.sum(-1)) - gammaln(after.sum(-1))).sum()
    assert evidence == pytest.approx(load(score, words, **options).local(1, parents), rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, [0.5, 3.0, 20.0], None])
@pytest.mark.parametrize("parents", [(), (0,), (0, 2)])
def test_bge_regressions_are_those_of_the_score(numbers, parents, scale):
    """The closed form equals the update of its own prior by the rows, and the evidence equals the score."""
    options = {"alpha_mu": 2.0, "alpha_w": 7.0, "nu": [1.0, 0.0, -1.0]} | ({"scale": scale} if scale else {})
    seen = Observations.of(numbers, kind="continuous")
    got = Parameters(seen, "bge", options).regressions(1, parents)[()]
    above, nu = list(parents), np.array(options["nu"])
    unit = np.broadcast_to(scale, 3) if scale else seen.values.std(axis=0, ddof=1)
    t = 2.0 * (7.0 - 3 - 1) / (2.0 + 1) * unit**2
    line = np.concatenate([[1.0], nu[above]])
    precision = 2.0 * np.outer(line, line)
    precision[1:, 1:] += np.diag(t[above])
    mu = np.concatenate([[nu[1]], np.zeros(len(above))])
    prior = NormalInverseGamma(mu, precision, (7.0 - 3 + len(above) + 1) / 2, t[1] / 2)
    design = np.column_stack([np.ones(60), seen.values[:, above]])
    want = prior.update(design, seen.values[:, 1])
    for name in ("mu", "precision", "alpha", "beta"):
        np.testing.assert_allclose(getattr(got, name), getattr(want, name), rtol=1e-9, atol=1e-9)
    score = load("bge", numbers, **options).local(1, parents)
    assert prior.log_evidence(design, seen.values[:, 1]) == pytest.approx(score, rel=1e-9)


@pytest.mark.parametrize("score", ["bge", "gaussian_bic"])
@pytest.mark.parametrize("units", [(1e3, 1.0, 0.05), (1e100, 1e-100, 1.0)])
def test_regressions_are_in_the_units_of_their_columns(numbers, score, units):
    parents, unit = [(), (0,), (0, 1)], np.array(units)
    seen = Observations.of(numbers, kind="continuous")
    moved = Observations.of({v: seen.values[:, k] * unit[k] for k, v in enumerate(seen.names)}, kind="continuous")
    before, after = Parameters(seen, score).mean(parents), Parameters(moved, score).mean(parents)
    for k, v in enumerate(seen.names):
        here, there, above = before.continuous[v], after.continuous[v], list(parents[k])
        np.testing.assert_allclose(there.sd, here.sd * unit[k], rtol=1e-9)
        np.testing.assert_allclose(there.intercept, here.intercept * unit[k], rtol=1e-6)
        np.testing.assert_allclose(there.slopes, here.slopes * unit[k] / unit[above], rtol=1e-6)


def test_means_and_draws_of_tables(words):
    found = Parameters(words, "bdeu", {"equivalent_sample_size": 2.0})
    parents = [(), (0,), (0, 1)]
    mean = found.mean(parents)
    a = found.concentration(1, (0,))
    np.testing.assert_allclose(mean.tables["b"], a / a.sum(axis=1, keepdims=True))
    assert mean.parents["c"] == ("a", "b")
    rng = np.random.default_rng(2)
    drawn = np.stack([found.draw(parents, rng).tables["b"] for _ in range(2000)])
    sd = np.sqrt(a * (a.sum(1, keepdims=True) - a) / (a.sum(1, keepdims=True) ** 2 * (a.sum(1, keepdims=True) + 1)))
    assert np.all(np.abs(drawn.mean(axis=0) - mean.tables["b"]) < 4 * sd / np.sqrt(2000))
    np.testing.assert_allclose(drawn.std(axis=0), sd, rtol=0.12)


def test_families_are_counted_once(words, monkeypatch):
    found = Parameters(words, "bdeu")
    found.prepare([(0, ()), (1, (0,)), (2, (0, 1))])
    monkeypatch.setattr("bayeslab.structure.parameters.family_counts", None)
    found.mean([(), (0,), (0, 1)])


def test_bds_spreads_its_prior_over_parents_that_occur():
    codes = np.array([[0, 0], [0, 1], [1, 1], [1, 1]])
    seen = Observations.of_codes(codes, {"a": list("xyz"), "b": ["n", "y"]})
    after = Parameters(seen, "bds", {"equivalent_sample_size": 4.0}).concentration(1, (0,))
    np.testing.assert_allclose(after[:2], [[1 + 1, 1 + 1], [1, 1 + 2]])
    assert after[2, 0] == after[2, 1] > 0


def test_regressions_by_the_states_of_discrete_parents(numbers):
    rng = np.random.default_rng(3)
    g = rng.integers(0, 2, 60)
    data = {"g": np.where(g, "yes", "no"), **numbers, "y": 2.0 * g + (1 + g) * numbers["a"] + rng.normal(0, 0.1, 60)}
    found = Parameters(Observations.of(data, kind="mixed"), "mixed_bic")
    net = found.mean([(), (), (1,), (1, 2), (0, 1)])
    assert isinstance(net, MixedNetwork)
    np.testing.assert_allclose(net.continuous["y"].slopes[:, 0], [1, 2], atol=0.15)
    assert net.discrete_parents("y") == ("g",)
    drawn = found.draw([(), (), (1,), (1, 2), (0, 1)], rng)
    assert not np.array_equal(drawn.continuous["y"].slopes, net.continuous["y"].slopes)
    with refused("data.unsupported", "'g'"):
        found.mean([(1,), (), (), (), ()])
