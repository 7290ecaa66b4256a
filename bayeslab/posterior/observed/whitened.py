"""Normal columns as nodes of a PyMC graph, in coordinates without constraints and without units.

Normal columns have a normal-inverse-Wishart prior, Σ ~ IW(ν, Ψ) and mean | Σ ~ Normal(m, Σ / κ). With
Ψ = L L' write Σ^-1 = W'W, W = A L^-1. By Bartlett's decomposition [1]_ A is lower triangular with independent
elements: normal below the diagonal, and squares on it that are χ² with ν - (d - 1 - i) degrees of freedom. So in
coordinates L^-1 (x - m) the factor of the precision is A itself, everything is of order one whatever the units of the
data, and the sampler sees no constraints.

References
----------
.. [1] Bartlett (1933). On the theory of statistical regression. Proceedings of the Royal Society of Edinburgh 53,
   260-283.
.. [2] Fraley, Raftery (2007). Bayesian regularization for normal mixture estimation. J. Classification 24, 155-181
   (the default prior: see :class:`bayeslab.distributions.emissions.NormalPrior`).
.. [3] Lewandowski, Kurowicka, Joe (2009). Generating random correlation matrices based on vines and extended onion
   method. J. Multivariate Analysis 100, 1989-2001, section 2.4 (C-vines).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.data.weak_priors import shown
from bayeslab.distributions.emissions import NormalPrior
from bayeslab.distributions.emissions.components import FULL_GAUSSIAN
from bayeslab.posterior.observed.part import Compiled

__all__ = [
    "Triangular",
    "conjugate",
    "correlation_factor",
    "language_variables",
    "normal_prior_words",
    "partial_correlations",
    "sds",
]


@dataclass(frozen=True, eq=False)
class Triangular:
    """Means and factors of precisions in the coordinates L^-1 (x - m).

    Attributes
    ----------
    at : TensorVariable (K, d)
        Means.
    factors : TensorVariable (K, d, d)
        A.
    packed : TensorVariable (K, d (d + 1) / 2)
        Its lower triangles row by row.
    centre : ndarray (d,)
        m.
    root : ndarray (d, d)
        L.
    """

    at: Any
    factors: Any
    packed: Any
    centre: np.ndarray
    root: np.ndarray

    @property
    def means(self) -> Any:
        """Means in the units of the data, (K, d)."""
        import pytensor.tensor as pt

        return self.centre + pt.dot(self.at, self.root.T)

    def matrices(self, factors: Any) -> tuple[Any, Any]:
        """Square roots of the diagonals, and the covariance matrices of some factors, in the units of the data."""
        import pytensor.tensor as pt

        spread = pt.matmul(self.root, pt.linalg.inv(factors))
        matrix = pt.matmul(spread, pt.swapaxes(spread, -1, -2))
        return pt.sqrt(pt.diagonal(matrix, axis1=-2, axis2=-1)), matrix

    def squares(self, rows: np.ndarray) -> tuple[Any, Any, np.ndarray]:
        """Squared distances (N, K), half the log determinants of precisions (N, K), and observed cells per row (N,)."""
        from bayeslab.posterior.observed.row_terms import normal_terms

        squares, log_det = normal_terms(self.at, self.packed, rows, self.centre, self.root)
        return squares, log_det, (~np.isnan(rows)).sum(axis=1)

    def compiled(self, rows: np.ndarray) -> Compiled:
        """The kernel for complete normal rows."""
        constant = -len(rows) * float(np.log(np.diag(self.root)).sum())
        white = np.ascontiguousarray(np.linalg.solve(self.root, (rows - self.centre).T).T)
        return Compiled(FULL_GAUSSIAN, [self.at.ravel(), self.packed.ravel()], white, constant)

    def drawn(self, states: Any, n_rows: int, mixing: Any = None) -> Any:
        """Rows (n_rows, d) given their states; ``mixing`` multiplies precisions row by row."""
        import pymc as pm
        import pytensor.tensor as pt

        noise = pm.Normal.dist(shape=(n_rows, len(self.centre)))
        noise = noise if mixing is None else noise / pt.sqrt(mixing)[:, None]
        spread = pt.linalg.inv(self.factors)[states]
        return self.centre + pt.dot(self.at[states] + (spread * noise[:, None, :]).sum(axis=-1), self.root.T)


def conjugate(
    called: Callable[[str], str],
    prior: NormalPrior,
    n_states: int,
    start: tuple[np.ndarray, np.ndarray] | None,
    *,
    tied: bool = False,
    known: np.ndarray | None = None,
) -> Triangular:
    """Variables with a normal-inverse-Wishart prior, on PyMC's context stack.

    Parameters
    ----------
    called
        Maps parameter names to names of variables, as :meth:`.part.StatePart.called`.
    start
        Means (K, d) and matrices (K, d, d), or (1, d, d) for a single matrix.
    tied
        Whether all states share one matrix.
    known : ndarray (d, d), optional
        The matrix of all states.
    """
    import pytensor.tensor as pt

    root = np.linalg.cholesky(prior.scale if known is None else known)
    d = len(root)
    i, j = np.tril_indices(d)
    if known is not None:
        packed = pt.constant(np.broadcast_to(np.eye(d)[i, j], (n_states, len(i))).copy())
    else:
        sets, begin = 1 if tied else n_states, None
        if start is not None:
            begin = np.linalg.solve(np.linalg.cholesky(start[1]), np.broadcast_to(root, (1, d, d)))[:sets]
        packed = triangles(called, sets, d, prior.nu, begin)
        packed = pt.repeat(packed, n_states, axis=0) if tied else packed
    factors = pt.zeros((n_states, d, d))[:, i, j].set(packed)
    begin = None if start is None else np.linalg.solve(root, (start[0] - prior.mean).T).T
    at = scaled_normal(f"_{called('mean')}", factors, packed, prior.kappa, begin)
    return Triangular(at, factors, packed, np.asarray(prior.mean, float), root)


def correlation_factor(name: str, eta: float, n_states: int, d: int, start: np.ndarray | None) -> Any:
    """Cholesky factors (K, d, d) of correlation matrices R ~ LKJ(η), on PyMC's context stack.

    Partial correlations given the previous columns are independent Beta variables on (-1, 1) [3]_. This needs no matrix
    factorisation, and draws are correct (those of PyMC 6.3's LKJCholeskyCov are not, for three or more columns).
    """
    import pymc as pm
    import pytensor.tensor as pt

    i, j = np.tril_indices(d, -1)
    begin = None if start is None else partial_correlations(start)[:, i, j]
    alpha = eta + (d - 2 - j) / 2.0
    begin = None if begin is None else np.clip(0.5 + 0.5 * begin, 0.02, 0.98)
    unit = pm.Beta(name, alpha, alpha, shape=(n_states, len(i)), initval=begin)
    partial = pt.zeros((n_states, d, d))[:, i, j].set(2.0 * unit - 1.0)
    # The share of variance that the previous columns leave unexplained.
    left = pt.cumprod(1.0 - partial**2, axis=2)[:, :, :-1]
    left = pt.concatenate([pt.ones((n_states, d, 1)), left], axis=2)
    return (partial + np.eye(d)) * pt.sqrt(left)


def partial_correlations(covariance: np.ndarray) -> np.ndarray:
    """Partial correlations of two columns given those before both, below the diagonal (:func:`correlation_factor`)."""
    sd = sds(covariance)
    lower = np.linalg.cholesky(covariance / (sd[:, :, None] * sd[:, None, :]))
    before = np.cumsum(lower**2, axis=2) - lower**2
    return np.asarray(np.tril(lower, -1) / np.sqrt(np.maximum(1.0 - before, 1e-12)))


def sds(covariance: np.ndarray) -> np.ndarray:
    """Standard deviations (K, d)."""
    return np.asarray(np.sqrt(np.einsum("kii->ki", covariance)))


def language_variables(starts: Mapping[str, np.ndarray | None]) -> tuple[Any, ...]:
    """Variables that the model on PyMC's context stack already has, with their start values."""
    import pymc as pm

    built = pm.modelcontext(None)
    for name, value in starts.items():
        if value is not None and built[name] in built.free_RVs:
            built.set_initval(built[name], value)
    return tuple(built[name] for name in starts)


def normal_prior_words(prior: NormalPrior, mean: str, spread: str) -> dict[str, str]:
    """A normal-inverse-Wishart prior as text; ``spread`` is a matrix or a standard deviation."""
    full = np.ndim(prior.scale) == 2
    law = f"InverseWishart({prior.nu:g}, {shown(prior.scale)})" if full else f"InverseGamma({prior.nu / 2:g}, s / 2)"
    words = law if full else f"{spread}² ~ {law}, s = {shown(prior.scale)}"
    return {spread: words, mean: f"Normal({shown(prior.mean)}, {spread}² / {prior.kappa:g})"}


def triangles(called: Callable[[str], str], sets: int, d: int, nu: float, start: np.ndarray | None) -> Any:
    """Bartlett factors of ``sets`` standard Wishart matrices, packed row by row."""
    import pymc as pm
    import pytensor.tensor as pt

    i, j = np.tril_indices(d)
    begin = None if start is None else np.einsum("kii->ki", start) ** 2
    squares = pm.ChiSquared(f"_{called('diagonal')}", nu - np.arange(d)[::-1], shape=(sets, d), initval=begin)
    if d == 1:
        return pt.sqrt(squares)
    below = i > j
    begin = None if start is None else start[:, i[below], j[below]]
    off = pm.Normal(f"_{called('below')}", shape=(sets, int(below.sum())), initval=begin)
    place = np.empty(len(i), int)
    place[~below], place[below] = np.arange(d), d + np.arange(below.sum())
    return pt.concatenate([pt.sqrt(squares), off], axis=1)[:, place]


def scaled_normal(name: str, factors: Any, packed: Any, kappa: float, start: np.ndarray | None) -> Any:
    """u with A u ~ Normal(0, I / κ), row by row of A (K, d, d)."""
    import pymc as pm
    import pytensor.tensor as pt

    def logp(value: Any, a: Any) -> Any:
        z = (a * value[..., None, :]).sum(axis=-1)
        log_det = pt.log(pt.diagonal(a, axis1=-2, axis2=-1)).sum()
        size = value.shape[0] * value.shape[1]
        return log_det - 0.5 * kappa * (z**2).sum() + 0.5 * size * np.log(kappa / (2 * np.pi))

    def random(a: np.ndarray, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        z = rng.standard_normal(a.shape[:-1]) / np.sqrt(kappa)
        return np.linalg.solve(a, z[..., None])[..., 0]

    return pm.CustomDist(name, factors, logp=logp, random=random, signature="(k,d,d)->(k,d)", initval=start)
