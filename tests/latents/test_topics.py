"""Topics against sums over all assignments of tokens, and against planted topics."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln

from bayeslab.latents.topics import topics
from bayeslab.latents.topics.topics import Corpus, TopicPrior
from tests.refusals import refused

TINY = Corpus.of([[0, 0, 1], [1, 2], [2, 2, 0]], 3)
PRIOR = TopicPrior(np.array([0.7, 0.4]), 0.3)


def log_weight(corpus: Corpus, z: tuple[int, ...], prior: TopicPrior) -> float:
    """log p(words, z) written out by the chain rule, token by token."""
    alpha, beta, v = prior.alpha, prior.beta, corpus.n_words
    words = np.zeros((len(alpha), v))
    total = 0.0
    for d in range(corpus.n_documents):
        own = np.zeros(len(alpha))
        for i in range(corpus.offsets[d], corpus.offsets[d + 1]):
            k, w = z[i], corpus.words[i]
            total += np.log((own[k] + alpha[k]) / (own.sum() + alpha.sum()))
            total += np.log((words[k, w] + beta) / (words[k].sum() + v * beta))
            own[k] += 1
            words[k, w] += 1
    return total


@pytest.fixture(scope="module")
def enumerated() -> tuple[np.ndarray, np.ndarray]:
    every = np.array(list(product(range(2), repeat=TINY.n_tokens)))
    heights = np.array([log_weight(TINY, tuple(z), PRIOR) for z in every])
    weights = np.exp(heights - heights.max())
    return every, weights / weights.sum()


def test_joint_is_the_chain_rule() -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        state = topics.start(TINY, 2, rng)
        assert topics.log_joint(TINY, state, PRIOR) == pytest.approx(log_weight(TINY, tuple(state["z"]), PRIOR))


@pytest.fixture(params=["all topics", "only what is not zero"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kernels of sweeps, of which otherwise the number of topics decides."""
    monkeypatch.setattr(topics, "MANY", 1_000 if request.param == "all topics" else 1)


@pytest.mark.slow(why="statistical")
def test_sweeps_draw_from_the_posterior(way: None, enumerated: tuple[np.ndarray, np.ndarray]) -> None:
    """lda: the sampler against the sum over all assignments."""
    every, weights = enumerated
    n, thin = 15_000, 3
    state = topics.start(TINY, 2, np.random.default_rng(1))
    seen = np.zeros(len(every))
    for _ in range(n):
        state = topics.run(TINY, state, PRIOR, thin)
        seen[int("".join(map(str, state["z"])), 2)] += 1
    # Of pairs of tokens in the same topic: what does not depend on names, and some that does.
    for i in range(TINY.n_tokens):
        for j in range(i):
            exact = weights @ (every[:, i] == every[:, j])
            found = seen @ (every[:, i] == every[:, j]) / n
            assert abs(found - exact) < 5 * np.sqrt(exact * (1 - exact) / n * 3)
        exact = weights @ every[:, i]
        assert abs(seen @ every[:, i] / n - exact) < 5 * np.sqrt(exact * (1 - exact) / n * 8)


def test_held_out_probability_is_the_sum_over_assignments() -> None:
    rng = np.random.default_rng(2)
    phi = rng.dirichlet(np.ones(4), 3)
    prior = TopicPrior(np.array([0.2, 0.5, 1.1]), 0.1)
    corpus = Corpus.of([[0, 3, 3, 1], [2], [1, 1, 2, 0, 3]], 4)
    exact = []
    for d in range(corpus.n_documents):
        own = corpus.words[corpus.offsets[d] : corpus.offsets[d + 1]]
        total = 0.0
        for z in product(range(3), repeat=len(own)):
            counts = np.bincount(z, minlength=3)
            a = prior.alpha
            of_topics = (gammaln(counts + a) - gammaln(a)).sum() + gammaln(a.sum()) - gammaln(a.sum() + len(own))
            total += np.exp(of_topics) * np.prod(phi[list(z), own])
        exact.append(np.log(total))
    for particles, fresh in ((1, 50), (5, 2), (100, 50)):
        runs = np.exp([topics.held_out(corpus, phi, prior, rng, particles=particles, fresh=fresh) for _ in range(800)])
        error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
        assert np.all(np.abs(runs.mean(axis=0) - np.exp(exact)) < 4.5 * error + 1e-6 * np.exp(exact))
        assert runs[:, 1] == pytest.approx(np.exp(exact[1]))
    assert np.all(error < 3e-3 * np.exp(exact))


@pytest.mark.parametrize("sides", [np.zeros(3, int), np.array([0, 0, 1])], ids=["one", "two"])
def test_held_out_probability_sums_over_topics_too(sides: np.ndarray) -> None:
    """Topics that are Dirichlet distributions, of one vocabulary or two: words of the document count as it is read."""
    known = np.array([[0.3, 1.2, 0.1], [2.0, 0.4, 0.3]])
    prior = TopicPrior(np.array([0.4, 0.9]), 0.1)
    documents = [[0, 1, 0, 2], [2, 2, 1]]

    def log_seen(counts: np.ndarray, a: np.ndarray) -> float:
        return float((gammaln(counts + a) - gammaln(a)).sum() + gammaln(a.sum()) - gammaln((a + counts).sum()))

    exact = []
    for words in documents:
        total = 0.0
        for z in product(range(2), repeat=len(words)):
            height = log_seen(np.bincount(z, minlength=2), prior.alpha)
            for k in range(2):
                counts = np.bincount([w for w, t in zip(words, z, strict=True) if t == k], minlength=3)
                height += sum(log_seen(counts[sides == s], known[k, sides == s]) for s in set(sides.tolist()))
            total += np.exp(height)
        exact.append(total)
    sizes = np.stack([known[:, sides == s].sum(axis=1) for s in range(int(sides.max()) + 1)])
    phi, rng = known / sizes[sides].T, np.random.default_rng(11)
    for particles, fresh in ((1, 50), (5, 2)):
        runs = np.exp(
            [
                topics.held_out(
                    Corpus.of(documents, 3), phi, prior, rng, sizes=sizes, sides=sides, particles=particles, fresh=fresh
                )
                for _ in range(2_000)
            ]
        )
        error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
        assert np.all(np.abs(runs.mean(axis=0) - exact) < 4.5 * error)
        assert np.all(error < 0.01 * np.array(exact))


def test_runs_in_pieces_are_one_run(way: None) -> None:
    rng = np.random.default_rng(3)
    corpus = Corpus.of(rng.integers(0, 50, (20, 30)), 50)
    first = topics.start(corpus, 5, np.random.default_rng(4))
    whole = topics.run(corpus, first, TopicPrior.even(5), 7)
    cut = topics.run(corpus, topics.run(corpus, first, TopicPrior.even(5), 3), TopicPrior.even(5), 4)
    assert np.array_equal(whole["z"], cut["z"])
    assert np.array_equal(whole["rng"], cut["rng"])


def test_chains_side_by_side_are_the_same_chains(way: None) -> None:
    rng = np.random.default_rng(12)
    corpus = Corpus.of(rng.integers(0, 50, (20, 30)), 50)

    def chain(seed: int) -> np.ndarray:
        first = topics.start(corpus, 5, np.random.default_rng(seed))
        return np.asarray(topics.run(corpus, first, TopicPrior.even(5), 20)["z"])

    alone = [chain(s) for s in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert all(map(np.array_equal, alone, pool.map(chain, range(8))))


def test_concentrations_too_small_for_the_kernel_are_no_padding() -> None:
    corpus = Corpus.of([[0, 1, 1], [2, 0]], 3)
    prior = TopicPrior(np.array([1e-60, 1e-60, 0.5]), 0.1)
    state = topics.run(corpus, topics.start(corpus, 3, np.random.default_rng(0)), prior, 50)
    assert set(state["z"].tolist()) <= {0, 1, 2}


def best_of(n: int, corpus: Corpus, prior: TopicPrior) -> topics.State:
    """Of several chains the one that went furthest: some stay where two topics are one."""
    starts = [topics.start(corpus, prior.n_topics, np.random.default_rng(s)) for s in range(n)]
    return max(
        (topics.run(corpus, own, prior, 200) for own in starts), key=lambda s: topics.log_joint(corpus, s, prior)
    )


@pytest.fixture(scope="module")
def planted() -> tuple[Corpus, np.ndarray, np.ndarray, TopicPrior]:
    """Bars (Griffiths and Steyvers): each topic is a row or a column of a square of words."""
    side = 5
    bars = [np.add.outer(np.arange(side) * side, [c]).ravel() for c in range(side)]
    bars += [np.arange(side) + r * side for r in range(side)]
    phi = np.zeros((10, side * side))
    for k, bar in enumerate(bars):
        phi[k, bar] = 1 / side
    prior = TopicPrior.even(10, 1.0, 0.05)
    corpus, theta = topics.simulate([100] * 500, phi, prior, np.random.default_rng(5))
    return corpus, phi, theta, prior


@pytest.mark.slow(why="large")
def test_planted_topics_are_found(way: None, planted: tuple[Corpus, np.ndarray, np.ndarray, TopicPrior]) -> None:
    """lda: planted topics recovered up to their order; rows sum to one."""
    corpus, phi, theta, prior = planted
    state = best_of(4, corpus, prior)
    found = topics.topics(corpus, state, prior)
    assert found.sum(axis=1) == pytest.approx(np.ones(10))
    pairs = topics.align(phi, found)
    assert np.abs(found[pairs] - phi).max() < 0.04
    shares = topics.proportions(corpus, state, prior)
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(shares)))
    assert np.corrcoef(shares[:, pairs].ravel(), theta.ravel())[0, 1] > 0.97


def test_new_documents_are_placed(planted: tuple[Corpus, np.ndarray, np.ndarray, TopicPrior]) -> None:
    _, phi, _, prior = planted
    rng = np.random.default_rng(7)
    new, theta = topics.simulate([200] * 50, phi, prior, rng)
    found = topics.infer(new, phi, prior, rng)
    assert found.sum(axis=1) == pytest.approx(np.ones(50))
    assert np.corrcoef(found.ravel(), theta.ravel())[0, 1] > 0.97


def test_simulated_words_follow_proportions_and_topics() -> None:
    """lda-generate: frequencies of words are those of proportions and topics."""
    rng = np.random.default_rng(8)
    phi = rng.dirichlet(np.ones(6), 3)
    corpus, theta = topics.simulate([4_000] * 30, phi, TopicPrior.even(3), rng)
    table = np.stack([np.bincount(corpus.take([d]).words, minlength=6) for d in range(30)]) / 4_000
    exact = theta @ phi
    assert np.all(np.abs(table - exact) < 5.5 * np.sqrt(exact * (1 - exact) / 4_000) + 1e-9)


@pytest.mark.slow(why="statistical")
def test_priors_are_learned() -> None:
    rng = np.random.default_rng(9)
    phi = rng.dirichlet(np.full(200, 0.05), 5)
    uneven = TopicPrior(np.array([2.0, 0.5, 0.2, 0.2, 0.1]), 0.05)
    corpus, _ = topics.simulate([100] * 600, phi, uneven, rng)
    prior = TopicPrior.even(5)
    state = best_of(4, corpus, prior)
    for _ in range(40):
        state = topics.run(corpus, state, prior, 2)
        better = topics.learned(corpus, state, prior)
        assert topics.log_joint(corpus, state, better) >= topics.log_joint(corpus, state, prior) - 1e-6
        prior = better
    pairs = topics.align(phi, topics.topics(corpus, state, prior))
    assert prior.alpha[pairs] == pytest.approx(uneven.alpha, rel=0.25)
    assert prior.beta == pytest.approx(0.05, rel=0.2)


def test_counts_and_lists_are_the_same_corpus() -> None:
    table = np.array([[2, 0, 1], [0, 0, 0], [0, 3, 0]])
    corpus = Corpus.from_counts(table)
    assert corpus.lengths.tolist() == [3, 0, 3]
    assert corpus.words.tolist() == [0, 0, 2, 1, 1, 1]
    state = topics.run(corpus, topics.start(corpus, 2, np.random.default_rng(0)), TopicPrior.even(2), 5)
    assert topics.proportions(corpus, state, TopicPrior.even(2))[1] == pytest.approx([0.5, 0.5])


def test_what_is_refused() -> None:
    with refused("data.out-of-range", "0 to 2.*0 to 3"):
        Corpus.of([[0, 3]], 3)
    with refused("data.not-whole", "counts"):
        Corpus.from_counts([[0.5, 1.0]])
    with refused("model.out-of-range", "alpha.*beta"):
        TopicPrior(np.array([0.0, 1.0]), 0.1)
    with refused("model.out-of-range", "n_topics is 0"):
        topics.start(TINY, 0, np.random.default_rng(0))
