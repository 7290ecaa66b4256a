"""Student's t rows: normal rows whose precision is scaled by a gamma variable, robust against outliers.

References
----------
.. [1] Liu, Rubin (1995). ML estimation of the t distribution using EM and its extensions. Statistica Sinica 5, 19-39.
.. [2] Liu, Rubin, Wu (1998). Parameter expansion to accelerate EM. Biometrika 85, 755-770.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bayeslab import special
from bayeslab.digits import log_rising
from bayeslab.distributions.emissions.cells import check_shape, refuse_constant, refuse_dependent, scaled
from bayeslab.distributions.emissions.joint_normal import FullGaussian
from bayeslab.distributions.emissions.normal_moments import (
    about_mean,
    about_normal,
    mahalanobis,
    moments_about,
    patterns,
    start_moments,
)
from bayeslab.distributions.emissions.normal_prior import NormalPrior
from bayeslab.distributions.emissions.normal_rows import fill_normal
from bayeslab.distributions.emissions.protocol import Emission, Parameters, Statistics
from bayeslab.distributions.toolbox.degrees_of_freedom import DOF_ENDS, dof_from_real, dof_to_real
from bayeslab.distributions.toolbox.logarithms import ratio
from bayeslab.errors import OptionError

__all__ = ["DOF_ENDS", "DOF_PRIOR", "StudentT", "dof_from_real", "dof_log_prior", "dof_to_real"]


# Weak prior of the degrees of freedom, Gamma(shape, rate).
DOF_PRIOR = (2.0, 0.1)


def dof_log_prior(dof: np.ndarray) -> np.ndarray:
    """Log density of the weak prior of degrees of freedom, up to a constant."""
    shape, rate = DOF_PRIOR
    return np.asarray((shape - 1) * np.log(dof) - rate * dof)


@dataclass(frozen=True, eq=False)
class StudentT(Emission):
    """Multivariate Student's t rows: normal rows whose precision is scaled by a gamma variable.

    Parameters ``mean`` (K, d), ``scale`` (K, d, d) and ``dof`` (K,). With ``dof`` given it is fixed,
    otherwise learned between 0.5 and 200 by EM (with a prior: Gamma(2, 0.1)).
    """

    n_columns: int
    dof: float | None = None
    prior: NormalPrior | None = None

    @property
    def fixed_parameters(self) -> tuple[str, ...]:
        """Parameters that are given rather than learned."""
        return () if self.dof is None else ("dof",)

    @property
    def kinds(self) -> dict[str, str]:
        return {"scale": "matrix", "dof": "dof"}

    def check(self, rows: np.ndarray) -> None:
        check_shape(rows, self.n_columns)
        if self.dof is not None and not self.dof > 0:
            raise OptionError(f"degrees of freedom are positive, not {self.dof:g}", code="out-of-range")
        if self.prior is None:
            refuse_constant(rows, "every scale would be singular")
            refuse_dependent(rows)

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        scale, dof = parameters["scale"], parameters["dof"]
        squares, observed = mahalanobis(rows, parameters["mean"], scale)
        out = np.zeros_like(squares)
        for at, columns in patterns(rows):
            log_det = np.linalg.slogdet(scale[:, columns[:, None], columns])[1] if len(columns) else np.zeros(len(dof))
            out[at] = -0.5 * log_det
        d = observed[:, None]
        constant = log_rising(0.5 * dof, 0.5 * d) - 0.5 * d * np.log(dof * np.pi)
        return out + constant - 0.5 * (dof + d) * np.log1p(squares / dof)

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        if parameters is None:
            means, scales = start_moments(rows, responsibilities)
            dof = np.full(len(means), self.dof or 10.0)
        else:
            means, scales, dof = parameters["mean"], parameters["scale"], parameters["dof"]
        squares, observed = mahalanobis(rows, means, scales)
        d = observed[:, None]
        precision = (dof + d) / (dof + squares)
        log_precision = special.digamma(0.5 * (dof + d)) - np.log(0.5 * (dof + squares))
        weights = responsibilities * precision
        first, second = moments_about(rows, weights, responsibilities, means, scales)
        out = about_mean(weights.sum(axis=0), first, second, means)
        gap = (responsibilities * (log_precision - precision)).sum(axis=0)
        return out | {"count": responsibilities.sum(axis=0), "gap": gap}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        u, n, mean, scatter = (statistics[name] for name in ("weight", "count", "mean", "scatter"))
        if (prior := self.prior) is not None:
            mean, scatter = prior.centres(u, mean), prior.scale + scatter + prior.between(u, mean)
            scale = scatter / (prior.nu + n + self.n_columns + 2)[:, None, None]
        else:
            # Parameter-expanded EM [2]_ divides by the sum of the weights, not by the count: as monotone, and faster.
            scale = ratio(scatter, u[:, None, None], 0.0)
        if self.dof is not None:
            dof = np.full(len(n), float(self.dof))
        else:
            dof = np.array([self._best_dof(c, g) for c, g in zip(n, statistics["gap"], strict=True)])
        return {"mean": mean, "scale": scale, "dof": dof}

    def _best_dof(self, count: float, gap: float) -> float:
        """Root of the M-step's equation for ν, whose function is concave in log ν over the range of interest."""
        from scipy.optimize import brentq

        def slope(dof: float) -> float:
            half = 0.5 * dof
            out = 0.5 * (count * (np.log(half) + 1 - special.digamma(half)) + gap)
            shape, rate = DOF_PRIOR
            return out + ((shape - 1) / dof - rate if self.prior is not None else 0.0)

        low, high = DOF_ENDS
        if slope(low) <= 0:
            return low
        return high if slope(high) >= 0 else float(brentq(slope, low, high, xtol=1e-12, rtol=1e-12))

    def limits(self, statistics: Statistics, parameters: Parameters) -> dict[str, np.ndarray]:
        """Whether degrees of freedom are at an end of their range, where the density hardly changes or has no mean."""
        if self.dof is not None:
            return {}
        return {"dof": np.isclose(parameters["dof"][:, None], DOF_ENDS, rtol=1e-6).any(axis=1)}

    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float:
        count, half = statistics["count"], 0.5 * parameters["dof"]
        value = about_normal(statistics, count, parameters["mean"], parameters["scale"])
        # The gamma density of the precisions: E log τ - E τ is in `gap`.
        return value + float(np.sum(count * (half * np.log(half) - special.gammaln(half)) + half * statistics["gap"]))

    def log_prior(self, parameters: Parameters) -> float:
        if self.prior is None:
            return 0.0
        normal = FullGaussian(self.n_columns, prior=self.prior)
        value = normal.log_prior({"mean": parameters["mean"], "covariance": parameters["scale"]})
        if self.dof is not None:
            return value
        return value + float(np.sum(dof_log_prior(parameters["dof"])))

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

    @property
    def columns_depend(self) -> bool:
        return True

    def complete(
        self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Rows in given states, with missing cells drawn given the row's observed ones."""
        out = rows.copy()
        fill_normal(
            out, states, parameters["mean"], np.asarray(parameters["scale"]), np.asarray(parameters["dof"]), rng
        )
        return out

    def features(self, rows: np.ndarray) -> np.ndarray:
        return scaled(rows)
