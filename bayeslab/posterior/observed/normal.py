"""Normal columns, independent given the state: ``mean`` and ``sd``, which is one per column or one for all.

Two parametrisations: natural, the mean given the variance; and whitened, in coordinates (x - m) / √ψ of the prior
Normal(m, σ² / κ), σ² ~ InverseGamma(ν / 2, ψ / 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.distributions.emissions import DiagonalGaussian
from bayeslab.distributions.emissions.components import DIAGONAL_GAUSSIAN
from bayeslab.language.writer import Writer
from bayeslab.posterior.observed.location_scale import LocationScale
from bayeslab.posterior.observed.part import Compiled
from bayeslab.posterior.observed.standard import cell_values
from bayeslab.posterior.observed.whitened import normal_prior_words

__all__ = ["Normal"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Normal(LocationScale):
    """See :class:`bayeslab.posterior.observed.part.StatePart`.

    Attributes
    ----------
    free : mapping of str to str
        Priors of ``mean`` and ``sd`` in the model language, if they are not the conjugate ones.
    """

    word: str = "gaussian"
    emission: DiagonalGaussian
    free: Mapping[str, str] = field(default_factory=dict)

    centre_name: ClassVar[str] = "mean"
    spread_name: ClassVar[str] = "sd"

    @property
    def parameters(self) -> tuple[str, ...]:
        return ("mean", "sd")

    @property
    def spherical(self) -> bool:
        return bool(self.emission.covariance == "spherical")

    def shape(self, name: str) -> tuple[int, ...]:
        return (self.n_states,) if self.spherical and self.parameter(name) == "sd" else super().shape(name)

    def dims(self, name: str) -> tuple[str, ...]:
        return super().dims(name)[: len(self.shape(name))]

    def to_emission(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        theta = self.by_parameter(values)
        variance = theta["sd"] ** 2
        return {"mean": self.table(theta["mean"]), "variance": variance if self.spherical else self.table(variance)}

    def from_emission(self, theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
        sd = np.sqrt(theta["variance"])
        return {
            self.called("mean"): self.from_table(theta["mean"]),
            self.called("sd"): sd if self.spherical else self.from_table(sd),
        }

    def covariances(self, theta: Mapping[str, Any]) -> np.ndarray:
        """Covariance matrices of the columns in each state, (n_states, n_columns, n_columns)."""
        d = len(self.columns)
        variance = theta["variance"]
        return np.einsum(
            "kd,de->kde", variance if variance.ndim == 2 else np.repeat(variance[:, None], d, 1), np.eye(d)
        )

    # ------------------------------------------------------------------ EM

    def expected_cells(self, statistics: Mapping[str, np.ndarray], theta: Mapping[str, np.ndarray]) -> np.ndarray:
        weight = self.table(statistics["weight"])
        return np.asarray(-weight * np.log(theta["sd"]) - 0.5 * self.squares(statistics, theta) / theta["sd"] ** 2)

    def maximised(self, statistics: Mapping[str, Any], values: Mapping[str, Any], prior: bool) -> dict[str, np.ndarray]:
        out = super().maximised(statistics, values, prior)
        mean, sd = self.called("mean"), self.called("sd")
        if mean in self.known and sd in self.learned and not (prior and sd in self.priors):
            n, squares = self._about_known(statistics)
            weak = self.weak
            variance = (self.scales + squares) / (weak.nu + n + 2) if prior else squares / np.maximum(n, 1e-300)
            out[sd] = np.sqrt(variance).reshape(self.shape(sd))
        return out

    def _about_known(self, statistics: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Counts and sums of squares about known means, for each variance."""
        n, scatter = statistics["weight"], statistics["scatter"]
        mean = self.known[self.called("mean")].reshape(scatter.shape)
        squares = scatter + n * (statistics["mean"] - mean) ** 2
        return (n.sum(axis=1), squares.sum(axis=1)) if self.spherical else (n, squares)

    # ------------------------------------------------------------------ Gibbs

    def draw(self, rng: np.random.Generator, statistics: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if not self.known:
            return super().draw(rng, statistics)
        # Means given known standard deviations, or standard deviations given known means.
        prior, name = self.weak, self.learned[0]
        if name == self.called("mean"):
            n, mean = statistics["weight"], statistics["mean"]
            sd = np.broadcast_to(self.known[self.called("sd")].reshape(len(n), -1), n.shape)
            drawn = prior.centres(n, mean) + rng.standard_normal(n.shape) * sd / np.sqrt(prior.kappa + n)
            return {name: drawn.reshape(self.shape(name))}
        n, squares = self._about_known(statistics)
        variance = (self.scales + squares) / rng.chisquare(prior.nu + n)
        return {name: np.sqrt(variance).reshape(self.shape(name))}

    # ------------------------------------------------------------------ PyMC

    @property
    def language_priors(self) -> dict[str, str]:
        return {self.called(parameter): text for parameter, text in self.free.items()}

    @property
    def prior_of_emission(self) -> bool:
        return not self.free and super().prior_of_emission

    def prior_words(self) -> dict[str, str]:
        if not self.style.whitened:
            return super().prior_words()
        if self.free:
            return self.language_priors
        return normal_prior_words(self.weak, self.called("mean"), self.called("sd"))

    def variables(self, writer: Writer) -> dict[str, Any]:
        if not self.style.whitened:
            return super().variables(writer)
        d, start = len(self.columns), self.to_emission(self.start) if self.start else None
        mean_name, sd_name = self.called("mean"), self.called("sd")
        if self.free:
            mean, sd = (writer.existing(name, self.start.get(name)) for name in (mean_name, sd_name))
            log_sd = writer.log(sd)
            log_sd = writer.ops.broadcast_to(log_sd[:, None], (self.n_states, d)) if self.spherical else log_sd
            return {mean_name: mean, sd_name: sd, f"_{mean_name}": mean, f"_log_{sd_name}": log_sd}
        prior, (centre, scale) = self.weak, self.origin
        size = 1 if self.spherical else d
        begin = None if start is None else scale[:size] ** 2 / start["variance"].reshape(self.n_states, size)
        name = f"_{self.called('precision')}"
        precision = writer.random(name, "ChiSquared", {"nu": prior.nu}, (self.n_states, size), start=begin)
        log_sd = -0.5 * writer.log(precision)
        log_sd = writer.ops.broadcast_to(log_sd, (self.n_states, d)) if self.spherical and d > 1 else log_sd
        begin = None if start is None else (start["mean"] - centre) / scale
        given = {"mu": 0.0, "sigma": writer.exp(log_sd) / np.sqrt(prior.kappa)}
        at = writer.random(f"_{mean_name}", "Normal", given, (self.n_states, d), start=begin)
        mean = writer.computed(mean_name, centre + at * scale, self.dims(mean_name))
        sd = writer.exp(log_sd) * scale
        sd = writer.computed(sd_name, sd[:, 0] if self.spherical else sd, self.dims(sd_name))
        return {mean_name: mean, sd_name: sd, f"_{mean_name}": at, f"_log_{sd_name}": log_sd}

    @property
    def origin(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and unit of each column in whitened coordinates."""
        d = len(self.columns)
        if self.free:
            return np.zeros(d), np.ones(d)
        scale = np.sqrt(np.broadcast_to(self.scales, (d,)).astype(float))
        return np.asarray(self.weak.mean, float), scale

    def _whitened(self, values: Mapping[str, Any]) -> tuple[Any, Any]:
        """Means and logarithms of standard deviations in whitened coordinates."""
        return values[f"_{self.called('mean')}"], values[f"_log_{self.called('sd')}"]

    def density(self, writer: Writer, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        if not self.style.whitened:
            return super().density(writer, values, rows)
        rows, (at, log_sd), (centre, scale) = rows[:, list(self.at)], self._whitened(values), self.origin
        there = ~np.isnan(rows)
        filled = np.where(there, (rows - centre) / scale, 0.0)
        apart = (filled[:, None, :] - at) * writer.exp(-log_sd)
        terms = -0.5 * apart**2 - log_sd - HALF_LOG_2PI - np.log(scale)
        return (terms * there[:, None, :]).sum(axis=-1)

    def compiled(self, values: Mapping[str, Any], rows: np.ndarray) -> Compiled | None:
        if not self.style.whitened:
            return None
        rows, (at, log_sd), (centre, scale) = rows[:, list(self.at)], self._whitened(values), self.origin
        constant = -len(rows) * float(np.log(scale).sum())
        return Compiled(
            DIAGONAL_GAUSSIAN, [at.ravel(), log_sd.ravel()], np.ascontiguousarray((rows - centre) / scale), constant
        )

    def cells(self, writer: Writer, theta: Mapping[str, Any], cells: np.ndarray) -> Any:
        x, there = cell_values(cells)
        z = (x - theta["mean"]) / theta["sd"]
        return writer.observed(there, -0.5 * z**2 - writer.log(theta["sd"]) - HALF_LOG_2PI)

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        if not self.style.whitened:
            return super().drawn(values, states, rows)
        import pymc as pm
        import pytensor.tensor as pt

        (at, log_sd), (centre, scale) = self._whitened(values), self.origin
        noise = pm.Normal.dist(shape=(len(rows), len(self.columns)))
        made = centre + scale * (at[states] + pt.exp(log_sd[states]) * noise)
        return {column: made[:, j] for j, column in enumerate(self.columns)}

    def drawn_column(self, theta: Mapping[str, Any], rows: np.ndarray) -> Any:
        import pymc as pm

        return pm.Normal.dist(theta["mean"], theta["sd"], shape=len(rows))
