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
   (the default prior: see :class:`bayeslab.exact.emissions.NormalPrior`).
.. [3] Lewandowski, Kurowicka, Joe (2009). Generating random correlation matrices based on vines and extended onion
   method. J. Multivariate Analysis 100, 1989-2001, section 2.4 (C-vines).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.exact.components import DIAGONAL_GAUSSIAN, FULL_GAUSSIAN

__all__ = ["DiagonalNodes", "FullNodes", "partial_correlations", "scaled_normal", "triangles"]


@dataclass(frozen=True, eq=False)
class FullNodes:
    """Normal columns with matrices, in the coordinates L^-1 (x - m).

    Attributes
    ----------
    at : TensorVariable (K, d)
        Means.
    factors : TensorVariable (K, d, d)
        A.
    packed : TensorVariable (K, d (d + 1) / 2)
        Its lower triangles row by row.
    centre : ndarray (d,)
    root : ndarray (d, d)
        L.
    """

    at: Any
    factors: Any
    packed: Any
    centre: np.ndarray
    root: np.ndarray

    @classmethod
    def of(cls, part: Any, n_components: int, start: Mapping[str, Any] | None) -> FullNodes:
        import pymc as pm
        import pytensor.tensor as pt

        p, e = part.prefix, part.emission
        prior, d = e.prior, e.n_columns
        matrix = e.known if part.covariance == "known" else prior.scale
        root = np.linalg.cholesky(matrix)
        known_factors = None
        if start is not None:
            known_factors = np.linalg.solve(np.linalg.cholesky(e.covariances(start)), np.broadcast_to(root, (1, d, d)))
        i, j = np.tril_indices(d)
        if part.covariance == "known":
            packed = pt.constant(np.broadcast_to(np.eye(d)[i, j], (n_components, len(i))).copy())
        else:
            sets = 1 if part.covariance == "tied" else n_components
            begin = None if known_factors is None else known_factors[:sets]
            packed = triangles(p, sets, d, prior.nu, begin)
            packed = pt.repeat(packed, n_components, axis=0) if part.covariance == "tied" else packed
        factors = pt.zeros((n_components, d, d))[:, i, j].set(packed)
        begin = None if start is None else np.linalg.solve(root, (start["mean"] - prior.mean).T).T
        at = scaled_normal(f"_{p}mean", factors, packed, prior.kappa, begin)
        pm.Deterministic(f"{p}mean", prior.mean + pt.dot(at, root.T), dims=part.dims[f"{p}mean"])
        if part.covariance != "known":
            spread = pt.matmul(root, pt.linalg.inv(factors if part.covariance == "full" else factors[0]))
            covariance = pt.matmul(spread, pt.swapaxes(spread, -1, -2))
            sd = pt.sqrt(pt.diagonal(covariance, axis1=-2, axis2=-1))
            pm.Deterministic(f"{p}sd", sd, dims=part.dims[f"{p}sd"])
            pm.Deterministic(f"{p}covariance", covariance, dims=part.dims[f"{p}covariance"])
        return cls(at, factors, packed, np.asarray(prior.mean, float), root)

    @classmethod
    def separated(cls, part: Any, n_components: int, start: Mapping[str, Any] | None) -> FullNodes:
        """Sds and correlations apart: Σ = diag(sd) R diag(sd), R ~ LKJ(η).

        Partial correlations given the columns before are independent Betas on (-1, 1) [3]_: no factor of a matrix, and
        right draws (those of PyMC 6.3's LKJCholeskyCov are not, from three columns on).
        """
        import pymc as pm
        import pytensor.tensor as pt

        p, e = part.prefix, part.emission
        assert part.lkj is not None
        prior, d = e.prior, e.n_columns
        scale = np.sqrt(np.diag(prior.scale))
        i, j = np.tril_indices(d, -1)
        begin = None if start is None else partial_correlations(start["covariance"])[:, i, j]
        alpha = part.lkj + (d - 2 - j) / 2.0
        begin = None if begin is None else np.clip(0.5 + 0.5 * begin, 0.02, 0.98)
        unit = pm.Beta(f"_{p}partial", alpha, alpha, shape=(n_components, len(i)), initval=begin)
        partial = pt.zeros((n_components, d, d))[:, i, j].set(2.0 * unit - 1.0)
        # What the columns before leave unexplained.
        left = pt.cumprod(1.0 - partial**2, axis=2)[:, :, :-1]
        left = pt.concatenate([pt.ones((n_components, d, 1)), left], axis=2)
        lower = (partial + np.eye(d)) * pt.sqrt(left)
        if part.free:
            mean, sd = _given_nodes(p, start, None if start is None else _sds(start["covariance"]))
        else:
            begin = None if start is None else (start["mean"] - prior.mean) / scale
            at = pm.Normal(f"_{p}mean", 0.0, prior.kappa**-0.5, shape=(n_components, d), initval=begin)
            begin = None if start is None else np.log(_sds(start["covariance"]) / scale)
            log_sd = pm.Normal(f"_{p}log_sd", shape=(n_components, d), initval=begin)
            mean = pm.Deterministic(f"{p}mean", prior.mean + at * scale, dims=part.dims[f"{p}mean"])
            sd = pm.Deterministic(f"{p}sd", scale * pt.exp(log_sd), dims=part.dims[f"{p}sd"])
        root = sd[:, :, None] * lower
        covariance = pt.matmul(root, pt.swapaxes(root, -1, -2))
        pm.Deterministic(f"{p}covariance", covariance, dims=part.dims[f"{p}covariance"])
        factors = pt.linalg.inv(lower) * (scale / sd)[:, None, :]
        i, j = np.tril_indices(d)
        centre = np.asarray(prior.mean, float)
        return cls((mean - centre) / scale, factors, factors[:, i, j], centre, np.diag(scale))

    def whitened(self, rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.linalg.solve(self.root, (rows - self.centre).T).T)

    def squares(self, rows: np.ndarray) -> tuple[Any, Any, np.ndarray]:
        """Squared distances (N, K), halves of log determinants of precisions (N, K), and cells observed (N,)."""
        from bayeslab.posterior.observed.row_terms import normal_terms

        squares, log_det = normal_terms(self.at, self.packed, rows, self.centre, self.root)
        return squares, log_det, (~np.isnan(rows)).sum(axis=1)

    def log_density(self, rows: np.ndarray) -> Any:
        squares, log_det, observed = self.squares(rows)
        return log_det - 0.5 * squares - 0.5 * observed[:, None] * np.log(2 * np.pi)

    def kernel(self, rows: np.ndarray) -> tuple[str, list[Any], np.ndarray, float]:
        """The compiled kernel for complete rows, its parameters after the log weights, its rows, and a constant."""

        constant = -len(rows) * float(np.log(np.diag(self.root)).sum())
        return FULL_GAUSSIAN, [self.at.ravel(), self.packed.ravel()], self.whitened(rows), constant

    def draw(self, labels: Any, rows: np.ndarray) -> list[Any]:
        import pymc as pm
        import pytensor.tensor as pt

        d = len(self.centre)
        noise = pm.Normal.dist(shape=(len(rows), d))
        spread = pt.linalg.inv(self.factors)[labels]
        made = self.centre + pt.dot(self.at[labels] + (spread * noise[:, None, :]).sum(axis=-1), self.root.T)
        return [made[:, c] for c in range(d)]


def _sds(covariance: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.einsum("kii->ki", covariance)))


def partial_correlations(covariance: np.ndarray) -> np.ndarray:
    """Of two columns given those before both, below the diagonal: the way back of :meth:`FullNodes.separated`."""
    sd = _sds(covariance)
    lower = np.linalg.cholesky(covariance / (sd[:, :, None] * sd[:, None, :]))
    before = np.cumsum(lower**2, axis=2) - lower**2
    return np.asarray(np.tril(lower, -1) / np.sqrt(np.maximum(1.0 - before, 1e-12)))


def _given_nodes(prefix: str, start: Mapping[str, Any] | None, sds: np.ndarray | None) -> tuple[Any, Any]:
    """``mean`` and ``sd`` of a model that has them already, from where they are to start."""
    import pymc as pm

    built = pm.modelcontext(None)
    mean, sd = built[f"{prefix}mean"], built[f"{prefix}sd"]
    if start is not None:
        for node, value in ((mean, start["mean"]), (sd, sds)):
            if node in built.free_RVs:
                built.set_initval(node, value)
    return mean, sd


def triangles(prefix: str, sets: int, d: int, nu: float, start: np.ndarray | None) -> Any:
    """Bartlett factors of ``sets`` standard Wishart matrices, packed row by row."""
    import pymc as pm
    import pytensor.tensor as pt

    i, j = np.tril_indices(d)
    begin = None if start is None else np.einsum("kii->ki", start) ** 2
    squares = pm.ChiSquared(f"_{prefix}diagonal", nu - np.arange(d)[::-1], shape=(sets, d), initval=begin)
    if d == 1:
        return pt.sqrt(squares)
    below = i > j
    begin = None if start is None else start[:, i[below], j[below]]
    off = pm.Normal(f"_{prefix}below", shape=(sets, int(below.sum())), initval=begin)
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


@dataclass(frozen=True, eq=False)
class DiagonalNodes:
    """Normal columns, independent given the component, in the coordinates (x - m) / √ψ.

    Attributes
    ----------
    at : TensorVariable (K, d)
        Means.
    log_sd : TensorVariable (K, d)
    """

    at: Any
    log_sd: Any
    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, part: Any, n_components: int, start: Mapping[str, Any] | None) -> DiagonalNodes:
        import pymc as pm
        import pytensor.tensor as pt

        p, e = part.prefix, part.emission
        prior, d, spherical = e.prior, e.n_columns, part.covariance == "spherical"
        scale = np.sqrt(np.broadcast_to(np.mean(prior.scale) if spherical else prior.scale, (d,)).astype(float))
        own = 1 if spherical else d
        begin = None if start is None else scale[:own] ** 2 / start["variance"].reshape(n_components, own)
        precision = pm.ChiSquared(f"_{p}precision", prior.nu, shape=(n_components, own), initval=begin)
        log_sd = -0.5 * pt.log(precision)
        log_sd = pt.repeat(log_sd, d, axis=1) if spherical and d > 1 else log_sd
        begin = None if start is None else (start["mean"] - prior.mean) / scale
        width = pt.exp(log_sd) / np.sqrt(prior.kappa)
        at = pm.Normal(f"_{p}mean", 0.0, width, shape=(n_components, d), initval=begin)
        pm.Deterministic(f"{p}mean", prior.mean + at * scale, dims=part.dims[f"{p}mean"])
        sd = pt.exp(log_sd) * scale
        pm.Deterministic(f"{p}sd", sd[:, 0] if spherical else sd, dims=part.dims[f"{p}sd"])
        return cls(at, log_sd, np.asarray(prior.mean, float), scale)

    @classmethod
    def free(cls, part: Any, start: Mapping[str, Any] | None) -> DiagonalNodes:
        """Of a model that has the nodes ``mean`` and ``sd`` already."""
        import pytensor.tensor as pt

        d = len(part.columns)
        mean, sd = _given_nodes(part.prefix, start, None if start is None else np.sqrt(start["variance"]))
        log_sd = pt.log(sd) if part.covariance == "diagonal" else pt.repeat(pt.log(sd)[:, None], d, axis=1)
        return cls(mean, log_sd, np.zeros(d), np.ones(d))

    def whitened(self, rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray((rows - self.centre) / self.scale)

    def log_density(self, rows: np.ndarray) -> Any:
        import pytensor.tensor as pt

        seen = ~np.isnan(rows)
        filled = np.where(seen, self.whitened(rows), 0.0)
        apart = (filled[:, None, :] - self.at) * pt.exp(-self.log_sd)
        terms = -0.5 * apart**2 - self.log_sd - 0.5 * np.log(2 * np.pi) - np.log(self.scale)
        return (terms * seen[:, None, :]).sum(axis=-1)

    def kernel(self, rows: np.ndarray) -> tuple[str, list[Any], np.ndarray, float]:
        """As :meth:`FullNodes.kernel`."""

        constant = -len(rows) * float(np.log(self.scale).sum())
        return DIAGONAL_GAUSSIAN, [self.at.ravel(), self.log_sd.ravel()], self.whitened(rows), constant

    def draw(self, labels: Any, rows: np.ndarray) -> list[Any]:
        import pymc as pm
        import pytensor.tensor as pt

        d = len(self.centre)
        noise = pm.Normal.dist(shape=(len(rows), d))
        made = self.centre + self.scale * (self.at[labels] + pt.exp(self.log_sd[labels]) * noise)
        return [made[:, c] for c in range(d)]
