"""Columns with a location and a scale in each state, in their natural parametrisation: normal and Student's t.

The variance has an inverse-gamma prior, and the location a normal prior whose sd is a multiple of the scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bayeslab.data.weak_priors import shown
from bayeslab.distributions.emissions import DiagonalGaussian, NormalPrior, StudentT
from bayeslab.language.writer import Scaled, Writer
from bayeslab.posterior.observed.given_priors import CellwisePart
from bayeslab.posterior.observed.prior import across

__all__ = ["LocationScale", "centre_prior", "spread_prior"]


def centre_prior(prior: NormalPrior, spread: str) -> str:
    """The conjugate prior of a mean as text; ``spread`` is the name of the standard deviation."""
    return f"Normal({shown(prior.mean)}, {spread} / {np.sqrt(prior.kappa):.4g})"


def spread_prior(prior: NormalPrior) -> str:
    """The conjugate prior of a standard deviation as text."""
    scale = np.asarray(prior.scale)
    half = 0.5 * np.ravel(np.diag(scale) if scale.ndim == 2 else scale)
    return f"sqrt(InverseGamma({prior.nu / 2:.4g}, {shown(half)}))"


@dataclass(frozen=True, eq=False, kw_only=True)
class LocationScale(CellwisePart):
    """See :class:`bayeslab.posterior.observed.part.StatePart`."""

    emission: DiagonalGaussian | StudentT

    centre_name: ClassVar[str]
    spread_name: ClassVar[str]

    def internal(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        spread = self.called(self.spread_name)
        if spread not in self.learned or spread in self.priors:
            return {}
        return {f"_{self.called('variance')}": np.asarray(values[spread]) ** 2}

    @property
    def weak(self) -> NormalPrior:
        """The prior of unknown locations and scales."""
        prior = self.emission.prior
        assert prior is not None
        return prior

    @property
    def scales(self) -> np.ndarray:
        """Scales of the inverse-gamma priors of variances: one per column, or one for all."""
        scale = np.asarray(self.weak.scale)
        scale = np.diag(scale) if scale.ndim == 2 else scale
        return np.asarray(np.mean(scale)) if self.spherical else scale

    def squares(self, statistics: Mapping[str, np.ndarray], theta: Mapping[str, np.ndarray]) -> np.ndarray:
        """Expected squared distances from the centre, (n_states, n_columns)."""
        weight, scatter = (self.table(statistics[name]) for name in ("weight", "scatter"))
        return np.asarray(scatter + weight * (statistics["mean"] - theta[self.centre_name]) ** 2)

    def default_log_density(self, name: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
        value, prior, parameter = values[name], self.weak, self.parameter(name)
        if parameter == self.spread_name:
            half = 0.5 * across(self.scales, value.shape, last=True)
            return np.asarray(-(prior.nu + 2) * np.log(value) - half / value**2)
        spread = values[self.called(self.spread_name)]
        spread = spread[:, None] if value.ndim == 2 and spread.ndim == 1 else spread
        apart = value - across(prior.mean, value.shape, last=True)
        return np.asarray(-np.log(spread) - 0.5 * prior.kappa * (apart / spread) ** 2)

    # ------------------------------------------------------------------ PyMC

    def default_prior(self, name: str) -> str:
        if name in self.priors:
            return self.priors[name].text
        prior = self.weak
        if self.parameter(name) == self.centre_name:
            return centre_prior(prior, self.called(self.spread_name))
        return spread_prior(prior)

    def default_variable(self, writer: Writer, name: str, made: Mapping[str, Any]) -> Any:
        shape, dims, start, prior = self.shape(name), self.dims(name), self.start.get(name), self.weak
        if self.parameter(name) == self.spread_name:
            begin = None if start is None else np.maximum(start, 1e-12) ** 2
            half = across(0.5 * self.scales, shape, last=True)
            given = {"alpha": prior.nu / 2, "beta": half}
            variance = writer.random(f"_{self.called('variance')}", "InverseGamma", given, shape, start=begin)
            return writer.computed(name, writer.sqrt(variance), dims)
        spread = made[self.called(self.spread_name)]
        centre = across(prior.mean, shape, last=True)
        spread = spread[:, None] if np.ndim(centre) == 2 and spread.ndim == 1 else spread
        step = across(np.maximum(self.spread, 1e-300) / self.n_states, shape, last=True)
        given = {"mu": centre, "sigma": spread / np.sqrt(prior.kappa)}
        return writer.random(name, "Normal", given, shape, dims=dims, start=start, coordinates=Scaled(centre, step))
