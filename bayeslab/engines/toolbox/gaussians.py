"""Gaussian approximations: their draws and densities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.engines.toolbox.target import Array

__all__ = ["Approximation", "Gaussian", "LowRank", "Mixture"]


class Approximation(Protocol):
    """An approximating distribution with draws and a density."""

    def draw(self, rng: np.random.Generator, n: int) -> Array: ...
    def log_density(self, points: Array) -> Array: ...


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A normal distribution: ``mean + factor @ z``, ``factor`` lower triangular or the standard deviations."""

    mean: Array
    factor: Array

    @property
    def diagonal(self) -> Array:
        return self.factor if self.factor.ndim == 1 else np.diag(self.factor)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        z = rng.standard_normal((n, self.mean.size))
        return self.mean + (z * self.factor if self.factor.ndim == 1 else z @ self.factor.T)

    def log_density(self, points: Array) -> Array:
        from scipy.linalg import solve_triangular

        centred = points - self.mean
        if self.factor.ndim == 1:
            z = centred / self.factor
        else:
            z = solve_triangular(self.factor, centred.T, lower=True).T
        scale = float(np.log(np.abs(self.diagonal)).sum())
        result: Array = -0.5 * (z**2).sum(axis=1) - scale - 0.5 * self.mean.size * LOG_2PI
        return result


@dataclass(frozen=True, eq=False)
class LowRank:
    """A normal distribution, covariance ``D (I + Q (L L' - I) Q') D``: ``D`` diagonal, ``Q`` orthonormal columns."""

    mean: Array
    scale: Array  # the diagonal of D
    basis: Array  # Q, (n_dim, rank)
    factor: Array  # L, lower triangular, (rank, rank)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        z = rng.standard_normal((n, self.mean.size))
        inside = z @ self.basis
        return self.mean + self.scale * (z + (inside @ self.factor.T - inside) @ self.basis.T)

    def log_density(self, points: Array) -> Array:
        from scipy.linalg import solve_triangular

        z = (points - self.mean) / self.scale
        inside = z @ self.basis
        white = solve_triangular(self.factor, inside.T, lower=True)
        squares = (z**2).sum(axis=1) - (inside**2).sum(axis=1) + (white**2).sum(axis=0)
        volume = float(np.log(np.diag(self.factor)).sum() + np.log(self.scale).sum())
        result: Array = -0.5 * squares - volume - 0.5 * self.mean.size * LOG_2PI
        return result

    def sd(self) -> Array:
        """Standard deviations of the elements."""
        inside = self.basis @ self.factor
        result: Array = self.scale * np.sqrt(1 + (inside**2).sum(axis=1) - (self.basis**2).sum(axis=1))
        return result


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of several approximations with equal weights."""

    parts: tuple[Approximation, ...]

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        share = -(-n // len(self.parts))
        drawn = np.concatenate([part.draw(rng, share) for part in self.parts])
        return rng.permutation(drawn)[:n]

    def log_density(self, points: Array) -> Array:
        each = np.stack([part.log_density(points) for part in self.parts])
        result: Array = np.logaddexp.reduce(each, axis=0) - math.log(len(self.parts))
        return result
