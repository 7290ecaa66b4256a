r"""Binary factor models: rows are sums of features that are there or not.

.. math:: x_n = m + \sum_k z_{nk} a_k + e_n, \qquad e_n \sim N(0, \sigma^2 I), \quad a_k \sim N(0, s^2 I),

and z_nk Bernoulli(μ_k), μ_k ~ Beta(a, b) [1]_ [4]_; or, without a bound on the number of features, Z from an Indian
buffet (:mod:`bayeslab.exact.buffet`) [2]_. The probabilities μ and the weights A are integrated out and the rows of Z
are drawn in turns, entry by entry. The features that a row shares with no other come and go with it: their number is
drawn from Poisson(α / N) times the density of the row, to which each adds s² of variance. The sweeps keep the
posterior of A given the other rows [3]_, so that nothing is approximated and a sweep is linear in N.

With an offset m a feature can be turned round: the rows that have it are those that had it not. σ and s are drawn by
slices [5]_ of p(X | Z, σ, s) times their priors, α in closed form. Missing cells are drawn at
weights drawn for the purpose, and then are data.

References
----------
.. [1] Hinton, Zemel (1994). Autoencoders, minimum description length and Helmholtz free energy. NIPS 6.
.. [2] Griffiths, Ghahramani (2011). The Indian buffet process: an introduction and review. JMLR 12, 1185-1224.
.. [3] Doshi-Velez, Ghahramani (2009). Accelerated sampling for the Indian buffet process. ICML 26.
.. [4] Alpaydın (2020). Introduction to Machine Learning, 4th ed., MIT Press, section 16.12.
.. [5] Neal (2003). Slice sampling. Annals of Statistics 31, 705-767.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from scipy.special import betaln, gammaln

from bayeslab.exact import buffet

__all__ = ["BinaryDraws", "BinaryPrior", "log_likelihood", "log_prior", "sample"]

type LogDensity = Callable[[float], float]

# Columns there is room for, beyond those that are in use.
_ROOM = 32
# So many features a sweep are proposed to be turned round.
_COMPLEMENTS = 3
# A chain begins with the best of so many short ones, which take half of the tuning.
_STARTS = 4


@dataclass(frozen=True, eq=False)
class BinaryPrior:
    """The prior.

    Attributes
    ----------
    features : int or None
        How many there are; None: as many as the buffet brings.
    noise, scale : float or callable
        A number that is known, or the log density of σ (of s) at a positive number, up to a constant.
    probability : (float, float)
        Beta(a, b) of each feature's probability, where their number is given.
    alpha : float or (float, float)
        Of the buffet: known, or Gamma(shape, rate).
    offset : ndarray (D,) or None
        Mean of the prior of m; None: m is zero.
    offset_scale : float
        Its sd.
    """

    features: int | None
    noise: float | LogDensity
    scale: float | LogDensity
    probability: tuple[float, float] = (1.0, 1.0)
    alpha: float | tuple[float, float] = (1.0, 1.0)
    offset: np.ndarray | None = None
    offset_scale: float = 1.0


@dataclass(frozen=True, eq=False)
class BinaryDraws:
    """One chain.

    Attributes
    ----------
    z : list of ndarray of int8 (N, K)
        Of a buffet without empty columns.
    loading : list of ndarray (K, D)
    probability : list of ndarray (K,)
    offset : ndarray (S, D)
    noise, scale, alpha, n_features, log_likelihood, log_joint : ndarray (S,)
        ``n_features`` are those some row has; log p(X | Z, σ, s), and with the priors of Z, σ, s and α.
    """

    z: list[np.ndarray]
    loading: list[np.ndarray]
    probability: list[np.ndarray]
    offset: np.ndarray
    noise: np.ndarray
    scale: np.ndarray
    alpha: np.ndarray
    n_features: np.ndarray
    log_likelihood: np.ndarray
    log_joint: np.ndarray


def log_likelihood(x: np.ndarray, z: np.ndarray, noise: float, scales: np.ndarray) -> float:
    """log p(X | Z), weights integrated out, for a sd of the weights of each column of Z."""
    from bayeslab.exact._feature_kernels import collapsed_log_density

    ones, (n, d) = np.asarray(z, float), x.shape
    moment, total = ones.T @ x, float((x**2).sum())
    return float(collapsed_log_density(ones.T @ ones, moment @ moment.T, total, n, d, noise, scales.astype(float)))


def log_prior(z: np.ndarray, prior: BinaryPrior, alpha: float) -> float:
    """log p(Z), probabilities integrated out; of a buffet that of the class of matrices with these columns."""
    if prior.features is None:
        return buffet.log_probability(z, alpha)
    (a, b), n, ones = prior.probability, len(z), z.sum(axis=0)
    return float(np.sum(betaln(a + ones, b + n - ones) - betaln(a, b)))


@dataclass
class _Chain:
    """Where a chain is. The first ``always`` columns of Z are ones: the offset."""

    x: np.ndarray
    missing: np.ndarray
    prior: BinaryPrior
    rng: np.random.Generator
    z: np.ndarray
    size: int
    noise: float
    scale: float
    alpha: float

    @property
    def always(self) -> int:
        return 0 if self.prior.offset is None else 1

    @property
    def used(self) -> np.ndarray:
        return self.z[:, : self.size]

    @property
    def own(self) -> np.ndarray:
        return self.z[:, self.always : self.size]

    def scales(self, scale: float) -> np.ndarray:
        out = np.full(self.size, scale)
        out[: self.always] = self.prior.offset_scale
        return out

    def rows(self) -> None:
        """A sweep over the rows of Z."""
        from bayeslab.exact._feature_kernels import sweep

        n, prior = len(self.x), self.prior
        endless = prior.features is None
        rate = self.alpha / n if endless else 0.0
        on, off = (0.0, 1.0) if endless else prior.probability
        spare = _ROOM + ceil(4 * rate)
        begin = 0
        while begin < n:
            if endless and self.z.shape[1] - self.size < spare:
                self.z = np.ascontiguousarray(np.pad(self.z, ((0, 0), (0, self.size + 2 * spare))))
            self.size, begin = sweep(
                self.rng,
                self.x,
                self.z,
                self.size,
                begin,
                self.always,
                self.noise,
                self.scale,
                prior.offset_scale,
                rate,
                on,
                off,
                spare,
            )

    def complements(self) -> None:
        """With an offset: features of the rows that have them become features of those that have not.

        m, z_k and a_k explain what m + a_k, 1 - z_k and -a_k do; no way leads from one to the other row by row.
        """
        n, size = len(self.x), self.size - self.always
        if not self.always or not size:
            return
        scales = self.scales(self.scale)
        now = log_likelihood(self.x, self.used, self.noise, scales)
        for k in self.always + self.rng.integers(0, size, min(size, _COMPLEMENTS)):
            ones = int(self.z[:, k].sum())
            if self.prior.features is None and ones == n:
                continue
            self.z[:, k] = 1 - self.z[:, k]
            other = log_likelihood(self.x, self.used, self.noise, scales)
            if np.log(self.rng.random()) < other - now + self._log_column(n - ones) - self._log_column(ones):
                now = other
            else:
                self.z[:, k] = 1 - self.z[:, k]

    def _log_column(self, ones: int) -> float:
        """Log of the factor that a column with so many ones has in the prior of Z."""
        a, b = (0.0, 1.0) if self.prior.features is None else self.prior.probability
        n = len(self.x)
        return float(gammaln(a + ones) + gammaln(b + n - ones))

    def scales_drawn(self) -> None:
        """σ, s and α given Z."""
        from bayeslab.exact._feature_kernels import collapsed_log_density

        prior, ones = self.prior, self.used.astype(float)
        (n, d), moment = self.x.shape, ones.T @ self.x
        gram, cross, total = ones.T @ ones, moment @ moment.T, float((self.x**2).sum())

        def at(noise: float, scale: float) -> float:
            return float(collapsed_log_density(gram, cross, total, n, d, noise, self.scales(scale)))

        if callable(density := prior.noise):
            self.noise = _slice(lambda v: at(v, self.scale) + density(v), self.noise, self.rng)
        if callable(wide := prior.scale):
            self.scale = _slice(lambda v: at(self.noise, v) + wide(v), self.scale, self.rng)
        if isinstance(prior.alpha, tuple) and prior.features is None:
            self.alpha = buffet.draw_alpha(self.own.shape[1], len(self.x), *prior.alpha, self.rng)

    def weights(self) -> np.ndarray:
        """A, with the offset in its first row, given Z."""
        ones = self.used.astype(float)
        precision = ones.T @ ones + np.diag((self.noise / self.scales(self.scale)) ** 2)
        lower = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, ones.T @ self.x)
        return np.asarray(mean + self.noise * np.linalg.solve(lower.T, self.rng.standard_normal(mean.shape)))

    def probabilities(self) -> np.ndarray:
        ones, n = self.own.sum(axis=0), len(self.x)
        a, b = (0.0, 1.0) if self.prior.features is None else self.prior.probability
        return self.rng.beta(a + ones, b + n - ones)

    def fill(self, weights: np.ndarray) -> None:
        """Missing cells at these weights."""
        if self.missing.any():
            where = self.used.astype(float) @ weights
            drawn = where + self.noise * self.rng.standard_normal(where.shape)
            self.x = np.where(self.missing, drawn, self.x)


def _slice(log_density: LogDensity, at: float, rng: np.random.Generator, width: float = 0.5) -> float:
    """One draw of a positive number on the log scale, whose density has the factor x of that scale."""

    def height(t: float) -> float:
        return log_density(float(np.exp(t))) + t

    now = float(np.log(at))
    level = height(now) - rng.exponential()
    low = now - width * rng.random()
    high = low + width
    while height(low) > level:
        low -= width
    while height(high) > level:
        high += width
    while True:
        t = rng.uniform(low, high)
        if height(t) > level:
            return float(np.exp(t))
        low, high = (t, high) if t < now else (low, t)


def _start(x: np.ndarray, prior: BinaryPrior, rng: np.random.Generator) -> _Chain:
    missing = np.isnan(x)
    centred = x - (0.0 if prior.offset is None else prior.offset)
    spread = float(np.nanstd(centred)) or 1.0
    level = np.zeros(x.shape[1])
    with np.errstate(invalid="ignore"):
        seen = (~missing).sum(axis=0)
        level[seen > 0] = np.nansum(centred, axis=0)[seen > 0] / seen[seen > 0]
    centred = np.ascontiguousarray(np.where(missing, level, centred))
    always = 0 if prior.offset is None else 1
    z = np.zeros((len(x), always + (2 * _ROOM if prior.features is None else prior.features)), np.int8)
    z[:, :always] = 1
    alpha = prior.alpha if isinstance(prior.alpha, float | int) else prior.alpha[0] / prior.alpha[1]
    noise = 0.5 * spread if callable(prior.noise) else prior.noise
    scale = spread if callable(prior.scale) else prior.scale
    size = always + (prior.features or 0)
    return _Chain(centred, missing, prior, rng, z, size, float(noise), float(scale), float(alpha))


def _begun(
    x: np.ndarray, prior: BinaryPrior, rng: np.random.Generator, tune: int, report: Callable[[int], None]
) -> tuple[_Chain, int]:
    """The best end of some short chains from nothing, and how many sweeps they took.

    Single features come and go easily, but several that together say what fewer could say better stay for long. A fixed
    number of features takes over the largest that a buffet has found.
    """
    sweeps, free = tune // (2 * _STARTS), prior
    if prior.features is not None:
        free = replace(prior, features=None, alpha=1.0)
    ends: list[tuple[float, _Chain]] = []
    for start in range(_STARTS if sweeps else 1):
        chain = _start(x, free, rng)
        for i in range(sweeps):
            _step(chain)
            report(start * sweeps + i + 1)
        ends.append((_heights(chain)[1], chain))
    best = max(ends, key=lambda end: end[0])[1]
    if prior.features is None:
        return best, _STARTS * sweeps
    chain = _start(x, prior, rng)
    largest = np.argsort(-best.own.sum(axis=0), kind="stable")[: prior.features]
    chain.z[:, chain.always : chain.always + len(largest)] = best.own[:, largest]
    chain.noise, chain.scale, chain.x = best.noise, best.scale, best.x
    return chain, _STARTS * sweeps


def _step(chain: _Chain) -> np.ndarray | None:
    """Everything once; the weights, where they had to be drawn to fill missing cells."""
    chain.rows()
    chain.complements()
    chain.scales_drawn()
    if not chain.missing.any():
        return None
    weights = chain.weights()
    chain.fill(weights)
    return weights


def sample(
    x: np.ndarray,
    prior: BinaryPrior,
    *,
    draws: int,
    tune: int,
    rng: np.random.Generator,
    report: Callable[[int], None] = lambda sweeps: None,
) -> BinaryDraws:
    """One chain of Gibbs sweeps.

    Parameters
    ----------
    x : ndarray (N, D)
        Missing cells are NaN.
    report
        Is told the number of sweeps made.
    """
    chain, made = _begun(x, prior, rng, tune, report)
    z: list[np.ndarray] = []
    loading: list[np.ndarray] = []
    probability: list[np.ndarray] = []
    offsets = np.zeros((draws, x.shape[1]))
    told = {name: np.empty(draws) for name in ("noise", "scale", "alpha", "log_likelihood", "log_joint")}
    n_features = np.empty(draws, np.int64)
    for i in range(made - tune, draws):
        weights = _step(chain)
        if i >= 0:
            weights = chain.weights() if weights is None else weights
            z.append(chain.own.copy())
            loading.append(weights[chain.always :])
            probability.append(chain.probabilities())
            if prior.offset is not None:
                offsets[i] = prior.offset + weights[0]
            n_features[i] = int(chain.own.any(axis=0).sum())
            told["noise"][i], told["scale"][i], told["alpha"][i] = chain.noise, chain.scale, chain.alpha
            told["log_likelihood"][i], told["log_joint"][i] = _heights(chain)
        report(i + tune + 1)
    return BinaryDraws(z, loading, probability, offsets, n_features=n_features, **told)


def _heights(chain: _Chain) -> tuple[float, float]:
    prior = chain.prior
    likelihood = log_likelihood(chain.x, chain.used, chain.noise, chain.scales(chain.scale))
    joint = likelihood + log_prior(chain.own, prior, chain.alpha)
    joint += prior.noise(chain.noise) if callable(prior.noise) else 0.0
    joint += prior.scale(chain.scale) if callable(prior.scale) else 0.0
    if isinstance(prior.alpha, tuple) and prior.features is None:
        joint += (prior.alpha[0] - 1) * np.log(chain.alpha) - prior.alpha[1] * chain.alpha
    return likelihood, float(joint)
