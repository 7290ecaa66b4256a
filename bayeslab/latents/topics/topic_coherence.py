r"""Coherence of a topic's most probable words in documents, with intervals over draws of the topics.

The coherence uses all pairs of the M most probable words of a topic. With D documents, of which :math:`D_a` contain
word a and :math:`D_{ab}` both words, it is the mean over pairs of

.. math:: \text{UMass} = \log \frac{D_{ab} + 1}{D_b} \quad (b \text{ the more probable}), \qquad
   \text{NPMI} = \log \frac{D_{ab} D}{D_a D_b} \Big/ \log \frac{D}{D_{ab}}

[1]_ [2]_. NPMI ranges from -1 (never together) through 0 (independent) to 1. Both predict how readers judge topics, not
the probability of documents: they are not suited for choosing the number of topics.

References
----------
.. [1] Mimno, Wallach, Talley, Leenders, McCallum (2011). Optimizing semantic coherence in topic models. EMNLP, 262-272;
   the sum over pairs there, the mean here, so that it does not grow with M.
.. [2] Bouma (2009). Normalized (pointwise) mutual information in collocation extraction. GSCL, 31-40; of topics: Lau,
   Newman, Baldwin (2014). Machine reading tea leaves. EACL, 530-539.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import OptionError
from bayeslab.latents.topics.topics import Corpus

__all__ = ["CoherenceInterval", "coherence", "coherence_interval"]

type Measure = Literal["npmi", "umass"]


def coherence(
    reference: Corpus, words_of_topics: NDArray[np.floating], *, measure: Measure = "npmi", top: int = 10
) -> NDArray[np.float64]:
    """Coherence of topics.

    Parameters
    ----------
    reference : Corpus
        Documents in which words are counted: the fitted ones, or, better, others with the same vocabulary. Divide long
        documents into paragraphs, because in a book nearly all words co-occur.
    words_of_topics : ndarray (..., n_topics, n_words)
        Word probabilities; leading dimensions, such as chains and draws, are kept.
    measure : {"npmi", "umass"}
    top : int
        Number of words of each topic. Words that are in no document are left out.

    Returns
    -------
    ndarray (..., n_topics)
        NaN if fewer than two of the words are in the documents.

    Raises
    ------
    OptionError
        An unknown measure, fewer than two words, or topics of another vocabulary.
    """
    if measure not in ("npmi", "umass"):
        raise OptionError(f"measure is npmi or umass; given {measure}", code="unknown-word")
    n_words = words_of_topics.shape[-1]
    if n_words != reference.n_words or top < 2:
        raise OptionError(
            f"topics of {n_words} words for a vocabulary of {reference.n_words}, {top} of each: pairs need two words or"
            " more of the same vocabulary",
            code="too-few",
        )
    first = np.argsort(-words_of_topics, axis=-1, kind="stable")[..., : min(top, n_words)]
    used, place = np.unique(first, return_inverse=True)
    together = _together(reference, used)
    each = [_of_topic(together, words, reference.n_documents, measure) for words in place.reshape(-1, first.shape[-1])]
    return np.array(each).reshape(first.shape[:-1])


def _together(reference: Corpus, used: NDArray[np.int64]) -> NDArray[np.float64]:
    """Number of documents that contain both words of each pair; on the diagonal, of documents that contain the word."""
    from scipy.sparse import csr_array

    place = np.full(reference.n_words, -1)
    place[used] = np.arange(len(used))
    in_use = place[reference.words] >= 0
    keys = np.unique(reference.document[in_use] * len(used) + place[reference.words[in_use]])
    there = csr_array(
        (np.ones(len(keys)), (keys // len(used), keys % len(used))), shape=(reference.n_documents, len(used))
    )
    return np.asarray((there.T @ there).toarray())


def _of_topic(together: NDArray[np.float64], words: NDArray[np.int64], n_documents: int, measure: Measure) -> float:
    words = words[together[words, words] > 0]
    if len(words) < 2:
        return float("nan")
    later, earlier = np.tril_indices(len(words), -1)
    a, b = words[later], words[earlier]
    both, of_a, of_b = together[a, b], together[a, a], together[b, b]
    if measure == "umass":
        return float(np.log((both + 1) / of_b).mean())
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(both * n_documents / (of_a * of_b)) / np.log(n_documents / both)
    # Words that never co-occur; and words in all documents, which carry no information.
    value = np.where(both == 0, -1.0, np.where(both == n_documents, 0.0, value))
    return float(value.mean())


@dataclass(frozen=True, eq=False)
class CoherenceInterval:
    """Means over draws and equal-tailed intervals, each of shape (n_topics,)."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def coherence_interval(
    reference: Corpus,
    draws: NDArray[np.floating],
    *,
    measure: Measure = "npmi",
    top: int = 10,
    probability: float = 0.9,
) -> CoherenceInterval:
    """Coherence over draws of the topics.

    Parameters
    ----------
    draws : ndarray (..., n_topics, n_words)
        Draws of one or more chains, with matched topics (:func:`bayeslab.latents.topics.topics.align`).
    probability : float
        Probability of the interval.
    """
    if not 0 < probability < 1:
        raise OptionError(
            f"the probability of an interval lies between 0 and 1; given {probability}", code="out-of-range"
        )
    if not draws.shape[-2]:
        return CoherenceInterval(np.zeros(0), np.zeros(0), np.zeros(0))
    each = coherence(reference, draws, measure=measure, top=top).reshape(-1, draws.shape[-2])
    low, high = np.quantile(each, [(1 - probability) / 2, (1 + probability) / 2], axis=0)
    return CoherenceInterval(each.mean(axis=0), low, high)
