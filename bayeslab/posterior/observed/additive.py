r"""Normal columns whose mean is a sum of effects of several hidden chains.

In a factorial hidden Markov model all chains share one output [1]_. If its mean is additive,

    y_j | z ~ Normal(mean_j + sum_c effect_cj[z_c], sd_j),    sum_k effect_cj[k] = 0,

a state of the product of all chains is a row of a design: an intercept, and for each chain the
coordinates of its state in an orthonormal basis of the vectors that sum to zero. The M-step is then a
weighted least-squares regression of the product states' means on that design. A normal prior with one
variance in these coordinates is invariant to the labelling of the states.

References
----------
.. [1] Ghahramani, Jordan (1997). Factorial hidden Markov models. Machine Learning 29, 245-273.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.linalg import helmert

from bayeslab.constants import LOG_2PI
from bayeslab.distributions.emissions.cells import check_shape, refuse_constant, scaled
from bayeslab.distributions.emissions.normal import DiagonalGaussian
from bayeslab.distributions.emissions.normal_moments import centred
from bayeslab.distributions.emissions.normal_prior import NormalPrior
from bayeslab.distributions.emissions.protocol import Emission, Parameters, Statistics
from bayeslab.distributions.toolbox.logarithms import ratio
from bayeslab.latents.chains.product_chain import ProductSpace

__all__ = ["AdditiveGaussian"]


@dataclass(frozen=True, eq=False)
class AdditiveGaussian(Emission):
    """Normal rows with additive means.

    Parameters ``coefficients`` (n_coefficients, d), the intercept first, and ``variance`` (d,).

    Parameters
    ----------
    sizes : tuple of int
        The number of states of each chain.
    n_columns : int
    prior : NormalPrior, optional
        Coefficients are normal about (mean, 0, 0, ...) with variance σ² / κ, variances inverse gamma.
    """

    sizes: tuple[int, ...]
    n_columns: int
    prior: NormalPrior | None = None

    @cached_property
    def bases(self) -> tuple[np.ndarray, ...]:
        """For each chain the coordinates of its states, (size, size - 1): orthonormal columns that sum to zero."""
        return tuple(helmert(size).T if size > 1 else np.zeros((1, 0)) for size in self.sizes)

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """The coefficients of each chain."""
        ends = np.cumsum([1, *(size - 1 for size in self.sizes)])
        return tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(ends))

    @cached_property
    def design(self) -> np.ndarray:
        """The design matrix of the product states, (n_product_states, n_coefficients)."""
        states = ProductSpace(self.sizes).states
        parts = [basis[states[:, chain]] for chain, basis in enumerate(self.bases)]
        return np.column_stack([np.ones(len(states)), *parts])

    @property
    def n_coefficients(self) -> int:
        return 1 + sum(self.sizes) - len(self.sizes)

    def effects(self, coefficients: np.ndarray) -> list[np.ndarray]:
        """The effects of each chain, (size, d)."""
        return [basis @ coefficients[block] for basis, block in zip(self.bases, self.blocks, strict=True)]

    def coefficients(self, mean: np.ndarray, effects: Sequence[np.ndarray]) -> np.ndarray:
        """The inverse of :meth:`effects`; non-zero means of effects are added to the intercept."""
        level = mean + np.sum([effect.mean(axis=0) for effect in effects], axis=0)
        return np.vstack([level, *(basis.T @ e for basis, e in zip(self.bases, effects, strict=True))])

    @property
    def kinds(self) -> dict[str, str]:
        return {"variance": "positive"}

    def check(self, rows: np.ndarray) -> None:
        check_shape(rows, self.n_columns)
        if self.prior is None:
            refuse_constant(rows, "every variance would be zero")

    def _each(self, parameters: Parameters) -> dict[str, np.ndarray]:
        """Mean and variance of every product state."""
        mean = self.design @ parameters["coefficients"]
        return {"mean": mean, "variance": np.broadcast_to(parameters["variance"], mean.shape)}

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        return DiagonalGaussian(self.n_columns).log_density(self._each(parameters), rows)

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        apart, observed, about = centred(rows)
        weight = responsibilities.T @ observed
        shift = ratio(responsibilities.T @ apart, weight, 0.0)
        square = responsibilities.sum(axis=1) @ apart**2
        # The scatter about the states' means; only its sum over states is needed.
        return {"weight": weight, "mean": about + shift, "scatter": square - np.sum(weight * shift**2, axis=0)}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        fits = [self._column(statistics, j) for j in range(self.n_columns)]
        return {
            "coefficients": np.column_stack([beta for beta, _ in fits]),
            "variance": np.array([variance for _, variance in fits]),
        }

    def _column(self, statistics: Statistics, j: int) -> tuple[np.ndarray, float]:
        weight, mean, scatter = (statistics[name][..., j] for name in ("weight", "mean", "scatter"))
        root = np.sqrt(weight)
        left, right = root[:, None] * self.design, root * mean
        if (prior := self.prior) is None:
            beta = np.linalg.lstsq(left, right)[0]
            left_over = max(float(scatter), 0.0) + np.sum((right - left @ beta) ** 2)
            return beta, float(left_over / max(weight.sum(), 1e-300))
        centre = np.zeros(self.n_coefficients)
        centre[0] = prior.mean[j]
        pull = np.sqrt(prior.kappa) * np.eye(self.n_coefficients)
        apart = np.linalg.lstsq(np.vstack([left, pull]), np.append(right - left @ centre, np.zeros(len(pull))))[0]
        beta = centre + apart
        left_over = max(float(scatter), 0.0) + np.sum((right - left @ beta) ** 2) + prior.kappa * np.sum(apart**2)
        freedom = prior.nu + 2 + weight.sum() + self.n_coefficients
        return beta, float((prior.scale[j] + left_over) / freedom)

    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float:
        weight, variance = statistics["weight"], parameters["variance"]
        apart = statistics["mean"] - self.design @ parameters["coefficients"]
        square = statistics["scatter"] + np.sum(weight * apart**2, axis=0)
        return float(-0.5 * np.sum(weight.sum(axis=0) * (LOG_2PI + np.log(variance)) + square / variance))

    def log_prior(self, parameters: Parameters) -> float:
        if (prior := self.prior) is None:
            return 0.0
        variance, apart = parameters["variance"], parameters["coefficients"].copy()
        apart[0] -= prior.mean
        squares = prior.scale + prior.kappa * np.sum(apart**2, axis=0)
        return float(-0.5 * np.sum((self.n_coefficients + prior.nu + 2) * np.log(variance) + squares / variance))

    def n_free(self, n_states: int) -> int:
        return self.n_columns * (self.n_coefficients + 1)

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        return replace(self, prior=NormalPrior.weak(rows, n_states, diagonal=True))

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        flat = bool(np.any(parameters["variance"] <= 1e-9 * np.maximum(variances, 1e-300)))
        return np.full(len(self.design), flat)

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        mean = self.design[states] @ parameters["coefficients"]
        return mean + np.sqrt(parameters["variance"]) * rng.standard_normal(mean.shape)

    def features(self, rows: np.ndarray) -> np.ndarray:
        return scaled(rows)

    def begin(self, rows: np.ndarray, rng: np.random.Generator, *, tries: int = 8, rounds: int = 12) -> Parameters:
        """A start for searches: rows are assigned to the nearest product state and means are updated, in turn.

        The best of several random starts is used; the order in time is ignored.
        """
        ends = [self._turns(rows, rng, rounds) for _ in range(tries)]
        return min(ends, key=lambda end: float(np.sum(np.log(end["variance"]))))

    def _turns(self, rows: np.ndarray, rng: np.random.Generator, rounds: int) -> Parameters:
        emission = self if self.prior is not None else self.with_prior(rows, len(self.design))
        assert emission.prior is not None
        spread = np.nanstd(rows, axis=0)
        beta = rng.standard_normal((self.n_coefficients, self.n_columns)) * spread
        beta[0] = emission.prior.mean
        theta: Parameters = {"coefficients": beta, "variance": 0.25 * spread**2}
        for _ in range(rounds):
            nearest = np.eye(len(self.design))[emission.log_density(theta, rows).argmax(axis=1)]
            theta = emission.maximise(emission.statistics(rows, nearest))
        return theta
