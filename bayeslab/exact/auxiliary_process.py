"""Process mixtures without conjugate priors: clusters keep their parameters (algorithm 8 of Neal [1]_).

A row is reassigned given all others and the parameters of their clusters; m auxiliary components, drawn from the base
distribution for each row, stand for the infinitely many that no row has, with (α + t σ) / m each. Parameters follow
given the rows of their cluster: of Student's t by their gamma weights and the conjugate posterior given these, and
degrees of freedom, means and sds with any prior by slices [2]_.

References
----------
.. [1] Neal (2000). Markov chain sampling methods for Dirichlet process mixture models. J. Computational and Graphical
   Statistics 9, 249-265.
.. [2] Neal (2003). Slice sampling. Annals of Statistics 31, 705-767.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import gammaln

from bayeslab.errors import OptionError
from bayeslab.exact.components import inverse_cholesky
from bayeslab.exact.emissions import NormalPrior
from bayeslab.exact.emissions.normal import inverse_wishart

__all__ = ["Atoms", "BaseLaw", "IndependentNormals", "StudentsT", "sweep"]

# Auxiliary components of each row.
AUXILIARY = 3
# Of unknown degrees of freedom, as in other mixtures: shape and rate of their Gamma prior.
_DOF = 2.0, 0.1


@dataclass(frozen=True, eq=False)
class Atoms:
    """Parameters of components.

    Attributes
    ----------
    means : ndarray (K, d)
    roots : ndarray (K, d, d)
        Inverse Cholesky factors of covariances or scales.
    dofs : ndarray (K,)
        Infinite for normal components.
    """

    means: np.ndarray
    roots: np.ndarray
    dofs: np.ndarray

    @property
    def constants(self) -> np.ndarray:
        """What the log density has at the mean."""
        d = self.means.shape[1]
        log_det = np.log(np.einsum("kii->ki", self.roots)).sum(axis=1)
        dof = np.where(np.isinf(self.dofs), 1.0, self.dofs)
        student = gammaln(0.5 * (dof + d)) - gammaln(0.5 * dof) - 0.5 * d * np.log(dof * np.pi)
        return log_det + np.where(np.isinf(self.dofs), -0.5 * d * np.log(2 * np.pi), student)

    def log_density(self, rows: np.ndarray) -> np.ndarray:
        """(N, K)."""
        from bayeslab.exact._auxiliary_process_kernels import log_densities

        return np.asarray(log_densities(rows, self.means, self.roots, self.dofs, self.constants))

    def sample(self, rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
        """Rows of given components, (N, d)."""
        lower = np.linalg.inv(self.roots)
        noise = rng.standard_normal((len(labels), self.means.shape[1]))
        dof = self.dofs[labels]
        heavy = ~np.isinf(dof)
        noise[heavy] /= np.sqrt(rng.chisquare(dof[heavy]) / dof[heavy])[:, None]
        return self.means[labels] + np.einsum("nij,nj->ni", lower[labels], noise)


class BaseLaw(Protocol):
    """Where parameters come from."""

    def draw(self, rng: np.random.Generator, n: int) -> Atoms:
        """Independent components from the base distribution."""
        ...

    def update(self, rng: np.random.Generator, rows: np.ndarray, labels: np.ndarray, atoms: Atoms) -> Atoms:
        """The components given their rows: a step that leaves their posterior as it is."""
        ...


@dataclass(frozen=True, eq=False)
class IndependentNormals:
    """Normal columns, independent of each other, whose mean and sd have priors of any kind.

    Attributes
    ----------
    mean, sd : frozen distribution of scipy.stats
        Of each column of each component.
    widths : ndarray (d,)
        First steps of slices.
    """

    mean: Any
    sd: Any
    widths: np.ndarray

    def draw(self, rng: np.random.Generator, n: int) -> Atoms:
        shape = (n, len(self.widths))
        means = self.mean.rvs(size=shape, random_state=rng)
        sds = np.maximum(self.sd.rvs(size=shape, random_state=rng), 1e-300)
        return _normals(means, sds)

    def update(self, rng: np.random.Generator, rows: np.ndarray, labels: np.ndarray, atoms: Atoms) -> Atoms:
        member = np.eye(len(atoms.means))[labels]
        n = member.sum(axis=0)[:, None]
        mean = member.T @ rows / n
        scatter = np.stack([((rows[labels == k] - m) ** 2).sum(axis=0) for k, m in enumerate(mean)])
        sds = 1 / np.einsum("kii->ki", atoms.roots)

        def of_mean(at: np.ndarray) -> np.ndarray:
            return np.asarray(self.mean.logpdf(at) - 0.5 * n * (at - mean) ** 2 / sds**2)

        means = slice_step(rng, of_mean, atoms.means, np.broadcast_to(self.widths, sds.shape))
        square = scatter + n * (mean - means) ** 2

        def of_log_sd(at: np.ndarray) -> np.ndarray:
            # In log sd the density has its own size.
            return np.asarray(self.sd.logpdf(np.exp(at)) + at - n * at - 0.5 * square * np.exp(-2 * at))

        return _normals(means, np.exp(slice_step(rng, of_log_sd, np.log(sds), np.ones(sds.shape))))


def _normals(means: np.ndarray, sds: np.ndarray) -> Atoms:
    roots = np.einsum("kd,de->kde", 1 / sds, np.eye(means.shape[1]))
    return Atoms(means, roots, np.full(len(means), np.inf))


@dataclass(frozen=True, eq=False)
class StudentsT:
    """Multivariate Student's t with a normal-inverse-Wishart prior of location and scale.

    ``dof`` is given, or has a Gamma(2, 0.1) prior in each component.
    """

    prior: NormalPrior
    dof: float | None = None

    def draw(self, rng: np.random.Generator, n: int) -> Atoms:
        d = len(self.prior.mean)
        scale = np.broadcast_to(self.prior.scale, (n, d, d))
        dofs = np.full(n, self.dof) if self.dof is not None else rng.gamma(_DOF[0], 1 / _DOF[1], n)
        return self._located(rng, np.full(n, self.prior.nu), scale, np.full(n, self.prior.kappa), self.prior.mean, dofs)

    def _located(
        self,
        rng: np.random.Generator,
        nu: np.ndarray,
        scale: np.ndarray,
        kappa: np.ndarray,
        mean: np.ndarray,
        dofs: np.ndarray,
    ) -> Atoms:
        covariances = inverse_wishart(rng, nu, scale)
        noise = rng.standard_normal((len(nu), len(self.prior.mean)))
        means = mean + np.einsum("kij,kj->ki", np.linalg.cholesky(covariances), noise) / np.sqrt(kappa)[:, None]
        return Atoms(means, inverse_cholesky(covariances), np.maximum(dofs, 1e-3))

    def update(self, rng: np.random.Generator, rows: np.ndarray, labels: np.ndarray, atoms: Atoms) -> Atoms:
        count, d = len(atoms.means), rows.shape[1]
        apart = np.einsum("nij,nj->ni", atoms.roots[labels], rows - atoms.means[labels])
        square = np.sum(apart**2, axis=1)
        dofs = atoms.dofs
        if self.dof is None:

            def of_log_dof(at: np.ndarray) -> np.ndarray:
                v = np.exp(at)
                one = gammaln(0.5 * (v + d)) - gammaln(0.5 * v) - 0.5 * d * np.log(v)
                terms = one[labels] - 0.5 * (v[labels] + d) * np.log1p(square / v[labels])
                return np.bincount(labels, terms, minlength=count) + _DOF[0] * at - _DOF[1] * v

            dofs = np.exp(slice_step(rng, of_log_dof, np.log(dofs), np.ones(count)))
        weight = rng.gamma(0.5 * (dofs[labels] + d)) / (0.5 * (dofs[labels] + square))
        member = np.eye(count)[labels] * weight[:, None]
        n, held, prior = np.bincount(labels, minlength=count), member.sum(axis=0), self.prior
        mean = member.T @ rows / held[:, None]
        away = rows - mean[labels]
        scatter = np.stack(
            [(away[labels == k] * weight[labels == k, None]).T @ away[labels == k] for k in range(count)]
        )
        kappa, shift = prior.kappa + held, mean - prior.mean
        scale = prior.scale + scatter
        scale = scale + (prior.kappa * held / kappa)[:, None, None] * shift[:, :, None] * shift[:, None, :]
        centre = prior.mean + (held / kappa)[:, None] * shift
        return self._located(rng, prior.nu + n, scale, kappa, centre, dofs)


def slice_step(
    rng: np.random.Generator, log_density: Callable[[np.ndarray], np.ndarray], x: np.ndarray, width: np.ndarray
) -> np.ndarray:
    """One step of slice sampling [2]_ for each of many independent numbers, stepping out."""
    level = log_density(x) - rng.exponential(size=x.shape)
    low = x - width * rng.random(x.shape)
    high = low + width
    for _ in range(1000):
        grow = log_density(low) > level
        if not grow.any():
            break
        low = np.where(grow, low - width, low)
    for _ in range(1000):
        grow = log_density(high) > level
        if not grow.any():
            break
        high = np.where(grow, high + width, high)
    new, left = x, np.ones(x.shape, bool)
    while left.any():
        point = low + rng.random(x.shape) * (high - low)
        good = left & (log_density(point) > level)
        new = np.where(good, point, new)
        low, high = np.where(left & ~good & (point < x), point, low), np.where(left & ~good & (point >= x), point, high)
        left &= ~good & (high - low > 1e-14 * np.maximum(1.0, np.abs(x)))
    return new


def sweep(
    law: BaseLaw,
    rows: np.ndarray,
    labels: np.ndarray,
    atoms: Atoms,
    alpha: float,
    discount: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, Atoms]:
    """Rows given parameters, one after the other, then parameters given rows.

    Raises
    ------
    OptionError
        A cell is missing.
    """
    from bayeslab.exact._auxiliary_process_kernels import sweep_auxiliary

    if np.isnan(rows).any():
        raise OptionError("components without a conjugate prior take no missing cells here; use nuts")
    n, d = rows.shape
    room, count = n + AUXILIARY + 1, len(atoms.means)
    means, roots = np.zeros((room, d)), np.zeros((room, d, d))
    dofs, constants = np.zeros(room), np.zeros(room)
    means[:count], roots[:count], dofs[:count], constants[:count] = (
        atoms.means,
        atoms.roots,
        atoms.dofs,
        atoms.constants,
    )
    drawn = law.draw(rng, n * AUXILIARY)
    fresh = (drawn.means, drawn.roots, drawn.dofs, drawn.constants)
    labels = labels.astype(np.int64)
    given = (rng, rows, labels, means, roots, dofs, constants, count, fresh, AUXILIARY, alpha, discount)
    count = int(sweep_auxiliary(*given))
    kept = Atoms(means[:count].copy(), roots[:count].copy(), dofs[:count].copy())
    return labels, law.update(rng, rows, labels, kept)
