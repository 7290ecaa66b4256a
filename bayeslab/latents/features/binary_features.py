r"""Binary factor models: rows are sums of features that are present or absent.

.. math:: x_n = m + \sum_k z_{nk} a_k + e_n, \qquad e_n \sim N(0, \sigma^2 I), \quad a_k \sim N(0, s^2 I),

and z_nk Bernoulli(μ_k), μ_k ~ Beta(a, b) [1]_ [4]_; or, with an unbounded number of features, Z from an Indian buffet
process (:mod:`bayeslab.latents.features.buffet`) [2]_. The probabilities μ and the weights A are integrated out, and
the rows of Z are drawn entry by entry. The number of features that only one row has is drawn from Poisson(α / N) times
the density of the row, to which each such feature adds s² of variance. The sweeps maintain the posterior of A given the
other rows [3]_, so that they are exact and linear in N.

With an offset m a feature can be replaced by its complement. σ and s are drawn by slice sampling [5]_ of p(X | Z, σ, s)
times their priors, and α in closed form. Missing cells are imputed given weights drawn for this purpose, and then
treated as data.

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
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln

from bayeslab.errors import EngineRefusal
from bayeslab.latents.features import buffet
from bayeslab.latents.sampler import Arrays, Sampler, run

__all__ = ["BinaryDraws", "BinaryPrior", "FeatureSampler", "draws_of", "log_likelihood", "log_prior", "sample"]

type LogDensity = Callable[[float], float]

# Columns there is room for, beyond those that are in use.
_ROOM = 32
# So many features a sweep are proposed to be turned round.
_COMPLEMENTS = 3
# Logs of positive doubles are within so far from zero.
_WIDEST = 700.0
# So many times a sweep three features are redrawn together, so that one ends or begins; and one with so many others.
_TRADES, _FEW = 2, 5
# A chain begins with the best of so many short ones, which take half of the tuning.
_STARTS = 4
# Sds that rows are at least from zero where more than 99 of 100 have some feature: sqrt(p / (1 - p)).
_FAR = 10.0
# Chains with an offset in place of a level go on for so many times as long as they had.
_MORE = 2
# Sds of the rows that an offset's prior is wide, where an offset stands for a level.
_OFFSET_WIDTH = 3.0
# Those see so many rows at most; then all rows are drawn at the weights found, the noise falling to what it is.
_SOME_ROWS, _HEATS = 400, tuple(np.geomspace(8.0, 1.0, 40))


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


@dataclass(frozen=True, eq=False)
class Evidence:
    """log p(X | Z) as a function of the sds, the weights integrated out.

    X'X - X'Z (Z'Z + r)^-1 Z'X is what is left of large numbers where the weights are large against the noise. With
    X = Z W + R, for any W near the weights, it is the same of R and of the weights about W: of small ones.
    """

    gram: np.ndarray
    moment: np.ndarray
    weights: np.ndarray
    total: float
    shape: tuple[int, int]

    @classmethod
    def of(cls, x: np.ndarray, z: np.ndarray, noise: float, scales: np.ndarray) -> Evidence:
        """Near these sds."""
        ones = np.asarray(z, float)
        gram = ones.T @ ones
        weights = np.linalg.solve(gram + np.diag((noise / scales) ** 2), ones.T @ x)
        left = x - ones @ weights
        return cls(gram, ones.T @ left, weights, float((left**2).sum()), x.shape)

    def at(self, noise: float, scales: np.ndarray) -> float:
        """At these sds of the noise and of the weights of each column of Z."""
        from bayeslab.latents.features.feature_kernels import collapsed_log_density

        ratio = (noise / scales) ** 2
        apart = self.moment - ratio[:, None] * self.weights
        total = self.total + float(ratio @ (self.weights**2).sum(axis=1))
        return float(collapsed_log_density(self.gram, apart @ apart.T, total, *self.shape, noise, scales))


def log_likelihood(x: np.ndarray, z: np.ndarray, noise: float, scales: np.ndarray) -> float:
    """log p(X | Z), weights integrated out, for a sd of the weights of each column of Z."""
    scales = scales.astype(float)
    return Evidence.of(x, z, noise, scales).at(noise, scales)


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
    def features(self) -> np.ndarray:
        return self.z[:, self.always : self.size]

    def scales(self, scale: float, size: int | None = None) -> np.ndarray:
        out = np.full(self.size if size is None else size, scale)
        out[: self.always] = self.prior.offset_scale
        return out

    def rows(self) -> None:
        """A sweep over the rows of Z."""
        from bayeslab.latents.features.feature_kernels import sweep

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
        """Features of the rows that have them become features of those that have not.

        Beside m, an offset or a feature that all rows have, z_k and a_k explain what m + a_k, 1 - z_k and -a_k do; no
        way leads from one to the other row by row. The first feature that all rows have stands for an offset, as long
        as no other becomes one of these.
        """
        n, size = len(self.x), self.size - self.always
        level = None if self.always else next(iter(np.flatnonzero(self.features.all(axis=0))), None)
        if not size or (not self.always and level is None):
            return
        scales = self.scales(self.scale)
        now = log_likelihood(self.x, self.used, self.noise, scales)
        for k in self.always + self.rng.integers(0, size, min(size, _COMPLEMENTS)):
            ones = int(self.z[:, k].sum())
            if self.prior.features is None and ones == n:
                continue
            if level is not None and ones in (0, n):
                continue
            self.z[:, k] = 1 - self.z[:, k]
            other = log_likelihood(self.x, self.used, self.noise, scales)
            if np.log(self.rng.random()) < other - now + self._log_column(n - ones) - self._log_column(ones):
                now = other
            else:
                self.z[:, k] = 1 - self.z[:, k]

    def trades(self) -> None:
        """Of a buffet: a feature that others can stand for ends, or one begins.

        Where rows have a, or b, but instead of both a feature of their own that is a + b, none of them finds back
        alone: that feature is worth having as long as others have it. A few features are redrawn together for all
        rows, or for those of the feature that ends, given weights of the others drawn for the purpose and with their
        own integrated out; all of it is taken or left (Metropolis and Hastings).
        """
        if self.prior.features is not None:
            return
        for _ in range(_TRADES):
            for ends, begins, least in ((self._replaced, self._replacing, 3), (self._dissolved, self._formed, 2)):
                size = self.size - self.always
                if self.rng.random() < 0.5:
                    if size >= least:
                        ends()
                elif size >= least - 1:
                    begins()

    def _replaced(self) -> None:
        """One of three features ends, two stand for it."""
        size = self.size - self.always
        one = int(self.rng.integers(0, size))
        chances = _stand_ins(self._mean_weights(), one)
        place = int(self.rng.choice(chances.size, p=chances.ravel()))
        three = np.array([one, *np.unravel_index(place, chances.shape)]) + self.always
        proposed, ratio = self._redrawn(three, self.used, self.rng.permutation(len(self.x)), 0, -1)
        # Features have no order: one that begins takes any of the places, as one that ends is any of them.
        ratio += np.log(size) - np.log(self.alpha) - np.log(_pairs(size - 1)) - np.log(chances.ravel()[place])
        ratio -= self._log_columns(self.used, three) - self._log_columns(proposed, three)
        self._without(proposed, int(three[0]), ratio)

    def _replacing(self) -> None:
        """A feature begins beside two others."""
        size = self.size - self.always
        pair = np.sort(self.rng.choice(size, 2, replace=False)) + self.always
        place = self.always + int(self.rng.integers(0, size + 1))
        wider = np.insert(self.used, place, 0, axis=1)
        three = np.array([place, *(pair + (pair >= place))])
        proposed, ratio = self._redrawn(three, wider, self.rng.permutation(len(self.x)), -1, 0)
        if ratio == -np.inf or not proposed[:, place].any():
            return
        one, *others = three - self.always
        chances = _stand_ins(self._mean_weights(proposed), one)
        ratio += np.log(self.alpha) + np.log(_pairs(size)) - np.log(size + 1) + np.log(chances[tuple(others)])
        ratio += self._log_columns(proposed, three) - self._log_columns(wider, three)
        self._with(proposed, ratio)

    def _dissolved(self) -> None:
        """A feature ends, its rows get some of a few others."""
        size = self.size - self.always
        chances = _small(self.features)
        one = int(self.rng.choice(size, p=chances))
        others = self.rng.permutation(np.delete(np.arange(size), one))[:_FEW] + self.always
        some = np.append(one + self.always, others)
        rows = self.rng.permutation(np.flatnonzero(self.features[:, one]))
        proposed, ratio = self._redrawn(some, self.used, rows, 0, 1)
        # The prior of a feature's rows is what those of one that begins are drawn from.
        ratio += -np.log(self.alpha * buffet.harmonic(len(self.x))) - np.log(chances[one])
        ratio += self._log_columns(proposed, others) - self._log_columns(self.used, others)
        self._without(proposed, one + self.always, ratio)

    def _formed(self) -> None:
        """A feature begins in some rows, which get others of a few others."""
        size, n = self.size - self.always, len(self.x)
        many = 1 + int(self.rng.choice(n, p=1 / (np.arange(1, n + 1) * buffet.harmonic(n))))
        rows = self.rng.permutation(n)[:many]
        others = self.rng.permutation(size)[:_FEW] + self.always
        wider = np.insert(self.used, self.always, 0, axis=1)
        proposed, ratio = self._redrawn(np.append(self.always, others + 1), wider, rows, 1, 0)
        if ratio == -np.inf:
            return
        ratio += np.log(self.alpha * buffet.harmonic(n)) + np.log(_small(proposed[:, self.always :])[0])
        ratio += self._log_columns(proposed, others + 1) - self._log_columns(wider, others + 1)
        self._with(proposed, ratio)

    def _without(self, proposed: np.ndarray, place: int, ratio: float) -> None:
        """Take the new Z, in which one column has ended, or leave it."""
        if np.log1p(-self.rng.random()) < ratio:
            self.size -= 1
            self.z[:, : self.size], self.z[:, self.size] = np.delete(proposed, place, axis=1), 0

    def _with(self, proposed: np.ndarray, ratio: float) -> None:
        """Take the new Z, which has a column more, or leave it."""
        if np.log1p(-self.rng.random()) < ratio:
            if self.z.shape[1] == self.size:
                self.z = np.ascontiguousarray(np.pad(self.z, ((0, 0), (0, _ROOM))))
            self.size += 1
            self.z[:, : self.size] = proposed

    def _redrawn(
        self, some: np.ndarray, z: np.ndarray, rows: np.ndarray, ahead: int, behind: int
    ) -> tuple[np.ndarray, float]:
        """Z with some columns redrawn in some rows, and the log of the likelihood's and the proposals' ratios.

        -inf where one of the others has no row any more.
        """
        from bayeslab.latents.features.feature_kernels import traded

        weights = self.weights(z)
        weights[some] = 0
        left = self.x - z.astype(float) @ weights
        before = np.ascontiguousarray(z[:, some])
        after = before.copy()
        forth, back = traded(self.rng, left, after, rows, ahead, behind, float(self.noise), float(self.scale))
        if back == -np.inf or not after[:, 1:].any(axis=0).all():
            return z, -np.inf
        scales = np.full(len(some), self.scale)
        ratio = log_likelihood(left, after, self.noise, scales) - log_likelihood(left, before, self.noise, scales)
        out = z.copy()
        out[:, some] = after
        return out, ratio + back - forth

    def _log_columns(self, z: np.ndarray, some: np.ndarray) -> float:
        """Log of the factors of these columns in the prior of Z; those without rows have none."""
        ones = z[:, some].sum(axis=0)
        positive, n = ones[ones > 0], len(z)
        return float((gammaln(n - positive + 1) + gammaln(positive) - gammaln(n + 1)).sum())

    def _mean_weights(self, z: np.ndarray | None = None) -> np.ndarray:
        """Means of the features' weights given Z, without the offset (K, D)."""
        ones = (self.used if z is None else z).astype(float)
        precision = ones.T @ ones + np.diag((self.noise / self.scales(self.scale, ones.shape[1])) ** 2)
        return np.asarray(np.linalg.solve(precision, ones.T @ self.x))[self.always :]

    def _log_column(self, ones: int) -> float:
        """Log of the factor that a column with so many ones has in the prior of Z."""
        a, b = (0.0, 1.0) if self.prior.features is None else self.prior.probability
        n = len(self.x)
        return float(gammaln(a + ones) + gammaln(b + n - ones))

    def scales_drawn(self) -> None:
        """σ, s and α given Z."""
        prior = self.prior
        evidence = Evidence.of(self.x, self.used, self.noise, self.scales(self.scale))

        def at(noise: float, scale: float) -> float:
            return evidence.at(noise, self.scales(scale))

        if callable(density := prior.noise):
            self.noise = slice_step(lambda v: at(v, self.scale) + density(v), self.noise, self.rng)
        if callable(wide := prior.scale):
            self.scale = slice_step(lambda v: at(self.noise, v) + wide(v), self.scale, self.rng)
        if isinstance(prior.alpha, tuple) and prior.features is None:
            self.alpha = buffet.draw_alpha(self.features.shape[1], len(self.x), *prior.alpha, self.rng)

    def weights(self, z: np.ndarray | None = None) -> np.ndarray:
        """A, with the offset in its first row, given Z."""
        ones = (self.used if z is None else z).astype(float)
        precision = ones.T @ ones + np.diag((self.noise / self.scales(self.scale, ones.shape[1])) ** 2)
        lower = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, ones.T @ self.x)
        return np.asarray(mean + self.noise * np.linalg.solve(lower.T, self.rng.standard_normal(mean.shape)))

    def probabilities(self) -> np.ndarray:
        ones, n = self.features.sum(axis=0), len(self.x)
        a, b = (0.0, 1.0) if self.prior.features is None else self.prior.probability
        return self.rng.beta(a + ones, b + n - ones)

    def fill(self, weights: np.ndarray) -> None:
        """Missing cells at these weights."""
        if self.missing.any():
            where = self.used.astype(float) @ weights
            drawn = where + self.noise * self.rng.standard_normal(where.shape)
            self.x = np.where(self.missing, drawn, self.x)


def _small(z: np.ndarray) -> np.ndarray:
    """Chances of the choice of a feature that is to end: those of few rows are likelier."""
    chances = 1 / z.sum(axis=0)
    return np.asarray(chances / chances.sum())


def _pairs(n: int) -> float:
    return n * (n - 1) / 2


def _stand_ins(weights: np.ndarray, k: int) -> np.ndarray:
    """Chances (K, K) of the choice of two features, of rising number, that stand for feature k which is to end.

    The nearer its weights are to a sum or difference of the others', or to those of one, the likelier.
    """
    gram = weights @ weights.T
    squares, products = np.diag(gram), gram[k]
    least = np.full(gram.shape, np.inf)
    for a in (-1, 0, 1):
        for b in (-1, 0, 1):
            if a or b:
                apart = (
                    products[k] + (a * a * squares - 2 * a * products)[:, None] + (b * b * squares - 2 * b * products)
                )
                least = np.minimum(least, apart + 2 * a * b * gram)
    # Measured by what weights are, so that neither huge nor tiny units matter.
    apart = np.maximum(least, 0) / max(squares.mean(), 1e-300)
    out = np.triu((apart + 0.01) ** -2.0, 1)
    out[k], out[:, k] = 0, 0
    return np.asarray(out / out.sum())


def slice_step(log_density: LogDensity, at: float, rng: np.random.Generator, width: float = 0.5) -> float:
    """One draw of a positive number on the log scale, whose density has the factor x of that scale.

    The slice ends where doubles end, and shrinks no further than to the number it began with.

    Raises
    ------
    EngineRefusal
        There is no density at the number.
    """

    def height(t: float) -> float:
        return log_density(float(np.exp(t))) + t

    now = float(np.log(at))
    level = height(now) - rng.exponential()
    if not np.isfinite(level):
        raise EngineRefusal(
            f"the features explain the data to the last digit: at {at:.3g} the noise or the scale of the loadings has"
            " no density that doubles can hold; declare fewer features, or priors of noise and scale that keep them"
            " from zero",
            code="degenerate",
        )
    low = now - width * rng.random()
    high = low + width
    while low > -_WIDEST and height(low) > level:
        low -= width
    while high < _WIDEST and height(high) > level:
        high += width
    while True:
        t = rng.uniform(low, high)
        if height(t) > level:
            return float(np.exp(t))
        if t == now or high - low <= np.spacing(abs(now)):
            return at
        low, high = (t, high) if t < now else (low, t)


def start_values(x: np.ndarray, prior: BinaryPrior, rng: np.random.Generator) -> _Chain:
    missing = np.isnan(x)
    centred = x - (0.0 if prior.offset is None else prior.offset)
    # About zero, as weights and noise are: a start too small for rows far from it would give each row many features.
    spread = float(np.sqrt(np.nanmean(centred**2))) or 1.0
    level = np.zeros(x.shape[1])
    with np.errstate(invalid="ignore"):
        n_observed = (~missing).sum(axis=0)
        level[n_observed > 0] = np.nansum(centred, axis=0)[n_observed > 0] / n_observed[n_observed > 0]
    centred = np.ascontiguousarray(np.where(missing, level, centred))
    always = 0 if prior.offset is None else 1
    z = np.zeros((len(x), always + (2 * _ROOM if prior.features is None else prior.features)), np.int8)
    z[:, :always] = 1
    alpha = prior.alpha if isinstance(prior.alpha, float | int) else prior.alpha[0] / prior.alpha[1]
    noise = 0.5 * spread if callable(prior.noise) else prior.noise
    scale = spread if callable(prior.scale) else prior.scale
    size = always + (prior.features or 0)
    return _Chain(centred, missing, prior, rng, z, size, float(noise), float(scale), float(alpha))


def _begun(x: np.ndarray, prior: BinaryPrior, rng: np.random.Generator, tune: int) -> tuple[_Chain, int]:
    """The best end of some short chains from nothing, and how many sweeps they took.

    Single features come and go easily, but several that together say what fewer could say better stay for long, the
    longer the more rows have them: the short chains see some of the rows only. A fixed number of features takes over
    the largest that a buffet has found. Where rows are far from zero a feature may have to be their level, and weights
    as large as that let no further feature begin: half of the short chains, or all, have an offset in its place.
    """
    sweeps, free = tune // (2 * _STARTS), prior
    every = x
    if len(x) > _SOME_ROWS and sweeps:
        x = x[np.sort(rng.choice(len(x), _SOME_ROWS, replace=False))]
    if prior.features is not None:
        free = replace(prior, features=None, alpha=1.0)
    level = _level(x) if sweeps and prior.offset is None else 0.0
    # So far that one feature at least is that of nearly all rows, chains from nothing would only ever look for it.
    kinds = [_levelled(x, free)] if level > _FAR else [free, _levelled(x, free)] if level > 1 else [free]
    ends: list[list[_Chain]] = [[] for _ in kinds]
    made = 0

    def swept(chain: _Chain) -> _Chain:
        nonlocal made
        for _ in range(sweeps):
            _step(chain)
            made += 1
        return chain

    for start in range(_STARTS if sweeps else 1):
        ends[start % len(kinds)].append(swept(start_values(x, kinds[start % len(kinds)], rng)))
    leaders = [max(same, key=_height) for same in ends]
    for end in leaders:
        # What is missing now hardly begins later.
        for _ in range(_MORE if end.prior.offset is not prior.offset else 0):
            swept(end)
    best = max((_adopted(end, x, prior) for end in leaders), key=_height)
    return (best if len(x) == len(every) else _extended(best, every)), made


def _level(x: np.ndarray) -> float:
    """How far from zero rows are, in sds that they vary by."""
    observed = x[:, ~np.isnan(x).all(axis=0)]
    spread = np.mean(np.nanvar(observed, axis=0))
    return float(np.sqrt(np.mean(np.nanmean(observed, axis=0) ** 2) / spread)) if spread > 0 else 0.0


def _levelled(x: np.ndarray, prior: BinaryPrior) -> BinaryPrior:
    """The prior with an offset near the level of the rows, and weights of the size that they vary by."""
    there = ~np.isnan(x)
    centre = np.where(there, x, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    spread = float(np.sqrt(np.nanmean((x - centre) ** 2))) or 1.0
    return replace(prior, scale=lambda v: -0.5 * (v / spread) ** 2, offset=centre, offset_scale=_OFFSET_WIDTH * spread)


def _adopted(end: _Chain, x: np.ndarray, prior: BinaryPrior) -> _Chain:
    """A chain of the model's prior that begins where one of a buffet has ended: the largest of its features.

    An offset that the model has not becomes a feature of all rows.
    """
    if end.prior is prior:
        return end
    largest = end.features[:, np.argsort(-end.features.sum(axis=0), kind="stable")]
    level = end.prior.offset if prior.offset is None else None
    if level is not None:
        largest = np.hstack([np.ones((len(x), 1), np.int8), largest])
    largest = largest[:, : prior.features]
    chain = start_values(x, prior, end.rng)
    size = largest.shape[1] if prior.features is None else prior.features
    room = _ROOM if prior.features is None else 0
    chain.z = np.zeros((len(x), chain.always + size + room), np.int8)
    chain.z[:, : chain.always] = 1
    chain.z[:, chain.always : chain.always + largest.shape[1]] = largest
    chain.size, chain.noise = chain.always + size, end.noise
    if prior.features is None:
        chain.alpha = end.alpha
    if level is None:
        chain.scale, chain.x = end.scale, end.x
    else:
        chain.x = end.x + level
        if callable(prior.scale):
            chain.scale = float(np.sqrt(np.mean(chain._mean_weights()[: largest.shape[1]] ** 2)))
    return chain


def _extended(few: _Chain, x: np.ndarray) -> _Chain:
    """A chain of all rows, their features drawn given what some of them say of the weights."""
    from bayeslab.latents.features.feature_kernels import draw_rows

    weights = few.weights()
    shares = (few.features.sum(axis=0) + 0.5) / (len(few.x) + 1)
    chain = start_values(x, few.prior, few.rng)
    chain.z = np.zeros((len(x), few.z.shape[1]), np.int8)
    chain.z[:, : few.always] = 1
    chain.size, chain.noise, chain.scale, chain.alpha = few.size, few.noise, few.scale, few.alpha
    centre = np.zeros(x.shape[1]) if few.prior.offset is None else few.prior.offset + weights[0]
    z = np.zeros((len(x), len(shares)), np.int8)
    for heat in _HEATS:
        draw_rows(few.rng, x, shares, weights[few.always :], centre, heat * few.noise, z, 1)
    chain.z[:, few.always : few.size] = z
    chain.fill(weights)
    return chain


def _step(chain: _Chain) -> np.ndarray | None:
    """Everything once; the weights, where they had to be drawn to fill missing cells."""
    chain.rows()
    chain.complements()
    chain.trades()
    chain.scales_drawn()
    if not chain.missing.any():
        return None
    weights = chain.weights()
    chain.fill(weights)
    return weights


@dataclass(frozen=True, eq=False)
class FeatureSampler(Sampler):
    """Gibbs sweeps over binary features: the state is Z, the data with their missing cells filled, σ, s and α.

    What is kept of a draw are the quantities of :class:`BinaryDraws`.

    Attributes
    ----------
    rows : ndarray (N, D)
        Missing cells are NaN.
    prior : BinaryPrior
    """

    rows: np.ndarray
    prior: BinaryPrior

    def init(self, rng: np.random.Generator, tune: int) -> Arrays:
        """The best end of some short chains of together half as many sweeps as there are for tuning."""
        chain, sweeps = _begun(self.rows, self.prior, rng, tune)
        return {**_packed(chain), "searched": np.asarray(sweeps)}

    def step(self, rng: np.random.Generator, state: Arrays) -> tuple[Arrays, Arrays]:
        numbers = {name: float(state[name]) for name in ("noise", "scale", "alpha")}
        missing, z = np.isnan(self.rows), state["z"].copy()
        chain = _Chain(state["x"].copy(), missing, self.prior, rng, z, int(state["size"]), **numbers)
        weights = _step(chain)
        weights = chain.weights() if weights is None else weights
        likelihood, joint = _heights(chain)
        offset = np.zeros(self.rows.shape[1]) if self.prior.offset is None else self.prior.offset + weights[0]
        kept: dict[str, Any] = {
            "z": chain.features.copy(),
            "loading": weights[chain.always :],
            "probability": chain.probabilities(),
            "offset": offset,
            "size": chain.size - chain.always,
            "n_features": int(chain.features.any(axis=0).sum()),
            "log_likelihood": likelihood,
            "log_joint": joint,
        }
        kept |= {name: float(getattr(chain, name)) for name in numbers}
        return _packed(chain), {name: np.asarray(value) for name, value in kept.items()}


def _packed(chain: _Chain) -> Arrays:
    numbers = {name: np.asarray(float(getattr(chain, name))) for name in ("noise", "scale", "alpha")}
    return {"x": chain.x, "z": chain.z, "size": np.asarray(chain.size), **numbers}


def draws_of(kept: Arrays, n_draws: int) -> BinaryDraws:
    """The draws of one chain of a :class:`FeatureSampler`."""
    sizes = kept["size"][:n_draws].tolist()
    return BinaryDraws(
        z=[z[:, :k] for z, k in zip(kept["z"], sizes, strict=False)],
        loading=[weights[:k] for weights, k in zip(kept["loading"], sizes, strict=False)],
        probability=[p[:k] for p, k in zip(kept["probability"], sizes, strict=False)],
        **{f.name: kept[f.name][:n_draws] for f in fields(BinaryDraws)[3:]},
    )


def sample(x: np.ndarray, prior: BinaryPrior, *, draws: int, tune: int, rng: np.random.Generator) -> BinaryDraws:
    """One chain of Gibbs sweeps."""
    return draws_of(run(FeatureSampler(x, prior), rng, draws, tune), draws)


def _height(chain: _Chain) -> float:
    return _heights(chain)[1]


def _heights(chain: _Chain) -> tuple[float, float]:
    prior = chain.prior
    likelihood = log_likelihood(chain.x, chain.used, chain.noise, chain.scales(chain.scale))
    joint = likelihood + log_prior(chain.features, prior, chain.alpha)
    joint += prior.noise(chain.noise) if callable(prior.noise) else 0.0
    joint += prior.scale(chain.scale) if callable(prior.scale) else 0.0
    if isinstance(prior.alpha, tuple) and prior.features is None:
        joint += (prior.alpha[0] - 1) * np.log(chain.alpha) - prior.alpha[1] * chain.alpha
    return likelihood, float(joint)
