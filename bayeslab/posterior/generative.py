"""A model's nodes on their natural scale: drawn one after another, and densities of data, at draws of other nodes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.errors import DataError, listed
from bayeslab.posterior.forward import forward
from bayeslab.posterior.graph_model import dims_of
from bayeslab.streams import derived

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pymc

__all__ = ["Generative", "GraphGenerative", "inside_domains", "outside_domain"]


class Generative(ABC):
    """The nodes of a model on its data.

    Draws are given and returned by name, shape (draws, ...).

    Attributes
    ----------
    dims : mapping of str to tuple of str
        Names of the axes of variables.
    coords : mapping of str to labels
        Labels of dimensions.
    """

    dims: Mapping[str, tuple[str | None, ...]]
    coords: Mapping[str, Sequence[Any] | None]

    @property
    @abstractmethod
    def random(self) -> tuple[str, ...]:
        """Random nodes that hold no data, in topological order."""

    @property
    @abstractmethod
    def computed(self) -> tuple[str, ...]:
        """Deterministic nodes that depend on random ones."""

    @property
    @abstractmethod
    def undrawable(self) -> frozenset[str]:
        """Random nodes that cannot be drawn, since their prior is improper."""

    @abstractmethod
    def draw(
        self, names: Sequence[str], given: Mapping[str, np.ndarray], seed: int, draws: int = 1
    ) -> dict[str, np.ndarray]:
        """Draws of nodes; those of others are given, and nodes on which they depend are drawn too.

        Parameters
        ----------
        names
            Random or deterministic nodes.
        draws
            Number of draws, if none are given.

        Raises
        ------
        DataError
            A parameter is outside its domain.
        """

    @abstractmethod
    def log_densities(
        self, given: Mapping[str, np.ndarray], draws: int = 1, without: Collection[str] = ()
    ) -> dict[str, np.ndarray] | None:
        """Log density of each observation of the nodes with data, (draws, observations) by node; None: not known.

        Nodes in ``without`` are left out.
        """

    @abstractmethod
    def probabilities(
        self, name: str, levels: np.ndarray, given: Mapping[str, np.ndarray], seed: int, draws: int = 1
    ) -> np.ndarray | None:
        """Sums over draws of the probability that a node equals levels, (levels, ...); None: not known.

        Nodes on which it depends are drawn, unless they are given.
        """


# Patterns of NumPy's errors for invalid parameters, such as "lam < 0 or lam contains NaNs".
_OUTSIDE = re.compile(r"^\w+ (<|>)|contains NaN|value too large")


def outside_domain(error: ValueError) -> bool:
    """Whether NumPy refused to draw because a parameter is outside its domain."""
    return _OUTSIDE.search(str(error)) is not None


@contextmanager
def inside_domains(names: Sequence[str]) -> Iterator[None]:
    """A context in which nodes are drawn: parameters outside their domains are errors of the data."""
    try:
        yield
    except ValueError as error:
        if not outside_domain(error):
            raise
        raise DataError(
            f"{listed(list(names))} cannot be drawn: a parameter is outside its domain at one of the draws"
            f" ({str(error).splitlines()[0]}); look for negative, zero or very large cells, and for priors so wide that"
            " they allow such values",
            code="impossible-value",
        ) from error


# Largest count of numbers held while probabilities are summed.
_MOST_CHANCES = 50_000_000
# Nodes of these kinds cannot be drawn.
_IMPROPER = ("FlatRV", "HalfFlatRV", "ICARRV")


@dataclass(frozen=True, eq=False)
class GraphGenerative(Generative):
    """The nodes of a PyMC graph."""

    model: pymc.Model

    @property
    def random(self) -> tuple[str, ...]:
        return tuple(rv.name for rv in self.model.free_RVs)

    @property
    def computed(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.model.deterministics)

    @property
    def undrawable(self) -> frozenset[str]:
        return frozenset(rv.name for rv in self.model.free_RVs if type(rv.owner.op).__name__ in _IMPROPER)

    @property
    def dims(self) -> Mapping[str, tuple[str | None, ...]]:  # type: ignore[override]
        return dims_of(self.model)

    @property
    def coords(self) -> Mapping[str, Sequence[Any] | None]:  # type: ignore[override]
        coords: Mapping[str, Sequence[Any] | None] = self.model.coords
        return coords

    def draw(
        self, names: Sequence[str], given: Mapping[str, np.ndarray], seed: int, draws: int = 1
    ) -> dict[str, np.ndarray]:
        with inside_domains(names):
            return forward(self.model, given, names, seed, draws)

    def log_densities(
        self, given: Mapping[str, np.ndarray], draws: int = 1, without: Collection[str] = ()
    ) -> dict[str, np.ndarray] | None:
        return None

    def probabilities(
        self, name: str, levels: np.ndarray, given: Mapping[str, np.ndarray], seed: int, draws: int = 1
    ) -> np.ndarray | None:
        import pymc as pm
        import pytensor.tensor as pt

        outcome = self.model[name]
        if outcome in self.model.deterministics:
            return None
        # All levels at once: compiling and evaluating them one by one would be as many times slower.
        each = levels.astype(outcome.dtype).reshape(-1, *[1] * outcome.ndim)
        total: Any = 0.0
        try:
            with self.model:
                spread = pt.broadcast_to(pt.constant(each), (len(levels), *outcome.shape))
                pm.Deterministic("_chances", pt.exp(pm.logp(outcome, spread)))
            size = len(levels) * max(1, int(np.prod([n or 1 for n in outcome.type.shape])))
            many = max(1, _MOST_CHANCES // size)
            for first in range(0, draws, many):
                some = {node: values[first : first + many] for node, values in given.items()}
                made = self.draw(["_chances"], some, derived(seed, "chances"), min(many, draws - first))
                total = total + made["_chances"].sum(axis=0)
        except (NotImplementedError, TypeError, ValueError):
            return None
        return np.asarray(total)
