"""Normal columns as variables, in coordinates without constraints and without units.

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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.data.weak_priors import shown
from bayeslab.distributions.emissions import NormalPrior
from bayeslab.distributions.emissions.components import FULL_GAUSSIAN
from bayeslab.language.writer import Writer
from bayeslab.posterior.observed.part import Compiled

_NORMAL = "bayeslab.latents.partitions.normal_kernels:normal_terms"

__all__ = [
    "Triangular",
    "conjugate",
    "correlation_factor",
    "normal_prior_words",
    "partial_correlations",
    "products",
    "sds",
]


@dataclass(frozen=True, eq=False)
class Triangular:
    """Means and factors of precisions in the coordinates L^-1 (x - m).

    Attributes
    ----------
    at : variable (K, d)
        Means.
    factors : variable (K, d, d)
        A.
    packed : variable (K, d (d + 1) / 2)
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

    def means(self, writer: Writer) -> Any:
        """Means in the units of the data, (K, d)."""
        return self.centre + writer.dot(self.at, self.root.T)

    def matrices(self, writer: Writer, factors: Any) -> tuple[Any, Any]:
        """Square roots of the diagonals, and the covariance matrices of some factors, in the units of the data."""
        spread = (self.root[:, :, None] * writer.inverses(factors)[..., None, :, :]).sum(axis=-2)
        return writer.sqrt((spread**2).sum(axis=-1)), products(spread)

    def squares(self, writer: Writer, rows: np.ndarray) -> tuple[Any, Any, np.ndarray]:
        """Squared distances (N, K), half the log determinants of precisions (N, K), and observed cells per row (N,)."""
        squares, log_det = _normal_terms(writer, self.at, self.packed, rows, self.centre, self.root)
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


def products(factors: Any) -> Any:
    """F F' of matrices F (..., d, d)."""
    return (factors[..., :, None, :] * factors[..., None, :, :]).sum(axis=-1)


def _normal_terms(
    writer: Writer, at: Any, packed: Any, rows: np.ndarray, centre: np.ndarray, root: np.ndarray
) -> tuple[Any, Any]:
    """Squared distances and halves of log determinants of precisions, (N, K) each, over observed cells.

    Parameters
    ----------
    at, packed : variables (K, d), (K, d (d + 1) / 2)
        Means and factors in the coordinates L^-1 (x - c).
    rows : ndarray (N, d)
        NaN for missing cells.
    centre, root : ndarray
        c and L.
    """
    rows = np.ascontiguousarray(rows, dtype=float)
    kinds, kind = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
    order = np.argsort(kind.ravel(), kind="stable")
    offsets = np.append(0, np.cumsum(np.bincount(kind.ravel(), minlength=len(kinds))))
    white = np.ascontiguousarray(np.linalg.solve(root, (rows - centre).T).T)
    k = int(writer.ops.shape(at)[0] or 0)
    terms = writer.row_terms(
        _NORMAL, at, packed, (len(rows), 2 * k), rows, white, order.astype(np.int64), offsets.astype(np.int64),
        kinds.astype(np.int64), np.ascontiguousarray(centre, dtype=float), np.ascontiguousarray(root, dtype=float),
    )  # fmt: skip
    return terms[:, :k], terms[:, k:]


def conjugate(
    writer: Writer,
    called: Callable[[str], str],
    prior: NormalPrior,
    n_states: int,
    start: tuple[np.ndarray, np.ndarray] | None,
    *,
    tied: bool = False,
    known: np.ndarray | None = None,
) -> Triangular:
    """Variables with a normal-inverse-Wishart prior.

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
    root = np.linalg.cholesky(prior.scale if known is None else known)
    d = len(root)
    i, j = np.tril_indices(d)
    if known is not None:
        packed = writer.constant(np.broadcast_to(np.eye(d)[i, j], (n_states, len(i))).copy())
    else:
        sets, begin = 1 if tied else n_states, None
        if start is not None:
            begin = np.linalg.solve(np.linalg.cholesky(start[1]), np.broadcast_to(root, (1, d, d)))[:sets]
        packed = triangles(writer, called, sets, d, prior.nu, begin)
        packed = writer.ops.broadcast_to(packed, (n_states, len(i))) if tied else packed
    factors = writer.placed((n_states, d, d), (np.arange(n_states)[:, None], i, j), packed)
    begin = None if start is None else np.linalg.solve(root, (start[0] - prior.mean).T).T
    at = writer.rotated_normal(f"_{called('mean')}", factors, prior.kappa, (n_states, d), begin)
    return Triangular(at, factors, packed, np.asarray(prior.mean, float), root)


def correlation_factor(writer: Writer, name: str, eta: float, n_states: int, d: int, start: np.ndarray | None) -> Any:
    """Cholesky factors (K, d, d) of correlation matrices R ~ LKJ(η).

    Partial correlations given the previous columns are independent Beta variables on (-1, 1) [3]_. This needs no matrix
    factorisation, and draws are correct (those of PyMC 6.3's LKJCholeskyCov are not, for three or more columns).
    """
    i, j = np.tril_indices(d, -1)
    begin = None if start is None else partial_correlations(start)[:, i, j]
    alpha = eta + (d - 2 - j) / 2.0
    begin = None if begin is None else np.clip(0.5 + 0.5 * begin, 0.02, 0.98)
    unit = writer.random(name, "Beta", {"alpha": alpha, "beta": alpha}, (n_states, len(i)), start=begin)
    partial = writer.placed((n_states, d, d), (np.arange(n_states)[:, None], i, j), 2.0 * unit - 1.0)
    # The share of variance that the previous columns leave unexplained.
    left = writer.ops.along("cumprod", 1.0 - partial**2, 2)[:, :, :-1]
    left = writer.joined([np.ones((n_states, d, 1)), left], 2)
    return (partial + np.eye(d)) * writer.sqrt(left)


def partial_correlations(covariance: np.ndarray) -> np.ndarray:
    """Partial correlations of two columns given those before both, below the diagonal (:func:`correlation_factor`)."""
    sd = sds(covariance)
    lower = np.linalg.cholesky(covariance / (sd[:, :, None] * sd[:, None, :]))
    before = np.cumsum(lower**2, axis=2) - lower**2
    return np.asarray(np.tril(lower, -1) / np.sqrt(np.maximum(1.0 - before, 1e-12)))


def sds(covariance: np.ndarray) -> np.ndarray:
    """Standard deviations (K, d)."""
    return np.asarray(np.sqrt(np.einsum("kii->ki", covariance)))


def normal_prior_words(prior: NormalPrior, mean: str, spread: str) -> dict[str, str]:
    """A normal-inverse-Wishart prior as text; ``spread`` is a matrix or a standard deviation."""
    full = np.ndim(prior.scale) == 2
    law = f"InverseWishart({prior.nu:g}, {shown(prior.scale)})" if full else f"InverseGamma({prior.nu / 2:g}, s / 2)"
    words = law if full else f"{spread}² ~ {law}, s = {shown(prior.scale)}"
    return {spread: words, mean: f"Normal({shown(prior.mean)}, {spread}² / {prior.kappa:g})"}


def triangles(
    writer: Writer, called: Callable[[str], str], sets: int, d: int, nu: float, start: np.ndarray | None
) -> Any:
    """Bartlett factors of ``sets`` standard Wishart matrices, packed row by row."""
    i, j = np.tril_indices(d)
    begin = None if start is None else np.einsum("kii->ki", start) ** 2
    degrees = nu - np.arange(d)[::-1]
    squares = writer.random(f"_{called('diagonal')}", "ChiSquared", {"nu": degrees}, (sets, d), start=begin)
    if d == 1:
        return writer.sqrt(squares)
    below = i > j
    begin = None if start is None else start[:, i[below], j[below]]
    shape = sets, int(below.sum())
    off = writer.random(f"_{called('below')}", "Normal", {"mu": 0.0, "sigma": 1.0}, shape, start=begin)
    place = np.empty(len(i), int)
    place[~below], place[below] = np.arange(d), d + np.arange(below.sum())
    return writer.joined([writer.sqrt(squares), off], 1)[:, place]
