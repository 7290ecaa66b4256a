"""Categorical columns, each with a table of probabilities ``p_<column>``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.distributions.emissions import Categorical
from bayeslab.language.writer import Writer
from bayeslab.posterior.observed.standard import StandardPart

__all__ = ["Categories"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Categories(StandardPart):
    """See :class:`bayeslab.posterior.observed.part.StatePart`.

    Attributes
    ----------
    states : tuple of ndarray
        The levels of each column.
    """

    word: str = "categorical"
    emission: Categorical
    states: tuple[np.ndarray, ...]

    def levels_of(self, column: str) -> np.ndarray:
        return self.states[self.columns.index(column)]

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(f"p_{column}" for column in self.columns)

    def called(self, parameter: str) -> str:
        return (f"p_{self.columns[0]}" if parameter == "p" else parameter) + self.suffix

    def parameter(self, name: str) -> str:
        return name.removesuffix(self.suffix)

    @property
    def discrete(self) -> bool:
        return True

    @property
    def n_free(self) -> int:
        # Probabilities that sum to one have one free parameter less.
        return super().n_free - self.n_states * len(self.learned)

    def shape(self, name: str) -> tuple[int, ...]:
        return (self.n_states, len(self.states[self.names.index(name)]))

    def dims(self, name: str) -> tuple[str, ...]:
        return (self.style.state, f"{self.columns[self.names.index(name)]}_state")

    def labels(self) -> dict[str, np.ndarray]:
        return {f"{c}_state": states for c, states in zip(self.columns, self.states, strict=True)}

    def kind(self, name: str) -> str:
        return "simplex"

    def place(self, values: Mapping[str, Any], column: str) -> np.ndarray:
        """The probability of the last level: for two levels like a 0/1 column's."""
        return np.asarray(values[self.names[self.columns.index(column)]])[..., -1]

    @property
    def ruled_by(self) -> str:
        return f"the probability of '{self.states[0][0]}'"

    def to_emission(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        tables = list(self.by_parameter(values).values())
        out = np.zeros((len(tables[0]), len(tables), max(self.emission.levels)))
        for j, table in enumerate(tables):
            out[:, j, : table.shape[1]] = table
        return {"probability": out}

    def from_emission(self, theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
        p = theta["probability"]
        return {name: p[:, j, : len(self.states[j])] for j, name in enumerate(self.names)}

    # ------------------------------------------------------------------ PyMC

    def default_prior(self, name: str) -> str:
        prior = self.emission.prior
        assert prior is not None
        if np.ndim(prior) == 3:
            return "Dirichlet, row by row"
        if self.style.whitened:
            return f"Dirichlet({prior:g})"
        n = len(self.states[self.names.index(name)])
        return f"Dirichlet([{', '.join(f'{x:g}' for x in np.broadcast_to(prior, (1, n))[0])}]) in every row"

    def variables(self, writer: Writer) -> dict[str, Any]:
        known = {name: writer.constant(value) for name, value in self.known.items()}
        return {name: known[name] if name in known else self.default_variable(writer, name, {}) for name in self.names}

    def default_variable(self, writer: Writer, name: str, made: Mapping[str, Any]) -> Any:
        j, n = self.names.index(name), self.shape(name)[1]
        assert self.emission.prior is not None
        every = (self.n_states, len(self.columns), max(self.emission.levels))
        prior = np.broadcast_to(np.asarray(self.emission.prior, float), every)[:, j, :n]
        begin = self.start.get(name)
        if begin is not None:
            begin = np.maximum(begin, 0.01) if self.style.whitened else 0.95 * begin + 0.05 / n
            begin = begin / begin.sum(axis=1, keepdims=True)
        return writer.random(name, "Dirichlet", {"a": prior}, self.shape(name), dims=self.dims(name), start=begin)

    def column(self, values: Mapping[str, Any], j: int) -> dict[str, Any]:
        return {"p": values[self.names[j]]}

    def cells(self, writer: Writer, theta: Mapping[str, Any], cells: np.ndarray) -> Any:
        there = ~np.isnan(cells)
        return writer.observed(there, writer.log(theta["p"]).T[np.where(there, cells, 0).astype(np.int64)])

    def drawn_column(self, theta: Mapping[str, Any], rows: np.ndarray) -> Any:
        import pymc as pm

        return pm.Categorical.dist(p=theta["p"], shape=len(rows))
