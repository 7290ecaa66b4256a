"""Exact posterior of a Gaussian process whose hyperparameters are all fixed, for the engine ``exact``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special
from scipy.linalg import cho_solve

from bayeslab.errors import ModelError
from bayeslab.families.gaussian_process.model import Resolved
from bayeslab.language.numeric_priors import numbers
from bayeslab.latents.gaussian_process.gaussian_process import GaussianProcess
from bayeslab.posterior.answer import Plan

__all__ = ["coefficient_prior", "exact", "integrated"]


def exact(resolved: Resolved) -> Plan | str:
    """The closed form, if only coefficients of the mean with normal priors are inferred."""
    if not resolved.gaussian:
        return f"with likelihood {resolved.spec.likelihood} the function has no closed form"
    free = [name for name in resolved.dims if name not in (resolved.level, "b")]
    if free:
        return f"the hyperparameters {', '.join(free[:4])}{' ...' if len(free) > 4 else ''} are inferred"
    try:
        prior = coefficient_prior(resolved)
    except ModelError:
        return "the coefficients of the mean have priors that are not normal with numbers"
    part = "the function is normal" if not len(prior[0]) else "function and mean are normal"
    solved = Solved(resolved, *prior)  # lazy: nothing is computed yet
    return Plan(f"{part}, all hyperparameters are fixed", lambda: solved, dims=solved.dims, labels=solved.labels)


def coefficient_prior(resolved: Resolved) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each coefficient of the mean.

    Raises
    ------
    ModelError
        A prior is not a normal distribution with numeric parameters.
    """
    means, variances = [], []
    size = {resolved.level: 1, "b": len(resolved.predictors)}
    for name in (*((resolved.level,) if resolved.intercept else ()), *(("b",) if resolved.predictors else ())):
        if name in resolved.fixed:
            means.append(np.array([resolved.fixed[name]]))
            variances.append(np.zeros(1))
            continue
        text = next(text for key, text in resolved.nodes.items() if key.partition("[")[0] == name)
        _, (middle, sd) = numbers(text, {"Normal": ("mu", "sigma")}, name)
        means.append(np.broadcast_to(np.asarray(middle, float), (size[name],)))
        variances.append(np.broadcast_to(np.asarray(sd, float) ** 2, (size[name],)))
    if not means:
        return np.empty(0), np.empty(0)
    return np.concatenate(means), np.concatenate(variances)


def integrated(
    resolved: Resolved, values: Mapping[str, Any], centre: np.ndarray, variances: np.ndarray
) -> GaussianProcess:
    """The process at given hyperparameters, with the mean's coefficients integrated out; outcomes relative to
    ``centre``.
    """
    assert resolved.y is not None
    noise = resolved.known + resolved.noise_sd(values) ** 2
    residuals = resolved.y - resolved.design @ centre
    return GaussianProcess(
        resolved.kernel,
        resolved.theta(values),
        resolved.x,
        residuals,
        noise,
        resolved.design,
        variances,
        resolved.nugget,
    )


@dataclass(frozen=True, eq=False)
class Solved:
    """An exact :class:`~bayeslab.posterior.answer.Answer`; ``f`` is the function at the rows, mean included."""

    resolved: Resolved
    centre: np.ndarray
    variances: np.ndarray

    @cached_property
    def process(self) -> GaussianProcess:
        return integrated(self.resolved, {}, self.centre, self.variances)

    @cached_property
    def _coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        mean, covariance = self.process.coefficients()
        return self.centre + mean, covariance

    @cached_property
    def _function(self) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = self.process.predict(self.resolved.x, design=self.resolved.design)
        return self.resolved.design @ self.centre + mean, np.sqrt(variance)

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        out: dict[str, tuple[str, ...]] = {}
        if self.resolved.middle is not None:
            out["Intercept"] = ()
        if self.resolved.intercept and self.resolved.level not in self.resolved.fixed:
            out[self.resolved.level] = ()
        if self.resolved.predictors:
            out["b"] = ("predictor",)
        return out | {"f": (self.resolved.rows,)}

    @property
    def labels(self) -> Mapping[str, np.ndarray]:
        return {**self.resolved.labels, self.resolved.rows: self.resolved.row_labels}

    @property
    def log_evidence(self) -> float:
        return self.process.log_evidence

    def _split(self, coefficients: np.ndarray, function: np.ndarray) -> dict[str, np.ndarray]:
        """Split arrays by name; coefficients and rows are on the last axis."""
        out = {"f": function, "b": coefficients[..., int(self.resolved.intercept) :]}
        if self.resolved.intercept:
            out[self.resolved.level] = coefficients[..., 0]
        if self.resolved.middle is not None:
            out["Intercept"] = coefficients @ self.resolved.at_zero
        return {name: out[name] for name in self.dims}

    def mean(self) -> Mapping[str, np.ndarray]:
        return self._split(self._coefficients[0], self._function[0])

    def sd(self) -> Mapping[str, np.ndarray]:
        covariance = self._coefficients[1]
        out = self._split(np.sqrt(np.diagonal(covariance)), self._function[1])
        if self.resolved.middle is not None:
            out["Intercept"] = np.sqrt(self.resolved.at_zero @ covariance @ self.resolved.at_zero)
        return out

    def quantile(self, probability: float) -> Mapping[str, np.ndarray]:
        at, mean, sd = special.ndtri(probability), self.mean(), self.sd()
        return {name: mean[name] + at * sd[name] for name in mean}

    def draws(self, rng: np.random.Generator, n: int) -> Mapping[str, np.ndarray]:
        """Joint draws of coefficients and function: the function is drawn given the coefficients."""
        resolved = self.resolved
        mean, covariance = self._coefficients
        coefficients = mean + rng.standard_normal((n, len(mean))) @ _root(covariance).T
        assert resolved.y is not None
        given = GaussianProcess(
            resolved.kernel,
            resolved.theta({}),
            resolved.x,
            np.zeros(resolved.n),
            self.process.noise,
            nugget=resolved.nugget,
        )
        part = given.kernel.free_of_noise()
        cross = np.zeros((resolved.n, resolved.n)) if part is None else part.matrix(given.theta, resolved.x)

        gain = cho_solve((given.lower, True), cross).T
        _, spread = given.joint(resolved.x)
        means = coefficients @ resolved.design.T
        noise = rng.standard_normal((n, resolved.n)) @ _root(spread).T
        return self._split(coefficients, means + (resolved.y - means) @ gain.T + noise)


def _root(covariance: np.ndarray) -> np.ndarray:
    """A square root of a covariance matrix that may be singular."""
    if not covariance.size:
        return covariance
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
