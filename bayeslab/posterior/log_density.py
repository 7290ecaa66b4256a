"""The contract of a log density on the unconstrained scale, as engines use it, whatever computes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["LogDensity"]


class LogDensity(ABC):
    """A log density with its gradient, and the model's names, shapes and quantities.

    Attributes
    ----------
    names : tuple of str
        Names of the value variables, in the order of the flat vector.
    shapes : tuple of tuple of int
        Shapes of the value variables.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    # ------------------------------------------------------------------------------- evaluation

    @abstractmethod
    def __call__(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and gradient at an unconstrained point."""

    @property
    @abstractmethod
    def n_numbers(self) -> int:
        """Count of parameters and data values, a measure of the cost of one evaluation."""

    @property
    @abstractmethod
    def address(self) -> int:
        """Address of the C callback ``(n, point*, gradient*, log_density*, arguments*) -> status``."""

    @property
    @abstractmethod
    def arguments(self) -> int:
        """The callback's last argument."""

    def alone(self) -> LogDensity:
        """The density with memory of its own, for use in another thread; itself if it shares none."""
        return self

    # ---------------------------------------------------------------------------- the flat vector

    @property
    def n_dim(self) -> int:
        """Number of unconstrained parameters."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def flat(self, values: Mapping[str, Any]) -> np.ndarray:
        """Values by name as the flat vector."""
        parts = [np.asarray(values[name], dtype=np.float64).ravel() for name in self.names]
        return np.concatenate(parts)

    def split(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Flat vectors (last axis) as values by name."""
        out, at = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            size = int(np.prod(shape))
            out[name] = flat[..., at : at + size].reshape((*flat.shape[:-1], *shape))
            at += size
        return out

    def parameter_names(self) -> list[str]:
        """A name for each element of the flat vector."""
        out = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            out += [name + (f"[{', '.join(map(str, i))}]" if shape else "") for i in np.ndindex(*shape)]
        return out

    # ---------------------------------------------------------------------------------- the model

    @property
    @abstractmethod
    def parameters(self) -> tuple[str, ...]:
        """Names of the random nodes that are sampled, in the order of ``names``."""

    @abstractmethod
    def centre(self, given: Mapping[str, Any] | None = None) -> np.ndarray:
        """The support points of the parameters, or values given by their names, on the unconstrained scale."""

    @abstractmethod
    def constrained(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Parameters on their natural scale, and deterministic nodes, for draws of the value variables."""

    def recovered(self, flat: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray] | None:
        """Discrete nodes that were summed out and what depends on them, at flat vectors (draws, n_dim).

        None: they are recovered through the graph of PyMC.
        """
        return None

    @abstractmethod
    def prior_points(self, seed: int, n: int, attempts: int | None = None) -> list[np.ndarray]:
        """At most ``n`` finite draws from the prior, unconstrained; none if it cannot be drawn from.

        Parameters
        ----------
        attempts
            Number of draws, of which those outside the support are left out, as of ordered priors; default ``n``.
        """

    @abstractmethod
    def why_no_start(self, point: np.ndarray, tried: int) -> str:
        """The message about the node that excludes every start."""

    @property
    @abstractmethod
    def improper(self) -> Sequence[str]:
        """Parameters with an improper prior, for which the evidence is undefined."""

    @property
    @abstractmethod
    def ordered(self) -> bool:
        """Whether a prior is restricted to ordered vectors, without dividing by the probability of the order."""

    @property
    @abstractmethod
    def separate(self) -> frozenset[str]:
        """Parameters each of whose elements is a monotone function of one coordinate."""

    @abstractmethod
    def lasso(self) -> dict[int, float]:
        """Elements of the flat vector that are parameters with a prior Laplace(0, b) of known b, with their 1/b."""

    @property
    @abstractmethod
    def intermediate(self) -> frozenset[str]:
        """Deterministic nodes from which others are computed, and internal parameters that other nodes show."""

    @property
    @abstractmethod
    def centred(self) -> tuple[str, ...]:
        """Parameters whose scale depends on other parameters: centred hierarchies."""

    @property
    @abstractmethod
    def dims(self) -> Mapping[str, tuple[str | None, ...]]:
        """Names of the axes of variables."""

    @property
    @abstractmethod
    def coords(self) -> Mapping[str, Sequence[Any] | None]:
        """Labels of dimensions."""

    @property
    @abstractmethod
    def observed_cells(self) -> Mapping[str, np.ndarray]:
        """The data of observed nodes, by node; none if they enter in another way."""

    @property
    @abstractmethod
    def constants(self) -> Mapping[str, np.ndarray]:
        """Data that nodes use, by column."""
