"""Several integrals, each entering other observed nodes: independent given the parameters, computed one by one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from bayeslab.families.graph.functions_given import FunctionsGiven
from bayeslab.families.graph.linear_rows import Rows
from bayeslab.families.graph.states_given import StatesGiven

__all__ = ["GraphSum", "JointSum"]


@dataclass(frozen=True, eq=False)
class GraphSum:
    """The integral over states or functions that enter a normal node of a graph.

    Attributes
    ----------
    log_sum : TensorVariable
        Its logarithm.
    tables : TensorVariable
        The flat vector of the kernel's inputs.
    rows : Rows
    given : StatesGiven or FunctionsGiven
    """

    log_sum: Any
    tables: Any
    rows: Rows
    given: StatesGiven | FunctionsGiven

    @property
    def observed(self) -> dict[str, tuple[str, ...]]:
        """The dims of the node with data."""
        return {self.rows.name: self.rows.dims}

    def check_terms(self) -> None:
        """Nothing is refused: every row has a density given all others."""

    def drawn(self, tables: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Standard normals drawn given the data, at each of some flat vectors (draws, length)."""
        return self.given.drawn(tables, rng)

    def expected(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Means of the standard normals given the data, at each of some flat vectors."""
        return self.given.expected(tables)

    def terms(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Log density (draws, elements) of each row given all others; 0 where a row is missing."""
        return self.given.terms(tables)


@dataclass(frozen=True, eq=False)
class JointSum:
    """Several integrals.

    Attributes
    ----------
    parts : tuple of GraphSum
    """

    parts: tuple[GraphSum, ...]

    @cached_property
    def log_sum(self) -> Any:
        """The log of the product of the integrals."""
        return pt.add(*(part.log_sum for part in self.parts))

    @cached_property
    def tables(self) -> Any:
        """The concatenated flat vectors of the integrals."""
        return pt.concatenate([part.tables for part in self.parts])

    @cached_property
    def _ends(self) -> list[int]:
        """End of each part's vector, except the last."""
        mode = pytensor.compile.mode.Mode("py", "fast_compile")
        return np.cumsum([int(part.tables.shape[0].eval(mode=mode)) for part in self.parts[:-1]]).tolist()

    @property
    def observed(self) -> dict[str, tuple[str, ...]]:
        """The dims of the observed nodes."""
        return {name: dims for part in self.parts for name, dims in part.observed.items()}

    def check_terms(self) -> None:
        """Run the check of each part."""
        for part in self.parts:
            part.check_terms()

    def drawn(self, tables: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Standard normals drawn given the data, at each of some flat vectors (draws, length)."""
        return self._together([part.drawn(table, rng) for part, table in self._split(tables)])

    def expected(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Means of the standard normals given the data, at each of some flat vectors."""
        return self._together([part.expected(table) for part, table in self._split(tables)])

    def terms(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Log density (draws, elements) of each row given all others of its node."""
        return self._together([part.terms(table) for part, table in self._split(tables)])

    def _split(self, tables: np.ndarray) -> list[tuple[GraphSum, np.ndarray]]:
        pieces = [np.ascontiguousarray(part) for part in np.split(tables, self._ends, axis=1)]
        return list(zip(self.parts, pieces, strict=True))

    @staticmethod
    def _together(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        return {name: values for each in parts for name, values in each.items()}
