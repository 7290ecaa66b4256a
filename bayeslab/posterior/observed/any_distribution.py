"""Columns with any univariate distribution, whose parameters have the names of the model language.

The arithmetic on plain arrays and the weak priors are those of
:class:`bayeslab.distributions.emissions.any_distribution.AnyDistribution`. Graphs have the same priors; in the whitened
parametrisation normal and log-normal ones are in coordinates of order one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.data.weak_priors import shown
from bayeslab.distributions import Law, cell_draws, closed_moments
from bayeslab.distributions.emissions import AnyDistribution
from bayeslab.language.writer import Scaled, Writer
from bayeslab.posterior.observed.part import StatePart
from bayeslab.posterior.observed.prior import inside
from bayeslab.posterior.observed.prior_variables import named_variables

__all__ = ["DistributedPart"]


@dataclass(frozen=True, eq=False, kw_only=True)
class DistributedPart(StatePart):
    """Columns of one distribution; see :class:`bayeslab.posterior.observed.part.StatePart`.

    Parameters fixed in the distribution's text have no names here; they are in ``emission.known``. Priors of the model
    file are also those of the emission.
    """

    emission: AnyDistribution

    @property
    def no_gibbs(self) -> str:
        return f"{self.emission.name} has no Gibbs steps here; use nuts, map or em"

    @property
    def names(self) -> tuple[str, ...]:
        every = {self.called(word): word for word in self.emission.parameters}
        return tuple(n for n, word in every.items() if n in self.known or word in self.emission.learned)

    @property
    def learned(self) -> tuple[str, ...]:
        return tuple(self.called(word) for word in self.emission.learned)

    @property
    def n_free(self) -> int:
        return self.emission.n_free(self.n_states)

    @property
    def angles(self) -> tuple[str, ...]:
        return tuple(n for n in self.learned if self.parameter(n) in self.emission.declaration.angles)

    @property
    def discrete(self) -> bool:
        return self.emission.declaration.discrete

    @property
    def atoms(self) -> tuple[float, ...]:
        return tuple(float(atom) for atom in self.emission.declaration.atoms)

    def shape(self, name: str) -> tuple[int, ...]:
        return (self.n_states, len(self.columns)) if self.by_column else (self.n_states,)

    def dims(self, name: str) -> tuple[str, ...]:
        return (self.style.state, self.style.feature) if self.by_column else (self.style.state,)

    def kind(self, name: str) -> str:
        return self.emission.kinds.get(self.parameter(name), "real")

    def unit(self, name: str) -> np.ndarray | float:
        if self.kind(name) != "real":
            return 1.0
        each = self.emission.typical[self.parameter(name)][1]
        return each if self.by_column else float(each[0])

    def to_emission(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        tables = {self.parameter(n): np.asarray(values[n], float) for n in self.learned}
        learned = {word: value.reshape(len(value), len(self.columns)) for word, value in tables.items()}
        full = (len(next(iter(learned.values()))) if learned else self.n_states, len(self.columns))
        return {w: np.broadcast_to(v, full) for w, v in self.emission.known.items()} | learned

    def from_emission(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: v if self.by_column else v[:, 0] for name in self.names for v in [theta[self.parameter(name)]]}

    def _mean(self, theta: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """The mean of each state if it has a closed form; infinite if the distribution has no mean."""
        moments = closed_moments(self.emission.name)
        if moments is None:
            return None
        with np.errstate(all="ignore"):
            return np.asarray(moments(*(theta[word] for word in self.emission.parameters))[0])

    def location(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The mean (K,) of the first column in each state if it has a closed form, else the first parameter."""
        first = {word: value[:, 0] for word, value in self.to_emission(values).items()}
        mean = self._mean(first)
        if mean is not None and np.isfinite(mean).all():
            return np.broadcast_to(mean, (self.n_states,))
        return first[self.emission.learned[0]]

    def place(self, values: Mapping[str, Any], column: str) -> np.ndarray:
        """``mu``, or else the mean if it has a closed form, or else the first parameter."""
        j, e = self.columns.index(column), self.emission
        tables = {word: np.asarray(values[self.called(word)]) for word in e.learned}
        theta = {word: value[..., j] if self.by_column else value for word, value in tables.items()}
        first = theta[e.learned[0]]
        if "mu" in theta:
            return theta["mu"]
        known = {word: np.broadcast_to(value, (1, len(self.columns)))[0, j] for word, value in e.known.items()}
        mean = self._mean(theta | known)
        return first if mean is None else np.nan_to_num(np.broadcast_to(mean, first.shape), nan=np.inf, posinf=np.inf)

    @property
    def ruled_by(self) -> str:
        closed = closed_moments(self.emission.name) is not None
        return f"the mean of '{self.columns[0]}'" if closed else f"'{self.learned[0]}'"

    def collapsed(self, values: Mapping[str, np.ndarray]) -> bool:
        return bool(self.emission.degenerate(self.to_emission(values), self.spread**2).any())

    # ------------------------------------------------------------------ PyMC

    def default_prior(self, name: str) -> str:
        if name in self.priors:
            return self.priors[name].text
        if name in self.angles:
            return "uniform on the circle" if self.style.whitened else "Uniform(-pi, pi)"
        law = self._law(name)
        return f"{law.name}({', '.join(shown(value) for value in law.given.values())})"

    @property
    def prior_of_emission(self) -> bool:
        return True

    def _law(self, name: str) -> Law:
        assert self.emission.prior is not None
        return self.emission.prior[self.parameter(name)]

    def variables(self, writer: Writer) -> dict[str, Any]:
        if self.style.whitened:
            return {name: self._whitened(writer, name) for name in self.learned}
        return named_variables(self, writer, self._natural)

    def _natural(self, writer: Writer, name: str, made: Mapping[str, Any]) -> Any:
        """A parameter with its weak prior."""
        shape, start, law = self.shape(name), self.start.get(name), self._law(name)
        given = {word: np.broadcast_to(v if self.by_column else v[0], shape).copy() for word, v in law.given.items()}
        options: dict[str, Any] = {}
        if start is not None:
            kind = self.kind(name)
            inside = np.maximum(start, 1e-300) if kind == "positive" else np.clip(start, 0.02, 0.98)
            options = {"start": start if kind == "real" else inside}
        if law.name == "Normal":
            options["coordinates"] = Scaled(given["mu"], given["sigma"])
        return writer.random(name, law.name, given, shape, dims=self.dims(name), **options)

    def _whitened(self, writer: Writer, name: str) -> Any:
        """A parameter with its given or weak prior; normal and log-normal ones are computed from standard normals."""
        shape, dims, start, law = self.shape(name), self.dims(name), self.start.get(name), self._law(name)
        given = {key: np.broadcast_to(value, shape) for key, value in law.given.items()}
        if law.name in ("Normal", "LogNormal") and given.keys() == {"mu", "sigma"}:
            logs = law.name == "LogNormal"
            begin = None if start is None else ((np.log(start) if logs else start) - given["mu"]) / given["sigma"]
            standard = writer.random(f"_{name}", "Normal", {"mu": 0.0, "sigma": 1.0}, shape, start=begin)
            value = given["mu"] + given["sigma"] * standard
            return writer.computed(name, writer.exp(value) if logs else value, dims)
        begin = None if start is None else inside(start, *law.ends)
        return writer.random(name, law.name, given, shape, dims=dims, start=begin)

    def density(self, writer: Writer, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        name, columns = self.emission.name, [self._column(values, j) for j in range(len(self.columns))]
        return sum(writer.cells(name, each, rows[:, at]) for each, at in zip(columns, self.at, strict=True))

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        return {
            column: cell_draws(self.emission.name, self._column(values, j), states, len(rows))
            for j, column in enumerate(self.columns)
        }

    def _column(self, values: Mapping[str, Any], j: int) -> dict[str, Any]:
        """Parameters (K,) of a column."""
        full = (self.n_states, len(self.columns))
        out: dict[str, Any] = {w: np.broadcast_to(v, full)[:, j].copy() for w, v in self.emission.known.items()}
        for name in self.learned:
            value = values[name]
            out[self.parameter(name)] = value[:, j] if value.ndim == 2 else value
        return out
