"""Hidden paths that are summed out, evaluated at draws of the parameters: by a program, or by a graph of PyMC."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.families.graph.discrete_layout import Latent
from bayeslab.families.graph.lowered_draws import PathSum
from bayeslab.posterior.evaluation import expand
from bayeslab.posterior.machine.model import MachineModel
from bayeslab.posterior.machine.program import Program
from bayeslab.posterior.transforms import constrained, tables_at, unconstrained

if TYPE_CHECKING:
    import pymc

    from bayeslab.families.graph.path_sums import Sums

__all__ = ["Hidden", "HiddenInGraph", "HiddenInProgram"]


class Hidden(ABC):
    """A model with hidden paths that are summed out, evaluated at draws of its parameters by name."""

    @property
    @abstractmethod
    def paths(self) -> Sequence[Latent]:
        """The paths that are linked to no other discrete node."""

    @property
    @abstractmethod
    def parameters(self) -> Sequence[str]:
        """Names of the parameters."""

    @property
    @abstractmethod
    def deterministics(self) -> Sequence[str]:
        """Names of the deterministic nodes."""

    @property
    @abstractmethod
    def coords(self) -> Mapping[str, Sequence[Any] | None]:
        """Labels of dimensions."""

    @abstractmethod
    def dims(self, name: str) -> tuple[str | None, ...]:
        """Dimensions of a parameter."""

    @abstractmethod
    def height(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        """Log density (draws,) of parameters and data, without Jacobians."""

    @abstractmethod
    def at(self, draws: Mapping[str, np.ndarray]) -> Iterator[list[tuple[np.ndarray, np.ndarray]]]:
        """Of each path its log probabilities and log p(data | state), (cells, states), at each draw."""

    @abstractmethod
    def computed(self, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The deterministic nodes at each draw."""


@dataclass(frozen=True, eq=False)
class HiddenInGraph(Hidden):
    """A graph of PyMC for fitting, and its sums."""

    model: pymc.Model
    sums: Sums

    @property
    def paths(self) -> Sequence[Latent]:
        return [path.latent for path in self.sums.paths]

    @property
    def parameters(self) -> Sequence[str]:
        return [rv.name for rv in self.model.free_RVs]

    @property
    def deterministics(self) -> Sequence[str]:
        return [d.name for d in self.model.deterministics]

    @property
    def coords(self) -> Mapping[str, Sequence[Any] | None]:
        coords: Mapping[str, Sequence[Any] | None] = self.model.coords
        return coords

    def dims(self, name: str) -> tuple[str | None, ...]:
        return tuple(self.model.named_vars_to_dims.get(name) or ())

    def height(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        model = self.model
        with np.errstate(all="ignore"):
            values = unconstrained(model, draws)
            terms = expand(
                model, values, model.logp(vars=[*model.free_RVs, *model.observed_RVs], sum=False, jacobian=False)
            )
            total = sum((term.reshape(len(term), -1).sum(axis=1) for term in terms), start=np.zeros(len(terms[0])))
            if np.isnan(total).any():
                return total
            return np.asarray(
                total + np.concatenate([self.sums.log_evidence(t) for t in tables_at(model, self.sums, draws)])
            )

    def at(self, draws: Mapping[str, np.ndarray]) -> Iterator[list[tuple[np.ndarray, np.ndarray]]]:
        for tables in tables_at(self.model, self.sums, draws):
            for parts in zip(*self.sums.parts(tables), strict=True):
                yield [path.at(table) for path, table in zip(self.sums.paths, parts, strict=False)]

    def computed(self, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        whole = constrained(self.model, unconstrained(self.model, draws))
        return {name: whole[name] for name in self.deterministics if name in whole}


@dataclass(frozen=True, eq=False)
class HiddenInProgram(Hidden):
    """A program of the density machine."""

    machine: MachineModel

    @cached_property
    def _parts(self) -> list[tuple[int, PathSum]]:
        return [(k, part) for k, part in enumerate(self.machine.sums) if isinstance(part, PathSum)]

    @cached_property
    def _without_jacobian(self) -> Program:
        return Program(self.machine.builder, ("prior", "likelihood"))

    @property
    def paths(self) -> Sequence[Latent]:
        return [part.latent for _, part in self._parts]

    @property
    def parameters(self) -> Sequence[str]:
        return [parameter.name for parameter in self.machine.parameters]

    @property
    def deterministics(self) -> Sequence[str]:
        return self.machine.deterministics

    @property
    def coords(self) -> Mapping[str, Sequence[Any] | None]:
        return self.machine.coords

    def dims(self, name: str) -> tuple[str | None, ...]:
        return tuple(self.machine.dims.get(name) or ())

    def height(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        with np.errstate(all="ignore"):
            points = self.machine.points_at(draws)
        return np.array([self._without_jacobian.value_and_gradient(point)[0] for point in points])

    def at(self, draws: Mapping[str, np.ndarray]) -> Iterator[list[tuple[np.ndarray, np.ndarray]]]:
        for tables in self.machine.tables_at(self.machine.points_at(draws)):
            pairs = [[np.ascontiguousarray(table) for table in tables[k][:2]] for k, _ in self._parts]
            for n in range(len(tables[0][0])):
                yield [(logs[n], emission[n]) for logs, emission in pairs]

    def computed(self, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        whole = self.machine.program.outputs(self.machine.points_at(draws))
        return {name: whole[name] for name in self.deterministics}
