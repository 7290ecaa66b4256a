"""Topics in two languages against the sum over all assignments, and planted topics (lda-bilingual)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bayeslab.latents.topics import paired_topics as paired
from bayeslab.latents.topics import topics as lda
from bayeslab.latents.topics.paired_topics import PairedCorpus
from bayeslab.latents.topics.topics import Corpus, TopicPrior
from tests.refusals import refused

TINY = PairedCorpus([Corpus.of([[0, 1], [1]], 2), Corpus.of([[2, 0], [0, 0]], 3)])
PRIOR = TopicPrior(np.array([0.7, 0.4]), 0.3)


def log_weight(z: tuple[int, ...]) -> float:
    """log p(words, z) by the chain rule, token by token."""
    corpus, side = TINY.joined, TINY.side
    words = [np.zeros((2, s.n_words)) for s in TINY.sides]
    total = 0.0
    for d in range(corpus.n_documents):
        own = np.zeros(2)
        for i in range(corpus.offsets[d], corpus.offsets[d + 1]):
            k, table = z[i], words[side[i]]
            w = corpus.words[i] - TINY.first_words[side[i]]
            total += np.log((own[k] + PRIOR.alpha[k]) / (own.sum() + PRIOR.alpha.sum()))
            total += np.log((table[k, w] + PRIOR.beta) / (table[k].sum() + table.shape[1] * PRIOR.beta))
            own[k] += 1
            table[k, w] += 1
    return total


def test_documents_are_joined() -> None:
    assert TINY.joined.words.tolist() == [0, 1, 4, 2, 1, 2, 2]
    assert TINY.side.tolist() == [0, 0, 1, 1, 0, 1, 1]
    state = {"z": np.array([0, 1, 0, 0, 1, 1, 0], np.int32)}
    assert paired.log_joint(TINY, state, PRIOR) == pytest.approx(log_weight(tuple(state["z"])))


def test_sweeps_draw_from_the_posterior() -> None:
    """lda-bilingual: the sampler against the sum over all assignments of both languages' tokens."""
    every = np.array(list(product(range(2), repeat=TINY.joined.n_tokens)))
    heights = np.array([log_weight(tuple(z)) for z in every])
    weights = np.exp(heights - heights.max())
    weights /= weights.sum()
    n = 12_000
    state = paired.start(TINY, 2, np.random.default_rng(1))
    seen = np.zeros((n, TINY.joined.n_tokens), int)
    for i in range(n):
        state = paired.run(TINY, state, PRIOR, 2)
        seen[i] = state["z"]
    for i, j in product(range(TINY.joined.n_tokens), repeat=2):
        exact = weights @ (every[:, i] == (every[:, j] if i != j else 0))
        found = (seen[:, i] == (seen[:, j] if i != j else 0)).astype(float)
        error = found.reshape(60, -1).mean(axis=1).std(ddof=1) / np.sqrt(60)
        assert abs(found.mean() - exact) < 4.5 * error


@pytest.mark.slow(why="large")
def test_planted_topics_are_found_in_both_languages() -> None:
    """lda-bilingual: the matrices of words and topics of both languages are recovered together, in the same order."""
    rng = np.random.default_rng(2)
    prior = TopicPrior.even(5, 1.0, 0.05)
    phi = [rng.dirichlet(np.full(v, 0.05), 5) for v in (80, 130)]
    corpus, theta = paired.simulate([[40] * 400, [60] * 400], phi, prior, rng)
    starts = [paired.start(corpus, 5, np.random.default_rng(s)) for s in range(4)]
    ends = [paired.run(corpus, own, prior, 200) for own in starts]
    state = max(ends, key=lambda s: paired.log_joint(corpus, s, prior))
    found = paired.topics(corpus, state, prior)
    order = lda.align(phi[0], found[0])
    for exact, own in zip(phi, found, strict=True):
        # The order that one language gives is right for the other.
        assert np.abs(own[order] - exact).max() < 0.04
        assert own.sum(axis=1) == pytest.approx(np.ones(5))
    shares = paired.proportions(corpus, state, prior)[:, order]
    assert np.corrcoef(shares.ravel(), theta.ravel())[0, 1] > 0.97
    # New documents in one language are placed by its topics alone.
    new, truth = lda.simulate([200] * 30, phi[1], prior, rng)
    placed = lda.infer(new, found[1], prior, rng)[:, order]
    assert np.corrcoef(placed.ravel(), truth.ravel())[0, 1] > 0.97


def test_one_language_is_plain_topics() -> None:
    rng = np.random.default_rng(3)
    one = Corpus.of(rng.integers(0, 50, (20, 30)), 50)
    prior = TopicPrior.even(5)
    corpus = PairedCorpus([one])
    first = paired.start(corpus, 5, np.random.default_rng(4))
    whole = paired.run(corpus, first, prior, 7)
    cut = paired.run(corpus, paired.run(corpus, first, prior, 3), prior, 4)
    assert np.array_equal(whole["z"], cut["z"])
    assert np.array_equal(whole["z"], lda.run(one, first, prior, 7)["z"])
    assert paired.log_joint(corpus, whole, prior) == pytest.approx(lda.log_joint(one, whole, prior))


def test_documents_without_partner_are_refused() -> None:
    with refused("data.wrong-length", "same number of documents"):
        PairedCorpus([Corpus.of([[0]], 1), Corpus.of([[0], [0]], 1)])
