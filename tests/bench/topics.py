"""Topics of the Federalist papers against tomotopy, gensim and scikit-learn, in one run on one thread.

Times are of the processor, not of the wall: on a busy machine they still compare. Both sides of a ratio run in turns in
this process, and what they found is judged alike: the joint probability of words and topics by one formula, held-out
documents by one estimator (left to right, not a bound).

``python tests/bench/topics.py`` prints ratios; the text is ``federalist.txt`` in the folder ``BAYESLAB_TEXTS``.
"""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bayeslab.latents.topics import topics as lda
from bayeslab.latents.topics.topics import Corpus, TopicPrior
from bayeslab.latents.topics.variational_topics import fit_online

FOLDER = Path(os.environ.get("BAYESLAB_TEXTS", Path(__file__).resolve().parents[3] / "shared" / "data" / "text"))
# Words that stand in a text most often, and words in one paper only, are left out.
COMMON, PIECE = 60, 100
# What is wanted, what is reached, and how: a line of the table at the end.
type Row = tuple[str, str, str]


def papers() -> list[list[str]]:
    """The words of each paper."""
    text = (FOLDER / "federalist.txt").read_text(encoding="utf-8")
    each = [re.findall(r"[a-z]+", p.lower()) for p in re.split(r"\nFEDERALIST\.? No\. \d+", text)[1:]]
    common = {w for w, _ in Counter(w for words in each for w in words).most_common(COMMON)}
    places = Counter(w for words in each for w in set(words))
    return [[w for w in words if w not in common and places[w] >= 2 and len(w) > 2] for words in each]


def corpus_of(documents: list[list[str]]) -> Corpus:
    number = {w: i for i, w in enumerate(sorted({w for words in documents for w in words}))}
    return Corpus.of([[number[w] for w in words] for words in documents], len(number))


def pieces(corpus: Corpus) -> tuple[Corpus, Corpus]:
    """Pieces of 100 tokens as documents: nine tenths of them, and the rest."""
    offsets = np.unique(np.append(np.arange(0, corpus.n_tokens, PIECE), corpus.n_tokens))
    cut = Corpus(corpus.words, offsets, corpus.n_words)
    apart = np.arange(cut.n_documents) % 10 == 0
    return cut.take(~apart), cut.take(apart)


def seconds(work: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[float, Any]:
    """Processor time of a call, and what it gives."""
    begun = time.process_time()
    out = work(*arguments, **options)
    return time.process_time() - begun, out


# --------------------------------------------------------------------------------- Gibbs sweeps


def gibbs(documents: list[list[str]]) -> list[Row]:
    """Tokens a second, and the joint probability of words and topics after equal times, beside tomotopy."""
    try:
        import tomotopy
    except ImportError:
        return [("tokens a second against tomotopy", "≥ 1", "tomotopy is not installed")]
    corpus, out = corpus_of(documents), []
    print(f"Gibbs sweeps, {corpus.n_documents} papers, {corpus.n_tokens:,} tokens; tomotopy {tomotopy.isa}")
    for n_topics in (20, 50, 100, 250, 500, 1000):
        prior = TopicPrior(np.full(n_topics, 0.1), 0.01)
        state = lda.run(corpus, lda.start(corpus, n_topics, np.random.default_rng(0)), prior, 1)
        peer = tomotopy.LDAModel(k=n_topics, alpha=0.1, eta=0.01, seed=1)
        peer.optim_interval = 0
        for words in documents:
            peer.add_doc(words)
        peer.train(1, workers=1)
        sweeps, ours, theirs = max(3, 1000 // n_topics), [], []
        for _ in range(7):
            taken, state = seconds(lda.run, corpus, state, prior, sweeps)
            ours.append(taken)
            theirs.append(seconds(peer.train, sweeps, workers=1)[0])
        # As many sweeps more as make the times equal.
        behind = int(max(0.0, sum(theirs) - sum(ours)) / (np.median(ours) / sweeps))
        state = lda.run(corpus, state, prior, behind)
        rates = [sweeps * corpus.n_tokens / np.median(each) / 1e6 for each in (ours, theirs)]
        joints = lda.log_joint(corpus, state, prior) / corpus.n_tokens, joint_of(peer, corpus.n_words, prior)
        said = f"{rates[0] / rates[1]:.2f}; log p(words, topics) a word {joints[0]:.4f} and {joints[1]:.4f}"
        out.append((f"tokens a second against tomotopy, {n_topics} topics", "≥ 1", said))
        print(
            f"  {n_topics:>5} topics: {rates[0]:6.2f} and {rates[1]:6.2f} million tokens a second, ratio"
            f" {rates[0] / rates[1]:.2f}; log p(words, topics) a word after {sum(theirs):.1f} s {joints[0]:.4f} and"
            f" {joints[1]:.4f}",
            flush=True,
        )
    return out


def joint_of(peer: Any, n_words: int, prior: TopicPrior) -> float:
    """log p(words, topics) a word of tomotopy's assignments."""
    theirs = Corpus.of([list(document.words) for document in peer.docs], n_words)
    z = np.concatenate([np.asarray(document.topics) for document in peer.docs])
    return lda.log_joint(theirs, {"z": z}, prior) / theirs.n_tokens


# --------------------------------------------------------------------------------- held out


def per_word(held: Corpus, topics: np.ndarray, prior: TopicPrior) -> float:
    """log p of a word of held-out documents."""
    topics = np.asarray(topics, float)
    topics = topics / topics.sum(axis=1, keepdims=True)
    return float(lda.held_out(held, topics, prior, np.random.default_rng(0), particles=10).sum() / held.n_tokens)


def curve(train: Corpus, held: Corpus, prior: TopicPrior) -> list[tuple[float, float]]:
    """Processor time of Gibbs sweeps so far, and what they make of held-out documents."""
    state, total, out = lda.start(train, prior.n_topics, np.random.default_rng(0)), 0.0, []
    for sweeps in (1, 1, 1, 1, 1, 2, 2, 3, 4, 5, 10, 20, 50, 100):
        taken, state = seconds(lda.run, train, state, prior, sweeps)
        total += taken
        out.append((total, per_word(held, lda.topics(train, state, prior), prior)))
    return out


def against_gensim(train: Corpus, held: Corpus, prior: TopicPrior) -> list[Row]:
    """Time to the held-out probability that gensim has after some passes."""
    try:
        from gensim.models import LdaModel
    except ImportError:
        return [("time to the held-out probability of gensim", "≥ 20", "gensim is not installed")]
    ours, out = curve(train, held, prior), []
    bags = [sorted(Counter(train.take([d]).words.tolist()).items()) for d in range(train.n_documents)]
    names = {i: str(i) for i in range(train.n_words)}
    shared = {"num_topics": prior.n_topics, "id2word": names, "alpha": list(prior.alpha), "eta": prior.beta}
    print(f"time to equal held-out probability, {train.n_documents} documents, {prior.n_topics} topics")
    for passes in (1, 2, 5, 10, 20):
        taken, model = seconds(LdaModel, bags, passes=passes, chunksize=256, eval_every=None, random_state=0, **shared)
        reached = per_word(held, model.get_topics(), prior)
        found = next(((t, v) for t, v in ours if v >= reached), None)
        said = f"ours {found[1]:.4f} in {found[0]:.3f} s, ratio {taken / found[0]:.0f}" if found else "not reached"
        print(f"  gensim, {passes:>2} passes: {reached:.4f} in {taken:.2f} s; {said}", flush=True)
        ratio = f"{taken / found[0]:.0f}" if found else "not reached"
        out.append(
            (f"time to the held-out probability of gensim, passes: {passes}", "≥ 20", f"{ratio} at {reached:.4f}")
        )
    print(f"  ours after {ours[-1][0]:.2f} s: {ours[-1][1]:.4f}")
    return out


def against_sklearn(train: Corpus, held: Corpus, prior: TopicPrior) -> list[Row]:
    """Online variational Bayes, batches and passes alike."""
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import LatentDirichletAllocation

    table = csr_matrix(
        (np.ones(train.n_tokens), (train.document, train.words)), shape=(train.n_documents, train.n_words)
    )
    table.sum_duplicates()
    print(f"online variational Bayes, {train.n_documents} documents in batches of 128, {prior.n_topics} topics")
    fit_online(train.take(slice(0, 20)), prior, np.random.default_rng(0))
    out = []
    for passes in (1, 5, 20):
        taken, mine = seconds(fit_online, train, prior, np.random.default_rng(0), passes=passes, batch=128)
        peer = LatentDirichletAllocation(
            prior.n_topics,
            learning_method="online",
            max_iter=passes,
            batch_size=128,
            random_state=0,
            doc_topic_prior=float(prior.alpha[0]),
            topic_word_prior=prior.beta,
        )
        other, _ = seconds(peer.fit, table)
        judged = per_word(held, mine.topics, prior), per_word(held, peer.components_, prior)
        print(
            f"  {passes:>2} passes: {taken:.3f} and {other:.3f} s, ratio {other / taken:.1f}; held-out {judged[0]:.4f} and"
            f" {judged[1]:.4f}",
            flush=True,
        )
        said = f"{other / taken:.1f}; held out {judged[0]:.4f} and {judged[1]:.4f}"
        out.append((f"online variational Bayes against scikit-learn, passes: {passes}", "≥ 2", said))
    return out


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if not (FOLDER / "federalist.txt").exists():
        print(f"no {FOLDER / 'federalist.txt'}: topics are not measured; name its folder in BAYESLAB_TEXTS")
        sys.exit()
    read = papers()
    parts = pieces(corpus_of(read))
    with threadpool_limits(1):
        rows = gibbs(read)
        for peer in (against_gensim, against_sklearn):
            rows += peer(*parts, TopicPrior(np.full(20, 0.05), 0.05))
    print("\nratios are theirs / ours in time, ours / theirs in tokens a second: large is good")
    for what, wanted, reached in rows:
        print(f"  {what:<58} {wanted:>5}   {reached}")
