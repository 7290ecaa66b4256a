"""States that emit any distribution of single numbers: columns of one distribution, named as in a model's formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.data.weak_priors import scaled, shown
from bayeslab.distributions import cell_draws, cell_log_density, maths, pymc_class
from bayeslab.exact.emissions import AnyDistribution
from bayeslab.exact.emissions.any_distribution import interval
from bayeslab.posterior.observed.part import StatePart
from bayeslab.posterior.observed.prior_variables import named_variables

__all__ = ["DistributedPart"]


@dataclass(frozen=True, eq=False, kw_only=True)
class DistributedPart(StatePart):
    """Columns of one distribution; see :class:`bayeslab.posterior.observed.part.StatePart`.

    Parameters that the word itself gives as numbers have no names here: ``emission.known`` has them.
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

    def shape(self, name: str) -> tuple[int, ...]:
        return (self.n_states, len(self.columns)) if len(self.columns) > 1 else (self.n_states,)

    def dims(self, name: str, state: str) -> tuple[str, ...]:
        return (state, "feature") if len(self.columns) > 1 else (state,)

    def kind(self, name: str) -> str:
        low, high = interval(self.emission.name, self.parameter(name))
        return "positive" if (low, high) == (0, np.inf) else "unit" if (low, high) == (0, 1) else "real"

    def unit(self, name: str) -> np.ndarray | float:
        if self.kind(name) != "real":
            return 1.0
        each = self.emission.typical[self.parameter(name)][1]
        return each if len(self.columns) > 1 else float(each[0])

    def to_exact(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        full = (self.n_states, len(self.columns))
        out = {w: np.broadcast_to(v, full) for w, v in self.emission.known.items()}
        return out | {self.parameter(n): np.asarray(values[n], float).reshape(full) for n in self.learned}

    def from_exact(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: theta[self.parameter(name)].reshape(self.shape(name)) for name in self.names}

    def location(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The mean (K,) of the first column in each state where it has a closed form, else the first parameter."""
        own, moments = self.to_exact(values), getattr(maths(self.emission.name), "moments", None)
        if moments is not None:
            with np.errstate(all="ignore"):
                mean = np.asarray(moments(*(own[word][:, 0] for word in self.emission.parameters))[0])
            if np.isfinite(mean).all():
                return np.broadcast_to(mean, (self.n_states,))
        return own[self.emission.learned[0]][:, 0]

    @property
    def ruled_by(self) -> str:
        mean = hasattr(maths(self.emission.name), "moments")
        return f"the mean of '{self.columns[0]}'" if mean else f"'{self.learned[0]}'"

    def default_prior(self, name: str) -> str:
        if name in self.priors:
            return self.priors[name].text
        if name in self.angles:
            return "Uniform(-pi, pi)"
        assert self.emission.prior is not None
        law = self.emission.prior[self.parameter(name)]
        return f"{law.name}({', '.join(shown(value) for value in law.given.values())})"

    def collapsed(self, values: Mapping[str, np.ndarray]) -> bool:
        return bool(self.emission.degenerate(self.to_exact(values), self.spread**2).any())

    # ------------------------------------------------------------------ PyMC

    def variables(self, state: str) -> dict[str, Any]:
        return named_variables(self, state, self._variable)

    def _variable(self, name: str, state: str, made: Mapping[str, Any]) -> Any:
        """A parameter with its weak prior, that of :class:`AnyDistribution`."""
        shape, start = self.shape(name), self.start.get(name)
        assert self.emission.prior is not None
        law = self.emission.prior[self.parameter(name)]
        given = {word: np.broadcast_to(v if len(shape) > 1 else v[0], shape).copy() for word, v in law.given.items()}
        own: dict[str, Any] = {}
        if start is not None:
            kind = self.kind(name)
            inside = np.maximum(start, 1e-300) if kind == "positive" else np.clip(start, 0.02, 0.98)
            own = {"initval": start if kind == "real" else inside}
        if law.name == "Normal":
            own["default_transform"] = scaled(given["mu"], given["sigma"])
        return pymc_class(law.name)(name, **given, dims=self.dims(name, state), **own)

    def density(self, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        each = [self._column(values, j) for j in range(len(self.columns))]
        return sum(
            cell_log_density(self.emission.name, own, rows[:, at]) for own, at in zip(each, self.at, strict=True)
        )

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
