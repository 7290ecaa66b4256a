"""The terms of a formula, as they are written: nothing is evaluated yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayeslab.errors import ModelError
from bayeslab.language.spec import node_name

__all__ = ["MAX_LENGTH", "Factor", "GroupTerm", "Term", "Terms", "bad_formula"]

MAX_LENGTH = 2_000


def bad_formula(message: str, *, code: str) -> ModelError:
    """The error of a formula that cannot be read."""
    return ModelError(message, path=("model", "formula"), code=code)


@dataclass(frozen=True, slots=True)
class Factor:
    """One part of a term: a column, or a call.

    Attributes
    ----------
    text : str
        As a person would write it, names that are no identifiers in backticks; equal texts are equal factors.
    expression : formulae expression
        Checked; a call, or the name of a column.
    column : str or None
        Name of the column, where it is one.
    names : frozenset of str
        Columns it reads.
    """

    text: str
    expression: Any
    column: str | None
    names: frozenset[str]

    @property
    def levels(self) -> bool:
        """Whether it makes a factor of its column: ``C(x)``, ``S(x)``, ``T(x)``."""
        return self.column is None and self.expression.callee.name.lexeme in ("C", "S", "T")

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factor) and self.text == other.text


type Term = tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """A right-hand side without its group terms.

    Attributes
    ----------
    text : str
    terms : tuple of tuples of Factor
        Each term the product of its factors, in the order of the formula.
    intercept : bool
    """

    text: str
    terms: tuple[Term, ...]
    intercept: bool

    @property
    def names(self) -> set[str]:
        """Columns that are read."""
        return {name for term in self.terms for factor in term for name in factor.names}


@dataclass(frozen=True, slots=True)
class GroupTerm:
    """``(effects | factor)``: the terms of its effects, the columns that make the factor."""

    effects: Terms
    factors: tuple[str, ...]
    correlated: bool

    @property
    def name(self) -> str:
        """As a part of the names of parameters."""
        return "_".join(node_name(factor) for factor in self.factors)
