r"""Topics of documents by day, with topic concentrations that follow a random walk from day to day.

The log concentrations of a day's documents are a random walk [1]_:

.. math:: \log \alpha_{tk} \sim \mathrm{Normal}(\log \alpha_{t-1,k}, \tau^2), \quad
   \theta_d \sim \mathrm{Dirichlet}(\alpha_{t(d)}), \quad z_{di} \sim \theta_d, \quad w_{di} \sim \phi_{z_{di}},

with :math:`\alpha_0` the prior's :math:`\alpha`, and topics :math:`\phi_k` that do not change. With :math:`\tau = 0`
all days have the same concentrations: latent Dirichlet allocation. The larger :math:`\tau`, the less a day tells about
the next. The topics of tokens are drawn with proportions and topics integrated out; the concentrations are drawn given
them by slice sampling. The sampler is exact.

References
----------
.. [1] Blei, Lafferty (2006). Dynamic topic models. ICML 23, 113-120. There the random walk is one of means of logistic
   normals; with concentrations instead, the proportions of documents can be integrated out.
.. [2] Neal (2003). Slice sampling. Annals of Statistics 31, 705-767.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import DataError, ModelError
from bayeslab.latents.topics import topics as lda
from bayeslab.latents.topics.topics import Corpus, State, TopicPrior

__all__ = ["DatedCorpus", "SequencePrior", "day_proportions", "run", "simulate", "start"]


@dataclass(frozen=True, eq=False)
class DatedCorpus:
    """Documents in the order of their days.

    Parameters
    ----------
    corpus : Corpus
        Documents in the order of their days.
    day : ndarray of int64, shape (n_documents,)
        Day of each document, from 0 and non-decreasing; days without documents are allowed.

    Raises
    ------
    DataError
        Days are negative, decrease, or are not one for each document.
    """

    corpus: Corpus
    day: NDArray[np.int64]

    def __post_init__(self) -> None:
        day = np.ascontiguousarray(self.day, np.int64)
        if len(day) != self.corpus.n_documents or np.any(np.diff(day) < 0) or np.any(day < 0):
            raise DataError(
                "each document needs a day, 0 or more, and documents must be in the order of their days",
                code="not-in-order",
            )
        object.__setattr__(self, "day", day)

    @property
    def n_days(self) -> int:
        return int(self.day[-1]) + 1 if len(self.day) else 0

    @cached_property
    def days(self) -> NDArray[np.int64]:
        """Index of the first document of each day (n_days + 1,)."""
        return np.searchsorted(self.day, np.arange(self.n_days + 1))


@dataclass(frozen=True, eq=False)
class SequencePrior:
    """Prior of the daily concentrations.

    Parameters
    ----------
    first : TopicPrior
        Concentrations of topics before the first day, and of words in topics.
    tau : float
        Standard deviation of the daily step of a log concentration; 0: latent Dirichlet allocation.
    learn_tau : bool
        Whether tau is learned from the start value ``tau``; then 1 / tau^2 has a gamma prior.
    shape, rate : float
        Parameters of this gamma prior.
    """

    first: TopicPrior
    tau: float = 0.2
    learn_tau: bool = False
    shape: float = 2.0
    rate: float = 0.05

    def __post_init__(self) -> None:
        if not (np.isfinite(self.tau) and self.tau >= 0 and self.shape > 0 and self.rate > 0):
            raise ModelError(
                "tau, a standard deviation, must be 0 or more, and shape and rate positive", code="out-of-range"
            )
        if self.learn_tau and self.tau == 0:
            raise ModelError("a learned tau needs a positive start value; given 0", code="out-of-range")

    @property
    def n_topics(self) -> int:
        return self.first.n_topics


def start(corpus: DatedCorpus, prior: SequencePrior, rng: np.random.Generator) -> State:
    """Initial state: tokens in random topics, and the same concentrations on all days.

    Returns
    -------
    mapping
        The complete state of a run: ``z`` (n_tokens,), the topic of each token; ``path`` (n_days, n_topics), the log
        concentrations; ``tau``; and ``rng``, ``seed`` and ``sweep``, which determine the random numbers.
    """
    return {
        **lda.start(corpus.corpus, prior.n_topics, rng),
        "path": np.tile(np.log(prior.first.alpha), (corpus.n_days, 1)),
        "tau": np.array(float(prior.tau)),
        "seed": rng.integers(0, 1 << 63, 2),
        "sweep": np.array(0),
    }


def run(corpus: DatedCorpus, state: State, prior: SequencePrior, n_sweeps: int) -> State:
    """Sweeps over all tokens and the daily concentrations. Runs cut into pieces are bit-identical to one run."""
    from bayeslab.latents.topics.topic_kernels import BLOCK, sweep
    from bayeslab.latents.topics.topic_sequence_kernels import draw_path

    now = {name: np.array(value) for name, value in state.items()}
    inner, k = corpus.corpus, prior.n_topics
    mean, beta = np.log(prior.first.alpha), np.float32(prior.first.beta)
    alphas = np.zeros((corpus.n_days, -(-k // BLOCK) * BLOCK), np.float32)
    for _ in range(n_sweeps if corpus.n_days else 0):
        alphas[:, :k] = np.exp(now["path"])
        by_word = np.zeros((inner.n_words, alphas.shape[1]), np.float32)
        width = np.float32(prior.first.beta * inner.n_words)
        sweep(inner.words, inner.offsets, now["z"], by_word, alphas, corpus.day, beta, width, now["rng"], 1)
        # Each sweep has its own generator, so that only arrays need to be stored.
        rng = np.random.default_rng([*now["seed"].tolist(), int(now["sweep"])])
        if prior.tau > 0:
            counts = np.bincount(inner.document * k + now["z"], minlength=inner.n_documents * k).reshape(-1, k)
            tau = float(now["tau"]) if prior.learn_tau else prior.tau
            draw_path(now["path"], mean, tau, counts, inner.lengths, corpus.days, rng)
        if prior.learn_tau:
            steps = np.diff(now["path"], axis=0, prepend=mean[None])
            precision = rng.gamma(prior.shape + steps.size / 2) / (prior.rate + 0.5 * (steps**2).sum())
            now["tau"] = np.array(precision**-0.5)
        now["sweep"] = now["sweep"] + 1
    return now


def day_proportions(state: State) -> NDArray[np.float64]:
    """Expected topic proportions of each day (n_days, n_topics), given its concentrations."""
    alphas = np.exp(state["path"])
    return np.asarray(alphas / alphas.sum(axis=1, keepdims=True))


def simulate(
    lengths: Sequence[int],
    day: NDArray[np.integer],
    words_of_topics: NDArray[np.float64],
    prior: SequencePrior,
    rng: np.random.Generator,
) -> tuple[DatedCorpus, NDArray[np.float64]]:
    """Documents with given lengths and days drawn from the model, and the daily log concentrations."""
    steps = prior.tau * rng.standard_normal((int(np.max(day)) + 1, prior.n_topics))
    path = np.log(prior.first.alpha) + np.cumsum(steps, axis=0)
    thetas = np.stack([rng.dirichlet(np.exp(path[t])) for t in day])
    return DatedCorpus(lda.simulate_given(lengths, words_of_topics, thetas, rng), np.asarray(day)), path
