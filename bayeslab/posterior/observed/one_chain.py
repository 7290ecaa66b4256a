"""Columns that one of several hidden chains emits, looked up for the states of the product of all chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from bayeslab.distributions.emissions import Emission, WrappedEmission
from bayeslab.language.writer import Writer
from bayeslab.latents.chains.product_chain import ProductSpace
from bayeslab.posterior.observed.part import StatePart

__all__ = ["OneChain", "SpreadEmission"]


@dataclass(frozen=True, eq=False)
class SpreadEmission(WrappedEmission):
    """The emission of one chain, looked up for the states of the product space.

    Attributes
    ----------
    inner : Emission
    space : ProductSpace
    index : int
        The chain.
    emitting_in : int or None
        The state of the first chain in which this chain emits the rows; None: always.
    """

    inner: Emission
    space: ProductSpace
    index: int
    emitting_in: int | None

    @property
    def chain_state(self) -> np.ndarray:
        """The chain's state in each state of the product space."""
        return self.space.states[:, self.index]

    @property
    def emitting(self) -> np.ndarray:
        """Whether the chain emits, for each state of the product space."""
        first = self.space.states[:, 0]
        return np.ones(len(first), dtype=bool) if self.emitting_in is None else first == self.emitting_in

    def log_density(self, parameters: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        return np.where(self.emitting, self.inner.log_density(parameters, rows)[:, self.chain_state], 0.0)

    def statistics(self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Any = None) -> dict[str, Any]:
        weights = self.space.marginal(np.where(self.emitting, responsibilities, 0.0), self.index)
        return dict(self.inner.statistics(rows, np.ascontiguousarray(weights), parameters))

    def n_free(self, n_states: int) -> int:
        return self.inner.n_free(self.space.sizes[self.index])

    def with_prior(self, rows: np.ndarray, n_states: int) -> SpreadEmission:
        return replace(self, inner=self.inner.with_prior(rows, self.space.sizes[self.index]))

    def sample(self, rng: np.random.Generator, parameters: Any, states: np.ndarray) -> np.ndarray:
        return np.asarray(self.inner.sample(rng, parameters, self.chain_state[states]))

    def complete(self, rng: np.random.Generator, parameters: Any, states: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.inner.complete(rng, parameters, self.chain_state[states], rows))


@dataclass(frozen=True, eq=False, kw_only=True)
class OneChain(StatePart):
    """A part of one of several chains; see :class:`bayeslab.posterior.observed.part.StatePart`.

    Attributes
    ----------
    inner : StatePart
        The part of the chain alone, with names that end in the chain's name.
    chain : str
    """

    inner: StatePart
    chain: str
    emission: SpreadEmission

    @staticmethod
    def of(inner: StatePart, chain: str, emission: SpreadEmission) -> OneChain:
        """The part of a chain, looked up for the states of the product space."""
        common = {f.name: getattr(inner, f.name) for f in fields(StatePart) if f.name not in ("n_states", "emission")}
        return OneChain(inner=inner, chain=chain, emission=emission, n_states=emission.space.n_states, **common)

    @property
    def index(self) -> int:
        return self.emission.index

    @property
    def symmetric(self) -> bool:
        return self.inner.symmetric

    @property
    def names(self) -> tuple[str, ...]:
        return self.inner.names

    @property
    def learned(self) -> tuple[str, ...]:
        return self.inner.learned

    @property
    def discrete(self) -> bool:
        return self.inner.discrete

    @property
    def atoms(self) -> tuple[float, ...]:
        return self.inner.atoms

    def called(self, parameter: str) -> str:
        return self.inner.called(parameter)

    def parameter(self, name: str) -> str:
        return self.inner.parameter(name)

    @property
    def n_free(self) -> int:
        return self.inner.n_free

    def owned(self, name: str) -> tuple[str, int] | None:
        return (name.removesuffix(self.inner.suffix), self.index) if name in self.names else None

    def shape(self, name: str) -> tuple[int, ...]:
        return self.inner.shape(name)

    def dims(self, name: str) -> tuple[str, ...]:
        return self.inner.dims(name)

    def labels(self) -> dict[str, np.ndarray]:
        return self.inner.labels()

    def to_emission(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return self.inner.to_emission(values)

    def from_emission(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self.inner.from_emission(theta)

    def default_prior(self, name: str) -> str:
        return self.inner.default_prior(name)

    def starting(self, values: Mapping[str, np.ndarray]) -> OneChain:
        return replace(self, inner=self.inner.starting(values))

    def internal(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self.inner.internal(values)

    # ------------------------------------------------------------------ EM

    def kind(self, name: str) -> str:
        return self.inner.kind(name)

    def coordinates(self, name: str) -> str:
        return self.inner.coordinates(name)

    def unit(self, name: str) -> Any:
        return self.inner.unit(name)

    def log_prior(self, values: Mapping[str, Any]) -> float:
        return self.inner.log_prior(values)

    def fitted(self, statistics: Mapping[str, Any], values: Mapping[str, Any], *, prior: bool) -> dict[str, np.ndarray]:
        return self.inner.fitted(statistics, values, prior=prior)

    def collapsed(self, values: Mapping[str, Any]) -> bool:
        return self.inner.collapsed(values)

    @property
    def unknown_prior(self) -> str | None:
        return self.inner.unknown_prior

    # ------------------------------------------------------------------ PyMC

    def variables(self, writer: Writer) -> dict[str, Any]:
        return self.inner.variables(writer)

    def density(self, writer: Writer, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        """log p(row | state of the product), (N, S)."""
        out = self.inner.density(writer, values, rows)[:, self.emission.chain_state]
        if self.emission.emitting_in is None:
            return out
        return writer.ops.function("where")(self.emission.emitting, out, 0.0)

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        import pytensor.tensor as pt

        return self.inner.drawn(values, pt.as_tensor_variable(self.emission.chain_state)[states], rows)

    @property
    def computed(self) -> bool:
        return self.inner.computed

    @property
    def switched(self) -> bool:
        return self.emission.emitting_in is not None

    def emits(self, states: Any) -> Any:
        if isinstance(states, np.ndarray):
            return self.emission.emitting[states]
        import pytensor.tensor as pt

        return pt.as_tensor_variable(self.emission.emitting)[states]
