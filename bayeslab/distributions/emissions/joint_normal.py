"""Normal rows with covariance matrices: one for each state, one for all states, or a known one.

References
----------
.. [1] Bishop (2006). Pattern Recognition and Machine Learning, section 10.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from bayeslab import special
from bayeslab.constants import LOG_2PI
from bayeslab.distributions.emissions.cells import (
    check_shape,
    prior_of,
    refuse_constant,
    refuse_dependent,
    scaled,
    sums_by_state,
)
from bayeslab.distributions.emissions.components import inverse_cholesky
from bayeslab.distributions.emissions.normal_moments import (
    about_mean,
    about_normal,
    moments_about,
    normal_log_density,
    start_moments,
)
from bayeslab.distributions.emissions.normal_prior import NormalPrior, inverse_wishart
from bayeslab.distributions.emissions.normal_rows import fill_normal
from bayeslab.distributions.emissions.protocol import ConjugateEmission, Parameters, Statistics
from bayeslab.distributions.toolbox.logarithms import ratio
from bayeslab.errors import OptionError

__all__ = ["FullGaussian"]


@dataclass(frozen=True, eq=False)
class FullGaussian(ConjugateEmission):
    """Normal rows with covariance matrices: see :func:`gaussian`.

    Parameters ``mean`` (K, d) and ``covariance``: (K, d, d) if full, (d, d) if tied, absent if known.
    """

    n_columns: int
    covariance: Literal["full", "tied", "known"] = "full"
    known: np.ndarray | None = None
    prior: NormalPrior | None = None

    @property
    def kinds(self) -> dict[str, str]:
        return {"covariance": "matrix"}

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
        matrix = parameters["covariance"]
        return matrix if matrix.ndim == 3 else np.broadcast_to(matrix, (n_states, *matrix.shape))

    def _matrix(self) -> np.ndarray:
        assert self.known is not None
        return self.known

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        return normal_log_density(rows, parameters["mean"], self.covariances(parameters))

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
        """As :meth:`statistics`; for complete rows the sums are centred at the columns' means."""
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
        """E-step and statistics of a mixture of complete rows in one pass, without arrays of size N · K."""
        from bayeslab.distributions.emissions.component_kernels import full_gaussian_pass

        factors = inverse_cholesky(self.covariances(parameters))
        mean = np.ascontiguousarray(parameters["mean"])
        value, counts, first, second = full_gaussian_pass(rows, row_weights, log_weights, mean, factors)
        return value, about_mean(counts, first, second, mean)

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        n, mean, scatter = statistics["weight"], statistics["mean"], statistics["scatter"]
        d = self.n_columns
        if (prior := self.prior) is not None:
            mean, scatter = prior.centres(n, mean), scatter + prior.between(n, mean)
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
        """Rows in given states, with missing cells drawn given the row's observed ones."""
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
        scale = prior.scale + scatter + prior.between(n, mean)
        return prior.kappa + n, prior.centres(n, mean), prior.nu + n, scale

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

        If the means m_k given Σ are normal around the prior's mean with covariance Σ / κ, and Σ is inverse Wishart, the
        scatter of all states is added: Σ has the posterior IW(ν + Σ n_k, Ψ + Σ S_k + Σ κ n_k / (κ + n_k) d_k d_k').
        """
        prior, n, mean = prior_of(self), statistics["weight"], statistics["mean"]
        scatter = statistics["scatter"] + prior.between(n, mean)
        covariance = inverse_wishart(rng, prior.nu + n.sum(), prior.scale + scatter.sum(axis=0))
        noise = rng.standard_normal(mean.shape) @ np.linalg.cholesky(covariance).T
        return {"mean": prior.centres(n, mean) + noise / np.sqrt(prior.kappa + n)[:, None], "covariance": covariance}

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        kappa, centre, nu, scale = self.posterior(statistics)
        d = self.n_columns
        if self.covariance == "known":
            covariances = np.broadcast_to(self._matrix(), (len(kappa), d, d))
            return normal_log_density(rows, centre, covariances) - 0.5 * d / kappa
        # Log density at the matrix Ψ / ν, corrected for E log |Λ| and the variance of the mean.
        plain = normal_log_density(rows, centre, scale / nu[:, None, None])
        log_det = special.digamma(0.5 * (nu[:, None] - np.arange(d))).sum(axis=1) + d * np.log(2 / nu)
        return plain + 0.5 * log_det - 0.5 * d / kappa

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        kappa, _, nu, scale = self.posterior(statistics)
        prior, n, d = prior_of(self), statistics["weight"], self.n_columns
        volume = 0.5 * d * np.log(prior.kappa / kappa) - 0.5 * n * d * LOG_2PI
        if self.covariance == "known":
            inverse = np.linalg.inv(self._matrix())
            square = np.einsum("kij,ji->k", scale - prior.scale, inverse)
            return volume - 0.5 * n * np.linalg.slogdet(self._matrix())[1] - 0.5 * square
        gamma = special.multigammaln(prior.nu / 2, d)
        out = np.array([special.multigammaln(v / 2, d) for v in nu]) - gamma + volume + 0.5 * n * d * np.log(2)
        return out + 0.5 * (prior.nu * np.linalg.slogdet(prior.scale)[1] - nu * np.linalg.slogdet(scale)[1])
