r"""Topic models with an unbounded number of topics: hierarchical Dirichlet processes.

Topics have weights in the whole corpus, and documents share them [1]_:

.. math:: G_0 \sim \mathrm{DP}(\gamma, \mathrm{Dirichlet}(\beta)), \quad G_d \sim \mathrm{DP}(\alpha, G_0).

With :math:`w_k` the weight of topic k and :math:`w_u` that of all topics without tokens, tokens are drawn by

.. math:: p(z_{di} = k \mid \text{rest}) \propto (n_{dk} + \alpha w_k) \frac{n_{kw} + \beta}{n_k + V \beta}, \qquad
   p(z_{di} = \text{new} \mid \text{rest}) \propto \alpha w_u / V,

and the weights, given how many tables :math:`m_k` serve topic k, from Dirichlet(:math:`m_1, \ldots, m_K, \gamma`)
(the direct assignment of [1]_, section 5.3). The concentrations are drawn too, by auxiliary variables [1]_ [2]_.
Updates of single tokens hardly merge two equal topics or split a mixed one: after every sweep some proposals split or
merge whole topics [3]_.

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

# After each sweep; each with so many scans of its tokens to find a good split.
_PROPOSALS, _SCANS = 3, 2
# Topics without tokens that new documents may have.
_STICKS = 10


@dataclass(frozen=True, eq=False)
class ProcessPrior:
    """Concentrations: numbers, or the gamma distributions that they are drawn from.

    Parameters
    ----------
    alpha : float or GammaPrior
        Of documents: the larger, the more topics a document has.
    gamma : float or GammaPrior
        Of the corpus: the larger, the more topics there are.
    beta : float
        Of each word in a topic.
    learn_beta : bool
        Whether ``beta`` is only where it starts; its prior is that of
        :data:`bayeslab.latents.topics.topic_concentrations.BETA_PRIOR`.
    """

    alpha: float | GammaPrior = field(default_factory=lambda: GammaPrior(1.0, 1.0))
    gamma: float | GammaPrior = field(default_factory=lambda: GammaPrior(1.0, 1.0))
    beta: float = 0.05
    learn_beta: bool = False

    def __post_init__(self) -> None:
        each = (*(v if isinstance(v, float | int) else v.mean for v in (self.alpha, self.gamma)), self.beta)
        if not all(np.isfinite(v) and v > 0 for v in each):
            raise ModelError("the concentrations alpha, gamma and beta of topics are positive", code="out-of-range")


def start(corpus: Corpus, prior: ProcessPrior, rng: np.random.Generator, *, n_topics: int = 1) -> State:
    """Tokens in so many random topics, in the order of their first tokens.

    Returns
    -------
    mapping
        ``z`` (n_tokens,), the topic of each token; ``weights`` (n_topics + 1,), those of the topics in the corpus,
        the last of all topics without tokens; ``alpha``, ``gamma``, ``beta``; and ``rng``, ``seed`` and ``sweep``, from
        which the random numbers follow: all that a run goes on from. Few topics to begin with are best: a large topic
        that is two is split sooner than two large ones that are one are merged.
    """
    if n_topics < 1:
        raise ModelError(f"{n_topics} topics to start with; at least 1 is needed", code="out-of-range")
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
    """Topics without gaps, their order kept."""
    used = np.bincount(z, minlength=n_topics) > 0
    return (np.cumsum(used) - 1)[z].astype(np.int32), int(used.sum())


def run(corpus: Corpus, state: State, prior: ProcessPrior, n_sweeps: int) -> State:
    """Sweeps over all tokens, each followed by weights and concentrations; a run in pieces gives what one run gives."""
    from bayeslab.latents.topics.topic_kernels import sweep_process

    now = {name: np.array(value) for name, value in state.items()}
    for _ in range(n_sweeps if corpus.n_tokens else 0):
        # A generator of its own for each sweep, so that nothing but arrays need be kept.
        rng = np.random.default_rng([*now["seed"].tolist(), int(now["sweep"])])
        alpha, gamma, weights = float(now["alpha"]), float(now["gamma"]), now["weights"]
        total, tables = sweep_process(
            corpus.words, corpus.offsets, now["z"], corpus.n_words, weights[:-1], float(weights[-1]), alpha, gamma,
            np.float32(now["beta"]), now["rng"],
        )  # fmt: skip
        now["z"], n = _renamed(now["z"], len(total))
        m = int(tables.sum())
        # Weights are integrated out where gamma is drawn, so it comes first.
        if isinstance(prior.gamma, GammaPrior):
            gamma = _draw_gamma(gamma, n, m, prior.gamma, rng)
        now["gamma"] = np.array(gamma)
        # A weight that is 0 in 32 bits would have no table.
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
    """Topics of tokens, and weights, after a proposal."""
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
    """Given that ``n_tables`` draws had ``n_topics`` different values [2]_ (eqs 13, 14)."""
    rate = prior.rate - np.log(rng.beta(gamma + 1, n_tables))
    odds = (prior.shape + n_topics - 1) / (n_tables * rate)
    shape = prior.shape + n_topics - (rng.random() * (1 + odds) >= odds)
    return float(rng.gamma(shape) / rate)


def _draw_alpha(
    alpha: float, lengths: NDArray[np.int64], n_tables: int, prior: GammaPrior, rng: np.random.Generator
) -> float:
    """Given that documents of these lengths have so many tables together [1]_ (appendix A)."""
    some = lengths[lengths > 0]
    rate = prior.rate - np.log(rng.beta(alpha + 1, some)).sum()
    shape = prior.shape + n_tables - np.count_nonzero(rng.random(len(some)) * (some + alpha) < some)
    return float(rng.gamma(shape) / rate)


def _by_word(corpus: Corpus, state: State) -> NDArray[np.int64]:
    n = len(state["weights"]) - 1
    counts = np.bincount(corpus.words.astype(np.int64) * n + state["z"], minlength=corpus.n_words * n)
    return counts.reshape(corpus.n_words, n)


def topics(corpus: Corpus, state: State) -> NDArray[np.float64]:
    """Probabilities of words (n_topics, n_words): their means given the topics of the tokens."""
    weights = _by_word(corpus, state).T + float(state["beta"])
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def proportions(corpus: Corpus, state: State) -> NDArray[np.float64]:
    """Proportions (n_documents, n_topics + 1), the last of topics without tokens: their means given the tokens'."""
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
    """What a draw says of new documents: means of topics, concentrations, and how well topics are known.

    These are ``words_of_topics``, ``prior`` and ``sizes`` of :func:`bayeslab.latents.topics.topics.held_out`. Behind
    the topics with tokens come the first of those without, their weights drawn by breaking sticks; the last has all
    that is left.
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
    """Documents drawn from the model, and topics of their tokens, by the restaurants' seating [1]_ (section 4.1)."""
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
