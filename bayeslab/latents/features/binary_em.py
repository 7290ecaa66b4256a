"""Maximum likelihood of binary factors, with the 2^K patterns of every row summed out.

The E-step is exact, unlike that of mean-field methods for the same model (Ghahramani, Jordan 1997, Machine Learning 29,
245-273, whose factorial model has independent rows here); the M-step is a regression of the rows on E[z] and E[z z'].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["BinaryModes", "BinaryProblem"]

Array = NDArray[np.float64]

# Probabilities and the noise are kept from where the likelihood has no slope.
_LEAST = 1e-9
_FLOOR = 1e-4


@dataclass(frozen=True, eq=False)
class BinaryModes:
    """Priors for a mode: loadings N(0, scale²), noise half-normal, probabilities Beta, offset N(centre, width²)."""

    scale: float
    noise: float
    probability: tuple[float, float]
    width: float


@dataclass(frozen=True, eq=False)
class BinaryProblem:
    """For :func:`bayeslab.latents.expectation_maximisation.maximise`.

    Parameters are probability (K,), loading (D, K), mean (D,) and noise (1,).
    """

    rows: Array
    n_features: int
    with_mean: bool
    known_noise: float | None = None
    prior: BinaryModes | None = None

    @cached_property
    def centre(self) -> Array:
        return np.asarray(self.rows.mean(axis=0))

    @cached_property
    def origin(self) -> Array:
        """What sums of rows are taken about, so that a large mean costs no digits: (D,)."""
        return self.centre if self.with_mean else np.zeros_like(self.centre)

    @cached_property
    def deviations(self) -> Array:
        """The rows about the origin, (N, D)."""
        return np.asarray(self.rows - self.origin)

    @property
    def spread(self) -> float:
        return float(np.sqrt(np.mean(self.rows.var(axis=0)))) or 1.0

    @property
    def n_free(self) -> int:
        """Free parameters of the likelihood."""
        d = self.rows.shape[1]
        return self.n_features * (d + 1) + (d if self.with_mean else 0) + (self.known_noise is None)

    def start(self, rng: np.random.Generator) -> dict[str, Array]:
        """Random loadings; all features in half of the rows."""
        loading = self.spread * rng.standard_normal((self.rows.shape[1], self.n_features))
        mean = self.centre - 0.5 * loading.sum(axis=1) if self.with_mean else np.zeros(len(loading))
        noise = self.spread if self.known_noise is None else self.known_noise
        return {
            "probability": np.full(self.n_features, 0.5),
            "loading": loading,
            "mean": mean,
            "noise": np.array([noise]),
        }

    def expect(self, theta: Mapping[str, Array]) -> tuple[float, dict[str, Array]]:
        """Log likelihood, and E[z], E[z z'] and E[z] x' summed over rows x about the origin."""
        from bayeslab.latents.features.feature_kernels import binary_pass

        loading = np.ascontiguousarray(theta["loading"].T)
        evidence, expected, second = binary_pass(
            theta["probability"], loading, theta["mean"], float(theta["noise"][0]), self.rows
        )
        return float(evidence.sum()), {
            "first": expected.sum(axis=0),
            "second": second,
            "moment": expected.T @ self.deviations,
        }

    def update(self, statistics: Mapping[str, Array], theta: Mapping[str, Array]) -> dict[str, Array]:
        """A regression of the rows on their features, and the noise that is left."""
        (n, d), k = self.rows.shape, self.n_features
        first, second = statistics["first"], statistics["second"]
        gram = np.block([[second, first[:, None]], [first[None, :], np.array([[float(n)]])]])
        total = np.vstack([statistics["moment"], self.deviations.sum(axis=0)])
        ridge = np.full(k + 1, 1e-10)
        a = b = 1.0
        if self.prior is not None:
            variance = float(theta["noise"][0]) ** 2
            ridge[:k], ridge[k] = variance / self.prior.scale**2, variance / self.prior.width**2
            a, b = self.prior.probability
        size = k + 1 if self.with_mean else k
        pulled = total[:size].copy()
        if self.with_mean and self.prior is not None:
            pulled[k] += ridge[k] * (self.centre - self.origin)
        weights = np.zeros((k + 1, d))
        weights[:size] = np.linalg.solve(gram[:size, :size] + np.diag(ridge[:size]), pulled)
        left = float(np.sum(self.deviations**2) - 2 * np.sum(weights * total) + np.sum(weights * (gram @ weights)))
        probability = (first + a - 1) / (n + a + b - 2)
        return {
            "probability": np.clip(probability, _LEAST, 1 - _LEAST),
            "loading": weights[:k].T,
            "mean": self.origin + weights[k],
            "noise": self._noise(max(left, 0.0), n * d),
        }

    def _noise(self, left: float, n: int) -> Array:
        if self.known_noise is not None:
            return np.array([self.known_noise])
        variance = left / n
        if self.prior is not None:
            variance = 2 * left / (n + np.sqrt(n**2 + 4 * left / self.prior.noise**2))
        return np.array([max(np.sqrt(variance), _FLOOR * self.spread)])

    def log_prior(self, theta: Mapping[str, Array]) -> float:
        """Log density of the priors, up to a constant."""
        if self.prior is None:
            return 0.0
        (a, b), p = self.prior.probability, theta["probability"]
        value = np.sum((a - 1) * np.log(p) + (b - 1) * np.log1p(-p))
        value -= 0.5 * np.sum((theta["loading"] / self.prior.scale) ** 2)
        if self.known_noise is None:
            value -= 0.5 * float(theta["noise"][0] / self.prior.noise) ** 2
        if self.with_mean:
            value -= 0.5 * np.sum(((theta["mean"] - self.centre) / self.prior.width) ** 2)
        return float(value)

    def flatten(self, theta: Mapping[str, Array]) -> Array:
        """Log odds, loadings, means, log sd."""
        p = theta["probability"]
        parts = [np.log(p) - np.log1p(-p), theta["loading"].ravel()]
        parts += [theta["mean"]] if self.with_mean else []
        parts += [np.log(theta["noise"])] if self.known_noise is None else []
        return np.concatenate(parts)

    def unflatten(self, x: Array) -> dict[str, Array]:
        """The inverse."""
        k, d = self.n_features, self.rows.shape[1]
        at = k + d * k
        noise = self.known_noise or max(float(np.exp(np.clip(x[-1], -300, 300))), _FLOOR * self.spread)
        return {
            "probability": np.clip(1 / (1 + np.exp(-np.clip(x[:k], -300, 300))), _LEAST, 1 - _LEAST),
            "loading": x[k:at].reshape(d, k),
            "mean": x[at : at + d] if self.with_mean else np.zeros(d),
            "noise": np.array([noise]),
        }

    def gradient(self, theta: Mapping[str, Array], statistics: Mapping[str, Array]) -> Array:
        """Slope of log likelihood plus log prior in the coordinates of :meth:`flatten`."""
        (n, d), p = self.rows.shape, theta["probability"]
        first, second, moment = statistics["first"], statistics["second"], statistics["moment"]
        loading, mean, noise = theta["loading"].T, theta["mean"], float(theta["noise"][0])
        centred = moment - np.outer(first, mean - self.origin)
        slope_loading = (centred - second @ loading) / noise**2
        slope_mean = (np.sum(self.rows - mean, axis=0) - first @ loading) / noise**2
        left = np.sum((self.rows - mean) ** 2) - 2 * np.sum(loading * centred) + np.sum(loading * (second @ loading))
        slope_noise, slope_odds = left / noise**2 - n * d, first - n * p
        if self.prior is not None:
            a, b = self.prior.probability
            slope_odds = slope_odds + (a - 1) * (1 - p) - (b - 1) * p
            slope_loading = slope_loading - loading / self.prior.scale**2
            slope_mean = slope_mean - (mean - self.centre) / self.prior.width**2
            slope_noise -= (noise / self.prior.noise) ** 2
        parts = [slope_odds, slope_loading.T.ravel()]
        parts += [slope_mean] if self.with_mean else []
        parts += [np.array([slope_noise])] if self.known_noise is None else []
        return np.concatenate(parts)
