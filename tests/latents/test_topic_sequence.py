"""Topics over successive days against sums over assignments and quadrature over paths (lda-sequence)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln

from bayeslab.latents.topics import topic_sequence as seq
from bayeslab.latents.topics import topics as lda
from bayeslab.latents.topics.topic_sequence import DatedCorpus, SequencePrior
from bayeslab.latents.topics.topics import Corpus, TopicPrior
from tests.refusals import refused

TINY = DatedCorpus(Corpus.of([[0, 0, 0], [1, 0], [1, 1]], 2), np.array([0, 1, 1]))
PRIOR = SequencePrior(TopicPrior(np.array([0.7, 0.4]), 0.3), 0.8)


def enumerated() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All assignments, their probabilities, and the mean path: Gauss and Hermite's rule for the four steps."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    steps = np.array(list(product(nodes, repeat=4))).reshape(-1, 2, 2)
    chance = np.array(list(product(weights / weights.sum(), repeat=4))).prod(axis=1)
    paths = np.log(PRIOR.first.alpha) + PRIOR.tau * np.cumsum(steps, axis=1)
    alphas = np.exp(paths)
    corpus = TINY.corpus
    every = np.array(list(product(range(2), repeat=corpus.n_tokens)), np.int32)
    out, mean = np.zeros(len(every)), np.zeros((2, 2))
    for i, z in enumerate(every):
        words = np.zeros((2, 2))
        np.add.at(words, (z, corpus.words), 1)
        beta = PRIOR.first.beta
        log = (gammaln(words + beta)).sum() - gammaln(words.sum(axis=1) + 2 * beta).sum()
        for d, t in enumerate(TINY.day):
            n = np.bincount(z[corpus.offsets[d] : corpus.offsets[d + 1]], minlength=2)
            a = alphas[:, t]
            log = log + (gammaln(n + a) - gammaln(a)).sum(axis=1)
            log = log + gammaln(a.sum(axis=1)) - gammaln(a.sum(axis=1) + n.sum())
        own = chance * np.exp(log)
        out[i] = own.sum()
        mean += np.einsum("p,ptk->tk", own, paths)
    return every, out / out.sum(), mean / out.sum()


@pytest.mark.slow(why="statistical")
def test_sweeps_draw_from_the_posterior() -> None:
    """lda-sequence: topics of tokens and concentrations of days against sum and quadrature."""
    every, weights, mean = enumerated()
    n = 12_000
    state = seq.start(TINY, PRIOR, np.random.default_rng(1))
    seen, paths = np.zeros((n, TINY.corpus.n_tokens), int), np.zeros((n, 2, 2))
    for i in range(n):
        state = seq.run(TINY, state, PRIOR, 1)
        seen[i], paths[i] = state["z"], state["path"]

    def close(values: np.ndarray, exact: float) -> bool:
        error = values.reshape(60, -1).mean(axis=1).std(ddof=1) / np.sqrt(60)
        return bool(abs(values.mean() - exact) < 4.5 * error)

    for i, j in product(range(seen.shape[1]), repeat=2):
        pair = seen[:, i] == (seen[:, j] if i != j else 0)
        assert close(pair.astype(float), weights @ (every[:, i] == (every[:, j] if i != j else 0)))
    for t, k in product(range(2), repeat=2):
        assert close(paths[:, t, k], mean[t, k])


def test_without_steps_it_is_plain_topics() -> None:
    """lda-sequence: tau = 0 gives the very draws of plain topics; small tau, concentrations that hardly move."""
    rng = np.random.default_rng(2)
    corpus = DatedCorpus(Corpus.of(rng.integers(0, 50, (20, 30)), 50), np.arange(20) // 4)
    first = TopicPrior.even(5)
    prior = SequencePrior(first, 0.0)
    begin = seq.start(corpus, prior, np.random.default_rng(3))
    end = seq.run(corpus, begin, prior, 8)
    assert np.array_equal(end["z"], lda.run(corpus.corpus, begin, first, 8)["z"])
    for tau in (1e-2, 1e-4):
        moved = seq.run(corpus, begin, SequencePrior(first, tau), 8)["path"] - np.log(first.alpha)
        assert 0 < np.abs(moved).max() < 4.5 * tau * np.sqrt(5)


def test_planted_paths_are_found() -> None:
    """lda-sequence: proportions that drift over days, topics that stay; tau is learned."""
    rng = np.random.default_rng(4)
    phi = rng.dirichlet(np.full(80, 0.05), 4)
    prior = SequencePrior(TopicPrior(np.full(4, 0.5), 0.05), 0.4)
    day = np.repeat(np.arange(25), 12)
    corpus, path = seq.simulate([50] * len(day), day, phi, prior, rng)
    learning = SequencePrior(prior.first, 0.1, learn_tau=True)
    state = seq.run(corpus, seq.start(corpus, learning, np.random.default_rng(5)), learning, 150)
    mean, taus = np.zeros((25, 4)), []
    for _ in range(100):
        state = seq.run(corpus, state, learning, 2)
        mean += seq.day_proportions(state) / 100
        taus.append(float(state["tau"]))
    found = lda.topics(corpus.corpus, state, prior.first)
    order = lda.align(phi, found)
    assert np.abs(found[order] - phi).max() < 0.04
    assert np.corrcoef(mean[:, order].ravel(), seq.day_proportions({"path": path}).ravel())[0, 1] > 0.9
    low, high = np.quantile(taus, [0.005, 0.995])
    assert low < 0.4 < high


def test_runs_in_pieces_are_one_run() -> None:
    rng = np.random.default_rng(6)
    corpus = DatedCorpus(Corpus.of(rng.integers(0, 50, (20, 30)), 50), np.repeat([0, 1, 3, 4], 5))
    prior = SequencePrior(TopicPrior.even(5), 0.3, learn_tau=True)
    first = seq.start(corpus, prior, np.random.default_rng(7))
    whole = seq.run(corpus, first, prior, 5)
    cut = seq.run(corpus, seq.run(corpus, first, prior, 2), prior, 3)
    assert all(np.array_equal(whole[name], cut[name]) for name in whole)


def test_what_is_refused() -> None:
    with refused("data.not-in-order"):
        DatedCorpus(TINY.corpus, np.array([1, 0, 0]))
    with refused("model.out-of-range", "tau.*shape.*rate"):
        SequencePrior(PRIOR.first, -0.1)
    with refused("model.out-of-range", "tau.*given 0"):
        SequencePrior(PRIOR.first, 0.0, learn_tau=True)
