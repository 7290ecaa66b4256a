"""The interface of observed columns for EM: log densities, expected statistics, M-step, and parameter coordinates.

:class:`bayeslab.posterior.observed.part.StatePart` is the full contract, for models with their own parameter names;
:class:`EmittedRows` holds rows of an emission, with the emission's names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.distributions.toolbox.limits import at_limit

__all__ = ["Emitted", "EmittedRows"]

type Values = Mapping[str, Any]


class Emitted(ABC):
    """Columns that latent states emit."""

    if TYPE_CHECKING:  # fields of subclasses

        @property
        def emission(self) -> Any: ...

    @property
    @abstractmethod
    def learned(self) -> tuple[str, ...]:
        """Names of the unknown parameters."""

    @property
    def has_learned(self) -> bool:
        """Whether any parameter is unknown."""
        return bool(self.learned)

    @property
    def constants(self) -> dict[str, np.ndarray]:
        """The known parameters, by name."""
        return {}

    @abstractmethod
    def called(self, parameter: str) -> str:
        """The name in this model of an emission parameter."""

    @abstractmethod
    def shape(self, name: str) -> tuple[int, ...]: ...

    @abstractmethod
    def select(self, rows: np.ndarray) -> np.ndarray:
        """The columns of the model's rows that the emission uses."""

    @abstractmethod
    def to_emission(self, values: Values) -> dict[str, np.ndarray]:
        """The emission's parameters, from all values of a model."""

    @abstractmethod
    def kind(self, name: str) -> str:
        """The support of a parameter, as named in :mod:`bayeslab.posterior.bijectors`."""

    def coordinates(self, name: str) -> str:
        """The kind of coordinates in which a search moves a parameter."""
        return self.kind(name)

    def unit(self, name: str) -> Any:
        """What a parameter is measured in, so that searches do not depend on the data's units."""
        return 1.0

    def constrained(self, values: Values) -> dict[str, np.ndarray]:
        """Values that a search moved off a constraint, projected back without changing the likelihood."""
        return {}

    @abstractmethod
    def fitted(self, statistics: Mapping[str, Any], values: Values, *, prior: bool) -> dict[str, np.ndarray]:
        """The M-step: the most probable parameters for expected totals; what is known stays."""

    @abstractmethod
    def log_prior(self, values: Values) -> float:
        """Log density of the prior of what is learned, up to a constant."""

    @abstractmethod
    def draw_given(
        self, rng: np.random.Generator, rows: np.ndarray, states: np.ndarray, values: Values
    ) -> dict[str, np.ndarray]:
        """Draws of the unknown parameters from their conjugate posterior given the rows' states, after ``values``."""

    # ------------------------------------------------------------------ derived methods

    @property
    def has_one_pass(self) -> bool:
        """Whether a fused kernel sums states out of complete rows."""
        return bool(self.emission.has_one_pass)

    def log_density(self, values: Values, rows: np.ndarray) -> np.ndarray:
        """log p(columns | state), (n_rows, n_states)."""
        return np.asarray(self.emission.log_density(self.to_emission(values), self.select(rows)))

    def totals(self, rows: np.ndarray, posterior: np.ndarray, values: Values | None = None) -> dict[str, Any]:
        """Expected sufficient statistics of rows with state probabilities (n_rows, n_states)."""
        parameters = None if values is None else self.to_emission(values)
        return dict(self.emission.statistics(self.select(rows), posterior, parameters))

    def expected_log_density(self, statistics: Mapping[str, Any], values: Values) -> float:
        """Expected log density of the columns, given expected totals."""
        return float(self.emission.expected_log_likelihood(statistics, self.to_emission(values)))

    def at_limits(self, statistics: Mapping[str, Any], values: Values, *, prior: bool) -> dict[str, int]:
        """By name, the number of parameter elements that are at a limit.

        For positive parameters by the expected log density (plus the prior if it is included), with all others fixed
        (:mod:`bayeslab.distributions.toolbox.limits`); and limits that the emission reports itself.
        """

        def height(moved: Values) -> float:
            return self.expected_log_density(statistics, moved) + (self.log_prior(moved) if prior else 0.0)

        each = {n: _which_at_limits(height, values, n) for n in self.learned if self.kind(n) == "positive"}
        numbers = {name: int(which.sum()) for name, which in each.items()}
        emission = self.emission if prior else self.emission.without_prior()
        for parameter, which in emission.limits(statistics, self.to_emission(values)).items():
            if (name := self.called(parameter)) in self.learned:
                numbers[name] = max(numbers.get(name, 0), int(which.sum()))
        return {name: number for name, number in numbers.items() if number}


@dataclass(frozen=True, eq=False)
class EmittedRows(Emitted):
    """Rows of an emission, with the emission's parameter names.

    Attributes
    ----------
    emission : Emission
        The emission, with its prior, or without one for maximum likelihood.
    rows : ndarray (N, D)
    n_states : int
    others : tuple of str
        Names of a model's values that do not belong to the emission.
    """

    emission: Any
    rows: np.ndarray
    n_states: int
    others: tuple[str, ...] = ()

    @cached_property
    def _example(self) -> dict[str, np.ndarray]:
        """Example parameters, for names, shapes, and the values of fixed ones."""
        guess = np.random.default_rng(0).dirichlet(np.full(self.n_states, 5.0), len(self.rows))
        return dict(self.emission.maximise(self.emission.statistics(self.rows, guess)))

    @property
    def learned(self) -> tuple[str, ...]:
        fixed = set(self.emission.fixed_parameters)
        return tuple(name for name in self._example if name not in fixed)

    @property
    def has_learned(self) -> bool:
        return True

    @property
    def constants(self) -> dict[str, np.ndarray]:
        return {name: self._example[name] for name in self.emission.fixed_parameters if name in self._example}

    def called(self, parameter: str) -> str:
        return parameter

    def shape(self, name: str) -> tuple[int, ...]:
        return self._example[name].shape

    def select(self, rows: np.ndarray) -> np.ndarray:
        return rows

    def to_emission(self, values: Values) -> dict[str, np.ndarray]:
        return {name: value for name, value in values.items() if name not in self.others}

    def kind(self, name: str) -> str:
        return str(self.emission.kinds.get(name, "real"))

    def fitted(self, statistics: Mapping[str, Any], values: Values, *, prior: bool) -> dict[str, np.ndarray]:
        emission = self.emission if prior else self.emission.without_prior()
        parameters = self.to_emission(values) or None
        return dict(emission.maximise(dict(statistics), parameters))

    def log_prior(self, values: Values) -> float:
        return float(self.emission.log_prior(self.to_emission(values)))

    def draw_given(
        self, rng: np.random.Generator, rows: np.ndarray, states: np.ndarray, values: Values
    ) -> dict[str, np.ndarray]:
        if np.isnan(rows).any():
            rows = self.emission.imputed(rng, rows, states, self.to_emission(values))
        return dict(self.emission.draw(rng, self.emission.statistics_of_states(rows, states, self.n_states)))


def _which_at_limits(height: Callable[[Values], float], values: Values, name: str) -> np.ndarray:
    """Whether each element of a parameter is at a limit, with everything else fixed."""
    value = np.asarray(values[name], float)

    def along(at: tuple[int, ...]) -> Callable[[float], float]:
        def moved(number: float) -> float:
            other = value.copy()
            other[at] = number
            with np.errstate(all="ignore"):
                return height({**values, name: other})

        return moved

    which = np.zeros(value.shape, bool)
    for at in np.ndindex(value.shape):
        which[at] = at_limit(along(at), float(value[at])) != 0
    return which
