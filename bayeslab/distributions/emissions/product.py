"""Groups of columns that are independent given the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bayeslab.distributions.emissions.cells import check_shape, renumbered
from bayeslab.distributions.emissions.protocol import ConjugateEmission, Emission, Parameters, Statistics
from bayeslab.errors import DataError, OptionError

__all__ = ["Product"]


@dataclass(frozen=True, eq=False)
class Product(ConjugateEmission):
    """Groups of columns that are independent given the state, each with its own emission.

    Parameters are those of the parts, with the part's name as prefix: ``height.mean``.
    """

    parts: Mapping[str, tuple[tuple[int, ...], Emission]]

    @property
    def n_columns(self) -> int:
        return sum(len(columns) for columns, _ in self.parts.values())

    @property
    def prior(self) -> Any:
        priors = [emission.prior for _, emission in self.parts.values()]
        return None if any(p is None for p in priors) else priors

    @property
    def fixed_parameters(self) -> tuple[str, ...]:
        parts = self.parts.items()
        return tuple(f"{name}.{key}" for name, (_, e) in parts for key in e.fixed_parameters)

    @property
    def kinds(self) -> dict[str, str]:
        return {f"{name}.{key}": kind for name, (_, e) in self.parts.items() for key, kind in e.kinds.items()}

    def _each(self, rows: np.ndarray) -> Iterator[tuple[str, Emission, np.ndarray]]:
        for name, (columns, emission) in self.parts.items():
            yield name, emission, rows[:, list(columns)]

    def _of_part(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        start = f"{name}."
        return {key.removeprefix(start): value for key, value in values.items() if key.startswith(start)}

    def _named(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return {f"{name}.{key}": value for key, value in values.items()}

    def check(self, rows: np.ndarray) -> None:
        check_shape(rows, self.n_columns)
        for name, emission, some in self._each(rows):
            try:
                with renumbered(self.parts[name][0]):
                    emission.check(some)
            except DataError as error:
                raise DataError(f"part '{name}': {error.message}", code=error.code) from None

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        return np.asarray(
            sum(e.log_density(self._of_part(name, parameters), some) for name, e, some in self._each(rows))
        )

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        out: Statistics = {}
        for name, e, some in self._each(rows):
            given = None if parameters is None else self._of_part(name, parameters)
            out |= self._named(name, e.statistics(some, responsibilities, given))
        return out

    def statistics_of_states(self, rows: np.ndarray, states: np.ndarray, n_states: int) -> Statistics:
        out: Statistics = {}
        for name, e, some in self._each(rows):
            out |= self._named(name, e.statistics_of_states(some, states, n_states))
        return out

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        out: dict[str, Any] = {}
        for name, (_, e) in self.parts.items():
            given = None if parameters is None else self._of_part(name, parameters)
            out |= self._named(name, e.maximise(self._of_part(name, statistics), given))
        return out

    def limits(self, statistics: Statistics, parameters: Parameters) -> dict[str, np.ndarray]:
        out: dict[str, np.ndarray] = {}
        for name, (_, e) in self.parts.items():
            limits_of_part = e.limits(self._of_part(name, statistics), self._of_part(name, parameters))
            out |= self._named(name, limits_of_part)
        return out

    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float:
        parts = self.parts.items()
        return sum(
            e.expected_log_likelihood(self._of_part(name, statistics), self._of_part(name, parameters))
            for name, (_, e) in parts
        )

    def log_prior(self, parameters: Parameters) -> float:
        return sum(e.log_prior(self._of_part(name, parameters)) for name, (_, e) in self.parts.items())

    def n_free(self, n_states: int) -> int:
        return sum(e.n_free(n_states) for _, e in self.parts.values())

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        parts = {
            name: (self.parts[name][0], e if e.prior is not None else e.with_prior(some, n_states))
            for name, e, some in self._each(rows)
        }
        return replace(self, parts=parts)

    def without_prior(self) -> Self:
        parts = {name: (columns, emission.without_prior()) for name, (columns, emission) in self.parts.items()}
        return replace(self, parts=parts)

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        flags = [
            e.degenerate(self._of_part(name, parameters), variances[list(columns)])
            for name, (columns, e) in self.parts.items()
        ]
        return np.any(flags, axis=0)

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        out = np.empty((len(states), self.n_columns))
        for name, (columns, e) in self.parts.items():
            out[:, list(columns)] = e.sample(rng, self._of_part(name, parameters), states)
        return out

    @property
    def columns_depend(self) -> bool:
        return any(e.columns_depend for _, e in self.parts.values())

    def complete(
        self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        out = rows.copy()
        for name, e, some in self._each(rows):
            out[:, list(self.parts[name][0])] = e.complete(rng, self._of_part(name, parameters), states, some)
        return out

    def features(self, rows: np.ndarray) -> np.ndarray:
        return np.concatenate([e.features(some) for _, e, some in self._each(rows)], axis=1)

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(sum(_conjugate(e).log_base(some) for _, e, some in self._each(rows)))

    def imputed(
        self, rng: np.random.Generator, rows: np.ndarray, states: np.ndarray, parameters: Parameters
    ) -> np.ndarray:
        out = rows.copy()
        for name, e, some in self._each(rows):
            out[:, list(self.parts[name][0])] = _conjugate(e).imputed(
                rng, some, states, self._of_part(name, parameters)
            )
        return out

    def draw(self, rng: np.random.Generator, statistics: Statistics) -> Parameters:
        out: dict[str, Any] = {}
        for name, (_, e) in self.parts.items():
            out |= self._named(name, _conjugate(e).draw(rng, self._of_part(name, statistics)))
        return out

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        parts = self._each(rows)
        return np.asarray(
            sum(_conjugate(e).expected_log_density(self._of_part(name, statistics), some) for name, e, some in parts)
        )

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        return np.asarray(
            sum(_conjugate(e).log_marginal(self._of_part(name, statistics)) for name, (_, e) in self.parts.items())
        )


def _conjugate(emission: Emission) -> ConjugateEmission:
    if not isinstance(emission, ConjugateEmission):
        raise OptionError(
            f"{type(emission).__name__} has no conjugate prior; choose another component or method: em",
            code="not-conjugate",
        )
    return emission
