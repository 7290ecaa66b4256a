r"""Factor analysis and probabilistic principal components: normal factors, integrated out.

.. math:: x = m + W z + e, \quad z \sim N(0, I_K), \quad e \sim N(0, \Psi), \qquad x \sim N(m, W W' + \Psi),

Ψ diagonal: factor analysis [1]_; Ψ = σ² I: probabilistic principal components [2]_, whose maximum has a closed form
(:func:`principal_components`). The data enter through the number, the means and the scatter of the rows with the same
cells missing. Given a row z is normal with covariance M⁻¹ = (I + W' Ψ⁻¹ W)⁻¹ and mean M⁻¹ W' Ψ⁻¹ (x - m), over the
cells there are; EM regresses every column on the expected z, over the rows in which it is observed [3]_.

W and W Q have the same likelihood for every rotation Q. W Q is lower triangular with a positive diagonal for one Q; if
the entries of a row of W are independent N(0, s²), then below the diagonal those of W Q are N(0, s²) still, and the
square of the k-th diagonal entry over s² is chi-squared with K - k + 1 degrees of freedom (Bartlett's decomposition).
A posterior of W W' with that prior on triangular matrices does not depend on the order of the columns [4]_.

References
----------
.. [1] Bartholomew, Knott, Moustaki (2011). Latent Variable Models and Factor Analysis, 3rd ed. Wiley.
.. [2] Tipping, Bishop (1999). Probabilistic principal component analysis. JRSS B 61, 611-622.
.. [3] Rubin, Thayer (1982). EM algorithms for ML factor analysis. Psychometrika 47, 69-76.
.. [4] Leung, Drton (2016). Order-invariant prior specification in Bayesian factor analysis. Statistics and Probability
   Letters 111, 60-66.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.constants import HALF_LOG_2PI, LOG_2PI

__all__ = ["FactorPrior", "FactorProblem", "Patterns", "pivots", "principal_components", "scores", "triangular"]

Array = NDArray[np.float64]

# Sds of noise are not let below this share of a column's: at zero the likelihood has no slope (Heywood cases).
FLOOR = 1e-3


@dataclass(frozen=True, eq=False)
class Patterns:
    """Sufficient statistics of rows by pattern of observed cells, without empty rows.

    Attributes
    ----------
    counts, n_observed : ndarray (P,)
        Rows of each pattern, and how many cells they have.
    cells : ndarray (P, D)
        Which these are, first; the rest is filled up with zeros.
    means, scatters : ndarray (P, D), (P, D, D)
        Their means, and sums of squares and products about these.
    """

    counts: NDArray[np.int64]
    n_observed: NDArray[np.int64]
    cells: NDArray[np.int64]
    means: Array
    scatters: Array

    @classmethod
    def of(cls, rows: Array) -> Patterns:
        """From the rows, NaN where a cell is missing."""
        there = ~np.isnan(rows)
        kinds, which = np.unique(there, axis=0, return_inverse=True)
        kept = np.flatnonzero(kinds.any(axis=1))
        d = rows.shape[1]
        counts, n_observed = np.zeros(len(kept), np.int64), np.zeros(len(kept), np.int64)
        cells = np.zeros((len(kept), d), np.int64)
        means, scatters = np.zeros((len(kept), d)), np.zeros((len(kept), d, d))
        for p, kind in enumerate(kept):
            at = np.flatnonzero(kinds[kind])
            values = rows[which.ravel() == kind][:, at]
            counts[p], n_observed[p], cells[p, : len(at)] = len(values), len(at), at
            means[p, : len(at)] = values.mean(axis=0)
            apart = values - means[p, : len(at)]
            scatters[p, : len(at), : len(at)] = apart.T @ apart
        return cls(counts, n_observed, cells, means, scatters)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What the kernel is given after the parameters and the sizes."""
        return self.counts, self.n_observed, self.cells, self.means, self.scatters

    def each(self) -> Any:
        """Rows, cells, means and scatter of every pattern."""
        for n, size, cells, mean, scatter in zip(*self.arrays, strict=True):
            yield int(n), cells[:size], mean[:size], scatter[:size, :size]


@dataclass(frozen=True, eq=False)
class FactorPrior:
    """Independent priors: loadings N(0, scale²), noise half-normal, means normal.

    Attributes
    ----------
    scale : ndarray (D,)
    noise : ndarray (D,) or (1,)
        Scales of the half-normal priors of the sds.
    centre, width : ndarray (D,)
    """

    scale: Array
    noise: Array
    centre: Array
    width: Array


@dataclass(frozen=True, eq=False)
class FactorProblem:
    """For :func:`bayeslab.latents.expectation_maximisation.maximise`.

    Parameters are mean (D,), loading (D, K) and noise (D,) or (1,).

    Attributes
    ----------
    centre, spread : ndarray (D,)
        Means and sds of the columns. Without ``with_mean`` the mean is zero.
    known_noise : float or None
        The sd of the noise where it is not learned.
    """

    patterns: Patterns
    n_features: int
    shared: bool
    centre: Array
    spread: Array
    with_mean: bool = True
    prior: FactorPrior | None = None
    known_noise: float | None = None

    @property
    def n_columns(self) -> int:
        return len(self.centre)

    @property
    def n_free(self) -> int:
        """Free parameters of the likelihood: a rotation of the loadings is none."""
        d, k = self.n_columns, self.n_features
        noise = 0 if self.known_noise is not None else 1 if self.shared else d
        return d * k - k * (k - 1) // 2 + noise + (d if self.with_mean else 0)

    @property
    def floor(self) -> Array:
        """The least sds of noise (as many as there are)."""
        least = FLOOR * self.spread
        return np.array([np.sqrt(np.mean(least**2))]) if self.shared else np.maximum(least, 1e-300)

    def start(self, rng: np.random.Generator) -> dict[str, Array]:
        """Random loadings, which have the level of columns without means; noise of some two thirds of the sds."""
        loading = 0.5 * self.spread[:, None] * rng.standard_normal((self.n_columns, self.n_features))
        if not self.with_mean:
            # Scores and loadings that share a level otherwise than one to its size approach that very slowly.
            along = rng.standard_normal(self.n_features)
            loading += np.outer(self.centre, along / np.linalg.norm(along))
        noise = np.array([np.sqrt(np.mean(self.spread**2))]) if self.shared else self.spread
        noise = 0.7 * noise if self.known_noise is None else np.full(len(noise), self.known_noise)
        return {"mean": self.centre if self.with_mean else 0.0 * self.centre, "loading": loading, "noise": noise}

    def expect(self, theta: Mapping[str, Array]) -> tuple[float, dict[str, Array]]:
        """Log likelihood, and totals of z, z z' and x z over the rows in which each column is observed."""
        from bayeslab.latents.features.factor_kernels import factor_evidence

        d, k = theta["loading"].shape
        noise = np.broadcast_to(theta["noise"], (d,))
        flat = np.concatenate([theta["mean"], theta["loading"].ravel(), noise])
        value, slope = factor_evidence(flat, np.array([d, k]), *self.patterns.arrays)
        zz, xz = np.zeros((d, k + 1, k + 1)), np.zeros((d, k + 1))
        xx, n_observed = np.zeros(d), np.zeros(d)
        for n, cells, mean, scatter in self.patterns.each():
            gain, covariance = _gain(theta["loading"][cells], noise[cells])
            y = mean - self.centre[cells]
            apart = gain @ (mean - theta["mean"][cells])
            second = n * (covariance + np.outer(apart, apart)) + gain @ scatter @ gain.T
            block = np.block([[second, n * apart[:, None]], [n * apart[None, :], np.array([[float(n)]])]])
            zz[cells] += block
            xz[cells, :k] += scatter @ gain.T + n * np.outer(y, apart)
            xz[cells, k] += n * y
            xx[cells] += np.diag(scatter) + n * y**2
            n_observed[cells] += n
        return float(value), {"zz": zz, "xz": xz, "xx": xx, "n": n_observed, "slope": slope}

    def update(self, statistics: Mapping[str, Array], theta: Mapping[str, Array]) -> dict[str, Array]:
        """A regression of each column on the factors, then the noise that is left."""
        zz, xz, k = statistics["zz"].copy(), statistics["xz"].copy(), self.n_features
        variance = np.broadcast_to(theta["noise"], (self.n_columns,)) ** 2
        if self.prior is not None:
            at = np.arange(k)
            zz[:, at, at] += (variance / self.prior.scale**2)[:, None]
            zz[:, k, k] += variance / self.prior.width**2
            xz[:, k] += variance / self.prior.width**2 * (self.prior.centre - self.centre)
        if self.with_mean:
            weights = np.linalg.solve(zz, xz[:, :, None])[:, :, 0]
            mean = self.centre + weights[:, k]
        else:
            mean, level = np.zeros(self.n_columns), -self.centre
            loading = np.linalg.solve(zz[:, :k, :k], (xz[:, :k] - zz[:, :k, k] * level[:, None])[:, :, None])[:, :, 0]
            weights = np.column_stack([loading, level])
        zz, xz = statistics["zz"], statistics["xz"]
        left = statistics["xx"] - 2 * np.sum(weights * xz, axis=1) + np.einsum("dk,dkj,dj->d", weights, zz, weights)
        return {"mean": mean, "loading": weights[:, :k], "noise": self._noise(left, statistics["n"])}

    def _noise(self, left: Array, n: Array) -> Array:
        size = 1 if self.shared else self.n_columns
        if self.known_noise is not None:
            return np.full(size, self.known_noise)
        if self.shared:
            left, n = left.sum(keepdims=True), n.sum(keepdims=True)
        variance = np.maximum(left, 0) / np.maximum(n, 1)
        if self.prior is not None:
            # The highest v of -n/2 log v - left / 2v - v / 2h²: v²/h² + n v - left = 0, the stable root.
            variance = 2 * np.maximum(left, 0) / (n + np.sqrt(n**2 + 4 * np.maximum(left, 0) / self.prior.noise**2))
        return np.maximum(np.sqrt(variance), self.floor)

    def log_prior(self, theta: Mapping[str, Array]) -> float:
        """Log density of the priors, constants included; of what is not learned none."""
        if self.prior is None:
            return 0.0
        scale, k = self.prior.scale[:, None], self.n_features
        value = -0.5 * np.sum((theta["loading"] / scale) ** 2) - k * np.sum(np.log(scale))
        value -= 0.5 * theta["loading"].size * LOG_2PI
        if self.known_noise is None:
            value += np.sum(
                0.5 * np.log(2 / np.pi) - np.log(self.prior.noise) - 0.5 * (theta["noise"] / self.prior.noise) ** 2
            )
        if self.with_mean:
            z = (theta["mean"] - self.prior.centre) / self.prior.width
            value += np.sum(-0.5 * z**2 - np.log(self.prior.width) - HALF_LOG_2PI)
        return float(value)

    def flatten(self, theta: Mapping[str, Array]) -> Array:
        """Means, loadings, log sds."""
        parts = [theta["mean"]] if self.with_mean else []
        parts.append(theta["loading"].ravel())
        if self.known_noise is None:
            parts.append(np.log(theta["noise"]))
        return np.concatenate(parts)

    def unflatten(self, x: Array) -> dict[str, Array]:
        """The inverse."""
        d, k = self.n_columns, self.n_features
        at = d if self.with_mean else 0
        size = 1 if self.shared else d
        noise = np.full(size, self.known_noise) if self.known_noise is not None else None
        if noise is None:
            noise = np.maximum(np.exp(np.clip(x[at + d * k :], -300, 300)), self.floor)
        mean = x[:at] if self.with_mean else np.zeros(d)
        return {"mean": mean, "loading": x[at : at + d * k].reshape(d, k), "noise": noise}

    def gradient(self, theta: Mapping[str, Array], statistics: Mapping[str, Array]) -> Array:
        """Slope of log likelihood plus log prior, in the coordinates of :meth:`flatten`."""
        d, k = self.n_columns, self.n_features
        slope = statistics["slope"]
        mean, loading, noise = slope[:d].copy(), slope[d : d + d * k].reshape(d, k).copy(), slope[d + d * k :]
        noise = noise.sum(keepdims=True) if self.shared else noise.copy()
        if self.prior is not None:
            mean -= (theta["mean"] - self.prior.centre) / self.prior.width**2
            loading -= theta["loading"] / self.prior.scale[:, None] ** 2
            noise = noise - theta["noise"] / self.prior.noise**2
        parts = [mean] if self.with_mean else []
        parts.append(loading.ravel())
        if self.known_noise is None:
            parts.append(noise * theta["noise"])
        return np.concatenate(parts)


def _gain(loading: Array, noise: Array) -> tuple[Array, Array]:
    """M⁻¹ W' Ψ⁻¹ and M⁻¹."""
    weighted = loading / noise[:, None] ** 2
    covariance = np.linalg.inv(np.eye(loading.shape[1]) + loading.T @ weighted)
    return covariance @ weighted.T, covariance


def scores(rows: Array, mean: Array, loading: Array, noise: Array) -> tuple[Array, Array]:
    """Means (N, K) and sds (N, K) of the factors given the rows, over the cells there are."""
    there = ~np.isnan(rows)
    kinds, which = np.unique(there, axis=0, return_inverse=True)
    k = loading.shape[1]
    centre, spread = np.zeros((len(rows), k)), np.ones((len(rows), k))
    for p, kind in enumerate(kinds):
        mine = which.ravel() == p
        gain, covariance = _gain(loading[kind], np.broadcast_to(noise, (len(mean),))[kind])
        centre[mine] = (rows[mine][:, kind] - mean[kind]) @ gain.T
        spread[mine] = np.sqrt(np.diag(covariance))
    return centre, spread


def principal_components(rows: Array, n_features: int, *, with_mean: bool = True) -> dict[str, Array]:
    """The maximum of the likelihood with one noise: axes of the covariance, the noise the mean of what is left [2]_.

    Parameters
    ----------
    rows : ndarray (N, D)
        Complete.
    """
    mean = rows.mean(axis=0) if with_mean else np.zeros(rows.shape[1])
    apart = rows - mean
    values, vectors = np.linalg.eigh(apart.T @ apart / len(rows))
    values, vectors = values[::-1], vectors[:, ::-1]
    variance = float(np.mean(np.maximum(values[n_features:], 0)))
    loading = vectors[:, :n_features] * np.sqrt(np.maximum(values[:n_features] - variance, 0))
    return {"mean": mean, "loading": loading, "noise": np.array([np.sqrt(variance)])}


def pivots(loading: Array, spread: Array) -> NDArray[np.intp]:
    """An order of the columns in which the first K tell the factors apart well: pivots of a QR decomposition."""
    from scipy.linalg import qr

    return np.asarray(qr((loading / np.where(spread > 0, spread, 1.0)[:, None]).T, mode="r", pivoting=True)[1])


def triangular(loading: Array) -> Array:
    """W Q, lower triangular with a positive diagonal."""
    k = loading.shape[1]
    q, r = np.linalg.qr(loading[:k].T)
    signs = np.where(np.diag(r) < 0, -1.0, 1.0)
    return np.asarray(loading @ (q * signs))
