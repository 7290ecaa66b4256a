r"""Topic models with an unbounded number of topics: hierarchical Dirichlet processes.

Topics have weights in the corpus; documents share the topics [1]_:

.. math:: G_0 \sim \mathrm{DP}(\gamma, \mathrm{Dirichlet}(\beta)), \quad G_d \sim \mathrm{DP}(\alpha, G_0).

With :math:`w_k` the weight of topic k and :math:`w_u` that of all topics without tokens, the topics of tokens are drawn
from

.. math:: p(z_{di} = k \mid \text{rest}) \propto (n_{dk} + \alpha w_k) \frac{n_{kw} + \beta}{n_k + V \beta}, \qquad
   p(z_{di} = \text{new} \mid \text{rest}) \propto \alpha w_u / V,

and the weights, given the number :math:`m_k` of tables of each topic, from Dirichlet(:math:`m_1, \ldots, m_K, \gamma`)
(direct assignment, [1]_ section 5.3). The concentrations are drawn by auxiliary variables [1]_ [2]_. Updates of single
tokens hardly ever merge two equal topics or split a mixed one; therefore each sweep is followed by split-merge
proposals for whole topics [3]_.

References
----------
.. [1] Teh, Jordan, Beal, Blei (2006). Hierarchical Dirichlet processes. JASA 101, 1566-1581.
.. [2] Escobar, West (1995). Bayesian density estimation and inference using mixtures. JASA 90, 577-588.
.. [3] Dahl, Newcomb (2022). Sequentially allocated merge-split samplers for conjugate Bayesian nonparametric models.
   JSCS 92, 106-125; Wang, Blei (2012). A split-merge MCMC algorithm for the hierarchical Dirichlet process.
   arXiv 1201.1657.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from bayeslab.errors import ModelError
from bayeslab.latents.topics.topic_concentrations import GammaPrior, draw_beta
from bayeslab.latents.topics.topics import Corpus, State, TopicPrior

__all__ = ["ProcessPrior", "given", "log_words", "proportions", "run", "simulate", "start", "topics"]

# Split-merge proposals after each sweep, and scans over the tokens in each proposal to find a good split.
_PROPOSALS, _SCANS = 3, 2
# Number of topics without tokens that new documents may have.
_STICKS = 10


@dataclass(frozen=True, eq=False)
class ProcessPrior:
    """Concentrations: numbers, or their gamma priors.

    Parameters
    ----------
    alpha : float or GammaPrior
        Concentration of documents: the larger, the more topics a document has.
    gamma : float or GammaPrior
        Concentration of the corpus: the larger, the more topics there are.
    beta : float
        Concentration of each word in a topic.
    learn_beta : bool
        Whether beta is learned from the start value ``beta``, with the prior
        :data:`bayeslab.latents.topics.topic_concentrations.BETA_PRIOR`.
    """

    alpha: float | GammaPrior = field(default_factory=lambda: GammaPrior(1.0, 1.0))
    gamma: float | GammaPrior = field(default_factory=lambda: GammaPrior(1.0, 1.0))
    beta: float = 0.05
    learn_beta: bool = False

    def __post_init__(self) -> None:
        each = (*(v if isinstance(v, float | int) else v.mean for v in (self.alpha, self.gamma)), self.beta)
        if not all(np.isfinite(v) and v > 0 for v in each):
            raise ModelError("the concentrations alpha, gamma and beta must be positive", code="out-of-range")


def start(corpus: Corpus, prior: ProcessPrior, rng: np.random.Generator, *, n_topics: int = 1) -> State:
    """Initial state: tokens in ``n_topics`` random topics, numbered in the order of their first tokens.

    Returns
    -------
    mapping
        The complete state of a run: ``z`` (n_tokens,), the topic of each token; ``weights`` (n_topics + 1,), the
        weights of the topics in the corpus, the last for all topics without tokens; ``alpha``, ``gamma``, ``beta``; and
        ``rng``, ``seed`` and ``sweep``, which determine the random numbers. Start with few topics: the sampler splits a
        large mixed topic sooner than it merges two large equal ones.
    """
    if n_topics < 1:
        raise ModelError(f"n_topics is {n_topics}; it must be at least 1", code="out-of-range")
    z, n = _renamed(rng.integers(0, n_topics, corpus.n_tokens), n_topics)
    return {
        "z": z,
        "weights": np.full(n + 1, 1 / (n + 1)),
        "alpha": np.array(_mean(prior.alpha)),
        "gamma": np.array(_mean(prior.gamma)),
        "beta": np.array(float(prior.beta)),
        "rng": rng.integers(1, np.iinfo(np.uint64).max, 4, np.uint64),
        "seed": rng.integers(0, 1 << 63, 2),
        "sweep": np.array(0),
    }


def _mean(prior: float | GammaPrior) -> float:
    return prior.mean if isinstance(prior, GammaPrior) else float(prior)


def _renamed(z: NDArray[np.integer], n_topics: int) -> tuple[NDArray[np.int32], int]:
    """Topics renumbered without gaps, in the same order."""
    used = np.bincount(z, minlength=n_topics) > 0
    return (np.cumsum(used) - 1)[z].astype(np.int32), int(used.sum())


def run(corpus: Corpus, state: State, prior: ProcessPrior, n_sweeps: int) -> State:
    """Sweeps over all tokens, weights and concentrations. Runs cut into pieces are bit-identical to one run."""
    from bayeslab.latents.topics.topic_kernels import sweep_process

    now = {name: np.array(value) for name, value in state.items()}
    for _ in range(n_sweeps if corpus.n_tokens else 0):
        # Each sweep has its own generator, so that only arrays need to be stored.
        rng = np.random.default_rng([*now["seed"].tolist(), int(now["sweep"])])
        alpha, gamma, weights = float(now["alpha"]), float(now["gamma"]), now["weights"]
        total, tables = sweep_process(
            corpus.words, corpus.offsets, now["z"], corpus.n_words, weights[:-1], float(weights[-1]), alpha, gamma,
            np.float32(now["beta"]), now["rng"],
        )  # fmt: skip
        now["z"], n = _renamed(now["z"], len(total))
        m = int(tables.sum())
        # gamma is drawn first, with the weights integrated out.
        if isinstance(prior.gamma, GammaPrior):
            gamma = _draw_gamma(gamma, n, m, prior.gamma, rng)
        now["gamma"] = np.array(gamma)
        # A weight that underflows in 32 bits would get no table.
        now["weights"] = rng.dirichlet(np.append(np.maximum(tables[total > 0], 1), gamma))
        if isinstance(prior.alpha, GammaPrior):
            now["alpha"] = np.array(_draw_alpha(alpha, corpus.lengths, m, prior.alpha, rng))
        for _ in range(_PROPOSALS):
            now["z"], now["weights"] = _split_or_merged(corpus, now)
        if prior.learn_beta:
            now["beta"] = np.array(draw_beta(float(now["beta"]), _by_word(corpus, now), rng))
        now["sweep"] = now["sweep"] + 1
    return now


def _split_or_merged(corpus: Corpus, now: dict[str, NDArray[Any]]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Topics of tokens and weights after one split-merge proposal."""
    from bayeslab.latents.topics.topic_kernels import split_merge

    z, weights = now["z"], now["weights"]
    first, second, share = split_merge(
        corpus.words, corpus.document, corpus.offsets, *corpus.by_word, z, weights[:-1], float(now["alpha"]),
        float(now["gamma"]), float(now["beta"]), _SCANS, now["rng"],
    )  # fmt: skip
    if share < 0:
        return z, weights
    each = weights.copy()
    if share > 0:
        each[first] *= share
        return z, np.insert(each, -1, weights[first] - each[first])
    each[first] += each[second]
    return z - (z > second).astype(np.int32), np.delete(each, second)


def _draw_gamma(gamma: float, n_topics: int, n_tables: int, prior: GammaPrior, rng: np.random.Generator) -> float:
    """Draw gamma, given ``n_tables`` draws with ``n_topics`` distinct values [2]_ (eqs 13, 14)."""
    rate = prior.rate - np.log(rng.beta(gamma + 1, n_tables))
    odds = (prior.shape + n_topics - 1) / (n_tables * rate)
    shape = prior.shape + n_topics - (rng.random() * (1 + odds) >= odds)
    return float(rng.gamma(shape) / rate)


def _draw_alpha(
    alpha: float, lengths: NDArray[np.int64], n_tables: int, prior: GammaPrior, rng: np.random.Generator
) -> float:
    """Draw alpha, given the lengths of the documents and their total number of tables [1]_ (appendix A)."""
    some = lengths[lengths > 0]
    rate = prior.rate - np.log(rng.beta(alpha + 1, some)).sum()
    shape = prior.shape + n_tables - np.count_nonzero(rng.random(len(some)) * (some + alpha) < some)
    return float(rng.gamma(shape) / rate)


def _by_word(corpus: Corpus, state: State) -> NDArray[np.int64]:
    n = len(state["weights"]) - 1
    counts = np.bincount(corpus.words.astype(np.int64) * n + state["z"], minlength=corpus.n_words * n)
    return counts.reshape(corpus.n_words, n)


def topics(corpus: Corpus, state: State) -> NDArray[np.float64]:
    """Posterior means of the word probabilities (n_topics, n_words), given the topics of the tokens."""
    weights = _by_word(corpus, state).T + float(state["beta"])
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def proportions(corpus: Corpus, state: State) -> NDArray[np.float64]:
    """Posterior means of the proportions (n_documents, n_topics + 1), given the topics of the tokens.

    The last column is the proportion of topics without tokens."""
    n = len(state["weights"])
    counts = np.bincount(corpus.document * n + state["z"], minlength=corpus.n_documents * n).reshape(-1, n)
    shares = counts + float(state["alpha"]) * state["weights"]
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def log_words(corpus: Corpus, state: State) -> float:
    """log p(words | topics of the tokens, beta)."""
    counts, beta = _by_word(corpus, state), float(state["beta"])
    width, some = beta * corpus.n_words, counts[counts > 0]
    words = gammaln(some + beta).sum() - len(some) * gammaln(beta)
    return float(words - (gammaln(counts.sum(axis=0) + width) - gammaln(width)).sum())


def given(
    corpus: Corpus, state: State, rng: np.random.Generator
) -> tuple[NDArray[np.float64], TopicPrior, NDArray[np.float64]]:
    """Arguments ``words_of_topics``, ``prior`` and ``sizes`` of :func:`bayeslab.latents.topics.topics.held_out`.

    The topics with tokens come first, then some topics without tokens, whose weights are drawn by stick-breaking; the
    last topic has the remaining weight.
    """
    phi, beta, gamma = topics(corpus, state), float(state["beta"]), float(state["gamma"])
    parts = np.append(rng.beta(1, gamma, _STICKS - 1), 1.0)
    left = state["weights"][-1] * np.append(1.0, np.cumprod(1 - parts[:-1]))
    weights = np.append(state["weights"][:-1], left * parts)
    every = np.vstack([phi, np.full((_STICKS, corpus.n_words), 1 / corpus.n_words)])
    tokens = np.bincount(state["z"], minlength=len(weights))
    prior = TopicPrior(np.maximum(float(state["alpha"]) * weights, 1e-30), beta)
    return every, prior, np.asarray(tokens + beta * corpus.n_words)


def simulate(
    lengths: NDArray[np.integer] | list[int], n_words: int, prior: ProcessPrior, rng: np.random.Generator
) -> tuple[Corpus, NDArray[np.int32]]:
    """Documents and their tokens' topics, drawn by the Chinese restaurant franchise [1]_ (section 4.1)."""
    alpha, gamma = (
        float(rng.gamma(v.shape) / v.rate) if isinstance(v, GammaPrior) else float(v)
        for v in (prior.alpha, prior.gamma)
    )
    dishes: list[int] = []
    phi: list[NDArray[np.float64]] = []
    words, z = [], []
    for n in lengths:
        guests: list[int] = []
        served: list[int] = []
        for i in range(int(n)):
            table = int(rng.choice(len(guests) + 1, p=np.append(guests, alpha) / (i + alpha)))
            if table == len(guests):
                dish = int(rng.choice(len(dishes) + 1, p=np.append(dishes, gamma) / (sum(dishes) + gamma)))
                if dish == len(dishes):
                    dishes.append(0)
                    phi.append(rng.dirichlet(np.full(n_words, prior.beta)))
                dishes[dish] += 1
                guests.append(0)
                served.append(dish)
            guests[table] += 1
            z.append(served[table])
            words.append(int(rng.choice(n_words, p=phi[served[table]])))
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    return Corpus(np.array(words, np.int32), offsets, n_words), np.array(z, np.int32)
