"""Normal rows with independent columns given the state, and the constructor for all covariance structures.

Statistics are (weight, mean, scatter about that mean), not raw sums, so that data far from zero do not lose precision.
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
    scaled,
    sums_by_state,
)
from bayeslab.distributions.emissions.joint_normal import FullGaussian
from bayeslab.distributions.emissions.normal_moments import centred, column_moments
from bayeslab.distributions.emissions.normal_prior import NormalPrior
from bayeslab.distributions.emissions.protocol import ConjugateEmission, Parameters, Statistics
from bayeslab.distributions.toolbox.logarithms import ratio
from bayeslab.errors import OptionError, hint

__all__ = ["DiagonalGaussian", "gaussian"]


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
        For each state a matrix (full), variances (diagonal) or one variance (spherical); one matrix for all states
        (tied); or ``known``: a variance or a matrix for all states.
    """
    if (covariance == "known") != (known is not None):
        raise OptionError(
            "covariance 'known' and the known variance or matrix go together: give both or neither", code="incomplete"
        )
    if covariance == "known":
        try:
            matrix = np.asarray(known, float)
        except (TypeError, ValueError):
            raise OptionError(
                "the known covariance is a variance, a variance for each column, or a matrix; given:"
                f" {type(known).__name__} that holds other things than numbers",
                code="not-a-covariance",
            ) from None
        matrix = matrix * np.eye(n_columns) if matrix.ndim == 0 else np.diag(matrix) if matrix.ndim == 1 else matrix
        # eigvalsh reads one triangle alone, so numbers that are not finite, and unequal triangles, are looked for first
        if (
            matrix.shape != (n_columns, n_columns)
            or not np.isfinite(matrix).all()
            or not np.allclose(matrix, matrix.T, rtol=1e-9, atol=0)
            or not np.all(np.linalg.eigvalsh(matrix) > 0)
        ):
            raise OptionError(
                f"the known covariance of {n_columns} columns must be a symmetric, positive definite matrix of finite"
                " numbers",
                code="not-a-covariance",
            )
        return FullGaussian(n_columns, "known", matrix, prior)
    if covariance in ("full", "tied"):
        return FullGaussian(n_columns, covariance, None, prior)
    if covariance in ("diagonal", "spherical"):
        return DiagonalGaussian(n_columns, covariance, prior)
    allowed = ("full", "tied", "diagonal", "spherical", "known")
    raise OptionError(f"unknown covariance '{covariance}'{hint(covariance, allowed)}", code="unknown-word")


@dataclass(frozen=True, eq=False)
class DiagonalGaussian(ConjugateEmission):
    """Normal rows with independent columns: see :func:`gaussian`.

    Parameters ``mean`` (K, d) and ``variance``: (K, d), or (K,) if spherical.
    """

    n_columns: int
    covariance: Literal["diagonal", "spherical"] = "diagonal"
    prior: NormalPrior | None = None

    @property
    def kinds(self) -> dict[str, str]:
        return {"variance": "positive"}

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
        return column_moments(rows, responsibilities)

    def statistics_of_states(self, rows: np.ndarray, states: np.ndarray, n_states: int) -> Statistics:
        apart, present, about = centred(rows)
        weight = sums_by_state(present, states, n_states)
        shift = ratio(sums_by_state(apart, states, n_states), weight, 0.0)
        scatter = sums_by_state((apart - shift[states]) ** 2 * present, states, n_states)
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
        mean, scatter = prior.centres(n, mean), scatter + prior.between(n, mean)
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
        """κ, m, ν, ψ of each state and column; if spherical, the last axis of ν and ψ has length one."""
        prior = prior_of(self)
        n, mean, scatter = statistics["weight"], statistics["mean"], statistics["scatter"]
        kappa, centre, spread = prior.kappa + n, prior.centres(n, mean), scatter + prior.between(n, mean)
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
        log_precision = np.broadcast_to(special.digamma(nu / 2) - np.log(scale / 2), centre.shape)
        apart, present, about = centred(rows)
        offset = centre - about
        constant = log_precision - LOG_2PI - 1 / kappa - precision * offset**2
        return 0.5 * (present @ constant.T + apart @ (2 * precision * offset).T - apart**2 @ precision.T)

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        kappa, _, nu, scale = self.posterior(statistics)
        prior, n = prior_of(self), statistics["weight"]
        out = (0.5 * np.log(prior.kappa / kappa) - 0.5 * n * LOG_2PI).sum(axis=1)
        before = prior.scale if self.covariance == "diagonal" else np.mean(prior.scale)
        gammas = special.gammaln(nu / 2) - special.gammaln(prior.nu / 2)
        return out + (gammas + 0.5 * prior.nu * np.log(before / 2) - 0.5 * nu * np.log(scale / 2)).sum(axis=1)
