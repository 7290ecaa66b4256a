"""Columns that are independent given the state, with parameters that may be known or have given priors.

Default priors are normal and inverse gamma for means and variances [1]_, Dirichlet and beta for probabilities, gamma
for rates.

References
----------
.. [1] Fraley, Raftery (2007). Bayesian regularization for normal mixture estimation. J. Classification 24, 155-181.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.language.writer import Writer
from bayeslab.posterior.observed.part import StatePart
from bayeslab.posterior.observed.prior_variables import named_variables

__all__ = ["StandardPart", "cell_values"]


@dataclass(frozen=True, eq=False, kw_only=True)
class StandardPart(StatePart):
    """See :class:`bayeslab.posterior.observed.part.StatePart`."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters of this kind of column."""

    @cached_property
    def _called(self) -> dict[str, str]:
        """The posterior's name of each parameter, computed once: steps of EM ask for them."""
        return {p: self.called(p) for p in self.parameters}

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self._called.values())

    def shape(self, name: str) -> tuple[int, ...]:
        return (self.n_states, len(self.columns)) if self.by_column else (self.n_states,)

    def dims(self, name: str) -> tuple[str, ...]:
        return (self.style.state, self.style.feature) if self.by_column else (self.style.state,)

    def by_parameter(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Values, including known ones, by the parameter names of this kind of column."""
        known = self.known
        return {p: np.asarray(known[n] if n in known else values[n], float) for p, n in self._called.items()}

    def table(self, value: np.ndarray) -> np.ndarray:
        """A parameter as (n_states, n_columns)."""
        return value.reshape(len(value), len(self.columns))

    def to_emission(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {p: self.table(value) for p, value in self.by_parameter(values).items()}

    def from_emission(self, theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {self.called(p): self.from_table(theta[p]) for p in self.parameters}

    def from_table(self, value: np.ndarray) -> np.ndarray:
        """A table (n_states, n_columns) in the shape of a parameter."""
        return value if self.by_column else value[:, 0]

    # ------------------------------------------------------------------ Gibbs

    @property
    def no_gibbs(self) -> str:
        if self.priors:
            return f"the prior written for '{next(iter(self.priors))}' is taken as not conjugate; use nuts"
        return ""

    # ------------------------------------------------------------------ PyMC

    def variables(self, writer: Writer) -> dict[str, Any]:
        return named_variables(self, writer, self.default_variable)

    @abstractmethod
    def default_variable(self, writer: Writer, name: str, made: Mapping[str, Any]) -> Any:
        """A parameter with its default prior; ``made`` has the variables so far."""

    def density(self, writer: Writer, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        return sum(self.cells(writer, self.column(values, j), rows[:, at]) for j, at in enumerate(self.columns_at))

    def column(self, values: Mapping[str, Any], j: int) -> dict[str, Any]:
        """Parameters (n_states,) of a column, as expressions."""
        theta = {p: values[self.called(p)] for p in self.parameters}
        return {p: value[:, j] if value.ndim == 2 else value for p, value in theta.items()}

    def cells(self, writer: Writer, theta: Mapping[str, Any], cells: np.ndarray) -> Any:
        """log p(cell | state), (n_rows, n_states), of a column with these parameters."""
        raise NotImplementedError

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        import pytensor.tensor as pt

        out = {}
        for j, column in enumerate(self.columns):
            theta = {p: pt.as_tensor_variable(value)[states] for p, value in self.column(values, j).items()}
            out[column] = self.drawn_column(theta, rows)
        return out

    def drawn_column(self, theta: Mapping[str, Any], rows: np.ndarray) -> Any:
        """A random variable, given the parameters of each row's state."""
        raise NotImplementedError


def cell_values(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells (n_rows, 1) with missing ones replaced by a valid value, and a mask of observed cells."""
    there = ~np.isnan(cells)
    return np.where(there, cells, np.nanmin(cells) if there.any() else 0.0)[:, None], there
