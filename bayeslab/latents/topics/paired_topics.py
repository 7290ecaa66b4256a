r"""Polylingual topics: documents in several languages with common topic proportions.

A document has one vector of topic proportions, and in each language l words from the topics of that language [1]_:

.. math:: \theta_d \sim \mathrm{Dirichlet}(\alpha), \quad \phi^l_k \sim \mathrm{Dirichlet}(\beta), \quad
   z^l_{di} \sim \theta_d, \quad w^l_{di} \sim \phi^l_{z^l_{di}}.

Topic k has the same meaning in all languages, because it occurs in the same documents: its words in different languages
translate each other. With proportions and topics integrated out, the topic of a token is drawn from

.. math:: p(z^l_{di} = k \mid \text{rest}) \propto (n_{dk} + \alpha_k) \frac{n^l_{kw} + \beta}{n^l_k + V_l \beta}

with :math:`n_{dk}` the number of tokens in all languages. The proportions of a new document in one language come from
:func:`bayeslab.latents.topics.topics.infer` with the topics of that language.

References
----------
.. [1] Mimno, Wallach, Naradowsky, Smith, McCallum (2009). Polylingual topic models. EMNLP, 880-889.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from bayeslab.errors import DataError
from bayeslab.latents.topics import topics as lda
from bayeslab.latents.topics.topics import Corpus, State, TopicPrior

__all__ = ["PairedCorpus", "log_joint", "proportions", "run", "simulate", "start", "topics"]


@dataclass(frozen=True, eq=False)
class PairedCorpus:
    """The same documents in several languages.

    Parameters
    ----------
    sides : sequence of Corpus
        A corpus for each language; document d is the same in all of them. A document may be empty in some languages.

    Raises
    ------
    DataError
        There is no language, or the languages differ in their number of documents.
    """

    sides: Sequence[Corpus]

    def __post_init__(self) -> None:
        sizes = [side.n_documents for side in self.sides]
        if not sizes or len(set(sizes)) > 1:
            raise DataError(f"every language needs the same number of documents; given {sizes}", code="wrong-length")
        object.__setattr__(self, "sides", tuple(self.sides))

    @property
    def first_words(self) -> NDArray[np.int64]:
        """Start of each language's words in the joint numbering (n_sides + 1,)."""
        return np.append(0, np.cumsum([side.n_words for side in self.sides]))

    @cached_property
    def joined(self) -> Corpus:
        """The corpus of all languages: the tokens of a document, language by language, with jointly numbered words.

        :func:`bayeslab.latents.topics.topics.held_out` takes it with the topics of all languages side by side.
        """
        return self._joined[0]

    @cached_property
    def side(self) -> NDArray[np.int64]:
        """The language of each token of ``joined``."""
        return self._joined[1]

    @cached_property
    def _joined(self) -> tuple[Corpus, NDArray[np.int64]]:
        language = np.repeat(np.arange(len(self.sides)), [side.n_tokens for side in self.sides])
        words = np.concatenate([s.words + first for s, first in zip(self.sides, self.first_words, strict=False)])
        order = np.argsort(np.concatenate([side.document for side in self.sides]), kind="stable")
        lengths = np.sum([side.lengths for side in self.sides], axis=0)
        offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
        return Corpus(words[order].astype(np.int32), offsets, int(self.first_words[-1])), language[order]


def start(corpus: PairedCorpus, n_topics: int, rng: np.random.Generator) -> State:
    """A random topic for each token of ``corpus.joined``: see :func:`bayeslab.latents.topics.topics.start`."""
    return lda.start(corpus.joined, n_topics, rng)


def run(corpus: PairedCorpus, state: State, prior: TopicPrior, n_sweeps: int) -> State:
    """Gibbs sweeps over the tokens of all languages. Runs cut into pieces are bit-identical to one run."""
    from bayeslab.latents.topics.topic_kernels import BLOCK, sweep_paired

    z, rng_state, joined = state["z"].copy(), state["rng"].copy(), corpus.joined
    alpha = np.zeros(-(-prior.n_topics // BLOCK) * BLOCK, np.float32)
    alpha[: prior.n_topics] = prior.alpha
    by_word, total = np.zeros((joined.n_words, len(alpha)), np.float32), np.zeros((len(corpus.sides), len(alpha)), int)
    widths = np.array([prior.beta * side.n_words for side in corpus.sides], np.float32)
    sweep_paired(
        joined.words, joined.offsets, corpus.side, z, by_word, total, alpha, np.float32(prior.beta), widths, rng_state,
        n_sweeps,
    )  # fmt: skip
    return {"z": z, "rng": rng_state}


def _by_word(corpus: PairedCorpus, state: State, n_topics: int) -> list[NDArray[np.int64]]:
    """Numbers of tokens by topic and word, for each language."""
    joined = corpus.joined
    counts = np.bincount(
        state["z"] * joined.n_words + joined.words.astype(np.int64), minlength=n_topics * joined.n_words
    )
    return np.split(counts.reshape(n_topics, -1), corpus.first_words[1:-1], axis=1)


def topics(corpus: PairedCorpus, state: State, prior: TopicPrior) -> list[NDArray[np.float64]]:
    """Posterior means of the word probabilities (n_topics, n_words) of each language, given the tokens' topics."""
    each = [counts + prior.beta for counts in _by_word(corpus, state, prior.n_topics)]
    return [weights / weights.sum(axis=1, keepdims=True) for weights in each]


def proportions(corpus: PairedCorpus, state: State, prior: TopicPrior) -> NDArray[np.float64]:
    """Posterior means of the topic proportions (n_documents, n_topics), given the topics of the tokens."""
    return lda.proportions(corpus.joined, state, prior)


def log_joint(corpus: PairedCorpus, state: State, prior: TopicPrior) -> float:
    """log p(words of all languages, topics of tokens | alpha, beta)."""

    k, alpha, beta = prior.n_topics, prior.alpha, prior.beta
    joined = corpus.joined
    counts = np.bincount(joined.document * k + state["z"], minlength=joined.n_documents * k).reshape(-1, k)
    out = (gammaln(counts + alpha) - gammaln(alpha)).sum()
    out += (gammaln(alpha.sum()) - gammaln(joined.lengths + alpha.sum())).sum()
    for by_word in _by_word(corpus, state, k):
        width = beta * by_word.shape[1]
        out += (gammaln(by_word + beta) - gammaln(beta)).sum() + (
            gammaln(width) - gammaln(by_word.sum(axis=1) + width)
        ).sum()
    return float(out)


def simulate(
    lengths: Sequence[Sequence[int]],
    words_of_topics: Sequence[NDArray[np.float64]],
    prior: TopicPrior,
    rng: np.random.Generator,
) -> tuple[PairedCorpus, NDArray[np.float64]]:
    """Documents drawn from the model, and their proportions.

    Parameters
    ----------
    lengths : sequence of sequence of int
        Number of tokens of each document, for each language.
    words_of_topics : sequence of ndarray (n_topics, n_words)
        Word probabilities for each language.
    """
    thetas = rng.dirichlet(prior.alpha, len(lengths[0]))
    sides = [
        lda.simulate_given(side_lengths, phi, thetas, rng)
        for side_lengths, phi in zip(lengths, words_of_topics, strict=True)
    ]
    return PairedCorpus(sides), thetas
