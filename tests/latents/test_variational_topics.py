"""Variational topics: a bound that is one, coordinate ascent that ascends, planted topics."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bayeslab.latents.topics import topics
from bayeslab.latents.topics.topics import Corpus, TopicPrior
from bayeslab.latents.topics.variational_topics import fit_online, fit_variational, place
from tests.refusals import refused


def log_evidence(corpus: Corpus, prior: TopicPrior) -> float:
    every = np.array(list(product(range(prior.n_topics), repeat=corpus.n_tokens)), np.int32)
    heights = [topics.log_joint(corpus, {"z": z}, prior) for z in every]
    return float(np.logaddexp.reduce(heights))


@pytest.fixture(scope="module")
def planted() -> tuple[Corpus, np.ndarray, TopicPrior]:
    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.full(100, 0.05), 6)
    prior = TopicPrior.even(6, 1.0, 0.05)
    return topics.simulate([60] * 600, phi, prior, rng)[0], phi, prior


def test_bound_is_below_the_evidence() -> None:
    corpus = Corpus.of([[0, 0, 1], [1, 2], [2, 2, 0]], 3)
    prior = TopicPrior(np.array([0.7, 0.4]), 0.3)
    exact = log_evidence(corpus, prior)
    bounds = [fit_variational(corpus, prior, np.random.default_rng(s)).bound[-1] for s in range(10)]
    assert max(bounds) < exact
    assert max(bounds) > exact - 3


def test_bound_is_exact_with_one_topic() -> None:
    corpus = Corpus.of([[0, 0, 1], [1, 2]], 3)
    prior = TopicPrior(np.array([0.5]), 0.3)
    found = fit_variational(corpus, prior, np.random.default_rng(0))
    assert found.bound[-1] == pytest.approx(log_evidence(corpus, prior), abs=1e-5)


def test_ascent_ascends_and_finds_planted_topics(planted: tuple[Corpus, np.ndarray, TopicPrior]) -> None:
    corpus, phi, prior = planted
    fits = [fit_variational(corpus, prior, np.random.default_rng(s)) for s in range(4)]
    for fit in fits:
        # Sums are of 32 bits.
        assert np.all(np.diff(fit.bound) > -1e-6 * np.abs(fit.bound[:-1]))
    best = max(fits, key=lambda fit: fit.bound[-1])
    assert np.abs(best.topics[topics.align(phi, best.topics)] - phi).max() < 0.03
    assert best.proportions.sum(axis=1) == pytest.approx(np.ones(corpus.n_documents))


def test_batches_find_them_too(planted: tuple[Corpus, np.ndarray, TopicPrior]) -> None:
    corpus, phi, prior = planted
    fits = [fit_online(corpus, prior, np.random.default_rng(s), passes=15, batch=50) for s in range(4)]
    best = max(fits, key=lambda fit: fit.bound[-12:].mean())
    assert np.abs(best.topics[topics.align(phi, best.topics)] - phi).max() < 0.05
    assert place(corpus, best.concentration, prior) == pytest.approx(best.documents)


def test_steps_that_would_not_settle_are_refused(planted: tuple[Corpus, np.ndarray, TopicPrior]) -> None:
    with refused("option.out-of-range", r"forgetting.*0\.5"):
        fit_online(planted[0], planted[2], np.random.default_rng(0), forgetting=0.4)
