"""Mixtures of finite mixtures: the number of components has a prior.

The number of components K has a prior p(K), the weights given K are Dirichlet(γ, …, γ), and components are drawn from a
conjugate prior. With weights and components integrated out a partition of the rows into t clusters has probability [1]_

    V_n(t) Π_c γ^(n_c) m(rows of c),    V_n(t) = Σ_k k (k - 1) … (k - t + 1) / (γk)^(n) p(k),

with x^(n) the rising factorial and m the evidence of a cluster: a prior of partitions for the chains of
:mod:`bayeslab.latents.partitions.dirichlet_process`. Given the partition the number of components does not depend on
the data, p(K | t) ∝ k (k - 1) … (k - t + 1) / (γk)^(n) p(k), and averaging that over draws gives the posterior of K
without sampling it. There may be more components than clusters, since components may be empty.

References
----------
.. [1] Miller, Harrison (2018). Mixture models with a prior on the number of components. JASA 113, 340-356.
.. [2] Nobile, Fearnside (2007). Bayesian finite mixtures with an unknown number of components: the allocation sampler.
   Statistics and Computing 17, 147-162.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from bayeslab.errors import OptionError
from bayeslab.latents.partitions.dirichlet_process import PartitionPrior

__all__ = ["NumberPrior", "draw_number", "number_posterior"]


@dataclass(frozen=True, eq=False)
class NumberPrior(PartitionPrior):
    """Prior of the number of components, and of the partition of the rows into clusters.

    Attributes
    ----------
    log_probability : ndarray (highest,)
        Log probabilities of 1, 2, … components.
    gamma : float
        Concentration of the Dirichlet prior of the weights.

    Raises
    ------
    OptionError
        ``gamma`` is not positive.
    """

    log_probability: np.ndarray
    gamma: float = 1.0

    def __post_init__(self) -> None:
        if not self.gamma > 0:
            raise OptionError(f"γ is positive, not {self.gamma:g}", code="out-of-range")

    @property
    def discount(self) -> float:
        """Minus γ: a cluster of n rows has the weight n + γ."""
        return -self.gamma

    def log_opening(self, alpha: float, n: int) -> np.ndarray:
        """log γ V(t + 1) / V(t), with the first weight chosen so that the sum of t of them is log γ^t V(t)."""
        with np.errstate(invalid="ignore"):
            log_v = logsumexp(self.log_joint(n), axis=1)
            steps = np.append(log_v[1], np.diff(log_v[1:]))
        out = np.where(np.isfinite(steps), steps, -np.inf) + np.log(self.gamma)
        return np.append(out, -np.inf)

    @classmethod
    def uniform(cls, highest: int, gamma: float = 1.0) -> NumberPrior:
        """Uniform prior on 1 to ``highest``."""
        if highest < 1:
            raise OptionError(f"the highest number of components is at least 1, not {highest}", code="out-of-range")
        return cls(np.full(highest, -np.log(highest)), gamma)

    @classmethod
    def poisson(cls, rate: float, gamma: float = 1.0, highest: int = 100) -> NumberPrior:
        """K - 1 is Poisson, truncated at ``highest``."""
        k = np.arange(highest)
        logs = k * np.log(rate) - gammaln(k + 1)
        return cls(logs - logsumexp(logs), gamma)

    def log_joint(self, n_rows: int) -> np.ndarray:
        """log of k (k - 1) … (k - t + 1) / (γk)^(n) p(k), for t (rows, 0 … N + 1) and k (columns, 1 … highest)."""
        k = np.arange(1, len(self.log_probability) + 1)
        t = np.arange(n_rows + 2)[:, None]
        possible = t <= k
        falling = gammaln(k + 1) - gammaln(np.where(possible, k - t, 0) + 1)
        rising = gammaln(self.gamma * k + n_rows) - gammaln(self.gamma * k)
        return np.where(possible, falling - rising + self.log_probability, -np.inf)


def number_posterior(prior: NumberPrior, n_rows: int, n_clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posterior of the number of components, and of the number of clusters, from draws of partitions.

    Parameters
    ----------
    n_rows : int
    n_clusters : ndarray of int
        Number of clusters in each draw.

    Returns
    -------
    ndarray (highest,)
        Probabilities of K = 1, 2, …: averages of p(K | partition).
    ndarray (highest,)
        Probabilities of 1, 2, … clusters: shares of the draws.
    """
    shares = np.bincount(n_clusters.ravel(), minlength=n_rows + 2) / n_clusters.size
    highest = len(prior.log_probability)
    clusters = np.zeros(highest)
    clusters[: min(highest, n_rows)] = shares[1 : min(highest, n_rows) + 1]
    return shares @ _given_clusters(prior, n_rows), clusters


def draw_number(prior: NumberPrior, n_rows: int, n_clusters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A draw of the number of components for each partition, given its number of clusters."""
    cumulated = np.cumsum(_given_clusters(prior, n_rows), axis=1)[n_clusters]
    point = rng.random(n_clusters.shape)[..., None] * cumulated[..., -1:]
    return np.asarray(1 + (point >= cumulated).sum(axis=-1))


def _given_clusters(prior: NumberPrior, n_rows: int) -> np.ndarray:
    """p(k | t clusters), for t (rows, 0 … N + 1) and k (columns, 1 … highest); zeros for impossible numbers t."""
    joint = prior.log_joint(n_rows)
    highest = joint.max(axis=1, keepdims=True)
    shares = np.exp(joint - np.where(np.isfinite(highest), highest, 0.0))
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300))
