"""A density in coordinates in which it is approximately standard normal, so that NUTS needs little warm-up.

With x = mode + L z and L L' the inverse of the curvature at the mode, an approximately normal posterior has neither
scales nor correlations in z. A linear change of variables is equivalent to a mass matrix [1]_, so the draws are from
the same posterior. The benefit is few steps per draw for correlated parameters (NUTS itself learns scales only), and
few warm-up draws.

References
----------
.. [1] Neal (2011). MCMC using Hamiltonian dynamics. Handbook of Markov Chain Monte Carlo, chapter 5, section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.engines.toolbox.optimiser import Optimum, hessian, maxima, newton
from bayeslab.engines.toolbox.starts import middle, near
from bayeslab.engines.toolbox.target import Target
from bayeslab.errors import ModelError
from bayeslab.posterior.log_density import LogDensity
from bayeslab.results.psis import pareto_smoothed

__all__ = ["SEARCHES", "Whitened", "whitened"]

# Number of searches that must end at the same height, and evaluations per search.
SEARCHES = 4
_MOST = 1_000
# Draws around the mode per parameter, degrees of freedom of their t distribution, and minimum share of effective draws.
_DRAWS, _DEGREES, _LEAST_WORTH = 50, 5.0, 0.1
# Weight of the curvature at the mode, in draws per parameter.
_PRIOR = 5.0
# Smallest eigenvalue of a curvature, scaled to a unit diagonal, that counts as positive.
_FLAT = 1e-8


@dataclass(frozen=True, eq=False)
class Whitened:
    """A density as a function of z, where x = centre + scale @ z.

    Parameters
    ----------
    density : LogDensity
        The density of x.
    centre : ndarray (n_dim,)
    scale : ndarray (n_dim, n_dim)
        A non-singular matrix.
    """

    density: LogDensity
    centre: np.ndarray
    scale: np.ndarray

    @property
    def n_dim(self) -> int:
        return self.density.n_dim

    def point(self, z: np.ndarray) -> np.ndarray:
        """x at z."""
        out: np.ndarray = self.centre + self.scale @ z
        return out

    def __call__(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density of x (without the constant Jacobian) and its gradient with respect to z."""
        value, gradient = self.density(self.point(z))
        return value, self.scale.T @ gradient

    @cached_property
    def callback(self) -> Any:
        """The C callback of the log density of z."""
        from bayeslab.engines.toolbox.whitened_kernels import callback  # imports Numba

        return callback()

    @property
    def address(self) -> int:
        """Address of :attr:`callback`."""
        return int(self.callback.address)

    @property
    def arguments(self) -> int:
        """Address of :attr:`callback_arguments`."""
        return int(self.callback_arguments.ctypes.data)

    @cached_property
    def callback_arguments(self) -> np.ndarray:
        """Addresses of the density and of its arguments, the centre, and the scale by rows."""
        addresses = [self.density.address, self.density.arguments]
        numbers = np.concatenate([self.centre, np.asarray(self.scale, float).ravel()])
        return np.concatenate([np.array(addresses, np.uint64), np.ascontiguousarray(numbers).view(np.uint64)])


def whitened(
    density: LogDensity, rng: np.random.Generator, initvals: Mapping[str, Any] | None = None
) -> Whitened | str:
    """The density in coordinates whitened by the curvature at its mode, or the reason why that is not possible.

    Searches from several starts must end at the same mode, the curvature there must be negative definite, and at a
    distance of one standard deviation the density must fall approximately as a normal density does.
    """
    target = Target(density)
    try:
        at = middle(density, initvals)
        optima = maxima(target, [near(density, at, rng) for _ in range(SEARCHES)], _MOST, _silent)
    except ModelError:
        return "no start had a density"
    if len(optima) < SEARCHES or optima[0].value - optima[-1].value > 0.1:
        return _apart(optima)
    best = newton(target, optima[0].point)
    curvature = best.curvature if np.isfinite(best.curvature).all() else hessian(target, best.point)
    size = np.sqrt(np.abs(np.diagonal(curvature)))
    names = density.parameter_names()
    if not np.isfinite(curvature).all() or not size.all():
        return "the density has no curvature at its mode"
    values, vectors = np.linalg.eigh(-curvature / np.outer(size, size))
    if values[0] < _FLAT:
        worst = names[int(np.argmax(np.abs(vectors[:, 0])))]
        return f"at its highest point the density does not bend downwards along '{worst}'"
    if not best.gain < 0.01:
        return "the search for the mode did not end"
    rough = Whitened(density, best.point, (vectors / np.sqrt(values)) @ vectors.T / size[:, None])
    return _refined(rough, target, rng)


def _refined(rough: Whitened, target: Target, rng: np.random.Generator) -> Whitened | str:
    """Better coordinates, from importance-weighted draws around the mode and the gradients there."""
    n = rough.n_dim
    many = _DRAWS * n
    # Student's t, whose tails are heavier than those of a posterior.
    z = rng.standard_normal((many, n)) / np.sqrt(rng.chisquare(_DEGREES, (many, 1)) / _DEGREES)
    heights, slopes = target.many(rough.centre + z @ rough.scale.T)
    slopes = slopes @ rough.scale
    log_t = -0.5 * (_DEGREES + n) * np.log1p((z**2).sum(axis=1) / _DEGREES)
    log_weights, _ = pareto_smoothed(np.where(np.isfinite(slopes).all(axis=1), heights - log_t, -np.inf))
    weights = np.exp(log_weights)
    worth = 1.0 / float((weights**2).sum())
    if not worth > _LEAST_WORTH * many:
        return f"the posterior is not about normal: {many:,} draws around its mode are worth {worth:.0f} of it"
    weighted = weights > 0
    weights, z, slopes = weights[weighted], z[weighted], slopes[weighted]
    mean = weights @ z
    # The curvature enters like additional draws from its normal distribution.
    share = worth / (worth + _PRIOR * n)
    spread = share * ((weights * (z - mean).T) @ (z - mean)) + (1 - share) * np.eye(n)
    steep = share * ((weights * slopes.T) @ slopes) + (1 - share) * np.eye(n)
    turn = _root(geometric_mean(spread, np.linalg.inv(steep)))
    return Whitened(rough.density, rough.centre + rough.scale @ (share * mean), rough.scale @ turn)


def _root(matrix: np.ndarray) -> np.ndarray:
    """The symmetric square root of a positive definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    out: np.ndarray = (vectors * np.sqrt(values)) @ vectors.T
    return out


def geometric_mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The positive definite X with X a⁻¹ X = b."""
    root = _root(a)
    inverse = np.linalg.inv(root)
    return root @ _root(inverse @ b @ inverse) @ root


def _silent(text: str) -> None:
    """A note callback that ignores the progress of single searches."""


def _apart(optima: list[Optimum]) -> str:
    if len(optima) < SEARCHES:
        return "not every start had a density"
    highest, lowest = optima[0].value, optima[-1].value
    return f"searches for the mode ended at different heights (log density {highest:.4g} and {lowest:.4g})"
