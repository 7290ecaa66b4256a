"""Student's t columns.

Two parametrisations: natural, for one column, with ``location``, ``scale`` and ``dof``; and whitened, for dependent
columns, with a ``scale_matrix`` in the coordinates of :mod:`bayeslab.posterior.observed.whitened`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from bayeslab.distributions import emissions
from bayeslab.distributions.emissions.student_t import DOF_ENDS, DOF_PRIOR, dof_log_prior
from bayeslab.language.writer import Writer
from bayeslab.posterior.observed.location_scale import LocationScale
from bayeslab.posterior.observed.standard import cell_values
from bayeslab.posterior.observed.whitened import Triangular, conjugate, normal_prior_words

__all__ = ["StudentT"]

_DOF_PRIOR = "Gamma({:g}, {:g})".format(*DOF_PRIOR)


@dataclass(frozen=True, eq=False, kw_only=True)
class StudentT(LocationScale):
    """See :class:`bayeslab.posterior.observed.part.StatePart`."""

    word: str = "student_t"
    emission: emissions.StudentT

    centre_name: ClassVar[str] = "location"
    spread_name: ClassVar[str] = "scale"

    @property
    def parameters(self) -> tuple[str, ...]:
        dof = () if self.emission.dof is not None else ("dof",)
        return ("location", "scale_matrix" if self.style.whitened else "scale", *dof)

    @property
    def results(self) -> tuple[str, ...]:
        if not self.style.derived:
            return self.learned
        return tuple(self.called(p) for p in ("location", "scale", "scale_matrix", "dof"))

    def shape(self, name: str) -> tuple[int, ...]:
        d = len(self.columns)
        match self.parameter(name):
            case "dof":
                return (self.n_states,)
            case "scale_matrix":
                return (self.n_states, d, d)
        return super().shape(name)

    def dims(self, name: str) -> tuple[str, ...]:
        feature = self.style.feature
        return (self.style.state, feature, f"{feature}_2")[: len(self.shape(name))]

    def labels(self) -> dict[str, np.ndarray]:
        matrix = {f"{self.style.feature}_2": np.array(self.columns)} if self.style.whitened else {}
        return super().labels() | matrix

    def to_emission(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        theta = self.by_parameter(values)
        k = len(theta["location"])
        matrix = theta["scale_matrix"] if self.style.whitened else theta["scale"].reshape(k, 1, 1) ** 2
        dof = np.full(k, float(self.emission.dof)) if self.emission.dof is not None else theta["dof"]
        return {"mean": self.table(theta["location"]), "scale": matrix, "dof": dof}

    def from_emission(self, theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
        scale = np.sqrt(np.einsum("kii->ki", theta["scale"]))
        named = {"location": self.from_table(theta["mean"]), "scale": self.from_table(scale), "dof": theta["dof"]}
        if self.style.whitened:
            named["scale_matrix"] = theta["scale"]
        return {name: named[self.parameter(name)] for name in dict.fromkeys((*self.names, *self.results))}

    def covariances(self, theta: Mapping[str, Any]) -> np.ndarray:
        """The scale matrices of the columns in each state, (n_states, n_columns, n_columns)."""
        return np.asarray(theta["scale"])

    # ------------------------------------------------------------------ EM

    def coordinates(self, name: str) -> str:
        return "dof" if self.parameter(name) == "dof" else super().coordinates(name)

    @property
    def needs_search(self) -> bool:
        return any(self.called(p) in self.known for p in ("location", "scale"))

    def expected_cells(self, statistics: Mapping[str, np.ndarray], theta: Mapping[str, np.ndarray]) -> np.ndarray:
        count = statistics["count"][:, None]
        out = -count * np.log(theta["scale"]) - 0.5 * self.squares(statistics, theta) / theta["scale"] ** 2
        if "dof" in theta:
            half = 0.5 * theta["dof"]
            out = out + count * (half * np.log(half) - gammaln(half)) + half * statistics["gap"][:, None]
        return np.asarray(out)

    def default_log_density(self, name: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
        if self.parameter(name) == "dof":
            return dof_log_prior(values[name])
        return super().default_log_density(name, values)

    # ------------------------------------------------------------------ Gibbs

    @property
    def no_gibbs(self) -> str:
        return "student_t has no conjugate prior; use nuts or em"

    # ------------------------------------------------------------------ PyMC

    def default_prior(self, name: str) -> str:
        if self.parameter(name) == "dof" and name not in self.priors:
            return f"{_DOF_PRIOR}, between {DOF_ENDS[0]:g} and {DOF_ENDS[1]:g}"
        return super().default_prior(name)

    def prior_words(self) -> dict[str, str]:
        if not self.style.whitened:
            return super().prior_words()
        out = normal_prior_words(self.weak, self.called("location"), self.called("scale_matrix"))
        return out | ({self.called("dof"): _DOF_PRIOR} if self.emission.dof is None else {})

    def default_variable(self, writer: Writer, name: str, made: Mapping[str, Any]) -> Any:
        if self.parameter(name) != "dof":
            return super().default_variable(writer, name, made)
        given = dict(zip(("alpha", "beta"), DOF_PRIOR, strict=True))
        return writer.random(name, "Gamma", given, self.shape(name), dims=self.dims(name), between=DOF_ENDS)

    def variables(self, writer: Writer) -> dict[str, Any]:
        if not self.style.whitened:
            return super().variables(writer)
        emission, start = self.emission, self.to_emission(self.start) if self.start else None
        begin = None if start is None else (start["mean"], start["scale"])
        inner = conjugate(writer, self.called, self.weak, self.n_states, begin)
        location, scale, matrix, dof = (self.called(p) for p in ("location", "scale", "scale_matrix", "dof"))
        spread, matrices = inner.matrices(writer, inner.factors)
        out: dict[str, Any] = {f"_{matrix}": inner}
        out[location] = writer.computed(location, inner.means(writer), self.dims(location))
        out[scale] = writer.computed(scale, spread, self.dims(scale))
        out[matrix] = writer.computed(matrix, matrices, self.dims(matrix))
        if emission.dof is None:
            first = None if start is None else np.clip(start["dof"], 1.0, 100.0)
            given = dict(zip(("alpha", "beta"), DOF_PRIOR, strict=True))
            out[dof] = writer.random(dof, "Gamma", given, self.shape(dof), dims=self.dims(dof), start=first)
        else:
            fixed = writer.constant(np.full(self.n_states, float(emission.dof)))
            out[dof] = writer.computed(dof, fixed, self.dims(dof))
        return out

    def _inner(self, values: Mapping[str, Any]) -> Triangular:
        inner = values[f"_{self.called('scale_matrix')}"]
        assert isinstance(inner, Triangular)
        return inner

    def density(self, writer: Writer, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        if not self.style.whitened:
            return super().density(writer, values, rows)
        squares, log_det, observed = self._inner(values).squares(writer, rows[:, list(self.at)])
        d, dof = observed[:, None].astype(float), values[self.called("dof")][None, :]
        if (observed == observed[0]).all():
            d = d[:1]
        gammaln, log1p = (writer.ops.function(name) for name in ("gammaln", "log1p"))
        constant = gammaln(0.5 * (dof + d)) - gammaln(0.5 * dof) - 0.5 * d * writer.log(dof * np.pi)
        return constant + log_det - 0.5 * (dof + d) * log1p(squares / dof)

    def cells(self, writer: Writer, theta: Mapping[str, Any], cells: np.ndarray) -> Any:
        x, there = cell_values(cells)
        dof = writer.constant(float(self.emission.dof)) if self.emission.dof is not None else theta["dof"]
        gammaln, log1p = (writer.ops.function(name) for name in ("gammaln", "log1p"))
        z = (x - theta["location"]) / theta["scale"]
        constant = gammaln((dof + 1) / 2) - gammaln(dof / 2) - 0.5 * writer.log(dof * np.pi)
        out = constant - writer.log(theta["scale"]) - 0.5 * (dof + 1) * log1p(z**2 / dof)
        return writer.observed(there, out)

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        if not self.style.whitened:
            return super().drawn(values, states, rows)
        import pymc as pm

        half = 0.5 * values[self.called("dof")][states]
        mixing = pm.Gamma.dist(half, half, shape=len(rows))
        made = self._inner(values).drawn(states, len(rows), mixing)
        return {column: made[:, j] for j, column in enumerate(self.columns)}

    def drawn_column(self, theta: Mapping[str, Any], rows: np.ndarray) -> Any:
        import pymc as pm

        dof = theta.get("dof", self.emission.dof)
        return pm.StudentT.dist(nu=dof, mu=theta["location"], sigma=theta["scale"], shape=len(rows))
