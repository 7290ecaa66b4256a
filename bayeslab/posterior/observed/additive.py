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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.linalg import helmert

from bayeslab.constants import HALF_LOG_2PI, LOG_2PI
from bayeslab.data.weak_priors import shown
from bayeslab.distributions.emissions.cells import check_shape, refuse_constant, scaled
from bayeslab.distributions.emissions.normal import DiagonalGaussian
from bayeslab.distributions.emissions.normal_moments import centred
from bayeslab.distributions.emissions.normal_prior import NormalPrior
from bayeslab.distributions.emissions.protocol import Emission, Parameters, Statistics
from bayeslab.distributions.toolbox.logarithms import ratio
from bayeslab.language.writer import Scaled, Writer
from bayeslab.latents.chains.product_chain import ProductSpace
from bayeslab.posterior.observed.part import StatePart

__all__ = ["Additive", "AdditiveGaussian", "effect_shape"]


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Additive(StatePart):
    """Normal columns with additive effects; see :class:`bayeslab.posterior.observed.part.StatePart`.

    Attributes
    ----------
    chains : tuple of str

    All parameters are known, or none.
    """

    word: str = "gaussian"
    chains: tuple[str, ...]
    emission: AdditiveGaussian

    @property
    def names(self) -> tuple[str, ...]:
        return ("mean", *(f"effect_{chain}" for chain in self.chains), "sd")

    @property
    def learned(self) -> tuple[str, ...]:
        return () if self.known else self.names

    @property
    def symmetric(self) -> bool:
        return not self.known

    @property
    def n_free(self) -> int:
        return 0 if self.known else int(self.emission.n_free(self.n_states))

    def owned(self, name: str) -> tuple[str, int] | None:
        return ("effect", self.names.index(name) - 1) if name in self.names[1:-1] else None

    def constrained(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Shift effects to sum to zero, with the difference added to the mean."""
        if self.known:
            return {}
        shifts = {name: np.asarray(values[name]).mean(axis=0) for name in self.names[1:-1]}
        out = {name: values[name] - shift for name, shift in shifts.items()}
        return out | {"mean": values["mean"] + sum(shifts.values())}

    def shape(self, name: str) -> tuple[int, ...]:
        return effect_shape(name, self.chains, self.emission.sizes, len(self.columns))

    def dims(self, name: str) -> tuple[str, ...]:
        owned = self.owned(name)
        chain_dims = () if owned is None else (self.chains[owned[1]],)
        return (*chain_dims, "feature") if len(self.columns) > 1 else chain_dims

    def labels(self) -> dict[str, np.ndarray]:
        return {"feature": np.array(self.columns)} if len(self.columns) > 1 else {}

    def to_emission(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        d = len(self.columns)
        parameters = {name: np.asarray({**values, **self.known}[name], dtype=float) for name in self.names}
        effects = [parameters[name].reshape(-1, d) for name in self.names[1:-1]]
        coefficients = self.emission.coefficients(parameters["mean"].reshape(d), effects)
        return {"coefficients": coefficients, "variance": parameters["sd"].reshape(d) ** 2}

    def from_emission(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        effects = self.emission.effects(theta["coefficients"])
        parameters = [theta["coefficients"][0], *effects, np.sqrt(theta["variance"])]
        return {name: np.asarray(v).reshape(self.shape(name)) for name, v in zip(self.names, parameters, strict=True)}

    def default_prior(self, name: str) -> str:
        prior = self.emission.prior
        assert prior is not None
        if name == "sd":
            return f"sqrt(InverseGamma({prior.nu / 2:.4g}, {shown(prior.scale / 2)}))"
        wide = f"sd / {np.sqrt(prior.kappa):.4g}"
        return f"Normal({shown(prior.mean)}, {wide})" if name == "mean" else f"Normal(0, {wide}), their sum zero"

    def internal(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if self.known:
            return {}
        n = len(values["sd"])
        each = [self.to_emission({name: values[name][i] for name in self.names}) for i in range(n)]
        return {"_coefficients": np.stack([parameters["coefficients"] for parameters in each])}

    # ------------------------------------------------------------------ PyMC

    def variables(self, writer: Writer) -> dict[str, Any]:
        """Mean, effects and standard deviations; coordinates without constraints inside."""
        if self.known:
            return {name: writer.constant(value) for name, value in self.known.items()}
        emission, prior, d = self.emission, self.emission.prior, len(self.columns)
        assert prior is not None
        begin = self.to_emission(self.start) if self.start else {}
        first = np.maximum(begin["variance"], 1e-12) if begin else None
        given = {"alpha": prior.nu / 2, "beta": prior.scale / 2}
        variance = writer.random("_variance", "InverseGamma", given, (d,), start=first)
        shape = emission.n_coefficients, d
        centre = np.zeros(shape)
        centre[0] = prior.mean
        step = np.broadcast_to(np.maximum(self.spread, 1e-300) / self.n_states, shape)
        given = {"mu": centre, "sigma": writer.sqrt(variance / prior.kappa)}
        b = writer.random(
            "_coefficients", "Normal", given, shape, start=begin.get("coefficients"), coordinates=Scaled(centre, step)
        )
        parts = [b[0], *(writer.dot(basis, b[at]) for basis, at in zip(emission.bases, emission.blocks, strict=True))]
        return {
            name: writer.computed(name, value.reshape(self.shape(name)), self.dims(name))
            for name, value in zip(self.names, [*parts, writer.sqrt(variance)], strict=True)
        }

    def _means(self, values: Mapping[str, Any]) -> Any:
        """(n_states, n_columns)."""
        d = len(self.columns)
        states = ProductSpace(self.emission.sizes).states
        out = values["mean"].reshape((1, d))
        for c, name in enumerate(self.names[1:-1]):
            out = out + values[name].reshape((self.emission.sizes[c], d))[states[:, c]]
        return out

    def density(self, writer: Writer, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        """log p(row | state of the product), (N, S)."""
        means, sd = self._means(values), values["sd"].reshape((len(self.columns),))
        total: Any = 0.0
        for j, at in enumerate(self.at):
            observed = ~np.isnan(rows[:, at])
            z = (np.where(observed, rows[:, at], 0.0)[:, None] - means[:, j]) / sd[j]
            total = total + writer.observed(observed, -0.5 * z**2 - writer.log(sd[j]) - HALF_LOG_2PI)
        return total

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        import pymc as pm

        means, sd = self._means(values)[states], values["sd"].reshape((len(self.columns),))
        return {name: pm.Normal.dist(means[:, j], sd[j], shape=len(rows)) for j, name in enumerate(self.columns)}


def effect_shape(name: str, chains: Sequence[str], sizes: Sequence[int], d: int) -> tuple[int, ...]:
    """The shape of a parameter of d columns: of a chain's effects, or of means or standard deviations."""
    chain_shape = tuple(k for chain, k in zip(chains, sizes, strict=True) if name == f"effect_{chain}")
    return (*chain_shape, d) if d > 1 else chain_shape
