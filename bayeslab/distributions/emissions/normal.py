"""Normal rows: full, tied, diagonal, spherical or known covariance; missing cells at their expectation.

Statistics are (weight, mean, scatter about that mean), not raw sums, so that data far from zero lose no digits.

References
----------
.. [1] Fraley, Raftery (2007). Bayesian regularization for normal mixture estimation. J. Classification 24, 155-181.
.. [2] Little, Rubin (2002). Statistical Analysis with Missing Data, 2nd ed., section 11.2 (missing cells).
.. [3] Bishop (2006). Pattern Recognition and Machine Learning, section 10.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from scipy.special import digamma, gammaln, multigammaln

from bayeslab.constants import LOG_2PI
from bayeslab.distributions.emissions.cells import (
    check_shape,
    column_means,
    column_variances,
    observed,
    prior_of,
    refuse_constant,
    refuse_dependent,
    scaled,
    sums_by_state,
)
from bayeslab.distributions.emissions.components import inverse_cholesky
from bayeslab.distributions.emissions.normal_rows import fill_normal
from bayeslab.distributions.emissions.protocol import ConjugateEmission, Parameters, Statistics
from bayeslab.distributions.toolbox.logarithms import ratio
from bayeslab.errors import OptionError, hint

__all__ = [
    "DiagonalGaussian",
    "FullGaussian",
    "NormalPrior",
    "about_mean",
    "about_normal",
    "gaussian",
    "inverse_wishart",
    "mahalanobis",
    "moments_about",
    "patterns",
    "start_moments",
]


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
        """Fraley and Raftery's default [1]_: worth 0.01 rows for the mean, a K-th of the data's volume."""
        d = rows.shape[1]
        variance = column_variances(rows)
        variance = np.where(variance > 0, variance, 1.0)
        if diagonal:
            return cls(column_means(rows), 0.01, 3.0, variance / n_states**2)
        complete = rows[~np.isnan(rows).any(axis=1)]
        scale = np.diag(variance)
        if len(complete) > d + 1:
            covariance = np.cov(complete.T, bias=True).reshape(d, d)
            # A little of the diagonal keeps it proper when columns depend on each other.
            scale = covariance + 1e-6 * np.diag(variance)
        return cls(column_means(rows), 0.01, d + 2.0, scale / n_states ** (2 / d))


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
        raise OptionError(
            "covariance 'known' and the known variance or matrix go together: give both or neither", code="incomplete"
        )
    if covariance == "known":
        matrix = np.asarray(known, float)
        matrix = matrix * np.eye(n_columns) if matrix.ndim == 0 else np.diag(matrix) if matrix.ndim == 1 else matrix
        if matrix.shape != (n_columns, n_columns) or not np.all(np.linalg.eigvalsh(matrix) > 0):
            raise OptionError(
                f"the known covariance of {n_columns} columns must be positive definite", code="not-a-covariance"
            )
        return FullGaussian(n_columns, "known", matrix, prior)
    if covariance in ("full", "tied"):
        return FullGaussian(n_columns, covariance, None, prior)
    if covariance in ("diagonal", "spherical"):
        return DiagonalGaussian(n_columns, covariance, prior)
    allowed = ("full", "tied", "diagonal", "spherical", "known")
    raise OptionError(f"unknown covariance '{covariance}'{hint(covariance, allowed)}", code="unknown-word")


def patterns(rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
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
    from bayeslab.distributions.emissions.component_kernels import full_gaussian_log_density

    if not np.isnan(rows).any():
        return full_gaussian_log_density(
            np.ascontiguousarray(rows), np.ascontiguousarray(means), inverse_cholesky(covariances)
        )
    out = np.zeros((len(rows), len(means)))
    for at, seen in patterns(rows):
        if len(seen):
            part = inverse_cholesky(covariances[:, seen[:, None], seen])
            some = np.ascontiguousarray(rows[np.ix_(at, seen)])
            out[at] = full_gaussian_log_density(some, np.ascontiguousarray(means[:, seen]), part)
    return out


def mahalanobis(rows: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared Mahalanobis distances over observed cells (N, K), and how many cells those are (N,)."""
    from bayeslab.distributions.emissions.component_kernels import full_gaussian_log_density

    out = np.zeros((len(rows), len(means)))
    for at, seen in patterns(rows):
        if len(seen):
            factors = inverse_cholesky(covariances[:, seen[:, None], seen])
            some = np.ascontiguousarray(rows[np.ix_(at, seen)])
            density = full_gaussian_log_density(some, np.ascontiguousarray(means[:, seen]), factors)
            log_det = np.log(np.einsum("kii->ki", factors)).sum(axis=1)
            out[at] = np.maximum(2 * (log_det - density) - len(seen) * LOG_2PI, 0.0)
    return out, (~np.isnan(rows)).sum(axis=1)


def moments_about(
    rows: np.ndarray, weights: np.ndarray, spread_weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Σ w (x - m) and Σ w (x - m)(x - m)' + Σ v C with missing cells at their expectation.

    C is the covariance of a row's missing cells given its observed ones, w ``weights`` and v
    ``spread_weights`` (they differ for Student's t).
    """
    n_states, d = means.shape
    first, second = np.zeros((n_states, d)), np.zeros((n_states, d, d))
    for at, seen in patterns(rows):
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


def about_mean(weight: np.ndarray, first: np.ndarray, second: np.ndarray, about: np.ndarray) -> Statistics:
    """(weight, mean, scatter) from sums of full Gaussians about some point."""
    shift = ratio(first, weight[:, None], 0.0)
    scatter = second - weight[:, None, None] * shift[:, :, None] * shift[:, None, :]
    return {"weight": weight, "mean": about + shift, "scatter": scatter}


def about_normal(statistics: Statistics, counts: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> float:
    """Expected normal log likelihood; the counts of the determinants are apart from the weights of the squares."""
    factors = inverse_cholesky(covariances)
    d, apart = means.shape[1], statistics["mean"] - means
    square = statistics["scatter"] + statistics["weight"][:, None, None] * apart[:, :, None] * apart[:, None, :]
    trace = np.einsum("kij,kjl,kil->k", factors, square, factors, optimize=True)
    log_det = 2 * np.log(np.einsum("kii->ki", factors)).sum(axis=1)
    return float(0.5 * np.sum(counts * (log_det - d * LOG_2PI) - trace))


def start_moments(rows: np.ndarray, responsibilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances to complete missing cells with before there are parameters: variances only."""
    filled, seen = observed(rows)
    weight = responsibilities.T @ seen
    overall, variance = column_means(rows), column_variances(rows)
    mean = ratio(responsibilities.T @ (filled - overall * seen), weight, 0.0) + overall
    apart = np.stack([responsibilities[:, k] @ ((filled - m) ** 2 * seen) for k, m in enumerate(mean)])
    spread = ratio(apart, weight, variance)
    spread = np.where(spread > 0, spread, np.where(variance > 0, variance, 1.0))
    return mean, np.stack([np.diag(v) for v in spread])


@dataclass(frozen=True, eq=False)
class FullGaussian(ConjugateEmission):
    """Normal rows with covariance matrices: see :func:`gaussian`.

    Parameters ``mean`` (K, d) and ``covariance``: (K, d, d) if full, (d, d) if tied, absent if known.
    """

    n_columns: int
    covariance: Literal["full", "tied", "known"] = "full"
    known: np.ndarray | None = None
    prior: NormalPrior | None = None

    def check(self, rows: np.ndarray) -> None:
        check_shape(rows, self.n_columns)
        if self.prior is None and self.covariance != "known":
            refuse_constant(rows, "every covariance would be singular")
            refuse_dependent(rows)

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
            means, covariances = start_moments(rows, responsibilities)
        else:
            means, covariances = parameters["mean"], self.covariances(parameters)
        first, second = moments_about(rows, responsibilities, responsibilities, means, covariances)
        return about_mean(responsibilities.sum(axis=0), first, second, means)

    def statistics_of_states(self, rows: np.ndarray, states: np.ndarray, n_states: int) -> Statistics:
        """As :meth:`statistics`; of complete rows the sums are about the columns' means."""
        if np.isnan(rows).any():
            return super().statistics_of_states(rows, states, n_states)
        about = rows.mean(axis=0)
        apart = rows - about
        weight = np.bincount(states, minlength=n_states).astype(float)
        shift = ratio(sums_by_state(apart, states, n_states), weight[:, None], 0.0)
        scatter = np.empty((n_states, rows.shape[1], rows.shape[1]))
        for k in range(n_states):
            within = apart[states == k] - shift[k]
            scatter[k] = within.T @ within
        return {"weight": weight, "mean": about + shift, "scatter": scatter}

    @property
    def has_one_pass(self) -> bool:
        return True

    def one_pass(
        self, log_weights: np.ndarray, parameters: Parameters, rows: np.ndarray, row_weights: np.ndarray
    ) -> tuple[float, Statistics]:
        """E-step and statistics of a mixture of complete rows at once, nothing of size N · K stored."""
        from bayeslab.distributions.emissions.component_kernels import full_gaussian_pass

        factors = inverse_cholesky(self.covariances(parameters))
        mean = np.ascontiguousarray(parameters["mean"])
        value, counts, first, second = full_gaussian_pass(rows, row_weights, log_weights, mean, factors)
        return value, about_mean(counts, first, second, mean)

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
        return {"mean": mean, "covariance": ratio(scatter, n[:, None, None], 0.0)}

    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float:
        return about_normal(statistics, statistics["weight"], parameters["mean"], self.covariances(parameters))

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

    @property
    def columns_depend(self) -> bool:
        return True

    def complete(
        self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Rows in given states, open cells drawn given the row's others."""
        out = rows.copy()
        fill_normal(out, states, parameters["mean"], self.covariances(parameters), None, rng)
        return out

    def features(self, rows: np.ndarray) -> np.ndarray:
        return scaled(rows)

    # ------------------------------------------------------------------ conjugate

    def posterior(self, statistics: Statistics) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """κ, m, ν, Ψ of each state."""
        prior = prior_of(self)
        if self.covariance == "tied":
            raise OptionError(
                "one covariance for all components has no closed form here; use full or diagonal", code="no-closed-form"
            )
        n, mean, scatter = statistics["weight"], statistics["mean"], statistics["scatter"]
        kappa, apart = prior.kappa + n, mean - prior.mean
        centre = prior.mean + apart * (n / kappa)[:, None]
        outer = apart[:, :, None] * apart[:, None, :]
        return kappa, centre, prior.nu + n, prior.scale + scatter + (prior.kappa * n / kappa)[:, None, None] * outer

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        if np.isnan(rows).any():
            raise OptionError(
                "full covariances with missing cells have no closed form; use covariance: diagonal",
                code="no-closed-form",
            )
        return np.zeros(len(rows))

    def draw(self, rng: np.random.Generator, statistics: Statistics) -> Parameters:
        kappa, centre, nu, scale = self.posterior(statistics)
        n_states, d = centre.shape
        if self.covariance == "known":
            lower = np.broadcast_to(np.linalg.cholesky(self._matrix()), (n_states, d, d))
        else:
            covariance = inverse_wishart(rng, nu, scale)
            lower = np.linalg.cholesky(covariance)
        noise = np.einsum("kij,kj->ki", lower, rng.standard_normal((n_states, d)))
        mean = centre + noise / np.sqrt(kappa)[:, None]
        return {"mean": mean} if self.covariance == "known" else {"mean": mean, "covariance": covariance}

    def draw_tied(self, rng: np.random.Generator, statistics: Statistics) -> Parameters:
        """Means and the one covariance matrix of all states from their posterior.

        With means m_k given Σ normal about the prior's with covariance Σ / κ, and Σ inverse Wishart, the scatter of all
        states adds up: Σ has the posterior IW(ν + Σ n_k, Ψ + Σ S_k + Σ κ n_k / (κ + n_k) d_k d_k').
        """
        prior, n, mean = prior_of(self), statistics["weight"], statistics["mean"]
        kappa, apart = prior.kappa + n, mean - prior.mean
        between = np.einsum("k,ki,kj->ij", prior.kappa * n / kappa, apart, apart)
        covariance = inverse_wishart(rng, prior.nu + n.sum(), prior.scale + statistics["scatter"].sum(axis=0) + between)
        noise = rng.standard_normal(mean.shape) @ np.linalg.cholesky(covariance).T
        centre = prior.mean + apart * (n / kappa)[:, None]
        return {"mean": centre + noise / np.sqrt(kappa)[:, None], "covariance": covariance}

    def imputed(
        self, rng: np.random.Generator, rows: np.ndarray, states: np.ndarray, parameters: Parameters
    ) -> np.ndarray:
        """Rows with missing cells drawn given the observed ones, the states and the parameters.

        A covariance matrix is conjugate only to whole rows: their expectation would make the draws too narrow.
        """
        mean, covariances = parameters["mean"], self.covariances(parameters)
        out = rows.copy()
        if not np.isnan(rows).any():
            return out
        for at, seen in patterns(rows):
            lost = np.setdiff1d(np.arange(rows.shape[1]), seen)
            if not len(lost):
                continue
            for k in np.unique(states[at]):
                own = at[states[at] == k]
                centre, within = np.tile(mean[k, lost], (len(own), 1)), covariances[k][np.ix_(lost, lost)]
                if len(seen):
                    slope = np.linalg.solve(covariances[k][np.ix_(seen, seen)], covariances[k][np.ix_(seen, lost)])
                    centre = centre + (rows[np.ix_(own, seen)] - mean[k, seen]) @ slope
                    within = within - covariances[k][np.ix_(lost, seen)] @ slope
                noise = rng.standard_normal((len(own), len(lost))) @ np.linalg.cholesky(0.5 * (within + within.T)).T
                out[np.ix_(own, lost)] = centre + noise
        return out

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        kappa, centre, nu, scale = self.posterior(statistics)
        d = self.n_columns
        if self.covariance == "known":
            covariances = np.broadcast_to(self._matrix(), (len(kappa), d, d))
            return _gaussian_log_density(rows, centre, covariances) - 0.5 * d / kappa
        # Log density at the matrix Ψ / ν, corrected for E log |Λ| and the mean's own spread.
        plain = _gaussian_log_density(rows, centre, scale / nu[:, None, None])
        log_det = digamma(0.5 * (nu[:, None] - np.arange(d))).sum(axis=1) + d * np.log(2 / nu)
        return plain + 0.5 * log_det - 0.5 * d / kappa

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        kappa, _, nu, scale = self.posterior(statistics)
        prior, n, d = prior_of(self), statistics["weight"], self.n_columns
        volume = 0.5 * d * np.log(prior.kappa / kappa) - 0.5 * n * d * LOG_2PI
        if self.covariance == "known":
            inverse = np.linalg.inv(self._matrix())
            square = np.einsum("kij,ji->k", scale - prior.scale, inverse)
            return volume - 0.5 * n * np.linalg.slogdet(self._matrix())[1] - 0.5 * square
        gamma = multigammaln(prior.nu / 2, d)
        out = np.array([multigammaln(v / 2, d) for v in nu]) - gamma + volume + 0.5 * n * d * np.log(2)
        return out + 0.5 * (prior.nu * np.linalg.slogdet(prior.scale)[1] - nu * np.linalg.slogdet(scale)[1])


def inverse_wishart(rng: np.random.Generator, nu: float | np.ndarray, scale: np.ndarray) -> np.ndarray:
    """By Bartlett's decomposition of the Wishart precision; one for each leading index of ``scale`` (..., d, d)."""
    d = scale.shape[-1]
    bartlett = np.tril(rng.standard_normal(scale.shape), -1)
    bartlett[..., range(d), range(d)] = np.sqrt(rng.chisquare(np.asarray(nu)[..., None] - np.arange(d)))
    # Λ = C A A' C' with C C' = Ψ^-1, so Σ = L A^-T A^-1 L' with L L' = Ψ and C = L^-T.
    half = np.linalg.solve(bartlett, np.swapaxes(np.linalg.cholesky(scale), -1, -2))
    return np.asarray(np.swapaxes(half, -1, -2) @ half)


@dataclass(frozen=True, eq=False)
class DiagonalGaussian(ConjugateEmission):
    """Normal rows with independent columns: see :func:`gaussian`.

    Parameters ``mean`` (K, d) and ``variance``: (K, d), or (K,) if spherical.
    """

    n_columns: int
    covariance: Literal["diagonal", "spherical"] = "diagonal"
    prior: NormalPrior | None = None

    def check(self, rows: np.ndarray) -> None:
        check_shape(rows, self.n_columns)
        if self.prior is None and self.covariance == "diagonal":
            refuse_constant(rows, "every variance would be zero")

    def variances(self, parameters: Parameters) -> np.ndarray:
        """(K, d)."""
        variance = parameters["variance"]
        return variance if variance.ndim == 2 else np.repeat(variance[:, None], self.n_columns, axis=1)

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        from bayeslab.distributions.emissions.component_kernels import diagonal_gaussian_log_density

        log_sds = 0.5 * np.log(self.variances(parameters))
        return diagonal_gaussian_log_density(
            np.ascontiguousarray(rows), np.ascontiguousarray(parameters["mean"]), log_sds
        )

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        filled, seen = observed(rows)
        about = column_means(rows)
        apart = (filled - about) * seen
        weight = responsibilities.T @ seen
        shift = ratio(responsibilities.T @ apart, weight, 0.0)
        scatter = np.stack([responsibilities[:, k] @ ((apart - s) ** 2 * seen) for k, s in enumerate(shift)])
        return {"weight": weight, "mean": about + shift, "scatter": scatter}

    def statistics_of_states(self, rows: np.ndarray, states: np.ndarray, n_states: int) -> Statistics:
        filled, seen = observed(rows)
        about = column_means(rows)
        apart = (filled - about) * seen
        weight = sums_by_state(seen, states, n_states)
        shift = ratio(sums_by_state(apart, states, n_states), weight, 0.0)
        scatter = sums_by_state((apart - shift[states]) ** 2 * seen, states, n_states)
        return {"weight": weight, "mean": about + shift, "scatter": scatter}

    @property
    def has_one_pass(self) -> bool:
        return True

    def one_pass(
        self, log_weights: np.ndarray, parameters: Parameters, rows: np.ndarray, row_weights: np.ndarray
    ) -> tuple[float, Statistics]:
        """As :meth:`FullGaussian.one_pass`."""
        from bayeslab.distributions.emissions.component_kernels import diagonal_gaussian_pass

        mean = np.ascontiguousarray(parameters["mean"])
        log_sds = 0.5 * np.log(self.variances(parameters))
        value, counts, first, second = diagonal_gaussian_pass(rows, row_weights, log_weights, mean, log_sds)
        shift = ratio(first, counts[:, None], 0.0)
        scatter = second - counts[:, None] * shift**2
        weight = np.repeat(counts[:, None], self.n_columns, axis=1)
        return value, {"weight": weight, "mean": mean + shift, "scatter": scatter}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        n, mean, scatter = statistics["weight"], statistics["mean"], statistics["scatter"]
        d = self.n_columns
        if (prior := self.prior) is None:
            if self.covariance == "diagonal":
                return {"mean": mean, "variance": ratio(scatter, n, 0.0)}
            return {"mean": mean, "variance": ratio(scatter.sum(axis=1), n.sum(axis=1), 0.0)}
        apart = mean - prior.mean
        mean = prior.mean + apart * n / (prior.kappa + n)
        scatter = scatter + prior.kappa * n / (prior.kappa + n) * apart**2
        if self.covariance == "diagonal":
            return {"mean": mean, "variance": (prior.scale + scatter) / (prior.nu + n + 3)}
        total = np.mean(prior.scale) + scatter.sum(axis=1)
        return {"mean": mean, "variance": total / (prior.nu + n.sum(axis=1) + d + 2)}

    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float:
        n, variance = statistics["weight"], self.variances(parameters)
        square = statistics["scatter"] + n * (statistics["mean"] - parameters["mean"]) ** 2
        return float(-0.5 * np.sum(n * (LOG_2PI + np.log(variance)) + square / variance))

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
        return scaled(rows)

    # ------------------------------------------------------------------ conjugate

    def posterior(self, statistics: Statistics) -> tuple[np.ndarray, ...]:
        """κ, m, ν, ψ of each state and column; for spherical ν, ψ with a last axis of one."""
        prior = prior_of(self)
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
        kappa, centre, nu, scale = self.posterior(statistics)
        variance = scale / rng.chisquare(nu)
        mean = centre + rng.standard_normal(centre.shape) * np.sqrt(variance / kappa)
        return {"mean": mean, "variance": variance if self.covariance == "diagonal" else variance[:, 0]}

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        kappa, centre, nu, scale = self.posterior(statistics)
        precision = np.broadcast_to(nu / scale, centre.shape)
        log_precision = np.broadcast_to(digamma(nu / 2) - np.log(scale / 2), centre.shape)
        filled, seen = observed(rows)
        about = column_means(rows)
        apart, offset = (filled - about) * seen, centre - about
        constant = log_precision - LOG_2PI - 1 / kappa - precision * offset**2
        return 0.5 * (seen @ constant.T + apart @ (2 * precision * offset).T - apart**2 @ precision.T)

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        kappa, _, nu, scale = self.posterior(statistics)
        prior, n = prior_of(self), statistics["weight"]
        out = (0.5 * np.log(prior.kappa / kappa) - 0.5 * n * LOG_2PI).sum(axis=1)
        before = prior.scale if self.covariance == "diagonal" else np.mean(prior.scale)
        gammas = gammaln(nu / 2) - gammaln(prior.nu / 2)
        return out + (gammas + 0.5 * prior.nu * np.log(before / 2) - 0.5 * nu * np.log(scale / 2)).sum(axis=1)
