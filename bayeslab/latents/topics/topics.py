r"""Topics of documents (latent Dirichlet allocation), topics and proportions integrated out.

Every document has proportions of topics, every topic probabilities of words [1]_:

.. math:: \theta_d \sim \mathrm{Dirichlet}(\alpha), \quad \phi_k \sim \mathrm{Dirichlet}(\beta), \quad
   z_{di} \sim \theta_d, \quad w_{di} \sim \phi_{z_{di}}.

What is left when :math:`\theta` and :math:`\phi` are integrated out is a distribution of the topics z of the tokens,
from which Gibbs steps draw one token after the other [2]_,

.. math:: p(z_{di} = k \mid \text{rest}) \propto (n_{dk} + \alpha_k) \frac{n_{kw} + \beta}{n_k + V \beta}.

The proportions of documents that were not seen have no closed form. :func:`held_out` estimates the probability of such
documents without bias by particles from left to right [3]_, given topics or with topics integrated out; the bounds that
variational programs print are not this probability.

References
----------
.. [1] Blei, Ng, Jordan (2003). Latent Dirichlet allocation. JMLR 3, 993-1022.
.. [2] Griffiths, Steyvers (2004). Finding scientific topics. PNAS 101, 5228-5235.
.. [3] Wallach, Murray, Salakhutdinov, Mimno (2009). Evaluation methods for topic models. ICML 26;
   Buntine (2009). Estimating likelihoods for topic models. ACML 1.
.. [4] Wallach, Mimno, McCallum (2009). Rethinking LDA: why priors matter. NIPS 22.
.. [5] Minka (2000). Estimating a Dirichlet distribution. Technical report, MIT, eq. 55.
.. [6] Teh, Jordan, Beal, Blei (2006). Hierarchical Dirichlet processes. JASA 101, 1566-1581.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from bayeslab.errors import DataError, ModelError

__all__ = [
    "Corpus",
    "State",
    "TopicPrior",
    "align",
    "held_out",
    "infer",
    "learned",
    "log_joint",
    "proportions",
    "run",
    "simulate",
    "simulate_given",
    "start",
    "topics",
]

type State = Mapping[str, NDArray[Any]]

# Counts are floats of 32 bits in the kernels.
_MOST = 1 << 24
# From so many topics on, what is not zero is cheaper to visit than all in vectors.
MANY = 256


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents as numbers of words, one after the other.

    Parameters
    ----------
    words : ndarray of int32, shape (n_tokens,)
        Numbers from 0 to n_words - 1.
    offsets : ndarray of int64, shape (n_documents + 1,)
        Document d has the tokens ``offsets[d]`` to ``offsets[d + 1]``.
    n_words : int
        Size of the vocabulary.

    Raises
    ------
    DataError
        A number outside the vocabulary; offsets that do not rise.
    """

    words: NDArray[np.int32]
    offsets: NDArray[np.int64]
    n_words: int

    def __post_init__(self) -> None:
        words, offsets = np.ascontiguousarray(self.words, np.int32), np.ascontiguousarray(self.offsets, np.int64)
        if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(words) or np.any(np.diff(offsets) < 0):
            raise DataError(f"offsets rise from 0 to the number of tokens, {len(words)}", code="not-in-order")
        if len(words) and (words.min() < 0 or words.max() >= self.n_words):
            raise DataError(
                f"numbers of words are 0 to {self.n_words - 1}; given {words.min()} to {words.max()}",
                code="out-of-range",
            )
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "offsets", offsets)

    @classmethod
    def of(cls, documents: Iterable[Any], n_words: int) -> Self:
        """From a list of numbers for each document."""
        each = [np.asarray(document, np.int32) for document in documents]
        words = np.concatenate(each) if each else np.zeros(0, np.int32)
        return cls(words, np.append(0, np.cumsum([len(e) for e in each])).astype(np.int64), n_words)

    @classmethod
    def from_counts(cls, counts: Any) -> Self:
        """From a table (n_documents, n_words) of counts, dense or sparse (SciPy)."""
        from scipy.sparse import coo_array

        table = coo_array(counts)
        order = np.lexsort((table.col, table.row))
        repeats = np.asarray(table.data[order])
        if np.any(repeats < 0) or np.any(repeats != np.floor(repeats)):
            raise DataError("counts of words are whole numbers, 0 or more", code="not-whole")
        repeats = repeats.astype(np.int64)
        sizes = np.bincount(table.row[order], repeats, minlength=table.shape[0]).astype(np.int64)
        return cls(np.repeat(table.col[order], repeats), np.append(0, np.cumsum(sizes)), table.shape[1])

    @property
    def n_documents(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        return len(self.words)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each document."""
        return np.diff(self.offsets)

    @cached_property
    def document(self) -> NDArray[np.int64]:
        """The document of each token."""
        return np.repeat(np.arange(self.n_documents), self.lengths)

    @cached_property
    def most_common(self) -> int:
        """How often the most frequent word occurs."""
        return int(np.bincount(self.words, minlength=1).max())

    @cached_property
    def by_word(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places of the tokens in the order of their words, and where each word's places begin (n_words + 1,)."""
        sizes = np.bincount(self.words, minlength=self.n_words)
        return np.argsort(self.words, kind="stable"), np.append(0, np.cumsum(sizes))

    def take(self, documents: Any) -> Corpus:
        """Some of the documents, by number or mask."""
        chosen = np.arange(self.n_documents)[documents]
        return Corpus.of((self.words[self.offsets[d] : self.offsets[d + 1]] for d in chosen), self.n_words)


@dataclass(frozen=True, eq=False)
class TopicPrior:
    """Dirichlet concentrations.

    Parameters
    ----------
    alpha : ndarray (n_topics,)
        Of the topics in a document; unequal ones let some topics be common [4]_.
    beta : float
        Of each word in a topic.
    """

    alpha: NDArray[np.float64]
    beta: float

    def __post_init__(self) -> None:
        alpha = np.atleast_1d(np.asarray(self.alpha, float))
        if not (np.all(np.isfinite(alpha)) and np.all(alpha > 0) and np.isfinite(self.beta) and self.beta > 0):
            raise ModelError("the concentrations alpha and beta of topics are positive", code="out-of-range")
        object.__setattr__(self, "alpha", alpha)

    @classmethod
    def even(cls, n_topics: int, total: float = 1.0, beta: float = 0.05) -> Self:
        """The same concentration for all topics, ``total`` together."""
        return cls(np.full(n_topics, total / n_topics), beta)

    @property
    def n_topics(self) -> int:
        return len(self.alpha)


def start(corpus: Corpus, n_topics: int, rng: np.random.Generator) -> State:
    """Tokens in random topics.

    Returns
    -------
    mapping
        ``z``, the topic of each token, and ``rng``, the state of the random numbers: all that a run goes on from.
    """
    if n_topics < 1:
        raise ModelError(f"{n_topics} topics; at least 1 is needed", code="out-of-range")
    z = rng.integers(0, n_topics, corpus.n_tokens).astype(np.int32)
    return {"z": z, "rng": rng.integers(1, np.iinfo(np.uint64).max, 4, np.uint64)}


def run(corpus: Corpus, state: State, prior: TopicPrior, n_sweeps: int) -> State:
    """Gibbs sweeps over all tokens [2]_; a run in pieces gives what one run gives, to the last bit."""
    from bayeslab.latents.topics.topic_kernels import sweep, sweep_sparse

    if corpus.most_common >= _MOST:
        raise DataError(
            f"a word occurs {_MOST:,} times or more; leave it out, as words without meaning are", code="too-large"
        )
    z, rng_state, n_topics = state["z"].copy(), state["rng"].copy(), _padded(prior.n_topics)
    if prior.n_topics >= MANY:
        places, starts = corpus.by_word
        sweep_sparse(
            corpus.words, corpus.offsets, places, starts, z, prior.alpha, float(prior.beta), rng_state, n_sweeps
        )
    else:
        by_word, group = np.zeros((corpus.n_words, n_topics), np.float32), np.zeros(corpus.n_documents, np.int64)
        beta, width = np.float32(prior.beta), np.float32(prior.beta * corpus.n_words)
        sweep(corpus.words, corpus.offsets, z, by_word, _alpha(prior)[None], group, beta, width, rng_state, n_sweeps)
    return {"z": z, "rng": rng_state}


def _padded(n_topics: int) -> int:
    from bayeslab.latents.topics.topic_kernels import BLOCK

    return -(-n_topics // BLOCK) * BLOCK


def _alpha(prior: TopicPrior) -> NDArray[np.float32]:
    out = np.zeros(_padded(prior.n_topics), np.float32)
    # Zero is for padding, so what is too small for 32 bits must not become it.
    out[: prior.n_topics] = np.maximum(prior.alpha, 1e-30)
    return out


def _counts(corpus: Corpus, z: NDArray[Any], n_topics: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Tokens by document and topic, and by word and topic."""
    by_document = np.bincount(corpus.document * n_topics + z, minlength=corpus.n_documents * n_topics)
    by_word = np.bincount(corpus.words.astype(np.int64) * n_topics + z, minlength=corpus.n_words * n_topics)
    return (
        by_document.reshape(-1, n_topics).astype(np.int32),
        by_word.reshape(-1, n_topics).astype(np.int32),
    )


def topics(corpus: Corpus, state: State, prior: TopicPrior) -> NDArray[np.float64]:
    """Probabilities of words (n_topics, n_words): their means given the topics of the tokens."""
    _, by_word = _counts(corpus, state["z"], prior.n_topics)
    weights = by_word.T + prior.beta
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def proportions(corpus: Corpus, state: State, prior: TopicPrior) -> NDArray[np.float64]:
    """Proportions of topics (n_documents, n_topics): their means given the topics of the tokens."""
    by_document, _ = _counts(corpus, state["z"], prior.n_topics)
    weights = by_document + prior.alpha
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def log_joint(corpus: Corpus, state: State, prior: TopicPrior) -> float:
    """log p(words, topics of the tokens | alpha, beta)."""
    by_document, by_word = _counts(corpus, state["z"], prior.n_topics)
    alpha, beta, v = prior.alpha, prior.beta, corpus.n_words
    documents = _dirichlet(by_document + alpha) - corpus.n_documents * _dirichlet(alpha[None])
    return float(documents + _dirichlet(by_word.T + beta) - prior.n_topics * _dirichlet(np.full((1, v), beta)))


def _dirichlet(a: NDArray[Any]) -> float:
    """Sum over rows of the logarithm of the Dirichlet's normaliser."""
    return float(gammaln(a).sum() - gammaln(a.sum(axis=1)).sum())


def learned(corpus: Corpus, state: State, prior: TopicPrior, *, beta: bool = True, steps: int = 5) -> TopicPrior:
    """The prior after some steps towards its most likely value for the counts at hand [4]_ [5]_.

    Parameters
    ----------
    beta : bool
        Whether the concentration of words is learned too.
    steps : int
        Fixed-point steps; each raises the likelihood of the counts.
    """
    by_document, by_word = _counts(corpus, state["z"], prior.n_topics)
    alpha, one = prior.alpha, prior.beta
    lengths, sizes = corpus.lengths, by_word.sum(axis=0)
    for _ in range(steps):
        top = (digamma(by_document + alpha) - digamma(alpha)).sum(axis=0)
        bottom = (digamma(lengths + alpha.sum()) - digamma(alpha.sum())).sum()
        alpha = np.clip(alpha * top / max(bottom, 1e-300), 1e-8, 1e8)
        if beta:
            width = one * corpus.n_words
            above = (digamma(by_word + one) - digamma(one)).sum()
            below = corpus.n_words * (digamma(sizes + width) - digamma(width)).sum()
            one = float(np.clip(one * above / max(below, 1e-300), 1e-8, 1e8))
    return TopicPrior(alpha, one)


def infer(
    corpus: Corpus,
    words_of_topics: NDArray[np.float64],
    prior: TopicPrior,
    rng: np.random.Generator,
    *,
    sizes: NDArray[np.floating] | None = None,
    sides: NDArray[np.int64] | None = None,
    sweeps: int = 100,
    tune: int = 50,
) -> NDArray[np.float64]:
    """Proportions of topics (n_documents, n_topics) of new documents, each on its own.

    Parameters
    ----------
    words_of_topics, sizes, sides
        As of :func:`held_out`.
    """
    from bayeslab.latents.topics.topic_kernels import sweep_given

    first = start(corpus, prior.n_topics, rng)
    z, rng_state, mean = first["z"].copy(), first["rng"].copy(), np.zeros((corpus.n_documents, _padded(prior.n_topics)))
    given = _given(words_of_topics, sizes, sides)
    sweep_given(corpus.words, corpus.offsets, z, *given, _alpha(prior), rng_state, sweeps + tune, tune, mean)
    total = mean[:, : prior.n_topics] / sweeps + prior.alpha
    return np.asarray(total / total.sum(axis=1, keepdims=True))


def held_out(
    corpus: Corpus,
    words_of_topics: NDArray[np.float64],
    prior: TopicPrior,
    rng: np.random.Generator,
    *,
    sizes: NDArray[np.floating] | None = None,
    sides: NDArray[np.int64] | None = None,
    particles: int = 20,
    fresh: int = 50,
) -> NDArray[np.float64]:
    """log p(document | topics, alpha) of each document, each on its own, estimated from left to right [3]_.

    The estimate of p is unbiased for any number of particles (those that fit are multiplied, as in a particle filter);
    its logarithm is too low by about half of its variance.

    Parameters
    ----------
    words_of_topics : ndarray (n_topics, n_words)
        Probabilities of words; with ``sizes`` their means.
    sizes : ndarray (n_topics,) or (n_sides, n_topics), optional
        How well topics are known: topic k has the distribution Dirichlet(sizes[k] · words_of_topics[k]), which is
        integrated out; the words of the document count as they are read. Given the topics of the tokens of other
        documents, their number plus beta times that of the words. Default: topics are known.
    sides : ndarray of int (n_words,), optional
        Of several vocabularies, each with topics of its own: which a word is of.
    particles : int
        More of them make the variance less.
    fresh : int
        How many earlier tokens each particle draws anew at each token; more make the variance less too.
    """
    from bayeslab.latents.topics.topic_kernels import left_to_right

    out = np.zeros(corpus.n_documents)
    rng_state = rng.integers(1, np.iinfo(np.uint64).max, 4, np.uint64)
    given = _given(words_of_topics, sizes, sides)
    left_to_right(corpus.words, corpus.offsets, *given, _alpha(prior), rng_state, particles, fresh, out)
    return out


def _given(
    words_of_topics: NDArray[np.floating], sizes: NDArray[np.floating] | None, sides: NDArray[np.int64] | None
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64], np.float32]:
    """What kernels are told of topics: concentrations by word and topic, padded, and how tokens add to them."""
    n_topics, n_words = words_of_topics.shape
    of_word = np.zeros(n_words, np.int64) if sides is None else np.asarray(sides, np.int64)
    each = np.ones((int(of_word.max(initial=0)) + 1, n_topics)) if sizes is None else np.atleast_2d(sizes)
    table = np.zeros((n_words, _padded(n_topics)), np.float32)
    table[:, :n_topics] = words_of_topics.T * each[of_word]
    whole = np.ones((len(each), table.shape[1]), np.float32)
    whole[:, :n_topics] = each
    return table, whole, of_word, np.float32(sizes is not None)


def simulate(
    lengths: Sequence[int], words_of_topics: NDArray[np.float64], prior: TopicPrior, rng: np.random.Generator
) -> tuple[Corpus, NDArray[np.float64]]:
    """Documents of these lengths drawn from the model, and their proportions of topics."""
    thetas = rng.dirichlet(prior.alpha, len(lengths))
    return simulate_given(lengths, words_of_topics, thetas, rng), thetas


def simulate_given(
    lengths: Sequence[int],
    words_of_topics: NDArray[np.float64],
    thetas: NDArray[np.float64],
    rng: np.random.Generator,
) -> Corpus:
    """Documents of these lengths with these proportions of topics (n_documents, n_topics)."""
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    words, z = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.int64)
    for d, theta in enumerate(thetas):
        z[offsets[d] : offsets[d + 1]] = rng.choice(len(theta), lengths[d], p=theta)
    for k, below in enumerate(np.cumsum(words_of_topics, axis=1)):
        tokens = z == k
        words[tokens] = np.searchsorted(below / below[-1], rng.random(np.count_nonzero(tokens)), side="right")
    return Corpus(words, offsets, words_of_topics.shape[1])


def align(reference: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each topic of ``reference`` (n_topics, n_words) the topic of ``other`` that goes with it, one to one.

    The pairs have the least sum of squared Hellinger distances.
    """
    from scipy.optimize import linear_sum_assignment

    likeness = np.sqrt(reference) @ np.sqrt(other).T
    return np.asarray(linear_sum_assignment(-likeness)[1])
