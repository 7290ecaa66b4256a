"""Topics without a fixed number against sums over all partitions of the tokens, and planted topics (hdp)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln

from bayeslab.latents.topics import topic_process as hdp
from bayeslab.latents.topics import topics as lda
from bayeslab.latents.topics.topic_concentrations import GammaPrior
from bayeslab.latents.topics.topic_process import ProcessPrior
from bayeslab.latents.topics.topics import Corpus, TopicPrior
from tests.refusals import refused

TINY = Corpus.of([[0, 0, 1], [1, 1]], 2)


def partitions(n: int) -> list[tuple[int, ...]]:
    """All partitions of n tokens, as names in the order of first tokens."""
    out: list[tuple[int, ...]] = [()]
    for _ in range(n):
        out = [(*p, k) for p in out for k in range(max(p, default=-1) + 2)]
    return out


def stirling(n: int) -> np.ndarray:
    """Unsigned Stirling numbers of the first kind of n."""
    row = np.ones(1)
    for i in range(n):
        row = np.append(0.0, row) + np.append(i * row, 0.0)
    return row


def log_rising(x: float, n: int) -> float:
    return float(gammaln(x + n) - gammaln(x))


def log_probability(z: tuple[int, ...], corpus: Corpus, alpha: float, gamma: float, beta: float) -> float:
    """log p(partition, words), tables summed out one way of seating after the other."""
    k, d = max(z) + 1, corpus.n_documents
    counts, words = np.zeros((d, k), int), np.zeros((k, corpus.n_words))
    for i, topic in enumerate(z):
        counts[corpus.document[i], topic] += 1
        words[topic, corpus.words[i]] += 1
    cells = [(i, j) for i in range(d) for j in range(k) if counts[i, j]]
    total = 0.0
    for tables in product(*(range(1, counts[c] + 1) for c in cells)):
        served = np.zeros(k)
        ways = 1.0
        for (i, j), m in zip(cells, tables, strict=True):
            served[j] += m
            ways *= stirling(counts[i, j])[m]
        top = k * np.log(gamma) + gammaln(served).sum() - log_rising(gamma, int(served.sum()))
        total += ways * np.exp(top + served.sum() * np.log(alpha))
    seats = np.log(total) - sum(log_rising(alpha, int(n)) for n in corpus.lengths)
    of_words = (gammaln(words + beta) - gammaln(beta)).sum()
    return float(seats + of_words - sum(log_rising(corpus.n_words * beta, int(n)) for n in words.sum(axis=1)))


def posterior(corpus: Corpus, prior: ProcessPrior) -> np.ndarray:
    """Probabilities of all partitions; concentrations with a prior summed over a grid of their quantiles."""
    from scipy.stats import gamma as law

    def values(v: float | GammaPrior) -> np.ndarray:
        if isinstance(v, GammaPrior):
            return np.asarray(law.ppf((np.arange(60) + 0.5) / 60, v.shape, scale=1 / v.rate))
        return np.array([v])

    every = partitions(corpus.n_tokens)
    weights = np.zeros(len(every))
    for alpha, gamma in product(values(prior.alpha), values(prior.gamma)):
        weights += np.exp([log_probability(z, corpus, alpha, gamma, prior.beta) for z in every])
    return weights / weights.sum()


def renamed(z: np.ndarray) -> tuple[int, ...]:
    names: dict[int, int] = {}
    return tuple(names.setdefault(int(k), len(names)) for k in z)


def test_seatings_are_a_distribution() -> None:
    """Over all partitions and words the probabilities are one together."""
    total = 0.0
    for words in product(range(2), repeat=4):
        corpus = Corpus.of([words[:2], words[2:]], 2)
        total += sum(np.exp(log_probability(z, corpus, 0.7, 1.3, 0.4)) for z in partitions(4))
    assert total == pytest.approx(1.0)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    "prior",
    [ProcessPrior(0.8, 1.5, 0.4), ProcessPrior(GammaPrior(2.0, 1.0), GammaPrior(3.0, 2.0), 0.4)],
    ids=["fixed", "drawn"],
)
def test_sweeps_draw_from_the_posterior(prior: ProcessPrior) -> None:
    """hdp: the number of topics, and which tokens share one, against the sum over partitions."""
    corpus = TINY if isinstance(prior.alpha, float) else Corpus.of([[0, 1], [1, 1]], 2)
    every = partitions(corpus.n_tokens)
    exact = posterior(corpus, prior)
    place = {z: i for i, z in enumerate(every)}
    n = 6_000
    state = hdp.start(corpus, prior, np.random.default_rng(1))
    seen = np.zeros(n, int)
    for i in range(n):
        state = hdp.run(corpus, state, prior, 2)
        seen[i] = place[renamed(state["z"])]
    for event in [np.array([max(z) == k for z in every]) for k in range(corpus.n_tokens)] + [
        np.array([z[i] == z[j] for z in every]) for i in range(corpus.n_tokens) for j in range(i)
    ]:
        p, values = exact @ event, event[seen].astype(float)
        error = values.reshape(60, -1).mean(axis=1).std(ddof=1) / np.sqrt(60)
        assert abs(values.mean() - p) < 4.5 * error + 1e-3


@pytest.fixture(scope="module")
def planted() -> tuple[Corpus, np.ndarray]:
    rng = np.random.default_rng(2)
    phi = rng.dirichlet(np.full(120, 0.05), 8)
    corpus, _ = lda.simulate([60] * 300, phi, TopicPrior.even(8, 2.0), rng)
    return corpus, phi


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("begin", [1, 4])
def test_planted_number_of_topics_is_found(planted: tuple[Corpus, np.ndarray], begin: int) -> None:
    """hdp: the number of topics in use is near the planted one, and topics are shared between documents."""
    corpus, phi = planted
    prior = ProcessPrior()
    state = hdp.run(corpus, hdp.start(corpus, prior, np.random.default_rng(3), n_topics=begin), prior, 150)
    used = []
    for _ in range(20):
        state = hdp.run(corpus, state, prior, 3)
        used.append(np.count_nonzero(np.bincount(state["z"]) > 0.002 * corpus.n_tokens))
    assert abs(np.mean(used) - 8) <= 1
    found = hdp.topics(corpus, state)
    assert found.sum(axis=1) == pytest.approx(np.ones(len(found)))
    best = (np.sqrt(phi) @ np.sqrt(found).T).max(axis=1)
    assert np.all(best > 0.97)
    shares = hdp.proportions(corpus, state)
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(shares)))
    assert np.all(
        np.count_nonzero(shares[:, :-1] > 0.3, axis=0)[np.argmax(np.sqrt(phi) @ np.sqrt(found).T, axis=1)] > 5
    )


@pytest.mark.slow(why="statistical")
def test_new_documents_have_a_probability(planted: tuple[Corpus, np.ndarray]) -> None:
    corpus, phi = planted
    prior = ProcessPrior()
    state = hdp.run(corpus, hdp.start(corpus, prior, np.random.default_rng(4), n_topics=2), prior, 150)
    rng = np.random.default_rng(5)
    words, own, sizes = hdp.given(corpus, state, rng)
    new, _ = lda.simulate([60] * 20, phi, TopicPrior.even(8, 2.0), rng)
    ours = lda.held_out(new, words, own, rng, sizes=sizes).sum()
    truth = lda.held_out(new, phi, TopicPrior.even(8, 2.0), rng).sum()
    assert 0 < truth - ours < 0.15 * new.n_tokens


@pytest.mark.slow(why="statistical")
def test_probability_of_a_new_document_is_that_given_the_old_ones() -> None:
    """p(new | old) is p(new, old) / p(old), partitions of all tokens summed out in both."""
    prior, new = ProcessPrior(0.8, 1.5, 0.4), [1, 0, 0]

    def log_evidence(corpus: Corpus) -> float:
        each = [log_probability(z, corpus, 0.8, 1.5, 0.4) for z in partitions(corpus.n_tokens)]
        return float(np.log(np.exp(each).sum()))

    exact = np.exp(log_evidence(Corpus.of([[0, 0, 1], [1, 1], new], 2)) - log_evidence(TINY))
    rng = np.random.default_rng(9)
    state, one, found = hdp.start(TINY, prior, rng), Corpus.of([new], 2), []
    for _ in range(4_000):
        state = hdp.run(TINY, state, prior, 2)
        words, own, sizes = hdp.given(TINY, state, rng)
        found.append(np.exp(lda.held_out(one, words, own, rng, sizes=sizes, particles=4)[0]))
    error = np.reshape(found, (40, -1)).mean(axis=1).std(ddof=1) / np.sqrt(40)
    assert error < 0.01 * exact
    assert abs(np.mean(found) - exact) < 4 * error


@pytest.mark.slow(why="statistical")
def test_simulated_tokens_have_the_expected_partition() -> None:
    """hdp: pairs of tokens share a topic as often as the restaurants say."""
    rng = np.random.default_rng(6)
    alpha, gamma, n = 0.8, 1.5, 4_000
    prior = ProcessPrior(alpha, gamma, 0.5)
    same = np.zeros((n, 2))
    for i in range(n):
        _, z = hdp.simulate([2, 1], 3, prior, rng)
        same[i] = z[0] == z[1], z[0] == z[2]
    apart = 1 / (1 + gamma)
    within = 1 / (1 + alpha) + alpha / (1 + alpha) * apart
    for found, exact in zip(same.mean(axis=0), (within, apart), strict=True):
        assert abs(found - exact) < 4.5 * np.sqrt(exact * (1 - exact) / n)


def test_runs_in_pieces_are_one_run() -> None:
    rng = np.random.default_rng(7)
    corpus = Corpus.of(rng.integers(0, 50, (20, 30)), 50)
    prior = ProcessPrior(learn_beta=True)
    first = hdp.start(corpus, prior, rng, n_topics=20)
    whole = hdp.run(corpus, first, prior, 7)
    cut = hdp.run(corpus, hdp.run(corpus, first, prior, 3), prior, 4)
    assert all(np.array_equal(whole[name], cut[name]) for name in whole)


def test_topics_grow_past_a_block() -> None:
    """More topics than the kernel began with; counts and weights fit the tokens."""
    rng = np.random.default_rng(8)
    corpus = Corpus.of(rng.integers(0, 5, (40, 30)), 5)
    prior = ProcessPrior(50.0, 60.0, 50.0)
    state = hdp.run(corpus, hdp.start(corpus, prior, rng), prior, 3)
    n = int(state["z"].max()) + 1
    assert n > 32
    assert len(state["weights"]) == n + 1
    assert state["weights"].sum() == pytest.approx(1.0)
    assert np.isfinite(hdp.log_words(corpus, state))


def test_what_is_refused() -> None:
    with refused("model.out-of-range", "alpha"):
        ProcessPrior(alpha=-1.0)
    with refused("model.out-of-range", "n_topics is 0"):
        hdp.start(TINY, ProcessPrior(), np.random.default_rng(0), n_topics=0)
    empty = Corpus.of([[], []], 3)
    state = hdp.run(empty, hdp.start(empty, ProcessPrior(), np.random.default_rng(0)), ProcessPrior(), 2)
    assert hdp.proportions(empty, state).shape == (2, 1)
