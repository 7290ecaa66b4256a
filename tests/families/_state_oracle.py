"""Series of linear-Gaussian states as dense normal distributions, from matrices written down here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

__all__ = ["Series", "conditional", "general", "level", "log_normal", "seasonal", "trend"]


@dataclass(frozen=True, eq=False)
class Series:
    """s[1] ~ N(m, P), s[t] = F s[t-1] + N(0, Q), x[t] = H s[t]."""

    F: np.ndarray
    Q: np.ndarray
    H: np.ndarray
    m: np.ndarray
    P: np.ndarray

    def moments(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of x[1] ... x[n]: cov(s[t], s[u]) = F^(t-u) var(s[u]) for t >= u."""
        mean, covariance, state, spread = np.empty(n), np.empty((n, n)), self.m, self.P
        for u in range(n):
            mean[u] = self.H @ state
            moved = spread
            for t in range(u, n):
                covariance[t, u] = covariance[u, t] = self.H @ moved @ self.H
                moved = self.F @ moved
            state, spread = self.F @ state, self.F @ spread @ self.F.T + self.Q
        return mean, covariance

    def of(self, lengths: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """The same of independent series one after the other."""
        mean, covariance, at = np.zeros(sum(lengths)), np.zeros((sum(lengths),) * 2), 0
        for n in lengths:
            mean[at : at + n], covariance[at : at + n, at : at + n] = self.moments(n)
            at += n
        return mean, covariance


def level(sigma: float, mu: float, sd: float) -> Series:
    return Series(np.eye(1), np.eye(1) * sigma**2, np.ones(1), np.array([mu]), np.eye(1) * sd**2)


def trend(sigma_level: float, sigma_slope: float, mu: float, sd: float, slope: float, spread: float) -> Series:
    move = np.array([[1.0, 1.0], [0.0, 1.0]])
    noise, begins = np.diag([sigma_level**2, sigma_slope**2]), np.diag([sd**2, spread**2])
    return Series(move, noise, np.array([1.0, 0.0]), np.array([mu, slope]), begins)


def seasonal(period: int, sigma: float, sd: float) -> Series:
    n = period - 1
    move = np.zeros((n, n))
    move[0], move[1:, :-1] = -1.0, np.eye(n - 1)
    first = np.eye(n)[0]
    # Of PyMC's ZeroSumNormal over the whole period all effects but one.
    begins = sd**2 * (np.eye(n) - 1.0 / period)
    return Series(move, sigma**2 * np.outer(first, first), first, np.zeros(n), begins)


def general(F, Q, H, m, P) -> Series:
    return Series(*(np.asarray(x, dtype=float) for x in (F, Q, H, m, P)))


def log_normal(y: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """Log density of the cells that are there."""
    there = ~np.isnan(y)
    if not there.any():
        return 0.0
    return float(stats.multivariate_normal(mean[there], covariance[np.ix_(there, there)]).logpdf(y[there]))


def conditional(
    y: np.ndarray, mean: np.ndarray, covariance: np.ndarray, of_mean: np.ndarray, across: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of x given the cells of y that are there; ``across`` is cov(x, y) and ``own`` var(x)."""
    there = ~np.isnan(y)
    gain = np.linalg.solve(covariance[np.ix_(there, there)], across[:, there].T).T
    return of_mean + gain @ (y - mean)[there], own - gain @ across[:, there].T
