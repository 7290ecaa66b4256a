"""Reader of distributions' parameters, laid out by the names of their dimensions."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError, listed
from bayeslab.families.graph.scope import Purpose, Scope
from bayeslab.language.algebra import Term
from bayeslab.language.spec import Model

__all__ = ["ParameterReader"]


class ParameterReader(Scope):
    """Evaluates parameters and lays them out by the dimensions of a node, then their core dimensions."""

    def __init__(self, model: Model, data: Data, purpose: Purpose, targets: Collection[str]) -> None:
        super().__init__(model, data, purpose, targets)
        # Number of rows at the start of a dimension for which the parameters so far are undefined.
        self.undefined: dict[str, int] = {}
        # The dimension cut to its later rows while building a node whose first rows are conditioned on.
        self.late: tuple[str, str, int] | None = None

    def length_of(self, term: Term) -> int:
        """Length of a term's last axis."""
        if not term.dims:
            return 1
        known = self.evaluator.length(term.dims[-1])
        return known if known is not None else int(self.evaluator.shape(term)[-1] or 0)

    def fixed(self, value: ast.expr, core: int, name: str) -> np.ndarray:
        """A parameter that must be a numeric array at construction of the distribution."""
        term = self.evaluator.eval(value)
        if term.random or term.value is None or len(term.dims) != core:
            raise ModelError(
                f"'{name}' must be {'a matrix' if core == 2 else 'a list'} of numbers, known before sampling",
                code="not-a-number",
            )
        return np.asarray(term.value)

    def literal(self, value: ast.expr, name: str) -> Any:
        term = self.evaluator.eval(value)
        if term.random or np.ndim(term.value):
            raise ModelError(f"'{name}' must be a plain number, known before sampling", code="not-a-number")
        return bool(term.value) if name == "constant" else int(term.value)

    def parameter(
        self,
        term: Term,
        batch: tuple[str, ...],
        core_dims: tuple[str, ...],
        core: int,
        name: str,
        apart: bool = False,
    ) -> Any:
        """A parameter laid out as batch dims, then its core dims.

        ``apart``: its core dimension is unrelated to the node's dimensions.
        """
        self._note(term)
        term = self._late_rows(term)
        if core == 0:
            (value,), _, _ = self.evaluator.align([term], onto=batch)
            if term.dims and all(d is None for d in term.dims) and not batch:
                raise ModelError(
                    f"the parameter '{name}' is a list, but the node is a single number; give it dims",
                    code="bad-dimensions",
                )
            return self.evaluator.symbolic(Term(value, batch)) if not term.column else self._aligned_symbol(term, batch)
        rest = tuple(d for d in term.dims if d not in batch or d is None)
        if len(rest) < core:
            if core == 1 and (core_dims or apart) and not rest:
                # A single number is repeated for every element of the vector, as in Dirichlet(1).
                base = self.parameter(term, batch, core_dims, 0, name)
                size = 1 if apart else self.lengths(core_dims)[-1]
                return base[..., None] * np.ones(size) if term.dims else base * np.ones(size)
            raise ModelError(
                f"the parameter '{name}' needs {core} dimension{'s' if core > 1 else ''} of its own besides the"
                f" node's ({', '.join(batch) or 'none'}); it has ({', '.join(str(d) for d in term.dims)})",
                code="bad-dimensions",
            )
        if len(rest) > core and all(dim is None for dim in rest):
            raise ModelError(
                f"the parameter '{name}' is a nested list without named dimensions: give it a node, such as"
                f" {name}[row, column]: [[1, 2], [3, 4]], and use its name",
                code="bad-dimensions",
            )
        if len(rest) > core:
            extra = [str(d) for d in rest if d not in core_dims]
            raise ModelError(
                f"the parameter '{name}' runs along {listed(extra or rest)}, which the node does not have:"
                f" add the dimension to the node, index it, or sum over it",
                code="bad-dimensions",
            )
        if (
            core == 1
            and core_dims
            and not apart
            and rest[0] is not None
            and rest[0] != core_dims[-1]
            and self.evaluator.length(rest[0]) != len(self.labels[core_dims[-1]])
        ):
            raise ModelError(
                f"the parameter '{name}' runs along '{rest[0]}' ({self.evaluator.length(rest[0])}), the node along"
                f" '{core_dims[-1]}' ({len(self.labels[core_dims[-1]])})",
                code="bad-dimensions",
            )
        if None in term.dims:
            return self.evaluator.symbolic(term)
        value = self.evaluator.symbolic(term)
        head = tuple(d for d in batch if d in term.dims)
        order = [term.dims.index(d) for d in (*head, *rest)]
        value = value.transpose(*order) if order != sorted(order) else value
        index = tuple(slice(None) if d in head else None for d in batch)
        return value[index] if head and len(head) < len(batch) else value

    def _aligned_symbol(self, term: Term, batch: tuple[str, ...]) -> Any:
        symbol = self.evaluator.symbolic(term)
        (value,), _, _ = self.evaluator.align([Term(symbol, term.dims)], onto=batch)
        return value

    def _note(self, term: Term) -> None:
        for dim, rows in term.undefined.items():
            self.undefined[dim] = max(self.undefined.get(dim, 0), rows)

    def _late_rows(self, term: Term) -> Term:
        """Cut a term to the rows that have a density (see ``_conditioned``)."""
        if self.late is None or self.late[0] not in term.dims:
            return term
        dim, late, rows = self.late
        value = self.evaluator.symbolic(term) if term.random else np.asarray(term.value)
        value = value[(slice(None),) * term.dims.index(dim) + (slice(rows, None),)]
        return Term(value, tuple(late if d == dim else d for d in term.dims))
