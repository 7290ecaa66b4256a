"""What a hidden state emits: distributions of rows, one set of parameters for each of K states.

Mixtures and hidden Markov models share these. Rows are a float array (N, D), with NaN for a missing
cell and level codes 0, 1, … for categories; missing cells are summed out. Parameters are plain
dictionaries of arrays whose first axis is the state, unless a parameter is shared by all states.

An emission offers what its conjugacy allows:

===========================  ==========================================================================
``log_density``              log p(row | state), (N, K)
``statistics``               expected sufficient statistics under responsibilities (N, K)
``maximise``                 the M-step: maximum likelihood, or the joint mode when ``prior`` is set
``log_prior``                log density of the prior, up to a constant; 0 without
``n_free``                   free parameters, for BIC
``with_prior``               the same emission with a weak prior scaled by the data
``degenerate``               which states collapsed (no rows, no spread), given the columns' variances
``sample``                   rows from given states
``draw``                     parameters from the conjugate posterior given statistics [conjugate]
``expected_log_density``     E log p(row | state) under that posterior, for variational EM [conjugate]
``log_marginal``             log evidence of weighted rows, parameters integrated out [conjugate]
``log_base``                 the part of the log density that no parameter enters [conjugate]
===========================  ==========================================================================

Statistics of Gaussians are (weight, mean, scatter about that mean), not raw sums, so that data far
from zero lose no digits.

References
----------
.. [1] McLachlan, Krishnan (2008). The EM Algorithm and Extensions, 2nd ed.
.. [2] Little, Rubin (2002). Statistical Analysis with Missing Data, 2nd ed., section 11.2 (missing cells).
.. [3] Liu, Rubin (1995). ML estimation of the t distribution using EM and its extensions. Statistica Sinica 5, 19-39.
.. [4] Fraley, Raftery (2007). Bayesian regularization for normal mixture estimation. J. Classification 24, 155-181.
.. [5] Bishop (2006). Pattern Recognition and Machine Learning, section 10.2.
.. [6] Liu, Rubin, Wu (1998). Parameter expansion to accelerate EM. Biometrika 85, 755-770.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, Self

import numpy as np
from scipy.special import betaln, digamma, expit, gammaln, multigammaln

from bayeslab.errors import DataError, OptionError, hint
from bayeslab.exact.components import inverse_cholesky

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "DiagonalGaussian",
    "Emission",
    "Exponential",
    "FullGaussian",
    "NormalPrior",
    "Parameters",
    "Poisson",
    "Product",
    "Regression",
    "Statistics",
    "StudentT",
    "column_variances",
    "gaussian",
]

type Parameters = Mapping[str, Any]
type Statistics = dict[str, Any]

_LOG_2PI = float(np.log(2 * np.pi))
# The logarithm of zero, small enough to be impossible and finite so that 0 · log 0 = 0.
_LOG_ZERO = -1e30


class Emission(Protocol):
    """What mixtures and hidden Markov models ask of a family. Conjugate ones offer more: see the module."""

    @property
    def n_columns(self) -> int: ...
    def check(self, rows: np.ndarray) -> None: ...
    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray: ...
    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics: ...
    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters: ...
    def log_prior(self, parameters: Parameters) -> float: ...
    def n_free(self, n_states: int) -> int: ...
    def with_prior(self, rows: np.ndarray, n_states: int) -> Self: ...
    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray: ...
    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray: ...
    def features(self, rows: np.ndarray) -> np.ndarray: ...


def _safe_log(p: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(p), _LOG_ZERO)


def _impossible(log_density: np.ndarray) -> np.ndarray:
    return np.where(log_density < 0.1 * _LOG_ZERO, -np.inf, log_density)


def _observed(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values with zeros for missing cells, and 1 where a cell is observed."""
    seen = ~np.isnan(rows)
    return np.where(seen, rows, 0.0), seen.astype(float)


def _ratio(top: np.ndarray, bottom: np.ndarray, otherwise: np.ndarray | float) -> np.ndarray:
    """top / bottom, and ``otherwise`` where a state has no rows."""
    good = bottom > 0
    return np.where(good, top / np.where(good, bottom, 1.0), otherwise)


def _scaled(rows: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and sd 1, missing cells at the mean: for distances."""
    seen = ~np.isnan(rows)
    count = np.maximum(seen.sum(axis=0), 1)
    mean = np.where(seen, rows, 0.0).sum(axis=0) / count
    apart = np.where(seen, rows - mean, 0.0)
    sd = np.sqrt((apart**2).sum(axis=0) / count)
    return apart / np.where(sd > 0, sd, 1.0)


def column_variances(rows: np.ndarray) -> np.ndarray:
    """Variances of the columns over their observed cells."""
    seen = ~np.isnan(rows)
    count = np.maximum(seen.sum(axis=0), 1)
    mean = np.where(seen, rows, 0.0).sum(axis=0) / count
    return (np.where(seen, rows - mean, 0.0) ** 2).sum(axis=0) / count


def _means(rows: np.ndarray) -> np.ndarray:
    seen = ~np.isnan(rows)
    return np.where(seen, rows, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)


def _check_shape(rows: np.ndarray, n_columns: int) -> None:
    if rows.ndim != 2 or rows.shape[1] != n_columns:
        raise DataError(f"rows have shape {rows.shape}; this emission has {n_columns} columns")
    if np.isinf(rows).any():
        raise DataError(f"column {int(np.argwhere(np.isinf(rows))[0, 1])} holds an infinite value; remove it")


def _check_values(rows: np.ndarray, good: np.ndarray, what: str) -> None:
    bad = ~(good | np.isnan(rows))
    if bad.any():
        n, j = np.argwhere(bad)[0]
        raise DataError(f"row {n}, column {j} is {rows[n, j]:g}; {what}")


def _refuse_constant(rows: np.ndarray, why: str) -> None:
    scale = np.abs(_means(rows)) + 1e-300
    for j in np.flatnonzero(np.sqrt(column_variances(rows)) <= 1e-12 * scale):
        raise DataError(f"column {j} is constant: {why}; drop the column, or give the components a prior (method: map)")


# --------------------------------------------------------------------------------- gaussian


@dataclass(frozen=True, eq=False)
class NormalPrior:
    """Normal-inverse-Wishart: Σ ~ IW(ν, Ψ) and mean | Σ ~ Normal(m, Σ / κ).

    For variances (diagonal, spherical) each is the one-dimensional case: σ² ~ InverseGamma(ν / 2, ψ / 2).
    """

    mean: np.ndarray
    kappa: float
    nu: float
    scale: np.ndarray

    @classmethod
    def weak(cls, rows: np.ndarray, n_states: int, *, diagonal: bool) -> NormalPrior:
        """Fraley and Raftery's default [4]_: worth 0.01 rows for the mean, a K-th of the data's volume."""
        d = rows.shape[1]
        variance = column_variances(rows)
        variance = np.where(variance > 0, variance, 1.0)
        if diagonal:
            return cls(_means(rows), 0.01, 3.0, variance / n_states**2)
        complete = rows[~np.isnan(rows).any(axis=1)]
        scale = np.diag(variance)
        if len(complete) > d + 1:
            covariance = np.cov(complete.T, bias=True).reshape(d, d)
            # A little of the diagonal keeps it proper when columns depend on each other.
            scale = covariance + 1e-6 * np.diag(variance)
        return cls(_means(rows), 0.01, d + 2.0, scale / n_states ** (2 / d))


def gaussian(
    n_columns: int,
    covariance: Literal["full", "tied", "diagonal", "spherical", "known"] = "full",
    *,
    known: np.ndarray | float | None = None,
    prior: NormalPrior | None = None,
) -> FullGaussian | DiagonalGaussian:
    """Normal rows.

    Parameters
    ----------
    covariance
        Each state its own matrix (full), variances (diagonal) or one variance (spherical); one matrix
        for all states (tied); or ``known``: a variance or a matrix, the same for all states.
    """
    if (covariance == "known") != (known is not None):
        raise OptionError("covariance 'known' and the known variance or matrix go together: give both or neither")
    if covariance == "known":
        matrix = np.asarray(known, float)
        matrix = matrix * np.eye(n_columns) if matrix.ndim == 0 else np.diag(matrix) if matrix.ndim == 1 else matrix
        if matrix.shape != (n_columns, n_columns) or not np.all(np.linalg.eigvalsh(matrix) > 0):
            raise OptionError(f"the known covariance of {n_columns} columns must be positive definite")
        return FullGaussian(n_columns, "known", matrix, prior)
    if covariance in ("full", "tied"):
        return FullGaussian(n_columns, covariance, None, prior)
    if covariance in ("diagonal", "spherical"):
        return DiagonalGaussian(n_columns, covariance, prior)
    allowed = ("full", "tied", "diagonal", "spherical", "known")
    raise OptionError(f"unknown covariance '{covariance}'{hint(covariance, allowed)}")


def _patterns(rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Groups of rows with the same observed columns: (row numbers, observed columns)."""
    seen = ~np.isnan(rows)
    if seen.all():
        yield np.arange(len(rows)), np.arange(rows.shape[1])
        return
    # Sorting whole rows of flags is slow; packed into bytes they are short strings.
    packed = np.packbits(seen, axis=1)
    _, first, kind = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_index=True, return_inverse=True)
    for number, example in enumerate(first):
        yield np.flatnonzero(kind.ravel() == number), np.flatnonzero(seen[example])


def _matrices(parameters: Parameters, n_states: int, name: str) -> np.ndarray:
    matrix = parameters[name]
    return matrix if matrix.ndim == 3 else np.broadcast_to(matrix, (n_states, *matrix.shape))


def _gaussian_log_density(rows: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    from bayeslab.exact._component_kernels import full_gaussian_log_density

    if not np.isnan(rows).any():
        return full_gaussian_log_density(
            np.ascontiguousarray(rows), np.ascontiguousarray(means), inverse_cholesky(covariances)
        )
    out = np.zeros((len(rows), len(means)))
    for at, seen in _patterns(rows):
        if len(seen):
            part = inverse_cholesky(covariances[:, seen[:, None], seen])
            some = np.ascontiguousarray(rows[np.ix_(at, seen)])
            out[at] = full_gaussian_log_density(some, np.ascontiguousarray(means[:, seen]), part)
    return out


def _squares(rows: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared Mahalanobis distances over observed cells (N, K), and how many cells those are (N,)."""
    out = np.zeros((len(rows), len(means)))
    for at, seen in _patterns(rows):
        if len(seen):
            factors = inverse_cholesky(covariances[:, seen[:, None], seen])
            for k, factor in enumerate(factors):
                z = (rows[np.ix_(at, seen)] - means[k, seen]) @ factor.T
                out[at, k] = np.einsum("ni,ni->n", z, z)
    return out, (~np.isnan(rows)).sum(axis=1)


def _moments_about(
    rows: np.ndarray, weights: np.ndarray, spread_weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Σ w (x - m) and Σ w (x - m)(x - m)' + Σ v C with missing cells at their expectation.

    C is the covariance of a row's missing cells given its observed ones, w ``weights`` and v
    ``spread_weights`` (they differ for Student's t).
    """
    n_states, d = means.shape
    first, second = np.zeros((n_states, d)), np.zeros((n_states, d, d))
    for at, seen in _patterns(rows):
        lost = np.setdiff1d(np.arange(d), seen)
        for k in range(n_states):
            apart = np.zeros((len(at), d))
            apart[:, seen] = rows[np.ix_(at, seen)] - means[k, seen]
            if len(lost):
                within = covariances[k][np.ix_(lost, lost)]
                if len(seen):
                    slope = np.linalg.solve(covariances[k][np.ix_(seen, seen)], covariances[k][np.ix_(seen, lost)])
                    apart[:, lost] = apart[:, seen] @ slope
                    within = within - covariances[k][np.ix_(lost, seen)] @ slope
                second[k][np.ix_(lost, lost)] += spread_weights[at, k].sum() * within
            weighted = weights[at, k, None] * apart
            first[k] += weighted.sum(axis=0)
            second[k] += weighted.T @ apart
    return first, second


def _about_mean(weight: np.ndarray, first: np.ndarray, second: np.ndarray, about: np.ndarray) -> Statistics:
    """(weight, mean, scatter) from sums of full Gaussians about some point."""
    shift = _ratio(first, weight[:, None], 0.0)
    scatter = second - weight[:, None, None] * shift[:, :, None] * shift[:, None, :]
    return {"weight": weight, "mean": about + shift, "scatter": scatter}


def _start_moments(rows: np.ndarray, responsibilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances to complete missing cells with before there are parameters: variances only."""
    filled, seen = _observed(rows)
    weight = responsibilities.T @ seen
    overall, variance = _means(rows), column_variances(rows)
    mean = _ratio(responsibilities.T @ (filled - overall * seen), weight, 0.0) + overall
    apart = np.stack([responsibilities[:, k] @ ((filled - m) ** 2 * seen) for k, m in enumerate(mean)])
    spread = _ratio(apart, weight, variance)
    spread = np.where(spread > 0, spread, np.where(variance > 0, variance, 1.0))
    return mean, np.stack([np.diag(v) for v in spread])


@dataclass(frozen=True, eq=False)
class FullGaussian:
    """Normal rows with covariance matrices: see :func:`gaussian`.

    Parameters ``mean`` (K, d) and ``covariance``: (K, d, d) if full, (d, d) if tied, absent if known.
    """

    n_columns: int
    covariance: Literal["full", "tied", "known"] = "full"
    known: np.ndarray | None = None
    prior: NormalPrior | None = None

    def check(self, rows: np.ndarray) -> None:
        _check_shape(rows, self.n_columns)
        if self.prior is None and self.covariance != "known":
            _refuse_constant(rows, "every covariance would be singular")

    def covariances(self, parameters: Parameters) -> np.ndarray:
        """(K, d, d), whatever is shared."""
        n_states = len(parameters["mean"])
        if self.covariance == "known":
            return np.broadcast_to(self._matrix(), (n_states, self.n_columns, self.n_columns))
        return _matrices(parameters, n_states, "covariance")

    def _matrix(self) -> np.ndarray:
        assert self.known is not None
        return self.known

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        return _gaussian_log_density(rows, parameters["mean"], self.covariances(parameters))

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        if parameters is None:
            means, covariances = _start_moments(rows, responsibilities)
        else:
            means, covariances = parameters["mean"], self.covariances(parameters)
        first, second = _moments_about(rows, responsibilities, responsibilities, means, covariances)
        return _about_mean(responsibilities.sum(axis=0), first, second, means)

    def one_pass(
        self, log_weights: np.ndarray, parameters: Parameters, rows: np.ndarray, row_weights: np.ndarray
    ) -> tuple[float, Statistics]:
        """E-step and statistics of a mixture of complete rows at once, nothing of size N · K stored."""
        from bayeslab.exact._component_kernels import full_gaussian_pass

        factors = inverse_cholesky(self.covariances(parameters))
        mean = np.ascontiguousarray(parameters["mean"])
        value, counts, first, second = full_gaussian_pass(rows, row_weights, log_weights, mean, factors)
        return value, _about_mean(counts, first, second, mean)

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        n, mean, scatter = statistics["weight"], statistics["mean"], statistics["scatter"]
        d = self.n_columns
        if (prior := self.prior) is not None:
            shrink = prior.kappa * n / (prior.kappa + n)
            apart = mean - prior.mean
            mean = prior.mean + apart * (n / (prior.kappa + n))[:, None]
            scatter = scatter + shrink[:, None, None] * apart[:, :, None] * apart[:, None, :]
        if self.covariance == "known":
            return {"mean": mean}
        if self.covariance == "tied":
            total = n.sum()
            if prior is not None:
                scatter, total = prior.scale + scatter.sum(axis=0), prior.nu + total + len(n) + d + 1
                return {"mean": mean, "covariance": scatter / total}
            return {"mean": mean, "covariance": scatter.sum(axis=0) / total}
        if prior is not None:
            return {"mean": mean, "covariance": (prior.scale + scatter) / (prior.nu + n + d + 2)[:, None, None]}
        return {"mean": mean, "covariance": _ratio(scatter, n[:, None, None], 0.0)}

    def log_prior(self, parameters: Parameters) -> float:
        if (prior := self.prior) is None:
            return 0.0
        mean, covariances, d = parameters["mean"], self.covariances(parameters), self.n_columns
        factors = inverse_cholesky(covariances)
        z = np.einsum("kij,kj->ki", factors, mean - prior.mean)
        log_det = -2 * np.log(np.einsum("kii->ki", factors)).sum(axis=1)
        value = -0.5 * prior.kappa * np.sum(z**2) - 0.5 * log_det.sum()
        if self.covariance == "known":
            return float(value)
        if self.covariance == "tied":
            factors, log_det = factors[:1], log_det[:1]
        trace = np.einsum("kij,jl,kil->k", factors, prior.scale, factors)
        return float(value - 0.5 * np.sum((prior.nu + d + 1) * log_det + trace))

    def n_free(self, n_states: int) -> int:
        d = self.n_columns
        matrices = {"full": n_states, "tied": 1, "known": 0}[self.covariance]
        return n_states * d + matrices * d * (d + 1) // 2

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        return replace(self, prior=NormalPrior.weak(rows, n_states, diagonal=False))

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        if self.covariance == "known":
            return np.zeros(len(parameters["mean"]), bool)
        sd = np.sqrt(np.maximum(variances, 1e-300))
        scaled = self.covariances(parameters) / (sd[:, None] * sd)
        lowest = np.linalg.eigvalsh(np.nan_to_num(scaled))[:, 0]
        return (lowest < 1e-9) | ~np.isfinite(scaled).all(axis=(1, 2))

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        lower = np.linalg.cholesky(self.covariances(parameters))
        noise = rng.standard_normal((len(states), self.n_columns))
        return parameters["mean"][states] + np.einsum("nij,nj->ni", lower[states], noise)

    def features(self, rows: np.ndarray) -> np.ndarray:
        return _scaled(rows)

    # ------------------------------------------------------------------ conjugate

    def _posterior(self, statistics: Statistics) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """κ, m, ν, Ψ of each state."""
        prior = _prior_of(self)
        if self.covariance == "tied":
            raise OptionError("one covariance for all components has no closed form here; use full or diagonal")
        n, mean, scatter = statistics["weight"], statistics["mean"], statistics["scatter"]
        kappa, apart = prior.kappa + n, mean - prior.mean
        centre = prior.mean + apart * (n / kappa)[:, None]
        outer = apart[:, :, None] * apart[:, None, :]
        return kappa, centre, prior.nu + n, prior.scale + scatter + (prior.kappa * n / kappa)[:, None, None] * outer

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        if np.isnan(rows).any():
            raise OptionError("full covariances with missing cells have no closed form; use covariance: diagonal")
        return np.zeros(len(rows))

    def draw(self, rng: np.random.Generator, statistics: Statistics) -> Parameters:
        kappa, centre, nu, scale = self._posterior(statistics)
        n_states, d = centre.shape
        if self.covariance == "known":
            lower = np.broadcast_to(np.linalg.cholesky(self._matrix()), (n_states, d, d))
        else:
            covariance = np.stack([_inverse_wishart(rng, v, s) for v, s in zip(nu, scale, strict=True)])
            lower = np.linalg.cholesky(covariance)
        noise = np.einsum("kij,kj->ki", lower, rng.standard_normal((n_states, d)))
        mean = centre + noise / np.sqrt(kappa)[:, None]
        return {"mean": mean} if self.covariance == "known" else {"mean": mean, "covariance": covariance}

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        kappa, centre, nu, scale = self._posterior(statistics)
        d = self.n_columns
        if self.covariance == "known":
            covariances = np.broadcast_to(self._matrix(), (len(kappa), d, d))
            return _gaussian_log_density(rows, centre, covariances) - 0.5 * d / kappa
        # Log density at the matrix Ψ / ν, corrected for E log |Λ| and the mean's own spread.
        plain = _gaussian_log_density(rows, centre, scale / nu[:, None, None])
        log_det = digamma(0.5 * (nu[:, None] - np.arange(d))).sum(axis=1) + d * np.log(2 / nu)
        return plain + 0.5 * log_det - 0.5 * d / kappa

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        kappa, _, nu, scale = self._posterior(statistics)
        prior, n, d = _prior_of(self), statistics["weight"], self.n_columns
        volume = 0.5 * d * np.log(prior.kappa / kappa) - 0.5 * n * d * _LOG_2PI
        if self.covariance == "known":
            inverse = np.linalg.inv(self._matrix())
            square = np.einsum("kij,ji->k", scale - prior.scale, inverse)
            return volume - 0.5 * n * np.linalg.slogdet(self._matrix())[1] - 0.5 * square
        gamma = multigammaln(prior.nu / 2, d)
        out = np.array([multigammaln(v / 2, d) for v in nu]) - gamma + volume + 0.5 * n * d * np.log(2)
        return out + 0.5 * (prior.nu * np.linalg.slogdet(prior.scale)[1] - nu * np.linalg.slogdet(scale)[1])


def _prior_of(emission: Any) -> Any:
    if emission.prior is None:
        raise OptionError("this needs a prior for the components: use `with_prior`, or give one")
    return emission.prior


def _inverse_wishart(rng: np.random.Generator, nu: float, scale: np.ndarray) -> np.ndarray:
    """By Bartlett's decomposition of the Wishart precision."""
    d = len(scale)
    bartlett = np.tril(rng.standard_normal((d, d)), -1)
    bartlett[np.diag_indices(d)] = np.sqrt(rng.chisquare(nu - np.arange(d)))
    # Λ = C A A' C' with C C' = Ψ^-1, so Σ = L A^-T A^-1 L' with L L' = Ψ and C = L^-T.
    half = np.linalg.solve(bartlett, np.linalg.cholesky(scale).T)
    return half.T @ half


@dataclass(frozen=True, eq=False)
class DiagonalGaussian:
    """Normal rows with independent columns: see :func:`gaussian`.

    Parameters ``mean`` (K, d) and ``variance``: (K, d), or (K,) if spherical.
    """

    n_columns: int
    covariance: Literal["diagonal", "spherical"] = "diagonal"
    prior: NormalPrior | None = None

    def check(self, rows: np.ndarray) -> None:
        _check_shape(rows, self.n_columns)
        if self.prior is None and self.covariance == "diagonal":
            _refuse_constant(rows, "every variance would be zero")

    def variances(self, parameters: Parameters) -> np.ndarray:
        """(K, d)."""
        variance = parameters["variance"]
        return variance if variance.ndim == 2 else np.repeat(variance[:, None], self.n_columns, axis=1)

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        from bayeslab.exact._component_kernels import diagonal_gaussian_log_density

        log_sds = 0.5 * np.log(self.variances(parameters))
        return diagonal_gaussian_log_density(
            np.ascontiguousarray(rows), np.ascontiguousarray(parameters["mean"]), log_sds
        )

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        filled, seen = _observed(rows)
        about = _means(rows)
        apart = (filled - about) * seen
        weight = responsibilities.T @ seen
        shift = _ratio(responsibilities.T @ apart, weight, 0.0)
        scatter = np.stack([responsibilities[:, k] @ ((apart - s) ** 2 * seen) for k, s in enumerate(shift)])
        return {"weight": weight, "mean": about + shift, "scatter": scatter}

    def one_pass(
        self, log_weights: np.ndarray, parameters: Parameters, rows: np.ndarray, row_weights: np.ndarray
    ) -> tuple[float, Statistics]:
        """As :meth:`FullGaussian.one_pass`."""
        from bayeslab.exact._component_kernels import diagonal_gaussian_pass

        mean = np.ascontiguousarray(parameters["mean"])
        log_sds = 0.5 * np.log(self.variances(parameters))
        value, counts, first, second = diagonal_gaussian_pass(rows, row_weights, log_weights, mean, log_sds)
        shift = _ratio(first, counts[:, None], 0.0)
        scatter = second - counts[:, None] * shift**2
        weight = np.repeat(counts[:, None], self.n_columns, axis=1)
        return value, {"weight": weight, "mean": mean + shift, "scatter": scatter}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        n, mean, scatter = statistics["weight"], statistics["mean"], statistics["scatter"]
        d = self.n_columns
        if (prior := self.prior) is None:
            if self.covariance == "diagonal":
                return {"mean": mean, "variance": _ratio(scatter, n, 0.0)}
            return {"mean": mean, "variance": _ratio(scatter.sum(axis=1), n.sum(axis=1), 0.0)}
        apart = mean - prior.mean
        mean = prior.mean + apart * n / (prior.kappa + n)
        scatter = scatter + prior.kappa * n / (prior.kappa + n) * apart**2
        if self.covariance == "diagonal":
            return {"mean": mean, "variance": (prior.scale + scatter) / (prior.nu + n + 3)}
        total = np.mean(prior.scale) + scatter.sum(axis=1)
        return {"mean": mean, "variance": total / (prior.nu + n.sum(axis=1) + d + 2)}

    def log_prior(self, parameters: Parameters) -> float:
        if (prior := self.prior) is None:
            return 0.0
        variance, mean = self.variances(parameters), parameters["mean"]
        value = -0.5 * np.sum(np.log(variance) + prior.kappa * (mean - prior.mean) ** 2 / variance)
        if self.covariance == "diagonal":
            return float(value - 0.5 * np.sum((prior.nu + 2) * np.log(variance) + prior.scale / variance))
        one = variance[:, 0]
        return float(value - 0.5 * np.sum((prior.nu + 2) * np.log(one) + np.mean(prior.scale) / one))

    def n_free(self, n_states: int) -> int:
        return n_states * (self.n_columns + (self.n_columns if self.covariance == "diagonal" else 1))

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        return replace(self, prior=NormalPrior.weak(rows, n_states, diagonal=True))

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        total = variances if self.covariance == "diagonal" else np.full_like(variances, variances.max())
        return ~(self.variances(parameters) > 1e-9 * np.maximum(total, 1e-300)).all(axis=1)

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        sd = np.sqrt(self.variances(parameters))[states]
        return parameters["mean"][states] + sd * rng.standard_normal(sd.shape)

    def features(self, rows: np.ndarray) -> np.ndarray:
        return _scaled(rows)

    # ------------------------------------------------------------------ conjugate

    def _posterior(self, statistics: Statistics) -> tuple[np.ndarray, ...]:
        """κ, m, ν, ψ of each state and column; for spherical ν, ψ with a last axis of one."""
        prior = _prior_of(self)
        n, mean, scatter = statistics["weight"], statistics["mean"], statistics["scatter"]
        kappa, apart = prior.kappa + n, mean - prior.mean
        spread = scatter + prior.kappa * n / kappa * apart**2
        centre = prior.mean + apart * n / kappa
        if self.covariance == "diagonal":
            return kappa, centre, prior.nu + n, prior.scale + spread
        nu, scale = prior.nu + n.sum(axis=1), np.mean(prior.scale) + spread.sum(axis=1)
        return kappa, centre, nu[:, None], scale[:, None]

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        return np.zeros(len(rows))

    def draw(self, rng: np.random.Generator, statistics: Statistics) -> Parameters:
        kappa, centre, nu, scale = self._posterior(statistics)
        variance = scale / rng.chisquare(nu)
        mean = centre + rng.standard_normal(centre.shape) * np.sqrt(variance / kappa)
        return {"mean": mean, "variance": variance if self.covariance == "diagonal" else variance[:, 0]}

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        kappa, centre, nu, scale = self._posterior(statistics)
        precision = np.broadcast_to(nu / scale, centre.shape)
        log_precision = np.broadcast_to(digamma(nu / 2) - np.log(scale / 2), centre.shape)
        filled, seen = _observed(rows)
        about = _means(rows)
        apart, offset = (filled - about) * seen, centre - about
        constant = log_precision - _LOG_2PI - 1 / kappa - precision * offset**2
        return 0.5 * (seen @ constant.T + apart @ (2 * precision * offset).T - apart**2 @ precision.T)

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        kappa, _, nu, scale = self._posterior(statistics)
        prior, n = _prior_of(self), statistics["weight"]
        out = (0.5 * np.log(prior.kappa / kappa) - 0.5 * n * _LOG_2PI).sum(axis=1)
        before = prior.scale if self.covariance == "diagonal" else np.mean(prior.scale)
        gammas = gammaln(nu / 2) - gammaln(prior.nu / 2)
        return out + (gammas + 0.5 * prior.nu * np.log(before / 2) - 0.5 * nu * np.log(scale / 2)).sum(axis=1)


# --------------------------------------------------------------------------------- Student's t


@dataclass(frozen=True, eq=False)
class StudentT:
    """Multivariate Student's t rows: normal rows whose precision is scaled by a gamma variable.

    Parameters ``mean`` (K, d), ``scale`` (K, d, d) and ``dof`` (K,). With ``dof`` given it is fixed,
    otherwise learned between 0.5 and 200 by EM (with a prior: Gamma(2, 0.1)).
    """

    n_columns: int
    dof: float | None = None
    prior: NormalPrior | None = None

    def check(self, rows: np.ndarray) -> None:
        _check_shape(rows, self.n_columns)
        if self.dof is not None and not self.dof > 0:
            raise OptionError(f"degrees of freedom are positive, not {self.dof:g}")
        if self.prior is None:
            _refuse_constant(rows, "every scale would be singular")

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        scale, dof = parameters["scale"], parameters["dof"]
        squares, observed = _squares(rows, parameters["mean"], scale)
        out = np.zeros_like(squares)
        for at, seen in _patterns(rows):
            log_det = np.linalg.slogdet(scale[:, seen[:, None], seen])[1] if len(seen) else np.zeros(len(dof))
            out[at] = -0.5 * log_det
        d = observed[:, None]
        constant = gammaln(0.5 * (dof + d)) - gammaln(0.5 * dof) - 0.5 * d * np.log(dof * np.pi)
        return out + constant - 0.5 * (dof + d) * np.log1p(squares / dof)

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        if parameters is None:
            means, scales = _start_moments(rows, responsibilities)
            dof = np.full(len(means), self.dof or 10.0)
        else:
            means, scales, dof = parameters["mean"], parameters["scale"], parameters["dof"]
        squares, observed = _squares(rows, means, scales)
        d = observed[:, None]
        precision = (dof + d) / (dof + squares)
        log_precision = digamma(0.5 * (dof + d)) - np.log(0.5 * (dof + squares))
        weights = responsibilities * precision
        first, second = _moments_about(rows, weights, responsibilities, means, scales)
        out = _about_mean(weights.sum(axis=0), first, second, means)
        gap = (responsibilities * (log_precision - precision)).sum(axis=0)
        return out | {"count": responsibilities.sum(axis=0), "gap": gap}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        u, n, mean, scatter = (statistics[name] for name in ("weight", "count", "mean", "scatter"))
        if (prior := self.prior) is not None:
            apart = mean - prior.mean
            mean = prior.mean + apart * (u / (prior.kappa + u))[:, None]
            outer = apart[:, :, None] * apart[:, None, :]
            scatter = prior.scale + scatter + (prior.kappa * u / (prior.kappa + u))[:, None, None] * outer
            scale = scatter / (prior.nu + n + self.n_columns + 2)[:, None, None]
        else:
            # Parameter-expanded EM [6]_: over the weights' sum, not the count; as monotone, and faster.
            scale = _ratio(scatter, u[:, None, None], 0.0)
        if self.dof is not None:
            dof = np.full(len(n), float(self.dof))
        else:
            dof = np.array([self._best_dof(c, g) for c, g in zip(n, statistics["gap"], strict=True)])
        return {"mean": mean, "scale": scale, "dof": dof}

    def _best_dof(self, count: float, gap: float) -> float:
        """Root of the M-step's equation for ν: its function is concave in log ν's range of interest."""
        from scipy.optimize import brentq

        def slope(dof: float) -> float:
            half = 0.5 * dof
            out = 0.5 * (count * (np.log(half) + 1 - digamma(half)) + gap)
            return out + (1 / dof - 0.1 if self.prior is not None else 0.0)

        low, high = 0.5, 200.0
        if slope(low) <= 0:
            return low
        return high if slope(high) >= 0 else float(brentq(slope, low, high, xtol=1e-12, rtol=1e-12))

    def log_prior(self, parameters: Parameters) -> float:
        if self.prior is None:
            return 0.0
        normal = FullGaussian(self.n_columns, prior=self.prior)
        value = normal.log_prior({"mean": parameters["mean"], "covariance": parameters["scale"]})
        if self.dof is not None:
            return value
        return value + float(np.sum(np.log(parameters["dof"]) - 0.1 * parameters["dof"]))

    def n_free(self, n_states: int) -> int:
        return FullGaussian(self.n_columns).n_free(n_states) + (n_states if self.dof is None else 0)

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        return replace(self, prior=NormalPrior.weak(rows, n_states, diagonal=False))

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        same = {"mean": parameters["mean"], "covariance": parameters["scale"]}
        return FullGaussian(self.n_columns).degenerate(same, variances)

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        lower, dof = np.linalg.cholesky(parameters["scale"])[states], parameters["dof"][states]
        noise = np.einsum("nij,nj->ni", lower, rng.standard_normal((len(states), self.n_columns)))
        return parameters["mean"][states] + noise / np.sqrt(rng.chisquare(dof) / dof)[:, None]

    def features(self, rows: np.ndarray) -> np.ndarray:
        return _scaled(rows)


# --------------------------------------------------------------------------------- categories


@dataclass(frozen=True, eq=False)
class Categorical:
    """Columns of level codes 0 … L - 1, independent given the state (naive Bayes, latent class).

    Parameter ``probability`` (K, d, L), L the largest number of levels; beyond a column's levels zero.
    The prior is one Dirichlet concentration for all levels, or an array (K, d, L) or (d, L).
    """

    levels: tuple[int, ...]
    prior: float | np.ndarray | None = None

    @property
    def n_columns(self) -> int:
        return len(self.levels)

    def check(self, rows: np.ndarray) -> None:
        _check_shape(rows, self.n_columns)
        good = (rows >= 0) & (rows < np.array(self.levels)) & (rows == np.floor(rows))
        _check_values(rows, good, "level codes are 0, 1, … below the column's number of levels")

    def _used(self) -> np.ndarray:
        return np.arange(max(self.levels)) < np.array(self.levels)[:, None]

    def _codes(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seen = ~np.isnan(rows)
        return np.where(seen, rows, 0.0).astype(np.int64), seen

    def _sum(self, table: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Σ over observed cells of table[k, j, x_nj], (N, K)."""
        codes, seen = self._codes(rows)
        out = np.zeros((len(rows), len(table)))
        for j in range(self.n_columns):
            out += np.where(seen[:, j, None], table[:, j].T[codes[:, j]], 0.0)
        return out

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        return _impossible(self._sum(_safe_log(parameters["probability"]), rows))

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        codes, seen = self._codes(rows)
        size, n_states = max(self.levels), responsibilities.shape[1]
        counts = np.zeros((n_states, self.n_columns, size))
        for j in range(self.n_columns):
            at = codes[seen[:, j], j]
            for k in range(n_states):
                counts[k, j] = np.bincount(at, responsibilities[seen[:, j], k], size)
        return {"counts": counts}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        counts = statistics["counts"]
        if self.prior is not None:
            counts = np.where(self._used(), np.maximum(counts + self.prior - 1, 0.0), 0.0)
        uniform = self._used() / np.array(self.levels)[:, None]
        return {"probability": _ratio(counts, counts.sum(axis=-1, keepdims=True), uniform)}

    def log_prior(self, parameters: Parameters) -> float:
        if self.prior is None:
            return 0.0
        p = parameters["probability"]
        exponent = np.broadcast_to(np.asarray(self.prior, float) - 1, p.shape)
        used = np.broadcast_to(self._used(), p.shape) & (exponent != 0)
        return float(np.sum(exponent[used] * _safe_log(p[used])))

    def n_free(self, n_states: int) -> int:
        return n_states * (sum(self.levels) - self.n_columns)

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        return replace(self, prior=1.0)

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        return np.zeros(len(parameters["probability"]), bool)

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        cumulated = np.cumsum(parameters["probability"], axis=-1)[states]
        point = rng.random((len(states), self.n_columns, 1)) * cumulated[..., -1:]
        return (point >= cumulated).sum(axis=-1).astype(float)

    def features(self, rows: np.ndarray) -> np.ndarray:
        codes, seen = self._codes(rows)
        parts = [np.eye(n)[codes[:, j]] * seen[:, j, None] for j, n in enumerate(self.levels)]
        return np.concatenate(parts, axis=1)

    # ------------------------------------------------------------------ conjugate

    def _concentration(self, statistics: Statistics) -> np.ndarray:
        """Dirichlet concentrations; 1 at unused levels so that gammas there are zero on both sides."""
        return np.where(self._used(), statistics["counts"] + _prior_of(self), 1.0)

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        return np.zeros(len(rows))

    def draw(self, rng: np.random.Generator, statistics: Statistics) -> Parameters:
        gammas = np.where(self._used(), rng.standard_gamma(self._concentration(statistics)), 0.0)
        return {"probability": gammas / gammas.sum(axis=-1, keepdims=True)}

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        a = self._concentration(statistics)
        total = np.where(self._used(), a, 0.0).sum(axis=-1, keepdims=True)
        return self._sum(digamma(a) - digamma(total), rows)

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        used = self._used()

        def log_beta(a: np.ndarray) -> np.ndarray:
            parts = np.where(used, gammaln(a), 0.0).sum(axis=-1) - gammaln(np.where(used, a, 0.0).sum(axis=-1))
            return parts.sum(axis=-1)

        after = self._concentration(statistics)
        before = np.broadcast_to(np.where(used, _prior_of(self), 1.0), after.shape)
        return log_beta(after) - log_beta(before)


# ------------------------------------------------------- columns with one parameter each


class _OneParameter:
    """Columns that are independent with one parameter each and a conjugate prior (a, b).

    A cell counts with ``won`` and ``base``: log p = won · f(θ) + base · g(θ) + h(x).
    """

    n_columns: int
    prior: tuple[np.ndarray | float, np.ndarray | float] | None
    name: str

    def _split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _logs(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """f(θ) and g(θ)."""
        raise NotImplementedError

    def _expected_logs(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _log_normaliser(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _ml(self, won: np.ndarray, base: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _mode(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _draw(self, rng: np.random.Generator, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        return np.zeros(len(rows))

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        won, base = self._split(rows)
        f, g = self._logs(parameters[self.name])
        return _impossible(won @ f.T + base @ g.T + self.log_base(rows)[:, None])

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        won, base = self._split(rows)
        return {"won": responsibilities.T @ won, "base": responsibilities.T @ base}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        won, base = statistics["won"], statistics["base"]
        if self.prior is None:
            return {self.name: self._ml(won, base)}
        return {self.name: self._mode(self.prior[0] + won, self.prior[1] + base)}

    def log_prior(self, parameters: Parameters) -> float:
        if self.prior is None:
            return 0.0
        f, g = self._logs(parameters[self.name])
        a, b = self._exponents()
        # 0 · log 0 is 0 here because the logarithm of zero is finite.
        return float(np.sum(a * f + b * g))

    def _exponents(self) -> tuple[np.ndarray | float, np.ndarray | float]:
        assert self.prior is not None
        return np.asarray(self.prior[0]) - 1, np.asarray(self.prior[1])

    def n_free(self, n_states: int) -> int:
        return n_states * self.n_columns

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        return ~np.isfinite(parameters[self.name]).all(axis=1)

    def features(self, rows: np.ndarray) -> np.ndarray:
        return _scaled(rows)

    def _posterior(self, statistics: Statistics) -> tuple[np.ndarray, np.ndarray]:
        prior = _prior_of(self)
        return prior[0] + statistics["won"], prior[1] + statistics["base"]

    def draw(self, rng: np.random.Generator, statistics: Statistics) -> Parameters:
        return {self.name: self._draw(rng, *self._posterior(statistics))}

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        won, base = self._split(rows)
        f, g = self._expected_logs(*self._posterior(statistics))
        return won @ f.T + base @ g.T + self.log_base(rows)[:, None]

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        a, b = self._posterior(statistics)
        before = (np.broadcast_to(p, a.shape) for p in _prior_of(self))
        return (self._log_normaliser(a, b) - self._log_normaliser(*before)).sum(axis=1)


class _Proportion(_OneParameter):
    """Probabilities with Beta(a, b) priors; ``won`` successes, ``base`` failures."""

    name = "probability"

    def _logs(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _safe_log(theta), _safe_log(1 - theta)

    def _expected_logs(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)

    def _log_normaliser(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return betaln(a, b)

    def _ml(self, won: np.ndarray, base: np.ndarray) -> np.ndarray:
        return _ratio(won, won + base, 0.5)

    def _mode(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self._ml(np.maximum(a - 1, 0.0), np.maximum(b - 1, 0.0))

    def _exponents(self) -> tuple[np.ndarray | float, np.ndarray | float]:
        assert self.prior is not None
        return np.asarray(self.prior[0]) - 1, np.asarray(self.prior[1]) - 1

    def _draw(self, rng: np.random.Generator, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return rng.beta(a, b)


class _Rate(_OneParameter):
    """Rates with Gamma(a, b) priors; log p = won · log θ - base · θ + h(x)."""

    name = "rate"

    def _logs(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _safe_log(theta), -theta

    def _expected_logs(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return digamma(a) - np.log(b), -a / b

    def _log_normaliser(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return gammaln(a) - a * np.log(b)

    def _ml(self, won: np.ndarray, base: np.ndarray) -> np.ndarray:
        return _ratio(won, base, 1.0)

    def _mode(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.maximum(a - 1, 0.0) / b

    def _draw(self, rng: np.random.Generator, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return rng.gamma(a) / b


@dataclass(frozen=True, eq=False)
class Bernoulli(_Proportion):
    """Columns of 0 and 1. Parameter ``probability`` (K, d); prior Beta (a, b)."""

    n_columns: int
    prior: tuple[np.ndarray | float, np.ndarray | float] | None = None

    def check(self, rows: np.ndarray) -> None:
        _check_shape(rows, self.n_columns)
        _check_values(rows, (rows == 0) | (rows == 1), "Bernoulli columns hold 0 and 1")

    def _split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        filled, seen = _observed(rows)
        return filled, seen - filled

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        return replace(self, prior=(1.0, 1.0))

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        p = parameters["probability"][states]
        return (rng.random(p.shape) < p).astype(float)


@dataclass(frozen=True, eq=False)
class Binomial(_Proportion):
    """Columns of successes in so many ``trials`` each. Parameter ``probability`` (K, d); prior Beta (a, b).

    With ``trials`` None the rows have 2 d columns: d of successes, then their d numbers of trials.
    """

    n_outcomes: int
    trials: int | tuple[int, ...] | None
    prior: tuple[np.ndarray | float, np.ndarray | float] | None = None

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        return self.n_outcomes * (2 if self.trials is None else 1)

    def _cells(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        won = rows[:, : self.n_outcomes]
        trials = rows[:, self.n_outcomes :] if self.trials is None else np.asarray(self.trials, float)
        return won, np.broadcast_to(trials, won.shape)

    def check(self, rows: np.ndarray) -> None:
        _check_shape(rows, self.n_columns)
        won, trials = self._cells(rows)
        good = (won >= 0) & (won <= trials) & (won == np.floor(won))
        _check_values(won, good, "successes are whole numbers from 0 to the number of trials")

    def _split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        won, trials = self._cells(rows)
        seen = ~(np.isnan(won) | np.isnan(trials))
        return np.where(seen, won, 0.0), np.where(seen, trials - won, 0.0)

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        won, lost = self._split(rows)
        return (gammaln(won + lost + 1) - gammaln(won + 1) - gammaln(lost + 1)).sum(axis=1)

    def n_free(self, n_states: int) -> int:
        return n_states * self.n_outcomes

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        return replace(self, prior=(1.0, 1.0))

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        if self.trials is None:
            raise OptionError("successes can only be simulated with fixed trials; give `trials`")
        p = parameters["probability"][states]
        return rng.binomial(np.broadcast_to(self.trials, p.shape), p).astype(float)


@dataclass(frozen=True, eq=False)
class Poisson(_Rate):
    """Columns of counts. Parameter ``rate`` (K, d); prior Gamma (shape, rate)."""

    n_columns: int
    prior: tuple[np.ndarray | float, np.ndarray | float] | None = None

    def check(self, rows: np.ndarray) -> None:
        _check_shape(rows, self.n_columns)
        _check_values(rows, (rows >= 0) & (rows == np.floor(rows)), "counts are whole numbers from 0")

    def _split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _observed(rows)

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        return -gammaln(_observed(rows)[0] + 1).sum(axis=1)

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        mean = _means(rows)
        return replace(self, prior=(1.0, 1 / np.where(mean > 0, mean, 1.0)))

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        return rng.poisson(parameters["rate"][states]).astype(float)


@dataclass(frozen=True, eq=False)
class Exponential(_Rate):
    """Columns of positive times. Parameter ``rate`` (K, d); prior Gamma (shape, rate)."""

    n_columns: int
    prior: tuple[np.ndarray | float, np.ndarray | float] | None = None

    def check(self, rows: np.ndarray) -> None:
        _check_shape(rows, self.n_columns)
        _check_values(rows, rows >= 0, "times are not negative")

    def _split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        filled, seen = _observed(rows)
        return seen, filled

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        """A component on zeros alone has an infinite rate."""
        return ~(1e9 / np.sqrt(np.maximum(variances, 1e-300)) > parameters["rate"]).all(axis=1)

    def _ml(self, won: np.ndarray, base: np.ndarray) -> np.ndarray:
        return np.where(won > 0, _ratio(won, base, np.inf), 1.0)

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        mean = _means(rows)
        return replace(self, prior=(1.0, np.where(mean > 0, mean, 1.0)))

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        return rng.exponential(1 / parameters["rate"][states])

    def features(self, rows: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            logs = np.log(rows)
        return _scaled(np.where(np.isfinite(logs), logs, np.nan))


# --------------------------------------------------------------------------------- mixed columns


@dataclass(frozen=True, eq=False)
class Product:
    """Groups of columns that are independent given the state, each with an emission of its own.

    Parameters are those of the parts, their names after the part's: ``height.mean``.
    """

    parts: Mapping[str, tuple[tuple[int, ...], Any]]

    @property
    def n_columns(self) -> int:
        return sum(len(columns) for columns, _ in self.parts.values())

    @property
    def prior(self) -> Any:
        priors = [emission.prior for _, emission in self.parts.values()]
        return None if any(p is None for p in priors) else priors

    def _each(self, rows: np.ndarray) -> Iterator[tuple[str, Any, np.ndarray]]:
        for name, (columns, emission) in self.parts.items():
            yield name, emission, rows[:, list(columns)]

    def _own(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        start = f"{name}."
        return {key.removeprefix(start): value for key, value in values.items() if key.startswith(start)}

    def _named(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return {f"{name}.{key}": value for key, value in values.items()}

    def check(self, rows: np.ndarray) -> None:
        _check_shape(rows, self.n_columns)
        for name, emission, some in self._each(rows):
            try:
                emission.check(some)
            except DataError as error:
                raise DataError(f"part '{name}': {error.message}") from None

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        return sum(e.log_density(self._own(name, parameters), some) for name, e, some in self._each(rows))

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        out: Statistics = {}
        for name, e, some in self._each(rows):
            own = None if parameters is None else self._own(name, parameters)
            out |= self._named(name, e.statistics(some, responsibilities, own))
        return out

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        out: dict[str, Any] = {}
        for name, (_, e) in self.parts.items():
            own = None if parameters is None else self._own(name, parameters)
            out |= self._named(name, e.maximise(self._own(name, statistics), own))
        return out

    def log_prior(self, parameters: Parameters) -> float:
        return sum(e.log_prior(self._own(name, parameters)) for name, (_, e) in self.parts.items())

    def n_free(self, n_states: int) -> int:
        return sum(e.n_free(n_states) for _, e in self.parts.values())

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        parts = {
            name: (self.parts[name][0], e if e.prior is not None else e.with_prior(some, n_states))
            for name, e, some in self._each(rows)
        }
        return replace(self, parts=parts)

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        flags = [
            e.degenerate(self._own(name, parameters), variances[list(columns)])
            for name, (columns, e) in self.parts.items()
        ]
        return np.any(flags, axis=0)

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        out = np.empty((len(states), self.n_columns))
        for name, (columns, e) in self.parts.items():
            out[:, list(columns)] = e.sample(rng, self._own(name, parameters), states)
        return out

    def features(self, rows: np.ndarray) -> np.ndarray:
        return np.concatenate([e.features(some) for _, e, some in self._each(rows)], axis=1)

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        return sum(_conjugate(e).log_base(some) for _, e, some in self._each(rows))

    def draw(self, rng: np.random.Generator, statistics: Statistics) -> Parameters:
        out: dict[str, Any] = {}
        for name, (_, e) in self.parts.items():
            out |= self._named(name, _conjugate(e).draw(rng, self._own(name, statistics)))
        return out

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        parts = self._each(rows)
        return sum(_conjugate(e).expected_log_density(self._own(name, statistics), some) for name, e, some in parts)

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        return sum(_conjugate(e).log_marginal(self._own(name, statistics)) for name, (_, e) in self.parts.items())


def _conjugate(emission: Any) -> Any:
    if not hasattr(emission, "log_marginal"):
        raise OptionError(f"{type(emission).__name__} has no conjugate prior; choose another component or method: em")
    return emission


# --------------------------------------------------------------------------------- regressions


@dataclass(frozen=True, eq=False)
class Regression:
    """A generalised linear model for each state: an expert.

    Rows are the inputs (with a column of ones where an intercept is wanted), then the outcome.
    Parameters ``coefficients`` (K, p), and ``variance`` (K,) for a normal outcome. The prior, a number λ,
    means coefficients ~ Normal(0, 1 / λ), and for a normal outcome the conjugate pair
    σ² ~ InverseGamma(1, 0.01 ``spread``), coefficients | σ² ~ Normal(0, σ² / λ).
    """

    n_inputs: int
    outcome: Literal["gaussian", "bernoulli", "poisson"] = "gaussian"
    prior: float | None = None
    spread: float = 0.0

    @property
    def n_columns(self) -> int:
        return self.n_inputs + 1

    def check(self, rows: np.ndarray) -> None:
        _check_shape(rows, self.n_columns)
        if np.isnan(rows[:, :-1]).any():
            n, j = np.argwhere(np.isnan(rows[:, :-1]))[0]
            raise DataError(f"row {n}, input column {j} is missing; only the outcome of a regression may be")
        y = rows[:, -1:]
        if self.outcome == "bernoulli":
            _check_values(y, (y == 0) | (y == 1), "a Bernoulli outcome is 0 or 1")
        elif self.outcome == "poisson":
            _check_values(y, (y >= 0) & (y == np.floor(y)), "counts are whole numbers from 0")
        elif self.prior is None:
            _refuse_constant(y, "every residual variance would be zero")

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        x, y = rows[:, :-1], rows[:, -1:]
        eta = x @ parameters["coefficients"].T
        if self.outcome == "gaussian":
            variance = parameters["variance"]
            out = -0.5 * (_LOG_2PI + np.log(variance) + (y - eta) ** 2 / variance)
        elif self.outcome == "bernoulli":
            out = y * eta - np.logaddexp(0.0, eta)
        else:
            out = y * eta - np.exp(np.minimum(eta, 700.0)) - gammaln(y + 1)
        return np.where(np.isnan(y), 0.0, out)

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        seen = ~np.isnan(rows[:, -1])
        x, y, r = rows[seen, :-1], rows[seen, -1], responsibilities[seen]
        if self.outcome != "gaussian":
            # No sufficient statistic of fixed size exists.
            return {"rows": rows[seen], "responsibilities": r}
        gram = np.einsum("nk,ni,nj->kij", r, x, x, optimize=True)
        return {"weight": r.sum(axis=0), "gram": gram, "cross": (r * y[:, None]).T @ x, "square": r.T @ y**2}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        if self.outcome == "gaussian":
            return self._least_squares(statistics)
        rows, responsibilities = statistics["rows"], statistics["responsibilities"]
        n_states = responsibilities.shape[1]
        start = np.zeros((n_states, self.n_inputs)) if parameters is None else parameters["coefficients"]
        fitted = [self._newton(rows, responsibilities[:, k], start[k]) for k in range(n_states)]
        return {"coefficients": np.stack(fitted)}

    def _least_squares(self, statistics: Statistics) -> Parameters:
        gram, cross, n = statistics["gram"], statistics["cross"], statistics["weight"]
        ridge = (self.prior or 0.0) * np.eye(self.n_inputs)
        pairs = zip(gram + ridge, cross, strict=True)
        coefficients = np.stack([np.linalg.lstsq(g, c, rcond=None)[0] for g, c in pairs])
        residual = self._residual(statistics, coefficients)
        if self.prior is None:
            return {"coefficients": coefficients, "variance": _ratio(residual, n, 0.0)}
        residual = residual + self.prior * np.sum(coefficients**2, axis=1)
        variance = (self._rate + 0.5 * residual) / (2 + 0.5 * (n + self.n_inputs))
        return {"coefficients": coefficients, "variance": variance}

    @property
    def _rate(self) -> float:
        return 0.01 * self.spread

    def _residual(self, statistics: Statistics, coefficients: np.ndarray) -> np.ndarray:
        quadratic = np.einsum("ki,kij,kj->k", coefficients, statistics["gram"], coefficients)
        return np.maximum(statistics["square"] - 2 * np.sum(coefficients * statistics["cross"], 1) + quadratic, 0.0)

    def _newton(self, rows: np.ndarray, weights: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Weighted maximum likelihood by damped Newton steps; never below the start."""
        x, y = rows[:, :-1], rows[:, -1]
        # A trace of ridge keeps separable data finite.
        ridge = self.prior if self.prior is not None else 1e-8

        def objective(b: np.ndarray) -> float:
            eta = x @ b
            bend = np.logaddexp(0.0, eta) if self.outcome == "bernoulli" else np.exp(np.minimum(eta, 700.0))
            return float(weights @ (y * eta - bend) - 0.5 * ridge * b @ b)

        best, value = start, objective(start)
        for _ in range(25):
            eta = x @ best
            mean = expit(eta) if self.outcome == "bernoulli" else np.exp(np.minimum(eta, 700.0))
            bend = mean * (1 - mean) if self.outcome == "bernoulli" else mean
            gradient = x.T @ (weights * (y - mean)) - ridge * best
            hessian = (x * (weights * bend)[:, None]).T @ x + (ridge + 1e-10) * np.eye(len(best))
            step, size = np.linalg.solve(hessian, gradient), 1.0
            while size > 1e-6 and not objective(best + size * step) >= value:
                size *= 0.5
            if size <= 1e-6:
                break
            gain = objective(best + size * step) - value
            best, value = best + size * step, value + gain
            if gain <= 1e-12 * (1 + abs(value)):
                break
        return best

    def log_prior(self, parameters: Parameters) -> float:
        if self.prior is None:
            return 0.0
        squares = np.sum(parameters["coefficients"] ** 2, axis=1)
        if self.outcome != "gaussian":
            return float(-0.5 * self.prior * np.sum(squares))
        variance = parameters["variance"]
        inside = (0.5 * self.prior * squares + self._rate) / variance
        return float(-np.sum((2 + 0.5 * self.n_inputs) * np.log(variance) + inside))

    def n_free(self, n_states: int) -> int:
        return n_states * (self.n_inputs + (self.outcome == "gaussian"))

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        variance = float(column_variances(rows[:, -1:])[0])
        return replace(self, prior=0.01 if self.outcome == "gaussian" else 0.1, spread=variance)

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        if self.outcome != "gaussian":
            return np.zeros(len(parameters["coefficients"]), bool)
        return ~(parameters["variance"] > 1e-12 * variances[-1])

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        raise OptionError("a regression's rows need inputs: use `outcomes`")

    def outcomes(
        self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray, inputs: np.ndarray
    ) -> np.ndarray:
        """Simulated outcomes (N,) at inputs (N, p)."""
        eta = np.einsum("np,np->n", inputs, parameters["coefficients"][states])
        if self.outcome == "gaussian":
            return eta + np.sqrt(parameters["variance"][states]) * rng.standard_normal(len(eta))
        return (
            rng.poisson(np.exp(eta)).astype(float)
            if self.outcome == "poisson"
            else 1.0 * (rng.random(len(eta)) < expit(eta))
        )

    def features(self, rows: np.ndarray) -> np.ndarray:
        return _scaled(rows)

    # ------------------------------------------------------------------ conjugate, normal outcomes

    def _posterior(self, statistics: Statistics) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Precision Λ, mean m, shape a and rate b of each state."""
        if self.outcome != "gaussian":
            raise OptionError(f"a {self.outcome} regression has no conjugate prior; use method: em or map")
        prior = _prior_of(self)
        precision = statistics["gram"] + prior * np.eye(self.n_inputs)
        mean = np.linalg.solve(precision, statistics["cross"][..., None])[..., 0]
        residual = self._residual(statistics, mean) + prior * np.sum(mean**2, axis=1)
        return precision, mean, 1 + 0.5 * statistics["weight"], self._rate + 0.5 * residual

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        return np.zeros(len(rows))

    def draw(self, rng: np.random.Generator, statistics: Statistics) -> Parameters:
        precision, mean, a, b = self._posterior(statistics)
        variance = b / rng.standard_gamma(a)
        lower = np.linalg.cholesky(precision)
        noise = np.linalg.solve(lower.transpose(0, 2, 1), rng.standard_normal((*mean.shape, 1)))[..., 0]
        return {"coefficients": mean + noise * np.sqrt(variance)[:, None], "variance": variance}

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        precision, mean, a, b = self._posterior(statistics)
        x, y = rows[:, :-1], rows[:, -1:]
        width = np.einsum("ni,kij,nj->nk", x, np.linalg.inv(precision), x, optimize=True)
        out = -0.5 * (_LOG_2PI + np.log(b) - digamma(a) + (y - x @ mean.T) ** 2 * a / b + width)
        return np.where(np.isnan(y), 0.0, out)

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        precision, _, a, b = self._posterior(statistics)
        volume = 0.5 * (self.n_inputs * np.log(_prior_of(self)) - np.linalg.slogdet(precision)[1])
        gammas = np.log(self._rate) - a * np.log(b) + gammaln(a)
        return volume + gammas - 0.5 * statistics["weight"] * _LOG_2PI
