"""Sampling the posterior of the number of components.

In a mixture of finite mixtures the number of components K has a prior p(K), the weights given K are
Dirichlet(γ, …, γ), and components are drawn from a conjugate prior. With weights and components integrated
out a partition of the rows into t clusters has probability [1]_

    V_n(t) Π_c γ^(n_c) m(rows of c),    V_n(t) = Σ_k k (k - 1) … (k - t + 1) / (γk)^(n) p(k),

with x^(n) the rising factorial and m the evidence of a cluster. The sampler therefore moves over partitions only: Gibbs
moves of single rows, and merge-split proposals that move whole groups [2]_, with clusters chosen uniformly, not by
their rows, so that small ones can appear and vanish. Given the partition the number of components does not depend on
the data, p(K | t) ∝ k (k - 1) … (k - t + 1) / (γk)^(n) p(k), and averaging that over draws gives the posterior of K
without sampling it. There may be more components than clusters, since components may be empty.

References
----------
.. [1] Miller, Harrison (2018). Mixture models with a prior on the number of components. JASA 113, 340-356.
.. [2] Dahl, Newcomb (2022). Sequentially allocated merge-split samplers for conjugate Bayesian nonparametric models.
   J. Statistical Computation and Simulation 92, 1487-1511.
.. [3] Nobile, Fearnside (2007). Bayesian finite mixtures with an unknown number of components: the allocation sampler.
   Statistics and Computing 17, 147-162.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, multigammaln

from bayeslab.constants import LOG_PI
from bayeslab.distributions.emissions import Categorical, DiagonalGaussian, FullGaussian, OneParameter, Product
from bayeslab.errors import DataError, OptionError
from bayeslab.latents.sampler import Arrays, Sampler, stacked

__all__ = ["NumberPosterior", "NumberPrior", "PartitionSampler", "integrable"]


@dataclass(frozen=True, eq=False)
class NumberPrior:
    """Prior of the number of components: log probabilities of 1, 2, …, and the Dirichlet's γ."""

    log_probability: np.ndarray
    gamma: float = 1.0

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


class _Items(NamedTuple):
    statistics: np.ndarray
    blocks: list[tuple[int, int, int]]
    hyper: np.ndarray


def _full(emission: FullGaussian, rows: np.ndarray) -> _Items:
    if np.isnan(rows).any():
        raise OptionError(
            "full covariances with missing cells have no closed form; use covariance: diagonal", code="no-closed-form"
        )
    prior, d = emission.prior, rows.shape[1]
    assert prior is not None
    centred, mean = rows - prior.mean, np.zeros(d)
    one = np.ones((len(rows), 1))
    if emission.covariance == "known":
        precision = np.linalg.inv(emission.covariances({"mean": np.zeros((1, d))})[0])
        hyper = np.concatenate([[d, prior.kappa], mean, precision.ravel()])
        return _Items(np.hstack([one, centred]), [(5, 0, 0)], hyper)
    if emission.covariance == "tied":
        raise OptionError(
            "one covariance for all components has no closed form here; use full or diagonal", code="no-closed-form"
        )
    i, j = np.tril_indices(d)
    scale = np.asarray(prior.scale, float)
    normaliser = multigammaln(prior.nu / 2, d) - 0.25 * d * (d - 1) * LOG_PI
    normaliser -= 0.5 * prior.nu * np.linalg.slogdet(scale)[1]
    hyper = np.concatenate([[d, prior.kappa, prior.nu], mean, scale[i, j], [normaliser]])
    return _Items(np.hstack([one, centred, centred[:, i] * centred[:, j]]), [(0, 0, 0)], hyper)


def _diagonal(emission: DiagonalGaussian, rows: np.ndarray) -> _Items:
    if emission.covariance == "spherical":
        raise OptionError("spherical components are not offered here; use covariance: diagonal", code="unsupported")
    prior = emission.prior
    assert prior is not None
    observed = ~np.isnan(rows)
    apart = np.where(observed, rows - prior.mean, 0.0)
    d = rows.shape[1]
    statistics = np.stack([observed, apart, apart**2], axis=2).reshape(len(rows), 3 * d)
    scale = np.broadcast_to(prior.scale, (d,))
    hyper = np.concatenate([[prior.kappa, prior.nu, 0.0, scale[j]] for j in range(d)])
    return _Items(statistics, [(1, 3 * j, 4 * j) for j in range(d)], hyper)


def _categorical(emission: Categorical, rows: np.ndarray) -> _Items:
    parts, blocks, hyper, at, size = [], [], [], 0, 0
    prior = np.broadcast_to(np.asarray(emission.prior, float), (len(emission.levels), max(emission.levels)))
    for j, levels in enumerate(emission.levels):
        observed = ~np.isnan(rows[:, j])
        parts.append(np.eye(levels)[np.where(observed, rows[:, j], 0).astype(int)] * observed[:, None])
        blocks.append((2, at, size))
        hyper.append(np.concatenate([[levels], prior[j, :levels]]))
        at, size = at + levels, size + levels + 1
    return _Items(np.hstack(parts), blocks, np.concatenate(hyper))


def _one_parameter(emission: OneParameter, rows: np.ndarray) -> _Items:
    assert emission.prior is not None
    won, base = emission.counted(rows)
    d, code = won.shape[1], {"Beta": 3, "Gamma": 4}[emission.pair.name]
    statistics = np.stack([won, base], axis=2).reshape(len(rows), 2 * d)
    prior = np.stack([np.broadcast_to(p, (d,)) for p in emission.prior], axis=1)
    return _Items(statistics, [(code, 2 * j, 2 * j) for j in range(d)], prior.ravel().astype(float))


def _product(emission: Product, rows: np.ndarray) -> _Items:
    parts, blocks, hyper, at, size = [], [], [], 0, 0
    for columns, part in emission.parts.values():
        items = _items(part, rows[:, list(columns)])
        parts.append(items.statistics)
        blocks += [(code, a + at, b + size) for code, a, b in items.blocks]
        hyper.append(items.hyper)
        at, size = at + items.statistics.shape[1], size + len(items.hyper)
    return _Items(np.hstack(parts), blocks, np.concatenate(hyper))


_READERS: dict[type, Callable[[Any, np.ndarray], _Items]] = {
    FullGaussian: _full,
    DiagonalGaussian: _diagonal,
    Categorical: _categorical,
    OneParameter: _one_parameter,
    Product: _product,
}


def _items(emission: Any, rows: np.ndarray) -> _Items:
    reader = _READERS.get(type(emission))
    if reader is None:
        raise OptionError(
            f"{type(emission).__name__} has no conjugate prior, so its components cannot be integrated out;"
            " choose another component, or the number by bic",
            code="not-conjugate",
        )
    return reader(emission, rows)


def integrable(emission: Any, rows: np.ndarray) -> None:
    """Refuse components that :class:`PartitionSampler` cannot integrate out.

    Raises
    ------
    OptionError
        The parameters cannot be integrated out.
    """
    _items(emission, rows)


@dataclass(frozen=True, eq=False)
class NumberPosterior:
    """Posterior over the number of components.

    Attributes
    ----------
    probability : ndarray (highest,)
        Posterior of K = 1, 2, …: averages of p(K | partition) over the draws.
    clusters : ndarray (highest,)
        Posterior of the number of non-empty clusters: shares of draws.
    n_clusters : ndarray (chains, draws)
    labels : ndarray (chains, draws, N)
        Partitions, with arbitrary numbering.
    log_density : ndarray (chains, draws)
        Log density of the partitions, up to a constant.
    accepted : ndarray (chains,)
        Share of merge-split proposals that were accepted.
    """

    probability: np.ndarray
    clusters: np.ndarray
    n_clusters: np.ndarray
    labels: np.ndarray
    log_density: np.ndarray
    accepted: np.ndarray

    @property
    def mode(self) -> int:
        return int(self.probability.argmax()) + 1


@dataclass(frozen=True, eq=False)
class PartitionSampler(Sampler):
    """Partitions of the rows, the parameters of clusters integrated out: the state is a label for each row.

    Each draw stores ``labels`` (N,), ``n_clusters``, ``log_density`` of the partition up to a constant, ``accepted``,
    the share of accepted merge-split proposals, and a ``uniform`` number for drawing the number of components given the
    partition. Chains start alternately from one cluster and from many.

    Attributes
    ----------
    emission
        Emission with a conjugate prior; without one it gets its weak prior.
    rows : ndarray (N, D)
    prior : NumberPrior
    proposals : int
        Merge-split proposals after each Gibbs sweep.
    sweeps : int
        Gibbs sweeps over the rows for each draw, each with O(N t) evidences.

    Raises
    ------
    DataError, OptionError
        There are no rows, or the components cannot be integrated out.
    """

    emission: Any
    rows: np.ndarray
    prior: NumberPrior
    proposals: int = 5
    sweeps: int = 4

    def __post_init__(self) -> None:
        if len(self.rows) < 1:
            raise DataError("there are no rows; give at least one", code="no-rows")
        if not self.prior.gamma > 0:
            raise OptionError(f"γ is positive, not {self.prior.gamma:g}", code="out-of-range")

    @cached_property
    def _given(self) -> tuple[Any, ...]:
        """Arguments of the kernel besides the labels."""
        from bayeslab.latents.partitions.partition_kernels import prepared

        emission = self.emission
        if emission.prior is None:
            emission = emission.with_prior(self.rows, 1)
        emission.check(self.rows)
        items = _items(emission, self.rows)
        with np.errstate(invalid="ignore"):
            log_v = logsumexp(self.prior.log_joint(len(self.rows)), axis=1)
        statistics, hyper = np.ascontiguousarray(items.statistics, float), np.ascontiguousarray(items.hyper, float)
        blocks = np.array(items.blocks, np.int64).reshape(-1, 3)
        tables, alone = prepared(statistics, blocks, hyper)
        return statistics, blocks, hyper, tables, alone, self.prior.gamma, log_v

    def init(self, rng: np.random.Generator, tune: int) -> Arrays:
        *_, log_v = self._given
        most, seeds = int(np.flatnonzero(np.isfinite(log_v)).max()), rng.bit_generator.seed_seq
        assert isinstance(seeds, np.random.SeedSequence)
        many = bool(seeds.spawn_key and seeds.spawn_key[-1] % 2)
        start = rng.integers(0, min(10, most), len(self.rows)) if many else np.zeros(len(self.rows), int)
        return {"labels": np.unique(start, return_inverse=True)[1].astype(np.int64)}

    def step(self, rng: np.random.Generator, state: Arrays) -> tuple[Arrays, Arrays]:
        from bayeslab.latents.partitions.partition_kernels import draw_partition

        kernel: Any = draw_partition
        labels, n_clusters, density, accepted = kernel(state["labels"], *self._given, self.proposals, self.sweeps, rng)
        numbers = {"n_clusters": n_clusters, "log_density": density, "accepted": accepted, "uniform": rng.random()}
        return {"labels": labels}, {"labels": labels} | {name: np.asarray(value) for name, value in numbers.items()}

    def posterior(self, kept: Mapping[int, Arrays], n_draws: int) -> NumberPosterior:
        """Posterior of the number of components from the draws of several chains."""
        labels, counts, densities, accepted = (
            stacked(kept, name, n_draws) for name in ("labels", "n_clusters", "log_density", "accepted")
        )
        *_, log_v = self._given
        joint = self.prior.log_joint(len(self.rows))
        given = np.exp(joint - np.where(np.isfinite(log_v), log_v, 0.0)[:, None])
        shares = np.bincount(counts.ravel(), minlength=len(joint)) / counts.size
        highest = len(self.prior.log_probability)
        clusters = np.zeros(highest)
        clusters[: min(highest, len(shares) - 1)] = shares[1 : highest + 1]
        return NumberPosterior(shares @ given, clusters, counts, labels, densities, accepted.mean(axis=1))
