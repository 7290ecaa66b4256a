"""Regressions on inputs: the experts of a mixture of experts, or the outputs of an input-output chain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from bayeslab import special
from bayeslab.constants import LOG_2PI
from bayeslab.distributions.emissions.cells import (
    check_shape,
    check_values,
    column_variances,
    prior_of,
    refuse_constant,
    scaled,
)
from bayeslab.distributions.emissions.protocol import ConjugateEmission, Parameters, Statistics
from bayeslab.distributions.toolbox.logarithms import ratio
from bayeslab.errors import DataError, OptionError

__all__ = ["Regression"]


@dataclass(frozen=True, eq=False)
class Regression(ConjugateEmission):
    """A generalised linear model for each state: an expert.

    Rows are the inputs (with a column of ones for an intercept), then the outcome.
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

    @property
    def kinds(self) -> dict[str, str]:
        return {"variance": "positive"}

    def check(self, rows: np.ndarray) -> None:
        check_shape(rows, self.n_columns)
        if np.isnan(rows[:, :-1]).any():
            n, j = np.argwhere(np.isnan(rows[:, :-1]))[0]
            raise DataError(
                f"row {n}, input column {j} is missing; only the outcome of a regression may be", code="missing"
            )
        y = rows[:, -1:]
        if self.outcome == "bernoulli":
            check_values(y, (y == 0) | (y == 1), "a Bernoulli outcome is 0 or 1")
        elif self.outcome == "poisson":
            check_values(y, (y >= 0) & (y == np.floor(y)), "counts are whole numbers from 0")
        elif self.prior is None:
            refuse_constant(y, "every residual variance would be zero")

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        x, y = rows[:, :-1], rows[:, -1:]
        eta = x @ parameters["coefficients"].T
        if self.outcome == "gaussian":
            variance = parameters["variance"]
            out = -0.5 * (LOG_2PI + np.log(variance) + (y - eta) ** 2 / variance)
        elif self.outcome == "bernoulli":
            out = y * eta - np.logaddexp(0.0, eta)
        else:
            out = y * eta - np.exp(np.minimum(eta, 700.0)) - special.gammaln(y + 1)
        return np.where(np.isnan(y), 0.0, out)

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        present = ~np.isnan(rows[:, -1])
        x, y, r = rows[present, :-1], rows[present, -1], responsibilities[present]
        if self.outcome != "gaussian":
            # No sufficient statistic of fixed size exists.
            return {"rows": rows[present], "belonging": r}
        gram = np.stack([(x * weight[:, None]).T @ x for weight in r.T])
        return {"weight": r.sum(axis=0), "gram": gram, "cross": (r * y[:, None]).T @ x, "square": r.T @ y**2}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        if self.outcome == "gaussian":
            return self._least_squares(statistics)
        rows, responsibilities = statistics["rows"], statistics["belonging"]
        n_states = responsibilities.shape[1]
        start = np.zeros((n_states, self.n_inputs)) if parameters is None else parameters["coefficients"]
        fitted = [self._newton(rows, responsibilities[:, k], start[k]) for k in range(n_states)]
        return {"coefficients": np.stack(fitted)}

    def _least_squares(self, statistics: Statistics) -> Parameters:
        gram, cross, n = statistics["gram"], statistics["cross"], statistics["weight"]
        ridge = (self.prior or 0.0) * np.eye(self.n_inputs)
        pairs = zip(gram + ridge, cross, strict=True)
        coefficients = np.stack([np.linalg.lstsq(g, c, rcond=None)[0] for g, c in pairs])
        residual = self.residual(statistics, coefficients)
        if self.prior is None:
            return {"coefficients": coefficients, "variance": ratio(residual, n, 0.0)}
        residual = residual + self.prior * np.sum(coefficients**2, axis=1)
        variance = (self.rate + 0.5 * residual) / (2 + 0.5 * (n + self.n_inputs))
        return {"coefficients": coefficients, "variance": variance}

    @property
    def rate(self) -> float:
        """Rate of the inverse gamma prior of the variance."""
        return 0.01 * self.spread

    def residual(self, statistics: Statistics, coefficients: np.ndarray) -> np.ndarray:
        """Weighted sums of squared residuals of normal outcomes, (K,)."""
        quadratic = np.einsum("ki,kij,kj->k", coefficients, statistics["gram"], coefficients)
        return np.maximum(statistics["square"] - 2 * np.sum(coefficients * statistics["cross"], 1) + quadratic, 0.0)

    def _newton(self, rows: np.ndarray, weights: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Weighted maximum likelihood by damped Newton steps; never below the start."""
        x, y = rows[:, :-1], rows[:, -1]
        # A tiny ridge keeps coefficients of separable data finite.
        ridge = self.prior if self.prior is not None else 1e-8

        def objective(b: np.ndarray) -> float:
            eta = x @ b
            bend = np.logaddexp(0.0, eta) if self.outcome == "bernoulli" else np.exp(np.minimum(eta, 700.0))
            return float(weights @ (y * eta - bend) - 0.5 * ridge * b @ b)

        best, value = start, objective(start)
        for _ in range(25):
            eta = x @ best
            mean = special.expit(eta) if self.outcome == "bernoulli" else np.exp(np.minimum(eta, 700.0))
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

    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float:
        if self.outcome != "gaussian":
            density = self.log_density(parameters, statistics["rows"])
            return float(np.sum(statistics["belonging"] * density))
        variance = parameters["variance"]
        residual = self.residual(statistics, parameters["coefficients"])
        return float(-0.5 * np.sum(statistics["weight"] * (LOG_2PI + np.log(variance)) + residual / variance))

    def log_prior(self, parameters: Parameters) -> float:
        if self.prior is None:
            return 0.0
        squares = np.sum(parameters["coefficients"] ** 2, axis=1)
        if self.outcome != "gaussian":
            return float(-0.5 * self.prior * np.sum(squares))
        variance = parameters["variance"]
        inside = (0.5 * self.prior * squares + self.rate) / variance
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
        raise OptionError("a regression's rows need inputs: use `outcomes`", code="not-applicable")

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
            else 1.0 * (rng.random(len(eta)) < special.expit(eta))
        )

    def features(self, rows: np.ndarray) -> np.ndarray:
        return scaled(rows)

    # ------------------------------------------------------------------ conjugate, normal outcomes

    def posterior(self, statistics: Statistics) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Precision Λ, mean m, shape a and rate b of each state."""
        if self.outcome != "gaussian":
            raise OptionError(
                f"a {self.outcome} regression has no conjugate prior; use method: em or map", code="not-conjugate"
            )
        prior = prior_of(self)
        precision = statistics["gram"] + prior * np.eye(self.n_inputs)
        mean = np.linalg.solve(precision, statistics["cross"][..., None])[..., 0]
        residual = self.residual(statistics, mean) + prior * np.sum(mean**2, axis=1)
        return precision, mean, 1 + 0.5 * statistics["weight"], self.rate + 0.5 * residual

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        return np.zeros(len(rows))

    def draw(self, rng: np.random.Generator, statistics: Statistics) -> Parameters:
        precision, mean, a, b = self.posterior(statistics)
        variance = b / rng.standard_gamma(a)
        lower = np.linalg.cholesky(precision)
        noise = np.linalg.solve(lower.transpose(0, 2, 1), rng.standard_normal((*mean.shape, 1)))[..., 0]
        return {"coefficients": mean + noise * np.sqrt(variance)[:, None], "variance": variance}

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        precision, mean, a, b = self.posterior(statistics)
        x, y = rows[:, :-1], rows[:, -1:]
        width = np.einsum("ni,kij,nj->nk", x, np.linalg.inv(precision), x, optimize=True)
        out = -0.5 * (LOG_2PI + np.log(b) - special.digamma(a) + (y - x @ mean.T) ** 2 * a / b + width)
        return np.where(np.isnan(y), 0.0, out)

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        precision, _, a, b = self.posterior(statistics)
        volume = 0.5 * (self.n_inputs * np.log(prior_of(self)) - np.linalg.slogdet(precision)[1])
        gammas = np.log(self.rate) - a * np.log(b) + special.gammaln(a)
        return volume + gammas - 0.5 * statistics["weight"] * LOG_2PI
