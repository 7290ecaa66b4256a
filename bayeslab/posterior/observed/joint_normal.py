"""Correlated normal columns: one covariance matrix per state, one for all states, or a known one.

Graphs use whitened coordinates: :mod:`bayeslab.posterior.observed.whitened`. With an LKJ prior a matrix consists of
standard deviations and a correlation matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.data.weak_priors import shown
from bayeslab.distributions.emissions import FullGaussian, NormalPrior
from bayeslab.language.writer import Writer
from bayeslab.posterior.observed.part import Compiled, StatePart
from bayeslab.posterior.observed.whitened import (
    Triangular,
    conjugate,
    correlation_factor,
    normal_prior_words,
    products,
    sds,
)

__all__ = ["JointNormal"]


@dataclass(frozen=True, eq=False, kw_only=True)
class JointNormal(StatePart):
    """Normal columns with covariance matrices; see :class:`bayeslab.posterior.observed.part.StatePart`.

    Attributes
    ----------
    free : mapping of str to str
        Priors of ``mean`` and ``sd`` in the model language, used with an LKJ prior.
    lkj : float or None
        η of the LKJ prior of correlations.
    """

    word: str = "gaussian"
    emission: FullGaussian
    free: Mapping[str, str] = field(default_factory=dict)
    lkj: float | None = None

    @property
    def covariance(self) -> str:
        return str(self.emission.covariance)

    @property
    def weak(self) -> NormalPrior:
        """The prior of means and matrices."""
        assert self.emission.prior is not None
        return self.emission.prior

    @property
    def tied(self) -> bool:
        return self.covariance == "tied"

    @property
    def names(self) -> tuple[str, ...]:
        known = self.covariance == "known"
        return tuple(self.called(p) for p in (("mean",) if known else ("mean", "covariance")))

    @property
    def results(self) -> tuple[str, ...]:
        mean, *matrix = self.names
        return (mean, self.called("sd"), *matrix) if matrix and self.style.derived else self.names

    @property
    def n_free(self) -> int:
        d = len(self.columns)
        matrices = {"tied": 1, "known": 0}.get(self.covariance, self.n_states)
        return self.n_states * d + matrices * d * (d + 1) // 2

    @property
    def by_column(self) -> bool:
        return True

    @property
    def computed(self) -> bool:
        """True: the columns of a row are drawn jointly."""
        return True

    def shape(self, name: str) -> tuple[int, ...]:
        d, parameter = len(self.columns), self.parameter(name)
        states = () if self.tied and parameter != "mean" else (self.n_states,)
        return (*states, d, d) if parameter == "covariance" else (*states, d)

    def dims(self, name: str) -> tuple[str, ...]:
        parameter, feature = self.parameter(name), self.style.feature
        states = () if self.tied and parameter != "mean" else (self.style.state,)
        return (*states, feature, f"{feature}_2") if parameter == "covariance" else (*states, feature)

    def labels(self) -> dict[str, np.ndarray]:
        return dict.fromkeys((self.style.feature, f"{self.style.feature}_2"), np.array(self.columns))

    def to_emission(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {self.parameter(name): np.asarray(values[name], float) for name in self.names}

    def from_emission(self, theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
        out = {name: theta[self.parameter(name)] for name in self.names}
        if len(self.results) > len(self.names):
            out[self.called("sd")] = np.sqrt(np.einsum("...ii->...i", theta["covariance"]))
        return out

    def covariances(self, theta: Mapping[str, Any]) -> np.ndarray:
        """Covariance matrices of the columns in each state, (n_states, n_columns, n_columns)."""
        d = len(self.columns)
        return np.broadcast_to(self.emission.covariances(theta), (len(theta["mean"]), d, d))

    # ------------------------------------------------------------------ Gibbs

    def draw(self, rng: np.random.Generator, statistics: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if not self.tied:
            return super().draw(rng, statistics)
        drawn = self.from_emission(self.emission.draw_tied(rng, dict(statistics)))
        return {name: drawn[name] for name in self.learned}

    # ------------------------------------------------------------------ PyMC

    def default_prior(self, name: str) -> str:
        prior = self.weak
        if self.parameter(name) == "mean":
            return f"Normal(mean of the data, covariance / {prior.kappa:g})"
        return f"InverseWishart({prior.nu:g}, covariance of the data / {self.n_states ** (2 / len(self.columns)):.3g})"

    def prior_words(self) -> dict[str, str]:
        if not self.style.derived:
            return super().prior_words()
        mean, sd, matrix = (self.called(p) for p in ("mean", "sd", "covariance"))
        prior = self.weak
        if self.lkj is not None:
            out = self.language_priors
            if not out:
                unit = np.sqrt(np.diag(prior.scale))
                out = {mean: f"Normal({shown(prior.mean)}, {shown(unit * prior.kappa**-0.5)})"}
                out[sd] = f"LogNormal(log {shown(unit)}, 1)"
            return out | {matrix: f"correlations LKJ({self.lkj:g})"}
        if self.covariance == "known":
            return {mean: normal_prior_words(prior, mean, sd)[mean]}
        return normal_prior_words(prior, mean, matrix)

    @property
    def language_priors(self) -> dict[str, str]:
        return {self.called(parameter): text for parameter, text in self.free.items()}

    @property
    def prior_of_emission(self) -> bool:
        return self.lkj is None and not self.free

    def variables(self, writer: Writer) -> dict[str, Any]:
        start = self.to_emission(self.start) if self.start else None
        mean, sd, matrix = (self.called(p) for p in ("mean", "sd", "covariance"))
        if self.lkj is not None:
            return self._separated(writer, start)
        known = self.emission.known if self.covariance == "known" else None
        begin = None if start is None else (start["mean"], self.emission.covariances(start))
        inner = conjugate(
            writer, self.called, self.weak, self.n_states, begin, tied=self.tied, known=known
        )  # fmt: skip
        out: dict[str, Any] = {f"_{matrix}": inner}
        out[mean] = writer.computed(mean, inner.means(writer), self.dims(mean))
        if known is None:
            spread, covariance = inner.matrices(writer, inner.factors[0] if self.tied else inner.factors)
            out[sd] = writer.computed(sd, spread, self.dims(sd))
            out[matrix] = writer.computed(matrix, covariance, self.dims(matrix))
        return out

    def _separated(self, writer: Writer, start: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
        """Separate standard deviations and correlations: Σ = diag(sd) R diag(sd), R ~ LKJ(η)."""
        assert self.lkj is not None
        mean_name, sd_name, name = (self.called(p) for p in ("mean", "sd", "covariance"))
        prior, d = self.weak, len(self.columns)
        unit, shape = np.sqrt(np.diag(prior.scale)), (self.n_states, d)
        matrices = None if start is None else start["covariance"]
        lower = correlation_factor(writer, f"_{self.called('partial')}", self.lkj, self.n_states, d, matrices)
        if self.free:
            starts = {mean_name: self.start.get(mean_name), sd_name: None if matrices is None else sds(matrices)}
            mean, sd = (writer.existing(name, value) for name, value in starts.items())
        else:
            begin = None if start is None else (start["mean"] - prior.mean) / unit
            given = {"mu": 0.0, "sigma": prior.kappa**-0.5}
            at = writer.random(f"_{mean_name}", "Normal", given, shape, start=begin)
            begin = None if matrices is None else np.log(sds(matrices) / unit)
            log_sd = writer.random(f"_{self.called('log_sd')}", "Normal", {"mu": 0.0, "sigma": 1.0}, shape, start=begin)
            mean = writer.computed(mean_name, prior.mean + at * unit, self.dims(mean_name))
            sd = writer.computed(sd_name, unit * writer.exp(log_sd), self.dims(sd_name))
        root = sd[:, :, None] * lower
        covariance = writer.computed(name, products(root), self.dims(name))
        factors = writer.inverses(lower) * (unit / sd)[:, None, :]
        i, j = np.tril_indices(d)
        centre = np.asarray(prior.mean, float)
        inner = Triangular((mean - centre) / unit, factors, factors[:, i, j], centre, np.diag(unit))
        return {mean_name: mean, sd_name: sd, name: covariance, f"_{name}": inner}

    def _inner(self, values: Mapping[str, Any]) -> Triangular:
        inner = values[f"_{self.called('covariance')}"]
        assert isinstance(inner, Triangular)
        return inner

    def density(self, writer: Writer, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        squares, log_det, observed = self._inner(values).squares(writer, rows[:, list(self.at)])
        return log_det - 0.5 * squares - 0.5 * observed[:, None] * LOG_2PI

    def compiled(self, values: Mapping[str, Any], rows: np.ndarray) -> Compiled:
        return self._inner(values).compiled(rows[:, list(self.at)])

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        made = self._inner(values).drawn(states, len(rows))
        return {column: made[:, j] for j, column in enumerate(self.columns)}
