"""Combinations of the keys of topics on three tiny documents: refused in one line, or the evidence is that of enumeration.

The slow twin cuts the documents by the manual's rules. For given concentrations it sums over every assignment of topics to
words, each with the probability of drawing topics and words one after the other from urns.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

import bayeslab as bl
from bayeslab.families.topics import spec
from bayeslab.families.topics.documents import documents_of
from bayeslab.latents.topics import topics as lda
from tests.families._combinations import all_pairs, answered, refused_alike

TEXTS = ("The blue fish and a tail", "blue skye tail", "Skye tail")
# Of these words in English.
STOP = {"the", "and", "a"}
FACTORS = {
    # Levels that go with everything are there several times: most combinations are answered.
    "topics": (1, 2, 2, 2, 3, "hdp"),
    "data": ("text", "lists", "rows", "counts"),
    "alpha": (None, 0.7, [0.4, 1.5], "learned"),
    "beta": (None, 0.3, "learned"),
    "lowercase": (True, False),
    "stop_words": (None, "none", ["fish", "THE"]),
    "more_stop_words": ([], ["skye"]),
    "min_length": (None, 1, 4),
    "min_documents": (1, 2),
    "max_share": (1, 0.7),
    "gamma": (None, None, None, None, 1.0),
    "time": (None, None, None, None, None, "day"),
}
SAMPLE = all_pairs(FACTORS, 2)


def declared(c: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in c.items() if k != "data" and v not in (None, [])}
    if c["data"] in ("rows", "counts"):
        kept |= {"document": "document", "word": "word"} | ({"count": "n"} if c["data"] == "counts" else {})
    return kept


def tokens(c: dict[str, Any]) -> list[list[str]]:
    """Words of each document, before any is left out; of lists and tables as they are cut below."""
    if c["data"] != "text":
        return [text.lower().split() for text in TEXTS]
    return [(text.lower() if c["lowercase"] else text).split() for text in TEXTS]


def data(c: dict[str, Any]) -> dict[str, Any]:
    day = {"day": np.arange(3)}
    if c["data"] == "text":
        return {"text": list(TEXTS)} | day
    if c["data"] == "lists":
        return {"text": tokens(c)} | day
    pairs = [(d, word) for d, words in enumerate(tokens(c)) for word in words]
    if c["data"] == "counts":
        many = Counter(pairs)
        pairs = sorted(many)
        return {"document": [d for d, _ in pairs], "word": [w for _, w in pairs], "n": [many[p] for p in pairs]}
    return {"document": [d for d, _ in pairs], "word": [w for _, w in pairs]}


def kept(c: dict[str, Any]) -> list[list[str]]:
    """Words that count: no stop words, long enough, in enough documents and not in too many."""
    plain = c["data"] == "text"
    stop = {None: STOP if plain else set(), "none": set()}.get(
        c["stop_words"] if c["stop_words"] != ["fish", "THE"] else "list"
    )
    stop = {"fish", "the"} if stop is None else stop
    stop = stop | set(c["more_stop_words"])
    least = c["min_length"] or (2 if plain else 1)
    documents = tokens(c)
    among = Counter(word for words in documents for word in set(words))
    fine = {
        w
        for w, n in among.items()
        if w.lower() not in stop and len(w) >= least and n >= c["min_documents"] and n <= c["max_share"] * len(TEXTS)
    }
    return [[w for w in words if w in fine] for words in documents]


def urns(documents: list[list[int]], topics: list[int], alpha: Any, beta: float, n_words: int) -> float:
    """log p(words, topics): one word after the other, each topic and word by how often it was drawn."""
    by_topic, total, i = np.zeros((len(alpha), n_words)), 0.0, 0
    for words in documents:
        here = np.zeros(len(alpha))
        for n, w in enumerate(words):
            k = topics[i]
            total += np.log((here[k] + alpha[k]) / (n + sum(alpha)))
            total += np.log((by_topic[k, w] + beta) / (by_topic[k].sum() + n_words * beta))
            here[k] += 1
            by_topic[k, w] += 1
            i += 1
    return float(total)


def model_of(c: dict[str, Any]) -> bl.Model:
    return bl.Model(name="m", model={"family": "topics", **declared(c)}, seed=1)


def compare(c: dict[str, Any]) -> bool:
    """Whether the combination has an evidence; it is right, or the combination is refused in one line."""
    model, why = refused_alike(
        lambda: model_of(c), data(c), lambda own, table: bl.fit(own, table, progress=False, runs=None)
    )
    if model is None or why is not None:
        return False
    found = documents_of(model, bl.check(model, data(c)))
    corpus, words = found.corpus, kept(c)
    for d, mine in enumerate(words):
        theirs = found.vocabulary[corpus.words[corpus.offsets[d] : corpus.offsets[d + 1]]].tolist()
        assert sorted(theirs) == sorted(mine)
    if c["topics"] == "hdp" or c["time"] is not None or c["topics"] ** corpus.n_tokens > 3000:
        return False
    prior = spec.prior_of(model.model)
    # What is learned begins at its default.
    alpha = {"learned": 1 / c["topics"], None: 1 / c["topics"]}.get(
        c["alpha"] if not isinstance(c["alpha"], list) else ""
    )
    alpha = np.broadcast_to(c["alpha"] if alpha is None else alpha, (c["topics"],))
    beta = c["beta"] if isinstance(c["beta"], float) else 0.05
    at = {word: i for i, word in enumerate(found.vocabulary.tolist())}
    numbers = [sorted(at[w] for w in mine) for mine in words]
    assert [n for mine in numbers for n in mine] == corpus.words.tolist()
    ours, theirs_ = [], []
    for z in product(range(c["topics"]), repeat=corpus.n_tokens):
        ours.append(urns(numbers, list(z), alpha, beta, len(at)))
        theirs_.append(lda.log_joint(corpus, {"z": np.array(z, np.int32)}, prior))
    np.testing.assert_allclose(theirs_, ours, atol=1e-8)
    assert logsumexp(theirs_) == pytest.approx(logsumexp(ours), abs=1e-8)
    return True


@pytest.mark.parametrize("number", range(0, len(SAMPLE), 6))
def test_some_combinations(number):
    answered([SAMPLE[number]], compare)


@pytest.mark.slow(why="large")
def test_all_pairs_of_keys():
    assert answered(SAMPLE, compare) > 0.3 * len(SAMPLE)
