r"""Topics by variational Bayes, from batches of documents or all documents at once.

The mean-field approximation has independent proportions, topics and topics of tokens, with
:math:`q(\phi_k) = \mathrm{Dirichlet}(\lambda_k)` and :math:`q(\theta_d) = \mathrm{Dirichlet}(\gamma_d)`. A batch moves
:math:`\lambda` by a share :math:`\rho_t = (\tau + t)^{-\kappa}` towards its value for a corpus of documents like the
batch [1]_. One batch with all documents and :math:`\rho = 1` is coordinate ascent, whose bound never falls.

References
----------
.. [1] Hoffman, Blei, Bach (2010). Online learning for latent Dirichlet allocation. NIPS 23.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi

from bayeslab.errors import OptionError
from bayeslab.latents.topics import topics as gibbs
from bayeslab.latents.topics.topics import Corpus, TopicPrior

__all__ = ["VariationalTopics", "fit_online", "fit_variational", "place"]

_MOST, _TOLERANCE = 100, 1e-3
# Start of the search: number of Gibbs sweeps, and maximum number of documents in them.
_SWEEPS, _SOME = 50, 2_000


@dataclass(frozen=True, eq=False)
class VariationalTopics:
    """A variational posterior.

    Attributes
    ----------
    concentration : ndarray (n_topics, n_words)
        Concentrations of the Dirichlet distribution of each topic.
    documents : ndarray (n_documents, n_topics)
        Concentrations of the Dirichlet distribution of each document's proportions.
    bound : ndarray (n_iterations,)
        Lower bound of log p(words | alpha, beta) after each pass; with batches, its estimate from the batch.
    """

    concentration: NDArray[np.float64]
    documents: NDArray[np.float64]
    bound: NDArray[np.float64]

    @property
    def topics(self) -> NDArray[np.float64]:
        """Means of the word probabilities (n_topics, n_words)."""
        return np.asarray(self.concentration / self.concentration.sum(axis=1, keepdims=True))

    @property
    def proportions(self) -> NDArray[np.float64]:
        """Means of the topic proportions (n_documents, n_topics)."""
        return np.asarray(self.documents / self.documents.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Distinct words of each document and their counts."""

    words: NDArray[np.int32]
    counts: NDArray[np.float32]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, corpus: Corpus) -> _Pairs:
        keys, counts = np.unique(corpus.document * corpus.n_words + corpus.words, return_counts=True)
        sizes = np.bincount(keys // corpus.n_words, minlength=corpus.n_documents)
        words = (keys % corpus.n_words).astype(np.int32)
        return cls(words, counts.astype(np.float32), np.append(0, np.cumsum(sizes)).astype(np.int64))

    def part(self, begin: int, end: int) -> _Pairs:
        a, b = self.offsets[begin], self.offsets[end]
        return _Pairs(self.words[a:b], self.counts[a:b], self.offsets[begin : end + 1] - a)


def _expected(
    pairs: _Pairs, concentration: NDArray[np.float64], alpha: NDArray[np.float64], gamma: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Expected counts (n_topics, n_words), and the documents' terms of the bound; ``gamma`` is changed in place."""
    from bayeslab.latents.topics.variational_topic_kernels import expected_log, fit_documents

    shape = concentration.shape[::-1]
    topics, statistics, bound = np.empty(shape, np.float32), np.zeros(shape, np.float32), np.zeros(len(gamma))
    expected_log(concentration, topics)
    fit_documents(
        pairs.words, pairs.counts, pairs.offsets, topics, alpha, gamma, statistics, _MOST, _TOLERANCE, bound
    )  # fmt: skip
    return np.asarray((statistics * topics).T, dtype=np.float64), float(bound.sum())


def _of_topics(concentration: NDArray[np.float64], beta: float) -> float:
    """The topics' term of the bound: minus the Kullback-Leibler divergence of q from the prior."""
    k, v = concentration.shape
    whole = concentration.sum(axis=1)
    expected = psi(concentration) - psi(whole)[:, None]
    value = ((beta - concentration) * expected).sum() + gammaln(concentration).sum() - gammaln(whole).sum()
    return float(value + k * (gammaln(v * beta) - v * gammaln(beta)))


def _start(corpus: Corpus, prior: TopicPrior, rng: np.random.Generator) -> NDArray[np.float64]:
    """Start values from a few Gibbs sweeps over some documents, because random topics often lead to a poor optimum."""
    some = corpus
    if corpus.n_documents > _SOME:
        some = corpus.take(np.sort(rng.choice(corpus.n_documents, _SOME, replace=False)))
    state = gibbs.run(some, gibbs.start(some, prior.n_topics, rng), prior, _SWEEPS)
    share = gibbs.topics(some, state, prior)
    sizes = np.bincount(state["z"], minlength=prior.n_topics) * (corpus.n_tokens / max(some.n_tokens, 1))
    return np.asarray(share * (sizes + prior.beta * corpus.n_words)[:, None])


def fit_variational(
    corpus: Corpus, prior: TopicPrior, rng: np.random.Generator, *, iterations: int = 200, tolerance: float = 1e-5
) -> VariationalTopics:
    """Coordinate ascent over all documents, until the relative gain of the bound is below ``tolerance``."""
    pairs = _Pairs.of(corpus)
    concentration = _start(corpus, prior, rng)
    gamma = np.tile(prior.alpha + 1.0, (corpus.n_documents, 1))
    bounds: list[float] = []
    for _ in range(iterations):
        counts, bound = _expected(pairs, concentration, prior.alpha, gamma)
        bounds.append(bound + _of_topics(concentration, prior.beta))
        concentration = prior.beta + counts
        if len(bounds) > 1 and bounds[-1] - bounds[-2] < tolerance * abs(bounds[-1]):
            break
    return VariationalTopics(concentration, gamma, np.array(bounds))


def fit_online(
    corpus: Corpus,
    prior: TopicPrior,
    rng: np.random.Generator,
    *,
    passes: int = 1,
    batch: int = 256,
    delay: float = 10.0,
    forgetting: float = 0.7,
) -> VariationalTopics:
    """Stochastic variational Bayes, batch by batch [1]_.

    Parameters
    ----------
    passes : int
        Number of passes over the documents.
    batch : int
        Number of documents in a batch.
    delay, forgetting : float
        Constants tau and kappa of the step sizes.

    Raises
    ------
    OptionError
        kappa is outside (0.5, 1], so the steps would not converge.
    """
    if not 0.5 < forgetting <= 1:
        raise OptionError(f"forgetting must be above 0.5 and at most 1; given {forgetting}", code="out-of-range")
    if batch < 1:
        raise OptionError(f"batch must be at least 1; given {batch}", code="out-of-range")
    pairs, n = _Pairs.of(corpus), corpus.n_documents
    concentration = _start(corpus, prior, rng)
    gamma = np.tile(prior.alpha + 1.0, (n, 1))
    bounds: list[float] = []
    for _ in range(passes):
        for begin in range(0, n, batch):
            end = min(begin + batch, n)
            batch_gamma = gamma[begin:end]
            counts, value = _expected(pairs.part(begin, end), concentration, prior.alpha, batch_gamma)
            bounds.append(value * n / (end - begin) + _of_topics(concentration, prior.beta))
            step = (delay + len(bounds)) ** -forgetting
            target = prior.beta + counts * (n / (end - begin))
            concentration = (1 - step) * concentration + step * target
    return VariationalTopics(concentration, place(corpus, concentration, prior), np.array(bounds))


def place(corpus: Corpus, concentration: NDArray[np.float64], prior: TopicPrior) -> NDArray[np.float64]:
    """Concentrations (n_documents, n_topics) of the proportions of fitted or new documents, given the topics."""
    gamma = np.tile(prior.alpha + 1.0, (corpus.n_documents, 1))
    _expected(_Pairs.of(corpus), concentration, prior.alpha, gamma)
    return gamma
