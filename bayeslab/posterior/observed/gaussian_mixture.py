"""States that emit a mixture of normals, whose components are summed out with the states.

The components of a state are exchangeable. They are numbered by increasing mean in the first column, separately in
every draw, after the states have been labelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.distributions.emissions import GaussianMixture
from bayeslab.language.writer import Scaled, Writer
from bayeslab.posterior.observed.location_scale import centre_prior, spread_prior
from bayeslab.posterior.observed.part import StatePart

__all__ = ["MixedPart"]


@dataclass(frozen=True, eq=False, kw_only=True)
class MixedPart(StatePart):
    """Columns that are a mixture of normals in every state; see :class:`bayeslab.posterior.observed.part.StatePart`.

    All parameters are known, or none.
    """

    word: str = "gaussian_mixture"
    emission: GaussianMixture

    @property
    def no_gibbs(self) -> str:
        return "mixtures inside states have no Gibbs steps here; use nuts, map or em"

    @property
    def computed(self) -> bool:
        """True: the columns of a row share its component."""
        return True

    @property
    def layered(self) -> bool:
        return bool(self.learned)

    @property
    def n_layers(self) -> int:
        return self.emission.n_parts

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.called(p) for p in ("mean", "sd", "weight"))

    @property
    def learned(self) -> tuple[str, ...]:
        return () if self.known else self.names

    @property
    def n_free(self) -> int:
        return 0 if self.known else self.emission.n_free(self.n_states)

    def shape(self, name: str) -> tuple[int, ...]:
        wide = len(self.columns) > 1 and self.parameter(name) != "weight"
        return (self.n_states, self.n_layers, *((len(self.columns),) if wide else ()))

    def dims(self, name: str) -> tuple[str, ...]:
        return (self.style.state, "part", self.style.feature)[: len(self.shape(name))]

    def labels(self) -> dict[str, np.ndarray]:
        return {"part": np.arange(1, self.n_layers + 1)} | super().labels()

    def to_emission(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        get = {p: np.asarray({**values, **self.known}[self.called(p)], float) for p in ("weight", "mean", "sd")}
        full = (self.n_states, self.n_layers, len(self.columns))
        return {"weight": get["weight"], "mean": get["mean"].reshape(full), "variance": get["sd"].reshape(full) ** 2}

    def from_emission(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        named = {"mean": theta["mean"], "sd": np.sqrt(theta["variance"]), "weight": theta["weight"]}
        return {self.called(p): v.reshape(self.shape(self.called(p))) for p, v in named.items()}

    def ordered(self, values: Mapping[str, np.ndarray], lead: int = 0) -> dict[str, np.ndarray]:
        """Values with the components of every state sorted by the mean of the first column."""
        out = dict(values)
        if not self.learned:
            return out
        mean = np.asarray(values[self.called("mean")])
        first = mean[..., 0] if len(self.columns) > 1 else mean
        order = np.argsort(first, axis=-1, kind="stable")
        for name in self.names:
            value = np.asarray(values[name])
            by_part = order.reshape(*order.shape, *([1] * (value.ndim - order.ndim)))
            out[name] = np.take_along_axis(value, by_part, axis=lead + 1)
        return out

    def internal(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {f"_{self.called('variance')}": np.asarray(values[self.called("sd")]) ** 2} if self.learned else {}

    def location(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The mean (K,) of the first column in each state."""
        theta = self.to_emission(values)
        return np.asarray(np.sum(theta["weight"] * theta["mean"][..., 0], axis=1))

    def default_prior(self, name: str) -> str:
        prior = self.emission.prior
        assert prior is not None
        match self.parameter(name):
            case "mean":
                return centre_prior(prior, self.called("sd"))
            case "sd":
                return spread_prior(prior)
        return f"Dirichlet([{', '.join(['1'] * self.n_layers)}]) in every state"

    # ------------------------------------------------------------------ PyMC

    def variables(self, writer: Writer) -> dict[str, Any]:
        if self.known:
            return {name: writer.constant(value) for name, value in self.known.items()}
        mean, sd, weight = (self.called(p) for p in ("mean", "sd", "weight"))
        prior, shape = self.emission.prior, self.shape(mean)
        assert prior is not None
        begin: dict[str, np.ndarray] = {}
        if self.start:
            share = 0.95 * self.start[weight] + 0.05 / self.n_layers
            begin = {
                weight: share / share.sum(axis=1, keepdims=True),
                mean: self.start[mean],
                sd: np.maximum(self.start[sd], 1e-12) ** 2,
            }
        out: dict[str, Any] = {}
        ones = np.ones(self.shape(weight))
        out[weight] = writer.random(
            weight, "Dirichlet", {"a": ones}, ones.shape, dims=self.dims(weight), start=begin.get(weight)
        )
        given = {"alpha": prior.nu / 2, "beta": _along(0.5 * prior.scale, shape)}
        variance = writer.random(f"_{self.called('variance')}", "InverseGamma", given, shape, start=begin.get(sd))
        out[sd] = writer.computed(sd, writer.sqrt(variance), self.dims(sd))
        centre = _along(prior.mean, shape)
        step = _along(np.maximum(self.spread, 1e-300) / (self.n_states * self.n_layers), shape)
        given = {"mu": centre, "sigma": out[sd] / np.sqrt(prior.kappa)}
        out[mean] = writer.random(
            mean, "Normal", given, shape, dims=self.dims(mean), start=begin.get(mean), coordinates=Scaled(centre, step)
        )
        return out

    def density(self, writer: Writer, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        mean, sd, weight = (values[self.called(p)] for p in ("mean", "sd", "weight"))
        terms = writer.log(weight)[None]
        for j, at in enumerate(self.at):
            there = ~np.isnan(rows[:, at])
            x = np.where(there, rows[:, at], np.nanmean(rows[:, at]) if there.any() else 0.0)[:, None, None]
            centre, spread = (mean[:, :, j], sd[:, :, j]) if mean.ndim == 3 else (mean, sd)
            z = (x - centre) / spread
            terms = terms + writer.observed(there, -0.5 * z**2 - writer.log(spread) - HALF_LOG_2PI)
        return writer.log_sum_exp(terms, 2)[:, :, 0]

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        import pymc as pm

        mean, sd, weight = (values[self.called(p)] for p in ("mean", "sd", "weight"))
        part = pm.Categorical.dist(p=weight[states], shape=len(rows))
        centre, spread = mean[states, part], sd[states, part]
        made = pm.Normal.dist(centre, spread)
        return {column: made[:, j] if centre.ndim == 2 else made for j, column in enumerate(self.columns)}


def _along(each: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """One number per column, in the shape of a parameter."""
    return np.broadcast_to(each if len(shape) == 3 else each[0], shape).copy()
