"""Several integrals, each entering other observed nodes: independent given the parameters, computed one by one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from bayeslab.families.graph.function_sums import FunctionSum
from bayeslab.families.graph.state_sums import StateSum

__all__ = ["JointSum"]


@dataclass(frozen=True, eq=False)
class JointSum:
    """Several integrals.

    Attributes
    ----------
    parts : tuple of StateSum or FunctionSum
    """

    parts: tuple[StateSum | FunctionSum, ...]

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

    def _split(self, tables: np.ndarray) -> list[tuple[StateSum | FunctionSum, np.ndarray]]:
        pieces = [np.ascontiguousarray(part) for part in np.split(tables, self._ends, axis=1)]
        return list(zip(self.parts, pieces, strict=True))

    @staticmethod
    def _together(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        return {name: values for each in parts for name, values in each.items()}
