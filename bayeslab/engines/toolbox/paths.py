"""Gaussians along the paths of quasi-Newton searches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bayeslab.engines.toolbox.gaussians import LowRank
from bayeslab.engines.toolbox.optimiser import search
from bayeslab.engines.toolbox.target import Array, Target

__all__ = ["Path", "pathfinder"]


@dataclass(frozen=True, eq=False)
class Path:
    """The best Gaussian along one optimisation path."""

    approximation: LowRank
    elbo: float
    n_steps: int


def pathfinder(
    target: Target, start: Array, rng: np.random.Generator, *, maxiter: int, maxcor: int, num_elbo_draws: int
) -> Path | None:
    """One path of Pathfinder: L-BFGS towards the mode, and the Gaussian with the highest ELBO along it.

    Returns None if no step of the path yields a Gaussian.

    References
    ----------
    Zhang, Carpenter, Gelman, Vehtari (2022). Pathfinder: parallel quasi-Newton variational inference.
    Journal of Machine Learning Research 23(306), algorithms 1, 3 and 4.
    """
    points = [start]
    limits = {"maxiter": maxiter, "maxcor": maxcor, "ftol": 1e-9, "gtol": 1e-8, "maxls": 100}
    search(target.falling, start, limits, step=lambda x: points.append(np.copy(x)))
    best: Path | None = None
    for gaussian in _gaussians(np.array(points), -target.many(np.array(points))[1], maxcor):
        drawn = gaussian.draw(rng, num_elbo_draws)
        ratios = target.many(drawn)[0] - gaussian.log_density(drawn)
        elbo = float(ratios.mean())
        if math.isfinite(elbo) and (best is None or elbo > best.elbo):
            best = Path(gaussian, elbo, len(points) - 1)
    return best


def _gaussians(points: Array, slopes: Array, maxcor: int) -> Iterator[LowRank]:
    """The Gaussian of L-BFGS at each step of a path (algorithms 3 and 4); ``slopes`` are of minus the log density."""
    alpha = np.ones(points.shape[1])
    moves: list[Array] = []
    changes: list[Array] = []
    for i in range(1, len(points)):
        s, z = points[i] - points[i - 1], slopes[i] - slopes[i - 1]
        if not np.isfinite(z).all():
            return
        if s @ z > 1e-12 * (z @ z):
            alpha = _diagonal(alpha, s, z)
            moves, changes = [*moves, s][-maxcor:], [*changes, z][-maxcor:]
        if moves:
            gaussian = _low_rank(points[i], slopes[i], alpha, np.array(moves).T, np.array(changes).T)
            if gaussian is not None:
                yield gaussian


def _diagonal(alpha: Array, s: Array, z: Array) -> Array:
    """The diagonal part of the inverse Hessian after one more step (algorithm 3; Gilbert and Lemaréchal 1989)."""
    a, b, c = alpha @ z**2, z @ s, s @ (s / alpha)
    inverse = a / (b * alpha) + z**2 / b - a * s**2 / (b * c * alpha**2)
    usable = np.isfinite(inverse).all() and (inverse > 0).all()
    return 1 / inverse if usable else alpha


def _low_rank(x: Array, slope: Array, alpha: Array, s: Array, z: Array) -> LowRank | None:
    """Algorithm 4, with the QR decomposition for every size."""
    from scipy.linalg import solve_triangular

    upper = np.triu(s.T @ z)
    n = len(upper)
    inverse = solve_triangular(upper, np.eye(n))
    corner = inverse.T @ (np.diag(np.diag(upper)) + z.T @ (alpha[:, None] * z)) @ inverse
    gamma = np.block([[np.zeros((n, n)), -inverse], [-inverse.T, corner]])
    beta = np.concatenate([alpha[:, None] * z, s], axis=1)
    scale = np.sqrt(alpha)
    basis, r = np.linalg.qr(beta / scale[:, None])
    try:
        factor = np.linalg.cholesky(np.eye(len(r)) + r @ gamma @ r.T)
    except np.linalg.LinAlgError:
        return None
    mean = x - alpha * slope - beta @ (gamma @ (beta.T @ slope))
    return LowRank(mean, scale, basis, factor) if np.isfinite(mean).all() else None
