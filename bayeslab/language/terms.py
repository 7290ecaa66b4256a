"""The terms of a formula, before evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayeslab.errors import ModelError
from bayeslab.language.spec import node_name

__all__ = [
    "AREA_KINDS",
    "MAX_LENGTH",
    "AreaTerm",
    "Factor",
    "GroupTerm",
    "MemberTerm",
    "SmoothTerm",
    "Term",
    "Terms",
    "bad_formula",
]

MAX_LENGTH = 2_000
#: Effects of areas that have neighbours.
AREA_KINDS = ("car", "icar", "bym2")


def bad_formula(message: str, *, code: str) -> ModelError:
    """The error for a formula that cannot be read."""
    return ModelError(message, path=("model", "formula"), code=code)


@dataclass(frozen=True, slots=True)
class SmoothTerm:
    """A curve over a predictor: a penalised smooth, ``s(x, by=g)``, or a Gaussian process, ``gp(x, by=g)``.

    Attributes
    ----------
    kind : {"s", "gp"}
    predictor : str
        The predictor as text.
    by : str or None
        The column of levels that each have a curve.
    """

    kind: str
    predictor: str
    by: str | None

    @property
    def title(self) -> str:
        """Its name without options; that of the straight part of a smooth among the predictors."""
        return f"{self.kind}({self.predictor})" + (f":{self.by}" if self.by else "")

    @property
    def name(self) -> str:
        """The name of the term in names of parameters."""
        return node_name(f"{self.kind} {self.predictor}").rstrip("_") + (f"_{node_name(self.by)}" if self.by else "")


@dataclass(frozen=True, slots=True)
class AreaTerm:
    """Effects of areas that have neighbours, ``icar(W, g)``.

    Attributes
    ----------
    kind : {"car", "icar", "bym2"}
    table : str
        The table with a row for each pair of neighbours.
    factor : str
        The column of areas.
    """

    kind: str
    table: str
    factor: str

    @property
    def title(self) -> str:
        """The term as text."""
        return f"{self.kind}({self.table}, {self.factor})"

    @property
    def name(self) -> str:
        """The name of the term in names of parameters."""
        return f"{self.kind}_{node_name(self.factor)}"


@dataclass(frozen=True, slots=True)
class MemberTerm:
    """Effects of groups of which a row has several, ``(1 | mm(g1, g2, weights=[w1, w2]))``.

    Attributes
    ----------
    factors : tuple of str
        The columns of groups.
    weights : tuple of str
        A column of weights for each of them, or none: equal weights.
    """

    factors: tuple[str, ...]
    weights: tuple[str, ...]

    @property
    def title(self) -> str:
        """The term as text, without weights."""
        return f"(1 | mm({', '.join(self.factors)}))"

    @property
    def name(self) -> str:
        """The name of the term in names of parameters."""
        return "_".join(["mm", *map(node_name, self.factors)])


@dataclass(frozen=True, slots=True)
class Factor:
    """One part of a term: a column, or a call.

    Attributes
    ----------
    text : str
        Normalised text, with names that are not identifiers in backticks; equal texts are equal factors.
    expression : formulae expression
        The checked expression: a call, or the name of a column.
    column : str or None
        Name of the column, if the factor is a column.
    names : frozenset of str
        Columns that the factor uses.
    smooth : SmoothTerm or None
        What the call says, if it is a curve.
    areas : AreaTerm or None
        What the call says, if it has effects of areas.
    """

    text: str
    expression: Any
    column: str | None
    names: frozenset[str]
    smooth: SmoothTerm | None = None
    areas: AreaTerm | None = None

    @property
    def called(self) -> str | None:
        """The function of a call; None for a column."""
        return None if self.column is not None else str(self.expression.callee.name.lexeme)

    @property
    def levels(self) -> bool:
        """Whether the call turns its column into a factor: ``C(x)``, ``S(x)``, ``T(x)``."""
        return self.called in ("C", "S", "T")

    @property
    def monotonic(self) -> bool:
        """Whether the call is a monotonic effect of levels in order, ``mo(x)``."""
        return self.called == "mo"

    @property
    def measured(self) -> bool:
        """Whether the call is a predictor measured with error, ``me(x, sd)``."""
        return self.called == "me"

    @property
    def latent(self) -> bool:
        """Whether the value in a row depends on parameters, so that it is no column of numbers."""
        return self.monotonic or self.measured

    @property
    def numbers(self) -> frozenset[str]:
        """Columns that the factor uses as numbers."""
        if self.levels or self.monotonic:
            return frozenset()
        return self.names - {self.smooth.by} if self.smooth else self.names

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
        """Columns that the terms use."""
        return {name for term in self.terms for factor in term for name in factor.names}

    @property
    def smooths(self) -> tuple[Factor, ...]:
        """The terms that are curves."""
        return tuple(term[0] for term in self.terms if term[0].smooth is not None)


@dataclass(frozen=True, slots=True)
class GroupTerm:
    """A group term ``(effects | factor)``: the terms of its effects, and the columns of the grouping factor.

    Effects of terms ``(effects | id | factor)`` with the same id, in several formulas, are correlated. Those of
    ``(effects | gr(factor, dist='student'))`` are Student t and not normal.
    """

    effects: Terms
    factors: tuple[str, ...]
    correlated: bool
    id: str = ""
    student: bool = False

    @property
    def name(self) -> str:
        """The name of the grouping factor in names of parameters."""
        return "_".join(node_name(factor) for factor in self.factors)
