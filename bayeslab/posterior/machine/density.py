"""The log density of a model as engines use it, evaluated by the density machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.posterior.graph_model import why_no_start
from bayeslab.posterior.log_density import LogDensity
from bayeslab.posterior.machine.arrays import PARTS, Part
from bayeslab.posterior.machine.laws import Scalar
from bayeslab.posterior.machine.model import MachineModel
from bayeslab.posterior.machine.program import Program
from bayeslab.posterior.machine.transforms import Ordered

if TYPE_CHECKING:
    import pymc

__all__ = ["MachineDensity"]


@dataclass(frozen=True, eq=False)
class MachineDensity(LogDensity):
    """Log density and gradient of a model on the unconstrained scale.

    Attributes
    ----------
    machine : MachineModel
    graph : callable
        The PyMC model, which is built only for the error of a failed search for a start.
    parts : tuple of str
        Parts of the log density that are included.
    """

    machine: MachineModel
    graph: Callable[[], pymc.Model]
    parts: tuple[Part, ...] = PARTS

    @cached_property
    def program(self) -> Program:
        """The program of the parts."""
        whole = set(self.parts) == set(PARTS)
        return self.machine.program if whole else Program(self.machine.builder, self.parts)

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(parameter.value_name for parameter in self.machine.parameters)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:  # type: ignore[override]
        return tuple(parameter.shape for parameter in self.machine.parameters)

    def __call__(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        return self.program.value_and_gradient(point)

    @cached_property
    def n_numbers(self) -> int:
        data = [*self.machine.observed_cells.values(), *self.machine.constants.values()]
        return self.n_dim + sum(np.size(array) for array in data)

    @property
    def address(self) -> int:
        return int(self.program.callback.address)

    @property
    def arguments(self) -> int:
        return int(self.program.arenas.user_data.ctypes.data)

    def disagreement(self, point: np.ndarray) -> float:
        """The difference from an independent evaluation with NumPy, relative to the log density's size."""
        value, twin = self(point)[0], self.program.value(point)
        if not np.isfinite(value) and not np.isfinite(twin):
            return 0.0
        return abs(value - twin) / max(1.0, abs(twin))

    # ---------------------------------------------------------------------------------- the model

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.machine.parameters)

    def centre(self, given: Mapping[str, Any] | None = None) -> np.ndarray:
        return self.machine.start(given)

    def constrained(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        n = len(values[self.names[0]])
        points = np.concatenate([np.asarray(values[name], float).reshape(n, -1) for name in self.names], axis=1)
        return self.machine.quantities(points)

    def recovered(self, flat: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray] | None:
        return self.machine.recovered(flat, rng) if self.machine.sums else None

    def prior_points(self, seed: int, n: int, attempts: int | None = None) -> list[np.ndarray]:
        rng, left, points = np.random.default_rng(seed), attempts or n, list[np.ndarray]()
        try:
            while len(points) < n and left > 0:
                with np.errstate(all="ignore"):
                    some = self.machine.prior_points(rng, min(n, left))
                left -= len(some)
                points += [point for point in some if np.isfinite(point).all()]
        except (NotImplementedError, ValueError):
            return []
        return points[:n]

    def why_no_start(self, point: np.ndarray, tried: int) -> str:
        return why_no_start(self.graph(), self.split(point), tried)

    @property
    def improper(self) -> list[str]:
        return self.machine.improper

    @property
    def ordered(self) -> bool:
        return any(isinstance(parameter.transform, Ordered) for parameter in self.machine.parameters)

    @property
    def separate(self) -> frozenset[str]:
        monotone = ("log", "logodds", "interval")
        parameters = self.machine.parameters
        return frozenset(p.name for p in parameters if p.transform is None or p.transform.name in monotone)

    def lasso(self) -> dict[int, float]:
        out, at = dict[int, float](), 0
        for parameter in self.machine.parameters:
            law = parameter.law
            if isinstance(law, Scalar) and law.word == "Laplace" and all(p.constant for p in law.parameters):
                centres, widths = (np.broadcast_to(p.value, law.shape).ravel() for p in law.parameters)
                out |= {at + int(i): float(1.0 / widths[i]) for i in np.flatnonzero(centres == 0.0)}
            at += parameter.size
        return out

    @property
    def intermediate(self) -> frozenset[str]:
        return self.machine.intermediate

    @property
    def centred(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.machine.parameters if parameter.law.centred)

    @cached_property
    def dims(self) -> Mapping[str, tuple[str | None, ...]]:
        dims = self.machine.dims
        return {p.value_name: dims[p.name] for p in self.machine.parameters if p.name in dims} | dict(dims)

    @property
    def coords(self) -> Mapping[str, Sequence[Any]]:
        return self.machine.coords

    @property
    def observed_cells(self) -> Mapping[str, np.ndarray]:
        return self.machine.observed_cells

    @property
    def constants(self) -> Mapping[str, np.ndarray]:
        return self.machine.constants
