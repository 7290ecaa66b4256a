"""Process mixtures without conjugate priors: clusters keep their parameters (algorithm 8 of Neal [1]_).

A row is reassigned given all others and the parameters of their clusters; m auxiliary components, drawn from the base
distribution for each row, represent the infinitely many empty ones, with weight (α + t σ) / m each. Then parameters are
drawn given the rows of their cluster: for Student's t by gamma weights and the conjugate posterior given these; degrees
of freedom, and means and sds with any prior, by slice sampling [2]_. The density of a new row is a mixture of the
clusters' components and of a new one, an integral over the base distribution that is computed by quadrature.

References
----------
.. [1] Neal (2000). Markov chain sampling methods for Dirichlet process mixture models. J. Computational and Graphical
   Statistics 9, 249-265.
.. [2] Neal (2003). Slice sampling. Annals of Statistics 31, 705-767.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp

from bayeslab.constants import LOG_2PI, LOG_PI
from bayeslab.distributions.emissions import NormalPrior
from bayeslab.distributions.emissions.components import inverse_cholesky
from bayeslab.distributions.emissions.normal_prior import inverse_wishart
from bayeslab.errors import OptionError

__all__ = ["Atoms", "BaseLaw", "IndependentNormals", "StudentsT", "leave_one_out", "predict", "seated", "sweep"]

# Auxiliary components of each row.
AUXILIARY = 3
# Shape and rate of the Gamma prior of unknown degrees of freedom, as in other mixtures.
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
        """The log density at the mean."""
        d = self.means.shape[1]
        log_det = np.log(np.einsum("kii->ki", self.roots)).sum(axis=1)
        dof = np.where(np.isinf(self.dofs), 1.0, self.dofs)
        student = gammaln(0.5 * (dof + d)) - gammaln(0.5 * dof) - 0.5 * d * np.log(dof * np.pi)
        return log_det + np.where(np.isinf(self.dofs), -0.5 * d * LOG_2PI, student)

    def log_density(self, rows: np.ndarray) -> np.ndarray:
        """Log density of the observed cells of rows, (N, K)."""
        from bayeslab.latents.partitions.auxiliary_process_kernels import log_densities

        out = np.zeros((len(rows), len(self.means)))
        for at, columns in _patterns(rows):
            marginal = self.of_columns(columns)
            there = np.ascontiguousarray(rows[np.ix_(at, columns)])
            out[at] = log_densities(there, marginal.means, marginal.roots, marginal.dofs, marginal.constants)
        return out

    def of_columns(self, columns: np.ndarray) -> Atoms:
        """The same components for some of the columns."""
        if len(columns) == self.means.shape[1]:
            return self
        lower = np.linalg.inv(self.roots)[:, columns]
        return Atoms(self.means[:, columns], inverse_cholesky(lower @ lower.transpose(0, 2, 1)), self.dofs)

    def joined(self, other: Atoms) -> Atoms:
        """Concatenation with other components."""
        pairs = ((self.means, other.means), (self.roots, other.roots), (self.dofs, other.dofs))
        return Atoms(*(np.concatenate(pair) for pair in pairs))

    def some(self, at: np.ndarray) -> Atoms:
        """The components at given positions."""
        return Atoms(self.means[at], self.roots[at], self.dofs[at])

    def sample(self, rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
        """Draw rows from given components, (N, d)."""
        lower = np.linalg.inv(self.roots)
        noise = rng.standard_normal((len(labels), self.means.shape[1]))
        dof = self.dofs[labels]
        heavy = ~np.isinf(dof)
        noise[heavy] /= np.sqrt(rng.chisquare(dof[heavy]) / dof[heavy])[:, None]
        return self.means[labels] + np.einsum("nij,nj->ni", lower[labels], noise)


def _patterns(rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Groups of rows with the same observed columns, and the columns; empty rows are left out."""
    patterns, of_row = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        if pattern.any():
            yield np.flatnonzero(of_row.ravel() == k), np.flatnonzero(pattern)


class BaseLaw(Protocol):
    """Base distribution of the components' parameters."""

    def draw(self, rng: np.random.Generator, n: int) -> Atoms:
        """Independent components from the base distribution."""
        ...

    def update(self, rng: np.random.Generator, rows: np.ndarray, labels: np.ndarray, atoms: Atoms) -> Atoms:
        """A Markov step of the components given their rows, which leaves their posterior invariant."""
        ...

    def log_marginal(self, rows: np.ndarray) -> np.ndarray:
        """Log density of rows under a new component, integrated over the base distribution, (N,)."""
        ...


@dataclass(frozen=True, eq=False)
class IndependentNormals:
    """Independent normal columns, whose means and sds have arbitrary priors.

    Attributes
    ----------
    mean, sd : frozen distribution of scipy.stats
        Priors of the mean and sd of each column.
    widths : ndarray (d,)
        Initial widths of slices.
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

    def log_marginal(self, rows: np.ndarray) -> np.ndarray:
        out = np.zeros(len(rows))
        for column in rows.T:
            there = ~np.isnan(column)
            if not there.any():
                continue
            values, of_row = np.unique(column[there], return_inverse=True)
            parts = [self._log_marginal(some) for some in np.array_split(values, max(1, len(values) // 32))]
            out[there] += np.concatenate(parts)[of_row]
        return out

    def _log_marginal(self, x: np.ndarray) -> np.ndarray:
        """Log density for one column: nested integrals over log sd and mean, on pieces where both are smooth."""
        centre, known = float(self.mean.ppf(0.5)), self.sd.ppf(_LEVELS)
        far = np.maximum(np.abs(x - centre), 1e-3 * known[len(known) // 2])
        edges = np.concatenate([np.broadcast_to(known, (len(x), len(known))), far[:, None] * _STEPS], axis=1)
        low, high = known[0], known[-1]
        log_sd, log_weight = _pieces(np.log(np.clip(edges, low, high)))
        sd = np.exp(log_sd)
        log_weight = log_weight + log_sd + self.sd.logpdf(sd)
        if self.mean.dist.name == "norm":
            mean, spread = self.mean.stats("mv")
            given = stats.norm.logpdf(x[:, None], mean, np.sqrt(spread + sd**2))
        else:
            given = self._given_sd(x[:, None], sd)
        return np.asarray(logsumexp(given + log_weight, axis=1))

    def _given_sd(self, x: np.ndarray, sd: np.ndarray) -> np.ndarray:
        of_prior = self.mean.ppf(_LEVELS)
        near = x[..., None] + sd[..., None] * np.concatenate([-_STEPS[::-1], [0.0], _STEPS])
        edges = np.concatenate([np.broadcast_to(of_prior, (*sd.shape, len(of_prior))), near], axis=-1)
        at, log_weight = _pieces(np.clip(edges, of_prior[0], of_prior[-1]))
        logs = stats.norm.logpdf(x[..., None], at, sd[..., None]) + self.mean.logpdf(at)
        return np.asarray(logsumexp(logs + log_weight, axis=-1))


# Boundaries of the pieces of integrals: quantile levels of a prior, and distances from a value in sds.
_LEVELS = np.array(
    [1e-12, 1e-8, 1e-5, 1e-3, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999, 1 - 1e-5, 1 - 1e-8, 1 - 1e-12]
)
_STEPS = np.array([0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 20.0])
_GAUSS = np.polynomial.legendre.leggauss(8)


def _pieces(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and log weights of Gauss-Legendre rules between sorted edges, in the last axis."""
    edges = np.sort(edges, axis=-1)
    half = 0.5 * np.diff(edges, axis=-1)[..., None]
    nodes = edges[..., :-1, None] + half * (1 + _GAUSS[0])
    with np.errstate(divide="ignore"):
        weights = np.log(half * _GAUSS[1])
    shape = (*edges.shape[:-1], -1)
    return nodes.reshape(shape), weights.reshape(shape)


def _normals(means: np.ndarray, sds: np.ndarray) -> Atoms:
    roots = np.einsum("kd,de->kde", 1 / sds, np.eye(means.shape[1]))
    return Atoms(means, roots, np.full(len(means), np.inf))


@dataclass(frozen=True, eq=False)
class StudentsT:
    """Multivariate Student's t with a normal-inverse-Wishart prior of location and scale.

    ``dof`` is known, or has a Gamma(2, 0.1) prior in each component.
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

    def log_marginal(self, rows: np.ndarray) -> np.ndarray:
        """Given its weight a row is multivariate t: an integral over the weight, and degrees of freedom."""
        nu, kappa, d = self.prior.nu, self.prior.kappa, rows.shape[1]
        log_weight, log_p = self._weights
        spread = np.exp(-log_weight) + 1 / kappa
        dof, scale = nu - d + 1, np.broadcast_to(self.prior.scale, (d, d))
        out = np.zeros(len(rows))
        for at, columns in _patterns(rows):
            root = np.linalg.cholesky(scale[np.ix_(columns, columns)])
            apart = np.linalg.solve(root, (rows[np.ix_(at, columns)] - np.asarray(self.prior.mean)[columns]).T)
            square, e = np.sum(apart**2, axis=0), len(columns)
            constant = gammaln(0.5 * (dof + e)) - gammaln(0.5 * dof) - 0.5 * e * LOG_PI
            constant -= np.log(np.diag(root)).sum()
            flat = log_p - 0.5 * e * np.log(spread)
            for some in np.array_split(np.arange(len(at)), max(1, len(at) // 64)):
                logs = flat - 0.5 * (dof + e) * np.log1p(square[some, None] / spread)
                out[at[some]] = constant + logsumexp(logs, axis=1)
        return out

    @cached_property
    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes of log weights, and log probabilities of these: trapezoids, which are exact for such smooth bells."""
        if self.dof is not None:
            return _log_gamma_nodes(self.dof)
        at = np.linspace(np.log(1e-5), np.log(500.0), 60)
        prior = _DOF[0] * at - np.exp(at) * _DOF[1] + _DOF[0] * np.log(_DOF[1]) - gammaln(_DOF[0])
        nodes, logs = zip(*(_log_gamma_nodes(dof, 160) for dof in np.exp(at)), strict=True)
        whole = np.stack(logs) + (prior + np.log(at[1] - at[0]))[:, None]
        return np.concatenate(nodes), whole.ravel()


def _log_gamma_nodes(dof: float, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of the log of a Gamma(ν / 2, ν / 2) variable, and log probabilities."""
    law = stats.gamma(0.5 * dof, scale=2 / dof)
    # Below e^-50 a weight of a row leaves a density of e^-25 at most.
    low = np.log(max(float(law.ppf(1e-16)), np.exp(-50.0)))
    at = np.linspace(low, np.log(float(law.isf(1e-16))), n)
    return at, law.logpdf(np.exp(at)) + at + np.log(at[1] - at[0])


_LEAST = 1e300


def predict(
    labels: np.ndarray, atoms: Atoms, alpha: float, discount: float, rows: np.ndarray, alone: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Predict new rows, each separately, given a partition and the parameters of its clusters.

    Parameters
    ----------
    alone
        :meth:`BaseLaw.log_marginal` of the new rows.

    Returns
    -------
    log_density : ndarray (M,)
    probability : ndarray (M, K + 1)
        Probability of joining each cluster, and last a new one.
    """
    sizes = np.bincount(labels, minlength=len(atoms.means))
    new = alone + np.log(alpha + discount * len(sizes))
    logs = np.column_stack([atoms.log_density(rows) + np.log(sizes - discount), new])
    # Where all are too small for a double: nothing is as wide as the prior.
    logs[(logs == -np.inf).all(axis=1), -1] = -_LEAST
    total = logsumexp(logs, axis=1)
    density = np.where(total > -_LEAST, total - np.log(len(labels) + alpha), -np.inf)
    return density, np.exp(logs - total[:, None])


def leave_one_out(
    labels: np.ndarray, atoms: Atoms, alpha: float, discount: float, rows: np.ndarray, alone: np.ndarray
) -> np.ndarray:
    """Log density of each row given the partition of the others and the parameters of their clusters, (N,)."""
    sizes, at = np.bincount(labels, minlength=len(atoms.means)).astype(float), np.arange(len(rows))
    others = np.tile(sizes, (len(rows), 1))
    others[at, labels] -= 1
    single = sizes[labels] == 1
    with np.errstate(divide="ignore"):
        logs = atoms.log_density(rows) + np.log(np.where(others > 0, others - discount, 0.0))
    new = alone + np.log(alpha + discount * (len(sizes) - single))
    return np.asarray(logsumexp(np.column_stack([logs, new]), axis=1) - np.log(len(rows) - 1 + alpha))


def seated(
    law: BaseLaw,
    rows: np.ndarray,
    labels: np.ndarray,
    atoms: Atoms,
    alpha: float,
    discount: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, Atoms]:
    """Labels of all rows: rows after the labelled ones join clusters one by one, with fixed parameters."""
    out = list(labels)
    for row in rows[len(labels) :]:
        known, fresh = atoms, law.draw(rng, AUXILIARY)
        sizes = np.bincount(out, minlength=len(known.means))
        weights = np.append(
            np.log(sizes - discount), np.full(AUXILIARY, np.log((alpha + discount * len(sizes)) / AUXILIARY))
        )
        logs = weights + known.joined(fresh).log_density(row[None])[0]
        chosen = int(np.argmax(logs + rng.gumbel(size=len(logs))))
        if chosen >= len(sizes):
            atoms, chosen = known.joined(fresh.some(np.array([chosen - len(sizes)]))), len(sizes)
        out.append(chosen)
    return np.array(out, np.int64), atoms


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
    """One sweep: labels of rows given parameters, one after the other, then parameters given rows.

    Raises
    ------
    OptionError
        The rows have a missing cell.
    """
    from bayeslab.latents.partitions.auxiliary_process_kernels import sweep_auxiliary

    if np.isnan(rows).any():
        raise OptionError(
            "components without a conjugate prior take no missing cells here; use nuts", code="not-conjugate"
        )
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
