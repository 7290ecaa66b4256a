"""Coherence of topics against counts by hand and by loops, and over draws."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from bayeslab.latents.topics import topics as lda
from bayeslab.latents.topics.topic_coherence import coherence, coherence_interval
from bayeslab.latents.topics.topics import Corpus, TopicPrior
from tests.refusals import refused

# Word 0 is in documents 0, 1, 2; word 1 in 0, 1; word 2 in 3; word 3 nowhere.
SMALL = Corpus.of([[0, 1, 1], [0, 1], [0], [2]], 4)


def test_values_by_hand() -> None:
    both = np.array([[0.6, 0.4, 0.0, 0.0]])
    assert coherence(SMALL, both, measure="umass", top=2) == pytest.approx(np.log(3 / 3))
    assert coherence(SMALL, both, top=2) == pytest.approx(np.log(2 * 4 / (3 * 2)) / np.log(4 / 2))
    never = np.array([[0.6, 0.0, 0.4, 0.0]])
    assert coherence(SMALL, never, top=2) == pytest.approx(-1.0)
    assert coherence(SMALL, never, measure="umass", top=2) == pytest.approx(np.log(1 / 3))
    unseen = np.array([[0.6, 0.0, 0.0, 0.4]])
    assert np.isnan(coherence(SMALL, unseen, top=2)).all()
    everywhere = Corpus.of([[0, 1], [1, 0]], 2)
    assert coherence(everywhere, np.array([[0.5, 0.5]]), top=2) == pytest.approx(0.0)


def test_pairs_are_counted_as_by_loops() -> None:
    rng = np.random.default_rng(0)
    corpus = Corpus.of([rng.integers(0, 20, n) for n in rng.integers(1, 15, 40)], 20)
    phi = rng.dirichlet(np.ones(20), (2, 3))
    sets = [set(corpus.take([d]).words.tolist()) for d in range(40)]

    def of(*words: int) -> int:
        return sum(all(w in own for w in words) for own in sets)

    for measure in ("npmi", "umass"):
        found = coherence(corpus, phi, measure=measure, top=6)
        assert found.shape == (2, 3)
        for index in np.ndindex(2, 3):
            first = np.argsort(-phi[index])[:6].tolist()
            values = []
            for b, a in combinations(first, 2):
                both = of(a, b)
                if measure == "umass":
                    values.append(np.log((both + 1) / of(b)))
                else:
                    pmi = np.log(both * 40 / (of(a) * of(b))) if both else 0.0
                    values.append(pmi / -np.log(both / 40) if both else -1.0)
            assert found[index] == pytest.approx(np.mean(values))


def test_planted_topics_are_more_coherent_than_mixed_up_ones() -> None:
    rng = np.random.default_rng(1)
    phi = rng.dirichlet(np.full(100, 0.05), 5)
    corpus, _ = lda.simulate([30] * 400, phi, TopicPrior.even(5), rng)
    draws = np.stack([np.stack([rng.dirichlet(400 * p + 1e-3) for p in phi]) for _ in range(30)])
    own = coherence_interval(corpus, draws, probability=0.8)
    mixed = coherence_interval(corpus, rng.permuted(draws, axis=1), probability=0.8)
    assert np.all(own.low <= own.mean)
    assert np.all(own.mean <= own.high)
    assert np.all(own.low > mixed.high)
    whole = coherence(corpus, draws)
    assert own.mean == pytest.approx(whole.mean(axis=0))
    assert ((whole >= own.low) & (whole <= own.high)).mean() == pytest.approx(0.8, abs=0.07)


def test_what_is_refused() -> None:
    with refused("option.unknown-word", "npmi or umass"):
        coherence(SMALL, np.ones((1, 4)), measure="cv")  # type: ignore[arg-type]
    with refused("option.too-few", "vocabulary"):
        coherence(SMALL, np.ones((1, 5)))
    with refused("option.out-of-range", "probability"):
        coherence_interval(SMALL, np.ones((3, 1, 4)), probability=90)
