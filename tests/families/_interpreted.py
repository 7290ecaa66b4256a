"""The log density of a PyMC graph and its slope, run by PyTensor's interpreter, so that nothing is compiled."""

from __future__ import annotations

import numpy as np
import pymc as pm
from numpy.typing import NDArray

from bayeslab.posterior.density import Density
from bayeslab.posterior.transforms import constrained


class Interpreted:
    """Log density and slope at a flat point of unconstrained values, without the Jacobian of the transforms."""

    def __init__(self, graph: pm.Model) -> None:
        coordinates = Density.of(graph, jacobian=False)
        self.graph = graph
        self.flat, self.split, self.n_dim = coordinates.flat, coordinates.split, coordinates.n_dim
        self._value = graph.compile_logp(jacobian=False, mode="FAST_COMPILE")
        self._slope = graph.compile_dlogp(jacobian=False, mode="FAST_COMPILE")

    def __call__(self, point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        return self.value(point), self.slope(point)

    def value(self, point: NDArray[np.float64]) -> float:
        return float(self._value(self.split(np.asarray(point))))

    def slope(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self._slope(self.split(np.asarray(point))))

    def differences(self, point: NDArray[np.float64], step: float = 1e-5) -> NDArray[np.float64]:
        """The slope by central differences of the value."""
        steps = step * np.eye(self.n_dim)
        return np.array([(self.value(point + e) - self.value(point - e)) / (2 * step) for e in steps])

    def near(self, rng: np.random.Generator, width: float = 0.4) -> NDArray[np.float64]:
        """A point about the graph's initial one."""
        return self.flat(self.graph.initial_point()) + rng.uniform(-width, width, self.n_dim)

    def parameters(self, point: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """The values of the parameters there."""
        return {n: v[0] for n, v in constrained(self.graph, self.split(point[None])).items()}
