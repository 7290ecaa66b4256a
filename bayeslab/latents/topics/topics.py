r"""Latent Dirichlet allocation, with topics and proportions integrated out.

Every document has topic proportions, and every topic has word probabilities [1]_:

.. math:: \theta_d \sim \mathrm{Dirichlet}(\alpha), \quad \phi_k \sim \mathrm{Dirichlet}(\beta), \quad
   z_{di} \sim \theta_d, \quad w_{di} \sim \phi_{z_{di}}.

With :math:`\theta` and :math:`\phi` integrated out, the topics z of the tokens remain. Collapsed Gibbs sampling draws
them one token after another [2]_,

.. math:: p(z_{di} = k \mid \text{rest}) \propto (n_{dk} + \alpha_k) \frac{n_{kw} + \beta}{n_k + V \beta}.

The probability of a new document has no closed form. :func:`held_out` estimates it without bias by the left-to-right
particle algorithm [3]_, given topics or with topics integrated out. The lower bound of variational methods is a
different quantity.

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

# Counts are 32-bit floats in the kernels.
_MOST = 1 << 24
# From this number of topics on, visiting the nonzero counts is faster than vectorised loops over all topics.
MANY = 256


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents as word indices, concatenated.

    Parameters
    ----------
    words : ndarray of int32, shape (n_tokens,)
        Word indices from 0 to n_words - 1.
    offsets : ndarray of int64, shape (n_documents + 1,)
        Document d has the tokens ``offsets[d]`` to ``offsets[d + 1]``.
    n_words : int
        Size of the vocabulary.

    Raises
    ------
    DataError
        A word index is out of range, or the offsets decrease.
    """

    words: NDArray[np.int32]
    offsets: NDArray[np.int64]
    n_words: int

    def __post_init__(self) -> None:
        words, offsets = np.ascontiguousarray(self.words, np.int32), np.ascontiguousarray(self.offsets, np.int64)
        if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(words) or np.any(np.diff(offsets) < 0):
            raise DataError(f"offsets must increase from 0 to the number of tokens, {len(words)}", code="not-in-order")
        if len(words) and (words.min() < 0 or words.max() >= self.n_words):
            raise DataError(
                f"word indices must be 0 to {self.n_words - 1}; given {words.min()} to {words.max()}",
                code="out-of-range",
            )
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "offsets", offsets)

    @classmethod
    def of(cls, documents: Iterable[Any], n_words: int) -> Self:
        """A corpus from a list of word indices for each document."""
        each = [np.asarray(document, np.int32) for document in documents]
        words = np.concatenate(each) if each else np.zeros(0, np.int32)
        return cls(words, np.append(0, np.cumsum([len(e) for e in each])).astype(np.int64), n_words)

    @classmethod
    def from_counts(cls, counts: Any) -> Self:
        """A corpus from a matrix of counts (n_documents, n_words), dense or sparse (SciPy)."""
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
        """Number of tokens of each document."""
        return np.diff(self.offsets)

    @cached_property
    def document(self) -> NDArray[np.int64]:
        """The document of each token."""
        return np.repeat(np.arange(self.n_documents), self.lengths)

    @cached_property
    def most_common(self) -> int:
        """Number of tokens of the most frequent word."""
        return int(np.bincount(self.words, minlength=1).max())

    @cached_property
    def by_word(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Token indices sorted by word, and the start of each word in them (n_words + 1,)."""
        sizes = np.bincount(self.words, minlength=self.n_words)
        return np.argsort(self.words, kind="stable"), np.append(0, np.cumsum(sizes))

    def take(self, documents: Any) -> Corpus:
        """A subset of the documents, by index or mask."""
        chosen = np.arange(self.n_documents)[documents]
        return Corpus.of((self.words[self.offsets[d] : self.offsets[d + 1]] for d in chosen), self.n_words)


@dataclass(frozen=True, eq=False)
class TopicPrior:
    """Dirichlet concentrations.

    Parameters
    ----------
    alpha : ndarray (n_topics,)
        Concentrations of the topics in a document; unequal ones allow common and rare topics [4]_.
    beta : float
        Concentration of each word in a topic.
    """

    alpha: NDArray[np.float64]
    beta: float

    def __post_init__(self) -> None:
        alpha = np.atleast_1d(np.asarray(self.alpha, float))
        if not (np.all(np.isfinite(alpha)) and np.all(alpha > 0) and np.isfinite(self.beta) and self.beta > 0):
            raise ModelError("the concentrations alpha and beta must be positive", code="out-of-range")
        object.__setattr__(self, "alpha", alpha)

    @classmethod
    def even(cls, n_topics: int, total: float = 1.0, beta: float = 0.05) -> Self:
        """Equal concentrations of all topics, with sum ``total``."""
        return cls(np.full(n_topics, total / n_topics), beta)

    @property
    def n_topics(self) -> int:
        return len(self.alpha)


def start(corpus: Corpus, n_topics: int, rng: np.random.Generator) -> State:
    """Initial state: tokens in random topics.

    Returns
    -------
    mapping
        The complete state of a run: ``z``, the topic of each token, and ``rng``, the state of the random generator.
    """
    if n_topics < 1:
        raise ModelError(f"n_topics is {n_topics}; it must be at least 1", code="out-of-range")
    z = rng.integers(0, n_topics, corpus.n_tokens).astype(np.int32)
    return {"z": z, "rng": rng.integers(1, np.iinfo(np.uint64).max, 4, np.uint64)}


def run(corpus: Corpus, state: State, prior: TopicPrior, n_sweeps: int) -> State:
    """Gibbs sweeps over all tokens [2]_. Runs cut into pieces are bit-identical to one run."""
    from bayeslab.latents.topics.topic_kernels import sweep, sweep_sparse

    if corpus.most_common >= _MOST:
        raise DataError(f"a word occurs {_MOST:,} times or more; leave it out, as a stop word", code="too-large")
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
    # Zero is for padding, so concentrations must not underflow to it in 32 bits.
    out[: prior.n_topics] = np.maximum(prior.alpha, 1e-30)
    return out


def _counts(corpus: Corpus, z: NDArray[Any], n_topics: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Numbers of tokens by document and topic, and by word and topic."""
    by_document = np.bincount(corpus.document * n_topics + z, minlength=corpus.n_documents * n_topics)
    by_word = np.bincount(corpus.words.astype(np.int64) * n_topics + z, minlength=corpus.n_words * n_topics)
    return (
        by_document.reshape(-1, n_topics).astype(np.int32),
        by_word.reshape(-1, n_topics).astype(np.int32),
    )


def topics(corpus: Corpus, state: State, prior: TopicPrior) -> NDArray[np.float64]:
    """Posterior means of the word probabilities (n_topics, n_words), given the topics of the tokens."""
    _, by_word = _counts(corpus, state["z"], prior.n_topics)
    weights = by_word.T + prior.beta
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def proportions(corpus: Corpus, state: State, prior: TopicPrior) -> NDArray[np.float64]:
    """Posterior means of the topic proportions (n_documents, n_topics), given the topics of the tokens."""
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
    """Sum over rows of the log normalising constant of the Dirichlet distribution."""
    return float(gammaln(a).sum() - gammaln(a.sum(axis=1)).sum())


def learned(corpus: Corpus, state: State, prior: TopicPrior, *, beta: bool = True, steps: int = 5) -> TopicPrior:
    """The prior after some fixed-point steps towards its maximum likelihood for the present counts [4]_ [5]_.

    Parameters
    ----------
    beta : bool
        Whether the concentration of words is learned too.
    steps : int
        Number of fixed-point steps, each of which raises the likelihood of the counts.
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
    """Topic proportions (n_documents, n_topics) of new documents, independently for each.

    Parameters
    ----------
    words_of_topics, sizes, sides
        As for :func:`held_out`.
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
    """log p(document | topics, alpha) of each document, estimated by the left-to-right algorithm [3]_.

    The estimate of p is unbiased for any number of particles, which are resampled as in a particle filter. The expected
    logarithm is too low by about half of its variance.

    Parameters
    ----------
    words_of_topics : ndarray (n_topics, n_words)
        Word probabilities; with ``sizes``, their posterior means.
    sizes : ndarray (n_topics,) or (n_sides, n_topics), optional
        Precisions of the topics: topic k has the distribution Dirichlet(sizes[k] · words_of_topics[k]), which is
        integrated out and updated by the document's words. The precision given other documents is the topic's number of
        tokens plus beta times the number of words. Default: topics are known.
    sides : ndarray of int (n_words,), optional
        The vocabulary of each word, where there are several vocabularies with separate topics.
    particles : int
        Number of particles; more reduce the variance.
    fresh : int
        Number of earlier tokens whose topics each particle redraws at each token; more reduce the variance, too.
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
    """The topics as arguments of kernels: concentrations by word and topic, padded, and the increment of a token."""
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
    """Documents with given lengths drawn from the model, and their topic proportions."""
    thetas = rng.dirichlet(prior.alpha, len(lengths))
    return simulate_given(lengths, words_of_topics, thetas, rng), thetas


def simulate_given(
    lengths: Sequence[int],
    words_of_topics: NDArray[np.float64],
    thetas: NDArray[np.float64],
    rng: np.random.Generator,
) -> Corpus:
    """Documents with given lengths and topic proportions (n_documents, n_topics)."""
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    words, z = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.int64)
    for d, theta in enumerate(thetas):
        z[offsets[d] : offsets[d + 1]] = rng.choice(len(theta), lengths[d], p=theta)
    for k, below in enumerate(np.cumsum(words_of_topics, axis=1)):
        tokens = z == k
        words[tokens] = np.searchsorted(below / below[-1], rng.random(np.count_nonzero(tokens)), side="right")
    return Corpus(words, offsets, words_of_topics.shape[1])


def align(reference: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each topic of ``reference`` (n_topics, n_words) the matched topic of ``other``, one to one.

    The matching minimises the sum of squared Hellinger distances.
    """
    from scipy.optimize import linear_sum_assignment

    likeness = np.sqrt(reference) @ np.sqrt(other).T
    return np.asarray(linear_sum_assignment(-likeness)[1])
